//===- VariantVerify.cpp - the rules of the variant level -------------------===//

#include "dialect/FADialect.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace fathom;

namespace {

/// Regions compute on scalars without side effects; anything else is told by
/// name so that the user sees which line to change.
LogicalResult verifyBody(Operation *op, Region &r, StringRef what,
                         bool mayContribute) {
  for (Operation &inner : r.front().without_terminator()) {
    if (isa<ContributeOp>(inner) && mayContribute)
      continue;
    if (inner.getNumRegions() || !isMemoryEffectFree(&inner))
      return inner.emitOpError(
                 "expected an op without side effects or regions in the ")
             << what << " region";
    StringRef dialect = inner.getName().getDialectNamespace();
    if (dialect != "arith" && dialect != "math" &&
        !isa<tensor::ExtractOp, tensor::DimOp, DistanceOp, SeqlenQOp,
             SeqlenKOp>(inner))
      return inner.emitOpError(
                 "expected an arith or math op, tensor.extract, tensor.dim, "
                 "fa.distance, fa.seqlen_q or fa.seqlen_k in the ")
             << what << " region";
    for (Type t : inner.getResultTypes())
      if (!t.isIntOrIndexOrFloat())
        return inner.emitOpError("expected scalar results in the ")
               << what << " region, got " << t;
  }
  return success();
}

/// The type regions compute in: f32, or f64 in an f64 instance.
FloatType scoreType(Operation *op) {
  if (auto a = dyn_cast<AttentionOp>(op))
    return a.getAccType();
  if (auto g = dyn_cast<AttentionGradOp>(op))
    return getAccType(
        cast<RankedTensorType>(g.getQ().getType()).getElementType());
  return cast<FloatType>(Builder(op->getContext()).getF32Type());
}

LogicalResult verifyRegion(VariantInterface v, Region &r, StringRef what,
                           unsigned floats, bool mayContribute = false) {
  if (r.empty())
    return success();
  if (!r.hasOneBlock())
    return v->emitOpError("expected one block in the ") << what << " region";
  SmallVector<Type> captures = v.getCaptureTypes();
  if (r.getNumArguments() != captures.size() + floats + 4)
    return v->emitOpError("expected ")
           << floats + 4 << " arguments besides the captures in the " << what
           << " region, got "
           << (int64_t)r.getNumArguments() - (int64_t)captures.size();
  for (size_t i = 0; i < captures.size(); ++i)
    if (r.getArgument(i).getType() != captures[i])
      return v->emitOpError("expected argument ")
             << i << " of the " << what << " region to have the capture's type "
             << captures[i] << ", got " << r.getArgument(i).getType();
  auto rest = r.getArguments().drop_front(captures.size());
  for (auto [i, a] : llvm::enumerate(rest)) {
    Type expected =
        i < floats ? Type(scoreType(v)) : IndexType::get(v->getContext());
    if (a.getType() != expected)
      return v->emitOpError("expected argument ")
             << i << " of the " << what << " region to be " << expected
             << ", got " << a.getType();
  }
  if (r.front().empty())
    return v->emitOpError("expected the ")
           << what << " region to end with fa.yield";
  auto yield = dyn_cast<YieldOp>(r.front().back());
  if (!yield)
    return v->emitOpError("expected the ")
           << what << " region to end with fa.yield";
  if (yield.getNumOperands() != 1)
    return yield.emitOpError("expected one value, got ")
           << yield.getNumOperands();
  Type expected =
      floats ? rest[0].getType() : IntegerType::get(v->getContext(), 1);
  if (yield.getOperand(0).getType() != expected)
    return yield.emitOpError("expected a value of type ")
           << expected << " from the " << what << " region, got "
           << yield.getOperand(0).getType();
  return verifyBody(v, r, what, mayContribute);
}

/// True of what can stand after the % of a value.
bool isName(StringRef s) {
  return !s.empty() && !llvm::isDigit(s[0]) && llvm::all_of(s, [](char c) {
    return llvm::isAlnum(c) || StringRef("_$.-").contains(c);
  });
}

LogicalResult verifyVariant(VariantInterface v) {
  SmallVector<Type> types = v.getCaptureTypes();
  if (types.size() != v.getCaptureNames().size())
    return v->emitOpError("expected one name per captured operand, ")
           << types.size() << ", got " << v.getCaptureNames().size();
  llvm::SmallDenseSet<StringRef> seen;
  for (auto name : v.getCaptureNames().getAsRange<StringAttr>()) {
    if (!isName(name))
      return v->emitOpError("expected capture names of letters, digits, '_', "
                            "'$', '.' and '-' that "
                            "do not begin with a digit, got ")
             << name;
    if (!seen.insert(name).second)
      return v->emitOpError(
                 "expected each capture to have a name of its own, got ")
             << name << " twice";
  }
  for (auto [i, t] : llvm::enumerate(types)) {
    auto tensor = dyn_cast<RankedTensorType>(t);
    Type element = tensor ? tensor.getElementType() : t;
    if (!element.isIntOrIndexOrFloat())
      return v->emitOpError("expected capture ")
             << v.getCaptureNames()[i]
             << " to be a scalar or a ranked tensor, got " << t;
  }
  if (auto cap = v.getSoftcap()) {
    if (auto f = dyn_cast<FloatAttr>(*cap)) {
      if (!(f.getValueAsDouble() > 0))
        return v->emitOpError("expected a softcap above 0, got ")
               << f.getValueAsDouble();
    } else {
      int64_t i = cast<IntegerAttr>(*cap).getInt();
      if (i < 0 || i >= (int64_t)types.size() || !isa<FloatType>(types[i]))
        return v->emitOpError(
            "expected softcap to name a captured float scalar");
    }
  }
  if (auto a = v.getAlibi()) {
    auto t = *a < types.size() ? dyn_cast<RankedTensorType>(types[*a])
                               : RankedTensorType();
    if (!t || !isa<FloatType>(t.getElementType()) || t.getRank() < 1 ||
        t.getRank() > 2)
      return v->emitOpError(
          "expected alibi to name captured slopes, a float tensor of shape [H] "
          "or [B, H]");
  }
  for (auto [what, w] : {std::pair<StringRef, std::optional<uint64_t>>{
                             "left", v.getWindowLeft()},
                         {"right", v.getWindowRight()}})
    if (w && (int64_t)*w < 0)
      return v->emitOpError("expected window ")
             << what << " of at least 0, got " << (int64_t)*w;
  if (auto s = v.getScale(); s && !s->isFinite())
    return v->emitOpError("expected a finite scale");
  if (failed(verifyRegion(v, v.getScore(), "score", 1)))
    return failure();
  return verifyRegion(v, v.getMask(), "mask", 0);
}

/// The tensors of an instance, by the layout table of fa.attention.
struct InstanceShape {
  Layout layout;
  Type dtype;
  int64_t rank() const { return layout == Layout::packed ? 3 : 4; }
  int64_t headDim() const { return layout == Layout::bshd ? 2 : 1; }
};

LogicalResult verifyTensor(Operation *op, const InstanceShape &s,
                           StringRef name, Value v, int64_t headDim) {
  auto t = cast<RankedTensorType>(v.getType());
  if (t.getRank() != s.rank())
    return op->emitOpError("expected operand '")
           << name << "' of rank " << s.rank() << " for layout "
           << stringifyLayout(s.layout) << ", got " << t;
  if (t.getElementType() != s.dtype)
    return op->emitOpError("expected operand '")
           << name << "' of element type " << s.dtype << " like 'q', got "
           << t.getElementType();
  int64_t d = t.getDimSize(s.rank() - 1);
  if (ShapedType::isDynamic(d) || d < 1 || d > 512)
    return op->emitOpError("expected operand '")
           << name << "' to have a static head dim from 1 to 512, got " << t;
  if (headDim && d != headDim)
    return op->emitOpError("expected operand '")
           << name << "' to have head dim " << headDim << ", got " << d;
  return success();
}

int64_t lastDim(Value v) {
  auto t = cast<RankedTensorType>(v.getType());
  return t.getRank() ? t.getDimSize(t.getRank() - 1) : 1;
}

template <typename Op>
LogicalResult verifyInstance(Op op) {
  auto qType = cast<RankedTensorType>(op.getQ().getType());
  InstanceShape s{op.getLayout(), qType.getElementType()};
  if (!s.dtype.isF64() && !s.dtype.isF32() && !s.dtype.isBF16() &&
      !s.dtype.isF16())
    return op.emitOpError("expected operand 'q' of element type f64, f32, bf16 "
                          "or f16, got ")
           << s.dtype;
  if (failed(verifyTensor(op, s, "q", op.getQ(), 0)) ||
      failed(verifyTensor(op, s, "k", op.getK(), lastDim(op.getQ()))) ||
      failed(verifyTensor(op, s, "v", op.getV(), 0)) ||
      failed(verifyTensor(op, s, "o", op.getO(), lastDim(op.getV()))))
    return failure();
  auto lse = cast<RankedTensorType>(op.getLse().getType());
  if (lse.getRank() != s.rank() - 1 ||
      lse.getElementType() != getAccType(s.dtype))
    return op.emitOpError("expected 'lse' of rank ")
           << s.rank() - 1 << " and element type " << getAccType(s.dtype)
           << ", got " << lse;
  if ((int64_t)op.getGroup() < 1)
    return op.emitOpError("expected group of at least 1, got ")
           << (int64_t)op.getGroup();
  auto kType = cast<RankedTensorType>(op.getK().getType());
  auto vType = cast<RankedTensorType>(op.getV().getType());
  int64_t hq = qType.getDimSize(s.headDim()),
          hkv = kType.getDimSize(s.headDim()),
          hv = vType.getDimSize(s.headDim());
  bool known = !ShapedType::isDynamic(hq) && !ShapedType::isDynamic(hkv);
  if (known && hq != hkv * (int64_t)op.getGroup())
    return op.emitOpError("expected query heads = group * KV heads, got ")
           << hq << " query heads, " << hkv << " KV heads, group "
           << op.getGroup();
  if (known && !ShapedType::isDynamic(hv) && hv != hkv)
    return op.emitOpError(
               "expected 'k' and 'v' with the same number of heads, got ")
           << hkv << " and " << hv;
  // Static sizes that must be equal; the others are checked when it runs.
  auto agree = [&](StringRef a, RankedTensorType ta, int64_t da, StringRef b,
                   RankedTensorType tb, int64_t db) -> LogicalResult {
    int64_t na = ta.getDimSize(da), nb = tb.getDimSize(db);
    if (na == nb || ShapedType::isDynamic(na) || ShapedType::isDynamic(nb))
      return success();
    return op.emitOpError("expected dim ")
           << db << " of '" << b << "' to equal dim " << da << " of '" << a
           << "', " << na << ", got " << nb;
  };
  auto oType = cast<RankedTensorType>(op.getO().getType());
  int64_t row = s.layout == Layout::bhsd ? 2 : s.layout == Layout::bshd ? 1 : 0;
  for (int64_t dim = 0; dim + 1 < s.rank(); ++dim)
    if (failed(agree("q", qType, dim, "o", oType, dim)) ||
        failed(agree("k", kType, dim, "v", vType, dim)))
      return failure();
  if (failed(agree("q", qType, s.headDim(), "lse", lse, s.rank() - 3)) ||
      failed(agree("q", qType, row, "lse", lse, s.rank() - 2)))
    return failure();
  if (s.layout != Layout::packed &&
      (failed(agree("q", qType, 0, "k", kType, 0)) ||
       failed(agree("q", qType, 0, "lse", lse, 0))))
    return failure();
  size_t packing = op.getPacking().size();
  if (packing != (s.layout == Layout::packed ? 4 : 0))
    return op.emitOpError(
               "expected packing(cu_seqlens_q, cu_seqlens_k, max_seqlen_q, "
               "max_seqlen_k) with layout packed and only there, got ")
           << packing << " packing operands";
  if (packing) {
    for (int i = 0; i < 2; ++i) {
      auto t = dyn_cast<RankedTensorType>(op.getPacking()[i].getType());
      if (!t || t.getRank() != 1 || !t.getElementType().isInteger(32))
        return op.emitOpError("expected cu_seqlens of type tensor<?xi32>, got ")
               << op.getPacking()[i].getType();
      if (!op.getPacking()[i + 2].getType().isIndex())
        return op.emitOpError("expected max_seqlen of type index, got ")
               << op.getPacking()[i + 2].getType();
    }
  }
  return success();
}
} // namespace

