//===- FuseOnlineSoftmax.cpp - fa-fuse-online-softmax -----------------------===//
//
// The textbook forward passes over the keys three times: for the row maximum
// m, for the sum l of exp(x - m), and for the product of exp(x - m) / l with V.
// One pass is enough if what was summed so far is rescaled by exp(m_old -
// m_new) whenever the maximum grows (Milakov and Gimelshein,
// arXiv:1805.02867; FlashAttention, arXiv:2205.14135). The pass proves the
// three nests to be that, over the same x and keys, and makes one nest of
// them. If P is stored for later readers, each block keeps the maximum it used
// and readers complete it with exp(m_block - L).
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/nest/Tiles.h"

#include <limits>

using namespace mlir;
using namespace fathom;

namespace fathom {
#define GEN_PASS_DEF_FUSEONLINESOFTMAXPASS
#include "passes/Passes.h.inc"
} // namespace fathom

namespace {
constexpr StringLiteral kName = "fa-fuse-online-softmax";
constexpr double kInf = std::numeric_limits<double>::infinity();

/// A nest whose one loop folds the tiles of a row into one carried value.
struct RowFold {
  NestOp nest;
  scf::ForOp loop;
  StoreOp store; // of the loop's result
};

std::optional<RowFold> matchRowFold(StoreOp store) {
  if (!store)
    return std::nullopt;
  auto nest = dyn_cast<NestOp>(store->getParentOp());
  scf::ForOp loop = nest ? onlyLoop(nest) : scf::ForOp();
  if (!loop || loop.getNumRegionIterArgs() != 1)
    return std::nullopt;
  return RowFold{nest, loop, store};
}

/// The side of a binary op that is not the carried value.
template <typename Op>
Value foldedTerm(scf::ForOp loop) {
  auto [a, b] = matchBinary<Op>(loop.getYieldedValues()[0]);
  Value carried = loop.getRegionIterArg(0);
  if (a == carried)
    return b;
  if (b == carried)
    return a;
  return {};
}

ReduceOp matchReduce(Value v, ReduceKind kind) {
  auto r = v ? v.getDefiningOp<ReduceOp>() : ReduceOp();
  return r && r.getKind() == kind && r.getDim() == 1 ? r : ReduceOp();
}

/// Everything the fusion rests on.
struct Match {
  Softmax softmax;
  RowFold max, sum, product;
  DotOp dot;       // P V in the product's loop
  LoadOp productP; // P as loaded there
};

/// True if `v`, in another nest, is exp(x - guard(m)) of the softmax's x and m.
bool isSameExp(Value v, const Softmax &s, IRMapping &map) {
  auto exp = v.getDefiningOp<math::ExpOp>();
  auto sub =
      exp ? exp.getOperand().getDefiningOp<arith::SubFOp>() : arith::SubFOp();
  Value row = sub ? matchRowBroadcast(sub.getRhs(), 0) : Value();
  Value m = row ? matchGuard(row, -kInf, 0) : Value();
  auto load = m ? m.getDefiningOp<LoadOp>() : LoadOp();
  auto x = sub ? sub.getLhs().getDefiningOp<LoadOp>() : LoadOp();
  auto x0 = Value(s.x).getDefiningOp<LoadOp>();
  LoadOp m0 = s.m;
  if (!load || !x || !x0 || x.getBuffer() != x0.getBuffer() ||
      load.getBuffer() != m0.getBuffer())
    return false;
  for (auto [from, to] : llvm::zip(x.getIndices(), x0.getIndices()))
    map.map(from, to);
  return sameValues(load->getOperands(), map, m0->getOperands(), IRMapping());
}

/// True if the loop visits whole tiles of `load`, one after the other from 0.
bool visitsTiles(scf::ForOp loop, LoadOp load) {
  auto tile = load.getTile().getType();
  return load->getParentOp() == loop && tile.getRank() == 2 &&
         getConstantIntValue(OpFoldResult(loop.getLowerBound())) == 0 &&
         getConstantIntValue(OpFoldResult(loop.getStep())) ==
             tile.getDimSize(1) &&
         load.getIndices().back() == loop.getInductionVar();
}

/// True if the nest's only effect is `store`, of a local buffer unless `output`.
bool onlyStores(NestOp nest, StoreOp store, bool output = false) {
  Access a = accessOf(nest);
  return a.writes.size() == 1 && a.writes.contains(store.getBuffer()) &&
         (output || store.getBuffer().getDefiningOp<memref::AllocOp>());
}

/// True if all loads of `buffer` stand in one of `nests`.
bool onlyReadIn(Value buffer, ArrayRef<Operation *> nests) {
  return llvm::all_of(loadsOf(buffer), [&](LoadOp l) {
    return llvm::is_contained(nests, (Operation *)l->getParentOfType<NestOp>());
  });
}

/// What the fusion takes away must serve nothing else, and what it computes
/// later must not have changed by then.
bool isSelfContained(Match &m, LoadOp x, std::string &why) {
  Softmax &s = m.softmax;
  auto lseNest = cast<NestOp>(s.lse->getParentOp());
  LoadOp sm = s.m, sl = s.l;
  StoreOp lse = s.lse;
  why = "the nests run over different rows";
  for (NestOp n : {m.max.nest, m.sum.nest, lseNest})
    if (!sameValues(n.getBounds(), m.product.nest.getBounds()) ||
        n.getSteps() != m.product.nest.getSteps())
      return false;
  why = "the nests that would go have other effects or readers";
  if (!onlyStores(m.max.nest, m.max.store) ||
      !onlyStores(m.sum.nest, m.sum.store) ||
      !onlyStores(lseNest, lse, /*output=*/true) ||
      !onlyReadIn(sm.getBuffer(), {m.sum.nest, lseNest, s.nest}) ||
      !onlyReadIn(sl.getBuffer(), {lseNest, s.nest}))
    return false;
  for (Value v : accessOf(s.nest).writes)
    if (!v.getDefiningOp<memref::AllocOp>())
      return false;
  why = "the scores or L are used in between";
  if (!m.max.nest->isBeforeInBlock(m.product.nest))
    return false;
  for (Operation *op = m.max.nest; op != m.product.nest; op = op->getNextNode())
    if (op != lseNest && (isWrittenIn(op, x.getBuffer()) ||
                          accessOf(op).reads.contains(lse.getBuffer())))
      return false;
  why = "its P is read by others and does not lie in [b, h, i, j] order";
  auto alloc = s.p.getBuffer().getDefiningOp<memref::AllocOp>();
  bool others =
      llvm::any_of(s.nest.getBlock()->getOps<StoreOp>(), [&](StoreOp store) {
        return llvm::any_of(loadsOf(store.getBuffer()),
                            [&](LoadOp l) { return l != m.productP; });
      });
  if (others && alloc.getDynamicSizes().size() != 4)
    return false;
  why.clear();
  return true;
}

std::optional<Match> match(const Softmax &s, std::string &why) {
  Match m;
  m.softmax = s;
  LoadOp sm = s.m, sl = s.l;
  StoreOp sp = s.p;
  auto x0 = Value(s.x).getDefiningOp<LoadOp>();
  if (!x0)
    return why = "the scores are not loaded from memory", std::nullopt;

  auto max = matchRowFold(onlyStore(sm.getBuffer()));
  auto sum = matchRowFold(onlyStore(sl.getBuffer()));
  if (!max || !sum)
    return why = "the row maximum or sum is not stored by a nest with one loop",
           std::nullopt;
  m.max = *max;
  m.sum = *sum;

  Value term = foldedTerm<arith::MaxNumFOp>(max->loop);
  if (!term)
    term = foldedTerm<arith::MaximumFOp>(max->loop);
  ReduceOp r = matchReduce(term, ReduceKind::max);
  auto mx = r ? r.getTile().getDefiningOp<LoadOp>() : LoadOp();
  if (!mx || mx.getBuffer() != x0.getBuffer() || !visitsTiles(max->loop, mx) ||
      !sameValues(max->store.getIndices(), mx.getIndices().drop_back()) ||
      floatConstant(max->loop.getInitArgs()[0]) != -kInf)
    return why = "m is not the maximum of the same scores", std::nullopt;

  r = matchReduce(foldedTerm<arith::AddFOp>(sum->loop), ReduceKind::add);
  IRMapping map;
  if (!r || floatConstant(sum->loop.getInitArgs()[0]) != 0.0 ||
      !isSameExp(r.getTile(), s, map))
    return why = "l is not the sum of the same exp(x - m)", std::nullopt;
  // The map holds the indices of x in the sum's loop.
  auto sx = r.getTile()
                .getDefiningOp<math::ExpOp>()
                .getOperand()
                .getDefiningOp<arith::SubFOp>()
                .getLhs()
                .getDefiningOp<LoadOp>();
  if (!visitsTiles(sum->loop, sx) ||
      !sameValues(sum->store.getIndices(), sx.getIndices().drop_back()))
    return why = "l is not stored at the rows that it sums", std::nullopt;

  for (LoadOp load : loadsOf(sp.getBuffer())) {
    auto nest = load->getParentOfType<NestOp>();
    scf::ForOp loop = nest ? onlyLoop(nest) : scf::ForOp();
    if (!loop || load->getParentOp() != loop ||
        loop.getNumRegionIterArgs() != 1)
      continue;
    auto dot = loop.getYieldedValues()[0].getDefiningOp<DotOp>();
    if (!dot || dot.getAcc() != loop.getRegionIterArg(0) ||
        !visitsTiles(loop, load) || stripCasts(dot.getA()) != load.getTile() ||
        floatConstant(loop.getInitArgs()[0]) != 0.0)
      continue;
    // The P tile must be row i, key block j of this loop.
    IRMapping at;
    for (auto [from, to] : llvm::zip(load.getIndices(), sp.getIndices()))
      at.map(from, to);
    IRMapping fromMax;
    for (auto [from, to] : llvm::zip(mx.getIndices(), x0.getIndices()))
      fromMax.map(from, to);
    auto sameLoop = [&](scf::ForOp other, IRMapping &otherMap) {
      return sameValue(loop.getLowerBound(), at, other.getLowerBound(),
                       otherMap) &&
             sameValue(loop.getUpperBound(), at, other.getUpperBound(),
                       otherMap) &&
             sameValue(loop.getStep(), at, other.getStep(), otherMap);
    };
    if (!sameLoop(max->loop, fromMax) || !sameLoop(sum->loop, map)) {
      why = "P V, m and l run over different keys";
      continue;
    }
    m.product = RowFold{nest, loop, {}};
    m.dot = dot;
    m.productP = load;
    if (!isSelfContained(m, x0, why))
      return std::nullopt;
    return m;
  }
  if (why.empty())
    why = "no nest multiplies P with V in one loop over the keys";
  return std::nullopt;
}

struct FuseOnlineSoftmaxPass
    : public fathom::impl::FuseOnlineSoftmaxPassBase<FuseOnlineSoftmaxPass> {
  using FuseOnlineSoftmaxPassBase::FuseOnlineSoftmaxPassBase;

  void runOnOperation() override {
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      bool any = false;
      for (auto alloc :
           llvm::make_early_inc_range(func.getOps<memref::AllocOp>())) {
        auto s = matchSoftmax(func, alloc);
        if (!s)
          continue;
        any = true;
        std::string why;
        auto m = match(*s, why);
        if (!m) {
          missed(s->nest, kName, why);
          continue;
        }
        passed(m->product.nest, kName,
               "one pass over the keys with a running maximum and sum");
        fuse(func, *m);
      }
      if (!any)
        missed(func, kName, "no stored exp(x - m) / l with a stored m + log l");
      else
        tidyNests(func);
    }
  }

