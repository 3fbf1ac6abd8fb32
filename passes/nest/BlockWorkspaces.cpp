//===- BlockWorkspaces.cpp - fa-block-workspaces ----------------------------===//
//
// A workspace has as many rows as its tiles need, so none of them crosses its
// end; but what an access says is a row and a limit. Where every access is of a
// whole tile, the workspace becomes an array of tiles, one after the other in
// memory: no limit is left to test, and tiles are contiguous.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/nest/Tiles.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fathom;

namespace fathom {
#define GEN_PASS_DEF_BLOCKWORKSPACESPASS
#include "passes/Passes.h.inc"
} // namespace fathom

namespace {
constexpr StringLiteral kName = "fa-block-workspaces";

/// A load, store or sum of a tile, with what it has in common with the others.
struct TileAccess {
  Operation *op;
  RankedTensorType tile;
  OperandRange indices, limits;
};

std::optional<TileAccess> matchAccess(OpOperand &use) {
  auto of = [&](auto op, Value tile) -> std::optional<TileAccess> {
    if (&op.getBufferMutable() != &use)
      return std::nullopt;
    return TileAccess{op, cast<RankedTensorType>(tile.getType()),
                      op.getIndices(), op.getLimits()};
  };
  Operation *user = use.getOwner();
  if (auto load = dyn_cast<LoadOp>(user))
    return of(load, load.getTile());
  if (auto store = dyn_cast<StoreOp>(user))
    return of(store, store.getTile());
  if (auto add = dyn_cast<AccumulateOp>(user))
    return of(add, add.getTile());
  return std::nullopt;
}

/// n / size, rounded up, if `v` is that times `size`; else null.
arith::DivUIOp matchBlocks(Value v, int64_t size) {
  auto mul = v.getDefiningOp<arith::MulIOp>();
  auto div =
      mul ? mul.getLhs().getDefiningOp<arith::DivUIOp>() : arith::DivUIOp();
  auto add =
      div ? div.getLhs().getDefiningOp<arith::AddIOp>() : arith::AddIOp();
  bool is = add && getConstantIntValue(mul.getRhs()) == size &&
            getConstantIntValue(div.getRhs()) == size &&
            getConstantIntValue(add.getRhs()) == size - 1;
  return is ? div : arith::DivUIOp();
}

/// True if `v` is `end` or the smaller of it and something.
bool isAtMost(Value v, Value end) {
  auto [a, b] = matchBinary<arith::MinSIOp>(v);
  return sameValue(v, {}, end, {}) ||
         (a && (isAtMost(a, end) || isAtMost(b, end)));
}

/// True if `v` takes multiples of `size` below `end` only.
bool countsBlocks(Value v, int64_t size, Value end) {
  auto arg = dyn_cast<BlockArgument>(v);
  Operation *parent = arg ? arg.getOwner()->getParentOp() : nullptr;
  if (auto nest = dyn_cast_or_null<NestOp>(parent))
    return isMultiple(v, size) &&
           isAtMost(nest.getBounds()[arg.getArgNumber()], end);
  auto loop = dyn_cast_or_null<scf::ForOp>(parent);
  if (!loop || loop.getInductionVar() != v ||
      !isAtMost(loop.getUpperBound(), end))
    return false;
  // A loop that would start where it ends has no rounds.
  Value start = loop.getLowerBound();
  auto isEnd = [&](Value x) {
    return sameValue(x, {}, end, {}) || x == loop.getUpperBound();
  };
  if (auto [a, b] = matchBinary<arith::MinSIOp>(start);
      a && (isEnd(a) || isEnd(b)))
    start = isEnd(a) ? b : a;
  return isMultiple(start, size) && isMultiple(loop.getStep(), size);
}

struct BlockWorkspacesPass
    : public fathom::impl::BlockWorkspacesPassBase<BlockWorkspacesPass> {
  using BlockWorkspacesPassBase::BlockWorkspacesPassBase;

  void runOnOperation() override {
    for (auto func : getOperation().getOps<func::FuncOp>())
      for (auto alloc :
           llvm::make_early_inc_range(func.getOps<memref::AllocOp>()))
        if (std::string why; !block(alloc, why))
          missed(alloc, kName, why);
  }

  static bool block(memref::AllocOp alloc, std::string &why) {
    MemRefType type = alloc.getType();
    SmallVector<TileAccess> accesses;
    for (OpOperand &use : alloc->getUses()) {
      auto access = matchAccess(use);
      if (!access || (accesses.size() && accesses.front().tile.getShape() !=
                                             access->tile.getShape()))
        return why = "not all that touch it are accesses of like tiles", false;
      accesses.push_back(*access);
    }
    if (accesses.empty())
      return why = "nothing touches it", false;
    ArrayRef<int64_t> shape = accesses.front().tile.getShape();
    int64_t rows = shape[0], dim = type.getRank() - int64_t(shape.size());
    // Which of the sizes it states is the number of rows.
    int64_t number =
        llvm::count_if(type.getShape().take_front(dim), ShapedType::isDynamic);
    auto blocks = type.isDynamicDim(dim)
                      ? matchBlocks(alloc.getDynamicSizes()[number], rows)
                      : arith::DivUIOp();
    if (!blocks || type.getShape().drop_front(dim + 1) != shape.drop_front())
      return why = "its size is not stated in whole tiles", false;
    Value size = alloc.getDynamicSizes()[number];
    Value end = blocks.getLhs().getDefiningOp()->getOperand(0);
    for (TileAccess &a : accesses) {
      bool columns = shape.size() == 1 ||
                     (getConstantIntValue(a.indices.back()) == 0 &&
                      getConstantIntValue(a.limits.back()) == shape.back());
      if (!columns || !sameValue(a.limits.front(), {}, size, {}) ||
          !countsBlocks(a.indices[dim], rows, end))
        return why = "an access is not known to be of a whole tile", false;
    }

    SmallVector<int64_t> blocked(type.getShape().take_front(dim + 1));
    llvm::append_range(blocked, shape);
    SmallVector<Value> sizes(alloc.getDynamicSizes());
    sizes[number] = blocks;
    TileBuilder b(OpBuilder(alloc), alloc.getLoc());
    Value array = b.make<memref::AllocOp>(
        MemRefType::get(blocked, type.getElementType()), sizes);
    for (TileAccess &a : accesses) {
      TileBuilder at(OpBuilder(a.op), a.op->getLoc());
      SmallVector<Value> indices(a.indices.take_front(dim)), limits;
      indices.push_back(
          at.make<arith::DivUIOp>(a.indices[dim], at.index(rows)));
      for (int64_t n : shape) {
        indices.push_back(at.index(0));
        limits.push_back(at.index(n));
      }
      TypeSwitch<Operation *>(a.op).Case<LoadOp, StoreOp, AccumulateOp>(
          [&](auto op) {
            op.getBufferMutable().set(array);
            op.getIndicesMutable().assign(indices);
            op.getLimitsMutable().assign(limits);
          });
    }
    std::string text;
    llvm::raw_string_ostream os(text);
    llvm::interleave(shape, os, "x");
    passed(alloc, kName, "an array of tiles of " + text);
    alloc.erase();
    return true;
  }
};
} // namespace
