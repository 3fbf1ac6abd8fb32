// RUN: fa-opt %s --fa-gpu-narrow-indices | FileCheck %s
// RUN: fa-opt %s --fa-gpu-narrow-indices --remarks-filter=fathom --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

#row = #fa_gpu.layout<registers = [2:0:8], lanes = [4:r, 8:0:1], warps = [4:0:16]>

// REMARK: [Passed] {{.*}} ops and values in 32 bits"
// REMARK: [Missed] {{.*}}"no index is known to fit 32 bits"

// The host checks the sizes that it passes on.
// CHECK-LABEL: func.func @host
// CHECK: %[[N:.*]] = memref.dim %arg0
// CHECK: fa_gpu.require %[[N]] at_most 536870912
// CHECK: %[[N32:.*]] = arith.index_cast %[[N]] : index to i32
// CHECK: fa_gpu.launch @rows grid({{.*}}) (%[[N32]], %arg0, %arg1) : i32, memref<?xf32>, index
// CHECK: fa_gpu.launch @other
func.func @host(%x: memref<?xf32>, %any: index) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %n = memref.dim %x, %c0 : memref<?xf32>
  %g = arith.ceildivsi %n, %c64 : index
  fa_gpu.launch @rows grid(%g) (%n, %x, %any) : index, memref<?xf32>, index
  fa_gpu.launch @other grid(%g) (%x, %any) : memref<?xf32>, index
  return
}

// CHECK-LABEL: fa_gpu.kernel @rows(%arg0: i32, %arg1: memref<?xf32>, %arg2: index)
// CHECK: %[[BLOCK:.*]] = fa_gpu.block_id
// CHECK: %[[B32:.*]] = arith.index_cast %[[BLOCK]] : index to i32
// CHECK: arith.remui %[[B32]], %{{.*}} : i32
// CHECK: scf.for %[[I:.*]] = %{{.*}} to %arg0 step %{{.*}} iter_args(%[[STAGE:.*]] = %{{.*}}) -> (i32) : i32 {
// CHECK: %[[WIDE:.*]] = arith.index_cast %[[I]] : i32 to index
// CHECK: %[[SUM:.*]] = arith.addi %[[I]], %{{.*}} overflow<nsw> : i32
// CHECK: arith.cmpi slt, %[[SUM]], %arg0 : i32
// CHECK: fa.load %arg1[%[[WIDE]]]
// An index of the caller may be anything: 64 bits.
// CHECK: arith.addi %{{.*}}, %arg2 : index
// A counter of stages never passes the last.
// CHECK: arith.select %{{.*}} : i32
// CHECK: scf.yield %{{.*}} : i32
fa_gpu.kernel @rows(%n: index, %x: memref<?xf32>, %any: index) num_warps(4) min_blocks(1) alignments([0, 0, 0]) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c5 = arith.constant 5 : index
  %c64 = arith.constant 64 : index
  %block = fa_gpu.block_id
  %part = arith.remui %block, %c5 : index
  %start = arith.muli %part, %c64 : index
  scf.for %i = %start to %n step %c64 iter_args(%stage = %c0) -> (index) {
    %next = arith.addi %i, %c64 : index
    %more = arith.cmpi slt, %next, %n : index
    scf.if %more {
      %t = fa.load %x[%i] below(%n) : memref<?xf32> -> tensor<64xf32, #row>
      %far = arith.addi %i, %any : index
      fa.store %t, %x[%far] below(%n) : tensor<64xf32, #row>, memref<?xf32>
      %p = fa.iota %stage : tensor<64xindex, #row>
      %u = fa.gather %x[%p] : memref<?xf32>, (tensor<64xindex, #row>) -> tensor<64xf32, #row>
      fa.store %u, %x[%c0] below(%n) : tensor<64xf32, #row>, memref<?xf32>
    }
    %up = arith.addi %stage, %c1 : index
    %over = arith.cmpi eq, %stage, %c1 : index
    %then = arith.select %over, %c0, %up : index
    scf.yield %then : index
  }
  fa_gpu.return
}

// Near miss: nothing is known of what there is.
// CHECK-LABEL: fa_gpu.kernel @other(%arg0: memref<?xf32>, %arg1: index)
// CHECK-NOT: i32
// CHECK: fa_gpu.return
fa_gpu.kernel @other(%x: memref<?xf32>, %any: index) num_warps(4) min_blocks(1) alignments([0, 0]) {
  %twice = arith.addi %any, %any : index
  %c0 = arith.constant 0 : index
  %t = fa.load %x[%c0] below(%any) : memref<?xf32> -> tensor<64xf32, #row>
  fa.store %t, %x[%any] below(%twice) : tensor<64xf32, #row>, memref<?xf32>
  fa_gpu.return
}
