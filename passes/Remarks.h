//===- Remarks.h - what passes say of what they did -------------*- C++ -*-===//

#ifndef FATHOM_PASSES_REMARKS_H
#define FATHOM_PASSES_REMARKS_H

#include "mlir/IR/Operation.h"

namespace fathom {

/// Says at `op`'s location, as a remark, what a pass did or why it did not.
void passed(mlir::Operation *op, llvm::StringRef pass, const llvm::Twine &what);
void missed(mlir::Operation *op, llvm::StringRef pass, const llvm::Twine &why);

} // namespace fathom

#endif // FATHOM_PASSES_REMARKS_H
