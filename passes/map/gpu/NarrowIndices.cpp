//===- NarrowIndices.cpp - fa-gpu-narrow-indices ----------------------------===//
//
// An index has 64 bits, two registers; a sum of two takes two instructions, a
// quotient a hundred. Sizes never need that many, and what follows from sizes,
// numbers of CTAs and constants has bounds that MLIR's range analysis finds.
// Where they are within 32 bits, so is the arithmetic. Addresses are the
// printer's: a place times a stride in 64 bits.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/map/gpu/Gpu.h"
#include "passes/nest/Tiles.h"

#include "mlir/Analysis/DataFlow/IntegerRangeAnalysis.h"
#include "mlir/Analysis/DataFlow/Utils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/TypeSwitch.h"

namespace fathom {
#define GEN_PASS_DEF_GPUNARROWINDICESPASS
#include "passes/Passes.h.inc"
} // namespace fathom

using namespace mlir;
using namespace fathom;
using namespace fathom::gpu;
using dataflow::IntegerValueRangeLattice;

namespace {
constexpr StringLiteral kName = "fa-gpu-narrow-indices";
/// What a size is required to be at most: sums of three still fit.
constexpr int64_t kMaxSize = int64_t(1) << 29;

using RangeMap = DenseMap<Value, ConstantIntRanges>;

ConstantIntRanges between(int64_t low, int64_t high) {
  return ConstantIntRanges::fromSigned(APInt(64, low, /*isSigned=*/true),
                                       APInt(64, high, /*isSigned=*/true));
}

bool isArgumentOfFunction(Value v) {
  auto arg = dyn_cast<BlockArgument>(v);
  return arg && isa<func::FuncOp>(arg.getOwner()->getParentOp());
}

//===----------------------------------------------------------------------===//
// Ranges
//===----------------------------------------------------------------------===//

/// MLIR's analysis, with what is known of kernels, their arguments (`known`)
/// and of sizes.
class Ranges : public dataflow::IntegerRangeAnalysis {
public:
  Ranges(DataFlowSolver &solver, const RangeMap &known)
      : IntegerRangeAnalysis(solver), known(known) {}

  void setToEntryState(IntegerValueRangeLattice *lattice) override {
    auto it = known.find(lattice->getAnchor());
    if (it == known.end())
      IntegerRangeAnalysis::setToEntryState(lattice);
    else
      propagateIfChanged(lattice, lattice->join(it->second));
  }

  LogicalResult
  visitOperation(Operation *op,
                 ArrayRef<const IntegerValueRangeLattice *> operands,
                 ArrayRef<IntegerValueRangeLattice *> results) override {
    auto is = [&](const ConstantIntRanges &range) {
      propagateIfChanged(results[0], results[0]->join(range));
      return success();
    };
    auto of = [&](unsigned i) -> std::optional<ConstantIntRanges> {
      if (operands[i]->getValue().isUninitialized())
        return {};
      return operands[i]->getValue().getValue();
    };
    if (auto dim = dyn_cast<memref::DimOp>(op);
        dim && isArgumentOfFunction(dim.getSource()))
      return is(between(0, kMaxSize));
    if (isa<BlockIdOp, ClaimOp>(op)) // a grid has less than 2^31 CTAs
      return is(between(0, INT32_MAX - 1));
    if (isa<BroadcastOp, TransposeOp, ConvertOp>(op)) {
      if (!getElementTypeOrSelf(op->getResult(0)).isIntOrIndex())
        return success();
      auto range = of(0);
      return range ? is(*range) : success();
    }
    if (auto iota = dyn_cast<IotaOp>(op)) {
      auto start = of(0);
      if (!start)
        return success();
      bool overflow;
      APInt last = start->smax().sadd_ov(
          APInt(64, tileType(iota.getResult()).getDimSize(0) - 1), overflow);
      return is(overflow ? ConstantIntRanges::maxRange(64)
                         : ConstantIntRanges::fromSigned(start->smin(), last));
    }
    if (isa<math::AbsIOp>(op)) {
      auto range = of(0);
      if (!range)
        return success();
      if (range->smin().isMinSignedValue())
        return is(ConstantIntRanges::maxRange(range->smin().getBitWidth()));
      return is(ConstantIntRanges::fromSigned(
          APInt::getZero(range->smin().getBitWidth()),
          llvm::APIntOps::smax(range->smin().abs(), range->smax().abs())));
    }
    // x == c ? a : x + b, as counters of stages go: x + b with x not c.
    if (auto select = dyn_cast<arith::SelectOp>(op)) {
      auto cmp = select.getCondition().getDefiningOp<arith::CmpIOp>();
      Operation *next = select.getFalseValue().getDefiningOp();
      if (cmp && cmp.getPredicate() == arith::CmpIPredicate::eq &&
          isa_and_nonnull<arith::AddIOp, arith::SubIOp>(next) &&
          next->getOperand(0) == cmp.getLhs()) {
        auto c = getConstantIntValue(cmp.getRhs()),
             step = getConstantIntValue(next->getOperand(1));
        auto x = getLatticeElementFor(getProgramPointAfter(op), cmp.getLhs())
                     ->getValue();
        auto first = of(1);
        if (c && step && first && !x.isUninitialized() &&
            x.getValue().smin().getBitWidth() == 64) {
          int64_t low = x.getValue().smin().getSExtValue(),
                  high = x.getValue().smax().getSExtValue();
          low += low == *c;
          high -= high == *c;
          if (isa<arith::SubIOp>(next))
            step = -*step;
          ConstantIntRanges range = *first;
          int64_t bound = int64_t(1) << 32;
          if (low <= high && low > -bound && high < bound &&
              std::abs(*step) < bound)
            range = range.rangeUnion(between(low + *step, high + *step));
          if (low > high || (low > -bound && high < bound))
            return is(range);
        }
      }
    }
    return IntegerRangeAnalysis::visitOperation(op, operands, results);
  }

private:
  const RangeMap &known;
};

//===----------------------------------------------------------------------===//
// One kernel
//===----------------------------------------------------------------------===//

Type narrowType(Type type) {
  auto i32 = IntegerType::get(type.getContext(), 32);
  if (auto tile = dyn_cast<RankedTensorType>(type))
    return RankedTensorType::get(tile.getShape(), i32, tile.getEncoding());
  return i32;
}

bool isIndex(Value v) { return getElementTypeOrSelf(v).isIndex(); }

class Narrower {
public:
  Narrower(KernelOp kernel, DataFlowSolver &solver)
      : kernel(kernel), solver(solver) {}

