//===- DiskCacheTest.cpp - many processes, killed ones, bad directories -----===//

#include "runtime/cache/DiskCache.h"

#include "gtest/gtest.h"
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace fathom;
namespace fs = std::filesystem;

namespace {

constexpr int64_t kLarge = int64_t(1) << 30;

class Cache : public ::testing::Test {
protected:
  fs::path dir =
      fs::temp_directory_path() / ("fathom-cache-" + std::to_string(getpid()));
  Cache() { fs::remove_all(dir); }
  ~Cache() override { fs::remove_all(dir); }

  static std::string key(int n) { return hashOf(std::to_string(n)); }
  static DiskCache::Entry entry(int n, size_t bytes = 1000) {
    return {std::string(bytes, char('a' + n % 26)),
            "{\"n\":" + std::to_string(n) + "}"};
  }
  int count(const std::string &prefix) {
    int n = 0;
    for (auto &e : fs::directory_iterator(dir / "v1"))
      n += e.path().filename().string().rfind(prefix, 0) == 0;
    return n;
  }
};

TEST_F(Cache, KeepsEntriesForTheUserAlone) {
  DiskCache c(dir, kLarge);
  EXPECT_FALSE(c.load(key(1)));
  c.store(key(1), entry(1));
  auto e = DiskCache(dir, kLarge).load(key(1));
  ASSERT_TRUE(e);
  EXPECT_EQ(e->object, entry(1).object);
  EXPECT_EQ(e->meta, entry(1).meta);
  EXPECT_FALSE(c.load(key(2)));
  struct stat st;
  ASSERT_EQ(stat(dir.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0700u);
  EXPECT_EQ(c.size().first, 1);
}

TEST_F(Cache, NotesAreWholeOrNotThere) {
  DiskCache c(dir, kLarge);
  EXPECT_FALSE(c.note("a"));
  c.keepNote("a", "first\nsecond");
  c.keepNote("b", "");
  EXPECT_EQ(DiskCache(dir, kLarge).note("a"), "first\nsecond");
  EXPECT_EQ(c.note("b"), "");
  c.keepNote("a", "third");
  EXPECT_EQ(c.note("a"), "third");
  EXPECT_TRUE(c.list().empty());
  EXPECT_EQ(count("tmp-"), 0);
  fs::copy_file(dir / "v1/note-a", dir / "v1/note-c"); // another's
  EXPECT_FALSE(c.note("c"));
  std::ofstream(dir / "v1/note-a") << "thi";
  EXPECT_FALSE(c.note("a"));
  c.clear();
  EXPECT_EQ(count("note-"), 0);
  DiskCache none("", kLarge);
  none.keepNote("a", "x");
  EXPECT_FALSE(none.note("a"));
}

TEST_F(Cache, OldNotesGoWithOldEntries) {
  DiskCache c(dir, 40000);
  for (int n = 0; n < 50; ++n)
    c.keepNote(key(n), "x");
  std::this_thread::sleep_for(std::chrono::milliseconds(20)); // a file's time
  c.store(key(1), entry(1));
  EXPECT_LT(count("note-"), 10);
  EXPECT_TRUE(c.load(key(1)));
}

TEST_F(Cache, IsListedAndCleared) {
  DiskCache c(dir, kLarge);
  EXPECT_TRUE(c.list().empty());
  for (int n = 1; n < 4; ++n) {
    c.store(key(n), entry(n));
    timespec times[2] = {{1000 + n, 0}, {1000 + n, 0}};
    utimensat(AT_FDCWD, (dir / "v1" / key(n)).c_str(), times, 0);
  }
  fs::create_directory(dir / "v1" / "tmp-1");
  std::ofstream(dir / "v1" / "tmp-1" / "meta.json") << "{}";
  fs::remove(dir / "v1" / key(2) / "object.o"); // no whole entry
  auto list = c.list();
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].key, key(3)); // the last used first
  EXPECT_EQ(list[0].used, 1003);
  EXPECT_EQ(list[0].meta, entry(3).meta);
  EXPECT_GT(list[0].bytes, 1000);
  c.clear();
  EXPECT_TRUE(c.list().empty());
  c.store(key(1), entry(1));
  EXPECT_TRUE(c.load(key(1)));
}

