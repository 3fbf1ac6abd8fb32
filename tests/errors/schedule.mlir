// Block sizes and policies that no schedule can have (CASES B111).
// RUN: fa-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{expected block_m to be a multiple of 8 from 8 to 512, got 0}}
func.func private @f() attributes {fa.schedule = #fa.schedule<block_m = 0, block_n = 64>}

// -----

// expected-error@+1 {{expected block_m to be a multiple of 8 from 8 to 512, got -1}}
func.func private @f() attributes {fa.schedule = #fa.schedule<block_m = -1, block_n = 64>}

// -----

// expected-error@+1 {{expected block_n to be a multiple of 8 from 8 to 512, got 3}}
func.func private @f() attributes {fa.schedule = #fa.schedule<block_m = 64, block_n = 3>}

// -----

// expected-error@+1 {{expected block_n to be a multiple of 8 from 8 to 512, got 2147483648}}
func.func private @f() attributes {fa.schedule = #fa.schedule<block_m = 64, block_n = 2147483648>}

// -----

// expected-error@+1 {{expected integer value}}
func.func private @f() attributes {fa.schedule = #fa.schedule<block_m = abc, block_n = 64>}

// -----

// expected-error@+1 {{expected both block_m and block_n}}
func.func private @f() attributes {fa.schedule = #fa.schedule<block_m = 64>}

// -----

// expected-error@+1 {{expected one of [recompute, store, store_compressed], got 'keep'}}
func.func private @f() attributes {fa.schedule = #fa.schedule<block_m = 64, block_n = 64, p = keep>}

// -----

// expected-error@+1 {{expected one of [sequential, atomic, ordered, split, two_kernel], got 'fast'}}
func.func private @f() attributes {fa.schedule = #fa.schedule<block_m = 64, block_n = 64, dq = fast>}

// -----

// expected-error@+1 {{expected dq_splits from 1 to 64, got 0}}
func.func private @f() attributes {fa.schedule = #fa.schedule<block_m = 64, block_n = 64, dq = split, dq_splits = 0>}

// -----

// expected-error@+1 {{expected kv_splits from 1 to 64, got 65}}
func.func private @f() attributes {fa.schedule = #fa.schedule<block_m = 64, block_n = 64, kv_splits = 65>}

// -----

// expected-error@+1 {{expected num_warps to be one of [1, 2, 4, 8, 16, 32], or 0 to leave the choice, got 6}}
func.func private @f() attributes {fa.schedule = #fa.schedule<block_m = 64, block_n = 64, num_warps = 6>}

// -----

// expected-error@+1 {{expected stages from 1 to 8, got 0}}
func.func private @f() attributes {fa.schedule = #fa.schedule<block_m = 64, block_n = 64, stages = 0>}

// -----

// expected-error@+1 {{expected one of [block_m, block_n, p, dq, dq_splits, kv_splits, pack_heads, group_splits, num_warps, stages, deterministic, origin], got 'warps'}}
func.func private @f() attributes {fa.schedule = #fa.schedule<block_m = 64, block_n = 64, warps = 3>}
