//===- TestMutate.cpp - fa-test-mutate --------------------------------------===//
//
// Edits the tiled nests so that they compute something else, or the same in
// another order. Whatever passes run afterwards must keep the edit: a pass that
// regenerated attention instead of rewriting what it found would lose it.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"

using namespace mlir;
using namespace fathom;

namespace fathom {
#define GEN_PASS_DEF_TESTMUTATEPASS
#include "passes/Passes.h.inc"
} // namespace fathom

namespace {
struct TestMutatePass
    : public fathom::impl::TestMutatePassBase<TestMutatePass> {
  using TestMutatePassBase::TestMutatePassBase;

  static bool isSquareTile(Value v) {
    auto t = dyn_cast<RankedTensorType>(v.getType());
    return t && t.getRank() == 2 && isa<FloatType>(t.getElementType());
  }

  static Value splat(OpBuilder &b, Location loc, Value like, double x) {
    auto t = cast<RankedTensorType>(like.getType());
    return arith::ConstantOp::create(
        b, loc,
        DenseElementsAttr::get(t, b.getFloatAttr(t.getElementType(), x)));
  }

  /// The first op inside a nest for which `pred` holds, on float tiles of rank 2.
  template <typename Op>
  Op findFirst(function_ref<bool(Op)> pred) {
    Op found;
    getOperation()->walk([&](Op op) {
      if (!op->template getParentOfType<NestOp>() ||
          !isSquareTile(op->getResult(0)) || !pred(op))
        return WalkResult::advance();
      found = op;
      return WalkResult::interrupt();
    });
    return found;
  }
  template <typename Op>
  Op findFirst() {
    return findFirst<Op>([](Op) { return true; });
  }

  LogicalResult halveP() {
    // The exponential whose tile, as it is or divided by the row sums, is stored.
    auto exp = findFirst<math::ExpOp>([](math::ExpOp e) {
      return llvm::none_of(e->getUsers(),
                           [](Operation *u) { return isa<ReduceOp>(u); });
    });
    if (!exp)
      return failure();
    OpBuilder b(exp);
    b.setInsertionPointAfter(exp);
    auto half = arith::MulFOp::create(b, exp.getLoc(), exp,
                                      splat(b, exp.getLoc(), exp, 0.5));
    exp.getResult().replaceAllUsesExcept(half, half);
    return success();
  }

  LogicalResult addTerm() {
    auto select = findFirst<arith::SelectOp>();
    if (!select)
      return failure();
    OpBuilder b(select);
    Value x = select.getTrueValue();
    Value sum = arith::AddFOp::create(b, select.getLoc(), x,
                                      splat(b, select.getLoc(), x, 0.125));
    select.getTrueValueMutable().assign(sum);
    return success();
  }

  LogicalResult swapOperands() {
    auto sub = findFirst<arith::SubFOp>();
    if (!sub)
      return failure();
    Value l = sub.getLhs(), r = sub.getRhs();
    sub->setOperands({r, l});
    return success();
  }

  /// Swaps the operands of every commutative op in nests, and moves every op
  /// as late as its uses allow: the meaning stays.
  LogicalResult reorder() {
    SmallVector<Operation *> pure;
    getOperation()->walk([&](Operation *op) {
      if (!op->getParentOfType<NestOp>())
        return;
      if (op->hasTrait<OpTrait::IsCommutative>() && op->getNumOperands() == 2)
        op->setOperands({op->getOperand(1), op->getOperand(0)});
      if (isMemoryEffectFree(op) && op->getNumRegions() == 0 &&
          !op->use_empty() && !op->hasTrait<OpTrait::IsTerminator>())
        pure.push_back(op);
    });
    for (Operation *op : llvm::reverse(pure)) {
      Operation *firstUse = nullptr;
      for (Operation *user : op->getUsers()) {
        Operation *here = op->getBlock()->findAncestorOpInBlock(*user);
        if (!firstUse || here->isBeforeInBlock(firstUse))
          firstUse = here;
      }
      op->moveBefore(firstUse);
    }
    return success();
  }

  void runOnOperation() override {
    LogicalResult done = kind == "halve-p"         ? halveP()
                         : kind == "add-term"      ? addTerm()
                         : kind == "swap-operands" ? swapOperands()
                         : kind == "reorder"       ? reorder()
                                                   : failure();
    if (failed(done)) {
      getOperation()->emitError(
          "expected kind halve-p, add-term, swap-operands or reorder and "
          "nests that have such ops, got '")
          << kind << "'; run fa-tile first";
      signalPassFailure();
    }
  }
};
} // namespace
