//===- Passes.td - all passes, in pipeline order ----------------*- tablegen -*-===//

#ifndef FATHOM_PASSES_PASSES_TD
#define FATHOM_PASSES_PASSES_TD

include "mlir/Pass/PassBase.td"

//===----------------------------------------------------------------------===//
// variant stage
//===----------------------------------------------------------------------===//

def SpecializePass : Pass<"fa-specialize", "::mlir::ModuleOp"> {
  let summary = "Make an instance of a variant for a dtype, head dims and a layout (required)";
  let description = [{
    Needed where the input has an `fa.variant`; a function with `fa.attention`,
    written by hand, is left as it is. The instance is a
    function named after the variant; all variants are erased. Discardable
    attributes of the variant move to the function (so `fa.schedule` may be
    written there).

    In an f64 instance every f32 of the regions and of the captures becomes
    f64. Other captures keep their element type: a captured bf16 table stays
    bf16 in every instance.

    ```mlir
    fa.variant @bias(%t: tensor<?x?xf32>) causal
    score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %0 = tensor.extract %t[%h, %j] : tensor<?x?xf32>
      %1 = arith.addf %s, %0 : f32
      fa.yield %1 : f32
    }
    ```
    ==> `--fa-specialize="dtype=bf16 head-dim-qk=64 group=4"`
    ```mlir
    func.func @bias(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
                    %v: tensor<?x?x?x64xbf16>, %table: tensor<?x?xf32>)
        -> (tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>) {
      %0:2 = fa.attention (%q, %k, %v) layout(bshd) group(4)
          captures(%t = %table : tensor<?x?xf32>) causal
        score (%s: f32, %b: index, %h: index, %i: index, %j: index) { ... }
        : (...) -> (...)
      return %0#0, %0#1 : tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
    }
    ```
  }];
  let options = [
    Option<"variant", "variant", "std::string", "\"\"",
           "name of the variant; may be left out if the module has one">,
    Option<"dtype", "dtype", "std::string", "\"f32\"", "f64, f32, bf16 or f16">,
    Option<"headDimQK", "head-dim-qk", "int64_t", "64", "head dim of Q and K, 1 to 512">,
    Option<"headDimV", "head-dim-v", "int64_t", "0",
           "head dim of V and O, 1 to 512; 0 is that of Q and K">,
    Option<"group", "group", "int64_t", "1", "query heads per KV head">,
    Option<"layout", "layout", "std::string", "\"bshd\"", "bshd, bhsd or packed">
  ];
}

