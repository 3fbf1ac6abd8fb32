//===- OrderProducts.cpp - fa-gpu-order-products ----------------------------===//
//
// Products keep the tensor cores busy while other work waits its turn, and each
// tile that warps exchange costs a barrier. In the body of a loop, products that
// wait for nothing of this round go to the front, beside the first; those that
// read tiles stored in this round go to the back, side by side, behind one
// barrier. Lines that their results meet are read ahead of them, not when all
// wait for them.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/map/gpu/Gpu.h"
#include "passes/nest/Tiles.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace fathom {
#define GEN_PASS_DEF_GPUORDERPRODUCTSPASS
#include "passes/Passes.h.inc"
} // namespace fathom

using namespace mlir;
using namespace fathom;
using namespace fathom::gpu;

namespace {
constexpr StringLiteral kName = "fa-gpu-order-products";

/// The buffers that `mma` reads.
SmallVector<Value> buffersOf(MmaOp mma) {
  SmallVector<Value> buffers;
  for (Value v : {mma.getA(), Value(mma.getB())})
    if (isa<SharedType>(v.getType()))
      buffers.push_back(stripViews(v));
  return buffers;
}

/// True if `op` may change one of `buffers`.
bool disturbs(Operation *op, ArrayRef<Value> buffers) {
  auto effects = getEffectsRecursively(op);
  if (!effects)
    return true;
  for (const MemoryEffects::EffectInstance &e : *effects) {
    if (!isa<MemoryEffects::Write>(e.getEffect()))
      continue;
    if (!e.getValue() || llvm::is_contained(buffers, stripViews(e.getValue())))
      return true;
  }
  return false;
}

/// True if `op` brings a factor of `mma` from memory.
bool brings(Operation *op, MmaOp mma) {
  Value buffer;
  if (auto copy = dyn_cast<CopyAsyncOp>(op))
    buffer = copy.getBuffer();
  if (auto store = dyn_cast<StoreSharedOp>(op);
      store && store.getTile().getDefiningOp<fathom::LoadOp>())
    buffer = store.getBuffer();
  return buffer && llvm::is_contained(buffersOf(mma), stripViews(buffer));
}

struct GpuOrderProducts
    : public fathom::impl::GpuOrderProductsPassBase<GpuOrderProducts> {
  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<KernelOp>())
      kernel.walk([&](scf::ForOp loop) { order(loop); });
  }

  void order(scf::ForOp loop) {
    auto products = llvm::to_vector(loop.getOps<MmaOp>());
    if (products.size() < 2)
      return;
    // What is stored in a round, by tiles.
    llvm::DenseSet<Value> stored;
    for (auto store : loop.getOps<StoreSharedOp>())
      stored.insert(stripViews(store.getBuffer()));
    auto isLate = [&](MmaOp mma) {
      return llvm::any_of(buffersOf(mma),
                          [&](Value v) { return stored.contains(v); });
    };
    int moved = 0;
    MmaOp previous;
    for (MmaOp mma : products) {
      if (isLate(mma))
        continue;
      if (previous)
        moved += advance(mma, previous);
      previous = mma;
    }
    MmaOp next;
    for (MmaOp mma : llvm::reverse(products)) {
      if (!isLate(mma))
        continue;
      if (next)
        moved += delay(mma, next);
      next = mma;
    }
    // Sums that go to memory leave first, and are under way while the others
    // are computed.
    for (MmaOp mma : products)
      if (next && mma != next && isLate(mma))
        moved += sendFirst(mma, next);
    int lines = 0;
    for (auto load : llvm::make_early_inc_range(loop.getOps<LoadSharedOp>()))
      if (tileType(load.getTile()).getRank() == 1)
        lines += readAhead(load, products.front());
    if (moved || lines)
      passed(loop, kName,
             Twine(moved) + " products moved, " + Twine(lines) +
                 " lines read ahead");
    else
      missed(loop, kName, "the products stand as they must");
  }

  /// Moves `mma` right behind `to`, with the pure ops it needs.
  static bool advance(MmaOp mma, MmaOp to) {
    if (to->getNextNode() == mma.getOperation())
      return false;
    SmallVector<Operation *> slice;
    if (!collectBehind(mma, to, slice))
      return false;
    for (Operation *op = to->getNextNode(); op != mma.getOperation();
         op = op->getNextNode())
      if (!llvm::is_contained(slice, op) && disturbs(op, buffersOf(mma)))
        return false;
    Operation *at = to;
    for (Operation *op : slice) {
      op->moveAfter(at);
      at = op;
    }
    return true;
  }

  /// Moves `mma`, whose result is only added to memory, and that addition before
  /// `to`.
  static bool sendFirst(MmaOp mma, MmaOp to) {
    if (!mma->hasOneUse())
      return false;
    auto add = dyn_cast<AccumulateOp>(*mma->user_begin());
    SmallVector<Operation *> slice;
    if (!add || add->getBlock() != to->getBlock() ||
        add.getMode() != AccumulateMode::atomic ||
        !collectBehind(mma, to, slice))
      return false;
    for (Value v : add->getOperands())
      if (Operation *def = v.getDefiningOp();
          def && def != mma && def->getBlock() == to->getBlock() &&
          to->isBeforeInBlock(def) && !llvm::is_contained(slice, def) &&
          (!isPure(def) || !collectBehind(def, to, slice)))
        return false;
    slice.push_back(add);
    for (Operation *op = to; op != add.getOperation(); op = op->getNextNode()) {
      if (llvm::is_contained(slice, op))
        continue;
      if (!independent(accessOf(op), accessOf(add)) ||
          (op->isBeforeInBlock(mma) && disturbs(op, buffersOf(mma))))
        return false;
    }
    for (Operation *op : slice)
      op->moveBefore(to);
    return true;
  }

  /// Moves `load` before `to`, with the pure ops it needs.
  static bool readAhead(LoadSharedOp load, MmaOp to) {
    SmallVector<Operation *> slice;
    if (load->isBeforeInBlock(to) || !collectBehind(load, to, slice))
      return false;
    for (Operation *op = to->getNextNode(); op != load.getOperation();
         op = op->getNextNode())
      if (!llvm::is_contained(slice, op) &&
          disturbs(op, stripViews(load.getBuffer())))
        return false;
    for (Operation *op : slice)
      op->moveBefore(to);
    return true;
  }

  /// Moves `mma` right before `to`.
  static bool delay(MmaOp mma, MmaOp to) {
    if (mma->getNextNode() == to.getOperation())
      return false;
    // Relabels of the product go along; any other need of it before `to`, also
    // inside of an op, keeps it where it is.
    SmallVector<Operation *> moved = {mma};
    for (unsigned i = 0; i < moved.size(); ++i)
      for (Operation *user : moved[i]->getUsers()) {
        Operation *at = mma->getBlock()->findAncestorOpInBlock(*user);
        if (!at || !at->isBeforeInBlock(to))
          continue;
        if (at != user || !isa<TransposeOp>(user))
          return false;
        moved.push_back(user);
      }
    for (Operation *op = mma->getNextNode(); op != to.getOperation();
         op = op->getNextNode())
      // A factor that comes only now may take the place of one of `mma`'s.
      if (!llvm::is_contained(moved, op) &&
          (disturbs(op, buffersOf(mma)) || brings(op, to)))
        return false;
    for (Operation *op : moved)
      op->moveBefore(to);
    return true;
  }
};

} // namespace
