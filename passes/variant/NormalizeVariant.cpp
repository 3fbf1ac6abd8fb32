//===- NormalizeVariant.cpp - fa-normalize-variant --------------------------===//
//
// Sugar becomes region code, so that every later pass reads regions only.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/variant/Regions.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

#include <cmath>

namespace fathom {
#define GEN_PASS_DEF_NORMALIZEVARIANTPASS
#include "passes/Passes.h.inc"
} // namespace fathom

using namespace mlir;
using namespace fathom;

namespace {

/// A window bound this wide hides nothing; leaving it out keeps sums of it and
/// a position from overflowing.
constexpr int64_t kUnbounded = int64_t(1) << 48;

/// Rewrites one variant op.
class Normalizer {
public:
  Normalizer(VariantInterface v)
      : v(v), b(v->getContext()), loc(v->getLoc()),
        captures(v.getCaptureNames().size()) {}

  void run() {
    if (v.getSoftcap() || v.getAlibi())
      changeScore();
    std::optional<int64_t> left, right;
    if (auto l = v.getWindowLeft(); l && (int64_t)*l < kUnbounded)
      left = *l;
    if (auto r = v.getWindowRight(); r && (int64_t)*r < kUnbounded)
      right = *r;
    if (v.getCausal())
      right = 0;
    if (left || right)
      hide(left, right);
    for (Region &r : v->getRegions()) {
      r.walk([&](DistanceOp d) { expand(d); });
      r.walk([&](math::FPowIOp p) { expand(p); });
    }
    for (StringRef sugar :
         {"softcap", "alibi", "causal", "window_left", "window_right"})
      v->removeAttr(sugar);
    v->setAttr("alignment",
               AlignmentAttr::get(v->getContext(), Alignment::bottom_right));
    canonicalizeRegions(v);
    dropEmpty();
  }

private:
  template <typename Op, typename... Args>
  Value make(Args &&...args) {
    return Op::create(b, loc, std::forward<Args>(args)...);
  }

  /// The scores' type: that of s where there is a region, else of the instance.
  FloatType scoreType() {
    if (auto op = dyn_cast<AttentionOp>(*v))
      return op.getAccType();
    if (auto op = dyn_cast<AttentionGradOp>(*v))
      return getAccType(getElementTypeOrSelf(op.getQ().getType()));
    return b.getF32Type();
  }

  /// A block with the arguments captures, `floats` scores, b, h, i, j.
  Block *begin(Region &r, unsigned floats) {
    if (!r.empty())
      return &r.front();
    Block *block = b.createBlock(&r);
    for (Type t : v.getCaptureTypes())
      block->addArgument(t, loc);
    for (unsigned n = 0; n < floats; ++n)
      block->addArgument(scoreType(), loc);
    for (int n = 0; n < 4; ++n)
      block->addArgument(b.getIndexType(), loc);
    return block;
  }

  /// i + off, the key position that query i stands at.
  Value position(Value i) {
    if (v.getAlignment() == Alignment::top_left)
      return i;
    Value off = make<arith::SubIOp>(make<SeqlenKOp>(b.getIndexType()),
                                    make<SeqlenQOp>(b.getIndexType()));
    return make<arith::AddIOp>(i, off);
  }

  /// |i + off - j| as a float. Positions stay 64 bit wide.
  Value distance(Value i, Value j, Type type) {
    Value d = make<arith::SubIOp>(position(i), j);
    d = make<arith::IndexCastOp>(b.getI64Type(), d);
    return make<arith::SIToFPOp>(type, make<math::AbsIOp>(d));
  }

  void expand(DistanceOp d) {
    b.setInsertionPoint(d);
    loc = d.getLoc();
    d.replaceAllUsesWith(distance(d.getI(), d.getJ(), d.getType()));
    d.erase();
  }

  /// A power whose exponent is not a constant becomes powf, which targets have
  /// for vectors of exponents.
  void expand(math::FPowIOp p) {
    if (matchPattern(p.getRhs(), m_Constant()))
      return;
    b.setInsertionPoint(p);
    loc = p.getLoc();
    Value exponent = make<arith::SIToFPOp>(p.getType(), p.getRhs());
    p.replaceAllUsesWith(make<math::PowFOp>(p.getLhs(), exponent));
    p.erase();
  }

