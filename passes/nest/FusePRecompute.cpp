//===- FusePRecompute.cpp - fa-fuse-p-recompute -----------------------------===//
//
// The backward reads P (and S) that the forward stored: N^2 bytes. P can be
// rebuilt from Q, K and one number per row, because P = exp(S - L) with
// L = m + log l (FlashAttention, arXiv:2205.14135). The pass finds the stored
// P = exp(X - m) / l and the stored L, proves L = m + log l for the same m and
// l, and rebuilds P where the backward loads it. The policy of the schedule
// may keep P instead, as it is or as 8-bit codes.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/nest/Tiles.h"

#include <limits>

using namespace mlir;
using namespace fathom;

namespace fathom {
#define GEN_PASS_DEF_FUSEPRECOMPUTEPASS
#include "passes/Passes.h.inc"
} // namespace fathom

namespace {
constexpr StringLiteral kName = "fa-fuse-p-recompute";

struct FusePRecomputePass
    : public fathom::impl::FusePRecomputePassBase<FusePRecomputePass> {
  using FusePRecomputePassBase::FusePRecomputePassBase;

  void runOnOperation() override {
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      if (backwardNests(func).empty()) {
        missed(func, kName, "no backward reads what a forward stored");
        continue;
      }
      auto schedule = func->getAttrOfType<ScheduleAttr>(kScheduleAttr);
      PPolicy policy = schedule ? schedule.getP() : PPolicy::recompute;
      SmallVector<Softmax> found;
      for (auto alloc : func.getOps<memref::AllocOp>())
        if (auto s = matchSoftmax(func, alloc))
          found.push_back(*s);
      if (found.empty())
        missed(func, kName, "no stored exp(x - m) / l with a stored m + log l");
      for (Softmax &s : found) {
        switch (policy) {
        case PPolicy::recompute:
          rebuildP(func, s);
          break;
        case PPolicy::store:
          missed(s.nest, kName, "the schedule keeps P: p = store");
          break;
        case PPolicy::store_compressed:
          compress(s);
          break;
        }
      }
      rebuildScores(func);
      tidyNests(func);
    }
  }

  static bool isBackward(LoadOp load, ArrayRef<NestOp> nests) {
    return llvm::is_contained(nests, load->getParentOfType<NestOp>());
  }

  /// P = exp(x - guard(m)) / guard(l), rebuilt as exp(x - guard(L)).
  void rebuildP(func::FuncOp func, Softmax &s) {
    SmallVector<NestOp> nests = backwardNests(func);
    for (LoadOp load : loadsOf(s.p.getBuffer())) {
      if (!isBackward(load, nests))
        continue;
      std::string why;
      if (!findProducer(load, why)) {
        missed(load, kName, why);
        continue;
      }
      TileBuilder b(OpBuilder(load), load.getLoc());
      IRMapping map;
      for (auto [to, from] : llvm::zip(s.p.getIndices(), load.getIndices()))
        map.map(to, from);
      Value x = cloneSlice(b, s.x, map);
      Value l = loadLse(b, s, map);
      auto type = cast<RankedTensorType>(x.getType());
      Value shift = b.broadcast(
          b.guard(l, -std::numeric_limits<double>::infinity(), 0), 0, type);
      Value p = b.make<math::ExpOp>(b.make<arith::SubFOp>(x, shift));
      replaceStored(b, load, p);
      passed(load, kName, "P is rebuilt as exp(S - L)");
      load.erase();
    }
  }

  /// Users that widen the stored value take `v` as it is, before rounding.
  static void replaceStored(TileBuilder &b, LoadOp load, Value v) {
    for (Operation *user :
         llvm::make_early_inc_range(load.getTile().getUsers()))
      if (auto ext = dyn_cast<arith::ExtFOp>(user);
          ext && ext.getType() == v.getType()) {
        ext.replaceAllUsesWith(v);
        ext.erase();
      }
    if (!load.getTile().use_empty())
      load.getTile().replaceAllUsesWith(
          b.castTo(v, load.getTile().getType().getElementType()));
  }

