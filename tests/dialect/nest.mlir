// Text of the nest level and of schedules reads back as itself, also through
// bytecode and the generic form.
// RUN: fa-opt %s | FileCheck %s
// RUN: fa-opt %s --verify-roundtrip -o /dev/null
// RUN: fa-opt %s --emit-bytecode | fa-opt | FileCheck %s
// RUN: fa-opt %s --mlir-print-op-generic | fa-opt | FileCheck %s

// CHECK: func.func private @default() attributes {fa.schedule = #fa.schedule<block_m = 64, block_n = 32, p = recompute, dq = ordered, origin = "text">}
func.func private @default() attributes {fa.schedule = #fa.schedule<block_m = 64, block_n = 32>}
// CHECK: #fa.schedule<block_m = 8, block_n = 512, p = store_compressed, dq = split, dq_splits = 7, kv_splits = 3, num_warps = 16, stages = 1, deterministic, origin = "said \22so\22">
func.func private @all() attributes {fa.schedule = #fa.schedule<block_m = 8, block_n = 512, p = store_compressed, dq = split, dq_splits = 7, kv_splits = 3, num_warps = 16, stages = 1, deterministic, origin = "said \"so\"">}

!buffer = memref<?x?x?x8xf32, strided<[?, ?, ?, ?], offset: ?>>

// CHECK-LABEL: func.func @memory(
func.func @memory(%q: !buffer, %n: index, %tickets: memref<?xi32>, %table: memref<?x?xf32>) {
  %c0 = arith.constant 0 : index
  // CHECK: fa.nest "rows \22of\22 Q" parallel(%[[B:.*]] = %{{.*}}, %[[I:.*]] = %{{.*}} step 4) sequential(%[[J:.*]] = %{{.*}} step 4) {
  fa.nest "rows \"of\" Q" parallel(%b = %n, %i = %n step 4) sequential(%j = %n step 4) {
    // CHECK-NEXT: %[[T:.*]] = fa.load %{{.*}}[%[[B]], %{{.*}}, %[[I]], %{{.*}}] below(%{{.*}}, %{{.*}}) : memref<?x?x?x8xf32, strided<[?, ?, ?, ?], offset: ?>> -> tensor<4x8xf32>
    %t = fa.load %q[%b, %c0, %i, %c0] below(%n, %n) : !buffer -> tensor<4x8xf32>
    // CHECK-NEXT: fa.store %[[T]], %{{.*}}[%[[B]], %{{.*}}, %[[J]], %{{.*}}] below(%{{.*}}, %{{.*}}) : tensor<4x8xf32>, memref
    fa.store %t, %q[%b, %c0, %j, %c0] below(%n, %n) : tensor<4x8xf32>, !buffer
    // CHECK-NEXT: fa.accumulate plain %[[T]], %{{.*}}[{{.*}}] below(%{{.*}}, %{{.*}}) : tensor<4x8xf32>, memref
    fa.accumulate plain %t, %q[%b, %c0, %i, %c0] below(%n, %n) : tensor<4x8xf32>, !buffer
    // CHECK-NEXT: fa.accumulate atomic
    fa.accumulate atomic %t, %q[%b, %c0, %i, %c0] below(%n, %n) : tensor<4x8xf32>, !buffer
    // CHECK-NEXT: fa.accumulate ordered %[[T]], %{{.*}}[{{.*}}] below(%{{.*}}, %{{.*}}) turn %[[J]] at %{{.*}}[%[[I]]] : tensor<4x8xf32>, memref<{{.*}}>, memref<?xi32>
    fa.accumulate ordered %t, %q[%b, %c0, %i, %c0] below(%n, %n) turn %j at %tickets[%i] : tensor<4x8xf32>, !buffer, memref<?xi32>
    // CHECK-NEXT: fa.pass_turn %[[J]] at %{{.*}}[%[[I]]] : memref<?xi32>
    fa.pass_turn %j at %tickets[%i] : memref<?xi32>
    // CHECK-NEXT: %[[IOTA:.*]] = fa.iota %[[J]] : tensor<4xindex>
    %k = fa.iota %j : tensor<4xindex>
    // CHECK-NEXT: %[[G:.*]] = fa.gather %{{.*}}[%[[B]], %[[IOTA]]] : memref<?x?xf32>, (index, tensor<4xindex>) -> tensor<4xf32>
    %g = fa.gather %table[%b, %k] : memref<?x?xf32>, (index, tensor<4xindex>) -> tensor<4xf32>
    // CHECK-NEXT: fa.scatter_add atomic %[[G]], %{{.*}}[%[[B]], %[[IOTA]]] : tensor<4xf32>, memref<?x?xf32>, (index, tensor<4xindex>)
    fa.scatter_add atomic %g, %table[%b, %k] : tensor<4xf32>, memref<?x?xf32>, (index, tensor<4xindex>)
    // CHECK-NEXT: fa.tick 3
    fa.tick 3
  }
  // CHECK: fa.forward_end outputs(%{{.*}} : memref<{{.*}}>) inputs()
  fa.forward_end outputs(%q : !buffer) inputs()
  return
}

// CHECK-LABEL: func.func @tiles(
func.func @tiles(%a: tensor<4x8xbf16>, %b: tensor<8x4xbf16>, %acc: tensor<4x4xf32>, %x: f32) {
  // CHECK-NEXT: %[[D:.*]] = fa.dot %{{.*}}, %{{.*}}, %{{.*}} : tensor<4x8xbf16>, tensor<8x4xbf16>, tensor<4x4xf32>
  %d = fa.dot %a, %b, %acc : tensor<4x8xbf16>, tensor<8x4xbf16>, tensor<4x4xf32>
  // CHECK-NEXT: fa.transpose %{{.*}} : tensor<4x8xbf16> -> tensor<8x4xbf16>
  %t = fa.transpose %a : tensor<4x8xbf16> -> tensor<8x4xbf16>
  // CHECK-NEXT: %[[M:.*]] = fa.reduce max %[[D]] dim 1 : tensor<4x4xf32> -> tensor<4xf32>
  %m = fa.reduce max %d dim 1 : tensor<4x4xf32> -> tensor<4xf32>
  // CHECK-NEXT: fa.reduce add %[[M]] dim 0 : tensor<4xf32> -> f32
  %s = fa.reduce add %m dim 0 : tensor<4xf32> -> f32
  // CHECK-NEXT: fa.broadcast %[[M]] dim 0 : tensor<4xf32> -> tensor<4x8xf32>
  %r = fa.broadcast %m dim 0 : tensor<4xf32> -> tensor<4x8xf32>
  // CHECK-NEXT: fa.broadcast %{{.*}} dim 0 : f32 -> tensor<4xf32>
  %c = fa.broadcast %x dim 0 : f32 -> tensor<4xf32>
  return
}
