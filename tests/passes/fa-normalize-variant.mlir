// RUN: fa-opt %s --fa-normalize-variant -o %t.once
// RUN: FileCheck %s < %t.once
// A second run changes nothing.
// RUN: fa-opt %t.once --fa-normalize-variant -o %t.twice
// RUN: diff %t.once %t.twice

// CHECK-LABEL: fa.variant @causal(){{$}}
// CHECK-NEXT: mask (%b: index, %h: index, %i: index, %j: index) {
// CHECK-NEXT: %[[K:.*]] = fa.seqlen_k : index
// CHECK-NEXT: %[[Q:.*]] = fa.seqlen_q : index
// CHECK-NEXT: %[[OFF:.*]] = arith.subi %[[K]], %[[Q]] : index
// CHECK-NEXT: %[[AT:.*]] = arith.addi %i, %[[OFF]] : index
// CHECK-NEXT: %[[V:.*]] = arith.cmpi sle, %j, %[[AT]] : index
// CHECK-NEXT: fa.yield %[[V]] : i1
// CHECK-NEXT: }
fa.variant @causal() causal

// CHECK-LABEL: fa.variant @top_left(){{$}}
// CHECK-NEXT: mask
// CHECK-NEXT: %[[V:.*]] = arith.cmpi sle, %j, %i : index
// CHECK-NEXT: fa.yield %[[V]] : i1
fa.variant @top_left() causal top_left

// The user's mask region comes last. `causal` is stronger than right = 5.
// CHECK-LABEL: fa.variant @window(
// CHECK-SAME: %n: index){{$}}
// CHECK-NEXT: mask
// CHECK-NEXT: %[[C:.*]] = arith.constant 3 : index
// CHECK-NEXT: %[[U:.*]] = arith.cmpi ult, %j, %n : index
// CHECK-NEXT: %[[R:.*]] = arith.cmpi sle, %j, %i : index
// CHECK-NEXT: %[[FROM:.*]] = arith.subi %i, %[[C]] : index
// CHECK-NEXT: %[[L:.*]] = arith.cmpi sge, %j, %[[FROM]] : index
// CHECK-NEXT: %[[W:.*]] = arith.andi %[[R]], %[[L]] : i1
// CHECK-NEXT: %[[ALL:.*]] = arith.andi %[[W]], %[[U]] : i1
// CHECK-NEXT: fa.yield %[[ALL]] : i1
fa.variant @window(%n: index) causal top_left window(left = 3, right = 5)
mask (%b: index, %h: index, %i: index, %j: index) {
  %0 = arith.cmpi ult, %j, %n : index
  fa.yield %0 : i1
}

// A bound that no position reaches hides nothing, and cannot overflow.
// CHECK-LABEL: fa.variant @unbounded(){{$}}
// CHECK-NEXT: fa.variant @softcap(
fa.variant @unbounded() window(left = 9223372036854775807, right = 9223372036854775807)

// CHECK-SAME: %cap: bf16){{$}}
// CHECK-NEXT: score (%s: f32,
// CHECK-NEXT: %[[C:.*]] = arith.extf %cap : bf16 to f32
// CHECK-NEXT: %[[D:.*]] = arith.divf %s, %[[C]] : f32
// CHECK-NEXT: %[[T:.*]] = math.tanh %[[D]] : f32
// CHECK-NEXT: %[[M:.*]] = arith.mulf %[[C]], %[[T]] : f32
// CHECK-NEXT: fa.yield %[[M]] : f32
fa.variant @softcap(%cap: bf16) softcap(%cap)

// softcap, then alibi, then the region.
// CHECK-LABEL: fa.variant @order(
// CHECK-SAME: %slopes: tensor<?xf32>){{$}}
// CHECK-NEXT: score (%s: f32,
// CHECK-NEXT: %[[C:.*]] = arith.constant 3.000000e+01 : f32
// CHECK-NEXT: %[[D:.*]] = arith.divf %s, %[[C]] : f32
// CHECK-NEXT: %[[T:.*]] = math.tanh %[[D]] : f32
// CHECK-NEXT: %[[M:.*]] = arith.mulf %[[T]], %[[C]] : f32
// CHECK-NEXT: %[[SLOPE:.*]] = tensor.extract %slopes[%h] : tensor<?xf32>
// CHECK-NEXT: %[[K:.*]] = fa.seqlen_k : index
// CHECK-NEXT: %[[Q:.*]] = fa.seqlen_q : index
// CHECK-NEXT: %[[OFF:.*]] = arith.subi %[[K]], %[[Q]] : index
// CHECK-NEXT: %[[AT:.*]] = arith.addi %i, %[[OFF]] : index
// CHECK-NEXT: %[[X:.*]] = arith.subi %[[AT]], %j : index
// CHECK-NEXT: %[[X64:.*]] = arith.index_cast %[[X]] : index to i64
// CHECK-NEXT: %[[ABS:.*]] = math.absi %[[X64]] : i64
// CHECK-NEXT: %[[F:.*]] = arith.sitofp %[[ABS]] : i64 to f32
// CHECK-NEXT: %[[P:.*]] = arith.mulf %[[SLOPE]], %[[F]] : f32
// CHECK-NEXT: %[[A:.*]] = arith.subf %[[M]], %[[P]] : f32
// CHECK-NEXT: %[[E:.*]] = math.exp %[[A]] : f32
// CHECK-NEXT: %[[ALL:.*]] = arith.addf %[[E]], %[[A]] : f32
// CHECK-NEXT: fa.yield %[[ALL]] : f32
// CHECK-NEXT: }
fa.variant @order(%slopes: tensor<?xf32>) softcap(30.0) alibi(%slopes)
score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
  %0 = math.exp %s : f32
  %1 = arith.addf %0, %s : f32
  fa.yield %1 : f32
}

