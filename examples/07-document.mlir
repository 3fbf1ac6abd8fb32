// Lesson 7: a mask may depend on data. Each token carries the number of its sentence
// and sees only its own sentence. What the data hides is not known before the run:
// a small kernel in front finds, by the least and the greatest number in each tile's
// rows and columns, from which tile to which there is something to see.
//
// RUN: fa-run %s --q %S/data/q.npy --k %S/data/k.npy --v %S/data/v.npy --capture document=%S/data/sentence.npy --backward --verify

fa.variant @document(%document: tensor<?x?xi32>) causal
mask (%b: index, %h: index, %i: index, %j: index) {
  %query = tensor.extract %document[%b, %i] : tensor<?x?xi32>
  %key = tensor.extract %document[%b, %j] : tensor<?x?xi32>
  %same = arith.cmpi eq, %query, %key : i32
  fa.yield %same : i1
}
