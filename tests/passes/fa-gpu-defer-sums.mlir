// RUN: fa-opt %s --fa-gpu-defer-sums | FileCheck %s
// RUN: fa-opt %s --fa-gpu-defer-sums --remarks-filter=fathom --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

#acc = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 8:1:8], lanes = [4:1:2, 8:0:1], warps = [4:0:16]>
#row = #fa_gpu.layout<registers = [2:0:8], lanes = [4:r, 8:0:1], warps = [4:0:16]>

// REMARK: [Passed] {{.*}}"lanes add up their parts of lines after the loop"
// REMARK: [Passed] {{.*}}"lanes add up their parts of lines after the loop"
// REMARK: [Missed] {{.*}}"a line is carried that is no plain sum"
// REMARK: [Missed] {{.*}}"the loop reads the sum of its earlier rounds"
// REMARK: [Missed] {{.*}}"the sum does not start at 0"
// REMARK-NOT: remark:

// Scaled and raised; the operands either way round.
// CHECK: #[[PART:.*]] = #fa_gpu.layout<registers = [2:0:8], lanes = [4:1:1, 8:0:1], warps = [4:0:16]>
// CHECK-LABEL: fa_gpu.kernel @sum
// CHECK: %[[Z:.*]] = arith.constant dense<0.0{{.*}}> : tensor<64x4xf32, #[[PART]]>
// CHECK: %[[L:.*]] = scf.for {{.*}} iter_args(%[[S:.*]] = %[[Z]])
// CHECK: %[[A:.*]] = fa.broadcast %{{.*}} dim 0 : {{.*}} -> tensor<64x4xf32, #[[PART]]>
// CHECK: %[[M:.*]] = arith.mulf %[[S]], %[[A]]
// CHECK: %[[P:.*]] = fa_gpu.partial_sum %{{.*}} dim 1
// CHECK: %[[N:.*]] = arith.addf %[[M]], %[[P]]
// CHECK: scf.yield %[[N]]
// CHECK: fa.reduce add %[[L]] dim 1
fa_gpu.kernel @sum(%x: memref<?x64xf32>, %l: memref<?xf32>, %o: memref<?xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 0, 0, 0]) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant dense<0.0> : tensor<64xf32, #row>
  %a = fa.load %l[%c0] below(%n) : memref<?xf32> -> tensor<64xf32, #row>
  %r = scf.for %i = %c0 to %n step %c64 iter_args(%s = %zero) -> tensor<64xf32, #row> {
    %t = fa.load %x[%i, %c0] below(%n, %c64) : memref<?x64xf32> -> tensor<64x64xf32, #acc>
    %m = arith.mulf %a, %s : tensor<64xf32, #row>
    %p = fa.reduce add %t dim 1 : tensor<64x64xf32, #acc> -> tensor<64xf32, #row>
    %q = arith.addf %p, %m : tensor<64xf32, #row>
    scf.yield %q : tensor<64xf32, #row>
  }
  fa.store %r, %o[%c0] below(%n) : tensor<64xf32, #row>, memref<?xf32>
  fa_gpu.return
}

// Rounds that leave the sum alone.
// CHECK-LABEL: fa_gpu.kernel @sometimes
// CHECK: scf.for {{.*}} iter_args(%[[S:.*]] = %{{.*}}) -> (tensor<64x4xf32
// CHECK: scf.if {{.*}} -> (tensor<64x4xf32
// CHECK: %[[N:.*]] = arith.addf %[[S]], %{{.*}} : tensor<64x4xf32
// CHECK: scf.yield %[[N]]
// CHECK: else
// CHECK: scf.yield %[[S]]
fa_gpu.kernel @sometimes(%x: memref<?x64xf32>, %o: memref<?xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 0, 0]) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant dense<0.0> : tensor<64xf32, #row>
  %r = scf.for %i = %c0 to %n step %c64 iter_args(%s = %zero) -> tensor<64xf32, #row> {
    %is = arith.cmpi sgt, %i, %c64 : index
    %y = scf.if %is -> tensor<64xf32, #row> {
      %t = fa.load %x[%i, %c0] below(%n, %c64) : memref<?x64xf32> -> tensor<64x64xf32, #acc>
      %p = fa.reduce add %t dim 1 : tensor<64x64xf32, #acc> -> tensor<64xf32, #row>
      %q = arith.addf %s, %p : tensor<64xf32, #row>
      scf.yield %q : tensor<64xf32, #row>
    } else {
      scf.yield %s : tensor<64xf32, #row>
    }
    scf.yield %y : tensor<64xf32, #row>
  }
  fa.store %r, %o[%c0] below(%n) : tensor<64xf32, #row>, memref<?xf32>
  fa_gpu.return
}

// Near misses: a maximum; a sum that is read on the way; one that starts at a
// value.
// CHECK-LABEL: fa_gpu.kernel @kept
// CHECK-NOT: fa_gpu.partial_sum
fa_gpu.kernel @kept(%x: memref<?x64xf32>, %l: memref<?xf32>, %o: memref<?xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 0, 0, 0]) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant dense<0.0> : tensor<64xf32, #row>
  %a = fa.load %l[%c0] below(%n) : memref<?xf32> -> tensor<64xf32, #row>
  %r:3 = scf.for %i = %c0 to %n step %c64 iter_args(%s = %zero, %u = %zero, %v = %a) -> (tensor<64xf32, #row>, tensor<64xf32, #row>, tensor<64xf32, #row>) {
    %t = fa.load %x[%i, %c0] below(%n, %c64) : memref<?x64xf32> -> tensor<64x64xf32, #acc>
    %p = fa.reduce max %t dim 1 : tensor<64x64xf32, #acc> -> tensor<64xf32, #row>
    %q = arith.addf %s, %p : tensor<64xf32, #row>
    %k = fa.reduce add %t dim 1 : tensor<64x64xf32, #acc> -> tensor<64xf32, #row>
    %w = arith.addf %u, %k : tensor<64xf32, #row>
    fa.store %u, %o[%i] below(%n) : tensor<64xf32, #row>, memref<?xf32>
    %tt = arith.addf %t, %t : tensor<64x64xf32, #acc>
    %kk = fa.reduce add %tt dim 1 : tensor<64x64xf32, #acc> -> tensor<64xf32, #row>
    %z = arith.addf %v, %kk : tensor<64xf32, #row>
    scf.yield %q, %w, %z : tensor<64xf32, #row>, tensor<64xf32, #row>, tensor<64xf32, #row>
  }
  fa.store %r#0, %o[%c0] below(%n) : tensor<64xf32, #row>, memref<?xf32>
  fa.store %r#1, %o[%c0] below(%n) : tensor<64xf32, #row>, memref<?xf32>
  fa.store %r#2, %o[%c0] below(%n) : tensor<64xf32, #row>, memref<?xf32>
  fa_gpu.return
}
