//===- CountTiles.cpp - fa-count-tiles --------------------------------------===//
//
// Puts a counter into every nest that multiplies, so that a run tells how many
// tiles were computed.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"

using namespace mlir;
using namespace fathom;

namespace fathom {
#define GEN_PASS_DEF_COUNTTILESPASS
#include "passes/Passes.h.inc"
} // namespace fathom

namespace {
struct CountTilesPass
    : public fathom::impl::CountTilesPassBase<CountTilesPass> {
  using CountTilesPassBase::CountTilesPassBase;

  void runOnOperation() override {
    int64_t id = 0;
    getOperation()->walk([&](NestOp nest) {
      count(nest, id);
      ++id;
    });
  }

  /// The loop over blocks an op belongs to: the innermost loop, else the nest.
  static Operation *getTileLoop(Operation *op) {
    do
      op = op->getParentOp();
    while (!isa<scf::ForOp, NestOp>(op));
    return op;
  }

  static void count(NestOp nest, int64_t id) {
    // Only loops without another such loop inside.
    llvm::SetVector<Operation *> loops;
    nest.walk([&](DotOp dot) { loops.insert(getTileLoop(dot)); });
    SmallVector<DotOp> dots;
    nest.walk([&](DotOp dot) {
      Operation *loop = getTileLoop(dot);
      if (llvm::none_of(
              loops, [&](Operation *o) { return loop->isProperAncestor(o); }))
        dots.push_back(dot);
    });
    // One tick a path: in the outermost blocks of the loop that hold a dot.
    llvm::SetVector<Block *> blocks;
    for (DotOp dot : dots)
      blocks.insert(dot->getBlock());
    for (Block *block : blocks) {
      bool counted = llvm::any_of(blocks, [&](Block *other) {
        return other != block &&
               other->getParent()->isProperAncestor(block->getParent());
      });
      if (counted)
        continue;
      OpBuilder b = OpBuilder::atBlockBegin(block);
      TickOp::create(b, nest.getLoc(), id);
    }
  }
};
} // namespace
