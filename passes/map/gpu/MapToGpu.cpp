//===- MapToGpu.cpp - fa-map-to-gpu -----------------------------------------===//
//
// Each nest becomes a kernel and its launch. Inside, every tile gets a layout
// by its shape alone, factors of products go through shared memory, and what
// would need data of other warps is converted to a layout where it does not.
// What that costs is for later passes to take back.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/map/Loops.h"
#include "passes/map/gpu/Gpu.h"
#include "passes/nest/Tiles.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/SmallSet.h"
#include <numeric>

namespace fathom {
#define GEN_PASS_DEF_MAPTOGPUPASS
#include "passes/Passes.h.inc"
} // namespace fathom

using namespace mlir;
using namespace fathom;
using namespace fathom::gpu;

namespace {

/// Gives the tiles of a kernel's body their layouts, op by op in order.
class TileMapper {
public:
  TileMapper(KernelOp kernel, bool deterministic)
      : kernel(kernel), deterministic(deterministic), ctx(kernel.getContext()),
        warps(kernel.getNumWarps()) {
    kernel.walk([&](DotOp) { products = true; });
    if (products)
      return;
    SmallVector<RankedTensorType> matrices;
    kernel.walk([&](Operation *op) {
      for (Value v : op->getResults())
        if (auto t = dyn_cast<RankedTensorType>(v.getType());
            t && t.getRank() == 2)
          matrices.push_back(t);
    });
    for (RankedTensorType t : matrices)
      fewLines.insert(t.getDimSize(0));
    for (RankedTensorType t : matrices)
      fewLines.erase(t.getDimSize(1));
    for (RankedTensorType t : matrices)
      mapped(t);
  }

  LogicalResult run() { return map(&kernel.getBody().front()); }

private:
  /// What a tile dim is padded to: a multiple of 16, as products need it. Where
  /// there are none, few lines need not become more.
  int64_t padded(int64_t size) const {
    return size < 16 && fewLines.contains(size)
               ? int64_t(llvm::PowerOf2Ceil(size))
               : int64_t(llvm::alignTo(size, 16));
  }

  LogicalResult map(Block *block);
  LogicalResult map(Operation *op);
  LogicalResult mapReduce(ReduceOp op);
  LogicalResult mapDot(DotOp op);

  RankedTensorType mapped(Type type) {
    auto tile = cast<RankedTensorType>(type);
    SmallVector<int64_t> shape;
    for (int64_t n : tile.getShape())
      shape.push_back(padded(n));
    return RankedTensorType::get(shape, tile.getElementType(),
                                 standardFor(shape));
  }
  /// The layout that tiles of a shape have at every op: that of accumulators
  /// where there are products; else lines in pieces of 16 bytes and more.
  ThreadLayoutAttr standardFor(ArrayRef<int64_t> shape) {
    if (products)
      return standardLayout(ctx, shape, warps);
    if (shape.size() == 2) {
      if (lines && lines.getShape()[0] == shape[0] &&
          lines.getShape()[1] == shape[1])
        return layoutOf(lines);
      int64_t vector = shape[0] * shape[1] / 8 < warps * kWarp ? 4 : 8;
      auto l =
          ThreadLayoutAttr::getRows(ctx, shape[0], shape[1], vector, warps);
      if (!lines)
        lines = RankedTensorType::get(shape, IndexType::get(ctx), l);
      return l;
    }
    return lines && lines.getShape()[0] == shape[0]
               ? layoutOf(lines).sliced(1)
               : ThreadLayoutAttr::getLine(ctx, shape[0], warps);
  }
  void retype(Value v) {
    if (!isTile(v))
      return;
    logical[v] = SmallVector<int64_t>(tileType(v).getShape());
    v.setType(mapped(v.getType()));
  }
  /// A tile in its standard layout, as every op here expects and leaves it.
  Value standard(OpBuilder &b, Value v) {
    return inLayout(b, v, standardFor(tileType(v).getShape()));
  }
  void limitTo(OpBuilder &b, Location loc, ArrayRef<int64_t> sizes,
               OperandRange indices, MutableOperandRange limits);
  Value fillPadding(OpBuilder &b, Value v, ArrayRef<int64_t> sizes,
                    unsigned dim, double fill);
  Value toShared(Value v, ArrayRef<int64_t> sizes);

