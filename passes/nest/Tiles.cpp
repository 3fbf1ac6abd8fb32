//===- Tiles.cpp - building and reading tiled nests -------------------------===//

#include "passes/nest/Tiles.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/Iterators.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Interfaces/ViewLikeInterface.h"
#include "mlir/Transforms/CSE.h"

#include <limits>

using namespace mlir;
using namespace fathom;

//===----------------------------------------------------------------------===//
// Builders
//===----------------------------------------------------------------------===//

Value TileBuilder::ceilDiv(Value a, int64_t b) {
  if (b == 1)
    return a;
  return make<arith::DivUIOp>(add(a, index(b - 1)), index(b));
}

Value TileBuilder::roundUp(Value a, int64_t b) {
  return mul(ceilDiv(a, b), index(b));
}

Value TileBuilder::constant(Type type, double v) {
  auto element = cast<FloatType>(getElementTypeOrSelf(type));
  bool lossy;
  APFloat f(v);
  f.convert(element.getFloatSemantics(), APFloat::rmNearestTiesToEven, &lossy);
  TypedAttr attr = FloatAttr::get(element, f);
  if (auto tile = dyn_cast<RankedTensorType>(type))
    attr = DenseElementsAttr::get(tile, cast<Attribute>(attr));
  return make<arith::ConstantOp>(attr);
}

Value TileBuilder::broadcast(Value v, int64_t dim, RankedTensorType type) {
  if (v.getType() == type)
    return v;
  return make<BroadcastOp>(type, v, dim);
}

Value TileBuilder::castTo(Value v, Type element) {
  Type from = getElementTypeOrSelf(v.getType());
  if (from == element)
    return v;
  Type to = element;
  if (auto tile = dyn_cast<RankedTensorType>(v.getType()))
    to = tile.clone(element);
  if (from.getIntOrFloatBitWidth() < element.getIntOrFloatBitWidth())
    return make<arith::ExtFOp>(to, v);
  return make<arith::TruncFOp>(to, v);
}

Value TileBuilder::transpose(Value t) {
  auto type = cast<RankedTensorType>(t.getType());
  return make<TransposeOp>(
      RankedTensorType::get({type.getDimSize(1), type.getDimSize(0)},
                            type.getElementType()),
      t);
}

Value TileBuilder::load(Value buffer, ValueRange indices, ValueRange limits,
                        ArrayRef<int64_t> shape) {
  Type element = cast<MemRefType>(buffer.getType()).getElementType();
  return make<LoadOp>(tileOf(shape, element), buffer, indices, limits);
}

void TileBuilder::store(Value tile, Value buffer, ValueRange indices,
                        ValueRange limits) {
  make<StoreOp>(tile, buffer, indices, limits);
}

Value TileBuilder::reduce(ReduceKind kind, Value tile, int64_t dim) {
  auto type = cast<RankedTensorType>(tile.getType());
  Type result = type.getElementType();
  if (type.getRank() == 2)
    result = tileOf({type.getDimSize(1 - dim)}, result);
  return make<ReduceOp>(result, kind, tile, dim);
}

Value TileBuilder::guard(Value x, double bad, double fill) {
  Value isBad = make<arith::CmpFOp>(arith::CmpFPredicate::OEQ, x,
                                    constant(x.getType(), bad));
  return make<arith::SelectOp>(isBad, constant(x.getType(), fill), x);
}

scf::ForOp
TileBuilder::loop(Value end, int64_t step, ValueRange init,
                  function_ref<SmallVector<Value>(Value, ValueRange)> body) {
  Value zero = index(0), s = index(step);
  auto f = make<scf::ForOp>(
      zero, end, s, init,
      [&](OpBuilder &b, Location l, Value iv, ValueRange carried) {
        OpBuilder::InsertionGuard g(*this);
        setInsertionPointToEnd(b.getInsertionBlock());
        SmallVector<Value> next = body(iv, carried);
        make<scf::YieldOp>(next);
      });
  return f;
}

MemRefType fathom::stridedType(ArrayRef<int64_t> shape, Type element) {
  SmallVector<int64_t> strides(shape.size(), ShapedType::kDynamic);
  return MemRefType::get(shape, element,
                         StridedLayoutAttr::get(element.getContext(),
                                                ShapedType::kDynamic, strides));
}

