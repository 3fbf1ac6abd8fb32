//===- FoldExp2.cpp - fa-gpu-fold-exp2 --------------------------------------===//
//
// The hardware has 2^x, not e^x. exp(x) is 2^(x log2 e), and where x is a scaled
// tile less a value per row, the factor joins the scale and the value, so that
// one fused multiply-add feeds the instruction. The scale itself moves behind
// selects and maxima, which do not change under a positive factor, until it
// meets the exponential. A maximum that a loop carries is carried with the
// factor: what is subtracted is then the same number in every iteration, however
// large it is and however the product with log2 e is rounded.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/map/gpu/Gpu.h"
#include "passes/nest/Tiles.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <cmath>

namespace fathom {
#define GEN_PASS_DEF_GPUFOLDEXP2PASS
#include "passes/Passes.h.inc"
} // namespace fathom

using namespace mlir;
using namespace fathom;
using namespace fathom::gpu;

namespace {
constexpr StringLiteral kName = "fa-gpu-fold-exp2";
constexpr double kLog2E = 1.4426950408889634;

Value splat(OpBuilder &b, Location loc, Type type, double v) {
  auto element = cast<FloatType>(getElementTypeOrSelf(type));
  TypedAttr attr = b.getFloatAttr(element, v);
  if (auto tile = dyn_cast<RankedTensorType>(type))
    attr = DenseElementsAttr::get(tile, cast<FloatAttr>(attr).getValue());
  return arith::ConstantOp::create(b, loc, attr);
}

/// True for factors that may join others without a zero or an infinity.
bool isModest(double c) {
  return c == 0 || (std::abs(c) > 1e-18 && std::abs(c) < 1e18);
}

/// x and c where v is x c with a modest constant c.
std::pair<Value, double> matchScale(Value v) {
  auto mul = v.getDefiningOp<arith::MulFOp>();
  if (!mul)
    return {};
  if (auto c = floatConstant(mul.getRhs()); c && isModest(*c))
    return {mul.getLhs(), *c};
  if (auto c = floatConstant(mul.getLhs()); c && isModest(*c))
    return {mul.getRhs(), *c};
  return {};
}

/// True if v c = v for every c > 0.
bool absorbs(Value v) {
  auto k = floatConstant(v);
  return k && (std::isinf(*k) || *k == 0);
}

/// select(mask, x c, k) = select(mask, x, k) c where k c = k.
bool moveBehindSelect(arith::SelectOp select) {
  if (!isTile(select.getResult()))
    return false;
  Value yes = select.getTrueValue(), no = select.getFalseValue();
  auto [x, c] = matchScale(absorbs(no) ? yes : no);
  if (!x || !(c > 0) || !(absorbs(yes) || absorbs(no)))
    return false;
  (absorbs(no) ? yes : no) = x;
  OpBuilder b(select);
  Location loc = select.getLoc();
  Value fresh = arith::SelectOp::create(b, loc, select.getCondition(), yes, no);
  Value scaled =
      arith::MulFOp::create(b, loc, fresh, splat(b, loc, x.getType(), c));
  select.getResult().replaceAllUsesWith(scaled);
  select->erase();
  return true;
}

/// Both branches yield something times c: the product comes after.
bool moveBehindBranch(scf::IfOp branch) {
  bool changed = false;
  for (OpResult result : branch.getResults()) {
    unsigned i = result.getResultNumber();
    OpOperand &t = branch.thenYield()->getOpOperand(i),
              &e = branch.elseYield()->getOpOperand(i);
    auto [x, c] = matchScale(t.get());
    auto [y, d] = matchScale(e.get());
    if (!x || !y || c != d || !(c > 0) || !isTile(result))
      continue;
    t.set(x);
    e.set(y);
    OpBuilder b(branch->getContext());
    b.setInsertionPointAfter(branch);
    Location loc = branch.getLoc();
    auto scaled = arith::MulFOp::create(b, loc, result,
                                        splat(b, loc, result.getType(), c));
    result.replaceAllUsesExcept(scaled, scaled);
    changed = true;
  }
  return changed;
}

/// max(x c) = max(x) c.
bool moveBehindMax(ReduceOp reduce) {
  if (reduce.getKind() != ReduceKind::max)
    return false;
  auto [x, c] = matchScale(reduce.getTile());
  if (!x || !(c > 0))
    return false;
  OpBuilder b(reduce->getContext());
  b.setInsertionPointAfter(reduce);
  Location loc = reduce.getLoc();
  Value result = reduce.getResult();
  reduce.getTileMutable().set(x);
  auto scaled =
      arith::MulFOp::create(b, loc, result, splat(b, loc, result.getType(), c));
  result.replaceAllUsesExcept(scaled, scaled);
  return true;
}

/// True for the factor that takes log2 e out again.
bool takesOut(double c) { return std::abs(c * kLog2E - 1) < 1e-7; }

/// x c < y c is x < y, whatever the comparison.
bool dropFromComparison(arith::CmpFOp compare) {
  auto [x, c] = matchScale(compare.getLhs());
  auto [y, d] = matchScale(compare.getRhs());
  bool both = x && y && c == d;
  if (!x || !takesOut(c) || !(both || absorbs(compare.getRhs())))
    return false;
  compare.getLhsMutable().set(x);
  if (both)
    compare.getRhsMutable().set(y);
  return true;
}

/// x c - y c = (x - y) c.
bool moveBehindDifference(arith::SubFOp sub) {
  auto [x, c] = matchScale(sub.getLhs());
  auto [y, d] = matchScale(sub.getRhs());
  if (!x || !y || c != d || !takesOut(c))
    return false;
  OpBuilder b(sub);
  Location loc = sub.getLoc();
  Value fresh = arith::SubFOp::create(b, loc, x, y);
  Value scaled =
      arith::MulFOp::create(b, loc, fresh, splat(b, loc, x.getType(), c));
  sub.getResult().replaceAllUsesWith(scaled);
  sub->erase();
  return true;
}

/// v times c, with the factor as far up as it costs least.
Value scaled(OpBuilder &b, Value v, double c) {
  Location loc = v.getLoc();
  if (auto [x, d] = matchScale(v); x)
    if (takesOut(d) && c == kLog2E)
      return x;
  if (auto [x, d] = matchScale(v); x)
    return arith::MulFOp::create(b, loc, x, splat(b, loc, x.getType(), d * c));
  if (auto broadcast = v.getDefiningOp<BroadcastOp>()) {
    OpBuilder at(broadcast);
    return BroadcastOp::create(at, loc, v.getType(),
                               scaled(at, broadcast.getSource(), c),
                               broadcast.getDim());
  }
  if (auto sub = v.getDefiningOp<arith::SubFOp>())
    return arith::SubFOp::create(b, loc, scaled(b, sub.getLhs(), c),
                                 scaled(b, sub.getRhs(), c));
  return arith::MulFOp::create(b, loc, v, splat(b, loc, v.getType(), c));
}

/// Moves factors down as far as they go.
void moveFactors(KernelOp kernel) {
  for (bool changed = true; changed;) {
    changed = false;
    SmallVector<Operation *> work;
    kernel.walk([&](Operation *op) {
      if (isa<arith::SelectOp, arith::CmpFOp, arith::SubFOp, scf::IfOp,
              ReduceOp>(op))
        work.push_back(op);
    });
    for (Operation *op : work) {
      if (auto select = dyn_cast<arith::SelectOp>(op))
        changed |= moveBehindSelect(select);
      else if (auto compare = dyn_cast<arith::CmpFOp>(op))
        changed |= dropFromComparison(compare);
      else if (auto sub = dyn_cast<arith::SubFOp>(op))
        changed |= moveBehindDifference(sub);
      else if (auto branch = dyn_cast<scf::IfOp>(op))
        changed |= branch.getNumResults() && moveBehindBranch(branch);
      else
        changed |= moveBehindMax(cast<ReduceOp>(op));
    }
  }
}

/// True if `v` is computed from `from`, as far as that is seen from its block.
bool follows(Value v, Value from, llvm::SmallPtrSetImpl<Operation *> &seen) {
  if (v == from)
    return true;
  Operation *def = v.getDefiningOp();
  return def && seen.insert(def).second &&
         llvm::any_of(def->getOperands(),
                      [&](Value o) { return follows(o, from, seen); });
}

/// Maxima over the iterations of `loop` that `exps` depend on are carried times
/// log2 e, and divided again where they are used.
void carryScaled(scf::ForOp loop, ArrayRef<math::ExpOp> exps) {
  auto yield = cast<scf::YieldOp>(loop.getBody()->getTerminator());
  for (auto [i, arg] : llvm::enumerate(loop.getRegionIterArgs())) {
    auto max = yield.getOperand(i).getDefiningOp<arith::MaxNumFOp>();
    if (!max || max->getBlock() != loop.getBody() ||
        !llvm::is_contained(max->getOperands(), arg) ||
        !absorbs(loop.getInitArgs()[i]) ||
        llvm::none_of(exps, [&, arg = arg](math::ExpOp exp) {
          llvm::SmallPtrSet<Operation *, 16> seen;
          return exp->getBlock() == loop.getBody() &&
                 follows(exp.getOperand(), arg, seen);
        }))
      continue;
    Value other = max.getLhs() == arg ? max.getRhs() : max.getLhs();
    OpBuilder b(max);
    auto back = [&](Value v) {
      b.setInsertionPointAfterValue(v);
      auto product = arith::MulFOp::create(
          b, v.getLoc(), v, splat(b, v.getLoc(), v.getType(), 1 / kLog2E));
      return product;
    };
    auto fresh = arith::MaxNumFOp::create(b, max.getLoc(), arg,
                                          scaled(b, other, kLog2E));
    auto again = back(fresh), before = back(arg),
         after = back(loop.getResult(i));
    max.getResult().replaceAllUsesWith(again);
    max->erase();
    yield->setOperand(i, fresh);
    arg.replaceAllUsesExcept(before,
                             llvm::SmallPtrSet<Operation *, 2>{fresh, before});
    loop.getResult(i).replaceAllUsesExcept(after, after);
  }
}

struct GpuFoldExp2 : public fathom::impl::GpuFoldExp2PassBase<GpuFoldExp2> {
  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<KernelOp>())
      run(kernel);
  }

  void run(KernelOp kernel) {
    SmallVector<math::ExpOp> exps;
    kernel.walk([&](math::ExpOp op) {
      if (getElementTypeOrSelf(op.getType()).isF32() && isTile(op))
        exps.push_back(op);
    });
    if (exps.empty())
      return;
    if (!roundsTo16Bits(kernel))
      return missed(kernel, kName,
                    "nothing here is rounded to 16 bits: exp stays exact");
    moveFactors(kernel);
    kernel.walk([&](scf::ForOp loop) { carryScaled(loop, exps); });
    moveFactors(kernel);
    for (math::ExpOp op : exps) {
      OpBuilder b(op);
      Value x = scaled(b, op.getOperand(), kLog2E);
      Value e =
          math::Exp2Op::create(b, op.getLoc(), x, arith::FastMathFlags::afn);
      op.getResult().replaceAllUsesWith(e);
      op->erase();
    }
    tidy(kernel);
    passed(kernel, kName, Twine(exps.size()) + " exponentials of base 2");
  }
};

} // namespace
