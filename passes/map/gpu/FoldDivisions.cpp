//===- FoldDivisions.cpp - fa-gpu-fold-divisions ----------------------------===//
//
// A division takes ten times as long as a product. Where a tile is divided by
// one value per row, the value is inverted once and multiplied with.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/map/gpu/Gpu.h"
#include "passes/nest/Tiles.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace fathom {
#define GEN_PASS_DEF_GPUFOLDDIVISIONSPASS
#include "passes/Passes.h.inc"
} // namespace fathom

using namespace mlir;
using namespace fathom;
using namespace fathom::gpu;

namespace {
constexpr StringLiteral kName = "fa-gpu-fold-divisions";

struct GpuFoldDivisions
    : public fathom::impl::GpuFoldDivisionsPassBase<GpuFoldDivisions> {
  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<KernelOp>())
      kernel.walk([&](arith::DivFOp div) { fold(div); });
  }

  void fold(arith::DivFOp div) {
    auto broadcast = div.getRhs().getDefiningOp<BroadcastOp>();
    if (!broadcast || !isTile(div.getResult()))
      return;
    Type element = tileType(div.getResult()).getElementType();
    // Rounding twice would show where the result is not rounded once more.
    if (!element.isF32() ||
        !llvm::all_of(div->getUsers(), llvm::IsaPred<arith::TruncFOp>))
      return missed(div, kName, "the quotient is not rounded to 16 bits");
    OpBuilder b(broadcast);
    Location loc = div.getLoc();
    Value source = broadcast.getSource();
    TypedAttr one = b.getF32FloatAttr(1);
    if (isTile(source))
      one = DenseElementsAttr::get(tileType(source), APFloat(1.0f));
    Value inverse = arith::DivFOp::create(
        b, loc, arith::ConstantOp::create(b, loc, one), source);
    Value factors = BroadcastOp::create(b, loc, broadcast.getType(), inverse,
                                        broadcast.getDim());
    OpBuilder at(div);
    Value product = arith::MulFOp::create(at, loc, div.getLhs(), factors);
    div.getResult().replaceAllUsesWith(product);
    div.erase();
    passed(broadcast, kName, "one division per row");
  }
};

} // namespace