namespace {
/// A tile or scalar of the integer `n`.
Value integer(TileBuilder &b, Type type, int64_t n) {
  TypedAttr attr = b.getIntegerAttr(getElementTypeOrSelf(type), n);
  if (auto tile = dyn_cast<RankedTensorType>(type))
    attr = DenseElementsAttr::get(tile, Attribute(attr));
  return b.make<arith::ConstantOp>(attr);
}

/// Regions are stated for rows and keys that exist; tiles also hold others, at
/// which a divisor may be 0 and a division end the program. Clones the integer
/// division `op` so that what is divided by 0 gives 0.
Operation *cloneDivision(TileBuilder &b, Operation &op, IRMapping &map,
                         Type result) {
  APInt known;
  bool safe = matchPattern(op.getOperand(1), m_ConstantInt(&known)) &&
              !known.isZero() && !known.isAllOnes();
  if (safe) {
    Operation *clone = b.clone(op, map);
    clone->getResult(0).setType(result);
    return clone;
  }
  Value n = map.lookup(op.getOperand(0)), d = map.lookup(op.getOperand(1));
  auto equal = [&](Value v, int64_t to) -> Value {
    return b.make<arith::CmpIOp>(arith::CmpIPredicate::eq, v,
                                 integer(b, v.getType(), to));
  };
  Value isZero = equal(d, 0), bad = isZero;
  if (isa<arith::DivSIOp, arith::RemSIOp, arith::FloorDivSIOp,
          arith::CeilDivSIOp>(op)) {
    // The smallest number by -1 ends the program as well.
    Type element = getElementTypeOrSelf(n.getType());
    unsigned bits = element.isIndex() ? 64 : element.getIntOrFloatBitWidth();
    Value overflows =
        b.make<arith::AndIOp>(equal(d, -1), equal(n, llvm::minIntN(bits)));
    bad = b.make<arith::OrIOp>(bad, overflows);
  }
  map.map(op.getOperand(1),
          b.make<arith::SelectOp>(bad, integer(b, d.getType(), 1), d));
  Operation *clone = b.clone(op, map);
  clone->getResult(0).setType(result);
  return b.make<arith::SelectOp>(isZero, integer(b, result, 0),
                                 clone->getResult(0));
}
} // namespace

SmallVector<Value> fathom::inlineOnTiles(
    TileBuilder &b, Region &region, ValueRange args, ArrayRef<int64_t> shape,
    Value seqlenQ, Value seqlenK,
    function_ref<void(ContributeOp, Value, ValueRange)> contribute) {
  IRMapping map;
  map.map(region.getArguments(), args);
  auto tiled = [&](Type element) { return tileOf(shape, element); };
  for (Operation &op : region.front().without_terminator()) {
    if (isa<SeqlenQOp, SeqlenKOp>(op)) {
      map.map(op.getResult(0), isa<SeqlenQOp>(op) ? seqlenQ : seqlenK);
      continue;
    }
    SmallVector<Value> operands;
    for (Value o : op.getOperands())
      operands.push_back(map.lookup(o));
    if (auto c = dyn_cast<ContributeOp>(op)) {
      if (contribute)
        contribute(c, operands[0], ArrayRef<Value>(operands).drop_front(2));
      continue;
    }
    if (auto extract = dyn_cast<tensor::ExtractOp>(op)) {
      auto indices = ArrayRef<Value>(operands).drop_front();
      Type element = extract.getType();
      if (llvm::none_of(indices, isTile))
        map.map(extract.getResult(),
                b.make<memref::LoadOp>(operands[0], indices).getResult());
      else
        map.map(
            extract.getResult(),
            b.make<GatherOp>(tiled(element), operands[0], indices).getResult());
      continue;
    }
    if (isa<tensor::DimOp>(op)) {
      map.map(op.getResult(0),
              b.make<memref::DimOp>(operands[0], operands[1]).getResult());
      continue;
    }
    bool any = llvm::any_of(operands, isTile);
    IRMapping local;
    for (auto [from, to] : llvm::zip(op.getOperands(), operands))
      local.map(from, any ? b.broadcast(
                                to, 0,
                                tiled(to.getType().isIntOrIndexOrFloat()
                                          ? to.getType()
                                          : getElementTypeOrSelf(to.getType())))
                          : to);
    if (isa<arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp,
            arith::FloorDivSIOp, arith::CeilDivSIOp, arith::CeilDivUIOp>(op)) {
      Type type = op.getResult(0).getType();
      Operation *division =
          cloneDivision(b, op, local, any ? Type(tiled(type)) : type);
      map.map(op.getResult(0), division->getResult(0));
      continue;
    }
    Operation *clone = b.clone(op, local);
    for (auto [from, to] : llvm::zip(op.getResults(), clone->getResults())) {
      if (any)
        to.setType(tiled(from.getType()));
      map.map(from, to);
    }
  }
  SmallVector<Value> results;
  for (Value v : region.front().back().getOperands())
    results.push_back(map.lookup(v));
  return results;
}

