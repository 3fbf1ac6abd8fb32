//===- KernelCache.h - one compile per kernel -------------------*- C++ -*-===//
//
// In front of the compiler: instances in memory, then on disk. Threads of this
// process and other processes that ask for the same key wait for the one that
// compiles it.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_RUNTIME_CACHE_KERNELCACHE_H
#define FATHOM_RUNTIME_CACHE_KERNELCACHE_H

#include "runtime/Executable.h"
#include "runtime/cache/DiskCache.h"

#include <functional>
#include <list>
#include <map>

namespace fathom {

/// A key, made of named fields. The same fields give the same key, in whatever
/// order they were added.
class CacheKey {
public:
  CacheKey &add(const std::string &field, const std::string &value);
  std::string digest() const;

private:
  std::map<std::string, std::string> fields;
};

class KernelCache {
public:
  using Pointer = std::shared_ptr<const Executable>;
  struct Compiled {
    Pointer executable;
    DiskCache::Entry entry;
  };
  struct Stats {
    int64_t memory = 0, disk = 0, compiled = 0;
  };

  /// `kept`: how many instances stay in memory; those in use live on.
  KernelCache(std::string dir, int64_t diskLimit, size_t kept = 256);
  /// The one of this process, by the environment.
  static KernelCache &global();

  /// The instance of `key`: kept, or made by `load` from what `compile` made
  /// earlier (null: it can't be), or made by `compile`. Without `compile` it
  /// may be null.
  Result<Pointer>
  get(const std::string &key, const std::function<Result<Compiled>()> &compile,
      const std::function<Pointer(const DiskCache::Entry &)> &load);

  /// The instance of the key that `alias` stands for, if both are known: what
  /// a key is made of may be dear to find out.
  Pointer find(const std::string &alias,
               const std::function<Pointer(const DiskCache::Entry &)> &load);
  void setAlias(const std::string &alias, const std::string &key);

  Stats stats();
  /// Forgets all, in memory and on disk.
  void clear();
  DiskCache &disk() { return onDisk; }

private:
  Pointer inMemory(const std::string &key);
  void keep(const std::string &key, const Pointer &executable);

  DiskCache onDisk;
  size_t kept;
  std::mutex mutex;                                  // guards what follows
  std::list<std::pair<std::string, Pointer>> recent; // most recent first
  std::map<std::string, std::list<std::pair<std::string, Pointer>>::iterator>
      entries;
  std::map<std::string, std::string> aliases; // to keys
  std::map<std::string, std::shared_ptr<std::mutex>> inProgress;
  Stats counts;
};

} // namespace fathom

#endif // FATHOM_RUNTIME_CACHE_KERNELCACHE_H