LogicalResult VariantOp::verifyRegions() { return verifyVariant(*this); }

LogicalResult AttentionOp::verifyRegions() { return verifyVariant(*this); }
LogicalResult AttentionOp::verify() { return verifyInstance(*this); }
FloatType AttentionOp::getAccType() {
  return fathom::getAccType(
      cast<RankedTensorType>(getQ().getType()).getElementType());
}
int64_t AttentionOp::getHeadDimQK() { return lastDim(getQ()); }
int64_t AttentionOp::getHeadDimV() { return lastDim(getV()); }

LogicalResult AttentionGradOp::verifyRegions() {
  if (failed(verifyVariant(*this)))
    return failure();
  return verifyRegion(*this, getDscore(), "dscore", 2, /*mayContribute=*/true);
}
LogicalResult AttentionGradOp::verify() {
  if (failed(verifyInstance(*this)))
    return failure();
  if (getDO().getType() != getO().getType())
    return emitOpError("expected 'do' of the type of 'o', ")
           << getO().getType() << ", got " << getDO().getType();
  if (getDLse() && getDLse().getType() != getLse().getType())
    return emitOpError("expected 'dlse' of the type of 'lse', ")
           << getLse().getType() << ", got " << getDLse().getType();
  if (getDQ().getType() != getQ().getType() ||
      getDK().getType() != getK().getType() ||
      getDV().getType() != getV().getType())
    return emitOpError("expected dq, dk, dv of the types of q, k, v");
  if (getDCaptures().size() != getGradCaptures().size())
    return emitOpError("expected one result per entry of grad_captures, ")
           << getGradCaptures().size() << ", got " << getDCaptures().size();
  for (int64_t i : getGradCaptures())
    if (i < 0 || i >= (int64_t)getCaptures().size() ||
        !isa<FloatType>(getElementTypeOrSelf(getCaptures()[i].getType())))
      return emitOpError("expected grad_captures to be indexes of captured "
                         "floats, got ")
             << i;
  return success();
}

LogicalResult ContributeOp::verify() {
  auto arg = dyn_cast<BlockArgument>(getTarget());
  auto grad = (*this)->getParentOfType<AttentionGradOp>();
  if (!arg || !grad || arg.getOwner()->getParentOp() != grad ||
      !llvm::is_contained(grad.getGradCaptures(), arg.getArgNumber()))
    return emitOpError("expected the target to be a captured argument of a "
                       "dscore region, one that "
                       "grad_captures lists");
  if (getValue().getType() != scoreType(grad))
    return emitOpError("expected a value of type ")
           << scoreType(grad) << ", got " << getValue().getType();
  auto t = dyn_cast<RankedTensorType>(getTarget().getType());
  int64_t rank = t ? t.getRank() : 0;
  if ((int64_t)getIndices().size() != rank)
    return emitOpError("expected one index per dim of the target, ")
           << rank << ", got " << getIndices().size();
  return success();
}
