//===- SpecializeMaskedBlocks.cpp - fa-specialize-masked-blocks -------------===//
//
// Most tiles of a masked score matrix are visible everywhere. The pass makes
// two versions of a block that selects by a mask tile, chosen by a test of
// scalars: one for tiles that are surely all visible, without the selects and
// without what only they needed, and the one there was.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/nest/MaskAnalysis.h"
#include "passes/nest/MaskRewrite.h"
#include "passes/nest/Tiles.h"

using namespace mlir;
using namespace fathom;

namespace fathom {
#define GEN_PASS_DEF_SPECIALIZEMASKEDBLOCKSPASS
#include "passes/Passes.h.inc"
} // namespace fathom

namespace {
constexpr StringLiteral kName = "fa-specialize-masked-blocks";

struct SpecializeMaskedBlocksPass
    : public fathom::impl::SpecializeMaskedBlocksPassBase<
          SpecializeMaskedBlocksPass> {
  using SpecializeMaskedBlocksPassBase::SpecializeMaskedBlocksPassBase;

  void runOnOperation() override {
    SmallVector<Block *> blocks;
    getOperation()->walk([&](Operation *op) {
      if (isa<NestOp>(op) || op->getParentOfType<NestOp>())
        for (Region &r : op->getRegions())
          for (Block &b : r)
            blocks.push_back(&b);
    });
    for (Block *block : blocks)
      specialize(block);
    for (auto func : getOperation().getOps<func::FuncOp>())
      tidyNests(func);
  }

  /// A conjunct of a mask, and when it is surely true everywhere.
  struct Part {
    Value mask;
    MaskAnalysis analysis;
  };

  /// Each select by one of `masks` is done only if not `all`, and so is what
  /// nothing else needs. A tile is rarely cut by more than one conjunct: where
  /// the others are all true, that one is all the mask.
  void guardSelects(Block *block, ArrayRef<Value> masks,
                    ArrayRef<SmallVector<Part>> parts, Value all) {
    SmallVector<arith::SelectOp> selects;
    for (auto select : block->getOps<arith::SelectOp>())
      if (llvm::is_contained(masks, select.getCondition()))
        selects.push_back(select);
    for (arith::SelectOp select : selects) {
      OpBuilder b(select);
      Location loc = select.getLoc();
      Type type = select.getType();
      auto branch =
          scf::IfOp::create(b, loc, type, all, /*withElseRegion=*/true);
      OpBuilder u = branch.getThenBodyBuilder(),
                m = branch.getElseBodyBuilder();
      scf::YieldOp::create(u, loc, select.getTrueValue());
      // The mask is made where it is needed, from what is at hand.
      auto selectBy = [&](OpBuilder &at, Value mask) {
        IRMapping map;
        Value here = cloneMask(at, mask, block, map);
        Value x = arith::SelectOp::create(at, loc, here, select.getTrueValue(),
                                          select.getFalseValue());
        scf::YieldOp::create(at, loc, x);
      };
      const auto *at = llvm::find(masks, select.getCondition());
      ArrayRef<Part> own = parts[at - masks.begin()];
      for (const Part &part : own) {
        bool only = own.size() > 1 && getVaryingDims(part.mask) == 3 &&
                    llvm::all_of(own, [&](const Part &o) {
                      return &o == &part || o.analysis.canBeAll();
                    });
        if (!only)
          continue;
        Value others;
        for (const Part &o : own)
          if (&o != &part) {
            Value v = o.analysis.emitAll(m, loc);
            others = others ? m.createOrFold<arith::AndIOp>(loc, others, v) : v;
          }
        auto step =
            scf::IfOp::create(m, loc, type, others, /*withElseRegion=*/true);
        scf::YieldOp::create(m, loc, step.getResult(0));
        OpBuilder t = step.getThenBodyBuilder();
        selectBy(t, part.mask);
        m = step.getElseBodyBuilder();
      }
      selectBy(m, select.getCondition());
      select.replaceAllUsesWith(branch.getResult(0));
      select.erase();
    }
  }

  /// `v` and the tiles it is made of, cloned as far as they stand in `block`.
  static Value cloneMask(OpBuilder &b, Value v, Block *block, IRMapping &map) {
    Operation *op = v.getDefiningOp();
    if (!op || op->getBlock() != block || !isPure(op) || op->getNumRegions() ||
        !isa<RankedTensorType>(v.getType()))
      return v;
    if (Value known = map.lookupOrNull(v))
      return known;
    for (Value o : op->getOperands())
      map.map(o, cloneMask(b, o, block, map));
    b.clone(*op, map);
    return map.lookup(v);
  }

  void specialize(Block *block) {
    Operation *parent = block->getParentOp();
    auto loop = dyn_cast<scf::ForOp>(parent);
    if (!loop)
      loop = parent->getParentOfType<scf::ForOp>();
    SmallVector<Value> masks;
    SmallVector<MaskAnalysis> analyses;
    SmallVector<SmallVector<Part>> parts;
    llvm::SetVector<Value> inputs;
    for (Value mask : getSelectMasks(*block)) {
      MaskAnalysis a(mask, loop);
      if (!a.canBeAll())
        continue;
      inputs.insert_range(a.getInputs());
      masks.push_back(mask);
      analyses.push_back(std::move(a));
      if (!selectsOnly)
        continue;
      SmallVector<Part> &own = parts.emplace_back();
      for (Value conjunct : getConjuncts(mask)) {
        own.push_back({conjunct, MaskAnalysis(conjunct, loop)});
        inputs.insert_range(own.back().analysis.getInputs());
      }
    }
    if (masks.empty()) {
      if (!getSelectMasks(*block).empty())
        missed(parent, kName,
               "no scalars tell whether a mask tile is all true");
      return;
    }

    Location loc = parent->getLoc();
    Operation *first = hoistSlice(inputs.getArrayRef(), block);
    OpBuilder b(first);
    Value all;
    for (const MaskAnalysis &a : analyses) {
      Value v = a.emitAll(b, loc);
      all = all ? b.createOrFold<arith::AndIOp>(loc, all, v) : v;
    }

    if (selectsOnly) {
      guardSelects(block, masks, parts, all);
      passed(parent, kName,
             "selects are skipped for tiles that are all visible");
      return;
    }

    // Both versions yield what the block's terminator passes on.
    Operation *end =
        block->mightHaveTerminator() ? block->getTerminator() : nullptr;
    SmallVector<Value> results;
    if (end)
      for (Value v : end->getOperands())
        if (Operation *def = v.getDefiningOp();
            def && def->getBlock() == block && !def->isBeforeInBlock(first))
          results.push_back(v);
    auto branch = scf::IfOp::create(b, loc, ValueRange(results).getTypes(), all,
                                    /*withElseRegion=*/true);
    Block *unmasked = branch.thenBlock(), *masked = branch.elseBlock();
    for (Block *side : {unmasked, masked})
      if (!side->empty())
        side->back().erase();
    masked->getOperations().splice(masked->end(), block->getOperations(),
                                   first->getIterator(),
                                   end ? end->getIterator() : block->end());

    OpBuilder u = OpBuilder::atBlockEnd(unmasked),
              m = OpBuilder::atBlockEnd(masked);
    IRMapping map;
    for (Operation &op : *masked) {
      auto select = dyn_cast<arith::SelectOp>(op);
      if (select && llvm::is_contained(masks, select.getCondition()))
        map.map(select.getResult(), map.lookupOrDefault(select.getTrueValue()));
      else
        u.clone(op, map);
    }
    SmallVector<Value> clones;
    for (Value v : results)
      clones.push_back(map.lookup(v));
    scf::YieldOp::create(u, loc, clones);
    scf::YieldOp::create(m, loc, results);
    if (end)
      for (auto [old, fresh] : llvm::zip_equal(results, branch.getResults()))
        end->replaceUsesOfWith(old, fresh);
    passed(parent, kName,
           "a version without the mask for tiles that are all visible");
  }
};
} // namespace
