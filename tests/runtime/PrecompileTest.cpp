//===- PrecompileTest.cpp - kernels for GPUs that are not there -------------===//
//
// Through fathom.h, with NVRTC and no GPU. In a process of its own, since it
// counts what the process's cache did.
//
//===----------------------------------------------------------------------===//

#include "codegen/cuda/Nvrtc.h"
#include "runtime/Compiler.h"
#include "runtime/Stored.h"

#include "gtest/gtest.h"
#include <filesystem>
#include <thread>
#include <unistd.h>

using namespace fathom;
namespace fs = std::filesystem;

namespace {

const char *const kCausal = "fa.variant @causal causal";

class Precompile : public ::testing::Test {
protected:
  void SetUp() override {
    if (auto nvrtc = cuda::nvrtc(); !nvrtc)
      GTEST_SKIP() << toString(nvrtc.takeError());
    options.dtype = "bf16";
    clearCache();
  }
  int64_t compiled() const { return cacheStats().compiled - before; }
  KernelOptions options;
  int64_t before = cacheStats().compiled;
};

// CASES B091, B110: forward and backward, aligned operands and any.
TEST_F(Precompile, OnceForFiftyThreads) {
  std::vector<std::thread> threads;
  std::vector<Status> results(50);
  auto one = Variant::parse(kCausal);
  for (int t = 0; t < 50; ++t)
    threads.emplace_back([&, t] { // some share a variant
      auto mine = t % 2 ? one : Variant::parse(kCausal);
      results[t] = mine->precompile(options, "sm_90");
    });
  for (auto &t : threads)
    t.join();
  for (const Status &s : results)
    EXPECT_TRUE(s.ok()) << s.message();
  EXPECT_EQ(compiled(), 4);
}

TEST_F(Precompile, WhatDiffersIsAnotherKernel) { // CASES B087, B089
  auto variant = Variant::parse(kCausal);
  options.gradients = false;
  auto more = [&](auto &&change) {
    int64_t had = cacheStats().compiled;
    KernelOptions o = options;
    std::string target = "sm_80";
    change(o, target);
    Status s = variant->precompile(o, target);
    EXPECT_TRUE(s.ok()) << s.message();
    return cacheStats().compiled - had;
  };
  using O = KernelOptions &;
  EXPECT_EQ(more([](O, std::string &) {}), 2);
  EXPECT_EQ(more([](O, std::string &) {}), 0);
  EXPECT_EQ(more([](O, std::string &target) { target = "sm_90"; }), 2);
  EXPECT_EQ(more([](O, std::string &target) { target = "compute_80"; }), 2);
  EXPECT_EQ(more([](O o, std::string &) { o.dtype = "f16"; }), 2);
  EXPECT_EQ(more([](O o, std::string &) { o.group = 4; }), 2);
  EXPECT_EQ(more([](O o, std::string &) { o.layout = "packed"; }), 2);
  // Rows of 36 bytes are aligned nowhere.
  EXPECT_EQ(more([](O o, std::string &) { o.headDim = 18; }), 1);
  EXPECT_EQ(more([](O o, std::string &) { o.device = "cuda:3"; }), 0);
}

TEST_F(Precompile, BundlesHoldAllPieces) {
  fs::path path = fs::temp_directory_path() /
                  ("fathom-" + std::to_string(getpid()) + ".fab");
  auto variant = Variant::parse(kCausal);
  Status s = variant->bundle(options, {"sm_80", "compute_80"}, path);
  ASSERT_TRUE(s.ok()) << s.message();
  auto bundle = readBundle(path);
  fs::remove(path);
  ASSERT_TRUE(bundle.ok()) << bundle.status().message();
  EXPECT_EQ(bundle->variant.name, "causal");
  EXPECT_EQ(bundle->items.size(), 8u);
  for (const Bundle::Item &i : bundle->items) {
    auto e = fromEntry(i.entry);
    ASSERT_TRUE(e);
    EXPECT_EQ(e->fwd.exists(), i.piece == Piece::forward) << e->what;
    EXPECT_EQ(e->bwd.exists(), i.piece == Piece::backward) << e->what;
    EXPECT_FALSE(e->program->kernels.empty());
    for (const cuda::Kernel &k : e->program->kernels) {
      EXPECT_EQ(k.cubin.empty(), i.target == "compute_80");
      EXPECT_FALSE(k.ptx.empty());
    }
  }
}

// What fits an H100 need not fit a GPU with 99 KiB of shared memory.
TEST_F(Precompile, SmallerTilesWhereMemoryIsSmall) {
  auto source = VariantSource::parse(kCausal, "text", "");
  CompileOptions o;
  o.instance = {DType::bf16, 128, 128, 1, Layout::bshd, true, false};
  o.piece = Piece::backward;
  o.aligned = true;
  int64_t most[2] = {0, 0};
  for (int n : {0, 1}) {
    o.target = n ? "sm_86" : "sm_90";
    auto e = compile(**source, o);
    ASSERT_TRUE(e.ok()) << e.status().message();
    for (const cuda::Kernel &k : (*e)->program->kernels)
      most[n] = std::max(most[n], k.sharedBytes);
  }
  EXPECT_GT(most[0], 99 << 10); // else this tests nothing
  EXPECT_LE(most[1], 99 << 10);
  o.blockM = o.blockN = 128; // the caller's tiles are not touched
  auto e = compile(**source, o);
  EXPECT_FALSE(e.ok());
  EXPECT_NE(e.status().message().find("bytes of shared memory"),
            std::string::npos)
      << e.status().message();
}

TEST_F(Precompile, Errors) {
  auto variant = Variant::parse(kCausal);
  auto says = [](const Status &s, const std::string &words) {
    EXPECT_FALSE(s.ok());
    EXPECT_NE(s.message().find(words), std::string::npos) << s.message();
  };
  says(variant->precompile(options, "sm_70"), "got 'sm_70'");
  says(variant->precompile(options, "cpu"), "got cpu");
  says(variant->bundle(options, {}, "/tmp/x"), "expected at least one target");
  options.headDim = 0;
  says(variant->precompile(options, "sm_90"), "headDim: expected 1 to 512");
}

} // namespace
