// RUN: fa-opt %s --fa-specialize --split-input-file --verify-diagnostics
// RUN: not fa-run %S/Inputs/scale.mlir 2>&1 | FileCheck %s

// CHECK: expected scale to fit 'f32', got 1.000000e+39

// expected-error @below {{expected scale to fit 'f32', got 1.000000e+300}}
fa.variant @scale scale(1.0e300)

// -----

// expected-error @below {{expected softcap to fit 'f32', got 1.000000e-300}}
fa.variant @softcap softcap(1.0e-300)
