//===- PolicyTest.cpp - every policy, and what it promises ------------------===//

#include "tests/e2e/HiddenChecks.h"

using namespace fathom;
using namespace fathom::test;

namespace {

const char *const kPPolicies[] = {"recompute", "store", "store_compressed"};
const char *const kDQPolicies[] = {"sequential", "atomic", "ordered", "split",
                                   "two_kernel"};

std::vector<std::pair<std::string, std::string>> allPolicies() {
  std::vector<std::pair<std::string, std::string>> all;
  for (const char *p : kPPolicies)
    for (const char *dq : kDQPolicies)
      all.push_back({p, dq});
  return all;
}

Spec named(const char *name) {
  for (const Spec &s : standardSpecs())
    if (s.name == name)
      return s;
  ADD_FAILURE() << "no variant " << name;
  return {};
}

TEST(Policy, EveryPPolicyWithEveryDQPolicyIsRight) {
  int64_t runs = 0;
  std::vector<const char *> names = {"softcap", "gqa_6_3"};
  if (fullRun())
    names.insert(names.end(),
                 {"causal", "alibi", "document", "ragged", "packed", "bias"});
  for (const char *name : names) {
    World exact(named(name)), coded(named(name), eightBits);
    for (auto [p, dq] : allPolicies()) {
      const World &w = p == "store_compressed" ? coded : exact;
      CompileOptions o = w.options();
      o.pPolicy = p;
      o.dqPolicy = dq;
      EXPECT_EQ(w.problems(o), "") << name << ", p = " << p << ", dq = " << dq;
      ++runs;
    }
  }
  std::printf("count: policies %ld\n", (long)runs);
}

TEST(Policy, PartsOfTheKeysAreMergedToTheSame) {
  int64_t runs = 0;
  for (Spec s : standardSpecs()) {
    World w(s);
    for (int64_t splits : {2, 7}) {
      CompileOptions o = w.options();
      o.blockM = 16;
      o.blockN = 8;
      o.kvSplits = splits;
      EXPECT_EQ(w.problems(o), "") << s.name << ", " << splits << " parts";
      ++runs;
    }
  }
  std::printf("count: split-keys %ld\n", (long)runs);
}

TEST(Policy, PartsOfTheKeysDoNotDependOnThreads) {
  World w(named("causal"));
  CompileOptions o = w.options();
  o.blockN = 8;
  o.kvSplits = 4;
  o.deterministic = true;
  auto e = w.compile(o);
  ASSERT_TRUE(e);
  cpu::setThreadCount(1);
  Results first = w.run(*e);
  for (int threads : {2, 5}) {
    cpu::setThreadCount(threads);
    EXPECT_TRUE(sameBits(first, w.run(*e))) << threads << " threads";
  }
  cpu::setThreadCount(0);
}

TEST(Policy, FewQueryRowsGetPartsOfTheKeys) {
  struct Case {
    int64_t batch, heads, kvHeads, sq, sk, parts;
  };
  CompileOptions open;
  open.instance.gradients = false;
  for (const Case &c :
       {Case{1, 32, 32, 1, 8192, 16}, // 528 / 32, a power of two
        Case{4, 32, 32, 1, 8192, 4}, Case{64, 32, 32, 1, 8192, 1},
        Case{1, 1, 1, 1, 1 << 20, 64}, // no more than that
        Case{1, 32, 32, 1, 600, 4},    // of 128 keys or more
        Case{1, 32, 32, 32, 8192, 16}, Case{1, 32, 32, 33, 8192, 1},
        Case{1, 32, 8, 1, 65536, 64}, // four query heads are an item
        Case{16, 32, 8, 1, 8192, 4}, Case{16, 32, 8, 3, 8192, 1},
        Case{16, 32, 8, 4, 8192, 1}}) {
    Operands x;
    x.q.shape = {c.batch, c.heads, c.sq, 64};
    x.k.shape = {c.batch, c.kvHeads, c.sk, 64};
    CompileOptions o = open;
    chooseForSizes(o, x);
    EXPECT_EQ(o.kvSplits, c.parts) << c.batch << " " << c.sq << " " << c.sk;
    EXPECT_EQ(o.seqlenQHint, c.sq);
    // Not where gradients are wanted, nor where the bits must not depend on
    // the batch; what is given stays.
    o = open;
    o.instance.gradients = true;
    chooseForSizes(o, x);
    EXPECT_EQ(o.kvSplits, 1);
    o = open;
    o.deterministic = true;
    chooseForSizes(o, x);
    EXPECT_EQ(o.kvSplits, 1);
    o.kvSplits = 3;
    chooseForSizes(o, x);
    EXPECT_EQ(o.kvSplits, 3);
  }
}

TEST(Policy, FewKVHeadsGetPartsOfTheQueryHeads) {
  struct Case {
    int64_t batch, heads, kvHeads, sk, parts;
  };
  for (const Case &c : {Case{4, 32, 1, 4096, 8}, // 128 blocks of keys
                        Case{4, 32, 4, 4096, 2}, Case{4, 32, 8, 4096, 1},
                        Case{1, 12, 2, 128, 2}, // of six heads no four parts
                        Case{1, 4, 4, 128, 1}}) {
    Operands x;
    x.q.shape = {c.batch, c.heads, c.sk, 64};
    x.k.shape = {c.batch, c.kvHeads, c.sk, 64};
    CompileOptions o;
    chooseForSizes(o, x);
    EXPECT_EQ(o.groupSplits, c.parts) << c.heads << " " << c.kvHeads;
    o.deterministic = true;
    o.groupSplits = 0;
    chooseForSizes(o, x);
    EXPECT_EQ(o.groupSplits, 1);
  }
}

TEST(Policy, EightBitProbabilitiesAreWithinTheStatedError) {
  // round(-8 log2 p): half a step is a factor of 2^(1/16).
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> exponent(-31.7, 0);
  for (int n = 0; n < 10000; ++n) {
    double p = std::exp2(exponent(random));
    EXPECT_LE(std::abs(eightBits(p) - p), 0.0443 * p);
  }
  EXPECT_EQ(eightBits(0), 0);
  EXPECT_EQ(eightBits(1), 1);
}

TEST(Policy, DeterministicPoliciesDoNotDependOnThreads) {
  for (const char *name : {"gqa_8_2", "alibi", "bias"})
    for (const char *dq : {"sequential", "ordered", "split", "two_kernel"}) {
      World w(named(name));
      CompileOptions o = w.options();
      o.dqPolicy = dq;
      o.deterministic = true;
      auto e = w.compile(o);
      ASSERT_TRUE(e);
      cpu::setThreadCount(1);
      Results first = w.run(*e);
      for (int threads : {1, 2, 3, 7, 2, 2, 2, 2}) {
        cpu::setThreadCount(threads);
        EXPECT_TRUE(sameBits(first, w.run(*e)))
            << name << ", dq = " << dq << ", " << threads << " threads";
      }
      cpu::setThreadCount(0);
    }
}

TEST(Policy, ADeterministicScheduleRefusesAtomics) {
  World w(named("plain"));
  CompileOptions o = w.options();
  o.dqPolicy = "atomic";
  o.deterministic = true;
  auto e = fathom::compile(*w.source, o);
  ASSERT_FALSE(e.ok());
  EXPECT_NE(e.status().message().find(
                "expected sequential, ordered, split or two_kernel "
                "in a deterministic schedule, got atomic"),
            std::string::npos)
      << e.status().message();
}

//===----------------------------------------------------------------------===//
// Hidden entries
//===----------------------------------------------------------------------===//

/// Causal with more queries than keys: rows 0 to 25 see nothing, and the last
/// key rows are seen by the last query rows only.
Spec hiddenSpec() {
  Spec s = named("causal");
  s.sq = 45;
  s.sk = 19;
  return s;
}

TEST(Hidden, RowsWithoutKeysAreZeroInEveryPolicy) {
  World exact(hiddenSpec()), coded(hiddenSpec(), eightBits);
  for (auto [p, dq] : allPolicies()) {
    const World &w = p == "store_compressed" ? coded : exact;
    CompileOptions o = w.options();
    o.pPolicy = p;
    o.dqPolicy = dq;
    auto e = w.compile(o);
    ASSERT_TRUE(e);
    Results r = w.run(*e);
    EXPECT_EQ(w.failures(r), "") << p << " " << dq;
    expectNothingSeen(w.spec, r, 26);
  }
}

TEST(Hidden, RowsWithoutKeysAreZeroInPartsOfTheKeys) {
  World w(hiddenSpec());
  CompileOptions o = w.options();
  o.blockN = 8;
  o.kvSplits = 5; // of three blocks
  auto e = w.compile(o);
  ASSERT_TRUE(e);
  Results r = w.run(*e);
  EXPECT_EQ(w.failures(r), "");
  EXPECT_EQ(r.lse.at({0, 0, 25}), -INFINITY);
  EXPECT_EQ(r.o.at({0, 0, 25, 3}), 0);
}

TEST(Hidden, FiniteHiddenValuesNeverMatter) {
  World w(narrowWindow(named("window")));
  for (auto [p, dq] : allPolicies()) {
    CompileOptions o = w.options();
    o.pPolicy = p;
    o.dqPolicy = dq;
    auto e = w.compile(o);
    ASSERT_TRUE(e);
    expectHiddenValuesNeverMatter(w, *e, p + " " + dq);
  }
}

TEST(Hidden, PaddingNeverReachesAnOutput) {
  // Tensors inside larger ones full of NaN: what lies past an end is not read.
  for (const char *name : {"ragged", "dims_48_40"})
    for (std::string p : kPPolicies) {
      World w(named(name), p == "store_compressed" ? eightBits : nullptr);
      auto embed = [](Tensor &t) {
        std::vector<int64_t> big = t.shape;
        for (int64_t &n : big)
          n += 3;
        Tensor outer = Tensor::zeros(t.dtype, big);
        outer.fill(NAN);
        Tensor inner = outer;
        inner.shape = t.shape;
        for (int64_t n = 0; n < t.size(); ++n)
          inner.store(inner.offsetOf(n), t.load(t.offsetOf(n)));
        t = inner;
      };
      for (Tensor *t : {&w.x.q, &w.x.k, &w.x.v, &w.x.dO, &w.x.dLse})
        embed(*t);
      CompileOptions o = w.options();
      o.pPolicy = p;
      EXPECT_EQ(w.problems(o), "") << name << " " << p;
    }
}

TEST(Hidden, ANaNRowStaysInItsRow) {
  World w(named("causal"));
  auto e = w.compile(w.options());
  ASSERT_TRUE(e);
  expectNaNStaysInItsRow(w, *e);
}

} // namespace
