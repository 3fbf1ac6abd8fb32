//===- Harness.h - variants, operands and runs for whole-program tests ------===//
//
// A `World` is a variant with random operands and the oracle's answer. Tests
// compile it in many ways, run it, and compare.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_TESTS_E2E_HARNESS_H
#define FATHOM_TESTS_E2E_HARNESS_H

#include "runtime/Compiler.h"
#include "runtime/cpu/CpuRuntime.h"
#include "runtime/oracle/ReferenceAttention.h"
#include "tests/e2e/KernelCount.h"

#include "gtest/gtest.h"
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>

namespace fathom::test {

/// What to make a World of. Captured operands are drawn by `captures`, in the
/// order of the variant.
struct Spec {
  std::string name;
  std::string text;
  DType dtype = DType::f32;
  int64_t batch = 1, heads = 2, kvHeads = 2, sq = 40, sk = 40, d = 16, dv = 16;
  std::vector<int64_t> cuQ, cuK; ///< packed sequences
  std::function<std::vector<Tensor>(const Spec &, std::mt19937_64 &)> captures;
};

inline Tensor normal(DType type, std::vector<int64_t> shape,
                     std::mt19937_64 &random) {
  Tensor t = Tensor::zeros(type, std::move(shape));
  std::normal_distribution<double> d;
  for (int64_t n = 0; n < t.size(); ++n)
    t.store(n, d(random));
  return t;
}

/// The variants that every rule is tested on.
inline std::vector<Spec> standardSpecs() {
  auto prefixMask = R"(
    fa.variant @v(%p: index)
    mask (%b: index, %h: index, %i: index, %j: index) {
      %0 = arith.cmpi slt, %j, %p : index
      %1 = arith.cmpi sle, %j, %i : index
      %2 = arith.ori %0, %1 : i1
      fa.yield %2 : i1
    })";
  auto documentMask = R"(
    fa.variant @v(%ids: tensor<?xi32>) causal
    mask (%b: index, %h: index, %i: index, %j: index) {
      %0 = tensor.extract %ids[%i] : tensor<?xi32>
      %1 = tensor.extract %ids[%j] : tensor<?xi32>
      %2 = arith.cmpi eq, %0, %1 : i32
      fa.yield %2 : i1
    })";
  auto biasScore = R"(
    fa.variant @v(%bias: tensor<?x?xf32>) causal
    score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %0 = tensor.extract %bias[%h, %j] : tensor<?x?xf32>
      %1 = arith.addf %s, %0 : f32
      fa.yield %1 : f32
    })";
  auto scalar = [](DType type, double x) {
    Tensor t = Tensor::zeros(type, {});
    t.store(0, x);
    return t;
  };
  std::vector<Spec> specs;
  auto add = [&](std::string name, std::string text) -> Spec & {
    Spec &s = specs.emplace_back();
    s.name = std::move(name);
    s.text = std::move(text);
    return s;
  };
  add("plain", "fa.variant @v");
  add("causal", "fa.variant @v causal");
  add("window", "fa.variant @v window(left = 7, right = 3)");
  add("softcap", "fa.variant @v(%cap: f32) causal softcap(%cap)").captures =
      [=](const Spec &s, std::mt19937_64 &) {
        return std::vector<Tensor>{scalar(accType(s.dtype), 1.5)};
      };
  add("alibi", "fa.variant @v(%slopes: tensor<?xf32>) causal alibi(%slopes)")
      .captures = [](const Spec &s, std::mt19937_64 &r) {
    return std::vector<Tensor>{normal(accType(s.dtype), {s.heads}, r)};
  };
  add("prefix", prefixMask).captures = [=](const Spec &, std::mt19937_64 &) {
    return std::vector<Tensor>{scalar(DType::i64, 21)};
  };
  add("document", documentMask).captures = [](const Spec &s,
                                              std::mt19937_64 &) {
    Tensor ids = Tensor::zeros(DType::i32, {std::max(s.sq, s.sk)});
    for (int64_t n = 0; n < ids.size(); ++n)
      ids.store(n, n / 11);
    return std::vector<Tensor>{ids};
  };
  Spec &bias = add("bias", biasScore);
  bias.heads = 4;
  bias.captures = [](const Spec &s, std::mt19937_64 &r) {
    return std::vector<Tensor>{normal(accType(s.dtype), {s.heads, s.sk}, r)};
  };
  Spec &gqa = add("gqa_8_2", "fa.variant @v causal");
  gqa.heads = 8;
  gqa.sk = 25;
  gqa.sq = 25;
  Spec &gqa3 = add("gqa_6_3", "fa.variant @v window(left = 9)");
  gqa3.heads = 6;
  gqa3.kvHeads = 3;
  gqa3.sq = 25;
  gqa3.sk = 35;
  Spec &dims = add("dims_48_40", "fa.variant @v causal");
  dims.d = 48;
  dims.dv = 40;
  Spec &longQ = add("more_queries", "fa.variant @v causal");
  longQ.sq = 45;
  longQ.sk = 19;
  Spec &ragged = add("ragged", "fa.variant @v causal top_left softcap(2.0)");
  ragged.batch = 2;
  ragged.sq = 33;
  ragged.sk = 47;
  ragged.d = 13;
  ragged.dv = 5;
  Spec &bf16 = add("bf16", "fa.variant @v causal softcap(3.0)");
  bf16.dtype = DType::bf16;
  bf16.heads = 4;
  Spec &f16 =
      add("f16", "fa.variant @v(%slopes: tensor<?xf32>) alibi(%slopes)");
  f16.dtype = DType::f16;
  f16.sq = 27;
  f16.captures = [](const Spec &s, std::mt19937_64 &r) {
    return std::vector<Tensor>{normal(DType::f32, {s.heads}, r)};
  };
  Spec &packed = add("packed", "fa.variant @v causal");
  packed.heads = 4;
  packed.cuQ = {0, 5, 5, 23, 40};
  packed.cuK = {0, 7, 18, 18, 37};
  packed.sq = 40;
  packed.sk = 37;
  // Ids in no order, shared by no two sequences.
  Spec &mixed = add("documents_packed", R"(
    fa.variant @v(%ids: tensor<?x?xi32>) causal
    mask (%b: index, %h: index, %i: index, %j: index) {
      %0 = tensor.extract %ids[%b, %i] : tensor<?x?xi32>
      %1 = tensor.extract %ids[%b, %j] : tensor<?x?xi32>
      %2 = arith.cmpi eq, %0, %1 : i32
      fa.yield %2 : i1
    })");
  mixed.heads = 4;
  mixed.cuQ = {0, 5, 5, 23, 40};
  mixed.cuK = {0, 7, 18, 18, 37};
  mixed.sk = 37;
  mixed.captures = [](const Spec &s, std::mt19937_64 &r) {
    Tensor ids = Tensor::zeros(DType::i32, {4, 20});
    for (int64_t n = 0; n < ids.size(); ++n)
      ids.store(n, n / 20 * 3 + (n % 20) / 7 + r() % 2);
    return std::vector<Tensor>{ids};
  };
  Spec &padded = add("padded", R"(
    fa.variant @v(%keep: tensor<?x?xf32>)
    mask (%b: index, %h: index, %i: index, %j: index) {
      %0 = tensor.extract %keep[%b, %j] : tensor<?x?xf32>
      %half = arith.constant 0.5 : f32
      %1 = arith.cmpf ogt, %0, %half : f32
      fa.yield %1 : i1
    })");
  padded.batch = 2;
  padded.captures = [](const Spec &s, std::mt19937_64 &) {
    Tensor keep = Tensor::zeros(accType(s.dtype), {s.batch, s.sk});
    for (int64_t n = 0; n < keep.size(); ++n)
      keep.store(n, n >= 9 && n % s.sk < 30);
    return std::vector<Tensor>{keep};
  };
  return specs;
}

