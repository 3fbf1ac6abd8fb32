//===- Passes.td - all passes, in pipeline order ----------------*- tablegen -*-===//

#ifndef FATHOM_PASSES_PASSES_TD
#define FATHOM_PASSES_PASSES_TD

include "mlir/Pass/PassBase.td"

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
    Option<"dqSplits", "dq-splits", "int64_t", "4", "parts of the keys for dq = split">
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
    accumulation still pass their turn.

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
  }];
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
  }];
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
