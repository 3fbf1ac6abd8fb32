// Warps of their own run the loops for the copies of boxes.
// RUN: fa-opt %s --fa-gpu-pipeline-loads --fa-gpu-bulk-copies --fa-gpu-specialize-warps | FileCheck %s
// RUN: fa-opt %s --fa-gpu-pipeline-loads --fa-gpu-bulk-copies --fa-gpu-specialize-warps --remarks-filter=fathom --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: fa-opt %s --fa-gpu-pipeline-loads --fa-gpu-bulk-copies --fa-gpu-specialize-warps --fa-gpu-place-barriers --fa-gpu-assign-shared-memory | FileCheck %s --check-prefix=PLACED

!a = memref<?x?x64xbf16, strided<[?, ?, ?], offset: ?>>
!s = !fa_gpu.shared<128x64xbf16, pitch = 72>
!st = !fa_gpu.shared<64x128xbf16, pitch = 72, flipped>
#acc = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 16:1:8], lanes = [4:1:2, 8:0:1], warps = [8:0:16]>

// CHECK-LABEL: fa_gpu.kernel @ring(
// CHECK-SAME: num_warps(12)
// CHECK: %[[FULL:.*]] = fa_gpu.mbarriers arrivals 1 : <2>
// CHECK: %[[FREE:.*]] = fa_gpu.mbarriers arrivals 8 : <2>
// CHECK: %[[ONCE:.*]] = fa_gpu.mbarriers arrivals 1 : <1>
// CHECK: fa_gpu.roles warps [8, 4] registers [240, 24] {
// Those who compute.
// CHECK-NOT: copy_box
// CHECK: fa_gpu.wait_phase %{{.*}} of %[[ONCE]]
// CHECK: scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}, %[[STAGE:.*]] = %{{.*}}, %{{.*}} = %c0_i32)
// CHECK-NOT: copy_box
// CHECK: fa_gpu.wait_phase %{{.*}} of %[[FULL]][%[[STAGE]]]
// CHECK-NEXT: fa_gpu.mma
// CHECK-NEXT: fa_gpu.arrive %[[FREE]][%[[STAGE]]]
// CHECK: fa.store
// CHECK: }, {
// Those who copy, when a stage is free.
// CHECK: fa_gpu.copy_box {{.*}} signals %[[ONCE]]
// CHECK: %[[AHEAD:.*]] = scf.if
// CHECK: fa_gpu.wait_phase %{{.*}} of %[[FREE]][%c0]
// CHECK: fa_gpu.copy_box {{.*}} signals %[[FULL]]
// CHECK: scf.for %{{.*}} iter_args(%{{.*}} = %c0, %[[PHASES:.*]] = %[[AHEAD]]) -> (index, i32)
// CHECK: %[[INTO:.*]] = arith.select
// CHECK: %[[SOME:.*]] = scf.if
// CHECK: %[[BIT:.*]] = arith.index_cast %[[INTO]] : index to i32
// CHECK: %[[DOWN:.*]] = arith.shrui %[[PHASES]], %[[BIT]] : i32
// CHECK: %[[PARITY:.*]] = arith.trunci %[[DOWN]] : i32 to i1
// CHECK: fa_gpu.wait_phase %[[PARITY]] of %[[FREE]][%[[INTO]]]
// CHECK: %[[NEXT:.*]] = arith.xori %[[PHASES]], %{{.*}} : i32
// CHECK: fa_gpu.copy_box {{.*}} signals %[[FULL]][%[[INTO]]]
// CHECK: scf.yield %[[NEXT]]
// CHECK: } else {
// CHECK: scf.yield %[[PHASES]]
// CHECK: scf.yield %{{.*}}, %[[SOME]]
// CHECK-NOT: fa.store
// CHECK: fa_gpu.return
// REMARK-DAG: [Passed] fa-gpu-specialize-warps | Category:fathom | Remark="3 copies issued by warps of their own"

// All meet once, for the barriers.
// PLACED-LABEL: fa_gpu.kernel @ring(
// PLACED: fa_gpu.barrier
// PLACED: fa_gpu.roles
// PLACED-NOT: fa_gpu.barrier
// PLACED: fa_gpu.return
fa_gpu.kernel @ring(%x: !a, %y: !a, %z: memref<?x128xf32>, %n: index) num_warps(8) min_blocks(1) alignments([16, 16, 16, 0]) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %b = fa_gpu.block_id
  %h = arith.divui %b, %n : index
  %xs = fa_gpu.alloc : !s
  %ys = fa_gpu.alloc : !s
  %zero = arith.constant dense<0.0> : tensor<128x128xf32, #acc>
  fa_gpu.copy_async %x[%h, %c0, %c0] below(%n, %c64) to %xs vector 16 : !a, !s
  fa_gpu.commit
  fa_gpu.wait 0
  %sum = scf.for %i = %c0 to %n step %c128 iter_args(%s = %zero) -> tensor<128x128xf32, #acc> {
    fa_gpu.copy_async %y[%h, %i, %c0] below(%n, %c64) to %ys vector 16 : !a, !s
    fa_gpu.commit
    fa_gpu.wait 0
    %yt = fa_gpu.flip %ys : !s -> !st
    %r = fa_gpu.mma %xs, %yt, %s : !s, !st, tensor<128x128xf32, #acc>
    scf.yield %r : tensor<128x128xf32, #acc>
  }
  fa.store %sum, %z[%h, %c0] below(%n, %c128) : tensor<128x128xf32, #acc>, memref<?x128xf32>
  fa_gpu.return
}

// Where its box lies, a counter says that others must not raise.
// CHECK-LABEL: fa_gpu.kernel @claimed(
// CHECK-SAME: num_warps(8)
// CHECK-NOT: roles
// CHECK: fa_gpu.return
// REMARK-DAG: [Missed] fa-gpu-specialize-warps | Category:fathom | Remark="where a box lies is not known to other warps"
fa_gpu.kernel @claimed(%x: !a, %c: memref<?xi32>, %z: memref<?x128xf32>, %n: index) num_warps(8) min_blocks(1) alignments([16, 0, 16, 0]) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %scratch = fa_gpu.alloc : !fa_gpu.shared<1xi32, pitch = 1>
  %b = fa_gpu.claim %c via %scratch : memref<?xi32>, !fa_gpu.shared<1xi32, pitch = 1>
  %xs = fa_gpu.alloc : !s
  %zero = arith.constant dense<0.0> : tensor<128x128xf32, #acc>
  fa_gpu.copy_async %x[%b, %c0, %c0] below(%n, %c64) to %xs vector 16 : !a, !s
  fa_gpu.commit
  fa_gpu.wait 0
  %xt = fa_gpu.flip %xs : !s -> !st
  %r = fa_gpu.mma %xs, %xt, %zero : !s, !st, tensor<128x128xf32, #acc>
  fa.store %r, %z[%b, %c0] below(%n, %c128) : tensor<128x128xf32, #acc>, memref<?x128xf32>
  fa_gpu.return
}

// REMARK-DAG: [Missed] fa-gpu-specialize-warps | Category:fathom | Remark="no copies of boxes"
fa_gpu.kernel @nothing() num_warps(8) min_blocks(1) alignments([]) {
  fa_gpu.return
}

func.func @host(%x: !a, %c: memref<?xi32>, %z: memref<?x128xf32>, %n: index) {
  fa_gpu.launch @ring grid(%n) (%x, %x, %z, %n) : !a, !a, memref<?x128xf32>, index
  fa_gpu.launch @claimed grid(%n) (%x, %c, %z, %n) : !a, memref<?xi32>, memref<?x128xf32>, index
  return
}
