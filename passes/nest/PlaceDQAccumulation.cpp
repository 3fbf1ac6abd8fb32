//===- PlaceDQAccumulation.cpp - fa-place-dq-accumulation -------------------===//
//
// A nest that adds into the same rows of a buffer from every key block runs
// its key blocks one after the other. This pass lets them run at the same
// time. How the additions meet is a policy: atomic, ordered (by turn, so the
// result is deterministic), split (a buffer for each part of the keys, summed
// in order), or a second nest that computes the sums again, query blocks
// outermost.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/nest/Tiles.h"

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
  return def && llvm::any_of(def->getOperands(), [&](Value o) { return dependsOn(o, iv); });
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
      if (llvm::none_of(s.getIndices(), [&](Value v) { return dependsOn(v, iv); }))
        ok = false;
    } else if (isa<ScatterAddOp>(op)) {
      ok = false;
    }
  });
  if (!m.add)
    return std::nullopt;
  if (!ok || llvm::any_of(m.add.getIndices(), [&](Value v) { return dependsOn(v, iv); }) ||
      m.add.getIndices().size() != 4)
    return why = "its key blocks meet in more than one addition of [b, h, i] rows", std::nullopt;
  return m;
}

/// The nests that zero and read the accumulated buffer.
struct Buffer {
  memref::AllocOp alloc;
  StoreOp zero;
  LoadOp read;
};

std::optional<Buffer> matchBuffer(Value buffer) {
  Buffer b;
  b.alloc = buffer.getDefiningOp<memref::AllocOp>();
  b.zero = onlyStore(buffer);
  if (!b.alloc)
    return std::nullopt;
  for (Operation *user : buffer.getUsers()) {
    if (auto s = dyn_cast<StoreOp>(user))
      b.zero = s;
    if (auto l = dyn_cast<LoadOp>(user))
      b.read = l;
  }
  if (!b.zero || !b.read || floatConstant(b.zero.getTile()) != 0.0)
    return std::nullopt;
  return b;
}

