// Counts made by walking nests written by hand: 32 heads, N = 8192, bf16.
//
// RUN: fa-opt %s --explain --heads=32 --seqlen-q=8192 | FileCheck %s
// RUN: fa-opt %s --explain=json --heads=32 --seqlen-q=8192 | FileCheck %s --check-prefix=JSON
// RUN: fa-opt %s --explain --heads=32 --seqlen-q=8190 | FileCheck %s --check-prefix=RAGGED
// RUN: fa-opt %s --explain --heads=32 --seqlen-q=8192 --device=ascend910 | FileCheck %s --check-prefix=ASCEND

// P is N x N and lives from the first nest to the second; the row statistics
// too, at a 4096th of its size.
// CHECK: N x N buffers{{ +}}4 GiB
// CHECK: peak workspace{{ +}}4 GiB
// CHECK: N x N{{ +}}4 GiB
// CHECK: arg3{{ +}}1 MiB
// CHECK: kept, as given
// CHECK-DAG: alloc0{{ +}}4 GiB{{ +}}1x32x8192x8192xbf16 (N x N), written in first
// CHECK-DAG: arg3{{ +}}1 MiB{{ +}}1x32x8192xf32, written in first
// CHECK: products
// CHECK: first{{ +}}64 x 64{{ +}}k 64{{ +}}bf16{{ +}}524288 times
// CHECK: second{{ +}}64 x 64{{ +}}k 64{{ +}}bf16{{ +}}264192 times

// JSON: "name": "h200"
// JSON: "kept_n_by_n_bytes": 4294967296

// Tiles at the edge are clipped.
// RAGGED: alloc0{{ +}}1x32x8190x8190xbf16{{ +}}2.01 GiB read{{ +}}4.00 GiB written, N x N

// ASCEND: device: ascend910, 256 TFLOP/s, 1200 GB/s

!x = memref<?x?x?x64xbf16, strided<[?, ?, ?, ?], offset: ?>>
func.func @two(%q: !x, %k: !x, %v: !x, %l: memref<?x?x?xf32>, %o: memref<?x?x?x64xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c64 = arith.constant 64 : index
  %B = memref.dim %q, %c0 : !x
  %H = memref.dim %q, %c1 : !x
  %sq = memref.dim %q, %c2 : !x
  %sk = memref.dim %k, %c2 : !x
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %p = memref.alloc(%B, %H, %sq, %sk) : memref<?x?x?x?xbf16>
  fa.nest "first" parallel(%b = %B, %h = %H, %i = %sq step 64) {
    %tq = fa.load %q[%b, %h, %i, %c0] below(%sq, %c64) : !x -> tensor<64x64xbf16>
    scf.for %j = %c0 to %sk step %c64 {
      %tk = fa.load %k[%b, %h, %j, %c0] below(%sk, %c64) : !x -> tensor<64x64xbf16>
      %kt = fa.transpose %tk : tensor<64x64xbf16> -> tensor<64x64xbf16>
      %s = fa.dot %tq, %kt, %zero : tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xf32>
      %e = math.exp %s : tensor<64x64xf32>
      %r = arith.truncf %e : tensor<64x64xf32> to tensor<64x64xbf16>
      fa.store %r, %p[%b, %h, %i, %j] below(%sq, %sk) : tensor<64x64xbf16>, memref<?x?x?x?xbf16>
      %m = fa.reduce max %s dim 1 : tensor<64x64xf32> -> tensor<64xf32>
      fa.store %m, %l[%b, %h, %i] below(%sq) : tensor<64xf32>, memref<?x?x?xf32>
    }
  }
  // Half of the key blocks, by a bound that hangs on the outer block.
  fa.nest "second" parallel(%b = %B, %h = %H, %i = %sq step 64) {
    %end0 = arith.addi %i, %c64 : index
    %end = arith.minsi %end0, %sk : index
    %tl = fa.load %l[%b, %h, %i] below(%sq) : memref<?x?x?xf32> -> tensor<64xf32>
    %acc = scf.for %j = %c0 to %end step %c64 iter_args(%a = %zero) -> tensor<64x64xf32> {
      %tp = fa.load %p[%b, %h, %i, %j] below(%sq, %sk) : memref<?x?x?x?xbf16> -> tensor<64x64xbf16>
      %tv = fa.load %v[%b, %h, %j, %c0] below(%sk, %c64) : !x -> tensor<64x64xbf16>
      %a1 = fa.dot %tp, %tv, %a : tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xf32>
      scf.yield %a1 : tensor<64x64xf32>
    }
    fa.store %acc, %o[%b, %h, %i, %c0] below(%sq, %c64) : tensor<64x64xf32>, memref<?x?x?x64xf32>
  }
  return
}