  KernelOp kernel;
  bool deterministic;
  MLIRContext *ctx;
  int64_t warps;
  bool products = false;
  llvm::SmallSet<int64_t, 4> fewLines; ///< numbers of lines, never a length
  /// The first tile of rank 2 in a kernel without products.
  RankedTensorType lines;
  /// The shapes that tiles had on the nest level.
  DenseMap<Value, SmallVector<int64_t>> logical;
  DenseMap<Value, Value> buffers;
};

LogicalResult TileMapper::map(Block *block) {
  for (Operation &op : llvm::make_early_inc_range(*block))
    if (failed(map(&op)))
      return failure();
  return success();
}

/// Where a tile was padded, nothing past its old size is touched.
void TileMapper::limitTo(OpBuilder &b, Location loc, ArrayRef<int64_t> sizes,
                         OperandRange indices, MutableOperandRange limits) {
  for (auto [d, size] : llvm::enumerate(sizes)) {
    if (size == padded(size))
      continue;
    Value first = indices[indices.size() - sizes.size() + d];
    Value end = b.createOrFold<arith::AddIOp>(
        loc, first, arith::ConstantIndexOp::create(b, loc, size));
    limits[d].set(b.createOrFold<arith::MinSIOp>(loc, limits[d].get(), end));
  }
}

/// `v` with `fill` past `sizes[dim]`.
Value TileMapper::fillPadding(OpBuilder &b, Value v, ArrayRef<int64_t> sizes,
                              unsigned dim, double fill) {
  RankedTensorType type = tileType(v);
  int64_t n = type.getDimSize(dim);
  if (sizes[dim] == n)
    return v;
  Location loc = v.getLoc();
  ThreadLayoutAttr layout = layoutOf(v);
  auto line = RankedTensorType::get(
      {n}, b.getIndexType(),
      type.getRank() == 1 ? layout : layout.sliced(1 - dim));
  Value place =
      IotaOp::create(b, loc, line, arith::ConstantIndexOp::create(b, loc, 0));
  if (type.getRank() == 2)
    place = BroadcastOp::create(
        b, loc,
        RankedTensorType::get(type.getShape(), b.getIndexType(), layout), place,
        dim);
  Value end = arith::ConstantOp::create(
      b, loc, DenseElementsAttr::get(tileType(place), APInt(64, sizes[dim])));
  Value inside =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, place, end);
  TypedAttr value;
  if (auto f = dyn_cast<FloatType>(type.getElementType()))
    value = DenseElementsAttr::get(type, b.getFloatAttr(f, fill).getValue());
  else
    value = DenseElementsAttr::get(
        type, APInt(type.getElementTypeBitWidth(), fill != 0));
  return arith::SelectOp::create(b, loc, inside, v,
                                 arith::ConstantOp::create(b, loc, value));
}

/// True if all entries of `v` past its old size are zero.
static bool isZeroPadded(Value v) {
  return v.getDefiningOp<LoadOp>() != nullptr;
}

/// True if a product sums over `dim` of `v`, or of a transpose of it.
static bool isSummedOver(Value v, unsigned dim) {
  return llvm::any_of(v.getUses(), [&](OpOperand &use) {
    if (auto transpose = dyn_cast<TransposeOp>(use.getOwner()))
      return isSummedOver(transpose.getResult(), 1 - dim);
    return isa<DotOp>(use.getOwner()) && use.getOperandNumber() == 1 - dim;
  });
}

/// A view of shared memory that holds `v`. Where products sum over a dim, nothing
/// but zeros may lie past its old size.
Value TileMapper::toShared(Value v, ArrayRef<int64_t> sizes) {
  if (auto transpose = v.getDefiningOp<TransposeOp>()) {
    SmallVector<int64_t> swapped(llvm::reverse(sizes));
    Value buffer = toShared(transpose.getTile(), swapped);
    OpBuilder b(transpose);
    if (Operation *def = buffer.getDefiningOp();
        def->getBlock() == transpose->getBlock() &&
        transpose->isBeforeInBlock(def))
      b.setInsertionPointAfter(def);
    auto type = cast<SharedType>(buffer.getType());
    return FlipOp::create(b, v.getLoc(), type.flip(), buffer);
  }
  Value &known = buffers[v];
  if (known)
    return known;
  OpBuilder top = OpBuilder::atBlockBegin(&kernel.getBody().front());
  OpBuilder b(ctx);
  b.setInsertionPointAfterValue(v);
  Value stored = v;
  if (!isZeroPadded(v))
    for (unsigned dim : {0, 1})
      if (isSummedOver(v, dim))
        stored = fillPadding(b, stored, sizes, dim, 0);
  known = AllocOp::create(
      top, v.getLoc(),
      bufferFor(tileType(v).getShape(), tileType(v).getElementType()),
      IntegerAttr());
  StoreSharedOp::create(b, v.getLoc(), stored, known);
  return known;
}