def NormalizeVariantPass : Pass<"fa-normalize-variant"> {
  let summary = "Turn sugar into region code, and regions into canonical form (required)";
  let description = [{
    Afterwards `softcap`, `alibi`, `causal`, `window` and the
    alignment are gone from every variant op, `fa.distance` is index
    arithmetic, and an instance states its `scale` (1/sqrt(Dqk) if it had
    none). A region that would change nothing is empty.

    - `softcap(c)`: s becomes c tanh(s/c); then `alibi(m)`: s becomes
      s - m[h] |i + off - j| (m[b, h] if m has two dims); then the score region.
    - `window(left = l, right = r)`, `causal` (right = 0):
      j <= i + off + r and j >= i + off - l, and what the mask region says.
    - off is seqlen_k - seqlen_q, and 0 if `top_left`.

    `math.fpowi` of an exponent that is not a constant becomes `math.powf`.
    Constants are folded and stand first, equal values are computed once. A
    second run changes nothing.

    ```mlir
    fa.variant @v() causal softcap(30.0)
    ```
    ==>
    ```mlir
    fa.variant @v()
    score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %cst = arith.constant 3.000000e+01 : f32
      %0 = arith.divf %s, %cst : f32
      %1 = math.tanh %0 : f32
      %2 = arith.mulf %1, %cst : f32
      fa.yield %2 : f32
    }
    mask (%b: index, %h: index, %i: index, %j: index) {
      %0 = fa.seqlen_k : index
      %1 = fa.seqlen_q : index
      %2 = arith.subi %0, %1 : index
      %3 = arith.addi %i, %2 : index
      %4 = arith.cmpi sle, %j, %3 : index
      fa.yield %4 : i1
    }
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
                           "::mlir::tensor::TensorDialect"];
}

def FoldVisiblePass : Pass<"fa-fold-visible"> {
  let summary = "scores use what the mask tells of visible entries";
  let description = [{
    Optional. The absolute value of a sum of positions is that sum where the mask
    region shows every entry with a negative one hidden, and the negated sum
    where it hides the positive ones.

    ```mlir
    // before: mask is %j <= %i
    %d = arith.subi %i, %j : index
    %n = arith.index_cast %d : index to i64
    %a = math.absi %n : i64
    // after
    %d = arith.subi %i, %j : index
    %a = arith.index_cast %d : index to i64
    ```
    Requires: `fa-normalize-variant`. The scores of hidden entries change, which
    nothing reads.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def DifferentiatePass : Pass<"fa-differentiate", "::mlir::ModuleOp"> {
  let summary = "Add the gradient of fa.attention: the joint function (optional)";
  let description = [{
    Without it there is only a forward. A function that returns o
    and lse of one `fa.attention` also takes do and, with `lse-grad`, dlse, and
    also returns dq, dk, dv and, with `capture-grads`, the gradient of every
    captured float operand in order. Captured gradients have the accumulation
    type, that of a scalar is a tensor<1xT>.

    The `dscore` region of the new `fa.attention_grad` is the score region in
    reverse. It has rules for

    - arith: addf subf mulf divf remf negf minimumf maximumf minnumf maxnumf
      select extf truncf; comparisons, integer and index arithmetic, sitofp,
      uitofp, fptosi and fptoui have derivative zero;
    - math: exp exp2 expm1 log log2 log10 log1p sqrt rsqrt cbrt powf fpowi fma
      sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh erf
      erfc absf copysign; floor ceil round roundeven trunc have derivative zero;
    - tensor.extract of a capture, fa.distance, fa.seqlen_q, fa.seqlen_k.

    Any other op between s or a captured float and the result is an error.

    Where there is no derivative: max and min of equal operands give half to
    each; |x| and copysign(x, y) have derivative 0 at x = 0; x^y has derivative
    0 by x where y = 0 and by y where x <= 0. Casts between float types are differentiated as the identity. What
    a select, min or max did not take gets the gradient 0, also where its own
    derivative is infinite or NaN.

    ```mlir
    func.func @f(%q: .., %k: .., %v: .., %m: tensor<?xf32>) -> (.., ..) {
      %0:2 = fa.attention (%q, %k, %v) layout(bshd) group(1) captures(%t = %m : tensor<?xf32>)
        score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
          %0 = tensor.extract %t[%h] : tensor<?xf32>
          %1 = arith.mulf %s, %0 : f32
          fa.yield %1 : f32
        } : ..
      return %0#0, %0#1 : .., ..
    }
    ```
    ==>
    ```mlir
    func.func @f(%q: .., %k: .., %v: .., %m: tensor<?xf32>, %do: .., %dlse: ..)
        -> (.., .., .., .., .., tensor<?xf32>) {
      %0:2 = fa.attention .. // as before
      %1:4 = fa.attention_grad (%q, %k, %v, %0#0, %0#1, %do, %dlse) layout(bshd) group(1)
          captures(%t = %m : tensor<?xf32>) grad_captures(0)
        score .. // as before
        dscore (%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index) {
          %0 = tensor.extract %t[%h] : tensor<?xf32>
          %1 = arith.mulf %ds, %0 : f32
          %2 = arith.mulf %ds, %s : f32
          fa.contribute %2 to %t[%h] : f32, tensor<?xf32>
          fa.yield %1 : f32
        } : ..
      return %0#0, %0#1, %1#0, %1#1, %1#2, %1#3 : ..
    }
    ```
  }];
  let options = [
    Option<"lseGrad", "lse-grad", "bool", "true", "lse has a gradient: take dlse">,
    Option<"captureGradients", "capture-grads", "bool", "true",
           "return gradients of captured floats">
  ];
}

//===----------------------------------------------------------------------===//
// schedule stage
//===----------------------------------------------------------------------===//

def SelectSchedulePass : Pass<"fa-select-schedule", "::mlir::ModuleOp"> {
  let summary = "Choose tile sizes and policies (required)";
  let description = [{
    Writes `fa.schedule` on each function with fa.attention that has none.

    Before: `func.func @f(...)`

    After:
    ```mlir
    func.func @f(...) attributes {fa.schedule = #fa.schedule<block_m = 64,
        block_n = 64, p = recompute, dq = ordered, origin = "default">}
    ```
    Numerics: none.
  }];
  let options = [
    Option<"blockM", "block-m", "int64_t", "0", "rows of Q in a tile (0: default)">,
    Option<"blockN", "block-n", "int64_t", "0", "rows of K in a tile (0: default)">,
    Option<"pPolicy", "p-policy", "std::string", "", "recompute, store or store_compressed">,
    Option<"dqPolicy", "dq-policy", "std::string", "",
           "sequential, atomic, ordered, split or two_kernel">,
    Option<"dqSplits", "dq-splits", "int64_t", "4", "parts of the keys for dq = split">,
    Option<"kvSplits", "kv-splits", "int64_t", "1",
           "parts of the keys that the forward passes over in parallel">,
    Option<"seqlenQHint", "seqlen-q-hint", "int64_t", "0",
           "query rows expected in a sequence, for tiles of few rows on a GPU (0: unknown)">,
    Option<"packHeads", "pack-heads", "bool", "false",
           "tiles of the query heads of a KV head in the forward; on a GPU also "
           "where the hint is less than these">,
    Option<"groupSplits", "group-splits", "int64_t", "1",
           "parts of the query heads of a KV head that the backward passes over in parallel">,
    Option<"deterministic", "deterministic", "bool", "false",
           "promise bitwise equal results in every run">,
    Option<"gpu", "gpu", "bool", "false", "defaults for a GPU">,
    Option<"aligned", "aligned", "bool", "false",
           "arrays will be aligned: copies on a GPU skip the registers">,
    Option<"warpgroups", "warpgroups", "bool", "false",
           "defaults for a GPU with products of four warps">,
    Option<"part", "part", "std::string", "",
           "forward or backward if only that will be kept">
  ];
}

//===----------------------------------------------------------------------===//
// nest stage
//===----------------------------------------------------------------------===//

def TilePass : Pass<"fa-tile", "::mlir::ModuleOp"> {
  let summary = "State attention as textbook loop nests (required)";
  let description = [{
    One nest per formula; S, X (changed and masked scores), P, dP and dS live in
    memory. Tensors become strided buffers in logical order [b, h, s, d].

    Before:
    ```mlir
    %o, %l = fa.attention (%q, %k, %v) ...
    ```
    After:
    ```mlir
    fa.nest "scores" parallel(%b = %B, %h = %Hq, %i = %Sq step 64, %j = %Sk step 64) {
      ... fa.dot ... fa.store %s, %S[%b, %h, %i, %j] ...
    }
    fa.nest "mask" ...          // X = score(S) where visible, else -inf
    fa.nest "row_max" ...       // M
    fa.nest "row_sum" ...       // sum of exp(X - M)
    fa.nest "lse" ...           // L = M + log of the sum
    fa.nest "probabilities" ... // P = exp(X - M) / sum
    fa.nest "output" ...        // O = P V
    fa.forward_end ...
    fa.nest "dv" ... "dp" ... "delta" ... "ds" ... "dq" ... "dk" ...
    ```
    Requires: fa-normalize-variant, fa-select-schedule. Numerics: P and dS are
    rounded to the dtype, sums are in the accumulation type.
  }];
  let dependentDialects = ["::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect",
                           "::mlir::math::MathDialect", "::mlir::arith::ArithDialect"];
}

def HoistDPreprocessPass : Pass<"fa-hoist-d-preprocess", "::mlir::ModuleOp"> {
  let summary = "rowsum(P o dP) becomes rowsum(dO o O) (optional)";
  let description = [{
    Before:
    ```mlir
    fa.nest "delta" parallel(%b, %h, %i) {
      %sum = scf.for %j ... { %p = fa.load %P..; %dp = fa.load %dP..
                              %t = arith.mulf %p, %dp; fa.reduce add %t dim 1 ... }
    ```
    After:
    ```mlir
    fa.nest "delta" parallel(%b, %h, %i) {
      %do = fa.load %dO..; %o = fa.load %O..
      %t = arith.mulf %do, %o; %sum = fa.reduce add %t dim 1
    ```
    Proved from the nest that stores O = P V over the same keys and rows.
    Numerics: O is read rounded to the dtype.
  }];
}

def FusePRecomputePass : Pass<"fa-fuse-p-recompute", "::mlir::ModuleOp"> {
  let summary = "Rebuild P (and S) in the backward, or keep P by policy (optional)";
  let description = [{
    Before: `%p = fa.load %P[%b, %h, %i, %j] ...` in a backward nest.

    After, p = recompute:
    ```mlir
    %s = fa.dot %q, %kt, %zero ...       // and scale, score, mask
    %l = fa.load %L[%b, %h, %i] ...
    %p = math.exp (%x - broadcast %l)
    ```
    After, p = store_compressed: the forward also stores
    `round(-8 log2 P)` in 8 bits and the backward decodes it: at most 4.5% off
    for P above 2^-31.8, 0 below. p = store changes nothing for P.

    Proved from the stored P = exp(x - m) / l and L = m + log l. Scores that
    the forward stored are computed again under every policy.
  }];
}

def FuseOnlineSoftmaxPass : Pass<"fa-fuse-online-softmax", "::mlir::ModuleOp"> {
  let summary = "One pass over the keys with a running maximum and sum (optional)";
  let description = [{
    Before: the nests "row_max", "row_sum", "lse", "probabilities", "output".

    After:
    ```mlir
    fa.nest "output" parallel(%b, %h, %i) {
      %r:3 = scf.for %j ... iter_args(%acc, %m, %l) {
        %x = ...; %m1 = max(%m, rowmax %x); %alpha = exp(%m - %m1)
        %p = exp(%x - %m1); %l1 = %l * %alpha + rowsum %p
        %acc1 = fa.dot %p, %v, %acc * %alpha
      }
      store %r#0 / %r#2 to O, %r#1 + log %r#2 to L
    }
    ```
    If others read P, exp(x - m1) is stored together with the block's m1, and
    readers multiply by exp(m1 - L).
  }];
}

def FuseBackwardNestsPass : Pass<"fa-fuse-backward-nests", "::mlir::ModuleOp"> {
  let summary = "One backward nest over key blocks; dS never stored (optional)";
  let description = [{
    Before: nests "dv", "dp", "ds", "dq", "dk", with dP and dS in memory.

    After:
    ```mlir
    fa.nest "zero" ...
    fa.nest "dv_dk" parallel(%b, %hk) sequential(%j) {
      scf.for %g { scf.for %i iter_args(%dv, %dk) {
        ... P, dP, dS of this tile ...
        fa.accumulate plain %ds_k, %sum[%b, %h, %i, 0]
      } }
      store dv, dk
    }
    fa.nest "dq" ...   // scales and stores the sums
    ```
    Numerics: dQ is summed in memory in the accumulation type.
  }];
}

def PlaceDQAccumulationPass : Pass<"fa-place-dq-accumulation", "::mlir::ModuleOp"> {
  let summary = "Let key blocks run in parallel; say how their sums meet (optional)";
  let description = [{
    Reads `dq` of the schedule.

    Before: `fa.nest parallel(%b, %hk) sequential(%j) { ... fa.accumulate plain ... }`

    After: `parallel(%b, %hk, %j)` and
    * `atomic`: `fa.accumulate atomic`;
    * `ordered`: `fa.accumulate ordered ... turn %jb at %tickets[..]`: additions
      in the order of key blocks, deterministic;
    * `split`: parts of the keys in parallel, a buffer each, summed in order;
    * `two_kernel`: a second nest, query blocks outermost, computes dS again;
    * `sequential`: unchanged.
  }];
}

def SplitGroupPass : Pass<"fa-split-group", "::mlir::ModuleOp"> {
  let summary = "Pass over parts of the query heads of a KV head in parallel and add them (optional)";
  let description = [{
    Reads `group_splits` of the schedule; 1 changes nothing. For few KV heads,
    where items over batch, KV heads and key blocks do not fill a GPU.

    Before:
    ```mlir
    fa.nest "dk_dv" parallel(%b, %hk, %j) {
      %r:2 = scf.for %g = 0 to 8 iter_args(%dv = 0, %dk = 0) { ... }
      store %r#0 to dV, %r#1 * c to dK
    }
    ```
    After, for `group_splits = 4`:
    ```mlir
    fa.nest "parts" parallel(%b, %hk, %s = 4, %j) {
      %r:2 = scf.for %g = %s * 2 to %s * 2 + 2 iter_args(%dv = 0, %dk = 0) { ... }
      store %r#0 to DV[%s, ..], %r#1 to DK[%s, ..]
    }
    fa.nest "dk_dv" parallel(%b, %hk, %j) {
      store DV[0, ..] + ... + DV[3, ..] to dV, (DK[0, ..] + ... + DK[3, ..]) * c to dK
    }
    ```
    Proved on the loop: its bounds are constants; it carries nothing but tiles
    that start from 0 and to which an iteration adds what does not depend on
    them. Numerics: sums are associated by parts; the parts are added in order,
    so that the result is as deterministic as before.
  }];
  let dependentDialects = ["::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect",
                           "::mlir::arith::ArithDialect"];
}

def PackHeadsPass : Pass<"fa-pack-heads", "::mlir::ModuleOp"> {
  let summary = "Make the rows of a tile the query heads of a KV head (optional)";
  let description = [{
    Reads `pack_heads` of the schedule. For few query rows: items that each read
    the same keys for another query head become one, whose tiles have a row for
    each of these heads and are of one query row.

    Before:
    ```mlir
    fa.nest "output" parallel(%b, %h, %i = %Sq step 16) {
      %q = fa.load %Q[%b, %h, %i, %c0] below(%Sq, %D) -> tensor<16x128xbf16>
      %hk = arith.divui %h, 8
      ... load %K[%b, %hk, ..], fa.iota %i : tensor<16xindex>, memref.load %slopes[%h] ...
    }
    ```
    After:
    ```mlir
    %QT = memref.transpose %Q (b, h, i, d) -> (b, i, h, d)
    fa.nest "output" parallel(%b, %i = %Sq, %h = %H step 8) {
      %q = fa.load %QT[%b, %i, %h, %c0] below(min(%h + 8, %H), %D) -> tensor<8x128xbf16>
      %hk = arith.divui %h, 8
      ... load %K[%b, %hk, ..], fa.broadcast %i : tensor<8xindex>,
          fa.gather %slopes[fa.iota %h] : tensor<8xf32> ...
    }
    ```
    Proved on the nest: its rows are computed one by one, each from its own
    place and head; everything else depends on the head by its KV head alone;
    it reads and writes no local buffer that holds rows. Of more query heads
    than `block_m`, a tile takes the largest part that divides them.
    Numerics: unchanged.
  }];
  let dependentDialects = ["::mlir::memref::MemRefDialect", "::mlir::arith::ArithDialect"];
}

def ClassifyMaskPass : Pass<"fa-classify-mask", "::mlir::ModuleOp"> {
  let summary = "Skip the iterations whose mask tile is false everywhere";
  let description = [{
    Optional. A loop in a nest whose iteration is proved to have no effect where
    the mask of its select is false (masked scores are -inf, so all that is
    added is 0) gets bounds outside which the mask tile can't be true, from
    interval analysis of the comparisons; no entry is evaluated. Where bounds
    alone do not tell (a union of ranges), a test of scalars per tile is added;
    where a part of the mask is not index arithmetic (ids read from memory), a
    test of the mask tile itself. Skipped iterations of a loop with ordered
    accumulation still pass their turn; where a tile is stored in the loop, they
    store what it is known to be, and loops that load it under the same mask
    know it too.

    Before:
    ```mlir
    %r:3 = scf.for %j = %c0 to %sk step %c64 iter_args(%acc = %z, %m = %ninf, %l = %zr) -> (...) {
      ...                                     // %vis: j < sk and j <= i + off
      %x = arith.select %vis, %s, %neginf : tensor<64x64xi1>, tensor<64x64xf32>
      ...
    }
    ```
    After:
    ```mlir
    %end = arith.addi ...                     // i0 + off + 64
    %hi = arith.minsi %sk, %end : index
    %r:3 = scf.for %j = %c0 to %hi step %c64 iter_args(...) -> (...) { ... }
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
}

def BoundMaskedLoopsPass : Pass<"fa-bound-masked-loops", "::mlir::ModuleOp"> {
  let summary = "Bound loops by what rows and columns hold in memory";
  let description = [{
    Optional. A loop that tests in every iteration whether an entry of its mask
    tile is true (see `fa-classify-mask`) gets bounds from a nest in front,
    where the mask compares values of rows with values of columns, as ids of
    documents. That nest finds the least and the greatest value of a line of
    rows and of each line of columns, and from these intervals, per item, the
    first and the last tile that can be visible; it evaluates no mask tile, and
    runs over those dims only that the mask depends on. What is no such
    comparison may be true. Iterations left out still do what stands in the
    other branch of the test (they pass their turn).

    Before:
    ```mlir
    fa.nest "output" parallel(%b = %B, %h = %H, %i = %sq step 128) {
      scf.for %j = %c0 to %sk step %c64 ... {
        %same = arith.cmpi eq, %row_ids, %column_ids : tensor<128x64xi32>
        %any = fa.reduce any ...                  // of %same
        scf.if %any -> (...) { ... } else { ... }
      }
    }
    ```
    After:
    ```mlir
    fa.nest "visible" parallel(%i = %sq step 128) {
      ...                                         // least and greatest ids of 64 tiles at once
      memref.store %first, %bounds[%ib, %c0] : memref<?x2xi32>
      memref.store %end, %bounds[%ib, %c1] : memref<?x2xi32>
    }
    fa.nest "output" parallel(%b = %B, %h = %H, %i = %sq step 128) {
      %lo = ...                                   // max(0, %bounds[%ib, 0])
      %hi = ...                                   // min(%sk, %bounds[%ib, 1])
      scf.for %j = %lo to %hi step %c64 ... { ... }
    }
    ```
    With `keep-tests=false` the test per tile goes if the body is proved to do
    nothing without it where the mask is false: tiles between the bounds are
    then computed, hidden or not, by a loop without a fork.
    Numerics: unchanged. Values are compared as f64, which keeps their order.
  }];
  let options = [
    Option<"keepTests", "keep-tests", "bool", "true",
           "keep the test per tile, for tiles that are hidden between others">
  ];
  let dependentDialects = ["::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect",
                           "::mlir::arith::ArithDialect"];
}
def SplitKeysPass : Pass<"fa-split-keys", "::mlir::ModuleOp"> {
  let summary = "Pass over parts of the keys in parallel and merge them (optional)";
  let description = [{
    Reads `kv_splits` of the schedule; 1 changes nothing. For few query rows,
    where items over batch, heads and query blocks do not fill a GPU.

    Before:
    ```mlir
    fa.nest "output" parallel(%b, %h, %i) {
      %r:3 = scf.for %j = %lo to %hi ... iter_args(%acc, %m, %l) { ... }
      store %r#0 / %r#2 to O, %r#1 + log %r#2 to L
    }
    ```
    After, for `kv_splits = 8`:
    ```mlir
    fa.nest "parts" parallel(%s = 8, %b, %h, %i) {
      %r:3 = scf.for %j = (part %s of %lo to %hi) ... iter_args(%acc, %m, %l) { ... }
      store %r#0 to ACC[%s, ..], %r#1 to M[%s, ..], %r#2 to L[%s, ..]
    }
    fa.nest "output" parallel(%b, %h, %i) {
      %r:3 = scf.for %s = 0 to 8 iter_args(%acc, %m, %l) {   // some parts at a time
        %m1 = max(%m, M[%s, ..]); %a = exp(%m - %m1); %c = exp(M[%s, ..] - %m1)
        %acc * %a + ACC[%s, ..] * %c, %m1, %l * %a + L[%s, ..] * %c
      }
      store %r#0 / %r#2 to O, %r#1 + log %r#2 to L
    }
    ```
    Proved on the loop: it carries nothing but a maximum m from -inf, a sum l
    from 0 and an accumulator from 0; what is added is exp(x - m), its row sums
    and its product with a tile; x and that tile depend on nothing carried; the
    loop writes no memory. Parts are whole blocks of the loop's bounds, which
    are those of the tiles that can be visible; a part may be empty.
    Numerics: sums are rescaled once more for each part, in the accumulation
    type. The parts follow from `kv_splits` and the lengths alone, and are
    merged in order, so the result is deterministic.
  }];
  let dependentDialects = ["::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect",
                           "::mlir::math::MathDialect", "::mlir::arith::ArithDialect"];
}

def SpecializeMaskedBlocksPass : Pass<"fa-specialize-masked-blocks", "::mlir::ModuleOp"> {
  let summary = "Make a version without the mask for tiles that are all visible";
  let description = [{
    Optional. A block in a nest that selects by a mask tile becomes two: one for
    tiles whose mask is surely true everywhere, without the selects, and the one
    there was. Which one runs is a test of scalars.

    Before:
    ```mlir
    %x = arith.select %vis, %s, %neginf : tensor<64x64xi1>, tensor<64x64xf32>
    %y = ... %x ...
    scf.yield %y : tensor<64x64xf32>
    ```
    After:
    ```mlir
    %all = arith.cmpi sle, %last_key, %first_visible : index
    %y = scf.if %all -> (tensor<64x64xf32>) {
      %y0 = ... %s ...
      scf.yield %y0 : tensor<64x64xf32>
    } else {
      %x = arith.select %vis, %s, %neginf : tensor<64x64xi1>, tensor<64x64xf32>
      %y1 = ... %x ...
      scf.yield %y1 : tensor<64x64xf32>
    }
    scf.yield %y : tensor<64x64xf32>
    ```
    With `selects-only=true` only the select is under the test, and where it
    fails, others follow: of a conjunction, one comparison of rows with columns
    is all the mask where the rest is true.
    ```mlir
    %x = scf.if %all -> (tensor<64x64xf32>) {
      scf.yield %s : tensor<64x64xf32>
    } else {
      %x0 = scf.if %all_but_causal -> (tensor<64x64xf32>) {
        %x1 = arith.select %causal, %s, %neginf : tensor<64x64xi1>, tensor<64x64xf32>
        scf.yield %x1 : tensor<64x64xf32>
      } else { ... }                              // select %vis
      scf.yield %x0 : tensor<64x64xf32>
    }
    ```
  }];
  let options = [
    Option<"selectsOnly", "selects-only", "bool", "false",
           "not the whole block but each select becomes several versions">
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
}

def CountTilesPass : Pass<"fa-count-tiles", "::mlir::ModuleOp"> {
  let summary = "Count the tiles that nests compute";
  let description = [{
    Optional, for tests and figures. The innermost loops (or the nest, where it
    has none) that hold an `fa.dot` get an `fa.tick` in front of it, under the
    same tests. The id is the number of the nest in the module, from 0.

    Before:
    ```mlir
    scf.for %j = %c0 to %n step %c64 { %s = fa.dot ... }
    ```
    After:
    ```mlir
    scf.for %j = %c0 to %n step %c64 { fa.tick 0  %s = fa.dot ... }
    ```
  }];
}

def PartitionPass : Pass<"fa-partition", "::mlir::ModuleOp"> {
  let summary = "Cut the joint function into forward and backward (optional)";
  let description = [{
    Before: `func.func @f(q, k, v, do, o, lse, dq, dk, dv)`

    After:
    ```mlir
    func.func @f.fwd(q, k, v, o, lse, saved...)
    func.func @f.bwd(q, k, v, o, lse, do, saved..., dq, dk, dv)
    func.func @f.saved(q, k, v) -> (sizes of the saved buffers)
    ```
    With `part=forward` @f.bwd is dropped, with `part=backward` all but it.
  }];
  let options = [Option<"part", "part", "std::string", "",
                        "forward or backward; empty: both">];
}

//===----------------------------------------------------------------------===//
// map stage
//===----------------------------------------------------------------------===//

def MapToCpuPass : Pass<"fa-map-to-cpu", "::mlir::ModuleOp"> {
  let summary = "nests become functions on vectors, run by all threads";
  let description = [{
    Required on the way to the CPU. Each `fa.nest` becomes a private function
    that computes one item in scratch memory, and a call of
    `fathom_parallel_for`, which runs it for all items, claimed in rising
    order. Sequential dims become loops; loads that stay the same leave loops,
    the others are fetched into cache a round ahead.

    Tiles become vectors of `vector-bits`. Elementwise work is evaluated a
    vector at a time where it is needed; factors of products, loop-carried
    tiles and what is expensive and needed twice get a buffer. A product is a
    register tile that multiplies vectors of one factor by scalars of the
    other; which dim of each tile lies along the vectors is chosen for the
    nest as a whole, so that transposed copies stay out of inner loops.

    ```mlir
    // before
    fa.nest parallel(%i = %m step 64) {
      %x = fa.load %X[%i] below(%m) : memref<?xf32> -> tensor<64xf32>
      %e = math.exp %x : tensor<64xf32>
      fa.store %e, %Y[%i] below(%m) : tensor<64xf32>, memref<?xf32>
    }
    // after
    call @fathom_parallel_for(%nest0, %task, %items, %scratch_bytes)
        : (!llvm.ptr, !llvm.ptr, i64, i64) -> ()
    ```
  }];
  let options = [
    Option<"vectorBits", "vector-bits", "int64_t", "0",
           "width of a vector: 512, 256 or 128; 0 is that of this machine">
  ];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
    "::mlir::LLVM::LLVMDialect", "::mlir::memref::MemRefDialect",
    "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect"
  ];
}

def MapToGpuPass : Pass<"fa-map-to-gpu", "::mlir::ModuleOp"> {
  let summary = "nests become kernels on tiles spread over threads";
  let description = [{
    Required on the way to a GPU. Each `fa.nest` becomes a `fa_gpu.kernel` whose
    CTAs run one item each, and its launch. The number of warps follows from the
    registers that accumulators take, unless `num-warps` is given. Tiles are
    padded to multiples of 16 and get a layout by their shape; factors of
    products are stored in shared memory. With `aligned`, arrays of tiles whose
    last dim is static are taken to have a last stride of 1 and all else in
    multiples of 16 bytes; the caller answers for it. Arrays that are read entry
    by entry, as captured ones, may lie as they like.

    ```mlir
    // before
    fa.nest "double" parallel(%i = %m step 64) {
      %x = fa.load %X[%i] below(%m) : memref<?xf32> -> tensor<64xf32>
      %y = arith.addf %x, %x : tensor<64xf32>
      fa.store %y, %X[%i] below(%m) : tensor<64xf32>, memref<?xf32>
    }
    // after
    fa_gpu.kernel @f.double0(%X: memref<?xf32>, %m: index) num_warps(4) min_blocks(1) alignments([0, 0]) {
      %c64 = arith.constant 64 : index
      %b = fa_gpu.block_id
      %i = arith.muli %b, %c64 : index
      %x = fa.load %X[%i] below(%m) : memref<?xf32> -> tensor<64xf32, #layout>
      %y = arith.addf %x, %x : tensor<64xf32, #layout>
      fa.store %y, %X[%i] below(%m) : tensor<64xf32, #layout>, memref<?xf32>
      fa_gpu.return
    }
    fa_gpu.launch @f.double0 grid(%n) (%X, %m) : memref<?xf32>, index
    ```
  }];
  let options = [
    Option<"aligned", "aligned", "bool", "false",
           "arrays with a static last dim are aligned to 16 bytes">,
    Option<"numWarps", "num-warps", "int64_t", "0",
           "warps per CTA, a power of 2; 0: by the registers needed">,
    Option<"warpgroups", "warpgroups", "bool", "false",
           "more warps, for products of four of them">
  ];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::memref::MemRefDialect",
    "::mlir::scf::SCFDialect", "::fathom::gpu::FAGpuDialect"
  ];
}

def GpuOrientTilesPass : Pass<"fa-gpu-orient-tiles", "::mlir::ModuleOp"> {
  let summary = "compute products transposed where that keeps tiles in registers";
  let description = [{
    Optional. `a b` may be computed as `(b^T a^T)^T`: then its result lies in
    registers as the first factor of a later `result^T c` needs it. Which
    products are turned is weighed for the kernel as a whole, by what must go
    through shared memory, be reduced across warps or stored across lines.

    ```mlir
    // before
    %s = fa_gpu.mma %q, %kt, %zero : ..., tensor<64x128xf32, #layout>
    // after
    %st = fa_gpu.mma %k, %qt, %zerot : ..., tensor<128x64xf32, #layout1>
    %s = fa.transpose %st : tensor<128x64xf32, #layout1> -> tensor<64x128xf32, #transposed_layout1>
    ```
  }];
  let dependentDialects = ["::fathom::gpu::FAGpuDialect"];
  let options = [
    Option<"warpgroups", "warpgroups", "bool", "false",
           "products will be of four warps where they have as many along the lines">
  ];
}

def GpuForwardFragmentsPass : Pass<"fa-gpu-forward-fragments", "::mlir::ModuleOp"> {
  let summary = "first factors of products straight from the registers of a result";
  let description = [{
    Optional. Where the first factor of a product was stored to shared memory
    from registers that lie as the product needs them, the product takes those;
    the buffer goes if nobody else reads it.

    ```mlir
    // before
    fa_gpu.store_shared %p, %buf : tensor<64x64xbf16, #layout>, !fa_gpu.shared<64x64xbf16, pitch = 72>
    %o = fa_gpu.mma %buf, %v, %acc : !fa_gpu.shared<64x64xbf16, pitch = 72>, ...
    // after
    %o = fa_gpu.mma %p, %v, %acc : tensor<64x64xbf16, #layout>, ...
    ```
  }];
  let dependentDialects = ["::fathom::gpu::FAGpuDialect"];
}

def GpuStageLinesPass : Pass<"fa-gpu-stage-lines", "::mlir::ModuleOp"> {
  let summary = "values per row that a loop reads go through shared memory";
  let description = [{
    Optional. A rank 1 tile that a loop with products loads is copied
    asynchronously, so that `fa-gpu-pipeline-loads` can have it ready in time.

    ```mlir
    // before
    %l = fa.load %L[%b, %h, %i] below(%n) : memref<?x?x?xf32> -> tensor<64xf32, #layout>
    // after
    fa_gpu.copy_async %L[%b, %h, %i] below(%n) to %buf vector 4 : memref<?x?x?xf32>, !fa_gpu.shared<64xf32, pitch = 64>
    fa_gpu.commit
    fa_gpu.wait 0
    %l = fa_gpu.load_shared %buf : !fa_gpu.shared<64xf32, pitch = 64> -> tensor<64xf32, #layout>
    ```
  }];
  let dependentDialects = ["::fathom::gpu::FAGpuDialect"];
}

def GpuStageDiagonalsPass : Pass<"fa-gpu-stage-diagonals", "::mlir::ModuleOp"> {
  let summary = "what is read by distance is read once per diagonal";
  let description = [{
    Optional. A tile that is gathered at places that depend on row less column,
    and what is computed of it by entry, is the same along its diagonals: it is
    made as a line with an entry per diagonal, spread over all threads, and goes
    through shared memory.

    ```mlir
    // before
    %d = arith.subi %ii, %jj : tensor<64x64xindex, #l>    // of fa.iota %i, %j
    %t = fa.gather %table[%h, %d] : ... -> tensor<64x64xf32, #l>
    // after
    %n = fa.iota %first : tensor<128xindex, #line>        // %i - %j - 63
    %u = fa.gather %table[%h, %n] : ... -> tensor<128xf32, #line>
    fa_gpu.store_shared %u, %buf : tensor<128xf32, #line>, !fa_gpu.shared<128xf32, pitch = 128>
    %t = fa_gpu.load_diagonals %buf : !fa_gpu.shared<128xf32, pitch = 128> -> tensor<64x64xf32, #l>
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::fathom::gpu::FAGpuDialect"];
}

def GpuBulkCopiesPass : Pass<"fa-gpu-bulk-copies", "::mlir::ModuleOp"> {
  let summary = "one thread has the copy engine fill buffers with boxes";
  let description = [{
    Optional, for sm_90a. Where all that fills a buffer of 16-bit entries is
    copies of one array, aligned and not written meanwhile, below limits that
    the host knows, to the stages of a ring by turns or once. The buffer becomes
    swizzled; the host makes a map of the array up to the limits. Barriers in
    shared memory say when a box is there. A loop carries, a bit a stage, the
    parities of the phases to wait for, and so do the loops around it.

    ```mlir
    // before
    fa_gpu.wait 0
    scf.if %more {
      fa_gpu.copy_async %K[%b, %h, %j1, %c0] below(%sk, %c128) to %next vector 16 : ..., !fa_gpu.shared<64x128xbf16, pitch = 136>
    }
    fa_gpu.commit
    %s = fa_gpu.mma %q, %kt, %zero ...
    // after
    scf.if %more {
      fa_gpu.copy_box %map[%b, %h, %j1, %c0] to %next signals %full[%into] : ..., !fa_gpu.shared<64x128xbf16, swizzle = 128>, !fa_gpu.mbarriers<2>
    }
    fa_gpu.wait_phase %parity of %full[%stage] : !fa_gpu.mbarriers<2>
    %s = fa_gpu.mma %q, %kt, %zero ...
    %next_phases = arith.xori %phases, ... // the bit of %stage
    ```
  }];
  let dependentDialects = ["::fathom::gpu::FAGpuDialect", "::mlir::arith::ArithDialect", "::mlir::memref::MemRefDialect"];
}

def GpuSpecializeWarpsPass : Pass<"fa-gpu-specialize-warps", "::mlir::ModuleOp"> {
  let summary = "warps of their own issue the copies of boxes";
  let description = [{
    Optional, for sm_90a. A kernel all of whose `fa_gpu.copy_box` follow from
    scalars, loops and branches on scalars gets four more warps, of which one
    thread issues the copies. It runs through the same loops and waits until a
    stage is free; the others, the first role, arrive there after the last op
    that needs the stage. Four warps that only copy need few registers; the
    others get theirs, where the kernel has a multiprocessor to itself.

    ```mlir
    // before
    scf.for ... iter_args(%stage = %c0, %phases = %c0_i32) {
      scf.if %more {
        fa_gpu.copy_box %map[%b, %h, %j1, %c0] to %next signals %full[%into] : ...
      }
      fa_gpu.wait_phase %parity of %full[%stage] : !fa_gpu.mbarriers<2>
      %s = fa_gpu.mma %q, %kt, %zero ...
    }
    // after
    fa_gpu.roles warps [8, 4] registers [240, 24] {
      scf.for ... iter_args(%stage = %c0, %phases = %c0_i32) {
        fa_gpu.wait_phase %parity of %full[%stage] : !fa_gpu.mbarriers<2>
        %s = fa_gpu.mma %q, %kt, %zero ...
        fa_gpu.arrive %free[%stage] : !fa_gpu.mbarriers<2>
      }
    }, {
      scf.for ... iter_args(%stage = %c0, %phases = %c0_i32) {
        scf.if %more {
          fa_gpu.wait_phase %free_parity of %free[%into] : !fa_gpu.mbarriers<2>
          fa_gpu.copy_box %map[%b, %h, %j1, %c0] to %next signals %full[%into] : ...
        }
      }
    }
    ```
  }];
  let dependentDialects = ["::fathom::gpu::FAGpuDialect", "::mlir::arith::ArithDialect"];
}

def GpuOrderProductsPass : Pass<"fa-gpu-order-products", "::mlir::ModuleOp"> {
  let summary = "products that wait for nothing first, those behind a barrier last";
  let description = [{
    Optional. In a loop, products of tiles that were there before the round go
    behind the first product; products of tiles stored in this round go before
    the last such product, so that one barrier serves them.

    ```mlir
    // before
    %s = fa_gpu.mma %q, %kt, %zero ...
    fa_gpu.store_shared %p, %pbuf ...
    %dv1 = fa_gpu.mma %pt, %do, %dv ...        // a view of %pbuf
    %dp = fa_gpu.mma %do, %vt, %zero ...
    fa_gpu.store_shared %ds, %dsbuf ...
    %dk1 = fa_gpu.mma %dst, %q, %dk ...        // a view of %dsbuf
    // after
    %s = fa_gpu.mma %q, %kt, %zero ...
    %dp = fa_gpu.mma %do, %vt, %zero ...
    fa_gpu.store_shared %p, %pbuf ...
    fa_gpu.store_shared %ds, %dsbuf ...
    %dv1 = fa_gpu.mma %pt, %do, %dv ...
    %dk1 = fa_gpu.mma %dst, %q, %dk ...
    ```
  }];
}

def GpuFloatPositionsPass : Pass<"fa-gpu-float-positions", "::mlir::ModuleOp"> {
  let summary = "positions that become floats are counted in floats";
  let description = [{
    Optional. A tile of sums of positions is converted as one scalar, what all
    its entries share, and what threads and registers add to that. Absolute values, minima and
    maxima of such tiles are taken in floats.

    ```mlir
    // before
    %d = arith.subi %ii, %jj          // fa.broadcast of fa.iota %i0 and %j0
    %i = arith.index_cast %d : tensor<64x64xindex, #l> to tensor<64x64xi64, #l>
    %a = math.absi %i
    %f = arith.sitofp %a : tensor<64x64xi64, #l> to tensor<64x64xf32, #l>
    // after
    %d0 = arith.subi %i0, %j0 : index
    %f0 = arith.sitofp %d0            // as i64
    %r0 = arith.addf %f00, %t         // a line: fa_gpu.thread_offset
    %r = arith.addf %r0, %o           // fa_gpu.register_offset
    %s = arith.subf %rr, %ct          // fa.broadcast of %r and of the offsets
    %d = arith.subf %s, %co           // of a line of columns
    %f = math.absf %d
    ```
    Numerics: exact where the values stay below 2^24 by more than a tile's size
    (f64: 2^53), so at every distance of two of 16 million tokens. Above, each
    sum rounds once, as the conversion did: at most 5 roundings instead of 1.
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
    "::fathom::gpu::FAGpuDialect"
  ];
}

def GpuFoldFactorsPass : Pass<"fa-gpu-fold-factors", "::mlir::ModuleOp"> {
  let summary = "a product's constants become one, and its divisions by constants";
  let description = [{
    Optional, for kernels that round to 16 bits. Where a product of tiles has
    several constant factors or divisors, they are one factor, or none if they
    cancel out. A scalar constant that is spread over a tile is a tile's constant,
    in any kernel.

    ```mlir
    // before
    %x = arith.mulf %s, %scale
    %y = arith.divf %x, %cap
    // after
    %y = arith.mulf %s, %scale_over_cap
    ```
    Numerics: the constants are joined in f64 and rounded once; the product is
    within 1 ulp of f32 per factor that went. Factors of less than 1e-18 or more
    than 1e18 stay.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def GpuApproximateFunctionsPass
    : Pass<"fa-gpu-approximate-functions", "::mlir::ModuleOp"> {
  let summary = "tanh by the hardware's instruction";
  let description = [{
    Optional, for kernels that round to 16 bits.

    ```mlir
    // before
    %t = math.tanh %x : tensor<64x64xf32, #l>
    // after
    %t = math.tanh %x fastmath<afn> : tensor<64x64xf32, #l>
    ```
    Numerics: a relative error of 2^-11. c tanh(s / c) is at most s, so the
    error is at most 2^-11 s: what a factor of s moves by when it is rounded to
    f16 (2^-11), and a quarter of that for bf16 (2^-9). tanh of f32 and f64
    kernels stays exact.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

def GpuFoldExp2Pass : Pass<"fa-gpu-fold-exp2", "::mlir::ModuleOp"> {
  let summary = "exponentials by the hardware's 2^x, with the scale folded in";
  let description = [{
    Optional, for kernels that round to 16 bits. exp(x) becomes 2^(x log2 e); a
    constant scale of x and a value per row that is taken off it absorb the
    factor. Scales move behind masks and maxima on the way.

    ```mlir
    // before
    %x = arith.mulf %s, %scale
    %m = fa.reduce max %x dim 1
    %d = arith.subf %x, %mm           // fa.broadcast %m
    %p = math.exp %d
    // after
    %m0 = fa.reduce max %s dim 1
    %m = arith.mulf %m0, %scale1
    %x = arith.mulf %s, %scale_log2e
    %d = arith.subf %x, %mm           // fa.broadcast (%m * log2 e)
    %p = math.exp2 %d fastmath<afn>
    ```
    Numerics: within 2 ulp of f32 of the exact exponential, times |x|; 0 where
    that is less than 2^-126. A factor of less than 1e-18 or more than 1e18
    stays where it is.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

def GpuDeferSumsPass : Pass<"fa-gpu-defer-sums", "::mlir::ModuleOp"> {
  let summary = "lanes that share a line add up their sums after the loop";
  let description = [{
    Optional. A line that a loop carries, scales by lines and raises by the sums
    of a tile's lines is carried as a tile with an entry for each lane that
    shares a line; the sums over lanes are made after the loop.

    ```mlir
    // before
    %l = scf.for ... iter_args(%l0 = %zeros) -> (tensor<64xf32, #row>) {
      %s = fa.reduce add %p dim 1
      %a = arith.mulf %l0, %alpha
      %l1 = arith.addf %a, %s
      scf.yield %l1
    }
    // after
    %t = scf.for ... iter_args(%t0 = %zeros4) -> (tensor<64x4xf32, #part>) {
      %s = fa_gpu.partial_sum %p dim 1
      %a = arith.mulf %t0, %alpha4      // fa.broadcast %alpha
      %t1 = arith.addf %a, %s
      scf.yield %t1
    }
    %l = fa.reduce add %t dim 1
    ```
    Numerics: the same sum in another order.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::fathom::gpu::FAGpuDialect"];
}

def GpuDropGuardsPass : Pass<"fa-gpu-drop-guards", "::mlir::ModuleOp"> {
  let summary = "what is a factor's multiple needs no test for that factor's 0";
  let description = [{
    Optional. A product that is set to 0 where one of its factors is 0 is 0 there
    anyway, if the others are finite: products of matrices less a value per row,
    constants, hyperbolic tangents, and sums and products of such.

    ```mlir
    // before
    %is = arith.cmpf une, %p, %zero
    %t = arith.mulf %p, %d            // %d: fa_gpu.mma less fa.broadcast
    %ds = arith.select %is, %t, %zero
    // after
    %ds = arith.mulf %p, %d
    ```
    Numerics: the same, unless a sum of products of finite numbers is beyond f32.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def GpuPeelMasksPass : Pass<"fa-gpu-peel-masks", "::mlir::ModuleOp"> {
  let summary = "loops without a test for the rounds that need no mask";
  let description = [{
    Optional. A loop with tiles that depend on a test, linear in the loop's
    variable, becomes up to three: before the test holds, while it holds (without
    it), and after.

    ```mlir
    // before
    %r = scf.for %j = %lb to %ub step %c64 iter_args(%acc = %init) {
      %all = arith.cmpi sgt, %n, %last : index      // %last = %j + 63
      %x = scf.if %all { scf.yield %s } else { ... scf.yield %masked }
      ...
    }
    // after
    %a = scf.for %j = %lb to %stop step %c64 iter_args(%acc = %init) { ... %s ... }
    %r = scf.for %j = %rest to %ub step %c64 iter_args(%acc = %a) { ... scf.if %all ... }
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
}

def GpuFoldDivisionsPass : Pass<"fa-gpu-fold-divisions", "::mlir::ModuleOp"> {
  let summary = "divide once per row instead of once per entry";
  let description = [{
    Optional. A tile over a value per row, on its way to 16 bits, is multiplied
    with the inverse.

    ```mlir
    // before
    %q = arith.divf %o, %ll           // fa.broadcast %l
    // after
    %i = arith.divf %one, %l
    %q = arith.mulf %o, %ii           // fa.broadcast %i
    ```
    Numerics: one more rounding in f32 before that to 16 bits, where the inverse
    is a normal number.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def GpuWarpgroupProductsPass : Pass<"fa-gpu-warpgroup-products", "::mlir::ModuleOp"> {
  let summary = "products by groups of four warps, from swizzled buffers";
  let description = [{
    Optional, for sm_90a. Where a product of 16-bit factors has four warps, or a
    multiple, along its rows and its factors in shared memory can be swizzled,
    it is started by a `fa_gpu.wgmma` and waited for at once. All buffers that
    such products read become swizzled.

    ```mlir
    // before
    %s = fa_gpu.mma %q, %kt, %zero : !fa_gpu.shared<128x64xbf16, pitch = 72>, ...
    // after
    %t = fa_gpu.wgmma %q, %kt, %zero : !fa_gpu.shared<128x64xbf16, swizzle = 128>, ...
    %s = fa_gpu.wgmma_wait 0 %t : tensor<128x128xf32, #layout>
    ```
  }];
  let dependentDialects = ["::fathom::gpu::FAGpuDialect"];
}

def GpuOverlapProductsPass : Pass<"fa-gpu-overlap-products", "::mlir::ModuleOp"> {
  let summary = "other work while products of four warps are under way";
  let description = [{
    Optional. A `fa_gpu.wgmma` starts right behind another, the first one whose
    result and successors it does not need. The wait for it stands before the first op that
    needs the result, or that may write the factors or let others do it, at the
    latest at the end of the block; it counts the products started meanwhile.
    Nothing moves where the tiles that live would need too many registers.

    ```mlir
    // before
    %t = fa_gpu.wgmma %k, %qt, %zero : ...
    %s = fa_gpu.wgmma_wait 0 %t : ...
    %p = math.exp2 %s : ...
    %u = fa_gpu.wgmma %v, %dot, %zero : ...
    %dp = fa_gpu.wgmma_wait 0 %u : ...
    // after
    %t = fa_gpu.wgmma %k, %qt, %zero : ...
    %u = fa_gpu.wgmma %v, %dot, %zero : ...
    %s = fa_gpu.wgmma_wait 1 %t : ...
    %p = math.exp2 %s : ...
    %dp = fa_gpu.wgmma_wait 0 %u : ...
    ```
  }];
  let dependentDialects = ["::fathom::gpu::FAGpuDialect"];
}

def GpuDelayProductsPass : Pass<"fa-gpu-delay-products", "::mlir::ModuleOp"> {
  let summary = "a round's last product in the background of the next round";
  let description = [{
    Optional. For a loop of two products by four warps, the second from
    registers that follow from the first, whose sum is only carried on. Other
    warps fill the second's buffer, so that it may be read longer. The first
    round without its second product stands before the loop, the last second
    product behind it.

    ```mlir
    // before
    scf.for %j = %a to %b step %c iter_args(%o = %zero) {
      %t = fa_gpu.wgmma %q, %kt, %zero ...
      %s = fa_gpu.wgmma_wait 0 %t
      %p = ...                             // of %s
      %u = fa_gpu.wgmma %p, %v, %o ...
      %n = fa_gpu.wgmma_wait 0 %u
      scf.yield %n
    }
    // after
    %p0 = ...
    scf.for %j = %a1 to %b step %c iter_args(%o = %zero, %p = %p0) {
      %t = fa_gpu.wgmma %q, %kt, %zero ...
      %u = fa_gpu.wgmma %p, %v, %o ...
      %s = fa_gpu.wgmma_wait 1 %t
      %p1 = ...                            // of %s
      %n = fa_gpu.wgmma_wait 0 %u
      scf.yield %n, %p1
    }
    %u = fa_gpu.wgmma %p, %v, %o ...
    ```
  }];
  let dependentDialects = ["::fathom::gpu::FAGpuDialect", "::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
}

def GpuOrderGridPass : Pass<"fa-gpu-order-grid", "::mlir::ModuleOp"> {
  let summary = "the CTAs with the longest loops start first";
  let description = [{
    Optional. Where a kernel's loops grow with the fastest running part of the
    CTA's number, that part is counted backwards.

    ```mlir
    // before
    %n = arith.remui %block, %count : index
    // after
    %r = arith.remui %block, %count : index
    %n = arith.subi %last, %r : index
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

//===----------------------------------------------------------------------===//
// map stage for GPUs: shared memory
//===----------------------------------------------------------------------===//

def GpuCopyAsyncPass : Pass<"fa-gpu-copy-async", "::mlir::ModuleOp"> {
  let summary = "Copy tiles from global to shared memory without registers between (optional)";
  let description = [{
    For a load that is only stored to shared memory, in lines as they lie in the
    array. Pieces of 16, 8 or 4 bytes: the alignment of the array must allow
    them, and the limit of the last dim must not cut one.

    Before:
    ```mlir
    %t = fa.load %K[%b, %h, %j, %c0] below(%sk, %c128) : ... -> tensor<64x128xbf16, #l>
    fa_gpu.store_shared %t, %buf : ...
    ```
    After:
    ```mlir
    fa_gpu.copy_async %K[%b, %h, %j, %c0] below(%sk, %c128) to %buf vector 16 : ...
    fa_gpu.commit
    fa_gpu.wait 0
    ```
  }];
  let dependentDialects = ["::fathom::gpu::FAGpuDialect"];
}

def GpuPipelineLoadsPass : Pass<"fa-gpu-pipeline-loads", "::mlir::ModuleOp"> {
  let summary = "Issue the copies of innermost loops some iterations ahead (optional)";
  let description = [{
    For a copy that is issued in every iteration, to a buffer that only the
    loop uses, from a place that follows from the loop's variable. The buffer
    gets `stages` stages; the loop carries the number of its own. A copy of an
    iteration that would not run is not issued; its group is closed empty.
    With `stages=1` a buffer stays one: its copy is issued after its last use,
    where threads wait for another buffer anyway, and waited for before its
    first. Waits for other copies go down to the first use of what was copied.

    Before:
    ```mlir
    scf.for %j = %c0 to %n step %c64 {
      fa_gpu.copy_async %K[%j, %c0] below(%n, %c128) to %buf vector 16 : ...
      fa_gpu.commit
      fa_gpu.wait 0
      ... %buf ...
    }
    ```
    After, with `stages=2`:
    ```mlir
    %more = arith.cmpi slt, %c0, %n : index
    scf.if %more { fa_gpu.copy_async %K[%c0, %c0] ... to (stage 0 of %ring) ... }
    fa_gpu.commit
    scf.for %j = %c0 to %n step %c64 iter_args(%s = %c0) -> (index) {
      fa_gpu.wait 0
      %ahead = arith.addi %j, %c64 : index
      scf.if (%ahead < %n) { fa_gpu.copy_async %K[%ahead, %c0] ... to (the next stage) ... }
      fa_gpu.commit
      ... (stage %s of %ring) ...
      scf.yield (%s + 1, or 0)
    }
    fa_gpu.wait 0
    ```
  }];
  let options = [Option<"stages", "stages", "int64_t", "2",
                        "stages of a buffer; 1: copies are issued once it is free">];
  let dependentDialects = ["::fathom::gpu::FAGpuDialect",
                           "::mlir::arith::ArithDialect",
                           "::mlir::scf::SCFDialect"];
}

def GpuLowerConvertsPass : Pass<"fa-gpu-lower-converts", "::mlir::ModuleOp"> {
  let summary = "Take tiles to other threads by way of shared memory (required)";
  let description = [{
    Lines of the buffer run as the pieces of the tile that a thread holds, and
    start in different banks. A convert between equal layouts goes.

    Before:
    ```mlir
    %u = fa_gpu.convert %t : tensor<64x64xf32, #a> -> tensor<64x64xf32, #b>
    ```
    After:
    ```mlir
    %s = fa_gpu.alloc : !fa_gpu.shared<64x64xf32, pitch = 68>
    fa_gpu.store_shared %t, %s : ...
    %u = fa_gpu.load_shared %s : ... -> tensor<64x64xf32, #b>
    ```
  }];
  let dependentDialects = ["::fathom::gpu::FAGpuDialect"];
}

def GpuPlaceBarriersPass : Pass<"fa-gpu-place-barriers", "::mlir::ModuleOp"> {
  let summary = "Put barriers where threads must wait for each other (required)";
  let description = [{
    Before it, program order is the meaning. Between two accesses of a buffer,
    one of them a write, there is a barrier afterwards, on every path, also
    from one iteration to the next; likewise for global memory that a thread
    touches after another of its CTA. Barriers that are there count. A copy
    writes its buffer until a wait that covers it; what it wrote is there after
    a barrier after that. Stages of a buffer whose numbers differ by a constant
    modulo their count are told apart. Where a `fa_gpu.wgmma` reads what threads
    wrote, a `fa_gpu.fence_async` stands before the barrier.

    Before:
    ```mlir
    scf.for ... {
      fa_gpu.store_shared %t, %s : ...
      %u = fa_gpu.load_shared %s : ...
    }
    ```
    After:
    ```mlir
    scf.for ... {
      fa_gpu.barrier
      fa_gpu.store_shared %t, %s : ...
      fa_gpu.barrier
      %u = fa_gpu.load_shared %s : ...
    }
    ```
  }];
  let dependentDialects = ["::fathom::gpu::FAGpuDialect"];
}

def GpuAssignSharedMemoryPass
    : Pass<"fa-gpu-assign-shared-memory", "::mlir::ModuleOp"> {
  let summary = "Give buffers their places in shared memory (required, the last)";
  let description = [{
    Offsets are multiples of 16 bytes, of 128 for buffers of rank 2. Buffers
    share bytes where neither is needed while the other is in use and a barrier
    stands between; outside innermost loops one is added if that saves bytes.
    What a buffer holds is not needed after the iteration that
    its alloc stands in. Fails if a kernel needs more than `limit`.

    Before:
    ```mlir
    %s = fa_gpu.alloc : !fa_gpu.shared<64x64xf32, pitch = 68>
    ```
    After:
    ```mlir
    %s = fa_gpu.alloc at 1024 : !fa_gpu.shared<64x64xf32, pitch = 68>
    ```
  }];
  let options = [Option<"limit", "limit", "int64_t", "0",
                        "bytes of shared memory a CTA may have; 0: any number">];
  let dependentDialects = ["::fathom::gpu::FAGpuDialect"];
}

//===----------------------------------------------------------------------===//
// For tests
//===----------------------------------------------------------------------===//

def TestStripPass : Pass<"fa-test-strip", "::mlir::ModuleOp"> {
  let summary = "Drop all that passes must not depend on";
  let description = [{
    Drops discardable attributes but `fa.schedule` on functions, labels of nests
    and locations; renames private symbols. Passes after it do the same as
    without it.

    Before:
    ```mlir
    func.func private @f(...) attributes {note = 1} { fa.nest "fwd" parallel(%i = %n) { ... } }
    ```
    After:
    ```mlir
    func.func private @private0(...) { fa.nest parallel(%i = %n) { ... } }
    ```
  }];
}

def TestMutatePass : Pass<"fa-test-mutate", "::mlir::ModuleOp"> {
  let summary = "Edit the tiled nests, to see that later passes keep the edit";
  let description = [{
    Run after `fa-tile`. `halve-p`: the exponential that is not summed, so P, is
    halved. `add-term`: 0.125 is added to what the first select of a score tile
    shows. `swap-operands`: the first difference of tiles is reversed, so
    exp(x - m) becomes exp(m - x). `reorder`: commutes and moves ops; the
    meaning stays.

    Before:
    ```mlir
    %p = math.exp %d : tensor<64x64xf32>
    ```
    After `kind=halve-p`:
    ```mlir
    %e = math.exp %d : tensor<64x64xf32>
    %p = arith.mulf %e, %half : tensor<64x64xf32>
    ```
  }];
  let options = [Option<"kind", "kind", "std::string", [{"halve-p"}],
                        "halve-p, add-term, swap-operands or reorder">];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

#endif // FATHOM_PASSES_PASSES_TD
