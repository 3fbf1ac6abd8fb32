//===- GpuEdgesTest.cpp - ends, hidden entries, NaN, on GPUs ----------------===//
//
// What kernels for GPUs must not read, write or mix up, under emulation: arrays
// of any size, rows without keys, hidden entries, a row of NaN, a forward
// without gradients.
//
//===----------------------------------------------------------------------===//

#include "tests/e2e/GpuHarness.h"

using namespace fathom;
using namespace fathom::test;

namespace {

Spec named(const char *name, DType type) {
  for (Spec s : standardSpecs())
    if (s.name == name) {
      s.dtype = type;
      return s;
    }
  ADD_FAILURE() << "no variant " << name;
  return {};
}

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

TEST(GpuEdges, ForwardAloneIsRight) {
  for (const char *name : {"causal", "alibi", "packed"}) {
    World w(named(name, DType::f16));
    PipelineOptions p = gpuOptions(w);
    p.backward = false;
    auto e = compiled(w, p);
    ASSERT_TRUE(e);
    Results r = w.run(e->executable);
    EXPECT_FALSE(r.dq.defined());
    EXPECT_EQ(w.failures(r), "") << name;
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
    for (int64_t h = 0; h < spec.heads; ++h)
      for (int64_t i = 0; i < 26; ++i) {
        EXPECT_EQ(r.lse.at({0, h, i}), -INFINITY);
        for (int64_t d = 0; d < spec.d; ++d) {
          EXPECT_EQ(r.o.at({0, h, i, d}), 0);
          EXPECT_EQ(r.dq.at({0, h, i, d}), 0);
        }
      }
  }
}

TEST(GpuEdges, FiniteHiddenValuesNeverMatter) {
  // A window: huge keys and values outside of it, in tiles partly visible.
  Spec s = named("window", DType::bf16);
  s.text = "fa.variant @v window(left = 3, right = 0)";
  World original(s);
  for (auto [policy, dq] : kPolicies) {
    World w = original;
    for (Tensor *t : {&w.x.k, &w.x.v, &w.x.dO, &w.x.dLse})
      *t = t->to(t->dtype);
    PipelineOptions p = gpuOptions(w);
    p.pPolicy = policy;
    p.dqPolicy = dq;
    p.deterministic = dq != std::string("atomic");
    auto e = compiled(w, p);
    ASSERT_TRUE(e);
    // Only rows below 20 get a gradient; keys from 25 on are hidden to them.
    for (int64_t h = 0; h < s.heads; ++h)
      for (int64_t i = 20; i < s.sq; ++i) {
        w.x.dLse.store(w.x.dLse.offset(std::vector<int64_t>{0, h, i}), 0);
        for (int64_t d = 0; d < s.dv; ++d)
          w.x.dO.store(w.x.dO.offset(std::vector<int64_t>{0, h, i, d}), 0);
      }
    Results clean = w.run(e->executable);
    for (int64_t h = 0; h < s.kvHeads; ++h)
      for (int64_t j = 25; j < s.sk; ++j)
        for (int64_t d = 0; d < s.d; ++d) {
          w.x.k.store(w.x.k.offset(std::vector<int64_t>{0, h, j, d}),
                      d % 2 ? 1e30 : -1e30);
          w.x.v.store(w.x.v.offset(std::vector<int64_t>{0, h, j, d}), 1e38);
        }
    Results dirty = w.run(e->executable);
    auto expectEqual = [&](const Tensor &a, const Tensor &b, const char *what) {
      for (int64_t h = 0; h < a.shape[1]; ++h)
        for (int64_t i = 0; i < 20; ++i)
          for (int64_t d = 0; d < a.shape[3]; ++d)
            ASSERT_EQ(a.at({0, h, i, d}), b.at({0, h, i, d}))
                << what << " " << policy << " " << dq << " " << i;
    };
    expectEqual(clean.o, dirty.o, "o");
    expectEqual(clean.dq, dirty.dq, "dq");
    expectEqual(clean.dk, dirty.dk, "dk");
    expectEqual(clean.dv, dirty.dv, "dv");
  }
}

TEST(GpuEdges, ANaNRowStaysInItsRow) {
  World w(named("causal", DType::bf16));
  auto e = compiled(w, gpuOptions(w));
  ASSERT_TRUE(e);
  Results clean = w.run(e->executable);
  w.x.q.store(w.x.q.offset(std::vector<int64_t>{0, 0, 3, 0}), NAN);
  Results dirty = w.run(e->executable);
  for (int64_t i = 0; i < w.spec.sq; ++i)
    for (int64_t d = 0; d < w.spec.dv; ++d) {
      if (i == 3)
        EXPECT_TRUE(std::isnan(dirty.o.at({0, 0, i, d})));
      else
        EXPECT_EQ(clean.o.at({0, 0, i, d}), dirty.o.at({0, 0, i, d})) << i;
      EXPECT_EQ(clean.o.at({0, 1, i, d}), dirty.o.at({0, 1, i, d}));
    }
}

} // namespace
