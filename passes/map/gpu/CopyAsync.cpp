//===- CopyAsync.cpp - fa-gpu-copy-async ------------------------------------===//
//
// A tile that is loaded only to be put into shared memory goes there without
// the detour through registers. The copy is waited for where it is issued:
// fa-gpu-pipeline-loads moves the two apart.
//
//===----------------------------------------------------------------------===//

#include "dialect/gpu/GpuDialect.h"
#include "passes/Passes.h"
#include "passes/nest/Tiles.h"

using namespace mlir;
using namespace fathom;
using namespace fathom::gpu;

namespace fathom {
#define GEN_PASS_DEF_GPUCOPYASYNCPASS
#include "passes/Passes.h.inc"
} // namespace fathom

namespace {
/// A store of a loaded tile, seen through transposes on either side.
struct Store {
  StoreSharedOp op;
  Value buffer;
  bool across; // lines of the buffer are columns of the array
};

struct GpuCopyAsyncPass
    : public fathom::impl::GpuCopyAsyncPassBase<GpuCopyAsyncPass> {
  using GpuCopyAsyncPassBase::GpuCopyAsyncPassBase;

  void runOnOperation() override {
    SmallVector<fathom::LoadOp> loads;
    getOperation()->walk([&](KernelOp kernel) {
      kernel.walk([&](fathom::LoadOp load) { loads.push_back(load); });
    });
    for (fathom::LoadOp load : loads) {
      SmallVector<Store> stores;
      SmallVector<Operation *> views;
      bool others = false;
      collect(load.getTile(), false, stores, views, others);
      if (stores.empty())
        continue;
      std::string why;
      if (others)
        why = "the tile is used in registers too";
      int64_t vector = why.empty() ? chooseVector(load, stores, why) : 0;
      if (!why.empty()) {
        missed(load, "fa-gpu-copy-async", why);
        continue;
      }
      for (Store &store : stores) {
        TileBuilder b(OpBuilder(store.op), load.getLoc());
        b.make<CopyAsyncOp>(load.getBuffer(), load.getIndices(),
                            load.getLimits(), store.buffer, vector);
        b.make<CommitOp>();
        b.make<WaitOp>(0);
        store.op.erase();
      }
      passed(load, "fa-gpu-copy-async",
             "copied in pieces of " + Twine(vector) + " bytes");
      for (Operation *view : llvm::reverse(views))
        view->erase();
      load.erase();
    }
  }

  /// The stores among the uses of `tile`, and whether there are other uses.
  static void collect(Value tile, bool across, SmallVector<Store> &stores,
                      SmallVector<Operation *> &views, bool &others) {
    for (Operation *user : tile.getUsers()) {
      if (auto transpose = dyn_cast<TransposeOp>(user)) {
        views.push_back(transpose);
        collect(transpose.getResult(), !across, stores, views, others);
      } else if (auto store = dyn_cast<StoreSharedOp>(user)) {
        bool flipped = across;
        Value buffer = store.getBuffer();
        while (auto flip = buffer.getDefiningOp<FlipOp>()) {
          flipped = !flipped;
          buffer = flip.getBuffer();
        }
        stores.push_back({store, buffer, flipped});
      } else {
        others = true;
      }
    }
  }

  /// The bytes a copy may move at once; 0 and the reason if it can't be one.
  static int64_t chooseVector(fathom::LoadOp load, ArrayRef<Store> stores,
                              std::string &why) {
    for (const Store &store : stores) {
      auto type = cast<SharedType>(store.buffer.getType());
      if (store.across || type.getFlipped())
        return why = "lines of the buffer run across the array's", 0;
      if (!mayLoadAt(load, store.op))
        return why = "between load and store the array may be written", 0;
    }
    auto kernel = load->getParentOfType<KernelOp>();
    int64_t alignment = kernel.getAlignment(load.getBuffer());
    int64_t width = load.getTile().getType().getShape().back();
    Value index = load.getIndices().back(), limit = load.getLimits().back();
    for (int64_t vector : {16, 8, 4}) {
      bool fits = alignment && alignment % vector == 0;
      for (Store store : stores) {
        auto type = cast<SharedType>(store.buffer.getType());
        int64_t bytes = type.getElementBytes();
        int64_t entries = vector / bytes;
        fits &= vector % bytes == 0 && width % entries == 0 &&
                (type.getLines() == 1 || type.getPitch() % entries == 0) &&
                isMultiple(index, entries) && isMultiple(limit, entries);
      }
      if (fits)
        return vector;
    }
    return why = "not known to be aligned to 4 bytes, with a limit there", 0;
  }

  /// True if `load` may read where `store` stands, after it in its block.
  static bool mayLoadAt(fathom::LoadOp load, StoreSharedOp store) {
    if (load->getBlock() != store->getBlock())
      return false;
    for (Operation *op = load->getNextNode(); op != store;
         op = op->getNextNode()) {
      bool orders = op->walk([](Operation *inner) {
                        return isa<WaitTurnOp, EndTurnOp, ClaimOp>(inner)
                                   ? WalkResult::interrupt()
                                   : WalkResult::advance();
                      }).wasInterrupted();
      if (orders || isWrittenIn(op, load.getBuffer()))
        return false;
    }
    return true;
  }
};
} // namespace
