// A block that selects by a mask tile gets a version for tiles that are all
// visible.

// RUN: fa-opt %s --split-input-file --fa-specialize-masked-blocks | FileCheck %s
// RUN: fa-opt %s --split-input-file --fa-specialize-masked-blocks --remarks-filter=.* --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: fa-opt %s --split-input-file --fa-specialize-masked-blocks=selects-only=true | FileCheck %s --check-prefix=SELECTS

// With `selects-only` a block stands once: no factor of a product is loaded in
// two places. The mask is made where it is needed, and where rows and columns
// all exist, the comparison of both is all of it.
// SELECTS-LABEL: func.func @causal
// SELECTS: scf.for
// SELECTS: %[[S:.*]] = fa.load
// SELECTS: %[[V:.*]] = fa.load
// SELECTS: %[[X:.*]] = scf.if %{{.*}} -> (tensor<8x4xf32>) {
// SELECTS-NEXT: scf.yield %[[S]]
// SELECTS-NEXT: } else {
// SELECTS-NEXT: %[[C:.*]] = scf.if
// SELECTS: %[[CAUSAL:.*]] = arith.cmpi sle
// SELECTS-NEXT: %[[ONE:.*]] = arith.select %[[CAUSAL]], %[[S]], %{{.*}}
// SELECTS-NEXT: scf.yield %[[ONE]]
// SELECTS-NEXT: } else {
// SELECTS: %[[IN:.*]] = arith.andi
// SELECTS: %[[VIS:.*]] = arith.andi %[[IN]],
// SELECTS-NEXT: %[[M:.*]] = arith.select %[[VIS]], %[[S]], %{{.*}}
// SELECTS-NEXT: scf.yield %[[M]]
// SELECTS: scf.yield %[[C]]
// SELECTS: fa.dot %[[X]], %[[V]]
// SELECTS-NOT: fa.dot
// SELECTS: func.func

// A loop. The last row and key of the tile must exist, and the last key must be
// visible to the first row.
// REMARK: [Passed] fa-specialize-masked-blocks
// REMARK-SAME: a version without the mask
// CHECK-LABEL: func.func @causal
// CHECK: %[[LASTROW:.*]] = arith.addi %[[I:.*]], %c7{{.*}} : index
// CHECK: %[[ROWS:.*]] = arith.cmpi sgt, %{{.*}}, %[[LASTROW]] : index
// CHECK: scf.for %[[J:.*]] = %c0
// CHECK: %[[LASTKEY:.*]] = arith.addi %[[J]], %c3{{.*}} : index
// CHECK: %[[KEYS:.*]] = arith.cmpi sgt, %{{.*}}, %[[LASTKEY]] : index
// CHECK: %[[BOTH:.*]] = arith.andi %[[ROWS]], %[[KEYS]] : i1
// CHECK: %[[ALL:.*]] = arith.andi %[[BOTH]], %{{.*}} : i1
// CHECK: %[[R:.*]] = scf.if %[[ALL]] -> (tensor<8x8xf32>) {
// CHECK-NEXT: %[[S:.*]] = fa.load
// CHECK-NEXT: %[[V:.*]] = fa.load
// CHECK-NEXT: %[[A:.*]] = fa.dot %[[S]], %[[V]], %[[ACC:.*]] :
// CHECK-NEXT: scf.yield %[[A]]
// CHECK-NEXT: } else {
// CHECK: %[[X:.*]] = arith.select
// CHECK: fa.dot %[[X]], %{{.*}}, %[[ACC]] :
// CHECK: scf.yield %[[R]] : tensor<8x8xf32>
func.func @causal(%S: memref<?x?xf32>, %V: memref<?x8xf32>, %O: memref<?x8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c8 = arith.constant 8 : index
  %sq = memref.dim %S, %c0 : memref<?x?xf32>
  %sk = memref.dim %S, %c1 : memref<?x?xf32>
  %off = arith.subi %sk, %sq : index
  fa.nest parallel(%i0 = %sq step 8) {
    %zero = arith.constant dense<0.0> : tensor<8x4xf32>
    %one = arith.constant dense<1.0> : tensor<8x4xf32>
    %true = arith.constant dense<true> : tensor<8x4xi1>
    %false = arith.constant dense<false> : tensor<8x4xi1>
    %five = arith.constant dense<5> : tensor<8x4xindex>
    %four = arith.constant dense<4> : tensor<8x4xindex>
    %none = arith.constant dense<0> : tensor<8x4xindex>
    %start = arith.constant dense<0.0> : tensor<8x8xf32>
    %ir = fa.iota %i0 : tensor<8xindex>
    %ii = fa.broadcast %ir dim 0 : tensor<8xindex> -> tensor<8x4xindex>
    %sqt = fa.broadcast %sq dim 0 : index -> tensor<8x4xindex>
    %skt = fa.broadcast %sk dim 0 : index -> tensor<8x4xindex>
    %offt = fa.broadcast %off dim 0 : index -> tensor<8x4xindex>
    %last = arith.addi %ii, %offt : tensor<8x4xindex>
    %inI = arith.cmpi slt, %ii, %sqt : tensor<8x4xindex>
    %r = scf.for %j0 = %c0 to %sk step %c4 iter_args(%acc = %start) -> (tensor<8x8xf32>) {
      %s = fa.load %S[%i0, %j0] below(%sq, %sk) : memref<?x?xf32> -> tensor<8x4xf32>
      %v = fa.load %V[%j0, %c0] below(%sk, %c8) : memref<?x8xf32> -> tensor<4x8xf32>
      %jr = fa.iota %j0 : tensor<4xindex>
      %jj = fa.broadcast %jr dim 1 : tensor<4xindex> -> tensor<8x4xindex>
      %inJ = arith.cmpi slt, %jj, %skt : tensor<8x4xindex>
      %in = arith.andi %inI, %inJ : tensor<8x4xi1>
      %m = arith.cmpi sle, %jj, %last : tensor<8x4xindex>
      %vis = arith.andi %in, %m : tensor<8x4xi1>
      %x = arith.select %vis, %s, %zero : tensor<8x4xi1>, tensor<8x4xf32>
      %a1 = fa.dot %x, %v, %acc : tensor<8x4xf32>, tensor<4x8xf32>, tensor<8x8xf32>
      scf.yield %a1 : tensor<8x8xf32>
    }
    fa.store %r, %O[%i0, %c0] below(%sq, %c8) : tensor<8x8xf32>, memref<?x8xf32>
  }
  return
}

