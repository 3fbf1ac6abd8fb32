// A mask that is understood in part: a test of scalars around a test of the
// mask's entries, and the turns of skipped tiles are passed in both.
// RUN: fa-opt %s --fa-pipeline --backward --head-dim=8 --fa-stop-after=fa-classify-mask | FileCheck %s

// CHECK: fa.accumulate ordered
// CHECK: } else {
// CHECK-NEXT: fa.pass_turn
// CHECK: } else {
// CHECK-NEXT: fa.pass_turn
fa.variant @square()
mask (%b: index, %h: index, %i: index, %j: index) {
  %0 = arith.muli %i, %i : index
  %1 = arith.cmpi uge, %i, %j : index
  %2 = arith.cmpi uge, %j, %0 : index
  %3 = arith.andi %1, %2 : i1
  fa.yield %3 : i1
}
