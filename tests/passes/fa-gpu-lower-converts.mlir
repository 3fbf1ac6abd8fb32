// RUN: fa-opt %s --fa-gpu-lower-converts | FileCheck %s

#acc = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 4:1:8], lanes = [4:1:2, 8:0:1], warps = [2:0:16]>
#down = #fa_gpu.layout<registers = [2:0:1, 2:1:8, 4:0:8], lanes = [4:0:2, 8:1:1], warps = [2:1:16]>
#row = #fa_gpu.layout<registers = [2:0:8], lanes = [4:r, 8:0:1], warps = [2:0:16]>
#one = #fa_gpu.layout<registers = [], lanes = [32:0:1], warps = [2:r]>

// CHECK-LABEL: @convert
fa_gpu.kernel @convert(%x: memref<?x32xf32>, %r: memref<?xf32>) num_warps(2) min_blocks(1) alignments([16, 16]) {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  // CHECK: %[[T:.*]] = fa.load
  %t = fa.load %x[%c0, %c0] below(%c32, %c32) : memref<?x32xf32> -> tensor<32x32xf32, #acc>
  // CHECK: %[[S:.*]] = fa_gpu.alloc : <32x32xf32, pitch = 36>
  // CHECK-NEXT: fa_gpu.store_shared %[[T]], %[[S]]
  // CHECK-NEXT: %[[U:.*]] = fa_gpu.load_shared %[[S]] : <32x32xf32, pitch = 36> -> tensor<32x32xf32, #[[DOWN:.*]]>
  %u = fa_gpu.convert %t : tensor<32x32xf32, #acc> -> tensor<32x32xf32, #down>
  // The threads now hold pieces of columns: lines run down.
  // CHECK: %[[P:.*]] = arith.truncf %[[U]]
  %p = arith.truncf %u : tensor<32x32xf32, #down> to tensor<32x32xbf16, #down>
  // CHECK-NEXT: %[[S2:.*]] = fa_gpu.alloc : <32x32xbf16, pitch = 40>
  // CHECK-NEXT: %[[F:.*]] = fa_gpu.flip %[[S2]]
  // CHECK-NEXT: fa_gpu.store_shared %[[P]], %[[F]] : {{.*}}, <32x32xbf16, pitch = 40, flipped>
  // CHECK-NEXT: %[[Q:.*]] = fa_gpu.load_shared %[[F]]
  %q = fa_gpu.convert %p : tensor<32x32xbf16, #down> -> tensor<32x32xbf16, #acc>
  // Nothing to do.
  // CHECK-NEXT: arith.extf %[[Q]]
  %same = fa_gpu.convert %q : tensor<32x32xbf16, #acc> -> tensor<32x32xbf16, #acc>
  %e = arith.extf %same : tensor<32x32xbf16, #acc> to tensor<32x32xf32, #acc>
  // CHECK-NEXT: %[[M:.*]] = fa.reduce
  %m = fa.reduce max %e dim 1 : tensor<32x32xf32, #acc> -> tensor<32xf32, #row>
  // CHECK-NEXT: %[[S3:.*]] = fa_gpu.alloc : <32xf32, pitch = 32>
  // CHECK-NEXT: fa_gpu.store_shared %[[M]], %[[S3]]
  // CHECK-NEXT: fa_gpu.load_shared %[[S3]]
  %n = fa_gpu.convert %m : tensor<32xf32, #row> -> tensor<32xf32, #one>
  fa.store %n, %r[%c0] below(%c32) : tensor<32xf32, #one>, memref<?xf32>
  // CHECK-NOT: fa_gpu.barrier
  // CHECK-NOT: fa_gpu.convert
  fa_gpu.return
}
