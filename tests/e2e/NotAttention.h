//===- NotAttention.h - what not-attention.mlir computes --------*- C++ -*-===//
//
// Runs the functions of not-attention.mlir and compares them with plain loops.
// A `Program` has run(name, arrays and scalars...).
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_TESTS_E2E_NOTATTENTION_H
#define FATHOM_TESTS_E2E_NOTATTENTION_H

#include "tests/e2e/CpuHarness.h"

namespace fathom::test {

template <class Program>
void gemmBias(Program &p, int64_t m, int64_t n, int64_t k, int kind) {
  Array<float> a({m, k}, kind == 1 ? 3 : 0), b({k, n}), bias({n}), c({m, n});
  if (kind == 2) {
    a = Array<float>({k, m}).transpose();
    b = Array<float>({n, k}).transpose();
    c = Array<float>({n, m}).transpose();
  }
  a.fill(1), b.fill(2), bias.fill(3), c.fill(4);
  Array<float> untouched = c;
  p.run("gemm_bias", a, b, bias, c);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double s = bias(j), size = 1;
      for (int64_t l = 0; l < k; ++l)
        s += double(a(i, l)) * b(l, j),
            size += std::abs(double(a(i, l)) * b(l, j));
      ASSERT_NEAR(c(i, j), s, 1e-6 * size) << i << " " << j;
    }
  for (size_t i = c.data.size() - 16; i < c.data.size(); ++i)
    ASSERT_EQ(c.data[i], untouched.data[i]);
}

template <class Program>
void layerNorm(Program &p) {
  for (int64_t m : {1, 32, 77}) {
    Array<float> x({m, 40}), y({m, 40});
    x.fill(m);
    p.run("layer_norm", x, y);
    for (int64_t i = 0; i < m; ++i) {
      double s = 0, v = 0;
      for (int j = 0; j < 40; ++j)
        s += x(i, j);
      for (int j = 0; j < 40; ++j)
        v += (x(i, j) - s / 40) * (x(i, j) - s / 40);
      for (int j = 0; j < 40; ++j)
        ASSERT_NEAR(y(i, j), (x(i, j) - s / 40) / std::sqrt(v / 40 + 1e-5),
                    2e-6);
    }
  }
}

template <class Program>
void gemmExpGemm(Program &p) {
  for (auto [m, n] : {std::pair(48, 64), std::pair(101, 45), std::pair(1, 1)}) {
    Array<float> x({m, 64}), w({64, n}), v({n, 24}), z({m, 24});
    x.fill(1), w.fill(2), v.fill(3);
    p.run("gemm_exp_gemm", x, w, v, z);
    // Keys past the end count as exp(0) times rows of zeros.
    for (int64_t i = 0; i < m; ++i)
      for (int64_t d = 0; d < 24; ++d) {
        double sum = 0;
        for (int64_t j = 0; j < n; ++j) {
          double s = 0;
          for (int64_t l = 0; l < 64; ++l)
            s += double(x(i, l)) * w(l, j);
          sum += std::exp(s / 8) * v(j, d);
        }
        ASSERT_NEAR(z(i, d), sum, 2e-5);
      }
  }
}

/// `name` is column_sum_atomic or column_sum_ordered. The sums.
template <class Program>
std::vector<float> columnSums(Program &p, const char *name) {
  int64_t m = 1000, n = 100;
  Array<float> x({m, n}), s({n});
  x.fill(5);
  p.run(name, x, s);
  for (int64_t j = 0; j < n; ++j) {
    double sum = 0;
    for (int64_t i = 0; i < m; ++i)
      sum += x(i, j);
    EXPECT_NEAR(s(j), sum, 1e-4);
  }
  return s.data;
}

template <class Program>
void rowBlocks(Program &p) {
  Array<float> x({33, 2});
  int64_t r = -1;
  p.run("row_blocks", x, r);
  EXPECT_EQ(r, 3);
}

} // namespace fathom::test

#endif // FATHOM_TESTS_E2E_NOTATTENTION_H
