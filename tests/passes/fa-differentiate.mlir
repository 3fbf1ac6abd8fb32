// RUN: split-file %s %t
// RUN: fa-opt %t/rules.mlir --fa-specialize=head-dim-qk=8 --fa-differentiate | FileCheck %t/rules.mlir
// RUN: fa-opt %t/joint.mlir --fa-differentiate | FileCheck %t/joint.mlir --check-prefixes=CHECK,BOTH
// RUN: fa-opt %t/joint.mlir --fa-differentiate="lse-grad=false capture-grads=false" | FileCheck %t/joint.mlir --check-prefixes=CHECK,NONE
// RUN: fa-opt %t/joint.mlir --fa-differentiate --fa-differentiate | FileCheck %t/joint.mlir --check-prefixes=CHECK,BOTH
// RUN: fa-opt %t/joint.mlir --fa-differentiate --remark-format=emitRemark --remarks-filter=fathom 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: fa-opt %t/choice.mlir --fa-specialize=head-dim-qk=8 --fa-differentiate | FileCheck %t/choice.mlir
// RUN: fa-opt %t/ignores.mlir --fa-specialize=head-dim-qk=8 --fa-differentiate | FileCheck %t/ignores.mlir
// RUN: fa-opt %t/narrow.mlir --fa-specialize=head-dim-qk=8 --fa-differentiate | FileCheck %t/narrow.mlir
//
// RUN: not fa-opt %t/norule.mlir --fa-specialize --fa-differentiate 2>&1 | FileCheck %s --check-prefix=NORULE
// RUN: fa-opt %t/norule.mlir --fa-specialize --fa-differentiate=capture-grads=false -o /dev/null
// RUN: not fa-opt %t/sugar.mlir --fa-specialize --fa-differentiate 2>&1 | FileCheck %s --check-prefix=SUGAR
// RUN: not fa-opt %t/function.mlir --fa-differentiate 2>&1 | FileCheck %s --check-prefix=FUNCTION
//
// REMARK: remark: [Passed] fa-differentiate {{.*}}"joint function: dscore derived by reverse mode, 2 captured gradients, takes dlse"
// The op and its line are named; off the path it is fine.
// NORULE: norule.mlir:5:8: error: expected an op that fa-differentiate has a rule for between the score or a captured float and the result, got 'arith.bitcast'
// SUGAR: error: 'fa.attention' op expected softcap and alibi as part of the score region; run fa-normalize-variant first
// FUNCTION: error: 'func.func' op expected a function that returns o and lse of one fa.attention

