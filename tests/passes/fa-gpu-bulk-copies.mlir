// Copies to the stages of a ring become ones of boxes; what can't stays.
// RUN: fa-opt %s --fa-gpu-pipeline-loads --fa-gpu-bulk-copies | FileCheck %s
// RUN: fa-opt %s --fa-gpu-pipeline-loads --fa-gpu-bulk-copies --remarks-filter=fathom --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: fa-opt %s --fa-gpu-pipeline-loads --fa-gpu-bulk-copies --fa-gpu-place-barriers --fa-gpu-assign-shared-memory | FileCheck %s --check-prefix=PLACED

!a = memref<?x?x64xbf16, strided<[?, ?, ?], offset: ?>>
!s = !fa_gpu.shared<32x64xbf16, pitch = 72>
!st = !fa_gpu.shared<64x32xbf16, pitch = 72, flipped>
#acc = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 4:1:8], lanes = [4:1:2, 8:0:1], warps = [2:0:16]>

// One is filled once, one in every round. The barriers are made once, and the
// round that reads a stage waits for it; no thread waits for copies of its own.
// CHECK-LABEL: fa_gpu.kernel @ring(
// CHECK-SAME: %[[XMAP:[a-z0-9]+]]: !fa_gpu.box_map<1x32x64xbf16, swizzle = 128>, %[[YMAP:[a-z0-9]+]]: !fa_gpu.box_map<1x32x64xbf16, swizzle = 128>)
// CHECK-SAME: alignments([16, 16, 0, 0, 0, 0])
// CHECK: %[[FULL:.*]] = fa_gpu.mbarriers arrivals 1 : <2>
// CHECK: %[[ONCE:.*]] = fa_gpu.mbarriers arrivals 1 : <1>
// CHECK-NOT: {{fa_gpu.(wait|commit|copy_async) }}
// CHECK: fa_gpu.copy_box %[[XMAP]][%{{.*}}, %{{.*}}, %{{.*}}] to %{{.*}} signals %[[ONCE]][%{{.*}}] : <1x32x64xbf16, swizzle = 128>, <32x64xbf16, swizzle = 128>, <1>
// CHECK: scf.if
// CHECK: fa_gpu.copy_box %[[YMAP]][{{.*}}] to %{{.*}} signals %[[FULL]][%{{.*}}]
// CHECK: fa_gpu.wait_phase %{{.*}} of %[[ONCE]]
// CHECK: scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}, %[[STAGE:.*]] = %{{.*}}, %[[PHASES:.*]] = %c0_i32)
// CHECK: %[[BIT:.*]] = arith.index_cast %[[STAGE]] : index to i32
// CHECK: %[[DOWN:.*]] = arith.shrui %[[PHASES]], %[[BIT]] : i32
// CHECK: %[[PARITY:.*]] = arith.trunci %[[DOWN]] : i32 to i1
// CHECK: scf.if
// CHECK: fa_gpu.copy_box %[[YMAP]]
// CHECK: fa_gpu.wait_phase %[[PARITY]] of %[[FULL]][%[[STAGE]]]
// CHECK-NEXT: fa_gpu.mma
// CHECK: %[[MASK:.*]] = arith.shli %c1_i32, %{{.*}} : i32
// CHECK-NEXT: %[[NEXT:.*]] = arith.xori %[[PHASES]], %[[MASK]] : i32
// CHECK: scf.yield %{{.*}}, %{{.*}}, %[[NEXT]]
// REMARK-DAG: [Passed] fa-gpu-bulk-copies | Category:fathom | Remark="2 buffers are filled with boxes"

