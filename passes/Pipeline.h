//===- Pipeline.h - passes in order, as stages ------------------*- C++ -*-===//

#ifndef FATHOM_PASSES_PIPELINE_H
#define FATHOM_PASSES_PIPELINE_H

#include "mlir/Pass/PassManager.h"
#include "llvm/Support/raw_ostream.h"

#include <string>
#include <vector>

namespace fathom {

/// One pass of the pipeline.
struct PipelineStep {
  llvm::StringRef stage; ///< variant, schedule, nest or map
  llvm::StringRef pass;  ///< the pass argument, e.g. fa-tile
  bool required;         ///< optional passes may be left out
  /// cpu, gpu or one GPU, as sm_90a, if it is for that only.
  llvm::StringRef target;

  bool isFor(llvm::StringRef other) const {
    return target.empty() || target == other ||
           (target == "gpu" && other != "cpu");
  }
};

/// All passes, in order, those of all targets.
llvm::ArrayRef<PipelineStep> pipelineSteps();

/// What the caller decides. The runtime fills it from tensors, fa-opt and
/// fa-run from the command line.
struct PipelineOptions {
  // The instance.
  std::string variant; ///< empty: the only one in the module
  std::string dtype = "f32";
  int64_t headDimQK = 64;
  int64_t headDimV = 0; ///< 0: as headDimQK
  int64_t group = 1;
  std::string layout = "bshd";
  bool backward = true;
  bool lseGrad = true;
  bool captureGrads = true;
  // Where it will run.
  std::string target = "cpu"; ///< else a GPU architecture, as sm_90
  bool aligned = false; ///< GPU: arrays with a static last dim are aligned
  std::string part;     ///< forward or backward: only that is kept
  // The schedule; 0 and empty take the default.
  int64_t blockM = 0, blockN = 0;
  std::string pPolicy, dqPolicy;
  int64_t dqSplits = 4;
  int64_t kvSplits = 1;    ///< parts of the keys, passed over in parallel
  int64_t seqlenQHint = 0; ///< GPU: query rows expected; 0: unknown
  bool packHeads = false;  ///< rows of a tile are query heads of a KV head
  int64_t groupSplits = 1; ///< parts of a KV head's query heads, for dK and dV
  bool deterministic = false;
  bool countTiles = false;
  // Which passes run.
  std::vector<std::string> skip; ///< optional passes to leave out
  std::string startAfter;  ///< a pass or a stage the input has been through
  std::string stopAfter;   ///< a pass or a stage; empty: all
  bool partition = true;   ///< cut the joint function in two
  bool map = true;         ///< end with the map stage
  bool runnable = false;   ///< add required passes that `stopAfter` cut off
  std::string mapOptions;  ///< options of fa-map-to-cpu
  int64_t sharedBytes = 0; ///< GPU: on chip, that a CTA can have; 0: any
  int64_t numWarps = 0;    ///< GPU: warps per CTA; 0: by the registers needed
  int64_t stages = 0; ///< GPU: buffers for what loops copy ahead; 0: default
  /// Passes put in for tests: after `first` runs `second`, as pipeline text.
  std::vector<std::pair<std::string, std::string>> insertAfter;
};

/// Adds the passes to `pm` (on a module). If `stopAfter` ends before the map
/// stage and `map` or `runnable` is set, the required passes that are missing
/// follow (with `map` also the map stage): every prefix is a program. Errors
/// name the option.
mlir::LogicalResult buildPipeline(mlir::OpPassManager &pm,
                                  const PipelineOptions &options,
                                  llvm::raw_ostream &errors);

} // namespace fathom

#endif // FATHOM_PASSES_PIPELINE_H
