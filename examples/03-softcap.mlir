// Lesson 3: a score region changes the scaled score, here into cap * tanh(s / cap).
// `softcap` is short for it. Its gradient is derived from the region.
//
// RUN: fa-run %s --variant softcap --q %S/data/q.npy --k %S/data/k.npy --v %S/data/v.npy --backward --verify
// RUN: fa-run %s --variant softcap_by_hand --q %S/data/q.npy --k %S/data/k.npy --v %S/data/v.npy --backward --verify

fa.variant @softcap() causal softcap(20.0)

fa.variant @softcap_by_hand() causal
score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
  %cap = arith.constant 20.0 : f32
  %0 = arith.divf %s, %cap : f32
  %1 = math.tanh %0 : f32
  %2 = arith.mulf %1, %cap : f32
  fa.yield %2 : f32
}
