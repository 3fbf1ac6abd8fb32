//===- DiskCache.cpp - compiled instances that outlive a process ------------===//

#include "runtime/cache/DiskCache.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/BLAKE3.h"
#include "llvm/Support/JSON.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <thread>
#include <tuple>
#include <unistd.h>
#include <vector>

namespace fs = std::filesystem;

namespace fathom {
namespace {

std::optional<std::string> readAll(const std::string &path) {
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return std::nullopt;
  struct stat st;
  std::string bytes;
  bool whole = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
  if (whole) {
    bytes.resize(st.st_size);
    size_t done = 0;
    for (ssize_t n = 1; done < bytes.size() && n > 0;
         done += std::max<ssize_t>(n, 0))
      n = read(fd, bytes.data() + done, bytes.size() - done);
    whole = done == bytes.size();
  }
  close(fd);
  if (!whole)
    return std::nullopt;
  return bytes;
}

bool writeAll(const std::string &path, const std::string &bytes) {
  int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0)
    return false;
  size_t done = 0;
  while (done < bytes.size()) {
    ssize_t n = write(fd, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      break;
    done += n;
  }
  // close() reports what a full disk or a quota kept back.
  bool closed = close(fd) == 0;
  return closed && done == bytes.size();
}

/// Makes `path` and its parents, for the user alone.
bool makeDirectories(const std::string &path) {
  for (size_t at = path.find('/', 1);; at = path.find('/', at + 1)) {
    if (mkdir(path.substr(0, at).c_str(), 0700) && errno != EEXIST &&
        at == std::string::npos)
      return false;
    if (at == std::string::npos)
      return true;
  }
}

} // namespace

std::string hashOf(const std::string &bytes) {
  return llvm::toHex(
      llvm::BLAKE3::hash(llvm::ArrayRef(
          reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size())),
      /*LowerCase=*/true);
}

std::pair<std::string, int64_t> DiskCache::fromEnvironment() {
  auto get = [](const char *name) {
    const char *value = std::getenv(name);
    return std::string(value ? value : "");
  };
  std::string dir = get("FATHOM_CACHE_DIR");
  if (dir == "off")
    return {"", 0};
  if (dir.empty() && !get("XDG_CACHE_HOME").empty())
    dir = get("XDG_CACHE_HOME") + "/fathom";
  if (dir.empty() && !get("HOME").empty())
    dir = get("HOME") + "/.cache/fathom";
  int64_t mib = 512;
  if (std::string text = get("FATHOM_CACHE_MIB"); !text.empty())
    mib = std::max<int64_t>(std::strtoll(text.c_str(), nullptr, 10), 1);
  // No home: "?" makes the constructor say so.
  return {dir.empty() ? "?" : dir, mib << 20};
}

DiskCache::DiskCache(std::string dir, int64_t limit) : limit(limit) {
  if (!dir.empty())
    if (std::string trouble = use(std::move(dir)); !trouble.empty())
      warn(trouble);
}

/// Sets `root`; says why not, if it can't be used.
std::string DiskCache::use(std::string dir) {
  if (dir == "?")
    return "none of FATHOM_CACHE_DIR, XDG_CACHE_HOME and HOME is set";
  std::error_code ec;
  if (!makeDirectories(dir))
    return fmt::format("cannot make '{}': {}", dir, std::strerror(errno));
  dir = fs::canonical(dir, ec); // the same cache by any path to it
  struct stat st;
  if (ec || stat(dir.c_str(), &st) || !S_ISDIR(st.st_mode))
    return fmt::format("'{}' is not a directory", dir);
  if (st.st_uid != geteuid())
    return fmt::format("'{}' belongs to another user", dir);
  if (st.st_mode & (S_IWGRP | S_IWOTH))
    return fmt::format(
        "'{}' may be written by others (chmod 700 makes it usable)", dir);
  if (!makeDirectories(dir + "/v1"))
    return fmt::format("cannot make '{}/v1': {}", dir, std::strerror(errno));
  root = dir + "/v1";
  return "";
}

DiskCache::~DiskCache() = default;

void DiskCache::warn(const std::string &what) {
  std::call_once(warned, [&] {
    fmt::print(stderr,
               "fathom: warning: compiled kernels are not kept on disk: {}; "
               "FATHOM_CACHE_DIR names "
               "another directory or is 'off'\n",
               what);
  });
}

std::string DiskCache::temporary() {
  static std::atomic<unsigned> count;
  return fmt::format(
      "{}/tmp-{}-{}-{:x}", root, getpid(), count++,
      std::chrono::steady_clock::now().time_since_epoch().count());
}

/// Renamed first: no one can find half of it.
void DiskCache::discard(const std::string &path) {
  std::string aside = temporary();
  std::error_code ec;
  if (rename(path.c_str(), aside.c_str()) == 0)
    fs::remove_all(aside, ec);
}

std::optional<DiskCache::Entry> DiskCache::load(const std::string &key) {
  if (root.empty())
    return std::nullopt;
  std::string path = root + "/" + key;
  // Both files of one entry: by its directory, which is whole from the moment
  // it has this name, not by a name that may come to mean another.
  int directory = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0 && errno == ENOENT)
    return std::nullopt;
  std::string opened = fmt::format("/proc/self/fd/{}", directory);
  auto meta = readAll(opened + "/meta.json"),
       object = readAll(opened + "/object.o");
  struct stat was, is;
  bool known = directory >= 0 && fstat(directory, &was) == 0;
  if (directory >= 0)
    close(directory);
  if (meta && object) {
    if (auto json = llvm::json::parse(*meta)) {
      auto *o = json->getAsObject();
      auto *content = o ? o->get("content") : nullptr;
      if (content && o->getString("key") == llvm::StringRef(key) &&
          o->getString("object") == llvm::StringRef(hashOf(*object))) {
        utimensat(AT_FDCWD, path.c_str(), nullptr, 0); // used just now
        return Entry{std::move(*object), llvm::formatv("{0}", *content).str()};
      }
    } else {
      llvm::consumeError(json.takeError());
    }
  }
  // What was read is no entry; what has the name now may be one.
  if (!known || (stat(path.c_str(), &is) == 0 && is.st_ino == was.st_ino))
    discard(path);
  return std::nullopt;
}

