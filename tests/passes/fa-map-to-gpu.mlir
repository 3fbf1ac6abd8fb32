// RUN: fa-opt %s --split-input-file --fa-map-to-gpu=aligned=true | FileCheck %s
// RUN: fa-opt %s --split-input-file --fa-map-to-gpu=num-warps=8 | FileCheck %s --check-prefix=EIGHT
// RUN: not fa-opt %s --split-input-file --fa-map-to-gpu=num-warps=3 2>&1 | FileCheck %s --check-prefix=THREE
// THREE: error: expected option num-warps to be one of [1, 2, 4, 8, 16, 32], got 3

// 72 columns are padded to 80: nothing past 72 is read, no score there is a
// maximum. The transpose is a view of the factor's buffer.
// CHECK: #[[ACC:.*]] = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 10:1:8], lanes = [4:1:2, 8:0:1], warps = [4:0:16]>
// CHECK-LABEL: func.func @f(
// CHECK: %[[MORE:.*]] = arith.addi %{{.*}}, %c63
// CHECK: %[[BLOCKS:.*]] = arith.divui %[[MORE]], %c64
// CHECK: %[[GRID:.*]] = arith.muli %{{.*}}, %[[BLOCKS]]
// CHECK: fa_gpu.launch @f.scores0 grid(%[[GRID]])
// CHECK-LABEL: fa_gpu.kernel @f.scores0(
// CHECK-SAME: num_warps(4) min_blocks(1) alignments([16, 0, 16, 0])
// CHECK-DAG: %[[BS:.*]] = fa_gpu.alloc : <80x80xbf16, pitch = 88>
// CHECK-DAG: %[[AS:.*]] = fa_gpu.alloc : <64x80xbf16, pitch = 88>
// CHECK: fa_gpu.block_id
// CHECK: %[[A:.*]] = fa.load {{.*}} below(%{{.*}}, %c72{{.*}}) : {{.*}} -> tensor<64x80xbf16, #[[ACC]]>
// CHECK: fa_gpu.store_shared %[[A]], %[[AS]]
// CHECK: %[[B:.*]] = fa.load {{.*}} -> tensor<80x80xbf16
// CHECK: fa_gpu.store_shared %[[B]], %[[BS]]
// CHECK: %[[BT:.*]] = fa_gpu.flip %[[BS]]
// CHECK: %[[S:.*]] = fa_gpu.mma %[[AS]], %[[BT]], %{{.*}} tensor<64x80xf32, #[[ACC]]>
// CHECK: %[[INSIDE:.*]] = arith.cmpi slt
// CHECK: %[[LOW:.*]] = arith.constant dense<0xFF800000>
// CHECK: %[[X:.*]] = arith.select %[[INSIDE]], %[[S]], %[[LOW]]
// CHECK: fa.reduce max %[[X]] dim 1
// CHECK: fa_gpu.return
// EIGHT: alignments([0, 0, 0, 0])
func.func @f(%x: memref<?x72xbf16, strided<[?, ?], offset: ?>>, %y: memref<?x72xbf16, strided<[?, ?], offset: ?>>, %o: memref<?xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c72 = arith.constant 72 : index
  fa.nest "scores" parallel(%i = %n step 64) {
    %zero = arith.constant dense<0.0> : tensor<64x72xf32>
    %a = fa.load %x[%i, %c0] below(%n, %c72) : memref<?x72xbf16, strided<[?, ?], offset: ?>> -> tensor<64x72xbf16>
    %b = fa.load %y[%c0, %c0] below(%n, %c72) : memref<?x72xbf16, strided<[?, ?], offset: ?>> -> tensor<72x72xbf16>
    %bt = fa.transpose %b : tensor<72x72xbf16> -> tensor<72x72xbf16>
    %s = fa.dot %a, %bt, %zero : tensor<64x72xbf16>, tensor<72x72xbf16>, tensor<64x72xf32>
    %m = fa.reduce max %s dim 1 : tensor<64x72xf32> -> tensor<64xf32>
    fa.store %m, %o[%i] below(%n) : tensor<64xf32>, memref<?xf32>
  }
  return
}

// -----

