// RUN: fa-opt %s --fa-partition --verify-diagnostics

func.func @two(%x: memref<?xf32>) {
  fa.forward_end outputs(%x : memref<?xf32>) inputs()
  // expected-error @below {{expected at most one in a function}}
  fa.forward_end outputs(%x : memref<?xf32>) inputs()
  return
}
