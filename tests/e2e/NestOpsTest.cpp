//===- NestOpsTest.cpp - every op of the nest level on the CPU --------------===//
//
// Small programs, written out or generated, against plain loops: elementwise
// ops in f32 and f64, conversions, control flow with tiles, layouts, memory.
//
//===----------------------------------------------------------------------===//

#include "tests/e2e/CpuHarness.h"

#include <bit>
#include <cmath>
#include <fmt/format.h>
#include <functional>
#include <limits>

using namespace fathom;
using namespace fathom::test;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

class NestOps : public testing::TestWithParam<std::string> {
protected:
  Program compile(const std::string &text) {
    return Program::fromText(text, GetParam());
  }
};

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

struct FloatOp {
  std::string op;
  std::function<double(double, double)> f;
  double lo, hi;
  double ulps; // in the type
  bool binary = false;
};

const std::vector<FloatOp> &floatOps() {
  auto unary = [](const char *op, double (*f)(double), double lo, double hi,
                  double ulps = 2) {
    return FloatOp{op, [f](double x, double) { return f(x); }, lo, hi, ulps};
  };
  static const std::vector<FloatOp> ops = {
      unary("math.absf", std::fabs, -3, 3, 0),
      unary(
          "arith.negf", [](double x) { return -x; }, -3, 3, 0),
      unary("math.ceil", std::ceil, -9, 9, 0),
      unary("math.floor", std::floor, -9, 9, 0),
      unary("math.trunc", std::trunc, -9, 9, 0),
      unary("math.round", std::round, -9, 9, 0),
      unary("math.roundeven", std::rint, -9, 9, 0),
      unary("math.exp", std::exp, -80, 80),
      unary("math.exp2", std::exp2, -120, 120),
      unary("math.expm1", std::expm1, -5, 5),
      unary("math.log", std::log, 0.001, 100),
      unary("math.log2", std::log2, 0.001, 100),
      unary("math.log10", std::log10, 0.001, 100),
      unary("math.log1p", std::log1p, -0.5, 10),
      unary("math.sqrt", std::sqrt, 0, 10, 1),
      unary(
          "math.rsqrt", [](double x) { return 1 / std::sqrt(x); }, 0.01, 10),
      unary("math.cbrt", std::cbrt, -10, 10),
      unary("math.tanh", std::tanh, -6, 6, 4),
      unary("math.sin", std::sin, -20, 20),
      unary("math.cos", std::cos, -20, 20),
      unary("math.tan", std::tan, -1.5, 1.5, 4),
      unary("math.atan", std::atan, -5, 5),
      unary("math.sinh", std::sinh, -5, 5, 4),
      unary("math.cosh", std::cosh, -5, 5, 4),
      unary("math.erf", std::erf, -3, 3, 4),
      {"arith.addf", [](double x, double y) { return x + y; }, -3, 3, 1, true},
      {"arith.subf", [](double x, double y) { return x - y; }, -3, 3, 1, true},
      {"arith.mulf", [](double x, double y) { return x * y; }, -3, 3, 1, true},
      {"arith.divf", [](double x, double y) { return x / y; }, 0.5, 3, 1, true},
      {"arith.remf", [](double x, double y) { return std::fmod(x, y); }, 0.5, 9,
       1, true},
      {"arith.maximumf", [](double x, double y) { return std::max(x, y); }, -3,
       3, 0, true},
      {"arith.minimumf", [](double x, double y) { return std::min(x, y); }, -3,
       3, 0, true},
      {"arith.maxnumf", [](double x, double y) { return std::fmax(x, y); }, -3,
       3, 0, true},
      {"arith.minnumf", [](double x, double y) { return std::fmin(x, y); }, -3,
       3, 0, true},
      {"math.powf", [](double x, double y) { return std::pow(x, y); }, 0.1, 5,
       2, true},
      {"math.atan2", [](double x, double y) { return std::atan2(x, y); }, -3, 3,
       2, true},
      {"math.copysign", [](double x, double y) { return std::copysign(x, y); },
       -3, 3, 0, true},
  };
  return ops;
}

