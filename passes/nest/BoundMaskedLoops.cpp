//===- BoundMaskedLoops.cpp - fa-bound-masked-loops -------------------------===//
//
// Where a mask reads memory (ids of documents, lengths, padding), no scalar
// says which tiles of it are hidden, and fa-classify-mask has each iteration
// test the entries of its tile. Most such masks compare a value of the row with
// one of the column. The pass lets a small nest find, in time linear in the
// length, between which values a line of rows and each line of columns lie; a
// tile can only be visible where these intervals allow it. The first and the
// last such tile become the loop's bounds.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/nest/HiddenIteration.h"
#include "passes/nest/MaskRewrite.h"
#include "passes/nest/Tiles.h"

#include <limits>

using namespace mlir;
using namespace fathom;

namespace fathom {
#define GEN_PASS_DEF_BOUNDMASKEDLOOPSPASS
#include "passes/Passes.h.inc"
} // namespace fathom

namespace {
constexpr StringLiteral kName = "fa-bound-masked-loops";
constexpr double kInf = std::numeric_limits<double>::infinity();
/// Columns that are looked at together: enough to fill a GPU's threads, few
/// enough for their registers.
constexpr int64_t kEntriesAtOnce = 4096;

/// Says for some iterations of a loop at once which can have a visible entry in
/// their mask tile. Its values are tiles with an entry per iteration.
class TileScan {
public:
  /// `starts`: the loop's variable in each of the iterations. `map` leads from
  /// the dims of the loop's nest to those of the nest where `b` stands. Of
  /// comparisons of positions nothing is said but with `positions`.
  TileScan(TileBuilder &b, scf::ForOp loop, Value starts, IRMapping &map,
           bool positions)
      : b(b), loop(loop), starts(starts), map(map), positions(positions),
        count(cast<RankedTensorType>(starts.getType()).getDimSize(0)) {}

  /// Where an entry of `mask`, a tile of i1 in the loop, can be `wanted`; null
  /// where nothing is known.
  Value canBe(Value mask, bool wanted);

private:
  RankedTensorType perIteration(Type element) {
    return tileOf({count}, element);
  }
  Value both(Value x, Value y) {
    return !x ? y : !y ? x : b.make<arith::AndIOp>(x, y);
  }
  Value either(Value x, Value y) {
    return x && y ? b.make<arith::OrIOp>(x, y) : Value();
  }
  bool moves(Value v) { return dependsOn(v, loop.getInductionVar()); }

  Value emit(Value v, ArrayRef<int64_t> shape);
  Value emitLine(Value v);
  /// A line's result, reduced over the line; per iteration.
  Value reduce(ReduceKind kind, Value line);

  struct Interval {
    Value least, greatest;
  };
  std::optional<Interval> getInterval(Value v);
  Value compare(arith::CmpFPredicate p, Value x, Value y) {
    return b.make<arith::CmpFOp>(p, x, y);
  }
  Value canCompare(arith::CmpIOp op, bool wanted);
  Value canCompare(arith::CmpFOp op, bool wanted);

