//===- FloatPositions.cpp - fa-gpu-float-positions --------------------------===//
//
// Scores that depend on where an entry is make floats of positions: a
// conversion per entry, in the slowest unit but one, after arithmetic in 64
// bits. Within a tile positions differ by small constants. What the tile's
// entries share is added up in integers and converted once; what a thread and a
// register add to that are floats.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/map/gpu/Gpu.h"
#include "passes/nest/Tiles.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace fathom {
#define GEN_PASS_DEF_GPUFLOATPOSITIONSPASS
#include "passes/Passes.h.inc"
} // namespace fathom

using namespace mlir;
using namespace fathom;
using namespace fathom::gpu;

namespace {
constexpr StringLiteral kName = "fa-gpu-float-positions";

/// True for an op that changes no index: between types that hold them all.
bool keepsIndexes(Operation *op) {
  auto holds = [](Type t) {
    t = getElementTypeOrSelf(t);
    return t.isIndex() || t.isInteger(64);
  };
  return isa<arith::IndexCastOp>(op) && holds(op->getOperand(0).getType()) &&
         holds(op->getResult(0).getType());
}

/// A tile of integers as what all entries share and counts along its dims.
struct Position {
  /// Scalars and their signs.
  SmallVector<std::pair<Value, int>> shared;
  int64_t constant = 0;
  /// The dims of lines, and their signs; in a tile of rank 2.
  SmallVector<std::pair<int64_t, int>> counts;
};

/// Adds `v` times `sign` to `p`; false if it is more than a sum of positions.
/// `dim`: where the line `v` goes in the tile; -1 if `v` is the tile.
bool collect(Value v, int sign, int64_t dim, Position &p) {
  APInt n;
  if (matchPattern(v, m_ConstantInt(&n))) {
    p.constant += sign * n.getSExtValue();
    return true;
  }
  if (!isTile(v)) {
    p.shared.push_back({v, sign});
    return true;
  }
  Operation *op = v.getDefiningOp();
  if (!op)
    return false;
  if (auto iota = dyn_cast<IotaOp>(op)) {
    p.counts.push_back({dim, sign});
    return dim >= 0 && collect(iota.getStart(), sign, dim, p);
  }
  if (auto broadcast = dyn_cast<BroadcastOp>(op))
    return collect(broadcast.getSource(), sign,
                   dim < 0 ? int64_t(broadcast.getDim()) : dim, p);
  if (isa<arith::AddIOp, arith::SubIOp>(op))
    return collect(op->getOperand(0), sign, dim, p) &&
           collect(op->getOperand(1), isa<arith::AddIOp>(op) ? sign : -sign,
                   dim, p);
  return keepsIndexes(op) && collect(op->getOperand(0), sign, dim, p);
}

class Floats {
public:
  Floats(arith::SIToFPOp op)
      : b(OpBuilder(op), op.getLoc()), type(tileType(op)) {}

  /// The integers of `v` as floats, or null.
  Value get(Value v) {
    while (Operation *op = v.getDefiningOp()) {
      if (isa<math::AbsIOp>(op)) {
        Value x = get(op->getOperand(0));
        return x ? b.make<math::AbsFOp>(x) : Value();
      }
      if (isa<arith::MinSIOp, arith::MaxSIOp>(op)) {
        Value x = get(op->getOperand(0)), y = x ? get(op->getOperand(1)) : x;
        if (!y)
          return {};
        if (isa<arith::MinSIOp>(op))
          return b.make<arith::MinNumFOp>(x, y);
        return b.make<arith::MaxNumFOp>(x, y);
      }
      if (!keepsIndexes(op))
        break;
      v = op->getOperand(0);
    }
    Position p;
    return collect(v, 1, -1, p) ? make(p) : Value();
  }

private:
  Value make(const Position &p) {
    Value sum;
    for (auto [scalar, sign] : p.shared) {
      Value x = scalar;
      if (!x.getType().isIndex())
        x = b.make<arith::IndexCastOp>(b.getIndexType(), x);
      if (!sum)
        sum = sign > 0 ? x : b.sub(b.index(0), x);
      else
        sum = sign > 0 ? b.add(sum, x) : b.sub(sum, x);
    }
    if (!sum)
      sum = b.index(p.constant);
    else if (p.constant)
      sum = b.add(sum, b.index(p.constant));
    Value base = b.make<arith::SIToFPOp>(
        type.getElementType(), b.make<arith::IndexCastOp>(b.getI64Type(), sum));
    // The line with the fewest registers takes the base.
    auto counts = p.counts;
    llvm::stable_sort(counts, [&](auto x, auto y) {
      return layoutOf(lineType(x.first)).getNumRegisters() <
             layoutOf(lineType(y.first)).getNumRegisters();
    });
    if (counts.empty())
      return b.make<BroadcastOp>(type, base, 0);
    auto plus = [&](Value x, Value y, int sign) -> Value {
      if (sign > 0)
        return b.make<arith::AddFOp>(x, y);
      return b.make<arith::SubFOp>(x, y);
    };
    Value tile;
    for (auto [dim, sign] : counts) {
      RankedTensorType line = lineType(dim);
      Value thread = b.make<ThreadOffsetOp>(line),
            own = b.make<RegisterOffsetOp>(line);
      if (!tile) {
        Value start = b.make<BroadcastOp>(line, base, 0);
        tile = b.make<BroadcastOp>(
            type, plus(plus(start, thread, sign), own, sign), dim);
        continue;
      }
      // A thread's part first: it is the same in a line, and each entry adds a
      // constant to it.
      tile = plus(tile, b.make<BroadcastOp>(type, thread, dim), sign);
      tile = plus(tile, b.make<BroadcastOp>(type, own, dim), sign);
    }
    return tile;
  }

  RankedTensorType lineType(int64_t dim) const {
    return RankedTensorType::get({type.getShape()[dim]}, type.getElementType(),
                                 layoutOf(type).sliced(1 - dim));
  }

  TileBuilder b;
  RankedTensorType type;
};

struct GpuFloatPositions
    : public fathom::impl::GpuFloatPositionsPassBase<GpuFloatPositions> {
  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<KernelOp>()) {
      SmallVector<arith::SIToFPOp> conversions;
      kernel.walk([&](arith::SIToFPOp op) {
        Type element = getElementTypeOrSelf(op.getType());
        if (isTile(op) && tileType(op).getRank() == 2 &&
            (element.isF32() || element.isF64()))
          conversions.push_back(op);
      });
      for (arith::SIToFPOp op : conversions) {
        Value floats = Floats(op).get(op.getIn());
        if (!floats) {
          missed(op, kName, "the integers are no sum of positions");
          continue;
        }
        op.getResult().replaceAllUsesWith(floats);
        passed(op, kName, "positions are counted in floats");
      }
      if (!conversions.empty())
        tidy(kernel);
    }
  }
};

} // namespace
