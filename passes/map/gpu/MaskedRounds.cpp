//===- MaskedRounds.cpp - loops that ask whether a mask is needed -----------===//

#include "passes/map/gpu/MaskedRounds.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace fathom;
using namespace fathom::gpu;

void IndexSum::add(Value v, int64_t times) {
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

std::optional<Order> Order::of(Value test) {
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

IndexSum Order::margin() const {
  IndexSum sum;
  sum.add(greater, 1);
  sum.add(less, -1);
  sum.constant -= !orEqual;
  return sum;
}

void gpu::conjuncts(Value v, SmallVector<Value> &list) {
  if (auto both = v.getDefiningOp<arith::AndIOp>()) {
    conjuncts(both.getLhs(), list);
    conjuncts(both.getRhs(), list);
  } else {
    list.push_back(v);
  }
}

SmallVector<scf::ForOp> gpu::loopsWithProducts(KernelOp kernel) {
  SmallVector<scf::ForOp> loops;
  kernel.walk([&](scf::ForOp loop) {
    if (!loop.getOps<MmaOp>().empty())
      loops.push_back(loop);
  });
  return loops;
}

scf::IfOp gpu::firstMask(scf::ForOp loop, StringRef &why) {
  scf::IfOp first;
  why = "no tile depends on a test";
  for (auto branch : loop.getOps<scf::IfOp>())
    if (llvm::any_of(branch.getResultTypes(), isLaidOut)) {
      if (!first) {
        first = branch;
      } else if (branch.getCondition() != first.getCondition()) {
        why = "its tiles depend on several tests";
        return {};
      }
    }
  return first;
}

void gpu::answer(Block *block, Value condition, bool holds) {
  for (auto branch : llvm::make_early_inc_range(block->getOps<scf::IfOp>())) {
    if (branch.getCondition() != condition)
      continue;
    if (Block *way = holds ? branch.thenBlock() : branch.elseBlock()) {
      for (Operation &op :
           llvm::make_early_inc_range(way->without_terminator()))
        op.moveBefore(branch);
      branch.replaceAllUsesWith(way->getTerminator()->getOperands());
    }
    branch.erase();
  }
}

void gpu::openLimits(Block *block, Value condition) {
  SmallVector<Value> tests;
  conjuncts(condition, tests);
  SmallVector<IndexSum, 0> margins;
  for (Value test : tests)
    if (auto order = Order::of(test))
      margins.push_back(order->margin());
  auto open = [&](Operation *op, ArrayRef<int64_t> shape, OperandRange indices,
                  MutableOperandRange limits) {
    OpBuilder b(op);
    for (auto [d, size] : llvm::enumerate(shape)) {
      Value first = indices[indices.size() - shape.size() + d];
      bool past = llvm::any_of(margins, [&, size = size, d = d](IndexSum rest) {
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
