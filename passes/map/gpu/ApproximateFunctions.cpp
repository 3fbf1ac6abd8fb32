//===- ApproximateFunctions.cpp - fa-gpu-approximate-functions --------------===//
//
// The hardware has an instruction for tanh that is right to 11 bits. Where the
// argument comes of 16-bit numbers, and the result goes to such, it says as much
// as the exact function, which is twenty instructions.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/map/gpu/Gpu.h"
#include "passes/nest/Tiles.h"

#include "mlir/Dialect/Math/IR/Math.h"

namespace fathom {
#define GEN_PASS_DEF_GPUAPPROXIMATEFUNCTIONSPASS
#include "passes/Passes.h.inc"
} // namespace fathom

using namespace mlir;
using namespace fathom;
using namespace fathom::gpu;

namespace {
constexpr StringLiteral kName = "fa-gpu-approximate-functions";

struct GpuApproximateFunctions
    : public fathom::impl::GpuApproximateFunctionsPassBase<
          GpuApproximateFunctions> {
  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<KernelOp>()) {
      SmallVector<math::TanhOp> ops;
      kernel.walk([&](math::TanhOp op) {
        if (isTile(op) && tileType(op).getElementType().isF32())
          ops.push_back(op);
      });
      if (ops.empty())
        continue;
      if (!roundsTo16Bits(kernel)) {
        missed(kernel, kName,
               "nothing here is rounded to 16 bits: tanh stays exact");
        continue;
      }
      for (math::TanhOp op : ops)
        op.setFastmath(op.getFastmath() | arith::FastMathFlags::afn);
      passed(kernel, kName, Twine(ops.size()) + " by the hardware's tanh");
    }
  }
};

} // namespace
