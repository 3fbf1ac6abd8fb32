//===- MergeMasks.cpp - fa-gpu-merge-masks ----------------------------------===//
//
// A mask is often several comparisons of places: a column must be one of those
// that exist, in a row that exists, and not behind some diagonal. Each bounds
// the column; the least of the bounds is known once per row, so that an entry
// needs one comparison instead of three, and no registers for their results.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/map/gpu/Gpu.h"
#include "passes/nest/Tiles.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/MapVector.h"

namespace fathom {
#define GEN_PASS_DEF_GPUMERGEMASKSPASS
#include "passes/Passes.h.inc"
} // namespace fathom

using namespace mlir;
using namespace fathom;
using namespace fathom::gpu;

namespace {
constexpr StringLiteral kName = "fa-gpu-merge-masks";

/// What a tile of indices adds up to: lines along the dims, scalars, a number.
struct Sum {
  /// False if `tile` is no such sum.
  bool add(Value tile, int64_t times) {
    Operation *op = tile.getDefiningOp();
    if (!op)
      return false;
    if (isa<arith::AddIOp, arith::SubIOp>(op))
      return add(op->getOperand(0), times) &&
             add(op->getOperand(1), isa<arith::SubIOp>(op) ? -times : times);
    if (DenseElementsAttr splat; matchPattern(tile, m_Constant(&splat))) {
      constant += times * splat.getSplatValue<APInt>().getSExtValue();
      return true;
    }
    auto broadcast = dyn_cast<BroadcastOp>(op);
    if (!broadcast)
      return false;
    Value source = broadcast.getSource();
    if (isTile(source))
      lines[broadcast.getDim()][source] += times;
    else
      scalars[source] += times;
    return true;
  }

  llvm::MapVector<Value, int64_t> lines[2];
  llvm::MapVector<Value, int64_t> scalars;
  int64_t constant = 0;
};

/// A conjunct of a mask, as a sum that is positive where it holds.
struct Test {
  static std::optional<Test> of(Value v) {
    using P = arith::CmpIPredicate;
    auto cmp = v.getDefiningOp<arith::CmpIOp>();
    if (!cmp || !getElementTypeOrSelf(cmp.getLhs()).isIndex())
      return {};
    P p = cmp.getPredicate();
    bool less = p == P::slt || p == P::sle, equal = p == P::sle || p == P::sge;
    if (!less && p != P::sgt && p != P::sge)
      return {};
    Test test{v, {}};
    test.sum.constant = equal;
    if (!test.sum.add(cmp.getLhs(), less ? -1 : 1) ||
        !test.sum.add(cmp.getRhs(), less ? 1 : -1))
      return {};
    return test;
  }
  /// The place along `dim` that it bounds, if it does: from above if it counts
  /// negatively.
  std::pair<IotaOp, int64_t> place(unsigned dim) const {
    if (sum.lines[dim].size() != 1)
      return {};
    auto [line, times] = sum.lines[dim].front();
    return {std::abs(times) == 1 ? line.getDefiningOp<IotaOp>() : IotaOp(),
            times};
  }

  Value value;
  Sum sum;
};

/// Builds the bounds of the places along `dim` in one tile.
class Bounds : public TileBuilder {
public:
  Bounds(arith::AndIOp root, unsigned dim)
      : TileBuilder(OpBuilder(root), root.getLoc()), tile(tileType(root)),
        dim(dim) {
    line = RankedTensorType::get({tile.getDimSize(1 - dim)}, getIndexType(),
                                 layoutOf(root.getResult()).sliced(dim));
  }

  Value number(int64_t n) {
    return make<arith::ConstantOp>(
        DenseElementsAttr::get(line, getIndexAttr(n).getValue()));
  }
  /// `sum` but its part along `dim`, less `start`, as a line.
  Value rest(const Sum &sum, Value start) {
    Value scalar = sub(index(sum.constant), start);
    for (auto [v, times] : sum.scalars)
      scalar = times == -1 ? sub(scalar, v)
                           : add(scalar, times == 1 ? v : mul(v, index(times)));
    Value all = make<BroadcastOp>(line, scalar, 0);
    for (auto [v, times] : sum.lines[1 - dim])
      all = times == -1 ? sub(all, v)
                        : add(all, times == 1 ? v : mul(v, number(times)));
    return all;
  }
  /// `bound` no further out of the tile than it needs to be.
  Value clamp(Value bound, int64_t low, int64_t high) {
    return make<arith::MaxSIOp>(make<arith::MinSIOp>(bound, number(high)),
                                number(low));
  }
  Value compare(arith::CmpIPredicate p, Value places, Value bound) {
    auto type = RankedTensorType::get(tile.getShape(), getIndexType(),
                                      tile.getEncoding());
    return make<arith::CmpIOp>(p, make<BroadcastOp>(type, places, dim),
                               make<BroadcastOp>(type, bound, 1 - dim));
  }

