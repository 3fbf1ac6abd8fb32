//===- MaskTilesTest.cpp - which tiles are computed -------------------------===//
//
// Runs variants with tile counters. A tile must be computed if it has a visible
// entry, and for masks that the analysis reads exactly only then: however the
// mask is written, forward and backward.
//
//===----------------------------------------------------------------------===//

#include "tests/e2e/Harness.h"

using namespace fathom;
using namespace fathom::test;

namespace {

using Visible =
    std::function<bool(int64_t i, int64_t j, int64_t sq, int64_t sk)>;
constexpr int64_t kBlockM = 16, kBlockN = 8;

/// A variant by its mask region; sk, sq, off, last (= i + off) and some
/// constants are at hand, %m is the mask.
std::string withMask(const std::string &body,
                     const std::string &captures = "") {
  return "fa.variant @v(" + captures + R"()
    mask (%b: index, %h: index, %i: index, %j: index) {
      %sk = fa.seqlen_k : index
      %sq = fa.seqlen_q : index
      %off = arith.subi %sk, %sq : index
      %last = arith.addi %i, %off : index
      %true = arith.constant true
      %false = arith.constant false
      %c0 = arith.constant 0 : index
      %c4 = arith.constant 4 : index
      %c5 = arith.constant 5 : index
      %c20 = arith.constant 20 : index
      %c23 = arith.constant 23 : index
      %c28 = arith.constant 28 : index
      %d = arith.subi %last, %j : index
      )" +
         body + R"(
      fa.yield %m : i1
    })";
}

/// Tiles of all sequences that have a visible entry.
int64_t countVisible(const Spec &s, const Visible &visible) {
  std::vector<std::pair<int64_t, int64_t>> sequences(s.batch, {s.sq, s.sk});
  if (!s.cuQ.empty()) {
    sequences.clear();
    for (size_t n = 1; n < s.cuQ.size(); ++n)
      sequences.push_back({s.cuQ[n] - s.cuQ[n - 1], s.cuK[n] - s.cuK[n - 1]});
  }
  int64_t tiles = 0;
  for (auto [sq, sk] : sequences)
    for (int64_t i0 = 0; i0 < sq; i0 += kBlockM)
      for (int64_t j0 = 0; j0 < sk; j0 += kBlockN) {
        bool any = false;
        for (int64_t i = i0; i < std::min(sq, i0 + kBlockM); ++i)
          for (int64_t j = j0; j < std::min(sk, j0 + kBlockN); ++j)
            any |= visible(i, j, sq, sk);
        tiles += any;
      }
  return tiles;
}

/// Compiles and runs; checks the results and returns the tiles a head and nest
/// computed, which all nests must agree on.
int64_t countComputed(Spec spec, const std::string &pPolicy = "",
                      double (*roundP)(double) = nullptr) {
  spec.heads = 2;
  spec.kvHeads = 1;
  spec.d = spec.dv = 8;
  World w(spec, roundP);
  CompileOptions o = w.options();
  o.blockM = kBlockM;
  o.blockN = kBlockN;
  o.countTiles = true;
  o.pPolicy = pPolicy;
  auto e = w.compile(o);
  if (!e)
    return -1;
  cpu::resetCounters();
  EXPECT_EQ(w.failures(w.run(*e)), "") << spec.text;
  std::vector<int64_t> counts;
  for (int id = 0; id < cpu::kNumCounters; ++id)
    if (cpu::readCounter(id))
      counts.push_back(cpu::readCounter(id));
  if (counts.empty())
    return 0;
  EXPECT_EQ(counts.size(), 2u) << "forward and backward";
  for (int64_t n : counts)
    EXPECT_EQ(n, counts[0]) << spec.text;
  return counts[0] / spec.heads;
}

Spec specOf(std::string text, int64_t sq = 75, int64_t sk = 83) {
  Spec s;
  s.name = "mask";
  s.text = std::move(text);
  s.sq = sq;
  s.sk = sk;
  return s;
}

