//===- Pipeline.cpp - the only place that states the order of passes --------===//

#include "passes/Pipeline.h"

#include "mlir/Pass/PassRegistry.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace fathom;

/// The GPU whose tensor cores take products of four warps.
static constexpr StringLiteral kWithWarpgroups = "sm_90a";

ArrayRef<PipelineStep> fathom::pipelineSteps() {
  static constexpr PipelineStep steps[] = {
      {"variant", "fa-specialize", true, ""},
      {"variant", "fa-normalize-variant", true, ""},
      {"variant", "fa-fold-visible", false, ""},
      {"variant", "fa-differentiate", true, ""},
      {"schedule", "fa-select-schedule", true, ""},
      {"nest", "fa-tile", true, ""},
      {"nest", "fa-hoist-d-preprocess", false, ""},
      {"nest", "fa-fuse-p-recompute", false, ""},
      {"nest", "fa-fuse-online-softmax", false, ""},
      {"nest", "fa-fuse-backward-nests", false, ""},
      {"nest", "fa-place-dq-accumulation", false, ""},
      {"nest", "fa-split-group", false, ""},
      {"nest", "fa-pack-heads", false, ""},
      {"nest", "fa-classify-mask", false, ""},
      {"nest", "fa-bound-masked-loops", false, ""},
      {"nest", "fa-split-keys", false, ""},
      {"nest", "fa-specialize-masked-blocks", false, ""},
      {"nest", "fa-count-tiles", false, ""},
      {"nest", "fa-partition", false, ""},
      {"nest", "fa-block-workspaces", false, ""},
      {"nest", "fa-fuse-nests", false, ""},
      {"map", "fa-map-to-cpu", true, "cpu"},
      {"map", "fa-map-to-gpu", true, "gpu"},
      {"map", "fa-gpu-orient-tiles", false, "gpu"},
      {"map", "fa-gpu-forward-fragments", false, "gpu"},
      {"map", "fa-gpu-reload-factors", false, "gpu"},
      {"map", "fa-gpu-copy-async", false, "gpu"},
      {"map", "fa-gpu-stage-lines", false, "gpu"},
      {"map", "fa-gpu-pipeline-loads", false, "gpu"},
      {"map", "fa-gpu-order-products", false, "gpu"},
      {"map", "fa-gpu-stage-diagonals", false, "gpu"},
      {"map", "fa-gpu-float-positions", false, "gpu"},
      {"map", "fa-gpu-fold-factors", false, "gpu"},
      {"map", "fa-gpu-drop-guards", false, "gpu"},
      {"map", "fa-gpu-approximate-functions", false, "gpu"},
      {"map", "fa-gpu-fold-exp2", false, "gpu"},
      {"map", "fa-gpu-defer-sums", false, "gpu"},
      {"map", "fa-gpu-order-grid", false, "gpu"},
      {"map", "fa-gpu-bulk-copies", false, kWithWarpgroups},
      {"map", "fa-gpu-peel-masks", false, "gpu"},
      {"map", "fa-gpu-fold-divisions", false, "gpu"},
      {"map", "fa-gpu-warpgroup-products", false, kWithWarpgroups},
      {"map", "fa-gpu-overlap-products", false, kWithWarpgroups},
      {"map", "fa-gpu-specialize-warps", false, kWithWarpgroups},
      {"map", "fa-gpu-delay-products", false, kWithWarpgroups},
      {"map", "fa-gpu-fork-rounds", false, "gpu"},
      {"map", "fa-gpu-merge-masks", false, "gpu"},
      {"map", "fa-gpu-reorder-blocks", false, "gpu"},
      {"map", "fa-gpu-stage-stores", false, "gpu"},
      {"map", "fa-gpu-narrow-indices", false, "gpu"},
      {"map", "fa-gpu-lower-converts", true, "gpu"},
      {"map", "fa-gpu-place-barriers", true, "gpu"},
      {"map", "fa-gpu-assign-shared-memory", true, "gpu"},
  };
  return steps;
}