  void fuse(func::FuncOp func, Match &m) {
    Softmax &s = m.softmax;
    scf::ForOp loop = m.product.loop;
    NestOp nest = m.product.nest;
    LoadOp oldP = m.productP;
    TileBuilder b(OpBuilder(loop), loop.getLoc());
    auto accType = cast<RankedTensorType>(loop.getResult(0).getType());
    Type acc = accType.getElementType();
    auto rowType = tileOf({accType.getDimSize(0)}, acc);

    // Later readers of P, and what they read: stores of values made from P.
    SmallVector<StoreOp> kept = storesForReaders(s, oldP);
    Value blockMax = kept.empty() ? Value() : blockMaxBuffer(s);

    Value init[] = {loop.getInitArgs()[0], b.constant(rowType, -kInf),
                    b.constant(rowType, 0)};
    auto online = b.make<scf::ForOp>(loop.getLowerBound(), loop.getUpperBound(),
                                     loop.getStep(), init);
    // The P nest's dims in terms of this nest's.
    IRMapping map;
    map.map(loop.getInductionVar(), online.getInductionVar());
    for (auto [from, to] : llvm::zip(s.p.getIndices(), oldP.getIndices()))
      map.map(from, map.lookupOrDefault(to));
    {
      OpBuilder::InsertionGuard g(b);
      b.setInsertionPointToStart(online.getBody());
      Value acc0 = online.getRegionIterArg(0), m0 = online.getRegionIterArg(1),
            l0 = online.getRegionIterArg(2);
      Value x = cloneSlice(b, s.x, map);
      auto tile = cast<RankedTensorType>(x.getType());
      Value m1 = b.make<arith::MaxNumFOp>(m0, b.reduce(ReduceKind::max, x, 1));
      // exp(m0 - m1), and 1 where both are -inf.
      Value same = b.make<arith::CmpFOp>(arith::CmpFPredicate::UEQ, m0, m1);
      Value shift = b.make<arith::SelectOp>(same, b.constant(rowType, 0),
                                            b.make<arith::SubFOp>(m0, m1));
      Value alpha = b.make<math::ExpOp>(shift);
      Value p = b.make<math::ExpOp>(b.make<arith::SubFOp>(
          x, b.broadcast(b.guard(m1, -kInf, 0), 0, tile)));
      Value l1 = b.make<arith::AddFOp>(b.make<arith::MulFOp>(l0, alpha),
                                       b.reduce(ReduceKind::add, p, 1));
      Value scaled =
          b.make<arith::MulFOp>(acc0, b.broadcast(alpha, 0, accType));
      map.map(s.div.getResult(), p);
      IRMapping body = map;
      body.map(oldP.getTile(), cloneSlice(b, s.p.getTile(), map));
      body.map(m.dot.getAcc(), scaled);
      Value out = cloneLoopSlice(b, m.dot.getResult(), loop, body);
      for (StoreOp keep : kept) {
        Value v = cloneSlice(b, keep.getTile(), map);
        SmallVector<Value> at;
        for (Value i : keep.getIndices())
          at.push_back(map.lookupOrDefault(i));
        b.store(v, keep.getBuffer(), at, keep.getLimits());
      }
      if (blockMax)
        b.store(m1, blockMax, blockMaxIndices(b, s, map), {blockMaxLimit(s)});
      b.make<scf::YieldOp>(ValueRange{out, m1, l1});
      // The scores are computed here instead of loaded.
      auto anyLocal = [](LoadOp l) {
        return l.getTile().getType().getRank() == 2 &&
               l.getBuffer().getDefiningOp<memref::AllocOp>();
      };
      if (auto load = x.getDefiningOp<LoadOp>())
        recomputeLoad(load, anyLocal);
    }
    // acc / l, then what the old nest did with its result.
    Value l = online.getResult(2);
    Value o = b.make<arith::DivFOp>(online.getResult(0),
                                    b.broadcast(b.guard(l, 0, 1), 0, accType));
    loop.getResult(0).replaceAllUsesWith(o);
    // L, cloned from its own nest with m and l from here.
    IRMapping rows;
    LoadOp lseM = s.lseM, sm = s.m;
    for (auto [from, to] : llvm::zip(lseM.getIndices(), sm.getIndices()))
      rows.map(from, map.lookupOrDefault(to));
    StoreOp lse = s.lse;
    auto lseNest = lse->getParentOfType<NestOp>();
    for (Operation &op : *lseNest.getBlock())
      if (auto load = dyn_cast<LoadOp>(op)) {
        LoadOp sl = s.l;
        if (load.getBuffer() == sm.getBuffer())
          rows.map(load.getTile(), online.getResult(1));
        else if (load.getBuffer() == sl.getBuffer())
          rows.map(load.getTile(), online.getResult(2));
      }
    Value lseValue = cloneSlice(b, lse.getTile(), rows);
    SmallVector<Value> at, limits;
    for (Value i : lse.getIndices())
      at.push_back(cloneSlice(b, i, rows));
    for (Value i : lse.getLimits())
      limits.push_back(cloneSlice(b, i, rows));
    b.store(lseValue, lse.getBuffer(), at, limits);

    loop.erase();
    if (blockMax)
      completeReaders(func, m, kept, blockMax);
    lseNest.erase();
    s.nest.erase();
    m.sum.nest.erase();
    m.max.nest.erase();
  }

