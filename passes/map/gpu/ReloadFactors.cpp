//===- ReloadFactors.cpp - fa-gpu-reload-factors ----------------------------===//
//
// Where factors do not fit shared memory side by side, each product loads its
// own, just before it, and a long sum goes in parts: then a CTA holds one whole
// factor at a time.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/map/gpu/SharedAccess.h"
#include "passes/nest/Tiles.h"

#include <numeric>

using namespace mlir;
using namespace fathom;
using namespace fathom::gpu;

namespace fathom {
#define GEN_PASS_DEF_GPURELOADFACTORSPASS
#include "passes/Passes.h.inc"
} // namespace fathom

namespace {
constexpr StringLiteral kName = "fa-gpu-reload-factors";
/// Rows or columns that tiles have at least: products are of so many.
constexpr int64_t kSmallest = 16;
/// Entries of a sum whose factors are held at a time.
constexpr int64_t kPart = 32;

/// The load whose tile is all that `buffer`'s alloc ever holds, from an array
/// that `kernel` does not write, if only products use it; else null.
fathom::LoadOp loadOf(AllocOp alloc, KernelOp kernel) {
  StoreSharedOp store = onlyStore(alloc);
  auto load = store ? store.getTile().getDefiningOp<fathom::LoadOp>() : nullptr;
  if (!load || alloc.getResult().getType().getRank() != 2 ||
      isWrittenIn(kernel, load.getBuffer()))
    return {};
  bool all = llvm::all_of(usersOf(alloc), [&](Operation *user) {
    return user == store || isa<MmaOp>(user);
  });
  return all ? load : fathom::LoadOp();
}

struct GpuReloadFactorsPass
    : public fathom::impl::GpuReloadFactorsPassBase<GpuReloadFactorsPass> {
  using GpuReloadFactorsPassBase::GpuReloadFactorsPassBase;

  void runOnOperation() override {
    if (limit > 0)
      for (auto kernel : getOperation().getOps<KernelOp>())
        run(kernel);
  }

  void run(KernelOp kernel) {
    int64_t bytes = 0;
    bool smallest = true;
    loads.clear();
    kernel.walk([&](AllocOp alloc) {
      SharedType type = alloc.getResult().getType();
      bytes += type.getBytes();
      if (fathom::LoadOp load = loadOf(alloc, kernel)) {
        loads[alloc] = load;
        smallest &= *llvm::min_element(type.getShape()) <= kSmallest;
      }
    });
    if (bytes <= limit || loads.empty())
      return;
    if (!smallest)
      return missed(kernel, kName, "smaller tiles would fit");
    SmallVector<MmaOp> products;
    kernel.walk([&](MmaOp mma) { products.push_back(mma); });
    int64_t inParts = 0;
    for (MmaOp mma : products) {
      int64_t sum = mma.getB().getType().getShape()[0],
              part = std::gcd(sum, kPart);
      if (isLoaded(mma.getA()) && isLoaded(mma.getB()) && part < sum) {
        split(kernel, mma, sum, part);
        ++inParts;
        continue;
      }
      TileBuilder b(OpBuilder(mma), mma.getLoc());
      for (OpOperand &operand : mma->getOpOperands())
        if (isLoaded(operand.get()))
          operand.set(reload(b, kernel, operand.get()));
    }
    for (auto &[alloc, load] : loads)
      onlyStore(cast<AllocOp>(alloc)).erase();
    tidy(kernel);
    passed(kernel, kName,
           "factors are loaded for each product, " + Twine(inParts) +
               (inParts == 1 ? " sum goes in parts" : " sums go in parts"));
  }

  bool isLoaded(Value factor) {
    return isa<SharedType>(factor.getType()) &&
           loads.contains(allocOf(factor).getOperation());
  }

  /// A view as `factor` of a buffer of its own, loaded at `b`. With `place`
  /// only `size` entries of its dim `dim` from there on.
  Value reload(TileBuilder &b, KernelOp kernel, Value factor, unsigned dim = 0,
               Value place = {}, int64_t size = 0) {
    bool flipped = false;
    auto alloc = stripViews(factor, flipped).getDefiningOp<AllocOp>();
    fathom::LoadOp load = loads[alloc];
    SharedType type = alloc.getResult().getType();
    SmallVector<int64_t> shape(type.getShape());
    SmallVector<Value> indices(load.getIndices());
    if (place) {
      dim = flipped ? 1 - dim : dim;
      shape[dim] = size;
      type = bufferFor(shape, type.getElementType());
      Value &index = indices[indices.size() - 2 + dim];
      index = b.createOrFold<arith::AddIOp>(b.loc, place, index);
    }
    OpBuilder top = OpBuilder::atBlockBegin(&kernel.getBody().front());
    Value buffer = AllocOp::create(top, alloc.getLoc(), type, IntegerAttr());
    auto tile = RankedTensorType::get(
        shape, type.getElementType(),
        standardLayout(b.getContext(), shape, kernel.getNumWarps()));
    Value part = b.make<fathom::LoadOp>(tile, load.getBuffer(), indices,
                                        load.getLimits());
    b.make<StoreSharedOp>(part, buffer);
    if (flipped)
      return b.make<FlipOp>(type.flip(), buffer);
    return buffer;
  }

  /// Makes `mma`, over `sum` entries, a loop over `part` of them at a time.
  void split(KernelOp kernel, MmaOp mma, int64_t sum, int64_t part) {
    TileBuilder b(OpBuilder(mma), mma.getLoc());
    auto loop = b.make<scf::ForOp>(b.index(0), b.index(sum), b.index(part),
                                   mma.getAcc());
    mma.getResult().replaceAllUsesWith(loop.getResult(0));
    b.setInsertionPointToStart(loop.getBody());
    Value place = loop.getInductionVar();
    Value first = reload(b, kernel, mma.getA(), 1, place, part),
          second = reload(b, kernel, mma.getB(), 0, place, part);
    Value acc =
        b.make<MmaOp>(mma.getType(), first, second, loop.getRegionIterArg(0));
    b.make<scf::YieldOp>(acc);
    mma.erase();
  }

  llvm::MapVector<Operation *, fathom::LoadOp> loads; // by their allocs
};
} // namespace