LogicalResult TileMapper::mapDot(DotOp op) {
  OpBuilder b(op);
  Value a = toShared(op.getA(), logical[op.getA()]);
  Value c = toShared(op.getB(), logical[op.getB()]);
  Value acc = op.getAcc();
  auto result = MmaOp::create(b, op.getLoc(), acc.getType(), a, c, acc);
  op.getResult().replaceAllUsesWith(result.getResult());
  SmallVector<int64_t> sizes = logical[acc]; // a copy: the map may grow
  logical[result.getResult()] = sizes;
  op.erase();
  return success();
}

LogicalResult TileMapper::mapReduce(ReduceOp op) {
  OpBuilder b(op);
  unsigned dim = op.getDim();
  Value tile = op.getTile();
  SmallVector<int64_t> sizes = logical[tile];
  bool isFloat = isa<FloatType>(tileType(tile).getElementType());
  double neutral = op.getKind() == ReduceKind::max
                       ? -std::numeric_limits<double>::infinity()
                       : op.getKind() == ReduceKind::all;
  tile = inLayout(b, tile,
                  wholeLines(layoutOf(tile), tileType(tile).getShape(), dim));
  if (!(isFloat && op.getKind() == ReduceKind::add &&
        isZeroPadded(op.getTile())))
    tile = fillPadding(b, tile, sizes, dim, neutral);
  op.getTileMutable().set(tile);
  if (!isTile(op.getResult()))
    return success();
  SmallVector<int64_t> left = {sizes[1 - dim]};
  op.getResult().setType(RankedTensorType::get(
      {tileType(tile).getDimSize(1 - dim)}, tileType(tile).getElementType(),
      layoutOf(tile).sliced(dim)));
  logical[op.getResult()] = left;
  b.setInsertionPointAfter(op);
  Value v = op.getResult(), s = standard(b, v);
  if (s != v) {
    v.replaceAllUsesExcept(s, s.getDefiningOp());
    logical[s] = left;
  }
  return success();
}

