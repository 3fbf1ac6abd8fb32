//===- DiskCache.h - compiled instances that outlive a process --*- C++ -*-===//
//
// One directory per entry, made aside and renamed into place, so that an entry
// is there whole or not at all. Locks are flock()s: a process that dies leaves
// none. Nothing here fails: without a usable directory there is no disk cache,
// and one warning.
//
//   DIR/v1/KEY/object.o, meta.json    an entry; meta.json holds the object's hash
//   DIR/v1/note-NAME                  a note; its last line holds a hash
//   DIR/v1/lock-XX                    locks, by the first byte of the key
//   DIR/v1/tmp-...                    entries in the making or on their way out
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_RUNTIME_CACHE_DISKCACHE_H
#define FATHOM_RUNTIME_CACHE_DISKCACHE_H

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace fathom {

/// BLAKE3 of `bytes`, in hexadecimal.
std::string hashOf(const std::string &bytes);

class DiskCache {
public:
  struct Entry {
    std::string object; ///< object code
    std::string meta;   ///< a JSON value, as the writer gave it
  };

  /// Empty `dir`: no disk cache. `limit` is in bytes, over all entries.
  DiskCache(std::string dir, int64_t limit);
  ~DiskCache();
  DiskCache(const DiskCache &) = delete;

  /// FATHOM_CACHE_DIR ("off": none), else XDG_CACHE_HOME/fathom, else
  /// HOME/.cache/fathom; FATHOM_CACHE_MIB bounds its size (default 512).
  static std::pair<std::string, int64_t> fromEnvironment();

  /// A whole, unharmed entry. A harmed one is removed.
  std::optional<Entry> load(const std::string &key);
  void store(const std::string &key, const Entry &entry);
  void remove(const std::string &key);

  /// Short texts on what is dear to find out again. What is there is whole.
  std::optional<std::string> note(const std::string &name);
  void keepNote(const std::string &name, const std::string &text);

  /// Held while a key is compiled, so that other processes wait for it and
  /// then load. Gives up after `seconds`: then both compile.
  class Lock {
  public:
    Lock(DiskCache &cache, const std::string &key, int seconds = 60);
    ~Lock();

  private:
    int fd = -1;
  };

  const std::string &directory() const { return root; }
  int64_t bound() const { return limit; }
  /// Entries and bytes on disk.
  std::pair<int64_t, int64_t> size();
  struct Listed {
    std::string key, meta; ///< as the writer gave it; not checked
    int64_t bytes, used;   ///< seconds since 1970
  };
  /// The last used first.
  std::vector<Listed> list();
  /// Removes all entries.
  void clear();

private:
  std::string use(std::string dir);
  void warn(const std::string &what);
  void evict();
  void discard(const std::string &path);
  std::string temporary();

  std::string root; ///< empty: not used
  int64_t limit;
  std::once_flag warned;
};

} // namespace fathom

#endif // FATHOM_RUNTIME_CACHE_DISKCACHE_H
