//===- Count.h - what a tiled function does, in numbers ---------*- C++ -*-===//
//
// Walks a function on the nest level for one problem size and counts products,
// memory traffic and buffers. Everything comes from the IR: a pass that removes
// a buffer removes its line here. Nothing is keyed on names or labels.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_PASSES_ANALYSIS_COUNT_H
#define FATHOM_PASSES_ANALYSIS_COUNT_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <string>

namespace fathom {

/// The sizes that are not in the IR. A packed problem has `batch` sequences,
/// all of the lengths given.
struct ProblemSize {
  int64_t batch = 1;
  int64_t heads = 8;
  int64_t kvHeads = 8;
  int64_t seqlenQ = 1024;
  int64_t seqlenK = 1024;
};

/// One fa.dot and how often it runs.
struct DotCount {
  std::string nest;
  int64_t m, n, k;
  std::string type;
  int64_t times = 0;
  double flops() const { return 2.0 * m * n * k * times; }
};

/// One buffer: an argument or an allocation of the function.
struct BufferCount {
  std::string name;
  std::string elementType;
  llvm::SmallVector<int64_t> sizes;
  int64_t bytes = 0;
  int64_t read = 0;
  int64_t written = 0;
  /// Both dims of its tiles run along dims of dynamic size, as those of S, P,
  /// dP and dS do.
  bool square = false;
  /// Which argument it is, or else which allocation.
  std::optional<unsigned> argument;
  unsigned allocation = 0;
  /// The nests that write and read it, in program order; labels for people.
  llvm::SmallVector<std::string> writers, readers;
  /// Positions of the first writing and the last reading nest, -1 for none.
  int64_t firstWriter = -1, lastReader = -1;

  /// Written before nest `cut` and read by it or a later one.
  bool crosses(int64_t cut) const {
    return firstWriter >= 0 && firstWriter < cut && lastReader >= cut;
  }
  /// Written by one nest and read by a later one.
  bool crosses() const { return firstWriter >= 0 && lastReader > firstWriter; }
};

struct FunctionCount {
  std::string name;
  std::vector<DotCount> dots;
  std::vector<BufferCount> buffers;
  /// The most that allocations hold at one time.
  int64_t workspace = 0;
  /// In a joint function, how many nests the forward has.
  std::optional<int64_t> forwardNests;
  /// A branch hangs on data: the heavier side was counted each time.
  bool upperBound = false;

  double flops() const;
  int64_t bytesRead() const;
  int64_t bytesWritten() const;
  /// The traffic if every byte that is touched moved once.
  int64_t bytesOnce() const;
};

/// Counts `func` for `size`. Emits an error where a loop bound does not follow
/// from the sizes.
mlir::FailureOr<FunctionCount> countFunction(mlir::func::FuncOp func,
                                             const ProblemSize &size);

/// Evaluates the index results of `func` (as `@NAME.saved` has) for `size`.
mlir::FailureOr<llvm::SmallVector<int64_t>>
evaluateResults(mlir::func::FuncOp func, const ProblemSize &size);

} // namespace fathom

#endif // FATHOM_PASSES_ANALYSIS_COUNT_H
