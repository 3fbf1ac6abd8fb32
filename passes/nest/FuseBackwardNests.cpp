//===- FuseBackwardNests.cpp - fa-fuse-backward-nests -----------------------===//
//
// The textbook backward stores dP and dS and runs a nest for each of dV, dQ
// and dK. The pass computes dP and dS again where they are loaded, merges the
// nests over key blocks into one, and turns the nest over query blocks (dQ)
// inside out: its sum over keys becomes additions into a buffer from within
// the key nest. dS then never leaves the chip (FlashAttention-2,
// arXiv:2307.08691, algorithm 2). Key blocks run one after the other until
// fa-place-dq-accumulation says how their additions meet.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/nest/Tiles.h"

using namespace mlir;
using namespace fathom;

namespace fathom {
#define GEN_PASS_DEF_FUSEBACKWARDNESTSPASS
#include "passes/Passes.h.inc"
} // namespace fathom

namespace {
constexpr StringLiteral kName = "fa-fuse-backward-nests";

/// The loops of a nest from outside in, each the only one in its parent.
SmallVector<scf::ForOp> loopChain(NestOp nest) {
  SmallVector<scf::ForOp> chain;
  Block *block = nest.getBlock();
  while (true) {
    auto loops = llvm::to_vector(block->getOps<scf::ForOp>());
    if (loops.size() != 1)
      return loops.empty() ? chain : SmallVector<scf::ForOp>();
    chain.push_back(loops[0]);
    block = loops[0].getBody();
  }
}

/// Where a key nest stands on one tile: the dims and how heads follow.
struct KeyNest {
  NestOp nest;
  scf::ForOp rows; // innermost: over query blocks
  Value h;         // the query head there
  int64_t group;   // heads that share a KV head
};

/// parallel(b, hk, j) { [for g] { for i } } with h = hk * group + g.
std::optional<KeyNest> matchKeyNest(NestOp nest) {
  auto chain = loopChain(nest);
  if (nest.getNumDims() != 3 || nest.getNumParallel() != 3 || chain.empty() ||
      chain.size() > 2)
    return std::nullopt;
  KeyNest k{nest, chain.back(), nest.getIv(1), 1};
  if (chain.size() == 1)
    return k;
  auto group = getConstantIntValue(OpFoldResult(chain[0].getUpperBound()));
  if (!group ||
      getConstantIntValue(OpFoldResult(chain[0].getLowerBound())) != 0 ||
      getConstantIntValue(OpFoldResult(chain[0].getStep())) != 1)
    return std::nullopt;
  k.group = *group;
  for (auto add : chain[0].getBody()->getOps<arith::AddIOp>()) {
    auto [a, b] = matchBinary<arith::AddIOp>(add.getResult());
    if (a == chain[0].getInductionVar())
      std::swap(a, b);
    auto [x, y] = matchBinary<arith::MulIOp>(a);
    if (y == nest.getIv(1))
      std::swap(x, y);
    if (b == chain[0].getInductionVar() && x == nest.getIv(1) && y &&
        getConstantIntValue(OpFoldResult(y)) == group) {
      k.h = add.getResult();
      return k;
    }
  }
  return std::nullopt;
}

struct FuseBackwardNestsPass
    : public fathom::impl::FuseBackwardNestsPassBase<FuseBackwardNestsPass> {
  using FuseBackwardNestsPassBase::FuseBackwardNestsPassBase;

  void runOnOperation() override {
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      if (backwardNests(func).empty()) {
        missed(func, kName, "no backward nests");
        continue;
      }
      recomputeIntermediates(func);
      tidyNests(func);
      mergeKeyNests(func);
      tidyNests(func);
      turnQueryNests(func);
      tidyNests(func);
    }
  }

  /// dP and dS: tiles that backward nests store for other backward nests.
  void recomputeIntermediates(func::FuncOp func) {
    SmallVector<NestOp> nests = backwardNests(func);
    auto intermediate = [&](LoadOp l) {
      StoreOp store = onlyStore(l.getBuffer());
      return store && l.getTile().getType().getRank() == 2 &&
             llvm::is_contained(nests, dyn_cast<NestOp>(store->getParentOp()));
    };
    for (NestOp nest : nests) {
      SmallVector<LoadOp> loads;
      nest->walk([&](LoadOp l) {
        if (intermediate(l))
          loads.push_back(l);
      });
      int64_t done = 0;
      for (LoadOp l : loads)
        done += recomputeLoad(l, intermediate);
      if (done)
        passed(nest, kName,
               Twine(done) + " tiles are computed here instead of loaded");
    }
  }

  //===--------------------------------------------------------------------===//
  // Merging
  //===--------------------------------------------------------------------===//

  void mergeKeyNests(func::FuncOp func) {
    bool changed = true;
    while (changed) {
      changed = false;
      SmallVector<NestOp> nests = backwardNests(func);
      for (size_t i = 0; i < nests.size() && !changed; ++i)
        for (size_t j = i + 1; j < nests.size() && !changed; ++j)
          changed = tryMerge(nests[i], nests[j]);
    }
  }

