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

/// A nest with one sequential dim whose iterations meet only in `add`.
struct Meeting {
  NestOp nest;
  unsigned dim;
  AccumulateOp add;
};

bool dependsOn(Value v, Value iv) {
  if (v == iv)
    return true;
  Operation *def = v.getDefiningOp();
  return def && llvm::any_of(def->getOperands(),
                             [&](Value o) { return dependsOn(o, iv); });
}

std::optional<Meeting> matchMeeting(NestOp nest, std::string &why) {
  if (nest.getNumParallel() + 1 != nest.getNumDims())
    return std::nullopt;
  unsigned dim = nest.getNumParallel();
  Value iv = nest.getIv(dim);
  Meeting m{nest, dim, {}};
  bool ok = true;
  nest->walk([&](Operation *op) {
    if (auto add = dyn_cast<AccumulateOp>(op)) {
      if (m.add || add.getMode() != AccumulateMode::plain)
        ok = false;
      m.add = add;
    } else if (auto s = dyn_cast<StoreOp>(op)) {
      if (llvm::none_of(s.getIndices(),
                        [&](Value v) { return dependsOn(v, iv); }))
        ok = false;
    } else if (isa<ScatterAddOp>(op)) {
      ok = false;
    }
  });
  if (!m.add)
    return std::nullopt;
  if (!ok ||
      llvm::any_of(m.add.getIndices(),
                   [&](Value v) { return dependsOn(v, iv); }) ||
      m.add.getIndices().size() != 4)
    return why = "its key blocks meet in more than one addition of [b, h, i] "
                 "rows",
           std::nullopt;
  return m;
}

/// The nests that zero and read the accumulated buffer.
struct Buffer {
  memref::AllocOp alloc;
  StoreOp zero;
  LoadOp read;
};

std::optional<Buffer> matchBuffer(AccumulateOp add) {
  Buffer b;
  b.alloc = add.getBuffer().getDefiningOp<memref::AllocOp>();
  // [b, h, i, channel], of which only the channels are static.
  if (!b.alloc || b.alloc.getType().getRank() != 4 ||
      b.alloc.getDynamicSizes().size() != 3 ||
      b.alloc.getType().isDynamicDim(3))
    return std::nullopt;
  for (Operation *user : b.alloc->getUsers()) {
    if (auto s = dyn_cast<StoreOp>(user); s && !b.zero)
      b.zero = s;
    else if (auto l = dyn_cast<LoadOp>(user); l && !b.read)
      b.read = l;
    else if (user != add)
      return std::nullopt;
  }
  auto inNest = [](Operation *op) {
    return op->getParentOfType<NestOp>() != nullptr;
  };
  if (!b.zero || !b.read || !inNest(b.zero) || !inNest(b.read) ||
      floatConstant(b.zero.getTile()) != 0.0)
    return std::nullopt;
  return b;
}

/// How a nest over [b, KV head, key block] adds the rows [b, head, i]: what a
/// nest over the rows needs to say the same.
struct RowMeeting {
  NestOp zeroNest;
  scf::ForOp rows;
  /// head = kvHead * group + member, unless the two are the same.
  Value group, member;
};

