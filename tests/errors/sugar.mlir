// Sugar that is said twice or makes no sense. A window bound below 0 is an
// error, never "unbounded" (CASES B033).
// RUN: fa-opt %s --split-input-file --verify-diagnostics

fa.variant @twice causal causal // expected-error {{expected 'causal' at most once}}

// -----

fa.variant @twice window(left = 1, left = 2) // expected-error {{expected 'window_left' at most once}}

// -----

fa.variant @twice softcap(1.0) softcap(2.0) // expected-error {{expected 'softcap' at most once}}

// -----

fa.variant @negative window(left = -1) // expected-error {{expected a window bound of at least 0 (leave the side out for an unbounded one), got -1}}

// -----

fa.variant @negative window(left = 7, right = -8) // expected-error {{expected a window bound of at least 0}}

// -----

// expected-error@+1 {{expected window right of at least 0, got -3}}
"fa.variant"() <{sym_name = "g", capture_type_list = [], capture_names = [], window_right = -3 : i64,
  alignment = #fa<alignment bottom_right>}> ({}, {}) : () -> ()

// -----

fa.variant @side window(lef = 3) // expected-error {{expected one of [left, right], got 'lef'}}

// -----

fa.variant @cap softcap(0.0) // expected-error {{expected a softcap above 0, got 0.0}}

// -----

fa.variant @cap softcap(-30.0) // expected-error {{expected a softcap above 0, got -3.0}}

// -----

fa.variant @cap(%n: index) softcap(%n) // expected-error {{expected softcap to name a captured float scalar}}

// -----

fa.variant @cap softcap(%c) // expected-error {{expected the name of a captured operand, got '%c'}}

// -----

fa.variant @slopes(%m: tensor<?xi32>) alibi(%m) // expected-error {{expected alibi to name captured slopes, a float tensor of shape [H] or [B, H]}}

// -----

fa.variant @slopes(%m: tensor<?x?x?xf32>) alibi(%m) // expected-error {{expected alibi to name captured slopes, a float tensor of shape [H] or [B, H]}}

// -----

fa.variant @scale scale(0x7FF0000000000000) // expected-error {{expected a finite scale}}
