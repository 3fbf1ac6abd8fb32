//===- GpuOps.td - kernels, shared memory, copies, products -----*- tablegen -*-===//
//
// The ops of fa_gpu. Memory effects are on buffers, so that passes see what
// depends on what: until barriers are placed, program order is the meaning.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_DIALECT_GPU_GPUOPS_TD
#define FATHOM_DIALECT_GPU_GPUOPS_TD

include "dialect/gpu/GpuDialect.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class FAGpu_Op<string mnemonic, list<Trait> traits = []>
    : Op<FAGpu_Dialect, mnemonic, traits>;

def FAGpu_Tile : Type<CPred<"::fathom::gpu::isLaidOut($_self)">,
  "tile with a layout", "::mlir::RankedTensorType">;

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

def FAGpu_KernelOp : FAGpu_Op<"kernel", [
    IsolatedFromAbove, FunctionOpInterface, SingleBlockImplicitTerminator<"ReturnOp">]> {
  let summary = "a function that a grid of CTAs runs";
  let description = [{
    `num_warps` warps a CTA; the compiler of the CUDA text is asked to keep
    `min_blocks` CTAs on a multiprocessor. Arguments are memrefs, maps of such
    for the copy engine, and scalars.
    `alignments` has an entry per argument: for a memref, base address, last
    dim (its stride is 1) and all other strides are multiples of that many
    bytes; 0 promises nothing, not even that the last stride is 1.

    ```mlir
    fa_gpu.kernel @copy(%x: memref<?xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 0]) {
      ...
      fa_gpu.return
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
    TypeAttrOf<FunctionType>:$function_type,
    OptionalAttr<DictArrayAttr>:$arg_attrs,
    OptionalAttr<DictArrayAttr>:$res_attrs,
    I64Attr:$num_warps, DefaultValuedAttr<I64Attr, "1">:$min_blocks,
    DenseI64ArrayAttr:$alignments);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    ::llvm::ArrayRef<::mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    ::llvm::ArrayRef<::mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
    ::mlir::Region *getCallableRegion() { return &getBody(); }
    /// Bytes that the address of `buffer`'s lines is known to be a multiple of.
    int64_t getAlignment(::mlir::Value buffer);
    /// Bytes of shared memory, once buffers have their places.
    int64_t getSharedBytes();
  }];
}

def FAGpu_ReturnOp : FAGpu_Op<"return", [Pure, ReturnLike, Terminator,
    ParentOneOf<["KernelOp", "RolesOp"]>]> {
  let summary = "ends a kernel or a role";
  let description = [{
    ```mlir
    fa_gpu.return
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def FAGpu_RolesOp : FAGpu_Op<"roles", [HasParent<"KernelOp">, RecursiveMemoryEffects,
    NoRegionArguments, SingleBlockImplicitTerminator<"ReturnOp">]> {
  let summary = "gives the warps of a CTA different things to do";
  let description = [{
    The last op of a kernel. Its regions run side by side, each in the next
    `warps` warps, tiles and barriers are those of these. Of each role but the
    first one thread runs, with scalars only, and copies. `registers` is how
    many a thread of the role shall have, where the target can move them
    between warps; 0 does not care.

    ```mlir
    fa_gpu.roles warps [8, 4] registers [240, 24] {
      ...
    }, {
      ...
    }
    ```
  }];
  let arguments = (ins DenseI64ArrayAttr:$warps, DenseI64ArrayAttr:$registers);
  let regions = (region VariadicRegion<SizedRegion<1>>:$roles);
  let assemblyFormat = "`warps` $warps `registers` $registers $roles attr-dict";
  let hasVerifier = 1;
}

def FAGpu_LaunchOp : FAGpu_Op<"launch", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "runs a kernel in a host function";
  let description = [{
    `grid` CTAs, in any order; nothing runs where it is 0 or less.

    ```mlir
    fa_gpu.launch @copy grid(%blocks) (%x, %n) : memref<?xf32>, index
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Index:$grid,
                       Variadic<AnyType>:$operands_);
  let assemblyFormat = "$kernel `grid` `(` $grid `)` `(` $operands_ `)` attr-dict `:` type($operands_)";
}

def FAGpu_ClearOp : FAGpu_Op<"clear", [
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "sets every byte of a workspace to 0, in a host function";
  let description = [{
    ```mlir
    fa_gpu.clear %tickets : memref<?xi32>
    ```
  }];
  let arguments = (ins AnyMemRef:$buffer);
  let assemblyFormat = "$buffer attr-dict `:` type($buffer)";
}

def FAGpu_MapBoxesOp : FAGpu_Op<"map_boxes", [Pure]> {
  let summary = "makes a map of an array, in a host function";
  let description = [{
    Entries at or past `sizes` count as zeros for those who copy by the map. The
    array is aligned to 16 bytes (`alignments` of fa_gpu.kernel). Nobody copies
    from an array without entries.

    ```mlir
    %m = fa_gpu.map_boxes %K[%b, %h, %sk, %c128] : memref<?x?x?x128xbf16, strided<[?, ?, ?, ?], offset: ?>> -> !fa_gpu.box_map<1x1x64x64xbf16, swizzle = 128>
    ```
  }];
  let arguments = (ins AnyMemRef:$source, Variadic<Index>:$sizes);
  let results = (outs FAGpu_BoxMapType:$result);
  let assemblyFormat = "$source `[` $sizes `]` attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}

def FAGpu_BlockIdOp : FAGpu_Op<"block_id", [Pure]> {
  let summary = "the number of this CTA, from 0";
  let description = [{
    ```mlir
    %w = fa_gpu.block_id
    ```
  }];
  let results = (outs Index:$result);
  let assemblyFormat = "attr-dict";
}

def FAGpu_ClaimOp : FAGpu_Op<"claim", [
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "takes the next number from a counter in memory";
  let description = [{
    The counter (memref of rank 1, its entry 0, i32, 0 at the launch) is raised
    by one; all threads of the CTA get its old value. CTAs that wait for others
    with lower numbers wait for running ones only. Holds a barrier; `scratch`
    takes the number from the thread that claims to the others.

    ```mlir
    %w = fa_gpu.claim %counter via %scratch : memref<?xi32>, !fa_gpu.shared<1xi32, pitch = 1>
    ```
  }];
  let arguments = (ins AnyMemRef:$counter, FAGpu_SharedType:$scratch);
  let results = (outs Index:$result);
  let assemblyFormat = "$counter `via` $scratch attr-dict `:` type($counter) `,` type($scratch)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Shared memory
//===----------------------------------------------------------------------===//

def FAGpu_AllocOp : FAGpu_Op<"alloc", [
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "a buffer in shared memory";
  let description = [{
    Its place, `offset` in bytes from the start of the CTA's shared memory, is
    given by `fa-gpu-assign-shared-memory`. Buffers may lie over each other
    where their contents are not needed at the same time.

    ```mlir
    %k = fa_gpu.alloc : !fa_gpu.shared<64x128xbf16, pitch = 136, stages = 2>
    ```
  }];
  let arguments = (ins OptionalAttr<I64Attr>:$offset);
  let results = (outs FAGpu_SharedType:$result);
  let assemblyFormat = "(`at` $offset^)? attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def FAGpu_StageOp : FAGpu_Op<"stage", [Pure]> {
  let summary = "one of the copies of a buffer";
  let description = [{
    ```mlir
    %k0 = fa_gpu.stage %k[%n] : !fa_gpu.shared<64x128xbf16, pitch = 136, stages = 2>
    ```
  }];
  let arguments = (ins FAGpu_SharedType:$buffer, Index:$index);
  let results = (outs FAGpu_SharedType:$result);
  let assemblyFormat = "$buffer `[` $index `]` attr-dict `:` type($buffer) `->` type($result)";
  let hasVerifier = 1;
}

def FAGpu_FlipOp : FAGpu_Op<"flip", [Pure]> {
  let summary = "a buffer seen with its dims exchanged; no data moves";
  let description = [{
    ```mlir
    %kt = fa_gpu.flip %k : !fa_gpu.shared<64x128xbf16, pitch = 136> -> !fa_gpu.shared<128x64xbf16, pitch = 136, flipped>
    ```
  }];
  let arguments = (ins FAGpu_SharedType:$buffer);
  let results = (outs FAGpu_SharedType:$result);
  let assemblyFormat = "$buffer attr-dict `:` type($buffer) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def FAGpu_StoreSharedOp : FAGpu_Op<"store_shared", [
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "writes a tile to a buffer of its shape";
  let description = [{
    ```mlir
    fa_gpu.store_shared %t, %buf : tensor<64x64xbf16, #l>, !fa_gpu.shared<64x64xbf16, pitch = 72>
    ```
  }];
  let arguments = (ins FAGpu_Tile:$tile, FAGpu_SharedType:$buffer);
  let assemblyFormat = "$tile `,` $buffer attr-dict `:` type($tile) `,` type($buffer)";
  let hasVerifier = 1;
}

def FAGpu_LoadSharedOp : FAGpu_Op<"load_shared", [
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "reads a tile from a buffer of its shape";
  let description = [{
    ```mlir
    %t = fa_gpu.load_shared %buf : !fa_gpu.shared<64x64xf32, pitch = 65> -> tensor<64x64xf32, #l>
    ```
  }];
  let arguments = (ins FAGpu_SharedType:$buffer);
  let results = (outs FAGpu_Tile:$tile);
  let assemblyFormat = "$buffer attr-dict `:` type($buffer) `->` type($tile)";
  let hasVerifier = 1;
}

def FAGpu_ConvertOp : FAGpu_Op<"convert", [Pure]> {
  let summary = "the same tile, held by other threads";
  let description = [{
    `fa-gpu-lower-converts` makes it a way through shared memory.

    ```mlir
    %u = fa_gpu.convert %t : tensor<64x64xf32, #a> -> tensor<64x64xf32, #b>
    ```
  }];
  let arguments = (ins FAGpu_Tile:$tile);
  let results = (outs FAGpu_Tile:$result);
  let assemblyFormat = "$tile attr-dict `:` type($tile) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

//===----------------------------------------------------------------------===//
// Copies and order
//===----------------------------------------------------------------------===//

def FAGpu_CopyAsyncOp : FAGpu_Op<"copy_async", [AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "starts copying a tile from global to shared memory";
  let description = [{
    Indices and limits as in `fa.load`; entries at or past a limit become zero.
    Each access moves `vector` bytes (4, 8 or 16), which the source's alignment
    must allow. The copy belongs to the group that the next `fa_gpu.commit`
    closes; the buffer must not be touched until a `fa_gpu.wait` covers it.

    ```mlir
    fa_gpu.copy_async %K[%b, %h, %j, %c0] below(%sk, %c128) to %buf vector 16
        : memref<?x?x?x128xbf16, strided<[?, ?, ?, ?], offset: ?>>, !fa_gpu.shared<64x128xbf16, pitch = 136>
    ```
  }];
  let arguments = (ins AnyMemRef:$source, Variadic<Index>:$indices,
                       Variadic<Index>:$limits, FAGpu_SharedType:$buffer,
                       I64Attr:$vector);
  let assemblyFormat = [{
    $source `[` $indices `]` `below` `(` $limits `)` `to` $buffer `vector` $vector
    attr-dict `:` type($source) `,` type($buffer)
  }];
  let hasVerifier = 1;
}

def FAGpu_CommitOp : FAGpu_Op<"commit", [
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "closes a group of asynchronous copies";
  let description = [{
    ```mlir
    fa_gpu.commit
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def FAGpu_WaitOp : FAGpu_Op<"wait", [
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "waits until at most `pending` groups of this thread are under way";
  let description = [{
    What other threads copied is there after a barrier that follows.

    ```mlir
    fa_gpu.wait 1
    ```
  }];
  let arguments = (ins I64Attr:$pending);
  let assemblyFormat = "$pending attr-dict";
  let hasVerifier = 1;
}

def FAGpu_BarrierOp : FAGpu_Op<"barrier", [
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "all threads of the CTA meet";
  let description = [{
    ```mlir
    fa_gpu.barrier
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def FAGpu_MbarriersOp : FAGpu_Op<"mbarriers", [
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "makes barriers in shared memory";
  let description = [{
    Each phase of each ends after so many arrivals. `offset` is given by
    `fa-gpu-assign-shared-memory`. One thread makes them: for memory effects
    this is a write, and each use a read. Run again, it makes them anew, as in
    phase 0; nobody waits then.

    ```mlir
    %full = fa_gpu.mbarriers arrivals 1 : !fa_gpu.mbarriers<2>
    ```
  }];
  let arguments = (ins I64Attr:$arrivals, OptionalAttr<I64Attr>:$offset);
  let results = (outs FAGpu_MbarriersType:$result);
  let assemblyFormat = "(`at` $offset^)? `arrivals` $arrivals attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def FAGpu_CopyBoxOp : FAGpu_Op<"copy_box", [
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "one thread starts copying from global to shared memory";
  let description = [{
    Fills `buffer` with the boxes from `indices` on, one dim each of the array.
    Arrives at barrier `index` of `signals` and announces the bytes: they are
    there for those who waited for that phase to end. Until then the buffer must
    not be touched. The array is not written by the kernel.

    ```mlir
    fa_gpu.copy_box %map[%b, %h, %j, %c0] to %buf signals %full[%stage]
        : !fa_gpu.box_map<1x1x64x64xbf16, swizzle = 128>, !fa_gpu.shared<64x128xbf16, swizzle = 128>, !fa_gpu.mbarriers<2>
    ```
  }];
  let arguments = (ins FAGpu_BoxMapType:$map, Variadic<Index>:$indices,
                       FAGpu_SharedType:$buffer, FAGpu_MbarriersType:$signals,
                       Index:$index);
  let assemblyFormat = [{
    $map `[` $indices `]` `to` $buffer `signals` $signals `[` $index `]` attr-dict
    `:` type($map) `,` type($buffer) `,` type($signals)
  }];
  let hasVerifier = 1;
}

def FAGpu_ArriveOp : FAGpu_Op<"arrive", [
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "each warp arrives at a barrier once, after what its lanes did";
  let description = [{
    ```mlir
    fa_gpu.arrive %free[%stage] : !fa_gpu.mbarriers<2>
    ```
  }];
  let arguments = (ins FAGpu_MbarriersType:$barriers, Index:$index);
  let assemblyFormat = "$barriers `[` $index `]` attr-dict `:` type($barriers)";
}

def FAGpu_WaitPhaseOp : FAGpu_Op<"wait_phase", [
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "waits until a barrier's last phase of a parity has ended";
  let description = [{
    Phases have the parities 0, 1, 0 and so on; a wait for parity 1 ends at once
    if none has ended yet.

    ```mlir
    fa_gpu.wait_phase %parity of %full[%stage] : !fa_gpu.mbarriers<2>
    ```
  }];
  let arguments = (ins I1:$parity, FAGpu_MbarriersType:$barriers, Index:$index);
  let assemblyFormat = "$parity `of` $barriers `[` $index `]` attr-dict `:` type($barriers)";
}

def FAGpu_WaitTurnOp : FAGpu_Op<"wait_turn", [
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "waits until a ticket in global memory has a value";
  let description = [{
    All threads of the CTA go on when it has; what was written before the
    ticket was raised is seen then.

    ```mlir
    fa_gpu.wait_turn %n at %tickets[%b, %h, %i] : memref<?x?x?xi32>
    ```
  }];
  let arguments = (ins Index:$turn, AnyMemRef:$tickets, Variadic<Index>:$indices);
  let assemblyFormat = "$turn `at` $tickets `[` $indices `]` attr-dict `:` type($tickets)";
  let hasVerifier = 1;
}

def FAGpu_EndTurnOp : FAGpu_Op<"end_turn", [
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "raises a ticket by one, after all threads' writes";
  let description = [{
    ```mlir
    fa_gpu.end_turn at %tickets[%b, %h, %i] : memref<?x?x?xi32>
    ```
  }];
  let arguments = (ins AnyMemRef:$tickets, Variadic<Index>:$indices);
  let assemblyFormat = "`at` $tickets `[` $indices `]` attr-dict `:` type($tickets)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

def FAGpu_MmaOp : FAGpu_Op<"mma", [AllTypesMatch<["acc", "result"]>,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "acc + a b with the factors on chip";
  let description = [{
    `b` lies in shared memory, `a` there or in registers. acc and the result
    have the layout of m16n8 accumulators (ThreadLayoutAttr::getMma). An `a` in
    registers has that layout too, with all warps along its rows, as the
    result's must then be: each warp has the whole lines it needs.

    bf16 and f16 are multiplied by tensor cores (m16n8k16) and summed in f32;
    f32 and f64 by fused multiply-adds in each thread.

    ```mlir
    %s = fa_gpu.mma %q, %kt, %zero : !fa_gpu.shared<64x128xbf16, pitch = 136>,
        !fa_gpu.shared<128x64xbf16, pitch = 136, flipped>, tensor<64x64xf32, #acc>
    ```
  }];
  let arguments = (ins AnyTypeOf<[FAGpu_Tile, FAGpu_SharedType]>:$a, FAGpu_SharedType:$b,
                       FAGpu_Tile:$acc);
  let results = (outs FAGpu_Tile:$result);
  let assemblyFormat = "$a `,` $b `,` $acc attr-dict `:` type($a) `,` type($b) `,` type($acc)";
  let hasVerifier = 1;
}

def FAGpu_WgmmaOp : FAGpu_Op<"wgmma", [AllTypesMatch<["acc", "result"]>,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "starts acc + a b by groups of four warps";
  let description = [{
    Operands as of `fa_gpu.mma`, with 16-bit factors in swizzled buffers and a
    multiple of four warps along the rows, 64 of them for four warps at a time,
    and at most 256 columns for each. The product is a group of its own, under
    way until a `fa_gpu.wgmma_wait` covers it; until then its factors must not
    be written, and the result is in flight: it may go to that wait, be the acc
    of another wgmma, or be carried by a loop, nothing else.

    Tensor cores read shared memory past the threads: what threads wrote there
    is seen after a `fa_gpu.fence_async` of the writer and a barrier.

    ```mlir
    %s = fa_gpu.wgmma %q, %kt, %zero : !fa_gpu.shared<128x128xbf16, swizzle = 128>,
        !fa_gpu.shared<128x128xbf16, swizzle = 128, flipped>, tensor<128x128xf32, #acc>
    ```
  }];
  let arguments = (ins AnyTypeOf<[FAGpu_Tile, FAGpu_SharedType]>:$a, FAGpu_SharedType:$b,
                       FAGpu_Tile:$acc);
  let results = (outs FAGpu_Tile:$result);
  let assemblyFormat = "$a `,` $b `,` $acc attr-dict `:` type($a) `,` type($b) `,` type($acc)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Empty, or what a wgmma on operands that a `fa_gpu.mma` could have expects
    /// beside.
    static std::string misfit(::mlir::Type a, SharedType b, ::mlir::RankedTensorType acc);
  }];
}

def FAGpu_WgmmaWaitOp : FAGpu_Op<"wgmma_wait", [
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "waits until at most `pending` products are under way";
  let description = [{
    Gives the tiles in flight as finished ones. The products of all of them are
    older than the last `pending` ones started.

    ```mlir
    %s = fa_gpu.wgmma_wait 1 %t : tensor<128x128xf32, #acc>
    ```
  }];
  let arguments = (ins I64Attr:$pending, Variadic<FAGpu_Tile>:$tiles);
  let results = (outs Variadic<FAGpu_Tile>:$results);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def FAGpu_FenceAsyncOp : FAGpu_Op<"fence_async", [
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "what this thread wrote to shared memory is there for wgmma";
  let description = [{
    Of all threads that wrote, before the barrier that tells the readers.
    `fa-gpu-place-barriers` places it.

    ```mlir
    fa_gpu.fence_async
    ```
  }];
  let assemblyFormat = "attr-dict";
}

#endif // FATHOM_DIALECT_GPU_GPUOPS_TD