std::optional<RowMeeting> matchRows(Meeting &m, Buffer &buffer,
                                    std::string &why) {
  NestOp nest = m.nest;
  auto idx = m.add.getIndices();
  RowMeeting r;
  r.rows = dyn_cast<scf::ForOp>(m.add->getParentOp());
  r.zeroNest = dyn_cast<NestOp>(buffer.zero->getParentOp());
  int64_t blockM =
      cast<RankedTensorType>(m.add.getTile().getType()).getDimSize(0);
  why = "its additions are not those of one loop over the rows of a head";
  if (!r.rows || !r.zeroNest || m.dim != 2 || r.zeroNest.getNumDims() != 3 ||
      r.zeroNest.getSteps()[2] != blockM ||
      !llvm::hasSingleElement(r.zeroNest.getOps<StoreOp>()) ||
      idx[0] != nest.getIv(0) || idx[2] != r.rows.getInductionVar())
    return std::nullopt;
  SmallVector<Value> known{nest.getIv(0), nest.getIv(1), nest.getIv(2), idx[2]};
  if (idx[1] != nest.getIv(1)) {
    // h = hk * group + g: the KV head is h / group.
    auto [product, g] = matchBinary<arith::AddIOp>(idx[1]);
    if (product && !product.getDefiningOp<arith::MulIOp>())
      std::swap(product, g);
    auto [hk, group] = product ? matchBinary<arith::MulIOp>(product)
                               : std::pair<Value, Value>();
    if (!hk || (hk != nest.getIv(1) && group != nest.getIv(1)))
      return std::nullopt;
    r.group = hk == nest.getIv(1) ? group : hk;
    r.member = g;
    known.push_back(g);
  }
  // Everything else follows from these and from outside of the nest.
  std::function<bool(Value, bool)> follows = [&](Value v, bool keys) {
    if (v == nest.getIv(2))
      return keys;
    if (llvm::is_contained(known, v) ||
        !nest.getBody().isAncestor(v.getParentRegion()))
      return true;
    Operation *def = v.getDefiningOp();
    return def && !def->getNumRegions() &&
           llvm::all_of(def->getOperands(),
                        [&](Value o) { return follows(o, keys); });
  };
  if ((r.group && nest.getBody().isAncestor(r.group.getParentRegion()) &&
       !getConstantIntValue(OpFoldResult(r.group))) ||
      !follows(m.add.getTile(), true) || !follows(idx[3], false) ||
      !llvm::all_of(m.add.getLimits(),
                    [&](Value v) { return follows(v, false); }))
    return std::nullopt;
  why.clear();
  return r;
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
        auto buffer = m ? matchBuffer(m->add) : std::nullopt;
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
    case DQPolicy::two_kernel: {
      std::string why;
      auto rows = matchRows(m, buffer, why);
      if (!rows)
        return missed(m.nest, kName, why);
      makeTwoKernel(m, buffer, *rows);
      break;
    }
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

  /// The sums get a nest of their own, query blocks outermost.
  void makeTwoKernel(Meeting &m, Buffer &buffer, RowMeeting &r) {
    NestOp nest = m.nest;
    auto idx = m.add.getIndices();
    auto acc = cast<RankedTensorType>(m.add.getTile().getType());
    int64_t bn = nest.getSteps()[m.dim];
    TileBuilder b(OpBuilder(nest), nest.getLoc());
    b.setInsertionPointAfter(nest);
    auto second = b.make<NestOp>("second_kernel", r.zeroNest.getBounds(),
                                 r.zeroNest.getSteps(), 3);
    TileBuilder t(OpBuilder::atBlockBegin(second.getBlock()), nest.getLoc());
    IRMapping map;
    map.map(nest.getIv(0), second.getIv(0));
    map.map(r.rows.getInductionVar(), second.getIv(2));
    map.map(idx[1], second.getIv(1));
    if (r.group) {
      Value size = cloneSlice(t, r.group, map);
      map.map(nest.getIv(1), t.make<arith::DivUIOp>(second.getIv(1), size));
      map.map(r.member, t.make<arith::RemUIOp>(second.getIv(1), size));
    }
    SmallVector<Value> at{second.getIv(0), second.getIv(1), second.getIv(2),
                          cloneSlice(t, idx[3], map)};
    SmallVector<Value> limits;
    for (Value v : m.add.getLimits())
      limits.push_back(cloneSlice(t, v, map));
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
    t.store(loop.getResult(0), buffer.alloc, at, limits);
    r.zeroNest.erase();
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
    // The sum is stored, so that the target need not be zeroed before.
    for (Operation *user : llvm::make_early_inc_range(target.getUsers()))
      if (auto s = dyn_cast<StoreOp>(user);
          s && floatConstant(s.getTile()) == 0.0)
        s.erase();
    passed(nest, kName,
           "each batch entry and head adds into its own part, summed in order");
  }
};
} // namespace