  TileBuilder &b;
  scf::ForOp loop;
  Value starts;
  IRMapping &map;
  bool positions;
  int64_t count;
};

/// `v`, a value that varies along one dim at most, for the last dim of `shape`;
/// if that has two, the first counts iterations. Null if it can't be had.
Value TileScan::emit(Value v, ArrayRef<int64_t> shape) {
  RankedTensorType type = tileOf(shape, getElementTypeOrSelf(v));
  if (v == loop.getInductionVar())
    return b.broadcast(starts, 0, type);
  if (!isa<ShapedType>(v.getType()) && !moves(v))
    return b.broadcast(cloneSlice(b, v, map), 0, type);
  Operation *op = v.getDefiningOp();
  if (!op)
    return {};
  if (auto broadcast = dyn_cast<BroadcastOp>(op))
    return emit(broadcast.getSource(), shape);
  if (auto transpose = dyn_cast<TransposeOp>(op))
    return emit(transpose.getTile(), shape);
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    auto splat = dyn_cast<SplatElementsAttr>(constant.getValue());
    return splat
               ? b.make<arith::ConstantOp>(splat.resizeSplat(type)).getResult()
               : Value();
  }
  if (auto iota = dyn_cast<IotaOp>(op)) {
    Value start = emit(iota.getStart(), shape);
    Value lane =
        b.make<IotaOp>(tileOf({shape.back()}, b.getIndexType()), b.index(0));
    return start ? b.add(start, b.broadcast(lane, shape.size() - 1, type))
                 : Value();
  }
  bool gathers = isa<GatherOp>(op);
  if (!gathers && !op->hasTrait<OpTrait::Elementwise>() &&
      !isa<arith::SelectOp>(op))
    return {};
  IRMapping operands;
  for (auto [n, operand] : llvm::enumerate(op->getOperands())) {
    // A gather's buffer, and what is the same for all its entries.
    bool asIs =
        gathers && !isa<ShapedType>(operand.getType()) && !moves(operand);
    Value emitted = isa<MemRefType>(operand.getType()) ? operand
                    : asIs ? cloneSlice(b, operand, map)
                           : emit(operand, shape);
    if (!emitted)
      return {};
    operands.map(operand, emitted);
  }
  Operation *copy = b.clone(*op, operands);
  copy->getResult(0).setType(type);
  return copy->getResult(0);
}

/// All entries of `v`, of one line or of one line per iteration.
Value TileScan::emitLine(Value v) {
  unsigned dims = getVaryingDims(v);
  if (dims == 3)
    return {};
  int64_t length =
      dims ? cast<RankedTensorType>(v.getType()).getDimSize(dims >> 1) : 1;
  return moves(v) ? emit(v, {count, length}) : emit(v, {length});
}

Value TileScan::reduce(ReduceKind kind, Value line) {
  auto type = cast<RankedTensorType>(line.getType());
  bool perLine = type.getRank() == 2;
  Value result = b.make<ReduceOp>(perLine ? perIteration(type.getElementType())
                                          : type.getElementType(),
                                  kind, line, perLine ? 1 : 0);
  return b.broadcast(result, 0, perIteration(type.getElementType()));
}

std::optional<TileScan::Interval> TileScan::getInterval(Value v) {
  Value line = emitLine(v);
  if (!line)
    return std::nullopt;
  // Rounded to f64, numbers keep their order; two may become equal.
  auto type = cast<RankedTensorType>(line.getType());
  RankedTensorType wide = type.clone(b.getF64Type());
  if (type.getElementType().isIndex())
    line = b.make<arith::IndexCastOp>(type.clone(b.getI64Type()), line);
  line = isa<FloatType>(type.getElementType())
             ? b.castTo(line, b.getF64Type())
             : b.make<arith::SIToFPOp>(wide, line);
  Value least = reduce(ReduceKind::max, b.make<arith::NegFOp>(line));
  return Interval{b.make<arith::NegFOp>(least), reduce(ReduceKind::max, line)};
}

Value TileScan::canCompare(arith::CmpIOp op, bool wanted) {
  using P = arith::CmpIPredicate;
  P p = wanted ? op.getPredicate() : arith::invertPredicate(op.getPredicate());
  // Differences of numbers that f64 may round are not told.
  Type element = getElementTypeOrSelf(op.getLhs());
  if (element.isIndex() && !positions)
    return {};
  bool exact = !element.isIndex() && element.getIntOrFloatBitWidth() <= 32;
  bool isSigned =
      llvm::is_contained({P::eq, P::ne, P::slt, P::sle, P::sgt, P::sge}, p);
  if (!isSigned || (p == P::ne && !exact))
    return {};
  auto l = getInterval(op.getLhs()), r = getInterval(op.getRhs());
  if (!l || !r)
    return {};
  if (p == P::sgt || p == P::sge) {
    std::swap(l, r);
    p = p == P::sgt ? P::slt : P::sle;
  }
  auto below = exact ? arith::CmpFPredicate::OLT : arith::CmpFPredicate::OLE;
  auto notAbove = arith::CmpFPredicate::OLE;
  switch (p) {
  case P::eq:
    return both(compare(notAbove, l->least, r->greatest),
                compare(notAbove, r->least, l->greatest));
  case P::ne:
    return either(compare(below, l->least, r->greatest),
                  compare(below, r->least, l->greatest));
  case P::slt:
    return compare(below, l->least, r->greatest);
  default:
    return compare(notAbove, l->least, r->greatest);
  }
}