//===----------------------------------------------------------------------===//
// Matchers
//===----------------------------------------------------------------------===//

std::optional<double> fathom::floatConstant(Value v) {
  Attribute attr;
  if (!matchPattern(v, m_Constant(&attr)))
    return std::nullopt;
  if (auto dense = dyn_cast<DenseElementsAttr>(attr)) {
    if (!dense.isSplat() || !isa<FloatType>(dense.getElementType()))
      return std::nullopt;
    return dense.getSplatValue<FloatAttr>().getValueAsDouble();
  }
  if (auto f = dyn_cast<FloatAttr>(attr))
    return f.getValueAsDouble();
  return std::nullopt;
}

Value fathom::matchGuard(Value v, double bad, double fill) {
  auto select = v.getDefiningOp<arith::SelectOp>();
  if (!select)
    return {};
  auto cmp = select.getCondition().getDefiningOp<arith::CmpFOp>();
  if (!cmp)
    return {};
  bool equal = cmp.getPredicate() == arith::CmpFPredicate::OEQ;
  if (!equal && cmp.getPredicate() != arith::CmpFPredicate::UNE)
    return {};
  Value onBad = equal ? select.getTrueValue() : select.getFalseValue();
  Value x = equal ? select.getFalseValue() : select.getTrueValue();
  Value other = cmp.getLhs() == x ? cmp.getRhs() : cmp.getLhs();
  if (cmp.getLhs() != x && cmp.getRhs() != x)
    return {};
  auto b = floatConstant(other), f = floatConstant(onBad);
  if (!b || !f || *b != bad || *f != fill)
    return {};
  return x;
}

Value fathom::matchRowBroadcast(Value v, int64_t dim) {
  auto b = v.getDefiningOp<BroadcastOp>();
  if (!b || (int64_t)b.getDim() != dim ||
      !isa<RankedTensorType>(b.getSource().getType()))
    return {};
  return b.getSource();
}

Value fathom::stripCasts(Value v) {
  while (auto *op = v.getDefiningOp()) {
    if (!isa<arith::ExtFOp, arith::TruncFOp>(op))
      break;
    v = op->getOperand(0);
  }
  return v;
}

StoreOp fathom::onlyStore(Value buffer) {
  StoreOp found;
  for (Operation *user : buffer.getUsers()) {
    if (isa<AccumulateOp, ScatterAddOp>(user))
      return {};
    if (auto s = dyn_cast<StoreOp>(user)) {
      if (found)
        return {};
      found = s;
    }
  }
  return found;
}

SmallVector<LoadOp> fathom::loadsOf(Value buffer) {
  SmallVector<LoadOp> loads;
  for (Operation *user : buffer.getUsers())
    if (auto l = dyn_cast<LoadOp>(user))
      loads.push_back(l);
  // Users come in reverse order of creation; program order reads better.
  std::reverse(loads.begin(), loads.end());
  return loads;
}

