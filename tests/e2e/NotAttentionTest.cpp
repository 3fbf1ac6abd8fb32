//===- NotAttentionTest.cpp - other programs on the CPU target --------------===//
//
// Runs the functions of not-attention.mlir for every vector width this machine
// has and compares them with plain loops.
//
//===----------------------------------------------------------------------===//

#include "tests/e2e/NotAttention.h"

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

TEST_P(NotAttention, GemmBias) {
  gemmBias(program(), 128, 128, 64, 0);
  gemmBias(program(), 129, 70, 67, 0);
  gemmBias(program(), 65, 5, 1, 1);
  gemmBias(program(), 100, 90, 130, 2);
  gemmBias(program(), 0, 0, 10, 0);
  gemmBias(program(), 3, 3, 0, 0);
}
TEST_P(NotAttention, LayerNorm) { layerNorm(program()); }
TEST_P(NotAttention, GemmExpGemm) { gemmExpGemm(program()); }
TEST_P(NotAttention, IndexResult) { rowBlocks(program()); }

TEST_P(NotAttention, ColumnSums) {
  std::vector<std::vector<float>> ordered;
  for (int threads : {1, 2, 5}) {
    cpu::setThreadCount(threads);
    columnSums(program(), "column_sum_atomic");
    ordered.push_back(columnSums(program(), "column_sum_ordered"));
  }
  EXPECT_EQ(ordered[0], ordered[1]);
  EXPECT_EQ(ordered[0], ordered[2]);
  cpu::setThreadCount(0);
}

INSTANTIATE_TEST_SUITE_P(Cpus, NotAttention, testing::ValuesIn(testCpus()),
                         [](auto &info) {
                           std::string s =
                               info.param.empty() ? "host" : info.param;
                           std::replace(s.begin(), s.end(), '-', '_');
                           return s;
                         });

} // namespace
