// Softcap by hand, ALiBi by hand, causal, and documents that do not see each other.
fa.variant @documents(%slopes: tensor<?xf32>, %cap: f32, %doc: tensor<?x?xi32>) causal
score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
  %0 = arith.divf %s, %cap : f32
  %1 = math.tanh %0 : f32
  %2 = arith.mulf %1, %cap : f32
  %3 = tensor.extract %slopes[%h] : tensor<?xf32>
  %4 = fa.distance %i, %j : f32
  %5 = arith.mulf %3, %4 : f32
  %6 = arith.subf %2, %5 : f32
  fa.yield %6 : f32
}
mask (%b: index, %h: index, %i: index, %j: index) {
  %0 = tensor.extract %doc[%b, %i] : tensor<?x?xi32>
  %1 = tensor.extract %doc[%b, %j] : tensor<?x?xi32>
  %2 = arith.cmpi eq, %0, %1 : i32
  fa.yield %2 : i1
}
