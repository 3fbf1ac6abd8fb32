//===- ClassifyMask.cpp - fa-classify-mask ----------------------------------===//
//
// Makes loops over blocks skip the iterations whose mask tile is false
// everywhere. That such an iteration changes nothing is proved on the loop's
// body: with the mask set to false, masked scores are -inf, their exponentials
// and all products of those are 0, and every carried value must come out as it
// went in, with no write to memory left. Then the loop's bounds are tightened
// to what MaskAnalysis gives, and where bounds are not enough (a union of
// ranges, ids read from memory) the body moves under a test per tile.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/nest/MaskAnalysis.h"
#include "passes/nest/MaskRewrite.h"
#include "passes/nest/Tiles.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace fathom;

namespace fathom {
#define GEN_PASS_DEF_CLASSIFYMASKPASS
#include "passes/Passes.h.inc"
} // namespace fathom

namespace {
constexpr StringLiteral kName = "fa-classify-mask";
constexpr double kInf = std::numeric_limits<double>::infinity();

/// What is known of a value: one number in every entry, or that it equals
/// `same`, a value that stands for all that are computed alike.
struct Fact {
  std::optional<double> number;
  Value same;

  bool operator==(const Fact &o) const {
    return number ? o.number == number : !o.number && same == o.same;
  }
};

/// One iteration of a loop, evaluated with the mask false. The rules hold for
/// numbers that are finite: a NaN or an infinity in a hidden entry does not
/// reach a result of the loop, neither before nor after this pass.
class HiddenIteration {
public:
  HiddenIteration(scf::ForOp loop, Value mask) : loop(loop) {
    facts[mask] = {0.0, {}};
  }

  /// Success if the iteration has no effect but that of `kept`; on failure
  /// `why` names the first op that has one.
  LogicalResult run(std::string &why);

  /// What a skipped iteration still does: an operation on memory, and for a
  /// store what it writes, a number or a value from outside the iteration.
  struct Kept {
    Operation *op;
    Fact stored;
  };
  SmallVector<Kept> kept;

private:
  Fact get(Value v) const;
  bool is(Value v, double x) { return get(v).number == x; }
  /// True if no entry of `f` is -inf.
  bool isAboveNegInf(const Fact &f);
  Fact evaluate(Operation *op);
  Fact applyRules(Operation *op, Fact alike);
  Fact foldNumbers(Operation *op);
  Fact evaluateCompare(arith::CmpFOp op);
  Fact findAlike(Operation *op);
  LogicalResult visitEffects(Operation *op, std::string &why);

