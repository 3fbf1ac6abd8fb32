// RUN: fa-opt %s --fa-gpu-assign-shared-memory | FileCheck %s
// RUN: fa-opt %s --fa-gpu-assign-shared-memory --remarks-filter=fathom --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: not fa-opt %s --fa-gpu-assign-shared-memory=limit=8000 2>&1 | FileCheck %s --check-prefix=LIMIT

// LIMIT: error: expected kernel 'reuse' to need at most 8000 bytes of shared memory, got 9728; its largest buffers are 32x16xf32 in 2 stages (5120 bytes), 32x16xf32 (2560 bytes), 32x8xf32 (1536 bytes); take a smaller block_m or block_n, or fewer stages

#l = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 2:1:8], lanes = [4:1:2, 8:0:1], warps = [2:0:16]>
#n = #fa_gpu.layout<registers = [2:1:1, 2:0:8], lanes = [4:1:2, 8:0:1], warps = [2:0:16]>
#o = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 4:1:8], lanes = [4:1:2, 8:0:1], warps = [2:0:16]>
#p = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 9:1:8, 2:0:32], lanes = [4:1:2, 8:0:1], warps = [2:0:16]>
#q = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 8:1:8], lanes = [4:1:2, 8:0:1], warps = [2:0:16]>
!s = !fa_gpu.shared<32x16xf32, pitch = 20>
!ring = !fa_gpu.shared<32x16xf32, pitch = 20, stages = 2>
!t = !fa_gpu.shared<32x8xf32, pitch = 12>

// REMARK: remark: {{.*}}9728 bytes for 5 buffers of 11264 bytes in all, 0 barriers for it
// CHECK-LABEL: @reuse
fa_gpu.kernel @reuse(%x: memref<?x16xf32>, %n: index) num_warps(2) min_blocks(1) alignments([16, 0]) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %t = arith.constant dense<1.0> : tensor<32x16xf32, #l>
  %h = arith.constant dense<1.0> : tensor<32x8xf32, #n>
  // Written before the loop and read in it: its own bytes.
  // CHECK: fa_gpu.alloc at 5120 : <32x16xf32, pitch = 20>
  %q = fa_gpu.alloc : !s
  fa_gpu.store_shared %t, %q : tensor<32x16xf32, #l>, !s
  // A ring lives through its loop.
  // CHECK: fa_gpu.alloc at 0 : <32x16xf32, pitch = 20, stages = 2>
  %ring = fa_gpu.alloc : !ring
  fa_gpu.barrier
  scf.for %i = %c0 to %n step %c1 {
    %s0 = arith.remui %i, %c2 : index
    %r = fa_gpu.stage %ring[%s0] : !ring -> !s
    fa_gpu.store_shared %t, %r : tensor<32x16xf32, #l>, !s
    %qq = fa_gpu.load_shared %q : !s -> tensor<32x16xf32, #l>
    fa_gpu.barrier
    %rr = fa_gpu.load_shared %r : !s -> tensor<32x16xf32, #l>
    // Used one after the other in an iteration, with barriers between them.
    // CHECK: fa_gpu.alloc at 7680 : <32x8xf32, pitch = 12>
    %a = fa_gpu.alloc : !t
    fa_gpu.store_shared %h, %a : tensor<32x8xf32, #n>, !t
    fa_gpu.barrier
    %aa = fa_gpu.load_shared %a : !t -> tensor<32x8xf32, #n>
    fa_gpu.barrier
    // CHECK: fa_gpu.alloc at 7680 : <32x8xf32, pitch = 8>
    %b = fa_gpu.alloc : !fa_gpu.shared<32x8xf32, pitch = 8>
    fa_gpu.store_shared %aa, %b : tensor<32x8xf32, #n>, !fa_gpu.shared<32x8xf32, pitch = 8>
    fa_gpu.barrier
    %bb = fa_gpu.load_shared %b : !fa_gpu.shared<32x8xf32, pitch = 8> -> tensor<32x8xf32, #n>
    // No barrier after the buffer before was read.
    // CHECK: fa_gpu.alloc at 8704 : <32x8xf32, pitch = 8>
    %c = fa_gpu.alloc : !fa_gpu.shared<32x8xf32, pitch = 8>
    fa_gpu.store_shared %bb, %c : tensor<32x8xf32, #n>, !fa_gpu.shared<32x8xf32, pitch = 8>
    fa_gpu.barrier
    %cc = fa_gpu.load_shared %c : !fa_gpu.shared<32x8xf32, pitch = 8> -> tensor<32x8xf32, #n>
    fa_gpu.barrier
  }
  fa_gpu.return
}

