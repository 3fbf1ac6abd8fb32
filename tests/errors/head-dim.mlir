// Head dims are static, from 1 to 512, and equal for q and k.
// RUN: fa-opt %s --split-input-file --verify-diagnostics

func.func @f(%q: tensor<?x?x?x?xf32>, %k: tensor<?x?x?x?xf32>, %v: tensor<?x?x?x?xf32>) {
  // expected-error@+1 {{expected operand 'q' to have a static head dim from 1 to 512, got 'tensor<?x?x?x?xf32>'}}
  %o, %l = fa.attention (%q, %k, %v) layout(bshd) group(1)
    : (tensor<?x?x?x?xf32>, tensor<?x?x?x?xf32>, tensor<?x?x?x?xf32>) -> (tensor<?x?x?x?xf32>, tensor<?x?x?xf32>)
  return
}

// -----

func.func @f(%q: tensor<?x?x?x513xf32>, %k: tensor<?x?x?x513xf32>, %v: tensor<?x?x?x513xf32>) {
  // expected-error@+1 {{expected operand 'q' to have a static head dim from 1 to 512, got 'tensor<?x?x?x513xf32>'}}
  %o, %l = fa.attention (%q, %k, %v) layout(bshd) group(1)
    : (tensor<?x?x?x513xf32>, tensor<?x?x?x513xf32>, tensor<?x?x?x513xf32>) -> (tensor<?x?x?x513xf32>, tensor<?x?x?xf32>)
  return
}

// -----

func.func @f(%q: tensor<?x?x?x0xf32>, %k: tensor<?x?x?x0xf32>, %v: tensor<?x?x?x0xf32>) {
  // expected-error@+1 {{expected operand 'q' to have a static head dim from 1 to 512}}
  %o, %l = fa.attention (%q, %k, %v) layout(bshd) group(1)
    : (tensor<?x?x?x0xf32>, tensor<?x?x?x0xf32>, tensor<?x?x?x0xf32>) -> (tensor<?x?x?x0xf32>, tensor<?x?x?xf32>)
  return
}

// -----

func.func @f(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x32xf32>, %v: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected operand 'k' to have head dim 64, got 32}}
  %o, %l = fa.attention (%q, %k, %v) layout(bshd) group(1)
    : (tensor<?x?x?x64xf32>, tensor<?x?x?x32xf32>, tensor<?x?x?x64xf32>) -> (tensor<?x?x?x64xf32>, tensor<?x?x?xf32>)
  return
}

// -----

func.func @f(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x48xf32>) {
  // expected-error@+1 {{expected operand 'o' to have head dim 48, got 64}}
  %o, %l = fa.attention (%q, %k, %v) layout(bshd) group(1)
    : (tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?x48xf32>) -> (tensor<?x?x?x64xf32>, tensor<?x?x?xf32>)
  return
}