bool fathom::sameValue(Value a, const IRMapping &mapA, Value b,
                       const IRMapping &mapB) {
  a = mapA.lookupOrDefault(a);
  b = mapB.lookupOrDefault(b);
  if (a == b)
    return true;
  auto ra = dyn_cast<OpResult>(a), rb = dyn_cast<OpResult>(b);
  if (!ra || !rb || ra.getResultNumber() != rb.getResultNumber())
    return false;
  Operation *oa = ra.getOwner(), *ob = rb.getOwner();
  auto repeatable = [](Operation *op) {
    return !op->getNumRegions() && (isMemoryEffectFree(op) ||
                                    isa<memref::LoadOp, LoadOp, GatherOp>(op));
  };
  if (!repeatable(oa) || !repeatable(ob))
    return false;
  return OperationEquivalence::isEquivalentTo(
      oa, ob,
      [&](Value x, Value y) { return success(sameValue(x, mapA, y, mapB)); },
      /*markEquivalent=*/nullptr, OperationEquivalence::IgnoreLocations);
}

bool fathom::sameValues(ValueRange a, const IRMapping &mapA, ValueRange b,
                        const IRMapping &mapB) {
  return a.size() == b.size() && llvm::all_of(llvm::zip(a, b), [&](auto pair) {
           return sameValue(std::get<0>(pair), mapA, std::get<1>(pair), mapB);
         });
}

Value fathom::rootOf(Value v) {
  while (Operation *def = v.getDefiningOp()) {
    if (auto transpose = dyn_cast<memref::TransposeOp>(def))
      v = transpose.getIn();
    else if (auto view = dyn_cast<ViewLikeOpInterface>(def))
      v = view.getViewSource();
    else
      break;
  }
  return v;
}

Access fathom::accessOf(Operation *op) {
  Access access;
  op->walk([&](Operation *inner) {
    auto effects = dyn_cast<MemoryEffectOpInterface>(inner);
    if (!effects)
      return;
    SmallVector<MemoryEffects::EffectInstance> all;
    effects.getEffects(all);
    for (const auto &e : all) {
      if (!e.getValue())
        continue;
      if (isa<MemoryEffects::Read>(e.getEffect()))
        access.reads.insert(rootOf(e.getValue()));
      else if (isa<MemoryEffects::Write>(e.getEffect()))
        access.writes.insert(rootOf(e.getValue()));
    }
  });
  return access;
}

bool fathom::independent(const Access &a, const Access &b) {
  auto meet = [](const SetVector<Value> &x, const SetVector<Value> &y) {
    return llvm::any_of(x, [&](Value v) { return y.contains(v); });
  };
  return !meet(a.writes, b.reads) && !meet(a.writes, b.writes) &&
         !meet(a.reads, b.writes);
}

bool fathom::mayMoveTo(Operation *op, Operation *to) {
  Access own = accessOf(op);
  bool down = op->isBeforeInBlock(to);
  auto next = [&](Operation *o) {
    return down ? o->getNextNode() : o->getPrevNode();
  };
  for (Operation *other = next(op); other; other = next(other)) {
    if (!independent(own, accessOf(other)))
      return false;
    if (other == to)
      return true;
  }
  return false;
}

bool fathom::isWrittenIn(Operation *scope, Value buffer) {
  return accessOf(scope).writes.contains(rootOf(buffer));
}

bool fathom::isMultiple(Value v, int64_t n) {
  if (auto c = getConstantIntValue(OpFoldResult(v)))
    return *c % n == 0;
  if (auto arg = dyn_cast<BlockArgument>(v)) {
    Operation *parent = arg.getOwner()->getParentOp();
    if (auto nest = dyn_cast_or_null<NestOp>(parent))
      return nest.getSteps()[arg.getArgNumber()] % n == 0;
    auto loop = dyn_cast_or_null<scf::ForOp>(parent);
    return loop && loop.getInductionVar() == arg &&
           isMultiple(loop.getLowerBound(), n) && isMultiple(loop.getStep(), n);
  }
  auto mul = v.getDefiningOp<arith::MulIOp>();
  return mul && (isMultiple(mul.getLhs(), n) || isMultiple(mul.getRhs(), n));
}

bool fathom::isWhole(LoadOp load) {
  auto type = load.getTile().getType();
  for (int64_t d = 0, rank = type.getRank(); d < rank; ++d)
    if (!isMultiple(load.getLimits()[d], type.getDimSize(d)) ||
        !isMultiple(load.getIndices().take_back(rank)[d], type.getDimSize(d)))
      return false;
  return true;
}