template <typename T>
void checkElementwise(NestOps &, const std::string &cpu, const char *type) {
  std::string text;
  for (auto [i, op] : llvm::enumerate(floatOps()))
    text += fmt::format(
        R"(func.func @f{0}(%X: memref<?x21x{1}>, %Y: memref<?x21x{1}>, %Z: memref<?x21x{1}>) {{
  %c0 = arith.constant 0 : index
  %c21 = arith.constant 21 : index
  %m = memref.dim %X, %c0 : memref<?x21x{1}>
  fa.nest parallel(%i = %m step 8) {{
    %x = fa.load %X[%i, %c0] below(%m, %c21) : memref<?x21x{1}> -> tensor<8x21x{1}>
    %y = fa.load %Y[%i, %c0] below(%m, %c21) : memref<?x21x{1}> -> tensor<8x21x{1}>
    %z = {2} {3} : tensor<8x21x{1}>
    fa.store %z, %Z[%i, %c0] below(%m, %c21) : tensor<8x21x{1}>, memref<?x21x{1}>
  }}
  return
}}
)",
        i, type, op.op, op.binary ? "%x, %y" : "%x");
  Program p = Program::fromText(text, cpu);
  for (auto [i, op] : llvm::enumerate(floatOps())) {
    Array<T> x({19, 21}), y({19, 21}), z({19, 21});
    x.fill(i, op.lo, op.hi), y.fill(i + 100, op.lo, op.hi), z.fill(1);
    p.run(("f" + std::to_string(i)).c_str(), x, y, z);
    for (int r = 0; r < 19; ++r)
      for (int c = 0; c < 21; ++c) {
        double expected = op.f(x(r, c), y(r, c));
        double ulp = std::numeric_limits<T>::epsilon() *
                     std::max<double>(std::fabs(expected),
                                      std::numeric_limits<T>::min());
        ASSERT_NEAR(z(r, c), expected, op.ulps * ulp)
            << op.op << " of " << x(r, c) << ", " << y(r, c);
      }
  }
}

TEST_P(NestOps, ElementwiseF32) {
  checkElementwise<float>(*this, GetParam(), "f32");
}
TEST_P(NestOps, ElementwiseF64) {
  checkElementwise<double>(*this, GetParam(), "f64");
}

TEST_P(NestOps, ExponentialsAtTheEnds) {
  Program p = compile(R"(
func.func @f(%X: memref<?xf32>, %E: memref<?xf32>, %E2: memref<?xf32>, %T: memref<?xf32>, %L: memref<?xf32>, %L2: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %m = memref.dim %X, %c0 : memref<?xf32>
  fa.nest parallel(%i = %m step 64) {
    %x = fa.load %X[%i] below(%m) : memref<?xf32> -> tensor<64xf32>
    %e = math.exp %x : tensor<64xf32>
    %e2 = math.exp2 %x : tensor<64xf32>
    %t = math.tanh %x : tensor<64xf32>
    %l = math.log %x : tensor<64xf32>
    %l2 = math.log2 %x : tensor<64xf32>
    fa.store %l, %L[%i] below(%m) : tensor<64xf32>, memref<?xf32>
    fa.store %l2, %L2[%i] below(%m) : tensor<64xf32>, memref<?xf32>
    fa.store %e, %E[%i] below(%m) : tensor<64xf32>, memref<?xf32>
    fa.store %e2, %E2[%i] below(%m) : tensor<64xf32>, memref<?xf32>
    fa.store %t, %T[%i] below(%m) : tensor<64xf32>, memref<?xf32>
  }
  return
})");
  std::vector<float> values = {
      float(-kInf), float(kInf), float(kNaN), 0.0f,    -0.0f,  1e-30f,  -1e-30f,
      -3.4e38f,     3.4e38f,     -1000,       1000,    -87.3f, -100,    -103.9f,
      -104.2f,      88.7f,       88.8f,       -125.9f, -126,   -126.5f, -149,
      -150.5f,      127.9f,      128,         1,       -1,     0.5f,    0.624f,
      0.626f};
  for (int i = 0; i < 4000; ++i)
    values.push_back(-160 + i * 0.075f);
  for (float f : {1e-45f, 1e-40f, 1.1e-38f, 1.2e-38f, 0.7071f, 0.70711f,
                  0.9999f, 1.00001f, 1.4142f, 1.41422f})
    values.push_back(f);
  int64_t n = values.size();
  Array<float> x({n}), e({n}), e2({n}), t({n}), l({n}), l2({n});
  std::copy(values.begin(), values.end(), x.data.begin());
  p.run("f", x, e, e2, t, l, l2);
  auto check = [&](float got, double expected, const char *what, float at) {
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(got)) << what << " " << at;
    } else if (std::isinf(float(expected)) || expected == 0) {
      EXPECT_EQ(got, float(expected)) << what << " " << at;
    } else {
      EXPECT_NEAR(got, expected, 1.5 * 1.2e-7 * std::fabs(expected) + 1.5e-45)
          << what << " " << at;
    }
  };
  for (int64_t i = 0; i < n; ++i) {
    check(e(i), std::exp(double(x(i))), "exp", x(i));
    check(e2(i), std::exp2(double(x(i))), "exp2", x(i));
    check(t(i), std::tanh(double(x(i))), "tanh", x(i));
    check(l(i), std::log(double(x(i))), "log", x(i));
    check(l2(i), std::log2(double(x(i))), "log2", x(i));
  }
}

