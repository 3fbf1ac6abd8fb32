// RUN: fa-opt %s --fa-gpu-warpgroup-products | FileCheck %s
// RUN: fa-opt %s --fa-gpu-warpgroup-products --remarks-filter=fathom --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

#s = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 8:1:8], lanes = [4:1:2, 8:0:1], warps = [4:0:16]>
#o = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 12:1:8], lanes = [4:1:2, 8:0:1], warps = [4:0:16]>
#two = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 4:1:8, 2:0:32], lanes = [4:1:2, 8:0:1], warps = [2:0:16, 2:1:32]>
#odd = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 5:1:8], lanes = [4:1:2, 8:0:1], warps = [4:0:16]>
!q = !fa_gpu.shared<64x64xbf16, pitch = 72>
!qt = !fa_gpu.shared<64x64xbf16, pitch = 72, flipped>
!ks = !fa_gpu.shared<64x64xbf16, pitch = 72, stages = 2>
!v = !fa_gpu.shared<64x96xbf16, pitch = 104>
!w = !fa_gpu.shared<64x40xbf16, pitch = 40>

// CHECK-LABEL: @products
fa_gpu.kernel @products(%n: index) num_warps(4) min_blocks(1) alignments([0]) {
  %zero = arith.constant dense<0.0> : tensor<64x64xf32, #s>
  %zero_o = arith.constant dense<0.0> : tensor<64x96xf32, #o>
  %zero_two = arith.constant dense<0.0> : tensor<64x64xf32, #two>
  %zero_odd = arith.constant dense<0.0> : tensor<64x40xf32, #odd>
  %p = arith.constant dense<1.0> : tensor<64x64xbf16, #s>
  // The buffer of all stages and all views change together; 96 columns are
  // panels of 32.
  // CHECK: %[[Q:.*]] = fa_gpu.alloc : <64x64xbf16, swizzle = 128>
  // CHECK: %[[K:.*]] = fa_gpu.alloc : <64x64xbf16, swizzle = 128, stages = 2>
  // CHECK: %[[V:.*]] = fa_gpu.alloc : <64x96xbf16, swizzle = 64>
  %q = fa_gpu.alloc : !q
  %ks = fa_gpu.alloc : !ks
  %v = fa_gpu.alloc : !v
  // CHECK: fa_gpu.store_shared %{{.*}}, %[[Q]] : tensor<64x64xbf16, #{{.*}}>, <64x64xbf16, swizzle = 128>
  fa_gpu.store_shared %p, %q : tensor<64x64xbf16, #s>, !q
  %k = fa_gpu.stage %ks[%n] : !ks -> !q
  // CHECK: %[[KT:.*]] = fa_gpu.flip %{{.*}} : <64x64xbf16, swizzle = 128> -> <64x64xbf16, swizzle = 128, flipped>
  %kt = fa_gpu.flip %k : !q -> !qt
  // CHECK: %[[S:.*]] = fa_gpu.wgmma %[[Q]], %[[KT]], %{{.*}} : !fa_gpu.shared<64x64xbf16, swizzle = 128>, <64x64xbf16, swizzle = 128, flipped>, tensor<64x64xf32
  // CHECK: fa_gpu.wgmma_wait 0 %[[S]] : tensor<64x64xf32
  // REMARK: remark: {{.*}}started by four warps at a time
  %s = fa_gpu.mma %q, %kt, %zero : !q, !qt, tensor<64x64xf32, #s>
  // CHECK: fa_gpu.wgmma %{{.*}}, %[[V]], %{{.*}} : tensor<64x64xbf16, #{{.*}}>, <64x96xbf16, swizzle = 64>, tensor<64x96xf32
  %pp = arith.truncf %s : tensor<64x64xf32, #s> to tensor<64x64xbf16, #s>
  %o = fa_gpu.mma %pp, %v, %zero_o : tensor<64x64xbf16, #s>, !v, tensor<64x96xf32, #o>
  // Two warps along the rows stay alone.
  // CHECK: fa_gpu.mma
  // REMARK: remark: {{.*}}expected a multiple of four warps along the rows, 16 rows and at most 256 columns for each
  %t = fa_gpu.mma %q, %kt, %zero_two : !q, !qt, tensor<64x64xf32, #two>
  // Lines of 80 bytes have no panels.
  // CHECK: fa_gpu.mma
  // REMARK: remark: {{.*}}expected lines of whole panels of 32 bytes of 16-bit entries
  %w = fa_gpu.alloc : !w
  %u = fa_gpu.mma %p, %w, %zero_odd : tensor<64x64xbf16, #s>, !w, tensor<64x40xf32, #odd>
  fa_gpu.return
}
