//===- Loops.cpp - nests as loops, for every target -------------------------===//

#include "passes/map/Loops.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/ViewLikeInterface.h"
#include "mlir/Transforms/LoopInvariantCodeMotionUtils.h"

using namespace mlir;
using namespace fathom;

/// Sequential dims become loops around the body.
static void makeLoops(NestOp nest) {
  Block *body = nest.getBlock();
  Location loc = nest.getLoc();
  for (unsigned d = nest.getNumDims(); d-- > nest.getNumParallel();) {
    // Innermost first: each loop takes everything there is.
    OpBuilder b = OpBuilder::atBlockBegin(body);
    SmallVector<Operation *> ops;
    for (Operation &op : *body)
      ops.push_back(&op);
    Value zero = arith::ConstantIndexOp::create(b, loc, 0);
    Value step = arith::ConstantIndexOp::create(b, loc, nest.getSteps()[d]);
    auto loop = scf::ForOp::create(b, loc, zero, nest.getBounds()[d], step);
    for (Operation *op : ops)
      op->moveBefore(loop.getBody()->getTerminator());
    nest.getIv(d).replaceAllUsesWith(loop.getInductionVar());
  }
}

static Value rootBuffer(Value v) {
  while (auto view = v.getDefiningOp<ViewLikeOpInterface>())
    v = view.getViewSource();
  return v;
}

/// True if something in `loop` may write to the buffer of `load`. Buffers of
/// different origin never alias.
static bool isWrittenIn(scf::ForOp loop, LoadOp load) {
  Value buffer = rootBuffer(load.getBuffer());
  return loop
      .walk([&](Operation *op) {
        if (op->hasTrait<OpTrait::HasRecursiveMemoryEffects>())
          return WalkResult::advance();
        auto effects = getEffectsRecursively(op);
        if (!effects)
          return WalkResult::interrupt();
        for (const MemoryEffects::EffectInstance &e : *effects)
          if (isa<MemoryEffects::Write>(e.getEffect()) && !isa<TickOp>(op) &&
              (!e.getValue() || rootBuffer(e.getValue()) == buffer))
            return WalkResult::interrupt();
        return WalkResult::advance();
      })
      .wasInterrupted();
}

/// Moves what stays the same out of loops.
static void hoistInvariants(NestOp nest) {
  nest.walk([&](scf::ForOp loop) {
    bool changed = true;
    while (changed) {
      changed = false;
      moveLoopInvariantCode(loop);
      for (LoadOp load : llvm::make_early_inc_range(loop.getOps<LoadOp>())) {
        bool fixed = llvm::all_of(load->getOperands(), [&](Value v) {
          return loop.isDefinedOutsideOfLoop(v);
        });
        if (!fixed || isWrittenIn(loop, load))
          continue;
        load->moveBefore(loop);
        changed = true;
      }
    }
  });
}

SmallVector<NestOp> fathom::prepareNests(func::FuncOp f) {
  for (auto end : llvm::make_early_inc_range(f.getOps<ForwardEndOp>()))
    end.erase();
  SmallVector<NestOp> nests;
  f.walk([&](NestOp nest) { nests.push_back(nest); });
  for (NestOp nest : nests) {
    makeLoops(nest);
    hoistInvariants(nest);
  }
  return nests;
}
