//===- Differentiate.cpp - fa-differentiate ---------------------------------===//
//
// Turns an instance into the joint function: beside fa.attention stands
// fa.attention_grad, whose dscore region is derived from the score region by
// reverse mode, op by op.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/variant/Regions.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

namespace fathom {
#define GEN_PASS_DEF_DIFFERENTIATEPASS
#include "passes/Passes.h.inc"
} // namespace fathom

using namespace mlir;
using namespace fathom;

namespace {

/// The gradient of a value: `value` where `taken` holds (no `taken`: always),
/// else 0. A select, min or max sets the condition instead of a zero, as what
/// it did not take may have an infinite derivative, and 0 times that is NaN.
struct Adjoint {
  Value value, taken;
};

/// Appends the reverse of a score region to a block that holds a copy of it.
class Reverse {
public:
  /// `block` has the arguments captures, s, ds, b, h, i, j and the copied ops;
  /// `gradients` tells which captures get a gradient.
  Reverse(Block *block, ArrayRef<bool> gradients)
      : block(block), gradients(gradients),
        b(block->getParentOp()->getContext()),
        loc(block->getParentOp()->getLoc()) {}

  /// `result` is the value the score region yields. Fails on an op between s
  /// or a captured float and the result that has no derivative.
  LogicalResult run(Value result) {
    size_t captures = gradients.size();
    BlockArgument s = block->getArgument(captures),
                  ds = block->getArgument(captures + 1);
    acc = cast<FloatType>(s.getType());
    b.setInsertionPointToEnd(block);

    active.insert(s);
    for (size_t c = 0; c < captures; ++c)
      if (gradients[c])
        active.insert(block->getArgument(c));
    SmallVector<Operation *> ops;
    for (Operation &op : *block) {
      ops.push_back(&op);
      if (llvm::any_of(op.getOperands(),
                       [&](Value v) { return active.contains(v); }))
        for (Value r : op.getResults())
          if (isa<FloatType>(r.getType()))
            active.insert(r);
    }

    add(result, {ds, {}});
    for (Operation *op : llvm::reverse(ops)) {
      if (op->getNumResults() != 1)
        continue;
      Adjoint a = adjoints.lookup(op->getResult(0));
      if (!a.value)
        continue;
      loc = op->getLoc();
      x = op->getNumOperands() > 0 ? widen(op->getOperand(0)) : Value();
      y = op->getNumOperands() > 1 ? widen(op->getOperand(1)) : Value();
      z = widen(op->getResult(0));
      if (failed(reverse(op, a)))
        return failure();
    }

    loc = block->getParentOp()->getLoc();
    for (size_t c = 0; c < captures; ++c)
      if (Adjoint a = adjoints.lookup(block->getArgument(c)); a.value)
        contribute(a, block->getArgument(c), {});
    Adjoint gradient = adjoints.lookup(s);
    YieldOp::create(b, loc,
                    gradient.value ? resolved(gradient) : constant(acc, 0));
    return success();
  }

private:
  //===--------------------------------------------------------------------===//
  // Building
  //===--------------------------------------------------------------------===//

  template <typename Op, typename... Args>
  Value make(Args &&...args) {
    return Op::create(b, loc, std::forward<Args>(args)...);
  }
  Value constant(Type t, double v) {
    return make<arith::ConstantOp>(cast<TypedAttr>(FloatAttr::get(t, v)));
  }
  /// A constant of the type of the op's result.
  Value number(double v) { return constant(z.getType(), v); }
  Value plus(Value a, Value c) { return make<arith::AddFOp>(a, c); }
  Value minus(Value a, Value c) { return make<arith::SubFOp>(a, c); }
  Value times(Value a, Value c) { return make<arith::MulFOp>(a, c); }
  Value over(Value a, Value c) { return make<arith::DivFOp>(a, c); }
  Value negated(Value a) { return make<arith::NegFOp>(a); }
  Value test(arith::CmpFPredicate p, Value a, Value c) {
    return make<arith::CmpFOp>(p, a, c);
  }
  Value pick(Value cond, Value a, Value c) {
    return make<arith::SelectOp>(cond, a, c);
  }

