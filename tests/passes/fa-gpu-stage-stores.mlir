// RUN: fa-opt %s --fa-gpu-stage-stores | FileCheck %s
// RUN: fa-opt %s --fa-gpu-stage-stores --remarks-filter=fathom --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// REMARK: [Passed] {{.*}}"goes through shared memory"
// REMARK: [Missed] {{.*}}"lines are not known to start at 16 bytes"
// REMARK: [Missed] {{.*}}"it is in a loop"

#acc = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 8:1:8], lanes = [4:1:2, 8:0:1], warps = [4:0:16]>

// CHECK: #[[ROWS:.*]] = #fa_gpu.layout<registers = [8:1:1, 4:0:16], lanes = [8:1:8, 4:0:1], warps = [4:0:4]>
// CHECK-LABEL: fa_gpu.kernel @stores
fa_gpu.kernel @stores(%h: memref<?x64xbf16>, %u: memref<?x64xbf16>, %f: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 2, 16, 0]) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %t = arith.constant dense<1.0> : tensor<64x64xbf16, #acc>
  %s = arith.constant dense<1.0> : tensor<64x64xf32, #acc>
  // CHECK: %[[T:.*]] = fa_gpu.convert %{{.*}} -> tensor<64x64xbf16, #[[ROWS]]>
  // CHECK-NEXT: fa.store %[[T]], %arg0
  fa.store %t, %h[%c0, %c0] below(%n, %c64) : tensor<64x64xbf16, #acc>, memref<?x64xbf16>
  // Near misses: not aligned; four lanes fill 32 bytes; again and again.
  // CHECK-NEXT: fa.store %{{.*}}, %arg1
  fa.store %t, %u[%c0, %c0] below(%n, %c64) : tensor<64x64xbf16, #acc>, memref<?x64xbf16>
  // CHECK-NEXT: fa.store %{{.*}}, %arg2
  fa.store %s, %f[%c0, %c0] below(%n, %c64) : tensor<64x64xf32, #acc>, memref<?x64xf32>
  // CHECK: scf.for
  // CHECK-NEXT: fa.store %{{.*}}, %arg0
  scf.for %i = %c0 to %n step %c64 {
    fa.store %t, %h[%i, %c0] below(%n, %c64) : tensor<64x64xbf16, #acc>, memref<?x64xbf16>
  }
  fa_gpu.return
}
