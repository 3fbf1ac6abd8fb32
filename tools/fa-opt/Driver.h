//===- Driver.h - the whole compiler on a command line ----------*- C++ -*-===//
//
// The part of fa-opt that runs the pipeline instead of single passes: stops
// after a stage, emits for a target, explains.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_TOOLS_FAOPT_DRIVER_H
#define FATHOM_TOOLS_FAOPT_DRIVER_H

#include "mlir/IR/DialectRegistry.h"
#include "llvm/ADT/StringRef.h"

namespace fathom {

/// Adds this part's options to the command line, and `--fa-pipeline` and one
/// pipeline a stage to the passes. Call before the command line is parsed.
void registerDriverOptions();

/// Whether there is anything to do that needs more than running the passes on
/// the command line.
bool driverRequested();

/// Compiles `input` as the options say; returns the exit code.
int runDriver(llvm::StringRef input, llvm::StringRef output,
              mlir::DialectRegistry &registry);

} // namespace fathom

#endif // FATHOM_TOOLS_FAOPT_DRIVER_H