// -----

// A nest without a loop, filled with what it likes.
// REMARK: [Passed] fa-specialize-masked-blocks
// CHECK-LABEL: func.func @no_loop
// CHECK: fa.nest
// CHECK: scf.if
// CHECK-NOT: arith.select
// CHECK: fa.store
// CHECK: else
// CHECK: arith.select
// CHECK: fa.store
func.func @no_loop(%S: memref<?x?xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  fa.nest parallel(%i = %n step 8, %j = %n step 4) {
    %two = arith.constant dense<2.0> : tensor<8x4xf32>
    %s = fa.load %S[%i, %j] below(%n, %n) : memref<?x?xf32> -> tensor<8x4xf32>
    %jr = fa.iota %j : tensor<4xindex>
    %jj = fa.broadcast %jr dim 1 : tensor<4xindex> -> tensor<8x4xindex>
    %ir = fa.iota %i : tensor<8xindex>
    %ii = fa.broadcast %ir dim 0 : tensor<8xindex> -> tensor<8x4xindex>
    %m = arith.cmpi ule, %jj, %ii : tensor<8x4xindex>
    %x = arith.select %m, %s, %two : tensor<8x4xi1>, tensor<8x4xf32>
    fa.store %x, %S[%i, %j] below(%n, %n) : tensor<8x4xf32>, memref<?x?xf32>
  }
  return
}

// -----

// Near miss: ids from memory, so no scalars tell.
// REMARK: [Missed] fa-specialize-masked-blocks
// REMARK-SAME: no scalars tell whether a mask tile is all true
// CHECK-LABEL: func.func @document
// CHECK-NOT: scf.if
func.func @document(%S: memref<?x?xf32>, %V: memref<?x8xf32>, %O: memref<?x8xf32>, %id: memref<?xi32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c8 = arith.constant 8 : index
  %sq = memref.dim %S, %c0 : memref<?x?xf32>
  %sk = memref.dim %S, %c1 : memref<?x?xf32>
  %off = arith.subi %sk, %sq : index
  fa.nest parallel(%i0 = %sq step 8) {
    %zero = arith.constant dense<0.0> : tensor<8x4xf32>
    %one = arith.constant dense<1.0> : tensor<8x4xf32>
    %true = arith.constant dense<true> : tensor<8x4xi1>
    %false = arith.constant dense<false> : tensor<8x4xi1>
    %five = arith.constant dense<5> : tensor<8x4xindex>
    %four = arith.constant dense<4> : tensor<8x4xindex>
    %none = arith.constant dense<0> : tensor<8x4xindex>
    %start = arith.constant dense<0.0> : tensor<8x8xf32>
    %ir = fa.iota %i0 : tensor<8xindex>
    %ii = fa.broadcast %ir dim 0 : tensor<8xindex> -> tensor<8x4xindex>
    %sqt = fa.broadcast %sq dim 0 : index -> tensor<8x4xindex>
    %skt = fa.broadcast %sk dim 0 : index -> tensor<8x4xindex>
    %offt = fa.broadcast %off dim 0 : index -> tensor<8x4xindex>
    %last = arith.addi %ii, %offt : tensor<8x4xindex>
    %inI = arith.cmpi slt, %ii, %sqt : tensor<8x4xindex>
    %r = scf.for %j0 = %c0 to %sk step %c4 iter_args(%acc = %start) -> (tensor<8x8xf32>) {
      %s = fa.load %S[%i0, %j0] below(%sq, %sk) : memref<?x?xf32> -> tensor<8x4xf32>
      %v = fa.load %V[%j0, %c0] below(%sk, %c8) : memref<?x8xf32> -> tensor<4x8xf32>
      %jr = fa.iota %j0 : tensor<4xindex>
      %jj = fa.broadcast %jr dim 1 : tensor<4xindex> -> tensor<8x4xindex>
      %inJ = arith.cmpi slt, %jj, %skt : tensor<8x4xindex>
      %in = arith.andi %inI, %inJ : tensor<8x4xi1>
      %di = fa.gather %id[%ii] : memref<?xi32>, (tensor<8x4xindex>) -> tensor<8x4xi32>
      %dj = fa.gather %id[%jj] : memref<?xi32>, (tensor<8x4xindex>) -> tensor<8x4xi32>
      %m = arith.cmpi eq, %di, %dj : tensor<8x4xi32>
      %vis = arith.andi %in, %m : tensor<8x4xi1>
      %x = arith.select %vis, %s, %zero : tensor<8x4xi1>, tensor<8x4xf32>
      %a1 = fa.dot %x, %v, %acc : tensor<8x4xf32>, tensor<4x8xf32>, tensor<8x8xf32>
      scf.yield %a1 : tensor<8x8xf32>
    }
    fa.store %r, %O[%i0, %c0] below(%sq, %c8) : tensor<8x8xf32>, memref<?x8xf32>
  }
  return
}
