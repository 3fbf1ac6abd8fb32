//===- Operands.h - the arrays of one run -----------------------*- C++ -*-===//
//
// What a variant asks for, what a caller gives, and the checks between them.
// Whoever runs a variant (the public interface, fa-run) goes through bind().
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_RUNTIME_OPERANDS_H
#define FATHOM_RUNTIME_OPERANDS_H

#include "dialect/FADialect.h"
#include "runtime/Tensor.h"

namespace fathom {

/// A captured operand as the variant states it.
struct CaptureInfo {
  std::string name;
  DType dtype = DType::f32;
  bool isTensor = false;
  std::vector<int64_t> shape; ///< -1: any size
};

/// The runtime's copy of what callers need to know of a variant.
struct VariantInfo {
  std::string name;
  std::vector<CaptureInfo> captures;
  std::optional<size_t> alibi; ///< the captured operand that holds the slopes
  bool isInstance = false;     ///< its types are final

  /// The type in which code for `dtype` takes captured operand `c`: f32 stands
  /// for the accumulation type.
  DType captureType(size_t c, DType dtype) const {
    DType t = captures[c].dtype;
    return t == DType::f32 && !isInstance ? accType(dtype) : t;
  }
};

Result<VariantInfo> describe(VariantInterface variant, std::string name);

/// The inputs of a run. bind() takes them in the order of the layout and gives
/// them in logical order: [B, H, S, D] and [B, H, S], with B = 1 and S the
/// total where sequences are packed; captured scalars have rank 0.
struct Operands {
  Tensor q, k, v;
  std::vector<Tensor> captures;
  Tensor cuSeqlensQ, cuSeqlensK; ///< packed only, i32
  /// No sequence is longer. bind() finds them where the host can read the
  /// boundaries; on a GPU they are what the caller says, or the totals.
  int64_t maxSeqlenQ = 0, maxSeqlenK = 0;
  Tensor dO, dLse; ///< undefined where not given

  int64_t group() const { return k.shape[1] ? q.shape[1] / k.shape[1] : 1; }
};

/// Checks `given` against the variant and the layout. Of arrays on a GPU it
/// looks at types, sizes and strides only.
Result<Operands> bind(const VariantInfo &variant, Layout layout,
                      Operands given);

/// The [B, H, S, D] view of q, k, v, o or a gradient of them.
Tensor toLogical(const Tensor &t, Layout layout);
/// The [B, H, S] view of lse or its gradient.
Tensor lseToLogical(const Tensor &t, Layout layout);
/// The shape, in the order of `layout`, of what has this logical shape: four
/// dims for q, k, v, o, three for lse.
Dims shapeInLayout(Dims logicalShape, Layout layout);

/// The boundaries as a list.
std::vector<int64_t> boundaries(const Tensor &cuSeqlens);

} // namespace fathom

#endif // FATHOM_RUNTIME_OPERANDS_H
