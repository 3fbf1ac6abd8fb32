//===- Loops.h - nests as loops, for every target ---------------*- C++ -*-===//

#ifndef FATHOM_PASSES_MAP_LOOPS_H
#define FATHOM_PASSES_MAP_LOOPS_H

#include "dialect/FADialect.h"

namespace fathom {

/// Sequential dims become loops around the body.
void makeLoops(NestOp nest);

/// Moves what stays the same out of loops. A tile load may move too: entries
/// past its limits are not touched, so it is safe when the loop doesn't run.
void hoistInvariants(NestOp nest);

} // namespace fathom

#endif // FATHOM_PASSES_MAP_LOOPS_H
