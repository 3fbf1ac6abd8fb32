//===- SpecializeWarps.cpp - fa-gpu-specialize-warps ------------------------===//
//
// Warps of their own have the copy engine fill buffers: they run ahead of those
// that compute, as far as stages are free, and nobody meets for a copy. What
// decides where boxes lie, loops and scalars, is computed on both sides.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/map/gpu/SharedAccess.h"
#include "passes/nest/Tiles.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace fathom;
using namespace fathom::gpu;

namespace fathom {
#define GEN_PASS_DEF_GPUSPECIALIZEWARPSPASS
#include "passes/Passes.h.inc"
} // namespace fathom

namespace {
constexpr StringLiteral kName = "fa-gpu-specialize-warps";

/// Registers move between groups of so many warps.
constexpr int64_t kGroup = 4;

/// Cuts one kernel in two roles.
class Cutter {
public:
  explicit Cutter(KernelOp kernel) : kernel(kernel) {}

  /// Why it can't be cut; empty if it was.
  StringRef run() {
    kernel.walk([&](CopyBoxOp copy) { copies.push_back(copy); });
    if (copies.empty())
      return "no copies of boxes";
    if (kernel.walk([](RolesOp) { return WalkResult::interrupt(); })
            .wasInterrupted())
      return "it has roles";
    int64_t warps = kernel.getNumWarps();
    if (warps < 2 * kGroup)
      return "few warps compute, and more CTAs beside them hide copies too";
    if (warps + kGroup > 32)
      return "a CTA can't have more warps";
    for (CopyBoxOp copy : copies)
      if (AllocOp alloc = allocOf(copy.getBuffer()))
        alloc->moveBefore(&body(), body().begin());
    collectShared();
    for (CopyBoxOp copy : copies)
      if (StringRef why = inspect(copy); !why.empty())
        return why;
    for (auto &[full, ring] : rings)
      if (StringRef why = inspectReaders(full); !why.empty())
        return why;

    auto ret = cast<ReturnOp>(body().getTerminator());
    OpBuilder b(ret);
    SmallVector<int64_t> registers = registersFor(warps);
    auto roles = RolesOp::create(
        b, kernel.getLoc(), b.getDenseI64ArrayAttr({warps, kGroup}),
        b.getDenseI64ArrayAttr(registers), /*rolesCount=*/2);
    kernel.setNumWarps(warps + kGroup);
    for (Region &role : roles.getRoles()) {
      b.createBlock(&role);
      ReturnOp::create(b, kernel.getLoc());
    }
    // Stages that are free, one arrival a warp that was done with it.
    for (auto &[full, ring] : rings) {
      b.setInsertionPointAfterValue(full);
      ring.free = MbarriersOp::create(b, full.getLoc(), full.getType(), warps,
                                      IntegerAttr());
      shared.insert(ring.free.getDefiningOp());
      for (auto &[wait, last] : ring.rounds) {
        b.setInsertionPointAfter(last);
        ArriveOp::create(b, last->getLoc(), ring.free, wait.getIndex());
      }
    }
    // A wait for parity 1 ends at once: at first all stages are free.
    OpBuilder producer(roles.getRoles()[1].front().getTerminator());
    IRMapping map;
    Phases phases;
    for (auto &[full, ring] : rings)
      phases[full] =
          arith::ConstantIntOp::create(producer, full.getLoc(), -1, 32);
    issue(body(), producer, map, phases);
    // The rest is for those who compute.
    for (CopyBoxOp copy : copies)
      copy.erase();
    Operation *end = roles.getRoles()[0].front().getTerminator();
    for (Operation &op :
         llvm::make_early_inc_range(body().without_terminator()))
      if (&op != roles && !shared.contains(&op))
        op.moveBefore(end);
    tidy(kernel);
    passed(kernel, kName,
           Twine(copies.size()) + (copies.size() == 1 ? " copy" : " copies") +
               " issued by warps of their own");
    return "";
  }

private:
  struct Ring {
    Value free;
    /// The waits for a stage, and the last op that needs it.
    SmallVector<std::pair<WaitPhaseOp, Operation *>> rounds;
  };
  /// By ring: the phases that the next fills wait for, a bit a stage.
  using Phases = llvm::MapVector<Value, Value>;

