//===- HiddenIteration.cpp - a loop's body where its mask is false ----------===//

#include "passes/nest/HiddenIteration.h"

#include "passes/nest/Tiles.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace fathom;

static constexpr double kInf = std::numeric_limits<double>::infinity();

/// The number in every entry of a constant.
static std::optional<double> getNumber(Attribute a) {
  if (auto splat = dyn_cast<SplatElementsAttr>(a))
    return getNumber(splat.getSplatValue<Attribute>());
  if (auto f = dyn_cast<FloatAttr>(a))
    return f.getValueAsDouble();
  if (auto i = dyn_cast<IntegerAttr>(a))
    return i.getType().isInteger(1) ? i.getValue().getZExtValue()
                                    : (double)i.getValue().getSExtValue();
  return std::nullopt;
}

TypedAttr fathom::makeConstant(Type type, double x) {
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

Fact HiddenIteration::get(Value v) const {
  if (auto it = facts.find(v); it != facts.end())
    return it->second;
  Attribute constant;
  if (matchPattern(v, m_Constant(&constant)))
    if (auto n = getNumber(constant))
      return {n, {}};
  return {std::nullopt, v};
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
  Fact l = get(op.getLhs()), r = get(op.getRhs());
  if (!(l == r) && !(l.number && r.number))
    return findAlike(op);
  // Equal operands, whatever they are, compare like 0 and 0.
  APFloat x(l == r ? 0 : *l.number), y(l == r ? 0 : *r.number);
  return {arith::applyCmpPredicate(op.getPredicate(), x, y), {}};
}

/// The first op of the same kind with the same operands speaks for all.
Fact HiddenIteration::findAlike(Operation *op) {
  if (op->getNumRegions() != 0)
    return {std::nullopt, op->getResult(0)};
  bool reads = isa<LoadOp, GatherOp, memref::LoadOp>(op);
  if (!isMemoryEffectFree(op) &&
      !(reads && !isWrittenIn(loop, op->getOperand(0))))
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
      .Case<BroadcastOp, TransposeOp>(
          [&](auto) { return n(0) ? operand(0) : alike; })
      .Case([&](arith::SelectOp s) {
        if (n(0))
          return operand(*n(0) ? 1 : 2);
        return operand(1) == operand(2) ? operand(1) : alike;
      })
      .Case<arith::AndIOp, arith::OrIOp>([&](auto) {
        if (!getElementTypeOrSelf(op->getResult(0)).isInteger(1))
          return alike;
        double decides = isa<arith::AndIOp>(op) ? 0 : 1;
        if (isNumber(0, decides) || isNumber(1, decides))
          return number(decides);
        return n(0) ? operand(1) : n(1) ? operand(0) : alike;
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
      seen.push_back(&op); // the mask, or assumed
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
