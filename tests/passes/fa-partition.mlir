// RUN: fa-opt %s --fa-partition --split-input-file | FileCheck %s
// RUN: fa-opt %s --fa-partition --split-input-file --remarks-filter=.* --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: fa-opt %s --fa-partition=part=forward --split-input-file | FileCheck %s --check-prefix=FORWARD
// RUN: fa-opt %s --fa-partition=part=backward --split-input-file | FileCheck %s --check-prefix=BACKWARD
// RUN: not fa-opt %s --fa-partition=part=both --split-input-file 2>&1 | FileCheck %s --check-prefix=BAD
// BAD: error: expected option part to be one of [forward, backward], got 'both'

// One side alone.
// FORWARD-NOT: @f.bwd
// FORWARD: func.func @f.fwd
// FORWARD: func.func @f.saved
// FORWARD-NOT: @f.bwd
// BACKWARD-NOT: @f.fwd
// BACKWARD: func.func @f.bwd
// BACKWARD-NOT: func.func @f.{{fwd|saved}}

// The forward makes y from x and keeps t; the backward reads t. Nest "pre"
// stands before the end of the forward, but only the backward needs it.
// REMARK: Passed{{.*}}besides the outputs 1 buffers are saved
// CHECK-LABEL: func.func @f.fwd(%arg0: memref<?xf32>, %arg1: memref<?xf32>, %arg2: memref<?xf32>)
// CHECK: fa.nest "forward"
// CHECK-NOT: fa.nest
// CHECK-LABEL: func.func @f.bwd(%arg0: memref<?xf32>, %arg1: memref<?xf32>, %arg2: memref<?xf32>, %arg3: memref<?xf32>, %arg4: memref<?xf32>)
// CHECK: fa.nest "pre"
// CHECK: fa.nest "backward"
// CHECK-LABEL: func.func @f.saved(%arg0: memref<?xf32>) -> index
// CHECK: %[[N:.*]] = memref.dim %arg0
// CHECK: return %[[N]]
func.func @f(%x: memref<?xf32>, %dy: memref<?xf32>, %y: memref<?xf32>, %dx: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %n = memref.dim %x, %c0 : memref<?xf32>
  %t = memref.alloc(%n) : memref<?xf32>
  %u = memref.alloc(%n) : memref<?xf32>
  fa.nest "forward" parallel(%i = %n step 8) {
    %a = fa.load %x[%i] below(%n) : memref<?xf32> -> tensor<8xf32>
    %e = math.exp %a : tensor<8xf32>
    fa.store %e, %t[%i] below(%n) : tensor<8xf32>, memref<?xf32>
    fa.store %e, %y[%i] below(%n) : tensor<8xf32>, memref<?xf32>
  }
  fa.nest "pre" parallel(%i = %n step 8) {
    %a = fa.load %x[%i] below(%n) : memref<?xf32> -> tensor<8xf32>
    fa.store %a, %u[%i] below(%n) : tensor<8xf32>, memref<?xf32>
  }
  fa.forward_end outputs(%y : memref<?xf32>) inputs(%dy : memref<?xf32>)
  fa.nest "backward" parallel(%i = %n step 8) {
    %a = fa.load %t[%i] below(%n) : memref<?xf32> -> tensor<8xf32>
    %b = fa.load %dy[%i] below(%n) : memref<?xf32> -> tensor<8xf32>
    %c = fa.load %u[%i] below(%n) : memref<?xf32> -> tensor<8xf32>
    %d = arith.mulf %a, %b : tensor<8xf32>
    %e = arith.addf %d, %c : tensor<8xf32>
    fa.store %e, %dx[%i] below(%n) : tensor<8xf32>, memref<?xf32>
  }
  return
}

// -----

// REMARK: Missed{{.*}}no fa.forward_end: nothing to cut
// CHECK-LABEL: func.func @forward_only
func.func @forward_only(%x: memref<?xf32>) {
  return
}

// -----

// A near miss: "pre" reads x before "forward" overwrites it.
// REMARK: Missed{{.*}}a nest that only the backward needs and a later forward nest touch the same memory
// CHECK-LABEL: func.func @overwritten(
func.func @overwritten(%x: memref<?xf32>, %dy: memref<?xf32>, %dx: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %n = memref.dim %x, %c0 : memref<?xf32>
  %u = memref.alloc(%n) : memref<?xf32>
  fa.nest "pre" parallel(%i = %n step 8) {
    %a = fa.load %x[%i] below(%n) : memref<?xf32> -> tensor<8xf32>
    fa.store %a, %u[%i] below(%n) : tensor<8xf32>, memref<?xf32>
  }
  fa.nest "forward" parallel(%i = %n step 8) {
    %a = arith.constant dense<1.0> : tensor<8xf32>
    fa.store %a, %x[%i] below(%n) : tensor<8xf32>, memref<?xf32>
  }
  fa.forward_end outputs(%x : memref<?xf32>) inputs(%dy : memref<?xf32>)
  fa.nest "backward" parallel(%i = %n step 8) {
    %a = fa.load %u[%i] below(%n) : memref<?xf32> -> tensor<8xf32>
    fa.store %a, %dx[%i] below(%n) : tensor<8xf32>, memref<?xf32>
  }
  return
}