// One barrier for those who wait, and one a round before a stage is filled
// again. Barriers lie behind the buffers.
// PLACED-LABEL: fa_gpu.kernel @ring(
// PLACED: fa_gpu.mbarriers at 12288 arrivals 1
// PLACED: fa_gpu.mbarriers at 12304 arrivals 1
// PLACED: fa_gpu.barrier
// PLACED-NOT: fa_gpu.barrier
// PLACED: scf.for
// PLACED: fa_gpu.barrier
// PLACED: scf.if
// PLACED-NOT: fa_gpu.barrier
// PLACED: fa_gpu.return
fa_gpu.kernel @ring(%x: !a, %y: !a, %n: index, %b: index) num_warps(2) min_blocks(1) alignments([16, 16, 0, 0]) {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %xs = fa_gpu.alloc : !s
  %ys = fa_gpu.alloc : !s
  %zero = arith.constant dense<0.0> : tensor<32x32xf32, #acc>
  fa_gpu.copy_async %x[%b, %c0, %c0] below(%n, %c64) to %xs vector 16 : !a, !s
  fa_gpu.commit
  fa_gpu.wait 0
  %sum = scf.for %i = %c0 to %n step %c32 iter_args(%s = %zero) -> tensor<32x32xf32, #acc> {
    fa_gpu.copy_async %y[%b, %i, %c0] below(%n, %c64) to %ys vector 16 : !a, !s
    fa_gpu.commit
    fa_gpu.wait 0
    %yt = fa_gpu.flip %ys : !s -> !st
    %r = fa_gpu.mma %xs, %yt, %s : !s, !st, tensor<32x32xf32, #acc>
    scf.yield %r : tensor<32x32xf32, #acc>
  }
  fa_gpu.return
}

// A loop around carries the phases from one run of the ring to the next.
// CHECK-LABEL: fa_gpu.kernel @nested(
// CHECK-NEXT: %[[FULL:.*]] = fa_gpu.mbarriers arrivals 1 : <2>
// CHECK: scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}, %[[OUTER:.*]] = %c0_i32)
// CHECK: %[[INNER:.*]]:3 = scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}, %{{.*}} = %[[OUTER]])
// CHECK: fa_gpu.wait_phase %{{.*}} of %[[FULL]]
// CHECK: scf.yield %[[INNER]]#0, %[[INNER]]#2
fa_gpu.kernel @nested(%x: !a, %y: !a, %n: index, %b: index) num_warps(2) min_blocks(1) alignments([16, 16, 0, 0]) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant dense<0.0> : tensor<32x32xf32, #acc>
  %all = scf.for %h = %c0 to %b step %c1 iter_args(%t = %zero) -> tensor<32x32xf32, #acc> {
    %ys = fa_gpu.alloc : !s
    %sum = scf.for %i = %c0 to %n step %c32 iter_args(%s = %t) -> tensor<32x32xf32, #acc> {
      fa_gpu.copy_async %y[%h, %i, %c0] below(%n, %c64) to %ys vector 16 : !a, !s
      fa_gpu.commit
      fa_gpu.wait 0
      %yt = fa_gpu.flip %ys : !s -> !st
      %r = fa_gpu.mma %ys, %yt, %s : !s, !st, tensor<32x32xf32, #acc>
      scf.yield %r : tensor<32x32xf32, #acc>
    }
    scf.yield %sum : tensor<32x32xf32, #acc>
  }
  fa_gpu.return
}

// The host makes the maps of what a kernel is launched with.
// CHECK-LABEL: func.func @host(
// CHECK-SAME: %[[X:.*]]: memref<?x?x64xbf16, strided<[?, ?, ?], offset: ?>>, %[[Y:.*]]: memref<{{.*}}>, %[[N:.*]]: index)
// CHECK-DAG: %[[B:.*]] = memref.dim %[[X]], %{{.*}}
// CHECK-DAG: %[[C:.*]] = arith.constant 64
// CHECK: fa_gpu.map_boxes %[[X]][%{{.*}}, %[[N]], %{{.*}}]
// CHECK: fa_gpu.map_boxes %[[Y]][%{{.*}}, %[[N]], %{{.*}}]
// CHECK: fa_gpu.launch @ring grid(%[[N]]) (%[[X]], %[[Y]], %[[N]], %[[N]], %{{.*}}, %{{.*}})
func.func @host(%x: !a, %y: !a, %n: index) {
  fa_gpu.launch @ring grid(%n) (%x, %y, %n, %n) : !a, !a, index, index
  fa_gpu.launch @nested grid(%n) (%x, %y, %n, %n) : !a, !a, index, index
  fa_gpu.launch @stay grid(%n) (%x, %y, %n, %n) : !a, !a, index, index
  return
}

