//===- PlaceDQAccumulation.cpp - fa-place-dq-accumulation -------------------===//
//
// A nest that adds into the same rows of a buffer from every key block runs
// its key blocks one after the other. This pass lets them run at the same
// time. How the additions meet is a policy: atomic, ordered (by turn, so the
// result is deterministic), split (a buffer for each part of the keys, summed
// in order), or a second nest that computes the sums again, query blocks
// outermost.
//
// A nest that adds into an output of its own (the gradient of a captured
// operand) and has only batch and head as further dims gets a partial result
// for each of them, summed in order: under every policy, since it costs
// nothing and is deterministic.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/nest/Tiles.h"

#include <functional>

using namespace mlir;
using namespace fathom;

namespace fathom {
#define GEN_PASS_DEF_PLACEDQACCUMULATIONPASS
#include "passes/Passes.h.inc"
} // namespace fathom

namespace {
constexpr StringLiteral kName = "fa-place-dq-accumulation";

/// parallel(b, hk) sequential(j) { [for g] { for i { add to [b, h, i, 0] } } }
/// with h = hk, or hk * group + g: key blocks that meet only in `add`, each
/// adding once to every row block.
struct Meeting {
  NestOp nest;
  unsigned dim = 2;
  AccumulateOp add;
  scf::ForOp rows;
  Value g; // the group loop's variable, if there is one
  int64_t group = 1;
};

bool isConstant(Value v, int64_t c) {
  return getConstantIntValue(OpFoldResult(v)) == c;
}

/// True if v is iv, or iv plus something that does not depend on it.
bool isOffsetOf(Value v, Value iv) {
  auto [a, b] = matchBinary<arith::AddIOp>(v);
  return v == iv || (a == iv && !dependsOn(b, iv)) ||
         (b == iv && !dependsOn(a, iv));
}

/// True if different key blocks store to different rows.
bool storesOwnRows(StoreOp store, Value iv, int64_t step) {
  auto tile = cast<RankedTensorType>(store.getTile().getType());
  int64_t rank = store.getIndices().size(), first = rank - tile.getRank();
  for (int64_t d = 0; d < rank; ++d)
    if (isOffsetOf(store.getIndices()[d], iv) &&
        (d < first || tile.getDimSize(d - first) <= step))
      return true;
  return false;
}

std::optional<Meeting> matchMeeting(NestOp nest, std::string &why) {
  if (nest.getNumParallel() != 2 || nest.getNumDims() != 3)
    return std::nullopt;
  Meeting m;
  m.nest = nest;
  Value iv = nest.getIv(m.dim);
  bool one = true, own = true;
  nest->walk([&](Operation *op) {
    if (auto add = dyn_cast<AccumulateOp>(op)) {
      one &= !m.add && add.getMode() == AccumulateMode::plain;
      m.add = add;
    } else if (auto s = dyn_cast<StoreOp>(op)) {
      own &= storesOwnRows(s, iv, nest.getSteps()[m.dim]);
    } else if (isa<ScatterAddOp>(op)) {
      one = false;
    }
  });
  if (!m.add)
    return std::nullopt;
  if (!one || !own)
    return why = "its key blocks meet in more than one addition of rows",
           std::nullopt;
  // What one key block writes, another must not read.
  Access access = accessOf(nest);
  WalkResult clash = nest->walk([&](Operation *op) {
    bool reads = isa<LoadOp, GatherOp, memref::LoadOp>(op);
    return reads && access.writes.contains(op->getOperand(0))
               ? WalkResult::interrupt()
               : WalkResult::advance();
  });
  if (clash.wasInterrupted())
    return why = "it reads a buffer that it writes", std::nullopt;
  // Where it adds.
  m.rows = dyn_cast<scf::ForOp>(m.add->getParentOp());
  auto idx = m.add.getIndices();
  auto tile = cast<RankedTensorType>(m.add.getTile().getType());
  why = "it does not add once to [b, h, i] for every row block i";
  if (!m.rows || idx.size() != 4 || tile.getRank() != 2 ||
      idx[0] != nest.getIv(0) || idx[2] != m.rows.getInductionVar() ||
      !isConstant(idx[3], 0) || !isConstant(m.rows.getLowerBound(), 0) ||
      !isConstant(m.rows.getStep(), tile.getDimSize(0)) ||
      dependsOn(m.rows.getUpperBound(), iv))
    return std::nullopt;
  if (m.rows->getParentOp() != nest) {
    auto loop = dyn_cast<scf::ForOp>(m.rows->getParentOp());
    auto group = loop ? getConstantIntValue(OpFoldResult(loop.getUpperBound()))
                      : std::nullopt;
    auto [product, g] = matchBinary<arith::AddIOp>(idx[1]);
    if (loop && product == loop.getInductionVar())
      std::swap(product, g);
    auto [hk, size] = matchBinary<arith::MulIOp>(product);
    if (size == nest.getIv(1))
      std::swap(hk, size);
    if (!group || loop->getParentOp() != nest ||
        !isConstant(loop.getLowerBound(), 0) ||
        !isConstant(loop.getStep(), 1) || g != loop.getInductionVar() ||
        hk != nest.getIv(1) || !size || !isConstant(size, *group))
      return std::nullopt;
    m.g = g;
    m.group = *group;
  } else if (idx[1] != nest.getIv(1)) {
    return std::nullopt;
  }
  // What it adds follows from where it adds and from outside of the nest.
  std::function<bool(Value)> follows = [&](Value v) {
    if (llvm::is_contained(nest.getBlock()->getArguments(), v) ||
        v == m.rows.getInductionVar() || v == m.g ||
        !nest.getBody().isAncestor(v.getParentRegion()))
      return true;
    Operation *def = v.getDefiningOp();
    return def && !def->getNumRegions() &&
           llvm::all_of(def->getOperands(), follows);
  };
  if (!follows(m.add.getTile()) ||
      llvm::any_of(m.add.getLimits(), [&](Value v) {
        return nest.getBody().isAncestor(v.getParentRegion());
      }))
    return why = "what it adds depends on earlier additions", std::nullopt;
  why.clear();
  return m;
}

/// The nests that zero and read the accumulated buffer, around the one that
/// adds: over all (b, h, i).
struct Buffer {
  memref::AllocOp alloc;
  StoreOp zero;
  LoadOp read;
};

std::optional<Buffer> matchBuffer(Meeting &m, std::string &why) {
  Buffer b;
  Value buffer = m.add.getBuffer();
  b.alloc = buffer.getDefiningOp<memref::AllocOp>();
  bool ok = (bool)b.alloc;
  for (Operation *user : buffer.getUsers()) {
    if (auto s = dyn_cast<StoreOp>(user)) {
      ok &= !b.zero;
      b.zero = s;
    } else if (auto l = dyn_cast<LoadOp>(user)) {
      ok &= !b.read;
      b.read = l;
    } else {
      ok &= user == m.add;
    }
  }
  why = "its sums are not zeroed by a nest before it and read by one after it";
  if (!ok || !b.zero || !b.read || floatConstant(b.zero.getTile()) != 0.0)
    return std::nullopt;
  auto zeroNest = dyn_cast<NestOp>(b.zero->getParentOp());
  auto readNest = dyn_cast<NestOp>(b.read->getParentOp());
  // [b, h, i, channel], of which only the channels are static.
  auto type = cast<MemRefType>(buffer.getType());
  int64_t bm = cast<RankedTensorType>(m.add.getTile().getType()).getDimSize(0);
  if (type.getRank() != 4 || b.alloc.getDynamicSizes().size() != 3 ||
      type.isDynamicDim(3))
    return std::nullopt;
  if (!zeroNest || !readNest || zeroNest->getBlock() != m.nest->getBlock() ||
      readNest->getBlock() != m.nest->getBlock() ||
      !zeroNest->isBeforeInBlock(m.nest) ||
      !m.nest->isBeforeInBlock(readNest) || zeroNest.getNumDims() != 3 ||
      zeroNest.getSteps()[2] != bm ||
      !llvm::hasSingleElement(zeroNest.getBlock()->getOps<StoreOp>()))
    return std::nullopt;
  if (!coversHeads(m.nest.getBounds()[1], m.group, zeroNest.getBounds()[1]) ||
      !sameValue(zeroNest.getBounds()[0], {}, m.nest.getBounds()[0], {}))
    return std::nullopt;
  why.clear();
  return b;
}

struct PlaceDQAccumulationPass
    : public fathom::impl::PlaceDQAccumulationPassBase<
          PlaceDQAccumulationPass> {
  using PlaceDQAccumulationPassBase::PlaceDQAccumulationPassBase;

  void runOnOperation() override {
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      auto schedule = func->getAttrOfType<ScheduleAttr>(kScheduleAttr);
      if (!schedule)
        continue;
      bool any = false;
      for (auto nest : llvm::make_early_inc_range(func.getOps<NestOp>())) {
        std::string why;
        auto m = matchMeeting(nest, why);
        auto buffer = m ? matchBuffer(*m, why) : std::nullopt;
        if (!buffer) {
          if (!why.empty())
            missed(nest, kName, why);
          continue;
        }
        any = true;
        place(func, *m, *buffer, schedule);
      }
      if (!any)
        missed(func, kName,
               "no nest adds into the same rows from several key blocks");
      for (auto nest : llvm::make_early_inc_range(func.getOps<NestOp>()))
        if (schedule.getDq() != DQPolicy::sequential)
          makePartial(nest);
      tidyNests(func);
    }
  }

