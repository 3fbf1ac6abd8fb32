//===- PlaceBarriers.cpp - fa-gpu-place-barriers ----------------------------===//
//
// Until here program order was the meaning. Puts barriers where threads that
// run at their own speeds could tell the difference, and nowhere else: first
// inside loops and branches, for what happens there, then around them.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/map/gpu/SharedAccess.h"
#include "passes/nest/Tiles.h"

using namespace mlir;
using namespace fathom;
using namespace fathom::gpu;

namespace fathom {
#define GEN_PASS_DEF_GPUPLACEBARRIERSPASS
#include "passes/Passes.h.inc"
} // namespace fathom

namespace {
struct GpuPlaceBarriersPass
    : public fathom::impl::GpuPlaceBarriersPassBase<GpuPlaceBarriersPass> {
  using GpuPlaceBarriersPassBase::GpuPlaceBarriersPassBase;

  void runOnOperation() override {
    getOperation()->walk([&](KernelOp kernel) {
      SharedFlow flow(kernel);
      SmallVector<BarrierOp> placed;
      solve(flow, kernel.getBody().front(), {}, placed);
      // A barrier that was needed may not be after those placed later.
      llvm::erase_if(placed, [&](BarrierOp barrier) {
        Operation *next = barrier->getNextNode();
        barrier->remove();
        if (!flow.hasConflict()) {
          barrier->destroy();
          return true;
        }
        next->getBlock()->getOperations().insert(next->getIterator(), barrier);
        return false;
      });
      for (Operation *barrier : flow.barriersForProducts()) {
        OpBuilder b(barrier);
        FenceAsyncOp::create(b, barrier->getLoc());
      }
      int64_t inLoops = llvm::count_if(placed, [](BarrierOp barrier) {
        return bool(barrier->getParentOfType<LoopLikeOpInterface>());
      });
      if (!placed.empty())
        passed(kernel, "fa-gpu-place-barriers",
               Twine(placed.size()) + " barriers, " + Twine(inLoops) +
                   " of them in loops");
    });
  }

  /// Orders what conflicts within `block`, the body of `loop` if that is given.
  static void solve(const SharedFlow &flow, Block &block, scf::ForOp loop,
                    SmallVector<BarrierOp> &placed) {
    for (Operation &op : block)
      for (Region &region : op.getRegions())
        for (Block &inner : region)
          solve(flow, inner, dyn_cast<scf::ForOp>(op), placed);
    // What conflicts in one iteration first: its barriers often part the
    // iterations too.
    separate(flow, block, {}, {}, placed);
    if (loop)
      separate(flow, block, {}, loop, placed);
  }

  /// Puts barriers into `block` until nothing conflicts from `entry` on; with
  /// `loop`, from iteration to iteration as well.
  static void separate(const SharedFlow &flow, Block &block,
                       const PendingSet &entry, scf::ForOp loop,
                       SmallVector<BarrierOp> &placed) {
    while (true) {
      PendingSet pending = entry;
      if (loop)
        flow.enterLoop(loop, pending);
      PendingSet before;
      Operation *at = nullptr;
      for (Operation &op : block) {
        before = pending;
        if (flow.step(&op, pending)) {
          at = &op;
          break;
        }
      }
      if (!at)
        return;
      // Copies that are under way before `at` and end in it are ordered there,
      // and so are the rounds of a loop that is not an scf.for.
      before.barrier();
      PendingSet after = before;
      bool conflicts = flow.step(at, after);
      if (conflicts && at->getNumRegions()) {
        size_t count = placed.size();
        for (Region &region : at->getRegions())
          for (Block &inner : region)
            separate(flow, inner,
                     isa<scf::ForOp, scf::IfOp, RolesOp>(at) ? before : after,
                     dyn_cast<scf::ForOp>(at), placed);
        if (placed.size() != count)
          continue;
      }
      OpBuilder b(at);
      // Products under way may read what `at` writes.
      if (conflicts && !at->getNumRegions())
        WgmmaWaitOp::create(b, at->getLoc(), TypeRange(), 0, ValueRange());
      placed.push_back(BarrierOp::create(b, at->getLoc()));
    }
  }
};
} // namespace
