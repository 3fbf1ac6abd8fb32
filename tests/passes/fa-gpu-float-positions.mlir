// RUN: fa-opt %s --fa-gpu-float-positions | FileCheck %s
// RUN: fa-opt %s --fa-gpu-float-positions --remarks-filter=fathom --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

#acc = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 8:1:8], lanes = [4:1:2, 8:0:1], warps = [4:0:16]>
#row = #fa_gpu.layout<registers = [2:0:8], lanes = [4:r, 8:0:1], warps = [4:0:16]>
#col = #fa_gpu.layout<registers = [2:0:1, 8:0:8], lanes = [4:0:2, 8:r], warps = [4:r]>

// REMARK-COUNT-4: [Passed] {{.*}}"positions are counted in floats"
// REMARK-COUNT-2: [Missed] {{.*}}"the integers are no sum of positions"
// REMARK-NOT: remark:

// The distance of i + shift and j. What all entries share is one scalar, and
// the rows, fewer registers than the columns, are added to it.
// CHECK-LABEL: fa_gpu.kernel @distance
// CHECK-SAME: %[[I0:[a-z0-9]*]]: index, %[[J0:[a-z0-9]*]]: index, %[[SHIFT:[a-z0-9]*]]: index
// CHECK: %[[A:.*]] = arith.addi %[[I0]], %[[SHIFT]] : index
// CHECK: %[[D:.*]] = arith.subi %[[A]], %[[J0]] : index
// CHECK: %[[N:.*]] = arith.index_cast %[[D]] : index to i64
// CHECK: %[[F:.*]] = arith.sitofp %[[N]] : i64 to f32
// CHECK: %[[T:.*]] = fa_gpu.thread_offset : tensor<64xf32, #[[ROW:.*]]>
// CHECK: %[[R:.*]] = fa_gpu.register_offset : tensor<64xf32, #[[ROW]]>
// CHECK: %[[B:.*]] = fa.broadcast %[[F]] dim 0 : f32 -> tensor<64xf32, #[[ROW]]>
// CHECK: %[[BT:.*]] = arith.addf %[[B]], %[[T]]
// CHECK: %[[BR:.*]] = arith.addf %[[BT]], %[[R]]
// CHECK: %[[RR:.*]] = fa.broadcast %[[BR]] dim 0
// CHECK: %[[CT:.*]] = fa_gpu.thread_offset : tensor<64xf32, #[[COL:.*]]>
// CHECK: %[[CR:.*]] = fa_gpu.register_offset : tensor<64xf32, #[[COL]]>
// CHECK: %[[CTT:.*]] = fa.broadcast %[[CT]] dim 1
// CHECK: %[[S0:.*]] = arith.subf %[[RR]], %[[CTT]]
// CHECK: %[[CRR:.*]] = fa.broadcast %[[CR]] dim 1
// CHECK: %[[S:.*]] = arith.subf %[[S0]], %[[CRR]]
// CHECK: math.absf %[[S]]
// CHECK-NOT: arith.sitofp {{.*}} tensor
fa_gpu.kernel @distance(%i0: index, %j0: index, %shift: index, %o: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([0, 0, 0, 16, 0]) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %i = fa.iota %i0 : tensor<64xindex, #row>
  %ii = fa.broadcast %i dim 0 : tensor<64xindex, #row> -> tensor<64x64xindex, #acc>
  %ss = fa.broadcast %shift dim 0 : index -> tensor<64x64xindex, #acc>
  %a = arith.addi %ii, %ss : tensor<64x64xindex, #acc>
  %j = fa.iota %j0 : tensor<64xindex, #col>
  %jj = fa.broadcast %j dim 1 : tensor<64xindex, #col> -> tensor<64x64xindex, #acc>
  %d = arith.subi %a, %jj : tensor<64x64xindex, #acc>
  %w = arith.index_cast %d : tensor<64x64xindex, #acc> to tensor<64x64xi64, #acc>
  %m = math.absi %w : tensor<64x64xi64, #acc>
  %f = arith.sitofp %m : tensor<64x64xi64, #acc> to tensor<64x64xf32, #acc>
  fa.store %f, %o[%c0, %c0] below(%n, %c64) : tensor<64x64xf32, #acc>, memref<?x64xf32>
  fa_gpu.return
}

