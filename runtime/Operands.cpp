//===- Operands.cpp - the arrays of one run ---------------------------------===//

#include "runtime/Operands.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

using namespace llvm;

namespace fathom {
namespace {

template <typename... Args>
Status invalid(fmt::format_string<Args...> format, Args &&...args) {
  return {ErrorCode::invalid_argument,
          fmt::format(format, std::forward<Args>(args)...)};
}

std::optional<DType> dtypeOf(mlir::Type type) {
  if (type.isF64())
    return DType::f64;
  if (type.isF32())
    return DType::f32;
  if (type.isF16())
    return DType::f16;
  if (type.isBF16())
    return DType::bf16;
  if (type.isIndex() || type.isInteger(64))
    return DType::i64;
  if (type.isInteger(32))
    return DType::i32;
  if (type.isInteger(16))
    return DType::i16;
  if (type.isInteger(8))
    return DType::i8;
  if (type.isInteger(1))
    return DType::i1;
  return std::nullopt;
}

/// From logical order to the order of the layout and (its own inverse) back.
constexpr int64_t kSwap[] = {0, 2, 1, 3};

std::string dims(Layout layout, const char *heads, const char *length,
                 const char *dim) {
  switch (layout) {
  case Layout::bshd:
    return fmt::format("[B, {}, {}, {}]", length, heads, dim);
  case Layout::bhsd:
    return fmt::format("[B, {}, {}, {}]", heads, length, dim);
  case Layout::packed:
    return fmt::format("[total {}, {}, {}]", length, heads, dim);
  }
  return "";
}

Status checkOperand(const char *name, const Tensor &t, Layout layout,
                    const char *heads, const char *length, const char *dim) {
  if (!t.defined())
    return invalid("operand '{}' is missing: expected {}", name,
                   dims(layout, heads, length, dim));
  int64_t rank = layout == Layout::packed ? 3 : 4;
  if (t.rank() != rank)
    return invalid("operand '{}': expected rank {} for layout {} ({}), got {}",
                   name, rank, stringifyLayout(layout).str(),
                   dims(layout, heads, length, dim), t.describe());
  return {};
}

Status checkBoundaries(const char *name, Tensor &t, const char *of,
                       int64_t total, int64_t &longest) {
  if (!t.defined())
    return invalid("operand '{}' is missing: layout packed needs the B + 1 "
                   "boundaries of its "
                   "sequences",
                   name);
  if (t.rank() != 1 || (t.dtype != DType::i32 && t.dtype != DType::i64))
    return invalid("operand '{}': expected i32 or i64 of rank 1, got {}", name,
                   t.describe());
  if (longest < 0)
    return invalid("option 'max_seqlen' of operand '{}': expected at least 0, "
                   "got {}",
                   name, longest);
  if (!t.device.isHost()) {
    if (t.dtype != DType::i32)
      return invalid("operand '{}': expected i32 on a GPU, got {}", name,
                     t.describe());
    if (t.size() == 0)
      return invalid("operand '{}': expected at least one boundary, got none",
                     name);
    longest = longest ? std::min(longest, total) : total;
    return {};
  }
  std::vector<int64_t> cu = boundaries(t);
  if (cu.empty())
    return invalid("operand '{}': expected at least one boundary, got none",
                   name);
  if (cu.front() != 0)
    return invalid("operand '{}': expected the first boundary to be 0, got {}",
                   name, cu.front());
  for (size_t n = 1; n < cu.size(); ++n)
    if (cu[n] < cu[n - 1])
      return invalid("operand '{}': expected boundaries that do not fall, got "
                     "{} after {} at "
                     "index {}",
                     name, cu[n], cu[n - 1], n);
  if (cu.back() != total)
    return invalid("operand '{}': expected the last boundary to be {}, the "
                   "total length of '{}', "
                   "got {}",
                   name, total, of, cu.back());
  int64_t most = longest;
  longest = 0;
  for (size_t n = 1; n < cu.size(); ++n)
    longest = std::max(longest, cu[n] - cu[n - 1]);
  if (most && most < longest)
    return invalid("operand '{}': expected no sequence longer than the {} that "
                   "the caller says, got one of {}",
                   name, most, longest);
  t = t.to(DType::i32);
  return {};
}

Status checkCaptures(const VariantInfo &variant,
                     const std::vector<Tensor> &given) {
  for (size_t c = 0; c < variant.captures.size(); ++c) {
    const CaptureInfo &info = variant.captures[c];
    std::string want = fmt::format("{} ", fathom::name(info.dtype));
    if (info.isTensor) {
      std::vector<std::string> sizes;
      for (int64_t d : info.shape)
        sizes.push_back(d < 0 ? "?" : std::to_string(d));
      want += fmt::format("[{}]", fmt::join(sizes, ", "));
    } else {
      want += "scalar";
    }
    if (c >= given.size() || !given[c].defined())
      return invalid("captured operand '{}' of @{} is missing: expected {}",
                     info.name, variant.name, want);
    const Tensor &t = given[c];
    bool same = t.shape.size() == info.shape.size();
    for (size_t d = 0; same && d < info.shape.size(); ++d)
      same = info.shape[d] < 0 || info.shape[d] == t.shape[d];
    if (!same || isFloat(t.dtype) != isFloat(info.dtype))
      return invalid("captured operand '{}': expected {}, got {}", info.name,
                     want, t.describe());
    if (info.isTensor && t.size() == 0)
      return invalid("captured operand '{}': expected at least one entry to "
                     "read, got {}",
                     info.name, t.describe());
  }
  if (given.size() > variant.captures.size())
    return invalid("expected {} captured operands for @{}, got {}",
                   variant.captures.size(), variant.name, given.size());
  return {};
}

} // namespace

std::vector<int64_t> boundaries(const Tensor &t) {
  std::vector<int64_t> cu;
  if (t.defined())
    for (double x : t.values())
      cu.push_back(int64_t(x));
  return cu;
}

Result<VariantInfo> describe(VariantInterface variant, std::string name) {
  VariantInfo info;
  info.name = std::move(name);
  info.alibi = variant.getAlibi();
  info.isInstance = !isa<VariantOp>(variant);
  for (auto [n, type] :
       zip(variant.getCaptureNames(), variant.getCaptureTypes())) {
    CaptureInfo c;
    c.name = cast<mlir::StringAttr>(n).str();
    mlir::Type element = type;
    if (auto tensor = dyn_cast<mlir::RankedTensorType>(type)) {
      element = tensor.getElementType();
      c.isTensor = true;
      for (int64_t d : tensor.getShape())
        c.shape.push_back(mlir::ShapedType::isDynamic(d) ? -1 : d);
    }
    auto dtype = dtypeOf(element);
    if (!dtype)
      return invalid("captured operand '{}' of @{}: expected a float or an "
                     "integer of 1, 8, 16, "
                     "32 or 64 bits, got another type",
                     c.name, info.name);
    c.dtype = *dtype;
    info.captures.push_back(std::move(c));
  }
  return info;
}

Tensor toLogical(const Tensor &t, Layout layout) {
  switch (layout) {
  case Layout::bshd:
    return t.permuted(kSwap);
  case Layout::bhsd:
    return t;
  case Layout::packed:
    return t.permuted(std::vector<int64_t>{1, 0, 2}).withLeadingDim();
  }
  return t;
}

Tensor lseToLogical(const Tensor &t, Layout layout) {
  return layout == Layout::packed ? t.withLeadingDim() : t;
}

Dims shapeInLayout(Dims s, Layout layout) {
  if (layout == Layout::packed)
    s.erase(s.begin());
  if ((layout == Layout::bshd && s.size() == 4) ||
      (layout == Layout::packed && s.size() == 3))
    std::swap(s[s.size() - 3], s[s.size() - 2]);
  return s;
}

Result<Operands> bind(const VariantInfo &variant, Layout layout, Operands x) {
  for (const Status &s : {checkOperand("q", x.q, layout, "Hq", "Sq", "Dqk"),
                          checkOperand("k", x.k, layout, "Hkv", "Sk", "Dqk"),
                          checkOperand("v", x.v, layout, "Hkv", "Sk", "Dv")})
    if (!s)
      return s;
  for (auto [name, t] : {std::pair<const char *, Tensor *>{"q", &x.q},
                         {"k", &x.k},
                         {"v", &x.v}}) {
    if (t->dtype != DType::f64 && t->dtype != DType::f32 &&
        t->dtype != DType::bf16 && t->dtype != DType::f16)
      return invalid("operand '{}': expected f64, f32, bf16 or f16, got {}",
                     name, t->describe());
    if (t->dtype != x.q.dtype)
      return invalid("operand '{}': expected {} like 'q', got {}", name,
                     fathom::name(x.q.dtype), t->describe());
    if (int64_t d = t->shape.back(); d < 1 || d > 512)
      return invalid("operand '{}': expected a head dim from 1 to 512, got {}",
                     name, d);
  }
  x.q = toLogical(x.q, layout);
  x.k = toLogical(x.k, layout);
  x.v = toLogical(x.v, layout);
  int64_t hq = x.q.shape[1], hkv = x.k.shape[1];
  if (x.k.shape[0] != x.q.shape[0])
    return invalid("operand 'k': expected batch size {} like 'q', got {}",
                   x.q.shape[0], x.k.shape[0]);
  if (x.k.shape[3] != x.q.shape[3])
    return invalid("operand 'k': expected head dim {} like 'q', got {}",
                   x.q.shape[3], x.k.shape[3]);
  for (auto [d, what] :
       {std::pair{0, "batch size"}, {1, "head count"}, {2, "length"}})
    if (x.v.shape[d] != x.k.shape[d])
      return invalid("operand 'v': expected {} {} like 'k', got {}", what,
                     x.k.shape[d], x.v.shape[d]);
  if (hkv == 0 ? hq != 0 : hq % hkv != 0)
    return invalid("operand 'k': expected a head count that divides the {} "
                   "heads of 'q', got {}",
                   hq, hkv);

  if (layout == Layout::packed) {
    if (Status s = checkBoundaries("cu_seqlens_q", x.cuSeqlensQ, "q",
                                   x.q.shape[2], x.maxSeqlenQ);
        !s)
      return s;
    if (Status s = checkBoundaries("cu_seqlens_k", x.cuSeqlensK, "k",
                                   x.k.shape[2], x.maxSeqlenK);
        !s)
      return s;
    if (x.cuSeqlensQ.size() != x.cuSeqlensK.size())
      return invalid("operand 'cu_seqlens_k': expected {} boundaries like "
                     "'cu_seqlens_q', got {}",
                     x.cuSeqlensQ.size(), x.cuSeqlensK.size());
  } else if (x.cuSeqlensQ.defined() || x.cuSeqlensK.defined()) {
    return invalid("operand 'cu_seqlens_{}': only layout packed has sequence "
                   "boundaries, the "
                   "layout is {}",
                   x.cuSeqlensQ.defined() ? "q" : "k",
                   stringifyLayout(layout).str());
  }

  if (Status s = checkCaptures(variant, x.captures); !s)
    return s;
  if (variant.alibi) {
    const Tensor &t = x.captures[*variant.alibi];
    int64_t batch =
        x.cuSeqlensQ.defined() ? x.cuSeqlensQ.size() - 1 : x.q.shape[0];
    if (t.shape.back() != hq || (t.rank() == 2 && t.shape[0] != batch))
      return invalid("captured operand '{}': expected a slope for each of the "
                     "{} heads ([{}] or "
                     "[{}, {}]), got {}",
                     variant.captures[*variant.alibi].name, hq, hq, batch, hq,
                     t.describe());
  }

  Dims oShape = x.q.shape, rowShape(x.q.shape.begin(), x.q.shape.end() - 1);
  oShape.back() = x.v.shape.back();
  if (x.dO.defined()) {
    if (Status s = checkOperand("do", x.dO, layout, "Hq", "Sq", "Dv"); !s)
      return s;
    std::string got = x.dO.describe();
    x.dO = toLogical(x.dO, layout);
    if (x.dO.shape != oShape || x.dO.dtype != x.q.dtype)
      return invalid(
          "operand 'do': expected the shape and type of o, {}, got {}",
          Tensor::view(x.q.dtype, shapeInLayout(oShape, layout), nullptr)
              .describe(),
          got);
  }
  if (x.dLse.defined()) {
    if (!x.dO.defined())
      return invalid(
          "operand 'do' is missing: 'dlse' is given, and gradients need both");
    Dims want = shapeInLayout(rowShape, layout);
    if (x.dLse.shape != want || x.dLse.dtype != accType(x.q.dtype))
      return invalid(
          "operand 'dlse': expected the shape and type of lse, {}[{}], got {}",
          fathom::name(accType(x.q.dtype)), fmt::join(want, ", "),
          x.dLse.describe());
    x.dLse = lseToLogical(x.dLse, layout);
  }
  return x;
}

} // namespace fathom