TEST_F(Cache, HarmedEntriesAreDropped) {
  DiskCache c(dir, kLarge);
  auto harm = [&](auto &&how) {
    c.store(key(1), entry(1));
    ASSERT_TRUE(c.load(key(1)));
    how(dir / "v1" / key(1));
    EXPECT_FALSE(c.load(key(1)));
    EXPECT_EQ(count("tmp-"), 0);
  };
  harm([](fs::path p) { fs::resize_file(p / "object.o", 10); });
  harm([](fs::path p) { std::fstream(p / "object.o").put('!'); });
  harm([](fs::path p) { fs::remove(p / "object.o"); });
  harm([](fs::path p) { fs::remove(p / "meta.json"); });
  harm([](fs::path p) { std::ofstream(p / "meta.json") << "{\"key\""; });
  harm([](fs::path p) { std::ofstream(p / "meta.json") << "[1]"; });
  c.store(key(2), entry(2)); // an entry under another key's name
  fs::rename(dir / "v1" / key(2), dir / "v1" / key(3));
  EXPECT_FALSE(c.load(key(3)));
}

TEST_F(Cache, SizeIsBounded) { // CASES B097
  DiskCache c(dir, 200 * 1000);
  for (int n = 0; n < 100; ++n) {
    c.store(key(n), entry(n, 10000));
    EXPECT_TRUE(c.load(key(n)));
  }
  EXPECT_LE(c.size().second, 200 * 1000);
  EXPECT_GE(c.size().first, 5);
  EXPECT_FALSE(c.load(key(0)));
  c.store(key(0), entry(0, 10000)); // an evicted one works again
  EXPECT_TRUE(c.load(key(0)));
}

/// Runs `child` in `n` processes that start together; the sum of exit codes.
template <typename F>
int inProcesses(int n, F child) {
  int gate[2], sum = 0;
  EXPECT_EQ(pipe(gate), 0);
  std::vector<pid_t> pids;
  for (int p = 0; p < n; ++p) {
    pid_t pid = fork();
    if (pid == 0) {
      close(gate[1]);
      char c;
      (void)!read(gate[0], &c, 1); // until the parent closes its end
      _exit(child(p));
    }
    pids.push_back(pid);
  }
  close(gate[0]);
  close(gate[1]);
  for (pid_t pid : pids) {
    int status = 0;
    waitpid(pid, &status, 0);
    sum += WIFEXITED(status) ? WEXITSTATUS(status) : 100;
  }
  return sum;
}

TEST_F(Cache, ManyProcessesOneColdDirectory) { // CASES B091
  for (int round = 0; round < 10; ++round) {
    fs::remove_all(dir);
    // Exit code: entries made here. Each of the 8 must be made exactly once.
    int made = inProcesses(16, [&](int p) {
      DiskCache c(dir, kLarge);
      int made = 0;
      for (int n = 0; n < 8; ++n) {
        int k = (n + p) % 8;
        DiskCache::Lock lock(c, key(k));
        auto e = c.load(key(k));
        if (!e) {
          c.store(key(k), entry(k));
          ++made;
          e = c.load(key(k));
        }
        if (!e || e->object != entry(k).object || e->meta != entry(k).meta)
          return 50;
      }
      return made;
    });
    ASSERT_EQ(made, 8) << round;
    ASSERT_EQ(count("tmp-"), 0);
  }
}

TEST_F(Cache, WithoutLocksEntriesAreStillWhole) {
  EXPECT_EQ(inProcesses(8,
                        [&](int p) {
                          DiskCache c(dir, kLarge);
                          for (int n = 0; n < 50; ++n) {
                            c.store(key(n % 4), entry(n % 4, 100000));
                            auto e = c.load(key(n % 4));
                            if (!e || e->object != entry(n % 4, 100000).object)
                              return 1;
                          }
                          return 0;
                        }),
            0);
}