//--- joint.mlir
// CHECK-LABEL: func.func @f(
// BOTH-SAME: %arg0: tensor<?x?x8xbf16>, %arg1: tensor<?x?x8xbf16>, %arg2: tensor<?x?x4xbf16>, %arg3: tensor<?xi32>, %arg4: tensor<?xi32>, %arg5: index, %arg6: index, %arg7: tensor<?x?xbf16>, %arg8: f32, %arg9: tensor<?xi32>, %arg10: tensor<?x?x4xbf16>, %arg11: tensor<?x?xf32>)
// BOTH-SAME: -> (tensor<?x?x4xbf16>, tensor<?x?xf32>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>, tensor<?x?x4xbf16>, tensor<?x?xf32>, tensor<1xf32>)
// NONE-SAME: %arg10: tensor<?x?x4xbf16>) -> (tensor<?x?x4xbf16>, tensor<?x?xf32>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>, tensor<?x?x4xbf16>)
// CHECK: %0:2 = fa.attention
// BOTH: %1:5 = fa.attention_grad (%arg0, %arg1, %arg2, %0#0, %0#1, %arg10, %arg11) layout(packed) group(2) captures(%t = %arg7 : tensor<?x?xbf16>, %c = %arg8 : f32, %n = %arg9 : tensor<?xi32>) packing(%arg3, %arg4, %arg5, %arg6) grad_captures(0, 1) causal scale(5.000000e-01)
// NONE: %1:3 = fa.attention_grad (%arg0, %arg1, %arg2, %0#0, %0#1, %arg10) layout(packed) group(2) captures({{.*}}) packing({{.*}}) causal scale(5.000000e-01)
// CHECK: score (
// CHECK: mask (
// CHECK: dscore (%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index) {
// BOTH-NEXT: fa.contribute %ds to %t[%h, %j] : f32, tensor<?x?xbf16>
// BOTH-NEXT: %[[G:.*]] = arith.mulf %ds, %c : f32
// BOTH-NEXT: %[[C:.*]] = arith.mulf %ds, %s : f32
// BOTH-NEXT: fa.contribute %[[C]] to %c[] : f32, f32
// BOTH-NEXT: fa.yield %[[G]] : f32
// NONE-NEXT: %[[G:.*]] = arith.mulf %ds, %c : f32
// NONE-NEXT: fa.yield %[[G]] : f32
// BOTH: return %0#0, %0#1, %1#0, %1#1, %1#2, %1#3, %1#4
// NONE: return %0#0, %0#1, %1#0, %1#1, %1#2 :
func.func @f(%q: tensor<?x?x8xbf16>, %k: tensor<?x?x8xbf16>, %v: tensor<?x?x4xbf16>,
             %cq: tensor<?xi32>, %ck: tensor<?xi32>, %mq: index, %mk: index,
             %table: tensor<?x?xbf16>, %factor: f32, %count: tensor<?xi32>)
    -> (tensor<?x?x4xbf16>, tensor<?x?xf32>) {
  %o, %l = fa.attention (%q, %k, %v) layout(packed) group(2)
    captures(%t = %table : tensor<?x?xbf16>, %c = %factor : f32, %n = %count : tensor<?xi32>)
    packing(%cq, %ck, %mq, %mk) causal scale(0.5)
    score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %0 = arith.mulf %s, %c : f32
      %1 = tensor.extract %t[%h, %j] : tensor<?x?xbf16>
      %2 = arith.extf %1 : bf16 to f32
      %3 = arith.addf %0, %2 : f32
      fa.yield %3 : f32
    }
    mask (%b: index, %h: index, %i: index, %j: index) {
      %0 = tensor.extract %n[%b] : tensor<?xi32>
      %1 = arith.index_cast %j : index to i32
      %2 = arith.cmpi slt, %1, %0 : i32
      fa.yield %2 : i1
    }
    : (tensor<?x?x8xbf16>, tensor<?x?x8xbf16>, tensor<?x?x4xbf16>)
      -> (tensor<?x?x4xbf16>, tensor<?x?xf32>)
  return %o, %l : tensor<?x?x4xbf16>, tensor<?x?xf32>
}

// A score that is not changed: dscore is empty.
// CHECK-LABEL: func.func @plain(
// CHECK: fa.attention_grad
// CHECK-NOT: dscore
// CHECK: return
func.func @plain(%q: tensor<?x?x?x8xf64>) -> (tensor<?x?x?x8xf64>, tensor<?x?x?xf64>) {
  %o, %l = fa.attention (%q, %q, %q) layout(bhsd) group(1)
    : (tensor<?x?x?x8xf64>, tensor<?x?x?x8xf64>, tensor<?x?x?x8xf64>)
      -> (tensor<?x?x?x8xf64>, tensor<?x?x?xf64>)
  return %o, %l : tensor<?x?x?x8xf64>, tensor<?x?x?xf64>
}

// No attention, nothing to do.
// CHECK-LABEL: func.func @other(
// CHECK-NEXT: return
func.func @other() {
  return
}

