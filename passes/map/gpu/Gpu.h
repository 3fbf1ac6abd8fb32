//===- Gpu.h - what the fa_gpu passes share ---------------------*- C++ -*-===//

#ifndef FATHOM_PASSES_MAP_GPU_GPU_H
#define FATHOM_PASSES_MAP_GPU_GPU_H

#include "dialect/gpu/GpuDialect.h"

namespace fathom::gpu {

/// True if `kernel` rounds tiles to bf16 or f16: it computes with what came of
/// 16-bit numbers, and f32 is more than they tell.
bool roundsTo16Bits(KernelOp kernel);

/// The layouts that `fa-map-to-gpu` gives tiles in a kernel of `numWarps`
/// warps. Rank 2: accumulators of products, as many warps along the rows as
/// fit. Rank 1: one entry per row of such a tile.
ThreadLayoutAttr standardLayout(mlir::MLIRContext *ctx,
                                llvm::ArrayRef<int64_t> shape,
                                int64_t numWarps);

/// `layout` if in it no line along `dim` is spread over warps, as reductions
/// need it, else another one of `shape` where that is so.
ThreadLayoutAttr wholeLines(ThreadLayoutAttr layout,
                            llvm::ArrayRef<int64_t> shape, unsigned dim);

/// `v` in `layout`: itself, or computed again there if that is cheap (places,
/// constants, loads of lines and what follows from them), or converted.
mlir::Value inLayout(mlir::OpBuilder &b, mlir::Value v,
                     ThreadLayoutAttr layout);

/// The type of a buffer that holds a tile of `shape` without bank conflicts
/// for the loads of tensor-core products.
SharedType bufferFor(llvm::ArrayRef<int64_t> shape, mlir::Type element);

/// `type` with the widest panels that fill its lines; null if none do.
SharedType swizzled(SharedType type);
/// Gives `buffer` and all views of it types with a swizzle.
void swizzle(mlir::Value buffer);

/// `phases` is an i32 with a bit a barrier of a ring: the parity of a phase.
/// That of barrier `index`, an i1; `phases` as they are when its phase is over.
mlir::Value phaseOf(mlir::OpBuilder &b, mlir::Location loc, mlir::Value phases,
                    mlir::Value index);
mlir::Value nextPhase(mlir::OpBuilder &b, mlir::Location loc,
                      mlir::Value phases, mlir::Value index);

/// The buffer that `v` is a view of; `flipped` is toggled for each fa_gpu.flip.
mlir::Value stripViews(mlir::Value v, bool &flipped);
inline mlir::Value stripViews(mlir::Value v) {
  bool flipped = false;
  return stripViews(v, flipped);
}

/// The alloc that `buffer` is a view of, or null.
AllocOp allocOf(mlir::Value buffer);

/// The ops that use `buffer` or a view of it, without the views.
llvm::SmallVector<mlir::Operation *> usersOf(mlir::Value buffer);

/// The only op that writes `alloc`, if it is a store of a tile; else null.
StoreSharedOp onlyStore(AllocOp alloc);

/// The schedule of the function that launches `kernel`, or null.
ScheduleAttr scheduleOf(KernelOp kernel);

/// What `op` is made of behind `to`, in order, `op` last. False if not all of it
/// is pure.
bool collectBehind(mlir::Operation *op, mlir::Operation *to,
                   llvm::SmallVector<mlir::Operation *> &slice);

/// Makes equal values one; erases ops whose results nobody needs, and buffers
/// that nobody reads.
void tidy(KernelOp kernel);

} // namespace fathom::gpu

#endif // FATHOM_PASSES_MAP_GPU_GPU_H
