// RUN: fa-opt %s --fa-gpu-pipeline-loads | FileCheck %s
// RUN: fa-opt %s --fa-gpu-pipeline-loads=stages=3 --fa-gpu-place-barriers | FileCheck %s --check-prefix=THREE
// RUN: fa-opt %s --fa-gpu-pipeline-loads=stages=1 --fa-gpu-place-barriers | FileCheck %s --check-prefix=ONE
// RUN: fa-opt %s --fa-gpu-pipeline-loads --remarks-filter=fathom --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

#l = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 2:1:8], lanes = [4:1:2, 8:0:1], warps = [2:0:16]>
!s = !fa_gpu.shared<32x16xbf16, pitch = 24>
!st = !fa_gpu.shared<16x32xbf16, pitch = 24, flipped>
!a = memref<?x16xbf16>

// REMARK-DAG: [Passed] {{.*}}"2 copies issued 1 iteration ahead"
// REMARK-DAG: [Missed] {{.*}}"it is issued on some paths only"
// REMARK-DAG: [Missed] {{.*}}"its place depends on what the iterations before computed"
// REMARK-DAG: [Missed] {{.*}}"the array is written meanwhile"
// REMARK-DAG: [Missed] {{.*}}"the buffer is used outside the loop"

// CHECK-LABEL: @both
// CHECK-SAME: (%[[X:.*]]: memref<?x16xbf16>, %[[Y:.*]]: memref<?x16xbf16>, %[[N:.*]]: index)
// CHECK: %[[XS:.*]] = fa_gpu.alloc : <32x16xbf16, pitch = 24, stages = 2>
// CHECK: %[[YS:.*]] = fa_gpu.alloc : <32x16xbf16, pitch = 24, stages = 2>
// CHECK: %[[ANY:.*]] = arith.cmpi slt, %c0, %[[N]]
// CHECK-NEXT: scf.if %[[ANY]] {
// CHECK: fa_gpu.copy_async %[[X]][%c0,
// CHECK: fa_gpu.copy_async %[[Y]][%c0,
// CHECK: }
// CHECK-NEXT: fa_gpu.commit
// CHECK-NEXT: scf.for %[[I:.*]] = %c0 to %[[N]] step %c32 iter_args(%[[S:.*]] = %{{.*}}) -> (index) {
// CHECK-NEXT: fa_gpu.wait 0
// CHECK: %[[INTO:.*]] = arith.select
// CHECK: %[[AHEAD:.*]] = arith.addi %[[I]], %c32
// CHECK: %[[MORE:.*]] = arith.cmpi slt, %[[AHEAD]], %[[N]]
// CHECK-NEXT: scf.if %[[MORE]] {
// CHECK-NEXT: %[[NEXT:.*]] = fa_gpu.stage %[[XS]][%[[INTO]]]
// CHECK-NEXT: fa_gpu.copy_async %[[X]][%[[AHEAD]], %c0] below(%[[N]], %c16) to %[[NEXT]] vector 16
// CHECK-NEXT: fa_gpu.stage %[[YS]][%[[INTO]]]
// CHECK-NEXT: fa_gpu.copy_async %[[Y]]
// CHECK-NEXT: }
// CHECK-NEXT: fa_gpu.commit
// CHECK-NOT: fa_gpu.wait
// CHECK: fa_gpu.stage %[[XS]][%[[S]]]
// CHECK: fa_gpu.stage %[[YS]][%[[S]]]
// CHECK: fa_gpu.flip
// CHECK: fa_gpu.mma
// CHECK: scf.yield
// CHECK: fa_gpu.wait 0
// CHECK: fa_gpu.return

