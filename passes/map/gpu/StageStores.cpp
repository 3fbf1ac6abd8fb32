//===- StageStores.cpp - fa-gpu-stage-stores --------------------------------===//
//
// Lanes hold results in pieces that fill half of what memory moves at once. By
// way of shared memory, which is free when a kernel is done, whole lines leave
// in pieces of 16 bytes.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/map/gpu/Gpu.h"
#include "passes/nest/Tiles.h"

using namespace mlir;
using namespace fathom;
using namespace fathom::gpu;

namespace fathom {
#define GEN_PASS_DEF_GPUSTAGESTORESPASS
#include "passes/Passes.h.inc"
} // namespace fathom

namespace {
constexpr StringLiteral kName = "fa-gpu-stage-stores";

/// Entries of a line that a thread and its neighbours hold, one after another.
int64_t runOf(ThreadLayoutAttr layout) {
  int64_t run = layout.getVectorSize(1);
  for (ThreadLayoutAttr::Mode m : ThreadLayoutAttr::modes(layout.getLanes())) {
    if (m.dim != 1 || m.stride != run)
      break;
    run *= m.size;
  }
  return run;
}

struct GpuStageStoresPass
    : public fathom::impl::GpuStageStoresPassBase<GpuStageStoresPass> {
  using GpuStageStoresPassBase::GpuStageStoresPassBase;

  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<KernelOp>())
      kernel.walk([&](StoreOp store) { stage(kernel, store); });
  }

  void stage(KernelOp kernel, StoreOp store) {
    Value tile = store.getTile();
    RankedTensorType type = tileType(tile);
    if (type.getRank() != 2 || !type.getElementType().isIntOrFloat())
      return;
    int64_t bytes = llvm::divideCeil(type.getElementTypeBitWidth(), 8);
    int64_t entries = 16 / bytes;
    if (runOf(layoutOf(tile)) * bytes >= 32)
      return;
    if (store->getParentOfType<scf::ForOp>())
      return missed(store, kName, "it is in a loop");
    if (layoutOf(tile).getNumWarps() != int64_t(kernel.getNumWarps()))
      return missed(store, kName, "only some of the warps hold it");
    if (kernel.getAlignment(store.getBuffer()) % 16 ||
        kernel.getAlignment(store.getBuffer()) == 0 ||
        type.getDimSize(1) % entries ||
        !isMultiple(store.getIndices().back(), entries) ||
        !isMultiple(store.getLimits().back(), entries))
      return missed(store, kName, "lines are not known to start at 16 bytes");
    OpBuilder b(store);
    auto lines = ThreadLayoutAttr::getRows(&getContext(), type.getDimSize(0),
                                           type.getDimSize(1), entries,
                                           kernel.getNumWarps());
    store.getTileMutable().set(
        ConvertOp::create(b, store.getLoc(), withLayout(type, lines), tile));
    passed(store, kName, "goes through shared memory");
  }
};
} // namespace
