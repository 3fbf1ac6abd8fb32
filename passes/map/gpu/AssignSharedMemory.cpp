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
  /// From the first to the last op that touches it.
  std::pair<int64_t, int64_t> live;
  int64_t offset = 0;
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

  /// The ops that touch `buffer` or a view of it.
  static void collect(Value buffer, SmallVector<Operation *> &accesses) {
    for (Operation *user : buffer.getUsers()) {
      if (isa<StageOp, FlipOp>(user))
        collect(user->getResult(0), accesses);
      else
        accesses.push_back(user);
    }
  }

  /// True if `op` writes all of the buffer before it reads any of it.
  static bool isFilling(Operation *op) {
    Value buffer;
    if (auto store = dyn_cast<StoreSharedOp>(op))
      buffer = store.getBuffer();
    else if (auto copy = dyn_cast<CopyAsyncOp>(op))
      buffer = copy.getBuffer();
    else if (auto claim = dyn_cast<ClaimOp>(op))
      buffer = claim.getScratch();
    AllocOp alloc = buffer ? allocOf(buffer) : AllocOp();
    return alloc && alloc.getResult().getType().getStages() == 1;
  }

  /// The ops between which `alloc` holds something: those of its own block, or
  /// of a block inside that holds all accesses. Of an iteration only if it
  /// starts with filling the buffer: else it may read what one before left.
  static std::pair<int64_t, int64_t> liveRange(AllocOp alloc,
                                               Numbering &numbers) {
    SmallVector<Operation *> accesses;
    collect(alloc.getResult(), accesses);
    Block *block = alloc->getBlock();
    while (true) {
      Operation *first = nullptr, *last = nullptr;
      for (Operation *access : accesses) {
        Operation *op = block->findAncestorOpInBlock(*access);
        if (!first || op->isBeforeInBlock(first))
          first = op;
        if (!last || last->isBeforeInBlock(op))
          last = op;
      }
      std::pair<int64_t, int64_t> range(numbers[first].first,
                                        numbers[last].second);
      if (first != last || !first->getNumRegions())
        return range;
      Block *inner = nullptr;
      for (Region &region : first->getRegions())
        for (Block &b : region)
          if (llvm::all_of(accesses, [&](Operation *op) {
                return b.findAncestorOpInBlock(*op);
              }))
            inner = &b;
      if (!inner)
        return range;
      if (!isa<scf::IfOp>(first)) {
        Operation *start =
            *llvm::min_element(accesses, [&](Operation *a, Operation *b) {
              return numbers[a].first < numbers[b].first;
            });
        if (start->getBlock() != inner || !isFilling(start))
          return range;
      }
      block = inner;
    }
  }

  LogicalResult assign(KernelOp kernel) {
    Numbering numbers;
    number(kernel, numbers, 0);
    SmallVector<AllocOp> allocs;
    kernel.walk([&](AllocOp alloc) { allocs.push_back(alloc); });
    SmallVector<Buffer> buffers;
    int64_t sum = 0;
    for (AllocOp alloc : allocs) {
      SmallVector<Operation *> accesses;
      collect(alloc.getResult(), accesses);
      int64_t bytes = alloc.getResult().getType().getBytes();
      if (accesses.empty()) {
        alloc.setOffset(0);
        continue;
      }
      buffers.push_back(
          {alloc, alloc.getResult(), bytes, liveRange(alloc, numbers)});
      sum += bytes;
    }
    // Large ones first: small ones find room in the gaps.
    llvm::sort(buffers, [](const Buffer &a, const Buffer &b) {
      return std::pair(-a.bytes, a.live) < std::pair(-b.bytes, b.live);
    });

    SharedFlow flow(kernel);
    int64_t total = 0;
    for (auto [i, buffer] : llvm::enumerate(buffers)) {
      // Those it may not lie over.
      SmallVector<const Buffer *> fixed;
      for (const Buffer &other : ArrayRef(buffers).take_front(i)) {
        bool apart = buffer.live.second < other.live.first ||
                     other.live.second < buffer.live.first;
        if (apart) {
          flow.alias(buffer.value, other.value);
          apart = !flow.hasConflict();
        }
        if (!apart)
          fixed.push_back(&other);
      }
      llvm::sort(fixed, [](const Buffer *a, const Buffer *b) {
        return std::pair(a->offset, a->live) < std::pair(b->offset, b->live);
      });
      // Whole rows of banks for what is read in matrices.
      SharedType type = buffer.value.getType();
      int64_t align = type.getRank() == 2 ? 128 : 16;
      for (const Buffer *other : fixed)
        if (buffer.offset + buffer.bytes > other->offset)
          buffer.offset = std::max<int64_t>(
              buffer.offset,
              llvm::alignTo(other->offset + other->bytes, align));
      buffer.alloc.setOffset(buffer.offset);
      total = std::max(total, buffer.offset + buffer.bytes);
    }
    if (limit && total > limit)
      return fail(kernel, buffers, total);
    passed(kernel, "fa-gpu-assign-shared-memory",
           Twine(total) + " bytes for " + Twine(buffers.size()) +
               " buffers of " + Twine(sum) + " bytes in all");
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
