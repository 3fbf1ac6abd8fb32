//===- OrientTiles.cpp - fa-gpu-orient-tiles --------------------------------===//
//
// A product of tensor cores may be computed as it stands or transposed: a b, or
// (b^T a^T)^T. The registers of a result can be the first factor of another
// product as they are, if warps own its whole lines; so which way each product
// is computed decides which tiles never leave the registers. And warps may share
// lines: with half as many along the rows each reads twice the lines of one
// factor and half of the other. Tiles that must be laid out the same way form a
// group; the pass weighs the ways of all groups of a kernel against each other.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/map/gpu/Gpu.h"
#include "passes/nest/Tiles.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include <numeric>

namespace fathom {
#define GEN_PASS_DEF_GPUORIENTTILESPASS
#include "passes/Passes.h.inc"
} // namespace fathom

using namespace mlir;
using namespace fathom;
using namespace fathom::gpu;

namespace {
constexpr StringLiteral kName = "fa-gpu-orient-tiles";

/// More combinations than this are not tried one by one.
constexpr int64_t kMaxCombinations = 5000;

/// How the tiles of a group lie: transposed or not, and how many warps along
/// the lines of what is computed (the others share them).
struct Way {
  bool flipped = false;
  int64_t along = 0; // 0: as many as fit
};

class Orientation {
public:
  Orientation(KernelOp kernel, bool warpgroups)
      : kernel(kernel),
        warpgroups(warpgroups && kernel.getNumWarps() % 4 == 0) {
    collect();
  }
  void choose();
  bool apply();

private:
  void collect();
  unsigned find(unsigned n, bool &flipped) const;
  unsigned node(Value v);
  void tie(Value a, Value b, bool flipped = false);
  bool isFlipped(Value v) const;
  ThreadLayoutAttr layoutFor(Value v);
  int64_t alongOf(Value v) const;
  double cost();
  void findWays();

