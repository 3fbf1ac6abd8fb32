//===- DropGuards.cpp - fa-gpu-drop-guards ----------------------------------===//
//
// Entries without weight have no gradient, also where a score's derivative is
// infinite: textbook nests ask each entry whether its weight is 0. Where the
// gradient is the weight times what cannot be infinite, the answer changes
// nothing.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/map/gpu/Gpu.h"
#include "passes/nest/Tiles.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include <cmath>

namespace fathom {
#define GEN_PASS_DEF_GPUDROPGUARDSPASS
#include "passes/Passes.h.inc"
} // namespace fathom

using namespace mlir;
using namespace fathom;
using namespace fathom::gpu;

namespace {
constexpr StringLiteral kName = "fa-gpu-drop-guards";

/// True for a value per line of a tile, from memory.
bool isLoadedLine(Value v) {
  auto broadcast = v.getDefiningOp<BroadcastOp>();
  return broadcast && isTile(broadcast.getSource()) &&
         isa_and_nonnull<LoadOp, LoadSharedOp>(
             broadcast.getSource().getDefiningOp());
}

bool isFinite(Value v) {
  if (auto broadcast = v.getDefiningOp<BroadcastOp>())
    if (!isTile(broadcast.getSource()))
      v = broadcast.getSource();
  if (auto c = floatConstant(v))
    return std::isfinite(*c);
  Operation *op = v.getDefiningOp();
  if (isa_and_nonnull<MmaOp, math::TanhOp>(op))
    return true;
  if (auto transpose = dyn_cast_or_null<TransposeOp>(op))
    return isFinite(transpose.getTile());
  // What is taken off a product of matrices is a sum of such products' entries.
  if (isa_and_nonnull<arith::SubFOp>(op) && isLoadedLine(op->getOperand(1)))
    return isFinite(op->getOperand(0));
  return isa_and_nonnull<arith::AddFOp, arith::SubFOp, arith::MulFOp,
                         arith::NegFOp>(op) &&
         llvm::all_of(op->getOperands(), isFinite);
}

/// True if `v` is `factor` times finite values.
bool isMultiple(Value v, Value factor) {
  if (v == factor)
    return true;
  auto mul = v.getDefiningOp<arith::MulFOp>();
  if (!mul)
    return false;
  return (isMultiple(mul.getLhs(), factor) && isFinite(mul.getRhs())) ||
         (isMultiple(mul.getRhs(), factor) && isFinite(mul.getLhs()));
}

struct GpuDropGuards
    : public fathom::impl::GpuDropGuardsPassBase<GpuDropGuards> {
  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<KernelOp>()) {
      SmallVector<arith::SelectOp> selects;
      kernel.walk([&](arith::SelectOp op) {
        if (isTile(op.getResult()) &&
            op.getCondition().getDefiningOp<arith::CmpFOp>())
          selects.push_back(op);
      });
      for (arith::SelectOp op : selects)
        drop(op);
      if (!selects.empty())
        tidy(kernel);
    }
  }

  static void drop(arith::SelectOp select) {
    auto cmp = select.getCondition().getDefiningOp<arith::CmpFOp>();
    bool nonZero = cmp.getPredicate() == arith::CmpFPredicate::UNE;
    if (!nonZero && cmp.getPredicate() != arith::CmpFPredicate::OEQ)
      return;
    Value factor = cmp.getLhs(), zero = cmp.getRhs();
    if (floatConstant(factor) == 0.0)
      std::swap(factor, zero);
    Value product = select.getTrueValue(), other = select.getFalseValue();
    if (!nonZero)
      std::swap(product, other);
    if (floatConstant(zero) != 0.0 || floatConstant(other) != 0.0)
      return;
    if (!isMultiple(product, factor))
      return missed(select, kName,
                    "the product has factors that may be infinite");
    select.getResult().replaceAllUsesWith(product);
    passed(select, kName, "a product is 0 where its factor is");
  }
};

} // namespace