  void place(func::FuncOp func, Meeting &m, Buffer &buffer,
             ScheduleAttr schedule) {
    switch (schedule.getDq()) {
    case DQPolicy::sequential:
      missed(m.nest, kName,
             "the schedule keeps key blocks in order: dq = sequential");
      return;
    case DQPolicy::atomic:
      m.add.setMode(AccumulateMode::atomic);
      m.nest.setNumParallel(m.nest.getNumDims());
      break;
    case DQPolicy::ordered:
      makeOrdered(m);
      break;
    case DQPolicy::split:
      makeSplit(m, buffer, schedule.getDqSplits());
      break;
    case DQPolicy::two_kernel:
      if (!addsNothingPast(m, buffer))
        return missed(m.nest, kName,
                      "rows past the end of its loop may not be zero");
      makeTwoKernel(m, buffer);
      break;
    }
    passed(m.nest, kName,
           "key blocks run in parallel: dq = " +
               stringifyDQPolicy(schedule.getDq()));
  }

  static int64_t blockM(Meeting &m) {
    return cast<RankedTensorType>(m.add.getTile().getType()).getDimSize(0);
  }

  //===--------------------------------------------------------------------===//
  // ordered
  //===--------------------------------------------------------------------===//

  /// One ticket per (b, h, i block); key block n adds at turn n.
  void makeOrdered(Meeting &m) {
    int64_t bm = blockM(m), bn = m.nest.getSteps()[m.dim];
    auto alloc = m.add.getBuffer().getDefiningOp<memref::AllocOp>();
    OpBuilder after(alloc);
    after.setInsertionPointAfter(alloc);
    TileBuilder b(after, m.nest.getLoc());
    SmallVector<Value> sizes(alloc.getDynamicSizes());
    sizes[2] = b.ceilDiv(sizes[2], bm);
    int64_t dyn = ShapedType::kDynamic;
    Value tickets = b.make<memref::AllocOp>(
        MemRefType::get({dyn, dyn, dyn}, b.getI32Type()), sizes);
    b.make<NestOp>("zero", sizes, ArrayRef<int64_t>{1, 1, 64}, 3,
                   [&](OpBuilder &inner, Location l, ValueRange iv) {
                     TileBuilder t(inner, l);
                     auto type = tileOf({64}, t.getI32Type());
                     Value none =
                         t.make<arith::ConstantOp>(DenseElementsAttr::get(
                             type, t.getI32IntegerAttr(0).getValue()));
                     t.store(none, tickets, iv, {sizes[2]});
                   });
    TileBuilder at(OpBuilder(m.add), m.add.getLoc());
    Value turn = at.make<arith::DivUIOp>(m.nest.getIv(m.dim), at.index(bn));
    auto idx = m.add.getIndices();
    Value block = at.make<arith::DivUIOp>(idx[2], at.index(bm));
    at.make<AccumulateOp>(AccumulateMode::ordered, m.add.getTile(),
                          m.add.getBuffer(), idx, m.add.getLimits(), turn,
                          tickets, ValueRange{idx[0], idx[1], block});
    m.add.erase();
    m.nest.setNumParallel(m.nest.getNumDims());
  }

