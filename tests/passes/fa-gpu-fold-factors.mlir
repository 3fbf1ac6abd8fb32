// RUN: fa-opt %s --fa-gpu-fold-factors | FileCheck %s
// RUN: fa-opt %s --fa-gpu-fold-factors --remarks-filter=fathom --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

#acc = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 8:1:8], lanes = [4:1:2, 8:0:1], warps = [4:0:16]>

// REMARK-COUNT-4: [Passed] {{.*}}"constant factors are one"
// REMARK: [Missed] {{.*}}"nothing here is rounded to 16 bits"
// REMARK-NOT: remark:

// CHECK-LABEL: fa_gpu.kernel @fold
// CHECK: %[[X:.*]] = fa.load
// CHECK: %[[Y:.*]] = fa.load
fa_gpu.kernel @fold(%x: memref<?x64xf32>, %o: memref<?x64xbf16>, %n: index) num_warps(4) min_blocks(1) alignments([16, 16, 0]) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %x0 = fa.load %x[%c0, %c0] below(%n, %c64) : memref<?x64xf32> -> tensor<64x64xf32, #acc>
  %y0 = fa.load %x[%c64, %c0] below(%n, %c64) : memref<?x64xf32> -> tensor<64x64xf32, #acc>
  %scale = arith.constant dense<0.5> : tensor<64x64xf32, #acc>
  %four = arith.constant 4.0 : f32
  %cap = fa.broadcast %four dim 0 : f32 -> tensor<64x64xf32, #acc>

  // Scaled and divided.
  // CHECK: %[[E:.*]] = arith.constant dense<1.250000e-01>
  // CHECK: %[[A:.*]] = arith.mulf %[[X]], %[[E]]
  // CHECK: arith.truncf %[[A]]
  %a0 = arith.mulf %scale, %x0 : tensor<64x64xf32, #acc>
  %a = arith.divf %a0, %cap : tensor<64x64xf32, #acc>
  %ah = arith.truncf %a : tensor<64x64xf32, #acc> to tensor<64x64xbf16, #acc>
  fa.store %ah, %o[%c0, %c0] below(%n, %c64) : tensor<64x64xbf16, #acc>, memref<?x64xbf16>

  // Constants that cancel out, among other factors.
  // CHECK: %[[B:.*]] = arith.mulf %[[X]], %[[Y]]
  // CHECK-NEXT: arith.truncf %[[B]]
  %b0 = arith.mulf %x0, %cap : tensor<64x64xf32, #acc>
  %b1 = arith.mulf %b0, %y0 : tensor<64x64xf32, #acc>
  %b = arith.divf %b1, %cap : tensor<64x64xf32, #acc>
  %bh = arith.truncf %b : tensor<64x64xf32, #acc> to tensor<64x64xbf16, #acc>
  fa.store %bh, %o[%c0, %c0] below(%n, %c64) : tensor<64x64xbf16, #acc>, memref<?x64xbf16>

  // A quotient alone; a scaled tile that others read too.
  // CHECK: %[[Q:.*]] = arith.constant dense<2.500000e-01>
  // CHECK: %[[C:.*]] = arith.mulf %[[Y]], %[[Q]]
  // CHECK: %[[E2:.*]] = arith.constant dense<6.250000e-02>
  // CHECK: %[[D:.*]] = arith.mulf %[[Y]], %[[E2]]
  %c = arith.divf %y0, %cap : tensor<64x64xf32, #acc>
  %d = arith.divf %c, %cap : tensor<64x64xf32, #acc>
  %e = arith.addf %c, %d : tensor<64x64xf32, #acc>
  %eh = arith.truncf %e : tensor<64x64xf32, #acc> to tensor<64x64xbf16, #acc>
  fa.store %eh, %o[%c0, %c0] below(%n, %c64) : tensor<64x64xbf16, #acc>, memref<?x64xbf16>

  // Near misses: one constant; divided by entries; a factor without inverse.
  // CHECK: arith.divf %{{.*}}, %[[Y]]
  // CHECK: arith.divf
  %zero = arith.constant dense<0.0> : tensor<64x64xf32, #acc>
  %f = arith.mulf %x0, %scale : tensor<64x64xf32, #acc>
  %g = arith.divf %f, %y0 : tensor<64x64xf32, #acc>
  %h = arith.divf %g, %zero : tensor<64x64xf32, #acc>
  %hh = arith.truncf %h : tensor<64x64xf32, #acc> to tensor<64x64xbf16, #acc>
  fa.store %hh, %o[%c0, %c0] below(%n, %c64) : tensor<64x64xbf16, #acc>, memref<?x64xbf16>
  fa_gpu.return
}

// CHECK-LABEL: fa_gpu.kernel @exact
// CHECK: %[[THREE:.*]] = arith.constant dense<3.0{{.*}}>
// CHECK: arith.divf %{{.*}}, %[[THREE]]
fa_gpu.kernel @exact(%x: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 0]) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %one = arith.constant 3.0 : f32
  %three = fa.broadcast %one dim 0 : f32 -> tensor<64x64xf32, #acc>
  %t = fa.load %x[%c0, %c0] below(%n, %c64) : memref<?x64xf32> -> tensor<64x64xf32, #acc>
  %q = arith.divf %t, %three : tensor<64x64xf32, #acc>
  fa.store %q, %x[%c0, %c0] below(%n, %c64) : tensor<64x64xf32, #acc>, memref<?x64xf32>
  fa_gpu.return
}
