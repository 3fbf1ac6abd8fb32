//===- PeelMasks.cpp - fa-gpu-peel-masks ------------------------------------===//
//
// A loop that asks in every round whether a mask is needed has a fork in its
// middle, across which nothing is scheduled. Where the answer is yes, then no,
// then yes again as the loop goes on, three loops say the same without asking:
// the one in the middle, which does most rounds, has no fork.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/map/gpu/Gpu.h"
#include "passes/nest/Tiles.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"

namespace fathom {
#define GEN_PASS_DEF_GPUPEELMASKSPASS
#include "passes/Passes.h.inc"
} // namespace fathom

using namespace mlir;
using namespace fathom;
using namespace fathom::gpu;

namespace {
constexpr StringLiteral kName = "fa-gpu-peel-masks";

/// How often `iv` counts in `v`, a sum; nothing if `v` is not one.
std::optional<int> countOf(Value v, Value iv) {
  if (v == iv)
    return 1;
  if (!dependsOn(v, iv))
    return 0;
  Operation *op = v.getDefiningOp();
  if (!isa<arith::AddIOp, arith::SubIOp>(op))
    return {};
  auto a = countOf(op->getOperand(0), iv), b = countOf(op->getOperand(1), iv);
  if (!a || !b)
    return {};
  return isa<arith::AddIOp>(op) ? *a + *b : *a - *b;
}

/// The conjuncts of `v`.
void conjuncts(Value v, SmallVector<Value> &list) {
  if (auto both = v.getDefiningOp<arith::AndIOp>()) {
    conjuncts(both.getLhs(), list);
    conjuncts(both.getRhs(), list);
  } else {
    list.push_back(v);
  }
}

/// Builds what is needed of a loop's body before the loop, with its variable 0.
class Outside {
public:
  Outside(scf::ForOp loop) : loop(loop), b(loop), loc(loop.getLoc()) {
    map.map(loop.getInductionVar(), constant(0));
  }
  Value constant(int64_t n) {
    return arith::ConstantIndexOp::create(b, loc, n);
  }
  /// Null if `v` can't be had there.
  Value get(Value v) {
    if (Value known = map.lookupOrNull(v))
      return known;
    if (loop.isDefinedOutsideOfLoop(v))
      return v;
    Operation *op = v.getDefiningOp();
    if (!op || !isPure(op) || op->getNumRegions())
      return {};
    for (Value o : op->getOperands()) {
      Value outside = get(o);
      if (!outside)
        return {};
      map.map(o, outside);
    }
    return b.clone(*op, map)->getResult(cast<OpResult>(v).getResultNumber());
  }
  template <typename Op>
  Value make(Value x, Value y) {
    return b.createOrFold<Op>(loc, x, y);
  }

