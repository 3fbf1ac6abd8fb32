// RUN: fa-opt %s --fa-gpu-order-grid | FileCheck %s
// RUN: fa-opt %s --fa-gpu-order-grid --remarks-filter=fathom --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// REMARK: [Passed] {{.*}}"the longest loops start first"
// REMARK: [Passed] {{.*}}"the longest loops start first"
// REMARK: [Passed] {{.*}}"the longest loops start first"
// REMARK: [Missed] {{.*}}"the longest loops come first already"
// REMARK: [Missed] {{.*}}"all CTAs loop equally long"
// REMARK: [Missed] {{.*}}"no telling how long the loops are"
// REMARK: [Missed] {{.*}}"no part of the CTA's number may be counted backwards"

// A causal mask: row block i sees the keys below 64 i + 64.
// CHECK-LABEL: fa_gpu.kernel @rising
// CHECK: %[[B:.*]] = fa_gpu.block_id
// CHECK: %[[I:.*]] = arith.remui %[[B]], %[[N:.*]] : index
// CHECK: %[[LAST:.*]] = arith.subi %[[N]], %c1
// CHECK: %[[R:.*]] = arith.subi %[[LAST]], %[[I]]
// CHECK: arith.divui %[[B]], %[[N]]
// CHECK: arith.muli %[[R]], %c64
fa_gpu.kernel @rising(%count: index, %n: index) num_warps(4) min_blocks(1) alignments([0, 0]) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %b = fa_gpu.block_id
  %i = arith.remui %b, %count : index
  %h = arith.divui %b, %count : index
  %row = arith.muli %i, %c64 : index
  %end = arith.addi %row, %c64 : index
  %last = arith.minsi %end, %n : index
  scf.for %j = %c0 to %last step %c64 {
  }
  fa_gpu.return
}

// Operands swapped, and the loop starts later where i is smaller.
// CHECK-LABEL: fa_gpu.kernel @permuted
// CHECK: %[[I:.*]] = arith.remui
// CHECK: arith.subi %{{.*}}, %[[I]]
fa_gpu.kernel @permuted(%count: index, %n: index) num_warps(4) min_blocks(1) alignments([0, 0]) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %b = fa_gpu.block_id
  %i = arith.remui %b, %count : index
  %row = arith.muli %c64, %i : index
  %start = arith.subi %n, %row : index
  %from = arith.maxsi %c0, %start : index
  scf.for %j = %from to %n step %c64 {
  }
  fa_gpu.return
}

// Divided in 32 bits.
// CHECK-LABEL: fa_gpu.kernel @narrow
// CHECK: %[[I:.*]] = arith.index_cast %{{.*}} : i32 to index
// CHECK: %[[LAST:.*]] = arith.subi %arg0, %c1
// CHECK: %[[R:.*]] = arith.subi %[[LAST]], %[[I]]
// CHECK: arith.muli %[[R]], %c64
fa_gpu.kernel @narrow(%count: index, %n: index) num_warps(4) min_blocks(1) alignments([0, 0]) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %b = fa_gpu.block_id
  %b32 = arith.index_cast %b : index to i32
  %count32 = arith.index_cast %count : index to i32
  %i32 = arith.remui %b32, %count32 : i32
  %i = arith.index_cast %i32 : i32 to index
  %row = arith.muli %i, %c64 : index
  scf.for %j = %c0 to %row step %c64 {
  }
  fa_gpu.return
}

// Near misses.
// CHECK-LABEL: fa_gpu.kernel @falling
// CHECK-NOT: arith.subi %{{.*}}, %c1
fa_gpu.kernel @falling(%count: index, %n: index) num_warps(4) min_blocks(1) alignments([0, 0]) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %b = fa_gpu.block_id
  %i = arith.remui %b, %count : index
  %row = arith.muli %i, %c64 : index
  scf.for %j = %row to %n step %c64 {
  }
  fa_gpu.return
}

// CHECK-LABEL: fa_gpu.kernel @equal
// CHECK-NOT: arith.subi
fa_gpu.kernel @equal(%count: index, %n: index) num_warps(4) min_blocks(1) alignments([0, 0]) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %b = fa_gpu.block_id
  %i = arith.remui %b, %count : index
  scf.for %j = %c0 to %n step %c64 {
  }
  fa_gpu.return
}

// CHECK-LABEL: fa_gpu.kernel @unknown
// CHECK-NOT: arith.subi
fa_gpu.kernel @unknown(%count: index, %n: index) num_warps(4) min_blocks(1) alignments([0, 0]) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %b = fa_gpu.block_id
  %i = arith.remui %b, %count : index
  %row = arith.muli %i, %n : index
  scf.for %j = %c0 to %row step %c64 {
  }
  fa_gpu.return
}

// CTAs that wait for those with lower numbers must start in order.
// CHECK-LABEL: fa_gpu.kernel @claimed
// CHECK-NOT: arith.subi
fa_gpu.kernel @claimed(%count: index, %counter: memref<?xi32>) num_warps(4) min_blocks(1) alignments([0, 0]) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %scratch = fa_gpu.alloc : !fa_gpu.shared<1xi32, pitch = 1>
  %b = fa_gpu.claim %counter via %scratch : memref<?xi32>, !fa_gpu.shared<1xi32, pitch = 1>
  %i = arith.remui %b, %count : index
  %row = arith.muli %i, %c64 : index
  scf.for %j = %c0 to %row step %c64 {
  }
  fa_gpu.return
}
