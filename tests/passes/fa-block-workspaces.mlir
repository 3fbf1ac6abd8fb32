// RUN: fa-opt %s --fa-block-workspaces | FileCheck %s
// RUN: fa-opt %s --fa-block-workspaces --remarks-filter=fathom --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// REMARK: [Passed] {{.*}}"an array of tiles of 64x128"
// REMARK: [Missed] {{.*}}"an access is not known to be of a whole tile"
// REMARK: [Missed] {{.*}}"not all that touch it are accesses of like tiles"
// REMARK: [Missed] {{.*}}"its size is not stated in whole tiles"
// REMARK: [Passed] {{.*}}"an array of tiles of 64"

// CHECK-LABEL: func.func @sums
// CHECK: %[[TILES:.*]] = arith.divui
// CHECK: %[[W:.*]] = memref.alloc(%arg1, %[[TILES]]) : memref<?x?x64x128xf32>
// CHECK: fa.nest "zero" parallel(%[[B:.*]] = %arg1, %[[I:.*]] = %arg2 step 64) {
// CHECK: %[[N:.*]] = arith.divui %[[I]], %c64
// CHECK: fa.store %{{.*}}, %[[W]][%[[B]], %[[N]], %c0{{.*}}, %c0{{.*}}] below(%c64{{.*}}, %c128{{.*}}) : tensor<64x128xf32>, memref<?x?x64x128xf32>
func.func @sums(%x: memref<?x?x128xf32>, %b: index, %n: index, %from: index, %to: index) {
  %c0 = arith.constant 0 : index
  %c63 = arith.constant 63 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %0 = arith.addi %n, %c63 : index
  %1 = arith.divui %0, %c64 : index
  %rows = arith.muli %1, %c64 : index
  %w = memref.alloc(%b, %rows) : memref<?x?x128xf32>
  fa.nest "zero" parallel(%i = %b, %j = %n step 64) {
    %zero = arith.constant dense<0.0> : tensor<64x128xf32>
    fa.store %zero, %w[%i, %j, %c0] below(%rows, %c128) : tensor<64x128xf32>, memref<?x?x128xf32>
  }
  // A loop from a multiple of 64, or its end, to the end or less.
  // CHECK: scf.for %[[K:.*]] =
  // CHECK: %[[N:.*]] = arith.divui %[[K]], %c64
  // CHECK: fa.accumulate atomic %{{.*}}, %[[W]][%{{.*}}, %[[N]], %c0{{.*}}, %c0{{.*}}] below(%c64{{.*}}, %c128{{.*}})
  fa.nest "add" parallel(%i = %b) {
    %start = arith.muli %from, %c64 : index
    %end = arith.minsi %n, %to : index
    %begin = arith.minsi %start, %n : index
    scf.for %j = %begin to %end step %c64 {
      %t = fa.load %x[%i, %j, %c0] below(%n, %c128) : memref<?x?x128xf32> -> tensor<64x128xf32>
      fa.accumulate atomic %t, %w[%i, %j, %c0] below(%rows, %c128) : tensor<64x128xf32>, memref<?x?x128xf32>
    }
  }
  // CHECK: fa.nest "out"
  // CHECK: fa.load %[[W]][{{.*}}] below(%c64{{.*}}, %c128{{.*}})
  fa.nest "out" parallel(%i = %b, %j = %n step 64) {
    %t = fa.load %w[%i, %j, %c0] below(%rows, %c128) : memref<?x?x128xf32> -> tensor<64x128xf32>
    fa.store %t, %x[%i, %j, %c0] below(%n, %c128) : tensor<64x128xf32>, memref<?x?x128xf32>
  }
  return
}

// Near misses: a row that is no multiple of a tile's; tiles of several sizes;
// a size that is no multiple of a tile's. The last is a line a tile.
// CHECK-LABEL: func.func @near
// CHECK: memref.alloc(%{{.*}}) : memref<?x128xf32>
// CHECK: memref.alloc(%{{.*}}) : memref<?x128xf32>
// CHECK: memref.alloc(%{{.*}}) : memref<?x128xf32>
// CHECK: memref.alloc(%{{.*}}) : memref<?x64xf32>
func.func @near(%n: index, %from: index) {
  %c0 = arith.constant 0 : index
  %c63 = arith.constant 63 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %0 = arith.addi %n, %c63 : index
  %1 = arith.divui %0, %c64 : index
  %rows = arith.muli %1, %c64 : index
  %odd = memref.alloc(%rows) : memref<?x128xf32>
  %mixed = memref.alloc(%rows) : memref<?x128xf32>
  %plain = memref.alloc(%n) : memref<?x128xf32>
  %line = memref.alloc(%rows) : memref<?xf32>
  fa.nest "zero" parallel(%j = %n step 64) {
    %zero = arith.constant dense<0.0> : tensor<64x128xf32>
    %less = arith.constant dense<0.0> : tensor<32x128xf32>
    %row = arith.constant dense<0.0> : tensor<64xf32>
    %k = arith.addi %j, %from : index
    fa.store %zero, %odd[%k, %c0] below(%rows, %c128) : tensor<64x128xf32>, memref<?x128xf32>
    fa.store %zero, %mixed[%j, %c0] below(%rows, %c128) : tensor<64x128xf32>, memref<?x128xf32>
    fa.store %less, %mixed[%j, %c0] below(%rows, %c128) : tensor<32x128xf32>, memref<?x128xf32>
    fa.store %zero, %plain[%j, %c0] below(%n, %c128) : tensor<64x128xf32>, memref<?x128xf32>
    fa.store %row, %line[%j] below(%rows) : tensor<64xf32>, memref<?xf32>
  }
  return
}