bool fathom::coversHeads(Value kvHeads, int64_t group, Value heads) {
  if (group == 1)
    return sameValue(heads, {}, kvHeads, {});
  auto [all, size] = matchBinary<arith::DivUIOp>(kvHeads);
  return all && getConstantIntValue(OpFoldResult(size)) == group &&
         sameValue(all, {}, heads, {});
}

bool fathom::dependsOn(Value v, Value iv) {
  if (v == iv)
    return true;
  Operation *def = v.getDefiningOp();
  return def && llvm::any_of(def->getOperands(),
                             [&](Value o) { return dependsOn(o, iv); });
}

bool fathom::maskEndsAt(Value mask, Value iv, Value end, const IRMapping &map) {
  if (auto [a, b] = matchBinary<arith::AndIOp>(mask); a)
    return maskEndsAt(a, iv, end, map) || maskEndsAt(b, iv, end, map);
  auto cmp = mask.getDefiningOp<arith::CmpIOp>();
  if (!cmp || cmp.getPredicate() != arith::CmpIPredicate::slt)
    return false;
  auto place = cmp.getLhs().getDefiningOp<BroadcastOp>();
  auto iota = place ? place.getSource().getDefiningOp<IotaOp>() : IotaOp();
  auto limit = cmp.getRhs().getDefiningOp<BroadcastOp>();
  return iota && limit && iota.getStart() == iv &&
         sameValue(limit.getSource(), map, end, map);
}

scf::ForOp fathom::onlyLoop(NestOp nest) {
  auto loops = llvm::to_vector(nest.getBlock()->getOps<scf::ForOp>());
  return loops.size() == 1 ? loops[0] : scf::ForOp();
}

SmallVector<NestOp> fathom::backwardNests(func::FuncOp func) {
  SmallVector<NestOp> nests;
  bool after = false;
  for (Operation &op : func.getOps()) {
    after |= isa<ForwardEndOp>(op);
    if (auto nest = dyn_cast<NestOp>(op); nest && after)
      nests.push_back(nest);
  }
  return nests;
}

/// True if `op` stands in a later op of the nest's block.
static bool isAfterNest(Operation *op, NestOp nest) {
  Operation *top = nest->getBlock()->findAncestorOpInBlock(*op);
  return top && nest->isBeforeInBlock(top);
}

std::optional<Softmax> fathom::matchSoftmax(func::FuncOp func,
                                            memref::AllocOp buffer) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  Softmax s;
  // The float store; beside it there may be a store of codes made from it.
  s.p = onlyStore(buffer);
  if (!s.p)
    return std::nullopt;
  s.nest = dyn_cast<NestOp>(s.p->getParentOp());
  s.div = stripCasts(s.p.getTile()).getDefiningOp<arith::DivFOp>();
  if (!s.nest || !s.div)
    return std::nullopt;
  auto exp = s.div.getLhs().getDefiningOp<math::ExpOp>();
  auto sub =
      exp ? exp.getOperand().getDefiningOp<arith::SubFOp>() : arith::SubFOp();
  Value mRow = sub ? matchRowBroadcast(sub.getRhs(), 0) : Value();
  Value lRow = matchRowBroadcast(s.div.getRhs(), 0);
  if (!mRow || !lRow)
    return std::nullopt;
  Value m = matchGuard(mRow, -inf, 0), l = matchGuard(lRow, 0, 1);
  s.m = m ? m.getDefiningOp<LoadOp>() : LoadOp();
  s.l = l ? l.getDefiningOp<LoadOp>() : LoadOp();
  if (!s.m || !s.l)
    return std::nullopt;
  s.x = sub.getLhs();
  // L = m + log l, of the same rows of the same buffers.
  for (LoadOp load : loadsOf(s.m.getBuffer())) {
    for (Operation *user : load->getUsers()) {
      auto add = dyn_cast<arith::AddFOp>(user);
      if (!add || !add->hasOneUse())
        continue;
      Value other =
          add.getLhs() == load.getTile() ? add.getRhs() : add.getLhs();
      auto log = other.getDefiningOp<math::LogOp>();
      auto sum = log ? log.getOperand().getDefiningOp<LoadOp>() : LoadOp();
      auto store = dyn_cast<StoreOp>(*add->user_begin());
      if (!sum || !store || sum.getBuffer() != s.l.getBuffer() ||
          !sameValues(sum.getIndices(), load.getIndices()) ||
          !sameValues(s.m.getIndices(), s.l.getIndices()))
        continue;
      // L is written once, for the rows that P has, before anyone reads it.
      auto lseNest = dyn_cast<NestOp>(store->getParentOp());
      size_t rows = lseNest ? lseNest.getBounds().size() : 0;
      if (!lseNest || load->getParentOp() != lseNest ||
          onlyStore(store.getBuffer()) != store ||
          rows > s.nest.getBounds().size() ||
          !sameValues(lseNest.getBounds(),
                      s.nest.getBounds().take_front(rows)) ||
          lseNest.getSteps() != s.nest.getSteps().take_front(rows) ||
          llvm::any_of(loadsOf(store.getBuffer()),
                       [&](LoadOp l) { return !isAfterNest(l, lseNest); }))
        continue;
      s.lse = store;
      s.lseM = load;
      return s;
    }
  }
  return std::nullopt;
}

