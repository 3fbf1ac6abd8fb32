//===- ForkRounds.cpp - fa-gpu-fork-rounds ----------------------------------===//
//
// A loop that asks in every round whether a mask is needed forks there and
// joins again: nothing is scheduled across, and where it asks several times,
// several times. With the rest of the round there twice, it forks once, and
// nothing on its way through the round has to meet in the same registers.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/map/gpu/MaskedRounds.h"
#include "passes/nest/Tiles.h"

#include "mlir/IR/IRMapping.h"

namespace fathom {
#define GEN_PASS_DEF_GPUFORKROUNDSPASS
#include "passes/Passes.h.inc"
} // namespace fathom

using namespace mlir;
using namespace fathom;
using namespace fathom::gpu;

namespace {
constexpr StringLiteral kName = "fa-gpu-fork-rounds";

struct GpuForkRounds
    : public fathom::impl::GpuForkRoundsPassBase<GpuForkRounds> {
  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<KernelOp>()) {
      for (scf::ForOp loop : loopsWithProducts(kernel))
        fork(loop);
      tidy(kernel);
    }
  }

  void fork(scf::ForOp loop) {
    StringRef why;
    scf::IfOp first = firstMask(loop, why);
    if (!first)
      return missed(loop, kName, why);
    Value condition = first.getCondition();

    // Scalars, such as the next stage, are the same on both ways.
    Operation *at = first;
    auto yield = cast<scf::YieldOp>(loop.getBody()->getTerminator());
    auto moves = [&](Value v) {
      Operation *op = v.getDefiningOp();
      return op && op->getBlock() == loop.getBody() && !op->isBeforeInBlock(at);
    };
    for (Operation &op :
         llvm::make_early_inc_range(loop.getBody()->without_terminator()))
      if (!op.isBeforeInBlock(at) && isPure(&op) && !op.getNumRegions() &&
          llvm::none_of(op.getResults(), isTile) &&
          llvm::none_of(op.getOperands(), isTile) &&
          llvm::none_of(op.getOperands(), moves))
        op.moveBefore(at);

    // What is yielded of what moves.
    SmallVector<OpOperand *> moving;
    SmallVector<Value> values;
    for (OpOperand &use : yield->getOpOperands())
      if (moves(use.get())) {
        moving.push_back(&use);
        values.push_back(use.get());
      }
    OpBuilder b(at);
    Location loc = first.getLoc();
    auto ways = scf::IfOp::create(b, loc, TypeRange(ValueRange(values)),
                                  condition, /*withElseRegion=*/true);
    Block *plain = ways.thenBlock(), *masked = ways.elseBlock();
    plain->clear(); // without results, terminators are there already
    masked->clear();
    plain->getOperations().splice(plain->end(), loop.getBody()->getOperations(),
                                  at->getIterator(), yield->getIterator());
    IRMapping map;
    b.setInsertionPointToEnd(masked);
    for (Operation &op : *plain)
      b.clone(op, map);
    auto end = [&](Block *block, bool withMask) {
      SmallVector<Value> results;
      for (Value v : values)
        results.push_back(withMask ? map.lookupOrDefault(v) : v);
      b.setInsertionPointToEnd(block);
      scf::YieldOp::create(b, loc, results);
      answer(block, condition, !withMask);
    };
    end(plain, false);
    end(masked, true);
    for (auto [use, result] : llvm::zip_equal(moving, ways.getResults()))
      use->set(result);
    openLimits(plain, condition);
    passed(ways, kName, "one fork a round, to the round's end");
  }
};

} // namespace