  //===--------------------------------------------------------------------===//
  // split
  //===--------------------------------------------------------------------===//

  /// Part s of the keys adds into its own buffer; readers sum the parts.
  void makeSplit(Meeting &m, Buffer &buffer, int64_t splits) {
    int64_t bn = m.nest.getSteps()[m.dim];
    auto old = buffer.alloc;
    TileBuilder b(OpBuilder(old), old.getLoc());
    auto type = old.getType();
    SmallVector<int64_t> shape{splits};
    llvm::append_range(shape, type.getShape());
    Value parts = b.make<memref::AllocOp>(
        MemRefType::get(shape, type.getElementType()), old.getDynamicSizes());
    auto withPart = [](Value s, ValueRange rest) {
      SmallVector<Value> all{s};
      llvm::append_range(all, rest);
      return all;
    };
    // Zero every part.
    {
      TileBuilder z(OpBuilder(buffer.zero), buffer.zero.getLoc());
      z.loop(z.index(splits), 1, {},
             [&](Value s, ValueRange) -> SmallVector<Value> {
               z.store(buffer.zero.getTile(), parts,
                       withPart(s, buffer.zero.getIndices()),
                       buffer.zero.getLimits());
               return {};
             });
      buffer.zero.erase();
    }
    // Sum in the order of the parts.
    {
      LoadOp read = buffer.read;
      TileBuilder r(OpBuilder(read), read.getLoc());
      auto tile = read.getTile().getType();
      auto sum = r.loop(r.index(splits), 1, {r.constant(tile, 0)},
                        [&](Value s, ValueRange c) -> SmallVector<Value> {
                          Value t =
                              r.load(parts, withPart(s, read.getIndices()),
                                     read.getLimits(), tile.getShape());
                          return {r.make<arith::AddFOp>(c[0], t)};
                        });
      read.getTile().replaceAllUsesWith(sum.getResult(0));
      read.erase();
    }
    // parallel(.., s) { for j in part s }
    TileBuilder at(OpBuilder(m.add), m.add.getLoc());
    NestOp nest = m.nest;
    SmallVector<Value> bounds(nest.getBounds());
    Value keys = bounds[m.dim];
    TileBuilder n(OpBuilder(nest), nest.getLoc());
    Value blocks = n.ceilDiv(keys, bn);
    Value chunk = n.mul(n.ceilDiv(blocks, splits), n.index(bn));
    bounds[m.dim] = n.index(splits);
    SmallVector<int64_t> steps(nest.getSteps());
    steps[m.dim] = 1;
    auto split = n.make<NestOp>(nest.getLabel().value_or(""), bounds, steps,
                                nest.getNumDims());
    TileBuilder body(OpBuilder::atBlockBegin(split.getBlock()), nest.getLoc());
    Value s = split.getIv(m.dim);
    Value lo = body.mul(s, chunk);
    Value hi = body.make<arith::MinUIOp>(body.add(lo, chunk), keys);
    auto loop = body.make<scf::ForOp>(lo, hi, body.index(bn));
    IRMapping map;
    for (unsigned d = 0; d < nest.getNumDims(); ++d)
      map.map(nest.getIv(d),
              d == m.dim ? loop.getInductionVar() : Value(split.getIv(d)));
    body.setInsertionPointToStart(loop.getBody());
    for (Operation &op : *nest.getBlock())
      body.clone(op, map);
    split->walk([&](AccumulateOp add) {
      if (add.getBuffer() != old.getResult())
        return;
      TileBuilder a(OpBuilder(add), add.getLoc());
      a.make<AccumulateOp>(AccumulateMode::plain, add.getTile(), parts,
                           withPart(s, add.getIndices()), add.getLimits(),
                           Value(), Value(), ValueRange{});
      add.erase();
    });
    nest.erase();
    old.erase();
    m.nest = split;
  }

