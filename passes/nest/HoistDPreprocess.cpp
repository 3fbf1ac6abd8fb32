//===- HoistDPreprocess.cpp - fa-hoist-d-preprocess -------------------------===//
//
// delta_i = sum_j P_ij dP_ij with dP = dO V^T is an N^2 reduction. Because
// O = P V it equals dO_i . O_i, a sum over the head dim alone
// (FlashAttention, arXiv:2205.14135, appendix B.2). The pass finds the
// reduction, finds the nest that stores P V over the same keys, and replaces
// the one by the other.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/nest/Tiles.h"

using namespace mlir;
using namespace fathom;

namespace fathom {
#define GEN_PASS_DEF_HOISTDPREPROCESSPASS
#include "passes/Passes.h.inc"
} // namespace fathom

namespace {

/// A tile and how to read its definition from the loop it is used in.
struct Traced {
  Value value;
  IRMapping map;
};

/// Follows a load to the value stored by its producer.
std::optional<Traced> trace(Value v) {
  auto load = v.getDefiningOp<LoadOp>();
  if (!load)
    return Traced{v, {}};
  std::string why;
  auto p = findProducer(load, why);
  if (!p)
    return std::nullopt;
  Traced t{p->store.getTile(), {}};
  for (auto [to, from] : llvm::zip(p->store.getIndices(), load.getIndices()))
    if (isa<BlockArgument>(to))
      t.map.map(to, from);
  return t;
}

/// sum over a loop of rowsum(p * dp).
struct RowDot {
  scf::ForOp loop;
  Value p, dp;

  LoadOp loadOfP() { return stripCasts(p).getDefiningOp<LoadOp>(); }
};

std::optional<RowDot> matchRowDot(NestOp nest) {
  scf::ForOp loop = onlyLoop(nest);
  if (!loop || loop.getNumRegionIterArgs() != 1 ||
      floatConstant(loop.getInitArgs()[0]) != 0.0)
    return std::nullopt;
  auto [a, c] = matchBinary<arith::AddFOp>(loop.getYieldedValues()[0]);
  if (!a)
    return std::nullopt;
  if (c == loop.getRegionIterArg(0))
    std::swap(a, c);
  auto reduce = c.getDefiningOp<ReduceOp>();
  if (a != loop.getRegionIterArg(0) || !reduce ||
      reduce.getKind() != ReduceKind::add || reduce.getDim() != 1)
    return std::nullopt;
  auto [x, y] = matchBinary<arith::MulFOp>(reduce.getTile());
  if (!x)
    return std::nullopt;
  return RowDot{loop, x, y};
}

struct HoistDPreprocessPass
    : public fathom::impl::HoistDPreprocessPassBase<HoistDPreprocessPass> {
  using HoistDPreprocessPassBase::HoistDPreprocessPassBase;

  void runOnOperation() override {
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      bool any = false;
      for (auto nest : llvm::make_early_inc_range(func.getOps<NestOp>())) {
        auto row = matchRowDot(nest);
        if (!row)
          continue;
        std::string why;
        // Either factor may be P: the one that some nest multiplies with V.
        bool done =
            rewrite(func, nest, *row, why) ||
            rewrite(func, nest, RowDot{row->loop, row->dp, row->p}, why);
        if (done) {
          any = true;
          passed(nest, "fa-hoist-d-preprocess",
                 "rowsum(P o dP) is now rowsum(dO o O)");
        } else {
          missed(nest, "fa-hoist-d-preprocess", why);
        }
      }
      if (any)
        tidyNests(func);
      else
        missed(func, "fa-hoist-d-preprocess",
               "no nest sums rows of a product over keys");
    }
  }

