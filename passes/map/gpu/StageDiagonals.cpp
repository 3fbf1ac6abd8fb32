//===- StageDiagonals.cpp - fa-gpu-stage-diagonals --------------------------===//
//
// A table that is read by distance holds the same for all entries of a diagonal.
// A tile of M x N entries has M + N - 1 of them: what is read and computed per
// diagonal goes to shared memory once and is loaded from there by entry.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/map/gpu/Gpu.h"
#include "passes/nest/Tiles.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

namespace fathom {
#define GEN_PASS_DEF_GPUSTAGEDIAGONALSPASS
#include "passes/Passes.h.inc"
} // namespace fathom

using namespace mlir;
using namespace fathom;
using namespace fathom::gpu;

namespace {
constexpr StringLiteral kName = "fa-gpu-stage-diagonals";

/// How a tile depends on where an entry is: not at all, on row less column, or
/// in another way.
enum class Along { nothing, diagonals, other };

/// How often row and column count in a sum of positions.
struct Slope {
  int64_t row = 0, col = 0;
};

std::optional<Slope> slopeOf(Value v) {
  if (!isTile(v) || v.getDefiningOp<arith::ConstantOp>())
    return Slope{};
  Operation *op = v.getDefiningOp();
  if (auto broadcast = dyn_cast_or_null<BroadcastOp>(op)) {
    Value source = broadcast.getSource();
    if (!isTile(source))
      return Slope{};
    // Of a line: one count at most, in `row` here.
    auto s = slopeOf(source);
    if (!s || tileType(v).getRank() == 1)
      return s;
    return broadcast.getDim() == 0 ? Slope{s->row, 0} : Slope{0, s->row};
  }
  if (isa_and_nonnull<IotaOp>(op))
    return Slope{1, 0};
  if (isa_and_nonnull<arith::AddIOp, arith::SubIOp>(op)) {
    auto a = slopeOf(op->getOperand(0)), b = slopeOf(op->getOperand(1));
    if (!a || !b)
      return {};
    int64_t sign = isa<arith::AddIOp>(op) ? 1 : -1;
    return Slope{a->row + sign * b->row, a->col + sign * b->col};
  }
  if (isa_and_nonnull<arith::IndexCastOp>(op))
    return slopeOf(op->getOperand(0));
  return {};
}

Along along(Value v) {
  if (!isTile(v))
    return Along::nothing;
  if (auto s = slopeOf(v)) {
    if (s->row == 0 && s->col == 0)
      return Along::nothing;
    if (s->row == -s->col && std::abs(s->row) == 1)
      return Along::diagonals;
    return Along::other;
  }
  Operation *op = v.getDefiningOp();
  if (!op || tileType(v).getRank() != 2 ||
      !(isElementwise(op) || isa<GatherOp>(op)))
    return Along::other;
  Along result = Along::nothing;
  for (Value o : op->getOperands()) {
    if (isa<MemRefType>(o.getType()))
      continue;
    Along a = along(o);
    if (a == Along::other)
      return a;
    if (a == Along::diagonals)
      result = a;
  }
  return result;
}

/// Builds tiles again as lines, an entry for each diagonal: number n is that of
/// row less column n - last, where `last` is the last column.
class Diagonals {
public:
  Diagonals(Operation *at, RankedTensorType tile, int64_t warps)
      : b(OpBuilder(at), at->getLoc()), last(tile.getDimSize(1) - 1) {
    int64_t threads = kWarp * warps;
    size = llvm::alignTo(tile.getDimSize(0) + last, threads);
    SmallVector<int64_t> registers, ofWarps;
    if (size > threads)
      registers = {size / threads, 0, threads};
    if (warps > 1)
      ofWarps = {warps, 0, kWarp};
    layout = ThreadLayoutAttr::get(b.getContext(), registers, {kWarp, 0, 1},
                                   ofWarps);
  }