  /// Returns how many ops and loops were narrowed.
  int run(ArrayRef<LaunchOp> launches) {
    SmallVector<Operation *> ops;
    kernel.getBody().walk<WalkOrder::PreOrder>(
        [&](Operation *op) { ops.push_back(op); });
    narrowArguments(launches);
    for (Operation *op : ops)
      llvm::TypeSwitch<Operation *>(op)
          .Case<scf::ForOp, scf::IfOp, arith::CmpIOp, arith::IndexCastOp>(
              [&](auto o) { visit(o); })
          .Default([&](Operation *o) {
            if (canNarrow(o))
              again(o);
          });
    // There and back.
    kernel.walk([](arith::IndexCastOp cast) {
      auto inner = cast.getIn().getDefiningOp<arith::IndexCastOp>();
      if (inner && inner.getIn().getType() == cast.getType() &&
          getElementTypeOrSelf(cast).isInteger(32))
        cast.replaceAllUsesWith(inner.getIn());
    });
    return count;
  }

private:
  const ConstantIntRanges *rangeOf(Value v) {
    auto it = ranges.find(v);
    if (it != ranges.end())
      return &it->second;
    auto *state = solver.lookupState<IntegerValueRangeLattice>(v);
    if (!state || state->getValue().isUninitialized())
      return nullptr;
    return &ranges.try_emplace(v, state->getValue().getValue()).first->second;
  }
  /// True if the range of `v` and `more` added to it fit 32 bits.
  bool fits(Value v, int64_t more = 0) {
    const ConstantIntRanges *range = rangeOf(v);
    return range && range->smin().getSExtValue() >= INT32_MIN &&
           range->smax().getSExtValue() <= INT32_MAX - more;
  }
  int64_t lastOf(Value v) { return rangeOf(v)->smax().getSExtValue(); }
  bool isNatural(Value v) {
    const ConstantIntRanges *range = rangeOf(v);
    return range && range->smin().isNonNegative();
  }

  /// `v` in 32 bits.
  Value get(Value v) {
    if (Value known = narrow.lookup(v))
      return known;
    OpBuilder b(kernel.getContext());
    b.setInsertionPointAfterValue(v);
    Location loc = v.getLoc();
    Type type = narrowType(v.getType());
    Value result;
    if (auto constant = v.getDefiningOp<arith::ConstantOp>()) {
      TypedAttr value;
      if (auto splat = dyn_cast<DenseElementsAttr>(constant.getValue()))
        value = DenseElementsAttr::get(
            cast<RankedTensorType>(type),
            splat.getSplatValue<APInt>().sextOrTrunc(32));
      else
        value = b.getI32IntegerAttr(
            cast<IntegerAttr>(constant.getValue()).getInt());
      result = arith::ConstantOp::create(b, loc, value);
    } else {
      result = arith::IndexCastOp::create(b, loc, type, v);
    }
    narrow[v] = result;
    return result;
  }