  scf::ForOp loop;
  DenseMap<Value, Fact> facts;
  SmallVector<Operation *> seen;
};

/// True if an op inside `within` writes `buffer`.
bool isWritten(Operation *within, Value buffer) {
  WalkResult r = within->walk([&](Operation *op) {
    bool writes = isa<StoreOp, AccumulateOp, ScatterAddOp, memref::StoreOp>(op);
    return writes && llvm::is_contained(op->getOperands(), buffer)
               ? WalkResult::interrupt()
               : WalkResult::advance();
  });
  return r.wasInterrupted();
}

/// The number in every entry of a constant.
std::optional<double> getNumber(Attribute a) {
  if (auto splat = dyn_cast<SplatElementsAttr>(a))
    return getNumber(splat.getSplatValue<Attribute>());
  if (auto f = dyn_cast<FloatAttr>(a))
    return f.getValueAsDouble();
  if (auto i = dyn_cast<IntegerAttr>(a))
    return i.getType().isInteger(1) ? i.getValue().getZExtValue()
                                    : (double)i.getValue().getSExtValue();
  return std::nullopt;
}

Fact HiddenIteration::get(Value v) const {
  if (auto it = facts.find(v); it != facts.end())
    return it->second;
  Attribute constant;
  if (matchPattern(v, m_Constant(&constant)))
    if (auto n = getNumber(constant))
      return {n, {}};
  return {std::nullopt, v};
}

/// A constant of `type`, a scalar or tile of numbers, each entry `x`.
TypedAttr makeConstant(Type type, double x) {
  Type element = getElementTypeOrSelf(type);
  TypedAttr a;
  if (auto f = dyn_cast<FloatType>(element))
    a = FloatAttr::get(f, x);
  else if (element.isInteger(1))
    a = BoolAttr::get(type.getContext(), x != 0);
  else if (element.isIntOrIndex())
    a = IntegerAttr::get(element, (int64_t)x);
  else
    return {};
  auto shaped = dyn_cast<ShapedType>(type);
  return shaped ? cast<TypedAttr>(DenseElementsAttr::get(shaped, Attribute(a)))
                : a;
}

bool HiddenIteration::isAboveNegInf(const Fact &f) {
  if (f.number)
    return *f.number != -kInf;
  Operation *op = f.same.getDefiningOp();
  if (!op)
    return false;
  auto above = [&](Value v) { return isAboveNegInf(get(v)); };
  if (isa<BroadcastOp, TransposeOp, arith::ExtFOp, arith::TruncFOp>(op))
    return above(op->getOperand(0));
  if (isa<arith::MaxNumFOp, arith::MaximumFOp>(op))
    return above(op->getOperand(0)) || above(op->getOperand(1));
  if (isa<arith::MulFOp>(op)) {
    for (auto [a, b] : {std::pair(op->getOperand(0), op->getOperand(1)),
                        std::pair(op->getOperand(1), op->getOperand(0))})
      if (get(b).number && *get(b).number > 0 && above(a))
        return true;
    return false;
  }
  auto select = dyn_cast<arith::SelectOp>(op);
  if (!select)
    return false;
  // select(z == -inf, y, z) and its forms: z is safe on the other side.
  Value z;
  bool trueIsNegInf = false;
  if (auto cmp = select.getCondition().getDefiningOp<arith::CmpFOp>()) {
    using P = arith::CmpFPredicate;
    P p = cmp.getPredicate();
    Value l = cmp.getLhs(), r = cmp.getRhs();
    if (is(l, -kInf)) {
      std::swap(l, r);
      if (p == P::OLT || p == P::ULT) // -inf < z
        p = P::OGT;
    }
    if (is(r, -kInf)) {
      trueIsNegInf = p == P::OEQ || p == P::UEQ || p == P::OLE || p == P::ULE;
      if (trueIsNegInf || p == P::ONE || p == P::UNE || p == P::OGT ||
          p == P::UGT)
        z = l;
    }
  }
  auto side = [&](Value v, bool safe) {
    return (safe && z && get(v) == get(z)) || above(v);
  };
  return side(select.getTrueValue(), !trueIsNegInf) &&
         side(select.getFalseValue(), trueIsNegInf);
}

Fact HiddenIteration::evaluateCompare(arith::CmpFOp op) {
  using P = arith::CmpFPredicate;
  Fact l = get(op.getLhs()), r = get(op.getRhs());
  if (!(l == r) && !(l.number && r.number))
    return findAlike(op);
  double x = l == r ? 0 : *l.number, y = l == r ? 0 : *r.number;
  switch (op.getPredicate()) {
  case P::OEQ:
  case P::UEQ:
    return {x == y, {}};
  case P::ONE:
  case P::UNE:
    return {x != y, {}};
  case P::OLT:
  case P::ULT:
    return {x < y, {}};
  case P::OLE:
  case P::ULE:
    return {x <= y, {}};
  case P::OGT:
  case P::UGT:
    return {x > y, {}};
  case P::OGE:
  case P::UGE:
    return {x >= y, {}};
  default:
    return findAlike(op);
  }
}

/// The first op of the same kind with the same operands speaks for all.
Fact HiddenIteration::findAlike(Operation *op) {
  if (op->getNumRegions() != 0)
    return {std::nullopt, op->getResult(0)};
  bool reads = isa<LoadOp, GatherOp, memref::LoadOp>(op);
  if (!isMemoryEffectFree(op) &&
      !(reads && !isWritten(loop, op->getOperand(0))))
    return {std::nullopt, op->getResult(0)};
  for (Operation *other : seen)
    if (other->getName() == op->getName() &&
        other->getRawDictionaryAttrs() == op->getRawDictionaryAttrs() &&
        other->getPropertiesAsAttribute() == op->getPropertiesAsAttribute() &&
        other->getResultTypes() == op->getResultTypes() &&
        llvm::equal(other->getOperands(), op->getOperands(),
                    [&](Value a, Value b) { return get(a) == get(b); }))
      return get(other->getResult(0));
  seen.push_back(op);
  return get(op->getResult(0));
}

Fact HiddenIteration::evaluate(Operation *op) {
  // An op like the mask has the mask's fact, whatever is known of its operands.
  Fact alike = findAlike(op);
  if (alike.number)
    return alike;
  Fact f = applyRules(op, alike);
  if (f.number)
    return f;
  Fact folded = foldNumbers(op);
  return folded.number ? folded : f;
}

/// Numbers in, number out, by the op's own folder.
Fact HiddenIteration::foldNumbers(Operation *op) {
  SmallVector<Attribute> operands;
  for (Value v : op->getOperands()) {
    std::optional<double> n = get(v).number;
    auto a = n ? makeConstant(v.getType(), *n) : TypedAttr();
    if (!a)
      return {};
    operands.push_back(a);
  }
  SmallVector<OpFoldResult> results;
  if (operands.empty() || !isMemoryEffectFree(op) ||
      failed(op->fold(operands, results)) || results.size() != 1 ||
      !isa<Attribute>(results[0]))
    return {};
  return {getNumber(cast<Attribute>(results[0])), {}};
}

Fact HiddenIteration::applyRules(Operation *op, Fact alike) {
  auto number = [](double x) { return Fact{x, {}}; };
  auto operand = [&](unsigned i) { return get(op->getOperand(i)); };
  auto n = [&](unsigned i) { return operand(i).number; };
  auto isNumber = [&](unsigned i, double x) { return n(i) == x; };
  return TypeSwitch<Operation *, Fact>(op)
      // Casts: only what every float type has.
      .Case<arith::ExtFOp, arith::TruncFOp>([&](auto) {
        return isNumber(0, 0) || isNumber(0, 1) || (n(0) && std::isinf(*n(0)))
                   ? operand(0)
                   : alike;
      })
      .Case<BroadcastOp, TransposeOp>(
          [&](auto) { return n(0) ? operand(0) : alike; })
      .Case([&](arith::SelectOp s) {
        if (n(0))
          return operand(*n(0) ? 1 : 2);
        return operand(1) == operand(2) ? operand(1) : alike;
      })
      .Case([&](arith::AndIOp) {
        if (!getElementTypeOrSelf(op->getResult(0)).isInteger(1))
          return alike;
        if (isNumber(0, 0) || isNumber(1, 0))
          return number(0);
        return isNumber(0, 1)   ? operand(1)
               : isNumber(1, 1) ? operand(0)
                                : alike;
      })
      .Case([&](arith::OrIOp) {
        if (!getElementTypeOrSelf(op->getResult(0)).isInteger(1))
          return alike;
        if (isNumber(0, 1) || isNumber(1, 1))
          return number(1);
        return isNumber(0, 0)   ? operand(1)
               : isNumber(1, 0) ? operand(0)
                                : alike;
      })
      .Case([&](arith::XOrIOp) {
        if (!getElementTypeOrSelf(op->getResult(0)).isInteger(1) || !n(0) ||
            !n(1))
          return alike;
        return number(*n(0) != *n(1));
      })
      .Case([&](arith::CmpFOp c) { return evaluateCompare(c); })
      .Case<math::ExpOp, math::Exp2Op>([&](auto) {
        return isNumber(0, -kInf) ? number(0)
               : isNumber(0, 0)   ? number(1)
                                  : alike;
      })
      .Case([&](arith::AddFOp) {
        if (isNumber(0, 0))
          return operand(1);
        return isNumber(1, 0) ? operand(0) : alike;
      })
      .Case([&](arith::SubFOp) {
        if (isNumber(1, 0))
          return operand(0);
        if (isNumber(0, -kInf) && isAboveNegInf(operand(1)))
          return number(-kInf);
        return operand(0) == operand(1) && !isNumber(0, -kInf) &&
                       isAboveNegInf(operand(0))
                   ? number(0)
                   : alike;
      })
      .Case([&](arith::NegFOp) { return isNumber(0, 0) ? number(0) : alike; })
      .Case([&](arith::MulFOp) {
        for (unsigned i : {0, 1}) {
          if (isNumber(i, 0) && !(n(1 - i) && std::isinf(*n(1 - i))))
            return number(0);
          if (isNumber(i, 1))
            return operand(1 - i);
          if (isNumber(i, -kInf) && n(1 - i) && *n(1 - i) > 0)
            return number(-kInf);
        }
        return alike;
      })
      .Case([&](arith::DivFOp) {
        if (isNumber(0, 0) && !isNumber(1, 0))
          return number(0);
        return isNumber(1, 1) ? operand(0) : alike;
      })
      .Case<arith::MaxNumFOp, arith::MaximumFOp>([&](auto) {
        if (isNumber(0, -kInf))
          return operand(1);
        return isNumber(1, -kInf) || operand(0) == operand(1) ? operand(0)
                                                              : alike;
      })
      .Case([&](ReduceOp r) {
        if (!n(0) || (r.getKind() == ReduceKind::add && *n(0) != 0))
          return alike;
        return operand(0);
      })
      .Case([&](DotOp) {
        return isNumber(0, 0) || isNumber(1, 0) ? operand(2) : alike;
      })
      .Default([&](Operation *) { return alike; });
}

LogicalResult HiddenIteration::visitEffects(Operation *op, std::string &why) {
  if (auto acc = dyn_cast<AccumulateOp>(op)) {
    if (is(acc.getTile(), 0)) {
      if (acc.getMode() == AccumulateMode::ordered)
        kept.push_back({op, {}});
      return success();
    }
  } else if (auto scatter = dyn_cast<ScatterAddOp>(op)) {
    if (is(scatter.getTile(), 0))
      return success();
  } else if (isa<PassTurnOp>(op)) {
    kept.push_back({op, {}});
    return success();
  } else if (auto store = dyn_cast<StoreOp>(op)) {
    Fact tile = get(store.getTile());
    if (tile.number ||
        llvm::is_contained(loop.getRegionIterArgs(), tile.same) ||
        loop.isDefinedOutsideOfLoop(tile.same)) {
      kept.push_back({op, tile});
      return success();
    }
  } else if (isa<TickOp, LoadOp, GatherOp, memref::LoadOp>(op) ||
             isMemoryEffectFree(op)) {
    return success();
  }
  why = ("the iteration writes memory by " + op->getName().getStringRef() +
         " also where the mask is false")
            .str();
  return failure();
}

LogicalResult HiddenIteration::run(std::string &why) {
  for (Operation &op : loop.getBody()->without_terminator()) {
    if (failed(visitEffects(&op, why)))
      return failure();
    if (op.getNumResults() == 1 && !facts.contains(op.getResult(0)))
      facts[op.getResult(0)] = evaluate(&op);
    else if (op.getNumResults() == 1)
      seen.push_back(&op); // the mask itself
  }
  for (auto [k, pair] : llvm::enumerate(
           llvm::zip_equal(loop.getYieldedValues(), loop.getRegionIterArgs())))
    if (auto [next, carried] = pair;
        !(get(next) == Fact{std::nullopt, carried})) {
      why = ("carried value " + Twine(k) +
             " is not proved to stay the same where the mask is false")
                .str();
      return failure();
    }
  return success();
}

struct ClassifyMaskPass
    : public fathom::impl::ClassifyMaskPassBase<ClassifyMaskPass> {
  using ClassifyMaskPassBase::ClassifyMaskPassBase;

  void runOnOperation() override {
    SmallVector<scf::ForOp> loops;
    getOperation()->walk([&](scf::ForOp loop) {
      if (loop->getParentOfType<NestOp>())
        loops.push_back(loop);
    });
    for (scf::ForOp loop : loops)
      classify(loop);
    for (auto func : getOperation().getOps<func::FuncOp>())
      tidyNests(func);
  }

  void classify(scf::ForOp loop) {
    std::string why;
    for (Value mask : getSelectMasks(*loop.getBody())) {
      HiddenIteration hidden(loop, mask);
      why.clear();
      if (failed(hidden.run(why)))
        continue;
      skipHidden(loop, mask, hidden.kept);
      return;
    }
    if (!why.empty())
      missed(loop, kName, why);
  }

  /// Moves scalars that do not change in `loop` before it, so that bounds can
  /// use them. A load whose index is not known to be in range runs only if the
  /// loop has an iteration, as it did.
  static void hoistScalars(scf::ForOp loop) {
    auto nest = loop->getParentOfType<NestOp>();
    for (Operation &op :
         llvm::make_early_inc_range(loop.getBody()->without_terminator())) {
      if (op.getNumResults() != 1 || op.getNumRegions() != 0 ||
          isa<ShapedType>(op.getResult(0).getType()) ||
          !llvm::all_of(op.getOperands(), [&](Value v) {
            return loop.isDefinedOutsideOfLoop(v);
          }))
        continue;
      if (isMemoryEffectFree(&op)) {
        op.moveBefore(loop);
        continue;
      }
      auto load = dyn_cast<memref::LoadOp>(op);
      if (!load || isWritten(nest, load.getMemRef()))
        continue;
      Value known;
      for (Operation *above = loop; above != nest && !known;
           above = above->getParentOp())
        for (auto other : above->getBlock()->getOps<memref::LoadOp>())
          if (other->isBeforeInBlock(above) &&
              other->getOperands() == load->getOperands())
            known = other;
      if (!known) {
        OpBuilder b(loop);
        Location loc = load.getLoc();
        Value runs =
            arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt,
                                  loop.getLowerBound(), loop.getUpperBound());
        known =
            scf::IfOp::create(
                b, loc, runs,
                [&](OpBuilder &then, Location l) {
                  scf::YieldOp::create(then, l, then.clone(op)->getResults());
                },
                [&](OpBuilder &otherwise, Location l) {
                  Type t = load.getType();
                  Value zero = arith::ConstantOp::create(
                      otherwise, l, otherwise.getZeroAttr(t));
                  scf::YieldOp::create(otherwise, l, zero);
                })
                .getResult(0);
      }
      load.replaceAllUsesWith(known);
      load.erase();
    }
  }