TEST_P(NestOps, IntegersAndConversions) {
  Program p = compile(R"(
func.func @f(%N: memref<?xi32>, %A: memref<?xi32>, %B: memref<?xf32>, %C: memref<?xindex>, %D: memref<?xi1>) {
  %c0 = arith.constant 0 : index
  %m = memref.dim %N, %c0 : memref<?xi32>
  fa.nest parallel(%i = %m step 32) {
    %n = fa.load %N[%i] below(%m) : memref<?xi32> -> tensor<32xi32>
    %seven = arith.constant dense<7> : tensor<32xi32>
    %three = arith.constant dense<3> : tensor<32xindex>
    %d = arith.divsi %n, %seven : tensor<32xi32>
    %r = arith.remsi %n, %seven : tensor<32xi32>
    %x = arith.xori %d, %r : tensor<32xi32>
    %y = arith.maxsi %x, %n : tensor<32xi32>
    fa.store %y, %A[%i] below(%m) : tensor<32xi32>, memref<?xi32>
    %f = arith.sitofp %n : tensor<32xi32> to tensor<32xf32>
    %half = arith.constant dense<0.5> : tensor<32xf32>
    %g = arith.mulf %f, %half : tensor<32xf32>
    %t = arith.fptosi %g : tensor<32xf32> to tensor<32xi32>
    %tf = arith.sitofp %t : tensor<32xi32> to tensor<32xf32>
    fa.store %tf, %B[%i] below(%m) : tensor<32xf32>, memref<?xf32>
    %at = fa.iota %i : tensor<32xindex>
    %ni = arith.index_cast %n : tensor<32xi32> to tensor<32xindex>
    %s = arith.addi %at, %ni : tensor<32xindex>
    %q = arith.floordivsi %s, %three : tensor<32xindex>
    fa.store %q, %C[%i] below(%m) : tensor<32xindex>, memref<?xindex>
    %lt = arith.cmpi slt, %ni, %at : tensor<32xindex>
    %gt = arith.cmpf ogt, %f, %half : tensor<32xf32>
    %or = arith.ori %lt, %gt : tensor<32xi1>
    fa.store %or, %D[%i] below(%m) : tensor<32xi1>, memref<?xi1>
  }
  return
})");
  int64_t n = 75;
  Array<int32_t> in({n}), a({n});
  Array<float> b({n});
  Array<int64_t> c({n});
  Array<uint8_t> d({n});
  for (int i = 0; i < n; ++i)
    in(i) = (i * 37) % 101 - 50;
  p.run("f", in, a, b, c, d);
  for (int i = 0; i < n; ++i) {
    int v = in(i);
    EXPECT_EQ(a(i), std::max((v / 7) ^ (v % 7), v));
    EXPECT_EQ(b(i), float(int(v * 0.5f)));
    EXPECT_EQ(c(i), int64_t(std::floor((i + v) / 3.0)));
    EXPECT_EQ(d(i), v < i || v > 0.5) << i;
  }
  for (size_t i = n; i < d.data.size(); ++i)
    EXPECT_EQ(d.data[i], 0);
}

//===----------------------------------------------------------------------===//
// Types in memory
//===----------------------------------------------------------------------===//

float fromBf16(uint16_t x) { return std::bit_cast<float>(uint32_t(x) << 16); }