  Block &body() { return kernel.getBody().front(); }

  /// In all, a thread of each of the groups of four warps has 512.
  SmallVector<int64_t> registersFor(int64_t warps) {
    int64_t groups = warps / kGroup;
    if (warps % kGroup || kernel.getMinBlocks() > 1)
      return {0, 0};
    int64_t few = groups == 2 ? 24 : 32;
    return {std::min<int64_t>(240, (512 - few) / groups / 8 * 8), few};
  }

  /// Finds what stands before the roles: buffers, barriers, and scalars that
  /// follow from arguments.
  void collectShared() {
    for (Operation &op : body().without_terminator()) {
      bool scalar =
          isScalar(&op) && llvm::all_of(op.getOperands(), [&](Value v) {
            Operation *def = v.getDefiningOp();
            return !def || shared.contains(def);
          });
      if (isa<AllocOp, MbarriersOp>(op) || scalar)
        shared.insert(&op);
    }
  }

  /// True if `op` computes scalars and may be done twice.
  bool isScalar(Operation *op) {
    if (op->getNumRegions() || llvm::any_of(op->getResults(), isTile) ||
        llvm::any_of(op->getOperands(), isTile))
      return false;
    auto load = dyn_cast<memref::LoadOp>(op);
    return isMemoryEffectFree(op) ||
           (load && !isWrittenIn(kernel, load.getMemRef()));
  }

  /// Marks `v` as needed to issue copies. False if it can't be had.
  bool need(Value v) {
    if (!needed.insert(v).second)
      return true;
    if (auto arg = dyn_cast<BlockArgument>(v)) {
      Operation *parent = arg.getOwner()->getParentOp();
      if (isa<KernelOp>(parent))
        return true;
      auto loop = dyn_cast<scf::ForOp>(parent);
      if (!loop || !needFrame(loop))
        return false;
      return arg == loop.getInductionVar() ||
             needCarried(loop, arg.getArgNumber() - 1);
    }
    Operation *op = v.getDefiningOp();
    if (shared.contains(op))
      return true;
    if (auto loop = dyn_cast<scf::ForOp>(op))
      return needFrame(loop) &&
             needCarried(loop, cast<OpResult>(v).getResultNumber());
    return isScalar(op) && needFrame(op->getParentOp()) &&
           llvm::all_of(op->getOperands(), [&](Value o) { return need(o); });
  }
  bool needCarried(scf::ForOp loop, unsigned n) {
    return !isTile(loop.getResult(n)) && need(loop.getRegionIterArg(n)) &&
           need(loop.getInitArgs()[n]) && need(loop.getYieldedValues()[n]);
  }
  /// The same for `op`, a loop or branch, and those around it.
  bool needFrame(Operation *op) {
    if (isa<KernelOp>(op) || !frame.insert(op).second)
      return true;
    if (auto loop = dyn_cast<scf::ForOp>(op))
      return needFrame(op->getParentOp()) && need(loop.getLowerBound()) &&
             need(loop.getUpperBound()) && need(loop.getStep());
    auto branch = dyn_cast<scf::IfOp>(op);
    return branch && needFrame(op->getParentOp()) &&
           need(branch.getCondition());
  }

  /// Why `copy` can't be issued by others; empty if it can.
  StringRef inspect(CopyBoxOp copy) {
    Value full = copy.getSignals();
    if (!full.getDefiningOp() || full.getDefiningOp()->getBlock() != &body())
      return "barriers are made anew in a loop";
    constexpr StringRef why = "where a box lies is not known to other warps";
    if (!needFrame(copy->getParentOp()))
      return why;
    for (Value v : copy.getIndices())
      if (!need(v))
        return why;
    if (auto stage = copy.getBuffer().getDefiningOp<StageOp>();
        !need(copy.getIndex()) || (stage && !need(stage.getIndex())))
      return why;
    if (copy.getSignals().getType().getCount() == 1)
      return copy->getParentOfType<scf::ForOp>()
                 ? "a buffer of one stage is filled in a loop"
                 : "";
    (void)rings[full];
    return "";
  }

