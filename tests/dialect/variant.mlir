// Text of the variant level reads back as itself, also through bytecode and
// the generic form.
// RUN: fa-opt %s | FileCheck %s
// RUN: fa-opt %s --verify-roundtrip -o /dev/null
// RUN: fa-opt %s --emit-bytecode | fa-opt | FileCheck %s
// RUN: fa-opt %s --mlir-print-op-generic | fa-opt | FileCheck %s

// CHECK: fa.variant @full(){{$}}
fa.variant @full

// CHECK: fa.variant @sugar(%slopes: tensor<?xf32>, %cap: f32) causal top_left window(left = 4095) softcap(%cap) alibi(%slopes) scale(1.250000e-01)
fa.variant @sugar(%slopes: tensor<?xf32>, %cap: f32) causal top_left
  window(left = 4095) softcap(%cap) alibi(%slopes) scale(0.125)

// CHECK: fa.variant @both_sides() window(left = 3, right = 0) softcap(3.000000e+01)
fa.variant @both_sides() window(left = 3, right = 0) softcap(30.0)

// CHECK: fa.variant @right_only() window(right = 7) attributes {note = "kept"}
fa.variant @right_only() window(right = 7) attributes {note = "kept"}

// CHECK-LABEL: fa.variant @regions(
// CHECK-SAME: %slopes: tensor<?xf32>, %cap: f32, %doc: tensor<?x?xi32>) causal
// CHECK-NEXT: score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
// CHECK: tensor.extract %slopes[%h] : tensor<?xf32>
// CHECK: fa.distance %i, %j : f32
// CHECK: fa.yield %{{.*}} : f32
// CHECK: mask (%b: index, %h: index, %i: index, %j: index) {
// CHECK: fa.seqlen_k : index
// CHECK: fa.seqlen_q : index
// CHECK: fa.yield %{{.*}} : i1
fa.variant @regions(%slopes: tensor<?xf32>, %cap: f32, %doc: tensor<?x?xi32>) causal
score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
  %0 = arith.divf %s, %cap : f32
  %1 = math.tanh %0 : f32
  %2 = arith.mulf %1, %cap : f32
  %3 = tensor.extract %slopes[%h] : tensor<?xf32>
  %4 = fa.distance %i, %j : f32
  %5 = arith.mulf %3, %4 : f32
  %6 = arith.subf %2, %5 : f32
  fa.yield %6 : f32
}
mask (%b: index, %h: index, %i: index, %j: index) {
  %nk = fa.seqlen_k : index
  %nq = fa.seqlen_q : index
  %off = arith.subi %nk, %nq : index
  %key = arith.subi %j, %off : index
  %di = tensor.extract %doc[%b, %i] : tensor<?x?xi32>
  %dj = tensor.extract %doc[%b, %key] : tensor<?x?xi32>
  %same = arith.cmpi eq, %di, %dj : i32
  fa.yield %same : i1
}

// Only a mask: names come from its arguments.
// CHECK-LABEL: fa.variant @only_mask(
// CHECK-SAME: %n: index)
// CHECK-NEXT: mask (%b: index, %h: index, %i: index, %j: index) {
fa.variant @only_mask(%n: index)
mask (%b: index, %h: index, %i: index, %j: index) {
  %0 = arith.cmpi ult, %j, %n : index
  fa.yield %0 : i1
}

// CHECK-LABEL: func.func @instance(
// CHECK: fa.attention (%arg0, %arg1, %arg2) layout(bshd) group(4) captures(%slopes = %arg3 : tensor<?xf32>) causal
// CHECK-NEXT: score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
// CHECK: : (tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x48xbf16>) -> (tensor<?x?x?x48xbf16>, tensor<?x?x?xf32>)
func.func @instance(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x48xbf16>,
                    %arg3: tensor<?xf32>) -> (tensor<?x?x?x48xbf16>, tensor<?x?x?xf32>) {
  %o, %l = fa.attention (%q, %k, %v) layout(bshd) group(4) captures(%slopes = %arg3 : tensor<?xf32>) causal
    score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %0 = tensor.extract %slopes[%h] : tensor<?xf32>
      %1 = arith.addf %s, %0 : f32
      fa.yield %1 : f32
    }
    : (tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x48xbf16>)
      -> (tensor<?x?x?x48xbf16>, tensor<?x?x?xf32>)
  return %o, %l : tensor<?x?x?x48xbf16>, tensor<?x?x?xf32>
}

// CHECK-LABEL: func.func @packed(
// CHECK: fa.attention (%arg0, %arg1, %arg2) layout(packed) group(1) packing(%arg3, %arg4, %arg5, %arg6)
func.func @packed(%q: tensor<?x?x64xf64>, %k: tensor<?x?x64xf64>, %v: tensor<?x?x64xf64>,
                  %cq: tensor<?xi32>, %ck: tensor<?xi32>, %mq: index, %mk: index)
    -> (tensor<?x?x64xf64>, tensor<?x?xf64>) {
  %o, %l = fa.attention (%q, %k, %v) layout(packed) group(1) packing(%cq, %ck, %mq, %mk)
    : (tensor<?x?x64xf64>, tensor<?x?x64xf64>, tensor<?x?x64xf64>)
      -> (tensor<?x?x64xf64>, tensor<?x?xf64>)
  return %o, %l : tensor<?x?x64xf64>, tensor<?x?xf64>
}

// CHECK-LABEL: func.func @gradient(
// CHECK: fa.attention_grad (%arg0, %arg0, %arg0, %arg0, %arg1, %arg0, %arg1) layout(bhsd) group(1) captures(%slopes = %arg2 : tensor<?xf32>) grad_captures(0) causal
// CHECK-NEXT: score
// CHECK: dscore (%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index) {
// CHECK: fa.contribute %ds to %slopes[%h] : f32, tensor<?xf32>
// CHECK: : (tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, tensor<?x?x?xf32>, tensor<?x?x?x8xf32>, tensor<?x?x?xf32>) -> (tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, tensor<?xf32>)
func.func @gradient(%t: tensor<?x?x?x8xf32>, %l: tensor<?x?x?xf32>, %arg2: tensor<?xf32>) -> tensor<?xf32> {
  %dq, %dk, %dv, %dslopes = fa.attention_grad (%t, %t, %t, %t, %l, %t, %l) layout(bhsd) group(1)
    captures(%slopes = %arg2 : tensor<?xf32>) grad_captures(0) causal
    score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %0 = tensor.extract %slopes[%h] : tensor<?xf32>
      %1 = arith.addf %s, %0 : f32
      fa.yield %1 : f32
    }
    dscore (%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index) {
      fa.contribute %ds to %slopes[%h] : f32, tensor<?xf32>
      fa.yield %ds : f32
    }
    : (tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>,
       tensor<?x?x?xf32>, tensor<?x?x?x8xf32>, tensor<?x?x?xf32>)
      -> (tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, tensor<?xf32>)
  return %dslopes : tensor<?xf32>
}
