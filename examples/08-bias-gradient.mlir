// Lesson 8: captured floats have gradients too. A bias is looked up by head and
// distance, far distances sharing the last entry; d_table.npy is the sum over all
// the scores that read an entry.
//
// RUN: fa-run %s --q %S/data/q.npy --k %S/data/k.npy --v %S/data/v.npy --capture table=%S/data/table.npy --backward --verify --out %t | FileCheck %s
// CHECK: d_table {{.*}}ok

fa.variant @relative_bias(%table: tensor<?x?xf32>) causal
score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
  %far = arith.constant 63 : index
  %distance = arith.subi %i, %j : index
  %size = math.absi %distance : index
  %entry = arith.minui %size, %far : index
  %bias = tensor.extract %table[%h, %entry] : tensor<?x?xf32>
  %0 = arith.addf %s, %bias : f32
  fa.yield %0 : f32
}
