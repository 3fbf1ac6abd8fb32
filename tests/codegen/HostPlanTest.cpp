//===- HostPlanTest.cpp - host functions become plans -----------------------===//

#include "codegen/cuda/CudaCodegen.h"
#include "dialect/gpu/GpuDialect.h"

#include "mlir/Parser/Parser.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace fathom;
using I = cuda::Instruction;
using cuda::Parameter;

namespace {

llvm::Expected<cuda::Program> program(StringRef text) {
  static MLIRContext *context = [] {
    DialectRegistry registry;
    registerFA(registry);
    auto *made = new MLIRContext(registry, MLIRContext::Threading::DISABLED);
    made->loadAllAvailableDialects();
    return made;
  }();
  auto module = parseSourceString<ModuleOp>(text, context);
  EXPECT_TRUE(bool(module));
  return cuda::emitProgram(*module);
}

TEST(HostPlan, MapsOfBoxes) {
  auto made = program(R"(
fa_gpu.kernel @k(%a: !fa_gpu.box_map<1x64x64xbf16, swizzle = 128>, %b: !fa_gpu.box_map<32x32xf16, swizzle = 64>)
    num_warps(2) min_blocks(1) alignments([0, 0]) {
  fa_gpu.return
}
func.func @f.fwd(%x: memref<?x?x64xbf16, strided<[?, ?, ?], offset: ?>>, %n: index) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %s = memref.dim %x, %c0 : memref<?x?x64xbf16, strided<[?, ?, ?], offset: ?>>
  %w = memref.alloc(%n) : memref<?x64xf16>
  %a = fa_gpu.map_boxes %x[%s, %n, %c64] : memref<?x?x64xbf16, strided<[?, ?, ?], offset: ?>> -> !fa_gpu.box_map<1x64x64xbf16, swizzle = 128>
  %b = fa_gpu.map_boxes %w[%n, %c64] : memref<?x64xf16> -> !fa_gpu.box_map<32x32xf16, swizzle = 64>
  fa_gpu.launch @k grid(%n) (%a, %b) : !fa_gpu.box_map<1x64x64xbf16, swizzle = 128>, !fa_gpu.box_map<32x32xf16, swizzle = 64>
  return
}
)");
  ASSERT_TRUE(bool(made)) << llvm::toString(made.takeError());
  EXPECT_EQ(cuda::check(*made), "");
  const cuda::Plan &plan = made->plans[0];
  ASSERT_EQ(plan.maps.size(), 2u);
  EXPECT_FALSE(plan.maps[0].ofWorkspace);
  EXPECT_EQ(plan.maps[0].array, 0);
  ASSERT_EQ(plan.maps[0].sizes.size(), 3u);
  EXPECT_EQ(plan.code[plan.maps[0].sizes[0].reg].op, I::dim);
  EXPECT_EQ(plan.maps[0].box, (std::vector<int>{1, 64, 64}));
  EXPECT_EQ(plan.maps[0].swizzle, 128);
  EXPECT_TRUE(plan.maps[1].ofWorkspace);
  EXPECT_EQ(plan.maps[1].box, (std::vector<int>{32, 32}));
  ASSERT_EQ(plan.launches[0].parameters.size(), 2u);
  EXPECT_EQ(plan.launches[0].parameters[1].kind, Parameter::map);
  EXPECT_EQ(plan.launches[0].parameters[1].index, 1);
}

TEST(HostPlan, SizesWorkspacesLaunches) {
  auto made = program(R"(
fa_gpu.kernel @k.0(%x: memref<?x8xf32>, %t: memref<?xi32>, %n: index, %s: f32)
    num_warps(2) min_blocks(1) alignments([16, 4, 0, 0]) {
  fa_gpu.return
}
func.func @f.fwd(%x: memref<?x8xf32>, %s: f32, %m: index) -> index {
  %c0 = arith.constant 0 : index
  %c7 = arith.constant 7 : index
  %n = memref.dim %x, %c0 : memref<?x8xf32>
  %r = arith.addi %n, %c7 : index
  %b = arith.divui %r, %c7 : index
  %is = arith.cmpi slt, %b, %m : index
  %g = arith.select %is, %b, %m : index
  %t = memref.alloc(%g) : memref<?xi32>
  fa_gpu.clear %t : memref<?xi32>
  fa_gpu.launch @k.0 grid(%g) (%x, %t, %n, %s) : memref<?x8xf32>, memref<?xi32>, index, f32
  return %b : index
}
)");
  ASSERT_TRUE(bool(made)) << llvm::toString(made.takeError());
  ASSERT_EQ(made->kernels.size(), 1u);
  EXPECT_EQ(made->kernels[0].name, "k_0");
  EXPECT_EQ(made->kernels[0].threads, 64);
  const cuda::Plan *plan = made->find("f.fwd");
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->arguments.size(), 3u);
  EXPECT_EQ(plan->arguments[0].rank, 2);
  EXPECT_EQ(plan->arguments[1].rank, -1);

  std::vector<I::Op> ops;
  for (const I &i : plan->code)
    ops.push_back(i.op);
  EXPECT_EQ(ops, (std::vector<I::Op>{I::constant, I::constant, I::dim, I::addi,
                                     I::divui, I::scalar, I::cmp, I::select,
                                     I::allocate, I::clear, I::launch}));
  ASSERT_EQ(plan->workspaces.size(), 1u);
  EXPECT_EQ(plan->workspaces[0].type, cuda::Scalar::i32);
  EXPECT_EQ(plan->workspaces[0].dims[0].reg, plan->code[7].dst);
  ASSERT_EQ(plan->launches.size(), 1u);
  const cuda::Launch &launch = plan->launches[0];
  EXPECT_EQ(launch.grid, plan->code[7].dst);
  ASSERT_EQ(launch.parameters.size(), 4u);
  EXPECT_EQ(launch.parameters[0].kind, Parameter::argument);
  EXPECT_EQ(launch.parameters[1].kind, Parameter::workspace);
  EXPECT_EQ(launch.parameters[2].kind, Parameter::value);
  EXPECT_EQ(launch.parameters[2].index, plan->code[2].dst);
  EXPECT_EQ(launch.parameters[3].kind, Parameter::argument);
  EXPECT_EQ(launch.parameters[3].index, 1);
  EXPECT_EQ(plan->results, std::vector<int>{plan->code[4].dst});
}

TEST(HostPlan, NamesWhatAPlanLacks) {
  auto made = program(R"(
func.func @f(%x: index) -> index {
  %y = arith.constant 1.0 : f32
  return %x : index
}
)");
  ASSERT_FALSE(bool(made));
  EXPECT_EQ(llvm::toString(made.takeError()),
            "host function @f: arith.constant: expected an op that a plan has");
}

} // namespace
