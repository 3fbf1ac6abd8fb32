// The last product of a round runs in the next, where warps of their own copy.
// RUN: fa-opt %s --fa-gpu-pipeline-loads --fa-gpu-bulk-copies --fa-gpu-warpgroup-products --fa-gpu-specialize-warps --fa-gpu-delay-products | FileCheck %s
// RUN: fa-opt %s --fa-gpu-pipeline-loads --fa-gpu-bulk-copies --fa-gpu-warpgroup-products --fa-gpu-specialize-warps --fa-gpu-delay-products --remarks-filter=fathom --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: fa-opt %s --fa-gpu-warpgroup-products --fa-gpu-delay-products --remarks-filter=fathom --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=ALONE

!a = memref<?x?x64xbf16, strided<[?, ?, ?], offset: ?>>
!s = !fa_gpu.shared<128x64xbf16, pitch = 72>
!st = !fa_gpu.shared<64x128xbf16, pitch = 72, flipped>
#s = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 16:1:8], lanes = [4:1:2, 8:0:1], warps = [8:0:16]>
#o = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 8:1:8], lanes = [4:1:2, 8:0:1], warps = [8:0:16]>
!ts = tensor<128x128xf32, #s>
!to = tensor<128x64xf32, #o>

// CHECK-LABEL: fa_gpu.kernel @rounds(
// CHECK: fa_gpu.roles
// CHECK: scf.if %{{.*}} -> (tensor<128x64xf32
// The first round, up to its second product.
// CHECK: fa_gpu.wgmma
// CHECK-NEXT: fa_gpu.wgmma_wait 0
// CHECK: %[[P0:.*]] = arith.truncf
// CHECK-NOT: fa_gpu.wgmma
// CHECK: %[[L:.*]]:{{.*}} = scf.for {{.*}} iter_args(%[[O:.*]] = %{{.*}}, %[[STAGE:.*]] = %{{.*}}, %{{.*}} = %{{.*}}, %[[P:.*]] = %[[P0]], %[[STAGE0:.*]] = %c0, %[[PARITY0:.*]] = %{{.*}})
// CHECK: fa_gpu.wait_phase %[[PARITY:.*]] of %[[K:.*]][%[[STAGE]]]
// CHECK: %[[S:.*]] = fa_gpu.wgmma
// CHECK: fa_gpu.wait_phase %[[PARITY0]] of %[[V:.*]][%[[STAGE0]]]
// CHECK: %[[U:.*]] = fa_gpu.wgmma %[[P]], %{{.*}}, %[[O]]
// CHECK-NEXT: %[[SS:.*]] = fa_gpu.wgmma_wait 1 %[[S]]
// CHECK: math.exp2 %[[SS]]
// CHECK: %[[P1:.*]] = arith.truncf
// CHECK: %[[UU:.*]] = fa_gpu.wgmma_wait 0 %[[U]]
// CHECK-NEXT: fa_gpu.arrive %{{.*}}[%[[STAGE0]]]
// CHECK-NEXT: %[[HALF:.*]] = arith.mulf %[[UU]]
// CHECK: scf.yield %[[HALF]], %{{.*}}, %{{.*}}, %[[P1]], %[[STAGE]], %[[PARITY]]
// The last product.
// CHECK: %[[W:.*]] = fa_gpu.wgmma %[[L]]#3, %{{.*}}, %[[L]]#0
// CHECK-NEXT: %[[WW:.*]] = fa_gpu.wgmma_wait 0 %[[W]]
// CHECK-NEXT: fa_gpu.arrive
// CHECK: scf.yield %[[WW]]
// CHECK: } else {
// CHECK: }, {
// CHECK-NOT: fa_gpu.wgmma
// CHECK: fa_gpu.return
// REMARK: [Passed] fa-gpu-delay-products | Category:fathom | Remark="the last product runs in the next round"
// ALONE: [Missed] fa-gpu-delay-products | Category:fathom | Remark="a round writes memory"
fa_gpu.kernel @rounds(%x: !a, %k: !a, %v: !a, %z: memref<?x64xf32>, %n: index) num_warps(8) min_blocks(1) alignments([16, 16, 16, 16, 0]) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %b = fa_gpu.block_id
  %xs = fa_gpu.alloc : !s
  %ks = fa_gpu.alloc : !s
  %vs = fa_gpu.alloc : !s
  %zero = arith.constant dense<0.0> : !ts
  %zero_o = arith.constant dense<0.0> : !to
  %half = arith.constant dense<0.5> : !to
  fa_gpu.copy_async %x[%b, %c0, %c0] below(%n, %c64) to %xs vector 16 : !a, !s
  fa_gpu.commit
  fa_gpu.wait 0
  %sum = scf.for %i = %c0 to %n step %c128 iter_args(%o = %zero_o) -> !to {
    fa_gpu.copy_async %k[%b, %i, %c0] below(%n, %c64) to %ks vector 16 : !a, !s
    fa_gpu.commit
    fa_gpu.wait 0
    fa_gpu.copy_async %v[%b, %i, %c0] below(%n, %c64) to %vs vector 16 : !a, !s
    fa_gpu.commit
    fa_gpu.wait 0
    %kt = fa_gpu.flip %ks : !s -> !st
    %t = fa_gpu.mma %xs, %kt, %zero : !s, !st, !ts
    %p = math.exp2 %t : !ts
    %h = arith.truncf %p : !ts to tensor<128x128xbf16, #s>
    %oo = arith.mulf %o, %half : !to
    %r = fa_gpu.mma %h, %vs, %oo : tensor<128x128xbf16, #s>, !s, !to
    scf.yield %r : !to
  }
  fa.store %sum, %z[%b, %c0] below(%n, %c64) : !to, memref<?x64xf32>
  fa_gpu.return
}

func.func @host(%x: !a, %z: memref<?x64xf32>, %n: index) {
  fa_gpu.launch @rounds grid(%n) (%x, %x, %x, %z, %n) : !a, !a, !a, memref<?x64xf32>, index
  return
}
