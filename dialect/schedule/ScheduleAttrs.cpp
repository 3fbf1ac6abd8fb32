//===- ScheduleAttrs.cpp - syntax and rules of #fa.schedule -----------------===//

#include "dialect/FADialect.h"

using namespace mlir;
using namespace fathom;

namespace {
/// Parses a keyword that names a case of enum `E`, listing the cases if not.
template <typename E>
FailureOr<E> parseCase(AsmParser &p, std::optional<E> (*symbolize)(StringRef),
                       StringRef expected) {
  StringRef word;
  SMLoc loc = p.getCurrentLocation();
  if (p.parseKeyword(&word))
    return failure();
  if (auto e = symbolize(word))
    return *e;
  return p.emitError(loc, "expected one of ")
         << expected << ", got '" << word << "'";
}
} // namespace

Attribute ScheduleAttr::parse(AsmParser &p, Type) {
  int64_t blockM = 0, blockN = 0, dqSplits = 4, kvSplits = 1, groupSplits = 1,
          numWarps = 0, stages = 2;
  PPolicy pPolicy = PPolicy::recompute;
  DQPolicy dqPolicy = DQPolicy::ordered;
  bool deterministic = false, packHeads = false;
  std::string origin = "text";
  SMLoc start = p.getCurrentLocation();
  bool sawM = false, sawN = false;
  auto field = [&]() -> ParseResult {
    StringRef key;
    SMLoc loc = p.getCurrentLocation();
    if (p.parseKeyword(&key))
      return failure();
    if (key == "deterministic")
      return deterministic = true, success();
    if (key == "pack_heads")
      return packHeads = true, success();
    if (p.parseEqual())
      return failure();
    if (key == "block_m")
      return sawM = true, p.parseInteger(blockM);
    if (key == "block_n")
      return sawN = true, p.parseInteger(blockN);
    if (key == "dq_splits")
      return p.parseInteger(dqSplits);
    if (key == "kv_splits")
      return p.parseInteger(kvSplits);
    if (key == "group_splits")
      return p.parseInteger(groupSplits);
    if (key == "num_warps")
      return p.parseInteger(numWarps);
    if (key == "stages")
      return p.parseInteger(stages);
    if (key == "origin")
      return p.parseString(&origin);
    if (key == "p") {
      auto e = parseCase<PPolicy>(p, symbolizePPolicy,
                                  "[recompute, store, store_compressed]");
      if (failed(e))
        return failure();
      return pPolicy = *e, success();
    }
    if (key == "dq") {
      auto e = parseCase<DQPolicy>(
          p, symbolizeDQPolicy,
          "[sequential, atomic, ordered, split, two_kernel]");
      if (failed(e))
        return failure();
      return dqPolicy = *e, success();
    }
    return p.emitError(loc, "expected one of [block_m, block_n, p, dq, "
                            "dq_splits, kv_splits, pack_heads, group_splits, "
                            "num_warps, stages, "
                            "deterministic, origin], got '")
           << key << "'";
  };
  if (p.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater, field))
    return {};
  if (!sawM || !sawN) {
    p.emitError(start, "expected both block_m and block_n in #fa.schedule");
    return {};
  }
  return getChecked([&] { return p.emitError(start); }, p.getContext(), blockM,
                    blockN, pPolicy, dqPolicy, dqSplits, kvSplits, packHeads,
                    groupSplits, numWarps, stages, deterministic,
                    StringRef(origin));
}

void ScheduleAttr::print(AsmPrinter &p) const {
  p << "<block_m = " << getBlockM() << ", block_n = " << getBlockN()
    << ", p = " << stringifyPPolicy(getP())
    << ", dq = " << stringifyDQPolicy(getDq());
  if (getDq() == DQPolicy::split)
    p << ", dq_splits = " << getDqSplits();
  if (getKvSplits() != 1)
    p << ", kv_splits = " << getKvSplits();
  if (getPackHeads())
    p << ", pack_heads";
  if (getGroupSplits() != 1)
    p << ", group_splits = " << getGroupSplits();
  if (getNumWarps())
    p << ", num_warps = " << getNumWarps();
  if (getStages() != 2)
    p << ", stages = " << getStages();
  if (getDeterministic())
    p << ", deterministic";
  p << ", origin = ";
  p.printString(getOrigin());
  p << ">";
}