  /// Gradients are computed in the accumulation type or wider.
  Value widen(Value v) {
    auto t = dyn_cast<FloatType>(v.getType());
    return t && t.getWidth() < acc.getWidth() ? castFloat(b, loc, v, acc) : v;
  }

  //===--------------------------------------------------------------------===//
  // Adjoints
  //===--------------------------------------------------------------------===//

  void add(Value v, Adjoint a) {
    if (!active.contains(v))
      return;
    auto t = cast<FloatType>(v.getType());
    a.value =
        castFloat(b, loc, a.value, t.getWidth() < acc.getWidth() ? acc : t);
    Adjoint &sum = adjoints[v];
    if (!sum.value) {
      sum = a;
    } else if (sum.taken == a.taken) {
      sum.value = plus(sum.value, a.value);
    } else {
      sum.value = plus(resolved(sum), resolved(a));
      sum.taken = sum.taken && a.taken ? make<arith::OrIOp>(sum.taken, a.taken)
                                       : Value();
    }
  }

  /// The gradient as one value.
  Value resolved(Adjoint a) {
    return a.taken ? pick(a.taken, a.value, constant(a.value.getType(), 0))
                   : a.value;
  }

  void contribute(Adjoint a, Value capture, ValueRange indices) {
    ContributeOp::create(b, loc, castFloat(b, loc, resolved(a), acc), capture,
                         indices);
  }

  Adjoint scaled(Adjoint a, Value by) { return {times(a.value, by), a.taken}; }
  Adjoint divided(Adjoint a, Value by) { return {over(a.value, by), a.taken}; }
  Adjoint minus(Adjoint a) { return {negated(a.value), a.taken}; }
  /// The adjoint where `cond` holds too.
  Adjoint where(Value cond, Adjoint a) {
    return {a.value, a.taken ? make<arith::AndIOp>(a.taken, cond) : cond};
  }
  Adjoint whereNot(Value cond, Adjoint a) {
    Value yes = make<arith::ConstantOp>(cast<TypedAttr>(b.getBoolAttr(true)));
    return where(make<arith::XOrIOp>(cond, yes), a);
  }

  //===--------------------------------------------------------------------===//
  // The rules
  //===--------------------------------------------------------------------===//

  /// max and min: the operand that `wins`; half each if they are equal, so that
  /// their order, which canonicalization may change, does not matter.
  void choose(Operation *op, Adjoint a, arith::CmpFPredicate wins,
              bool skipsNaN) {
    Value equal = test(arith::CmpFPredicate::OEQ, x, y);
    Adjoint g{pick(equal, times(a.value, number(0.5)), a.value), a.taken};
    auto taken = [&](Value self, Value other) {
      Value won = test(wins, self, other);
      return skipsNaN ? make<arith::OrIOp>(
                            won, test(arith::CmpFPredicate::UNO, other, other))
                      : won;
    };
    add(op->getOperand(0), where(taken(x, y), g));
    add(op->getOperand(1), where(taken(y, x), g));
  }

  void power(Operation *op, Adjoint a) {
    Value none = number(0);
    // By x: y x^(y-1), and 0 where y is 0, also at x = 0.
    Value byX = times(y, make<math::PowFOp>(x, minus(y, number(1))));
    byX = pick(test(arith::CmpFPredicate::OEQ, y, none), none, byX);
    add(op->getOperand(0), scaled(a, byX));
    // By y: x^y log x.
    Value byY = times(z, make<math::LogOp>(x));
    byY = pick(test(arith::CmpFPredicate::OGT, x, none), byY, none);
    add(op->getOperand(1), scaled(a, byY));
  }

