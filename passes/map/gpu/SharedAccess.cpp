//===- SharedAccess.cpp - who touches what memory of a CTA ------------------===//

#include "passes/map/gpu/SharedAccess.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace fathom;
using namespace fathom::gpu;

//===----------------------------------------------------------------------===//
// Buffers and stages
//===----------------------------------------------------------------------===//

static RingIndex plus(RingIndex index, int64_t n, int64_t stages) {
  index.offset = llvm::mod(index.offset + n, stages);
  return index;
}

/// x, n of x + n.
static std::optional<std::pair<Value, int64_t>> matchSum(Value v) {
  if (auto add = v.getDefiningOp<arith::AddIOp>()) {
    if (auto n = getConstantIntValue(add.getRhs()))
      return std::pair(add.getLhs(), *n);
    if (auto n = getConstantIntValue(add.getLhs()))
      return std::pair(add.getRhs(), *n);
  }
  if (auto sub = v.getDefiningOp<arith::SubIOp>())
    if (auto n = getConstantIntValue(sub.getRhs()))
      return std::pair(sub.getLhs(), -*n);
  return {};
}

/// x, n of (x == n).
static std::optional<std::pair<Value, int64_t>> matchEqual(Value v) {
  auto cmp = v.getDefiningOp<arith::CmpIOp>();
  if (!cmp || cmp.getPredicate() != arith::CmpIPredicate::eq)
    return {};
  if (auto n = getConstantIntValue(cmp.getRhs()))
    return std::pair(cmp.getLhs(), *n);
  return {};
}

RingIndex gpu::ringIndex(Value index, int64_t stages) {
  if (auto n = getConstantIntValue(index))
    return plus({}, *n, stages);
  if (auto sum = matchSum(index))
    return plus(ringIndex(sum->first, stages), sum->second, stages);
  if (auto rem = index.getDefiningOp<arith::RemUIOp>())
    if (getConstantIntValue(rem.getRhs()) == stages)
      return ringIndex(rem.getLhs(), stages);
  // c ? wrapped : x + n, where both are the same modulo `stages`.
  if (auto select = index.getDefiningOp<arith::SelectOp>()) {
    auto equal = matchEqual(select.getCondition());
    auto wrapped = getConstantIntValue(select.getTrueValue());
    auto sum = matchSum(select.getFalseValue());
    if (equal && wrapped && sum) {
      // The condition is on x + n, or on x.
      bool onSum = equal->first == select.getFalseValue();
      if ((onSum &&
           llvm::mod(equal->second, stages) == llvm::mod(*wrapped, stages)) ||
          (equal->first == sum->first &&
           llvm::mod(equal->second + sum->second, stages) ==
               llvm::mod(*wrapped, stages)))
        return plus(ringIndex(sum->first, stages), sum->second, stages);
    }
  }
  return {index, 0};
}

/// The access to `buffer`, in shared or in global memory.
static PendingAccess accessTo(Value buffer, bool write) {
  PendingAccess a;
  a.write = write;
  if (!isa<SharedType>(buffer.getType())) {
    a.root = buffer;
    return a;
  }
  AllocOp alloc = allocOf(buffer);
  if (!alloc)
    return a;
  a.root = alloc.getResult();
  while (Operation *op = buffer.getDefiningOp()) {
    if (auto stage = dyn_cast<StageOp>(op))
      a.stage =
          ringIndex(stage.getIndex(), alloc.getResult().getType().getStages());
    if (op == alloc)
      break;
    buffer = op->getOperand(0);
  }
  return a;
}

//===----------------------------------------------------------------------===//
// PendingSet
//===----------------------------------------------------------------------===//

bool PendingSet::add(const PendingAccess &access) {
  if (llvm::is_contained(items, access))
    return false;
  items.push_back(access);
  return true;
}

bool PendingSet::add(const PendingSet &other) {
  bool grew = false;
  for (const PendingAccess &a : other.get())
    grew |= add(a);
  return grew;
}

void PendingSet::barrier() {
  llvm::erase_if(
      items, [](const PendingAccess &a) { return a.age < 0 && a.product < 0; });
}

void PendingSet::change(llvm::function_ref<void(PendingAccess &)> f) {
  PendingSet after;
  for (PendingAccess a : items) {
    f(a);
    after.add(a);
  }
  *this = after;
}

void PendingSet::commit(int64_t maxAge) {
  change([&](PendingAccess &a) {
    if (a.age >= 0)
      a.age = std::min(a.age + 1, maxAge);
  });
}

void PendingSet::wait(int64_t pending) {
  change([&](PendingAccess &a) {
    if (a.age > pending)
      a.age = -1;
  });
}

