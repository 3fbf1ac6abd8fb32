//===- FADialect.cpp - dialect set-up and registration ----------------------===//

#include "dialect/FADialect.h"
#include "dialect/gpu/GpuDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fathom;

#include "dialect/FADialect.cpp.inc"
#include "dialect/FAEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialect/FAAttrs.cpp.inc"
#include "dialect/FAInterfaces.cpp.inc"
#define GET_OP_CLASSES
#include "dialect/FAOps.cpp.inc"

void FADialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialect/FAAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialect/FAOps.cpp.inc"
      >();
}

void fathom::registerFA(DialectRegistry &registry) {
  registry.insert<FADialect, gpu::FAGpuDialect, arith::ArithDialect,
                  func::FuncDialect, math::MathDialect, memref::MemRefDialect,
                  scf::SCFDialect, tensor::TensorDialect>();
}

bool fathom::isElementwise(Operation *op) {
  return isa_and_nonnull<arith::ArithDialect, math::MathDialect>(
             op->getDialect()) &&
         op->getNumResults() == 1 && op->getNumOperands() != 0 &&
         isTile(op->getResult(0));
}

FloatType fathom::getAccType(Type dtype) {
  Builder b(dtype.getContext());
  return dtype.isF64() ? cast<FloatType>(b.getF64Type())
                       : cast<FloatType>(b.getF32Type());
}
