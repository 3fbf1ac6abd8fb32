//===- TensorTest.cpp - rounding and views ----------------------------------===//

#include "runtime/Tensor.h"

#include "llvm/ADT/APFloat.h"
#include "gtest/gtest.h"
#include <cmath>
#include <random>

using namespace fathom;

namespace {

const llvm::fltSemantics &semantics(DType type) {
  switch (type) {
  case DType::f16:
    return llvm::APFloat::IEEEhalf();
  case DType::bf16:
    return llvm::APFloat::BFloat();
  case DType::f32:
    return llvm::APFloat::IEEEsingle();
  default:
    return llvm::APFloat::IEEEdouble();
  }
}

double referenceRound(DType type, double x) {
  llvm::APFloat f(x);
  bool lossy;
  f.convert(semantics(type), llvm::APFloat::rmNearestTiesToEven, &lossy);
  f.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven,
            &lossy);
  return f.convertToDouble();
}

TEST(Tensor, EveryPatternOf16BitsSurvives) {
  for (DType type : {DType::f16, DType::bf16}) {
    Tensor t = Tensor::zeros(type, {1});
    auto *bits = reinterpret_cast<uint16_t *>(t.data);
    for (uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
      *bits = pattern;
      double x = t.load(0);
      llvm::APFloat f(semantics(type), llvm::APInt(16, pattern));
      if (std::isnan(x)) {
        EXPECT_TRUE(f.isNaN());
        continue;
      }
      bool lossy;
      f.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven,
                &lossy);
      ASSERT_EQ(x, f.convertToDouble()) << pattern;
      t.store(0, x);
      ASSERT_EQ(*bits, pattern);
    }
  }
}

TEST(Tensor, RoundsOnceToNearestEven) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> mantissa(-2, 2);
  std::uniform_int_distribution<int> exponent(-160, 140), ties(0, 4095);
  for (DType type : {DType::f16, DType::bf16, DType::f32}) {
    Tensor t = Tensor::zeros(type, {1});
    for (int n = 0; n < 20000; ++n) {
      double x =
          n % 2 ? std::ldexp(mantissa(random),
                             exponent(random) / (type == DType::f16 ? 7 : 1))
                : std::ldexp(ties(random), exponent(random) / 8);
      double want = referenceRound(type, x);
      ASSERT_EQ(roundTo(type, x), want) << name(type) << " " << x;
      t.store(0, x);
      ASSERT_EQ(t.load(0), want) << name(type) << " " << x;
    }
    // Just above a tie: a second rounding would go wrong.
    EXPECT_EQ(roundTo(type, 1 + ulp(type, 1) / 2), 1);
    EXPECT_EQ(roundTo(type, 1 + ulp(type, 1) / 2 + 1e-12), 1 + ulp(type, 1));
    EXPECT_EQ(roundTo(type, 1e300), INFINITY);
    EXPECT_TRUE(std::isnan(roundTo(type, NAN)));
  }
}

TEST(Tensor, Views) {
  Tensor t = Tensor::zeros(DType::f32, {2, 3, 4});
  for (int64_t n = 0; n < 24; ++n)
    t.store(n, n);
  Tensor p = t.permuted(std::vector<int64_t>{2, 0, 1});
  EXPECT_EQ(p.shape, (std::vector<int64_t>{4, 2, 3}));
  EXPECT_EQ(p.at({3, 1, 2}), t.at({1, 2, 3}));
  EXPECT_FALSE(p.isContiguous());
  EXPECT_EQ(p.to(DType::f64).at({3, 1, 2}), 23);
  EXPECT_EQ(p.values()[1], 4);
  EXPECT_EQ(t.withLeadingDim().at({0, 1, 2, 3}), 23);
  EXPECT_EQ(t.describe(), "f32[2, 3, 4]");
  EXPECT_EQ(Tensor::zeros(DType::f32, {}).size(), 1);
  EXPECT_EQ(Tensor::zeros(DType::f32, {3, 0}).size(), 0);
}

} // namespace