// CHECK-LABEL: fa.variant @alibi_per_batch(
// CHECK: tensor.extract %slopes[%b, %h] : tensor<?x?xbf16>
// CHECK-NEXT: arith.extf
fa.variant @alibi_per_batch(%slopes: tensor<?x?xbf16>) alibi(%slopes)

// fa.distance follows the alignment, in both regions.
// CHECK-LABEL: fa.variant @distance(){{$}}
// CHECK-NOT: fa.distance
// CHECK: score
// CHECK-NEXT: %[[X:.*]] = arith.subi %i, %j : index
// CHECK-NOT: fa.distance
// CHECK: mask
// CHECK-NOT: fa.distance
fa.variant @distance() top_left
score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
  %0 = fa.distance %i, %j : f32
  %1 = arith.addf %s, %0 : f32
  fa.yield %1 : f32
}
mask (%b: index, %h: index, %i: index, %j: index) {
  %c = arith.constant 4.0 : f32
  %0 = fa.distance %i, %j : f32
  %1 = arith.cmpf ole, %0, %c : f32
  fa.yield %1 : i1
}

// Regions that change nothing become empty; constants are folded.
// CHECK-LABEL: fa.variant @nothing(){{$}}
// CHECK-NEXT: fa.variant @folded()
fa.variant @nothing()
score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
  %one = arith.constant 1.0 : f32
  %0 = arith.mulf %s, %one : f32
  fa.yield %0 : f32
}
mask (%b: index, %h: index, %i: index, %j: index) {
  %0 = arith.cmpi eq, %j, %j : index
  fa.yield %0 : i1
}

// CHECK-NEXT: score
// CHECK-NEXT: %[[C:.*]] = arith.constant 6.000000e+00 : f32
// CHECK-NEXT: %[[M:.*]] = arith.mulf %s, %[[C]] : f32
// CHECK-NEXT: %[[E:.*]] = math.exp %[[M]] : f32
// CHECK-NEXT: %[[ALL:.*]] = arith.addf %[[E]], %[[E]] : f32
// CHECK-NEXT: fa.yield %[[ALL]]
fa.variant @folded()
score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
  %a = arith.constant 2.0 : f32
  %b2 = arith.constant 3.0 : f32
  %0 = arith.mulf %a, %b2 : f32
  %1 = arith.mulf %0, %s : f32
  %2 = arith.mulf %s, %0 : f32
  %3 = math.exp %1 : f32
  %4 = math.exp %2 : f32
  %5 = math.log %4 : f32
  %6 = arith.addf %3, %4 : f32
  fa.yield %6 : f32
}

// An instance states its scale, from the logical head dim.
// CHECK-LABEL: func.func @instance
// CHECK: fa.attention (%arg0, %arg0, %arg1) layout(bshd) group(1) scale(2.500000e-01)
// CHECK-NEXT: mask
// CHECK: fa.attention (%arg0, %arg0, %arg1) layout(bshd) group(1) scale(2.000000e+00)
// CHECK-NEXT: :
func.func @instance(%q: tensor<?x?x?x16xf16>, %v: tensor<?x?x?x40xf16>)
    -> (tensor<?x?x?x40xf16>, tensor<?x?x?x40xf16>) {
  %o, %l = fa.attention (%q, %q, %v) layout(bshd) group(1) causal
    : (tensor<?x?x?x16xf16>, tensor<?x?x?x16xf16>, tensor<?x?x?x40xf16>)
      -> (tensor<?x?x?x40xf16>, tensor<?x?x?xf32>)
  %p, %m = fa.attention (%q, %q, %v) layout(bshd) group(1) scale(2.0)
    : (tensor<?x?x?x16xf16>, tensor<?x?x?x16xf16>, tensor<?x?x?x40xf16>)
      -> (tensor<?x?x?x40xf16>, tensor<?x?x?xf32>)
  return %o, %p : tensor<?x?x?x40xf16>, tensor<?x?x?x40xf16>
}

// An f64 instance computes its sugar in f64.
// CHECK-LABEL: func.func @wide
// CHECK: score (%s: f64,
// CHECK-NEXT: arith.constant 2.000000e+01 : f64
func.func @wide(%q: tensor<?x?x?x16xf64>) -> tensor<?x?x?x16xf64> {
  %o, %l = fa.attention (%q, %q, %q) layout(bshd) group(1) softcap(20.0)
    : (tensor<?x?x?x16xf64>, tensor<?x?x?x16xf64>, tensor<?x?x?x16xf64>)
      -> (tensor<?x?x?x16xf64>, tensor<?x?x?xf64>)
  return %o : tensor<?x?x?x16xf64>
}

// A power whose exponent is not a constant.
// CHECK-LABEL: fa.variant @powers()
// CHECK-NEXT: score
// CHECK: %[[N:.*]] = arith.sitofp %{{.*}} : i32 to f32
// CHECK-NEXT: %[[P:.*]] = math.powf %s, %[[N]] : f32
// CHECK-NEXT: %[[Q:.*]] = math.fpowi %[[P]], %{{.*}} : f32, i32
// CHECK-NEXT: fa.yield %[[Q]]
fa.variant @powers()
score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
  %n = arith.index_cast %i : index to i32
  %five = arith.constant 5 : i32
  %0 = math.fpowi %s, %n : f32, i32
  %1 = math.fpowi %0, %five : f32, i32
  fa.yield %1 : f32
}
