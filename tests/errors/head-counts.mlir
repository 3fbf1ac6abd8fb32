// Query heads are group times KV heads (CASES B050).
// RUN: fa-opt %s --split-input-file --verify-diagnostics

func.func @f(%q: tensor<1x33x?x64xf32>, %k: tensor<1x2x?x64xf32>, %v: tensor<1x2x?x64xf32>) {
  // expected-error@+1 {{expected query heads = group * KV heads, got 33 query heads, 2 KV heads, group 16}}
  %o, %l = fa.attention (%q, %k, %v) layout(bhsd) group(16)
    : (tensor<1x33x?x64xf32>, tensor<1x2x?x64xf32>, tensor<1x2x?x64xf32>) -> (tensor<1x33x?x64xf32>, tensor<?x?x?xf32>)
  return
}

// -----

func.func @f(%q: tensor<1x?x3x64xf32>, %k: tensor<1x?x2x64xf32>, %v: tensor<1x?x2x64xf32>) {
  // expected-error@+1 {{expected query heads = group * KV heads, got 3 query heads, 2 KV heads, group 1}}
  %o, %l = fa.attention (%q, %k, %v) layout(bshd) group(1)
    : (tensor<1x?x3x64xf32>, tensor<1x?x2x64xf32>, tensor<1x?x2x64xf32>) -> (tensor<1x?x3x64xf32>, tensor<?x?x?xf32>)
  return
}

// -----

func.func @f(%q: tensor<1x2x?x64xf32>, %k: tensor<1x4x?x64xf32>, %v: tensor<1x4x?x64xf32>) {
  // expected-error@+1 {{expected query heads = group * KV heads, got 2 query heads, 4 KV heads, group 1}}
  %o, %l = fa.attention (%q, %k, %v) layout(bhsd) group(1)
    : (tensor<1x2x?x64xf32>, tensor<1x4x?x64xf32>, tensor<1x4x?x64xf32>) -> (tensor<1x2x?x64xf32>, tensor<?x?x?xf32>)
  return
}

// -----

func.func @f(%q: tensor<1x4x?x64xf32>, %k: tensor<1x0x?x64xf32>, %v: tensor<1x0x?x64xf32>) {
  // expected-error@+1 {{expected query heads = group * KV heads, got 4 query heads, 0 KV heads, group 1}}
  %o, %l = fa.attention (%q, %k, %v) layout(bhsd) group(1)
    : (tensor<1x4x?x64xf32>, tensor<1x0x?x64xf32>, tensor<1x0x?x64xf32>) -> (tensor<1x4x?x64xf32>, tensor<?x?x?xf32>)
  return
}

// -----

func.func @f(%q: tensor<1x4x?x64xf32>, %k: tensor<1x2x?x64xf32>, %v: tensor<1x1x?x64xf32>) {
  // expected-error@+1 {{expected 'k' and 'v' with the same number of heads, got 2 and 1}}
  %o, %l = fa.attention (%q, %k, %v) layout(bhsd) group(2)
    : (tensor<1x4x?x64xf32>, tensor<1x2x?x64xf32>, tensor<1x1x?x64xf32>) -> (tensor<1x4x?x64xf32>, tensor<?x?x?xf32>)
  return
}

// -----

func.func @f(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected group of at least 1, got 0}}
  %o, %l = fa.attention (%q, %k, %v) layout(bhsd) group(0)
    : (tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>) -> (tensor<?x?x?x64xf32>, tensor<?x?x?xf32>)
  return
}

// -----

func.func @f(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected group of at least 1, got -2}}
  %o, %l = fa.attention (%q, %k, %v) layout(bhsd) group(-2)
    : (tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>) -> (tensor<?x?x?x64xf32>, tensor<?x?x?xf32>)
  return
}