  /// n x^(n-1), and 0 where n is 0.
  Value integerPower(Operation *op) {
    Value n = op->getOperand(1);
    auto integer = [&](int64_t v) {
      return make<arith::ConstantOp>(
          cast<TypedAttr>(b.getIntegerAttr(n.getType(), v)));
    };
    Value d = times(make<arith::SIToFPOp>(z.getType(), n),
                    make<math::FPowIOp>(x, make<arith::SubIOp>(n, integer(1))));
    return pick(make<arith::CmpIOp>(arith::CmpIPredicate::eq, n, integer(0)),
                number(0), d);
  }

  /// Adds the gradients of op's operands. What they need and nothing uses is
  /// dead code that canonicalization takes away.
  LogicalResult reverse(Operation *op, Adjoint a) {
    auto first = [&](Adjoint g) { add(op->getOperand(0), g); };
    auto second = [&](Adjoint g) { add(op->getOperand(1), g); };
    auto third = [&](Adjoint g) { add(op->getOperand(2), g); };
    auto both = [&](Adjoint g, Adjoint h) { first(g), second(h); };
    auto one = [&] { return number(1); };
    auto square = [&](Value v) { return times(v, v); };
    using P = arith::CmpFPredicate;
    LogicalResult known = success();

    TypeSwitch<Operation *>(op)
        .Case([&](arith::AddFOp) { both(a, a); })
        .Case([&](arith::SubFOp) { both(a, minus(a)); })
        .Case([&](arith::MulFOp) { both(scaled(a, y), scaled(a, x)); })
        .Case([&](arith::DivFOp) {
          Adjoint q = divided(a, y);
          both(q, minus(scaled(q, z)));
        })
        .Case([&](arith::RemFOp) {
          both(a, minus(scaled(a, make<math::TruncOp>(over(x, y)))));
        })
        .Case([&](arith::NegFOp) { first(minus(a)); })
        .Case([&](arith::MaximumFOp) { choose(op, a, P::OGE, false); })
        .Case([&](arith::MinimumFOp) { choose(op, a, P::OLE, false); })
        .Case([&](arith::MaxNumFOp) { choose(op, a, P::OGE, true); })
        .Case([&](arith::MinNumFOp) { choose(op, a, P::OLE, true); })
        .Case([&](arith::SelectOp select) {
          second(where(select.getCondition(), a));
          third(whereNot(select.getCondition(), a));
        })
        .Case<arith::ExtFOp, arith::TruncFOp>([&](auto) { first(a); })
        .Case([&](tensor::ExtractOp extract) {
          contribute(a, extract.getTensor(), extract.getIndices());
        })
        .Case([&](math::ExpOp) { first(scaled(a, z)); })
        .Case([&](math::Exp2Op) { first(scaled(a, times(z, number(M_LN2)))); })
        .Case([&](math::ExpM1Op) { first(scaled(a, plus(z, one()))); })
        .Case([&](math::LogOp) { first(divided(a, x)); })
        .Case([&](math::Log2Op) { first(divided(a, times(x, number(M_LN2)))); })
        .Case(
            [&](math::Log10Op) { first(divided(a, times(x, number(M_LN10)))); })
        .Case([&](math::Log1pOp) { first(divided(a, plus(x, one()))); })
        .Case([&](math::SqrtOp) { first(divided(a, times(z, number(2)))); })
        .Case([&](math::RsqrtOp) {
          first(scaled(a, times(number(-0.5), times(z, square(z)))));
        })
        .Case([&](math::CbrtOp) {
          first(divided(a, times(number(3), square(z))));
        })
        .Case([&](math::SinOp) { first(scaled(a, make<math::CosOp>(x))); })
        .Case(
            [&](math::CosOp) { first(minus(scaled(a, make<math::SinOp>(x)))); })
        .Case([&](math::TanOp) { first(scaled(a, plus(square(z), one()))); })
        .Case([&](math::AsinOp) {
          first(divided(a, make<math::SqrtOp>(minus(one(), square(x)))));
        })
        .Case([&](math::AcosOp) {
          first(minus(divided(a, make<math::SqrtOp>(minus(one(), square(x))))));
        })
        .Case([&](math::AtanOp) { first(divided(a, plus(one(), square(x)))); })
        .Case([&](math::Atan2Op) {
          Value norm = plus(square(x), square(y));
          both(scaled(a, over(y, norm)), minus(scaled(a, over(x, norm))));
        })
        .Case([&](math::SinhOp) { first(scaled(a, make<math::CoshOp>(x))); })
        .Case([&](math::CoshOp) { first(scaled(a, make<math::SinhOp>(x))); })
        .Case([&](math::TanhOp) { first(scaled(a, minus(one(), square(z)))); })
        .Case([&](math::AsinhOp) {
          first(divided(a, make<math::SqrtOp>(plus(square(x), one()))));
        })
        .Case([&](math::AcoshOp) {
          first(divided(a, make<math::SqrtOp>(minus(square(x), one()))));
        })
        .Case(
            [&](math::AtanhOp) { first(divided(a, minus(one(), square(x)))); })
        .Case([&](math::ErfOp) { first(scaled(a, bell(M_2_SQRTPI))); })
        .Case([&](math::ErfcOp) { first(scaled(a, bell(-M_2_SQRTPI))); })
        .Case([&](math::AbsFOp) {
          Value g = pick(test(P::OGT, x, number(0)), a.value, negated(a.value));
          first(where(test(P::UNE, x, number(0)), {g, a.taken}));
        })
        .Case([&](math::CopySignOp) {
          // |x| with the sign of y: flips where the signs differ, 0 at x = 0.
          Value sign = times(make<math::CopySignOp>(one(), x),
                             make<math::CopySignOp>(one(), y));
          first(where(test(P::UNE, x, number(0)), scaled(a, sign)));
        })
        .Case([&](math::PowFOp) { power(op, a); })
        .Case([&](math::FPowIOp) { first(scaled(a, integerPower(op))); })
        .Case([&](math::FmaOp) {
          both(scaled(a, y), scaled(a, x));
          third(a);
        })
        // Steps: flat wherever they have a derivative.
        .Case<math::FloorOp, math::CeilOp, math::RoundOp, math::RoundEvenOp,
              math::TruncOp>([&](auto) {})
        .Default([&](Operation *) {
          known =
              op->emitError("expected an op that fa-differentiate has a rule "
                            "for between the "
                            "score or a captured float and the result, got '")
              << op->getName() << "'; write it with others that have one";
        });
    return known;
  }

