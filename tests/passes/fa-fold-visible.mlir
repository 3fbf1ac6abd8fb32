// RUN: fa-opt %s --fa-fold-visible | FileCheck %s
// RUN: fa-opt %s --fa-fold-visible --remarks-filter=fathom --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// REMARK-COUNT-3: [Passed] {{.*}}"a visible distance has one sign"
// REMARK: [Missed] {{.*}}"its mask shows no sign of the distance"
// REMARK-NOT: [Passed]

// The mask hides j > i + off, in other words.
// CHECK-LABEL: fa.variant @later
// CHECK: %[[D:.*]] = arith.subi %{{.*}}, %j
// CHECK: %[[N:.*]] = arith.index_cast %[[D]]
// CHECK-NOT: math.absi
// CHECK: arith.sitofp %[[N]]
fa.variant @later()
score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
  %k = fa.seqlen_k : index
  %q = fa.seqlen_q : index
  %off = arith.subi %k, %q : index
  %at = arith.addi %i, %off : index
  %d = arith.subi %at, %j : index
  %n = arith.index_cast %d : index to i64
  %a = math.absi %n : i64
  %f = arith.sitofp %a : i64 to f32
  %r = arith.subf %s, %f : f32
  fa.yield %r : f32
}
mask (%b: index, %h: index, %i: index, %j: index) {
  %c100 = arith.constant 100 : index
  %few = arith.cmpi slt, %j, %c100 : index
  %k = fa.seqlen_k : index
  %q = fa.seqlen_q : index
  %jq = arith.addi %j, %q : index
  %ik = arith.addi %i, %k : index
  %past = arith.cmpi sge, %ik, %jq : index
  %v = arith.andi %few, %past : i1
  fa.yield %v : i1
}

// Strictly later keys only: i - j < 0. One more than the distance is still not
// positive; two more may be.
// CHECK-LABEL: fa.variant @earlier
// CHECK: %[[Z:.*]] = arith.constant 0 : i64
// CHECK: arith.subi %[[Z]], %{{.*}} : i64
// CHECK: %[[Z2:.*]] = arith.constant 0 : i64
// CHECK: arith.subi %[[Z2]], %{{.*}} : i64
// CHECK: math.absi
fa.variant @earlier()
score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
  %c1 = arith.constant 1 : index
  %d = arith.subi %i, %j : index
  %n = arith.index_cast %d : index to i64
  %a = math.absi %n : i64
  %d1 = arith.addi %d, %c1 : index
  %n1 = arith.index_cast %d1 : index to i64
  %a1 = math.absi %n1 : i64
  %d2 = arith.addi %d1, %c1 : index
  %n2 = arith.index_cast %d2 : index to i64
  %a2 = math.absi %n2 : i64
  %x = arith.addi %a, %a1 : i64
  %y = arith.addi %x, %a2 : i64
  %f = arith.sitofp %y : i64 to f32
  %r = arith.addf %s, %f : f32
  fa.yield %r : f32
}
mask (%b: index, %h: index, %i: index, %j: index) {
  %v = arith.cmpi sgt, %j, %i : index
  fa.yield %v : i1
}

// Near misses: either may be visible; another distance; 32 bits may wrap.
// CHECK-LABEL: fa.variant @kept
// CHECK: math.absi
// CHECK: math.absi
// CHECK: math.absi
fa.variant @kept()
score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
  %c10 = arith.constant 10 : index
  %d = arith.subi %i, %j : index
  %n = arith.index_cast %d : index to i64
  %a = math.absi %n : i64
  %e = arith.subi %d, %c10 : index
  %m = arith.index_cast %e : index to i64
  %c = math.absi %m : i64
  %w = arith.trunci %n : i64 to i32
  %g = math.absi %w : i32
  %t = arith.extsi %g : i32 to i64
  %x = arith.addi %a, %c : i64
  %y = arith.addi %x, %t : i64
  %f = arith.sitofp %y : i64 to f32
  %r = arith.subf %s, %f : f32
  fa.yield %r : f32
}
mask (%b: index, %h: index, %i: index, %j: index) {
  %c5 = arith.constant 5 : index
  %last = arith.addi %i, %c5 : index
  %v = arith.cmpi sle, %j, %last : index
  fa.yield %v : i1
}
