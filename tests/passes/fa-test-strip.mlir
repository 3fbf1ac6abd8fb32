// Only what passes may read is left.

// RUN: fa-opt %s --fa-test-strip --mlir-print-debuginfo | FileCheck %s

// CHECK: #loc = loc(unknown)
// CHECK-NOT: #loc{{[0-9]}}
// CHECK: func.func @public(%{{[^{]*}}) attributes {fa.schedule = #fa.schedule<{{.*}}>} {
// CHECK-NEXT: fa.nest parallel(%{{.*}} = %{{.*}} step 8) {
// CHECK-NOT: note
// CHECK: call @private0()
// CHECK: func.func private @private0()
// CHECK-NOT: note
// CHECK-NOT: strip.mlir
func.func @public(%n: index {note.arg}) attributes {
    fa.schedule = #fa.schedule<block_m = 64, block_n = 64, p = recompute, dq = ordered, dq_splits = 4, origin = "text">,
    note.func = 1} {
  fa.nest "labeled" parallel(%i = %n step 8) attributes {note.nest} {
  }
  call @helper() {note.call} : () -> ()
  return
}
func.func private @helper() attributes {note.helper}
