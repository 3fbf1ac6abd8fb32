// RUN: fa-opt %s --fa-gpu-approximate-functions | FileCheck %s
// RUN: fa-opt %s --fa-gpu-approximate-functions --remarks-filter=fathom --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

#acc = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 8:1:8], lanes = [4:1:2, 8:0:1], warps = [4:0:16]>

// REMARK: [Passed] {{.*}}"1 by the hardware's tanh"
// REMARK: [Missed] {{.*}}"nothing here is rounded to 16 bits: tanh stays exact"
// REMARK-NOT: remark:

// A tile's; not one scalar's, which costs nothing.
// CHECK-LABEL: fa_gpu.kernel @rounded
// CHECK: math.tanh %{{.*}} fastmath<afn> : tensor<64x64xf32
// CHECK: math.tanh %{{.*}} : f32
fa_gpu.kernel @rounded(%x: memref<?x64xf32>, %s: f32, %o: memref<?x64xbf16>, %n: index) num_warps(4) min_blocks(1) alignments([16, 0, 16, 0]) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %t = fa.load %x[%c0, %c0] below(%n, %c64) : memref<?x64xf32> -> tensor<64x64xf32, #acc>
  %y = math.tanh %t : tensor<64x64xf32, #acc>
  %u = math.tanh %s : f32
  %uu = fa.broadcast %u dim 0 : f32 -> tensor<64x64xf32, #acc>
  %z = arith.addf %y, %uu : tensor<64x64xf32, #acc>
  %h = arith.truncf %z : tensor<64x64xf32, #acc> to tensor<64x64xbf16, #acc>
  fa.store %h, %o[%c0, %c0] below(%n, %c64) : tensor<64x64xbf16, #acc>, memref<?x64xbf16>
  fa_gpu.return
}

// CHECK-LABEL: fa_gpu.kernel @exact
// CHECK: math.tanh %{{.*}} : tensor<64x64xf32
fa_gpu.kernel @exact(%x: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 0]) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %t = fa.load %x[%c0, %c0] below(%n, %c64) : memref<?x64xf32> -> tensor<64x64xf32, #acc>
  %y = math.tanh %t : tensor<64x64xf32, #acc>
  fa.store %y, %x[%c0, %c0] below(%n, %c64) : tensor<64x64xf32, #acc>, memref<?x64xf32>
  fa_gpu.return
}
