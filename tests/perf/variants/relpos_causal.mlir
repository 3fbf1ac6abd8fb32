// The distance lowers the score.
//
// RUN: fa-run %s --heads 1 --seqlen-q 96 --seqlen-k 96 --backward --verify

fa.variant @relpos_causal() causal
score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
  %distance = fa.distance %i, %j : f32
  %0 = arith.subf %s, %distance : f32
  fa.yield %0 : f32
}