void PendingSet::startProduct(int64_t maxAge) {
  change([&](PendingAccess &a) {
    if (a.product >= 0)
      a.product = std::min(a.product + 1, maxAge);
  });
}

void PendingSet::waitForProducts(int64_t pending) {
  change([&](PendingAccess &a) {
    if (a.product >= pending)
      a.product = -1;
  });
}

/// `pending` at the end of `region` as seen from outside it: a stage that is
/// given by a value of the region could be any.
static PendingSet leave(const PendingSet &pending, Region &region) {
  PendingSet after;
  for (PendingAccess a : pending.get()) {
    if (a.stage && a.stage->base &&
        region.isAncestor(a.stage->base.getParentRegion()))
      a.stage.reset();
    after.add(a);
  }
  return after;
}

/// `pending` at the end of the body of `loop` as seen from the next iteration:
/// a stage given by a value that each iteration steps by a constant is as far
/// behind that value.
static PendingSet comeRound(const PendingSet &pending, scf::ForOp loop) {
  Block *body = loop.getBody();
  PendingSet after;
  for (PendingAccess a : pending.get()) {
    if (a.stage && a.stage->base &&
        loop.getRegion().isAncestor(a.stage->base.getParentRegion())) {
      int64_t stages = cast<SharedType>(a.root.getType()).getStages();
      auto arg = dyn_cast<BlockArgument>(a.stage->base);
      std::optional<int64_t> step;
      if (arg && arg.getOwner() == body) {
        if (arg == loop.getInductionVar()) {
          step = getConstantIntValue(loop.getStep());
        } else {
          Value next =
              body->getTerminator()->getOperand(arg.getArgNumber() - 1);
          RingIndex index = ringIndex(next, stages);
          if (index.base == arg)
            step = index.offset;
        }
      }
      if (step)
        a.stage = plus(*a.stage, -*step, stages);
      else
        a.stage.reset();
    }
    after.add(a);
  }
  return after;
}

//===----------------------------------------------------------------------===//
// SharedFlow
//===----------------------------------------------------------------------===//

SharedFlow::SharedFlow(KernelOp kernel) : kernel(kernel) {
  kernel.walk([&](WaitOp wait) {
    maxAge = std::max<int64_t>(maxAge, wait.getPending() + 1);
  });
  kernel.walk([&](WgmmaWaitOp wait) {
    maxProduct = std::max<int64_t>(maxProduct, wait.getPending() + 1);
  });
}

bool SharedFlow::conflict(const PendingAccess &a,
                          const PendingAccess &b) const {
  if ((!a.write && !b.write) || (a.atomic && b.atomic))
    return false;
  if (!a.root || !b.root) {
    Value other = a.root ? a.root : b.root;
    return !other || isa<SharedType>(other.getType());
  }
  if (a.root != b.root)
    return std::pair(a.root, b.root) == aliased ||
           std::pair(b.root, a.root) == aliased;
  // A buffer is not touched while a copy to it is under way: what seems so
  // cannot happen.
  if (a.age >= 0)
    return false;
  if (isa<SharedType>(a.root.getType()))
    return !a.stage || !b.stage || a.stage->base != b.stage->base ||
           a.stage->offset == b.stage->offset;
  // Tiles of one buffer lie on one grid: with one layout, an entry always
  // belongs to the same thread. Of threads that share entries, one writes.
  return !a.layout || a.layout != b.layout ||
         (a.layout.isReplicated() && !(a.write && b.write));
}

bool SharedFlow::access(const PendingAccess &a, PendingSet &pending) const {
  bool found = llvm::any_of(pending.get(), [&](const PendingAccess &other) {
    return conflict(other, a);
  });
  pending.add(a);
  return found;
}

