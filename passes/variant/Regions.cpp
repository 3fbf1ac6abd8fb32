//===- Regions.cpp - what the variant passes share --------------------------===//

#include "passes/variant/Regions.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/CSE.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

void fathom::canonicalizeRegions(Operation *variant) {
  MLIRContext *context = variant->getContext();
  RewritePatternSet patterns(context);
  for (StringRef dialect : {"arith", "math", "tensor"})
    for (RegisteredOperationName op :
         context->getRegisteredOperationsByDialect(dialect))
      op.getCanonicalizationPatterns(patterns, context);
  FrozenRewritePatternSet frozen(std::move(patterns));
  IRRewriter rewriter(context);
  // Equal values that become one may open new folds, so both repeat until
  // neither finds anything.
  bool changed = true;
  while (changed) {
    (void)applyPatternsGreedily(variant, frozen);
    DominanceInfo dominance(variant);
    eliminateCommonSubExpressions(rewriter, dominance, variant, &changed);
  }
}

Value fathom::castFloat(OpBuilder &b, Location loc, Value v, Type type) {
  unsigned from = v.getType().getIntOrFloatBitWidth(),
           to = type.getIntOrFloatBitWidth();
  if (v.getType() == type)
    return v;
  if (from < to)
    return arith::ExtFOp::create(b, loc, type, v);
  if (from > to)
    return arith::TruncFOp::create(b, loc, type, v);
  // Two formats of one width, as bf16 and f16, meet in f32.
  return castFloat(b, loc, castFloat(b, loc, v, b.getF32Type()), type);
}