  KernelOp kernel;
  bool warpgroups; // products are those of four warps where they can be
  DenseMap<Value, unsigned> ids;
  SmallVector<std::pair<unsigned, bool>>
      parents;                           // and whether transposed to it
  SmallVector<unsigned> groups;          // roots
  SmallVector<Way> ways;                 // by node; roots matter
  SmallVector<SmallVector<Way>> choices; // by group
};

bool isMatrix(Value v) { return isTile(v) && tileType(v).getRank() == 2; }

/// The tile in whose layout all tiles of `op` are, where it works entry by
/// entry; else null.
Value leaderOf(Operation *op) {
  Value v;
  if (isElementwise(op) || isa<GatherOp>(op))
    v = op->getResult(0);
  else if (auto scatter = dyn_cast<ScatterAddOp>(op))
    v = scatter.getTile();
  return v && isMatrix(v) ? v : Value();
}

/// Tiles that can be made either way at no cost.
bool isFree(Value v) {
  Operation *op = v.getDefiningOp();
  if (!op)
    return false;
  if (op->hasTrait<OpTrait::ConstantLike>())
    return true;
  auto broadcast = dyn_cast<BroadcastOp>(op);
  return broadcast && !isTile(broadcast.getSource());
}

unsigned Orientation::find(unsigned n, bool &flipped) const {
  while (parents[n].first != n) {
    flipped ^= parents[n].second;
    n = parents[n].first;
  }
  return n;
}

unsigned Orientation::node(Value v) {
  auto [it, fresh] = ids.try_emplace(v, parents.size());
  if (fresh) {
    parents.push_back({it->second, false});
    ways.push_back({});
  }
  return it->second;
}

void Orientation::tie(Value a, Value b, bool flipped) {
  if (isFree(a) || isFree(b))
    return;
  unsigned ra = find(node(a), flipped), rb = find(node(b), flipped);
  if (ra != rb)
    parents[ra] = {rb, flipped};
}

bool Orientation::isFlipped(Value v) const {
  auto it = ids.find(v);
  if (it == ids.end())
    return false;
  bool flipped = false;
  unsigned root = find(it->second, flipped);
  return ways[root].flipped ^ flipped;
}

/// The warps along the lines of `v` as it lies in registers.
int64_t Orientation::alongOf(Value v) const {
  int64_t warps = KernelOp(kernel).getNumWarps(),
          lines = tileType(v).getDimSize(isFlipped(v) ? 1 : 0),
          most = std::gcd(warps, lines / 16);
  auto it = ids.find(v);
  if (it == ids.end())
    return most;
  bool flipped = false;
  int64_t along = ways[find(it->second, flipped)].along;
  return along ? std::min(along, most) : most;
}

ThreadLayoutAttr Orientation::layoutFor(Value v) {
  int64_t warps = kernel.getNumWarps(), along = alongOf(v);
  RankedTensorType t = tileType(v);
  int64_t rows = t.getDimSize(0), cols = t.getDimSize(1);
  if (!isFlipped(v))
    return ThreadLayoutAttr::getMma(t.getContext(), rows, cols, along,
                                    warps / along);
  return ThreadLayoutAttr::getMma(t.getContext(), cols, rows, along,
                                  warps / along)
      .transposed();
}

void Orientation::collect() {
  kernel.walk([&](Operation *op) {
    if (auto mma = dyn_cast<MmaOp>(op)) {
      node(mma.getResult());
      tie(mma.getAcc(), mma.getResult());
    } else if (auto transpose = dyn_cast<TransposeOp>(op)) {
      // The relabeled tile has the other layout of its shape: not flipped if
      // its operand is.
      tie(transpose.getResult(), transpose.getTile(), /*flipped=*/true);
    } else if (Value leader = leaderOf(op)) {
      for (Value v : op->getOperands())
        if (isMatrix(v))
          tie(v, leader);
    } else if (auto loop = dyn_cast<scf::ForOp>(op)) {
      for (auto [init, arg, yielded, result] :
           llvm::zip_equal(loop.getInitArgs(), loop.getRegionIterArgs(),
                           loop.getYieldedValues(), loop.getResults())) {
        if (!isMatrix(arg))
          continue;
        tie(init, arg);
        tie(yielded, arg);
        tie(result, arg);
      }
    } else if (auto branch = dyn_cast<scf::IfOp>(op)) {
      for (unsigned i = 0; i < branch.getNumResults(); ++i)
        if (isMatrix(branch.getResult(i))) {
          tie(branch.thenYield().getOperand(i), branch.getResult(i));
          tie(branch.elseYield().getOperand(i), branch.getResult(i));
        }
    }
  });
  llvm::SmallSetVector<unsigned, 8> roots;
  kernel.walk([&](MmaOp mma) {
    bool flipped = false;
    roots.insert(find(ids.lookup(mma.getResult()), flipped));
  });
  groups.assign(roots.begin(), roots.end());
}

/// The tile that a factor in shared memory is stored from, if there is one;
/// `flipped` says whether the factor is its transpose.
Value sourceOf(Value factor, bool &flipped) {
  auto alloc = stripViews(factor, flipped).getDefiningOp<AllocOp>();
  StoreSharedOp store = alloc ? onlyStore(alloc) : StoreSharedOp();
  return store ? store.getTile() : Value();
}

/// Entries moved through shared memory or scattered over lines, weighted by
/// how often.
double Orientation::cost() {
  double sum = 0;
  llvm::SmallSetVector<Value, 8> stored;
  int64_t warps = kernel.getNumWarps();
  auto weight = [](Operation *op) {
    double w = 1;
    for (auto loop = op->getParentOfType<scf::ForOp>(); loop;
         loop = loop->getParentOfType<scf::ForOp>())
      w *= 16;
    return w;
  };
  auto entries = [](Value v) { return double(tileType(v).getNumElements()); };
  kernel.walk([&](Operation *op) {
    if (auto mma = dyn_cast<MmaOp>(op)) {
      bool flip = isFlipped(mma.getResult());
      // The factors of what is computed, and the warps along its lines.
      Value first = flip ? mma.getB() : mma.getA(),
            second = flip ? mma.getA() : mma.getB();
      int64_t along = alongOf(mma.getResult());
      auto read = [&](Value factor, bool isFirst) {
        bool transposed = flip;
        Value source = sourceOf(factor, transposed);
        bool computed = source && !source.getDefiningOp<LoadOp>();
        if (isFirst && computed && along == warps && alongOf(source) == warps &&
            isFlipped(source) == transposed)
          return; // stays in registers
        // Each warp reads its lines of the first factor, all of the second;
        // four warps do as one, and read the second for every 64 lines.
        auto shape = cast<SharedType>(factor.getType()).getShape();
        int64_t lines = tileType(mma.getResult()).getDimSize(flip ? 1 : 0);
        int64_t times = isFirst                        ? warps / along
                        : warpgroups && along % 4 == 0 ? lines / 64
                                                       : along;
        sum += weight(op) * shape[0] * shape[1] * times;
        if (computed)
          stored.insert(source);
      };
      read(first, true);
      read(second, false);
    } else if (auto reduce = dyn_cast<ReduceOp>(op)) {
      // Past a conversion stands the layout that the reduction needs.
      Value tile = reduce.getTile();
      if (auto convert = tile.getDefiningOp<ConvertOp>())
        tile = convert.getTile();
      if (isMatrix(tile) && isFlipped(tile) == (reduce.getDim() == 1))
        sum += weight(op) * entries(tile) * 4;
    } else if (auto store = dyn_cast<StoreOp>(op)) {
      if (isMatrix(store.getTile()) && isFlipped(store.getTile()))
        sum += weight(op) * entries(store.getTile()) * 4;
    } else if (auto acc = dyn_cast<AccumulateOp>(op)) {
      if (isMatrix(acc.getTile()) && isFlipped(acc.getTile()))
        sum += weight(op) * entries(acc.getTile()) * 4;
    } else if (auto load = dyn_cast<LoadOp>(op)) {
      if (isMatrix(load.getTile()) && isFlipped(load.getTile()))
        sum += weight(op) * entries(load.getTile()) * 4;
    }
  });
  for (Value tile : stored)
    if (Operation *def = tile.getDefiningOp())
      sum += weight(def) * entries(tile);
  return sum;
}

/// Lines that are reduced stay whole in a warp; else all numbers of warps along
/// the lines that leave each of the others blocks of its own are ways.
void Orientation::findWays() {
  int64_t warps = kernel.getNumWarps();
  llvm::DenseSet<unsigned> reduced;
  kernel.walk([&](ReduceOp reduce) {
    Value tile = reduce.getTile();
    if (auto convert = tile.getDefiningOp<ConvertOp>())
      tile = convert.getTile();
    if (auto it = ids.find(tile); it != ids.end()) {
      bool flipped = false;
      reduced.insert(find(it->second, flipped));
    }
  });
  choices.resize(groups.size());
  for (auto [i, root] : llvm::enumerate(groups)) {
    RankedTensorType type;
    for (auto &[v, id] : ids)
      if (id == root)
        type = tileType(v);
    for (bool flipped : {false, true}) {
      int64_t rows = type.getDimSize(flipped), cols = type.getDimSize(!flipped);
      int64_t most = std::gcd(warps, rows / 16);
      choices[i].push_back({flipped, most});
      if (reduced.contains(root))
        continue;
      for (int64_t along = most / 2; along >= 1; along /= 2)
        if (cols / 8 % (warps / along) == 0 &&
            (!warpgroups || most % 4 || along % 4 == 0))
          choices[i].push_back({flipped, along});
    }
  }
}

void Orientation::choose() {
  findWays();
  int64_t combinations = 1;
  for (auto &c : choices)
    combinations =
        std::min<int64_t>(combinations * c.size(), kMaxCombinations + 1);
  SmallVector<unsigned> at(groups.size(), 0), best = at;
  auto use = [&](ArrayRef<unsigned> which) {
    for (auto [i, root] : llvm::enumerate(groups))
      ways[root] = choices[i][which[i]];
  };
  use(at);
  double least = cost();
  auto attempt = [&] {
    use(at);
    if (double c = cost(); c < least) {
      least = c;
      best = at;
    }
  };
  if (combinations <= kMaxCombinations) {
    for (int64_t n = 1; n < combinations; ++n) {
      int64_t rest = n;
      for (unsigned i = 0; i < at.size(); ++i) {
        at[i] = rest % choices[i].size();
        rest /= choices[i].size();
      }
      attempt();
    }
  } else {
    // One group after the other.
    for (unsigned i = 0; i < at.size(); ++i) {
      at = best;
      for (at[i] = 0; at[i] < choices[i].size(); ++at[i])
        attempt();
    }
  }
  use(best);
}

/// Gives tiles their layouts and mends what is around them.
bool Orientation::apply() {
  bool any = false;
  for (auto &[v, id] : ids) {
    // What has nothing to do with a product stays as it is.
    bool flipped = false;
    if (!llvm::is_contained(groups, find(id, flipped)))
      continue;
    if (ThreadLayoutAttr layout = layoutFor(v); layout != layoutOf(v)) {
      v.setType(withLayout(tileType(v), layout));
      any = true;
    }
  }
  if (!any)
    return false;
  kernel.walk([&](Operation *op) {
    OpBuilder b(op);
    Location loc = op->getLoc();
    if (auto transpose = dyn_cast<TransposeOp>(op)) {
      auto want = layoutOf(transpose.getTile()).transposed();
      transpose.getResult().setType(withLayout(tileType(transpose), want));
    } else if (auto mma = dyn_cast<MmaOp>(op)) {
      mma.getAccMutable().set(
          inLayout(b, mma.getAcc(), layoutOf(mma.getResult())));
      if (!isFlipped(mma.getResult()))
        return;
      auto flip = [&](Value v) -> Value {
        auto shared = cast<SharedType>(v.getType());
        return b.createOrFold<FlipOp>(loc, shared.flip(), v);
      };
      Value acc = mma.getAcc();
      SmallVector<int64_t> shape(llvm::reverse(tileType(acc).getShape()));
      auto type = RankedTensorType::get(shape, tileType(acc).getElementType(),
                                        layoutOf(acc).transposed());
      Value accT = TransposeOp::create(b, loc, type, acc);
      Value product =
          MmaOp::create(b, loc, type, flip(mma.getB()), flip(mma.getA()), accT);
      Value back = TransposeOp::create(b, loc, mma.getType(), product);
      mma.getResult().replaceAllUsesWith(back);
      op->erase();
    } else if (auto reduce = dyn_cast<ReduceOp>(op)) {
      Value tile = reduce.getTile();
      if (!isMatrix(tile))
        return;
      tile = inLayout(b, tile,
                      wholeLines(layoutOf(tile), tileType(tile).getShape(),
                                 reduce.getDim()));
      reduce.getTileMutable().set(tile);
      auto want = layoutOf(tile).sliced(reduce.getDim());
      Value result = reduce.getResult();
      if (layoutOf(result) == want)
        return;
      ThreadLayoutAttr had = layoutOf(result);
      result.setType(withLayout(tileType(result), want));
      b.setInsertionPointAfter(op);
      Value back =
          ConvertOp::create(b, loc, withLayout(tileType(result), had), result);
      result.replaceAllUsesExcept(back, back.getDefiningOp());
    } else if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
      Value result = broadcast.getResult();
      if (isTile(broadcast.getSource()) && isMatrix(result))
        broadcast.getSourceMutable().set(
            inLayout(b, broadcast.getSource(),
                     layoutOf(result).sliced(1 - broadcast.getDim())));
    } else if (auto store = dyn_cast<StoreSharedOp>(op)) {
      // Lines in memory run as entries do in registers.
      Value tile = store.getTile();
      auto alloc = store.getBuffer().getDefiningOp<AllocOp>();
      if (!isMatrix(tile) || !isFlipped(tile) || !alloc || !onlyStore(alloc))
        return;
      SmallVector<int64_t> shape(llvm::reverse(tileType(tile).getShape()));
      SharedType fresh = bufferFor(shape, tileType(tile).getElementType());
      b.setInsertionPointAfter(alloc);
      Value buffer = AllocOp::create(b, loc, fresh, IntegerAttr());
      Value view = FlipOp::create(b, loc, fresh.flip(), buffer);
      // Views of it have other types now.
      SmallVector<std::pair<Value, Value>> work = {{alloc.getResult(), view}};
      while (!work.empty()) {
        auto [old, now] = work.pop_back_val();
        for (OpOperand &use : llvm::make_early_inc_range(old.getUses())) {
          auto flip = dyn_cast<FlipOp>(use.getOwner());
          use.set(now);
          if (!flip)
            continue;
          flip.getResult().setType(cast<SharedType>(now.getType()).flip());
        }
      }
    }
  });
  // Operands of ops that work entry by entry and carried values that could be made either
  // way.
  kernel.walk([&](Operation *op) {
    OpBuilder b(op);
    if (Value leader = leaderOf(op)) {
      for (OpOperand &use : op->getOpOperands())
        if (isMatrix(use.get()))
          use.set(inLayout(b, use.get(), layoutOf(leader)));
    } else if (auto loop = dyn_cast<scf::ForOp>(op)) {
      for (auto [init, arg] :
           llvm::zip_equal(loop.getInitArgsMutable(), loop.getRegionIterArgs()))
        if (isMatrix(arg))
          init.set(inLayout(b, init.get(), layoutOf(arg)));
      OpBuilder y(loop.getBody()->getTerminator());
      for (auto [yielded, arg] : llvm::zip_equal(
               *loop.getYieldedValuesMutable(), loop.getRegionIterArgs()))
        if (isMatrix(arg))
          yielded.set(inLayout(y, yielded.get(), layoutOf(arg)));
    } else if (auto branch = dyn_cast<scf::IfOp>(op)) {
      for (scf::YieldOp yield : {branch.thenYield(), branch.elseYield()})
        if (yield) {
          OpBuilder y(yield);
          for (OpOperand &use : yield->getOpOperands())
            if (isMatrix(use.get()))
              use.set(
                  inLayout(y, use.get(),
                           layoutOf(branch.getResult(use.getOperandNumber()))));
        }
    }
  });
  return any;
}

struct GpuOrientTiles
    : public fathom::impl::GpuOrientTilesPassBase<GpuOrientTiles> {
  using GpuOrientTilesPassBase::GpuOrientTilesPassBase;

  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<KernelOp>()) {
      bool fragments = kernel
                           .walk([](MmaOp mma) {
                             return isTile(mma.getA()) ? WalkResult::interrupt()
                                                       : WalkResult::advance();
                           })
                           .wasInterrupted();
      if (fragments) {
        missed(kernel, kName, "a factor is in registers already");
        continue;
      }
      Orientation orientation(kernel, warpgroups);
      orientation.choose();
      if (orientation.apply())
        passed(kernel, kName, "products lie as costs least");
      else
        missed(kernel, kName, "no other way costs less");
      tidy(kernel);
    }
  }
};

} // namespace