struct World {
  Spec spec;
  std::shared_ptr<VariantSource> source;
  Operands x;
  oracle::Answer reference, naive;
  /// The backward's P is rounded by a function: kept in 8 bits.
  bool coded = false;

  explicit World(Spec s, double (*roundP)(double) = nullptr)
      : spec(std::move(s)), coded(roundP) {
    auto parsed = VariantSource::parse(spec.text, spec.name, "");
    EXPECT_TRUE(parsed.ok()) << parsed.status().message();
    source = *parsed;
    std::mt19937_64 random(11);
    auto draw = [&](int64_t heads, int64_t n, int64_t d) {
      return normal(spec.dtype, {spec.batch, heads, n, d}, random);
    };
    x.q = draw(spec.heads, spec.sq, spec.d);
    x.k = draw(spec.kvHeads, spec.sk, spec.d);
    x.v = draw(spec.kvHeads, spec.sk, spec.dv);
    x.dO = draw(spec.heads, spec.sq, spec.dv);
    x.dLse =
        normal(accType(spec.dtype), {spec.batch, spec.heads, spec.sq}, random);
    if (spec.captures)
      x.captures = spec.captures(spec, random);
    if (!spec.cuQ.empty()) {
      x.cuSeqlensQ = list(spec.cuQ, x.maxSeqlenQ);
      x.cuSeqlensK = list(spec.cuK, x.maxSeqlenK);
    }
    answer(roundP);
  }

  /// Asks the oracle again, after a change of the operands.
  void answer(double (*roundP)(double) = nullptr) {
    oracle::Problem p{source->op(), x.q,      x.k,  x.v,   x.captures,
                      spec.cuQ,     spec.cuK, x.dO, x.dLse};
    reference = *oracle::reference(p, 2, coded);
    naive = *oracle::naive(p, 2, roundP);
  }

  CompileOptions options() const {
    CompileOptions o;
    o.instance.dtype = spec.dtype;
    o.instance.headDim = spec.d;
    o.instance.headDimV = spec.dv;
    o.instance.group = spec.heads / spec.kvHeads;
    o.instance.layout = spec.cuQ.empty() ? Layout::bhsd : Layout::packed;
    o.instance.lseGradient = true;
    o.blockM = 16;
    o.blockN = 16;
    return o;
  }

