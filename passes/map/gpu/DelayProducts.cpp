//===- DelayProducts.cpp - fa-gpu-delay-products ----------------------------===//
//
// A round that multiplies, works entry by entry on the result and multiplies
// that gives tensor cores nothing to do in the middle. Its last product is as
// well done in the next round, in the background of that one's middle.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/map/gpu/Gpu.h"
#include "passes/nest/Tiles.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace fathom;
using namespace fathom::gpu;

namespace fathom {
#define GEN_PASS_DEF_GPUDELAYPRODUCTSPASS
#include "passes/Passes.h.inc"
} // namespace fathom

namespace {
constexpr StringLiteral kName = "fa-gpu-delay-products";

class Delay {
public:
  explicit Delay(scf::ForOp loop) : loop(loop) {}

  /// Why the loop's last product can't be delayed; empty if it can.
  StringRef inspect();
  void apply();

private:
  bool isInside(Value v) {
    return loop.getRegion().isAncestor(v.getParentRegion());
  }
  StringRef findBarriers();
  void clone(Operation &op, OpBuilder &b, IRMapping &map) {
    if (!tail.contains(&op))
      b.clone(op, map);
  }
  /// The product with what it needs, as `map` says; its wait.
  void start(OpBuilder &b, IRMapping &map);
  Value finish(OpBuilder &b, IRMapping &map);

