//===- MaskRewrite.cpp - finding masks and moving their slices --------------===//

#include "passes/nest/MaskRewrite.h"

#include "passes/nest/Tiles.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace fathom;

/// True if what `v` is computed by reads a buffer that the block writes: then
/// it can't move to the front of the block.
static bool readsWhatIsWritten(Value v, Block &block) {
  SetVector<Value> written;
  for (Operation &op : block)
    written.insert_range(fathom::accessOf(&op).writes);
  return llvm::any_of(fathom::getSlice(v, &block), [&](Operation *op) {
    return llvm::any_of(fathom::accessOf(op).reads,
                        [&](Value b) { return written.contains(b); });
  });
}

llvm::SetVector<Value> fathom::getSelectMasks(Block &block) {
  llvm::SetVector<Value> masks;
  for (auto select : block.getOps<arith::SelectOp>()) {
    Value c = select.getCondition();
    Type chosen = getElementTypeOrSelf(select.getType());
    if (isa<FloatType>(chosen) && isa<RankedTensorType>(c.getType()) &&
        !c.getDefiningOp<arith::CmpFOp>() && !readsWhatIsWritten(c, block))
      masks.insert(c);
  }
  return masks;
}

SmallVector<Value> fathom::getConjuncts(Value mask) {
  auto both = mask.getDefiningOp<arith::AndIOp>();
  if (!both)
    return {mask};
  SmallVector<Value> all = getConjuncts(both.getLhs());
  llvm::append_range(all, getConjuncts(both.getRhs()));
  return all;
}

unsigned fathom::getVaryingDims(Value v) {
  auto type = dyn_cast<RankedTensorType>(v.getType());
  if (!type)
    return 0;
  Operation *op = v.getDefiningOp();
  if (op && op->hasTrait<OpTrait::ConstantLike>())
    return 0;
  if (auto broadcast = dyn_cast_or_null<BroadcastOp>(op))
    return getVaryingDims(broadcast.getSource()) ? 1u << broadcast.getDim() : 0;
  if (auto transpose = dyn_cast_or_null<TransposeOp>(op)) {
    unsigned bits = getVaryingDims(transpose.getTile());
    return (bits & 1) << 1 | bits >> 1;
  }
  if (op && (op->hasTrait<OpTrait::Elementwise>() ||
             isa<arith::SelectOp, GatherOp>(op))) {
    unsigned bits = 0;
    for (Value operand : op->getOperands())
      bits |= getVaryingDims(operand);
    return bits;
  }
  return (1u << type.getRank()) - 1;
}

SmallVector<Operation *> fathom::getSlice(ValueRange values, Block *block) {
  llvm::SetVector<Operation *> slice;
  SmallVector<Value> open(values);
  while (!open.empty()) {
    Operation *op = open.pop_back_val().getDefiningOp();
    if (op && op->getBlock() == block && slice.insert(op))
      op->walk([&](Operation *nested) {
        llvm::append_range(open, nested->getOperands());
      });
  }
  SmallVector<Operation *> sorted(slice.getArrayRef());
  llvm::sort(sorted,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return sorted;
}

Operation *fathom::hoistSlice(ValueRange values, Block *block) {
  Operation *rest = &block->front();
  for (Operation *op : getSlice(values, block)) {
    if (op == rest)
      rest = rest->getNextNode();
    else
      op->moveBefore(rest);
  }
  return rest;
}
