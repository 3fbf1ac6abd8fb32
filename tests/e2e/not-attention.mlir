// Programs that are not attention go through the same road. NotAttentionTest
// runs them and compares with plain loops.
// RUN: fa-opt %s --fa-map-to-cpu | FileCheck %s
// CHECK-NOT: fa.nest
// CHECK-NOT: tensor<

!matrix = memref<?x?xf32, strided<[?, ?], offset: ?>>

// C = A B + bias
func.func @gemm_bias(%A: !matrix, %B: !matrix, %bias: memref<?xf32>, %C: !matrix) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %m = memref.dim %C, %c0 : !matrix
  %n = memref.dim %C, %c1 : !matrix
  %k = memref.dim %A, %c1 : !matrix
  fa.nest "gemm" parallel(%i = %m step 64, %j = %n step 64) {
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %sum = scf.for %kk = %c0 to %k step %c64 iter_args(%acc = %zero) -> (tensor<64x64xf32>) {
      %a = fa.load %A[%i, %kk] below(%m, %k) : !matrix -> tensor<64x64xf32>
      %b = fa.load %B[%kk, %j] below(%k, %n) : !matrix -> tensor<64x64xf32>
      %next = fa.dot %a, %b, %acc : tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>
      scf.yield %next : tensor<64x64xf32>
    }
    %r = fa.load %bias[%j] below(%n) : memref<?xf32> -> tensor<64xf32>
    %rr = fa.broadcast %r dim 1 : tensor<64xf32> -> tensor<64x64xf32>
    %out = arith.addf %sum, %rr : tensor<64x64xf32>
    fa.store %out, %C[%i, %j] below(%m, %n) : tensor<64x64xf32>, !matrix
  }
  return
}

// Every row less its mean, divided by its deviation.
func.func @layer_norm(%X: memref<?x40xf32>, %Y: memref<?x40xf32>) {
  %c0 = arith.constant 0 : index
  %c40 = arith.constant 40 : index
  %m = memref.dim %X, %c0 : memref<?x40xf32>
  fa.nest "norm" parallel(%i = %m step 32) {
    %x = fa.load %X[%i, %c0] below(%m, %c40) : memref<?x40xf32> -> tensor<32x40xf32>
    %s = fa.reduce add %x dim 1 : tensor<32x40xf32> -> tensor<32xf32>
    %w = arith.constant dense<0.025> : tensor<32xf32>
    %mean = arith.mulf %s, %w : tensor<32xf32>
    %mm = fa.broadcast %mean dim 0 : tensor<32xf32> -> tensor<32x40xf32>
    %d = arith.subf %x, %mm : tensor<32x40xf32>
    %d2 = arith.mulf %d, %d : tensor<32x40xf32>
    %v = fa.reduce add %d2 dim 1 : tensor<32x40xf32> -> tensor<32xf32>
    %vm = arith.mulf %v, %w : tensor<32xf32>
    %eps = arith.constant dense<1.0e-5> : tensor<32xf32>
    %ve = arith.addf %vm, %eps : tensor<32xf32>
    %rs = math.rsqrt %ve : tensor<32xf32>
    %rr = fa.broadcast %rs dim 0 : tensor<32xf32> -> tensor<32x40xf32>
    %y = arith.mulf %d, %rr : tensor<32x40xf32>
    fa.store %y, %Y[%i, %c0] below(%m, %c40) : tensor<32x40xf32>, memref<?x40xf32>
  }
  return
}

