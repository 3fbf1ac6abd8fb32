// Rules of the variant level that only the generic form can break, and those
// that are not about what a user gets wrong first (tests/errors has these).
// RUN: fa-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{expected one name per captured operand, 1, got 0}}
"fa.variant"() <{sym_name = "v", capture_type_list = [f32], capture_names = []}> ({}, {}) : () -> ()

// -----

// expected-error@+1 {{expected each capture to have a name of its own, got "x" twice}}
"fa.variant"() <{sym_name = "v", capture_type_list = [f32, f32], capture_names = ["x", "x"]}> ({}, {}) : () -> ()

// -----

// expected-error@+1 {{expected capture names of letters, digits, '_', '$', '.' and '-' that do not begin with a digit, got "a b"}}
"fa.variant"() <{sym_name = "v", capture_type_list = [f32], capture_names = ["a b"]}> ({}, {}) : () -> ()

// -----

// A value named by a number has no name that a capture could keep.
// expected-error@+1 {{expected capture names of letters, digits}}
fa.variant @v(%0: f32)

// -----

// expected-error@+1 {{expected softcap to name a captured float scalar}}
"fa.variant"() <{sym_name = "v", capture_type_list = [f32], capture_names = ["c"], softcap = 1}> ({}, {}) : () -> ()

// -----

// expected-error@+1 {{expected alibi to name captured slopes, a float tensor of shape [H] or [B, H]}}
"fa.variant"() <{sym_name = "v", capture_type_list = [f32], capture_names = ["c"], alibi = -1}> ({}, {}) : () -> ()

// -----

// expected-error@+1 {{expected alibi to name captured slopes, a float tensor of shape [H] or [B, H]}}
fa.variant @v(%c: tensor<f32>) alibi(%c)

// -----

// expected-error@+1 {{expected argument 0 of the score region to have the capture's type 'f32', got 'f64'}}
"fa.variant"() <{sym_name = "v", capture_type_list = [f32], capture_names = ["c"]}> ({
^bb0(%c: f64, %s: f32, %b: index, %h: index, %i: index, %j: index):
  "fa.yield"(%s) : (f32) -> ()
}, {}) : () -> ()

// -----

// A variant computes in f32; fa-specialize widens it for an f64 instance.
// expected-error@+1 {{expected argument 0 of the score region to be 'f32', got 'f64'}}
fa.variant @v()
score (%s: f64, %b: index, %h: index, %i: index, %j: index) {
  fa.yield %s : f64
}

// -----

func.func @f(%q: tensor<?x?x?x8xf64>) {
  // expected-error@+1 {{expected argument 0 of the score region to be 'f64', got 'f32'}}
  %o, %l = fa.attention (%q, %q, %q) layout(bshd) group(1)
    score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
      fa.yield %s : f32
    }
    : (tensor<?x?x?x8xf64>, tensor<?x?x?x8xf64>, tensor<?x?x?x8xf64>)
      -> (tensor<?x?x?x8xf64>, tensor<?x?x?xf64>)
  return
}

// -----

// expected-error@+1 {{expected the mask region to end with fa.yield}}
"fa.variant"() <{sym_name = "v", capture_type_list = [], capture_names = []}> ({}, {
^bb0(%b: index, %h: index, %i: index, %j: index):
}) : () -> ()

// -----

// expected-error@+2 {{expected one of [bottom_right, top_left]}}
// expected-error@+1 {{failed to parse FA_AlignmentAttr}}
"fa.variant"() <{sym_name = "v", capture_type_list = [], capture_names = [], alignment = #fa<alignment left>}> ({}, {}) : () -> ()

// -----

func.func @f(%i: index) {
  // expected-error@+1 {{expects parent op to be one of}}
  %0 = fa.distance %i, %i : f32
  return
}

// -----

func.func @f() {
  // expected-error@+1 {{expects parent op to be one of}}
  %0 = fa.seqlen_q : index
  return
}

// -----

// Static sizes that contradict each other.
func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<3x6x4x8xf32>) {
  // expected-error@+1 {{expected dim 0 of 'k' to equal dim 0 of 'q', 2, got 3}}
  %o, %l = fa.attention (%q, %k, %k) layout(bshd) group(1)
    : (tensor<2x5x4x8xf32>, tensor<3x6x4x8xf32>, tensor<3x6x4x8xf32>)
      -> (tensor<2x5x4x8xf32>, tensor<2x4x5xf32>)
  return
}

// -----

func.func @f(%q: tensor<2x5x4x8xf32>) {
  // expected-error@+1 {{expected dim 1 of 'o' to equal dim 1 of 'q', 5, got 4}}
  %o, %l = fa.attention (%q, %q, %q) layout(bshd) group(1)
    : (tensor<2x5x4x8xf32>, tensor<2x5x4x8xf32>, tensor<2x5x4x8xf32>)
      -> (tensor<2x4x4x8xf32>, tensor<2x4x5xf32>)
  return
}

// -----

