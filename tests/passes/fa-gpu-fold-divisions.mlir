// RUN: fa-opt %s --fa-gpu-fold-divisions | FileCheck %s
// RUN: fa-opt %s --fa-gpu-fold-divisions --remarks-filter=fathom --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

#acc = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 8:1:8], lanes = [4:1:2, 8:0:1], warps = [4:0:16]>
#row = #fa_gpu.layout<registers = [2:0:8], lanes = [4:r, 8:0:1], warps = [4:0:16]>

// REMARK: [Passed] {{.*}}"one division per row"
// REMARK: [Passed] {{.*}}"one division per row"
// REMARK: [Missed] {{.*}}"the quotient is not rounded to 16 bits"
// REMARK-NOT: remark:

// CHECK-LABEL: fa_gpu.kernel @divide
fa_gpu.kernel @divide(%x: memref<?x64xf32>, %l: memref<?xf32>, %s: f32, %o: memref<?x64xbf16>, %n: index) num_warps(4) min_blocks(1) alignments([16, 0, 0, 16, 0]) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %t = fa.load %x[%c0, %c0] below(%n, %c64) : memref<?x64xf32> -> tensor<64x64xf32, #acc>
  %r = fa.load %l[%c0] below(%n) : memref<?xf32> -> tensor<64xf32, #row>
  // CHECK: %[[ONE:.*]] = arith.constant dense<1.0{{.*}}> : tensor<64xf32
  // CHECK: %[[I:.*]] = arith.divf %[[ONE]], %{{.*}} : tensor<64xf32
  // CHECK: %[[II:.*]] = fa.broadcast %[[I]] dim 0
  // CHECK: arith.mulf %{{.*}}, %[[II]]
  %rr = fa.broadcast %r dim 0 : tensor<64xf32, #row> -> tensor<64x64xf32, #acc>
  %q = arith.divf %t, %rr : tensor<64x64xf32, #acc>
  %h = arith.truncf %q : tensor<64x64xf32, #acc> to tensor<64x64xbf16, #acc>
  fa.store %h, %o[%c0, %c0] below(%n, %c64) : tensor<64x64xbf16, #acc>, memref<?x64xbf16>

  // One value for all.
  // CHECK: %[[J:.*]] = arith.divf %{{.*}}, %{{.*}} : f32
  // CHECK: %[[JJ:.*]] = fa.broadcast %[[J]]
  // CHECK: arith.mulf %{{.*}}, %[[JJ]]
  %ss = fa.broadcast %s dim 0 : f32 -> tensor<64x64xf32, #acc>
  %q1 = arith.divf %t, %ss : tensor<64x64xf32, #acc>
  %h1 = arith.truncf %q1 : tensor<64x64xf32, #acc> to tensor<64x64xbf16, #acc>
  fa.store %h1, %o[%c64, %c0] below(%n, %c64) : tensor<64x64xbf16, #acc>, memref<?x64xbf16>

  // Near misses: kept in f32; divided by a value per entry; a value per row
  // divided by entries.
  // CHECK: arith.divf {{.*}} : tensor<64x64xf32
  %q2 = arith.divf %t, %rr : tensor<64x64xf32, #acc>
  fa.store %q2, %x[%c0, %c0] below(%n, %c64) : tensor<64x64xf32, #acc>, memref<?x64xf32>
  // CHECK: arith.divf {{.*}} : tensor<64x64xf32
  %q3 = arith.divf %t, %t : tensor<64x64xf32, #acc>
  %h3 = arith.truncf %q3 : tensor<64x64xf32, #acc> to tensor<64x64xbf16, #acc>
  fa.store %h3, %o[%c0, %c0] below(%n, %c64) : tensor<64x64xbf16, #acc>, memref<?x64xbf16>
  // CHECK: arith.divf {{.*}} : tensor<64x64xf32
  %q4 = arith.divf %rr, %t : tensor<64x64xf32, #acc>
  %h4 = arith.truncf %q4 : tensor<64x64xf32, #acc> to tensor<64x64xbf16, #acc>
  fa.store %h4, %o[%c0, %c0] below(%n, %c64) : tensor<64x64xbf16, #acc>, memref<?x64xbf16>
  fa_gpu.return
}
