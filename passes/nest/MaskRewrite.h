//===- MaskRewrite.h - finding masks and moving their slices ----*- C++ -*-===//
//
// What the passes share that spare tiles or their masks.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_PASSES_NEST_MASKREWRITE_H
#define FATHOM_PASSES_NEST_MASKREWRITE_H

#include "mlir/IR/Block.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/SetVector.h"

namespace fathom {

/// The tiles of i1 by which selects directly in `block` choose floats, but for
/// comparisons of floats; in order of first use.
llvm::SetVector<mlir::Value> getSelectMasks(mlir::Block &block);

/// The values of which `mask` is the conjunction.
llvm::SmallVector<mlir::Value> getConjuncts(mlir::Value mask);

/// The dims of its tile, a bit each, along which entries of `v` can differ.
unsigned getVaryingDims(mlir::Value v);

/// The ops of `block` that `values` are computed by, in order.
llvm::SmallVector<mlir::Operation *> getSlice(mlir::ValueRange values,
                                              mlir::Block *block);

/// Moves that slice to the front of `block`; returns the first op after it.
/// The slice only computes and reads; nothing in `block` writes what it reads.
mlir::Operation *hoistSlice(mlir::ValueRange values, mlir::Block *block);

} // namespace fathom

#endif // FATHOM_PASSES_NEST_MASKREWRITE_H
