//===- KernelCacheTest.cpp - keys, threads, processes -----------------------===//

#include "runtime/cache/KernelCache.h"

#include "runtime/cache/BuildId.h"

#include "gtest/gtest.h"
#include <atomic>
#include <filesystem>
#include <set>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace fathom;
namespace fs = std::filesystem;

namespace {

constexpr int64_t kLarge = int64_t(1) << 30;

/// Counts compiles; an instance's number stands in place of its code.
class Kernels : public ::testing::Test {
protected:
  fs::path dir = fs::temp_directory_path() /
                 ("fathom-kernels-" + std::to_string(getpid()));
  Kernels() { fs::remove_all(dir); }
  ~Kernels() override { fs::remove_all(dir); }
  std::atomic<int> compiles = 0;

  static std::string key(int n) {
    return CacheKey().add("n", std::to_string(n)).digest();
  }
  static KernelCache::Pointer executable(int64_t n) {
    auto e = std::make_shared<Executable>();
    e->gradCaptures = {n};
    return e;
  }
  int64_t get(KernelCache &cache, int n) {
    auto e = cache.get(
        key(n),
        [&]() -> Result<KernelCache::Compiled> {
          ++compiles;
          return KernelCache::Compiled{
              executable(n), {std::string(1000, 'x'), std::to_string(n)}};
        },
        [](const DiskCache::Entry &entry) {
          return executable(std::stoll(entry.meta));
        });
    return (*e)->gradCaptures[0];
  }
};

// CASES B087, B089, B095: another machine, type or build is another key.
TEST(CacheKey, EveryFieldCounts) {
  auto base = [] {
    return CacheKey()
        .add("ir", "func")
        .add("target", "znver5 +avx512f")
        .add("build", "1");
  };
  std::set<std::string> keys{base().digest(),
                             base().add("target", "znver5 -avx512f").digest(),
                             base().add("target", "sm_90a").digest(),
                             base().add("build", "2").digest(),
                             base().add("ir", "func2").digest(),
                             base().add("block_m", "64").digest(),
                             base().add("block_n", "64").digest(),
                             base().add("block", "_m64").digest(),
                             base().add("", "").digest()};
  EXPECT_EQ(keys.size(), 9u);
  EXPECT_EQ(keys.begin()->size(), 64u);
  // CASES B096: but not their order.
  EXPECT_EQ(CacheKey()
                .add("build", "1")
                .add("ir", "func")
                .add("target", "znver5 +avx512f")
                .digest(),
            base().digest());
}

TEST(BuildId, NamesTheLibraries) {
  auto id = compilerBuildId();
  ASSERT_TRUE(id);
  EXPECT_NE(id->find("LLVM 22.1"), std::string::npos) << *id;
  EXPECT_EQ(id, compilerBuildId());
}

TEST_F(Kernels, OneCompileForManyThreads) { // CASES B091, B110
  KernelCache cache(dir, kLarge);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] {
      for (int n = 0; n < 100; ++n)
        EXPECT_EQ(get(cache, n % 10), n % 10);
    });
  for (auto &t : threads)
    t.join();
  EXPECT_EQ(compiles, 10);
  EXPECT_EQ(cache.stats().compiled, 10);
  EXPECT_EQ(cache.stats().memory, 790);
}

TEST_F(Kernels, TheNextProcessCompilesNothing) { // CASES B096
  for (int n = 0; n < 3; ++n) {
    KernelCache cache(dir, kLarge); // as a new process has it
    for (int k = 0; k < 300; ++k)
      EXPECT_EQ(get(cache, k % 3), k % 3);
  }
  EXPECT_EQ(compiles, 3);
}

TEST_F(Kernels, ManyProcessesOneColdDirectory) { // CASES B091
  std::vector<pid_t> pids;
  for (int p = 0; p < 16; ++p) {
    pid_t pid = fork();
    if (pid == 0) {
      KernelCache cache(dir, kLarge);
      for (int n = 0; n < 8; ++n)
        if (get(cache, (n + p) % 8) != (n + p) % 8)
          _exit(100);
      _exit(compiles);
    }
    pids.push_back(pid);
  }
  int total = 0;
  for (pid_t pid : pids) {
    int status;
    waitpid(pid, &status, 0);
    total += WIFEXITED(status) ? WEXITSTATUS(status) : 100;
  }
  EXPECT_EQ(total, 8);
}

TEST_F(Kernels, MemoryIsBounded) { // CASES B097
  KernelCache cache("", 0, 4);
  std::weak_ptr<const Executable> first;
  auto held = cache.get(
      key(0), [] { return Result<KernelCache::Compiled>({executable(0), {}}); },
      [](const DiskCache::Entry &) { return nullptr; });
  first = *held;
  for (int n = 1; n < 100; ++n)
    get(cache, n);
  EXPECT_FALSE(first.expired()); // in use: it lives on
  held = Result<KernelCache::Pointer>(nullptr);
  EXPECT_TRUE(first.expired());
  compiles = 0;
  EXPECT_EQ(get(cache, 99), 99);
  EXPECT_EQ(compiles, 0);
  EXPECT_EQ(get(cache, 1), 1); // an evicted one works again
  EXPECT_EQ(compiles, 1);
}

TEST_F(Kernels, FailuresAreNotKept) {
  KernelCache cache(dir, kLarge);
  auto fails = [] {
    return Result<KernelCache::Compiled>(
        Status(ErrorCode::compile_error, "no"));
  };
  for (int n = 0; n < 2; ++n) {
    auto e = cache.get(key(1), fails,
                       [](const DiskCache::Entry &) { return nullptr; });
    EXPECT_EQ(e.status().message(), "no");
  }
  EXPECT_EQ(get(cache, 1), 1);
}

TEST_F(Kernels, AnAliasFindsWhatItsKeyDoes) {
  auto load = [](const DiskCache::Entry &entry) {
    return executable(std::stoll(entry.meta));
  };
  const std::string alias = CacheKey().add("text", "1").digest();
  {
    KernelCache cache(dir, kLarge);
    EXPECT_EQ(cache.find(alias, load), nullptr);
    cache.setAlias(alias, key(1)); // of what is not there yet
    EXPECT_EQ(cache.find(alias, load), nullptr);
    get(cache, 1);
    EXPECT_EQ(cache.find(alias, load)->gradCaptures[0], 1);
  }
  KernelCache cache(dir, kLarge); // as the next process has it
  auto first = cache.find(alias, load);
  ASSERT_TRUE(first);
  EXPECT_EQ(cache.find(alias, load), first);
  EXPECT_EQ(cache.stats().disk, 1);
  EXPECT_EQ(compiles, 1);
  cache.clear();
  EXPECT_EQ(cache.find(alias, load), nullptr);
}

TEST_F(Kernels, WhatCantBeLoadedIsCompiledAgain) { // CASES B095
  get(*std::make_unique<KernelCache>(dir, kLarge), 1);
  KernelCache cache(dir, kLarge);
  bool compiled = false;
  auto e = cache.get(
      key(1),
      [&] {
        compiled = true;
        return Result<KernelCache::Compiled>({executable(1), {"new", "1"}});
      },
      [](const DiskCache::Entry &) { return nullptr; });
  EXPECT_TRUE(compiled);
  EXPECT_EQ(DiskCache(dir, kLarge).load(key(1))->object, "new");
}

} // namespace