// Z = exp(X W / 8) V, with X [m, 64], W [64, n], V [n, 24]; both loops blocked.
func.func @gemm_exp_gemm(%X: memref<?x64xf32>, %W: !matrix, %V: memref<?x24xf32>, %Z: memref<?x24xf32>) {
  %c0 = arith.constant 0 : index
  %c24 = arith.constant 24 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %m = memref.dim %X, %c0 : memref<?x64xf32>
  %n = memref.dim %V, %c0 : memref<?x24xf32>
  fa.nest "two products" parallel(%i = %m step 48) {
    %zero = arith.constant dense<0.0> : tensor<48x24xf32>
    %zeros = arith.constant dense<0.0> : tensor<48x32xf32>
    %eighth = arith.constant dense<0.125> : tensor<48x32xf32>
    %x = fa.load %X[%i, %c0] below(%m, %c64) : memref<?x64xf32> -> tensor<48x64xf32>
    %sum = scf.for %j = %c0 to %n step %c32 iter_args(%acc = %zero) -> (tensor<48x24xf32>) {
      %w = fa.load %W[%c0, %j] below(%c64, %n) : !matrix -> tensor<64x32xf32>
      %v = fa.load %V[%j, %c0] below(%n, %c24) : memref<?x24xf32> -> tensor<32x24xf32>
      %s = fa.dot %x, %w, %zeros : tensor<48x64xf32>, tensor<64x32xf32>, tensor<48x32xf32>
      %t = arith.mulf %s, %eighth : tensor<48x32xf32>
      %e = math.exp %t : tensor<48x32xf32>
      %next = fa.dot %e, %v, %acc : tensor<48x32xf32>, tensor<32x24xf32>, tensor<48x24xf32>
      scf.yield %next : tensor<48x24xf32>
    }
    fa.store %sum, %Z[%i, %c0] below(%m, %c24) : tensor<48x24xf32>, memref<?x24xf32>
  }
  return
}

// s[j] = sum of X[i, j] over i: every item adds a row block's part.
func.func @column_sum_atomic(%X: !matrix, %s: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = memref.dim %X, %c0 : !matrix
  %n = memref.dim %X, %c1 : !matrix
  fa.nest "zero" parallel(%j = %n step 64) {
    %z = arith.constant dense<0.0> : tensor<64xf32>
    fa.store %z, %s[%j] below(%n) : tensor<64xf32>, memref<?xf32>
  }
  fa.nest "sum" parallel(%i = %m step 16, %j = %n step 64) {
    %x = fa.load %X[%i, %j] below(%m, %n) : !matrix -> tensor<16x64xf32>
    %p = fa.reduce add %x dim 0 : tensor<16x64xf32> -> tensor<64xf32>
    fa.accumulate atomic %p, %s[%j] below(%n) : tensor<64xf32>, memref<?xf32>
  }
  return
}

// The same in the order of the row blocks: the same bits every time.
func.func @column_sum_ordered(%X: !matrix, %s: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %c63 = arith.constant 63 : index
  %c64 = arith.constant 64 : index
  %m = memref.dim %X, %c0 : !matrix
  %n = memref.dim %X, %c1 : !matrix
  %n63 = arith.addi %n, %c63 : index
  %blocks = arith.divui %n63, %c64 : index
  %tickets = memref.alloc(%blocks) : memref<?xi32>
  fa.nest "zero" parallel(%j = %n step 64) {
    %z = arith.constant dense<0.0> : tensor<64xf32>
    fa.store %z, %s[%j] below(%n) : tensor<64xf32>, memref<?xf32>
    %b = arith.divui %j, %c64 : index
    %z32 = arith.constant 0 : i32
    memref.store %z32, %tickets[%b] : memref<?xi32>
  }
  fa.nest "sum" parallel(%i = %m step 16, %j = %n step 64) {
    %x = fa.load %X[%i, %j] below(%m, %n) : !matrix -> tensor<16x64xf32>
    %p = fa.reduce add %x dim 0 : tensor<16x64xf32> -> tensor<64xf32>
    %turn = arith.divui %i, %c16 : index
    %b = arith.divui %j, %c64 : index
    fa.accumulate ordered %p, %s[%j] below(%n) turn %turn at %tickets[%b]
        : tensor<64xf32>, memref<?xf32>, memref<?xi32>
  }
  return
}

// How many row blocks there are, as an index result.
func.func @row_blocks(%X: !matrix) -> index {
  %c0 = arith.constant 0 : index
  %c15 = arith.constant 15 : index
  %c16 = arith.constant 16 : index
  %m = memref.dim %X, %c0 : !matrix
  %a = arith.addi %m, %c15 : index
  %r = arith.divui %a, %c16 : index
  return %r : index
}