LogicalResult TileMapper::map(Operation *op) {
  OpBuilder b(op);
  if (auto dot = dyn_cast<DotOp>(op))
    return mapDot(dot);
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return mapReduce(reduce);
  if (auto transpose = dyn_cast<TransposeOp>(op)) {
    Value tile = transpose.getTile(), result = transpose.getResult();
    SmallVector<int64_t> sizes(llvm::reverse(logical[tile]));
    auto type = mapped(result.getType());
    result.setType(withLayout(type, layoutOf(tile).transposed()));
    logical[result] = sizes;
    // As factors, products see through it; others get the standard layout.
    auto seesThrough = [](OpOperand &use) {
      auto dot = dyn_cast<DotOp>(use.getOwner());
      return isa<TransposeOp>(use.getOwner()) ||
             (dot && use.getOperandNumber() < 2);
    };
    if (llvm::all_of(result.getUses(), seesThrough))
      return success();
    b.setInsertionPointAfter(op);
    Value s = standard(b, result);
    result.replaceUsesWithIf(s, [&](OpOperand &use) {
      return use.getOwner() != s.getDefiningOp() && !seesThrough(use);
    });
    logical[s] = sizes;
    return success();
  }
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    if (!isTile(constant))
      return success();
    auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
    if (!dense || !dense.isSplat())
      return op->emitOpError("expected a tile constant of equal entries");
    retype(constant.getResult());
    constant.setValueAttr(DenseElementsAttr::get(
        tileType(constant), dense.getSplatValue<Attribute>()));
    return success();
  }
  if (auto loop = dyn_cast<scf::ForOp>(op)) {
    for (auto [result, arg] :
         llvm::zip_equal(loop.getResults(), loop.getRegionIterArgs())) {
      retype(result);
      retype(arg);
    }
    return map(loop.getBody());
  }
  if (auto branch = dyn_cast<scf::IfOp>(op)) {
    for (Value v : branch.getResults())
      retype(v);
    for (Region *r : branch.getRegions())
      if (!r->empty() && failed(map(&r->front())))
        return failure();
    return success();
  }
  if (auto load = dyn_cast<LoadOp>(op)) {
    retype(load.getTile());
    limitTo(b, op->getLoc(), logical[load.getTile()], load.getIndices(),
            load.getLimitsMutable());
    return success();
  }
  if (auto store = dyn_cast<StoreOp>(op)) {
    limitTo(b, op->getLoc(), logical[store.getTile()], store.getIndices(),
            store.getLimitsMutable());
    return success();
  }
  if (auto acc = dyn_cast<AccumulateOp>(op)) {
    limitTo(b, op->getLoc(), logical[acc.getTile()], acc.getIndices(),
            acc.getLimitsMutable());
    if (acc.getMode() != AccumulateMode::ordered)
      return success();
    WaitTurnOp::create(b, op->getLoc(), acc.getTurn(), acc.getTickets(),
                       acc.getTicketIndices());
    AccumulateOp::create(b, op->getLoc(), AccumulateMode::plain, acc.getTile(),
                         acc.getBuffer(), acc.getIndices(), acc.getLimits(),
                         /*turn=*/Value(), /*tickets=*/Value(), ValueRange());
    EndTurnOp::create(b, op->getLoc(), acc.getTickets(),
                      acc.getTicketIndices());
    op->erase();
    return success();
  }
  if (auto pass = dyn_cast<PassTurnOp>(op)) {
    WaitTurnOp::create(b, op->getLoc(), pass.getTurn(), pass.getTickets(),
                       pass.getTicketIndices());
    EndTurnOp::create(b, op->getLoc(), pass.getTickets(),
                      pass.getTicketIndices());
    op->erase();
    return success();
  }
  if (auto scatter = dyn_cast<ScatterAddOp>(op)) {
    // What lies in the padding goes where its indexes are clamped to: as 0.
    Value tile = scatter.getTile();
    SmallVector<int64_t> sizes = logical[tile];
    for (unsigned d = 0; d < sizes.size(); ++d)
      tile = fillPadding(b, tile, sizes, d, 0);
    // In order, threads wait for each other's turns: only where promised.
    if (!deterministic)
      scatter.setMode(AccumulateMode::atomic);
    scatter.getTileMutable().set(tile);
    return success();
  }
  if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
    retype(broadcast.getResult());
    Value source = broadcast.getSource();
    if (isTile(source) && tileType(broadcast.getResult()).getRank() == 2)
      broadcast.getSourceMutable().set(inLayout(
          b, source,
          layoutOf(broadcast.getResult()).sliced(1 - broadcast.getDim())));
    return success();
  }
  if (isElementwise(op) || isa<IotaOp, GatherOp>(op)) {
    retype(op->getResult(0));
    return success();
  }
  if (llvm::none_of(op->getResultTypes(), llvm::IsaPred<RankedTensorType>))
    return success();
  return op->emitOpError("expected an op that a GPU kernel can hold");
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// Warps by the accumulators that a thread must hold: what loops carry and the
/// two largest products that start anew, in at most 208 of its 255 registers.
int64_t chooseWarps(NestOp nest, bool aligned, bool warpgroups) {
  int64_t carried = 0;
  SmallVector<int64_t> fresh = {0, 0}; // sizes of products that start anew
  nest.walk([&](scf::ForOp loop) {
    int64_t sum = 0;
    for (Type t : loop.getResultTypes())
      if (auto tile = dyn_cast<RankedTensorType>(t);
          tile && tile.getRank() == 2)
        sum += tile.getNumElements() * tile.getElementTypeBitWidth() / 32;
    carried = std::max(carried, sum);
  });
  int64_t rows = 0;
  nest.walk([&](DotOp dot) {
    auto type = dot.getResult().getType();
    rows = std::max(rows, type.getDimSize(0));
    if (!floatConstant(dot.getAcc()))
      return;
    fresh.push_back(type.getNumElements() * type.getElementTypeBitWidth() / 32);
  });
  llvm::sort(fresh, std::greater<>());
  // Lines of few rows would be spread over warps, which then exchange what they
  // reduce in every iteration: one warp does without, if what it loads is not
  // in its registers.
  bool products = false, narrow = aligned, reduces = false;
  nest.walk([&](DotOp dot) {
    auto acc = dot.getResult().getType(), a = dot.getA().getType();
    narrow &= acc.getDimSize(0) <= 16 && a.getElementTypeBitWidth() == 16;
    products = true;
  });
  nest.walk([&](ReduceOp reduce) {
    reduces |= reduce->getParentOfType<scf::ForOp>() && reduce.getDim() == 1;
  });
  // With products of four warps, 128 rows are for two of these.
  int64_t warps = products && narrow && reduces ? 1
                  : warpgroups && rows >= 128   ? 8
                                                : 4;
  while (warps < 16 && (carried + fresh[0] + fresh[1]) / (warps * kWarp) > 208)
    warps *= 2;
  return warps;
}

