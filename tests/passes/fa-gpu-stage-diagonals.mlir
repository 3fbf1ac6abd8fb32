// RUN: fa-opt %s --fa-gpu-stage-diagonals | FileCheck %s
// RUN: fa-opt %s --fa-gpu-stage-diagonals --remarks-filter=fathom --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

#acc = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 4:1:8], lanes = [4:1:2, 8:0:1], warps = [4:0:16]>
#row = #fa_gpu.layout<registers = [2:0:8], lanes = [4:r, 8:0:1], warps = [4:0:16]>
#col = #fa_gpu.layout<registers = [2:0:1, 4:0:8], lanes = [4:0:2, 8:r], warps = [4:r]>

// REMARK-COUNT-2: [Passed] {{.*}}"read once per diagonal"
// REMARK: [Missed] {{.*}}"its place depends on more than a distance"
// REMARK: [Missed] {{.*}}"its place depends on more than a distance"
// REMARK: [Missed] {{.*}}"its entries are of less than 32 bits"
// REMARK-NOT: remark:

// 64 rows and 32 columns have 95 diagonals; the line has an entry for each of
// the 128 threads. What is computed of the table is computed there.
// CHECK: #[[LINE:.*]] = #fa_gpu.layout<registers = [], lanes = [32:0:1], warps = [4:0:32]>
// CHECK-LABEL: fa_gpu.kernel @distance
// CHECK-SAME: %[[I0:[a-z0-9]*]]: index, %[[J0:[a-z0-9]*]]: index, %[[H:[a-z0-9]*]]: index
// CHECK: %[[BUF:.*]] = fa_gpu.alloc : <128xf32, pitch = 128>
// CHECK: %[[D:.*]] = arith.subi %[[I0]], %[[J0]] : index
// CHECK: %[[C:.*]] = arith.constant 31 : index
// CHECK: %[[FIRST:.*]] = arith.subi %[[D]], %[[C]] : index
// CHECK: %[[N:.*]] = fa.iota %[[FIRST]] : tensor<128xindex, #[[LINE]]>
// CHECK: %[[A:.*]] = math.absi %[[N]] : tensor<128xindex, #[[LINE]]>
// CHECK: %[[T:.*]] = fa.gather %{{.*}}[%[[H]], %[[A]]] : {{.*}} -> tensor<128xf32, #[[LINE]]>
// CHECK: %[[U:.*]] = arith.mulf %[[T]], %{{.*}} : tensor<128xf32, #[[LINE]]>
// CHECK: fa_gpu.store_shared %[[U]], %[[BUF]]
// CHECK: %[[V:.*]] = fa_gpu.load_diagonals %[[BUF]] : {{.*}} -> tensor<64x32xf32, #
// CHECK: fa.store %[[V]]
fa_gpu.kernel @distance(%i0: index, %j0: index, %h: index, %slope: f32, %table: memref<?x?xf32>, %o: memref<?x32xf32>, %n: index) num_warps(4) min_blocks(1) alignments([0, 0, 0, 0, 0, 16, 0]) {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %i = fa.iota %i0 : tensor<64xindex, #row>
  %ii = fa.broadcast %i dim 0 : tensor<64xindex, #row> -> tensor<64x32xindex, #acc>
  %j = fa.iota %j0 : tensor<32xindex, #col>
  %jj = fa.broadcast %j dim 1 : tensor<32xindex, #col> -> tensor<64x32xindex, #acc>
  %d = arith.subi %ii, %jj : tensor<64x32xindex, #acc>
  %a = math.absi %d : tensor<64x32xindex, #acc>
  %t = fa.gather %table[%h, %a] : memref<?x?xf32>, (index, tensor<64x32xindex, #acc>) -> tensor<64x32xf32, #acc>
  %s = fa.broadcast %slope dim 0 : f32 -> tensor<64x32xf32, #acc>
  %u = arith.mulf %t, %s : tensor<64x32xf32, #acc>
  fa.store %u, %o[%c0, %c0] below(%n, %c32) : tensor<64x32xf32, #acc>, memref<?x32xf32>
  fa_gpu.return
}

// Column less row: counted down.
// CHECK-LABEL: fa_gpu.kernel @down
// CHECK: %[[E:.*]] = fa.broadcast %{{.*}} dim 0 : index -> tensor<128xindex
// CHECK: %[[N:.*]] = fa.iota %{{.*}} : tensor<128xindex
// CHECK: %[[P:.*]] = arith.subi %[[E]], %[[N]] : tensor<128xindex
// CHECK: fa.gather %{{.*}}[%[[P]]]
// CHECK: fa_gpu.load_diagonals
fa_gpu.kernel @down(%i0: index, %j0: index, %table: memref<?xf32>, %o: memref<?x32xf32>, %n: index) num_warps(4) min_blocks(1) alignments([0, 0, 0, 16, 0]) {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %shift = arith.constant dense<100> : tensor<64x32xindex, #acc>
  %i = fa.iota %i0 : tensor<64xindex, #row>
  %ii = fa.broadcast %i dim 0 : tensor<64xindex, #row> -> tensor<64x32xindex, #acc>
  %j = fa.iota %j0 : tensor<32xindex, #col>
  %jj = fa.broadcast %j dim 1 : tensor<32xindex, #col> -> tensor<64x32xindex, #acc>
  %e = arith.addi %jj, %shift : tensor<64x32xindex, #acc>
  %d = arith.subi %e, %ii : tensor<64x32xindex, #acc>
  %t = fa.gather %table[%d] : memref<?xf32>, (tensor<64x32xindex, #acc>) -> tensor<64x32xf32, #acc>
  fa.store %t, %o[%c0, %c0] below(%n, %c32) : tensor<64x32xf32, #acc>, memref<?x32xf32>
  fa_gpu.return
}

// Near misses: the column alone; row plus column; halves.
// CHECK-LABEL: fa_gpu.kernel @kept
// CHECK-NOT: fa_gpu.load_diagonals
fa_gpu.kernel @kept(%i0: index, %j0: index, %table: memref<?xf32>, %half: memref<?xbf16>, %o: memref<?x32xf32>, %p: memref<?x32xbf16>, %n: index) num_warps(4) min_blocks(1) alignments([0, 0, 0, 0, 16, 16, 0]) {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %i = fa.iota %i0 : tensor<64xindex, #row>
  %ii = fa.broadcast %i dim 0 : tensor<64xindex, #row> -> tensor<64x32xindex, #acc>
  %j = fa.iota %j0 : tensor<32xindex, #col>
  %jj = fa.broadcast %j dim 1 : tensor<32xindex, #col> -> tensor<64x32xindex, #acc>
  %s = arith.addi %ii, %jj : tensor<64x32xindex, #acc>
  %d = arith.subi %ii, %jj : tensor<64x32xindex, #acc>
  %t = fa.gather %table[%jj] : memref<?xf32>, (tensor<64x32xindex, #acc>) -> tensor<64x32xf32, #acc>
  fa.store %t, %o[%c0, %c0] below(%n, %c32) : tensor<64x32xf32, #acc>, memref<?x32xf32>
  %u = fa.gather %table[%s] : memref<?xf32>, (tensor<64x32xindex, #acc>) -> tensor<64x32xf32, #acc>
  fa.store %u, %o[%c0, %c0] below(%n, %c32) : tensor<64x32xf32, #acc>, memref<?x32xf32>
  %v = fa.gather %half[%d] : memref<?xbf16>, (tensor<64x32xindex, #acc>) -> tensor<64x32xbf16, #acc>
  fa.store %v, %p[%c0, %c0] below(%n, %c32) : tensor<64x32xbf16, #acc>, memref<?x32xbf16>
  fa_gpu.return
}
