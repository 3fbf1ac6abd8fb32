//===- DeviceHeader.cpp - the text at the top of every kernel ---------------===//
//
// The string itself is made by codegen/CMakeLists.txt.
//
//===----------------------------------------------------------------------===//

#include "codegen/cuda/DeviceHeader.h"

llvm::StringRef fathom::cuda::deviceHeader() {
  static constexpr char text[] =
      "#define FA_DEVICE __device__ __forceinline__\n"
#include "codegen/DeviceHeader.inc"
      ;
  return text;
}
