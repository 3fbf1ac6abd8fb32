//===- HostPlan.h - from a host function to a plan --------------*- C++ -*-===//
//
// A host function around launches becomes the instructions that the runtime
// interprets: sizes, workspaces, launches.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_CODEGEN_CUDA_HOSTPLAN_H
#define FATHOM_CODEGEN_CUDA_HOSTPLAN_H

#include "codegen/cuda/Program.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/Error.h"

namespace fathom::cuda {

/// `kernels` are the symbols of the program's kernels, in order.
llvm::Expected<Plan> makePlan(mlir::func::FuncOp function,
                              llvm::ArrayRef<std::string> kernels);

} // namespace fathom::cuda

#endif // FATHOM_CODEGEN_CUDA_HOSTPLAN_H
