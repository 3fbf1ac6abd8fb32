// Lesson 2: a query sees the 64 keys before it and itself. Tiles that lie wholly
// outside of the window are never computed: both variants below visit the same
// tiles, since the mask region is analysed, not run for every entry.
//
// RUN: fa-run %s --variant window --q %S/data/q.npy --k %S/data/k.npy --v %S/data/v.npy --backward --verify
// RUN: fa-run %s --variant window_by_hand --q %S/data/q.npy --k %S/data/k.npy --v %S/data/v.npy --backward --verify

fa.variant @window() causal window(left = 64)

fa.variant @window_by_hand()
mask (%b: index, %h: index, %i: index, %j: index) {
  %c64 = arith.constant 64 : index
  %d = arith.subi %i, %j : index
  %past = arith.cmpi sge, %i, %j : index
  %near = arith.cmpi sle, %d, %c64 : index
  %both = arith.andi %past, %near : i1
  fa.yield %both : i1
}
