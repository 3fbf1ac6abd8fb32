//===- SelectSchedule.cpp - fa-select-schedule ------------------------------===//
//
// Writes #fa.schedule on every function with attention. What stands in the
// text wins over the pass options, these over the default. Later passes read
// the attribute and nothing else.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace fathom;

namespace fathom {
#define GEN_PASS_DEF_SELECTSCHEDULEPASS
#include "passes/Passes.h.inc"
} // namespace fathom

namespace {

/// Tiles that keep S, P and the operands of both products in a first level
/// cache of 32 to 48 KiB; wide heads take smaller ones.
ScheduleAttr cpuSchedule(MLIRContext *ctx, int64_t headDim) {
  int64_t block = headDim <= 128 ? 64 : 32;
  return ScheduleAttr::get(ctx, block, block, PPolicy::recompute,
                           DQPolicy::ordered, 4, /*kvSplits=*/1,
                           /*packHeads=*/false, /*groupSplits=*/1,
                           /*numWarps=*/0, /*stages=*/2,
                           /*deterministic=*/false, "default");
}

/// Tiles whose accumulators fill the registers of a CTA and whose operands fit
/// its shared memory twice. The forward carries O, block_m rows of it; the
/// backward dK and dV, block_n rows. `rows` of Q are expected (0: unknown): a few
/// are one tile of the forward, or `group` query heads of one row are.
ScheduleAttr gpuSchedule(MLIRContext *ctx, Type dtype, int64_t headDim,
                         bool forward, int64_t rows, int64_t group,
                         bool aligned, bool warpgroups) {
  int64_t m, n;
  bool half = dtype.isBF16() || dtype.isF16();
  if (!half)
    // Products are done entry by entry, from shared memory.
    m = n = headDim <= 64 ? 64 : headDim <= 256 && !dtype.isF64() ? 32 : 16;
  else if (headDim > 128 && headDim <= 256 && forward && warpgroups)
    m = 128, n = headDim <= 192 ? 96 : 64;
  else if (headDim > 128)
    m = n = headDim <= 256 ? 64 : 32;
  else if (forward)
    m = 128, n = warpgroups ? 128 : 64;
  else
    m = headDim <= 64 ? 128 : 64, n = 128;
  bool few = forward && rows > 0 && rows <= 32, pack = few && rows < group;
  if (pack)
    rows = std::min<int64_t>(group, 64);
  if (few)
    m = std::min<int64_t>(m, llvm::alignTo(rows, 16));
  // Nothing but bytes counts here: a warp an item, so that nothing is exchanged
  // between warps, and little for each, so that many are resident. What is not
  // aligned goes through registers, of which a warp has not enough.
  if (few && half && aligned && m == 16 && headDim <= 256)
    n = headDim > 128 ? 16 : headDim > 64 ? 32 : 64;
  else if (few)
    n = std::min<int64_t>(n, 64);
  return ScheduleAttr::get(ctx, m, n, PPolicy::recompute, DQPolicy::atomic, 4,
                           /*kvSplits=*/1, pack, /*groupSplits=*/1,
                           /*numWarps=*/0, /*stages=*/2,
                           /*deterministic=*/false, "default");
}

struct SelectSchedulePass
    : public fathom::impl::SelectSchedulePassBase<SelectSchedulePass> {
  using SelectSchedulePassBase::SelectSchedulePassBase;

  void runOnOperation() override {
    MLIRContext *ctx = &getContext();
    if (!part.empty() && part != "forward" && part != "backward") {
      emitError(getOperation().getLoc(),
                "expected option part to be one of [forward, backward], got '")
          << part << "'";
      return signalPassFailure();
    }
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      auto ops = func.getOps<AttentionOp>();
      if (ops.empty())
        continue;
      // The verifier has checked its type.
      if (auto given = func->getAttrOfType<ScheduleAttr>(kScheduleAttr)) {
        // A promise can be added, and what can't be kept on chip taken back.
        int64_t fewer = stages ? std::min<int64_t>(stages, given.getStages())
                               : given.getStages();
        if ((deterministic && !given.getDeterministic()) ||
            fewer != given.getStages()) {
          auto kept = ScheduleAttr::getChecked(
              [&] { return func.emitError(); }, ctx, given.getBlockM(),
              given.getBlockN(), given.getP(), given.getDq(),
              given.getDqSplits(), given.getKvSplits(), given.getPackHeads(),
              given.getGroupSplits(), given.getNumWarps(), fewer,
              deterministic || given.getDeterministic(), given.getOrigin());
          if (!kept)
            return signalPassFailure();
          func->setAttr(kScheduleAttr, kept);
        }
        if (blockM || blockN || !pPolicy.empty() || !dqPolicy.empty() ||
            kvSplits != 1 || packHeads || groupSplits != 1 || numWarps)
          func.emitWarning(
              "the schedule in the text stands; the options for tiles and "
              "policies are ignored");
        continue;
      }
      AttentionOp op = *ops.begin();
      int64_t headDim = std::max(op.getHeadDimQK(), op.getHeadDimV());
      Type dtype = cast<RankedTensorType>(op.getQ().getType()).getElementType();
      // A stored P is of one tiling on both sides.
      bool forward =
          part == "forward" && (pPolicy.empty() || pPolicy == "recompute");
      ScheduleAttr s =
          gpu ? gpuSchedule(ctx, dtype, headDim, forward, seqlenQHint,
                            op.getGroup(), aligned, warpgroups)
              : cpuSchedule(ctx, headDim);
      int64_t m = blockM ? (int64_t)blockM : s.getBlockM(),
              n = blockN ? (int64_t)blockN : s.getBlockN();
      PPolicy p = s.getP();
      DQPolicy dq = deterministic && s.getDq() == DQPolicy::atomic
                        ? DQPolicy::ordered
                        : s.getDq();
      if (!pPolicy.empty()) {
        auto e = symbolizePPolicy(pPolicy);
        if (!e) {
          func.emitError("expected p-policy to be one of [recompute, store, "
                         "store_compressed], got '")
              << pPolicy << "'";
          return signalPassFailure();
        }
        p = *e;
      }
      if (!dqPolicy.empty()) {
        auto e = symbolizeDQPolicy(dqPolicy);
        if (!e) {
          func.emitError("expected dq-policy to be one of [sequential, atomic, "
                         "ordered, split, "
                         "two_kernel], got '")
              << dqPolicy << "'";
          return signalPassFailure();
        }
        dq = *e;
      }
      bool any = blockM || blockN || !pPolicy.empty() || !dqPolicy.empty() ||
                 dqSplits != 4 || kvSplits != 1 || packHeads ||
                 groupSplits != 1 || numWarps || stages || deterministic;
      auto chosen = ScheduleAttr::getChecked(
          [&] { return func.emitError(); }, ctx, m, n, p, dq, (int64_t)dqSplits,
          (int64_t)kvSplits, packHeads || s.getPackHeads(),
          (int64_t)groupSplits, (int64_t)numWarps,
          stages ? (int64_t)stages : s.getStages(), (bool)deterministic,
          StringRef(any ? "option" : "default"));
      if (!chosen)
        return signalPassFailure();
      func->setAttr(kScheduleAttr, chosen);
    }
  }
};
} // namespace
