//===- GpuDialect.td - the fa_gpu dialect, layouts, shared memory -*- tablegen -*-===//
//
// Level 3. Tiles are builtin tensors whose encoding says which thread holds
// which entry; memory on chip is a buffer with a stated arrangement. What the
// CUDA printer prints is this level and nothing else.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_DIALECT_GPU_GPUDIALECT_TD
#define FATHOM_DIALECT_GPU_GPUDIALECT_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/TensorEncoding.td"

def FAGpu_Dialect : Dialect {
  let name = "fa_gpu";
  let cppNamespace = "::fathom::gpu";
  let summary = "Kernels on tiles that are spread over threads";
  let description = [{
    A kernel is run by CTAs of whole warps. Its tiles are tensors with a
    `#fa_gpu.layout`; on these, arith, math and the tile ops of `fa` mean what
    they mean on the nest level. `fa_gpu` adds what a GPU has beside: buffers
    in shared memory, asynchronous copies, barriers, tensor-core products. Host
    functions allocate workspaces and launch kernels; a launch runs after the
    ones before it.

    Every thread of a CTA runs every op: control flow depends on scalars only.
    `fa_gpu.roles` gives warps different things to do.
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let dependentDialects = [
    "::fathom::FADialect", "::mlir::arith::ArithDialect",
    "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect",
    "::mlir::scf::SCFDialect"
  ];
}

def FAGpu_LayoutAttr : AttrDef<FAGpu_Dialect, "ThreadLayout",
    [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let mnemonic = "layout";
  let summary = "which thread holds which entry of a tile, in which register";
  let description = [{
    Three lists of modes `size:dim:stride`. A register number, a lane (0 to 31)
    and a warp number are each written in the mixed radix of their list, the
    first mode lowest; each digit times its stride is added to the coordinate
    in `dim`. A mode `size:r` repeats: threads that differ only there hold the
    same entries. Together the modes of a dim count it out exactly: sorted by
    stride, each stride is the product of the sizes before it.

    The accumulator of m16n8 tensor-core products, 64 x 32 over 4 warps:

    ```mlir
    #fa_gpu.layout<registers = [2:1:1, 2:0:8, 4:1:8],
                   lanes = [4:1:2, 8:0:1], warps = [4:0:16]>
    ```
  }];
  let parameters = (ins
    ArrayRefParameter<"int64_t", "size, dim, stride of each mode">:$registers,
    ArrayRefParameter<"int64_t", "size, dim, stride of each mode">:$lanes,
    ArrayRefParameter<"int64_t", "size, dim, stride of each mode">:$warps);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// A digit: `size` values, each `stride` apart in `dim` (-1: a repeat).
    struct Mode {
      int64_t size, dim, stride;
    };
    static ::llvm::SmallVector<Mode> modes(::llvm::ArrayRef<int64_t> flat);

    int64_t getNumRegisters() const;
    int64_t getNumWarps() const;
    /// What register `r` adds to the coordinate in `dim`.
    int64_t getRegisterOffset(int64_t r, int64_t dim) const;
    /// How many registers in a row, from a multiple of that number, lie one
    /// after the other along `dim`.
    int64_t getVectorSize(int64_t dim) const;
    /// The coordinate of register 0 of a thread.
    int64_t getThreadOffset(int64_t thread, int64_t dim) const;
    /// True if several threads hold the same entries.
    bool isReplicated() const;

    /// Dims exchanged; the layout a transposed tile has without moving data.
    ThreadLayoutAttr transposed() const;
    /// The layout of the rank 1 tile that is left without `dim`: each entry is
    /// held by all threads that held one of its line.
    ThreadLayoutAttr sliced(int64_t dim) const;

    /// The accumulator of m16n8 products for a tile of `rows` x `cols`
    /// (multiples of 16 and 8): `warpsM` warps along the rows, `warpsN` along
    /// the columns; where they are more than the tile has blocks, they repeat.
    static ThreadLayoutAttr getMma(::mlir::MLIRContext *ctx, int64_t rows,
                             int64_t cols, int64_t warpsM, int64_t warpsN);
    /// Whole lines in one piece: `vector` entries a thread along the last dim,
    /// for tiles that only pass through.
    static ThreadLayoutAttr getRows(::mlir::MLIRContext *ctx, int64_t rows,
                              int64_t cols, int64_t vector, int64_t warps);
    /// A rank 1 tile that every warp holds as a whole.
    static ThreadLayoutAttr getLine(::mlir::MLIRContext *ctx, int64_t size,
                              int64_t warps);
    /// If this is getMma() of some number of warps, that number for rows and
    /// columns; else nothing. `rows` x `cols` is the tile.
    std::optional<std::pair<int64_t, int64_t>> matchMma(int64_t rows,
                                                        int64_t cols) const;
  }];
}