  bool tryMerge(NestOp a, NestOp c) {
    auto ka = matchKeyNest(a), kc = matchKeyNest(c);
    if (!ka || !kc || a.getSteps() != c.getSteps() ||
        !sameValues(a.getBounds(), c.getBounds()))
      return false;
    auto la = loopChain(a), lc = loopChain(c);
    IRMapping ivs;
    for (auto [x, y] :
         llvm::zip(c.getBlock()->getArguments(), a.getBlock()->getArguments()))
      ivs.map(x, y);
    if (la.size() != lc.size())
      return false;
    for (auto [x, y] : llvm::zip(la, lc)) {
      if (!sameValue(x.getLowerBound(), {}, y.getLowerBound(), ivs) ||
          !sameValue(x.getUpperBound(), {}, y.getUpperBound(), ivs) ||
          !sameValue(x.getStep(), {}, y.getStep(), ivs))
        return false;
      ivs.map(y.getInductionVar(), x.getInductionVar());
    }
    // `a` moves down to `c` and runs in step with it.
    if (!mayMoveTo(a, c)) {
      missed(a, kName, "it and a nest after it touch the same memory");
      return false;
    }
    TileBuilder b(OpBuilder(c), c.getLoc());
    std::string label =
        (a.getLabel().value_or("") + "_" + c.getLabel().value_or("")).str();
    auto merged =
        b.make<NestOp>(label, c.getBounds(), c.getSteps(), c.getNumParallel());
    b.setInsertionPointToStart(merged.getBlock());
    IRMapping ma, mc;
    ma.map(a.getBlock()->getArguments(), merged.getBlock()->getArguments());
    mc.map(c.getBlock()->getArguments(), merged.getBlock()->getArguments());
    mergeBlocks(b, *a.getBlock(), ma, *c.getBlock(), mc);
    passed(merged, kName, "two nests over key blocks are one");
    a.erase();
    c.erase();
    return true;
  }

  /// Clones both blocks into the insertion point, their loops as one.
  void mergeBlocks(TileBuilder &b, Block &x, IRMapping &mx, Block &y,
                   IRMapping &my) {
    auto loopOf = [](Block &block) {
      auto loops = block.getOps<scf::ForOp>();
      return loops.empty() ? scf::ForOp() : *loops.begin();
    };
    auto cloneRange = [&](Block::iterator from, Block::iterator to,
                          IRMapping &map) {
      for (Operation &op : llvm::make_range(from, to))
        if (!op.hasTrait<OpTrait::IsTerminator>())
          b.clone(op, map);
    };
    scf::ForOp lx = loopOf(x), ly = loopOf(y);
    if (!lx) {
      cloneRange(x.begin(), x.end(), mx);
      cloneRange(y.begin(), y.end(), my);
      return;
    }
    cloneRange(x.begin(), lx->getIterator(), mx);
    cloneRange(y.begin(), ly->getIterator(), my);
    SmallVector<Value> init;
    for (Value v : lx.getInitArgs())
      init.push_back(mx.lookupOrDefault(v));
    for (Value v : ly.getInitArgs())
      init.push_back(my.lookupOrDefault(v));
    auto loop = b.make<scf::ForOp>(mx.lookupOrDefault(lx.getLowerBound()),
                                   mx.lookupOrDefault(lx.getUpperBound()),
                                   mx.lookupOrDefault(lx.getStep()), init);
    unsigned n = lx.getNumRegionIterArgs();
    {
      OpBuilder::InsertionGuard g(b);
      b.setInsertionPointToStart(loop.getBody());
      mx.map(lx.getInductionVar(), loop.getInductionVar());
      my.map(ly.getInductionVar(), loop.getInductionVar());
      mx.map(lx.getRegionIterArgs(), loop.getRegionIterArgs().take_front(n));
      my.map(ly.getRegionIterArgs(), loop.getRegionIterArgs().drop_front(n));
      mergeBlocks(b, *lx.getBody(), mx, *ly.getBody(), my);
      SmallVector<Value> next;
      for (Value v : lx.getYieldedValues())
        next.push_back(mx.lookupOrDefault(v));
      for (Value v : ly.getYieldedValues())
        next.push_back(my.lookupOrDefault(v));
      b.make<scf::YieldOp>(next);
    }
    mx.map(lx.getResults(), loop.getResults().take_front(n));
    my.map(ly.getResults(), loop.getResults().drop_front(n));
    cloneRange(std::next(lx->getIterator()), x.end(), mx);
    cloneRange(std::next(ly->getIterator()), y.end(), my);
  }

  //===--------------------------------------------------------------------===//
  // Turning the query nest inside out
  //===--------------------------------------------------------------------===//

  void turnQueryNests(func::FuncOp func) {
    SmallVector<NestOp> nests = backwardNests(func);
    // The nest that carries most is the one worth keeping as it is: it holds
    // dK and dV on chip, and the others become additions from within it.
    std::optional<KeyNest> key;
    for (NestOp n : nests)
      if (auto k = matchKeyNest(n);
          k && k->rows.getNumRegionIterArgs() >
                   (key ? key->rows.getNumRegionIterArgs() : 1))
        key = k;
    if (!key) {
      missed(func, kName, "no two nests over key blocks could be merged");
      return;
    }
    for (NestOp n : nests)
      if (n != key->nest)
        turn(func, n, *key);
  }

