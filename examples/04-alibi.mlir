// Lesson 4: captured operands are arrays or numbers that a variant reads. Here one
// slope a head, times the distance, lowers the score of far keys; `alibi` is short
// for it. Another slope needs no new kernel.
//
// RUN: fa-run %s --variant alibi --q %S/data/q.npy --k %S/data/k.npy --v %S/data/v.npy --capture slopes=%S/data/slopes.npy --backward --verify
// RUN: fa-run %s --variant alibi_by_hand --q %S/data/q.npy --k %S/data/k.npy --v %S/data/v.npy --capture slopes=%S/data/slopes.npy --backward --verify

fa.variant @alibi(%slopes: tensor<?xf32>) causal alibi(%slopes)

fa.variant @alibi_by_hand(%slopes: tensor<?xf32>) causal
score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
  %slope = tensor.extract %slopes[%h] : tensor<?xf32>
  %distance = fa.distance %i, %j : f32
  %0 = arith.mulf %slope, %distance : f32
  %1 = arith.subf %s, %0 : f32
  fa.yield %1 : f32
}
