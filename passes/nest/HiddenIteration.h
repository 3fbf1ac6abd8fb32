//===- HiddenIteration.h - a loop's body where its mask is false -*- C++ -*-===//
//
// Proves what an iteration does if a mask tile in it is false everywhere. It
// knows rules of arithmetic (exp(-inf) is 0, 0 times x is 0, a product with a
// tile of zeros adds nothing), no pattern of attention.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_PASSES_NEST_HIDDENITERATION_H
#define FATHOM_PASSES_NEST_HIDDENITERATION_H

#include "dialect/FADialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <optional>
#include <string>

namespace fathom {

/// What is known of a value: one number in every entry, or that it equals
/// `same`, a value that stands for all that are computed alike.
struct Fact {
  std::optional<double> number;
  mlir::Value same;

  bool operator==(const Fact &o) const {
    return number ? o.number == number : !o.number && same == o.same;
  }
};

/// One iteration of a loop, evaluated with the mask false. The rules hold for
/// numbers that are finite: a NaN or an infinity in a hidden entry does not
/// reach a result of the loop, neither before nor after this pass.
class HiddenIteration {
public:
  HiddenIteration(mlir::scf::ForOp loop, mlir::Value mask) : loop(loop) {
    assume(mask, 0);
  }

  /// States that every entry of `v`, a value of the iteration, is `number`.
  void assume(mlir::Value v, double number) { facts[v] = {number, {}}; }

  /// Success if the iteration has no effect but that of `kept`; on failure
  /// `why` names the first op that has one.
  llvm::LogicalResult run(std::string &why);

  /// What a skipped iteration still does: an operation on memory, and for a
  /// store what it writes, a number or a value from outside the iteration.
  struct Kept {
    mlir::Operation *op;
    Fact stored;
  };
  llvm::SmallVector<Kept> kept;

private:
  Fact get(mlir::Value v) const;
  bool is(mlir::Value v, double x) { return get(v).number == x; }
  /// True if no entry of `f` is -inf.
  bool isAboveNegInf(const Fact &f);
  Fact evaluate(mlir::Operation *op);
  Fact applyRules(mlir::Operation *op, Fact alike);
  Fact foldNumbers(mlir::Operation *op);
  Fact evaluateCompare(mlir::arith::CmpFOp op);
  Fact findAlike(mlir::Operation *op);
  llvm::LogicalResult visitEffects(mlir::Operation *op, std::string &why);

  mlir::scf::ForOp loop;
  llvm::DenseMap<mlir::Value, Fact> facts;
  llvm::SmallVector<mlir::Operation *> seen;
};

/// A constant of `type`, a scalar or tile of numbers, each entry `x`.
mlir::TypedAttr makeConstant(mlir::Type type, double x);

} // namespace fathom

#endif // FATHOM_PASSES_NEST_HIDDENITERATION_H
