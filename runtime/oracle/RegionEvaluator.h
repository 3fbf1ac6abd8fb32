//===- RegionEvaluator.h - regions of a variant, evaluated ------*- C++ -*-===//
//
// Evaluates the score and mask of a variant at one (b, h, i, j), and
// differentiates the score by dual numbers. It reads the variant as it is
// written, sugar included, and shares nothing with the passes: it is what they
// are checked against.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_RUNTIME_ORACLE_REGIONEVALUATOR_H
#define FATHOM_RUNTIME_ORACLE_REGIONEVALUATOR_H

#include "dialect/FADialect.h"

namespace fathom::oracle {

/// A captured operand: a scalar (no sizes) or a strided array. Entries of any
/// element type are given as doubles; strides count entries.
struct CapturedArray {
  const double *data = nullptr;
  llvm::SmallVector<int64_t> sizes, strides;
};

/// Where a score stands. i and j count within their own sequence.
struct Point {
  int64_t b = 0, h = 0, i = 0, j = 0, seqlenQ = 1, seqlenK = 1;
};

/// A derivative by one captured entry; `entry` counts in row-major order.
template <typename T>
struct Contribution {
  unsigned capture;
  int64_t entry;
  T value;
};
template <typename T>
using Contributions = llvm::SmallVector<Contribution<T>, 4>;

/// One step of a RegionProgram; registers are numbered apart for floats and
/// integers.
struct Instruction {
  enum class Code : uint8_t;
  Code code{};
  uint8_t width = 64;                         // of the integers it works on
  const llvm::fltSemantics *narrow = nullptr; // results are rounded to it
  int32_t dst = 0, a = 0, b = 0, c = 0;
  int64_t imm = 0;                       // predicate, capture, offset
  double value = 0;                      // constant
  llvm::SmallVector<int32_t, 2> indices; // of extract and contribute
};

/// A score, mask or dscore region as a list of instructions on T (float,
/// double or long double). Floats of 32 bits and more are computed in T; results of
/// narrower types are rounded to them. Const use is safe from many threads.
///
/// Derivatives: max and min follow the operand they take, and the mean of both
/// where they are equal; |x| has derivative 0 at 0; rounding is differentiated
/// as the identity when it is a cast and as 0 when it is an op (floor, ...).
template <typename T>
class RegionProgram {
public:
  /// Fails with a diagnostic on an op it can't evaluate.
  static llvm::FailureOr<RegionProgram> compile(VariantInterface variant,
                                                mlir::Region &region);

  /// The yielded float. `floats` are the float arguments (s, or s and ds);
  /// what the region contributes is appended to `contributed`.
  T evaluate(llvm::ArrayRef<T> floats, const Point &at,
             llvm::ArrayRef<CapturedArray> captures,
             Contributions<T> *contributed = nullptr) const;

  /// The yielded i1.
  bool test(const Point &at, llvm::ArrayRef<CapturedArray> captures) const;

  /// The yielded float and its derivative by the first float argument;
  /// appends the derivatives by every captured float it read.
  T differentiate(T s, const Point &at, llvm::ArrayRef<CapturedArray> captures,
                  T &ds, Contributions<T> &byCapture) const;

private:
  struct Frame;
  struct Compiler;
  template <bool Duals>
  void run(Frame &frame, llvm::ArrayRef<CapturedArray> captures,
           Contributions<T> *contributed) const;
  Frame enter(llvm::ArrayRef<T> floats, const Point &at, bool duals) const;

  llvm::SmallVector<Instruction> code;
  int32_t numFloats = 0, numInts = 0;
  int32_t result = 0;
  /// Direction 0 is s; every read of a captured float has one of its own.
  int32_t numDirections = 1;
};

/// A variant bound to its captured operands. `Sugar` is applied here in plain
/// C++: softcap, alibi, then the score region; causal, window and mask region.
template <typename T>
class VariantEvaluator {
public:
  /// `captures` stand in the variant's order; their data must outlive this.
  static llvm::FailureOr<VariantEvaluator>
  create(VariantInterface variant, llvm::ArrayRef<CapturedArray> captures);

  bool visible(const Point &at) const;

  /// The changed score of the scaled raw score s.
  T score(T s, const Point &at) const;

  /// The same with its derivative by s; `byCapture` is cleared and filled with
  /// derivatives by captured entries (the same entry may appear twice).
  T score(T s, const Point &at, T &ds, Contributions<T> &byCapture) const;

private:
  int64_t offset(const Point &at) const {
    return topLeft ? 0 : at.seqlenK - at.seqlenQ;
  }

  std::optional<RegionProgram<T>> scoreProgram, maskProgram;
  llvm::SmallVector<CapturedArray> captures;
  bool topLeft = false;
  std::optional<int64_t> left, right; // visible keys, inclusive
  std::optional<double> softcap;      // as a constant
  std::optional<unsigned> softcapCapture, alibiCapture;
};

extern template class RegionProgram<float>;
extern template class RegionProgram<double>;
extern template class RegionProgram<long double>;
extern template class VariantEvaluator<float>;
extern template class VariantEvaluator<double>;
extern template class VariantEvaluator<long double>;

} // namespace fathom::oracle

#endif // FATHOM_RUNTIME_ORACLE_REGIONEVALUATOR_H
