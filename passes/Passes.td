//===- Passes.td - all passes, in pipeline order ----------------*- tablegen -*-===//

#ifndef FATHOM_PASSES_PASSES_TD
#define FATHOM_PASSES_PASSES_TD

include "mlir/Pass/PassBase.td"

//===----------------------------------------------------------------------===//
// Map stage
//===----------------------------------------------------------------------===//

def MapToCpu : Pass<"fa-map-to-cpu", "::mlir::ModuleOp"> {
  let summary = "nests become functions on vectors, run by all threads";
  let description = [{
    Required on the way to the CPU. Each `fa.nest` becomes a private function
    that computes one item in scratch memory, and a call of
    `fathom_parallel_for`, which runs it for all items, claimed in rising
    order. Sequential dims become loops; loads that stay the same leave loops.

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

#endif // FATHOM_PASSES_PASSES_TD