  /// softcap, then alibi, before what the score region does.
  void changeScore() {
    bool isNew = v.getScore().empty();
    Block *block = begin(v.getScore(), 1);
    b.setInsertionPointToStart(block);
    BlockArgument old = block->getArgument(captures);
    Type type = old.getType();
    Value s = old;
    if (auto cap = v.getSoftcap()) {
      Value c;
      if (auto f = dyn_cast<FloatAttr>(*cap))
        c = make<arith::ConstantOp>(FloatAttr::get(type, f.getValueAsDouble()));
      else
        c = castFloat(
            b, loc, block->getArgument(cast<IntegerAttr>(*cap).getInt()), type);
      s = make<arith::MulFOp>(c, make<math::TanhOp>(make<arith::DivFOp>(s, c)));
    }
    if (auto alibi = v.getAlibi()) {
      Value slopes = block->getArgument(*alibi);
      auto index = block->getArguments().drop_front(captures + 1);
      SmallVector<Value> at{index[1]};
      if (cast<RankedTensorType>(slopes.getType()).getRank() == 2)
        at.insert(at.begin(), index[0]);
      Value slope =
          castFloat(b, loc, make<tensor::ExtractOp>(slopes, at), type);
      s = make<arith::SubFOp>(
          s, make<arith::MulFOp>(slope, distance(index[2], index[3], type)));
    }
    if (isNew) {
      YieldOp::create(b, loc, s);
      return;
    }
    // The ops of the region stand after the new ones.
    Operation *last = s.getDefiningOp();
    old.replaceUsesWithIf(s, [&](OpOperand &use) {
      return last->isBeforeInBlock(use.getOwner());
    });
  }

  /// Keys from `left` before to `right` after the query's position, inclusive,
  /// and what the mask region says.
  void hide(std::optional<int64_t> left, std::optional<int64_t> right) {
    bool isNew = v.getMask().empty();
    Block *block = begin(v.getMask(), 0);
    isNew ? b.setInsertionPointToEnd(block)
          : b.setInsertionPoint(&block->back());
    auto index = block->getArguments().drop_front(captures);
    Value at = position(index[2]), j = index[3], visible;
    auto both = [&](Value other) {
      visible = visible ? make<arith::AndIOp>(visible, other) : other;
    };
    if (right)
      both(make<arith::CmpIOp>(
          arith::CmpIPredicate::sle, j,
          make<arith::AddIOp>(at, make<arith::ConstantIndexOp>(*right))));
    if (left)
      both(make<arith::CmpIOp>(
          arith::CmpIPredicate::sge, j,
          make<arith::SubIOp>(at, make<arith::ConstantIndexOp>(*left))));
    if (isNew) {
      YieldOp::create(b, loc, visible);
      return;
    }
    both(block->back().getOperand(0));
    block->back().setOperand(0, visible);
  }

  /// A score that is s and a mask that is true need no region.
  void dropEmpty() {
    auto yielded = [](Region &r) { return r.front().back().getOperand(0); };
    if (Region &r = v.getScore();
        !r.empty() && yielded(r) == r.getArgument(captures))
      clear(r);
    if (Region &r = v.getMask();
        !r.empty() && matchPattern(yielded(r), m_One()))
      clear(r);
  }
  static void clear(Region &r) {
    r.dropAllReferences();
    r.getBlocks().clear();
  }

  VariantInterface v;
  OpBuilder b;
  Location loc;
  size_t captures;
};

struct NormalizeVariantPass
    : public fathom::impl::NormalizeVariantPassBase<NormalizeVariantPass> {
  using NormalizeVariantPassBase::NormalizeVariantPassBase;

  void runOnOperation() override {
    getOperation()->walk([&](VariantInterface v) {
      Normalizer(v).run();
      int64_t dqk = 0;
      if (auto op = dyn_cast<AttentionOp>(*v))
        dqk = op.getHeadDimQK();
      else if (auto op = dyn_cast<AttentionGradOp>(*v))
        dqk = cast<RankedTensorType>(op.getQ().getType()).getShape().back();
      if (dqk && !v.getScale())
        v->setAttr("scale", Builder(v->getContext())
                                .getF64FloatAttr(1 / std::sqrt(double(dqk))));
      passed(v, "fa-normalize-variant",
             Twine("score ") +
                 (v.getScore().empty() ? "unchanged" : "as a region") +
                 ", mask " + (v.getMask().empty() ? "none" : "as a region"));
    });
  }
};
} // namespace