  std::shared_ptr<const Executable> compile(const CompileOptions &o) const {
    auto e = fathom::compile(*source, o);
    EXPECT_TRUE(e.ok()) << spec.name << ": " << e.status().message();
    ++kernelCount.number;
    return e.ok() ? *e : nullptr;
  }

  /// Runs with outputs poisoned by NaN first.
  Results run(const Executable &e) const {
    Results r;
    double nan = std::numeric_limits<double>::quiet_NaN();
    auto fresh = [&](DType type, std::vector<int64_t> shape) {
      Tensor t = Tensor::zeros(type, std::move(shape));
      t.fill(nan);
      return t;
    };
    std::vector<int64_t> o = x.q.shape;
    o[3] = spec.dv;
    r.o = fresh(spec.dtype, o);
    r.lse = fresh(accType(spec.dtype), {spec.batch, spec.heads, spec.sq});
    if (e.gradients) {
      r.dq = fresh(spec.dtype, x.q.shape);
      r.dk = fresh(spec.dtype, x.k.shape);
      r.dv = fresh(spec.dtype, x.v.shape);
      for (const Tensor &c : x.captures)
        r.dCaptures.push_back(
            isFloat(c.dtype) ? fresh(accType(spec.dtype), c.shape) : Tensor());
    }
    Status s = e.run(x, r);
    EXPECT_TRUE(s.ok()) << spec.name << ": " << s.message();
    return r;
  }

  /// Every output by the oracle's rule; the names of those that fail.
  std::string failures(const Results &r) const {
    std::string failed;
    auto check = [&](const char *name, const Tensor &got, const Tensor &ref,
                     const Tensor &nai, DType type, const Tensor &slack = {}) {
      if (!got.defined())
        return;
      auto c = oracle::compare(name, got, ref, nai, type, slack);
      // The naive codes round P, the kernel's exp(x - m_block): two draws of
      // the same error, whose largest may differ by more than 2.
      if (coded)
        c.pass = c.error <= 2 * c.tolerance;
      if (!c.pass)
        failed += " " + c.name + " (" + c.worst + ", error " +
                  std::to_string(c.error) + ", tolerance " +
                  std::to_string(c.tolerance) + ")";
    };
    DType acc = accType(spec.dtype);
    check("o", r.o, reference.o, naive.o, spec.dtype);
    check("lse", r.lse, reference.lse, naive.lse, acc);
    check("dq", r.dq, reference.dq, naive.dq, spec.dtype, reference.dqSlack);
    check("dk", r.dk, reference.dk, naive.dk, spec.dtype, reference.dkSlack);
    check("dv", r.dv, reference.dv, naive.dv, spec.dtype, reference.dvSlack);
    for (size_t c = 0; c < r.dCaptures.size(); ++c)
      if (r.dCaptures[c].defined())
        check("captured gradient", r.dCaptures[c], reference.dCaptures[c],
              naive.dCaptures[c], acc, reference.dCaptureSlacks[c]);
    return failed;
  }

  /// Compiles, runs and checks; what is wrong as text, empty if nothing.
  std::string problems(const CompileOptions &o) const {
    auto e = compile(o);
    return e ? failures(run(*e)) : " does not compile";
  }

private:
  static Tensor list(const std::vector<int64_t> &cu, int64_t &longest) {
    Tensor t = Tensor::zeros(DType::i32, {(int64_t)cu.size()});
    for (size_t n = 0; n < cu.size(); ++n) {
      t.store(n, cu[n]);
      if (n)
        longest = std::max(longest, cu[n] - cu[n - 1]);
    }
    return t;
  }
};

/// True if both hold the same bits.
inline bool sameBits(const Tensor &a, const Tensor &b) {
  return a.defined() == b.defined() &&
         (!a.defined() ||
          std::memcmp(a.data, b.data, a.size() * byteSize(a.dtype)) == 0);
}
inline bool sameBits(const Results &a, const Results &b) {
  for (size_t c = 0; c < a.dCaptures.size(); ++c)
    if (!sameBits(a.dCaptures[c], b.dCaptures[c]))
      return false;
  return sameBits(a.o, b.o) && sameBits(a.lse, b.lse) && sameBits(a.dq, b.dq) &&
         sameBits(a.dk, b.dk) && sameBits(a.dv, b.dv);
}

/// True with tools/check --full: the whole cross instead of a selection.
inline bool fullRun() { return std::getenv("FATHOM_TEST_FULL") != nullptr; }

/// What 8-bit storage makes of a probability: 2^(-c/8), c rounded to whole.
inline double eightBits(double p) {
  double c = std::floor(-8 * std::log2(p) + 0.5);
  return p <= 0 || c >= 255 ? 0 : std::exp2(-std::max(c, 0.0) / 8);
}

} // namespace fathom::test

#endif // FATHOM_TESTS_E2E_HARNESS_H
