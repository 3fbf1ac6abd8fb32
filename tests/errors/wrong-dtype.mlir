// A dtype that attention does not run in, or that differs from q's.
// RUN: fa-opt %s --split-input-file --verify-diagnostics

func.func @f(%q: tensor<?x?x?x64xi32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected operand 'q' of element type f64, f32, bf16 or f16, got 'i32'}}
  %o, %l = fa.attention (%q, %k, %v) layout(bshd) group(1)
    : (tensor<?x?x?x64xi32>, tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>) -> (tensor<?x?x?x64xf32>, tensor<?x?x?xf32>)
  return
}

// -----

func.func @f(%q: tensor<?x?x?x64xf8E4M3FN>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected operand 'q' of element type f64, f32, bf16 or f16, got 'f8E4M3FN'}}
  %o, %l = fa.attention (%q, %k, %v) layout(bshd) group(1)
    : (tensor<?x?x?x64xf8E4M3FN>, tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>) -> (tensor<?x?x?x64xf32>, tensor<?x?x?xf32>)
  return
}

// -----

func.func @f(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected operand 'k' of element type 'f32' like 'q', got 'bf16'}}
  %o, %l = fa.attention (%q, %k, %v) layout(bshd) group(1)
    : (tensor<?x?x?x64xf32>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xf32>) -> (tensor<?x?x?x64xf32>, tensor<?x?x?xf32>)
  return
}

// -----

func.func @f(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf16>) {
  // expected-error@+1 {{expected operand 'v' of element type 'f32' like 'q', got 'f16'}}
  %o, %l = fa.attention (%q, %k, %v) layout(bshd) group(1)
    : (tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?x64xf16>) -> (tensor<?x?x?x64xf32>, tensor<?x?x?xf32>)
  return
}

// -----

func.func @f(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected operand 'o' of element type 'f32' like 'q', got 'f64'}}
  %o, %l = fa.attention (%q, %k, %v) layout(bshd) group(1)
    : (tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>) -> (tensor<?x?x?x64xf64>, tensor<?x?x?xf32>)
  return
}

// -----

func.func @f(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>) {
  // expected-error@+1 {{expected 'lse' of rank 3 and element type 'f32', got 'tensor<?x?x?xbf16>'}}
  %o, %l = fa.attention (%q, %k, %v) layout(bshd) group(1)
    : (tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>) -> (tensor<?x?x?x64xbf16>, tensor<?x?x?xbf16>)
  return
}