Value fathom::loadLse(TileBuilder &b, const Softmax &s, const IRMapping &map) {
  // The rows of m tie the dims of L's nest to those of P's.
  IRMapping rows;
  for (auto [from, to] : llvm::zip(const_cast<LoadOp &>(s.lseM).getIndices(),
                                   const_cast<LoadOp &>(s.m).getIndices()))
    rows.map(from, map.lookupOrDefault(to));
  SmallVector<Value> indices, limits;
  StoreOp lse = s.lse;
  for (Value i : lse.getIndices())
    indices.push_back(cloneSlice(b, i, rows));
  for (Value l : lse.getLimits())
    limits.push_back(cloneSlice(b, l, rows));
  return b.load(lse.getBuffer(), indices, limits,
                cast<RankedTensorType>(lse.getTile().getType()).getShape());
}

//===----------------------------------------------------------------------===//
// Moving work
//===----------------------------------------------------------------------===//

namespace {
/// True if `v` takes the values 0, step, 2*step, ...: a nest dim or a loop
/// variable of that step from 0.
bool isBlockIndex(Value v, int64_t step) {
  auto arg = dyn_cast<BlockArgument>(v);
  if (!arg)
    return false;
  Operation *parent = arg.getOwner()->getParentOp();
  if (auto nest = dyn_cast<NestOp>(parent))
    return nest.getSteps()[arg.getArgNumber()] == step;
  auto loop = dyn_cast<scf::ForOp>(parent);
  // Bounds that were tightened start at a multiple of the step as well; the
  // pass that does so keeps that, and runs after every user of this test.
  return loop && arg == loop.getInductionVar() &&
         getConstantIntValue(OpFoldResult(loop.getStep())) == step &&
         getConstantIntValue(OpFoldResult(loop.getLowerBound())) == 0;
}

/// True if the op may be computed again elsewhere: no effect, or a read of a
/// buffer that nothing writes at or after `nest`.
bool canRecompute(Operation *op, NestOp nest) {
  if (op->getNumRegions())
    return false;
  if (isMemoryEffectFree(op))
    return true;
  Value buffer;
  if (auto l = dyn_cast<LoadOp>(op))
    buffer = l.getBuffer();
  else if (auto g = dyn_cast<GatherOp>(op))
    buffer = g.getBuffer();
  else if (auto m = dyn_cast<memref::LoadOp>(op))
    buffer = m.getMemRef();
  else
    return false;
  for (Operation *user : buffer.getUsers()) {
    Operation *writer = nest->getBlock()->findAncestorOpInBlock(*user);
    if (isWrittenIn(user, buffer) &&
        (!writer || !writer->isBeforeInBlock(nest)))
      return false;
  }
  return true;
}

/// Collects in program order the ops of `nest`'s block that `v` needs.
/// Fails on a value from inside a loop or on an op that can't be repeated.
LogicalResult collectSlice(Value v, NestOp nest, SetVector<Operation *> &slice,
                           std::string &why) {
  Operation *def = v.getDefiningOp();
  if (!def)
    return success();
  if (!nest->isProperAncestor(def) || slice.contains(def))
    return success();
  if (def->getBlock() != nest.getBlock() || !canRecompute(def, nest)) {
    why = ("its nest needs " + def->getName().getStringRef() +
           ", which can't be repeated")
              .str();
    return failure();
  }
  for (Value o : def->getOperands())
    if (failed(collectSlice(o, nest, slice, why)))
      return failure();
  slice.insert(def);
  return success();
}
} // namespace

