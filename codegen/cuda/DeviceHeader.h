//===- DeviceHeader.h - the text at the top of every kernel -----*- C++ -*-===//
//
// codegen/device/portable.h and device.h as a string, so that a compiler of
// kernels needs no file but the program.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_CODEGEN_CUDA_DEVICEHEADER_H
#define FATHOM_CODEGEN_CUDA_DEVICEHEADER_H

#include "llvm/ADT/StringRef.h"

namespace fathom::cuda {

/// CUDA C++17 that stands alone; ends with a line break.
llvm::StringRef deviceHeader();

} // namespace fathom::cuda

#endif // FATHOM_CODEGEN_CUDA_DEVICEHEADER_H
