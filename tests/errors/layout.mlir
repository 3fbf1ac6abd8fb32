// A layout that does not exist, or that lacks its packing.
// RUN: fa-opt %s --split-input-file --verify-diagnostics

func.func @f(%q: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected one of [bshd, bhsd, packed], got 'sbhd'}}
  %o, %l = fa.attention (%q, %q, %q) layout(sbhd) group(1) : (tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>) -> (tensor<?x?x?x64xf32>, tensor<?x?x?xf32>)
  return
}

// -----

func.func @f(%q: tensor<?x?x64xf32>, %k: tensor<?x?x64xf32>, %v: tensor<?x?x64xf32>) {
  // expected-error@+1 {{expected packing(cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k) with layout packed and only there, got 0 packing operands}}
  %o, %l = fa.attention (%q, %k, %v) layout(packed) group(1)
    : (tensor<?x?x64xf32>, tensor<?x?x64xf32>, tensor<?x?x64xf32>) -> (tensor<?x?x64xf32>, tensor<?x?xf32>)
  return
}

// -----

func.func @f(%q: tensor<?x?x?x64xf32>, %n: index) {
  // expected-error@+1 {{got 4 packing operands}}
  %o, %l = "fa.attention"(%q, %q, %q, %n, %n, %n, %n) <{capture_names = [], layout = #fa<layout bshd>,
    group = 1 : i64, alignment = #fa<alignment bottom_right>, operandSegmentSizes = array<i32: 1, 1, 1, 0, 4>}> ({}, {})
    : (tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>, index, index, index, index) -> (tensor<?x?x?x64xf32>, tensor<?x?x?xf32>)
  return
}

// -----

func.func @f(%q: tensor<?x?x64xf32>, %n: index) {
  // expected-error@+1 {{expected cu_seqlens of type tensor<?xi32>, got 'index'}}
  %o, %l = "fa.attention"(%q, %q, %q, %n, %n, %n, %n) <{capture_names = [], layout = #fa<layout packed>,
    group = 1 : i64, alignment = #fa<alignment bottom_right>, operandSegmentSizes = array<i32: 1, 1, 1, 0, 4>}> ({}, {})
    : (tensor<?x?x64xf32>, tensor<?x?x64xf32>, tensor<?x?x64xf32>, index, index, index, index) -> (tensor<?x?x64xf32>, tensor<?x?xf32>)
  return
}
