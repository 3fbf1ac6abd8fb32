//===- PeelMasks.cpp - fa-gpu-peel-masks ------------------------------------===//
//
// A loop that asks in every round whether a mask is needed forks there and
// joins again: nothing is scheduled across, and where it asks several times,
// several times. With the rest of the round there twice, it forks once, and
// nothing that is on its way through the round has to meet in the same registers.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/map/gpu/Gpu.h"
#include "passes/nest/Tiles.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"

namespace fathom {
#define GEN_PASS_DEF_GPUPEELMASKSPASS
#include "passes/Passes.h.inc"
} // namespace fathom

using namespace mlir;
using namespace fathom;
using namespace fathom::gpu;

namespace {
constexpr StringLiteral kName = "fa-gpu-peel-masks";

/// A sum: a constant, and values by how often each counts.
struct Sum {
  void add(Value v, int64_t times) {
    if (auto c = getConstantIntValue(v)) {
      constant += times * *c;
    } else if (Operation *op = v.getDefiningOp();
               isa_and_nonnull<arith::AddIOp, arith::SubIOp>(op)) {
      add(op->getOperand(0), times);
      add(op->getOperand(1), isa<arith::AddIOp>(op) ? times : -times);
    } else if ((terms[v] += times) == 0) {
      terms.erase(v);
    }
  }

  int64_t constant = 0;
  llvm::MapVector<Value, int64_t> terms;
};

/// The sides of a comparison of order that holds where greater > less, or also
/// where they are equal.
struct Order {
  static std::optional<Order> of(Value test) {
    auto cmp = test.getDefiningOp<arith::CmpIOp>();
    if (!cmp)
      return {};
    using P = arith::CmpIPredicate;
    P p = cmp.getPredicate();
    if (p == P::sgt || p == P::sge)
      return Order{cmp.getLhs(), cmp.getRhs(), p == P::sge};
    if (p == P::slt || p == P::sle)
      return Order{cmp.getRhs(), cmp.getLhs(), p == P::sle};
    return {};
  }
  /// What is not negative where it holds.
  Sum margin() const {
    Sum sum;
    sum.add(greater, 1);
    sum.add(less, -1);
    sum.constant -= !orEqual;
    return sum;
  }

