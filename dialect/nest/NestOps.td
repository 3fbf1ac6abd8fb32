//===- NestOps.td - how it is computed: tiled loop nests --------*- tablegen -*-===//
//
// Level 2. A kernel is an fa.nest over blocks with scf loops inside; values
// are tiles (ranked tensors of static shape, rank 1 or 2); elementwise work is
// arith and math on tiles. These ops add what upstream lacks: guarded tile
// loads and stores, products, reductions, and accumulation into memory by
// several nest items. No op here knows attention or a target.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_DIALECT_NEST_NESTOPS_TD
#define FATHOM_DIALECT_NEST_NESTOPS_TD

include "dialect/FADialect.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/IR/OpAsmInterface.td"

def FA_Tile : Type<And<[AnyStaticShapeTensor.predicate,
    CPred<"::llvm::cast<::mlir::RankedTensorType>($_self).getRank() == 1 || "
          "::llvm::cast<::mlir::RankedTensorType>($_self).getRank() == 2">]>,
  "tile (static tensor of rank 1 or 2)", "::mlir::RankedTensorType">;

def FA_NestOp : FA_Op<"nest", [
    RecursiveMemoryEffects, SingleBlock, NoTerminator,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>]> {
  let summary = "a grid of items, each running the body";
  let description = [{
    One block argument (index) per dim; dim d takes the values 0, step, 2*step,
    ... below its bound, the last dim fastest. Items that differ in a
    `parallel` dim may run at the same time, in any order, and are *claimed* in
    rising order; `sequential` dims (after the parallel ones) run in order
    within an item. Values are tiles; memory is the only result. `label` is for
    people and never read by a pass.

    ```mlir
    fa.nest "dk_dv" parallel(%b = %B, %h = %Hkv) sequential(%j = %Sk step 64) {
      ...
    }
    ```
  }];
  let arguments = (ins Variadic<Index>:$bounds, DenseI64ArrayAttr:$steps,
                       I64Attr:$num_parallel, OptionalAttr<StrAttr>:$label);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let skipDefaultBuilders = 1;
  let builders = [
    OpBuilder<(ins "::llvm::StringRef":$label, "::mlir::ValueRange":$bounds,
      "::llvm::ArrayRef<int64_t>":$steps, "int64_t":$numParallel,
      CArg<"::llvm::function_ref<void(::mlir::OpBuilder &, ::mlir::Location, "
           "::mlir::ValueRange)>", "nullptr">:$body)>
  ];
  let extraClassDeclaration = [{
    ::mlir::Block *getBlock() { return &getBody().front(); }
    ::mlir::BlockArgument getIv(unsigned d) { return getBlock()->getArgument(d); }
    unsigned getNumDims() { return getSteps().size(); }
    bool isParallel(unsigned d) { return d < getNumParallel(); }
  }];
}

def FA_LoadOp : FA_Op<"load", [AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "reads a tile; entries at or past a limit read as zero";
  let description = [{
    One index per dim of the buffer; the tile lies along the last dims. `below`
    gives, per tile dim, the exclusive end in buffer coordinates: an entry at
    or past it is never touched and reads as zero.

    ```mlir
    %q = fa.load %Q[%b, %h, %i, %c0] below(%sq, %c64)
        : memref<?x?x?x64xbf16, strided<[?, ?, ?, ?], offset: ?>> -> tensor<64x64xbf16>
    ```
  }];
  let arguments = (ins AnyMemRef:$buffer, Variadic<Index>:$indices,
                       Variadic<Index>:$limits);
  let results = (outs FA_Tile:$tile);
  let assemblyFormat = "$buffer `[` $indices `]` `below` `(` $limits `)` attr-dict `:` type($buffer) `->` type($tile)";
  let hasVerifier = 1;
}

def FA_StoreOp : FA_Op<"store", [AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "writes a tile; entries at or past a limit are not written";
  let description = [{
    ```mlir
    fa.store %o, %O[%b, %h, %i, %c0] below(%sq, %c64) : tensor<64x64xf32>, memref<?x?x?x64xf32>
    ```
  }];
  let arguments = (ins FA_Tile:$tile, AnyMemRef:$buffer,
                       Variadic<Index>:$indices, Variadic<Index>:$limits);
  let assemblyFormat = "$tile `,` $buffer `[` $indices `]` `below` `(` $limits `)` attr-dict `:` type($tile) `,` type($buffer)";
  let hasVerifier = 1;
}

