//===- WarpgroupProducts.cpp - fa-gpu-warpgroup-products --------------------===//
//
// Products of single warps become those of four, which read shared memory
// themselves. Their buffers must be swizzled; whoever else uses these knows how
// to.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/map/gpu/Gpu.h"
#include "passes/nest/Tiles.h"

using namespace mlir;
using namespace fathom;
using namespace fathom::gpu;

namespace fathom {
#define GEN_PASS_DEF_GPUWARPGROUPPRODUCTSPASS
#include "passes/Passes.h.inc"
} // namespace fathom

namespace {
constexpr StringLiteral kName = "fa-gpu-warpgroup-products";

struct GpuWarpgroupProductsPass
    : public fathom::impl::GpuWarpgroupProductsPassBase<
          GpuWarpgroupProductsPass> {
  using GpuWarpgroupProductsPassBase::GpuWarpgroupProductsPassBase;

  void runOnOperation() override {
    getOperation()->walk([](KernelOp kernel) {
      SmallVector<MmaOp> products;
      kernel.walk([&](MmaOp mma) { products.push_back(mma); });
      for (MmaOp mma : products)
        start(mma);
    });
  }

  static void start(MmaOp mma) {
    Type a = mma.getA().getType();
    SharedType b = mma.getB().getType();
    auto sharedA = dyn_cast<SharedType>(a);
    if (sharedA)
      a = sharedA = swizzled(sharedA);
    b = swizzled(b);
    std::string why =
        !a || !b
            ? "expected lines of whole panels of 32 bytes of 16-bit entries"
            : WgmmaOp::misfit(a, b, mma.getType());
    if (!why.empty()) {
      missed(mma, kName, why);
      return;
    }
    if (sharedA)
      swizzle(stripViews(mma.getA()));
    swizzle(stripViews(mma.getB()));
    OpBuilder builder(mma);
    Value product = WgmmaOp::create(builder, mma.getLoc(), mma.getType(),
                                    mma.getA(), mma.getB(), mma.getAcc());
    auto wait =
        WgmmaWaitOp::create(builder, mma.getLoc(), mma.getType(), 0, product);
    mma.getResult().replaceAllUsesWith(wait.getResult(0));
    passed(mma, kName, "started by four warps at a time");
    mma.erase();
  }
};
} // namespace
