//===- GpuNotAttentionTest.cpp - other programs for GPUs, emulated ----------===//
//
// The functions of not-attention.mlir by the map stage for GPUs, and a copy as
// a kernel by hand, run by the emulator.
//
//===----------------------------------------------------------------------===//

#include "codegen/cuda/CudaCodegen.h"
#include "passes/Passes.h"
#include "passes/Pipeline.h"
#include "tests/e2e/NotAttention.h"
#include "tests/emulation/EmulatedMachine.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

using namespace fathom;
using namespace fathom::test;

namespace {

/// A file for a GPU; `passes` replace the map stage if given.
class GpuFile {
public:
  emulation::Options options; ///< of the runs that follow

  explicit GpuFile(const std::string &text, const std::string &target,
                   const std::string &passes = "") {
    static const bool registered = (registerFAPasses(), true);
    (void)registered;
    mlir::DialectRegistry registry;
    registerFA(registry);
    mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
    context.loadAllAvailableDialects();
    auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    PipelineOptions p;
    p.startAfter = "nest";
    p.target = target;
    mlir::PassManager pm(&context);
    auto made = passes.empty() ? buildPipeline(pm, p, llvm::errs())
                               : mlir::parsePassPipeline(passes, pm);
    if (!module || failed(made) || failed(pm.run(*module))) {
      ADD_FAILURE() << "not compiled";
      return;
    }
    if (auto emitted = cuda::emitProgram(*module))
      program = *emitted;
    else
      ADD_FAILURE() << llvm::toString(emitted.takeError());
    EXPECT_EQ(cuda::check(program), "");
    emulatedCount.number += program.kernels.size();
  }

  template <typename... Args>
  void run(const char *name, Args &...args) {
    const cuda::Plan *plan = program.find(name);
    ASSERT_NE(plan, nullptr) << name;
    void *pointers[] = {pointerTo(args)...};
    auto given = cuda::fromDescriptors(*plan, pointers);
    emulation::EmulatedMachine machine(program);
    machine.options = options;
    for (const cuda::CallArgument &a : given) {
      int64_t last = 0, size = 1;
      for (int d = 0; d < a.rank; ++d) {
        last += (a.sizes[d] - 1) * a.strides[d];
        size *= a.sizes[d];
      }
      if (a.rank >= 0 && size > 0)
        machine.memory.add(a.data, (last + 1) * cuda::sizeOf(a.type), true);
    }
    std::vector<int64_t> results(plan->results.size());
    Status s = cuda::PlanRunner(program, *plan)
                   .run(given, machine, {}, results.data());
    EXPECT_TRUE(s.ok()) << name << ": " << s.message();
    for (size_t n = 0; n < results.size(); ++n)
      *static_cast<int64_t *>(pointers[given.size() + n]) = results[n];
  }

private:
  template <typename T>
  static void *pointerTo(test::Array<T> &a) {
    return a.argument();
  }
  template <typename T>
  static void *pointerTo(T &scalar) {
    return &scalar;
  }

