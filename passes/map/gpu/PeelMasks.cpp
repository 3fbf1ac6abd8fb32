//===- PeelMasks.cpp - fa-gpu-peel-masks ------------------------------------===//
//
// A loop that asks in every round whether a mask is needed has a fork in its
// middle, across which nothing is scheduled. Where the answer is yes, then no,
// then yes again as the loop goes on, three loops say the same without asking:
// the one in the middle, which does most rounds, has no fork.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/map/gpu/MaskedRounds.h"
#include "passes/nest/Tiles.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
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
      for (scf::ForOp loop : loopsWithProducts(kernel))
        peel(loop);
      tidy(kernel);
    }
  }

  void peel(scf::ForOp loop) {
    StringRef why;
    scf::IfOp mask = firstMask(loop, why);
    if (!mask)
      return missed(loop, kName, why);
    Value condition = mask.getCondition();

    // Where the test holds: from `first` on, before `end`, if `always`.
    SmallVector<Value> tests;
    conjuncts(condition, tests);
    Value iv = loop.getInductionVar();
    // Each copy of a loop takes registers from all: where many rounds need the
    // mask, fa-gpu-fork-rounds takes fewer.
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
      auto order = Order::of(test);
      if (!order)
        return missed(loop, kName, "a test is no comparison of order");
      IndexSum margin = order->margin();
      int64_t slope = margin.terms.lookup(iv);
      Value a = o.get(order->greater), c = o.get(order->less);
      if (!a || !c || std::abs(slope) != 1 ||
          llvm::any_of(margin.terms, [&](auto &term) {
            return term.first != iv && dependsOn(term.first, iv);
          }))
        return missed(loop, kName, "a test is not linear in the loop");
      // It holds where d + slope * iv > 0.
      Value d = o.make<arith::SubIOp>(a, c);
      if (order->orEqual)
        d = o.make<arith::AddIOp>(d, o.constant(1));
      if (slope < 0) {
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
      Value test = map.lookupOrDefault(condition);
      answer(part.getBody(), test, !masked);
      if (!masked)
        openLimits(part.getBody(), test);
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
};

} // namespace
