// A query sees those before it in its own document.
//
// RUN: fa-run %s --heads 1 --seqlen-q 560 --seqlen-k 560 --capture document=random:560 --backward --verify

fa.variant @document512_causal(%document: tensor<?xi32>) causal
mask (%b: index, %h: index, %i: index, %j: index) {
  %query = tensor.extract %document[%i] : tensor<?xi32>
  %key = tensor.extract %document[%j] : tensor<?xi32>
  %same = arith.cmpi eq, %query, %key : i32
  fa.yield %same : i1
}
