//===- ClassifyMask.cpp - fa-classify-mask ----------------------------------===//
//
// Makes loops over blocks skip the iterations whose mask tile is false
// everywhere. That such an iteration changes nothing is proved on the loop's
// body: with the mask set to false, masked scores are -inf, their exponentials
// and all products of those are 0, and every carried value must come out as it
// went in. What is still written must be one number, a zero that is added, or
// a turn: that much is kept for hidden tiles. Then the loop's bounds are
// tightened to what MaskAnalysis gives, and where bounds are not enough (a
// union of ranges, ids read from memory) the body moves under a test per tile.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/nest/HiddenIteration.h"
#include "passes/nest/MaskAnalysis.h"
#include "passes/nest/MaskRewrite.h"
#include "passes/nest/Tiles.h"

using namespace mlir;
using namespace fathom;

namespace fathom {
#define GEN_PASS_DEF_CLASSIFYMASKPASS
#include "passes/Passes.h.inc"
} // namespace fathom

namespace {
constexpr StringLiteral kName = "fa-classify-mask";

struct ClassifyMaskPass
    : public fathom::impl::ClassifyMaskPassBase<ClassifyMaskPass> {
  using ClassifyMaskPassBase::ClassifyMaskPassBase;

  void runOnOperation() override {
    SmallVector<scf::ForOp> loops;
    getOperation()->walk([&](scf::ForOp loop) {
      if (loop->getParentOfType<NestOp>())
        loops.push_back(loop);
    });
    // All proofs are made on the program as it is, then all loops rewritten.
    for (scf::ForOp loop : loops)
      classify(loop);
    for (Skip &skip : skips)
      skipHidden(skip.loop, skip.mask, skip.kept);
    skips.clear();
    hiddenTiles.clear();
    for (auto func : getOperation().getOps<func::FuncOp>())
      tidyNests(func);
  }

  struct Skip {
    scf::ForOp loop;
    Value mask;
    SmallVector<HiddenIteration::Kept> kept;
  };
  /// `store` writes a tile of `number` where `mask` is false everywhere.
  struct HiddenTile {
    StoreOp store;
    Value mask;
    double number;
  };
  SmallVector<Skip> skips;
  SmallVector<HiddenTile> hiddenTiles;

  void classify(scf::ForOp loop) {
    std::string why;
    for (Value mask : getSelectMasks(*loop.getBody())) {
      HiddenIteration hidden(loop, mask);
      for (auto load : loop.getBody()->getOps<LoadOp>())
        if (auto number = storedWhereHidden(load, mask))
          hidden.assume(load.getTile(), *number);
      why.clear();
      if (failed(hidden.run(why)))
        continue;
      for (auto &[op, stored] : hidden.kept)
        if (auto store = dyn_cast<StoreOp>(op); store && stored.number)
          hiddenTiles.push_back({store, mask, *stored.number});
      skips.push_back({loop, mask, hidden.kept});
      return;
    }
    if (!why.empty())
      missed(loop, kName, why);
  }

  /// The number in every entry of the tile that `load` reads, if it was stored
  /// where the mask of that place was false, and that mask is `mask` at the
  /// place of the load.
  std::optional<double> storedWhereHidden(LoadOp load, Value mask) {
    for (HiddenTile &tile : hiddenTiles) {
      if (onlyStore(load.getBuffer()) != tile.store ||
          load.getTile().getType() != tile.store.getTile().getType())
        continue;
      IRMapping here;
      for (auto [from, to] :
           llvm::zip_equal(tile.store.getIndices(), load.getIndices()))
        here.map(from, to);
      if ((tile.number == 0 || isWhole(load)) &&
          sameValue(tile.mask, here, mask, IRMapping()))
        return tile.number;
    }
    return std::nullopt;
  }

  /// Moves scalars that do not change in `loop` before it, so that bounds can
  /// use them. A load whose index is not known to be in range runs only if the
  /// loop has an iteration, as it did.
  static void hoistScalars(scf::ForOp loop) {
    auto nest = loop->getParentOfType<NestOp>();
    for (Operation &op :
         llvm::make_early_inc_range(loop.getBody()->without_terminator())) {
      if (op.getNumResults() != 1 || op.getNumRegions() != 0 ||
          isa<ShapedType>(op.getResult(0).getType()) ||
          !llvm::all_of(op.getOperands(), [&](Value v) {
            return loop.isDefinedOutsideOfLoop(v);
          }))
        continue;
      if (isPure(&op)) {
        op.moveBefore(loop);
        continue;
      }
      auto load = dyn_cast<memref::LoadOp>(op);
      if (!load || isWrittenIn(nest, load.getMemRef()))
        continue;
      Value known;
      for (Operation *above = loop; above != nest && !known;
           above = above->getParentOp())
        for (auto other : above->getBlock()->getOps<memref::LoadOp>())
          if (other->isBeforeInBlock(above) &&
              other->getOperands() == load->getOperands())
            known = other;
      if (!known) {
        OpBuilder b(loop);
        Location loc = load.getLoc();
        Value runs =
            arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt,
                                  loop.getLowerBound(), loop.getUpperBound());
        known =
            scf::IfOp::create(
                b, loc, runs,
                [&](OpBuilder &then, Location l) {
                  scf::YieldOp::create(then, l, then.clone(op)->getResults());
                },
                [&](OpBuilder &otherwise, Location l) {
                  Type t = load.getType();
                  Value zero = arith::ConstantOp::create(
                      otherwise, l, otherwise.getZeroAttr(t));
                  scf::YieldOp::create(otherwise, l, zero);
                })
                .getResult(0);
      }
      load.replaceAllUsesWith(known);
      load.erase();
    }
  }

