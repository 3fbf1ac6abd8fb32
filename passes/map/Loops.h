//===- Loops.h - nests as loops, for every target ---------------*- C++ -*-===//

#ifndef FATHOM_PASSES_MAP_LOOPS_H
#define FATHOM_PASSES_MAP_LOOPS_H

#include "dialect/FADialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fathom {

/// The nests of `f`, ready to be lowered one by one: sequential dims are loops
/// around their bodies, and what stays the same has left loops (a tile load may
/// too: entries past its limits are not touched, so it is safe when the loop
/// doesn't run). The marks of where the forward ends are gone.
llvm::SmallVector<NestOp> prepareNests(mlir::func::FuncOp f);

} // namespace fathom

#endif // FATHOM_PASSES_MAP_LOOPS_H
