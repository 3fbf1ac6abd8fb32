//===- ForwardFragments.cpp - fa-gpu-forward-fragments ----------------------===//
//
// The registers of an accumulator are, entry by entry, those of a first factor.
// Where a product's first factor was put in shared memory from registers that
// already lie as it needs them, it takes the registers.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/map/gpu/Gpu.h"
#include "passes/nest/Tiles.h"

namespace fathom {
#define GEN_PASS_DEF_GPUFORWARDFRAGMENTSPASS
#include "passes/Passes.h.inc"
} // namespace fathom

using namespace mlir;
using namespace fathom;
using namespace fathom::gpu;

namespace {
constexpr StringLiteral kName = "fa-gpu-forward-fragments";

struct GpuForwardFragments
    : public fathom::impl::GpuForwardFragmentsPassBase<GpuForwardFragments> {
  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<KernelOp>()) {
      kernel.walk([&](MmaOp mma) { forward(mma); });
      tidy(kernel);
    }
  }

  void forward(MmaOp mma) {
    if (!isa<SharedType>(mma.getA().getType()))
      return;
    bool flipped = false;
    auto alloc = stripViews(mma.getA(), flipped).getDefiningOp<AllocOp>();
    StoreSharedOp store = alloc ? onlyStore(alloc) : StoreSharedOp();
    if (!store)
      return;
    // The tile as it was stored: through a view or not.
    bool storedFlipped = false;
    stripViews(store.getBuffer(), storedFlipped);
    Value tile = store.getTile();
    bool transposed = flipped != storedFlipped;
    ThreadLayoutAttr have =
        transposed ? layoutOf(tile).transposed() : layoutOf(tile);
    RankedTensorType acc = tileType(mma.getAcc());
    int64_t warps = mma->getParentOfType<KernelOp>().getNumWarps();
    auto shape = cast<SharedType>(mma.getA().getType()).getShape();
    Type element = tileType(tile).getElementType();
    if (!element.isBF16() && !element.isF16())
      return missed(mma, kName, "factors of this type are read from memory");
    if (have != ThreadLayoutAttr::getMma(&getContext(), shape[0], shape[1],
                                         warps, 1) ||
        shape[0] / 16 % warps ||
        layoutOf(acc) != ThreadLayoutAttr::getMma(&getContext(), shape[0],
                                                  acc.getDimSize(1), warps, 1))
      return missed(mma, kName, "no warp holds whole lines of the factor");
    // Loaded tiles are better copied past the registers.
    if (tile.getDefiningOp<LoadOp>())
      return missed(mma, kName, "the factor comes from memory");
    if (!isStillThat(store, mma))
      return missed(mma, kName, "the buffer may hold another round's tile");
    if (transposed) {
      OpBuilder b(mma);
      tile = TransposeOp::create(
          b, mma.getLoc(), RankedTensorType::get(shape, element, have), tile);
    }
    mma.getAMutable().set(tile);
    passed(mma, kName, "the first factor stays in registers");
  }

  /// True if `mma` runs after `store` with the tile stored last.
  static bool isStillThat(StoreSharedOp store, MmaOp mma) {
    Operation *at = store->getBlock()->findAncestorOpInBlock(*mma);
    return at && store->isBeforeInBlock(at);
  }
};

} // namespace