  /// S and X never cross to the backward: their tiles are computed again.
  void rebuildScores(func::FuncOp func) {
    SmallVector<NestOp> nests = backwardNests(func);
    auto crosses = [&](LoadOp l) {
      StoreOp store = onlyStore(l.getBuffer());
      if (!store || l.getTile().getType().getRank() != 2)
        return false;
      auto from = dyn_cast<NestOp>(store->getParentOp());
      return from && !llvm::is_contained(nests, from) &&
             !matchExp(store.getTile());
    };
    for (NestOp nest : nests) {
      SmallVector<LoadOp> loads;
      nest->walk([&](LoadOp l) {
        if (crosses(l))
          loads.push_back(l);
      });
      for (LoadOp l : loads)
        recomputeLoad(l, crosses);
    }
  }

  /// True for what stands for a probability: it is kept or rebuilt by policy.
  static bool matchExp(Value v) {
    v = stripCasts(v);
    if (auto div = v.getDefiningOp<arith::DivFOp>())
      v = div.getLhs();
    if (v.getDefiningOp<arith::FPToUIOp>())
      return true;
    return v.getDefiningOp<math::ExpOp>() != nullptr;
  }

  /// P in [0, 1] as an 8-bit code c = round(-8 log2 P): P = 2^(-c/8), at most
  /// 2^(1/16) - 1 = 4.5% off; codes above 254 stand for 0 (P < 2^-31.8).
  void compress(Softmax &s) {
    TileBuilder b(OpBuilder(s.p), s.p.getLoc());
    Value old = s.p.getBuffer();
    auto type = cast<MemRefType>(old.getType());
    auto alloc = old.getDefiningOp<memref::AllocOp>();
    TileBuilder top(OpBuilder(alloc), alloc.getLoc());
    Value codes = top.make<memref::AllocOp>(
        MemRefType::get(type.getShape(), b.getI8Type()),
        alloc.getDynamicSizes());
    // The output nest multiplies exact P: it keeps the old buffer.
    SmallVector<NestOp> nests =
        backwardNests(s.p->getParentOfType<func::FuncOp>());
    Value p = s.div.getResult();
    auto tile = cast<RankedTensorType>(p.getType());
    Value c =
        b.make<arith::MulFOp>(b.make<math::Log2Op>(p), b.constant(tile, -8));
    c = b.make<arith::AddFOp>(c, b.constant(tile, 0.5));
    c = b.make<arith::MinNumFOp>(c, b.constant(tile, 255));
    c = b.make<arith::MaxNumFOp>(c, b.constant(tile, 0));
    c = b.make<arith::FPToUIOp>(tile.clone(b.getI8Type()), c);
    b.store(c, codes, s.p.getIndices(), s.p.getLimits());
    for (LoadOp load : loadsOf(old)) {
      if (!isBackward(load, nests))
        continue;
      // Past a limit a code reads as 0, which is not P = 0.
      if (load.getTile().getType() != s.p.getTile().getType() ||
          !isWhole(load)) {
        missed(load, kName,
               "it reads another tile shape than was stored, or past a limit");
        continue;
      }
      TileBuilder at(OpBuilder(load), load.getLoc());
      Value code = at.load(codes, load.getIndices(), load.getLimits(),
                           load.getTile().getType().getShape());
      Value f = at.make<arith::UIToFPOp>(tile, code);
      Value e = at.make<math::Exp2Op>(
          at.make<arith::MulFOp>(f, at.constant(tile, -0.125)));
      Value none = at.make<arith::CmpFOp>(arith::CmpFPredicate::OEQ, f,
                                          at.constant(tile, 255));
      Value v = at.make<arith::SelectOp>(none, at.constant(tile, 0), e);
      replaceStored(at, load, v);
      load.erase();
    }
    passed(s.nest, kName, "P is kept as 8-bit codes of -8 log2 P");
  }
};
} // namespace