  /// c exp(-x^2)
  Value bell(double c) {
    return times(number(c), make<math::ExpOp>(negated(times(x, x))));
  }

  Block *block;
  ArrayRef<bool> gradients;
  OpBuilder b;
  Location loc;
  FloatType acc;
  DenseSet<Value> active; // depends on s or on a capture with a gradient
  DenseMap<Value, Adjoint> adjoints;
  Value x, y, z; // first and second operand and result of the op at hand
};

struct DifferentiatePass
    : public fathom::impl::DifferentiatePassBase<DifferentiatePass> {
  using DifferentiatePassBase::DifferentiatePassBase;

  void runOnOperation() override {
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      SmallVector<AttentionOp> ops(func.getOps<AttentionOp>());
      if (ops.empty() || !func.getOps<AttentionGradOp>().empty())
        continue;
      if (ops.size() > 1 ||
          !llvm::equal(func.front().getTerminator()->getOperands(),
                       ops[0].getResults())) {
        func.emitOpError(
            "expected a function that returns o and lse of one fa.attention");
        return signalPassFailure();
      }
      if (ops[0].getSoftcap() || ops[0].getAlibi()) {
        ops[0].emitOpError(
            "expected softcap and alibi as part of the score region; run "
            "fa-normalize-variant first");
        return signalPassFailure();
      }
      if (failed(differentiate(func, ops[0])))
        return signalPassFailure();
    }
  }

private:
  LogicalResult differentiate(func::FuncOp func, AttentionOp op) {
    OpBuilder b(op->getBlock()->getTerminator());
    Location loc = op.getLoc();
    FloatType acc = op.getAccType();

    SmallVector<int64_t> gradCaptures;
    SmallVector<bool> hasGradient;
    SmallVector<Type> captureGrads;
    for (auto [i, type] : llvm::enumerate(op.getCaptureTypes())) {
      hasGradient.push_back(captureGradients &&
                            isa<FloatType>(getElementTypeOrSelf(type)));
      if (!hasGradient.back())
        continue;
      gradCaptures.push_back(i);
      auto tensor = dyn_cast<RankedTensorType>(type);
      captureGrads.push_back(tensor ? tensor.clone(acc)
                                    : RankedTensorType::get({1}, acc));
    }

    // dscore first, so that a failure leaves the function as it was.
    Region dscore;
    if (!op.getScore().empty() && failed(reverseScore(op, hasGradient, dscore)))
      return failure();

    auto append = [&](Value like) {
      unsigned n = func.getNumArguments();
      (void)func.insertArgument(n, like.getType(), {}, loc);
      return func.getArgument(n);
    };
    Value dO = append(op.getO());
    Value dLse = lseGrad ? append(op.getLse()) : Value();
    auto grad = AttentionGradOp::create(
        b, loc, op.getQ().getType(), op.getK().getType(), op.getV().getType(),
        captureGrads, op.getQ(), op.getK(), op.getV(), op.getO(), op.getLse(),
        dO, dLse, op.getCaptures(), op.getPacking(), op.getLayoutAttr(),
        op.getGroupAttr(), b.getDenseI64ArrayAttr(gradCaptures),
        op.getCaptureNamesAttr(), op.getCausalAttr(), op.getAlignmentAttr(),
        op.getWindowLeftAttr(), op.getWindowRightAttr(), op.getSoftcapAttr(),
        op.getAlibiAttr(), op.getScaleAttr());
    IRMapping score, mask;
    op.getScore().cloneInto(&grad.getScore(), score);
    op.getMask().cloneInto(&grad.getMask(), mask);
    grad.getDscore().takeBody(dscore);
    canonicalizeRegions(grad);

    SmallVector<Value> results(op.getResults());
    llvm::append_range(results, grad.getResults());
    op->getBlock()->getTerminator()->setOperands(results);
    func.setType(b.getFunctionType(func.getArgumentTypes(),
                                   ValueRange(results).getTypes()));
    passed(func, "fa-differentiate",
           Twine("joint function: ") +
               (op.getScore().empty() ? "the score is unchanged"
                                      : "dscore derived by reverse mode") +
               ", " + Twine(gradCaptures.size()) + " captured gradients" +
               (lseGrad ? ", takes dlse" : ""));
    return success();
  }

  /// Fills `dscore` with the reverse of op's score region.
  LogicalResult reverseScore(AttentionOp op, ArrayRef<bool> hasGradient,
                             Region &dscore) {
    Block &score = op.getScore().front();
    // The new block stands in the op while it is built, so that its ops have a
    // parent with a location and a context.
    Region *home = &op.getScore();
    Block *block = new Block();
    home->push_back(block);
    IRMapping map;
    size_t captures = hasGradient.size();
    for (auto [n, a] : llvm::enumerate(score.getArguments())) {
      map.map(a, block->addArgument(a.getType(), a.getLoc()));
      if (n == captures) // ds stands after s
        block->addArgument(a.getType(), a.getLoc());
    }
    OpBuilder b = OpBuilder::atBlockEnd(block);
    for (Operation &inner : score.without_terminator())
      b.clone(inner, map);
    LogicalResult r =
        Reverse(block, hasGradient).run(map.lookup(score.back().getOperand(0)));
    home->getBlocks().remove(block);
    dscore.push_back(block);
    return r;
  }
};
} // namespace
