// RUN: fa-opt %s --fa-split-group --split-input-file | FileCheck %s
// RUN: fa-opt %s --fa-split-group --split-input-file --remarks-filter=.* --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=REMARK

// Four heads in two parts, each with a sum of its own; the nest goes on from
// the sum of these.
// REMARK: Passed{{.*}}2 parts of 4 query heads run in parallel and are added
// CHECK-LABEL: func.func @sums
// CHECK: %[[P:.*]] = memref.alloc({{.*}}) : memref<2x?x?x16xf32>
// CHECK: fa.nest "parts" parallel(%[[HK:.*]] = %{{.*}}, %[[S:.*]] = %c2{{.*}}, %[[J:.*]] = %{{.*}} step 8) {
// CHECK: %[[FIRST:.*]] = arith.muli %[[S]], %c2
// CHECK: scf.for %[[G:.*]] = %c0{{.*}} to %c2
// CHECK: arith.addi %[[FIRST]], %[[G]]
// CHECK: fa.store {{.*}}, %[[P]][%[[S]], %[[HK]], %[[J]], %c0{{.*}}]
// CHECK: fa.nest "dv" parallel(%{{.*}} = %{{.*}}, %{{.*}} = %{{.*}} step 8) {
// CHECK: %[[SUM:.*]] = scf.for %{{.*}} = %c0{{.*}} to %c2
// CHECK: fa.load %[[P]]
// CHECK: arith.addf
// CHECK: arith.mulf %[[SUM]]
// CHECK: fa.store
func.func @sums(%P: memref<?x?x?xf32>, %D: memref<?x?x16xf32>, %V: memref<?x?x16xf32>, %Hkv: index, %Rows: index, %N: index) attributes {fa.schedule = #fa.schedule<block_m = 8, block_n = 8, group_splits = 2>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  fa.nest "dv" parallel(%hk = %Hkv, %j = %N step 8) {
    %z = arith.constant dense<0.0> : tensor<8x16xf32>
    %half = arith.constant dense<0.5> : tensor<8x16xf32>
    %base = arith.muli %hk, %c4 : index
    %r = scf.for %g = %c0 to %c4 step %c1 iter_args(%a = %z) -> (tensor<8x16xf32>) {
      %h = arith.addi %base, %g : index
      %s = scf.for %i = %c0 to %Rows step %c8 iter_args(%b = %a) -> (tensor<8x16xf32>) {
        %p = fa.load %P[%h, %j, %i] below(%N, %Rows) : memref<?x?x?xf32> -> tensor<8x8xf32>
        %d = fa.load %D[%h, %i, %c0] below(%Rows, %c16) : memref<?x?x16xf32> -> tensor<8x16xf32>
        %n = fa.dot %p, %d, %b : tensor<8x8xf32>, tensor<8x16xf32>, tensor<8x16xf32>
        scf.yield %n : tensor<8x16xf32>
      }
      scf.yield %s : tensor<8x16xf32>
    }
    %o = arith.mulf %r, %half : tensor<8x16xf32>
    fa.store %o, %V[%hk, %j, %c0] below(%N, %c16) : tensor<8x16xf32>, memref<?x?x16xf32>
  }
  return
}

// -----

// Three heads do not make two parts, and the term of an iteration is added in
// the other order; what it writes is its own.
// REMARK: Passed{{.*}}3 parts of 3 query heads run in parallel and are added
// CHECK-LABEL: func.func @swapped
// CHECK: fa.nest "parts"
// CHECK: fa.nest "dv"
func.func @swapped(%D: memref<?x?x16xf32>, %Q: memref<?x?x16xf32>, %V: memref<?x?x16xf32>, %Hkv: index, %N: index) attributes {fa.schedule = #fa.schedule<block_m = 8, block_n = 8, group_splits = 4>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c16 = arith.constant 16 : index
  fa.nest "dv" parallel(%hk = %Hkv, %j = %N step 8) {
    %z = arith.constant dense<0.0> : tensor<8x16xf32>
    %base = arith.muli %hk, %c3 : index
    %r = scf.for %g = %c0 to %c3 step %c1 iter_args(%a = %z) -> (tensor<8x16xf32>) {
      %h = arith.addi %g, %base : index
      %d = fa.load %D[%h, %j, %c0] below(%N, %c16) : memref<?x?x16xf32> -> tensor<8x16xf32>
      fa.accumulate plain %d, %Q[%h, %j, %c0] below(%N, %c16) : tensor<8x16xf32>, memref<?x?x16xf32>
      %n = arith.addf %d, %a : tensor<8x16xf32>
      scf.yield %n : tensor<8x16xf32>
    }
    fa.store %r, %V[%hk, %j, %c0] below(%N, %c16) : tensor<8x16xf32>, memref<?x?x16xf32>
  }
  return
}

// -----

// A term that depends on the sum.
// REMARK: Missed{{.*}}its loop over heads carries more than sums from 0
// CHECK-LABEL: func.func @depends
// CHECK-NOT: "parts"
func.func @depends(%V: memref<?x?x16xf32>, %Hkv: index, %N: index) attributes {fa.schedule = #fa.schedule<block_m = 8, block_n = 8, group_splits = 2>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c16 = arith.constant 16 : index
  fa.nest "dv" parallel(%hk = %Hkv, %j = %N step 8) {
    %z = arith.constant dense<0.0> : tensor<8x16xf32>
    %r = scf.for %g = %c0 to %c4 step %c1 iter_args(%a = %z) -> (tensor<8x16xf32>) {
      %e = math.exp %a : tensor<8x16xf32>
      %n = arith.addf %a, %e : tensor<8x16xf32>
      scf.yield %n : tensor<8x16xf32>
    }
    fa.store %r, %V[%hk, %j, %c0] below(%N, %c16) : tensor<8x16xf32>, memref<?x?x16xf32>
  }
  return
}

// -----

// Iterations that add to the same place.
// REMARK: Missed{{.*}}iterations of its loop over heads meet in memory
// CHECK-LABEL: func.func @meet
// CHECK-NOT: "parts"
func.func @meet(%D: memref<?x?x16xf32>, %Q: memref<?x?x16xf32>, %V: memref<?x?x16xf32>, %Hkv: index, %N: index) attributes {fa.schedule = #fa.schedule<block_m = 8, block_n = 8, group_splits = 2>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c16 = arith.constant 16 : index
  fa.nest "dv" parallel(%hk = %Hkv, %j = %N step 8) {
    %z = arith.constant dense<0.0> : tensor<8x16xf32>
    %r = scf.for %g = %c0 to %c4 step %c1 iter_args(%a = %z) -> (tensor<8x16xf32>) {
      %d = fa.load %D[%g, %j, %c0] below(%N, %c16) : memref<?x?x16xf32> -> tensor<8x16xf32>
      fa.accumulate plain %d, %Q[%hk, %j, %c0] below(%N, %c16) : tensor<8x16xf32>, memref<?x?x16xf32>
      %n = arith.addf %a, %d : tensor<8x16xf32>
      scf.yield %n : tensor<8x16xf32>
    }
    fa.store %r, %V[%hk, %j, %c0] below(%N, %c16) : tensor<8x16xf32>, memref<?x?x16xf32>
  }
  return
}

// -----

// REMARK: Missed{{.*}}the schedule keeps query heads in one part
// CHECK-LABEL: func.func @not_asked
func.func @not_asked() attributes {fa.schedule = #fa.schedule<block_m = 8, block_n = 8>} {
  return
}
