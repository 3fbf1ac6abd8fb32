// The first 1024 keys are seen by all, the others causally.
//
// RUN: fa-run %s --heads 1 --seqlen-q 96 --seqlen-k 96 --backward --verify

fa.variant @prefix1024()
mask (%b: index, %h: index, %i: index, %j: index) {
  %length = arith.constant 1024 : index
  %past = arith.cmpi sle, %j, %i : index
  %prefix = arith.cmpi slt, %j, %length : index
  %visible = arith.ori %past, %prefix : i1
  fa.yield %visible : i1
}