Value TileScan::canCompare(arith::CmpFOp op, bool wanted) {
  using P = arith::CmpFPredicate;
  P p = op.getPredicate();
  // Ordered comparisons: a NaN, which max passes over, makes none true.
  if (!wanted ||
      !llvm::is_contained({P::OEQ, P::OLT, P::OLE, P::OGT, P::OGE}, p))
    return {};
  auto l = getInterval(op.getLhs()), r = getInterval(op.getRhs());
  if (!l || !r)
    return {};
  if (p == P::OEQ)
    return both(compare(P::OLE, l->least, r->greatest),
                compare(P::OLE, r->least, l->greatest));
  bool greater = p == P::OGT || p == P::OGE;
  return compare(p, greater ? l->greatest : l->least,
                 greater ? r->least : r->greatest);
}

Value TileScan::canBe(Value mask, bool wanted) {
  Operation *op = mask.getDefiningOp();
  auto of = [&](unsigned n, bool w) { return canBe(op->getOperand(n), w); };
  if (isa_and_nonnull<arith::AndIOp, arith::OrIOp>(op)) {
    if (isa<arith::AndIOp>(op) == wanted)
      return both(of(0, wanted), of(1, wanted));
    // One side without an answer leaves none.
    Value x = of(0, wanted);
    return x ? either(x, of(1, wanted)) : Value();
  }
  if (isa_and_nonnull<arith::XOrIOp>(op)) {
    Value differ = either(both(of(0, true), of(1, !wanted)),
                          both(of(0, false), of(1, wanted)));
    return differ;
  }
  if (auto cmp = dyn_cast_or_null<arith::CmpIOp>(op))
    if (!getElementTypeOrSelf(cmp.getLhs()).isInteger(1))
      return canCompare(cmp, wanted);
  if (auto cmp = dyn_cast_or_null<arith::CmpFOp>(op))
    return canCompare(cmp, wanted);
  if (auto transpose = dyn_cast_or_null<TransposeOp>(op))
    return canBe(transpose.getTile(), wanted);
  Value line = emitLine(mask);
  if (!line)
    return {};
  if (!wanted)
    line = b.make<arith::XOrIOp>(
        line, b.make<arith::ConstantOp>(makeConstant(line.getType(), 1)));
  return reduce(ReduceKind::any, line);
}

