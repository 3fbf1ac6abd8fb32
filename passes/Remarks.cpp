//===- Remarks.cpp - what passes say of what they did -----------------------===//

#include "passes/Remarks.h"

#include "mlir/IR/Remarks.h"

using namespace mlir;

void fathom::passed(Operation *op, StringRef pass, const Twine &what) {
  remark::passed(op->getLoc(),
                 remark::RemarkOpts::name(pass).category("fathom"))
      << what.str();
}
void fathom::missed(Operation *op, StringRef pass, const Twine &why) {
  remark::missed(op->getLoc(),
                 remark::RemarkOpts::name(pass).category("fathom"))
      << why.str();
}
