//===- GpuEdgesTest.cpp - ends, hidden entries, NaN, on GPUs ----------------===//
//
// What kernels for GPUs must not read, write or mix up, under emulation: arrays
// of any size, rows without keys, hidden entries, a row of NaN, a forward
// without gradients.
//
//===----------------------------------------------------------------------===//

#include "tests/e2e/GpuHarness.h"
#include "tests/e2e/HiddenChecks.h"

using namespace fathom;
using namespace fathom::test;

namespace {

std::unique_ptr<Emulated> compiled(const World &w, PipelineOptions p) {
  std::string error;
  auto e = Emulated::compile(w, std::move(p), error);
  EXPECT_TRUE(e) << w.spec.name << ": " << error;
  if (e)
    e->options = {.latest = true, .seed = 1};
  return e;
}

TEST(GpuEdges, AnySizeIsRight) {
  std::vector<std::pair<int, int>> sizes = {
      {1, 1},   {1, 50},  {50, 1},  {15, 17}, {16, 16}, {17, 15},
      {31, 33}, {33, 31}, {64, 65}, {0, 20},  {20, 0},  {0, 0}};
  for (const char *name : {"causal", "plain", "window", "softcap"})
    for (DType type : {DType::bf16, DType::f32}) {
      Spec spec = named(name, type);
      spec.d = spec.dv = 40;
      spec.heads = 4;
      std::unique_ptr<Emulated> e;
      for (auto [sq, sk] : sizes) {
        spec.sq = sq;
        spec.sk = sk;
        World w(spec);
        if (!e)
          e = compiled(w, gpuOptions(w));
        ASSERT_TRUE(e);
        EXPECT_EQ(w.failures(w.run(e->executable)), "")
            << name << " " << std::string(fathom::name(type)) << " " << sq
            << "x" << sk;
      }
    }
}

// A factor of 16 rows of 512 doubles takes 64 KiB, a CTA of the smallest GPUs
// has 99: factors are loaded for each product, sums go in parts.
TEST(GpuEdges, TheWidestHeadsFitTheSmallestGpu) {
  Spec spec = named("causal", DType::f64);
  spec.d = 500;
  spec.dv = 512;
  spec.heads = 2;
  spec.kvHeads = spec.batch = 1;
  spec.sq = 20;
  spec.sk = 37;
  World w(spec);
  for (bool aligned : {false, true}) {
    PipelineOptions p = gpuOptions(w, "sm_86", 0, 0);
    p.aligned = aligned;
    p.stages = 1;
    auto e = compiled(w, p);
    ASSERT_TRUE(e);
    EXPECT_EQ(w.failures(w.run(e->executable)), "");
  }
  PipelineOptions without = gpuOptions(w, "sm_86", 0, 0);
  without.skip = {"fa-gpu-reload-factors"};
  std::string error;
  EXPECT_FALSE(Emulated::compile(w, without, error));
  EXPECT_NE(error.find("bytes of shared memory"), std::string::npos) << error;
}

/// The same where the copy engine fills buffers and warps have roles.
TEST(GpuEdges, AnySizeIsRightByBoxes) {
  std::vector<std::pair<int, int>> sizes = {
      {1, 1},    {1, 150},  {130, 1}, {127, 129}, {128, 128},
      {129, 70}, {40, 200}, {0, 20},  {20, 0},    {0, 0}};
  for (int kvHeads : {1, 2}) {
    Spec spec = named("causal", DType::bf16);
    spec.d = spec.dv = 64;
    spec.heads = 2;
    spec.kvHeads = kvHeads;
    std::unique_ptr<Emulated> e;
    for (auto [sq, sk] : sizes) {
      spec.sq = sq;
      spec.sk = sk;
      World w(spec);
      PipelineOptions p = gpuOptions(w, "sm_90a", 128, 64);
      p.aligned = true;
      p.numWarps = 8;
      if (!e)
        e = compiled(w, p);
      ASSERT_TRUE(e);
      EXPECT_EQ(w.failures(w.run(e->executable)), "")
          << kvHeads << " heads of keys, " << sq << "x" << sk;
    }
  }
}

TEST(GpuEdges, ForwardAloneIsRight) {
  for (const char *name : {"causal", "alibi", "packed"}) {
    World w(named(name, DType::f16));
    PipelineOptions p = gpuOptions(w);
    p.backward = false;
    p.countTiles = true;
    auto e = compiled(w, p);
    ASSERT_TRUE(e);
    EXPECT_NE(e->programs[0].kernels[0].source.find("fa::tick("),
              std::string::npos);
    Results r = w.run(e->executable);
    EXPECT_FALSE(r.dq.defined());
    EXPECT_EQ(w.failures(r), "") << name;
  }
}

TEST(GpuEdges, ScoresByDistanceAreRight) {
  for (const char *mask : {"", " causal top_left"})
    for (const char *score : kDistanceScores)
      for (DType type : {DType::bf16, DType::f32}) {
        Spec spec = byDistance(score, mask, type);
        spec.sq = 70;
        spec.sk = 45;
        World w(spec);
        auto e = compiled(w, gpuOptions(w));
        ASSERT_TRUE(e);
        EXPECT_EQ(w.failures(w.run(e->executable)), "")
            << std::string(fathom::name(type)) << mask << "\n"
            << score;
      }
}

const std::pair<const char *, const char *> kPolicies[] = {
    {"recompute", "atomic"},
    {"recompute", "two_kernel"},
    {"store", "ordered"},
    {"store", "split"},
    {"store_compressed", "sequential"}};

TEST(GpuEdges, RowsWithoutKeysAreZeroInEveryPolicy) {
  // More queries than keys: rows 0 to 25 see nothing.
  Spec spec = named("causal", DType::bf16);
  spec.sq = 45;
  spec.sk = 19;
  World exact(spec), coded(spec, eightBits);
  for (auto [policy, dq] : kPolicies) {
    const World &w = policy == std::string("store_compressed") ? coded : exact;
    PipelineOptions p = gpuOptions(w);
    p.pPolicy = policy;
    p.dqPolicy = dq;
    auto e = compiled(w, p);
    ASSERT_TRUE(e);
    Results r = w.run(e->executable);
    EXPECT_EQ(w.failures(r), "") << policy << " " << dq;
    expectNothingSeen(spec, r, 26);
  }
}

TEST(GpuEdges, FiniteHiddenValuesNeverMatter) {
  World w(narrowWindow(named("window", DType::bf16)));
  for (auto [policy, dq] : kPolicies) {
    PipelineOptions p = gpuOptions(w);
    p.pPolicy = policy;
    p.dqPolicy = dq;
    p.deterministic = dq != std::string("atomic");
    auto e = compiled(w, p);
    ASSERT_TRUE(e);
    expectHiddenValuesNeverMatter(w, e->executable,
                                  policy + std::string(" ") + dq);
  }
}

TEST(GpuEdges, ANaNRowStaysInItsRow) {
  World w(named("causal", DType::bf16));
  auto e = compiled(w, gpuOptions(w));
  ASSERT_TRUE(e);
  expectNaNStaysInItsRow(w, e->executable);
}

} // namespace
