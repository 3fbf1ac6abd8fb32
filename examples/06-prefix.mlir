// Lesson 6: a mask region says which keys a query sees. Here a question of 64 tokens
// is seen by all and sees itself whole; what follows is causal.
//
// RUN: fa-run %s --q %S/data/q.npy --k %S/data/k.npy --v %S/data/v.npy --backward --verify

fa.variant @prefix()
mask (%b: index, %h: index, %i: index, %j: index) {
  %length = arith.constant 64 : index
  %past = arith.cmpi sle, %j, %i : index
  %question = arith.cmpi slt, %j, %length : index
  %visible = arith.ori %past, %question : i1
  fa.yield %visible : i1
}
