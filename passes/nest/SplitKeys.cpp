//===- SplitKeys.cpp - fa-split-keys ----------------------------------------===//
//
// With few query rows there are fewer items than a GPU has processors, each
// passing over all keys. A running maximum, sum and accumulator of parts of the
// keys can be merged by the rule that rescales them within a part (split-KV,
// as in Flash-Decoding), so parts may run at the same time. The pass proves a
// loop to carry just that, lets its nest run once for each part of the loop's
// range and keep what the loop carried, and merges the parts in a second nest,
// which goes on as the first one did.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/nest/Parts.h"

#include <limits>

using namespace mlir;
using namespace fathom;

namespace fathom {
#define GEN_PASS_DEF_SPLITKEYSPASS
#include "passes/Passes.h.inc"
} // namespace fathom

namespace {
constexpr StringLiteral kName = "fa-split-keys";
constexpr double kInf = std::numeric_limits<double>::infinity();

/// A loop that carries a maximum, a sum and an accumulator, in any order.
struct Running {
  NestOp nest;
  scf::ForOp loop;
  unsigned acc, max, sum; // places among what the loop carries
  int64_t step;
};

/// exp(from - to), and 1 where they are the same, infinities too.
Value emitRescale(TileBuilder &b, Value from, Value to) {
  Value same = b.make<arith::CmpFOp>(arith::CmpFPredicate::UEQ, from, to);
  Value shift = b.make<arith::SelectOp>(same, b.constant(from.getType(), 0),
                                        b.make<arith::SubFOp>(from, to));
  return b.make<math::ExpOp>(shift);
}

/// True if `v` is what emitRescale makes of `from` and `to`.
bool isRescale(Value v, Value from, Value to) {
  auto exp = v.getDefiningOp<math::ExpOp>();
  auto select = exp ? exp.getOperand().getDefiningOp<arith::SelectOp>()
                    : arith::SelectOp();
  auto same = select ? select.getCondition().getDefiningOp<arith::CmpFOp>()
                     : arith::CmpFOp();
  auto sub = select ? select.getFalseValue().getDefiningOp<arith::SubFOp>()
                    : arith::SubFOp();
  return same && sub && same.getPredicate() == arith::CmpFPredicate::UEQ &&
         ((same.getLhs() == from && same.getRhs() == to) ||
          (same.getLhs() == to && same.getRhs() == from)) &&
         floatConstant(select.getTrueValue()) == 0.0 && sub.getLhs() == from &&
         sub.getRhs() == to;
}

/// The other operand of the commutative `Op` that makes `v` if one is `known`.
template <typename Op>
Value otherOf(Value v, Value known) {
  auto [a, b] = matchBinary<Op>(v);
  return a == known ? b : b == known ? a : Value();
}

/// True if `v` is computed from a value that `loop` carries.
bool dependsOnCarried(Value v, scf::ForOp loop,
                      SmallPtrSetImpl<Operation *> &seen) {
  if (llvm::is_contained(loop.getRegionIterArgs(), v))
    return true;
  Operation *def = v.getDefiningOp();
  if (!def || !loop->isProperAncestor(def) || !seen.insert(def).second)
    return false;
  return def
      ->walk([&](Operation *op) {
        return llvm::any_of(
                   op->getOperands(),
                   [&](Value o) { return dependsOnCarried(o, loop, seen); })
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      })
      .wasInterrupted();
}
bool dependsOnCarried(Value v, scf::ForOp loop) {
  SmallPtrSet<Operation *, 32> seen;
  return dependsOnCarried(v, loop, seen);
}

/// What an iteration makes of the carried values; through tests that keep them
/// otherwise. Empty if it does something else.
SmallVector<Value> nextValues(scf::ForOp loop) {
  SmallVector<Value> next(loop.getYieldedValues());
  while (auto test = next[0].getDefiningOp<scf::IfOp>()) {
    if (!llvm::equal(next, test.getResults()) || !test.elseBlock() ||
        !llvm::equal(test.elseYield().getOperands(), loop.getRegionIterArgs()))
      return {};
    next.assign(test.thenYield().getOperands().begin(),
                test.thenYield().getOperands().end());
  }
  return next;
}

std::optional<Running> match(NestOp nest, std::string &why) {
  Running r;
  r.nest = nest;
  r.loop = onlyLoop(nest);
  if (!r.loop || r.loop.getNumRegionIterArgs() != 3)
    return std::nullopt;
  scf::ForOp loop = r.loop;
  SmallVector<Value> next = nextValues(loop);
  int acc = -1, max = -1, sum = -1;
  for (auto [i, v] : llvm::enumerate(next)) {
    if (v.getDefiningOp<DotOp>())
      acc = i;
    else if (v.getDefiningOp<arith::MaxNumFOp>())
      max = i;
    else if (v.getDefiningOp<arith::AddFOp>())
      sum = i;
  }
  if (acc < 0 || max < 0 || sum < 0)
    return std::nullopt; // not of this kind at all
  r.acc = acc, r.max = max, r.sum = sum;
  Value acc0 = loop.getRegionIterArg(acc), m0 = loop.getRegionIterArg(max),
        l0 = loop.getRegionIterArg(sum);

  why = "the maximum, sum and accumulator do not start from -inf, 0 and 0";
  if (floatConstant(loop.getInitArgs()[acc]) != 0.0 ||
      floatConstant(loop.getInitArgs()[sum]) != 0.0 ||
      floatConstant(loop.getInitArgs()[max]) != -kInf)
    return std::nullopt;

  // m1 = max(m0, rowmax x)
  why = "it does not carry the maximum of the rows of a tile";
  Value m1 = next[max];
  Value rowMax = otherOf<arith::MaxNumFOp>(m1, m0);
  auto reduce = rowMax ? rowMax.getDefiningOp<ReduceOp>() : ReduceOp();
  if (!reduce || reduce.getKind() != ReduceKind::max || reduce.getDim() != 1)
    return std::nullopt;
  Value x = reduce.getTile();

  // l1 = l0 alpha + rowsum p, with p = exp(x - guard(m1))
  why = "it does not carry the sum of exp(x - m) of the same x and m";
  auto [a, b] = matchBinary<arith::AddFOp>(next[sum]);
  if (a.getDefiningOp<ReduceOp>())
    std::swap(a, b);
  Value alpha = otherOf<arith::MulFOp>(a, l0);
  auto rowSum = b.getDefiningOp<ReduceOp>();
  if (!alpha || !isRescale(alpha, m0, m1) || !rowSum ||
      rowSum.getKind() != ReduceKind::add || rowSum.getDim() != 1)
    return std::nullopt;
  Value p = rowSum.getTile();
  auto exp = p.getDefiningOp<math::ExpOp>();
  auto sub =
      exp ? exp.getOperand().getDefiningOp<arith::SubFOp>() : arith::SubFOp();
  Value row = sub ? matchRowBroadcast(sub.getRhs(), 0) : Value();
  if (!row || sub.getLhs() != x || matchGuard(row, -kInf, 0) != m1)
    return std::nullopt;

  // acc1 = acc0 alpha + p v
  why = "it does not carry a product of the same exp(x - m)";
  auto dot = next[acc].getDefiningOp<DotOp>();
  Value scale = otherOf<arith::MulFOp>(dot.getAcc(), acc0);
  if (!scale || matchRowBroadcast(scale, 0) != alpha ||
      stripCasts(dot.getA()) != p)
    return std::nullopt;

  why = "an iteration depends on earlier ones by more than what is rescaled";
  if (dependsOnCarried(x, loop) || dependsOnCarried(dot.getB(), loop))
    return std::nullopt;
  for (Operation *up = dot->getParentOp(); up != loop; up = up->getParentOp())
    if (dependsOnCarried(cast<scf::IfOp>(up).getCondition(), loop))
      return std::nullopt;

  why = "the loop writes memory, or other values are written before it";
  if (!accessOf(loop).writes.empty())
    return std::nullopt;
  for (Operation &op : *nest.getBlock()) {
    if (&op == loop)
      break;
    if (!accessOf(&op).writes.empty())
      return std::nullopt;
  }

  why = "its last dim does not run over the rows of its tiles";
  auto step = getConstantIntValue(OpFoldResult(loop.getStep()));
  auto accType = cast<RankedTensorType>(acc0.getType());
  if (!step || nest.getNumParallel() != nest.getNumDims() ||
      nest.getSteps().back() != accType.getDimSize(0))
    return std::nullopt;
  r.step = *step;
  why.clear();
  return r;
}

struct SplitKeysPass : public fathom::impl::SplitKeysPassBase<SplitKeysPass> {
  using SplitKeysPassBase::SplitKeysPassBase;

