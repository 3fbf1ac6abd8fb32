//===- MapToCpuLanes.cpp - which dim of a tile lies along the lanes ---------===//
//
// A product C = A B keeps vectors of C in registers and multiplies them by
// scalars: with lanes along C's rows it reads vectors of B's rows, with lanes
// along C's columns vectors of A's columns. So what lies along the lanes in one
// tile decides how others must stand in memory, and a wrong choice costs a
// transposed copy in the innermost loop.
//
//===----------------------------------------------------------------------===//

#include "passes/map/MapToCpu.h"

using namespace mlir;
using namespace fathom;
using namespace fathom::cpu;

Value cpu::stripTransposes(Value v, bool &flipped) {
  while (auto t = v.getDefiningOp<TransposeOp>()) {
    v = t.getTile();
    flipped = !flipped;
  }
  return v;
}

namespace {
bool isRank2(Value v) { return isTile(v) && tileType(v).getRank() == 2; }

/// How often `op` runs, with every loop taken as 16 rounds.
double weight(Operation *op, Region &top) {
  double w = 1;
  for (Region *r = op->getParentRegion(); r != &top; r = r->getParentRegion())
    if (isa<scf::ForOp>(r->getParentOp()))
      w *= 16;
  return w;
}
double size(Value v) { return tileType(v).getNumElements(); }
} // namespace

unsigned LaneChoice::find(unsigned n, bool &flipped) const {
  while (parents[n].first != n) {
    flipped ^= parents[n].second;
    n = parents[n].first;
  }
  return n;
}

unsigned LaneChoice::node(Value v) {
  auto [it, isNew] = ids.try_emplace(v, parents.size());
  if (isNew) {
    parents.emplace_back(it->second, false);
    columns.push_back(false);
  }
  return it->second;
}

void LaneChoice::tie(Value a, Value b, bool flipped) {
  if (!isRank2(a) || !isRank2(b) || isFree(a) || isFree(b))
    return;
  unsigned x = find(node(a), flipped), y = find(node(b), flipped);
  // A tile tied to its own transpose costs a copy somewhere.
  if (x != y)
    parents[y] = {x, flipped};
}

LaneChoice::LaneChoice(Region &region, const Machine &machine)
    : machine(machine), region(region) {
  region.walk<WalkOrder::PreOrder>([&](Operation *op) {
    // Tiles that are the same everywhere or along a dim can be made either way.
    auto isFreeOperand = [&](Value v) { return !isRank2(v) || isFree(v); };
    if (op->getNumResults() == 1 && isRank2(op->getResult(0)) &&
        (isa<arith::ConstantOp, BroadcastOp>(op) ||
         ((isElementwise(op) || isa<TransposeOp>(op)) &&
          llvm::all_of(op->getOperands(), isFreeOperand)))) {
      free.insert(op->getResult(0));
      return;
    }
    if (isElementwise(op)) {
      for (Value v : op->getOperands())
        tie(op->getResult(0), v);
    } else if (auto t = dyn_cast<TransposeOp>(op)) {
      tie(t.getResult(), t.getTile(), /*flipped=*/true);
    } else if (auto dot = dyn_cast<DotOp>(op)) {
      dots.push_back(op);
      node(dot.getResult());
      tie(dot.getResult(), dot.getAcc());
    } else if (auto loop = dyn_cast<scf::ForOp>(op)) {
      for (auto [init, arg, result] :
           llvm::zip(loop.getInitArgs(), loop.getRegionIterArgs(),
                     loop.getResults())) {
        tie(arg, result);
        tie(arg, init);
      }
    } else if (isa<scf::YieldOp>(op)) {
      Operation *parent = op->getParentOp();
      for (auto [i, v] : llvm::enumerate(op->getOperands()))
        tie(parent->getResult(i), v);
    } else if (isa<ReduceOp>(op)) {
      reduces.push_back(op);
    } else if (isa<StoreOp, AccumulateOp, ScatterAddOp>(op)) {
      writes.push_back(op);
    } else if (isa<LoadOp, GatherOp>(op)) {
      loads.push_back(op);
      if (isRank2(op->getResult(0)))
        node(op->getResult(0));
      if (auto gather = dyn_cast<GatherOp>(op))
        for (Value i : gather.getIndices())
          tie(op->getResult(0), i);
    }
  });

  SmallVector<unsigned> roots;
  for (unsigned n = 0; n < parents.size(); ++n)
    if (parents[n].first == n)
      roots.push_back(n);
  // Flip one choice, then one pair, as long as that helps.
  double best = cost();
  for (bool changed = true; changed;) {
    changed = false;
    for (unsigned a : roots)
      for (unsigned b : roots) {
        columns[a] = !columns[a];
        if (a != b)
          columns[b] = !columns[b];
        double c = cost();
        if (c < best) {
          best = c;
          changed = true;
        } else {
          columns[a] = !columns[a];
          if (a != b)
            columns[b] = !columns[b];
        }
      }
  }
}