struct MapToGpu : public fathom::impl::MapToGpuPassBase<MapToGpu> {
  using MapToGpuPassBase::MapToGpuPassBase;

  void runOnOperation() override {
    if (numWarps && (numWarps < 0 || numWarps > 32 ||
                     !llvm::isPowerOf2_64(int64_t(numWarps)))) {
      emitError(getOperation().getLoc(),
                "expected option num-warps to be one of [1, 2, 4, 8, 16, 32], "
                "got ")
          << int64_t(numWarps);
      return signalPassFailure();
    }
    for (auto f :
         llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>())) {
      if (f.isExternal())
        continue;
      for (auto [i, nest] : llvm::enumerate(prepareNests(f)))
        if (failed(outline(f, nest, i)))
          return signalPassFailure();
    }
  }

  int64_t alignmentOf(Value buffer, NestOp nest);
  LogicalResult outline(func::FuncOp f, NestOp nest, unsigned number);
};

/// Bytes that the lines of `buffer` start at multiples of, if its last stride
/// is 1, else 0.
int64_t MapToGpu::alignmentOf(Value buffer, NestOp nest) {
  auto type = dyn_cast<MemRefType>(buffer.getType());
  if (!type || type.getRank() == 0)
    return 0;
  int64_t bytes = type.getElementType().isIndex()
                      ? 8
                      : llvm::divideCeil(type.getElementTypeBitWidth(), 8);
  int64_t last = type.getDimSize(type.getRank() - 1);
  if (auto alloc = buffer.getDefiningOp<memref::AllocOp>()) {
    if (type.getRank() == 1)
      return 16;
    for (int64_t a = 16; a > bytes; a /= 2)
      if (ShapedType::isDynamic(last)
              ? isMultiple(alloc.getDynamicSizes().back(), a / bytes)
              : last * bytes % a == 0)
        return a;
    return bytes;
  }
  // What is read entry by entry may lie as it likes.
  bool tiles = llvm::none_of(buffer.getUsers(), [&](Operation *user) {
    return nest->isProperAncestor(user) &&
           !isa<LoadOp, StoreOp, AccumulateOp, memref::DimOp>(user);
  });
  return aligned && tiles && type.getRank() > 1 && !ShapedType::isDynamic(last)
             ? 16
             : 0;
}

/// A location with the name that a kernel's parameter for `v` gets, if any.
static Location namedLoc(Value v) {
  auto dim = v.getDefiningOp<memref::DimOp>();
  if (!dim || !dim.getConstantIndex())
    return v.getLoc();
  auto array = dim.getSource().getLoc()->findInstanceOf<NameLoc>();
  if (!array)
    return v.getLoc();
  return NameLoc::get(
      StringAttr::get(v.getContext(), array.getName().getValue() + "_size" +
                                          Twine(*dim.getConstantIndex())),
      v.getLoc());
}

