// RUN: fa-opt %s --fa-map-to-cpu=vector-bits=512 --split-input-file --verify-diagnostics | FileCheck %s

// A nest becomes a function of one item and a launch; elementwise work is
// evaluated on vectors straight from the load to the store.
// CHECK-LABEL: func.func @elementwise
// CHECK: call @fathom_parallel_for
// CHECK-LABEL: func.func private @elementwise.nest0
// CHECK-SAME: (%{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr {llvm.noalias}, %{{.*}}: i64)
// CHECK-NOT: tensor<
// CHECK: arith.mulf {{.*}} : vector<16xf32>
func.func @elementwise(%X: memref<?xf32>, %Y: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %m = memref.dim %X, %c0 : memref<?xf32>
  fa.nest parallel(%i = %m step 64) {
    %x = fa.load %X[%i] below(%m) : memref<?xf32> -> tensor<64xf32>
    %e = arith.mulf %x, %x : tensor<64xf32>
    fa.store %e, %Y[%i] below(%m) : tensor<64xf32>, memref<?xf32>
  }
  return
}

// -----

// A load that does not change leaves the loop; the product works on tiles of
// 8 rows by 2 vectors.
// CHECK-LABEL: func.func private @product.nest0
// CHECK: memref.extract_strided_metadata
// CHECK: scf.for {{.*}} step %c8
// CHECK: %{{.*}}:16 = scf.for
// CHECK-COUNT-16: llvm.intr.fmuladd
func.func @product(%A: memref<?x64xf32>, %B: memref<?x64xf32>, %C: memref<?x64xf32>) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %m = memref.dim %A, %c0 : memref<?x64xf32>
  %n = memref.dim %B, %c0 : memref<?x64xf32>
  fa.nest parallel(%i = %m step 64) sequential(%j = %n step 64) {
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %a = fa.load %A[%i, %c0] below(%m, %c64) : memref<?x64xf32> -> tensor<64x64xf32>
    %b = fa.load %B[%j, %c0] below(%n, %c64) : memref<?x64xf32> -> tensor<64x64xf32>
    %c = fa.dot %a, %b, %zero : tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>
    fa.accumulate plain %c, %C[%i, %c0] below(%m, %c64) : tensor<64x64xf32>, memref<?x64xf32>
  }
  return
}

// -----

// Workspaces end with the call.
// CHECK-LABEL: func.func @workspace
// CHECK: %[[W:.*]] = memref.alloc
// CHECK: memref.dealloc %[[W]]
func.func @workspace(%n: index, %Y: memref<?xf32>) {
  %w = memref.alloc(%n) : memref<?xf32>
  fa.nest parallel(%i = %n step 16) {
    %x = fa.load %w[%i] below(%n) : memref<?xf32> -> tensor<16xf32>
    fa.store %x, %Y[%i] below(%n) : tensor<16xf32>, memref<?xf32>
  }
  return
}

// -----

func.func @wide_factors(%A: memref<?x8xf64>, %B: memref<8x8xf64>, %C: memref<?x8xf32>) {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %m = memref.dim %A, %c0 : memref<?x8xf64>
  fa.nest parallel(%i = %m step 8) {
    %zero = arith.constant dense<0.0> : tensor<8x8xf32>
    %a = fa.load %A[%i, %c0] below(%m, %c8) : memref<?x8xf64> -> tensor<8x8xf64>
    %b = fa.load %B[%c0, %c0] below(%c8, %c8) : memref<8x8xf64> -> tensor<8x8xf64>
    // expected-error @+1 {{expected an f64 accumulator for f64 operands, got 'tensor<8x8xf32>'}}
    %c = fa.dot %a, %b, %zero : tensor<8x8xf64>, tensor<8x8xf64>, tensor<8x8xf32>
    fa.store %c, %C[%i, %c0] below(%m, %c8) : tensor<8x8xf32>, memref<?x8xf32>
  }
  return
}

// -----

func.func @uneven_constant(%Y: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %m = memref.dim %Y, %c0 : memref<?xf32>
  fa.nest parallel(%i = %m step 2) {
    // expected-error @+1 {{expected a tile constant of one value}}
    %x = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
    fa.store %x, %Y[%i] below(%m) : tensor<2xf32>, memref<?xf32>
  }
  return
}

// -----

// What must stand transposed is what does not change: the rows of Q lie along
// the lanes, transposed once before the loop, so that the sum of a row needs no
// reduction within a vector.
// CHECK-LABEL: func.func private @across.nest0
// CHECK-NOT: vector.reduction
// CHECK: return
func.func @across(%Q: memref<?x64xf32>, %K: memref<?x64xf32>, %V: memref<?x64xf32>, %O: memref<?x64xf32>) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %m = memref.dim %Q, %c0 : memref<?x64xf32>
  %n = memref.dim %K, %c0 : memref<?x64xf32>
  fa.nest parallel(%i = %m step 64) {
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %none = arith.constant dense<0.0> : tensor<64xf32>
    %q = fa.load %Q[%i, %c0] below(%m, %c64) : memref<?x64xf32> -> tensor<64x64xf32>
    %r:2 = scf.for %j = %c0 to %n step %c64 iter_args(%acc = %zero, %sum = %none) -> (tensor<64x64xf32>, tensor<64xf32>) {
      %k = fa.load %K[%j, %c0] below(%n, %c64) : memref<?x64xf32> -> tensor<64x64xf32>
      %v = fa.load %V[%j, %c0] below(%n, %c64) : memref<?x64xf32> -> tensor<64x64xf32>
      %kt = fa.transpose %k : tensor<64x64xf32> -> tensor<64x64xf32>
      %s = fa.dot %q, %kt, %zero : tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>
      %e = math.exp %s : tensor<64x64xf32>
      %p = fa.reduce add %e dim 1 : tensor<64x64xf32> -> tensor<64xf32>
      %total = arith.addf %sum, %p : tensor<64xf32>
      %o = fa.dot %e, %v, %acc : tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>
      scf.yield %o, %total : tensor<64x64xf32>, tensor<64xf32>
    }
    %l = fa.broadcast %r#1 dim 0 : tensor<64xf32> -> tensor<64x64xf32>
    %o = arith.divf %r#0, %l : tensor<64x64xf32>
    fa.store %o, %O[%i, %c0] below(%m, %c64) : tensor<64x64xf32>, memref<?x64xf32>
  }
  return
}
