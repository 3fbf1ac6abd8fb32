//===- ScheduleAttrs.td - #fa.schedule and the enums of choices -*- tablegen -*-===//
//
// Every decision that changes speed but not the answer is a field here.
// `fa-select-schedule` writes it, later passes only read it.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_DIALECT_SCHEDULE_SCHEDULEATTRS_TD
#define FATHOM_DIALECT_SCHEDULE_SCHEDULEATTRS_TD

include "dialect/FADialect.td"

def FA_PPolicy : FA_I32Enum<"PPolicy",
    "How the backward gets the probabilities P", [
  I32EnumCase<"recompute", 0>,
  I32EnumCase<"store", 1>,
  I32EnumCase<"store_compressed", 2>]>;
def FA_PPolicyAttr : EnumAttr<FA_Dialect, FA_PPolicy, "p_policy">;

def FA_DQPolicy : FA_I32Enum<"DQPolicy",
    "How key blocks add their parts of dQ together", [
  I32EnumCase<"sequential", 0>,
  I32EnumCase<"atomic", 1>,
  I32EnumCase<"ordered", 2>,
  I32EnumCase<"split", 3>,
  I32EnumCase<"two_kernel", 4>]>;
def FA_DQPolicyAttr : EnumAttr<FA_Dialect, FA_DQPolicy, "dq_policy">;

def FA_ScheduleAttr : FA_Attr<"Schedule", "schedule"> {
  let summary = "tile sizes and policies of one instance";
  let description = [{
    `block_m` rows of Q and `block_n` rows of K and V make one tile of S.
    `dq_splits` is read by `dq = split` only. `kv_splits` parts of the keys are
    passed over in parallel by the forward. `pack_heads` makes the rows of a
    tile the query heads of a KV head, for one query row; `group_splits` parts
    of the query heads of a KV head are passed over in parallel by the backward
    for the gradients of K and V. On a GPU a CTA has `num_warps` warps (0: as many
    as the tiles of a kernel need registers for), and what a loop copies ahead has
    `stages` buffers (1: nothing is copied ahead). `origin` says who chose: `text` (it stood in the input), `option`, or `default`.

    `deterministic` promises results that are bitwise the same in every run,
    whatever the number of threads. The verifier holds a function to it: no
    atomic addition may stand in it.

    ```mlir
    #fa.schedule<block_m = 64, block_n = 64, p = recompute, dq = ordered,
                 dq_splits = 4, kv_splits = 8, pack_heads, group_splits = 2,
                 num_warps = 8, stages = 3,
                 origin = "default">
    ```
  }];
  let parameters = (ins
    "int64_t":$blockM,
    "int64_t":$blockN,
    DefaultValuedParameter<"::fathom::PPolicy", "::fathom::PPolicy::recompute">:$p,
    DefaultValuedParameter<"::fathom::DQPolicy", "::fathom::DQPolicy::ordered">:$dq,
    DefaultValuedParameter<"int64_t", "4">:$dqSplits,
    DefaultValuedParameter<"int64_t", "1">:$kvSplits,
    DefaultValuedParameter<"bool", "false">:$packHeads,
    DefaultValuedParameter<"int64_t", "1">:$groupSplits,
    DefaultValuedParameter<"int64_t", "0">:$numWarps,
    DefaultValuedParameter<"int64_t", "2">:$stages,
    DefaultValuedParameter<"bool", "false">:$deterministic,
    StringRefParameter<"who chose">:$origin);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// The same with another policy for P.
    ScheduleAttr withP(::fathom::PPolicy p) const;
  }];
}

#endif // FATHOM_DIALECT_SCHEDULE_SCHEDULEATTRS_TD