  /// What a skipped iteration still does, at `b`.
  static void emitKept(OpBuilder &b, Block *body,
                       ArrayRef<HiddenIteration::Kept> kept, IRMapping &map) {
    auto clone = [&](Operation *op, ValueRange operands) {
      for (Operation *needed : getSlice(operands, body))
        if (!map.contains(needed->getResult(0)))
          b.clone(*needed, map);
      return b.clone(*op, map);
    };
    for (auto &[op, stored] : kept) {
      if (auto store = dyn_cast<StoreOp>(op)) {
        Value tile = stored.same;
        if (stored.number)
          tile = arith::ConstantOp::create(
              b, op->getLoc(),
              makeConstant(store.getTile().getType(), *stored.number));
        map.map(store.getTile(), tile);
        SmallVector<Value> where(op->getOperands().drop_front());
        clone(op, where);
      } else if (auto acc = dyn_cast<AccumulateOp>(op)) {
        SmallVector<Value> where{acc.getTurn(), acc.getTickets()};
        llvm::append_range(where, acc.getTicketIndices());
        auto at = ValueRange(where).drop_front(2);
        OpBuilder::InsertionGuard guard(b);
        auto turn = PassTurnOp::create(b, op->getLoc(), where[0], where[1], at);
        b.setInsertionPoint(turn);
        clone(turn, where);
        turn.erase();
      } else {
        clone(op, op->getOperands());
      }
    }
  }

