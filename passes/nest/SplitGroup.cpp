//===- SplitGroup.cpp - fa-split-group --------------------------------------===//
//
// The gradients of K and V sum over the query heads of a KV head: a loop that
// carries the sums. With few KV heads there are fewer items than a GPU has
// processors. The pass proves a loop to carry sums that do not influence each
// other's terms, lets its nest run once for each part of the loop's range, and
// adds the parts in a second nest, which goes on as the first one did.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/nest/Parts.h"

using namespace mlir;
using namespace fathom;

namespace fathom {
#define GEN_PASS_DEF_SPLITGROUPPASS
#include "passes/Passes.h.inc"
} // namespace fathom

namespace {
constexpr StringLiteral kName = "fa-split-group";

/// True if `v` is `arg` plus terms that do not hang on it: every step from one
/// to the other has the sum as its only use.
bool addsTo(Value v, Value arg) {
  if (v == arg)
    return true;
  if (!v.hasOneUse())
    return false;
  Operation *def = v.getDefiningOp();
  if (auto dot = dyn_cast_or_null<DotOp>(def))
    return addsTo(dot.getAcc(), arg);
  if (auto add = dyn_cast_or_null<arith::AddFOp>(def))
    return addsTo(add.getLhs(), arg) || addsTo(add.getRhs(), arg);
  auto loop = dyn_cast_or_null<scf::ForOp>(def);
  if (!loop)
    return false;
  unsigned n = cast<OpResult>(v).getResultNumber();
  Value inner = loop.getRegionIterArg(n);
  return inner.hasOneUse() && addsTo(loop.getYieldedValues()[n], inner) &&
         addsTo(loop.getInitArgs()[n], arg);
}

/// True if what iterations of `loop` write, they write in different places, or
/// atomically.
bool writesApart(scf::ForOp loop) {
  Value iv = loop.getInductionVar();
  auto isPlace = [&](Value v) {
    auto [a, b] = matchBinary<arith::AddIOp>(v);
    return v == iv || (a == iv && !dependsOn(b, iv)) ||
           (b == iv && !dependsOn(a, iv));
  };
  Access access = accessOf(loop);
  auto result = loop.walk([&](Operation *op) {
    auto add = dyn_cast<AccumulateOp>(op);
    auto store = dyn_cast<StoreOp>(op);
    bool apart = true;
    if (add)
      apart =
          add.getMode() == AccumulateMode::atomic ||
          llvm::any_of(
              add.getIndices().drop_back(
                  cast<RankedTensorType>(add.getTile().getType()).getRank()),
              isPlace);
    else if (store)
      apart = llvm::any_of(
          store.getIndices().drop_back(
              cast<RankedTensorType>(store.getTile().getType()).getRank()),
          isPlace);
    else if (auto pass = dyn_cast<PassTurnOp>(op))
      apart = llvm::any_of(pass.getTicketIndices(), isPlace);
    else if (isa<LoadOp, GatherOp, memref::LoadOp>(op))
      apart = !access.writes.contains(rootOf(op->getOperand(0)));
    else if (!op->getNumRegions() && !isMemoryEffectFree(op))
      apart = false;
    return apart ? WalkResult::advance() : WalkResult::interrupt();
  });
  return !result.wasInterrupted();
}

/// The loop of `nest` that may run in parts, or null. `why` is empty if there is
/// none that carries sums at all.
scf::ForOp match(NestOp nest, std::string &why) {
  scf::ForOp loop = onlyLoop(nest);
  if (!loop || !loop.getNumResults())
    return {};
  auto count = getConstantIntValue(OpFoldResult(loop.getUpperBound()));
  if (!count || getConstantIntValue(OpFoldResult(loop.getLowerBound())) != 0 ||
      getConstantIntValue(OpFoldResult(loop.getStep())) != 1)
    return {};
  for (auto [init, arg, yielded] :
       llvm::zip_equal(loop.getInitArgs(), loop.getRegionIterArgs(),
                       loop.getYieldedValues())) {
    if (!isa<RankedTensorType>(arg.getType()) || floatConstant(init) != 0.0 ||
        !arg.hasOneUse() || !addsTo(yielded, arg)) {
      why = "its loop over heads carries more than sums from 0";
      return {};
    }
    if (cast<RankedTensorType>(arg.getType()).getDimSize(0) !=
        nest.getSteps().back()) {
      why = "its last dim does not run over the rows of its tiles";
      return {};
    }
  }
  if (nest.getNumParallel() != nest.getNumDims()) {
    why = "it has dims that run in order";
    return {};
  }
  if (!writesApart(loop)) {
    why = "iterations of its loop over heads meet in memory";
    return {};
  }
  for (Operation &op : *nest.getBlock()) {
    if (&op == loop)
      break;
    if (!accessOf(&op).writes.empty()) {
      why = "it writes memory before its loop over heads";
      return {};
    }
  }
  return loop;
}

struct SplitGroupPass
    : public fathom::impl::SplitGroupPassBase<SplitGroupPass> {
  using SplitGroupPassBase::SplitGroupPassBase;

  void runOnOperation() override {
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      auto schedule = func->getAttrOfType<ScheduleAttr>(kScheduleAttr);
      if (!schedule || schedule.getGroupSplits() == 1) {
        missed(func, kName, "the schedule keeps query heads in one part");
        continue;
      }
      bool any = false;
      for (auto nest : llvm::make_early_inc_range(func.getOps<NestOp>())) {
        std::string why;
        scf::ForOp loop = match(nest, why);
        if (!loop) {
          if (!why.empty())
            missed(nest, kName, why), any = true;
          continue;
        }
        any = true;
        int64_t count =
                    *getConstantIntValue(OpFoldResult(loop.getUpperBound())),
                parts = std::min(count, schedule.getGroupSplits());
        while (count % parts)
          --parts;
        passed(nest, kName,
               Twine(parts) + " parts of " + Twine(count) +
                   " query heads run in parallel and are added");
        split(nest, loop, parts, count / parts);
      }
      if (!any)
        missed(func, kName, "no loop over query heads carries sums");
      else
        tidyNests(func);
    }
  }

  /// `count` parts of `length` iterations.
  static void split(NestOp nest, scf::ForOp loop, int64_t count,
                    int64_t length) {
    Parts parts(nest, loop, count, nest.getNumDims() - 1);
    scf::ForOp part = parts.getLoop();
    TileBuilder t(OpBuilder(part), loop.getLoc());
    Value first = t.mul(parts.getNumber(), t.index(length));
    part.setUpperBound(t.index(length));
    t.setInsertionPointToStart(part.getBody());
    Value iv = part.getInductionVar();
    Value number = t.add(first, iv);
    iv.replaceAllUsesExcept(number, number.getDefiningOp());

    // The nest from its loop on, which adds the parts in order.
    TileBuilder b(OpBuilder(loop), loop.getLoc());
    auto sums = b.loop(b.index(count), 1, loop.getInitArgs(),
                       [&](Value s, ValueRange carried) {
                         SmallVector<Value> next = parts.load(b, s);
                         for (auto [sum, v] : llvm::zip_equal(carried, next))
                           v = b.make<arith::AddFOp>(sum, v);
                         return next;
                       });
    loop.replaceAllUsesWith(sums.getResults());
    loop.erase();
  }
};
} // namespace