  /// The op of its block after which `op` reads no more: of a product that is
  /// under way, the wait for it. Null if that stands elsewhere.
  static Operation *endOf(Operation *op) {
    auto product = dyn_cast<WgmmaOp>(op);
    if (!product)
      return op;
    for (Operation *user : product.getResult().getUsers())
      if (user->getBlock() == op->getBlock() && isa<WgmmaOp, WgmmaWaitOp>(user))
        return endOf(user);
    return nullptr;
  }

  /// Finds where the stages of `full` are free again. Why that can't be told.
  StringRef inspectReaders(Value full) {
    Ring &ring = rings[full];
    SmallVector<Operation *> readers;
    for (Operation *user : full.getUsers())
      if (auto copy = dyn_cast<CopyBoxOp>(user))
        for (Operation *op : usersOf(allocOf(copy.getBuffer()).getResult()))
          if (!isa<CopyBoxOp>(op) && !llvm::is_contained(readers, op))
            readers.push_back(op);
    for (Operation *user : full.getUsers()) {
      auto wait = dyn_cast<WaitPhaseOp>(user);
      if (!wait)
        continue;
      Operation *last = nullptr;
      for (Operation *reader : readers)
        if (Operation *op = wait->getBlock()->findAncestorOpInBlock(*reader)) {
          if (op->isBeforeInBlock(wait))
            return "a stage is read before the wait for it";
          op = endOf(op);
          if (!op)
            return "a product that reads a stage outlasts the round";
          if (!last || last->isBeforeInBlock(op))
            last = op;
        }
      if (!last)
        return "nobody reads what is waited for";
      ring.rounds.push_back({wait, last});
    }
    for (Operation *reader : readers)
      if (llvm::none_of(ring.rounds, [&](auto &round) {
            return round.first->getBlock()->findAncestorOpInBlock(*reader);
          }))
        return "a stage is read where nobody waits for it";
    return "";
  }

  /// The rings that copies in `op` fill.
  SmallVector<Value> ringsIn(Operation *op) {
    SmallVector<Value> found;
    op->walk([&](CopyBoxOp copy) {
      if (Value full = copy.getSignals();
          rings.contains(full) && !llvm::is_contained(found, full))
        found.push_back(full);
    });
    return found;
  }

  /// Builds what issues the copies of `block`.
  void issue(Block &block, OpBuilder &b, IRMapping &map, Phases &phases) {
    for (Operation &op : block.without_terminator()) {
      if (shared.contains(&op))
        continue;
      if (auto copy = dyn_cast<CopyBoxOp>(op))
        issueCopy(copy, b, map, phases);
      else if (auto loop = dyn_cast<scf::ForOp>(op);
               loop && frame.contains(&op))
        issueLoop(loop, b, map, phases);
      else if (auto branch = dyn_cast<scf::IfOp>(op);
               branch && frame.contains(&op))
        issueIf(branch, b, map, phases);
      else if (llvm::any_of(op.getResults(),
                            [&](Value v) { return needed.contains(v); }))
        b.clone(op, map);
    }
  }

  /// Waits until the stage is free, if it is one of several.
  void issueCopy(CopyBoxOp copy, OpBuilder &b, IRMapping &map, Phases &phases) {
    if (auto it = phases.find(copy.getSignals()); it != phases.end()) {
      Location loc = copy.getLoc();
      Value stage = map.lookupOrDefault(copy.getIndex());
      Value parity = phaseOf(b, loc, it->second, stage);
      WaitPhaseOp::create(b, loc, parity, rings[it->first].free, stage);
      it->second = nextPhase(b, loc, it->second, stage);
    }
    if (auto stage = copy.getBuffer().getDefiningOp<StageOp>();
        stage && !map.contains(stage.getResult()))
      b.clone(*stage, map);
    b.clone(*copy, map);
  }

