//===- KernelCache.cpp - one compile per kernel -----------------------------===//

#include "runtime/cache/KernelCache.h"

#include "runtime/PartTimes.h"

namespace fathom {

CacheKey &CacheKey::add(const std::string &field, const std::string &value) {
  fields[field] = value;
  return *this;
}

std::string CacheKey::digest() const {
  // Lengths in front: no two lists of fields read the same.
  std::string text;
  for (const auto &[field, value] : fields)
    text += std::to_string(field.size()) + ":" + field +
            std::to_string(value.size()) + ":" + value;
  return hashOf(text);
}

KernelCache::KernelCache(std::string dir, int64_t diskLimit, size_t kept)
    : onDisk(std::move(dir), diskLimit), kept(kept) {}

KernelCache &KernelCache::global() {
  // Never destroyed: kernels may outlive static objects.
  static KernelCache *cache = [] {
    auto [dir, limit] = DiskCache::fromEnvironment();
    return new KernelCache(dir, limit);
  }();
  return *cache;
}

KernelCache::Pointer KernelCache::inMemory(const std::string &key) {
  auto it = entries.find(key);
  if (it == entries.end())
    return nullptr;
  recent.splice(recent.begin(), recent, it->second);
  ++counts.memory;
  return it->second->second;
}

void KernelCache::keep(const std::string &key, const Pointer &executable) {
  recent.emplace_front(key, executable);
  entries[key] = recent.begin();
  while (recent.size() > kept) {
    entries.erase(recent.back().first);
    recent.pop_back();
  }
}

Result<KernelCache::Pointer>
KernelCache::get(const std::string &key,
                 const std::function<Result<Compiled>()> &compile,
                 const std::function<Pointer(const DiskCache::Entry &)> &load) {
  std::shared_ptr<std::mutex> mine;
  {
    std::lock_guard lock(mutex);
    if (Pointer p = inMemory(key))
      return p;
    auto &slot = inProgress[key];
    if (!slot)
      slot = std::make_shared<std::mutex>();
    mine = slot;
  }
  std::lock_guard working(*mine);
  {
    std::lock_guard lock(mutex);
    if (Pointer p = inMemory(key)) // another thread made it meanwhile
      return p;
  }

  auto fromDisk = [&]() -> Pointer {
    PartTimer timer("entry from disk");
    auto entry = onDisk.load(key);
    Pointer p = entry ? load(*entry) : nullptr;
    if (entry && !p)
      onDisk.remove(key);
    return p;
  };
  Pointer result = fromDisk();
  Status failure;
  bool compiled = false;
  if (!result && compile) {
    DiskCache::Lock lock(onDisk, key);
    result = fromDisk(); // another process made it meanwhile
    if (!result) {
      auto made = compile();
      compiled = made.ok();
      if (compiled) {
        onDisk.store(key, made->entry);
        result = made->executable;
      } else {
        failure = made.status();
      }
    }
  }

  std::lock_guard lock(mutex);
  inProgress.erase(key);
  if (!result) {
    if (!compile)
      return Pointer();
    return failure;
  }
  ++(compiled ? counts.compiled : counts.disk);
  keep(key, result);
  return result;
}

KernelCache::Pointer KernelCache::find(
    const std::string &alias,
    const std::function<Pointer(const DiskCache::Entry &)> &load) {
  std::string key;
  {
    std::lock_guard lock(mutex);
    if (auto it = aliases.find(alias); it != aliases.end())
      key = it->second;
  }
  if (key.empty()) {
    auto note = onDisk.note(alias);
    if (!note)
      return nullptr;
    key = *note;
    std::lock_guard lock(mutex);
    aliases[alias] = key;
  }
  return *get(key, nullptr, load);
}

void KernelCache::setAlias(const std::string &alias, const std::string &key) {
  {
    std::lock_guard lock(mutex);
    if (aliases.size() > 16 * kept) // they are found out again
      aliases.clear();
    if (!aliases.emplace(alias, key).second)
      return;
  }
  onDisk.keepNote(alias, key);
}

void KernelCache::clear() {
  std::unique_lock lock(mutex);
  aliases.clear();
  recent.clear();
  entries.clear();
  lock.unlock();
  onDisk.clear();
}

KernelCache::Stats KernelCache::stats() {
  std::lock_guard lock(mutex);
  return counts;
}

} // namespace fathom
