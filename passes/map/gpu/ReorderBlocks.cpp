//===- ReorderBlocks.cpp - fa-gpu-reorder-blocks ----------------------------===//
//
// The accumulator of a product is spread over threads in pieces of two entries.
// A workspace that only the compiler's own kernels see need not lie in rows: its
// tiles may have the order in which threads hold them, where a thread's next
// entries are its own and a warp's accesses touch.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/map/gpu/Gpu.h"
#include "passes/nest/Tiles.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace fathom;
using namespace fathom::gpu;

namespace fathom {
#define GEN_PASS_DEF_GPUREORDERBLOCKSPASS
#include "passes/Passes.h.inc"
} // namespace fathom

namespace {
constexpr StringLiteral kName = "fa-gpu-reorder-blocks";

/// Entries of `type` that one access moves.
int64_t piece(RankedTensorType type) {
  return 16 / llvm::divideCeil(type.getElementTypeBitWidth(), 8);
}

/// The tile of a load, store or sum of a whole block of `buffer`, a workspace
/// of rank 3 or more: its last dims are the block. Else null.
Value tileOfBlock(OpOperand &use) {
  Value tile;
  OperandRange indices(nullptr, 0), limits(nullptr, 0);
  auto match = [&](auto op, Value t) {
    if (&op.getBufferMutable() != &use)
      return;
    tile = t;
    indices = op.getIndices();
    limits = op.getLimits();
  };
  Operation *user = use.getOwner();
  if (auto load = dyn_cast<LoadOp>(user))
    match(load, load.getTile());
  else if (auto store = dyn_cast<StoreOp>(user))
    match(store, store.getTile());
  else if (auto add = dyn_cast<AccumulateOp>(user))
    match(add, add.getTile());
  auto buffer = cast<MemRefType>(use.get().getType());
  if (!tile || tileType(tile).getRank() != 2 || buffer.getRank() < 3 ||
      buffer.getShape().take_back(2) != tileType(tile).getShape())
    return {};
  for (int64_t d = 0; d < 2; ++d)
    if (getConstantIntValue(indices.take_back(2)[d]) != 0 ||
        getConstantIntValue(limits[d]).value_or(0) <
            tileType(tile).getDimSize(d))
      return {};
  return tile;
}

bool isSplat(Value v) {
  Operation *op = v.getDefiningOp();
  return op && op->hasTrait<OpTrait::ConstantLike>();
}

/// A tile all of whose entries are one number.
bool isUniform(Value v) {
  auto broadcast = v.getDefiningOp<BroadcastOp>();
  return isSplat(v) || (broadcast && !isTile(broadcast.getSource()));
}

/// True if what is computed of `v` works in any layout and is stored.
bool isPassedOn(Value v) {
  return llvm::all_of(v.getUsers(), [&](Operation *user) {
    if (isa<StoreOp, AccumulateOp>(user))
      return true;
    return isElementwise(user) && isPassedOn(user->getResult(0)) &&
           llvm::all_of(user->getOperands(), [&](Value o) {
             return o == v || !isTile(o) || isUniform(o);
           });
  });
}

/// Gives what is computed of `v`, as isPassedOn has it, the layout of `v`.
void passLayoutOn(Value v) {
  for (Operation *user : v.getUsers()) {
    if (isa<StoreOp, AccumulateOp>(user))
      continue;
    OpBuilder b(user);
    for (OpOperand &o : user->getOpOperands())
      if (isTile(o.get()))
        o.set(inLayout(b, o.get(), layoutOf(v)));
    Value result = user->getResult(0);
    result.setType(withLayout(tileType(result), layoutOf(v)));
    passLayoutOn(result);
  }
}

/// `layout` for fewer warps: the highest digits of a warp's number become the
/// highest of a register's. Null if they don't part there.
ThreadLayoutAttr forWarps(ThreadLayoutAttr layout, int64_t warps) {
  if (layout.getNumWarps() % warps)
    return {};
  SmallVector<int64_t> registers(layout.getRegisters()), left;
  int64_t before = 1;
  for (ThreadLayoutAttr::Mode m : ThreadLayoutAttr::modes(layout.getWarps())) {
    int64_t kept = std::min(m.size, std::max<int64_t>(warps / before, 1));
    if (m.size % kept)
      return {};
    if (kept > 1)
      llvm::append_range(left, ArrayRef{kept, m.dim, m.stride});
    if (kept < m.size)
      llvm::append_range(registers,
                         ArrayRef{m.size / kept, m.dim, m.stride * kept});
    before *= m.size;
  }
  return ThreadLayoutAttr::get(layout.getContext(), registers,
                               layout.getLanes(), left);
}

struct GpuReorderBlocksPass
    : public fathom::impl::GpuReorderBlocksPassBase<GpuReorderBlocksPass> {
  using GpuReorderBlocksPassBase::GpuReorderBlocksPassBase;

  void runOnOperation() override {
    for (auto func : getOperation().getOps<func::FuncOp>())
      for (auto alloc : func.getOps<memref::AllocOp>())
        if (std::string why; !reorder(alloc, why) && !why.empty())
          missed(alloc, kName, why);
  }

  /// False with `why` empty: not a workspace of tiles at all.
  bool reorder(memref::AllocOp alloc, std::string &why) {
    SmallVector<std::pair<Operation *, Value>> accesses; // and their tiles
    for (OpOperand &use : alloc->getUses()) {
      auto launch = dyn_cast<LaunchOp>(use.getOwner());
      auto kernel =
          launch ? getOperation().lookupSymbol<KernelOp>(launch.getKernel())
                 : KernelOp();
      if (!kernel)
        return false;
      auto uses = SymbolTable::getSymbolUses(kernel, getOperation());
      if (!uses || !llvm::hasSingleElement(*uses))
        return why = "a kernel is launched several times", false;
      Value buffer = kernel.getBody().getArgument(
          use.getOperandNumber() -
          launch.getOperands_().getBeginOperandIndex());
      for (OpOperand &inner : buffer.getUses()) {
        Value tile = tileOfBlock(inner);
        if (!tile)
          return false;
        accesses.push_back({inner.getOwner(), tile});
      }
    }
    // The order of the one layout in which tiles come.
    ThreadLayoutAttr from;
    for (auto [op, tile] : accesses) {
      if (isa<LoadOp>(op) || (isa<StoreOp>(op) && isSplat(tile)))
        continue;
      if (from && from != layoutOf(tile))
        return why = "tiles come in several layouts", false;
      from = layoutOf(tile);
    }
    if (!from)
      return false;
    RankedTensorType type = tileType(accesses.front().second);
    auto linesOf = [&](int64_t warps) {
      return ThreadLayoutAttr::getRows(&getContext(), type.getDimSize(0),
                                       type.getDimSize(1), piece(type), warps);
    };
    ThreadLayoutAttr to = linesOf(from.getNumWarps());
    if (from.getVectorSize(1) >= piece(type))
      return why = "threads hold pieces of 16 bytes", false;
    if (type.getDimSize(1) % piece(type) || from.isReplicated() ||
        to.isReplicated() || to.getNumRegisters() % piece(type))
      return why = "threads hold less than 16 bytes of it, or the same", false;
    for (auto [op, tile] : accesses) {
      if (!isa<LoadOp>(op))
        continue;
      int64_t warps = layoutOf(tile).getNumWarps();
      if (!isPassedOn(tile) || !forWarps(from, warps) || !forWarps(to, warps))
        return why = "a kernel that reads it needs its rows", false;
    }

    for (auto [op, tile] : accesses) {
      OpBuilder b(op);
      auto relabel = [&](Value v, ThreadLayoutAttr layout) -> Value {
        return RelabelOp::create(b, op->getLoc(),
                                 withLayout(tileType(v), layout), v);
      };
      if (auto load = dyn_cast<LoadOp>(op)) {
        int64_t warps = layoutOf(tile).getNumWarps();
        b.setInsertionPointAfter(op);
        tile.setType(withLayout(type, forWarps(to, warps)));
        Value v = relabel(tile, forWarps(from, warps));
        tile.replaceAllUsesExcept(v, v.getDefiningOp());
        passLayoutOn(v);
        continue;
      }
      Value now = isSplat(tile)
                      ? inLayout(b, tile, linesOf(layoutOf(tile).getNumWarps()))
                      : relabel(tile, to);
      if (auto store = dyn_cast<StoreOp>(op))
        store.getTileMutable().set(now);
      else
        cast<AccumulateOp>(op).getTileMutable().set(now);
    }
    passed(alloc, kName, "its tiles lie in the order of a thread's registers");
    return true;
  }
};
} // namespace