TEST_F(Cache, KilledProcessesHoldNothing) { // CASES B091, B093
  DiskCache c(dir, kLarge);
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  pid_t pid = fork();
  if (pid == 0) {
    DiskCache mine(dir, kLarge);
    DiskCache::Lock lock(mine, key(1));
    (void)!write(ready[1], "x", 1);
    for (int n = 0;; ++n) // killed amid a store
      mine.store(key(n % 8 + 1), entry(n, 1 << 20));
  }
  char x;
  ASSERT_EQ(read(ready[0], &x, 1), 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  auto start = std::chrono::steady_clock::now();
  DiskCache::Lock lock(c, key(1));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
  for (int n = 1; n <= 8; ++n)
    if (auto e = c.load(key(n)))
      EXPECT_EQ(e->object.size(), size_t(1) << 20);
  c.store(key(1), entry(1));
  EXPECT_TRUE(c.load(key(1)));
  // What it left is cleared away after an hour.
  for (auto &e : fs::directory_iterator(dir / "v1"))
    if (e.path().filename().string().rfind("tmp-", 0) == 0)
      fs::last_write_time(e, fs::file_time_type::clock::now() -
                                 std::chrono::hours(2));
  c.store(key(99), entry(1));
  EXPECT_EQ(count("tmp-"), 0);
}

TEST_F(Cache, KilledManyTimesAmidAStore) { // CASES B093
  DiskCache c(dir, kLarge);
  for (int round = 0; round < 100; ++round) {
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
      DiskCache mine(dir, kLarge);
      (void)!write(ready[1], "x", 1);
      for (int n = 0;; ++n) { // new entries, old ones, removed ones
        mine.store(key(n % 8), entry(n, 200000));
        if (n % 3 == 0)
          mine.remove(key(n % 5));
      }
    }
    char x;
    ASSERT_EQ(read(ready[0], &x, 1), 1);
    close(ready[0]);
    close(ready[1]);
    std::this_thread::sleep_for(std::chrono::microseconds(137 * (round % 50)));
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    for (int n = 0; n < 8; ++n)
      if (auto e = c.load(key(n)))
        EXPECT_EQ(e->object, std::string(200000, e->object[0]));
    c.store(key(9), entry(9));
    EXPECT_TRUE(c.load(key(9)));
    c.remove(key(9));
  }
}

TEST_F(Cache, WaitsForALockOnlySoLong) { // CASES B093
  DiskCache c(dir, kLarge);
  std::ofstream(dir / "v1" /
                ("lock-" + key(1).substr(0, 2))); // a file is no lock
  DiskCache::Lock first(c, key(1));
  auto start = std::chrono::steady_clock::now();
  DiskCache::Lock second(c, key(1), 1);
  auto waited = std::chrono::steady_clock::now() - start;
  EXPECT_GE(waited, std::chrono::seconds(1));
  EXPECT_LT(waited, std::chrono::seconds(3));
}

TEST_F(Cache, UnusableDirectories) { // CASES B094
  auto useless = [&](const std::string &d, const std::string &why) {
    testing::internal::CaptureStderr();
    DiskCache c(d, kLarge);
    c.store(key(1), entry(1));
    c.store(key(2), entry(1));
    EXPECT_FALSE(c.load(key(1)));
    std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find(why), std::string::npos) << said;
    EXPECT_EQ(said.find("warning", said.find("warning") + 1), std::string::npos)
        << said; // once
  };
  useless("?", "HOME is set");
  fs::create_directories(dir);
  std::ofstream(dir / "file");
  useless(dir / "file", "is not a directory");
  useless(dir / "file" / "below", "cannot make");
  useless("/proc/fathom", "cannot make");
  fs::create_directory(dir / "open");
  fs::permissions(dir / "open", fs::perms(0777));
  useless(dir / "open", "written by others");
  if (geteuid() == 0) {
    fs::create_directory(dir / "foreign");
    ASSERT_EQ(chown((dir / "foreign").c_str(), 12345, 12345), 0);
    useless(dir / "foreign", "another user");
  } else {
    fs::create_directory(dir / "read-only");
    fs::permissions(dir / "read-only", fs::perms(0500));
    useless(dir / "read-only", "cannot make");
  }
  testing::internal::CaptureStderr(); // none at all is no reason to warn
  DiskCache c("", kLarge);
  c.store(key(1), entry(1));
  EXPECT_FALSE(c.load(key(1)));
  DiskCache::Lock lock(c, key(1));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(Cache, EnvironmentSaysWhere) {
  auto where = [](const char *cache, const char *xdg, const char *home) {
    for (auto [name, value] : {std::pair{"FATHOM_CACHE_DIR", cache},
                               {"XDG_CACHE_HOME", xdg},
                               {"HOME", home}})
      value ? setenv(name, value, 1) : unsetenv(name);
    return DiskCache::fromEnvironment().first;
  };
  EXPECT_EQ(where("/c", "/x", "/h"), "/c");
  EXPECT_EQ(where(nullptr, "/x", "/h"), "/x/fathom");
  EXPECT_EQ(where(nullptr, nullptr, "/h"), "/h/.cache/fathom");
  EXPECT_EQ(where(nullptr, nullptr, nullptr), "?");
  EXPECT_EQ(where("off", "/x", "/h"), "");
}

// CASES B096: by a link or by the real path, it is the same cache.
TEST_F(Cache, LinksLeadToTheSameEntries) {
  fs::create_directories(dir / "real");
  fs::create_directory_symlink(dir / "real", dir / "link");
  DiskCache(dir / "link", kLarge).store(key(1), entry(1));
  EXPECT_TRUE(DiskCache(dir / "real", kLarge).load(key(1)));
}

} // namespace
