//===- Regions.h - what the variant passes share ----------------*- C++ -*-===//

#ifndef FATHOM_PASSES_VARIANT_REGIONS_H
#define FATHOM_PASSES_VARIANT_REGIONS_H

#include "dialect/FADialect.h"
#include "passes/Remarks.h"

namespace fathom {

/// Brings the regions of a variant op into canonical form: constants folded
/// and first, common values computed once, nothing that is unused. A second
/// run changes nothing.
void canonicalizeRegions(mlir::Operation *variant);

/// `v`, a float, in type `type`.
mlir::Value castFloat(mlir::OpBuilder &b, mlir::Location loc, mlir::Value v,
                      mlir::Type type);

} // namespace fathom

#endif // FATHOM_PASSES_VARIANT_REGIONS_H
