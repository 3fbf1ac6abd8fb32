//===- BuildId.h - which compiler this is -----------------------*- C++ -*-===//

#ifndef FATHOM_RUNTIME_CACHE_BUILDID_H
#define FATHOM_RUNTIME_CACHE_BUILDID_H

#include "codegen/cuda/Nvrtc.h"
#include "runtime/fathom.h"

#include <optional>
#include <string>

namespace fathom {

/// Changes whenever the code that compiles does: a hash of Fathom's own
/// libraries, and the build ids of the LLVM and MLIR libraries in use. Nothing
/// if one of them can't be told; then what they make must not be cached.
const std::optional<std::string> &compilerBuildId();

/// What an earlier process left of NVRTC in the cache on disk, if that still
/// holds, without opening it; else null.
const cuda::NvrtcInfo *knownNvrtc();
/// Opens it, and leaves what is to know for later processes.
Result<const cuda::NvrtcInfo *> openNvrtc();

} // namespace fathom

#endif // FATHOM_RUNTIME_CACHE_BUILDID_H
