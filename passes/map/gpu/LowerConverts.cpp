//===- LowerConverts.cpp - fa-gpu-lower-converts ----------------------------===//
//
// A tile goes to the threads that need it by way of a buffer of its own;
// fa-gpu-assign-shared-memory lays such buffers over others.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/map/gpu/Gpu.h"
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
    RankedTensorType from = tileType(convert.getTile()),
                     to = tileType(convert.getResult());
    if (from != to) {
      TileBuilder b(OpBuilder(convert), convert.getLoc());
      bool flipped = to.getRank() == 2 && runsDown(from, to);
      SmallVector<int64_t> shape(to.getShape());
      if (flipped)
        std::swap(shape[0], shape[1]);
      SharedType type = bufferFor(shape, to.getElementType());
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