LogicalResult MapToGpu::outline(func::FuncOp f, NestOp nest, unsigned number) {
  Location loc = nest.getLoc();
  ImplicitLocOpBuilder b(loc, nest);
  auto constant = [](ImplicitLocOpBuilder &b, int64_t v) -> Value {
    return arith::ConstantIndexOp::create(b, v);
  };

  // How many items there are.
  unsigned numParallel = nest.getNumParallel();
  SmallVector<Value> counts;
  Value items = constant(b, 1);
  for (unsigned d = 0; d < numParallel; ++d) {
    int64_t step = nest.getSteps()[d];
    Value n = arith::MaxSIOp::create(b, nest.getBounds()[d], constant(b, 0));
    if (step != 1)
      n = arith::DivUIOp::create(
          b, arith::AddIOp::create(b, n, constant(b, step - 1)),
          constant(b, step));
    counts.push_back(n);
    items = arith::MulIOp::create(b, items, n);
  }

  // CTAs that wait for others take their numbers when they start.
  bool ordered =
      nest.walk([](Operation *op) {
            auto acc = dyn_cast<AccumulateOp>(op);
            return isa<PassTurnOp>(op) ||
                           (acc && acc.getMode() == AccumulateMode::ordered)
                       ? WalkResult::interrupt()
                       : WalkResult::advance();
          })
          .wasInterrupted();
  Value counter;
  if (ordered) {
    counter = memref::AllocOp::create(b, MemRefType::get({1}, b.getI32Type()));
    ClearOp::create(b, counter);
  }

  // What the body uses from outside.
  llvm::SetVector<Value> captured;
  getUsedValuesDefinedAbove(nest.getBody(), captured);
  SmallVector<Value> passed;
  SmallVector<Operation *> constants;
  for (Value v : captured) {
    Operation *def = v.getDefiningOp();
    if (def && def->hasTrait<OpTrait::ConstantLike>())
      constants.push_back(def);
    else if (isa<MemRefType>(v.getType()) || v.getType().isIntOrIndexOrFloat())
      passed.push_back(v);
    else
      return nest.emitOpError("expected memrefs and scalars from outside, got ")
             << v.getType();
  }
  // Counts but the first, which the grid's size bounds.
  for (unsigned d = 1; d < numParallel; ++d)
    passed.push_back(counts[d]);
  if (counter)
    passed.push_back(counter);

  SmallVector<Type> types;
  SmallVector<int64_t> alignments;
  for (Value v : passed) {
    types.push_back(v.getType());
    alignments.push_back(alignmentOf(v, nest));
  }
  std::string name =
      (f.getName() + "." + nest.getLabel().value_or("nest") + Twine(number))
          .str();
  auto schedule = f->getAttrOfType<ScheduleAttr>(kScheduleAttr);
  int64_t warps = schedule ? schedule.getNumWarps() : int64_t(numWarps);
  OpBuilder outside(f);
  outside.setInsertionPointAfter(f);
  auto kernel = KernelOp::create(
      outside, loc, name, b.getFunctionType(types, {}), ArrayAttr(),
      ArrayAttr(), warps ? warps : chooseWarps(nest, aligned, warpgroups),
      /*min_blocks=*/1, alignments);
  Block *body = &kernel.getBody().emplaceBlock();
  for (auto [v, type] : llvm::zip(passed, types))
    body->addArgument(type, namedLoc(v));

  b.setInsertionPointToStart(body);
  IRMapping map;
  for (Operation *c : constants)
    b.clone(*c, map);
  for (auto [v, arg] : llvm::zip_equal(passed, body->getArguments()))
    map.map(v, arg);
  // The last dim runs fastest. A grid has less than 2^31 CTAs, so that counts
  // and numbers divide as 32-bit integers, several times faster.
  auto narrow = [&](Value v) -> Value {
    return arith::IndexCastOp::create(b, b.getI32Type(), v);
  };
  Value cta;
  if (ordered) {
    auto scratch = AllocOp::create(
        b,
        SharedType::get(b.getContext(), {1}, b.getI32Type(), /*pitch=*/1,
                        /*stages=*/1, /*flipped=*/false, /*swizzle=*/0),
        IntegerAttr());
    cta = ClaimOp::create(b, b.getIndexType(), map.lookup(counter), scratch);
  } else {
    cta = BlockIdOp::create(b, b.getIndexType());
  }
  Value rest = numParallel > 1 ? narrow(cta) : Value();
  for (unsigned d = numParallel; d-- > 0;) {
    Value i = rest;
    if (d > 0) {
      Value n = narrow(map.lookup(counts[d]));
      i = arith::RemUIOp::create(b, rest, n);
      rest = arith::DivUIOp::create(b, rest, n);
    }
    i = i ? arith::IndexCastOp::create(b, b.getIndexType(), i).getResult()
          : cta;
    if (nest.getSteps()[d] != 1)
      i = arith::MulIOp::create(b, i, constant(b, nest.getSteps()[d]));
    nest.getIv(d).replaceAllUsesWith(i);
  }
  body->getOperations().splice(body->end(), nest.getBlock()->getOperations());
  for (Value v : captured)
    v.replaceUsesWithIf(map.lookup(v), [&](OpOperand &use) {
      return kernel->isProperAncestor(use.getOwner());
    });
  b.setInsertionPointToEnd(body);
  gpu::ReturnOp::create(b);
  bool deterministic = schedule && schedule.getDeterministic();
  if (failed(TileMapper(kernel, deterministic).run()))
    return failure();
  tidy(kernel);

  b.setInsertionPoint(nest);
  LaunchOp::create(b, FlatSymbolRefAttr::get(kernel), items, passed);
  nest.erase();
  return success();
}

} // namespace
