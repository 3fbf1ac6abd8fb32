//===- CudaCodegen.h - from a mapped module to a GPU program ----*- C++ -*-===//
//
// The CUDA back end: a module that went through the map stage for GPUs becomes
// kernels as text and plans of what the host does. Nvrtc.h makes machine code.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_CODEGEN_CUDA_CUDACODEGEN_H
#define FATHOM_CODEGEN_CUDA_CUDACODEGEN_H

#include "codegen/cuda/Program.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

namespace fathom::cuda {

/// All kernels and host functions of `module`; nothing is compiled, and the
/// program's target is left to the caller.
llvm::Expected<Program> emitProgram(mlir::ModuleOp module);

} // namespace fathom::cuda

#endif // FATHOM_CODEGEN_CUDA_CUDACODEGEN_H