  void issueIf(scf::IfOp branch, OpBuilder &b, IRMapping &map, Phases &phases) {
    SmallVector<Value> inside = ringsIn(branch);
    SmallVector<Type> types(inside.size(), b.getI32Type());
    auto made = scf::IfOp::create(b, branch.getLoc(), types,
                                  map.lookupOrDefault(branch.getCondition()),
                                  /*withElseRegion=*/true);
    for (auto [from, to] :
         llvm::zip_equal(branch->getRegions(), made->getRegions())) {
      if (to.empty())
        to.emplaceBlock();
      OpBuilder inner = OpBuilder::atBlockEnd(&to.front());
      if (!to.front().empty())
        to.front().back().erase(); // a terminator without values
      inner.setInsertionPointToEnd(&to.front());
      Phases own = phases;
      if (!from.empty())
        issue(from.front(), inner, map, own);
      SmallVector<Value> yields;
      for (Value full : inside)
        yields.push_back(own[full]);
      scf::YieldOp::create(inner, branch.getLoc(), yields);
    }
    for (auto [full, result] : llvm::zip_equal(inside, made.getResults()))
      phases[full] = result;
  }

  void issueLoop(scf::ForOp loop, OpBuilder &b, IRMapping &map,
                 Phases &phases) {
    SmallVector<unsigned> carried;
    SmallVector<Value> inits;
    for (auto [n, arg] : llvm::enumerate(loop.getRegionIterArgs()))
      if (needed.contains(arg)) {
        carried.push_back(n);
        inits.push_back(map.lookupOrDefault(loop.getInitArgs()[n]));
      }
    SmallVector<Value> inside = ringsIn(loop);
    for (Value full : inside)
      inits.push_back(phases[full]);
    auto made = scf::ForOp::create(b, loop.getLoc(),
                                   map.lookupOrDefault(loop.getLowerBound()),
                                   map.lookupOrDefault(loop.getUpperBound()),
                                   map.lookupOrDefault(loop.getStep()), inits);
    made.setUnsignedCmp(loop.getUnsignedCmp());
    map.map(loop.getInductionVar(), made.getInductionVar());
    for (auto [i, n] : llvm::enumerate(carried)) {
      map.map(loop.getRegionIterArg(n), made.getRegionIterArg(i));
      map.map(loop.getResult(n), made.getResult(i));
    }
    Phases own = phases;
    for (auto [i, full] : llvm::enumerate(inside))
      own[full] = made.getRegionIterArg(carried.size() + i);
    Block *body = made.getBody();
    if (!body->empty()) // a loop that carries nothing has its terminator
      body->back().erase();
    OpBuilder inner = OpBuilder::atBlockEnd(body);
    issue(*loop.getBody(), inner, map, own);
    SmallVector<Value> yields;
    for (unsigned n : carried)
      yields.push_back(map.lookupOrDefault(loop.getYieldedValues()[n]));
    for (Value full : inside)
      yields.push_back(own[full]);
    scf::YieldOp::create(inner, loop.getLoc(), yields);
    for (auto [i, full] : llvm::enumerate(inside))
      phases[full] = made.getResult(carried.size() + i);
  }

  KernelOp kernel;
  SmallVector<CopyBoxOp> copies;
  llvm::MapVector<Value, Ring> rings; ///< by the barriers that say full
  llvm::DenseSet<Operation *> shared; ///< stand before the roles
  llvm::DenseSet<Operation *> frame;  ///< loops and branches around copies
  llvm::DenseSet<Value> needed;
};

struct GpuSpecializeWarpsPass
    : public fathom::impl::GpuSpecializeWarpsPassBase<GpuSpecializeWarpsPass> {
  void runOnOperation() override {
    for (KernelOp kernel : getOperation().getOps<KernelOp>())
      if (StringRef why = Cutter(kernel).run(); !why.empty())
        missed(kernel, kName, why);
  }
};
} // namespace