LogicalResult ScheduleAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   int64_t blockM, int64_t blockN, PPolicy,
                                   DQPolicy dq, int64_t dqSplits,
                                   int64_t kvSplits, bool, int64_t groupSplits,
                                   int64_t numWarps, int64_t stages,
                                   bool deterministic, StringRef) {
  auto legal = [](int64_t b) { return b >= 8 && b <= 512 && b % 8 == 0; };
  if (!legal(blockM))
    return emitError() << "expected block_m to be a multiple of 8 from 8 to "
                          "512, got "
                       << blockM;
  if (!legal(blockN))
    return emitError() << "expected block_n to be a multiple of 8 from 8 to "
                          "512, got "
                       << blockN;
  if (dqSplits < 1 || dqSplits > 64)
    return emitError() << "expected dq_splits from 1 to 64, got " << dqSplits;
  if (kvSplits < 1 || kvSplits > 64)
    return emitError() << "expected kv_splits from 1 to 64, got " << kvSplits;
  if (groupSplits < 1 || groupSplits > 64)
    return emitError() << "expected group_splits from 1 to 64, got "
                       << groupSplits;
  if (numWarps &&
      (numWarps < 0 || numWarps > 32 || !llvm::isPowerOf2_64(numWarps)))
    return emitError() << "expected num_warps to be one of [1, 2, 4, 8, 16, "
                          "32], or 0 to leave the choice, got "
                       << numWarps;
  if (stages < 1 || stages > 8)
    return emitError() << "expected stages from 1 to 8, got " << stages;
  if (deterministic && dq == DQPolicy::atomic)
    return emitError()
           << "expected dq to be sequential, ordered, split or two_kernel in a "
              "deterministic schedule, got atomic";
  return success();
}

ScheduleAttr ScheduleAttr::withP(PPolicy p) const {
  return get(getContext(), getBlockM(), getBlockN(), p, getDq(), getDqSplits(),
             getKvSplits(), getPackHeads(), getGroupSplits(), getNumWarps(),
             getStages(), getDeterministic(), getOrigin());
}

/// True if `v` is computed from `iv`.
static bool dependsOn(Value v, Value iv) {
  Operation *def = v.getDefiningOp();
  return v == iv || (def && llvm::any_of(def->getOperands(), [&](Value o) {
                       return dependsOn(o, iv);
                     }));
}

LogicalResult FADialect::verifyOperationAttribute(Operation *op,
                                                  NamedAttribute attr) {
  if (attr.getName() != kScheduleAttr)
    return success();
  auto schedule = dyn_cast<ScheduleAttr>(attr.getValue());
  if (!schedule)
    return op->emitOpError("expected 'fa.schedule' to be a #fa.schedule, got ")
           << attr.getValue();
  if (!schedule.getDeterministic())
    return success();
  WalkResult found = op->walk([](Operation *inner) {
    auto add = dyn_cast<AccumulateOp>(inner);
    auto scatter = dyn_cast<ScatterAddOp>(inner);
    if (!add && !scatter)
      return WalkResult::advance();
    AccumulateMode mode = add ? add.getMode() : scatter.getMode();
    if (mode == AccumulateMode::atomic) {
      inner->emitOpError(
          "expected no atomic addition in a function whose schedule is "
          "deterministic; add in order instead");
      return WalkResult::interrupt();
    }
    // Items that may run at the same time must add to entries of their own.
    auto nest = inner->getParentOfType<NestOp>();
    ValueRange indices =
        add ? ValueRange(add.getIndices()) : ValueRange(scatter.getIndices());
    for (unsigned d = 0;
         nest && mode == AccumulateMode::plain && d < nest.getNumParallel();
         ++d)
      if (llvm::none_of(indices,
                        [&](Value v) { return dependsOn(v, nest.getIv(d)); })) {
        inner->emitOpError("expected the place of a plain addition to depend "
                           "on every parallel "
                           "dim of its nest in a function whose schedule is "
                           "deterministic, got "
                           "one that does not depend on dim ")
            << d;
        return WalkResult::interrupt();
      }
    return WalkResult::advance();
  });
  return failure(found.wasInterrupted());
}
