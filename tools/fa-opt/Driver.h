//===- Driver.h - compile and explain -----------------------------*- C++ -*-===//
//
// The part of fa-opt that runs the compiler as a whole instead of single
// passes: stops after a stage, emits for a target, explains.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_TOOLS_FAOPT_DRIVER_H
#define FATHOM_TOOLS_FAOPT_DRIVER_H

#include "mlir/IR/DialectRegistry.h"
#include "llvm/ADT/StringRef.h"

namespace fathom {

/// Adds this part's options to the command line; call before it is parsed.
void registerDriverOptions();

/// Whether an option of this part was given on the command line.
bool driverRequested();

/// Compiles `input` as the options say; returns the exit code.
int runDriver(llvm::StringRef input, llvm::StringRef output, mlir::DialectRegistry &registry);

} // namespace fathom

#endif // FATHOM_TOOLS_FAOPT_DRIVER_H
