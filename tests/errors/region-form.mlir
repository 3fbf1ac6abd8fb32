// A region with the wrong arguments or the wrong result.
// RUN: fa-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{expected 5 arguments besides the captures in the score region, got 4}}
fa.variant @few
score (%s: f32, %b: index, %h: index, %i: index) {
  fa.yield %s : f32
}

// -----

// expected-error@+1 {{expected argument 0 of the score region to be 'f32', got 'i32'}}
fa.variant @whole
score (%s: i32, %b: index, %h: index, %i: index, %j: index) {
  fa.yield %s : i32
}

// -----

// expected-error@+1 {{expected argument 3 of the mask region to be 'index', got 'i64'}}
fa.variant @kind
mask (%b: index, %h: index, %i: index, %j: i64) {
  %t = arith.constant true
  fa.yield %t : i1
}

// -----

fa.variant @result
score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
  %t = arith.constant true
  // expected-error@+1 {{expected a value of type 'f32' from the score region, got 'i1'}}
  fa.yield %t : i1
}

// -----

fa.variant @mask_result
mask (%b: index, %h: index, %i: index, %j: index) {
  // expected-error@+1 {{expected a value of type 'i1' from the mask region, got 'index'}}
  fa.yield %j : index
}

// -----

fa.variant @two
score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
  // expected-error@+1 {{expected one value, got 2}}
  fa.yield %s, %s : f32, f32
}

// -----

// expected-error@+1 {{expected the score region to end with fa.yield}}
fa.variant @end
score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
  %0 = arith.addf %s, %s : f32
}

// -----

// expected-error@+1 {{expected the score region to end with fa.yield}}
fa.variant @empty
score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
}

// -----

// expected-error@+1 {{expected one block in the score region}}
fa.variant @blocks
score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
  fa.yield %s : f32
^next:
  fa.yield %s : f32
}
