// RUN: fa-opt %s --fa-hoist-d-preprocess --split-input-file | FileCheck %s
// RUN: fa-opt %s --fa-hoist-d-preprocess --split-input-file --remarks-filter=.* --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=REMARK

// O = P V is stored, and sum_j P_ij (dO_i . v_j) is asked for.
// REMARK: Passed{{.*}}rowsum(P o dP) is now rowsum(dO o O)
// CHECK-LABEL: func.func @textbook
// CHECK: fa.nest "delta"
// CHECK-NOT: scf.for
// CHECK: %[[A:.*]] = fa.load %arg2
// CHECK: %[[B:.*]] = fa.load %arg3
// CHECK: %[[M:.*]] = arith.mulf %[[A]], %[[B]]
// CHECK: fa.reduce add %[[M]] dim 1
func.func @textbook(%P: memref<?x?xf32>, %V: memref<?x16xf32>, %dO: memref<?x16xf32>, %O: memref<?x16xf32>, %D: memref<?xf32>, %M: index, %N: index) {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  fa.nest "output" parallel(%i = %M step 8) {
    %z = arith.constant dense<0.0> : tensor<8x16xf32>
    %o = scf.for %j = %c0 to %N step %c8 iter_args(%acc = %z) -> tensor<8x16xf32> {
      %p = fa.load %P[%i, %j] below(%M, %N) : memref<?x?xf32> -> tensor<8x8xf32>
      %v = fa.load %V[%j, %c0] below(%N, %c16) : memref<?x16xf32> -> tensor<8x16xf32>
      %n = fa.dot %p, %v, %acc : tensor<8x8xf32>, tensor<8x16xf32>, tensor<8x16xf32>
      scf.yield %n : tensor<8x16xf32>
    }
    fa.store %o, %O[%i, %c0] below(%M, %c16) : tensor<8x16xf32>, memref<?x16xf32>
  }
  fa.nest "delta" parallel(%i = %M step 8) {
    %z = arith.constant dense<0.0> : tensor<8xf32>
    %zz = arith.constant dense<0.0> : tensor<8x8xf32>
    %d = scf.for %j = %c0 to %N step %c8 iter_args(%acc = %z) -> tensor<8xf32> {
      %p = fa.load %P[%i, %j] below(%M, %N) : memref<?x?xf32> -> tensor<8x8xf32>
      %v = fa.load %V[%j, %c0] below(%N, %c16) : memref<?x16xf32> -> tensor<8x16xf32>
      %do = fa.load %dO[%i, %c0] below(%M, %c16) : memref<?x16xf32> -> tensor<8x16xf32>
      %vt = fa.transpose %v : tensor<8x16xf32> -> tensor<16x8xf32>
      %dp = fa.dot %do, %vt, %zz : tensor<8x16xf32>, tensor<16x8xf32>, tensor<8x8xf32>
      %t = arith.mulf %p, %dp : tensor<8x8xf32>
      %r = fa.reduce add %t dim 1 : tensor<8x8xf32> -> tensor<8xf32>
      %n = arith.addf %acc, %r : tensor<8xf32>
      scf.yield %n : tensor<8xf32>
    }
    fa.store %d, %D[%i] below(%M) : tensor<8xf32>, memref<?xf32>
  }
  return
}

// -----

