//===- MaskedRounds.h - loops that ask whether a mask is needed -*- C++ -*-===//

#ifndef FATHOM_PASSES_MAP_GPU_MASKEDROUNDS_H
#define FATHOM_PASSES_MAP_GPU_MASKEDROUNDS_H

#include "passes/map/gpu/Gpu.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/MapVector.h"

namespace fathom::gpu {

/// A sum of indices: a constant, and values by how often each counts.
struct IndexSum {
  void add(mlir::Value v, int64_t times);

  int64_t constant = 0;
  llvm::MapVector<mlir::Value, int64_t> terms;
};

/// The sides of a comparison of order: it holds where greater > less, or also
/// where they are equal.
struct Order {
  static std::optional<Order> of(mlir::Value test);
  /// What is not negative where it holds.
  IndexSum margin() const;

  mlir::Value greater, less;
  bool orEqual;
};

/// The conjuncts of `v`.
void conjuncts(mlir::Value v, llvm::SmallVector<mlir::Value> &list);

/// The loops of `kernel` with products in their own block.
llvm::SmallVector<mlir::scf::ForOp> loopsWithProducts(KernelOp kernel);

/// The first branch of `loop` that a tile depends on, if the others of that
/// kind have its condition; else null, and why.
mlir::scf::IfOp firstMask(mlir::scf::ForOp loop, llvm::StringRef &why);

/// Replaces the branches of `block` that ask for `condition` by one of their
/// ways.
void answer(mlir::Block *block, mlir::Value condition, bool holds);

/// Limits that lie past all of a tile where `condition` holds, as it always
/// does in `block`, become the tile's end.
void openLimits(mlir::Block *block, mlir::Value condition);

} // namespace fathom::gpu

#endif // FATHOM_PASSES_MAP_GPU_MASKEDROUNDS_H
