// RUN: fa-opt %s --fa-gpu-overlap-products | FileCheck %s
// RUN: fa-opt %s --fa-gpu-overlap-products --fa-gpu-place-barriers | FileCheck %s --check-prefix=BARRIER

#l = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 8:1:8], lanes = [4:1:2, 8:0:1], warps = [4:0:16]>
!s = !fa_gpu.shared<64x64xbf16, swizzle = 128>
!t = tensor<64x64xf32, #l>
!h = tensor<64x64xbf16, #l>

// The second product needs nothing of the first: both start, then the first is
// waited for. The third runs until the fourth, later one is waited for.
// CHECK-LABEL: @round
// CHECK: scf.for
// CHECK: %[[S:.*]] = fa_gpu.wgmma
// CHECK-NEXT: %[[D:.*]] = fa_gpu.wgmma
// CHECK-NEXT: %[[SS:.*]] = fa_gpu.wgmma_wait 1 %[[S]]
// CHECK-NEXT: %[[P:.*]] = math.exp2 %[[SS]]
// CHECK-NEXT: arith.truncf
// CHECK-NEXT: %[[V:.*]] = fa_gpu.wgmma
// CHECK-NEXT: %[[DD:.*]] = fa_gpu.wgmma_wait 1 %[[D]]
// CHECK-NEXT: arith.mulf %[[P]], %[[DD]]
// CHECK-NEXT: %[[H:.*]] = arith.truncf
// CHECK-NEXT: fa_gpu.store_shared %[[H]]
// CHECK-NEXT: %[[Q:.*]] = fa_gpu.wgmma
// CHECK-NEXT: fa_gpu.wgmma_wait 1 %[[V]]
// CHECK-NEXT: %[[QQ:.*]] = fa_gpu.wgmma_wait 0 %[[Q]]
// CHECK-NEXT: arith.truncf %[[QQ]]
// Others may still read what the next round writes: after the wait is a barrier.
// BARRIER-LABEL: @round
// BARRIER: scf.for
// BARRIER: fa_gpu.barrier
// BARRIER-NEXT: fa_gpu.store_shared
// BARRIER-NEXT: fa_gpu.fence_async
// BARRIER-NEXT: fa_gpu.barrier
// BARRIER-NEXT: fa_gpu.wgmma
fa_gpu.kernel @round(%n: index) num_warps(4) min_blocks(1) alignments([0]) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant dense<0.0> : !t
  %q = fa_gpu.alloc : !s
  %k = fa_gpu.alloc : !s
  %ds = fa_gpu.alloc : !s
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> !t {
    %s0 = fa_gpu.wgmma %q, %k, %zero : !s, !s, !t
    %s = fa_gpu.wgmma_wait 0 %s0 : !t
    %p = math.exp2 %s : !t
    %h = arith.truncf %p : !t to !h
    %v0 = fa_gpu.wgmma %h, %k, %acc : !h, !s, !t
    %v = fa_gpu.wgmma_wait 0 %v0 : !t
    %d0 = fa_gpu.wgmma %k, %q, %zero : !s, !s, !t
    %d = fa_gpu.wgmma_wait 0 %d0 : !t
    %e = arith.mulf %p, %d : !t
    %f = arith.truncf %e : !t to !h
    fa_gpu.store_shared %f, %ds : !h, !s
    %x0 = fa_gpu.wgmma %ds, %q, %zero : !s, !s, !t
    %x = fa_gpu.wgmma_wait 0 %x0 : !t
    %g = arith.truncf %x : !t to !h
    scf.yield %v : !t
  }
  fa_gpu.return
}

// A wait stays before what may write the product's factors.
// CHECK-LABEL: @written
// CHECK: %[[S:.*]] = fa_gpu.wgmma
// CHECK-NEXT: fa_gpu.wgmma_wait 0 %[[S]]
// CHECK-NEXT: fa_gpu.store_shared
fa_gpu.kernel @written(%n: index) num_warps(4) min_blocks(1) alignments([0]) {
  %zero = arith.constant dense<0.0> : !t
  %h = arith.constant dense<0.0> : !h
  %q = fa_gpu.alloc : !s
  %k = fa_gpu.alloc : !s
  %s0 = fa_gpu.wgmma %q, %k, %zero : !s, !s, !t
  %s = fa_gpu.wgmma_wait 0 %s0 : !t
  fa_gpu.store_shared %h, %k : !h, !s
  %t = arith.addf %s, %s : !t
  fa_gpu.return
}