// Factors and summands the other way round.
// REMARK: Passed{{.*}}rowsum(P o dP) is now rowsum(dO o O)
// CHECK-LABEL: func.func @permuted
// CHECK: fa.nest "delta"
// CHECK-NOT: scf.for
// CHECK: arith.mulf
func.func @permuted(%P: memref<?x?xf32>, %V: memref<?x16xf32>, %dO: memref<?x16xf32>, %O: memref<?x16xf32>, %D: memref<?xf32>, %M: index, %N: index) {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  fa.nest "output" parallel(%i = %M step 8) {
    %z = arith.constant dense<0.0> : tensor<8x16xf32>
    %o = scf.for %j = %c0 to %N step %c8 iter_args(%acc = %z) -> tensor<8x16xf32> {
      %v = fa.load %V[%j, %c0] below(%N, %c16) : memref<?x16xf32> -> tensor<8x16xf32>
      %p = fa.load %P[%i, %j] below(%M, %N) : memref<?x?xf32> -> tensor<8x8xf32>
      %n = fa.dot %p, %v, %acc : tensor<8x8xf32>, tensor<8x16xf32>, tensor<8x16xf32>
      scf.yield %n : tensor<8x16xf32>
    }
    fa.store %o, %O[%i, %c0] below(%M, %c16) : tensor<8x16xf32>, memref<?x16xf32>
  }
  fa.nest "delta" parallel(%i = %M step 8) {
    %z = arith.constant dense<0.0> : tensor<8xf32>
    %zz = arith.constant dense<0.0> : tensor<8x8xf32>
    %d = scf.for %j = %c0 to %N step %c8 iter_args(%acc = %z) -> tensor<8xf32> {
      %v = fa.load %V[%j, %c0] below(%N, %c16) : memref<?x16xf32> -> tensor<8x16xf32>
      %vt = fa.transpose %v : tensor<8x16xf32> -> tensor<16x8xf32>
      %do = fa.load %dO[%i, %c0] below(%M, %c16) : memref<?x16xf32> -> tensor<8x16xf32>
      %dp = fa.dot %do, %vt, %zz : tensor<8x16xf32>, tensor<16x8xf32>, tensor<8x8xf32>
      %p = fa.load %P[%i, %j] below(%M, %N) : memref<?x?xf32> -> tensor<8x8xf32>
      %t = arith.mulf %dp, %p : tensor<8x8xf32>
      %r = fa.reduce add %t dim 1 : tensor<8x8xf32> -> tensor<8xf32>
      %n = arith.addf %r, %acc : tensor<8xf32>
      scf.yield %n : tensor<8xf32>
    }
    fa.store %d, %D[%i] below(%M) : tensor<8xf32>, memref<?xf32>
  }
  return
}

// -----

// A near miss: O was summed over half of the keys.
// REMARK: Missed{{.*}}P V runs over other keys or another V than dO V^T
// CHECK-LABEL: func.func @other_keys
// CHECK: fa.nest "delta"
// CHECK: scf.for
func.func @other_keys(%P: memref<?x?xf32>, %V: memref<?x16xf32>, %dO: memref<?x16xf32>, %O: memref<?x16xf32>, %D: memref<?xf32>, %M: index, %N: index, %half: index) {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  fa.nest "output" parallel(%i = %M step 8) {
    %z = arith.constant dense<0.0> : tensor<8x16xf32>
    %o = scf.for %j = %c0 to %half step %c8 iter_args(%acc = %z) -> tensor<8x16xf32> {
      %p = fa.load %P[%i, %j] below(%M, %N) : memref<?x?xf32> -> tensor<8x8xf32>
      %v = fa.load %V[%j, %c0] below(%N, %c16) : memref<?x16xf32> -> tensor<8x16xf32>
      %n = fa.dot %p, %v, %acc : tensor<8x8xf32>, tensor<8x16xf32>, tensor<8x16xf32>
      scf.yield %n : tensor<8x16xf32>
    }
    fa.store %o, %O[%i, %c0] below(%M, %c16) : tensor<8x16xf32>, memref<?x16xf32>
  }
  fa.nest "delta" parallel(%i = %M step 8) {
    %z = arith.constant dense<0.0> : tensor<8xf32>
    %zz = arith.constant dense<0.0> : tensor<8x8xf32>
    %d = scf.for %j = %c0 to %N step %c8 iter_args(%acc = %z) -> tensor<8xf32> {
      %p = fa.load %P[%i, %j] below(%M, %N) : memref<?x?xf32> -> tensor<8x8xf32>
      %v = fa.load %V[%j, %c0] below(%N, %c16) : memref<?x16xf32> -> tensor<8x16xf32>
      %do = fa.load %dO[%i, %c0] below(%M, %c16) : memref<?x16xf32> -> tensor<8x16xf32>
      %vt = fa.transpose %v : tensor<8x16xf32> -> tensor<16x8xf32>
      %dp = fa.dot %do, %vt, %zz : tensor<8x16xf32>, tensor<16x8xf32>, tensor<8x8xf32>
      %t = arith.mulf %p, %dp : tensor<8x8xf32>
      %r = fa.reduce add %t dim 1 : tensor<8x8xf32> -> tensor<8xf32>
      %n = arith.addf %acc, %r : tensor<8xf32>
      scf.yield %n : tensor<8xf32>
    }
    fa.store %d, %D[%i] below(%M) : tensor<8xf32>, memref<?xf32>
  }
  return
}
