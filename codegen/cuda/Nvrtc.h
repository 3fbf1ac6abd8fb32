//===- Nvrtc.h - CUDA C++ to machine code -----------------------*- C++ -*-===//
//
// NVIDIA's run-time compiler, opened when it is first needed: nothing links it,
// and a machine without it says so. It needs no GPU and no driver.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_CODEGEN_CUDA_NVRTC_H
#define FATHOM_CODEGEN_CUDA_NVRTC_H

#include "codegen/cuda/Target.h"

#include "llvm/Support/Error.h"

#include <optional>

namespace fathom::cuda {

/// What is in use. Looked for: FATHOM_NVRTC (a file or a directory; then
/// nowhere else), the loader's places, CUDA_HOME, CUDA_PATH, /usr/local/cuda,
/// and packages inside CONDA_PREFIX and VIRTUAL_ENV.
struct NvrtcInfo {
  int major = 0, minor = 0; ///< 0 in what recallNvrtc() gives
  std::string path;
  /// For a cache's key: version, and the build ids of the library and of its
  /// built-in headers. Empty if they can't be told: then don't cache.
  std::string identity;
  std::vector<int> archs; ///< 80, 86, ...
};

/// The compiler, or why there is none.
llvm::Expected<const NvrtcInfo *> nvrtc();

/// How a later process tells that nvrtc() would find the same there, without
/// opening it: a text for it to keep. Empty if there is nothing to go by.
std::string rememberNvrtc();
/// What such a text says. Nothing if it can't be relied on: a file or the
/// environment differs, or this process has another NVRTC open.
std::optional<NvrtcInfo> recallNvrtc(llvm::StringRef text);

/// Fills machine code (not for compute_N), PTX and resources from the source.
/// An error shows the lines it is about.
llvm::Error compile(Kernel &kernel, const Target &target);

/// All kernels for the program's target, on up to as many threads as there are
/// CPUs. Errors of several kernels come together.
llvm::Error compile(Program &program);

} // namespace fathom::cuda

#endif // FATHOM_CODEGEN_CUDA_NVRTC_H
