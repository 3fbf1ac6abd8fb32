//===- Explain.h - what was chosen, why, and what it costs ------*- C++ -*-===//
//
// Collects the counts of a compiled variant (Count.h), the schedule and the
// remarks of the passes into a report, as text and as JSON.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_PASSES_ANALYSIS_EXPLAIN_H
#define FATHOM_PASSES_ANALYSIS_EXPLAIN_H

#include "passes/analysis/Count.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/JSON.h"

namespace fathom {

/// Peak rates of a device: 16-bit products with f32 sums, and memory.
struct DevicePeaks {
  std::string name;
  double tflops;
  double gbs;
};

/// The devices known by name.
llvm::ArrayRef<DevicePeaks> knownDevices();

/// What a pass said it did, or why it did nothing.
struct PassRemark {
  std::string kind; ///< changed, missed or note
  std::string pass;
  std::string text;
  bool operator==(const PassRemark &) const = default;
};

/// Sends the remarks of all passes that run in `context` to `out`, which the
/// caller keeps alive.
mlir::LogicalResult collectRemarks(mlir::MLIRContext &context,
                                   std::vector<PassRemark> &out);

/// A module on the nest level, counted: one column of the report.
struct ExplainColumn {
  std::string title;
  std::vector<FunctionCount> functions;
  /// The buffers that live from the forward to the backward; in a function
  /// that has no backward, from one nest to another.
  std::vector<BufferCount> kept;
  bool cut = false; ///< there is a backward
  std::vector<PassRemark> remarks;
};

/// Counts every function with nests in `module`.
mlir::FailureOr<ExplainColumn> countModule(mlir::ModuleOp module,
                                           const ProblemSize &size,
                                           llvm::StringRef title);

struct ExplainReport {
  std::string name;
  ProblemSize size;
  DevicePeaks device;
  /// The schedule as written in the IR, with its origin; empty if there is none.
  std::string schedule;
  std::vector<ExplainColumn> columns;
  /// The column of the schedule that was chosen.
  size_t chosen = 0;
};

void printReport(const ExplainReport &report, llvm::raw_ostream &os);
llvm::json::Value reportToJson(const ExplainReport &report);

} // namespace fathom

#endif // FATHOM_PASSES_ANALYSIS_EXPLAIN_H