// After the loop, a barrier lets a buffer lie over what the loop used.
// CHECK-LABEL: @after_loop
// CHECK: fa_gpu.alloc at 0 : <32x16xf32, pitch = 20>
// CHECK: fa_gpu.alloc at 0 : <32x8xf32, pitch = 12>
// CHECK: scf.for
// CHECK: }
// CHECK-NEXT: fa_gpu.barrier
// CHECK-NEXT: fa_gpu.store_shared
// CHECK-NEXT: fa_gpu.barrier
// CHECK-NEXT: fa_gpu.load_shared
fa_gpu.kernel @after_loop(%x: memref<?x16xf32>, %n: index) num_warps(2) min_blocks(1) alignments([16, 0]) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %t = arith.constant dense<1.0> : tensor<32x16xf32, #l>
  %h = arith.constant dense<1.0> : tensor<32x8xf32, #n>
  %a = fa_gpu.alloc : !s
  %b = fa_gpu.alloc : !t
  scf.for %i = %c0 to %n step %c1 {
    fa_gpu.barrier
    fa_gpu.store_shared %t, %a : tensor<32x16xf32, #l>, !s
    fa_gpu.barrier
    %aa = fa_gpu.load_shared %a : !s -> tensor<32x16xf32, #l>
  }
  fa_gpu.store_shared %h, %b : tensor<32x8xf32, #n>, !t
  fa_gpu.barrier
  %bb = fa_gpu.load_shared %b : !t -> tensor<32x8xf32, #n>
  fa_gpu.return
}

// Swizzled buffers begin at multiples of 1024 bytes.
// CHECK-LABEL: @swizzled
// CHECK: fa_gpu.alloc at 0 : <64x72xbf16, pitch = 72>
// CHECK: fa_gpu.alloc at 9216 : <32x64xbf16, swizzle = 128>
// CHECK: fa_gpu.alloc at 16384 : <32x32xbf16, swizzle = 64>
fa_gpu.kernel @swizzled(%x: memref<?x16xf32>, %n: index) num_warps(2) min_blocks(1) alignments([16, 0]) {
  %t = arith.constant dense<1.0> : tensor<64x72xbf16, #p>
  %h = arith.constant dense<1.0> : tensor<32x64xbf16, #q>
  %g = arith.constant dense<1.0> : tensor<32x32xbf16, #o>
  %a = fa_gpu.alloc : !fa_gpu.shared<64x72xbf16, pitch = 72>
  %b = fa_gpu.alloc : !fa_gpu.shared<32x64xbf16, swizzle = 128>
  %c = fa_gpu.alloc : !fa_gpu.shared<32x32xbf16, swizzle = 64>
  %e = fa_gpu.alloc : !fa_gpu.shared<32x32xbf16, pitch = 36>
  fa_gpu.store_shared %t, %a : tensor<64x72xbf16, #p>, !fa_gpu.shared<64x72xbf16, pitch = 72>
  fa_gpu.store_shared %h, %b : tensor<32x64xbf16, #q>, !fa_gpu.shared<32x64xbf16, swizzle = 128>
  fa_gpu.store_shared %g, %e : tensor<32x32xbf16, #o>, !fa_gpu.shared<32x32xbf16, pitch = 36>
  fa_gpu.store_shared %g, %c : tensor<32x32xbf16, #o>, !fa_gpu.shared<32x32xbf16, swizzle = 64>
  fa_gpu.barrier
  %aa = fa_gpu.load_shared %a : !fa_gpu.shared<64x72xbf16, pitch = 72> -> tensor<64x72xbf16, #p>
  %bb = fa_gpu.load_shared %b : !fa_gpu.shared<32x64xbf16, swizzle = 128> -> tensor<32x64xbf16, #q>
  %ee = fa_gpu.load_shared %e : !fa_gpu.shared<32x32xbf16, pitch = 36> -> tensor<32x32xbf16, #o>
  %cc = fa_gpu.load_shared %c : !fa_gpu.shared<32x32xbf16, swizzle = 64> -> tensor<32x32xbf16, #o>
  fa_gpu.return
}
