//===- PackHeads.cpp - fa-pack-heads ----------------------------------------===//
//
// With fewer query rows than query heads to a KV head, items that differ in the
// query head alone read the same keys, each for tiles of which few rows are
// there. The pass proves that a nest computes the rows of its tiles one by one,
// and lets a tile have the query heads of a KV head as rows, all of one query
// row, so that one item does what as many did as there are such heads.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/nest/Tiles.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace fathom;

namespace fathom {
#define GEN_PASS_DEF_PACKHEADSPASS
#include "passes/Passes.h.inc"
} // namespace fathom

namespace {
constexpr StringLiteral kName = "fa-pack-heads";

bool isScalar(Value v) { return v.getType().isIntOrIndexOrFloat(); }
bool isElementwise(Operation *op) {
  return op->getNumResults() == 1 &&
         (op->hasTrait<OpTrait::Elementwise>() || isa<arith::SelectOp>(op));
}

/// A nest over heads and blocks of rows, and what of it hangs on either.
class Packing {
public:
  explicit Packing(NestOp nest) : nest(nest) {}

  /// True if the rows of the nest's tiles may become heads; else `why` says
  /// why not. At most `most` heads are one tile.
  bool match(int64_t most, std::string &why) {
    bool ok = succeeded(findDims(most)) && succeeded(findHeadScalars()) &&
              succeeded(findRows());
    why = reason;
    return ok;
  }
  /// Makes them.
  void rewrite();
  int64_t getHeads() const { return heads; }

private:
  LogicalResult fail(const Twine &message) {
    reason = message.str();
    return failure();
  }
  LogicalResult findDims(int64_t most);
  LogicalResult findHeadScalars();
  LogicalResult findRows();
  LogicalResult visit(Operation *op);
  LogicalResult visitAccess(Operation *op, Value tile, Value buffer,
                            OperandRange indices, OperandRange limits);
  LogicalResult mark(Value tile);
  /// All of them have rows if one has.
  LogicalResult tie(ArrayRef<Value> tiles);

  bool hasRows(Value v) const { return rows.contains(v); }
  bool isHead(Value v) const { return headScalars.contains(v); }
  /// `v` is the row dim's variable plus what is the same for all items' rows.
  bool isRowPlace(Value v);
  bool hangsOn(Value v, unsigned dim) { return dependsOn(v, nest.getIv(dim)); }
  /// Tiles that may be made anew in any shape.
  bool isFree(Value v) const;

  void exchangeDims();
  RankedTensorType retiled(Type type) const;
  Value packed(OpBuilder &at, Value tile);
  void rewriteAccess(Operation *op);
  Value headTile(TileBuilder &b, Value scalar);
  Value viewOf(Value buffer, int64_t a, int64_t b);

