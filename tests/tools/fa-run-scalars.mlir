// Captured scalars from the command line: what the type holds, and nothing else.
// RUN: fa-run %s --capture p=7 --capture cap=2 --seqlen-q 30 --verify
// RUN: not fa-run %s --capture p=1.5 2>&1 | FileCheck %s --check-prefix=WHOLE
// RUN: not fa-run %s --capture p=1e30 2>&1 | FileCheck %s --check-prefix=FAR
// RUN: not fa-run %s --capture cap=1e999 2>&1 | FileCheck %s --check-prefix=LARGE
// WHOLE: fa-run: error: --capture p: expected a number that i64 holds, got 1.5
// FAR: fa-run: error: --capture p: expected a number that i64 holds, got 1e30
// LARGE: fa-run: error: --capture cap: expected a number that f32 holds, got 1e999

fa.variant @prefix(%p: index, %cap: f32) softcap(%cap)
mask (%b: index, %h: index, %i: index, %j: index) {
  %0 = arith.cmpi slt, %j, %p : index
  %1 = arith.cmpi sle, %j, %i : index
  %2 = arith.ori %0, %1 : i1
  fa.yield %2 : i1
}
