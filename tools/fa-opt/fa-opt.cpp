//===- fa-opt.cpp - run passes on IR, or the whole compiler -----------------===//

#include "Driver.h"

#include "dialect/FADialect.h"
#include "passes/Passes.h"

#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

static constexpr char kOverview[] =
    R"(fa-opt: run passes on attention variants, or the whole compiler.

EXAMPLES
  What was chosen, why, and what it costs, for each P policy:
    fa-opt causal.mlir --explain --heads 32 --seqlen-q 8192 --dtype bf16

  The IR after a stage or a pass; the steps on the way, in a folder:
    fa-opt causal.mlir --fa-stop-after=nest
    fa-opt causal.mlir --fa-stop-after=fa-tile --dump-dir=steps -o /dev/null

  LLVM IR or an object file, also without an optional pass:
    fa-opt causal.mlir --emit=llvm --fa-skip=fa-fuse-p-recompute
    fa-opt causal.mlir --emit=obj --target=x86-64-v3 -o causal.o

  Single passes, with their options:
    fa-opt causal.mlir --fa-specialize="dtype=f16 group=4" --fa-normalize-variant

EXIT CODE
  0 all well; 1 the input, an option or a pass is wrong, which the message says.
)";

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  fathom::registerFA(registry);
  // What the map stage gives can be read back.
  fathom::createMapToCpuPass()->getDependentDialects(registry);
  fathom::registerFAPasses();
  mlir::registerTransformsPasses();
  fathom::registerDriverOptions();
  auto [input, output] =
      mlir::registerAndParseCLIOptions(argc, argv, kOverview, registry);
  if (fathom::driverRequested())
    return fathom::runDriver(input, output, registry);
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, input, output, registry));
}
