//===- DeferSums.cpp - fa-gpu-defer-sums ------------------------------------===//
//
// A loop that adds up lines of its tiles needs the sums of whole lines after its
// end only. Until then each lane may keep what it has of a line: the lanes that
// share one exchange their parts once, not in every round.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/map/gpu/Gpu.h"
#include "passes/nest/Tiles.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace fathom {
#define GEN_PASS_DEF_GPUDEFERSUMSPASS
#include "passes/Passes.h.inc"
} // namespace fathom

using namespace mlir;
using namespace fathom;
using namespace fathom::gpu;

namespace {
constexpr StringLiteral kName = "fa-gpu-defer-sums";

/// How a loop makes the next value of a line that it carries.
class Sum {
public:
  explicit Sum(BlockArgument carried) : carried(carried) {}

  /// True if `v` is the carried line, scaled by lines and raised by sums of
  /// tiles of one type and dim; sets `tile` and `dim` to those.
  bool match(Value v) {
    if (v == carried) {
      ++reads;
      return true;
    }
    if (!v.hasOneUse())
      return false;
    Operation *op = v.getDefiningOp();
    if (auto branch = dyn_cast_or_null<scf::IfOp>(op)) {
      unsigned n = cast<OpResult>(v).getResultNumber();
      return match(branch.thenYield().getOperand(n)) &&
             match(branch.elseYield().getOperand(n));
    }
    if (isa_and_nonnull<arith::MulFOp>(op))
      return match(op->getOperand(other(op)));
    if (!isa_and_nonnull<arith::AddFOp>(op))
      return false;
    auto reduce = sumIn(op);
    if (!reduce || !reduce.getResult().hasOneUse())
      return false;
    if (tile &&
        (tile != reduce.getTile().getType() || dim != int64_t(reduce.getDim())))
      return false;
    tile = reduce.getTile().getType();
    dim = reduce.getDim();
    return match(op->getOperand(1 - number(op, reduce.getResult())));
  }

  /// The same for the parts of lanes, `from` what is carried of them.
  Value parts(Value v, Value from, RankedTensorType type) {
    if (v == carried)
      return from;
    Operation *op = v.getDefiningOp();
    if (auto branch = dyn_cast<scf::IfOp>(op)) {
      unsigned n = cast<OpResult>(v).getResultNumber();
      for (scf::YieldOp yield : {branch.thenYield(), branch.elseYield()})
        yield.setOperand(n, parts(yield.getOperand(n), from, type));
      v.setType(type);
      return v;
    }
    TileBuilder b(OpBuilder(op), op->getLoc());
    if (auto mul = dyn_cast<arith::MulFOp>(op)) {
      unsigned n = other(op);
      return b.make<arith::MulFOp>(
          parts(op->getOperand(n), from, type),
          b.make<BroadcastOp>(type, op->getOperand(1 - n), 1 - dim));
    }
    ReduceOp reduce = sumIn(op);
    Value rest = op->getOperand(1 - number(op, reduce.getResult()));
    return b.make<arith::AddFOp>(
        parts(rest, from, type),
        b.make<PartialSumOp>(type, reduce.getTile(), dim));
  }

  /// The type of the tiles whose lines are summed; null if there are none.
  RankedTensorType tile;
  int64_t dim = 0;
  /// How many of the carried line's uses were matched.
  unsigned reads = 0;

private:
  /// The operand of a product that holds the carried line.
  unsigned other(Operation *op) const {
    return dependsOn(op->getOperand(1), carried) ? 1 : 0;
  }
  static unsigned number(Operation *op, Value v) {
    return op->getOperand(0) == v ? 0 : 1;
  }
  ReduceOp sumIn(Operation *op) const {
    for (Value v : op->getOperands())
      if (auto reduce = v.getDefiningOp<ReduceOp>())
        if (reduce.getKind() == ReduceKind::add && isTile(reduce.getResult()))
          return reduce;
    return {};
  }

  BlockArgument carried;
};

struct GpuDeferSums : public fathom::impl::GpuDeferSumsPassBase<GpuDeferSums> {
  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<KernelOp>()) {
      SmallVector<scf::ForOp> loops;
      kernel.walk([&](scf::ForOp loop) { loops.push_back(loop); });
      for (scf::ForOp loop : loops)
        for (auto [n, arg] : llvm::enumerate(loop.getRegionIterArgs()))
          if (isTile(arg) && tileType(arg).getRank() == 1)
            defer(loop, n);
      if (!loops.empty())
        tidy(kernel);
    }
  }

  static void defer(scf::ForOp loop, unsigned n) {
    BlockArgument arg = loop.getRegionIterArg(n);
    auto yield = cast<scf::YieldOp>(loop.getBody()->getTerminator());
    Value next = yield.getOperand(n);
    Sum sum(arg);
    if (!sum.match(next) || !sum.tile)
      return missed(loop, kName, "a line is carried that is no plain sum");
    // Nothing else may read the line before it is whole.
    if (!arg.hasNUses(sum.reads))
      return missed(loop, kName,
                    "the loop reads the sum of its earlier rounds");
    if (floatConstant(loop.getInitArgs()[n]) != 0.0)
      return missed(loop, kName, "the sum does not start at 0");
    ThreadLayoutAttr layout = layoutOf(sum.tile).thinned(sum.dim);
    SmallVector<int64_t> shape(sum.tile.getShape());
    shape[sum.dim] = layout.getSize(sum.dim);
    auto type = RankedTensorType::get(shape, sum.tile.getElementType(), layout);

    TileBuilder before(OpBuilder(loop), loop.getLoc());
    loop.getInitArgsMutable()[n].set(before.constant(type, 0));
    arg.setType(type);
    yield.setOperand(n, sum.parts(next, arg, type));
    Value result = loop.getResult(n);
    auto lineType = cast<RankedTensorType>(result.getType());
    result.setType(type);
    OpBuilder at(loop->getContext());
    at.setInsertionPointAfter(loop);
    auto whole = ReduceOp::create(at, loop.getLoc(), lineType, ReduceKind::add,
                                  result, sum.dim);
    result.replaceAllUsesExcept(whole, whole);
    passed(loop, kName, "lanes add up their parts of lines after the loop");
  }
};

} // namespace