  /// `v`, which has 32 bits from here on, for those who want an index.
  void widen(OpBuilder b, Value v, Type type) {
    auto wide = arith::IndexCastOp::create(b, v.getLoc(), type, v);
    v.replaceAllUsesExcept(wide, wide);
    became(v, wide);
  }
  /// `small` is `wide` in 32 bits, and both are what `wide` was.
  void became(Value small, Value wide) {
    narrow[wide] = small;
    if (const ConstantIntRanges *range = rangeOf(small)) {
      ConstantIntRanges copy = *range; // the map may grow
      ranges.try_emplace(wide, copy);
    }
    ++count;
  }

  void narrowArguments(ArrayRef<LaunchOp> launches) {
    OpBuilder b = OpBuilder::atBlockBegin(&kernel.getBody().front());
    if (launches.empty())
      return;
    SmallVector<Type> types(kernel.getArgumentTypes());
    for (BlockArgument arg : kernel.getBody().getArguments()) {
      if (!arg.getType().isIndex() || !fits(arg))
        continue;
      unsigned i = arg.getArgNumber();
      arg.setType(types[i] = b.getI32Type());
      widen(b, arg, b.getIndexType());
      for (LaunchOp launch : launches) {
        OpBuilder host(launch);
        OpOperand &operand = launch.getOperands_Mutable()[i];
        operand.set(arith::IndexCastOp::create(host, launch.getLoc(), types[i],
                                               operand.get()));
      }
    }
    kernel.setFunctionType(b.getFunctionType(types, {}));
  }

  void visit(scf::ForOp loop) {
    OpBuilder b(loop);
    OpBuilder inside = OpBuilder::atBlockBegin(loop.getBody());
    OpBuilder after(loop->getContext());
    after.setInsertionPointAfter(loop);
    // The variable passes the bound by less than a step.
    Value iv = loop.getInductionVar();
    if (iv.getType().isIndex() && fits(iv) && fits(loop.getLowerBound()) &&
        fits(loop.getStep()) && !loop.getUnsignedCmp() &&
        fits(loop.getUpperBound(), lastOf(loop.getStep()))) {
      loop.getLowerBoundMutable().set(get(loop.getLowerBound()));
      loop.getUpperBoundMutable().set(get(loop.getUpperBound()));
      loop.getStepMutable().set(get(loop.getStep()));
      iv.setType(b.getI32Type());
      widen(inside, iv, b.getIndexType());
    }
    for (auto [i, result] : llvm::enumerate(loop.getResults())) {
      Value arg = loop.getRegionIterArg(i);
      OpOperand &init = loop.getInitArgsMutable()[i],
                &next = (*loop.getYieldedValuesMutable())[i];
      if (!arg.getType().isIndex() || !fits(arg) || !fits(result) ||
          !fits(init.get()) || !fits(next.get()))
        continue;
      init.set(get(init.get()));
      next.set(get(next.get()));
      arg.setType(b.getI32Type());
      widen(inside, arg, b.getIndexType());
      result.setType(b.getI32Type());
      widen(after, result, b.getIndexType());
    }
  }

  void visit(scf::IfOp branch) {
    OpBuilder after(branch->getContext());
    after.setInsertionPointAfter(branch);
    for (auto [i, result] : llvm::enumerate(branch.getResults())) {
      OpOperand &yes = branch.thenYield()->getOpOperand(i),
                &no = branch.elseYield()->getOpOperand(i);
      Type type = result.getType();
      if (!isIndex(result) || !fits(result) || !fits(yes.get()) ||
          !fits(no.get()))
        continue;
      yes.set(get(yes.get()));
      no.set(get(no.get()));
      result.setType(narrowType(type));
      widen(after, result, type);
    }
  }

  void visit(arith::CmpIOp cmp) {
    bool isSigned = cmp.getPredicate() < arith::CmpIPredicate::ult;
    for (Value v : cmp->getOperands())
      if (!isIndex(v) || !fits(v) || (!isSigned && !isNatural(v)))
        return;
    for (OpOperand &operand : cmp->getOpOperands())
      operand.set(get(operand.get()));
    ++count;
  }

  void visit(arith::IndexCastOp cast) {
    if (!isIndex(cast.getIn()) || !fits(cast.getIn()))
      return;
    Type to = getElementTypeOrSelf(cast.getType());
    if (to.isInteger(32)) {
      cast.replaceAllUsesWith(get(cast.getIn()));
    } else if (to.isInteger(64)) {
      Value small = get(cast.getIn());
      OpBuilder b(cast);
      // The float that is closest is the same.
      for (Operation *user : llvm::make_early_inc_range(cast->getUsers()))
        if (isa<arith::SIToFPOp>(user))
          user->setOperand(0, small);
      if (!cast->use_empty())
        cast.replaceAllUsesWith(
            arith::ExtSIOp::create(b, cast.getLoc(), cast.getType(), small)
                .getResult());
      ++count;
    }
  }