  void runOnOperation() override {
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      auto schedule = func->getAttrOfType<ScheduleAttr>(kScheduleAttr);
      if (!schedule || schedule.getKvSplits() == 1) {
        missed(func, kName, "the schedule keeps the keys in one part");
        continue;
      }
      bool any = false;
      for (auto nest : llvm::make_early_inc_range(func.getOps<NestOp>())) {
        std::string why;
        auto r = match(nest, why);
        if (!r) {
          if (!why.empty())
            missed(nest, kName, why), any = true;
          continue;
        }
        any = true;
        passed(nest, kName,
               Twine(schedule.getKvSplits()) +
                   " parts of the keys run in parallel and are merged");
        split(*r, schedule.getKvSplits());
      }
      if (!any)
        missed(func, kName,
               "no loop carries a running maximum, sum and accumulator");
      else
        tidyNests(func);
    }
  }

  /// What the carried values of some parts are together.
  static SmallVector<Value> emitMerge(TileBuilder &m, const Running &r,
                                      ArrayRef<SmallVector<Value>> parts) {
    SmallVector<Value> all(3);
    for (const SmallVector<Value> &part : parts)
      all[r.max] = all[r.max]
                       ? m.make<arith::MaxNumFOp>(all[r.max], part[r.max])
                       : part[r.max];
    for (const SmallVector<Value> &part : parts) {
      Value scale = emitRescale(m, part[r.max], all[r.max]);
      for (unsigned i : {r.sum, r.acc}) {
        auto type = cast<RankedTensorType>(part[i].getType());
        Value scaled =
            m.make<arith::MulFOp>(part[i], m.broadcast(scale, 0, type));
        all[i] = all[i] ? m.make<arith::AddFOp>(all[i], scaled) : scaled;
      }
    }
    return all;
  }