def FA_AccumulateMode : FA_I32Enum<"AccumulateMode",
    "How an addition into memory meets those of other nest items", [
  I32EnumCase<"plain", 0>,
  I32EnumCase<"atomic", 1>,
  I32EnumCase<"ordered", 2>]>;
def FA_AccumulateModeAttr : EnumAttr<FA_Dialect, FA_AccumulateMode, "accumulate">;

def FA_AccumulateOp : FA_Op<"accumulate", [AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "adds a tile to a tile in memory";
  let description = [{
    `plain`: no other item adds to the same entries at the same time.
    `atomic`: each entry is added atomically; order and so rounding may vary.
    `ordered`: waits until the ticket `tickets[ticket_indices]` equals `turn`,
    adds, then raises the ticket by one; additions happen in the order of
    turns, so the result is deterministic. Tickets (memref of i32) start at 0.

    ```mlir
    fa.accumulate plain %t, %dQ[%b, %h, %i, %c0] below(%sq, %c64) : tensor<64x64xf32>, memref<?x?x?x64xf32>
    fa.accumulate ordered %t, %dQ[%b, %h, %i, %c0] below(%sq, %c64)
        turn %n at %T[%b, %h, %ib] : tensor<64x64xf32>, memref<?x?x?x64xf32>, memref<?x?x?xi32>
    ```
  }];
  let arguments = (ins FA_AccumulateModeAttr:$mode, FA_Tile:$tile,
                       AnyMemRef:$buffer, Variadic<Index>:$indices,
                       Variadic<Index>:$limits, Optional<Index>:$turn,
                       Optional<AnyMemRef>:$tickets,
                       Variadic<Index>:$ticket_indices);
  let assemblyFormat = [{
    $mode $tile `,` $buffer `[` $indices `]` `below` `(` $limits `)`
    (`turn` $turn^ `at` $tickets `[` $ticket_indices `]`)? attr-dict
    `:` type($tile) `,` type($buffer) (`,` type($tickets)^)?
  }];
  let hasVerifier = 1;
}

def FA_PassTurnOp : FA_Op<"pass_turn", [
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "takes a turn of an ordered accumulation without adding";
  let description = [{
    ```mlir
    fa.pass_turn %n at %T[%b, %h, %ib] : memref<?x?x?xi32>
    ```
  }];
  let arguments = (ins Index:$turn, AnyMemRef:$tickets,
                       Variadic<Index>:$ticket_indices);
  let assemblyFormat = "$turn `at` $tickets `[` $ticket_indices `]` attr-dict `:` type($tickets)";
}

def FA_DotOp : FA_Op<"dot", [Pure, AllTypesMatch<["acc", "result"]>]> {
  let summary = "acc + a b, in the type of acc";
  let description = [{
    Operands of 16 bits are multiplied exactly and summed in acc's type.

    ```mlir
    %s = fa.dot %q, %kt, %zero : tensor<64x128xbf16>, tensor<128x64xbf16>, tensor<64x64xf32>
    ```
  }];
  let arguments = (ins FA_Tile:$a, FA_Tile:$b, FA_Tile:$acc);
  let results = (outs FA_Tile:$result);
  let assemblyFormat = "$a `,` $b `,` $acc attr-dict `:` type($a) `,` type($b) `,` type($acc)";
  let hasVerifier = 1;
}

def FA_TransposeOp : FA_Op<"transpose", [Pure]> {
  let summary = "swaps the two dims of a tile";
  let description = [{
    ```mlir
    %kt = fa.transpose %k : tensor<64x128xf32> -> tensor<128x64xf32>
    ```
  }];
  let arguments = (ins FA_Tile:$tile);
  let results = (outs FA_Tile:$result);
  let assemblyFormat = "$tile attr-dict `:` type($tile) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def FA_ReduceKind : FA_I32Enum<"ReduceKind", "How entries are combined", [
  I32EnumCase<"add", 0>,
  I32EnumCase<"max", 1>,
  I32EnumCase<"any", 2>,
  I32EnumCase<"all", 3>]>;
def FA_ReduceKindAttr : EnumAttr<FA_Dialect, FA_ReduceKind, "reduce_kind">;

