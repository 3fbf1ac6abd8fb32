//===- Merge.h - (O, L) pairs into one --------------------------*- C++ -*-===//
//
// Attention over all keys from attention over disjoint parts of them, as a
// nest like any other: it goes the way of all kernels from there on.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_RUNTIME_MERGE_H
#define FATHOM_RUNTIME_MERGE_H

#include "runtime/Tensor.h"

namespace fathom {

/// The most parts one kernel takes: its parameters must fit 4 KiB.
inline constexpr size_t kMaxParts = 24;

/// A module with @merge(o of each part, lse of each part, o, lse), arrays in
/// logical order with any strides. A part whose lse is -inf adds nothing,
/// whatever its o holds. o is of type `from` in the parts and `to` in the
/// result, lse of their accumulation type.
std::string mergeNest(DType from, DType to, int64_t headDim, size_t parts);

} // namespace fathom

#endif // FATHOM_RUNTIME_MERGE_H
