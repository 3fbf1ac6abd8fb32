//===- NotAttentionTest.cpp - other programs on the CPU target --------------===//
//
// Runs the functions of not-attention.mlir for every vector width this machine
// has and compares them with plain loops.
//
//===----------------------------------------------------------------------===//

#include "tests/e2e/CpuHarness.h"

using namespace fathom;
using namespace fathom::test;

namespace {

class NotAttention : public testing::TestWithParam<std::string> {
protected:
  static Program &program(const std::string &cpu) {
    static std::map<std::string, Program> programs;
    auto it = programs.find(cpu);
    if (it == programs.end())
      it = programs
               .emplace(cpu, Program::fromFile(
                                 FATHOM_TEST_DIR "/not-attention.mlir", cpu))
               .first;
    return it->second;
  }
  Program &program() { return program(GetParam()); }
};

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

TEST_P(NotAttention, GemmBias) {
  gemmBias(program(), 128, 128, 64, 0);
  gemmBias(program(), 129, 70, 67, 0);
  gemmBias(program(), 65, 5, 1, 1);
  gemmBias(program(), 100, 90, 130, 2);
  gemmBias(program(), 0, 0, 10, 0);
  gemmBias(program(), 3, 3, 0, 0);
}

TEST_P(NotAttention, LayerNorm) {
  for (int64_t m : {1, 32, 77}) {
    Array<float> x({m, 40}), y({m, 40});
    x.fill(m);
    program().run("layer_norm", x, y);
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

TEST_P(NotAttention, GemmExpGemm) {
  for (auto [m, n] : {std::pair(48, 64), std::pair(101, 45), std::pair(1, 1)}) {
    Array<float> x({m, 64}), w({64, n}), v({n, 24}), z({m, 24});
    x.fill(1), w.fill(2), v.fill(3);
    program().run("gemm_exp_gemm", x, w, v, z);
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

TEST_P(NotAttention, ColumnSums) {
  int64_t m = 1000, n = 100;
  Array<float> x({m, n});
  x.fill(5);
  std::vector<std::vector<float>> ordered;
  for (int threads : {1, 2, 5}) {
    cpu::setThreadCount(threads);
    for (const char *name : {"column_sum_atomic", "column_sum_ordered"}) {
      Array<float> s({n});
      program().run(name, x, s);
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t i = 0; i < m; ++i)
          sum += x(i, j);
        ASSERT_NEAR(s(j), sum, 1e-4);
      }
      if (name == std::string("column_sum_ordered"))
        ordered.push_back(s.data);
    }
  }
  EXPECT_EQ(ordered[0], ordered[1]);
  EXPECT_EQ(ordered[0], ordered[2]);
  cpu::setThreadCount(0);
}

TEST_P(NotAttention, IndexResult) {
  Array<float> x({33, 2});
  int64_t r = -1;
  program().run("row_blocks", x, r);
  EXPECT_EQ(r, 3);
}

INSTANTIATE_TEST_SUITE_P(Cpus, NotAttention, testing::ValuesIn(testCpus()),
                         [](auto &info) {
                           std::string s =
                               info.param.empty() ? "host" : info.param;
                           std::replace(s.begin(), s.end(), '-', '_');
                           return s;
                         });

} // namespace
