//===- GpuMatrixTest.cpp - instances for GPUs, emulated ---------------------===//
//
// Forward and backward of many instances by the whole pipeline for GPUs, run by
// the emulator and compared with the oracle: variants, types, head dims,
// policies, strides and tilings, chosen so that each pair of choices is met.
// Results and workspaces start as NaN; asynchronous copies land early and late,
// threads run in several orders.
//
//===----------------------------------------------------------------------===//

#include "tests/e2e/GpuHarness.h"

using namespace fathom;
using namespace fathom::test;

namespace {

//===----------------------------------------------------------------------===//
// What there is to choose
//===----------------------------------------------------------------------===//

const std::vector<std::string> kVariants = {
    "plain",  "causal",   "window", "softcap", "alibi", "bias",
    "prefix", "document", "packed", "gqa_2",   "gqa_8", "mqa"};
const std::vector<DType> kTypes = {DType::bf16, DType::f16, DType::f32,
                                   DType::f64};
const std::vector<std::pair<int, int>> kHeadDims = {
    {16, 16}, {40, 40},   {64, 64},   {72, 72},   {80, 80},
    {96, 96}, {128, 128}, {192, 128}, {256, 256}, {512, 512}};
struct Policies {
  const char *p, *dq;
  bool deterministic;
};
const std::vector<Policies> kPolicies = {
    {"recompute", "atomic", false},
    {"recompute", "ordered", true},
    {"recompute", "split", true},
    {"recompute", "two_kernel", true},
    {"recompute", "sequential", true},
    {"store", "atomic", false},
    {"store", "ordered", false},
    {"store", "split", true},
    {"store", "two_kernel", true},
    {"store", "sequential", false},
    {"store_compressed", "atomic", false},
    {"store_compressed", "ordered", true},
    {"store_compressed", "two_kernel", false},
    {"", "", false},
    {"", "", true}};
/// Block sizes (0: default) and lengths.
struct Tiling {
  int64_t m, n, sq, sk;
};
const std::vector<Tiling> kTilings = {{32, 32, 40, 70},  {64, 32, 100, 45},
                                      {16, 64, 33, 140}, {32, 16, 65, 20},
                                      {64, 64, 64, 128}, {0, 0, 150, 140}};
/// How arrays lie in memory, and whether the kernels are for aligned ones.
struct Strides {
  const char *name;
  bool aligned;
};
const std::vector<Strides> kStrides = {{"contiguous", true},
                                       {"contiguous", false},
                                       {"heads_inside", true},
                                       {"odd", false}};
const std::vector<const char *> kTargets = {"sm_80", "sm_90", "sm_90a"};
const std::vector<bool> kLseGrads = {true, false};

/// Numbers of choices, in this order.
using Choice = std::array<int, 8>;
const Choice kCounts = {int(kVariants.size()), int(kTypes.size()),
                        int(kHeadDims.size()), int(kPolicies.size()),
                        int(kTilings.size()),  int(kStrides.size()),
                        int(kTargets.size()),  int(kLseGrads.size())};

/// Factors of 512 doubles a row fit in the default tiles only.
bool fits(const Choice &c) {
  return kTypes[c[1]] != DType::f64 || kHeadDims[c[2]].first < 512 ||
         kTilings[c[4]].m == 0;
}

bool isAllowed(const Choice &c) {
  if (fullRun())
    return fits(c);
  auto [d, dv] = kHeadDims[c[2]];
  const Tiling &t = kTilings[c[4]];
  // What takes the emulator long.
  if (d > 128 && (t.m == 0 || t.m * t.n > 1024 || kVariants[c[0]] == "gqa_8"))
    return false;
  if (d > 80 && t.m == 0 && byteSize(kTypes[c[1]]) > 2)
    return false;
  return fits(c);
}

/// `count` choices that meet as many pairs as they can, always the same ones.
/// `fixed`: what the first three are in each, else they are free.
std::vector<Choice> pairwise(size_t count, llvm::ArrayRef<Choice> fixed = {}) {
  std::mt19937 random(17);
  std::set<std::array<int, 4>> met;
  auto pairs = [&](const Choice &c, bool add) {
    int fresh = 0;
    for (int a = 0; a < int(c.size()); ++a)
      for (int b = 0; b < a; ++b) {
        std::array<int, 4> pair = {a, c[a], b, c[b]};
        fresh += add ? met.insert(pair).second : !met.count(pair);
      }
    return fresh;
  };
  std::vector<Choice> all;
  while (all.size() < count) {
    Choice best = {};
    int most = -1;
    for (int attempt = 0; attempt < 300; ++attempt) {
      Choice c;
      for (size_t k = 0; k < c.size(); ++k)
        c[k] = random() % kCounts[k];
      if (!fixed.empty())
        std::copy_n(fixed[all.size()].begin(), 3, c.begin());
      int fresh = isAllowed(c) ? pairs(c, false) : -1;
      if (fresh > most) {
        most = fresh;
        best = c;
      }
    }
    pairs(best, true);
    all.push_back(best);
  }
  return all;
}

std::vector<Choice> selection() {
  // Plain and causal attention as most use it come first.
  std::vector<Choice> all = {
      {0, 0, 2, 0, 5, 0, 1, 0}, {1, 0, 6, 0, 5, 0, 1, 0},
      {1, 0, 8, 0, 5, 0, 1, 0}, {3, 0, 5, 0, 5, 0, 0, 0},
      {1, 0, 6, 0, 5, 0, 2, 0}, {9, 1, 2, 0, 5, 0, 2, 0},
      {8, 0, 5, 0, 5, 1, 2, 0}, {0, 0, 8, 0, 5, 0, 2, 0}};
  std::vector<Choice> fixed;
  if (fullRun())
    for (int v = 0; v < kCounts[0]; ++v)
      for (int t = 0; t < kCounts[1]; ++t)
        for (int d = 0; d < kCounts[2]; ++d)
          if (Choice c = {v, t, d}; fits(c))
            fixed.push_back(c);
  for (const Choice &c : pairwise(fullRun() ? fixed.size() : 58, fixed))
    if (!llvm::is_contained(all, c))
      all.push_back(c);
  return all;
}

//===----------------------------------------------------------------------===//
// Running one
//===----------------------------------------------------------------------===//

std::string nameOf(const Choice &c) {
  auto [d, dv] = kHeadDims[c[2]];
  const Policies &p = kPolicies[c[3]];
  const Tiling &t = kTilings[c[4]];
  const Strides &s = kStrides[c[5]];
  return kVariants[c[0]] + "_" + std::string(name(kTypes[c[1]])) + "_d" +
         std::to_string(d) + "_" + std::to_string(dv) + "_" +
         (*p.p ? p.p : "default") + "_" + (*p.dq ? p.dq : "default") +
         (p.deterministic ? "_deterministic" : "") + "_" + std::to_string(t.m) +
         "x" + std::to_string(t.n) + "_" + std::to_string(t.sq) + "x" +
         std::to_string(t.sk) + "_" + s.name +
         (s.aligned ? "_aligned_" : "_any_") + kTargets[c[6]] +
         (kLseGrads[c[7]] ? "" : "_no_dlse");
}

Spec specOf(const Choice &c) {
  const std::string &variant = kVariants[c[0]];
  const Tiling &tiling = kTilings[c[4]];
  Spec s;
  for (const Spec &standard : standardSpecs())
    if (standard.name == variant)
      s = standard;
  if (s.name.empty())
    s.text = "fa.variant @v causal";
  s.name = variant;
  s.dtype = kTypes[c[1]];
  std::tie(s.d, s.dv) = kHeadDims[c[2]];
  s.heads = s.kvHeads = 2;
  if (variant == "gqa_2")
    s.heads = 4;
  if (variant == "gqa_8")
    s.heads = 16;
  if (variant == "mqa") {
    s.heads = 3;
    s.kvHeads = 1;
  }
  s.sq = tiling.sq;
  s.sk = tiling.sk;
  if (!s.cuQ.empty()) {
    // A sequence without queries, one without keys, ends anywhere.
    s.cuQ = {0, s.sq / 4, s.sq / 4, s.sq - 7, s.sq};
    s.cuK = {0, s.sk / 2, s.sk / 2 + 9, s.sk / 2 + 9, s.sk};
  }
  return s;
}

/// An array of NaN that `t` is a part of, and `t` itself with its values.
Tensor placed(const Tensor &t, const std::string &how) {
  Tensor outer;
  if (how == "contiguous")
    return t;
  Dims shape = t.shape;
  if (how == "odd") {
    for (int64_t &n : shape)
      n += 1 + (n % 2); // odd
    outer = Tensor::zeros(t.dtype, shape);
    outer.fill(NAN);
    outer.data += byteSize(t.dtype) * 3;
  } else {
    // Rows of all heads beside each other.
    std::swap(shape[1], shape[2]);
    outer = Tensor::zeros(t.dtype, shape);
    outer.fill(NAN);
    std::vector<int64_t> order = {0, 2, 1};
    if (t.rank() == 4)
      order.push_back(3);
    outer = outer.permuted(order);
  }
  outer.shape = t.shape;
  for (int64_t n = 0; n < t.size(); ++n)
    outer.store(outer.offsetOf(n), t.load(t.offsetOf(n)));
  return outer;
}

/// Runs with results placed as `how`.
Results run(const World &w, const Executable &e, const std::string &how) {
  const Spec &s = w.spec;
  DType acc = accType(s.dtype);
  auto fresh = [&](DType type, Dims shape, bool rows = true) {
    Tensor t = Tensor::zeros(type, std::move(shape));
    return rows ? placed(t, how) : t;
  };
  Dims o = w.x.q.shape;
  o[3] = s.dv;
  Results r;
  r.o = fresh(s.dtype, o);
  r.lse = fresh(acc, {s.batch, s.heads, s.sq});
  r.dq = fresh(s.dtype, w.x.q.shape);
  r.dk = fresh(s.dtype, w.x.k.shape);
  r.dv = fresh(s.dtype, w.x.v.shape);
  for (const Tensor &c : w.x.captures)
    r.dCaptures.push_back(isFloat(c.dtype) ? fresh(acc, c.shape, false)
                                           : Tensor());
  Status status = e.run(w.x, r);
  EXPECT_TRUE(status.ok()) << status.message();
  return r;
}

class GpuMatrix : public testing::TestWithParam<Choice> {};

TEST_P(GpuMatrix, EqualsTheOracle) {
  const Choice &c = GetParam();
  const Policies &policies = kPolicies[c[3]];
  const Strides &strides = kStrides[c[5]];
  World w(specOf(c),
          policies.p == std::string("store_compressed") ? eightBits : nullptr);
  if (!kLseGrads[c[7]]) {
    w.x.dLse.fill(0);
    w.answer(w.coded ? eightBits : nullptr);
  }
  PipelineOptions p =
      gpuOptions(w, kTargets[c[6]], kTilings[c[4]].m, kTilings[c[4]].n);
  p.pPolicy = policies.p;
  p.dqPolicy = policies.dq;
  p.deterministic = policies.deterministic;
  p.aligned = strides.aligned;
  p.lseGrad = kLseGrads[c[7]];
  std::string error;
  auto e = Emulated::compile(w, p, error);
  if (!e && error.find("choose smaller blocks") != std::string::npos) {
    error.clear();
    p.blockM = p.blockN = 16;
    p.stages = 1;
    e = Emulated::compile(w, p, error);
  }
  ASSERT_TRUE(e) << error;
  for (Tensor *t : {&w.x.q, &w.x.k, &w.x.v, &w.x.dO, &w.x.dLse})
    *t = placed(*t, strides.name);
  std::optional<Results> first;
  for (const emulation::Options &order : emulationOrders()) {
    e->options = order;
    Results r = run(w, e->executable, strides.name);
    EXPECT_EQ(w.failures(r), "")
        << "latest " << order.latest << ", seed " << order.seed;
    if (HasFailure())
      return;
    if (policies.deterministic && first)
      for (auto [a, b] : {std::pair(&first->o, &r.o),
                          {&first->dq, &r.dq},
                          {&first->dk, &r.dk},
                          {&first->dv, &r.dv}})
        EXPECT_EQ(a->values(), b->values());
    first = r;
  }
}

INSTANTIATE_TEST_SUITE_P(, GpuMatrix, testing::ValuesIn(selection()),
                         [](auto &info) { return nameOf(info.param); });

} // namespace
