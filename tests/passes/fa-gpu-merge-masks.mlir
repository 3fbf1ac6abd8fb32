// RUN: fa-opt %s --fa-gpu-merge-masks | FileCheck %s
// RUN: fa-opt %s --fa-gpu-merge-masks --remarks-filter=fathom --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

#acc = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 8:1:8], lanes = [4:1:2, 8:0:1], warps = [4:0:16]>
#row = #fa_gpu.layout<registers = [2:0:8], lanes = [4:r, 8:0:1], warps = [4:0:16]>
#col = #fa_gpu.layout<registers = [2:0:1, 8:0:8], lanes = [4:0:2, 8:r], warps = [4:r]>

// REMARK: [Passed] {{.*}}"one comparison for several bounds of a place"
// REMARK: [Passed] {{.*}}"one comparison for several bounds of a place"
// REMARK: [Missed] {{.*}}"there are no two bounds of one place"
// REMARK-NOT: remark:

// Columns below %n, up to the row's own number, in rows below %m.
// CHECK-LABEL: fa_gpu.kernel @causal
// CHECK-DAG: %[[ROW:.*]] = fa.iota %arg2 : tensor<64xindex
// CHECK-DAG: %[[PLACE:.*]] = fa.iota %c0{{.*}} : tensor<64xindex
// CHECK: %[[HOLDS:.*]] = arith.cmpi sgt, {{.*}} : tensor<64xindex
// CHECK: %[[LEAST:.*]] = arith.minsi
// CHECK: %[[HIGH:.*]] = arith.minsi %[[LEAST]], {{.*}} : tensor<64xindex
// CHECK: %[[CUT:.*]] = arith.maxsi %[[HIGH]], {{.*}} : tensor<64xindex
// CHECK: %[[END:.*]] = arith.select %[[HOLDS]], %[[CUT]], %{{.*}} : tensor<64xi1
// CHECK-DAG: %[[P:.*]] = fa.broadcast %[[PLACE]] dim 1
// CHECK-DAG: %[[E:.*]] = fa.broadcast %[[END]] dim 0
// CHECK: %[[MASK:.*]] = arith.cmpi slt, %[[P]], %[[E]] : tensor<64x64xindex
// CHECK-NOT: arith.andi
// CHECK: arith.select %[[MASK]]
fa_gpu.kernel @causal(%x: memref<?x64xf32>, %j0: index, %i0: index, %n: index, %m: index) num_warps(4) min_blocks(1) alignments([16, 0, 0, 0, 0]) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant dense<0.0> : tensor<64x64xf32, #acc>
  %t = fa.load %x[%c0, %c0] below(%n, %c64) : memref<?x64xf32> -> tensor<64x64xf32, #acc>
  %i = fa.iota %i0 : tensor<64xindex, #row>
  %j = fa.iota %j0 : tensor<64xindex, #col>
  %ii = fa.broadcast %i dim 0 : tensor<64xindex, #row> -> tensor<64x64xindex, #acc>
  %jj = fa.broadcast %j dim 1 : tensor<64xindex, #col> -> tensor<64x64xindex, #acc>
  %nn = fa.broadcast %n dim 0 : index -> tensor<64x64xindex, #acc>
  %mm = fa.broadcast %m dim 0 : index -> tensor<64x64xindex, #acc>
  %a = arith.cmpi slt, %jj, %nn : tensor<64x64xindex, #acc>
  %b = arith.cmpi slt, %ii, %mm : tensor<64x64xindex, #acc>
  %ab = arith.andi %a, %b : tensor<64x64xi1, #acc>
  %c = arith.cmpi sle, %jj, %ii : tensor<64x64xindex, #acc>
  %mask = arith.andi %ab, %c : tensor<64x64xi1, #acc>
  %r = arith.select %mask, %t, %zero : tensor<64x64xi1, #acc>, tensor<64x64xf32, #acc>
  fa.store %r, %x[%c0, %c0] below(%n, %c64) : tensor<64x64xf32, #acc>, memref<?x64xf32>
  fa_gpu.return
}

// Bounds from below merge too; what bounds no place stays.
// CHECK-LABEL: fa_gpu.kernel @window
// CHECK: %[[BELOW:.*]] = arith.cmpi sgt, %{{.*}}, %{{.*}} : tensor<64x64xindex
// CHECK: %[[SAME:.*]] = arith.andi %[[BELOW]], %{{.*}} : tensor<64x64xi1
// CHECK: arith.select %[[SAME]]
fa_gpu.kernel @window(%x: memref<?x64xf32>, %j0: index, %i0: index, %n: index, %m: index) num_warps(4) min_blocks(1) alignments([16, 0, 0, 0, 0]) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant dense<0.0> : tensor<64x64xf32, #acc>
  %t = fa.load %x[%c0, %c0] below(%n, %c64) : memref<?x64xf32> -> tensor<64x64xf32, #acc>
  %i = fa.iota %i0 : tensor<64xindex, #row>
  %j = fa.iota %j0 : tensor<64xindex, #col>
  %ii = fa.broadcast %i dim 0 : tensor<64xindex, #row> -> tensor<64x64xindex, #acc>
  %jj = fa.broadcast %j dim 1 : tensor<64xindex, #col> -> tensor<64x64xindex, #acc>
  %nn = fa.broadcast %n dim 0 : index -> tensor<64x64xindex, #acc>
  %a = arith.cmpi sge, %jj, %nn : tensor<64x64xindex, #acc>
  %b = arith.cmpi slt, %ii, %jj : tensor<64x64xindex, #acc>
  %ab = arith.andi %a, %b : tensor<64x64xi1, #acc>
  %c = arith.cmpf olt, %t, %zero : tensor<64x64xf32, #acc>
  %mask = arith.andi %ab, %c : tensor<64x64xi1, #acc>
  %r = arith.select %mask, %t, %zero : tensor<64x64xi1, #acc>, tensor<64x64xf32, #acc>
  fa.store %r, %x[%c0, %c0] below(%n, %c64) : tensor<64x64xf32, #acc>, memref<?x64xf32>
  fa_gpu.return
}

// Near miss: an equality bounds nothing, and one bound is as good as it is.
// CHECK-LABEL: fa_gpu.kernel @one
// CHECK-COUNT-2: arith.cmpi
// CHECK: arith.andi
fa_gpu.kernel @one(%x: memref<?x64xf32>, %j0: index, %i0: index, %n: index, %m: index) num_warps(4) min_blocks(1) alignments([16, 0, 0, 0, 0]) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant dense<0.0> : tensor<64x64xf32, #acc>
  %t = fa.load %x[%c0, %c0] below(%n, %c64) : memref<?x64xf32> -> tensor<64x64xf32, #acc>
  %i = fa.iota %i0 : tensor<64xindex, #row>
  %j = fa.iota %j0 : tensor<64xindex, #col>
  %ii = fa.broadcast %i dim 0 : tensor<64xindex, #row> -> tensor<64x64xindex, #acc>
  %jj = fa.broadcast %j dim 1 : tensor<64xindex, #col> -> tensor<64x64xindex, #acc>
  %a = arith.cmpi ne, %jj, %ii : tensor<64x64xindex, #acc>
  %b = arith.cmpi slt, %jj, %ii : tensor<64x64xindex, #acc>
  %mask = arith.andi %a, %b : tensor<64x64xi1, #acc>
  %r = arith.select %mask, %t, %zero : tensor<64x64xi1, #acc>, tensor<64x64xf32, #acc>
  fa.store %r, %x[%c0, %c0] below(%n, %c64) : tensor<64x64xf32, #acc>, memref<?x64xf32>
  fa_gpu.return
}