// One barrier an iteration.
// THREE-LABEL: @both
// THREE: stages = 3>
// THREE: scf.if
// THREE: fa_gpu.commit
// THREE: scf.if
// THREE: fa_gpu.commit
// THREE: scf.for
// THREE: fa_gpu.wait 1
// THREE: fa_gpu.barrier
// THREE-NEXT: scf.if
// THREE: fa_gpu.commit
// THREE-NOT: fa_gpu.barrier
// THREE: fa_gpu.return
fa_gpu.kernel @both(%x: !a, %y: !a, %n: index) num_warps(2) min_blocks(1) alignments([16, 16, 0]) {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %c32 = arith.constant 32 : index
  %xs = fa_gpu.alloc : !s
  %ys = fa_gpu.alloc : !s
  %acc = arith.constant dense<0.0> : tensor<32x32xf32, #fa_gpu.layout<registers = [2:1:1, 2:0:8, 4:1:8], lanes = [4:1:2, 8:0:1], warps = [2:0:16]>>
  scf.for %i = %c0 to %n step %c32 {
    fa_gpu.copy_async %x[%i, %c0] below(%n, %c16) to %xs vector 16 : !a, !s
    fa_gpu.commit
    fa_gpu.wait 0
    fa_gpu.copy_async %y[%i, %c0] below(%n, %c16) to %ys vector 16 : !a, !s
    fa_gpu.commit
    fa_gpu.wait 0
    %yt = fa_gpu.flip %ys : !s -> !st
    %r = fa_gpu.mma %xs, %yt, %acc : !s, !st, tensor<32x32xf32, #fa_gpu.layout<registers = [2:1:1, 2:0:8, 4:1:8], lanes = [4:1:2, 8:0:1], warps = [2:0:16]>>
  }
  fa_gpu.return
}

// Nothing that could go ahead.
// CHECK-LABEL: @stay
// CHECK-NOT: stages = 2
// CHECK: fa_gpu.return
fa_gpu.kernel @stay(%x: !a, %y: !a, %n: index, %c: i1) num_warps(2) min_blocks(1) alignments([16, 16, 0, 0]) {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %c32 = arith.constant 32 : index
  %a = fa_gpu.alloc : !s
  %b = fa_gpu.alloc : !s
  %d = fa_gpu.alloc : !s
  %e = fa_gpu.alloc : !s
  %last = scf.for %i = %c0 to %n step %c32 iter_args(%p = %c0) -> (index) {
    scf.if %c {
      fa_gpu.copy_async %x[%i, %c0] below(%n, %c16) to %a vector 16 : !a, !s
    }
    fa_gpu.copy_async %x[%p, %c0] below(%n, %c16) to %b vector 16 : !a, !s
    fa_gpu.copy_async %y[%i, %c0] below(%n, %c16) to %d vector 16 : !a, !s
    fa_gpu.copy_async %x[%i, %c0] below(%n, %c16) to %e vector 16 : !a, !s
    fa_gpu.commit
    fa_gpu.wait 0
    %t = fa_gpu.load_shared %d : !s -> tensor<32x16xbf16, #l>
    fa.store %t, %y[%i, %c0] below(%n, %c16) : tensor<32x16xbf16, #l>, !a
    %q = arith.addi %p, %i : index
    scf.yield %q : index
  }
  %u = fa_gpu.load_shared %e : !s -> tensor<32x16xbf16, #l>
  fa.store %u, %y[%last, %c0] below(%n, %c16) : tensor<32x16xbf16, #l>, !a
  fa_gpu.return
}

// The wait for %a goes to its first use; the copy to %b stays under way.
// CHECK-LABEL: @sink
// CHECK: fa_gpu.copy_async
// CHECK-NEXT: fa_gpu.commit
// CHECK-NEXT: fa_gpu.copy_async
// CHECK-NEXT: fa_gpu.commit
// CHECK-NEXT: fa_gpu.wait 1
// CHECK-NEXT: fa_gpu.load_shared
// CHECK-NEXT: fa_gpu.wait 0
// CHECK-NEXT: fa_gpu.load_shared
fa_gpu.kernel @sink(%x: !a, %n: index) num_warps(2) min_blocks(1) alignments([16, 0]) {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %a = fa_gpu.alloc : !s
  %b = fa_gpu.alloc : !s
  fa_gpu.copy_async %x[%n, %c0] below(%n, %c16) to %a vector 16 : !a, !s
  fa_gpu.commit
  fa_gpu.wait 0
  fa_gpu.copy_async %x[%n, %c0] below(%n, %c16) to %b vector 16 : !a, !s
  fa_gpu.commit
  fa_gpu.wait 0
  %t = fa_gpu.load_shared %a : !s -> tensor<32x16xbf16, #l>
  %u = fa_gpu.load_shared %b : !s -> tensor<32x16xbf16, #l>
  fa.store %t, %x[%n, %c0] below(%n, %c16) : tensor<32x16xbf16, #l>, !a
  fa.store %u, %x[%n, %c0] below(%n, %c16) : tensor<32x16xbf16, #l>, !a
  fa_gpu.return
}