  /// The line of `v`, whose entries depend on the diagonal at most.
  Value line(Value v) {
    Value &made = lines[v];
    if (made)
      return made;
    if (!isTile(v) || isa<MemRefType>(v.getType()))
      return made = v;
    RankedTensorType type = typeOf(v);
    if (auto s = slopeOf(v)) {
      Value base = first(v);
      if (auto c = v.getDefiningOp<arith::ConstantOp>()) {
        auto dense = cast<DenseElementsAttr>(c.getValue());
        return made = b.make<arith::ConstantOp>(DenseElementsAttr::get(
                   type, dense.getSplatValue<Attribute>()));
      }
      if (s->row == 0)
        return made = b.make<BroadcastOp>(type, base, 0);
      // The first entry is on diagonal 0, number `last`.
      auto counted = RankedTensorType::get(type.getShape(), b.getIndexType(),
                                           type.getEncoding());
      if (!base.getType().isIndex())
        base = b.make<arith::IndexCastOp>(b.getIndexType(), base);
      Value n;
      if (s->row > 0) {
        n = b.make<IotaOp>(counted, b.sub(base, b.index(last)));
      } else {
        Value end = b.make<BroadcastOp>(counted, b.add(base, b.index(last)), 0);
        n = b.sub(end, b.make<IotaOp>(counted, b.index(0)));
      }
      if (!type.getElementType().isIndex())
        n = b.make<arith::IndexCastOp>(type, n);
      return made = n;
    }
    Operation *op = v.getDefiningOp();
    IRMapping map;
    for (Value o : op->getOperands())
      map.map(o, line(o));
    Operation *copy = b.clone(*op, map);
    copy->getResult(0).setType(type);
    return lines[v] = copy->getResult(0);
  }

  TileBuilder b;
  int64_t size;

private:
  RankedTensorType typeOf(Value v) const {
    return RankedTensorType::get({size}, tileType(v).getElementType(), layout);
  }

  /// The first entry of a sum of positions.
  Value first(Value v) {
    if (!isTile(v))
      return v;
    Operation *op = v.getDefiningOp();
    if (auto c = dyn_cast<arith::ConstantOp>(op)) {
      auto dense = cast<DenseElementsAttr>(c.getValue());
      return b.make<arith::ConstantOp>(
          cast<TypedAttr>(dense.getSplatValue<Attribute>()));
    }
    if (auto iota = dyn_cast<IotaOp>(op))
      return iota.getStart();
    if (auto broadcast = dyn_cast<BroadcastOp>(op))
      return first(broadcast.getSource());
    Value x = first(op->getOperand(0));
    if (isa<arith::IndexCastOp>(op))
      return b.make<arith::IndexCastOp>(
          getElementTypeOrSelf(op->getResult(0).getType()), x);
    Value y = first(op->getOperand(1));
    return isa<arith::AddIOp>(op) ? b.add(x, y) : b.sub(x, y);
  }

  int64_t last;
  ThreadLayoutAttr layout;
  DenseMap<Value, Value> lines;
};

/// True for entries that shared memory holds and diagonals are loaded of.
bool fits(Value v) {
  Type element = tileType(v).getElementType();
  return element.isIntOrFloat() && element.getIntOrFloatBitWidth() >= 32;
}

struct GpuStageDiagonals
    : public fathom::impl::GpuStageDiagonalsPassBase<GpuStageDiagonals> {
  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<KernelOp>()) {
      llvm::SetVector<Value> roots;
      kernel.walk([&](GatherOp gather) {
        Value v = gather.getResult();
        if (tileType(v).getRank() != 2)
          return;
        if (along(v) != Along::diagonals)
          return missed(gather, kName,
                        "its place depends on more than a distance");
        // What is made of it alone is made by diagonal too.
        while (v.hasOneUse()) {
          Operation *user = *v.getUsers().begin();
          if (!isElementwise(user) ||
              along(user->getResult(0)) != Along::diagonals)
            break;
          v = user->getResult(0);
        }
        if (!fits(v))
          return missed(gather, kName, "its entries are of less than 32 bits");
        roots.insert(v);
      });
      for (Value v : roots)
        stage(kernel, v);
      if (!roots.empty())
        tidy(kernel);
    }
  }

  static void stage(KernelOp kernel, Value v) {
    Operation *op = v.getDefiningOp();
    RankedTensorType type = tileType(v);
    Diagonals d(op, type, kernel.getNumWarps());
    Value line = d.line(v);
    OpBuilder top = OpBuilder::atBlockBegin(&kernel.getBody().front());
    Value buffer = AllocOp::create(top, op->getLoc(),
                                   bufferFor({d.size}, type.getElementType()),
                                   IntegerAttr());
    d.b.make<StoreSharedOp>(line, buffer);
    Value tile = d.b.make<LoadDiagonalsOp>(type, buffer);
    v.replaceAllUsesWith(tile);
    passed(op, kName, "read once per diagonal");
  }
};

} // namespace