//--- rules.mlir
// tanh: ds (1 - t^2); the primal value is recomputed once.
// CHECK: dscore
// CHECK-NEXT: %[[ONE:.*]] = arith.constant 1.000000e+00 : f32
// CHECK-NEXT: %[[D:.*]] = arith.divf %s, %cap : f32
// CHECK-NEXT: %[[T:.*]] = math.tanh %[[D]] : f32
// CHECK-NEXT: %[[TT:.*]] = arith.mulf %[[T]], %[[T]] : f32
// CHECK-NEXT: %[[R:.*]] = arith.subf %[[ONE]], %[[TT]] : f32
// CHECK-NEXT: %[[G:.*]] = arith.mulf %ds, %[[R]] : f32
// CHECK-NEXT: %[[Q:.*]] = arith.divf %[[G]], %cap : f32
// CHECK-NEXT: %[[QD:.*]] = arith.mulf %[[Q]], %[[D]] : f32
// CHECK-NEXT: %[[N:.*]] = arith.negf %[[QD]] : f32
// CHECK-NEXT: fa.contribute %[[N]] to %cap[] : f32, f32
// CHECK-NEXT: fa.yield %[[Q]] : f32
fa.variant @rules(%cap: f32)
score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
  %0 = arith.divf %s, %cap : f32
  %1 = math.tanh %0 : f32
  fa.yield %1 : f32
}

//--- choice.mlir
// The gradient of what is not taken is 0 by select: 1/x may be infinite there.
// CHECK: dscore
// CHECK: %[[POS:.*]] = arith.cmpf ogt, %s, %[[ZERO:.*]] : f32
// CHECK-NEXT: %[[Q:.*]] = arith.divf %ds, %s : f32
// CHECK-NEXT: %[[G:.*]] = arith.select %[[POS]], %[[Q]], %[[ZERO]] : f32
// CHECK-NEXT: fa.yield %[[G]] : f32
fa.variant @choice()
score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
  %zero = arith.constant 0.0 : f32
  %pos = arith.cmpf ogt, %s, %zero : f32
  %log = math.log %s : f32
  %0 = arith.select %pos, %log, %zero : f32
  fa.yield %0 : f32
}

//--- ignores.mlir
// A score that ignores s has gradient 0; steps have derivative 0.
// CHECK: dscore
// CHECK-NEXT: %[[Z:.*]] = arith.constant 0.000000e+00 : f32
// CHECK-NEXT: fa.contribute %ds to %t[%j] : f32, tensor<?xf32>
// CHECK-NEXT: fa.yield %[[Z]] : f32
fa.variant @ignores(%t: tensor<?xf32>)
score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
  %0 = tensor.extract %t[%j] : tensor<?xf32>
  %1 = math.floor %s : f32
  %2 = arith.fptosi %s : f32 to i32
  %3 = arith.sitofp %2 : i32 to f32
  %4 = arith.addf %1, %3 : f32
  %5 = arith.addf %0, %4 : f32
  fa.yield %5 : f32
}

//--- narrow.mlir
// Gradients are computed in f32 also where the score is computed in bf16.
// CHECK: dscore
// CHECK: %[[E:.*]] = tensor.extract %t[%j] : tensor<?xbf16>
// CHECK: %[[W:.*]] = arith.extf %[[E]] : bf16 to f32
// CHECK: arith.mulf %ds, %[[W]] : f32
// CHECK: fa.contribute %{{.*}} to %t[%j] : f32, tensor<?xbf16>
fa.variant @narrow(%t: tensor<?xbf16>)
score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
  %0 = tensor.extract %t[%j] : tensor<?xbf16>
  %1 = arith.truncf %s : f32 to bf16
  %2 = arith.mulf %0, %1 : bf16
  %3 = arith.extf %2 : bf16 to f32
  fa.yield %3 : f32
}

//--- norule.mlir
fa.variant @norule(%t: tensor<?xf32>)
score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
  %0 = tensor.extract %t[%j] : tensor<?xf32>
  %1 = arith.truncf %0 : f32 to bf16
  %2 = arith.bitcast %1 : bf16 to f16
  %3 = arith.extf %2 : f16 to f32
  %4 = arith.addf %3, %s : f32
  fa.yield %4 : f32
}

//--- sugar.mlir
fa.variant @sugar() softcap(30.0)

//--- function.mlir
func.func @f(%q: tensor<?x?x?x8xf32>) -> tensor<?x?x?x8xf32> {
  %o, %l = fa.attention (%q, %q, %q) layout(bshd) group(1)
    : (tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>)
      -> (tensor<?x?x?x8xf32>, tensor<?x?x?xf32>)
  return %o : tensor<?x?x?x8xf32>
}