func.func @f(%q: tensor<2x5x4x8xf32>) {
  // expected-error@+1 {{expected dim 1 of 'lse' to equal dim 2 of 'q', 4, got 5}}
  %o, %l = fa.attention (%q, %q, %q) layout(bshd) group(1)
    : (tensor<2x5x4x8xf32>, tensor<2x5x4x8xf32>, tensor<2x5x4x8xf32>)
      -> (tensor<2x5x4x8xf32>, tensor<2x5x4xf32>)
  return
}

// -----

func.func @f(%q: tensor<?x5x8xf32>, %k: tensor<6x5x8xf32>, %v: tensor<7x5x8xf32>, %c: tensor<?xi32>, %n: index) {
  // expected-error@+1 {{expected dim 0 of 'v' to equal dim 0 of 'k', 6, got 7}}
  %o, %l = fa.attention (%q, %k, %v) layout(packed) group(1) packing(%c, %c, %n, %n)
    : (tensor<?x5x8xf32>, tensor<6x5x8xf32>, tensor<7x5x8xf32>)
      -> (tensor<?x5x8xf32>, tensor<5x?xf32>)
  return
}

// -----

func.func @f(%q: tensor<?x?x8xf32>, %c: tensor<?xi32>, %n: i64) {
  // expected-error@+1 {{expected max_seqlen of type index, got 'i64'}}
  %o, %l = "fa.attention"(%q, %q, %q, %c, %c, %n, %n) <{capture_names = [], group = 1 : i64, layout = #fa<layout packed>, operandSegmentSizes = array<i32: 1, 1, 1, 0, 4>}> ({}, {})
    : (tensor<?x?x8xf32>, tensor<?x?x8xf32>, tensor<?x?x8xf32>, tensor<?xi32>, tensor<?xi32>, i64, i64) -> (tensor<?x?x8xf32>, tensor<?x?xf32>)
  return
}

// -----

!t = tensor<?x?x?x8xf32>
!l = tensor<?x?x?xf32>
func.func @f(%t: !t, %l: !l, %m: tensor<?xf32>) {
  %dq, %dk, %dv, %g = fa.attention_grad (%t, %t, %t, %t, %l, %t, %l) layout(bhsd) group(1)
    captures(%slopes = %m : tensor<?xf32>) grad_captures(0)
    dscore (%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index) {
      // expected-error@+1 {{expected one index per dim of the target, 1, got 2}}
      fa.contribute %ds to %slopes[%b, %h] : f32, tensor<?xf32>
      fa.yield %ds : f32
    }
    : (!t, !t, !t, !t, !l, !t, !l) -> (!t, !t, !t, tensor<?xf32>)
  return
}

// -----

!t = tensor<?x?x?x8xf32>
!l = tensor<?x?x?xf32>
func.func @f(%t: !t, %l: !l, %m: tensor<?xf32>) {
  %dq, %dk, %dv = fa.attention_grad (%t, %t, %t, %t, %l, %t, %l) layout(bhsd) group(1)
    captures(%slopes = %m : tensor<?xf32>)
    dscore (%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index) {
      // expected-error@+1 {{expected the target to be a captured argument of a dscore region, one that grad_captures lists}}
      fa.contribute %ds to %slopes[%h] : f32, tensor<?xf32>
      fa.yield %ds : f32
    }
    : (!t, !t, !t, !t, !l, !t, !l) -> (!t, !t, !t)
  return
}

// -----

!t = tensor<?x?x?x8xf32>
!l = tensor<?x?x?xf32>
func.func @f(%t: !t, %l: !l, %m: f32) {
  %dq, %dk, %dv, %g = fa.attention_grad (%t, %t, %t, %t, %l, %t, %l) layout(bhsd) group(1)
    captures(%cap = %m : f32) grad_captures(0)
    dscore (%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index) {
      // expected-error@+1 {{expected the target to be a captured argument of a dscore region}}
      fa.contribute %ds to %s[] : f32, f32
      fa.yield %ds : f32
    }
    : (!t, !t, !t, !t, !l, !t, !l) -> (!t, !t, !t, tensor<1xf32>)
  return
}

// -----

!t = tensor<?x?x?x8xf32>
!l = tensor<?x?x?xf32>
func.func @f(%t: !t, %l: !l, %m: f32) {
  %dq, %dk, %dv, %g = fa.attention_grad (%t, %t, %t, %t, %l, %t, %l) layout(bhsd) group(1)
    captures(%cap = %m : f32) grad_captures(0)
    dscore (%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index) {
      %0 = arith.truncf %ds : f32 to bf16
      // expected-error@+1 {{expected a value of type 'f32', got 'bf16'}}
      fa.contribute %0 to %cap[] : bf16, f32
      fa.yield %ds : f32
    }
    : (!t, !t, !t, !t, !l, !t, !l) -> (!t, !t, !t, tensor<1xf32>)
  return
}

// -----

fa.variant @v top_left bottom_right // expected-error {{expected 'alignment' at most once}}

// -----

fa.variant @v(%t: tensor<4xf32>)
score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
  // expected-error@+1 {{expected an arith or math op, tensor.extract, tensor.dim, fa.distance, fa.seqlen_q or fa.seqlen_k in the score region}}
  %0 = fa.reduce add %t dim 0 : tensor<4xf32> -> f32
  fa.yield %0 : f32
}
