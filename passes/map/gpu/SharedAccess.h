//===- SharedAccess.h - who touches what memory of a CTA --------*- C++ -*-===//
//
// Follows the accesses to memory through a kernel: which of them no barrier
// has ordered yet, and where two such accesses meet that threads may do in
// either order.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_PASSES_MAP_GPU_SHAREDACCESS_H
#define FATHOM_PASSES_MAP_GPU_SHAREDACCESS_H

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/map/gpu/Gpu.h"
#include "llvm/ADT/SetVector.h"
#include <functional>

namespace fathom::gpu {

/// A number modulo the number of stages of a buffer: `base` (null: 0) plus
/// `offset`.
struct RingIndex {
  mlir::Value base;
  int64_t offset = 0;
  bool operator==(const RingIndex &) const = default;
};

/// `index` modulo `stages`, through additions, remainders and the wrapping
/// steps x + 1 == n ? 0 : x + 1 and x == 0 ? n - 1 : x - 1.
RingIndex ringIndex(mlir::Value index, int64_t stages);

/// An access to memory that no barrier has ordered yet.
struct PendingAccess {
  /// The result of the alloc, or a memref; null: any buffer.
  mlir::Value root;
  /// The stage, if it is known.
  std::optional<RingIndex> stage;
  bool write = false;
  bool atomic = false;
  /// Which thread touches which entry, for global memory.
  ThreadLayoutAttr layout;
  /// For a copy under way: commits since it was issued; else -1.
  int64_t age = -1;
  /// For a factor of a product under way: products started since; else -1.
  int64_t product = -1;
  bool operator==(const PendingAccess &) const = default;
};

/// The pending accesses at a point of the program.
class PendingSet {
public:
  /// True if `access` was not in the set.
  bool add(const PendingAccess &access);
  bool add(const PendingSet &other);
  llvm::ArrayRef<PendingAccess> get() const { return items; }
  /// What is pending after a barrier, a commit, a wait.
  void barrier();
  void commit(int64_t maxAge);
  void wait(int64_t pending);
  /// The same for products: at the start of one, at a wait.
  void startProduct(int64_t maxAge);
  void waitForProducts(int64_t pending);

private:
  void change(llvm::function_ref<void(PendingAccess &)> f);

  llvm::SmallVector<PendingAccess, 8> items;
};

/// Runs over a kernel with the set of pending accesses.
class SharedFlow {
public:
  explicit SharedFlow(KernelOp kernel);

  /// From here on `a` and `b`, results of allocs, lie over each other.
  void alias(mlir::Value a, mlir::Value b) { aliased = {a, b}; }

  /// Changes `pending` as `op` does, with all in it. True if an access of it
  /// conflicts with a pending one.
  bool step(mlir::Operation *op, PendingSet &pending) const;
  bool step(mlir::Block &block, PendingSet &pending) const;

  /// Adds to `head`, what is pending before `loop`, what comes round from its
  /// end.
  void enterLoop(mlir::scf::ForOp loop, PendingSet &head) const;

  /// True if the kernel has two conflicting accesses without a barrier.
  bool hasConflict() const;

  /// The barriers before which threads wrote what a wgmma reads.
  llvm::SetVector<mlir::Operation *> barriersForProducts() const;

private:
  bool conflict(const PendingAccess &a, const PendingAccess &b) const;
  bool access(const PendingAccess &a, PendingSet &pending) const;

  KernelOp kernel;
  int64_t maxAge = 1, maxProduct = 1;
  std::pair<mlir::Value, mlir::Value> aliased;
  /// Told of each barrier and what is pending before it.
  std::function<void(mlir::Operation *, const PendingSet &)> atBarrier;
};

} // namespace fathom::gpu

#endif // FATHOM_PASSES_MAP_GPU_SHAREDACCESS_H