  RankedTensorType tile, line;
  unsigned dim;
};

struct GpuMergeMasks
    : public fathom::impl::GpuMergeMasksPassBase<GpuMergeMasks> {
  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<KernelOp>()) {
      SmallVector<arith::AndIOp> roots;
      kernel.walk([&](arith::AndIOp op) {
        auto joins = [&](Operation *user) {
          return isa<arith::AndIOp>(user) && user->getBlock() == op->getBlock();
        };
        if (isTile(op) && tileType(op).getRank() == 2 &&
            !llvm::all_of(op->getUsers(), joins))
          roots.push_back(op);
      });
      for (arith::AndIOp root : roots)
        merge(root);
      tidy(kernel);
    }
  }

  static void conjuncts(Value v, SmallVector<Value> &list) {
    if (auto both = v.getDefiningOp<arith::AndIOp>()) {
      conjuncts(both.getLhs(), list);
      conjuncts(both.getRhs(), list);
    } else if (!llvm::is_contained(list, v)) {
      list.push_back(v);
    }
  }

  void merge(arith::AndIOp root) {
    SmallVector<Value> list, others;
    conjuncts(root, list);
    SmallVector<Test, 0> tests;
    for (Value v : list)
      if (auto test = Test::of(v))
        tests.push_back(*test);
      else
        others.push_back(v);

    // Along the dim where the line of bounds takes fewer registers.
    ThreadLayoutAttr layout = layoutOf(root.getResult());
    unsigned dim =
        layout.sliced(1).getNumRegisters() <= layout.sliced(0).getNumRegisters()
            ? 1
            : 0;
    IotaOp places;
    for (const Test &test : tests)
      if (!places)
        places = test.place(dim).first;
    SmallVector<Test, 0> above, below, lines;
    for (const Test &test : tests) {
      auto [place, times] = test.place(dim);
      if (place && place == places)
        (times < 0 ? above : below).push_back(test);
      else if (test.sum.lines[dim].empty())
        lines.push_back(test);
      else
        others.push_back(test.value);
    }
    unsigned left = (above.empty() ? 0 : 1) + (below.empty() ? 0 : 1);
    if (!places || above.size() + below.size() + lines.size() <= left)
      return missed(root, kName, "there are no two bounds of one place");

    Bounds b(root, dim);
    int64_t size = b.tile.getDimSize(dim);
    Value start = places.getStart();
    Value from0 = b.make<IotaOp>(places.getType(), b.index(0)), mask;
    Value holds; // where the lines' tests do
    for (const Test &test : lines) {
      Value is = b.make<arith::CmpIOp>(
          arith::CmpIPredicate::sgt, b.rest(test.sum, b.index(0)), b.number(0));
      holds = holds ? b.make<arith::AndIOp>(holds, is).getResult() : is;
    }
    auto also = [&](Value is) {
      mask = mask ? b.make<arith::AndIOp>(mask, is).getResult() : is;
    };
    // Positive sums: rest - place, so that place < rest; or rest + place.
    if (!above.empty()) {
      Value end;
      for (const Test &test : above) {
        Value v = b.rest(test.sum, start);
        end = end ? b.make<arith::MinSIOp>(end, v).getResult() : v;
      }
      end = b.clamp(end, 0, size);
      if (holds)
        end = b.make<arith::SelectOp>(holds, end, b.number(0));
      also(b.compare(arith::CmpIPredicate::slt, from0, end));
    }
    if (!below.empty()) {
      Value least;
      Value zero = b.index(0);
      for (const Test &test : below) {
        Value v = b.rest(test.sum, b.sub(zero, start));
        least = least ? b.make<arith::MinSIOp>(least, v).getResult() : v;
      }
      Value before = b.clamp(b.sub(b.number(0), least), -1, size - 1);
      if (holds && above.empty())
        before = b.make<arith::SelectOp>(holds, before, b.number(size - 1));
      also(b.compare(arith::CmpIPredicate::sgt, from0, before));
    }
    for (Value v : others)
      also(v);
    root.replaceAllUsesWith(mask);
    passed(root, kName, "one comparison for several bounds of a place");
  }
};

} // namespace
