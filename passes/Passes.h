//===- Passes.h - declarations of all passes --------------------*- C++ -*-===//

#ifndef FATHOM_PASSES_PASSES_H
#define FATHOM_PASSES_PASSES_H

#include "dialect/FADialect.h"
#include "dialect/gpu/GpuDialect.h"
#include "mlir/Pass/Pass.h"

namespace fathom {

#define GEN_PASS_DECL
#include "passes/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/Passes.h.inc"

} // namespace fathom

#endif // FATHOM_PASSES_PASSES_H