void expectExact(const Spec &s, const Visible &visible) {
  EXPECT_EQ(countComputed(s), countVisible(s, visible)) << s.text;
}

TEST(MaskTiles, EveryFormOfCausalComputesItsTiles) {
  Visible causal = [](int64_t i, int64_t j, int64_t sq, int64_t sk) {
    return j <= i + sk - sq;
  };
  for (auto [sq, sk] : {std::pair<int64_t, int64_t>{75, 83}, {83, 41}})
    expectExact(specOf("fa.variant @v causal", sq, sk), causal);
  for (const char *body : {
           "%x = arith.subi %j, %i : index\n %m = arith.cmpi sle, %x, %off : "
           "index",
           "%x = arith.cmpi sgt, %j, %last : index\n %m = arith.xori %x, %true "
           ": i1",
           "%x = arith.cmpi sgt, %j, %last : index\n %m = arith.select %x, "
           "%false, %true : i1",
           "%x = arith.addi %j, %c5 : index\n %y = arith.addi %last, %c5 : "
           "index\n"
           " %m = arith.cmpi sge, %y, %x : index",
       })
    expectExact(specOf(withMask(body)), causal);
}

TEST(MaskTiles, EveryFormOfAWindowComputesItsTiles) {
  Visible window = [](int64_t i, int64_t j, int64_t sq, int64_t sk) {
    return j <= i + sk - sq && j >= i + sk - sq - 20;
  };
  expectExact(specOf("fa.variant @v causal window(left = 20)"), window);
  for (const char *body : {
           "%m = arith.cmpi ule, %d, %c20 : index",
           "%x = arith.cmpi slt, %d, %c0 : index\n %y = arith.cmpi sgt, %d, "
           "%c20 : index\n"
           " %z = arith.ori %x, %y : i1\n %m = arith.xori %true, %z : i1",
           "%x = arith.cmpi sge, %d, %c0 : index\n %y = arith.cmpi sle, %d, "
           "%c20 : index\n"
           " %m = arith.select %x, %y, %false : i1",
       })
    expectExact(specOf(withMask(body)), window);
}

TEST(MaskTiles, EveryFormOfAPrefixComputesItsTiles) {
  Visible prefix = [](int64_t i, int64_t j, int64_t sq, int64_t sk) {
    return j <= i + sk - sq || j < 23;
  };
  for (const char *body : {
           "%x = arith.cmpi sle, %j, %last : index\n %y = arith.cmpi slt, %j, "
           "%c23 : index\n"
           " %m = arith.ori %x, %y : i1",
           "%x = arith.cmpi sgt, %j, %last : index\n %y = arith.cmpi sge, %j, "
           "%c23 : index\n"
           " %z = arith.andi %x, %y : i1\n %m = arith.select %z, %false, %true "
           ": i1",
           "%x = arith.addi %last, %c5 : index\n %y = arith.addi %j, %c5 : "
           "index\n"
           " %one = arith.constant 1 : index\n %c27 = arith.subi %c28, %one : "
           "index\n"
           " %z = arith.maxsi %x, %c27 : index\n %m = arith.cmpi sle, %y, %z : "
           "index",
       })
    expectExact(specOf(withMask(body)), prefix);
}

