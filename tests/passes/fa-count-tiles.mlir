// Innermost loops that multiply, or nests without one, count a tile per
// iteration; on every path once.

// RUN: fa-opt %s --fa-count-tiles | FileCheck %s

// CHECK-LABEL: func.func @count
func.func @count(%A: memref<?x8xf32>, %n: index, %c: i1) {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  // No product, no count; the nest still has the number 0.
  // CHECK: fa.nest
  // CHECK-NOT: fa.tick
  fa.nest parallel(%i = %n step 8) {
    %a = fa.load %A[%i, %c0] below(%n, %c8) : memref<?x8xf32> -> tensor<8x8xf32>
    fa.store %a, %A[%i, %c0] below(%n, %c8) : tensor<8x8xf32>, memref<?x8xf32>
  }
  // CHECK: fa.nest
  // CHECK-NEXT: fa.tick 1
  fa.nest parallel(%i = %n step 8) {
    %a = fa.load %A[%i, %c0] below(%n, %c8) : memref<?x8xf32> -> tensor<8x8xf32>
    %b = fa.dot %a, %a, %a : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
    fa.store %b, %A[%i, %c0] below(%n, %c8) : tensor<8x8xf32>, memref<?x8xf32>
  }
  // Under the test, in both versions; the product outside the loop is not a tile.
  // CHECK: fa.nest
  // CHECK-NEXT: fa.load
  // CHECK-NEXT: fa.dot
  // CHECK: scf.for
  // CHECK-NEXT: scf.if
  // CHECK-NEXT: fa.tick 2
  // CHECK-NEXT: fa.dot
  // CHECK-NEXT: fa.dot
  // CHECK: else
  // CHECK-NEXT: fa.tick 2
  // CHECK-NOT: fa.tick
  fa.nest parallel(%i = %n step 8) {
    %a = fa.load %A[%i, %c0] below(%n, %c8) : memref<?x8xf32> -> tensor<8x8xf32>
    %z = fa.dot %a, %a, %a : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
    %r = scf.for %j = %c0 to %n step %c8 iter_args(%acc = %z) -> (tensor<8x8xf32>) {
      %x = scf.if %c -> (tensor<8x8xf32>) {
        %d = fa.dot %a, %acc, %a : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
        %e = fa.dot %a, %d, %a : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
        scf.yield %e : tensor<8x8xf32>
      } else {
        %d = fa.dot %a, %a, %acc : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
        scf.yield %d : tensor<8x8xf32>
      }
      scf.yield %x : tensor<8x8xf32>
    }
    fa.store %r, %A[%i, %c0] below(%n, %c8) : tensor<8x8xf32>, memref<?x8xf32>
  }
  return
}