  bool canNarrow(Operation *op) {
    if (op->getNumResults() != 1 || !isIndex(op->getResult(0)) ||
        !fits(op->getResult(0)))
      return false;
    bool isUnsigned = isa<arith::DivUIOp, arith::RemUIOp, arith::CeilDivUIOp,
                          arith::MinUIOp, arith::MaxUIOp>(op);
    if (!isUnsigned &&
        !isa<arith::AddIOp, arith::SubIOp, arith::MulIOp, arith::DivSIOp,
             arith::RemSIOp, arith::CeilDivSIOp, arith::FloorDivSIOp,
             arith::MinSIOp, arith::MaxSIOp, arith::AndIOp, arith::OrIOp,
             arith::XOrIOp, arith::SelectOp, math::AbsIOp, BroadcastOp,
             TransposeOp, ConvertOp>(op))
      return false;
    return llvm::all_of(op->getOperands(), [&](Value v) {
      return !isIndex(v) || (fits(v) && (!isUnsigned || isNatural(v)));
    });
  }

  /// Replaces `op` by itself in 32 bits.
  void again(Operation *op) {
    IRMapping map;
    for (Value v : op->getOperands())
      if (isIndex(v))
        map.map(v, get(v));
    OpBuilder b(op);
    Operation *copy = b.clone(*op, map);
    Value old = op->getResult(0), small = copy->getResult(0);
    small.setType(narrowType(old.getType()));
    llvm::TypeSwitch<Operation *>(copy)
        .Case<arith::AddIOp, arith::SubIOp, arith::MulIOp>([](auto o) {
          o.setOverflowFlags(arith::IntegerOverflowFlags::nsw);
        });
    ranges.try_emplace(small, ConstantIntRanges(*rangeOf(old)));
    auto wide =
        arith::IndexCastOp::create(b, op->getLoc(), old.getType(), small);
    old.replaceAllUsesWith(wide);
    narrow[old] = small;
    became(small, wide);
  }

  KernelOp kernel;
  DataFlowSolver &solver;
  DenseMap<Value, Value> narrow;
  RangeMap ranges;
  int count = 0;
};

//===----------------------------------------------------------------------===//
// The module
//===----------------------------------------------------------------------===//

struct GpuNarrowIndices
    : public fathom::impl::GpuNarrowIndicesPassBase<GpuNarrowIndices> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    llvm::MapVector<KernelOp, SmallVector<LaunchOp>> launches;
    for (auto kernel : module.getOps<KernelOp>())
      launches[kernel];
    module.walk([&](LaunchOp launch) {
      if (auto kernel = module.lookupSymbol<KernelOp>(launch.getKernel()))
        launches[kernel].push_back(launch);
    });

    // First the host's ranges, then those of kernels, which start with them.
    RangeMap known;
    {
      DataFlowSolver solver;
      if (failed(analyze(solver, RangeMap())))
        return signalPassFailure();
      for (auto &[kernel, calls] : launches)
        for (LaunchOp launch : calls)
          for (auto [arg, v] : llvm::zip_equal(kernel.getBody().getArguments(),
                                               launch.getOperands_())) {
            auto *state = solver.lookupState<IntegerValueRangeLattice>(v);
            if (!state || state->getValue().isUninitialized() ||
                !v.getType().isIntOrIndex())
              continue;
            ConstantIntRanges range = state->getValue().getValue();
            auto [it, isNew] = known.try_emplace(arg, range);
            if (!isNew)
              it->second = it->second.rangeUnion(range);
          }
    }
    DataFlowSolver solver;
    if (failed(analyze(solver, known)))
      return signalPassFailure();

    llvm::SetVector<func::FuncOp> hosts;
    for (auto &[kernel, calls] : launches) {
      if (int count = Narrower(kernel, solver).run(calls)) {
        passed(kernel, kName, Twine(count) + " ops and values in 32 bits");
        for (LaunchOp launch : calls)
          if (auto host = launch->getParentOfType<func::FuncOp>())
            hosts.insert(host);
      } else {
        missed(kernel, kName, "no index is known to fit 32 bits");
      }
      tidy(kernel);
    }
    // What the ranges rest on.
    for (func::FuncOp host : hosts)
      host.walk([&](memref::DimOp dim) {
        if (!isArgumentOfFunction(dim.getSource()))
          return;
        OpBuilder b(dim->getContext());
        b.setInsertionPointAfter(dim);
        RequireOp::create(b, dim.getLoc(), dim, kMaxSize);
      });
  }

  LogicalResult analyze(DataFlowSolver &solver, const RangeMap &known) {
    dataflow::loadBaselineAnalyses(solver);
    solver.load<Ranges>(known);
    return solver.initializeAndRun(getOperation());
  }
};

} // namespace
