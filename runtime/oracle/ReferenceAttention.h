//===- ReferenceAttention.h - what is right ---------------------*- C++ -*-===//
//
// Attention and its gradients in plain loops, from the variant as the user
// wrote it, and the rule by which a result counts as right. Shares nothing
// with the compiler but the dialect: it is what kernels are checked against.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_RUNTIME_ORACLE_REFERENCEATTENTION_H
#define FATHOM_RUNTIME_ORACLE_REFERENCEATTENTION_H

#include "dialect/FADialect.h"
#include "runtime/Tensor.h"

namespace fathom::oracle {

/// The variant and its operands. Tensors stand in logical order: q and dO are
/// [B, Hq, Sq, D], k and v [B, Hkv, Sk, D], dLse [B, Hq, Sq], captured scalars
/// have rank 0. Packed sequences: B = 1 and both lists of boundaries.
struct Problem {
  VariantInterface variant;
  Tensor q, k, v;
  std::vector<Tensor> captures;
  std::vector<int64_t> cuSeqlensQ, cuSeqlensK;
  Tensor dO;   ///< undefined: forward only
  Tensor dLse; ///< may be undefined: zero
};

/// Outputs in logical order, as f64. Captured integers have no gradient: their
/// entry in `dCaptures` is undefined.
struct Answer {
  Tensor o, lse, dq, dk, dv;
  std::vector<Tensor> dCaptures;

  /// By the reference only: an error that is allowed per entry of a gradient,
  /// whatever the naive computation's. 2 ulp (of the accumulation type) of the
  /// sum of the magnitudes of the entry's terms: what is left after they cancel
  /// can't be righter than their own rounding. A captured entry sums over whole
  /// heads, and may be the only one, which gives the naive error few chances to
  /// show: 4 ulp of the root of the sum of the magnitudes' squares, and 4 u
  /// times that of the terms, u being the relative rounding of P.
  Tensor dqSlack, dkSlack, dvSlack;
  std::vector<Tensor> dCaptureSlacks;
};

/// The answer in f64 (long double where q is f64), nothing rounded. Row with
/// no visible key: o = 0, lse = -inf, all gradients zero. A visible score of
/// -inf counts as hidden. `codedP`: the slack is that of a P in 8 bits.
llvm::FailureOr<Answer> reference(const Problem &problem, unsigned threads,
                                  bool codedP = false);

/// The same as a user would write it in q's type: S, regions and softmax in
/// f32, P and dS rounded to the type, sums in f32, outputs rounded (f64: all in
/// f64). Backward knows o and lse as they were rounded: P = exp(S - lse).
/// `roundP`, if given, is applied to the P that backward uses.
llvm::FailureOr<Answer> naive(const Problem &problem, unsigned threads,
                              double (*roundP)(double) = nullptr);

/// How many (query, key) pairs are visible, over all heads; exact for small
/// problems, from a sample of the rows for large ones.
llvm::FailureOr<double> visiblePairs(const Problem &problem);

/// P as the policy `store_compressed` keeps it: 2^(-c/8) with c = round(-8 log2
/// P), 0 for c > 254.
double roundP8(double p);

/// One output against the reference.
struct Check {
  std::string name;
  /// |got - reference| and what is allowed, where the first comes closest to
  /// (or farthest over) the second.
  double error = 0, tolerance = 0;
  bool pass = true;
  std::string worst; ///< where and what, if it failed
};

/// Passes if |got - reference| <= 2 max |naive - reference|
///   + 2 ulp of `dtype`, which the output was rounded to, at max |reference|
///   + the entry's `slack`, if given.
/// NaN and infinities must be where the reference has them; a value beyond the
/// range of `dtype` may be infinite.
Check compare(std::string name, const Tensor &got, const Tensor &reference,
              const Tensor &naive, DType dtype, const Tensor &slack = {});

} // namespace fathom::oracle

#endif // FATHOM_RUNTIME_ORACLE_REFERENCEATTENTION_H