std::optional<Producer> fathom::findProducer(LoadOp load, std::string &why) {
  if (!load.getBuffer().getDefiningOp<memref::AllocOp>())
    return why = "its buffer is not local", std::nullopt;
  StoreOp store = onlyStore(load.getBuffer());
  if (!store)
    return why = "its buffer is not written by exactly one fa.store",
           std::nullopt;
  auto nest = dyn_cast<NestOp>(store->getParentOp());
  if (!nest)
    return why = "its store stands inside a loop", std::nullopt;
  auto consumer = load->getParentOfType<NestOp>();
  if (consumer == nest || !nest->isBeforeInBlock(consumer))
    return why = "its store does not come before", std::nullopt;
  if (store.getTile().getType() != load.getTile().getType())
    return why = "it reads another tile shape than was stored", std::nullopt;
  if (!sameValues(store.getLimits(), load.getLimits()))
    return why = "it reads below other limits than were stored", std::nullopt;
  // Past a limit the load reads zero, and the tile computed again may not.
  if (!isWhole(load))
    return why = "its tile may reach past a limit", std::nullopt;
  llvm::SmallDenseSet<Value> seen;
  for (auto [to, from] : llvm::zip(store.getIndices(), load.getIndices())) {
    if (getConstantIntValue(OpFoldResult(to)) && sameValues(to, from))
      continue;
    auto arg = dyn_cast<BlockArgument>(to);
    if (!arg || arg.getOwner() != nest.getBlock() || !seen.insert(arg).second)
      return why = "it is stored at indices that are not the dims of its nest",
             std::nullopt;
    int64_t step = nest.getSteps()[arg.getArgNumber()];
    if (step != 1 && !isBlockIndex(from, step))
      return why = "it is read at an index that is not a whole block",
             std::nullopt;
  }
  SetVector<Operation *> slice;
  if (failed(collectSlice(store.getTile(), nest, slice, why)))
    return std::nullopt;
  return Producer{nest, store};
}

Value fathom::cloneSlice(TileBuilder &b, Value v, IRMapping &map) {
  if (Value done = map.lookupOrNull(v))
    return done;
  Operation *def = v.getDefiningOp();
  // Function level values are visible everywhere.
  if (!def || !def->getParentOfType<NestOp>())
    return v;
  for (Value o : def->getOperands())
    cloneSlice(b, o, map);
  b.clone(*def, map);
  return map.lookup(v);
}

bool fathom::recomputeLoad(LoadOp load, function_ref<bool(LoadOp)> again) {
  std::string why;
  auto producer = findProducer(load, why);
  if (!producer)
    return false;
  TileBuilder b(OpBuilder(load), load.getLoc());
  IRMapping map;
  for (auto [to, from] :
       llvm::zip(producer->store.getIndices(), load.getIndices()))
    if (isa<BlockArgument>(to))
      map.map(to, from);
  Operation *before = load->getPrevNode();
  Value v = cloneSlice(b, producer->store.getTile(), map);
  load.getTile().replaceAllUsesWith(v);
  // The clone may have brought loads that shall be recomputed as well.
  SmallVector<LoadOp> nested;
  for (Operation *op = before ? before->getNextNode()
                              : &load->getBlock()->front();
       op != load; op = op->getNextNode())
    if (auto l = dyn_cast<LoadOp>(op); l && again(l))
      nested.push_back(l);
  load.erase();
  for (LoadOp l : nested)
    recomputeLoad(l, again);
  return true;
}