// What is not loaded may hold anything in its padding: zeros before a product.
// Columns lie in many warps, so a tile is converted before its columns are
// summed.
// CHECK-LABEL: fa_gpu.kernel @g.squares0(
// CHECK: %[[A:.*]] = fa.load
// CHECK: %[[E:.*]] = math.exp %[[A]]
// CHECK: %[[Z:.*]] = arith.select %{{.*}}, %[[E]]
// CHECK: fa_gpu.store_shared %[[Z]]
// CHECK: %[[S:.*]] = fa_gpu.mma
// CHECK: %[[C:.*]] = fa_gpu.convert %[[S]]
// CHECK: fa.reduce add %[[C]] dim 0 {{.*}} -> tensor<64xf32
// EIGHT-LABEL: fa_gpu.kernel @g.squares0(
// EIGHT-SAME: num_warps(8)
func.func @g(%x: memref<?x72xbf16>, %o: memref<64xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c72 = arith.constant 72 : index
  fa.nest "squares" parallel(%i = %n step 64) {
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %a = fa.load %x[%i, %c0] below(%n, %c72) : memref<?x72xbf16> -> tensor<64x72xbf16>
    %e = math.exp %a : tensor<64x72xbf16>
    %et = fa.transpose %e : tensor<64x72xbf16> -> tensor<72x64xbf16>
    %s = fa.dot %e, %et, %zero : tensor<64x72xbf16>, tensor<72x64xbf16>, tensor<64x64xf32>
    %m = fa.reduce add %s dim 0 : tensor<64x64xf32> -> tensor<64xf32>
    fa.store %m, %o[%c0] below(%c64) : tensor<64xf32>, memref<64xf32>
  }
  return
}

// -----

// An ordered sum: CTAs take their numbers when they start, so that those they
// wait for run.
// CHECK-LABEL: func.func @ordered
// CHECK: %[[COUNTER:.*]] = memref.alloc() : memref<1xi32>
// CHECK: fa_gpu.clear %[[COUNTER]]
// CHECK: fa_gpu.launch @ordered.nest0
// CHECK-LABEL: fa_gpu.kernel @ordered.nest0(
// CHECK: fa_gpu.claim
// CHECK-NOT: fa_gpu.block_id
// CHECK: fa_gpu.wait_turn %[[TURN:.*]] at %[[TICKETS:.*]][%[[H:.*]]]
// CHECK-NEXT: fa.accumulate plain
// CHECK-NEXT: fa_gpu.end_turn at %[[TICKETS]][%[[H]]]
// CHECK: fa_gpu.wait_turn
// CHECK-NEXT: fa_gpu.end_turn
func.func @ordered(%x: memref<?xf32>, %o: memref<?xf32>, %tickets: memref<?xi32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  fa.nest parallel(%h = %n, %i = %n step 64) {
    %a = fa.load %x[%i] below(%n) : memref<?xf32> -> tensor<64xf32>
    fa.accumulate ordered %a, %o[%c0] below(%n) turn %i at %tickets[%h] : tensor<64xf32>, memref<?xf32>, memref<?xi32>
    fa.pass_turn %i at %tickets[%h] : memref<?xi32>
  }
  return
}

// -----

// Without products a thread holds 16 bytes and more of a line. What is read
// entry by entry promises no alignment; nor does a line of one entry.
// CHECK: #[[ROWS:.*]] = #fa_gpu.layout<registers = [8:1:1, 2:0:16], lanes = [8:1:8, 4:0:1], warps = [4:0:4]>
// CHECK-LABEL: fa_gpu.kernel @rows.double0(
// CHECK-SAME: alignments([16, 0, 0, 0, 0, 0])
// CHECK: fa.load {{.*}} -> tensor<32x64xf32, #[[ROWS]]>
// CHECK: fa.gather {{.*}} -> tensor<32x64xf32, #[[ROWS]]>
func.func @rows(%x: memref<?x64xf32>, %table: memref<8x64xf32>, %r: memref<?x?xf32>, %one: memref<1xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  fa.nest "double" parallel(%h = %n, %i = %n step 32) {
    %a = fa.load %x[%i, %c0] below(%n, %c64) : memref<?x64xf32> -> tensor<32x64xf32>
    %b = fa.iota %i : tensor<32xindex>
    %bb = fa.broadcast %b dim 0 : tensor<32xindex> -> tensor<32x64xindex>
    %t = fa.gather %table[%h, %bb] : memref<8x64xf32>, (index, tensor<32x64xindex>) -> tensor<32x64xf32>
    %s = arith.addf %a, %t : tensor<32x64xf32>
    fa.store %s, %r[%i, %c0] below(%n, %c64) : tensor<32x64xf32>, memref<?x?xf32>
    %u = fa.load %one[%c0] below(%c1) : memref<1xf32> -> tensor<1xf32>
    fa.store %u, %one[%c0] below(%c1) : tensor<1xf32>, memref<1xf32>
  }
  return
}

// -----

// A schedule says how many warps.
// CHECK-LABEL: fa_gpu.kernel @said.nest0(
// CHECK-SAME: num_warps(2)
// EIGHT-LABEL: fa_gpu.kernel @said.nest0(
// EIGHT-SAME: num_warps(2)
func.func @said(%x: memref<?x64xf32>, %n: index) attributes {fa.schedule = #fa.schedule<block_m = 16, block_n = 16, num_warps = 2>} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  fa.nest parallel(%i = %n step 16) {
    %a = fa.load %x[%i, %c0] below(%n, %c64) : memref<?x64xf32> -> tensor<16x64xf32>
    %b = math.exp %a : tensor<16x64xf32>
    fa.store %b, %x[%i, %c0] below(%n, %c64) : tensor<16x64xf32>, memref<?x64xf32>
  }
  return
}