  /// Clones what `v` needs from inside `loop` (which `b` now stands in for).
  static Value cloneLoopSlice(TileBuilder &b, Value v, scf::ForOp loop,
                              IRMapping &map) {
    if (Value done = map.lookupOrNull(v))
      return done;
    Operation *def = v.getDefiningOp();
    if (!def || !loop->isProperAncestor(def))
      return v;
    for (Value o : def->getOperands())
      cloneLoopSlice(b, o, loop, map);
    b.clone(*def, map);
    return map.lookup(v);
  }

  /// The stores in P's nest whose buffers somebody else than `fused` reads.
  static SmallVector<StoreOp> storesForReaders(Softmax &s, LoadOp fused) {
    SmallVector<StoreOp> kept;
    for (auto store : s.nest.getBlock()->getOps<StoreOp>())
      if (llvm::any_of(loadsOf(store.getBuffer()),
                       [&](LoadOp l) { return l != fused; }))
        kept.push_back(store);
    return kept;
  }

  //===--------------------------------------------------------------------===//
  // Stored P: exp(x - m_block), completed by its readers
  //===--------------------------------------------------------------------===//

  static int64_t blockN(Softmax &s) {
    return cast<RankedTensorType>(s.p.getTile().getType()).getDimSize(1);
  }

  /// One maximum per row and key block: [b, h, j / block_n, i].
  Value blockMaxBuffer(Softmax &s) {
    auto alloc = s.p.getBuffer().getDefiningOp<memref::AllocOp>();
    OpBuilder after(alloc);
    after.setInsertionPointAfter(alloc);
    TileBuilder b(after, alloc.getLoc());
    SmallVector<Value> sizes(alloc.getDynamicSizes());
    Value blocks = b.make<arith::DivUIOp>(sizes[3], b.index(blockN(s)));
    Type acc = getElementTypeOrSelf(s.x.getType());
    int64_t dyn = ShapedType::kDynamic;
    return b.make<memref::AllocOp>(
        MemRefType::get({dyn, dyn, dyn, dyn}, acc),
        ValueRange{sizes[0], sizes[1], blocks, sizes[2]});
  }
  static SmallVector<Value> blockMaxIndices(TileBuilder &b, Softmax &s,
                                            const IRMapping &map) {
    SmallVector<Value> at;
    for (Value i : s.p.getIndices())
      at.push_back(map.lookupOrDefault(i));
    Value block = b.make<arith::DivUIOp>(at[3], b.index(blockN(s)));
    return {at[0], at[1], block, at[2]};
  }
  static Value blockMaxLimit(Softmax &s) { return s.p.getLimits()[0]; }