  scf::ForOp loop;
  OpBuilder b;
  Location loc;
  IRMapping map;
};

struct GpuPeelMasks : public fathom::impl::GpuPeelMasksPassBase<GpuPeelMasks> {
  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<KernelOp>()) {
      SmallVector<scf::ForOp> loops;
      kernel.walk([&](scf::ForOp loop) {
        if (!loop.getOps<MmaOp>().empty())
          loops.push_back(loop);
      });
      for (scf::ForOp loop : loops)
        peel(loop);
      tidy(kernel);
    }
  }

  void peel(scf::ForOp loop) {
    Value condition;
    for (auto branch : loop.getOps<scf::IfOp>())
      if (llvm::any_of(branch.getResultTypes(), isLaidOut)) {
        if (condition && branch.getCondition() != condition)
          return missed(loop, kName, "its tiles depend on several tests");
        condition = branch.getCondition();
      }
    if (!condition)
      return missed(loop, kName, "no tile depends on a test");

    // Where the test holds: from `first` on, before `end`, if `always`.
    SmallVector<Value> tests;
    conjuncts(condition, tests);
    Value iv = loop.getInductionVar();
    // Each copy of a loop takes registers from all; where many rounds need the
    // mask, the fork is the lesser evil.
    if (llvm::count_if(tests, [&](Value v) { return dependsOn(v, iv); }) > 1)
      return missed(loop, kName, "the mask cuts through tiles in several ways");
    Outside o(loop);
    Value first, end, always;
    for (Value test : tests) {
      if (!dependsOn(test, iv)) {
        Value v = o.get(test);
        if (!v)
          return missed(loop, kName, "a test depends on what the loop carries");
        always = always ? o.make<arith::AndIOp>(always, v) : v;
        continue;
      }
      // d > 0 with d = greater - less (+ 1 where they may be equal).
      auto cmp = test.getDefiningOp<arith::CmpIOp>();
      if (!cmp)
        return missed(loop, kName, "a test is no comparison");
      auto p = cmp.getPredicate();
      bool swapped =
               p == arith::CmpIPredicate::slt || p == arith::CmpIPredicate::sle,
           equal =
               p == arith::CmpIPredicate::sge || p == arith::CmpIPredicate::sle;
      if (!swapped && !equal && p != arith::CmpIPredicate::sgt)
        return missed(loop, kName, "a test is no comparison of order");
      Value greater = cmp.getLhs(), less = cmp.getRhs();
      if (swapped)
        std::swap(greater, less);
      auto up = countOf(greater, iv), down = countOf(less, iv);
      Value a = o.get(greater), c = o.get(less);
      if (!up || !down || !a || !c || std::abs(*up - *down) != 1)
        return missed(loop, kName, "a test is not linear in the loop");
      Value d = o.make<arith::SubIOp>(a, c);
      if (equal)
        d = o.make<arith::AddIOp>(d, o.constant(1));
      if (*up - *down < 0) {
        end = end ? o.make<arith::MinSIOp>(end, d) : d;
      } else {
        Value from = o.make<arith::SubIOp>(o.constant(1), d);
        first = first ? o.make<arith::MaxSIOp>(first, from) : from;
      }
    }

    // Bounds on the loop's grid: [lower, begin), [begin, stop), [rest, upper).
    Value lower = loop.getLowerBound(), upper = loop.getUpperBound(),
          step = loop.getStep();
    if (loop.getUnsignedCmp())
      return missed(loop, kName, "the loop counts without signs");
    auto onGrid = [&](Value from, Value at) {
      Value n = o.make<arith::MaxSIOp>(o.make<arith::SubIOp>(at, from),
                                       o.constant(0));
      n = o.make<arith::CeilDivSIOp>(n, step);
      return o.make<arith::AddIOp>(from, o.make<arith::MulIOp>(n, step));
    };
    auto whenAlways = [&](Value v, Value otherwise) -> Value {
      return always ? arith::SelectOp::create(o.b, o.loc, always, v, otherwise)
                    : v;
    };
    Value begin = lower;
    if (first)
      begin = whenAlways(
          o.make<arith::MinSIOp>(onGrid(lower, first), onGrid(lower, upper)),
          lower);
    Value stop = end ? o.make<arith::MinSIOp>(end, upper) : upper;
    stop = whenAlways(o.make<arith::MaxSIOp>(stop, begin), begin);
    bool hasHead = bool(first), hasTail = end || always;

    SmallVector<Value> carried(loop.getInitArgs());
    auto run = [&](Value from, Value to, bool masked) {
      IRMapping map;
      auto part = cast<scf::ForOp>(o.b.clone(*loop, map));
      part.getLowerBoundMutable().set(from);
      part.getUpperBoundMutable().set(to);
      part.getInitArgsMutable().assign(carried);
      if (!masked) {
        Value test = map.lookupOrDefault(condition);
        for (auto branch : llvm::make_early_inc_range(part.getOps<scf::IfOp>()))
          if (branch.getCondition() == test)
            takeThen(branch);
      }
      carried.assign(part.getResults().begin(), part.getResults().end());
    };
    if (hasHead)
      run(lower, o.make<arith::MinSIOp>(begin, upper), true);
    run(begin, stop, false);
    if (hasTail)
      run(onGrid(begin, stop), upper, true);
    loop.replaceAllUsesWith(carried);
    passed(loop, kName, "most rounds ask no more whether they need a mask");
    loop.erase();
  }

  static void takeThen(scf::IfOp branch) {
    scf::YieldOp yield = branch.thenYield();
    for (Operation &op :
         llvm::make_early_inc_range(branch.thenBlock()->without_terminator()))
      op.moveBefore(branch);
    branch.replaceAllUsesWith(yield.getOperands());
    branch.erase();
  }
};

} // namespace
