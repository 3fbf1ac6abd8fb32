//===- fa-lsp-server.cpp - language server for .mlir files ------------------===//
//
// Speaks the language server protocol on standard input and output: errors,
// hover, definitions and completion of fa IR in any editor that has a client.
//
//===----------------------------------------------------------------------===//

#include "dialect/FADialect.h"

#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"
#include "llvm/Support/LogicalResult.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  fathom::registerFA(registry);
  return failed(mlir::MlirLspServerMain(argc, argv, registry));
}