  Value greater, less;
  bool orEqual;
};

/// The conjuncts of `v`.
void conjuncts(Value v, SmallVector<Value> &list) {
  if (auto both = v.getDefiningOp<arith::AndIOp>()) {
    conjuncts(both.getLhs(), list);
    conjuncts(both.getRhs(), list);
  } else {
    list.push_back(v);
  }
}

struct GpuPeelMasks : public fathom::impl::GpuPeelMasksPassBase<GpuPeelMasks> {
  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<KernelOp>()) {
      SmallVector<scf::ForOp> loops;
      kernel.walk([&](scf::ForOp loop) {
        if (llvm::any_of(*loop.getBody(), llvm::IsaPred<MmaOp, WgmmaOp>))
          loops.push_back(loop);
      });
      for (scf::ForOp loop : loops)
        peel(loop);
      tidy(kernel);
    }
  }

  void peel(scf::ForOp loop) {
    scf::IfOp first;
    for (auto branch : loop.getOps<scf::IfOp>())
      if (llvm::any_of(branch.getResultTypes(), isLaidOut)) {
        if (!first)
          first = branch;
        else if (branch.getCondition() != first.getCondition())
          return missed(loop, kName, "its tiles depend on several tests");
      }
    if (!first)
      return missed(loop, kName, "no tile depends on a test");
    Value condition = first.getCondition();

    // Scalars, such as the next stage, are the same on both ways.
    Operation *at = first;
    auto yield = cast<scf::YieldOp>(loop.getBody()->getTerminator());
    auto moves = [&](Value v) {
      Operation *op = v.getDefiningOp();
      return op && op->getBlock() == loop.getBody() && !op->isBeforeInBlock(at);
    };
    for (Operation &op :
         llvm::make_early_inc_range(loop.getBody()->without_terminator()))
      if (!op.isBeforeInBlock(at) && isPure(&op) && !op.getNumRegions() &&
          llvm::none_of(op.getResults(), isTile) &&
          llvm::none_of(op.getOperands(), isTile) &&
          llvm::none_of(op.getOperands(), moves))
        op.moveBefore(at);

    // What is yielded of what moves.
    SmallVector<OpOperand *> moving;
    SmallVector<Value> values;
    for (OpOperand &use : yield->getOpOperands())
      if (moves(use.get())) {
        moving.push_back(&use);
        values.push_back(use.get());
      }
    OpBuilder b(at);
    Location loc = first.getLoc();
    auto fork = scf::IfOp::create(b, loc, TypeRange(ValueRange(values)),
                                  condition, /*withElseRegion=*/true);
    Block *plain = fork.thenBlock(), *masked = fork.elseBlock();
    plain->clear(); // without results, terminators are there already
    masked->clear();
    plain->getOperations().splice(plain->end(), loop.getBody()->getOperations(),
                                  at->getIterator(), yield->getIterator());
    IRMapping map;
    b.setInsertionPointToEnd(masked);
    for (Operation &op : *plain)
      b.clone(op, map);
    auto end = [&](Block *block, bool withMask) {
      SmallVector<Value> results;
      for (Value v : values)
        results.push_back(withMask ? map.lookupOrDefault(v) : v);
      b.setInsertionPointToEnd(block);
      scf::YieldOp::create(b, loc, results);
      for (auto branch : llvm::make_early_inc_range(block->getOps<scf::IfOp>()))
        if (branch.getCondition() == condition)
          take(branch, withMask ? branch.elseBlock() : branch.thenBlock());
    };
    end(plain, false);
    end(masked, true);
    for (auto [use, result] : llvm::zip_equal(moving, fork.getResults()))
      use->set(result);
    openLimits(plain, condition);
    passed(fork, kName, "rounds that need no mask have no fork");
  }

  /// Limits that lie past all of a tile where `condition` holds, as it always
  /// does in `block`, become the tile's end.
  static void openLimits(Block *block, Value condition) {
    SmallVector<Value> tests;
    conjuncts(condition, tests);
    SmallVector<Sum, 0> margins;
    for (Value test : tests)
      if (auto order = Order::of(test))
        margins.push_back(order->margin());
    auto open = [&](Operation *op, ArrayRef<int64_t> shape,
                    OperandRange indices, MutableOperandRange limits) {
      OpBuilder b(op);
      for (auto [d, size] : llvm::enumerate(shape)) {
        Value first = indices[indices.size() - shape.size() + d];
        bool past = llvm::any_of(margins, [&, size = size, d = d](Sum rest) {
          // The limit less the tile's end, less what is known to be positive.
          for (auto &term : rest.terms)
            term.second = -term.second;
          rest.constant = -rest.constant - size;
          rest.add(limits[d].get(), 1);
          rest.add(first, -1);
          return rest.constant >= 0 &&
                 llvm::all_of(rest.terms, [](auto &t) { return !t.second; });
        });
        if (!past || getConstantIntValue(limits[d].get()))
          continue;
        Location loc = op->getLoc();
        limits[d].set(arith::AddIOp::create(
            b, loc, first, arith::ConstantIndexOp::create(b, loc, size)));
      }
    };
    block->walk([&](Operation *op) {
      if (auto load = dyn_cast<LoadOp>(op))
        open(op, load.getTile().getType().getShape(), load.getIndices(),
             load.getLimitsMutable());
      else if (auto store = dyn_cast<StoreOp>(op))
        open(op, tileType(store.getTile()).getShape(), store.getIndices(),
             store.getLimitsMutable());
      else if (auto sum = dyn_cast<AccumulateOp>(op))
        open(op, tileType(sum.getTile()).getShape(), sum.getIndices(),
             sum.getLimitsMutable());
      else if (auto copy = dyn_cast<CopyAsyncOp>(op))
        open(op, copy.getBuffer().getType().getShape(), copy.getIndices(),
             copy.getLimitsMutable());
    });
  }

  /// Replaces `branch` by `block` of it, or by nothing.
  static void take(scf::IfOp branch, Block *block) {
    if (block) {
      for (Operation &op :
           llvm::make_early_inc_range(block->without_terminator()))
        op.moveBefore(branch);
      branch.replaceAllUsesWith(block->getTerminator()->getOperands());
    }
    branch.erase();
  }
};

} // namespace
