// RUN: fa-opt %s --fa-fuse-nests | FileCheck %s
// RUN: fa-opt %s --fa-fuse-nests --remarks-filter=fathom --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// REMARK: [Passed] {{.*}}"two nests over the same items are one"
// REMARK: [Missed] {{.*}}"it touches what the next nest over its items, or one between them, touches"

// The second moves nowhere, the first moves past the allocation to it.
// CHECK-LABEL: func.func @two
// CHECK: memref.alloc
// CHECK-NEXT: fa.nest "rows_zero" parallel(%[[I:.*]] = %arg2 step 64) {
// CHECK: %[[X:.*]] = fa.load %arg0[%[[I]]]
// CHECK: fa.store %[[X]], %arg1[%[[I]]]
// CHECK: fa.store %{{.*}}, %alloc[%[[I]]]
// CHECK-NOT: fa.nest "zero"
// CHECK: fa.nest "sum"
func.func @two(%x: memref<?xf32>, %y: memref<?xf32>, %n: index) {
  fa.nest "rows" parallel(%i = %n step 64) {
    %t = fa.load %x[%i] below(%n) : memref<?xf32> -> tensor<64xf32>
    fa.store %t, %y[%i] below(%n) : tensor<64xf32>, memref<?xf32>
  }
  %w = memref.alloc(%n) : memref<?xf32>
  fa.nest "zero" parallel(%i = %n step 64) {
    %zero = arith.constant dense<0.0> : tensor<64xf32>
    fa.store %zero, %w[%i] below(%n) : tensor<64xf32>, memref<?xf32>
  }
  fa.nest "sum" parallel(%i = %n step 32) {
    %t = fa.load %w[%i] below(%n) : memref<?xf32> -> tensor<32xf32>
    fa.store %t, %x[%i] below(%n) : tensor<32xf32>, memref<?xf32>
  }
  return
}

// Near misses: what one writes the other reads; other steps; products.
// CHECK-LABEL: func.func @apart
// CHECK: fa.nest "write"
// CHECK: fa.nest "read"
// CHECK: fa.nest "wide"
// CHECK: fa.nest "product"
func.func @apart(%x: memref<?xf32>, %y: memref<?xf32>, %m: memref<?x64xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  fa.nest "write" parallel(%i = %n step 64) {
    %zero = arith.constant dense<0.0> : tensor<64xf32>
    fa.store %zero, %x[%i] below(%n) : tensor<64xf32>, memref<?xf32>
  }
  fa.nest "read" parallel(%i = %n step 64) {
    %t = fa.load %x[%i] below(%n) : memref<?xf32> -> tensor<64xf32>
    fa.store %t, %y[%i] below(%n) : tensor<64xf32>, memref<?xf32>
  }
  fa.nest "wide" parallel(%i = %n step 128) {
    %t = fa.load %x[%i] below(%n) : memref<?xf32> -> tensor<128xf32>
    fa.store %t, %y[%i] below(%n) : tensor<128xf32>, memref<?xf32>
  }
  fa.nest "product" parallel(%i = %n step 64) {
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %t = fa.load %m[%i, %c0] below(%n, %c64) : memref<?x64xf32> -> tensor<64x64xf32>
    %p = fa.dot %t, %t, %zero : tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>
    fa.store %p, %m[%i, %c0] below(%n, %c64) : tensor<64x64xf32>, memref<?x64xf32>
  }
  return
}