  /// What says where and when the kept ops act. It must stay in front of every
  /// test, as both sides of it need it.
  static SmallVector<Value> placesOf(ArrayRef<HiddenIteration::Kept> kept) {
    SmallVector<Value> places;
    for (auto &[op, stored] : kept) {
      if (auto acc = dyn_cast<AccumulateOp>(op)) {
        places.push_back(acc.getTurn());
        llvm::append_range(places, acc.getTicketIndices());
      } else {
        llvm::append_range(places, op->getOperands().drop_front(isa<StoreOp>(op)));
      }
    }
    return places;
  }

  /// Moves the ops of the body from `first` on under scf.if `cond`; otherwise
  /// only `kept` is done and the carried values stay.
  static void guardRest(scf::ForOp loop, Operation *first, Value cond,
                        ArrayRef<HiddenIteration::Kept> kept) {
    Block *body = loop.getBody();
    Operation *yield = body->getTerminator();
    OpBuilder b(first);
    auto guard = scf::IfOp::create(b, loop.getLoc(), loop.getResultTypes(),
                                   cond, /*withElseRegion=*/
                                   loop.getNumResults() != 0 || !kept.empty());
    auto clear = [](Block *block) {
      if (!block->empty())
        block->back().erase();
    };
    if (guard.elseBlock()) {
      clear(guard.elseBlock());
      OpBuilder e = OpBuilder::atBlockEnd(guard.elseBlock());
      IRMapping map;
      emitKept(e, body, kept, map);
      scf::YieldOp::create(e, loop.getLoc(), loop.getRegionIterArgs());
    }
    clear(guard.thenBlock());
    guard.thenBlock()->getOperations().splice(
        guard.thenBlock()->end(), body->getOperations(), first->getIterator(),
        yield->getIterator());
    OpBuilder t = OpBuilder::atBlockEnd(guard.thenBlock());
    scf::YieldOp::create(t, loop.getLoc(), yield->getOperands());
    yield->setOperands(guard.getResults());
  }

