//===- FoldVisible.cpp - fa-fold-visible ------------------------------------===//
//
// What a score region computes counts for visible entries only. A mask that
// hides later keys tells that a distance is not negative: its absolute value is
// the distance itself.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/variant/Regions.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"

#include <map>

namespace fathom {
#define GEN_PASS_DEF_FOLDVISIBLEPASS
#include "passes/Passes.h.inc"
} // namespace fathom

using namespace mlir;
using namespace fathom;

namespace {
constexpr StringLiteral kName = "fa-fold-visible";

/// A sum of positions and lengths with their factors. Regions of one op name
/// them alike: arguments are counted from the last, which is the key.
using Sum = std::map<int64_t, int64_t>;
constexpr int64_t kOne = -1, kSeqlenQ = -2, kSeqlenK = -3;

/// Adds `v` times `factor` to `sum`; false if it is no such sum.
bool collect(Value v, int64_t factor, Sum &sum) {
  APInt n;
  if (matchPattern(v, m_ConstantInt(&n))) {
    int64_t part;
    return n.isSignedIntN(32) &&
           !llvm::MulOverflow(n.getSExtValue(), factor, part) &&
           !llvm::AddOverflow(sum[kOne], part, sum[kOne]);
  }
  if (auto arg = dyn_cast<BlockArgument>(v)) {
    sum[arg.getOwner()->getNumArguments() - arg.getArgNumber()] += factor;
    return v.getType().isIndex();
  }
  Operation *op = v.getDefiningOp();
  if (isa<SeqlenQOp, SeqlenKOp>(op)) {
    sum[isa<SeqlenQOp>(op) ? kSeqlenQ : kSeqlenK] += factor;
    return true;
  }
  if (isa<arith::AddIOp, arith::SubIOp>(op))
    return collect(op->getOperand(0), factor, sum) &&
           collect(op->getOperand(1), isa<arith::AddIOp>(op) ? factor : -factor,
                   sum);
  auto holdsIndexes = [](Type t) { return t.isIndex() || t.isInteger(64); };
  return isa<arith::IndexCastOp>(op) &&
         holdsIndexes(op->getOperand(0).getType()) &&
         holdsIndexes(op->getResult(0).getType()) &&
         collect(op->getOperand(0), factor, sum);
}

/// The difference of two sums if it is a number.
std::optional<int64_t> difference(Sum a, const Sum &b) {
  for (auto [key, factor] : b)
    a[key] -= factor;
  for (auto [key, factor] : a)
    if (key != kOne && factor != 0)
      return {};
  return a[kOne];
}

/// Sums that are 0 or more where `v` is true.
void facts(Value v, SmallVector<Sum> &list) {
  if (auto both = v.getDefiningOp<arith::AndIOp>()) {
    facts(both.getLhs(), list);
    facts(both.getRhs(), list);
    return;
  }
  auto cmp = v.getDefiningOp<arith::CmpIOp>();
  if (!cmp || !cmp.getLhs().getType().isIndex())
    return;
  using P = arith::CmpIPredicate;
  P p = cmp.getPredicate();
  bool less = p == P::slt || p == P::sle;
  if (!less && p != P::sgt && p != P::sge)
    return;
  Sum sum;
  if (!collect(less ? cmp.getRhs() : cmp.getLhs(), 1, sum) ||
      !collect(less ? cmp.getLhs() : cmp.getRhs(), -1, sum))
    return;
  sum[kOne] -= p == P::slt || p == P::sgt;
  list.push_back(std::move(sum));
}

struct FoldVisiblePass
    : public fathom::impl::FoldVisiblePassBase<FoldVisiblePass> {
  using FoldVisiblePassBase::FoldVisiblePassBase;

  void runOnOperation() override {
    getOperation()->walk([&](VariantInterface v) {
      if (v.getScore().empty() || v.getMask().empty())
        return missed(v, kName, "there is no score with a mask");
      SmallVector<Sum> visible;
      facts(v.getMask().front().getTerminator()->getOperand(0), visible);
      SmallVector<math::AbsIOp> distances;
      v.getScore().walk([&](math::AbsIOp op) { distances.push_back(op); });
      if (distances.empty())
        missed(v, kName, "the score has no absolute distance");
      for (math::AbsIOp op : distances)
        fold(v, op, visible);
    });
  }

  static void fold(VariantInterface v, math::AbsIOp op, ArrayRef<Sum> visible) {
    Sum x, minus;
    if (!collect(op.getOperand(), 1, x) || !collect(op.getOperand(), -1, minus))
      return;
    auto isFact = [&](const Sum &sum) {
      return llvm::any_of(visible, [&](const Sum &fact) {
        auto more = difference(sum, fact);
        return more && *more >= 0;
      });
    };
    Value known;
    if (isFact(x)) {
      known = op.getOperand();
    } else if (isFact(minus)) {
      OpBuilder b(op);
      Value zero = arith::ConstantOp::create(b, op.getLoc(),
                                             b.getIntegerAttr(op.getType(), 0));
      known = arith::SubIOp::create(b, op.getLoc(), zero, op.getOperand());
    } else {
      return missed(op, kName, "its mask shows no sign of the distance");
    }
    op.getResult().replaceAllUsesWith(known);
    op.erase();
    passed(v, kName, "a visible distance has one sign");
  }
};

} // namespace
