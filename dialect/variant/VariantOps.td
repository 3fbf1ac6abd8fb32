//===- VariantOps.td - what is computed -------------------------*- tablegen -*-===//
//
// Level 1: an attention variant as the user states it, its instance on
// tensors, and the gradient of that instance.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_DIALECT_VARIANT_VARIANTOPS_TD
#define FATHOM_DIALECT_VARIANT_VARIANTOPS_TD

include "dialect/FADialect.td"
include "dialect/variant/VariantInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def FA_Layout : FA_I32Enum<"Layout", "Named order of the dims of Q, K, V, O", [
  I32EnumCase<"bshd", 0>,
  I32EnumCase<"bhsd", 1>,
  I32EnumCase<"packed", 2>]>;
def FA_LayoutAttr : EnumAttr<FA_Dialect, FA_Layout, "layout">;

def FA_Alignment : FA_I32Enum<"Alignment",
    "Where row 0 of Q stands against the keys when lengths differ", [
  I32EnumCase<"bottom_right", 0>,
  I32EnumCase<"top_left", 1>]>;
def FA_AlignmentAttr : EnumAttr<FA_Dialect, FA_Alignment, "alignment">;

// The fields that state a variant. fa.variant, fa.attention and
// fa.attention_grad share them, their syntax (VariantSyntax.cpp) and their
// rules (VariantVerify.cpp).
defvar FA_VariantFields = (ins
  StrArrayAttr:$capture_names,
  UnitAttr:$causal,
  DefaultValuedAttr<FA_AlignmentAttr, "::fathom::Alignment::bottom_right">:$alignment,
  OptionalAttr<I64Attr>:$window_left,
  OptionalAttr<I64Attr>:$window_right,
  OptionalAttr<AnyAttrOf<[F64Attr, I64Attr]>>:$softcap,
  OptionalAttr<I64Attr>:$alibi,
  OptionalAttr<F64Attr>:$scale);

class FA_VariantLikeOp<string mnemonic, list<Trait> traits = []>
    : FA_Op<mnemonic, traits # [
        IsolatedFromAbove, NoTerminator,
        DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>,
        DeclareOpInterfaceMethods<FA_VariantInterface, ["getCaptureTypes"]>]> {
  let hasCustomAssemblyFormat = 1;
  let hasRegionVerifier = 1;
}

//===----------------------------------------------------------------------===//
// The three variant ops
//===----------------------------------------------------------------------===//

def FA_VariantOp : FA_VariantLikeOp<"variant", [Symbol]> {
  let summary = "an attention variant, free of tensor types";
  let description = [{
    A symbol that states how scores are changed and which keys are visible.
    `fa-specialize` makes an instance of it for given dtypes and head dims.

    Per query row i and key j of head h: s = scale * q_i . k_j, then `softcap`,
    then `alibi`, then the `score` region, then the mask (`causal`, `window`
    and the `mask` region must all say visible), then softmax over j.

    Regions may use arith, math, `tensor.extract` and `tensor.dim` of captures,
    `fa.distance`, `fa.seqlen_q` and `fa.seqlen_k`. They compute in f32 (f64 in an f64
    instance) and see i and j within their own sequence.

    `window(left = l, right = r)` is inclusive: i + off - l <= j <= i + off + r
    with off = seqlen_k - seqlen_q (`top_left`: 0). A side that is absent is
    unbounded. `causal` is right = 0.

    ```mlir
    fa.variant @softcap_alibi(%slopes: tensor<?xf32>, %cap: f32)
        causal window(left = 4095)
    score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %0 = arith.divf %s, %cap : f32
      %1 = math.tanh %0 : f32
      %2 = arith.mulf %1, %cap : f32
      %3 = tensor.extract %slopes[%h] : tensor<?xf32>
      %4 = fa.distance %i, %j : f32
      %5 = arith.mulf %3, %4 : f32
      %6 = arith.subf %2, %5 : f32
      fa.yield %6 : f32
    }
    ```
  }];
  let arguments = !con((ins SymbolNameAttr:$sym_name,
                            TypeArrayAttr:$capture_type_list), FA_VariantFields);
  let regions = (region AnyRegion:$score, AnyRegion:$mask);
}

def FA_AttentionOp : FA_VariantLikeOp<"attention", [
    Pure, AttrSizedOperandSegments]> {
  let summary = "an instance of a variant on tensors: O and L";
  let description = [{
    O = softmax(mask(score(scale * Q K^T))) V and L = logsumexp of the same
    rows (natural log, one per query head and row, in the accumulation type).
    A row with no visible key has O = 0 and L = -inf.

    | layout | Q | K, V | O | L |
    |---|---|---|---|---|
    | `bshd` | B,Sq,Hq,Dqk | B,Sk,Hkv,D | B,Sq,Hq,Dv | B,Hq,Sq |
    | `bhsd` | B,Hq,Sq,Dqk | B,Hkv,Sk,D | B,Hq,Sq,Dv | B,Hq,Sq |
    | `packed` | Tq,Hq,Dqk | Tk,Hkv,D | Tq,Hq,Dv | Hq,Tq |

    Head dims and `group` (query heads per KV head) are static; the rest is
    not. `packed` also takes cu_seqlens_q and cu_seqlens_k (tensor<?xi32>,
    B + 1 entries) and the two maximal lengths.

    ```mlir
    %o, %l = fa.attention (%q, %k, %v) layout(bshd) group(4)
        captures(%slopes = %arg3 : tensor<?xf32>) causal
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) { ... }
      : (tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>)
        -> (tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>)
    ```
  }];
  let arguments = !con((ins
    AnyRankedTensor:$q, AnyRankedTensor:$k, AnyRankedTensor:$v,
    Variadic<AnyType>:$captures,
    Variadic<AnyType>:$packing,
    FA_LayoutAttr:$layout, I64Attr:$group), FA_VariantFields);
  let results = (outs AnyRankedTensor:$o, AnyRankedTensor:$lse);
  let regions = (region AnyRegion:$score, AnyRegion:$mask);
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// f32, or f64 when Q is f64.
    ::mlir::FloatType getAccType();
    int64_t getHeadDimQK();
    int64_t getHeadDimV();
    bool isPacked() { return getLayout() == ::fathom::Layout::packed; }
  }];
}

