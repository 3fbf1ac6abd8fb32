//===- fa-opt.cpp - run passes on IR, or the whole compiler -----------------===//

#include "Driver.h"

#include "dialect/FADialect.h"
#include "passes/Passes.h"

#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  fathom::registerFA(registry);
  // What the map stage gives can be read back.
  fathom::createMapToCpuPass()->getDependentDialects(registry);
  fathom::registerFAPasses();
  mlir::registerTransformsPasses();
  fathom::registerDriverOptions();
  auto [input, output] = mlir::registerAndParseCLIOptions(
      argc, argv, "Fathom: attention variants, compiled\n", registry);
  if (fathom::driverRequested())
    return fathom::runDriver(input, output, registry);
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, input, output, registry));
}
