//===- AssignSharedMemory.cpp - fa-gpu-assign-shared-memory -----------------===//
//
// Gives every buffer its place in the CTA's shared memory. Buffers lie over
// each other if none is needed while the other is in use and the barriers that
// are there keep their accesses apart.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/map/gpu/SharedAccess.h"
#include "passes/nest/Tiles.h"

using namespace mlir;
using namespace fathom;
using namespace fathom::gpu;

namespace fathom {
#define GEN_PASS_DEF_GPUASSIGNSHAREDMEMORYPASS
#include "passes/Passes.h.inc"
} // namespace fathom

namespace {
/// Ops of a kernel in program order; an op with regions spans what is in it.
using Numbering = DenseMap<Operation *, std::pair<int64_t, int64_t>>;

/// A buffer and where it lies.
struct Buffer {
  AllocOp alloc;
  TypedValue<SharedType> value;
  int64_t bytes;
  /// From the first to the last op that touches it, for each way of a branch
  /// that all of these are in; and the first ones.
  SmallVector<std::pair<int64_t, int64_t>, 1> live;
  SmallVector<Operation *, 1> starts;
  int64_t offset = 0;
};

/// Places for all buffers of a kernel.
struct Placement {
  SmallVector<Buffer> buffers; // large ones first
  int64_t total = 0;
  /// Starts of buffers that could lie over others if there was a barrier.
  llvm::MapVector<Operation *, SmallVector<Operation *, 1>> lacking;
};

struct GpuAssignSharedMemoryPass
    : public fathom::impl::GpuAssignSharedMemoryPassBase<
          GpuAssignSharedMemoryPass> {
  using GpuAssignSharedMemoryPassBase::GpuAssignSharedMemoryPassBase;

  void runOnOperation() override {
    WalkResult result = getOperation()->walk([&](KernelOp kernel) {
      return failed(assign(kernel)) ? WalkResult::interrupt()
                                    : WalkResult::advance();
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }

  static int64_t number(Operation *op, Numbering &numbers, int64_t next) {
    int64_t first = next++;
    for (Region &region : op->getRegions())
      for (Operation &inner : region.getOps())
        next = number(&inner, numbers, next);
    numbers[op] = {first, next - 1};
    return next;
  }

  /// True if `op` writes all of the buffer before it reads any of it.
  static bool isFilling(Operation *op) {
    Value buffer;
    if (auto store = dyn_cast<StoreSharedOp>(op))
      buffer = store.getBuffer();
    else if (auto copy = dyn_cast<CopyAsyncOp>(op))
      buffer = copy.getBuffer();
    else if (auto copy = dyn_cast<CopyBoxOp>(op))
      buffer = copy.getBuffer();
    else if (auto claim = dyn_cast<ClaimOp>(op))
      buffer = claim.getScratch();
    AllocOp alloc = buffer ? allocOf(buffer) : AllocOp();
    return alloc && alloc.getResult().getType().getStages() == 1;
  }

  /// The ops between which `alloc` holds something: those of its own block, or
  /// of a block inside that holds all accesses. Of an iteration only if it
  /// starts with filling the buffer: else it may read what one before left.
  static Buffer liveRange(AllocOp alloc, SmallVector<Operation *> &accesses,
                          Numbering &numbers) {
    llvm::sort(accesses, [&](Operation *a, Operation *b) {
      return numbers[a].first < numbers[b].first;
    });
    bool fills = isFilling(accesses.front());
    // The range in the innermost block, and in that around the first loop.
    Buffer range{alloc,
                 alloc.getResult(),
                 alloc.getResult().getType().getBytes(),
                 {{}},
                 {}};
    Buffer aroundLoops = range;
    bool inLoop = false;
    for (Block *block = alloc->getBlock(); block;) {
      Operation *first = block->findAncestorOpInBlock(*accesses.front());
      Operation *last = block->findAncestorOpInBlock(*accesses.back());
      range.live = {{numbers[first].first, numbers[last].second}};
      range.starts = {first};
      if (!inLoop)
        aroundLoops = range;
      if (first == accesses.front() && fills)
        return range;
      if (first != last)
        break;
      if (auto branch = dyn_cast<scf::IfOp>(first);
          branch && branch.elseBlock())
        if (auto ways = liveInWays(alloc, branch, accesses, numbers))
          return *ways;
      inLoop |= !isa<scf::IfOp, RolesOp>(first);
      block = nullptr;
      for (Region &region : first->getRegions())
        for (Block &inner : region)
          if (llvm::all_of(accesses, [&](Operation *op) {
                return inner.findAncestorOpInBlock(*op);
              }))
            block = &inner;
    }
    return aroundLoops;
  }

  /// The same if both ways of `branch` have some of `accesses`, and nothing else
  /// has.
  static std::optional<Buffer> liveInWays(AllocOp alloc, scf::IfOp branch,
                                          ArrayRef<Operation *> accesses,
                                          Numbering &numbers) {
    SmallVector<Operation *> inThen, inElse;
    for (Operation *op : accesses)
      (branch.thenBlock()->findAncestorOpInBlock(*op) ? inThen : inElse)
          .push_back(op);
    if (inThen.empty() || inElse.empty())
      return {};
    Buffer both = liveRange(alloc, inThen, numbers);
    Buffer other = liveRange(alloc, inElse, numbers);
    both.live.append(other.live);
    both.starts.append(other.starts);
    return both;
  }

  /// True if `a` and `b` hold something at the same time.
  static bool meet(const Buffer &a, const Buffer &b) {
    for (auto [aFirst, aLast] : a.live)
      for (auto [bFirst, bLast] : b.live)
        if (aFirst <= bLast && bFirst <= aLast)
          return true;
    return false;
  }

  /// True if the copy engine fills `buffer` at a place where threads may have
  /// stored to `other` before: it does not know of that.
  static bool meetsStores(const Buffer &buffer, const Buffer &other) {
    auto filledBy = [](const Buffer &b, auto is) {
      return llvm::any_of(usersOf(b.value), is);
    };
    if (!filledBy(buffer, llvm::IsaPred<CopyBoxOp>) ||
        !filledBy(other, llvm::IsaPred<StoreSharedOp, CopyAsyncOp, ClaimOp>))
      return false;
    return other.live.front() < buffer.live.front() ||
           other.starts.front()->getParentOfType<LoopLikeOpInterface>();
  }

  static Placement place(KernelOp kernel) {
    Placement result;
    Numbering numbers;
    number(kernel, numbers, 0);
    kernel.walk([&](AllocOp alloc) {
      SmallVector<Operation *> accesses = usersOf(alloc.getResult());
      if (!accesses.empty())
        result.buffers.push_back(liveRange(alloc, accesses, numbers));
    });
    // Small ones find room in the gaps between large ones.
    llvm::sort(result.buffers, [](const Buffer &a, const Buffer &b) {
      return std::pair(-a.bytes, a.live) < std::pair(-b.bytes, b.live);
    });

    SharedFlow flow(kernel);
    for (auto [i, buffer] : llvm::enumerate(result.buffers)) {
      // Those it may not lie over.
      SmallVector<const Buffer *> fixed;
      for (const Buffer &other : ArrayRef(result.buffers).take_front(i)) {
        bool before = buffer.live.front() < other.live.front();
        bool apart = !meet(buffer, other);
        apart &= !meetsStores(buffer, other) && !meetsStores(other, buffer);
        if (apart) {
          flow.alias(buffer.value, other.value);
          apart = !flow.hasConflict();
          const auto &starts = before ? other.starts : buffer.starts;
          if (!apart)
            result.lacking.insert({starts.front(), starts});
        }
        if (!apart)
          fixed.push_back(&other);
      }
      llvm::sort(fixed, [](const Buffer *a, const Buffer *b) {
        return std::pair(a->offset, a->live) < std::pair(b->offset, b->live);
      });
      // Whole rows of banks for what is read in matrices.
      SharedType type = buffer.value.getType();
      int64_t align = std::max<int64_t>(type.getAlignment(),
                                        type.getRank() == 2 ? 128 : 16);
      for (const Buffer *other : fixed)
        if (buffer.offset + buffer.bytes > other->offset)
          buffer.offset = std::max<int64_t>(
              buffer.offset,
              llvm::alignTo(other->offset + other->bytes, align));
      result.total = std::max(result.total, buffer.offset + buffer.bytes);
    }
    return result;
  }

  /// True if `op` runs in an innermost loop.
  static bool isInnermost(Operation *op) {
    auto loop = op->getParentOfType<LoopLikeOpInterface>();
    return loop && !loop->walk([&](LoopLikeOpInterface inner) {
                          return inner == loop ? WalkResult::advance()
                                               : WalkResult::interrupt();
                        })
                        .wasInterrupted();
  }

  LogicalResult assign(KernelOp kernel) {
    Placement best = place(kernel);
    // A barrier that runs seldom is worth bytes.
    int64_t added = 0;
    for (auto &[first, starts] : best.lacking.takeVector()) {
      if (llvm::any_of(starts, isInnermost))
        continue;
      SmallVector<BarrierOp> barriers;
      for (Operation *start : starts) {
        OpBuilder b(start);
        barriers.push_back(BarrierOp::create(b, start->getLoc()));
      }
      Placement other = place(kernel);
      if (other.total < best.total) {
        best = std::move(other);
        added += barriers.size();
      } else {
        llvm::for_each(barriers, [](BarrierOp barrier) { barrier.erase(); });
      }
    }
    kernel.walk([](AllocOp alloc) { alloc.setOffset(0); });
    int64_t sum = 0;
    for (Buffer &buffer : best.buffers) {
      buffer.alloc.setOffset(buffer.offset);
      sum += buffer.bytes;
    }
    int64_t barriers = best.total;
    kernel.walk([&](MbarriersOp make) {
      barriers = llvm::alignTo(barriers, 8);
      make.setOffset(barriers);
      barriers += make.getResult().getType().getBytes();
    });
    best.total = barriers;
    if (limit && best.total > limit)
      return fail(kernel, best.buffers, best.total);
    if (best.total)
      passed(kernel, "fa-gpu-assign-shared-memory",
             Twine(best.total) + " bytes for " + Twine(best.buffers.size()) +
                 " buffers of " + Twine(sum) + " bytes in all, " +
                 Twine(added) + " barriers for it");
    return success();
  }

  LogicalResult fail(KernelOp kernel, ArrayRef<Buffer> buffers, int64_t total) {
    std::string largest;
    llvm::raw_string_ostream os(largest);
    llvm::interleaveComma(buffers.take_front(3), os, [&](const Buffer &buffer) {
      SharedType type = buffer.value.getType();
      for (int64_t n : type.getShape())
        os << n << "x";
      os << type.getElementType();
      if (type.getStages() > 1)
        os << " in " << type.getStages() << " stages";
      os << " (" << buffer.bytes << " bytes)";
    });
    return emitError(kernel.getLoc(), "expected kernel '")
           << kernel.getSymName() << "' to need at most " << int64_t(limit)
           << " bytes of shared memory, got " << total
           << "; its largest buffers are " << largest
           << "; take a smaller block_m or block_n, or fewer stages";
  }
};
} // namespace
