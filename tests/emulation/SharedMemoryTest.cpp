//===- SharedMemoryTest.cpp - passes on shared memory, emulated -------------===//
//
// One program through the map stage with and without its passes on copies,
// under emulation: the results are the same to the bit, and no access races,
// whenever copies land and whatever thread runs first. Loops run 0, 1, 2, 3 and
// more times.
//
//===----------------------------------------------------------------------===//

#include "codegen/cuda/CudaCodegen.h"
#include "dialect/FADialect.h"
#include "passes/Passes.h"
#include "tests/emulation/EmulatedMachine.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

#include <bit>
#include <gtest/gtest.h>

using namespace fathom;
using namespace fathom::emulation;
using fathom::cuda::Scalar;

namespace {

/// O = (X Y^T) Z in blocks of rows of X and steps over rows of Y and Z, the
/// product between them rounded.
const char *const kChain = R"(
func.func @chain(%X: memref<?x64xbf16>, %Y: memref<?x64xbf16>, %Z: memref<?x64xbf16>, %O: memref<?x64xf32>) {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %m = memref.dim %X, %c0 : memref<?x64xbf16>
  %n = memref.dim %Y, %c0 : memref<?x64xbf16>
  fa.nest parallel(%i = %m step 32) {
    %zero = arith.constant dense<0.0> : tensor<32x32xf32>
    %start = arith.constant dense<0.0> : tensor<32x64xf32>
    %x = fa.load %X[%i, %c0] below(%m, %c64) : memref<?x64xbf16> -> tensor<32x64xbf16>
    %o = scf.for %j = %c0 to %n step %c32 iter_args(%acc = %start) -> (tensor<32x64xf32>) {
      %y = fa.load %Y[%j, %c0] below(%n, %c64) : memref<?x64xbf16> -> tensor<32x64xbf16>
      %yt = fa.transpose %y : tensor<32x64xbf16> -> tensor<64x32xbf16>
      %s = fa.dot %x, %yt, %zero : tensor<32x64xbf16>, tensor<64x32xbf16>, tensor<32x32xf32>
      %p = arith.truncf %s : tensor<32x32xf32> to tensor<32x32xbf16>
      %z = fa.load %Z[%j, %c0] below(%n, %c64) : memref<?x64xbf16> -> tensor<32x64xbf16>
      %r = fa.dot %p, %z, %acc : tensor<32x32xbf16>, tensor<32x64xbf16>, tensor<32x64xf32>
      scf.yield %r : tensor<32x64xf32>
    }
    fa.store %o, %O[%i, %c0] below(%m, %c64) : tensor<32x64xf32>, memref<?x64xf32>
  }
  return
}
)";

const char *const kRequired =
    "fa-gpu-lower-converts,fa-gpu-place-barriers,fa-gpu-assign-shared-memory";

