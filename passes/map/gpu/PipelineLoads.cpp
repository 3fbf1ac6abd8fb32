//===- PipelineLoads.cpp - fa-gpu-pipeline-loads ----------------------------===//
//
// Copies that an iteration waits for are issued some iterations earlier, each
// buffer in as many stages; products run while the next tiles arrive. All waits
// for copies go down to the first use of what was copied.
//
//===----------------------------------------------------------------------===//

#include "dialect/gpu/GpuDialect.h"
#include "passes/Passes.h"
#include "passes/map/gpu/SharedAccess.h"
#include "passes/nest/Tiles.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace fathom;
using namespace fathom::gpu;

namespace fathom {
#define GEN_PASS_DEF_GPUPIPELINELOADSPASS
#include "passes/Passes.h.inc"
} // namespace fathom

namespace {
struct GpuPipelineLoadsPass
    : public fathom::impl::GpuPipelineLoadsPassBase<GpuPipelineLoadsPass> {
  using GpuPipelineLoadsPassBase::GpuPipelineLoadsPassBase;

  void runOnOperation() override {
    if (stages < 1 || stages > 8) {
      emitError(getOperation().getLoc(),
                "expected option stages from 1 to 8, got ")
          << int64_t(stages);
      return signalPassFailure();
    }
    SmallVector<scf::ForOp> loops;
    SmallVector<WaitOp> waits;
    getOperation()->walk([&](KernelOp kernel) {
      kernel.walk([&](scf::ForOp loop) {
        bool innermost = loop.getBody()
                             ->walk([](LoopLikeOpInterface) {
                               return WalkResult::interrupt();
                             })
                             .wasInterrupted() == false;
        if (innermost)
          loops.push_back(loop);
      });
    });
    llvm::SetVector<Operation *> done;
    for (scf::ForOp loop : loops) {
      ScheduleAttr schedule = scheduleOf(loop->getParentOfType<KernelOp>());
      count = schedule ? schedule.getStages() : int64_t(stages);
      if (scf::ForOp pipelined = pipeline(loop))
        done.insert(pipelined);
    }
    getOperation()->walk([&](WaitOp wait) {
      if (!done.contains(wait->getParentOp()))
        waits.push_back(wait);
    });
    for (WaitOp wait : llvm::reverse(waits))
      sink(wait);
    // No copy is under way after these, and what follows can tell: buffers of
    // the loop may be used for something else.
    for (Operation *loop : done) {
      OpBuilder b(loop->getContext());
      b.setInsertionPointAfter(loop);
      WaitOp::create(b, loop->getLoc(), 0);
    }
  }

  int64_t count = 0; ///< stages in the kernel at hand

  /// Moves a wait for all copies down its block to the first use of one of
  /// those it is there for; copies issued on the way stay under way.
  static void sink(WaitOp wait) {
    if (wait.getPending())
      return;
    // Those since the last such wait.
    llvm::SmallPtrSet<Value, 4> buffers;
    Operation *op = wait->getPrevNode();
    for (; op && !(isa<WaitOp>(op) && !cast<WaitOp>(op).getPending());
         op = op->getPrevNode())
      op->walk([&](CopyAsyncOp copy) {
        if (AllocOp alloc = allocOf(copy.getBuffer()))
          buffers.insert(alloc.getResult());
      });
    if (buffers.empty() || (!op && !isa<KernelOp>(wait->getParentOp())))
      return;
    int64_t pending = 0;
    op = wait->getNextNode();
    for (; mayPass(op, buffers); op = op->getNextNode())
      pending += isa<CommitOp>(op);
    wait.setPending(pending);
    wait->moveBefore(op);
    if (auto next = dyn_cast<WaitOp>(op))
      if (int64_t(next.getPending()) <= pending)
        wait.erase();
  }

  /// True if a wait for copies to `buffers` may stand after `op`.
  static bool mayPass(Operation *op,
                      const llvm::SmallPtrSet<Value, 4> &buffers) {
    if (op->hasTrait<OpTrait::IsTerminator>() || isa<WaitOp>(op))
      return false;
    if (isa<CommitOp>(op))
      return true;
    return !op->walk([&](Operation *inner) {
                // Barriers are there for what is complete before them.
                bool stops = isa<CommitOp, WaitOp, BarrierOp, WaitTurnOp,
                                 EndTurnOp, ClaimOp>(inner);
                if (!isa<FlipOp, StageOp>(inner))
                  for (Value v : inner->getOperands())
                    if (isa<SharedType>(v.getType()))
                      stops |= !allocOf(v) ||
                               buffers.contains(allocOf(v).getResult());
                return stops ? WalkResult::interrupt() : WalkResult::advance();
              }).wasInterrupted();
  }

  /// The ops of the body of `loop` that `values` are computed by, in order.
  /// False if these can't be repeated for another iteration.
  static bool collectSlice(ValueRange values, scf::ForOp loop,
                           llvm::SetVector<Operation *> &slice) {
    for (Value v : values) {
      if (auto arg = dyn_cast<BlockArgument>(v)) {
        if (arg.getOwner() == loop.getBody() && arg != loop.getInductionVar())
          return false;
        continue;
      }
      Operation *op = v.getDefiningOp();
      if (!loop->isProperAncestor(op) || slice.contains(op))
        continue;
      if (!isPure(op) || op->getNumRegions() ||
          !collectSlice(op->getOperands(), loop, slice))
        return false;
      slice.insert(op);
    }
    return true;
  }

  /// Why `copy`, directly in the body of `loop`, must stay where it is; empty
  /// if it may be issued in an earlier iteration.
  static StringRef whyNot(CopyAsyncOp copy, scf::ForOp loop) {
    AllocOp alloc = copy.getBuffer().getDefiningOp<AllocOp>();
    if (!alloc || alloc.getResult().getType().getStages() != 1)
      return "it writes a part of a buffer";
    SmallVector<Operation *> accesses = usersOf(alloc.getResult());
    for (Operation *op : accesses) {
      if (!loop->isProperAncestor(op))
        return "the buffer is used outside the loop";
      Operation *inBody = loop.getBody()->findAncestorOpInBlock(*op);
      if (inBody != copy && inBody->isBeforeInBlock(copy))
        return "the buffer is used before it is filled";
      if (op != copy && !isa<MmaOp, LoadSharedOp>(op))
        return "the buffer is written a second time";
    }
    llvm::SetVector<Operation *> slice;
    if (!collectSlice(copy.getIndices(), loop, slice) ||
        !collectSlice(copy.getLimits(), loop, slice) ||
        !loop.isDefinedOutsideOfLoop(copy.getSource()))
      return "its place depends on what the iterations before computed";
    // Under turns, what other CTAs write arrives at a certain iteration.
    bool turns = loop.getBody()
                     ->walk([](Operation *op) {
                       return isa<WaitTurnOp, ClaimOp>(op)
                                  ? WalkResult::interrupt()
                                  : WalkResult::advance();
                     })
                     .wasInterrupted();
    if (isWrittenIn(turns ? loop->getParentOfType<KernelOp>() : loop,
                    copy.getSource()))
      return "the array is written meanwhile";
    return "";
  }

  /// Returns the new loop, or null if no copy could go ahead.
  scf::ForOp pipeline(scf::ForOp loop) {
    if (!loop.getInductionVar().getType().isIndex())
      return {};
    SmallVector<CopyAsyncOp> copies;
    bool stay = false;
    loop.getBody()->walk([&](CopyAsyncOp copy) {
      StringRef why = copy->getBlock() != loop.getBody()
                          ? "it is issued on some paths only"
                          : whyNot(copy, loop);
      if (why.empty()) {
        copies.push_back(copy);
        return;
      }
      stay = true;
      missed(copy, "fa-gpu-pipeline-loads", why);
    });
    if (copies.empty())
      return {};
    if (!stay)
      dropWaits(loop);
    if (count > 1)
      return ring(loop, copies);
    if (!stay)
      return spread(loop, copies);
    missed(loop, "fa-gpu-pipeline-loads",
           "copies that stay make it unclear what a wait would wait for");
    return {};
  }

  /// Issues `copies` `count` - 1 iterations ahead, each to stages by turns.
  scf::ForOp ring(scf::ForOp loop, SmallVector<CopyAsyncOp> &copies) {
    passed(loop, "fa-gpu-pipeline-loads",
           Twine(copies.size()) +
               (copies.size() == 1 ? " copy issued " : " copies issued ") +
               Twine(count - 1) +
               (count == 2 ? " iteration ahead" : " iterations ahead"));

    // Each buffer in stages, before the loop.
    SmallVector<Value> rings;
    for (CopyAsyncOp copy : copies) {
      auto alloc = copy.getBuffer().getDefiningOp<AllocOp>();
      SharedType type = alloc.getResult().getType();
      OpBuilder b(alloc);
      if (loop->isProperAncestor(alloc))
        b.setInsertionPoint(loop);
      rings.push_back(AllocOp::create(b, alloc.getLoc(), type.withStages(count),
                                      IntegerAttr()));
    }

    // The first iterations' copies, a group each.
    TileBuilder b(OpBuilder(loop), loop.getLoc());
    Value zero = b.index(0), one = b.index(1), last = b.index(count - 1);
    for (int64_t s = 0; s < count - 1; ++s) {
      Value iv = loop.getLowerBound();
      if (s)
        iv = b.add(iv,
                   s == 1 ? loop.getStep() : b.mul(b.index(s), loop.getStep()));
      issueIfRuns(b, loop, copies, iv, rings, b.index(s));
      b.make<CommitOp>();
    }

    // The loop carries the number of its stage.
    IRRewriter rewriter(loop.getContext());
    rewriter.setInsertionPoint(loop);
    auto next = cast<scf::ForOp>(*loop.replaceWithAdditionalYields(
        rewriter, zero, /*replaceInitOperandUsesInLoop=*/false,
        [&](OpBuilder &yb, Location loc, ArrayRef<BlockArgument> args) {
          TileBuilder y(yb, loc);
          Value up = y.add(args[0], one);
          Value over =
              y.make<arith::CmpIOp>(arith::CmpIPredicate::eq, args[0], last);
          return SmallVector<Value>{y.make<arith::SelectOp>(over, zero, up)};
        }));
    loop = next;
    Value ring = loop.getRegionIterArgs().back();
    b.setInsertionPointToStart(loop.getBody());
    b.make<WaitOp>(count - 2);
    Value down = b.sub(ring, one);
    Value first = b.make<arith::CmpIOp>(arith::CmpIPredicate::eq, ring, zero);
    Value into = b.make<arith::SelectOp>(first, last, down);
    Value distance = count == 2 ? loop.getStep() : b.mul(last, loop.getStep());
    issueIfRuns(b, loop, copies, b.add(loop.getInductionVar(), distance), rings,
                into);
    b.make<CommitOp>();

    for (auto [copy, whole] : llvm::zip_equal(copies, rings)) {
      auto alloc = copy.getBuffer().getDefiningOp<AllocOp>();
      Value stage = b.make<StageOp>(alloc.getResult().getType(), whole, ring);
      replaceViews(b, alloc.getResult(), stage);
      alloc.erase();
    }
    for (CopyAsyncOp copy : copies)
      copy.erase();
    return loop;
  }

  /// Copies that are issued together.
  struct Group {
    Operation *at;
    bool behind;   // of `at`, else before it
    int64_t ahead; // iterations, 0 or 1
    SmallVector<CopyAsyncOp> copies;
  };

  /// Issues `copies`, each to the one buffer it has, where threads wait anyway
  /// after the buffer's last use: for the next iteration, or for this one if
  /// that is at its start.
  scf::ForOp spread(scf::ForOp loop, SmallVector<CopyAsyncOp> &copies) {
    Block *body = loop.getBody();
    llvm::MapVector<Operation *, std::pair<Operation *, Operation *>> uses;
    for (CopyAsyncOp copy : copies) {
      SmallVector<Operation *> accesses = usersOf(copy.getBuffer());
      auto &[first, last] = uses[copy];
      for (Operation *access : accesses) {
        Operation *op = body->findAncestorOpInBlock(*access);
        if (op == copy)
          continue;
        if (!first || op->isBeforeInBlock(first))
          first = op;
        if (!last || last->isBeforeInBlock(op))
          last = op;
      }
      if (!first) // nobody reads it
        first = last = body->getTerminator();
    }
    auto before = [](Operation *a, Operation *b) {
      return a->isBeforeInBlock(b);
    };
    // Where waits stand: before the first use of a buffer.
    llvm::SetVector<Operation *> firsts;
    for (auto &[copy, use] : uses)
      firsts.insert(use.first);
    SmallVector<Operation *> points = firsts.takeVector();
    llvm::sort(points, before);

    SmallVector<Group> groups;
    for (CopyAsyncOp copy : copies) {
      auto [first, last] = uses[copy];
      Group group{points.front(), false, 0, {}};
      auto *next = llvm::find_if(
          points, [&](Operation *point) { return before(last, point); });
      if (next != points.end())
        group = {*next, false, 1, {}};
      else if (first == points.front())
        group = {last, true, 1, {}};
      auto *found = llvm::find_if(groups, [&](const Group &other) {
        return other.at == group.at && other.behind == group.behind;
      });
      if (found == groups.end())
        found = groups.insert(groups.end(), group);
      found->copies.push_back(copy);
    }
    llvm::sort(groups, [&](const Group &a, const Group &b) {
      return a.at == b.at ? a.behind < b.behind : before(a.at, b.at);
    });
    passed(loop, "fa-gpu-pipeline-loads",
           Twine(copies.size()) +
               (copies.size() == 1 ? " copy issued" : " copies issued") +
               " as soon as the buffer is free");

    // The groups that an iteration before the first one would have issued.
    TileBuilder b(OpBuilder(loop), loop.getLoc());
    for (CopyAsyncOp copy : copies)
      if (auto alloc = copy.getBuffer().getDefiningOp<AllocOp>();
          loop->isProperAncestor(alloc))
        alloc->moveBefore(loop);
    for (Group &group : groups) {
      if (group.ahead)
        issueIfRuns(b, loop, group.copies, loop.getLowerBound());
      b.make<CommitOp>();
    }
    for (Operation *point : points) {
      // All groups but those issued since may be under way.
      int64_t passedHere = llvm::count_if(
          groups, [&](Group &group) { return before(group.at, point); });
      int64_t pending = groups.size();
      for (auto [i, group] : llvm::enumerate(groups))
        for (CopyAsyncOp copy : group.copies)
          if (uses[copy].first == point)
            pending = std::min<int64_t>(
                pending, group.ahead ? groups.size() - 1 - i + passedHere
                                     : passedHere - 1 - i);
      b.setInsertionPoint(point);
      b.make<WaitOp>(pending);
    }
    for (Group &group : groups) {
      if (group.behind)
        b.setInsertionPointAfter(group.at);
      else
        b.setInsertionPoint(group.at);
      if (group.ahead)
        issueIfRuns(b, loop, group.copies,
                    b.add(loop.getInductionVar(), loop.getStep()));
      else
        issue(b, loop, group.copies, loop.getInductionVar());
      b.make<CommitOp>();
    }
    for (CopyAsyncOp copy : copies)
      copy.erase();
    return loop;
  }

  /// Issues `copies` of the iteration `iv`, into stage `stage` of `rings` if
  /// these are given.
  static void issue(TileBuilder &b, scf::ForOp loop,
                    ArrayRef<CopyAsyncOp> copies, Value iv,
                    ArrayRef<Value> rings = {}, Value stage = {}) {
    IRMapping map;
    map.map(loop.getInductionVar(), iv);
    for (auto [i, it] : llvm::enumerate(copies)) {
      CopyAsyncOp copy = it;
      llvm::SetVector<Operation *> slice;
      collectSlice(copy.getIndices(), loop, slice);
      collectSlice(copy.getLimits(), loop, slice);
      for (Operation *op : slice)
        if (!map.contains(op->getResult(0)))
          b.clone(*op, map);
      if (stage)
        map.map(copy.getBuffer(),
                b.make<StageOp>(copy.getBuffer().getType(), rings[i], stage));
      b.clone(*copy, map);
    }
  }

  /// The same if there is such an iteration.
  static void issueIfRuns(TileBuilder &b, scf::ForOp loop,
                          ArrayRef<CopyAsyncOp> copies, Value iv,
                          ArrayRef<Value> rings = {}, Value stage = {}) {
    Value runs =
        b.make<arith::CmpIOp>(loop.getUnsignedCmp() ? arith::CmpIPredicate::ult
                                                    : arith::CmpIPredicate::slt,
                              iv, loop.getUpperBound());
    auto branch = b.make<scf::IfOp>(runs, /*withElseRegion=*/false);
    TileBuilder inner(branch.getThenBodyBuilder(), b.loc);
    issue(inner, loop, copies, iv, rings, stage);
  }

  /// Replaces `from` by `to` in views and accesses.
  static void replaceViews(TileBuilder &b, Value from, Value to) {
    for (Operation *user : llvm::make_early_inc_range(from.getUsers())) {
      if (auto flip = dyn_cast<FlipOp>(user)) {
        replaceViews(b, flip.getResult(), b.make<FlipOp>(flip.getType(), to));
        flip.erase();
      } else {
        user->replaceUsesOfWith(from, to);
      }
    }
  }

  /// Erases the commits and waits of `loop`, where all copies that are issued
  /// in it leave: the waits it gets are for what was issued before it too.
  static void dropWaits(scf::ForOp loop) {
    SmallVector<Operation *> ops;
    loop.getBody()->walk([&](Operation *op) {
      if (isa<CommitOp, WaitOp>(op))
        ops.push_back(op);
    });
    for (Operation *op : ops)
      op->erase();
  }
};
} // namespace