  //===--------------------------------------------------------------------===//
  // two-kernel
  //===--------------------------------------------------------------------===//

  /// True if the loop over rows ends where the zeroed rows do, or what would be
  /// added past its end is zero by its mask.
  static bool addsNothingPast(Meeting &m, Buffer &buffer) {
    auto zeroNest = cast<NestOp>(buffer.zero->getParentOp());
    Value end = m.rows.getUpperBound();
    if (sameValue(end, {}, zeroNest.getBounds()[2], {}))
      return true;
    auto dot = m.add.getTile().getDefiningOp<DotOp>();
    auto select = dot ? stripCasts(dot.getA()).getDefiningOp<arith::SelectOp>()
                      : arith::SelectOp();
    return select && floatConstant(select.getFalseValue()) == 0.0 &&
           floatConstant(dot.getAcc()) == 0.0 &&
           maskEndsAt(select.getCondition(), m.rows.getInductionVar(), end, {});
  }

  /// The sums get a nest of their own, query blocks outermost.
  void makeTwoKernel(Meeting &m, Buffer &buffer) {
    NestOp nest = m.nest;
    auto zeroNest = cast<NestOp>(buffer.zero->getParentOp());
    auto idx = m.add.getIndices();
    auto acc = cast<RankedTensorType>(m.add.getTile().getType());
    int64_t bn = nest.getSteps()[m.dim];
    TileBuilder b(OpBuilder(nest), nest.getLoc());
    b.setInsertionPointAfter(nest);
    auto second = b.make<NestOp>("second_kernel", zeroNest.getBounds(),
                                 zeroNest.getSteps(), 3);
    TileBuilder t(OpBuilder::atBlockBegin(second.getBlock()), nest.getLoc());
    IRMapping map;
    map.map(nest.getIv(0), second.getIv(0));
    map.map(m.rows.getInductionVar(), second.getIv(2));
    map.map(idx[1], second.getIv(1));
    if (m.g) {
      // h = hk * group + g: the KV head is h / group.
      Value size = t.index(m.group);
      map.map(nest.getIv(1), t.make<arith::DivUIOp>(second.getIv(1), size));
      map.map(m.g, t.make<arith::RemUIOp>(second.getIv(1), size));
    }
    // All keys: the bound of the dim that was given up.
    auto loop = t.make<scf::ForOp>(t.index(0), nest.getBounds()[m.dim],
                                   t.index(bn), ValueRange{t.constant(acc, 0)});
    map.map(nest.getIv(m.dim), loop.getInductionVar());
    {
      OpBuilder::InsertionGuard g(t);
      t.setInsertionPointToStart(loop.getBody());
      Value part = cloneSlice(t, m.add.getTile(), map);
      Value sum = t.make<arith::AddFOp>(loop.getRegionIterArg(0), part);
      // a b + 0 added to the sum is a product onto the sum.
      if (auto dot = part.getDefiningOp<DotOp>();
          dot && floatConstant(dot.getAcc()) == 0.0)
        sum = t.dot(dot.getA(), dot.getB(), loop.getRegionIterArg(0));
      t.make<scf::YieldOp>(sum);
    }
    t.store(loop.getResult(0), buffer.alloc,
            {second.getIv(0), second.getIv(1), second.getIv(2), t.index(0)},
            m.add.getLimits());
    zeroNest.erase();
    m.add.erase();
    nest.setNumParallel(nest.getNumDims());
  }