def FAGpu_SharedType : TypeDef<FAGpu_Dialect, "Shared"> {
  let mnemonic = "shared";
  let summary = "a buffer in the shared memory of a CTA, or a view of one";
  let description = [{
    `rows` x `cols` entries (rank 1: one row), in `stages` copies. Entry (i, j)
    lies at `i * pitch + j`; in a `flipped` view at `j * pitch + i`. A pitch
    above the line's length keeps tensor-core loads free of bank conflicts.

    With `swizzle`, 32, 64 or 128 bytes, lines of 16-bit entries are cut into
    panels of so many bytes: a panel holds its part of all lines, one after the
    other, and panel follows panel. In a panel, the number of a 16-byte piece is
    XORed with bits 7 and up of its offset (128: piece ^ line % 8; 64: piece ^
    line / 2 % 4; 32: piece ^ line / 4 % 2). This is what warpgroup products and
    bulk copies know; the buffer starts at a multiple of 1024 bytes. The pitch
    is then that of a panel and is not stated.

    ```mlir
    !fa_gpu.shared<64x128xbf16, pitch = 136>
    !fa_gpu.shared<64x128xbf16, pitch = 136, stages = 2>
    !fa_gpu.shared<128x64xbf16, pitch = 136, flipped>
    !fa_gpu.shared<64x128xbf16, swizzle = 128, stages = 2>
    ```
  }];
  let parameters = (ins
    ArrayRefParameter<"int64_t">:$shape,
    "::mlir::Type":$elementType,
    "int64_t":$pitch,
    "int64_t":$stages,
    "bool":$flipped,
    "int64_t":$swizzle);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    int64_t getRank() const { return getShape().size(); }
    /// Lines as they lie in memory: their number and length.
    int64_t getLines() const;
    int64_t getLineLength() const;
    int64_t getElementBytes() const;
    int64_t getStageBytes() const;
    int64_t getBytes() const { return getStageBytes() * getStages(); }
    SharedType withStages(int64_t stages) const;
    SharedType withoutStages() const { return withStages(1); }
    SharedType flip() const;
    /// A buffer of one stage with lines, in memory, of whole panels.
    static SharedType getSwizzled(::llvm::ArrayRef<int64_t> shape,
                                  ::mlir::Type element, int64_t swizzle);
    /// What the buffer's offset must be a multiple of.
    int64_t getAlignment() const { return getSwizzle() ? 1024 : 16; }
  }];
}

def FAGpu_BoxMapType : TypeDef<FAGpu_Dialect, "BoxMap"> {
  let mnemonic = "box_map";
  let summary = "an array as the copy engine sees it, which takes boxes of it";
  let description = [{
    A box has as many dims as the array. It lies in shared memory as the lines
    of one panel of a buffer with this swizzle.

    ```mlir
    !fa_gpu.box_map<1x1x64x64xbf16, swizzle = 128>
    ```
  }];
  let parameters = (ins
    ArrayRefParameter<"int64_t">:$box,
    "::mlir::Type":$elementType,
    "int64_t":$swizzle);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def FAGpu_MbarriersType : TypeDef<FAGpu_Dialect, "Mbarriers"> {
  let mnemonic = "mbarriers";
  let summary = "barriers that lie in shared memory, a ring of them";
  let description = [{
    A barrier goes through phases. One ends when as many have arrived as it
    expects and all bytes that were announced for the phase are there.

    ```mlir
    !fa_gpu.mbarriers<2>
    ```
  }];
  let parameters = (ins "int64_t":$count);
  let assemblyFormat = "`<` $count `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    int64_t getBytes() const { return 8 * getCount(); }
  }];
}

#endif // FATHOM_DIALECT_GPU_GPUDIALECT_TD