TEST(MaskTiles, ComposedMasks) {
  // A sink and a window: the gap between the two is skipped.
  expectExact(specOf(withMask("%x = arith.cmpi sle, %d, %c20 : index\n"
                              "%y = arith.cmpi slt, %j, %c4 : index\n"
                              "%z = arith.ori %x, %y : i1\n"
                              "%c = arith.cmpi sge, %d, %c0 : index\n"
                              "%m = arith.andi %z, %c : i1")),
              [](int64_t i, int64_t j, int64_t sq, int64_t sk) {
                int64_t d = i + sk - sq - j;
                return d >= 0 && (d <= 20 || j < 4);
              });
  // Every fourth diagonal: tiles hold some of each.
  expectExact(specOf(withMask("%x = arith.remsi %d, %c4 : index\n"
                              "%y = arith.cmpi eq, %x, %c0 : index\n"
                              "%c = arith.cmpi sge, %d, %c0 : index\n"
                              "%m = arith.andi %c, %y : i1")),
              [](int64_t i, int64_t j, int64_t sq, int64_t sk) {
                int64_t d = i + sk - sq - j;
                return d >= 0 && d % 4 == 0;
              });
  // Blocks of 28 on the diagonal.
  expectExact(
      specOf(withMask("%x = arith.divui %i, %c28 : index\n"
                      "%y = arith.divui %j, %c28 : index\n"
                      "%m = arith.cmpi eq, %x, %y : index")),
      [](int64_t i, int64_t j, int64_t, int64_t) { return i / 28 == j / 28; });
  // Nothing at all.
  expectExact(specOf(withMask("%m = arith.cmpi sgt, %j, %sk : index")),
              [](int64_t, int64_t, int64_t, int64_t) { return false; });
}

TEST(MaskTiles, StoredProbabilitiesDoNotBringHiddenTilesBack) {
  Visible causal = [](int64_t i, int64_t j, int64_t sq, int64_t sk) {
    return j <= i + sk - sq;
  };
  Spec s = specOf("fa.variant @v causal");
  for (const char *policy : {"store", "store_compressed"})
    EXPECT_EQ(countComputed(s, policy, policy[5] ? eightBits : nullptr),
              countVisible(s, causal));
}

TEST(MaskTiles, NumbersThatMeanNoLimit) {
  Visible causal = [](int64_t i, int64_t j, int64_t sq, int64_t sk) {
    return j <= i + sk - sq;
  };
  expectExact(specOf("fa.variant @v causal window(left = 9223372036854775807)"),
              causal);
  Spec s = specOf("fa.variant @v(%w: index) causal\n"
                  "mask (%b: index, %h: index, %i: index, %j: index) {\n"
                  "  %x = arith.subi %i, %w : index\n"
                  "  %m = arith.cmpi sle, %x, %j : index\n"
                  "  fa.yield %m : i1\n"
                  "}");
  s.captures = [](const Spec &, std::mt19937_64 &) {
    Tensor w = Tensor::zeros(DType::i64, {});
    *reinterpret_cast<int64_t *>(w.data) = std::numeric_limits<int64_t>::max();
    return std::vector<Tensor>{w};
  };
  expectExact(s, causal);
}

TEST(MaskTiles, IdsFromMemoryAreTestedTileByTile) {
  for (Spec s : standardSpecs())
    if (s.name == "document")
      expectExact(s, [](int64_t i, int64_t j, int64_t, int64_t) {
        return j <= i && i / 11 == j / 11;
      });
}

TEST(MaskTiles, DistancesAsFloatsAreTestedTileByTile) {
  Spec s = specOf("fa.variant @v(%far: f32)\n"
                  "mask (%b: index, %h: index, %i: index, %j: index) {\n"
                  "  %x = fa.distance %i, %j : f32\n"
                  "  %m = arith.cmpf olt, %x, %far : f32\n"
                  "  fa.yield %m : i1\n"
                  "}");
  s.captures = [](const Spec &spec, std::mt19937_64 &) {
    Tensor far = Tensor::zeros(accType(spec.dtype), {});
    far.store(0, 20);
    return std::vector<Tensor>{far};
  };
  expectExact(s, [](int64_t i, int64_t j, int64_t sq, int64_t sk) {
    return std::abs(i + sk - sq - j) < 20;
  });
}

/// Random mask regions over %i, %j, %last, %off, a captured number and ids.
struct MaskWriter {
  std::mt19937 random;
  std::string text;
  int names = 0;