// A limit of the kernel's own, an array that it writes, one that is not
// aligned, a buffer of long entries.
// CHECK-LABEL: fa_gpu.kernel @stay(
// CHECK-NOT: copy_box
// CHECK: fa_gpu.wait
// CHECK-NOT: copy_box
// CHECK: fa_gpu.return
// REMARK-DAG: [Missed] fa-gpu-bulk-copies | Category:fathom | Remark="a limit is computed in the kernel"
// REMARK-DAG: [Missed] fa-gpu-bulk-copies | Category:fathom | Remark="the array is written by the kernel"
// REMARK-DAG: [Missed] fa-gpu-bulk-copies | Category:fathom | Remark="the one stage is filled more than once"
// REMARK-DAG: [Missed] fa-gpu-bulk-copies | Category:fathom | Remark="no host function launches the kernel"
fa_gpu.kernel @stay(%x: !a, %y: !a, %n: index, %b: index) num_warps(2) min_blocks(1) alignments([16, 16, 0, 0]) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %m = arith.addi %n, %b : index
  %xs = fa_gpu.alloc : !s
  %ys = fa_gpu.alloc : !s
  %zs = fa_gpu.alloc : !s
  fa_gpu.copy_async %x[%b, %c0, %c0] below(%m, %c64) to %xs vector 16 : !a, !s
  fa_gpu.copy_async %y[%b, %c0, %c0] below(%n, %c64) to %ys vector 16 : !a, !s
  fa_gpu.copy_async %x[%b, %c0, %c0] below(%n, %c64) to %zs vector 16 : !a, !s
  fa_gpu.copy_async %x[%b, %b, %c0] below(%n, %c64) to %zs vector 16 : !a, !s
  fa_gpu.commit
  fa_gpu.wait 0
  %t = fa_gpu.load_shared %xs : !s -> tensor<32x64xbf16, #fa_gpu.layout<registers = [8:1:1, 4:0:8], lanes = [8:1:8, 4:0:1], warps = [2:0:4]>>
  %u = fa_gpu.load_shared %ys : !s -> tensor<32x64xbf16, #fa_gpu.layout<registers = [8:1:1, 4:0:8], lanes = [8:1:8, 4:0:1], warps = [2:0:4]>>
  %v = fa_gpu.load_shared %zs : !s -> tensor<32x64xbf16, #fa_gpu.layout<registers = [8:1:1, 4:0:8], lanes = [8:1:8, 4:0:1], warps = [2:0:4]>>
  fa.store %t, %y[%b, %c0, %c0] below(%n, %c64) : tensor<32x64xbf16, #fa_gpu.layout<registers = [8:1:1, 4:0:8], lanes = [8:1:8, 4:0:1], warps = [2:0:4]>>, !a
  fa.store %u, %y[%b, %c0, %c0] below(%n, %c64) : tensor<32x64xbf16, #fa_gpu.layout<registers = [8:1:1, 4:0:8], lanes = [8:1:8, 4:0:1], warps = [2:0:4]>>, !a
  fa.store %v, %y[%b, %c0, %c0] below(%n, %c64) : tensor<32x64xbf16, #fa_gpu.layout<registers = [8:1:1, 4:0:8], lanes = [8:1:8, 4:0:1], warps = [2:0:4]>>, !a
  fa_gpu.return
}

fa_gpu.kernel @unused(%x: !a, %n: index) num_warps(2) min_blocks(1) alignments([16, 0]) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %xs = fa_gpu.alloc : !s
  fa_gpu.copy_async %x[%c0, %c0, %c0] below(%n, %c64) to %xs vector 16 : !a, !s
  fa_gpu.commit
  fa_gpu.wait 0
  fa_gpu.return
}