  /// What a skipped iteration still does, at `b`.
  static void emitKept(OpBuilder &b, Block *body,
                       ArrayRef<HiddenIteration::Kept> kept, IRMapping &map) {
    auto mapped = [&](ValueRange values) {
      for (Operation *needed : getSlice(values, body))
        if (!map.contains(needed->getResult(0)))
          b.clone(*needed, map);
      return llvm::map_to_vector(
          values, [&](Value v) { return map.lookupOrDefault(v); });
    };
    for (auto &[op, stored] : kept) {
      Location loc = op->getLoc();
      if (auto acc = dyn_cast<AccumulateOp>(op)) {
        Value turn = mapped(acc.getTurn())[0];
        PassTurnOp::create(b, loc, turn, acc.getTickets(),
                           mapped(acc.getTicketIndices()));
        continue;
      }
      if (auto store = dyn_cast<StoreOp>(op)) {
        Type type = store.getTile().getType();
        map.map(store.getTile(),
                stored.number ? arith::ConstantOp::create(
                                    b, loc, makeConstant(type, *stored.number))
                              : stored.same);
      }
      mapped(op->getOperands().drop_front(isa<StoreOp>(op)));
      b.clone(*op, map);
    }
  }

  /// What says where and when the kept ops act. It must stay in front of every
  /// test, as both sides of it need it.
  static SmallVector<Value> placesOf(ArrayRef<HiddenIteration::Kept> kept) {
    SmallVector<Value> places;
    for (auto &[op, stored] : kept) {
      if (auto acc = dyn_cast<AccumulateOp>(op)) {
        places.push_back(acc.getTurn());
        llvm::append_range(places, acc.getTicketIndices());
      } else {
        llvm::append_range(places,
                           op->getOperands().drop_front(isa<StoreOp>(op)));
      }
    }
    return places;
  }

  /// Moves the ops of the body from `first` on under scf.if `cond`; otherwise
  /// only `kept` is done and the carried values stay.
  static void guardRest(scf::ForOp loop, Operation *first, Value cond,
                        ArrayRef<HiddenIteration::Kept> kept) {
    Block *body = loop.getBody();
    Operation *yield = body->getTerminator();
    OpBuilder b(first);
    auto guard = scf::IfOp::create(b, loop.getLoc(), loop.getResultTypes(),
                                   cond, /*withElseRegion=*/
                                   loop.getNumResults() != 0 || !kept.empty());
    auto clear = [](Block *block) {
      if (!block->empty())
        block->back().erase();
    };
    if (guard.elseBlock()) {
      clear(guard.elseBlock());
      OpBuilder e = OpBuilder::atBlockEnd(guard.elseBlock());
      IRMapping map;
      emitKept(e, body, kept, map);
      scf::YieldOp::create(e, loop.getLoc(), loop.getRegionIterArgs());
    }
    clear(guard.thenBlock());
    guard.thenBlock()->getOperations().splice(
        guard.thenBlock()->end(), body->getOperations(), first->getIterator(),
        yield->getIterator());
    OpBuilder t = OpBuilder::atBlockEnd(guard.thenBlock());
    scf::YieldOp::create(t, loop.getLoc(), yield->getOperands());
    yield->setOperands(guard.getResults());
  }