  int pick(int n) {
    return std::uniform_int_distribution<int>(0, n - 1)(random);
  }
  std::string op(const std::string &op, const std::string &a,
                 const std::string &b, const std::string &type = "index") {
    std::string name = "%v" + std::to_string(names++);
    text += name + " = " + op + a + (b.empty() ? "" : ", " + b) + " : " + type +
            "\n";
    return name;
  }
  std::string number(int64_t x) {
    return op("arith.constant ", std::to_string(x), "");
  }
  std::string index(int depth) {
    const char *leaves[] = {"%i", "%j", "%last", "%off", "%p", "%d"};
    if (depth == 0 || pick(5) == 0)
      return pick(4) ? leaves[pick(6)] : number(pick(60) - 10);
    std::string a = index(depth - 1), b = index(pick(depth));
    switch (pick(9)) {
    case 0:
      return op("arith.addi ", a, b);
    case 1:
    case 2:
      return op("arith.subi ", a, b);
    case 3:
      return op("arith.muli ", a, number(pick(4) - 1));
    case 4:
      return op("arith.divsi ", a, number(1 + pick(20)));
    case 5:
      return op("arith.remsi ", a, number(1 + pick(20)));
    case 6:
      return op("arith.minsi ", a, b);
    case 7:
      return op("arith.maxsi ", a, b);
    default:
      return op("arith.select " + mask(0) + ", ", a, b);
    }
  }
  std::string mask(int depth) {
    const char *predicates[] = {"sle", "slt", "sge", "sgt",
                                "eq",  "ne",  "ult", "uge"};
    if (depth == 0 && pick(8) == 0)
      return op("arith.cmpi eq, ",
                op("tensor.extract ", "%ids[%i]", "", "tensor<?xi32>"),
                op("tensor.extract ", "%ids[%j]", "", "tensor<?xi32>"), "i32");
    if (depth == 0)
      return op(std::string("arith.cmpi ") + predicates[pick(8)] + ", ",
                index(pick(3)), index(pick(2)));
    const char *ops[] = {"arith.andi ", "arith.andi ", "arith.ori ",
                         "arith.xori "};
    std::string a = mask(depth - 1), b = mask(pick(depth));
    return pick(5) ? op(ops[pick(4)], a, b, "i1")
                   : op("arith.select " + mask(0) + ", ", a, b, "i1");
  }
};

TEST(MaskTiles, RandomMasksThroughAllPasses) {
  const char *policies[] = {"ordered", "atomic", "split", "two_kernel",
                            "sequential"};
  for (unsigned seed = 0; seed < (fullRun() ? 200 : 12); ++seed) {
    MaskWriter writer{std::mt19937(seed), "", 0};
    std::string m = writer.mask(writer.pick(4));
    Spec s =
        specOf(withMask(writer.text + "%m = arith.andi " + m + ", %true : i1",
                        "%ids: tensor<?xi32>, %p: index"),
               61, seed % 2 ? 93 : 44);
    if (seed % 3 == 0) {
      s.cuQ = {0, 5, 5, 40, 61};
      s.cuK = {0, 9, 29, 29, s.sk};
    }
    s.heads = 2, s.kvHeads = 1, s.d = s.dv = 8;
    s.captures = [&](const Spec &, std::mt19937_64 &) {
      Tensor ids = Tensor::zeros(DType::i32, {100}),
             p = Tensor::zeros(DType::i64, {});
      for (int64_t n = 0; n < ids.size(); ++n)
        ids.store(n, n % 2 ? n / 13 : n % 3);
      p.store(0, writer.pick(80) - 10);
      return std::vector<Tensor>{ids, p};
    };
    World w(s);
    CompileOptions o = w.options();
    o.blockN = kBlockN;
    o.dqPolicy = policies[seed % 5];
    EXPECT_EQ(w.problems(o), "") << "seed " << seed << "\n" << s.text;
  }
}

TEST(MaskTiles, PackedSequencesHaveTheirOwnTiles) {
  Spec s = specOf("fa.variant @v causal window(left = 20)", 117, 140);
  s.cuQ = {0, 5, 5, 70, 71, 117};
  s.cuK = {0, 9, 9, 9, 60, 140};
  expectExact(s, [](int64_t i, int64_t j, int64_t sq, int64_t sk) {
    return j <= i + sk - sq && j >= i + sk - sq - 20;
  });
}

} // namespace