  void skipHidden(scf::ForOp loop, Value mask,
                  ArrayRef<HiddenIteration::Kept> kept) {
    hoistScalars(loop);
    MaskAnalysis analysis(mask, loop);
    OpBuilder b(loop);
    Location loc = loop.getLoc();
    Block *body = loop.getBody();
    Value lb = loop.getLowerBound(), ub = loop.getUpperBound(),
          step = loop.getStep();
    MaskAnalysis::Range range = analysis.emitRange(b, loc);
    bool tighter = range.lo != lb || range.hi != ub;
    if (!tighter && range.exact && analysis.isUnderstood())
      return missed(loop, kName, "the mask hides no whole tile");

    // Iterations that store go on, each under the test; those that take turns
    // still pass them at both ends.
    bool stores =
        llvm::any_of(kept, [](auto &k) { return isa<StoreOp>(k.op); });
    if (stores) {
      range.lo = lb, range.hi = ub;
      range.exact = false;
      tighter = false;
    } else if (!kept.empty()) {
      auto passLoop = [&](Value from, Value to) {
        auto pass = scf::ForOp::create(b, loc, from, to, step);
        OpBuilder p = OpBuilder::atBlockBegin(pass.getBody());
        IRMapping map;
        map.map(loop.getInductionVar(), pass.getInductionVar());
        emitKept(p, body, kept, map);
      };
      if (range.lo != lb)
        passLoop(lb, range.lo);
      if (range.hi != ub) {
        // The first value of the induction variable at or past hi.
        b.setInsertionPointAfter(loop);
        Value zero = arith::ConstantIndexOp::create(b, loc, 0);
        Value length = arith::MaxSIOp::create(
            b, loc, arith::SubIOp::create(b, loc, range.hi, range.lo), zero);
        Value one = arith::ConstantIndexOp::create(b, loc, 1);
        Value round = arith::SubIOp::create(b, loc, step, one);
        Value steps = arith::DivUIOp::create(
            b, loc, arith::AddIOp::create(b, loc, length, round), step);
        Value end = arith::AddIOp::create(
            b, loc, range.lo, arith::MulIOp::create(b, loc, steps, step));
        passLoop(end, ub);
      }
    }
    loop.setLowerBound(range.lo);
    loop.setUpperBound(range.hi);

    SmallVector<Value> first = placesOf(kept);
    if (!analysis.isUnderstood()) {
      first.push_back(mask);
      Operation *rest = hoistSlice(first, body);
      first.pop_back();
      OpBuilder at(rest);
      Value any = mask;
      while (auto t = dyn_cast<RankedTensorType>(any.getType())) {
        Type r = t.getRank() == 1 ? t.getElementType()
                                  : RankedTensorType::get({t.getDimSize(0)},
                                                          t.getElementType());
        any =
            ReduceOp::create(at, loc, r, ReduceKind::any, any, t.getRank() - 1);
      }
      guardRest(loop, rest, any, kept);
    }
    if (!range.exact) {
      llvm::append_range(first, analysis.getInputs());
      Operation *rest = hoistSlice(first, body);
      OpBuilder at(rest);
      Value any = analysis.emitAny(at, loc);
      guardRest(loop, rest, any, kept);
    }
    passed(loop, kName,
           Twine(tighter ? "bounds tightened to the tiles that can be visible"
                         : "bounds kept") +
               (range.exact ? "" : ", a test of scalars per tile") +
               (stores ? ", hidden tiles are only stored" : "") +
               (analysis.isUnderstood()
                    ? ""
                    : ", a test of the mask tile's entries per tile"));
  }
};
} // namespace