cuda::Program compile(const std::string &passes,
                      const std::string &required = kRequired) {
  static bool registered = (registerFAPasses(), true);
  (void)registered;
  mlir::DialectRegistry registry;
  registerFA(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(kChain, &context);
  mlir::PassManager pm(&context);
  if (!module ||
      failed(mlir::parsePassPipeline(
          "fa-map-to-gpu{aligned num-warps=2}," + passes + required, pm)) ||
      failed(pm.run(*module))) {
    ADD_FAILURE() << passes;
    return {};
  }
  auto program = cuda::emitProgram(*module);
  if (!program) {
    ADD_FAILURE() << llvm::toString(program.takeError());
    return {};
  }
  return *program;
}

/// Rows of 64 numbers.
std::vector<uint16_t> numbers(int64_t rows, unsigned seed) {
  std::vector<uint16_t> data(rows * 64 + 8);
  for (uint16_t &x : data) {
    seed = seed * 1664525 + 1013904223;
    x = std::bit_cast<uint32_t>(float(int(seed >> 24) - 128) / 64) >> 16;
  }
  return data;
}
float value(uint16_t x) { return std::bit_cast<float>(uint32_t(x) << 16); }

/// Arrays of `m` and `n` rows.
struct Arrays {
  int64_t m, n;
  std::vector<uint16_t> x = numbers(m, 1), y = numbers(n, 2), z = numbers(n, 3);
  std::vector<float> o = std::vector<float>(m * 64 + 4, -7);

  Status run(const cuda::Program &p, Options options) {
    std::fill(o.begin(), o.end(), -7.f);
    EmulatedMachine machine(p);
    machine.options = options;
    machine.memory.add(x.data(), m * 128, /*writable=*/false, "x");
    machine.memory.add(y.data(), n * 128, /*writable=*/false, "y");
    machine.memory.add(z.data(), n * 128, /*writable=*/false, "z");
    machine.memory.add(o.data(), m * 256, /*writable=*/true, "o");
    int64_t rowsM[] = {m, 64}, rowsN[] = {n, 64}, strides[] = {64, 1};
    std::vector<cuda::CallArgument> args = {
        {Scalar::bf16, 2, x.data(), rowsM, strides},
        {Scalar::bf16, 2, y.data(), rowsN, strides},
        {Scalar::bf16, 2, z.data(), rowsN, strides},
        {Scalar::f32, 2, o.data(), rowsM, strides}};
    return cuda::PlanRunner(p, p.plans[0]).run(args, machine);
  }

  /// Compares `o` to plain loops.
  void check() {
    std::vector<float> expected(m * 64);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        float s = 0;
        for (int64_t k = 0; k < 64; ++k)
          s += value(x[i * 64 + k]) * value(y[j * 64 + k]);
        uint32_t bits = std::bit_cast<uint32_t>(s);
        float p = value((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
        for (int64_t k = 0; k < 64; ++k)
          expected[i * 64 + k] += p * value(z[j * 64 + k]);
      }
    for (int64_t i = 0; i < m * 64; ++i)
      ASSERT_NEAR(o[i], expected[i], 0.01 + 0.001 * n) << i;
    for (int64_t i = m * 64; i < int64_t(o.size()); ++i)
      ASSERT_EQ(o[i], -7);
  }
};

TEST(SharedMemory, CopiesAheadChangeNothing) {
  cuda::Program plain = compile("");
  ASSERT_EQ(plain.plans.size(), 1u);
  struct Case {
    const char *passes, *sign;
  };
  for (Case c :
       {Case{"fa-gpu-copy-async,", "cp_async_wait<0>"},
        Case{"fa-gpu-copy-async,fa-gpu-pipeline-loads,", "cp_async_wait<0>"},
        Case{"fa-gpu-copy-async,fa-gpu-pipeline-loads{stages=1},",
             "cp_async_wait<0>"},
        Case{"fa-gpu-forward-fragments,fa-gpu-copy-async,"
             "fa-gpu-pipeline-loads{stages=3},",
             "cp_async_wait<1>"}}) {
    SCOPED_TRACE(c.passes);
    cuda::Program p = compile(c.passes);
    ASSERT_EQ(p.plans.size(), 1u);
    EXPECT_NE(p.kernels[0].source.find(c.sign), std::string::npos);
    for (int64_t n : {0, 1, 32, 50, 96, 150}) {
      SCOPED_TRACE(n);
      Arrays a{40, n};
      Status s = a.run(plain, {});
      ASSERT_TRUE(s.ok()) << s.message();
      a.check();
      std::vector<float> expected = a.o;
      for (bool latest : {false, true})
        for (unsigned seed : {0u, 1u}) {
          s = a.run(p, {.latest = latest, .seed = seed});
          ASSERT_TRUE(s.ok()) << s.message();
          EXPECT_EQ(a.o, expected);
        }
    }
  }
}

// The checks see what the barriers are for.
TEST(SharedMemory, WithoutBarriersThreadsRace) {
  for (const char *passes :
       {"", "fa-gpu-copy-async,fa-gpu-pipeline-loads{stages=3},"}) {
    cuda::Program p =
        compile(passes, "fa-gpu-lower-converts,fa-gpu-assign-shared-memory");
    ASSERT_EQ(p.plans.size(), 1u);
    Arrays a{40, 96};
    EXPECT_FALSE(a.run(p, {}).ok());
  }
}

} // namespace
