// RUN: fa-opt %s --fa-select-schedule --fa-tile --split-input-file | FileCheck %s
// RUN: not fa-opt %s --fa-tile --split-input-file 2>&1 | FileCheck %s --check-prefix=NO-SCHEDULE

// NO-SCHEDULE: error: 'func.func' op expected the attribute 'fa.schedule'; run fa-select-schedule first

// The textbook: every formula is a nest, every N x N matrix is in memory.
// CHECK-LABEL: func.func @joint(%arg0: memref<?x?x?x64xf32, strided<[?, ?, ?, ?], offset: ?>>
// CHECK: %[[S:.*]] = memref.alloc({{.*}}) : memref<?x?x?x?xf32>
// CHECK: fa.nest "scores" parallel({{.*}} step 64, {{.*}} step 64)
// CHECK: fa.transpose
// CHECK: fa.dot
// CHECK: arith.mulf
// CHECK: fa.store {{.*}}, %[[S]]
// CHECK: fa.nest "mask"
// CHECK: arith.select
// CHECK: fa.nest "row_max"
// CHECK: fa.reduce max
// CHECK: fa.nest "row_sum"
// CHECK: math.exp
// CHECK: fa.reduce add
// CHECK: fa.nest "lse"
// CHECK: math.log
// CHECK: fa.nest "probabilities"
// CHECK: arith.divf
// CHECK: fa.nest "output"
// CHECK: fa.dot
// CHECK: fa.forward_end
// CHECK: fa.nest "dv"
// CHECK: fa.nest "dp"
// CHECK: fa.nest "delta"
// CHECK: fa.nest "ds"
// CHECK: fa.nest "dq"
// CHECK: fa.nest "dk"
// A slope per head: heads own their entries, everything else is summed in order.
// CHECK: fa.nest "zero"
// CHECK: fa.nest "captured_gradient" parallel(%[[H:.*]] = %{{.*}}) sequential(
// CHECK: fa.accumulate plain {{.*}}[%[[H]]]
func.func @joint(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x32xf32>, %slopes: tensor<?xf32>, %do: tensor<?x?x?x32xf32>)
    -> (tensor<?x?x?x32xf32>, tensor<?x?x?xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?x32xf32>, tensor<?xf32>) {
  %o, %l = fa.attention (%q, %k, %v) layout(bshd) group(2) captures(%s = %slopes : tensor<?xf32>) scale(0.125)
  score (%x: f32, %b: index, %h: index, %i: index, %j: index) {
    %0 = tensor.extract %s[%h] : tensor<?xf32>
    %1 = arith.addf %x, %0 : f32
    fa.yield %1 : f32
  } : (tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?x32xf32>) -> (tensor<?x?x?x32xf32>, tensor<?x?x?xf32>)
  %dq, %dk, %dv, %ds = fa.attention_grad (%q, %k, %v, %o, %l, %do) layout(bshd) group(2) captures(%s = %slopes : tensor<?xf32>) grad_captures(0) scale(0.125)
  score (%x: f32, %b: index, %h: index, %i: index, %j: index) {
    %0 = tensor.extract %s[%h] : tensor<?xf32>
    %1 = arith.addf %x, %0 : f32
    fa.yield %1 : f32
  }
  dscore (%x: f32, %dx: f32, %b: index, %h: index, %i: index, %j: index) {
    fa.contribute %dx to %s[%h] : f32, tensor<?xf32>
    fa.yield %dx : f32
  } : (tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?x32xf32>, tensor<?x?x?x32xf32>, tensor<?x?x?xf32>, tensor<?x?x?x32xf32>)
    -> (tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?x32xf32>, tensor<?xf32>)
  return %o, %l, %dq, %dk, %dv, %ds : tensor<?x?x?x32xf32>, tensor<?x?x?xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?x32xf32>, tensor<?xf32>
}
