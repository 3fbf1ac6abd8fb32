//===- StageLines.cpp - fa-gpu-stage-lines ----------------------------------===//
//
// A loop that reads one value per row or column of its tiles waits for memory
// in every round. Such a line is small; copied to shared memory it can be on
// its way while an earlier round computes, and costs no registers meanwhile.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/map/gpu/Gpu.h"
#include "passes/nest/Tiles.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace fathom {
#define GEN_PASS_DEF_GPUSTAGELINESPASS
#include "passes/Passes.h.inc"
} // namespace fathom

using namespace mlir;
using namespace fathom;
using namespace fathom::gpu;

namespace {
constexpr StringLiteral kName = "fa-gpu-stage-lines";

struct GpuStageLines
    : public fathom::impl::GpuStageLinesPassBase<GpuStageLines> {
  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<KernelOp>()) {
      SmallVector<LoadOp> loads;
      kernel.walk([&](LoadOp load) {
        if (load.getTile().getType().getRank() == 1)
          loads.push_back(load);
      });
      for (LoadOp load : loads)
        stage(load);
    }
  }

  void stage(LoadOp load) {
    auto loop = dyn_cast<scf::ForOp>(load->getParentOp());
    if (!loop || loop.getOps<MmaOp>().empty())
      return missed(load, kName, "no products hide the way from memory");
    Type element = load.getBuffer().getType().getElementType();
    int64_t bytes =
        element.isIntOrFloat() ? element.getIntOrFloatBitWidth() / 8 : 0;
    if (bytes != 4 && bytes != 8)
      return missed(load, kName, "asynchronous copies move 4 or 8 bytes");
    if (isWrittenIn(loop, load.getBuffer()))
      return missed(load, kName, "the loop writes what it reads");
    auto kernel = load->getParentOfType<KernelOp>();
    OpBuilder top = OpBuilder::atBlockBegin(&kernel.getBody().front());
    OpBuilder b(load);
    Location loc = load.getLoc();
    Value buffer = AllocOp::create(
        top, loc, bufferFor(load.getTile().getType().getShape(), element),
        IntegerAttr());
    CopyAsyncOp::create(b, loc, load.getBuffer(), load.getIndices(),
                        load.getLimits(), buffer, bytes);
    CommitOp::create(b, loc);
    WaitOp::create(b, loc, 0);
    Value tile = LoadSharedOp::create(b, loc, load.getTile().getType(), buffer);
    load.getTile().replaceAllUsesWith(tile);
    passed(load, kName, "copied through shared memory");
    load.erase();
  }
};

} // namespace