void DiskCache::store(const std::string &key, const Entry &entry) {
  if (root.empty())
    return;
  std::string staging = temporary(), path = root + "/" + key;
  std::string meta =
      fmt::format("{{\"key\": \"{}\", \"object\": \"{}\", \"content\": {}}}\n",
                  key, hashOf(entry.object), entry.meta);
  bool written = mkdir(staging.c_str(), 0700) == 0 &&
                 writeAll(staging + "/object.o", entry.object) &&
                 writeAll(staging + "/meta.json", meta);
  if (!written)
    warn(fmt::format("cannot write to '{}': {}", root, std::strerror(errno)));
  // Another process may have been first: its entry is as good.
  if (!written || rename(staging.c_str(), path.c_str())) {
    std::error_code ec;
    fs::remove_all(staging, ec);
  }
  evict();
}

std::optional<std::string> DiskCache::note(const std::string &name) {
  if (root.empty())
    return std::nullopt;
  std::string path = root + "/note-" + name;
  auto text = readAll(path);
  if (!text)
    return std::nullopt;
  auto [content, hash] = llvm::StringRef(*text).rsplit('\n');
  if (hash != llvm::StringRef(hashOf(name + content.str())))
    return std::nullopt;
  utimensat(AT_FDCWD, path.c_str(), nullptr, 0); // used just now
  return content.str();
}

void DiskCache::keepNote(const std::string &name, const std::string &text) {
  if (root.empty())
    return;
  // One that can't be kept is missed by no one: entries say what is wrong.
  std::string staging = temporary();
  if (!writeAll(staging, text + "\n" + hashOf(name + text)) ||
      rename(staging.c_str(), (root + "/note-" + name).c_str()))
    unlink(staging.c_str());
}

void DiskCache::remove(const std::string &key) {
  if (!root.empty())
    discard(root + "/" + key);
}

