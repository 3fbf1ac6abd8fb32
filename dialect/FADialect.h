//===- FADialect.h - the fa dialect -----------------------------*- C++ -*-===//
//
// Declares the fa dialect, its attributes and ops, and the one registration
// function that every tool and test calls.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_DIALECT_FADIALECT_H
#define FATHOM_DIALECT_FADIALECT_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialect/FADialect.h.inc"
#include "dialect/FAEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialect/FAAttrs.h.inc"
#include "dialect/FAInterfaces.h.inc"
#define GET_OP_CLASSES
#include "dialect/FAOps.h.inc"

namespace fathom {

/// Adds the dialects of Fathom and the upstream ones their IR is made of.
void registerFA(mlir::DialectRegistry &registry);

/// The type scores and softmax are computed in: f64 for f64, else f32.
mlir::FloatType getAccType(mlir::Type dtype);

inline bool isTile(mlir::Value v) {
  return mlir::isa<mlir::RankedTensorType>(v.getType());
}
inline mlir::RankedTensorType tileType(mlir::Value v) {
  return mlir::cast<mlir::RankedTensorType>(v.getType());
}
/// True for ops of arith and math that map tiles entry by entry.
bool isElementwise(mlir::Operation *op);

/// The function attribute that carries the schedule; the only discardable
/// attribute that passes read.
inline constexpr llvm::StringLiteral kScheduleAttr = "fa.schedule";

} // namespace fathom

#endif // FATHOM_DIALECT_FADIALECT_H
