// Regions compute; they do not write, loop or call.
// RUN: fa-opt %s --split-input-file --verify-diagnostics

fa.variant @writes(%m: memref<?xf32>)
// expected-error@-1 {{expected capture "m" to be a scalar or a ranked tensor, got 'memref<?xf32>'}}
score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
  memref.store %s, %m[%i] : memref<?xf32>
  fa.yield %s : f32
}

// -----

fa.variant @allocates
score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
  // expected-error@+1 {{expected an op without side effects or regions in the score region}}
  %m = memref.alloc() : memref<4xf32>
  fa.yield %s : f32
}

// -----

func.func private @g(f32) -> f32
fa.variant @calls
score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
  // expected-error@+1 {{expected an op without side effects or regions in the score region}}
  %0 = func.call @g(%s) : (f32) -> f32
  fa.yield %0 : f32
}

// -----

fa.variant @branches
mask (%b: index, %h: index, %i: index, %j: index) {
  %t = arith.constant true
  // expected-error@+1 {{expected an op without side effects or regions in the mask region}}
  %0 = scf.if %t -> i1 {
    scf.yield %t : i1
  } else {
    scf.yield %t : i1
  }
  fa.yield %0 : i1
}

// -----

fa.variant @tensors(%t: tensor<4xf32>)
score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
  // expected-error@+1 {{expected scalar results in the score region, got 'tensor<4xf32>'}}
  %0 = arith.addf %t, %t : tensor<4xf32>
  fa.yield %s : f32
}

// -----

fa.variant @contributes(%g: f32)
score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
  // expected-error@+1 {{expected the target to be a captured argument of a dscore region}}
  fa.contribute %s to %g[] : f32, f32
  fa.yield %s : f32
}
