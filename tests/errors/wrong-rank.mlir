// A tensor of the wrong rank is named, with the layout that asks for another.
// RUN: fa-opt %s --split-input-file --verify-diagnostics

func.func @f(%q: tensor<?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected operand 'q' of rank 4 for layout bshd, got 'tensor<?x?x64xf32>'}}
  %o, %l = fa.attention (%q, %k, %v) layout(bshd) group(1)
    : (tensor<?x?x64xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>) -> (tensor<?x?x?x64xf32>, tensor<?x?x?xf32>)
  return
}

// -----

func.func @f(%q: tensor<?x?x?x64xf32>, %k: tensor<?x64xf32>, %v: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected operand 'k' of rank 4 for layout bhsd, got 'tensor<?x64xf32>'}}
  %o, %l = fa.attention (%q, %k, %v) layout(bhsd) group(1)
    : (tensor<?x?x?x64xf32>, tensor<?x64xf32>, tensor<?x?x?x64xf32>) -> (tensor<?x?x?x64xf32>, tensor<?x?x?xf32>)
  return
}

// -----

func.func @f(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<f32>) {
  // expected-error@+1 {{expected operand 'v' of rank 4 for layout bhsd, got 'tensor<f32>'}}
  %o, %l = fa.attention (%q, %k, %v) layout(bhsd) group(1)
    : (tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>, tensor<f32>) -> (tensor<?x?x?x64xf32>, tensor<?x?x?xf32>)
  return
}

// -----

func.func @f(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected operand 'o' of rank 4}}
  %o, %l = fa.attention (%q, %k, %v) layout(bhsd) group(1)
    : (tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>) -> (tensor<?x?x?x?x64xf32>, tensor<?x?x?xf32>)
  return
}

// -----

func.func @f(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected 'lse' of rank 3 and element type 'f32', got 'tensor<?x?xf32>'}}
  %o, %l = fa.attention (%q, %k, %v) layout(bhsd) group(1)
    : (tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>) -> (tensor<?x?x?x64xf32>, tensor<?x?xf32>)
  return
}

// -----

func.func @f(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected operand 'q' of rank 3 for layout packed}}
  %o, %l = fa.attention (%q, %k, %v) layout(packed) group(1)
    : (tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>) -> (tensor<?x?x?x64xf32>, tensor<?x?x?xf32>)
  return
}
