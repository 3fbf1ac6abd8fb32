// RUN: fa-opt %s --fa-gpu-stage-lines | FileCheck %s
// RUN: fa-opt %s --fa-gpu-stage-lines --remarks-filter=fathom --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

#acc = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 8:1:8], lanes = [4:1:2, 8:0:1], warps = [4:0:16]>
#row = #fa_gpu.layout<registers = [2:0:8], lanes = [4:r, 8:0:1], warps = [4:0:16]>
!s = !fa_gpu.shared<64x64xbf16, pitch = 72>

// REMARK: [Missed] {{.*}}"no products hide the way from memory"
// REMARK: [Passed] {{.*}}"copied through shared memory"
// REMARK: [Missed] {{.*}}"asynchronous copies move 4 or 8 bytes"
// REMARK: [Missed] {{.*}}"the loop writes what it reads"

// CHECK-LABEL: fa_gpu.kernel @lines
// CHECK: %[[BUF:.*]] = fa_gpu.alloc : <64xf32, pitch = 64>
fa_gpu.kernel @lines(%l: memref<?xf32>, %h: memref<?xbf16>, %d: memref<?xf32>, %o: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([0, 0, 0, 16, 0]) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %s = fa_gpu.alloc : !s
  %zero = arith.constant dense<0.0> : tensor<64x64xf32, #acc>
  // Once: not worth it.
  // CHECK: fa.load %arg0
  %once = fa.load %l[%c0] below(%n) : memref<?xf32> -> tensor<64xf32, #row>
  // CHECK: scf.for %[[I:[a-z0-9]*]] =
  %r = scf.for %i = %c0 to %n step %c64 iter_args(%acc = %zero) -> (tensor<64x64xf32, #acc>) {
    // CHECK: fa_gpu.copy_async %arg0[%[[I]]] below(%arg4) to %[[BUF]] vector 4
    // CHECK-NEXT: fa_gpu.commit
    // CHECK-NEXT: fa_gpu.wait 0
    // CHECK-NEXT: fa_gpu.load_shared %[[BUF]]
    %0 = fa.load %l[%i] below(%n) : memref<?xf32> -> tensor<64xf32, #row>
    // Near misses: entries of two bytes; an array that the loop writes.
    // CHECK: fa.load %arg1
    %1 = fa.load %h[%i] below(%n) : memref<?xbf16> -> tensor<64xbf16, #row>
    // CHECK: fa.load %arg2
    %2 = fa.load %d[%i] below(%n) : memref<?xf32> -> tensor<64xf32, #row>
    %3 = arith.extf %1 : tensor<64xbf16, #row> to tensor<64xf32, #row>
    %4 = arith.addf %0, %2 : tensor<64xf32, #row>
    %5 = arith.addf %4, %3 : tensor<64xf32, #row>
    %6 = arith.addf %5, %once : tensor<64xf32, #row>
    fa.store %6, %d[%i] below(%n) : tensor<64xf32, #row>, memref<?xf32>
    %7 = fa_gpu.mma %s, %s, %acc : !s, !s, tensor<64x64xf32, #acc>
    scf.yield %7 : tensor<64x64xf32, #acc>
  }
  fa.store %r, %o[%c0, %c0] below(%n, %c64) : tensor<64x64xf32, #acc>, memref<?x64xf32>
  fa_gpu.return
}