  void skipHidden(scf::ForOp loop, Value mask,
                  ArrayRef<HiddenIteration::Kept> kept) {
    hoistScalars(loop);
    MaskAnalysis analysis(mask, loop);
    OpBuilder b(loop);
    Location loc = loop.getLoc();
    Block *body = loop.getBody();
    Value lb = loop.getLowerBound(), ub = loop.getUpperBound(),
          step = loop.getStep();
    MaskAnalysis::Range range = analysis.emitRange(b, loc);
    bool tighter = range.lo != lb || range.hi != ub;
    if (!tighter && range.exact && analysis.isUnderstood())
      return missed(loop, kName, "the mask hides no whole tile");

    // Iterations that store go on, each under the test; those that take turns
    // still pass them at both ends.
    bool stores =
        llvm::any_of(kept, [](auto &k) { return isa<StoreOp>(k.op); });
    if (stores) {
      range.lo = lb, range.hi = ub;
      range.exact = false;
      tighter = false;
    } else if (!kept.empty()) {
      auto passLoop = [&](Value from, Value to) {
        auto pass = scf::ForOp::create(b, loc, from, to, step);
        OpBuilder p = OpBuilder::atBlockBegin(pass.getBody());
        IRMapping map;
        map.map(loop.getInductionVar(), pass.getInductionVar());
        emitKept(p, body, kept, map);
      };
      if (range.lo != lb)
        passLoop(lb, range.lo);
      if (range.hi != ub) {
        // The first value of the induction variable at or past hi.
        b.setInsertionPointAfter(loop);
        Value zero = arith::ConstantIndexOp::create(b, loc, 0);
        Value length = arith::MaxSIOp::create(
            b, loc, arith::SubIOp::create(b, loc, range.hi, range.lo), zero);
        Value one = arith::ConstantIndexOp::create(b, loc, 1);
        Value round = arith::SubIOp::create(b, loc, step, one);
        Value steps = arith::DivUIOp::create(
            b, loc, arith::AddIOp::create(b, loc, length, round), step);
        Value end = arith::AddIOp::create(
            b, loc, range.lo, arith::MulIOp::create(b, loc, steps, step));
        passLoop(end, ub);
      }
    }
    loop.setLowerBound(range.lo);
    loop.setUpperBound(range.hi);

    SmallVector<Value> first = placesOf(kept);
    if (!analysis.isUnderstood()) {
      first.push_back(mask);
      Operation *rest = hoistSlice(first, body);
      first.pop_back();
      OpBuilder at(rest);
      Value any = mask;
      while (auto t = dyn_cast<RankedTensorType>(any.getType())) {
        Type r = t.getRank() == 1 ? t.getElementType()
                                  : RankedTensorType::get({t.getDimSize(0)},
                                                          t.getElementType());
        any =
            ReduceOp::create(at, loc, r, ReduceKind::any, any, t.getRank() - 1);
      }
      guardRest(loop, rest, any, kept);
    }
    if (!range.exact) {
      llvm::append_range(first, analysis.getInputs());
      Operation *rest = hoistSlice(first, body);
      OpBuilder at(rest);
      Value any = analysis.emitAny(at, loc);
      guardRest(loop, rest, any, kept);
    }
    passed(loop, kName,
           Twine(tighter ? "bounds tightened to the tiles that can be visible"
                         : "bounds kept") +
               (range.exact ? "" : ", a test of scalars per tile") +
               (stores ? ", hidden tiles are only stored" : "") +
               (analysis.isUnderstood()
                    ? ""
                    : ", a test of the mask tile's entries per tile"));
  }
};
} // namespace
