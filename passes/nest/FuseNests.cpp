//===- FuseNests.cpp - fa-fuse-nests ----------------------------------------===//
//
// Nests that only pass over memory, clearing a workspace or reducing rows, cost
// about as much to start as to run where sequences are short. Two that run over
// the same items and touch different memory become one.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/nest/Tiles.h"

using namespace mlir;
using namespace fathom;

namespace fathom {
#define GEN_PASS_DEF_FUSENESTSPASS
#include "passes/Passes.h.inc"
} // namespace fathom

namespace {
constexpr StringLiteral kName = "fa-fuse-nests";

struct FuseNestsPass : public fathom::impl::FuseNestsPassBase<FuseNestsPass> {
  using FuseNestsPassBase::FuseNestsPassBase;

  void runOnOperation() override {
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      SmallVector<NestOp> light;
      for (auto nest : func.getOps<NestOp>())
        if (isLight(nest))
          light.push_back(nest);
      for (auto it = light.begin(); it != light.end(); ++it) {
        auto next = std::find_if(it + 1, light.end(), [&](NestOp other) {
          return haveSameItems(*it, other);
        });
        if (next == light.end())
          continue;
        if (mayMoveTo(*it, *next))
          fuse(*it, *next);
        else
          missed(*it, kName,
                 "it touches what the next nest over its items, or one "
                 "between them, touches");
      }
    }
  }

  /// All in parallel and without products, which want a kernel for themselves.
  static bool isLight(NestOp nest) {
    return nest.getNumParallel() == nest.getNumDims() &&
           !nest->walk([](DotOp) { return WalkResult::interrupt(); })
                .wasInterrupted();
  }

  static bool haveSameItems(NestOp a, NestOp b) {
    return a.getSteps() == b.getSteps() &&
           sameValues(a.getBounds(), b.getBounds());
  }

  /// Moves what `from` does to the front of `into`.
  static void fuse(NestOp from, NestOp into) {
    for (auto [old, now] : llvm::zip_equal(from.getBlock()->getArguments(),
                                           into.getBlock()->getArguments()))
      old.replaceAllUsesWith(now);
    Block *block = into.getBlock();
    block->getOperations().splice(block->begin(),
                                  from.getBlock()->getOperations());
    into.setLabel((from.getLabel().value_or("nest") + "_" +
                   into.getLabel().value_or("nest"))
                      .str());
    from.erase();
    passed(into, kName, "two nests over the same items are one");
  }
};
} // namespace