  /// Multiplies what readers make of a stored tile by exp(m_block - L).
  void completeReaders(func::FuncOp func, Match &m, ArrayRef<StoreOp> kept,
                       Value blockMax) {
    Softmax &s = m.softmax;
    for (StoreOp keep : kept)
      for (LoadOp load : loadsOf(keep.getBuffer())) {
        Value root = decodedValue(load);
        IRMapping map;
        for (auto [from, to] : llvm::zip(keep.getIndices(), load.getIndices()))
          map.map(from, to);
        OpBuilder after(load);
        after.setInsertionPointAfter(root.getDefiningOp());
        TileBuilder b(after, load.getLoc());
        auto tile = cast<RankedTensorType>(root.getType());
        Type acc = getElementTypeOrSelf(s.x.getType());
        Value mb = b.load(blockMax, blockMaxIndices(b, s, map),
                          {blockMaxLimit(s)}, {tile.getDimSize(0)});
        Value l = b.guard(loadLse(b, s, map), -kInf, 0);
        Value factor = b.make<math::ExpOp>(b.make<arith::SubFOp>(mb, l));
        Value wide = b.castTo(root, acc);
        Value full = b.make<arith::MulFOp>(
            wide, b.broadcast(factor, 0, tile.clone(acc)));
        SmallPtrSet<Operation *, 2> own{full.getDefiningOp(),
                                        wide.getDefiningOp()};
        // Readers that widen the tile take the product before it is rounded.
        SmallVector<Operation *> replaced;
        for (Operation *user : root.getUsers())
          if (auto ext = dyn_cast<arith::ExtFOp>(user);
              ext && !own.contains(ext)) {
            ext.replaceAllUsesWith(full);
            replaced.push_back(ext);
          }
        Value narrow = b.castTo(full, tile.getElementType());
        // Only now: the builder may stand before one of them.
        for (Operation *op : replaced)
          op->erase();
        own.insert(narrow.getDefiningOp());
        root.replaceAllUsesExcept(narrow, own);
      }
  }

  /// The float tile that all users of a loaded tile go through: the load
  /// itself, or, of codes, the select that ends the ops that decode them.
  static Value decodedValue(LoadOp load) {
    if (isa<FloatType>(load.getTile().getType().getElementType()))
      return load.getTile();
    SmallPtrSet<Operation *, 8> closed{load};
    for (Operation *op = load->getNextNode(); op; op = op->getNextNode()) {
      if (llvm::none_of(op->getOperands(), [&](Value v) {
            return closed.contains(v.getDefiningOp());
          }))
        continue;
      closed.insert(op);
      if (isa<arith::SelectOp>(op))
        return op->getResult(0);
    }
    return load.getTile();
  }
};
} // namespace
