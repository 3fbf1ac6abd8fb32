//===- GpuDialect.h - the fa_gpu dialect ------------------------*- C++ -*-===//

#ifndef FATHOM_DIALECT_GPU_GPUDIALECT_H
#define FATHOM_DIALECT_GPU_GPUDIALECT_H

#include "dialect/FADialect.h"

#include "mlir/IR/TensorEncoding.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

#include <optional>

namespace fathom::gpu {
/// True for a tile whose encoding is a ThreadLayoutAttr.
bool isLaidOut(mlir::Type type);
} // namespace fathom::gpu

#include "dialect/gpu/GpuDialect.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialect/gpu/GpuAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dialect/gpu/GpuTypes.h.inc"
#define GET_OP_CLASSES
#include "dialect/gpu/GpuOps.h.inc"

namespace fathom::gpu {

/// Lanes of a warp.
inline constexpr int64_t kWarp = 32;

/// The layout of a tile, or null.
ThreadLayoutAttr layoutOf(mlir::Type type);
inline ThreadLayoutAttr layoutOf(mlir::Value v) {
  return layoutOf(v.getType());
}

/// How many warps run `op`: those of its role, if it is in one, or of its
/// kernel; 0 outside of kernels.
int64_t warpsOf(mlir::Operation *op);

/// `type` with the layout `layout`.
mlir::RankedTensorType withLayout(mlir::RankedTensorType type,
                                  ThreadLayoutAttr layout);

} // namespace fathom::gpu

#endif // FATHOM_DIALECT_GPU_GPUDIALECT_H
