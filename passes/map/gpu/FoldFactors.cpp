//===- FoldFactors.cpp - fa-gpu-fold-factors --------------------------------===//
//
// A product with several constants, and quotients by constants among them, needs
// one constant only, and often none: scores that are scaled, capped and scaled
// back. What is rounded to 16 bits later shows no difference.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/map/gpu/Gpu.h"
#include "passes/nest/Tiles.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include <cmath>

namespace fathom {
#define GEN_PASS_DEF_GPUFOLDFACTORSPASS
#include "passes/Passes.h.inc"
} // namespace fathom

using namespace mlir;
using namespace fathom;
using namespace fathom::gpu;

namespace {
constexpr StringLiteral kName = "fa-gpu-fold-factors";

/// True for factors that may join others without a zero or an infinity.
bool isModest(double c) { return std::abs(c) > 1e-18 && std::abs(c) < 1e18; }

std::optional<double> modestConstant(Value v) {
  auto c = floatConstant(v);
  return c && isModest(*c) ? c : std::nullopt;
}

/// A product or quotient whose constants can be taken off.
bool isProduct(Operation *op) {
  return isa_and_nonnull<arith::MulFOp>(op) ||
         (isa_and_nonnull<arith::DivFOp>(op) &&
          modestConstant(op->getOperand(1)));
}

struct Product {
  SmallVector<Value> factors;
  double constant = 1;
  /// How many products go.
  int saved = 0;
};

/// Adds to `p` what `v` is a product of. What others need too stays, unless
/// only a constant is taken off it. `mine`: nobody else needs what uses `v`.
void collect(Value v, Product &p, bool root, bool mine) {
  if (auto c = modestConstant(v)) {
    p.constant *= *c;
    return;
  }
  Operation *op = v.getDefiningOp();
  if (!isProduct(op)) {
    p.factors.push_back(v);
    return;
  }
  mine &= root || op->hasOneUse();
  Value lhs = op->getOperand(0), rhs = op->getOperand(1);
  auto right = modestConstant(rhs);
  if (!mine && !right && !modestConstant(lhs)) {
    p.factors.push_back(v);
    return;
  }
  // A division is worth more than the product that replaces it.
  if (mine)
    p.saved += isa<arith::DivFOp>(op) ? 2 : 1;
  collect(lhs, p, false, mine);
  if (isa<arith::DivFOp>(op))
    p.constant /= *right;
  else
    collect(rhs, p, false, mine);
}

struct GpuFoldFactors
    : public fathom::impl::GpuFoldFactorsPassBase<GpuFoldFactors> {
  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<KernelOp>()) {
      kernel.walk([](BroadcastOp op) { spreadConstant(op); });
      SmallVector<Operation *> products;
      kernel.walk([&](Operation *op) {
        if (isProduct(op) && isTile(op->getResult(0)) &&
            tileType(op->getResult(0)).getElementType().isF32())
          products.push_back(op);
      });
      if (products.empty())
        continue;
      if (!roundsTo16Bits(kernel)) {
        missed(kernel, kName, "nothing here is rounded to 16 bits");
        continue;
      }
      for (Operation *op : products)
        fold(op);
      tidy(kernel);
    }
  }

  static void spreadConstant(BroadcastOp op) {
    RankedTensorType type = tileType(op.getResult());
    auto c = floatConstant(op.getSource());
    if (!c)
      return;
    Value constant = TileBuilder(OpBuilder(op), op.getLoc()).constant(type, *c);
    op.getResult().replaceAllUsesWith(constant);
    op.erase();
  }

  void fold(Operation *op) {
    Value v = op->getResult(0);
    // A part of another product is folded with that.
    if (v.hasOneUse() && isProduct(*v.getUsers().begin()))
      return;
    Product p;
    collect(v, p, /*root=*/true, /*mine=*/true);
    bool scaled = p.constant != 1;
    int needed = int(p.factors.size()) - 1 + scaled;
    if (p.factors.empty() || p.saved <= needed || !isModest(p.constant))
      return;
    OpBuilder b(op);
    Location loc = op->getLoc();
    Value product = p.factors.front();
    for (Value f : ArrayRef(p.factors).drop_front())
      product = arith::MulFOp::create(b, loc, product, f);
    if (scaled)
      product = arith::MulFOp::create(
          b, loc, product,
          TileBuilder(b, loc).constant(v.getType(), p.constant));
    v.replaceAllUsesWith(product);
    passed(op, kName, "constant factors are one");
  }
};

} // namespace