  NestOp nest;
  std::string reason;
  unsigned headDim = 0, rowDim = 0;
  int64_t blockRows = 0, heads = 0;
  DenseSet<Value> headScalars; ///< that differ from query head to query head
  SetVector<Value> rows;       ///< tiles whose first dim is the rows
  bool changed = false;
  DenseMap<Value, Value> headTiles; ///< of `headScalars`
  DenseMap<Value, Value> views;
};

bool Packing::isRowPlace(Value v) {
  if (v == nest.getIv(rowDim))
    return true;
  auto [a, b] = matchBinary<arith::AddIOp>(v);
  if (!a)
    return false;
  if (hangsOn(b, rowDim))
    std::swap(a, b);
  return isRowPlace(a) && !hangsOn(b, rowDim) && !hangsOn(b, headDim);
}

bool Packing::isFree(Value v) const {
  Operation *op = v.getDefiningOp();
  if (!op)
    return false;
  if (op->hasTrait<OpTrait::ConstantLike>())
    return true;
  auto broadcast = dyn_cast<BroadcastOp>(op);
  return broadcast && isScalar(broadcast.getSource()) &&
         !isHead(broadcast.getSource());
}

LogicalResult Packing::mark(Value tile) {
  auto type = tileType(tile);
  if (isFree(tile) || hasRows(tile))
    return success();
  if (!type || type.getDimSize(0) != blockRows)
    return fail("a tile has its rows in another place");
  rows.insert(tile);
  changed = true;
  return success();
}

LogicalResult Packing::tie(ArrayRef<Value> tiles) {
  if (llvm::any_of(tiles, [&](Value v) { return hasRows(v); }))
    for (Value v : tiles)
      if (failed(mark(v)))
        return failure();
  return success();
}

LogicalResult Packing::findDims(int64_t most) {
  if (nest.getNumParallel() != nest.getNumDims())
    return fail("it has dims that run in order");
  // The head: what the place of a tile, of a KV head, is a quotient of.
  int64_t group = 0;
  nest.walk([&](LoadOp load) {
    for (Value i : load.getIndices()) {
      auto div = i.getDefiningOp<arith::DivUIOp>();
      auto arg = div ? dyn_cast<BlockArgument>(div.getLhs()) : BlockArgument();
      if (!arg || arg.getOwner() != nest.getBlock())
        continue;
      headDim = arg.getArgNumber();
      group = getConstantIntValue(OpFoldResult(div.getRhs())).value_or(0);
    }
  });
  if (group < 2 || nest.getSteps()[headDim] != 1)
    return fail("no query heads share the keys that it reads");
  int blocked = 0;
  for (auto [d, step] : llvm::enumerate(nest.getSteps()))
    if (step != 1) {
      rowDim = d;
      blockRows = step;
      ++blocked;
    }
  if (blocked != 1)
    return fail("not one of its dims runs over blocks of rows");
  heads = std::min(group, std::max(most, int64_t(1)));
  while (group % heads)
    --heads;
  if (heads == 1)
    return fail("its query heads are not in parts that fit a tile");
  return success();
}

/// Scalars that are computed from the head, but for the KV head.
LogicalResult Packing::findHeadScalars() {
  Value head = nest.getIv(headDim);
  headScalars.insert(head);
  auto result = nest.walk([&](Operation *op) {
    if (llvm::none_of(op->getOperands(), [&](Value v) { return isHead(v); }))
      return WalkResult::advance();
    if (auto div = dyn_cast<arith::DivUIOp>(op); div && div.getLhs() == head) {
      auto c = getConstantIntValue(OpFoldResult(div.getRhs()));
      if (c && *c % heads == 0)
        return WalkResult::advance(); // the same for all heads of a tile
    }
    if (isa<LoadOp, StoreOp, GatherOp, BroadcastOp>(op))
      return WalkResult::advance(); // looked at later
    if (!(isa<memref::LoadOp>(op) || isElementwise(op)) ||
        !isScalar(op->getResult(0))) {
      (void)fail("it computes " + op->getName().getStringRef() +
                 " from the query head");
      return WalkResult::interrupt();
    }
    headScalars.insert(op->getResult(0));
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

/// A load or store: of rows, or the same for all of them.
LogicalResult Packing::visitAccess(Operation *op, Value tile, Value buffer,
                                   OperandRange indices, OperandRange limits) {
  size_t first = indices.size() - tileType(tile).getRank();
  bool ofRows = false, ofHead = false;
  for (auto [d, i] : llvm::enumerate(indices)) {
    bool row = hangsOn(i, rowDim), head = isHead(i);
    if (row && (d != first || !isRowPlace(i)))
      return fail("it accesses memory at a place that is not its row's");
    if (head && (ofHead || i != nest.getIv(headDim) || d >= first))
      return fail("it accesses memory at a place that is not its head's");
    ofRows |= row;
    ofHead |= head;
  }
  for (Value limit : limits)
    if (isHead(limit) || hangsOn(limit, rowDim))
      return fail("a limit hangs on the row or the head");
  if (ofRows != ofHead)
    return fail("it accesses memory by the row or the head alone");
  if (!ofRows)
    return isa<StoreOp>(op) || hasRows(tile)
               ? fail("items of all heads write the same")
               : success();
  if (!isa<BlockArgument>(buffer))
    return fail("a local buffer holds rows of one head after the other");
  return mark(tile);
}

LogicalResult Packing::visit(Operation *op) {
  auto unlike = [&] {
    return fail(op->getName().getStringRef() +
                " does not compute the rows one by one");
  };
  if (auto load = dyn_cast<LoadOp>(op))
    return visitAccess(op, load.getTile(), load.getBuffer(), load.getIndices(),
                       load.getLimits());
  if (auto store = dyn_cast<StoreOp>(op))
    return visitAccess(op, store.getTile(), store.getBuffer(),
                       store.getIndices(), store.getLimits());
  if (auto iota = dyn_cast<IotaOp>(op)) {
    if (isRowPlace(iota.getStart()))
      return mark(iota.getResult());
    return hangsOn(iota.getStart(), rowDim) || isHead(iota.getStart()) ||
                   hasRows(iota.getResult())
               ? unlike()
               : success();
  }
  if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
    Value source = broadcast.getSource(), result = broadcast.getResult();
    if (isHead(source))
      return mark(result);
    if (isScalar(source))
      return hangsOn(source, rowDim) ? unlike() : success();
    if (broadcast.getDim() == 0)
      return tie({source, result});
    return hasRows(source) ? unlike() : success();
  }
  if (auto gather = dyn_cast<GatherOp>(op)) {
    SmallVector<Value> tied = {gather.getResult()};
    for (Value i : gather.getIndices())
      if (isHead(i)) {
        if (failed(mark(gather.getResult())))
          return failure();
      } else if (!isScalar(i)) {
        tied.push_back(i);
      } else if (hangsOn(i, rowDim)) {
        return unlike();
      }
    if (!isa<BlockArgument>(gather.getBuffer()))
      return fail("a local buffer holds rows of one head after the other");
    return tie(tied);
  }
  if (auto dot = dyn_cast<DotOp>(op)) {
    if (hasRows(dot.getB()))
      return unlike();
    return tie({dot.getA(), dot.getAcc(), dot.getResult()});
  }
  if (auto reduce = dyn_cast<ReduceOp>(op)) {
    if (isScalar(reduce.getResult()) || reduce.getDim() != 1)
      return hasRows(reduce.getTile()) || hasRows(reduce.getResult())
                 ? unlike()
                 : success();
    return tie({reduce.getTile(), reduce.getResult()});
  }
  if (auto transpose = dyn_cast<TransposeOp>(op))
    return hasRows(transpose.getTile()) || hasRows(transpose.getResult())
               ? unlike()
               : success();
  if (auto loop = dyn_cast<scf::ForOp>(op)) {
    for (Value bound : {loop.getLowerBound(), loop.getUpperBound()})
      if (hangsOn(bound, rowDim))
        return unlike();
    for (auto [init, arg, yielded, result] :
         llvm::zip_equal(loop.getInitArgs(), loop.getRegionIterArgs(),
                         loop.getYieldedValues(), loop.getResults()))
      if (failed(tie({init, arg, yielded, result})))
        return failure();
    return success();
  }
  if (auto branch = dyn_cast<scf::IfOp>(op)) {
    for (unsigned i = 0; i < branch.getNumResults(); ++i)
      if (failed(tie({branch.getResult(i), branch.thenYield().getOperand(i),
                      branch.elseYield().getOperand(i)})))
        return failure();
    return success();
  }
  if (op->hasTrait<OpTrait::ConstantLike>() || isa<scf::YieldOp>(op))
    return success();
  if (isElementwise(op) && isTile(op->getResult(0))) {
    SmallVector<Value> tied(op->getOperands());
    tied.push_back(op->getResult(0));
    return tie(tied);
  }
  bool scalars = llvm::all_of(op->getResults(), isScalar) &&
                 (isMemoryEffectFree(op) || isa<memref::LoadOp>(op));
  if (!scalars)
    return unlike();
  // Of the row nothing but its place is known.
  for (Value v : op->getOperands())
    if (hangsOn(v, rowDim) && !isRowPlace(op->getResult(0)))
      return fail("it computes with the place of a block of rows");
  return success();
}

LogicalResult Packing::findRows() {
  do {
    changed = false;
    auto result = nest.walk<WalkOrder::PreOrder>([&](Operation *op) {
      return op != nest && failed(visit(op)) ? WalkResult::interrupt()
                                             : WalkResult::advance();
    });
    if (result.wasInterrupted())
      return failure();
  } while (changed);
  return success();
}

//===----------------------------------------------------------------------===//
// Rewriting
//===----------------------------------------------------------------------===//

RankedTensorType Packing::retiled(Type type) const {
  auto tile = cast<RankedTensorType>(type);
  SmallVector<int64_t> shape(tile.getShape());
  shape[0] = heads;
  return tileOf(shape, tile.getElementType());
}

/// `tile`, as an operand that has rows: what is free is made anew.
Value Packing::packed(OpBuilder &at, Value tile) {
  if (!isFree(tile))
    return tile;
  auto type = retiled(tile.getType());
  Operation *op = tile.getDefiningOp();
  if (type == tile.getType())
    return tile;
  if (auto broadcast = dyn_cast<BroadcastOp>(op))
    return BroadcastOp::create(at, op->getLoc(), type, broadcast.getSource(),
                               broadcast.getDim());
  DenseElementsAttr dense;
  matchPattern(op, m_Constant(&dense));
  return arith::ConstantOp::create(
      at, op->getLoc(),
      DenseElementsAttr::get(type, dense.getSplatValue<Attribute>()));
}

/// `buffer` with dims `a` and `b` exchanged.
Value Packing::viewOf(Value buffer, int64_t a, int64_t b) {
  Value &view = views[buffer];
  if (view)
    return view;
  auto type = cast<MemRefType>(buffer.getType());
  SmallVector<unsigned> order(
      llvm::to_vector(llvm::seq<unsigned>(0, type.getRank())));
  std::swap(order[a], order[b]);
  OpBuilder at(nest);
  return view = memref::TransposeOp::create(
             at, buffer.getLoc(), buffer,
             AffineMapAttr::get(
                 AffineMap::getPermutationMap(order, nest.getContext())));
}

void Packing::rewriteAccess(Operation *op) {
  TileBuilder b(OpBuilder(op), op->getLoc());
  auto load = dyn_cast<LoadOp>(op);
  auto store = dyn_cast<StoreOp>(op);
  Value tile = load ? load.getTile() : store.getTile();
  OperandRange indices = load ? load.getIndices() : store.getIndices(),
               limits = load ? load.getLimits() : store.getLimits();
  Value head = nest.getIv(headDim);
  auto it = llvm::find(indices, head);
  if (it == indices.end())
    return;
  size_t at = it - indices.begin(),
         first = indices.size() - tileType(tile).getRank();
  Value row = indices[first];
  Value end = b.make<arith::MinSIOp>(b.add(head, b.index(heads)),
                                     nest.getBounds()[headDim]);
  // Rows past their limit stay untouched.
  if (row != nest.getIv(rowDim) ||
      !sameValue(limits[0], {}, nest.getBounds()[rowDim], {}))
    end = b.make<arith::SelectOp>(
        b.make<arith::CmpIOp>(arith::CmpIPredicate::slt, row, limits[0]), end,
        b.index(0));
  SmallVector<Value> newIndices(indices), newLimits(limits);
  std::swap(newIndices[at], newIndices[first]);
  newLimits[0] = end;
  Value buffer = viewOf(load ? load.getBuffer() : store.getBuffer(), at, first);
  if (store) {
    b.store(packed(b, tile), buffer, newIndices, newLimits);
  } else {
    Value fresh = b.load(buffer, newIndices, newLimits,
                         retiled(tile.getType()).getShape());
    tile.replaceAllUsesWith(fresh);
  }
  op->erase();
}

/// The values of `scalar` for the heads of a tile, a tile of rank 1.
Value Packing::headTile(TileBuilder &b, Value scalar) {
  if (Value known = headTiles.lookup(scalar))
    return known;
  OpBuilder::InsertionGuard guard(b);
  auto type = tileOf({heads}, scalar.getType());
  Value tile;
  if (scalar == nest.getIv(headDim)) {
    b.setInsertionPointToStart(nest.getBlock());
    tile = b.make<IotaOp>(type, scalar);
  } else {
    Operation *op = scalar.getDefiningOp();
    b.setInsertionPoint(op);
    auto operand = [&](Value v) { return isHead(v) ? headTile(b, v) : v; };
    if (auto load = dyn_cast<memref::LoadOp>(op)) {
      tile = b.make<GatherOp>(type, load.getMemRef(),
                              llvm::map_to_vector(load.getIndices(), operand));
    } else {
      IRMapping map;
      for (Value v : op->getOperands())
        map.map(v, isHead(v) ? headTile(b, v)
                             : b.broadcast(v, 0, tileOf({heads}, v.getType())));
      Operation *copy = b.clone(*op, map);
      copy->getResult(0).setType(type);
      tile = copy->getResult(0);
    }
  }
  return headTiles[scalar] = tile;
}

/// The nest with a dim over query rows where that over heads was, and one over
/// tiles of heads where that over blocks of rows was.
void Packing::exchangeDims() {
  NestOp old = nest;
  SmallVector<Value> bounds(old.getBounds());
  SmallVector<int64_t> steps(old.getSteps());
  std::swap(bounds[headDim], bounds[rowDim]);
  steps[headDim] = 1;
  steps[rowDim] = heads;
  TileBuilder b(OpBuilder(old), old.getLoc());
  nest =
      b.make<NestOp>(old.getLabel().value_or(""), bounds, steps, steps.size());
  nest.getBlock()->getOperations().splice(nest.getBlock()->end(),
                                          old.getBlock()->getOperations());
  headScalars.erase(old.getIv(headDim));
  old.getIv(headDim).replaceAllUsesWith(nest.getIv(rowDim));
  old.getIv(rowDim).replaceAllUsesWith(nest.getIv(headDim));
  for (unsigned d = 0; d < steps.size(); ++d)
    old.getIv(d).replaceAllUsesWith(nest.getIv(d));
  std::swap(headDim, rowDim);
  headScalars.insert(nest.getIv(headDim));
  old.erase();
}

void Packing::rewrite() {
  exchangeDims();
  for (Value v : rows)
    v.setType(retiled(v.getType()));
  TileBuilder b(OpBuilder(nest), nest.getLoc());
  SmallVector<Operation *> ops;
  nest.walk([&](Operation *op) {
    if (op != nest)
      ops.push_back(op);
  });
  for (Operation *op : ops) {
    b.setInsertionPoint(op);
    b.loc = op->getLoc();
    auto repack = [&](OpOperand &use) { use.set(packed(b, use.get())); };
    if (isa<LoadOp, StoreOp>(op))
      continue; // last: others look at their operands
    if (auto iota = dyn_cast<IotaOp>(op)) {
      if (!hasRows(iota.getResult()))
        continue;
      // All rows are of the same place.
      Value place =
          b.broadcast(iota.getStart(), 0, retiled(iota.getResult().getType()));
      iota.getResult().replaceAllUsesWith(place);
      iota.erase();
    } else if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
      if (!hasRows(broadcast.getResult()))
        continue;
      Value source = broadcast.getSource();
      if (isHead(source))
        source = headTile(b, source);
      else
        source = isScalar(source) || broadcast.getDim() == 1
                     ? source
                     : packed(b, source);
      auto type = retiled(broadcast.getResult().getType());
      Value fresh = source;
      if (source.getType() != type)
        fresh = b.make<BroadcastOp>(type, source, broadcast.getDim());
      broadcast.getResult().replaceAllUsesWith(fresh);
      broadcast.erase();
    } else if (auto gather = dyn_cast<GatherOp>(op)) {
      if (!hasRows(gather.getResult()))
        continue;
      auto type = retiled(gather.getResult().getType());
      for (OpOperand &use : gather.getIndicesMutable())
        if (isHead(use.get()))
          use.set(b.broadcast(headTile(b, use.get()), 0,
                              tileOf(type.getShape(), b.getIndexType())));
        else if (!isScalar(use.get()))
          repack(use);
    } else if (auto dot = dyn_cast<DotOp>(op)) {
      if (hasRows(dot.getResult())) {
        repack(dot.getAMutable());
        repack(dot.getAccMutable());
      }
    } else if (auto reduce = dyn_cast<ReduceOp>(op)) {
      if (hasRows(reduce.getResult()))
        repack(reduce.getTileMutable());
    } else if (auto loop = dyn_cast<scf::ForOp>(op)) {
      for (auto [i, arg] : llvm::enumerate(loop.getRegionIterArgs()))
        if (hasRows(arg)) {
          repack(loop.getInitArgsMutable()[i]);
          Operation *yield = loop.getBody()->getTerminator();
          OpBuilder y(yield);
          OpOperand &use = yield->getOpOperand(i);
          use.set(packed(y, use.get()));
        }
    } else if (auto branch = dyn_cast<scf::IfOp>(op)) {
      for (auto [i, result] : llvm::enumerate(branch.getResults()))
        if (hasRows(result))
          for (scf::YieldOp yield : {branch.thenYield(), branch.elseYield()}) {
            OpBuilder y(yield);
            OpOperand &use = yield->getOpOperand(i);
            use.set(packed(y, use.get()));
          }
    } else if (isElementwise(op) && hasRows(op->getResult(0))) {
      for (OpOperand &use : op->getOpOperands())
        if (!isScalar(use.get()))
          repack(use);
    }
  }
  for (Operation *op : ops)
    if (isa<LoadOp, StoreOp>(op))
      rewriteAccess(op);
}

struct PackHeadsPass : public fathom::impl::PackHeadsPassBase<PackHeadsPass> {
  using PackHeadsPassBase::PackHeadsPassBase;

  void runOnOperation() override {
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      auto schedule = func->getAttrOfType<ScheduleAttr>(kScheduleAttr);
      if (!schedule || !schedule.getPackHeads()) {
        missed(func, kName, "the schedule keeps query heads apart");
        continue;
      }
      for (auto nest : llvm::make_early_inc_range(func.getOps<NestOp>())) {
        std::string why;
        Packing packing(nest);
        if (!packing.match(schedule.getBlockM(), why)) {
          missed(nest, kName, why);
          continue;
        }
        passed(nest, kName,
               Twine(packing.getHeads()) + " query heads are one tile");
        packing.rewrite();
      }
      tidyNests(func);
    }
  }
};
} // namespace
