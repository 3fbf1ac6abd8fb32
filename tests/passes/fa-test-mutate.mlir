// Edits of the tiled program that later passes must keep.

// RUN: fa-opt %s --fa-test-mutate=kind=halve-p | FileCheck %s --check-prefixes=CHECK,HALVE
// RUN: fa-opt %s --fa-test-mutate=kind=add-term | FileCheck %s --check-prefixes=CHECK,ADD
// RUN: fa-opt %s --fa-test-mutate=kind=swap-operands | FileCheck %s --check-prefixes=CHECK,SWAP
// RUN: fa-opt %s --fa-test-mutate=kind=reorder | FileCheck %s --check-prefixes=CHECK,REORDER
// RUN: not fa-opt %s --fa-test-mutate=kind=no-such 2>&1 | FileCheck %s --check-prefix=ERROR

// ERROR: expected kind halve-p, add-term, swap-operands or reorder and nests that have such ops, got 'no-such'

// CHECK-LABEL: func.func @f
func.func @f(%S: memref<?x8xf32>, %L: memref<?xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  // CHECK: fa.nest "sum"
  fa.nest "sum" parallel(%i = %n step 8) {
    %s = fa.load %S[%i, %c0] below(%n, %c8) : memref<?x8xf32> -> tensor<8x8xf32>
    // HALVE: %[[E:.*]] = math.exp
    // HALVE-NEXT: fa.reduce add %[[E]]
    %e = math.exp %s : tensor<8x8xf32>
    %l = fa.reduce add %e dim 1 : tensor<8x8xf32> -> tensor<8xf32>
    fa.store %l, %L[%i] below(%n) : tensor<8xf32>, memref<?xf32>
  }
  // CHECK: fa.nest "p"
  fa.nest "p" parallel(%i = %n step 8) {
    %zero = arith.constant dense<0.0> : tensor<8x8xf32>
    // CHECK: %[[S:.*]] = fa.load
    %s = fa.load %S[%i, %c0] below(%n, %c8) : memref<?x8xf32> -> tensor<8x8xf32>
    %l = fa.load %L[%i] below(%n) : memref<?xf32> -> tensor<8xf32>
    // CHECK: %[[IR:.*]] = fa.iota
    %ir = fa.iota %i : tensor<8xindex>
    %ii = fa.broadcast %ir dim 0 : tensor<8xindex> -> tensor<8x8xindex>
    // REORDER: %[[JR:.*]] = fa.iota
    %jr = fa.iota %c0 : tensor<8xindex>
    %jj = fa.broadcast %jr dim 1 : tensor<8xindex> -> tensor<8x8xindex>
    %m = arith.cmpi sle, %jj, %ii : tensor<8x8xindex>
    // ADD: %[[SUM:.*]] = arith.addf %[[S]], %{{.*}} : tensor<8x8xf32>
    // ADD-NEXT: arith.select %{{.*}}, %[[SUM]],
    %x = arith.select %m, %s, %zero : tensor<8x8xi1>, tensor<8x8xf32>
    %lt = fa.broadcast %l dim 0 : tensor<8xf32> -> tensor<8x8xf32>
    // SWAP: %[[X:.*]] = arith.select
    // SWAP: %[[LT:.*]] = fa.broadcast
    // SWAP: arith.subf %[[LT]], %[[X]]
    %d = arith.subf %x, %lt : tensor<8x8xf32>
    // HALVE: %[[P:.*]] = math.exp
    // HALVE: %[[HALF:.*]] = arith.mulf %[[P]], %{{.*}} : tensor<8x8xf32>
    // HALVE: arith.addf %[[HALF]], %[[D:.*]] :
    // REORDER: %[[D:.*]] = arith.subf
    // REORDER: arith.addf %[[D]], %{{.*}} :
    %p = math.exp %d : tensor<8x8xf32>
    %q = arith.addf %p, %d : tensor<8x8xf32>
    fa.store %q, %S[%i, %c0] below(%n, %c8) : tensor<8x8xf32>, memref<?x8xf32>
  }
  return
}