/// The pass options that follow from `o`, in pass pipeline syntax.
static std::string optionsOf(StringRef pass, const PipelineOptions &o) {
  if (pass == "fa-specialize") {
    std::string s = llvm::formatv(
        "dtype={0} head-dim-qk={1} head-dim-v={2} group={3} layout={4}",
        o.dtype, o.headDimQK, o.headDimV, o.group, o.layout);
    if (!o.variant.empty())
      s += " variant=\"" + o.variant + "\""; // it may hold spaces
    return s;
  }
  if (pass == "fa-differentiate")
    return llvm::formatv("lse-grad={0} capture-grads={1}", o.lseGrad,
                         o.captureGrads);
  if (pass == "fa-select-schedule") {
    std::string s = llvm::formatv(
        "block-m={0} block-n={1} dq-splits={2} kv-splits={3} "
        "seqlen-q-hint={4} pack-heads={5} group-splits={6} "
        "num-warps={7} stages={8} deterministic={9}",
        o.blockM, o.blockN, o.dqSplits, o.kvSplits, o.seqlenQHint, o.packHeads,
        o.groupSplits, o.numWarps, o.stages, o.deterministic);
    if (!o.pPolicy.empty())
      s += " p-policy=" + o.pPolicy;
    if (!o.dqPolicy.empty())
      s += " dq-policy=" + o.dqPolicy;
    if (o.target != "cpu")
      s += llvm::formatv(" gpu=true aligned={0} part={1}", o.aligned, o.part);
    if (o.target == kWithWarpgroups)
      s += " warpgroups=true";
    return s;
  }
  if (pass == "fa-partition")
    return o.part.empty() ? "" : "part=" + o.part;
  if (pass == "fa-bound-masked-loops")
    return o.target == "cpu" ? "" : "keep-tests=false";
  if (pass == "fa-specialize-masked-blocks")
    return o.target == "cpu" ? "" : "selects-only=true";
  if (pass == "fa-map-to-gpu")
    return llvm::formatv("aligned={0} warpgroups={1}", o.aligned,
                         o.target == kWithWarpgroups);
  if (pass == "fa-gpu-orient-tiles")
    return llvm::formatv("warpgroups={0}", o.target == kWithWarpgroups);
  if (pass == "fa-gpu-reload-factors")
    return llvm::formatv("limit={0}", o.sharedBytes);
  if (pass == "fa-map-to-cpu")
    return o.mapOptions;
  return "";
}

LogicalResult fathom::buildPipeline(OpPassManager &pm, const PipelineOptions &o,
                                    raw_ostream &errors) {
  auto steps = pipelineSteps();
  auto names = [&](auto field) {
    SmallVector<StringRef> all;
    for (const PipelineStep &s : steps)
      if (all.empty() || all.back() != field(s))
        all.push_back(field(s));
    return llvm::join(all, ", ");
  };
  auto passOf = [](const PipelineStep &s) { return s.pass; };
  auto stageOf = [](const PipelineStep &s) { return s.stage; };
  for (const std::string &skip : o.skip) {
    const auto *it = llvm::find_if(
        steps, [&](const PipelineStep &s) { return s.pass == skip; });
    if (it == steps.end()) {
      errors << "error: expected a pass to skip, got '" << skip
             << "'; the passes are " << names(passOf) << "\n";
      return failure();
    }
    if (it->required) {
      errors << "error: '" << skip << "' is required and can't be skipped\n";
      return failure();
    }
  }
  // The steps from `start` on and before `end` run.
  auto after = [&](StringRef name, StringRef what) -> FailureOr<size_t> {
    for (size_t i = steps.size(); i > 0; --i)
      if (steps[i - 1].pass == name || steps[i - 1].stage == name)
        return i;
    errors << "error: expected a stage (" << names(stageOf) << ") or a pass ("
           << names(passOf) << ") to " << what << " after, got '" << name
           << "'\n";
    return failure();
  };
  FailureOr<size_t> start = size_t(0), end = steps.size();
  if (!o.startAfter.empty())
    start = after(o.startAfter, "start");
  if (!o.stopAfter.empty())
    end = after(o.stopAfter, "stop");
  if (failed(start) || failed(end))
    return failure();
  // Cut off before the map stage, all of that runs.
  bool endsInMap = *end > 0 && steps[*end - 1].stage == "map";
  for (size_t i = *start; i < steps.size(); ++i) {
    const PipelineStep &s = steps[i];
    if (!s.isFor(o.target))
      continue;
    bool within = i < *end;
    bool wanted = within || ((o.map || o.runnable) && s.required);
    if (s.stage == "map")
      wanted = o.map && (within || !endsInMap || (o.runnable && s.required));
    if (s.pass == "fa-differentiate")
      wanted &= o.backward;
    if (s.pass == "fa-count-tiles")
      wanted = o.countTiles && within;
    if (s.pass == "fa-partition")
      wanted &= o.partition && o.backward;
    if (!wanted || llvm::is_contained(o.skip, s.pass))
      continue;
    if (!PassInfo::lookup(s.pass)) {
      errors << "error: internal: the pass '" << s.pass
             << "' is not registered\n";
      return failure();
    }
    std::string text = s.pass.str() + "{" + optionsOf(s.pass, o) + "}";
    if (failed(parsePassPipeline(text, pm, errors)))
      return failure();
    for (const auto &[after, extra] : o.insertAfter)
      if (s.pass == after && failed(parsePassPipeline(extra, pm, errors)))
        return failure();
  }
  return success();
}
