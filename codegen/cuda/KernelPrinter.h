//===- KernelPrinter.h - a kernel as CUDA text ------------------*- C++ -*-===//
//
// Prints an fa_gpu.kernel, op by op, as a file that stands alone: CUDA C++17
// for NVRTC or nvcc, C++ for the emulation of codegen/device/emulation.h.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_CODEGEN_CUDA_KERNELPRINTER_H
#define FATHOM_CODEGEN_CUDA_KERNELPRINTER_H

#include "codegen/cuda/Program.h"
#include "dialect/gpu/GpuDialect.h"
#include "llvm/Support/Error.h"

namespace fathom::cuda {

/// The name in CUDA of a kernel of this name: letters, digits and _.
std::string kernelName(llvm::StringRef symbol);

/// Name, text, threads and shared memory; nothing is compiled.
llvm::Expected<Kernel> printKernel(gpu::KernelOp kernel);

} // namespace fathom::cuda

#endif // FATHOM_CODEGEN_CUDA_KERNELPRINTER_H