  bool rewrite(func::FuncOp func, NestOp nest, RowDot row, std::string &why) {
    LoadOp rowP = row.loadOfP();
    if (!rowP)
      return false;
    auto dp = trace(row.dp);
    auto dot = dp ? stripCasts(dp->value).getDefiningOp<DotOp>() : DotOp();
    if (!dot || floatConstant(dot.getAcc()) != 0.0)
      return why = "the factor beside P is not a product", false;
    auto vt = dot.getB().getDefiningOp<TransposeOp>();
    auto v = vt ? vt.getTile().getDefiningOp<LoadOp>() : LoadOp();
    auto dO = dot.getA().getDefiningOp<LoadOp>();
    if (!v || !dO)
      return why = "the factor beside P is not dO V^T of loaded tiles", false;

    for (auto other : func.getOps<NestOp>()) {
      scf::ForOp loop = onlyLoop(other);
      if (!loop || loop.getNumRegionIterArgs() != 1 ||
          !other->isBeforeInBlock(nest))
        continue;
      auto pv = loop.getYieldedValues()[0].getDefiningOp<DotOp>();
      auto p = pv ? stripCasts(pv.getA()).getDefiningOp<LoadOp>() : LoadOp();
      auto v2 = pv ? pv.getB().getDefiningOp<LoadOp>() : LoadOp();
      if (!p || !v2 || p.getBuffer() != rowP.getBuffer() ||
          pv.getAcc() != loop.getRegionIterArg(0) ||
          floatConstant(loop.getInitArgs()[0]) != 0.0)
        continue;
      // Same P tile: this fixes what the other nest's variables are here.
      IRMapping map, none;
      for (auto [from, to] : llvm::zip(p.getIndices(), rowP.getIndices()))
        map.map(from, to);
      StoreOp store;
      for (Operation *user : loop.getResult(0).getUsers()) {
        if (isa<arith::TruncFOp>(user) && user->hasOneUse())
          user = *user->user_begin();
        if (auto s = dyn_cast<StoreOp>(user))
          store = s;
      }
      if (!store || onlyStore(store.getBuffer()) != store) {
        why = "P V is not stored as it is";
        continue;
      }
      if (!sameValues(v2->getOperands(), map, v->getOperands(), dp->map) ||
          !sameValues(p->getOperands(), map, rowP->getOperands(), none) ||
          !sameValue(loop.getLowerBound(), map, row.loop.getLowerBound(),
                     none) ||
          !sameValue(loop.getUpperBound(), map, row.loop.getUpperBound(),
                     none) ||
          !sameValue(loop.getStep(), map, row.loop.getStep(), none)) {
        why = "P V runs over other keys or another V than dO V^T";
        continue;
      }
      if (!sameValues(store.getIndices(), map, dO.getIndices(), dp->map) ||
          !sameValues(store.getLimits(), map, dO.getLimits(), dp->map)) {
        why = "the rows of dO are not the rows of P V";
        continue;
      }
      auto tile = cast<RankedTensorType>(dO.getTile().getType());
      int64_t width = rowP.getTile().getType().getDimSize(1);
      if (store.getTile().getType() != tile ||
          getConstantIntValue(OpFoldResult(row.loop.getStep())) != width ||
          other.getSteps() != nest.getSteps() ||
          !sameValues(other.getBounds(), map, nest.getBounds(), none)) {
        why = "P V is not stored for the same rows and channels";
        continue;
      }
      // P, V and O are the same in both nests.
      Access between;
      for (Operation *op = other->getNextNode(); op != nest;
           op = op->getNextNode())
        between.writes.insert_range(accessOf(op).writes);
      if (llvm::any_of(
              std::initializer_list<Value>{p.getBuffer(), v2.getBuffer(),
                                           store.getBuffer(), dO.getBuffer()},
              [&](Value x) { return between.writes.contains(x); })) {
        why = "P, V or O is written again in between";
        continue;
      }
      TileBuilder b(OpBuilder(row.loop), row.loop.getLoc());
      Value g = cloneSlice(b, dO.getTile(), dp->map);
      SmallVector<Value> indices, limits;
      for (Value i : store.getIndices())
        indices.push_back(cloneSlice(b, i, map));
      for (Value l : store.getLimits())
        limits.push_back(cloneSlice(b, l, map));
      Value o =
          b.load(store.getBuffer(), indices, limits,
                 cast<RankedTensorType>(store.getTile().getType()).getShape());
      Type acc = getElementTypeOrSelf(row.loop.getResult(0).getType());
      Value t = b.make<arith::MulFOp>(b.castTo(g, acc), b.castTo(o, acc));
      row.loop.getResult(0).replaceAllUsesWith(b.reduce(ReduceKind::add, t, 1));
      row.loop.erase();
      return true;
    }
    if (why.empty())
      why = "no nest before it stores P V";
    return false;
  }
};
} // namespace