  //===--------------------------------------------------------------------===//
  // partial results
  //===--------------------------------------------------------------------===//

  /// parallel(p...) sequential(s...) that only adds into argument G becomes
  /// parallel(p..., s...) that adds into part [s...] of a local buffer, and a
  /// nest over G's entries that sums the parts.
  void makePartial(NestOp nest) {
    unsigned first = nest.getNumParallel();
    if (first == nest.getNumDims())
      return;
    for (int64_t step : nest.getSteps().drop_front(first))
      if (step != 1)
        return;
    Value target;
    bool ok = true;
    SmallVector<Operation *> adds;
    nest->walk([&](Operation *op) {
      Value buffer;
      if (auto a = dyn_cast<AccumulateOp>(op);
          a && a.getMode() == AccumulateMode::plain)
        buffer = a.getBuffer();
      else if (auto s = dyn_cast<ScatterAddOp>(op);
               s && s.getMode() == AccumulateMode::plain)
        buffer = s.getBuffer();
      else if (isa<AccumulateOp, ScatterAddOp, StoreOp>(op))
        ok = false;
      if (!buffer)
        return;
      ok &= !target || target == buffer;
      target = buffer;
      adds.push_back(op);
    });
    if (!ok || !target || !isa<BlockArgument>(target)) {
      missed(nest, kName, "it does more than add into one output");
      return;
    }
    // Zeroed by one nest before, added to by this one, not read here.
    StoreOp zero; // any second store fails below
    for (Operation *user : target.getUsers())
      if (auto s = dyn_cast<StoreOp>(user))
        zero = s;
    auto zeroNest = zero ? dyn_cast<NestOp>(zero->getParentOp()) : NestOp();
    if (!zeroNest || floatConstant(zero.getTile()) != 0.0 ||
        zeroNest->getBlock() != nest->getBlock() ||
        !zeroNest->isBeforeInBlock(nest) ||
        !llvm::all_of(target.getUsers(), [&](Operation *user) {
          return user == zero || llvm::is_contained(adds, user) ||
                 isa<memref::DimOp>(user);
        })) {
      missed(nest, kName,
             "its output is not zeroed before and added to only here");
      return;
    }
    auto type = cast<MemRefType>(target.getType());
    unsigned parts = nest.getNumDims() - first;
    TileBuilder b(OpBuilder(nest), nest.getLoc());
    SmallVector<Value> sizes(nest.getBounds().drop_front(first)), entries;
    for (int64_t d = 0; d < type.getRank(); ++d)
      entries.push_back(b.dim(target, d));
    llvm::append_range(sizes, entries);
    SmallVector<int64_t> shape(sizes.size(), ShapedType::kDynamic);
    Value partial = b.make<memref::AllocOp>(
        MemRefType::get(shape, type.getElementType()), sizes);
    auto tile = tileOf({64}, type.getElementType());
    SmallVector<int64_t> steps(sizes.size(), 1);
    steps.back() = 64;
    b.make<NestOp>("zero", sizes, steps, steps.size(),
                   [&](OpBuilder &inner, Location l, ValueRange iv) {
                     TileBuilder t(inner, l);
                     t.store(t.constant(tile, 0), partial, iv, {sizes.back()});
                   });
    for (Operation *op : adds) {
      // Operands: tile, buffer, indices...
      SmallVector<Value> part(
          nest.getBlock()->getArguments().drop_front(first));
      op->setOperand(1, partial);
      op->insertOperands(2, part);
      if (auto a = dyn_cast<AccumulateOp>(op)) {
        auto segments = llvm::to_vector(
            ArrayRef<int32_t>(a.getProperties().operandSegmentSizes));
        segments[2] += parts;
        llvm::copy(segments, a.getProperties().operandSegmentSizes.begin());
      }
    }
    nest.setNumParallel(nest.getNumDims());
    b.setInsertionPointAfter(nest);
    SmallVector<int64_t> entrySteps(entries.size(), 1);
    entrySteps.back() = 64;
    b.make<NestOp>(
        "sum_parts", entries, entrySteps, entries.size(),
        [&](OpBuilder &inner, Location l, ValueRange iv) {
          TileBuilder t(inner, l);
          SmallVector<Value> at;
          std::function<Value(Value)> over = [&](Value sum) -> Value {
            if (at.size() == parts) {
              SmallVector<Value> idx(at);
              llvm::append_range(idx, iv);
              Value p = t.load(partial, idx, {entries.back()}, {64});
              return t.make<arith::AddFOp>(sum, p);
            }
            return t
                .loop(sizes[at.size()], 1, sum,
                      [&](Value i, ValueRange c) -> SmallVector<Value> {
                        at.push_back(i);
                        Value next = over(c[0]);
                        at.pop_back();
                        return {next};
                      })
                .getResult(0);
          };
          Value total = over(t.constant(tile, 0));
          t.store(total, target, iv, {entries.back()});
        });
    zero.erase(); // the sum is stored
    passed(nest, kName,
           "each batch entry and head adds into its own part, summed in order");
  }
};
} // namespace
