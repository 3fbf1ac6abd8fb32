//===- TestStrip.cpp - fa-test-strip ----------------------------------------===//
//
// Takes away everything a pass must not depend on, so that a test can put it
// between any two passes and see that nothing changes.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"

using namespace mlir;
using namespace fathom;

namespace fathom {
#define GEN_PASS_DEF_TESTSTRIPPASS
#include "passes/Passes.h.inc"
} // namespace fathom

namespace {
struct TestStripPass : public fathom::impl::TestStripPassBase<TestStripPass> {
  using TestStripPassBase::TestStripPassBase;

  void runOnOperation() override {
    Location none = UnknownLoc::get(&getContext());
    SmallVector<SymbolOpInterface> privates;
    getOperation()->walk([&](Operation *op) {
      Attribute schedule =
          isa<func::FuncOp>(op) ? op->getAttr(kScheduleAttr) : Attribute();
      op->setDiscardableAttrs(DictionaryAttr::get(&getContext()));
      if (schedule)
        op->setAttr(kScheduleAttr, schedule);
      if (auto func = dyn_cast<func::FuncOp>(op)) {
        func.removeArgAttrsAttr();
        func.removeResAttrsAttr();
      }
      if (auto nest = dyn_cast<NestOp>(op))
        nest.removeLabelAttr();
      op->setLoc(none);
      for (Region &r : op->getRegions())
        for (BlockArgument arg : r.getArguments())
          arg.setLoc(none);
      if (auto symbol = dyn_cast<SymbolOpInterface>(op);
          symbol && symbol.isPrivate())
        privates.push_back(symbol);
    });
    SymbolTableCollection tables;
    for (auto [n, symbol] : llvm::enumerate(privates)) {
      SymbolTable &table = tables.getSymbolTable(symbol->getParentOp());
      (void)table.rename(symbol, "private" + std::to_string(n));
    }
  }
};
} // namespace