  void split(Running &r, int64_t splits) {
    NestOp nest = r.nest;
    scf::ForOp loop = r.loop;
    // The nest up to its loop, which passes over a part. Items of all heads pass
    // over the same keys at the same time, which lie beside each other.
    Parts parts(nest, loop, splits, /*dim=*/0);
    scf::ForOp part = parts.getLoop();
    TileBuilder t(OpBuilder(part), loop.getLoc());
    Value s = parts.getNumber();
    Value lo = part.getLowerBound(), hi = part.getUpperBound();
    Value length = t.make<arith::MaxSIOp>(t.sub(hi, lo), t.index(0));
    Value chunk =
        t.mul(t.ceilDiv(t.ceilDiv(length, r.step), splits), t.index(r.step));
    Value begin = t.add(lo, t.mul(s, chunk));
    part.setLowerBound(begin);
    part.setUpperBound(t.make<arith::MinSIOp>(t.add(begin, chunk), hi));

    // The nest from its loop on, which merges the parts in order: some at a
    // time, so that they are read at the same time, but few enough to hold.
    int64_t entries = cast<RankedTensorType>(loop.getResult(r.acc).getType())
                          .getNumElements();
    int64_t atOnce = 16;
    while (splits % atOnce || (atOnce > 1 && atOnce * entries > 8192))
      atOnce /= 2;
    TileBuilder m(OpBuilder(loop), loop.getLoc());
    auto merged = m.loop(
        m.index(splits), atOnce, loop.getInitArgs(),
        [&](Value s, ValueRange carried) -> SmallVector<Value> {
          SmallVector<SmallVector<Value>> tiles = {SmallVector<Value>(carried)};
          for (int64_t u = 0; u < atOnce; ++u)
            tiles.push_back(parts.load(m, m.add(s, m.index(u))));
          return emitMerge(m, r, tiles);
        });
    loop.replaceAllUsesWith(merged.getResults());
    loop.erase();
  }
};
} // namespace