  cuda::Program program;
};

class GpuNotAttention : public testing::TestWithParam<const char *> {
protected:
  static GpuFile &file() {
    static std::map<std::string, GpuFile> files;
    auto it = files.find(GetParam());
    if (it == files.end()) {
      auto text =
          llvm::MemoryBuffer::getFile(FATHOM_TEST_DIR "/not-attention.mlir");
      it = files
               .emplace(GetParam(),
                        GpuFile((*text)->getBuffer().str(), GetParam()))
               .first;
    }
    it->second.options = {.latest = true, .seed = 1};
    return it->second;
  }
};

TEST_P(GpuNotAttention, GemmBias) {
  gemmBias(file(), 64, 128, 64, 0);
  gemmBias(file(), 129, 70, 67, 0);
  gemmBias(file(), 65, 5, 1, 1);
  gemmBias(file(), 100, 90, 130, 2);
  gemmBias(file(), 0, 0, 10, 0);
  gemmBias(file(), 3, 3, 0, 0);
}
TEST_P(GpuNotAttention, LayerNorm) { layerNorm(file()); }
TEST_P(GpuNotAttention, GemmExpGemm) { gemmExpGemm(file()); }
TEST_P(GpuNotAttention, IndexResult) { rowBlocks(file()); }

TEST_P(GpuNotAttention, ColumnSums) {
  std::vector<std::vector<float>> ordered;
  for (unsigned seed : {0, 1, 2}) {
    file().options.seed = seed;
    columnSums(file(), "column_sum_atomic");
    file().options.seed = seed;
    ordered.push_back(columnSums(file(), "column_sum_ordered"));
  }
  EXPECT_EQ(ordered[0], ordered[1]);
  EXPECT_EQ(ordered[0], ordered[2]);
}

INSTANTIATE_TEST_SUITE_P(Targets, GpuNotAttention,
                         testing::Values("sm_80", "sm_90"),
                         [](auto &info) { return std::string(info.param); });

// A kernel that no pass has made: tiles of 64x32 by way of shared memory, and
// the rest of the rows by registers.
constexpr const char *kCopy = R"(
#rows = #fa_gpu.layout<registers = [4:1:1, 4:0:16], lanes = [8:1:4, 4:0:1], warps = [4:0:4]>
!shared = !fa_gpu.shared<64x32xf32, pitch = 36>
fa_gpu.kernel @copy_tiles(%x: memref<?x32xf32>, %y: memref<?x32xf32>, %n: index)
    num_warps(4) min_blocks(1) alignments([16, 16, 0]) {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %b = fa_gpu.block_id
  %i = arith.muli %b, %c64 : index
  %s = fa_gpu.alloc : !shared
  fa_gpu.copy_async %x[%i, %c0] below(%n, %c32) to %s vector 16 : memref<?x32xf32>, !shared
  fa_gpu.commit
  fa_gpu.wait 0
  %t = fa_gpu.load_shared %s : !shared -> tensor<64x32xf32, #rows>
  fa.store %t, %y[%i, %c0] below(%n, %c32) : tensor<64x32xf32, #rows>, memref<?x32xf32>
  fa_gpu.return
}
fa_gpu.kernel @copy_registers(%x: memref<?x32xf32>, %y: memref<?x32xf32>, %n: index)
    num_warps(4) min_blocks(1) alignments([0, 0, 0]) {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %t = fa.load %x[%c0, %c0] below(%n, %c32) : memref<?x32xf32> -> tensor<64x32xf32, #rows>
  fa.store %t, %y[%c0, %c0] below(%n, %c32) : tensor<64x32xf32, #rows>, memref<?x32xf32>
  fa_gpu.return
}
func.func @copy(%x: memref<?x32xf32>, %y: memref<?x32xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c63 = arith.constant 63 : index
  %c64 = arith.constant 64 : index
  %n = memref.dim %x, %c0 : memref<?x32xf32>
  %r = arith.addi %n, %c63 : index
  %blocks = arith.divui %r, %c64 : index
  fa_gpu.launch @copy_tiles grid(%blocks) (%x, %y, %n) : memref<?x32xf32>, memref<?x32xf32>, index
  fa_gpu.launch @copy_registers grid(%c1) (%x, %y, %n) : memref<?x32xf32>, memref<?x32xf32>, index
  return
}
)";

TEST(GpuKernelByHand, Copies) {
  GpuFile file(kCopy, "sm_80",
               "fa-gpu-place-barriers,fa-gpu-assign-shared-memory");
  for (bool latest : {false, true})
    for (int64_t n : {0, 1, 64, 100}) {
      test::Array<float> x({n, 32}), y({n, 32});
      x.fill(n);
      file.options = {.latest = latest, .seed = 1};
      file.run("copy", x, y);
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < 32; ++j)
          ASSERT_EQ(x(i, j), y(i, j)) << i << " " << j;
    }
}

} // namespace