void DiskCache::evict() {
  struct Found {
    fs::file_time_type used;
    int64_t bytes;
    std::string path;
  };
  std::vector<Found> entries;
  int64_t total = 0;
  std::error_code ec;
  auto now = fs::file_time_type::clock::now();
  for (auto it = fs::directory_iterator(root, ec);
       !ec && it != fs::directory_iterator(); it.increment(ec)) {
    std::error_code gone;
    std::string name = it->path().filename();
    bool isNote = llvm::StringRef(name).starts_with("note-"),
         isLeft = llvm::StringRef(name).starts_with("tmp-");
    if (!isNote && !isLeft && !it->is_directory(gone))
      continue;
    auto used = fs::last_write_time(it->path(), gone);
    if (gone)
      continue;
    if (isLeft) { // left by one that died
      if (now - used > std::chrono::hours(1))
        fs::remove_all(it->path(), gone);
      continue;
    }
    int64_t bytes = 4096; // what a directory takes, or a note
    for (const char *file : {"object.o", "meta.json"})
      if (auto n = fs::file_size(it->path() / file, gone); !gone)
        bytes += n;
    total += bytes;
    entries.push_back({used, bytes, it->path()});
  }
  if (total <= limit)
    return;
  std::sort(entries.begin(), entries.end(),
            [](const Found &a, const Found &b) { return a.used < b.used; });
  // To three quarters, so that the next store need not do it again.
  for (const Found &f : entries) {
    if (total <= limit - limit / 4)
      break;
    discard(f.path);
    total -= f.bytes;
  }
}

std::vector<DiskCache::Listed> DiskCache::list() {
  std::vector<Listed> all;
  std::error_code ec;
  if (root.empty())
    return all;
  for (auto it = fs::directory_iterator(root, ec);
       !ec && it != fs::directory_iterator(); it.increment(ec)) {
    std::string path = it->path(), key = it->path().filename();
    auto meta = readAll(path + "/meta.json");
    struct stat st, object;
    if (!meta || llvm::StringRef(key).starts_with("tmp-") ||
        stat(path.c_str(), &st) || stat((path + "/object.o").c_str(), &object))
      continue;
    int64_t bytes = object.st_size + int64_t(meta->size());
    auto json = llvm::json::parse(*meta);
    if (!json) {
      llvm::consumeError(json.takeError());
      continue;
    }
    auto *o = json->getAsObject();
    auto *content = o ? o->get("content") : nullptr;
    if (content)
      all.push_back(
          {key, llvm::formatv("{0}", *content).str(), bytes, st.st_mtime});
  }
  std::sort(all.begin(), all.end(), [](const Listed &a, const Listed &b) {
    return std::tie(b.used, a.key) < std::tie(a.used, b.key);
  });
  return all;
}

void DiskCache::clear() {
  for (const Listed &entry : list())
    remove(entry.key);
  std::error_code ec;
  for (auto it = fs::directory_iterator(root, ec);
       !ec && it != fs::directory_iterator(); it.increment(ec))
    if (llvm::StringRef(it->path().filename().native()).starts_with("note-"))
      unlink(it->path().c_str());
}

std::pair<int64_t, int64_t> DiskCache::size() {
  std::pair<int64_t, int64_t> n{0, 0};
  std::error_code ec;
  if (root.empty())
    return n;
  for (auto it = fs::recursive_directory_iterator(root, ec);
       !ec && it != fs::recursive_directory_iterator(); it.increment(ec)) {
    std::error_code gone;
    if (it->path().filename() == "meta.json")
      ++n.first;
    if (it->is_regular_file(gone))
      n.second += fs::file_size(it->path(), gone);
  }
  return n;
}

DiskCache::Lock::Lock(DiskCache &cache, const std::string &key, int seconds) {
  if (cache.root.empty())
    return;
  fd = open((cache.root + "/lock-" + key.substr(0, 2)).c_str(),
            O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0)
    return;
  auto until = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  while (flock(fd, LOCK_EX | LOCK_NB)) {
    if ((errno != EWOULDBLOCK && errno != EINTR) ||
        std::chrono::steady_clock::now() > until) {
      close(fd);
      fd = -1;
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

DiskCache::Lock::~Lock() {
  if (fd >= 0)
    close(fd); // releases the lock
}

} // namespace fathom
