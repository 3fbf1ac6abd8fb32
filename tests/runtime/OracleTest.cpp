//===- OracleTest.cpp - the oracle against itself and against cheats --------===//

#include "runtime/oracle/ReferenceAttention.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"
#include <cmath>
#include <random>

using namespace fathom;
using namespace fathom::oracle;

namespace {

class Oracle : public ::testing::Test {
protected:
  Oracle() {
    mlir::DialectRegistry registry;
    registerFA(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }

  VariantInterface variant(const std::string &text) {
    module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    if (!module)
      return {};
    return *module->getOps<VariantInterface>().begin();
  }

  Tensor normal(DType type, std::vector<int64_t> shape) {
    Tensor t = Tensor::zeros(type, std::move(shape));
    std::normal_distribution<double> d;
    for (int64_t n = 0; n < t.size(); ++n)
      t.store(n, d(random));
    return t;
  }

  Problem problem(VariantInterface v, DType type, int64_t b, int64_t hq,
                  int64_t hkv, int64_t sq, int64_t sk, int64_t d, int64_t dv) {
    Problem p;
    p.variant = v;
    p.q = normal(type, {b, hq, sq, d});
    p.k = normal(type, {b, hkv, sk, d});
    p.v = normal(type, {b, hkv, sk, dv});
    p.dO = normal(type, {b, hq, sq, dv});
    p.dLse = normal(accType(type), {b, hq, sq});
    return p;
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::mt19937_64 random{3};
};

/// sum(o * dO) + sum(lse * dLse), rows without keys left out.
double loss(Problem p) {
  Tensor dO = p.dO, dLse = p.dLse;
  p.dO = p.dLse = {};
  Answer a = *reference(p, 1);
  double sum = 0;
  for (int64_t n = 0; n < a.o.size(); ++n)
    sum += a.o.load(n) * dO.load(n);
  for (int64_t n = 0; n < a.lse.size(); ++n)
    if (!std::isinf(a.lse.load(n)))
      sum += a.lse.load(n) * dLse.load(n);
  return sum;
}

/// The gradient in `got` against central differences along every entry of `x`.
void expectDifferences(const Problem &p, Tensor x, const Tensor &got,
                       const char *what) {
  const double h = 1e-5;
  for (int64_t n = 0; n < x.size(); ++n) {
    double old = x.load(n);
    x.store(n, old + h);
    double up = loss(p);
    x.store(n, old - h);
    double down = loss(p);
    x.store(n, old);
    EXPECT_NEAR(got.load(n), (up - down) / (2 * h), 5e-9) << what << " " << n;
  }
}

const char *const kBias = R"(
fa.variant @bias(%bias: tensor<?x?xf64>, %cap: f64, %slopes: tensor<?xf64>)
    causal window(left = 5) softcap(%cap) alibi(%slopes)
score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
  %0 = tensor.extract %bias[%h, %j] : tensor<?x?xf64>
  %1 = arith.truncf %0 : f64 to f32
  %2 = arith.addf %s, %1 : f32
  fa.yield %2 : f32
})";

TEST_F(Oracle, GradientsAreDerivatives) {
  Problem p = problem(variant(kBias), DType::f64, 1, 4, 2, 6, 5, 8, 3);
  p.captures = {normal(DType::f64, {4, 5}), Tensor::zeros(DType::f64, {}),
                normal(DType::f64, {4})};
  p.captures[1].store(0, 2.5);
  Answer a = *reference(p, 2);
  EXPECT_EQ(a.lse.at({0, 0, 0}), -INFINITY); // causal, one more query than keys
  EXPECT_EQ(a.o.at({0, 0, 0, 0}), 0);
  EXPECT_EQ(a.dq.at({0, 0, 0, 0}), 0);
  expectDifferences(p, p.q, a.dq, "dq");
  expectDifferences(p, p.k, a.dk, "dk");
  expectDifferences(p, p.v, a.dv, "dv");
  expectDifferences(p, p.captures[0], a.dCaptures[0], "bias");
  expectDifferences(p, p.captures[1], a.dCaptures[1], "cap");
  expectDifferences(p, p.captures[2], a.dCaptures[2], "slopes");
}

TEST_F(Oracle, PackedIsOneProblemPerSequence) {
  VariantInterface v = variant("fa.variant @c causal");
  Problem p = problem(v, DType::f32, 1, 2, 1, 7, 9, 4, 4);
  p.cuSeqlensQ = {0, 3, 3, 7};
  p.cuSeqlensK = {0, 4, 6, 9};
  Answer whole = *reference(p, 1);
  for (int64_t n = 0; n < 3; ++n) {
    auto cut = [](Tensor t, const std::vector<int64_t> &cu, int64_t n) {
      if (!t.defined())
        return t;
      t.data += cu[n] * t.strides[2] * byteSize(t.dtype);
      t.shape[2] = cu[n + 1] - cu[n];
      return t;
    };
    Problem one = p;
    one.cuSeqlensQ = one.cuSeqlensK = {};
    one.q = cut(p.q, p.cuSeqlensQ, n);
    one.dO = cut(p.dO, p.cuSeqlensQ, n);
    one.dLse = cut(p.dLse, p.cuSeqlensQ, n);
    one.k = cut(p.k, p.cuSeqlensK, n);
    one.v = cut(p.v, p.cuSeqlensK, n);
    Answer part = *reference(one, 1);
    EXPECT_EQ(part.o.values(), cut(whole.o, p.cuSeqlensQ, n).values());
    EXPECT_EQ(part.lse.values(), cut(whole.lse, p.cuSeqlensQ, n).values());
    EXPECT_EQ(part.dq.values(), cut(whole.dq, p.cuSeqlensQ, n).values());
    EXPECT_EQ(part.dk.values(), cut(whole.dk, p.cuSeqlensK, n).values());
    EXPECT_EQ(part.dv.values(), cut(whole.dv, p.cuSeqlensK, n).values());
  }
}

TEST_F(Oracle, ThreadsDoNotMatter) {
  Problem p = problem(variant("fa.variant @w window(left = 3, right = 2)"),
                      DType::f32, 2, 4, 2, 9, 9, 5, 6);
  Answer one = *reference(p, 1), three = *reference(p, 3);
  EXPECT_EQ(one.o.values(), three.o.values());
  EXPECT_EQ(one.dk.values(), three.dk.values());
}

// CASES B114: what a tolerance must never accept.
TEST_F(Oracle, ToleranceRefusesWrongAnswers) {
  for (DType type : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    SCOPED_TRACE(std::string(name(type)));
    Problem p =
        problem(variant("fa.variant @full"), type, 1, 2, 2, 64, 64, 32, 32);
    Answer ref = *reference(p, 2), rough = *naive(p, 2);
    auto passes = [&](Tensor Answer::*what, const Tensor &got) {
      Tensor slack = what == &Answer::dq   ? ref.dqSlack
                     : what == &Answer::dk ? ref.dkSlack
                     : what == &Answer::dv ? ref.dvSlack
                                           : Tensor();
      return compare("x", got, ref.*what, rough.*what, type, slack).pass;
    };
    Problem causal = p;
    module.release();
    causal.variant = variant("fa.variant @causal causal");
    Answer wrong = *reference(causal, 2);
    for (auto what : {&Answer::o, &Answer::dq, &Answer::dk, &Answer::dv}) {
      EXPECT_TRUE(passes(what, rough.*what));
      EXPECT_FALSE(passes(what, Tensor::zeros(type, (ref.*what).shape)));
      EXPECT_FALSE(passes(what, wrong.*what));
      Tensor swapped = (ref.*what).to(DType::f64); // heads 0 and 1 swapped
      swapped.data += swapped.strides[1] * 8;
      swapped.strides[1] = -swapped.strides[1];
      EXPECT_FALSE(passes(what, swapped));
    }
    Tensor mean = Tensor::zeros(type, ref.o.shape);
    for (int64_t h = 0; h < 2; ++h)
      for (int64_t c = 0; c < 32; ++c) {
        double sum = 0;
        for (int64_t j = 0; j < 64; ++j)
          sum += p.v.at({0, h, j, c});
        for (int64_t i = 0; i < 64; ++i)
          mean.store(mean.offset({{0, h, i, c}}), sum / 64);
      }
    EXPECT_FALSE(passes(&Answer::o, mean));

    Tensor broken = ref.o.to(DType::f64);
    broken.store(17, NAN);
    EXPECT_FALSE(passes(&Answer::o, broken));
    broken.store(17, INFINITY);
    EXPECT_FALSE(passes(&Answer::o, broken));
  }
}

TEST(Compare, InfinitiesAndNaN) {
  auto one = [](double x) {
    Tensor t = Tensor::zeros(DType::f64, {1});
    t.store(0, x);
    return t;
  };
  auto pass = [&](double got, double ref) {
    return compare("x", one(got), one(ref), one(ref), DType::f16).pass;
  };
  EXPECT_TRUE(pass(-INFINITY, -INFINITY));
  EXPECT_FALSE(pass(-1e30, -INFINITY));
  EXPECT_FALSE(pass(-INFINITY, -1e3));
  EXPECT_TRUE(pass(NAN, NAN));
  EXPECT_FALSE(pass(0, NAN));
  EXPECT_FALSE(pass(NAN, 0));
  EXPECT_TRUE(pass(INFINITY, 70000)); // beyond f16
  EXPECT_FALSE(pass(INFINITY, -70000));
}

} // namespace
