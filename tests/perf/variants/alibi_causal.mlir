// ALiBi for 16 heads. The slopes 2^(-(h + 1) / 2) are computed, not captured: the
// gradient of captured slopes is work that the peer would not do.
//
// RUN: fa-run %s --heads 1 --seqlen-q 96 --seqlen-k 96 --backward --verify

fa.variant @alibi_causal() causal
score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
  %one = arith.constant 1 : index
  %step = arith.constant -0.5 : f32
  %number = arith.addi %h, %one : index
  %int = arith.index_cast %number : index to i32
  %float = arith.sitofp %int : i32 to f32
  %exponent = arith.mulf %float, %step : f32
  %slope = math.exp2 %exponent : f32
  %distance = fa.distance %i, %j : f32
  %bias = arith.mulf %slope, %distance : f32
  %0 = arith.subf %s, %bias : f32
  fa.yield %0 : f32
}