  /// parallel(b, h, i) { for j: acc += a b } becomes additions in the key nest.
  void turn(func::FuncOp func, NestOp rows, KeyNest &key) {
    scf::ForOp loop = onlyLoop(rows);
    if (rows.getNumDims() != 3 || !loop || loop.getNumRegionIterArgs() != 1)
      return;
    auto dot = loop.getYieldedValues()[0].getDefiningOp<DotOp>();
    if (!dot || dot.getAcc() != loop.getRegionIterArg(0) ||
        floatConstant(loop.getInitArgs()[0]) != 0.0) {
      missed(rows, kName, "its loop does not sum products over keys");
      return;
    }
    auto acc = cast<RankedTensorType>(dot.getType());
    int64_t bm = acc.getDimSize(0);
    auto select = stripCasts(dot.getA()).getDefiningOp<arith::SelectOp>();
    if (!select || floatConstant(select.getFalseValue()) != 0.0) {
      missed(rows, kName, "the product's left side is not zero where hidden");
      return;
    }
    // The key nest visits the same tiles, or more of which the mask says that
    // they add nothing.
    IRMapping toKey;
    toKey.map(rows.getIv(0), key.nest.getIv(0));
    auto covers = [&](Value mine, Value others, Value iv, Value end) {
      return sameValue(mine, toKey, others, toKey) ||
             maskEndsAt(select.getCondition(), iv, end, toKey);
    };
    if (!coversHeads(key.nest.getBounds()[1], key.group, rows.getBounds()[1]) ||
        !sameValue(rows.getBounds()[0], {}, key.nest.getBounds()[0], {}) ||
        getConstantIntValue(OpFoldResult(loop.getLowerBound())) != 0 ||
        getConstantIntValue(OpFoldResult(key.rows.getLowerBound())) != 0 ||
        !covers(loop.getUpperBound(), key.nest.getBounds()[2],
                loop.getInductionVar(), loop.getUpperBound()) ||
        !covers(rows.getBounds()[2], key.rows.getUpperBound(), rows.getIv(2),
                key.rows.getUpperBound())) {
      missed(rows, kName, "the nest over keys visits other tiles");
      return;
    }
    if (rows.getSteps()[2] != bm ||
        getConstantIntValue(OpFoldResult(loop.getStep())) !=
            key.nest.getSteps()[2] ||
        getConstantIntValue(OpFoldResult(key.rows.getStep())) != bm) {
      missed(rows, kName, "its blocks are not those of the nest over keys");
      return;
    }
    // It will end after the key nest.
    if (rows->isBeforeInBlock(key.nest)) {
      if (!mayMoveTo(rows, key.nest)) {
        missed(rows, kName, "a nest between touches the same memory");
        return;
      }
      rows->moveAfter(key.nest);
    }

    // The buffer, zeroed before.
    TileBuilder b(OpBuilder(key.nest), rows.getLoc());
    Value zero = b.index(0), padded = b.roundUp(rows.getBounds()[2], bm);
    Value cols = b.index(acc.getDimSize(1));
    int64_t dyn = ShapedType::kDynamic;
    Value sum = b.make<memref::AllocOp>(
        MemRefType::get({dyn, dyn, dyn, acc.getDimSize(1)},
                        acc.getElementType()),
        ValueRange{rows.getBounds()[0], rows.getBounds()[1], padded});
    b.make<NestOp>("zero", rows.getBounds(), rows.getSteps(), 3,
                   [&](OpBuilder &inner, Location l, ValueRange iv) {
                     TileBuilder t(inner, l);
                     t.store(t.constant(acc, 0), sum,
                             {iv[0], iv[1], iv[2], zero}, {padded, cols});
                   });

    // The term, where the key nest stands on the same tile.
    TileBuilder at(OpBuilder(key.rows.getBody()->getTerminator()),
                   rows.getLoc());
    IRMapping map;
    map.map(rows.getIv(0), key.nest.getIv(0));
    map.map(rows.getIv(1), key.h);
    map.map(rows.getIv(2), key.rows.getInductionVar());
    map.map(loop.getInductionVar(), key.nest.getIv(2));
    map.map(dot.getAcc(), at.constant(acc, 0));
    Value term = cloneSlice(at, dot.getResult(), map);
    at.make<AccumulateOp>(
        AccumulateMode::plain, term, sum,
        ValueRange{key.nest.getIv(0), key.h, key.rows.getInductionVar(), zero},
        ValueRange{padded, cols}, Value(), Value(), ValueRange{});

    // What the old nest did with the sum stays where it was.
    TileBuilder fin(OpBuilder(loop), rows.getLoc());
    loop.getResult(0).replaceAllUsesWith(
        fin.load(sum, {rows.getIv(0), rows.getIv(1), rows.getIv(2), zero},
                 {padded, cols}, acc.getShape()));
    loop.erase();
    key.nest.setNumParallel(2);
    passed(key.nest, kName,
           "sums over keys are additions into memory; key blocks run in order");
  }
};
} // namespace