def FA_ReduceOp : FA_Op<"reduce", [Pure]> {
  let summary = "reduces one dim of a tile; a rank 1 tile becomes a scalar";
  let description = [{
    `add` and `max` on floats (`max` never selects a NaN over a number: a NaN
    shows up in the exponential of the same row); `any` and `all` on i1.

    ```mlir
    %m = fa.reduce max %s dim 1 : tensor<64x32xf32> -> tensor<64xf32>
    %x = fa.reduce any %v dim 0 : tensor<64xi1> -> i1
    ```
  }];
  let arguments = (ins FA_ReduceKindAttr:$kind, FA_Tile:$tile, I64Attr:$dim);
  let results = (outs AnyType:$result);
  let assemblyFormat = "$kind $tile `dim` $dim attr-dict `:` type($tile) `->` type($result)";
  let hasVerifier = 1;
}

def FA_BroadcastOp : FA_Op<"broadcast", [Pure]> {
  let summary = "repeats a rank 1 tile along the other dim, or fills a tile with a scalar";
  let description = [{
    `dim` is the result dim along which the source runs; a scalar source has
    no dim that matters and is written with `dim 0`.

    ```mlir
    %mm = fa.broadcast %m dim 0 : tensor<64xf32> -> tensor<64x32xf32>   // one value per row
    %cc = fa.broadcast %c dim 0 : f32 -> tensor<64x32xf32>
    ```
  }];
  let arguments = (ins AnyType:$source, I64Attr:$dim);
  let results = (outs FA_Tile:$result);
  let assemblyFormat = "$source `dim` $dim attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}

def FA_IotaOp : FA_Op<"iota", [Pure]> {
  let summary = "start, start + 1, ...";
  let description = [{
    ```mlir
    %i = fa.iota %i0 : tensor<64xindex>
    ```
  }];
  let arguments = (ins Index:$start);
  let results = (outs FA_Tile:$result);
  let assemblyFormat = "$start attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def FA_GatherOp : FA_Op<"gather", [
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "reads one buffer entry per tile entry";
  let description = [{
    One index operand per buffer dim, each a scalar or a tile of the result's
    shape. Indexes are clamped into the buffer, so that padding entries of a
    tile may hold any index; a buffer without entries reads as zero.

    ```mlir
    %t = fa.gather %bias[%h, %jj] : memref<?x?xf32>, (index, tensor<64x64xindex>) -> tensor<64x64xf32>
    ```
  }];
  let arguments = (ins AnyMemRef:$buffer, Variadic<AnyType>:$indices);
  let results = (outs FA_Tile:$result);
  let assemblyFormat = "$buffer `[` $indices `]` attr-dict `:` type($buffer) `,` `(` type($indices) `)` `->` type($result)";
  let hasVerifier = 1;
}

def FA_ScatterAddOp : FA_Op<"scatter_add", [
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "adds each tile entry to one buffer entry";
  let description = [{
    Indexes as in `fa.gather`. `plain`: the entries of a tile are added in an
    order that is the same in every run. `plain` and `atomic` as in `fa.accumulate`.

    ```mlir
    fa.scatter_add plain %g, %dbias[%h, %jj] : tensor<64x64xf32>, memref<?x?xf32>, (index, tensor<64x64xindex>)
    ```
  }];
  let arguments = (ins FA_AccumulateModeAttr:$mode, FA_Tile:$tile,
                       AnyMemRef:$buffer, Variadic<AnyType>:$indices);
  let assemblyFormat = "$mode $tile `,` $buffer `[` $indices `]` attr-dict `:` type($tile) `,` type($buffer) `,` `(` type($indices) `)`";
  let hasVerifier = 1;
}

def FA_ForwardEndOp : FA_Op<"forward_end", [AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "where the forward's results are complete in a joint function";
  let description = [{
    A fact about the arguments of a joint function, read by `fa-partition`:
    `outputs` are what the caller gets from the forward, `inputs` arrive only
    with the backward. It computes nothing; a target drops it.

    ```mlir
    fa.forward_end outputs(%o, %lse : memref<...>, memref<...>) inputs(%do : memref<...>)
    ```
  }];
  let arguments = (ins Variadic<AnyMemRef>:$outputs, Variadic<AnyMemRef>:$inputs);
  let assemblyFormat = [{
    `outputs` `(` ($outputs^ `:` type($outputs))? `)`
    `inputs` `(` ($inputs^ `:` type($inputs))? `)` attr-dict
  }];
}

def FA_TickOp : FA_Op<"tick", [
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "counts: adds one to counter `id` of the run";
  let description = [{
    Put in by `fa-count-tiles`; the runtime reads the counters.

    ```mlir
    fa.tick 0
    ```
  }];
  let arguments = (ins I64Attr:$id);
  let assemblyFormat = "$id attr-dict";
}

#endif // FATHOM_DIALECT_NEST_NESTOPS_TD