// One buffer each: %b's copy is issued when all have read the one before and
// %a is awaited; %a's for the next iteration when %b is. Two barriers.
// ONE-LABEL: @in_turn
// ONE: fa_gpu.commit
// ONE: scf.if
// ONE-NEXT: fa_gpu.copy_async %[[X:[a-z0-9]+]][
// ONE-NEXT: }
// ONE-NEXT: fa_gpu.commit
// ONE-NEXT: scf.for
// ONE-NEXT: fa_gpu.wait 0
// ONE-NEXT: fa_gpu.barrier
// ONE-NEXT: fa_gpu.copy_async
// ONE-NEXT: fa_gpu.commit
// ONE-NEXT: fa_gpu.load_shared
// ONE-NEXT: fa_gpu.wait 0
// ONE: fa_gpu.barrier
// ONE-NEXT: scf.if
// ONE-NEXT: fa_gpu.copy_async %[[X]][
// ONE: fa_gpu.commit
// ONE-NEXT: fa_gpu.load_shared
// ONE-NOT: fa_gpu.barrier
// ONE: fa_gpu.return
fa_gpu.kernel @in_turn(%x: !a, %y: !a, %n: index) num_warps(2) min_blocks(1) alignments([16, 16, 0]) {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %c32 = arith.constant 32 : index
  %a = fa_gpu.alloc : !s
  %b = fa_gpu.alloc : !s
  scf.for %i = %c0 to %n step %c32 {
    fa_gpu.copy_async %x[%i, %c0] below(%n, %c16) to %a vector 16 : !a, !s
    fa_gpu.commit
    fa_gpu.wait 0
    %t = fa_gpu.load_shared %a : !s -> tensor<32x16xbf16, #l>
    fa_gpu.copy_async %y[%i, %c0] below(%n, %c16) to %b vector 16 : !a, !s
    fa_gpu.commit
    fa_gpu.wait 0
    %u = fa_gpu.load_shared %b : !s -> tensor<32x16xbf16, #l>
  }
  fa_gpu.return
}

// The schedule of the function that launches it says how many stages.
// CHECK-LABEL: fa_gpu.kernel @said
// CHECK: stages = 4>
// THREE-LABEL: fa_gpu.kernel @said
// THREE: stages = 4>
fa_gpu.kernel @said(%x: !a, %n: index) num_warps(2) min_blocks(1) alignments([16, 0]) {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %c32 = arith.constant 32 : index
  %xs = fa_gpu.alloc : !s
  %acc = arith.constant dense<0.0> : tensor<32x32xf32, #fa_gpu.layout<registers = [2:1:1, 2:0:8, 4:1:8], lanes = [4:1:2, 8:0:1], warps = [2:0:16]>>
  scf.for %i = %c0 to %n step %c32 {
    fa_gpu.copy_async %x[%i, %c0] below(%n, %c16) to %xs vector 16 : !a, !s
    fa_gpu.commit
    fa_gpu.wait 0
    %xt = fa_gpu.flip %xs : !s -> !st
    %r = fa_gpu.mma %xs, %xt, %acc : !s, !st, tensor<32x32xf32, #fa_gpu.layout<registers = [2:1:1, 2:0:8, 4:1:8], lanes = [4:1:2, 8:0:1], warps = [2:0:16]>>
  }
  fa_gpu.return
}

func.func @host(%x: !a, %n: index) attributes {fa.schedule = #fa.schedule<block_m = 32, block_n = 32, stages = 4>} {
  fa_gpu.launch @said grid(%n) (%x, %n) : !a, index
  return
}
