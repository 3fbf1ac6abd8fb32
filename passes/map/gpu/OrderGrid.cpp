//===- OrderGrid.cpp - fa-gpu-order-grid ------------------------------------===//
//
// CTAs start in the order of their numbers. If those with higher numbers have
// the longer loops, a grid ends with a few of them running alone; counted
// backwards, the long ones start first and the short ones fill what is left.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/map/gpu/Gpu.h"
#include "passes/nest/Tiles.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace fathom {
#define GEN_PASS_DEF_GPUORDERGRIDPASS
#include "passes/Passes.h.inc"
} // namespace fathom

using namespace mlir;
using namespace fathom;
using namespace fathom::gpu;

namespace {
constexpr StringLiteral kName = "fa-gpu-order-grid";

/// How `v` moves as `with` rises: up (1), down (-1), not at all (0); nothing if
/// that can't be told.
std::optional<int> slope(Value v, Value with) {
  if (v == with)
    return 1;
  if (!dependsOn(v, with))
    return 0;
  Operation *op = v.getDefiningOp();
  auto of = [&](unsigned i) { return slope(op->getOperand(i), with); };
  if (isa<arith::AddIOp, arith::MinSIOp, arith::MaxSIOp>(op)) {
    auto a = of(0), b = of(1);
    if (!a || !b || *a * *b < 0)
      return {};
    return *a ? a : b;
  }
  if (isa<arith::SubIOp>(op)) {
    auto a = of(0), b = of(1);
    if (!a || !b || *a * *b > 0)
      return {};
    return *a ? *a : -*b;
  }
  if (isa<arith::MulIOp, arith::DivUIOp, arith::DivSIOp>(op)) {
    auto c = getConstantIntValue(op->getOperand(1));
    if (c && *c > 0)
      return of(0);
    c = getConstantIntValue(op->getOperand(0));
    if (isa<arith::MulIOp>(op) && c && *c > 0)
      return of(1);
  }
  return {};
}

struct GpuOrderGrid : public fathom::impl::GpuOrderGridPassBase<GpuOrderGrid> {
  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<KernelOp>())
      run(kernel);
  }

  void run(KernelOp kernel) {
    // The part of the CTA's number that runs fastest, and how many there are;
    // both may be divided as narrower integers.
    auto wide = [](Value v) {
      auto cast = v.getDefiningOp<arith::IndexCastOp>();
      return cast ? cast.getIn() : v;
    };
    Value item, count;
    kernel.walk([&](arith::RemUIOp rem) {
      if (!wide(rem.getLhs()).getDefiningOp<BlockIdOp>())
        return;
      item = rem;
      count = wide(rem.getRhs());
      if (!item.getType().isIndex())
        item = rem->hasOneUse() ? (*rem->user_begin())->getResult(0) : Value();
    });
    if (!item || !item.getType().isIndex() || !count.getType().isIndex())
      return missed(kernel, kName,
                    "no part of the CTA's number may be counted backwards");
    // Loops that grow with it.
    int longer = 0;
    for (auto loop : kernel.getBody().getOps<scf::ForOp>()) {
      auto lower = slope(loop.getLowerBound(), item),
           upper = slope(loop.getUpperBound(), item);
      if (!lower || !upper)
        return missed(kernel, kName, "no telling how long the loops are");
      if (*upper - *lower > 0)
        longer = 1;
      else if (*upper - *lower < 0)
        return missed(kernel, kName, "the longest loops come first already");
    }
    if (!longer)
      return missed(kernel, kName, "all CTAs loop equally long");
    OpBuilder b(kernel.getContext());
    b.setInsertionPointAfterValue(item);
    Location loc = item.getLoc();
    auto last = arith::SubIOp::create(
        b, loc, count, arith::ConstantIndexOp::create(b, loc, 1));
    auto turned = arith::SubIOp::create(b, loc, last, item);
    item.replaceAllUsesExcept(turned, turned);
    passed(kernel, kName, "the longest loops start first");
  }
};

} // namespace