  scf::ForOp loop;
  WgmmaOp first, last;
  WgmmaWaitOp firstWait, lastWait;
  unsigned carried = 0; ///< the number of the sum among what the loop carries
  WaitPhaseOp filled;   ///< the wait for the last product's buffer
  ArriveOp freed;       ///< and the word that it may be filled again
  llvm::SetVector<Operation *> tail, views;
  llvm::SetVector<Value> inputs; ///< of the tail, without the sum
};

StringRef Delay::inspect() {
  auto products = llvm::to_vector(loop.getOps<WgmmaOp>());
  if (products.size() != 2)
    return "not two products in a round";
  first = products[0], last = products[1];
  auto waitOf = [&](WgmmaOp product) -> WgmmaWaitOp {
    Value v = product.getResult();
    auto wait = v.hasOneUse() ? dyn_cast<WgmmaWaitOp>(*v.getUsers().begin())
                              : WgmmaWaitOp();
    return wait && wait->getBlock() == loop.getBody() &&
                   wait.getTiles().size() == 1
               ? wait
               : WgmmaWaitOp();
  };
  firstWait = waitOf(first), lastWait = waitOf(last);
  if (!firstWait || !lastWait || !firstWait->isBeforeInBlock(last))
    return "the second product does not follow from the first";
  Value sum = lastWait.getResult(0);
  if (!sum.hasOneUse() || !isa<scf::YieldOp>(*sum.getUsers().begin()))
    return "the second product's sum is used in its round";
  carried = sum.use_begin()->getOperandNumber();
  if (!isTile(last.getA()) || !isInside(last.getA()) ||
      !isInside(last.getAcc()))
    return "the second product's factor is not of this round";
  // What a round does twice, before the loop and in it, changes nothing.
  for (Operation &op : loop.getBody()->without_terminator()) {
    if (isa<WaitPhaseOp, ArriveOp, WgmmaOp, WgmmaWaitOp>(op))
      continue;
    auto effects = getEffectsRecursively(&op);
    if (!effects ||
        llvm::any_of(*effects, [](const MemoryEffects::EffectInstance &e) {
          return !isa<MemoryEffects::Read>(e.getEffect());
        }))
      return "a round writes memory";
  }
  for (Value v = last.getB(); isInside(v);) {
    Operation *view = v.getDefiningOp();
    if (!isa_and_nonnull<FlipOp, StageOp>(view))
      return "the second product's buffer is of this round";
    views.insert(view);
    v = view->getOperand(0);
  }
  if (StringRef why = findBarriers(); !why.empty())
    return why;
  tail.insert_range(views);
  tail.insert_range(ArrayRef<Operation *>{filled, last, lastWait, freed});
  inputs.insert(last.getA());
  for (Operation *op : tail)
    for (Value v : op->getOperands())
      if (v != last.getAcc() && isInside(v) &&
          !(v.getDefiningOp() && tail.contains(v.getDefiningOp())))
        inputs.insert(v);
  return "";
}

/// Finds what keeps those who fill the second product's buffer and this round
/// apart: a wait, and word that the product is done.
StringRef Delay::findBarriers() {
  AllocOp alloc = allocOf(last.getB());
  for (Operation *user : usersOf(alloc.getResult())) {
    if (user != last && loop->isProperAncestor(user))
      return "others read the second product's buffer";
    auto copy = dyn_cast<CopyBoxOp>(user);
    if (!copy)
      continue;
    for (auto wait : loop.getOps<WaitPhaseOp>())
      if (wait.getBarriers() == copy.getSignals())
        filled = wait;
    for (Operation *op = copy->getPrevNode(); op; op = op->getPrevNode())
      if (auto wait = dyn_cast<WaitPhaseOp>(op)) {
        for (auto arrive : loop.getOps<ArriveOp>())
          if (arrive.getBarriers() == wait.getBarriers())
            freed = arrive;
        break;
      }
  }
  if (!filled || !freed)
    return "the second product's buffer is not filled by other warps";
  return lastWait->isBeforeInBlock(freed)
             ? ""
             : "the second product's buffer is free before it ends";
}

void Delay::start(OpBuilder &b, IRMapping &map) {
  b.clone(*filled, map);
  for (Operation *view : llvm::reverse(views))
    b.clone(*view, map);
  b.clone(*last, map);
}

Value Delay::finish(OpBuilder &b, IRMapping &map) {
  auto wait = cast<WgmmaWaitOp>(b.clone(*lastWait, map));
  wait.setPending(0);
  b.clone(*freed, map);
  return wait.getResult(0);
}

void Delay::apply() {
  Location loc = loop.getLoc();
  OpBuilder b(loop);
  auto yield = cast<scf::YieldOp>(loop.getBody()->getTerminator());
  Value some =
      arith::CmpIOp::create(b, loc,
                            loop.getUnsignedCmp() ? arith::CmpIPredicate::ult
                                                  : arith::CmpIPredicate::slt,
                            loop.getLowerBound(), loop.getUpperBound());
  auto branch =
      scf::IfOp::create(b, loc, loop.getResultTypes(), some, /*else=*/true);
  OpBuilder none = branch.getElseBodyBuilder();
  scf::YieldOp::create(none, loc, loop.getInitArgs());

  // The first round without its last product.
  OpBuilder then = branch.getThenBodyBuilder();
  IRMapping map;
  map.map(loop.getInductionVar(), loop.getLowerBound());
  map.map(loop.getRegionIterArgs(), loop.getInitArgs());
  for (Operation &op : loop.getBody()->without_terminator())
    clone(op, then, map);
  // What a round leaves to the next: what it yields, the sum as it is before
  // the last product, and what that takes.
  auto left = [&](IRMapping &m) {
    SmallVector<Value> values;
    for (auto [i, v] : llvm::enumerate(yield.getOperands()))
      values.push_back(m.lookupOrDefault(i == carried ? last.getAcc() : v));
    for (Value v : inputs)
      values.push_back(m.lookupOrDefault(v));
    return values;
  };
  Value from =
      arith::AddIOp::create(then, loc, loop.getLowerBound(), loop.getStep());
  auto made = scf::ForOp::create(then, loc, from, loop.getUpperBound(),
                                 loop.getStep(), left(map));
  made.setUnsignedCmp(loop.getUnsignedCmp());
  if (!made.getBody()->empty())
    made.getBody()->clear();

  // The tail of the round before, of what is `given`.
  unsigned n = loop.getNumRegionIterArgs();
  auto before = [&](ValueRange given) {
    IRMapping m;
    m.map(last.getAcc(), given[carried]);
    m.map(inputs.getArrayRef(), given.drop_front(n));
    return m;
  };
  OpBuilder body = OpBuilder::atBlockEnd(made.getBody());
  IRMapping round, delayed = before(made.getRegionIterArgs());
  round.map(loop.getInductionVar(), made.getInductionVar());
  round.map(loop.getRegionIterArgs(), made.getRegionIterArgs().take_front(n));
  BlockArgument sum = loop.getRegionIterArg(carried);
  bool finished = false;
  for (Operation &op : loop.getBody()->without_terminator()) {
    if (tail.contains(&op))
      continue;
    if (&op == firstWait)
      start(body, delayed);
    bool needs = op.walk([&](Operation *inner) {
                     return llvm::is_contained(inner->getOperands(), sum)
                                ? WalkResult::interrupt()
                                : WalkResult::advance();
                   }).wasInterrupted();
    if (needs && !finished) {
      round.map(sum, finish(body, delayed));
      finished = true;
    }
    Operation *copy = body.clone(op, round);
    if (&op == firstWait)
      cast<WgmmaWaitOp>(copy).setPending(firstWait.getPending() + 1);
  }
  if (!finished)
    round.map(sum, finish(body, delayed));
  scf::YieldOp::create(body, loc, left(round));

  // The last product of all.
  IRMapping end = before(made.getResults());
  start(then, end);
  Value total = finish(then, end);
  SmallVector<Value> results(made.getResults().take_front(n));
  results[carried] = total;
  scf::YieldOp::create(then, loc, results);
  loop.replaceAllUsesWith(branch.getResults());
  loop.erase();
}

struct GpuDelayProductsPass
    : public fathom::impl::GpuDelayProductsPassBase<GpuDelayProductsPass> {
  using GpuDelayProductsPassBase::GpuDelayProductsPassBase;

  void runOnOperation() override {
    getOperation()->walk([](KernelOp kernel) {
      SmallVector<scf::ForOp> loops;
      kernel.walk([&](scf::ForOp loop) {
        if (!loop.getOps<WgmmaOp>().empty())
          loops.push_back(loop);
      });
      for (scf::ForOp loop : loops) {
        Delay delay(loop);
        if (StringRef why = delay.inspect(); !why.empty()) {
          missed(loop, kName, why);
          continue;
        }
        passed(loop, kName, "the last product runs in the next round");
        delay.apply();
      }
      if (!loops.empty())
        tidy(kernel);
    });
  }
};
} // namespace