TEST_P(NestOps, SixteenBits) {
  // Y = bf16(X) as bf16, Z = Y + Y in bf16, W = f16(X); ragged, with strides.
  Program p = compile(R"(
!b = memref<?x?xbf16, strided<[?, ?], offset: ?>>
func.func @f(%X: memref<?x?xf32>, %Y: !b, %Z: !b, %W: memref<?x?xf16>, %V: memref<?x?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = memref.dim %X, %c0 : memref<?x?xf32>
  %n = memref.dim %X, %c1 : memref<?x?xf32>
  fa.nest parallel(%i = %m step 8, %j = %n step 24) {
    %x = fa.load %X[%i, %j] below(%m, %n) : memref<?x?xf32> -> tensor<8x24xf32>
    %y = arith.truncf %x : tensor<8x24xf32> to tensor<8x24xbf16>
    fa.store %y, %Y[%i, %j] below(%m, %n) : tensor<8x24xbf16>, !b
    %z0 = fa.load %Z[%i, %j] below(%m, %n) : !b -> tensor<8x24xbf16>
    %z = arith.addf %y, %z0 : tensor<8x24xbf16>
    fa.store %z, %Z[%i, %j] below(%m, %n) : tensor<8x24xbf16>, !b
    %w = arith.truncf %x : tensor<8x24xf32> to tensor<8x24xf16>
    fa.store %w, %W[%i, %j] below(%m, %n) : tensor<8x24xf16>, memref<?x?xf16>
    %w1 = fa.load %W[%i, %j] below(%m, %n) : memref<?x?xf16> -> tensor<8x24xf16>
    %v = arith.extf %w1 : tensor<8x24xf16> to tensor<8x24xf32>
    fa.store %v, %V[%i, %j] below(%m, %n) : tensor<8x24xf32>, memref<?x?xf32>
  }
  return
})");
  for (int kind = 0; kind < 2; ++kind) {
    int64_t m = 11, n = 53;
    Array<float> x({m, n}), v({m, n});
    Array<uint16_t> y({m, n}, 3), z({m, n}), w({m, n});
    if (kind == 1)
      z = Array<uint16_t>({n, m}).transpose();
    x.fill(3, -100, 100);
    x(0, 0) = kNaN, x(0, 1) = kInf, x(0, 2) = 3.4e38f, x(0, 3) = 1 + 1.0f / 256,
         x(0, 4) = 1 + 3.0f / 256;
    for (uint16_t &b : z.data)
      b = 0x3f80; // 1
    p.run("f", x, y, z, w, v);
    EXPECT_TRUE(std::isnan(fromBf16(y(0, 0))));
    EXPECT_EQ(fromBf16(y(0, 1)), kInf);
    EXPECT_EQ(fromBf16(y(0, 2)), kInf);
    EXPECT_EQ(fromBf16(y(0, 3)), 1);             // ties to even
    EXPECT_EQ(fromBf16(y(0, 4)), 1 + 1.0f / 64); // up to the even neighbour
    for (int i = 1; i < m; ++i)
      for (int j = 0; j < n; ++j) {
        float r = fromBf16(y(i, j));
        EXPECT_NEAR(r, x(i, j), std::fabs(x(i, j)) / 256);
        EXPECT_NEAR(fromBf16(z(i, j)), r + 1, std::fabs(r + 1) / 256);
        EXPECT_NEAR(v(i, j), x(i, j), std::fabs(x(i, j)) / 2048);
      }
  }
}

//===----------------------------------------------------------------------===//
// Products and layouts
//===----------------------------------------------------------------------===//

