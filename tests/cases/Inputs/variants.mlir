// The variants of the cases, one line or region each.

fa.variant @full
fa.variant @causal causal
fa.variant @causal_top_left causal top_left
fa.variant @window_9_0 causal window(left = 9)
fa.variant @window_8_0 causal window(left = 8)
fa.variant @window_2_0 window(left = 2, right = 0)
fa.variant @window_5_0 window(left = 5, right = 0)
fa.variant @window_5_causal causal window(left = 5)
fa.variant @window_16_0 window(left = 16, right = 0)
fa.variant @window_16_16 window(left = 16, right = 16)
fa.variant @window_33_left window(left = 33)
fa.variant @window_64_64 window(left = 64, right = 64)
fa.variant @window_64_right window(right = 64)
fa.variant @window_32_64 window(left = 32, right = 64)
fa.variant @window_0_0 window(left = 0, right = 0)
fa.variant @window_0_left window(left = 0)
fa.variant @window_0_right window(right = 0)
fa.variant @window_0_3 window(left = 0, right = 3)
fa.variant @window_256 causal window(left = 256)
fa.variant @window_257 causal window(left = 257)
fa.variant @window_258 causal window(left = 258)
fa.variant @window_2570 causal window(left = 2570)
fa.variant @scale_eighth scale(0.125)
fa.variant @scale_quarter scale(0.25)
fa.variant @scale_half scale(0.5)
fa.variant @scale_one scale(1.0)
fa.variant @cap(%cap: f32) softcap(%cap)
fa.variant @cap_causal(%cap: f32) causal softcap(%cap)
fa.variant @cap_one(%cap: f32) softcap(%cap) scale(1.0)
fa.variant @alibi(%slopes: tensor<?xf32>) causal alibi(%slopes)
fa.variant @alibi_full(%slopes: tensor<?xf32>) alibi(%slopes)
fa.variant @alibi_batch(%slopes: tensor<?x?xf32>) alibi(%slopes)

fa.variant @bias_key(%bias: tensor<?xf32>)
score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
  %0 = tensor.extract %bias[%j] : tensor<?xf32>
  %1 = arith.addf %s, %0 : f32
  fa.yield %1 : f32
}

fa.variant @bias_table(%bias: tensor<?x?xf32>)
score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
  %0 = tensor.extract %bias[%i, %j] : tensor<?x?xf32>
  %1 = arith.addf %s, %0 : f32
  fa.yield %1 : f32
}

fa.variant @bias_batch(%bias: tensor<?x?x?xf32>)
score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
  %0 = tensor.extract %bias[%b, %i, %j] : tensor<?x?x?xf32>
  %1 = arith.addf %s, %0 : f32
  fa.yield %1 : f32
}

// A bias of one row a head, read by all queries.
fa.variant @bias_head(%bias: tensor<?x1x?xf32>)
score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
  %c0 = arith.constant 0 : index
  %0 = tensor.extract %bias[%h, %c0, %j] : tensor<?x1x?xf32>
  %1 = arith.addf %s, %0 : f32
  fa.yield %1 : f32
}

fa.variant @factor(%r: f32)
score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
  %0 = arith.mulf %s, %r : f32
  fa.yield %0 : f32
}

fa.variant @distance causal
score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
  %0 = arith.subi %i, %j : index
  %1 = arith.index_cast %0 : index to i32
  %2 = arith.sitofp %1 : i32 to f32
  %3 = arith.addf %s, %2 : f32
  fa.yield %3 : f32
}

// |i - j| with the query's place counted from the end of the keys.
fa.variant @far causal
score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
  %0 = fa.distance %i, %j : f32
  %1 = math.sqrt %0 : f32
  %2 = arith.subf %s, %1 : f32
  fa.yield %2 : f32
}

// The keys up to 127 are visible; the table has no more.
fa.variant @short_table(%table: tensor<?xf32>) causal
score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
  %0 = tensor.extract %table[%j] : tensor<?xf32>
  %1 = arith.addf %s, %0 : f32
  fa.yield %1 : f32
}
mask (%b: index, %h: index, %i: index, %j: index) {
  %c127 = arith.constant 127 : index
  %0 = arith.cmpi slt, %j, %c127 : index
  fa.yield %0 : i1
}

// A band of 64, read at i - j, which is negative where hidden.
fa.variant @band_table(%table: tensor<?xf32>) causal window(left = 63)
score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
  %0 = arith.subi %i, %j : index
  %1 = tensor.extract %table[%0] : tensor<?xf32>
  %2 = arith.addf %s, %1 : f32
  fa.yield %2 : f32
}

fa.variant @visible_rows(%rows: tensor<?xi32>)
mask (%b: index, %h: index, %i: index, %j: index) {
  %c0 = arith.constant 0 : i32
  %0 = tensor.extract %rows[%i] : tensor<?xi32>
  %1 = arith.cmpi ne, %0, %c0 : i32
  fa.yield %1 : i1
}

fa.variant @visible_table(%seen: tensor<?x?xi32>)
mask (%b: index, %h: index, %i: index, %j: index) {
  %c0 = arith.constant 0 : i32
  %0 = tensor.extract %seen[%i, %j] : tensor<?x?xi32>
  %1 = arith.cmpi ne, %0, %c0 : i32
  fa.yield %1 : i1
}

fa.variant @causal_mask
mask (%b: index, %h: index, %i: index, %j: index) {
  %0 = arith.cmpi sle, %j, %i : index
  fa.yield %0 : i1
}

fa.variant @window_9_mask
mask (%b: index, %h: index, %i: index, %j: index) {
  %c10 = arith.constant 10 : index
  %0 = arith.subi %i, %j : index
  %1 = arith.cmpi slt, %0, %c10 : index
  %2 = arith.cmpi sle, %j, %i : index
  %3 = arith.andi %1, %2 : i1
  fa.yield %3 : i1
}

fa.variant @prefix_16
mask (%b: index, %h: index, %i: index, %j: index) {
  %c16 = arith.constant 16 : index
  %0 = arith.cmpi sle, %j, %i : index
  %1 = arith.cmpi slt, %j, %c16 : index
  %2 = arith.ori %0, %1 : i1
  fa.yield %2 : i1
}

fa.variant @block_causal
mask (%b: index, %h: index, %i: index, %j: index) {
  %c8 = arith.constant 8 : index
  %0 = arith.divsi %i, %c8 : index
  %1 = arith.divsi %j, %c8 : index
  %2 = arith.cmpi sle, %1, %0 : index
  fa.yield %2 : i1
}

fa.variant @segments(%id: tensor<?x?xi32>)
mask (%b: index, %h: index, %i: index, %j: index) {
  %0 = tensor.extract %id[%b, %i] : tensor<?x?xi32>
  %1 = tensor.extract %id[%b, %j] : tensor<?x?xi32>
  %2 = arith.cmpi eq, %0, %1 : i32
  fa.yield %2 : i1
}
