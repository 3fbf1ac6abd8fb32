fa.variant @full
fa.variant @table(%t: tensor<?x4xf32>)
score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
  %c0 = arith.constant 0 : index
  %0 = arith.addi %i, %j : index
  %1 = tensor.extract %t[%0, %c0] : tensor<?x4xf32>
  %2 = arith.addf %s, %1 : f32
  fa.yield %2 : f32
}
