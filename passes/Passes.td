//===- Passes.td - all passes, in pipeline order ----------------*- tablegen -*-===//

#ifndef FATHOM_PASSES_PASSES_TD
#define FATHOM_PASSES_PASSES_TD

include "mlir/Pass/PassBase.td"

#endif // FATHOM_PASSES_PASSES_TD