struct PlaceDQAccumulationPass
    : public fathom::impl::PlaceDQAccumulationPassBase<PlaceDQAccumulationPass> {
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
        auto buffer = m ? matchBuffer(m->add.getBuffer()) : std::nullopt;
        if (!buffer) {
          if (!why.empty())
            missed(nest, kName, why);
          continue;
        }
        any = true;
        place(func, *m, *buffer, schedule);
      }
      if (!any)
        missed(func, kName, "no nest adds into the same rows from several key blocks");
      tidyNests(func);
    }
  }

  void place(func::FuncOp func, Meeting &m, Buffer &buffer, ScheduleAttr schedule) {
    switch (schedule.getDq()) {
    case DQPolicy::sequential:
      missed(m.nest, kName, "the schedule keeps key blocks in order: dq = sequential");
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
      makeTwoKernel(m, buffer);
      break;
    }
    passed(m.nest, kName, "key blocks run in parallel: dq = " + stringifyDQPolicy(schedule.getDq()));
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
    Value tickets = b.make<memref::AllocOp>(MemRefType::get({dyn, dyn, dyn}, b.getI32Type()), sizes);
    b.make<NestOp>("zero", sizes, ArrayRef<int64_t>{1, 1, 64}, 3,
                   [&](OpBuilder &inner, Location l, ValueRange iv) {
                     TileBuilder t(inner, l);
                     auto type = tileOf({64}, t.getI32Type());
                     Value none = t.make<arith::ConstantOp>(
                         DenseElementsAttr::get(type, t.getI32IntegerAttr(0).getValue()));
                     t.store(none, tickets, iv, {sizes[2]});
                   });
    TileBuilder at(OpBuilder(m.add), m.add.getLoc());
    Value turn = at.make<arith::DivUIOp>(m.nest.getIv(m.dim), at.index(bn));
    auto idx = m.add.getIndices();
    Value block = at.make<arith::DivUIOp>(idx[2], at.index(bm));
    at.make<AccumulateOp>(AccumulateMode::ordered, m.add.getTile(), m.add.getBuffer(), idx,
                          m.add.getLimits(), turn, tickets, ValueRange{idx[0], idx[1], block});
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
    Value parts = b.make<memref::AllocOp>(MemRefType::get(shape, type.getElementType()),
                                          old.getDynamicSizes());
    auto withPart = [](Value s, ValueRange rest) {
      SmallVector<Value> all{s};
      llvm::append_range(all, rest);
      return all;
    };
    // Zero every part.
    {
      TileBuilder z(OpBuilder(buffer.zero), buffer.zero.getLoc());
      z.loop(z.index(splits), 1, {}, [&](Value s, ValueRange) -> SmallVector<Value> {
        z.store(buffer.zero.getTile(), parts, withPart(s, buffer.zero.getIndices()),
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
                          Value t = r.load(parts, withPart(s, read.getIndices()),
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
    auto split = n.make<NestOp>(nest.getLabel().value_or(""), bounds, steps, nest.getNumDims());
    TileBuilder body(OpBuilder::atBlockBegin(split.getBlock()), nest.getLoc());
    Value s = split.getIv(m.dim);
    Value lo = body.mul(s, chunk);
    Value hi = body.make<arith::MinUIOp>(body.add(lo, chunk), keys);
    auto loop = body.make<scf::ForOp>(lo, hi, body.index(bn));
    IRMapping map;
    for (unsigned d = 0; d < nest.getNumDims(); ++d)
      map.map(nest.getIv(d), d == m.dim ? loop.getInductionVar() : Value(split.getIv(d)));
    body.setInsertionPointToStart(loop.getBody());
    for (Operation &op : *nest.getBlock())
      body.clone(op, map);
    split->walk([&](AccumulateOp add) {
      if (add.getBuffer() != old.getResult())
        return;
      TileBuilder a(OpBuilder(add), add.getLoc());
      a.make<AccumulateOp>(AccumulateMode::plain, add.getTile(), parts,
                           withPart(s, add.getIndices()), add.getLimits(), Value(), Value(),
                           ValueRange{});
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
  void makeTwoKernel(Meeting &m, Buffer &buffer) {
    NestOp nest = m.nest;
    auto rows = dyn_cast<scf::ForOp>(m.add->getParentOp());
    auto zeroNest = buffer.zero->getParentOfType<NestOp>();
    auto idx = m.add.getIndices();
    auto acc = cast<RankedTensorType>(m.add.getTile().getType());
    int64_t bn = nest.getSteps()[m.dim];
    TileBuilder b(OpBuilder(nest), nest.getLoc());
    b.setInsertionPointAfter(nest);
    auto second = b.make<NestOp>("second_kernel", zeroNest.getBounds(), zeroNest.getSteps(), 3);
    TileBuilder t(OpBuilder::atBlockBegin(second.getBlock()), nest.getLoc());
    IRMapping map;
    map.map(nest.getIv(0), second.getIv(0));
    map.map(rows.getInductionVar(), second.getIv(2));
    map.map(idx[1], second.getIv(1));
    if (idx[1] != nest.getIv(1)) {
      // h = hk * group + g: the KV head is h / group.
      auto [product, g] = matchBinary<arith::AddIOp>(idx[1]);
      if (product && !product.getDefiningOp<arith::MulIOp>())
        std::swap(product, g);
      auto [hk, group] = matchBinary<arith::MulIOp>(product);
      Value size = cloneSlice(t, hk == nest.getIv(1) ? group : hk, map);
      map.map(nest.getIv(1), t.make<arith::DivUIOp>(second.getIv(1), size));
      map.map(g, t.make<arith::RemUIOp>(second.getIv(1), size));
    }
    // All keys: the bound of the dim that was given up.
    auto loop = t.make<scf::ForOp>(t.index(0), nest.getBounds()[m.dim], t.index(bn),
                                   ValueRange{t.constant(acc, 0)});
    map.map(nest.getIv(m.dim), loop.getInductionVar());
    {
      OpBuilder::InsertionGuard g(t);
      t.setInsertionPointToStart(loop.getBody());
      Value part = cloneSlice(t, m.add.getTile(), map);
      Value sum = t.make<arith::AddFOp>(loop.getRegionIterArg(0), part);
      // a b + 0 added to the sum is a product onto the sum.
      if (auto dot = part.getDefiningOp<DotOp>(); dot && floatConstant(dot.getAcc()) == 0.0)
        sum = t.dot(dot.getA(), dot.getB(), loop.getRegionIterArg(0));
      t.make<scf::YieldOp>(sum);
    }
    SmallVector<Value> at{second.getIv(0), second.getIv(1), second.getIv(2), idx[3]};
    t.store(loop.getResult(0), buffer.alloc, at, m.add.getLimits());
    zeroNest.erase();
    m.add.erase();
    nest.setNumParallel(nest.getNumDims());
  }
};
} // namespace
