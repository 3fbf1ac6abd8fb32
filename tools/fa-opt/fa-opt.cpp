//===- fa-opt.cpp - run passes on IR ----------------------------------------===//

#include "dialect/FADialect.h"
#include "passes/Passes.h"

#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  fathom::registerFA(registry);
  fathom::registerFAPasses();
  mlir::registerTransformsPasses();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "Fathom: attention variants, compiled\n", registry));
}
