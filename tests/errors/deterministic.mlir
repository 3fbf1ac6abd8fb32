// RUN: fa-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{expected dq to be sequential, ordered, split or two_kernel in a deterministic schedule, got atomic}}
func.func @policy() attributes {fa.schedule = #fa.schedule<block_m = 64, block_n = 64, dq = atomic, deterministic, origin = "text">} {
  return
}

// -----

func.func @atomic(%s: memref<?xf32>, %n: index) attributes {fa.schedule = #fa.schedule<block_m = 64, block_n = 64, deterministic, origin = "text">} {
  fa.nest parallel(%i = %n) {
    %t = arith.constant dense<1.0> : tensor<8xf32>
    // expected-error @below {{expected no atomic addition in a function whose schedule is deterministic; add in order instead}}
    fa.accumulate atomic %t, %s[%i] below(%n) : tensor<8xf32>, memref<?xf32>
  }
  return
}

// -----

// expected-error @below {{expected 'fa.schedule' to be a #fa.schedule, got 3 : i64}}
func.func @type() attributes {fa.schedule = 3 : i64} {
  return
}

// -----

func.func @meeting(%s: memref<?xf32>, %n: index) attributes {fa.schedule = #fa.schedule<block_m = 64, block_n = 64, deterministic, origin = "text">} {
  %c0 = arith.constant 0 : index
  fa.nest parallel(%i = %n) {
    %t = arith.constant dense<1.0> : tensor<8xf32>
    // expected-error @below {{expected the place of a plain addition to depend on every parallel dim of its nest in a function whose schedule is deterministic, got one that does not depend on dim 0}}
    fa.accumulate plain %t, %s[%c0] below(%n) : tensor<8xf32>, memref<?xf32>
  }
  return
}