bool SharedFlow::step(Operation *op, PendingSet &pending) const {
  bool found = false;
  if (auto loop = dyn_cast<scf::ForOp>(op)) {
    PendingSet out = pending;
    enterLoop(loop, out);
    found = step(*loop.getBody(), out);
    pending.add(leave(out, loop.getRegion()));
    return found;
  }
  if (isa<scf::IfOp, RolesOp>(op)) {
    PendingSet before = pending, after;
    for (Region &region : op->getRegions()) {
      PendingSet out = before;
      if (!region.empty())
        found |= step(region.front(), out);
      after.add(leave(out, region));
    }
    pending = after;
    return found;
  }
  if (auto loop = dyn_cast<scf::WhileOp>(op)) {
    PendingSet out;
    for (bool grew = true; grew;) {
      out = pending;
      found = step(*loop.getBeforeBody(), out);
      PendingSet round = out;
      found |= step(*loop.getAfterBody(), round);
      grew =
          pending.add(leave(leave(round, loop.getAfter()), loop.getBefore()));
    }
    pending = leave(out, loop.getBefore());
    return found;
  }
  if (op->getNumRegions()) {
    // Blocks that may run in any order and number.
    for (bool grew = true; grew;) {
      grew = found = false;
      PendingSet before = pending;
      for (Region &region : op->getRegions())
        for (Block &block : region) {
          PendingSet out = before;
          found |= step(block, out);
          grew |= pending.add(leave(out, region));
        }
    }
    return found;
  }

  if (isa<BarrierOp, WaitTurnOp, EndTurnOp>(op)) {
    if (atBarrier)
      atBarrier(op, pending);
    pending.barrier();
    return false;
  }
  if (isa<CommitOp>(op)) {
    pending.commit(maxAge);
    return false;
  }
  if (auto wait = dyn_cast<WaitOp>(op)) {
    pending.wait(wait.getPending());
    return false;
  }
  if (auto wait = dyn_cast<WgmmaWaitOp>(op)) {
    pending.waitForProducts(wait.getPending());
    return false;
  }
  if (auto claim = dyn_cast<ClaimOp>(op)) {
    // One thread writes the scratch, then all meet, then all read it.
    found = access(accessTo(claim.getScratch(), true), pending);
    if (atBarrier)
      atBarrier(op, pending);
    pending.barrier();
    access(accessTo(claim.getScratch(), false), pending);
    return found;
  }
  auto effects = dyn_cast<MemoryEffectOpInterface>(op);
  if (!effects)
    return false;
  SmallVector<MemoryEffects::EffectInstance> instances;
  effects.getEffects(instances);
  PendingSet own;
  if (isa<WgmmaOp>(op))
    pending.startProduct(maxProduct);
  for (const MemoryEffects::EffectInstance &e : instances) {
    bool write = isa<MemoryEffects::Write>(e.getEffect());
    if (!e.getValue() || !(write || isa<MemoryEffects::Read>(e.getEffect())))
      continue;
    PendingAccess a = accessTo(e.getValue(), write);
    if (isa<LoadOp, StoreOp>(op)) {
      a.layout = layoutOf(isa<LoadOp>(op) ? op->getResult(0).getType()
                                          : op->getOperand(0).getType());
    } else if (auto sum = dyn_cast<AccumulateOp>(op)) {
      a.layout = layoutOf(sum.getTile());
      a.atomic = sum.getMode() == AccumulateMode::atomic;
      a.write = true;
    } else if (auto sum = dyn_cast<ScatterAddOp>(op)) {
      a.atomic = sum.getMode() == AccumulateMode::atomic;
      a.write = true;
    } else if (isa<CopyAsyncOp>(op) && write) {
      a.age = 0;
    } else if (isa<WgmmaOp>(op)) {
      a.product = 0;
    }
    own.add(a);
  }
  // Accesses of one op do not conflict with each other.
  for (const PendingAccess &a : own.get()) {
    PendingSet before = pending;
    found |= access(a, before);
  }
  // A barrier of its own says when a box is there, to all who wait for it.
  for (const PendingAccess &a : own.get())
    if (!a.write || !isa<CopyBoxOp>(op))
      pending.add(a);
  return found;
}

bool SharedFlow::step(Block &block, PendingSet &pending) const {
  bool found = false;
  for (Operation &op : block)
    found |= step(&op, pending);
  return found;
}

void SharedFlow::enterLoop(scf::ForOp loop, PendingSet &head) const {
  for (bool grew = true; grew;) {
    PendingSet out = head;
    step(*loop.getBody(), out);
    grew = head.add(comeRound(out, loop));
  }
}

bool SharedFlow::hasConflict() const {
  PendingSet pending;
  return step(KernelOp(kernel).getBody().front(), pending);
}

llvm::SetVector<Operation *> SharedFlow::barriersForProducts() const {
  llvm::DenseSet<Value> factors;
  KernelOp(kernel).walk([&](WgmmaOp op) {
    for (Value v : {op.getA(), Value(op.getB())})
      if (isa<SharedType>(v.getType()))
        if (AllocOp alloc = allocOf(v))
          factors.insert(alloc.getResult());
  });
  llvm::SetVector<Operation *> found;
  if (factors.empty())
    return found;
  SharedFlow flow = *this;
  flow.atBarrier = [&](Operation *barrier, const PendingSet &pending) {
    if (llvm::any_of(pending.get(), [&](const PendingAccess &a) {
          return a.write && a.age < 0 && factors.contains(a.root);
        }))
      found.insert(barrier);
  };
  (void)flow.hasConflict();
  return found;
}