struct BoundMaskedLoopsPass
    : public fathom::impl::BoundMaskedLoopsPassBase<BoundMaskedLoopsPass> {
  using BoundMaskedLoopsPassBase::BoundMaskedLoopsPassBase;

  void runOnOperation() override {
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      SmallVector<std::pair<scf::ForOp, Tested>> loops;
      func.walk([&](scf::ForOp loop) {
        if (auto tested = match(loop))
          loops.push_back({loop, *tested});
      });
      if (loops.empty())
        missed(func, kName, "no loop tests the entries of a mask tile");
      for (auto [loop, tested] : loops)
        bound(loop, tested);
      tidyNests(func);
    }
  }

  /// What an iteration does stands under `test`: that an entry of `mask` is
  /// true. Otherwise it keeps what the loop carries.
  struct Tested {
    scf::IfOp test;
    Value mask;
  };

  static std::optional<Tested> match(scf::ForOp loop) {
    Block *body = loop.getBody();
    auto test =
        dyn_cast_or_null<scf::IfOp>(body->getTerminator()->getPrevNode());
    if (!loop->getParentOfType<NestOp>() || !test)
      return std::nullopt;
    Value mask = test.getCondition();
    while (auto reduce = mask.getDefiningOp<ReduceOp>()) {
      if (reduce.getKind() != ReduceKind::any)
        return std::nullopt;
      mask = reduce.getTile();
    }
    auto type = dyn_cast<RankedTensorType>(mask.getType());
    bool keeps =
        loop.getNumResults() == 0 ||
        llvm::equal(test.elseYield().getOperands(), loop.getRegionIterArgs());
    bool alone = llvm::all_of(*body, [&](Operation &op) {
      return &op == test || accessOf(&op).writes.empty();
    });
    if (!type || type.getRank() != 2 || !keeps || !alone ||
        !llvm::equal(loop.getYieldedValues(), test.getResults()))
      return std::nullopt;
    return Tested{test, mask};
  }

  /// Collects the dims of `nest` that `v` depends on, but for `iv`; false if
  /// `v` can't be computed before the nest from these.
  static bool collectDims(Value v, NestOp nest, Value iv,
                          llvm::SmallSetVector<unsigned, 4> &dims) {
    if (v == iv || !nest.getBody().isAncestor(v.getParentRegion()))
      return true;
    if (auto arg = dyn_cast<BlockArgument>(v)) {
      if (arg.getOwner() != nest.getBlock())
        return false;
      dims.insert(arg.getArgNumber());
      return true;
    }
    Operation *op = v.getDefiningOp();
    Value buffer;
    if (auto load = dyn_cast<memref::LoadOp>(op))
      buffer = load.getMemRef();
    else if (auto gather = dyn_cast<GatherOp>(op))
      buffer = gather.getBuffer();
    if (op->getNumRegions() ||
        (buffer ? isWrittenIn(nest, buffer) : !isPure(op)))
      return false;
    return llvm::all_of(op->getOperands(), [&](Value operand) {
      return collectDims(operand, nest, iv, dims);
    });
  }

  /// The iterations for which something holds, as f64 because those can be
  /// reduced: the greatest of the negated variables, the greatest variable, and
  /// how many.
  struct Extent {
    SmallVector<Value> state;

    /// None: from the end of [lower, upper) to a step before its start.
    Extent(TileBuilder &b, Value lower, Value upper, int64_t step)
        : state({b.make<arith::NegFOp>(asNumber(b, upper)),
                 asNumber(b, b.sub(lower, b.index(step))),
                 b.constant(b.getF64Type(), 0)}) {}
    Extent(ValueRange state) : state(state) {}

    static Value asNumber(TileBuilder &b, Value v) {
      auto as = [&](Type element) -> Type {
        auto tile = dyn_cast<RankedTensorType>(v.getType());
        return tile ? Type(tile.clone(element)) : element;
      };
      Value i = b.make<arith::IndexCastOp>(as(b.getI64Type()), v);
      return b.make<arith::SIToFPOp>(as(b.getF64Type()), i);
    }

    void add(TileBuilder &b, Value holds, Value variables) {
      Value numbers = asNumber(b, variables);
      Type type = numbers.getType();
      auto where = [&](Value x, double otherwise) {
        return b.make<arith::SelectOp>(holds, x, b.constant(type, otherwise));
      };
      auto greatest = [&](Value carried, Value x) {
        return b.make<arith::MaxNumFOp>(
            carried, b.reduce(ReduceKind::max, where(x, -kInf), 0));
      };
      state = {greatest(state[0], b.make<arith::NegFOp>(numbers)),
               greatest(state[1], numbers),
               b.make<arith::AddFOp>(
                   state[2], b.reduce(ReduceKind::add,
                                      where(b.constant(type, 1), 0), 0))};
    }

    /// The first variable, and the one that follows the last.
    std::pair<Value, Value> getRange(TileBuilder &b, int64_t step) {
      auto number = [&](Value v) {
        return b.make<arith::FPToSIOp>(b.getI32Type(), v);
      };
      Value first = b.make<arith::NegFOp>(state[0]);
      Value end =
          b.make<arith::AddFOp>(state[1], b.constant(b.getF64Type(), step));
      return {number(first), number(end)};
    }
  };

  /// What the scan finds for an item: the range of what may be visible, and
  /// then that of what `told`, some conjuncts of the mask, surely let be.
  struct Ranges {
    Value buffer;
    SmallVector<unsigned> dims; // of the main nest, which items differ in
    SmallVector<int64_t> steps;
    SmallVector<Value> told;

    /// The places of an item's numbers but for the last index.
    SmallVector<Value> at(TileBuilder &b, ValueRange ivs, int64_t number) {
      SmallVector<Value> places;
      for (auto [iv, step] : llvm::zip(ivs, steps))
        places.push_back(step == 1 ? iv
                                   : b.make<arith::DivUIOp>(iv, b.index(step)));
      places.push_back(b.index(number));
      return places;
    }
    Value read(TileBuilder &b, NestOp nest, int64_t number) {
      SmallVector<Value> ivs;
      for (unsigned d : dims)
        ivs.push_back(nest.getIv(d));
      return b.make<arith::IndexCastOp>(
          b.getIndexType(), b.make<memref::LoadOp>(buffer, at(b, ivs, number)));
    }
  };

  /// Makes the nest that finds the ranges; nothing where it would find none.
  static std::optional<Ranges> makeScan(NestOp nest, scf::ForOp loop,
                                        Value mask, int64_t step,
                                        ArrayRef<unsigned> dims) {
    TileBuilder b(OpBuilder(nest), loop.getLoc());
    Ranges ranges;
    ranges.dims.assign(dims.begin(), dims.end());
    SmallVector<Value> bounds, counts;
    SmallVector<int64_t> shape;
    for (unsigned d : dims) {
      bounds.push_back(nest.getBounds()[d]);
      ranges.steps.push_back(nest.getSteps()[d]);
      counts.push_back(b.ceilDiv(bounds.back(), ranges.steps.back()));
      shape.push_back(ShapedType::kDynamic);
    }
    shape.push_back(4);
    ranges.buffer =
        b.make<memref::AllocOp>(MemRefType::get(shape, b.getI32Type()), counts);
    SmallVector<int64_t> steps = ranges.steps;
    if (dims.empty()) { // one item
      bounds.push_back(b.index(1));
      steps.push_back(1);
    }
    auto scan = b.make<NestOp>("visible", bounds, steps, bounds.size());
    TileBuilder s(OpBuilder::atBlockBegin(scan.getBlock()), loop.getLoc());
    IRMapping map;
    for (auto [n, d] : llvm::enumerate(dims))
      map.map(nest.getIv(d), scan.getIv(n));
    Value from = cloneSlice(s, loop.getLowerBound(), map),
          to = cloneSlice(s, loop.getUpperBound(), map);
    int64_t atOnce = std::clamp<int64_t>(kEntriesAtOnce / step, 16, 64);
    Extent start(s, from, to, step);
    SmallVector<Value> init = start.state;
    llvm::append_range(init, start.state);
    auto chunks = s.make<scf::ForOp>(from, to, s.index(step * atOnce), init);

    TileBuilder t(OpBuilder::atBlockBegin(chunks.getBody()), loop.getLoc());
    RankedTensorType indexes = tileOf({atOnce}, b.getIndexType());
    Value variables =
        t.add(t.broadcast(chunks.getInductionVar(), 0, indexes),
              t.mul(t.make<IotaOp>(indexes, t.index(0)),
                    t.make<arith::ConstantOp>(makeConstant(indexes, step))));
    // The loop's bounds hold what positions tell, except in a union.
    TileScan values(t, loop, variables, map, /*positions=*/false);
    TileScan all(t, loop, variables, map, /*positions=*/true);
    Value visible = values.canBe(mask, true);
    if (!visible)
      visible = all.canBe(mask, true);
    if (!visible) {
      scan.erase();
      ranges.buffer.getDefiningOp()->erase();
      return std::nullopt;
    }
    Value hidden;
    for (Value part : getConjuncts(mask))
      if (Value h = values.canBe(part, false)) {
        ranges.told.push_back(part);
        hidden = hidden ? t.make<arith::OrIOp>(hidden, h) : h;
      }
    Value inside = t.make<arith::CmpIOp>(arith::CmpIPredicate::slt, variables,
                                         t.broadcast(to, 0, indexes));
    auto carried = chunks.getRegionIterArgs();
    Extent some(carried.take_front(3)), whole(carried.drop_front(3));
    some.add(t, t.make<arith::AndIOp>(visible, inside), variables);
    if (hidden) {
      Value yes = t.make<arith::ConstantOp>(makeConstant(hidden.getType(), 1));
      whole.add(
          t, t.make<arith::AndIOp>(t.make<arith::XOrIOp>(hidden, yes), inside),
          variables);
    }
    SmallVector<Value> next = some.state;
    llvm::append_range(next, whole.state);
    t.make<scf::YieldOp>(next);

    s.setInsertionPointAfter(chunks);
    SmallVector<Value> results(chunks.getResults());
    Extent someOfAll(ArrayRef(results).take_front(3)),
        wholeOfAll(ArrayRef(results).drop_front(3));
    auto store = [&](Value v, int64_t number) {
      s.make<memref::StoreOp>(
          v, ranges.buffer,
          ranges.at(s,
                    ArrayRef<Value>(scan.getBlock()->getArguments().begin(),
                                    scan.getBlock()->getArguments().end())
                        .take_front(dims.size()),
                    number));
    };
    auto [first, end] = someOfAll.getRange(s, step);
    store(first, 0);
    store(end, 1);
    if (hidden) {
      // One range only: where there are gaps, none.
      auto [wholeFirst, wholeEnd] = wholeOfAll.getRange(s, step);
      Value length = s.make<arith::AddFOp>(
          wholeOfAll.state[1],
          s.make<arith::AddFOp>(wholeOfAll.state[0],
                                s.constant(s.getF64Type(), step)));
      Value steps = s.make<arith::MulFOp>(wholeOfAll.state[2],
                                          s.constant(s.getF64Type(), step));
      Value one =
          s.make<arith::CmpFOp>(arith::CmpFPredicate::OEQ, length, steps);
      store(wholeFirst, 2);
      store(s.make<arith::SelectOp>(one, wholeEnd, wholeFirst), 3);
    }
    return ranges;
  }

  void bound(scf::ForOp loop, Tested tested) {
    auto nest = loop->getParentOfType<NestOp>();
    Value lower = loop.getLowerBound(), upper = loop.getUpperBound();
    auto step = getConstantIntValue(OpFoldResult(loop.getStep()));
    llvm::SmallSetVector<unsigned, 4> used;
    bool known = step.has_value();
    for (Value v : {tested.mask, lower, upper})
      known &= collectDims(v, nest, loop.getInductionVar(), used);
    if (!known)
      return missed(loop, kName,
                    "its mask and bounds do not follow from the nest's dims");
    SmallVector<unsigned> dims(used.begin(), used.end());
    llvm::sort(dims);
    auto ranges = makeScan(nest, loop, tested.mask, *step, dims);
    if (!ranges)
      return missed(loop, kName,
                    "its mask compares no value of a row with one of a column");

    // The loop within these. Where nothing is visible, the first start is the
    // old end, and the end the old start.
    TileBuilder l(OpBuilder(loop), loop.getLoc());
    Value lo = l.make<arith::MaxSIOp>(lower, ranges->read(l, nest, 0)),
          hi = l.make<arith::MinSIOp>(upper, ranges->read(l, nest, 1));
    if (!ranges->told.empty() && tested.mask.getParentBlock() == loop.getBody())
      letBe(loop, tested.mask, ranges->told, ranges->read(l, nest, 2),
            ranges->read(l, nest, 3));
    scf::IfOp test = tested.test;
    if (test.elseBlock() && test.elseBlock()->getOperations().size() > 1) {
      keepOthers(l, test, loop, lower, lo);
      l.setInsertionPointAfter(loop);
      // hi may be the loop's old end, which need not be a whole step away.
      Value whole = l.mul(
          l.ceilDiv(l.make<arith::MaxSIOp>(l.sub(hi, lo), l.index(0)), *step),
          l.index(*step));
      keepOthers(l, test, loop, l.add(lo, whole), upper);
    }
    loop.setLowerBound(lo);
    loop.setUpperBound(hi);
    bool dropped = !keepTests && dropTest(loop, tested);
    passed(loop, kName,
           Twine("bounds from a nest that compares rows with columns") +
               (dropped ? ", no test per tile" : ""));
  }

  /// States that `told`, conjuncts of `mask`, are true everywhere in [from, to)
  /// of the loop.
  static void letBe(scf::ForOp loop, Value &mask, ArrayRef<Value> told,
                    Value from, Value to) {
    TileBuilder b(OpBuilder(loop), loop.getLoc());
    b.setInsertionPointAfterValue(mask);
    Value iv = loop.getInductionVar(), some, rest;
    auto both = [&](Value x, Value y) {
      return x ? b.make<arith::AndIOp>(x, y).getResult() : y;
    };
    for (Value part : getConjuncts(mask))
      if (llvm::is_contained(told, part))
        some = both(some, part);
      else
        rest = both(rest, part);
    Value sure = b.make<arith::AndIOp>(
        b.make<arith::CmpIOp>(arith::CmpIPredicate::sge, iv, from),
        b.make<arith::CmpIOp>(arith::CmpIPredicate::slt, iv, to));
    auto type = cast<RankedTensorType>(mask.getType());
    Value stated =
        both(rest, b.make<arith::OrIOp>(b.broadcast(sure, 0, type), some));
    mask.replaceUsesWithIf(stated, [&](OpOperand &use) {
      Operation *user = b.getBlock()->findAncestorOpInBlock(*use.getOwner());
      return stated.getDefiningOp()->isBeforeInBlock(user);
    });
    mask = stated;
  }

  /// What iterations in [from, to) do where no entry of their mask is true.
  static void keepOthers(TileBuilder &b, scf::IfOp test, scf::ForOp loop,
                         Value from, Value to) {
    auto others = b.make<scf::ForOp>(from, to, loop.getStep());
    TileBuilder o(OpBuilder::atBlockBegin(others.getBody()), loop.getLoc());
    IRMapping map;
    map.map(loop.getInductionVar(), others.getInductionVar());
    std::function<void(Operation &)> clone = [&](Operation &op) {
      op.walk([&](Operation *inner) {
        for (Value v : inner->getOperands())
          if (Operation *def = v.getDefiningOp();
              def && def->getBlock() == loop.getBody() && !map.contains(v))
            clone(*def);
      });
      o.clone(op, map);
    };
    for (Operation &op : test.elseBlock()->without_terminator())
      clone(op);
  }

  /// Takes the test away if what stands under it does no more than the other
  /// side where the mask is false; true if it did.
  static bool dropTest(scf::ForOp loop, Tested tested) {
    OpBuilder b(loop);
    IRMapping map;
    auto plain = cast<scf::ForOp>(b.clone(*loop, map));
    auto test =
        cast<scf::IfOp>(plain.getBody()->getTerminator()->getPrevNode());
    SmallVector<Value> results(test.thenYield().getOperands());
    test.thenYield().erase();
    plain.getBody()->getOperations().splice(test->getIterator(),
                                            test.thenBlock()->getOperations());
    test.replaceAllUsesWith(results);
    test.erase();
    std::string why;
    HiddenIteration hidden(plain, map.lookup(tested.mask));
    if (failed(hidden.run(why))) {
      plain.erase();
      return false;
    }
    loop.replaceAllUsesWith(plain.getResults());
    loop.erase();
    return true;
  }
};
} // namespace