def FA_AttentionGradOp : FA_VariantLikeOp<"attention_grad", [
    Pure, AttrSizedOperandSegments]> {
  let summary = "the gradient of fa.attention";
  let description = [{
    From Q, K, V, O, L, dO and (optional) dL: dQ, dK, dV, and one gradient per
    entry of `grad_captures` (indexes into the captures), in the accumulation
    type. `fa-differentiate` makes this op; the `dscore` region is the reverse
    of the score region: args (captures..., s, ds, b, h, i, j), where s is the
    scaled raw score and ds the gradient of the changed score; it yields the
    gradient of s and adds to captured gradients with `fa.contribute`. An
    empty region means the score is unchanged.

    ```mlir
    %dq, %dk, %dv, %dslopes = fa.attention_grad
        (%q, %k, %v, %o, %l, %do, %dl) layout(bshd) group(1)
        captures(%slopes = %arg3 : tensor<?xf32>) grad_captures(0) causal
      score (...) { ... }
      dscore (%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index) {
        %0 = fa.distance %i, %j : f32
        %1 = arith.mulf %ds, %0 : f32
        fa.contribute %1 to %slopes[%h] : f32, tensor<?xf32>
        fa.yield %ds : f32
      }
      : (...) -> (...)
    ```
  }];
  let arguments = !con((ins
    AnyRankedTensor:$q, AnyRankedTensor:$k, AnyRankedTensor:$v,
    AnyRankedTensor:$o, AnyRankedTensor:$lse,
    AnyRankedTensor:$d_o, Optional<AnyRankedTensor>:$d_lse,
    Variadic<AnyType>:$captures,
    Variadic<AnyType>:$packing,
    FA_LayoutAttr:$layout, I64Attr:$group,
    DenseI64ArrayAttr:$grad_captures), FA_VariantFields);
  let results = (outs AnyRankedTensor:$d_q, AnyRankedTensor:$d_k,
                      AnyRankedTensor:$d_v, Variadic<AnyType>:$d_captures);
  let regions = (region AnyRegion:$score, AnyRegion:$mask, AnyRegion:$dscore);
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Ops inside the regions
//===----------------------------------------------------------------------===//

defvar FA_InRegion = ParentOneOf<["VariantOp", "AttentionOp", "AttentionGradOp"]>;

def FA_YieldOp : FA_Op<"yield", [Pure, Terminator, ReturnLike, FA_InRegion]> {
  let summary = "ends a score, mask or dscore region";
  let description = [{
    ```mlir
    fa.yield %score : f32
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
}

def FA_DistanceOp : FA_Op<"distance", [Pure, FA_InRegion]> {
  let summary = "|i + off - j| as a float, off by the variant's alignment";
  let description = [{
    off is seqlen_k - seqlen_q (bottom_right) or 0 (top_left).
    `fa-normalize-variant` rewrites it into index arithmetic.

    ```mlir
    %d = fa.distance %i, %j : f32
    ```
  }];
  let arguments = (ins Index:$i, Index:$j);
  let results = (outs AnyFloat:$result);
  let assemblyFormat = "$i `,` $j attr-dict `:` type($result)";
}

class FA_SeqlenOp<string mnemonic, string what> : FA_Op<mnemonic, [Pure, FA_InRegion]> {
  let summary = "length of this sequence's " # what;
  let description = [{
    ```mlir
    %n = fa.seqlen_k : index
    ```
  }];
  let results = (outs Index:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}
def FA_SeqlenQOp : FA_SeqlenOp<"seqlen_q", "queries">;
def FA_SeqlenKOp : FA_SeqlenOp<"seqlen_k", "keys">;

def FA_ContributeOp : FA_Op<"contribute"> {
  let summary = "adds a value to the gradient of a captured operand";
  let description = [{
    Only in a `dscore` region. `target` is the captured block argument; with
    indices where it is a tensor, without where it is a scalar. Contributions
    of all (b, h, i, j) that are visible are summed.

    ```mlir
    fa.contribute %g to %slopes[%h] : f32, tensor<?xf32>
    fa.contribute %g to %cap[] : f32, f32
    ```
  }];
  let arguments = (ins AnyFloat:$value, AnyType:$target,
                       Variadic<Index>:$indices);
  let assemblyFormat =
    "$value `to` $target `[` $indices `]` attr-dict `:` type($value) `,` type($target)";
  let hasVerifier = 1;
}

#endif // FATHOM_DIALECT_VARIANT_VARIANTOPS_TD
