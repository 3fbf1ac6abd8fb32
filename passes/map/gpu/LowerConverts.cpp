//===- LowerConverts.cpp - fa-gpu-lower-converts ----------------------------===//
//
// A tile goes to the threads that need it by way of a buffer of its own;
// fa-gpu-assign-shared-memory lays such buffers over others.
//
//===----------------------------------------------------------------------===//

#include "dialect/gpu/GpuDialect.h"
#include "passes/Passes.h"
#include "passes/nest/Tiles.h"

using namespace mlir;
using namespace fathom;
using namespace fathom::gpu;

namespace fathom {
#define GEN_PASS_DEF_GPULOWERCONVERTSPASS
#include "passes/Passes.h.inc"
} // namespace fathom

namespace {
/// True if threads hold pieces of columns rather than of rows: lines of the
/// buffer should run down the columns. The writer decides; if it has no
/// pieces, the reader.
static bool runsDown(RankedTensorType from, RankedTensorType to) {
  for (RankedTensorType type : {from, to}) {
    ThreadLayoutAttr l = layoutOf(type);
    int64_t down = l.getVectorSize(0), along = l.getVectorSize(1);
    if (down != along)
      return down > along;
  }
  return false;
}

struct GpuLowerConvertsPass
    : public fathom::impl::GpuLowerConvertsPassBase<GpuLowerConvertsPass> {
  using GpuLowerConvertsPassBase::GpuLowerConvertsPassBase;

  void runOnOperation() override {
    getOperation()->walk([&](ConvertOp convert) { lower(convert); });
  }

  static void lower(ConvertOp convert) {
    auto from = cast<RankedTensorType>(convert.getTile().getType());
    auto to = cast<RankedTensorType>(convert.getType());
    if (from != to) {
      TileBuilder b(OpBuilder(convert), convert.getLoc());
      bool flipped = to.getRank() == 2 && runsDown(from, to);
      SmallVector<int64_t> shape(to.getShape());
      if (flipped)
        std::swap(shape[0], shape[1]);
      SharedType type = SharedType::get(b.getContext(), shape,
                                        to.getElementType(), shape.back(), 1,
                                        /*flipped=*/false);
      // Lines 16 bytes apart in their banks.
      if (to.getRank() == 2)
        type = SharedType::get(b.getContext(), shape, to.getElementType(),
                               shape[1] + 16 / type.getElementBytes(), 1,
                               /*flipped=*/false);
      Value buffer = b.make<AllocOp>(type, IntegerAttr());
      if (flipped)
        buffer = b.make<FlipOp>(type.flip(), buffer);
      b.make<StoreSharedOp>(convert.getTile(), buffer);
      Value loaded = b.make<LoadSharedOp>(to, buffer);
      convert.replaceAllUsesWith(loaded);
    } else {
      convert.replaceAllUsesWith(convert.getTile());
    }
    convert.erase();
  }
};
} // namespace
