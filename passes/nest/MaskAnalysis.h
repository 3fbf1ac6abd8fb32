//===- MaskAnalysis.h - which entries of a mask tile can be true -*- C++ -*-===//
//
// Reads a tile of i1 as a formula over linear comparisons of the tile's lanes
// and of scalars, and answers without evaluating entries: may some entry be
// true, are all true, and between which values of a loop variable can one be
// true. Comparisons are brought to one normal form and lanes are eliminated by
// Fourier-Motzkin, so that every way to write a mask gives the same answers.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_PASSES_NEST_MASKANALYSIS_H
#define FATHOM_PASSES_NEST_MASKANALYSIS_H

#include "dialect/FADialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/SetVector.h"

#include <array>
#include <map>
#include <optional>

namespace fathom {

/// constant + the sum of coefficient * variable; no coefficient is 0.
struct LinearForm {
  std::map<unsigned, int64_t> terms;
  int64_t constant = 0;
};

/// Assumes that index arithmetic does not wrap; a number from 2^56 on counts as
/// 2^56. All answers are safe: an entry
/// that can be true is never denied. They are exact for comparisons that are
/// linear with coefficients of 1 and -1 (causal, window, prefix, lengths).
class MaskAnalysis {
public:
  /// `mask` is an i1 or a tile of i1. `loop`, where given, encloses `mask`;
  /// scalars computed inside it are read through to its induction variable.
  explicit MaskAnalysis(mlir::Value mask, mlir::scf::ForOp loop = {});

  /// False where a part of the mask is not index arithmetic (for example ids
  /// read from memory); such a part counts as maybe true, maybe false.
  bool isUnderstood() const { return understood; }

  /// The values that `emitAny` or `emitAll` will use.
  llvm::SetVector<mlir::Value> getInputs() const;

  /// An i1: false only where every entry is false.
  mlir::Value emitAny(mlir::OpBuilder &b, mlir::Location loc) const;

  /// False where `emitAll` would be the constant false.
  bool canBeAll() const;

  /// An i1: true only where every entry is true.
  mlir::Value emitAll(mlir::OpBuilder &b, mlir::Location loc) const;

  struct Range {
    mlir::Value lo, hi;
    /// `emitAny` holds for every iteration in [lo, hi).
    bool exact;
  };
  /// Bounds, inside those of the loop, outside which `emitAny` is false; `lo`
  /// is a whole number of steps from the loop's lower bound, or its upper
  /// bound. Emits before the loop.
  Range emitRange(mlir::OpBuilder &b, mlir::Location loc);

private:
  /// The final lane (tile dim of `mask`) of each dim of a value.
  using LaneMap = std::array<int, 2>;

  struct Variable {
    enum Kind { scalar, lane, quotient, choice } kind;
    mlir::Value value;        // scalar, choice
    LaneMap map = {-1, -1};   // choice; lane: its number is map[0]
    LinearForm dividend = {}; // quotient
    int64_t divisor = 1;      // quotient, positive
    bool floors = false;      // quotient: rounds down rather than to zero
  };

  /// A conjunction: every form is <= 0, every flag has the stated value.
  struct Conjunction {
    std::vector<LinearForm> forms;
    std::vector<std::pair<mlir::Value, bool>> flags;
  };
  using Dnf = std::vector<Conjunction>;

  unsigned getVariable(Variable v);
  unsigned getQuotient(LinearForm dividend, int64_t divisor, bool floors);
  bool isInLoop(mlir::Value v) const;
  bool isNonNegative(mlir::Value v) const;
  bool isNonNegative(const LinearForm &f) const;
  bool dependsOn(const LinearForm &f,
                 llvm::function_ref<bool(unsigned)> pred) const;
  bool hasLane(const LinearForm &f) const;

  std::optional<LinearForm> readIndex(mlir::Value v, LaneMap map);
  std::optional<LinearForm> readDivision(mlir::Operation *op, LaneMap map);
  Dnf readMask(mlir::Value v, LaneMap map, bool negate);
  Dnf readCompare(mlir::Operation *op, LaneMap map, bool negate);
  Dnf atMostZero(LinearForm f);
  Dnf unknown();
  static Dnf both(const Dnf &a, const Dnf &b);
  static Dnf either(Dnf a, const Dnf &b);

  std::pair<LinearForm, LinearForm> getInterval(const LinearForm &f);
  bool simplify(std::vector<LinearForm> &forms);
  bool project(Conjunction &c, bool forRange);

  void collectInputs(const LinearForm &f,
                     llvm::SetVector<mlir::Value> &in) const;
  mlir::Value emitVariable(mlir::OpBuilder &b, mlir::Location loc,
                           unsigned id) const;
  mlir::Value emit(mlir::OpBuilder &b, mlir::Location loc,
                   const LinearForm &f) const;
  mlir::Value emitCompare(mlir::OpBuilder &b, mlir::Location loc,
                          mlir::arith::CmpIPredicate p,
                          const LinearForm &f) const;
  mlir::Value emitHolds(mlir::OpBuilder &b, mlir::Location loc,
                        const Conjunction &c) const;

  mutable mlir::scf::ForOp loop; // accessors of ops are not const
  std::array<int64_t, 2> laneSizes = {1, 1};
  std::vector<Variable> variables;
  bool understood = true;
  Dnf visible, hidden; // as read, and with lanes eliminated
  Dnf anyVisible, anyHidden;
};

} // namespace fathom

#endif // FATHOM_PASSES_NEST_MASKANALYSIS_H