TEST_P(NestOps, ProductsInEveryLayout) {
  // Each factor as it is or transposed; the result as it is or transposed.
  for (auto [m, n, k] :
       {std::tuple(16, 32, 8), std::tuple(13, 7, 5), std::tuple(64, 40, 48),
        std::tuple(1, 1, 1), std::tuple(9, 70, 35)})
    for (int kind = 0; kind < 8; ++kind) {
      bool ta = kind & 1, tb = kind & 2, tc = kind & 4;
      auto shape = [](int a, int b) { return fmt::format("{}x{}", a, b); };
      std::string sa = ta ? shape(k, m) : shape(m, k),
                  sb = tb ? shape(n, k) : shape(k, n);
      std::string sc = tc ? shape(n, m) : shape(m, n);
      auto flip = [&](const char *to, const char *from, const std::string &s,
                      const std::string &r) {
        return fmt::format(
            "    {} = fa.transpose {} : tensor<{}xf32> -> tensor<{}xf32>\n", to,
            from, s, r);
      };
      std::string text = fmt::format(R"(
func.func @f(%A: memref<{0}xf32>, %B: memref<{1}xf32>, %C: memref<{2}xf32>) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %big = arith.constant 1000 : index
  fa.nest parallel(%i = %c1) {{
    %a0 = fa.load %A[%c0, %c0] below(%big, %big) : memref<{0}xf32> -> tensor<{0}xf32>
    %b0 = fa.load %B[%c0, %c0] below(%big, %big) : memref<{1}xf32> -> tensor<{1}xf32>
    %c00 = fa.load %C[%c0, %c0] below(%big, %big) : memref<{2}xf32> -> tensor<{2}xf32>
)",
                                     sa, sb, sc);
      if (ta)
        text += flip("%a", "%a0", sa, shape(m, k));
      if (tb)
        text += flip("%b", "%b0", sb, shape(k, n));
      if (tc)
        text += flip("%c", "%c00", sc, shape(m, n));
      text += fmt::format("    %r{} = fa.dot {}, {}, {} : tensor<{}xf32>, "
                          "tensor<{}xf32>, tensor<{}xf32>\n",
                          tc ? "0" : "", ta ? "%a" : "%a0", tb ? "%b" : "%b0",
                          tc ? "%c" : "%c00", shape(m, k), shape(k, n),
                          shape(m, n));
      if (tc)
        text += flip("%r", "%r0", shape(m, n), sc);
      text +=
          fmt::format("    fa.store %r, %C[%c0, %c0] below(%big, %big) : "
                      "tensor<{0}xf32>, memref<{0}xf32>\n  }}\n  return\n}}\n",
                      sc);
      if (kind > 3 && m > 20)
        continue; // enough with the small ones
      Program p = compile(text);
      Array<float> a(ta ? std::vector<int64_t>{k, m}
                        : std::vector<int64_t>{m, k});
      Array<float> b(tb ? std::vector<int64_t>{n, k}
                        : std::vector<int64_t>{k, n});
      Array<float> c(tc ? std::vector<int64_t>{n, m}
                        : std::vector<int64_t>{m, n});
      a.fill(1), b.fill(2), c.fill(3);
      Array<float> old = c;
      p.run("f", a, b, c);
      for (int i = 0; i < m; ++i)
        for (int j = 0; j < n; ++j) {
          double s = tc ? old(j, i) : old(i, j);
          for (int l = 0; l < k; ++l)
            s += double(ta ? a(l, i) : a(i, l)) * (tb ? b(j, l) : b(l, j));
          ASSERT_NEAR(tc ? c(j, i) : c(i, j), s, 1e-5)
              << m << " " << n << " " << k << " " << kind;
        }
    }
}

TEST_P(NestOps, WideAccumulator) {
  Program p = compile(R"(
func.func @f(%A: memref<9x12xf32>, %B: memref<12x10xf32>, %C: memref<9x10xf64>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %big = arith.constant 100 : index
  fa.nest parallel(%i = %c1) {
    %zero = arith.constant dense<0.0> : tensor<9x10xf64>
    %a = fa.load %A[%c0, %c0] below(%big, %big) : memref<9x12xf32> -> tensor<9x12xf32>
    %b = fa.load %B[%c0, %c0] below(%big, %big) : memref<12x10xf32> -> tensor<12x10xf32>
    %c = fa.dot %a, %b, %zero : tensor<9x12xf32>, tensor<12x10xf32>, tensor<9x10xf64>
    fa.store %c, %C[%c0, %c0] below(%big, %big) : tensor<9x10xf64>, memref<9x10xf64>
  }
  return
})");
  Array<float> a({9, 12}), b({12, 10});
  Array<double> c({9, 10});
  a.fill(1), b.fill(2);
  p.run("f", a, b, c);
  for (int i = 0; i < 9; ++i)
    for (int j = 0; j < 10; ++j) {
      double s = 0;
      for (int l = 0; l < 12; ++l)
        s += double(a(i, l)) * b(l, j);
      ASSERT_NEAR(c(i, j), s, 1e-14);
    }
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

TEST_P(NestOps, CarriedTilesThatSwap) {
  // (a, b, t) -> (b, a + b, transpose of t), n times.
  Program p = compile(R"(
func.func @f(%n: index, %A: memref<6x20xf32>, %B: memref<6x20xf32>, %T: memref<12x12xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %big = arith.constant 100 : index
  fa.nest parallel(%i = %c1) {
    %a = fa.load %A[%c0, %c0] below(%big, %big) : memref<6x20xf32> -> tensor<6x20xf32>
    %b = fa.load %B[%c0, %c0] below(%big, %big) : memref<6x20xf32> -> tensor<6x20xf32>
    %t = fa.load %T[%c0, %c0] below(%big, %big) : memref<12x12xf32> -> tensor<12x12xf32>
    %r:4 = scf.for %k = %c0 to %n step %c1 iter_args(%x = %a, %y = %b, %s = %t, %count = %c0)
        -> (tensor<6x20xf32>, tensor<6x20xf32>, tensor<12x12xf32>, index) {
      %z = arith.addf %x, %y : tensor<6x20xf32>
      %u = fa.transpose %s : tensor<12x12xf32> -> tensor<12x12xf32>
      %next = arith.addi %count, %c1 : index
      scf.yield %y, %z, %u, %next : tensor<6x20xf32>, tensor<6x20xf32>, tensor<12x12xf32>, index
    }
    fa.store %r#0, %A[%c0, %c0] below(%big, %big) : tensor<6x20xf32>, memref<6x20xf32>
    fa.store %r#1, %B[%c0, %c0] below(%r#3, %big) : tensor<6x20xf32>, memref<6x20xf32>
    fa.store %r#2, %T[%c0, %c0] below(%big, %big) : tensor<12x12xf32>, memref<12x12xf32>
  }
  return
})");
  for (int64_t n : {0, 1, 2, 5}) {
    Array<float> a({6, 20}), b({6, 20}), t({12, 12});
    a.fill(1), b.fill(2), t.fill(3);
    Array<float> a0 = a, b0 = b, t0 = t;
    p.run("f", n, a, b, t);
    for (int i = 0; i < 6; ++i)
      for (int j = 0; j < 20; ++j) {
        float x = a0(i, j), y = b0(i, j);
        for (int k = 0; k < n; ++k) {
          float z = x + y;
          x = y, y = z;
        }
        ASSERT_EQ(a(i, j), x) << n;
        ASSERT_EQ(b(i, j), i < n ? y : b0(i, j)) << n;
      }
    for (int i = 0; i < 12; ++i)
      for (int j = 0; j < 12; ++j)
        ASSERT_EQ(t(i, j), n % 2 ? t0(j, i) : t0(i, j));
  }
}

TEST_P(NestOps, BranchesOnTiles) {
  // Adds x to the sum in odd rounds; keeps a count of them per row.
  Program p = compile(R"(
func.func @f(%n: index, %X: memref<10x18xf32>, %Y: memref<10x18xf32>, %M: memref<10xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %big = arith.constant 100 : index
  fa.nest parallel(%i = %c1) sequential(%again = %c2) {
    %zero = arith.constant dense<0.0> : tensor<10x18xf32>
    %none = arith.constant dense<0.0> : tensor<10xf32>
    %one = arith.constant dense<1.0> : tensor<10xf32>
    %r:2 = scf.for %k = %c0 to %n step %c1 iter_args(%sum = %zero, %count = %none)
        -> (tensor<10x18xf32>, tensor<10xf32>) {
      %odd = arith.remui %k, %c2 : index
      %is = arith.cmpi eq, %odd, %c1 : index
      %s:3 = scf.if %is -> (tensor<10x18xf32>, index, tensor<10xf32>) {
        %x = fa.load %X[%c0, %c0] below(%big, %big) : memref<10x18xf32> -> tensor<10x18xf32>
        %e = math.exp %x : tensor<10x18xf32>
        %next = arith.addf %sum, %e : tensor<10x18xf32>
        %m = arith.addf %count, %one : tensor<10xf32>
        scf.yield %next, %k, %m : tensor<10x18xf32>, index, tensor<10xf32>
      } else {
        scf.yield %sum, %c0, %count : tensor<10x18xf32>, index, tensor<10xf32>
      }
      %some = arith.cmpi sgt, %s#1, %c0 : index
      scf.if %some {
        fa.store %s#2, %M[%c0] below(%big) : tensor<10xf32>, memref<10xf32>
      }
      scf.yield %s#0, %s#2 : tensor<10x18xf32>, tensor<10xf32>
    }
    fa.accumulate plain %r#0, %Y[%c0, %c0] below(%big, %big) : tensor<10x18xf32>, memref<10x18xf32>
  }
  return
})");
  for (int64_t n : {0, 1, 2, 7}) {
    Array<float> x({10, 18}), y({10, 18}), m({10});
    x.fill(1);
    p.run("f", n, x, y, m);
    for (int i = 0; i < 10; ++i) {
      ASSERT_EQ(m(i), n / 2);
      for (int j = 0; j < 18; ++j)
        ASSERT_NEAR(y(i, j), 2 * (n / 2) * std::exp(double(x(i, j))),
                    1e-5 * (1 + y(i, j)));
    }
  }
}

TEST_P(NestOps, Reductions) {
  Program p = compile(R"(
func.func @f(%X: memref<?x?xf32>, %R: memref<?xf32>, %C: memref<?xf32>, %S: memref<4xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %m = memref.dim %X, %c0 : memref<?x?xf32>
  %n = memref.dim %X, %c1 : memref<?x?xf32>
  fa.nest parallel(%i = %c1) {
    %x = fa.load %X[%c0, %c0] below(%m, %n) : memref<?x?xf32> -> tensor<20x90xf32>
    %two = arith.constant dense<2.0> : tensor<20x90xf32>
    %y = arith.mulf %x, %two : tensor<20x90xf32>
    %e = math.exp %y : tensor<20x90xf32>
    %r = fa.reduce add %e dim 1 : tensor<20x90xf32> -> tensor<20xf32>
    %c = fa.reduce max %e dim 0 : tensor<20x90xf32> -> tensor<90xf32>
    fa.store %r, %R[%c0] below(%m) : tensor<20xf32>, memref<?xf32>
    fa.store %c, %C[%c0] below(%n) : tensor<90xf32>, memref<?xf32>
    %most = fa.reduce max %c dim 0 : tensor<90xf32> -> f32
    memref.store %most, %S[%c0] : memref<4xf32>
    %total = fa.reduce add %r dim 0 : tensor<20xf32> -> f32
    memref.store %total, %S[%c1] : memref<4xf32>
    %limit = arith.constant dense<1.9> : tensor<20x90xf32>
    %big = arith.cmpf ogt, %y, %limit : tensor<20x90xf32>
    %some = fa.reduce any %big dim 0 : tensor<20x90xi1> -> tensor<90xi1>
    %somewhere = fa.reduce any %some dim 0 : tensor<90xi1> -> i1
    %each = fa.reduce all %big dim 1 : tensor<20x90xi1> -> tensor<20xi1>
    %everywhere = fa.reduce all %each dim 0 : tensor<20xi1> -> i1
    %f1 = arith.uitofp %somewhere : i1 to f32
    %f2 = arith.uitofp %everywhere : i1 to f32
    memref.store %f1, %S[%c2] : memref<4xf32>
    memref.store %f2, %S[%c3] : memref<4xf32>
  }
  return
})");
  for (float level : {-1.0f, 0.96f}) {
    Array<float> x({20, 90}), r({20}), c({90}), s({4});
    x.fill(7, level, 1);
    if (level < 0)
      x(3, 3) = kNaN;
    p.run("f", x, r, c, s);
    double most = 0;
    bool any = false, all = true;
    for (int i = 0; i < 20; ++i) {
      double sum = 0;
      for (int j = 0; j < 90; ++j) {
        double e = std::exp(2 * double(x(i, j)));
        sum += e;
        most = std::fmax(most, e);
        any |= 2 * x(i, j) > 1.9, all &= 2 * x(i, j) > 1.9;
      }
      if (std::isnan(sum))
        EXPECT_TRUE(std::isnan(r(i)));
      else
        EXPECT_NEAR(r(i), sum, 1e-5 * sum);
    }
    for (int j = 0; j < 90; ++j) {
      double e = 0;
      for (int i = 0; i < 20; ++i)
        e = std::fmax(e, std::exp(2 * double(x(i, j))));
      EXPECT_NEAR(c(j), e, 1e-6 * e);
    }
    EXPECT_NEAR(s(0), most, 1e-5);
    EXPECT_EQ(s(2), any);
    EXPECT_EQ(s(3), all);
  }
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

TEST_P(NestOps, GatherAndScatter) {
  Program p = compile(R"(
func.func @f(%T: memref<?x?xf32>, %I: memref<30xi32>, %Y: memref<30x10xf32>, %G: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %big = arith.constant 100 : index
  fa.nest parallel(%one = %c1) {
    %i = fa.load %I[%c0] below(%big) : memref<30xi32> -> tensor<30xi32>
    %ii = arith.index_cast %i : tensor<30xi32> to tensor<30xindex>
    %rows = fa.broadcast %ii dim 0 : tensor<30xindex> -> tensor<30x10xindex>
    %j = fa.iota %c0 : tensor<10xindex>
    %columns = fa.broadcast %j dim 1 : tensor<10xindex> -> tensor<30x10xindex>
    %t = fa.gather %T[%rows, %columns] : memref<?x?xf32>, (tensor<30x10xindex>, tensor<30x10xindex>) -> tensor<30x10xf32>
    fa.store %t, %Y[%c0, %c0] below(%big, %big) : tensor<30x10xf32>, memref<30x10xf32>
    %u = fa.gather %T[%ii, %c1] : memref<?x?xf32>, (tensor<30xindex>, index) -> tensor<30xf32>
    fa.scatter_add plain %u, %G[%ii] : tensor<30xf32>, memref<?xf32>, (tensor<30xindex>)
    fa.scatter_add atomic %t, %G[%rows] : tensor<30x10xf32>, memref<?xf32>, (tensor<30x10xindex>)
  }
  return
})");
  for (int64_t size : {7, 0}) {
    Array<float> t({size, 12}), y({30, 10}), g({size});
    Array<int32_t> index({30});
    t.fill(1);
    for (int i = 0; i < 30; ++i)
      index(i) = i - 5; // below, inside and above
    g.data.assign(g.data.size(), 0);
    y.fill(2);
    p.run("f", t, index, y, g);
    std::vector<double> sums(size);
    for (int i = 0; i < 30; ++i) {
      int row = std::clamp<int>(index(i), 0, std::max<int>(size - 1, 0));
      for (int j = 0; j < 10; ++j) {
        ASSERT_EQ(y(i, j), size ? t(row, j) : 0);
        if (size)
          sums[row] += t(row, j);
      }
      if (size)
        sums[row] += t(row, 1);
    }
    for (int r = 0; r < size; ++r)
      EXPECT_NEAR(g(r), sums[r], 1e-5);
    for (size_t r = size; r < g.data.size(); ++r)
      EXPECT_EQ(g.data[r], 0);
  }
}

TEST_P(NestOps, LimitsAndStrides) {
  // Copies a window of a matrix with any strides; nothing past the limits is
  // read (it is NaN) or written.
  Program p = compile(R"(
!m = memref<?x?xf32, strided<[?, ?], offset: ?>>
func.func @f(%m: index, %n: index, %X: !m, %Y: !m) {
  %c3 = arith.constant 3 : index
  fa.nest parallel(%i = %m step 16, %j = %n step 20) {
    %x = fa.load %X[%i, %j] below(%m, %n) : !m -> tensor<16x20xf32>
    %s = fa.reduce add %x dim 1 : tensor<16x20xf32> -> tensor<16xf32>
    %b = fa.broadcast %s dim 0 : tensor<16xf32> -> tensor<16x20xf32>
    %y = arith.addf %x, %b : tensor<16x20xf32>
    fa.store %y, %Y[%i, %j] below(%m, %n) : tensor<16x20xf32>, !m
  }
  return
})");
  for (auto [m, n] : {std::pair<int64_t, int64_t>(16, 20),
                      {17, 21},
                      {5, 33},
                      {31, 60},
                      {0, 5}})
    for (int kind = 0; kind < 3; ++kind) {
      Array<float> x({m + 2, n + 3}), y({m + 2, n + 3}, kind);
      if (kind == 2)
        x = Array<float>({n + 3, m + 2}).transpose();
      x.fill(1);
      for (int i = 0; i < m + 2; ++i)
        for (int j = 0; j < n + 3; ++j)
          if (i >= m || j >= n)
            x(i, j) = kNaN;
      y.data.assign(y.data.size(), -7);
      p.run("f", m, n, x, y);
      for (int i = 0; i < m + 2; ++i)
        for (int j = 0; j < n + 3; ++j) {
          if (i >= m || j >= n) {
            ASSERT_EQ(y(i, j), -7);
            continue;
          }
          double s = x(i, j);
          for (int l = j / 20 * 20; l < std::min<int>(n, j / 20 * 20 + 20); ++l)
            s += x(i, l);
          ASSERT_NEAR(y(i, j), s, 1e-5)
              << m << " " << n << " " << kind << " at " << i << " " << j;
        }
    }
}

TEST_P(NestOps, TurnsAndTicks) {
  // Even items add their number in order of turns, odd ones only pass theirs.
  Program p = compile(R"(
func.func @f(%n: index, %T: memref<1xi32>, %Y: memref<2xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  fa.nest parallel(%i = %n) {
    fa.tick 5
    %odd = arith.remui %i, %c2 : index
    %is = arith.cmpi eq, %odd, %c1 : index
    scf.if %is {
      fa.pass_turn %i at %T[%c0] : memref<1xi32>
    } else {
      %k = arith.index_cast %i : index to i64
      %f = arith.sitofp %k : i64 to f32
      %t = fa.broadcast %f dim 0 : f32 -> tensor<2xf32>
      fa.accumulate ordered %t, %Y[%c0] below(%c2) turn %i at %T[%c0] : tensor<2xf32>, memref<2xf32>, memref<1xi32>
    }
  }
  return
})");
  for (int threads : {1, 2, 7}) {
    cpu::setThreadCount(threads);
    cpu::resetCounters();
    Array<int32_t> t({1});
    Array<float> y({2});
    int64_t n = 101;
    p.run("f", n, t, y);
    EXPECT_EQ(t(0), 101);
    EXPECT_EQ(y(0), 50 * 51);
    EXPECT_EQ(y(1), 50 * 51);
    EXPECT_EQ(cpu::readCounter(5), 101u);
  }
  cpu::setThreadCount(0);
}

TEST_P(NestOps, ObjectCodeTravels) {
  Program p = compile("func.func @f(%n: index) -> index { return %n : index }");
  ASSERT_TRUE(p.executable);
  auto again = cpu::CpuExecutable::load(
      llvm::MemoryBuffer::getMemBufferCopy(p.executable->object(), "object"));
  ASSERT_TRUE(bool(again)) << llvm::toString(again.takeError());
  int64_t n = 42, r = 0;
  void *args[] = {&n, &r};
  (*again)->lookup("f")(args);
  EXPECT_EQ(r, 42);
  EXPECT_EQ((*again)->lookup("g"), nullptr);
}

TEST(CpuTarget, UnknownNamesAreRefused) {
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
  auto object = cpu::emitObject(*module, cpu::CpuTarget{"pentium-9"});
  ASSERT_FALSE(bool(object));
  EXPECT_EQ(
      llvm::toString(object.takeError()),
      "expected a CPU that LLVM knows, such as x86-64-v3, got 'pentium-9'");
}

INSTANTIATE_TEST_SUITE_P(Cpus, NestOps, testing::ValuesIn(testCpus()),
                         [](auto &info) {
                           std::string s =
                               info.param.empty() ? "host" : info.param;
                           std::replace(s.begin(), s.end(), '-', '_');
                           return s;
                         });

} // namespace