Lanes LaneChoice::get(Value tile) const {
  auto it = ids.find(tile);
  if (it == ids.end())
    return Lanes::rows;
  bool flipped = false;
  unsigned root = find(it->second, flipped);
  return Lanes(columns[root] ^ flipped);
}

/// The layouts that products ask of loaded tiles.
DenseMap<Value, unsigned> LaneChoice::demands() const {
  DenseMap<Value, unsigned> demand;
  for (Operation *op : dots) {
    auto dot = cast<DotOp>(op);
    Lanes l = get(dot.getResult());
    bool flipped = false;
    Value root =
        stripTransposes(l == Lanes::rows ? dot.getB() : dot.getA(), flipped);
    demand[root] |= 1u << int(flip(l, flipped));
  }
  return demand;
}

unsigned LaneChoice::wantedBy(Operation *load,
                              const DenseMap<Value, unsigned> &demand) const {
  Value tile = load->getResult(0);
  unsigned wanted = demand.lookup(tile);
  // Every use but that of a product's operand reads the tile's own layout.
  SmallVector<Value> values = {tile};
  while (!values.empty()) {
    Value v = values.pop_back_val();
    for (OpOperand &use : v.getUses()) {
      if (auto t = dyn_cast<TransposeOp>(use.getOwner()))
        values.push_back(t.getResult());
      else if (!isa<DotOp>(use.getOwner()) || use.getOperandNumber() == 2)
        wanted |= 1u << int(get(tile));
    }
  }
  return wanted ? wanted : 1u << int(get(tile));
}

unsigned LaneChoice::getWanted(Operation *load) const {
  return wantedBy(load, demands());
}

double LaneChoice::cost() const {
  // In cycles per entry, roughly.
  constexpr double transposed = 0.6, plain = 0.1, horizontal = 0.3,
                   madd = 1.0 / 32;
  double c = 0;
  DenseMap<Value, unsigned> demand = demands();
  for (Operation *op : loads) {
    if (!isRank2(op->getResult(0)))
      continue;
    unsigned wanted = wantedBy(op, demand);
    bool gathers = isa<GatherOp>(op);
    c += size(op->getResult(0)) * weight(op, region) *
         ((wanted & 1 ? plain : 0) +
          (wanted & 2 ? (gathers ? plain : transposed) : 0));
  }
  for (Operation *op : dots) {
    auto dot = cast<DotOp>(op);
    RankedTensorType type = tileType(dot.getResult());
    Lanes l = get(dot.getResult());
    int64_t lanes = type.getDimSize(l == Lanes::rows ? 1 : 0);
    int64_t vl = machine.lanes(type.getElementType());
    double padded = double(llvm::alignTo(lanes, vl)) / lanes;
    c += madd * padded * size(dot.getResult()) *
         tileType(dot.getA()).getDimSize(1) * weight(op, region);
    bool flipped = false;
    Value root =
        stripTransposes(l == Lanes::rows ? dot.getB() : dot.getA(), flipped);
    bool loaded =
        root.getDefiningOp<LoadOp>() || root.getDefiningOp<GatherOp>();
    if (!loaded && !isFree(root) && get(root) != flip(l, flipped))
      c += transposed * size(root) * weight(op, region);
  }
  for (Operation *op : reduces) {
    auto reduce = cast<ReduceOp>(op);
    Value tile = reduce.getTile();
    if (isRank2(tile) && !isFree(tile) &&
        (get(tile) == Lanes::rows) == (reduce.getDim() == 1))
      c += horizontal * size(tile) * weight(op, region);
  }
  for (Operation *op : writes) {
    Value tile = isa<StoreOp>(op)        ? cast<StoreOp>(op).getTile()
                 : isa<AccumulateOp>(op) ? cast<AccumulateOp>(op).getTile()
                                         : cast<ScatterAddOp>(op).getTile();
    if (isRank2(tile) && !isFree(tile) && get(tile) == Lanes::columns)
      c += transposed * size(tile) * weight(op, region);
  }
  return c;
}