void fathom::eraseDead(func::FuncOp func) {
  bool changed = true;
  while (changed) {
    changed = false;
    // Stores to a local buffer that nobody reads.
    for (auto alloc :
         llvm::make_early_inc_range(func.getOps<memref::AllocOp>())) {
      bool onlyWritten = llvm::all_of(alloc->getUsers(), [&](Operation *u) {
        if (auto s = dyn_cast<StoreOp>(u))
          return s.getBuffer() == alloc.getResult();
        if (auto a = dyn_cast<AccumulateOp>(u))
          return a.getBuffer() == alloc.getResult() &&
                 a.getMode() != AccumulateMode::ordered;
        return false;
      });
      if (!onlyWritten)
        continue;
      for (Operation *u : llvm::make_early_inc_range(alloc->getUsers()))
        u->erase();
      alloc.erase();
      changed = true;
    }
    // Ops without use or effect, last first, loops and nests included.
    func.walk<WalkOrder::PostOrder, mlir::ReverseIterator>([&](Operation *op) {
      if (op == func || op->hasTrait<OpTrait::IsTerminator>())
        return;
      if (auto nest = dyn_cast<NestOp>(op)) {
        if (nest.getBlock()->empty() || isMemoryEffectFree(nest) ||
            llvm::all_of(*nest.getBlock(),
                         [](Operation &o) { return isOpTriviallyDead(&o); })) {
          nest.erase();
          changed = true;
        }
        return;
      }
      if (op->use_empty() && (isOpTriviallyDead(op) ||
                              isa<LoadOp, GatherOp, memref::LoadOp>(op))) {
        op->erase();
        changed = true;
      }
    });
  }
}

namespace {
void hoistFrom(scf::ForOp loop) {
  for (Operation &op :
       llvm::make_early_inc_range(loop.getBody()->without_terminator())) {
    if (op.getNumRegions() || llvm::any_of(op.getOperands(), [&](Value v) {
          return !loop.isDefinedOutsideOfLoop(v);
        }))
      continue;
    Value buffer;
    if (auto l = dyn_cast<LoadOp>(op))
      buffer = l.getBuffer();
    else if (auto g = dyn_cast<GatherOp>(op);
             g && g.getResult().getType().getRank() == 1)
      buffer = g.getBuffer();
    else if (auto m = dyn_cast<memref::LoadOp>(op))
      buffer = m.getMemRef();
    else if (!isMemoryEffectFree(&op))
      continue;
    // memref.load may not be moved to where it could run out of bounds.
    if (buffer && (isWrittenIn(loop, buffer) || isa<memref::LoadOp>(op)))
      continue;
    op.moveBefore(loop);
  }
}
/// (x * c + g) / c is x where g is a loop variable below c: the KV head of a
/// query head of its own group.
void foldGroupDivisions(NestOp nest) {
  nest->walk([](arith::DivUIOp div) {
    auto c = getConstantIntValue(OpFoldResult(div.getRhs()));
    auto [product, g] = matchBinary<arith::AddIOp>(div.getLhs());
    if (!c || !product)
      return;
    if (!product.getDefiningOp<arith::MulIOp>())
      std::swap(product, g);
    auto loop = dyn_cast_or_null<scf::ForOp>(g.getParentBlock()->getParentOp());
    auto [x, factor] = matchBinary<arith::MulIOp>(product);
    if (!x || !loop || g != loop.getInductionVar() ||
        getConstantIntValue(OpFoldResult(loop.getLowerBound())) != 0 ||
        getConstantIntValue(OpFoldResult(loop.getUpperBound())) != c)
      return;
    if (getConstantIntValue(OpFoldResult(x)) == c)
      std::swap(x, factor);
    if (getConstantIntValue(OpFoldResult(factor)) == c)
      div.replaceAllUsesWith(x);
  });
}
} // namespace

void fathom::tidyNests(func::FuncOp func) {
  eraseDead(func);
  IRRewriter rewriter(func.getContext());
  for (auto nest : func.getOps<NestOp>()) {
    foldGroupDivisions(nest);
    for (int round = 0; round < 2; ++round) {
      nest->walk([](scf::ForOp loop) { hoistFrom(loop); });
      DominanceInfo dom(func);
      eliminateCommonSubExpressions(rewriter, dom, nest);
    }
  }
  eraseDead(func);
}
