//===- OverlapProducts.cpp - fa-gpu-overlap-products ------------------------===//
//
// A product of four warps runs in the background; what the program does between
// its start and the wait for it costs nothing extra. Starts go up, waits go
// down.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/map/gpu/Gpu.h"
#include "passes/nest/Tiles.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace fathom;
using namespace fathom::gpu;

namespace fathom {
#define GEN_PASS_DEF_GPUOVERLAPPRODUCTSPASS
#include "passes/Passes.h.inc"
} // namespace fathom

namespace {
constexpr StringLiteral kName = "fa-gpu-overlap-products";

/// Of the 255 registers of a thread, those that tiles may take.
constexpr int64_t kRegisters = 208;

/// True if `op` may write what `product` reads, or tells others that they may.
bool disturbs(Operation *op, WgmmaOp product) {
  if (isa<WgmmaOp, WgmmaWaitOp, FenceAsyncOp, WaitPhaseOp>(op))
    return false;
  auto effects = getEffectsRecursively(op);
  if (!effects)
    return true;
  SmallVector<Value> buffers;
  for (Value v : {product.getA(), Value(product.getB())})
    if (isa<SharedType>(v.getType()))
      buffers.push_back(stripViews(v));
  return llvm::any_of(*effects, [&](const MemoryEffects::EffectInstance &e) {
    return isa<MemoryEffects::Write>(e.getEffect()) &&
           (!e.getValue() ||
            llvm::is_contained(buffers, stripViews(e.getValue())));
  });
}

/// Products in `op`, not counting itself.
bool holdsProducts(Operation *op) {
  return op->getNumRegions() && op->walk([&](WgmmaOp) {
                                    return WalkResult::interrupt();
                                  }).wasInterrupted();
}

/// Registers of a thread that the tiles of a block need at once, about: floats
/// of rank 2 from where they are made to their last use; a factor in registers
/// until the product that takes it is waited for.
int64_t registersNeeded(Block &block) {
  DenseMap<Operation *, int64_t> at;
  for (auto [i, op] : llvm::enumerate(block))
    at[&op] = i + 1;
  auto rootOf = [](Value v) {
    while (auto transpose = v.getDefiningOp<TransposeOp>())
      v = transpose.getTile();
    return v;
  };
  llvm::MapVector<Value, std::pair<int64_t, int64_t>> ranges; // made, last use
  auto add = [&](Value v, int64_t place) {
    auto type = dyn_cast<RankedTensorType>(v.getType());
    Operation *def = v.getDefiningOp();
    if (type && type.getRank() == 2 && isa<FloatType>(type.getElementType()) &&
        !(def && (def->hasTrait<OpTrait::ConstantLike>() ||
                  isa<BroadcastOp, TransposeOp>(def))))
      ranges[v] = {place, place};
  };
  for (Value arg : block.getArguments())
    add(arg, 0);
  for (Operation &op : block)
    for (Value v : op.getResults())
      add(v, at[&op]);
  for (Operation &op : block) {
    int64_t last = at[&op];
    op.walk([&](Operation *inner) {
      for (Value v : inner->getOperands())
        if (auto *range = ranges.find(rootOf(v)); range != ranges.end())
          range->second.second = std::max(range->second.second, last);
    });
    if (auto product = dyn_cast<WgmmaOp>(op); product && isTile(product.getA()))
      if (auto *range = ranges.find(rootOf(product.getA()));
          range != ranges.end())
        for (Operation *user : product.getResult().getUsers())
          if (Operation *end = block.findAncestorOpInBlock(*user))
            range->second.second = std::max(range->second.second, at[end]);
  }
  SmallVector<int64_t> change(at.size() + 2, 0);
  for (auto &[v, range] : ranges) {
    int64_t bits = tileType(v).getElementTypeBitWidth(),
            n = llvm::divideCeil(layoutOf(v).getNumRegisters() * bits, 32);
    change[range.first] += n;
    change[range.second] -= n;
  }
  int64_t sum = 0, most = 0;
  for (int64_t c : change)
    most = std::max(most, sum += c);
  return most;
}

/// Starts `product` right behind one before it, `to`, if what it needs is there.
bool advance(WgmmaOp product, WgmmaOp to) {
  SmallVector<Operation *> slice;
  // Waits until buffers are filled go along.
  for (Operation *op = to->getNextNode(); op != product.getOperation();
       op = op->getNextNode())
    if (isa<WaitPhaseOp>(op) && !collectBehind(op, to, slice))
      return false;
  if (!collectBehind(product, to, slice))
    return false;
  for (Operation *op = to->getNextNode(); op != product.getOperation();
       op = op->getNextNode())
    if (!llvm::is_contained(slice, op) &&
        (disturbs(op, product) || holdsProducts(op)))
      return false;
  // Where the ops stood, to put them back.
  SmallVector<Operation *> next;
  for (Operation *op : slice)
    next.push_back(op->getNextNode());
  Operation *at = to;
  for (Operation *op : slice) {
    op->moveAfter(at);
    at = op;
  }
  if (registersNeeded(*to->getBlock()) <= kRegisters)
    return true;
  for (auto [op, before] : llvm::reverse(llvm::zip_equal(slice, next)))
    op->moveBefore(before);
  return false;
}

/// True if `op` waits for one that started after `product`, and so for both.
bool covers(Operation *op, WgmmaOp product) {
  auto wait = dyn_cast<WgmmaWaitOp>(op);
  return wait && llvm::any_of(wait.getTiles(), [&](Value v) {
           auto other = v.getDefiningOp<WgmmaOp>();
           return other && other->getBlock() == product->getBlock() &&
                  product->isBeforeInBlock(other);
         });
}

/// Moves `wait` behind what does not need it, as far as there are registers for
/// what then lives. True if that is something.
bool delay(WgmmaWaitOp wait, WgmmaOp product) {
  Block *block = wait->getBlock();
  Operation *best = wait->getNextNode(), *to = best;
  // Relabels of the sum go along.
  SmallVector<Operation *> moved = {wait};
  bool any = false;
  auto move = [&](Operation *before) {
    for (Operation *op : moved)
      op->moveBefore(before);
  };
  while (!to->hasTrait<OpTrait::IsTerminator>()) {
    bool needs = false;
    to->walk([&](Operation *inner) {
      for (Value v : inner->getOperands())
        needs |= llvm::is_contained(moved, v.getDefiningOp());
    });
    if (needs && isa<TransposeOp>(to)) {
      moved.push_back(to);
      best = to = to->getNextNode();
      continue;
    }
    if (needs || holdsProducts(to) || disturbs(to, product) ||
        covers(to, product))
      break;
    to = to->getNextNode();
    move(to);
    if (registersNeeded(*block) <= kRegisters) {
      best = to;
      any = true;
    }
  }
  move(best);
  int64_t later = 0;
  for (Operation *op = product->getNextNode(); op != wait.getOperation();
       op = op->getNextNode())
    later += isa<WgmmaOp>(op);
  wait.setPending(later);
  return any || later;
}

struct GpuOverlapProductsPass
    : public fathom::impl::GpuOverlapProductsPassBase<GpuOverlapProductsPass> {
  using GpuOverlapProductsPassBase::GpuOverlapProductsPassBase;

  void runOnOperation() override {
    getOperation()->walk([](KernelOp kernel) {
      kernel.walk([](Block *block) { overlap(*block); });
    });
  }

  static void overlap(Block &block) {
    auto products = llvm::to_vector(block.getOps<WgmmaOp>());
    int64_t moved = 0;
    for (size_t i = 1; i < products.size(); ++i)
      for (size_t j = 0; j < i; ++j)
        if (advance(products[i], products[j])) {
          moved += j + 1 < i;
          std::rotate(products.begin() + j + 1, products.begin() + i,
                      products.begin() + i + 1);
          break;
        }
    for (WgmmaOp product : llvm::reverse(products)) {
      if (!product.getResult().hasOneUse())
        continue;
      auto wait =
          dyn_cast<WgmmaWaitOp>(*product.getResult().getUsers().begin());
      if (wait && wait->getBlock() == &block && wait.getTiles().size() == 1)
        moved += delay(wait, product);
    }
    if (moved)
      passed(block.getParentOp(), kName,
             Twine(moved) + " starts and waits moved");
  }
};
} // namespace
