//===- Specialize.cpp - fa-specialize ---------------------------------------===//
//
// Makes a function with fa.attention out of an fa.variant: the one place where
// a variant meets tensor types.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/variant/Regions.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringSwitch.h"

namespace fathom {
#define GEN_PASS_DEF_SPECIALIZEPASS
#include "passes/Passes.h.inc"
} // namespace fathom

using namespace mlir;
using namespace fathom;

namespace {

/// f32 as the accumulation type `acc` has it; other types unchanged.
Type widened(Type t, FloatType acc) {
  if (t.isF32())
    return acc;
  if (auto tensor = dyn_cast<RankedTensorType>(t);
      tensor && tensor.getElementType().isF32())
    return tensor.clone(acc);
  return t;
}

/// Every f32 of the region becomes `acc`.
LogicalResult widenRegion(Region &region, FloatType acc) {
  for (BlockArgument a : region.getArguments())
    a.setType(widened(a.getType(), acc));
  for (Operation &op : llvm::make_early_inc_range(region.front())) {
    if (auto constant = dyn_cast<arith::ConstantOp>(op);
        constant && constant.getType().isF32()) {
      double value = cast<FloatAttr>(constant.getValue()).getValueAsDouble();
      constant.setValueAttr(FloatAttr::get(acc, value));
    }
    if (isa<arith::BitcastOp>(op) && (op.getOperand(0).getType() == acc ||
                                      op.getResult(0).getType().isF32()))
      return op.emitOpError("expected an op that means the same on ")
             << acc << "; a bit pattern of f32 has no such form";
    for (Value r : op.getResults())
      r.setType(widened(r.getType(), acc));
    if (isa<arith::ExtFOp, arith::TruncFOp>(op) &&
        op.getOperand(0).getType() == op.getResult(0).getType()) {
      op.getResult(0).replaceAllUsesWith(op.getOperand(0));
      op.erase();
    }
  }
  return success();
}

struct SpecializePass
    : public fathom::impl::SpecializePassBase<SpecializePass> {
  using SpecializePassBase::SpecializePassBase;

  void runOnOperation() override {
    SmallVector<VariantOp> variants(getOperation().getOps<VariantOp>());
    if (variants.empty() && variant.empty())
      return;
    FailureOr<VariantOp> chosen = choose(variants);
    if (failed(chosen) || failed(checkOptions()) ||
        failed(instantiate(*chosen)))
      return signalPassFailure();
    for (VariantOp v : variants)
      v.erase();
  }

private:
  FailureOr<VariantOp> choose(ArrayRef<VariantOp> variants) {
    if (variant.empty() && variants.size() == 1)
      return variants.front();
    std::string names;
    for (VariantOp v : variants) {
      if (v.getSymName() == variant)
        return v;
      names += (names.empty() ? "" : ", ") + v.getSymName().str();
    }
    if (variant.empty())
      return emitError(
                 getOperation().getLoc(),
                 "expected option variant=NAME, as the module has several: ")
             << names;
    return emitError(getOperation().getLoc(), "expected option variant to be ")
           << (names.empty() ? "empty, as the module has no fa.variant"
                             : "one of [" + names + "]")
           << ", got '" << variant << "'";
  }

  LogicalResult checkOptions() {
    Builder b(&getContext());
    dtypeOf = llvm::StringSwitch<FloatType>(dtype)
                  .Case("f64", b.getF64Type())
                  .Case("f32", b.getF32Type())
                  .Case("bf16", b.getBF16Type())
                  .Case("f16", b.getF16Type())
                  .Default(nullptr);
    Location loc = getOperation().getLoc();
    if (!dtypeOf)
      return emitError(loc, "expected option dtype to be one of [f64, f32, "
                            "bf16, f16], got '")
             << dtype << "'";
    auto l = symbolizeLayout(layout);
    if (!l)
      return emitError(loc, "expected option layout to be one of [bshd, bhsd, "
                            "packed], got '")
             << layout << "'";
    layoutOf = *l;
    dqk = headDimQK;
    dv = headDimV == 0 ? dqk : headDimV;
    if (dqk < 1 || dqk > 512)
      return emitError(loc, "expected option head-dim-qk from 1 to 512, got ")
             << dqk;
    if (dv < 1 || dv > 512)
      return emitError(loc, "expected option head-dim-v from 1 to 512, got ")
             << dv;
    if (group < 1)
      return emitError(loc, "expected option group of at least 1, got ")
             << group.getValue();
    return success();
  }

  RankedTensorType tensor(int64_t headDim) {
    SmallVector<int64_t> shape(layoutOf == Layout::packed ? 2 : 3,
                               ShapedType::kDynamic);
    shape.push_back(headDim);
    return RankedTensorType::get(shape, dtypeOf);
  }

  /// The constants of the text must be numbers of the type scores have.
  static LogicalResult checkFits(VariantOp v, FloatType acc) {
    auto check = [&](StringRef what,
                     std::optional<APFloat> f) -> LogicalResult {
      if (!f)
        return success();
      bool lossy;
      APFloat rounded = *f;
      rounded.convert(acc.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                      &lossy);
      if (rounded.isFinite() && (!rounded.isZero() || f->isZero()))
        return success();
      return v.emitOpError("expected ")
             << what << " to fit " << acc << ", got " << f->convertToDouble();
    };
    std::optional<APFloat> softcap;
    if (auto f =
            dyn_cast_or_null<FloatAttr>(v.getSoftcap().value_or(Attribute())))
      softcap = f.getValue();
    if (failed(check("scale", v.getScale())))
      return failure();
    return check("softcap", softcap);
  }

  LogicalResult instantiate(VariantOp v) {
    OpBuilder b(v);
    FloatType acc = getAccType(dtypeOf);
    if (failed(checkFits(v, acc)))
      return failure();
    if (acc.isF64())
      for (Region *r : {&v.getScore(), &v.getMask()})
        if (!r->empty() && failed(widenRegion(*r, acc)))
          return failure();

    bool packed = layoutOf == Layout::packed;
    SmallVector<Type> inputs{tensor(dqk), tensor(dqk), tensor(dv)};
    if (packed) {
      Type offsets =
          RankedTensorType::get({ShapedType::kDynamic}, b.getI32Type());
      inputs.append({offsets, offsets, b.getIndexType(), b.getIndexType()});
    }
    size_t firstCapture = inputs.size();
    for (Type t : v.getCaptureTypes())
      inputs.push_back(widened(t, acc));
    Type o = tensor(dv);
    Type lse = RankedTensorType::get(
        SmallVector<int64_t>(packed ? 2 : 3, ShapedType::kDynamic), acc);

    auto func = func::FuncOp::create(b, v.getLoc(), v.getSymName(),
                                     b.getFunctionType(inputs, {o, lse}));
    func->setDiscardableAttrs(llvm::to_vector(v->getDiscardableAttrs()));
    Block *entry = func.addEntryBlock();
    b.setInsertionPointToStart(entry);
    ValueRange args = entry->getArguments();
    auto attention = AttentionOp::create(
        b, v.getLoc(), o, lse, args[0], args[1], args[2],
        args.drop_front(firstCapture), args.slice(3, firstCapture - 3),
        LayoutAttr::get(&getContext(), layoutOf), b.getI64IntegerAttr(group),
        v.getCaptureNamesAttr(), v.getCausalAttr(), v.getAlignmentAttr(),
        v.getWindowLeftAttr(), v.getWindowRightAttr(), v.getSoftcapAttr(),
        v.getAlibiAttr(), v.getScaleAttr());
    attention.getScore().takeBody(v.getScore());
    attention.getMask().takeBody(v.getMask());
    func::ReturnOp::create(b, v.getLoc(), attention.getResults());
    passed(func, "fa-specialize",
           "made an instance: " + dtype + ", head dims " + Twine(dqk) +
               " and " + Twine(dv) + ", group " + Twine(group) + ", layout " +
               layout);
    return success();
  }

  FloatType dtypeOf;
  Layout layoutOf = Layout::bshd;
  int64_t dqk = 0, dv = 0;
};
} // namespace