// A maximum with a constant; a line of sums; only a scalar.
// CHECK-LABEL: fa_gpu.kernel @others
// CHECK: %[[M:.*]] = arith.maxnumf
// CHECK: fa.store %[[M]]
// CHECK: arith.subf %{{.*}}, %{{.*}} : tensor<64xf32
// CHECK: %[[X:.*]] = arith.sitofp %{{.*}} : i64 to f32
// CHECK: %[[XX:.*]] = fa.broadcast %[[X]] dim 0 : f32 -> tensor<64x64xf32
// CHECK: fa.store %[[XX]]
fa_gpu.kernel @others(%i0: index, %x: i64, %o: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([0, 0, 16, 0]) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant dense<0> : tensor<64x64xi64, #acc>
  %five = arith.constant dense<5> : tensor<64xindex, #row>
  %i = fa.iota %i0 : tensor<64xindex, #row>
  %ii = fa.broadcast %i dim 0 : tensor<64xindex, #row> -> tensor<64x64xindex, #acc>
  %w = arith.index_cast %ii : tensor<64x64xindex, #acc> to tensor<64x64xi64, #acc>
  %m = arith.maxsi %w, %zero : tensor<64x64xi64, #acc>
  %f = arith.sitofp %m : tensor<64x64xi64, #acc> to tensor<64x64xf32, #acc>
  fa.store %f, %o[%c0, %c0] below(%n, %c64) : tensor<64x64xf32, #acc>, memref<?x64xf32>
  %k = arith.subi %five, %i : tensor<64xindex, #row>
  %kk = fa.broadcast %k dim 0 : tensor<64xindex, #row> -> tensor<64x64xindex, #acc>
  %kw = arith.index_cast %kk : tensor<64x64xindex, #acc> to tensor<64x64xi64, #acc>
  %g = arith.sitofp %kw : tensor<64x64xi64, #acc> to tensor<64x64xf32, #acc>
  fa.store %g, %o[%c64, %c0] below(%n, %c64) : tensor<64x64xf32, #acc>, memref<?x64xf32>
  %xx = fa.broadcast %x dim 0 : i64 -> tensor<64x64xi64, #acc>
  %h = arith.sitofp %xx : tensor<64x64xi64, #acc> to tensor<64x64xf32, #acc>
  fa.store %h, %o[%c64, %c0] below(%n, %c64) : tensor<64x64xf32, #acc>, memref<?x64xf32>
  fa_gpu.return
}

// Near misses: a product of positions; what might not fit 32 bits.
// CHECK-LABEL: fa_gpu.kernel @kept
// CHECK: arith.sitofp {{.*}} : tensor<64x64xi64
// CHECK: arith.sitofp {{.*}} : tensor<64x64xi32
fa_gpu.kernel @kept(%i0: index, %o: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([0, 16, 0]) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %i = fa.iota %i0 : tensor<64xindex, #row>
  %ii = fa.broadcast %i dim 0 : tensor<64xindex, #row> -> tensor<64x64xindex, #acc>
  %p = arith.muli %ii, %ii : tensor<64x64xindex, #acc>
  %w = arith.index_cast %p : tensor<64x64xindex, #acc> to tensor<64x64xi64, #acc>
  %f = arith.sitofp %w : tensor<64x64xi64, #acc> to tensor<64x64xf32, #acc>
  fa.store %f, %o[%c0, %c0] below(%n, %c64) : tensor<64x64xf32, #acc>, memref<?x64xf32>
  %v = arith.index_cast %ii : tensor<64x64xindex, #acc> to tensor<64x64xi32, #acc>
  %g = arith.sitofp %v : tensor<64x64xi32, #acc> to tensor<64x64xf32, #acc>
  fa.store %g, %o[%c64, %c0] below(%n, %c64) : tensor<64x64xf32, #acc>, memref<?x64xf32>
  fa_gpu.return
}
