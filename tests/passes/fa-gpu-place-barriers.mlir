// RUN: fa-opt %s --fa-gpu-place-barriers | FileCheck %s

#l = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 2:1:8], lanes = [4:1:2, 8:0:1], warps = [2:0:16]>
#m = #fa_gpu.layout<registers = [4:1:1, 2:0:16], lanes = [4:1:4, 8:0:1], warps = [2:0:8]>
!s = !fa_gpu.shared<32x16xf32, pitch = 20>
!ring = !fa_gpu.shared<32x16xf32, pitch = 20, stages = 2>
!ring3 = !fa_gpu.shared<32x16xf32, pitch = 20, stages = 3>

// One after another: a barrier for each pair, none where one stands already or
// buffers differ.
// CHECK-LABEL: @line
// CHECK: fa_gpu.store_shared
// CHECK-NEXT: fa_gpu.store_shared
// CHECK-NEXT: fa_gpu.barrier
// CHECK-NEXT: fa_gpu.load_shared
// CHECK-NEXT: fa_gpu.load_shared
// CHECK-NEXT: fa_gpu.barrier
// CHECK-NEXT: fa_gpu.store_shared
// CHECK-NEXT: fa_gpu.barrier
// CHECK-NEXT: fa_gpu.load_shared
// CHECK-NOT: fa_gpu.barrier
// CHECK: fa_gpu.return
fa_gpu.kernel @line(%x: memref<?x16xf32>) num_warps(2) min_blocks(1) alignments([16]) {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %t = fa.load %x[%c0, %c0] below(%c16, %c16) : memref<?x16xf32> -> tensor<32x16xf32, #l>
  %a = fa_gpu.alloc : !s
  %b = fa_gpu.alloc : !s
  fa_gpu.store_shared %t, %a : tensor<32x16xf32, #l>, !s
  fa_gpu.store_shared %t, %b : tensor<32x16xf32, #l>, !s
  %u = fa_gpu.load_shared %a : !s -> tensor<32x16xf32, #m>
  %v = fa_gpu.load_shared %b : !s -> tensor<32x16xf32, #m>
  fa_gpu.store_shared %v, %a : tensor<32x16xf32, #m>, !s
  fa_gpu.barrier
  %w = fa_gpu.load_shared %a : !s -> tensor<32x16xf32, #l>
  fa_gpu.return
}

// Two factors, each written and read in an iteration: two barriers, which also
// part the iterations.
// CHECK-LABEL: @two_in_turn
// CHECK: scf.for
// CHECK-NEXT: fa_gpu.store_shared
// CHECK-NEXT: fa_gpu.barrier
// CHECK-NEXT: fa_gpu.load_shared
// CHECK-NEXT: fa_gpu.store_shared
// CHECK-NEXT: fa_gpu.barrier
// CHECK-NEXT: fa_gpu.load_shared
// CHECK-NEXT: }
// CHECK-NEXT: fa_gpu.return
fa_gpu.kernel @two_in_turn(%x: memref<?x16xf32>, %n: index) num_warps(2) min_blocks(1) alignments([16, 0]) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %t = fa.load %x[%c0, %c0] below(%c16, %c16) : memref<?x16xf32> -> tensor<32x16xf32, #l>
  %a = fa_gpu.alloc : !s
  %b = fa_gpu.alloc : !s
  scf.for %i = %c0 to %n step %c1 {
    fa_gpu.store_shared %t, %a : tensor<32x16xf32, #l>, !s
    %u = fa_gpu.load_shared %a : !s -> tensor<32x16xf32, #m>
    fa_gpu.store_shared %t, %b : tensor<32x16xf32, #l>, !s
    %v = fa_gpu.load_shared %b : !s -> tensor<32x16xf32, #m>
  }
  fa_gpu.return
}

// What is written before a loop is parted before it; one buffer in a loop needs
// two barriers; a write in a branch of what was read before it, one before it.
// CHECK-LABEL: @loop_and_branch
// CHECK: fa_gpu.store_shared
// CHECK-NEXT: fa_gpu.barrier
// CHECK-NEXT: scf.for
// CHECK-NEXT: fa_gpu.load_shared
// CHECK-NEXT: fa_gpu.barrier
// CHECK-NEXT: scf.if
// CHECK-NEXT: fa_gpu.store_shared
// CHECK-NEXT: } else {
// CHECK-NEXT: fa_gpu.store_shared
// CHECK-NEXT: }
// CHECK-NEXT: fa_gpu.barrier
// CHECK-NEXT: fa_gpu.load_shared
// CHECK-NEXT: }
// CHECK-NEXT: fa_gpu.return
fa_gpu.kernel @loop_and_branch(%x: memref<?x16xf32>, %n: index, %c: i1) num_warps(2) min_blocks(1) alignments([16, 0, 0]) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %t = fa.load %x[%c0, %c0] below(%c16, %c16) : memref<?x16xf32> -> tensor<32x16xf32, #l>
  %q = fa_gpu.alloc : !s
  %a = fa_gpu.alloc : !s
  fa_gpu.store_shared %t, %q : tensor<32x16xf32, #l>, !s
  scf.for %i = %c0 to %n step %c1 {
    %u = fa_gpu.load_shared %q : !s -> tensor<32x16xf32, #m>
    scf.if %c {
      fa_gpu.store_shared %t, %a : tensor<32x16xf32, #l>, !s
    } else {
      fa_gpu.store_shared %u, %a : tensor<32x16xf32, #m>, !s
    }
    %v = fa_gpu.load_shared %a : !s -> tensor<32x16xf32, #l>
  }
  fa_gpu.return
}

// Two stages by turns: one barrier an iteration, after the wait.
// CHECK-LABEL: @ring
// CHECK: scf.for
// CHECK-NEXT: fa_gpu.wait 0
// CHECK-NOT: fa_gpu.wait
// CHECK: fa_gpu.barrier
// CHECK-NOT: fa_gpu.barrier
// CHECK: fa_gpu.load_shared
// CHECK-NOT: fa_gpu.barrier
// CHECK: fa_gpu.return
fa_gpu.kernel @ring(%x: memref<?x16xf32>, %n: index) num_warps(2) min_blocks(1) alignments([16, 0]) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c16 = arith.constant 16 : index
  %a = fa_gpu.alloc : !ring
  %a0 = fa_gpu.stage %a[%c0] : !ring -> !s
  fa_gpu.copy_async %x[%c0, %c0] below(%n, %c16) to %a0 vector 16 : memref<?x16xf32>, !s
  fa_gpu.commit
  scf.for %i = %c0 to %n step %c1 {
    fa_gpu.wait 0
    %next = arith.addi %i, %c1 : index
    %s0 = arith.remui %i, %c2 : index
    %s1 = arith.remui %next, %c2 : index
    %b0 = fa_gpu.stage %a[%s0] : !ring -> !s
    %b1 = fa_gpu.stage %a[%s1] : !ring -> !s
    fa_gpu.copy_async %x[%next, %c0] below(%n, %c16) to %b1 vector 16 : memref<?x16xf32>, !s
    fa_gpu.commit
    %u = fa_gpu.load_shared %b0 : !s -> tensor<32x16xf32, #m>
  }
  fa_gpu.return
}

// Three stages, their number carried along; the barrier that is there is enough.
// CHECK-LABEL: @ring3
// CHECK: scf.for
// CHECK: fa_gpu.wait 1
// CHECK-NEXT: fa_gpu.barrier
// CHECK-NOT: fa_gpu.barrier
// CHECK: fa_gpu.return
fa_gpu.kernel @ring3(%x: memref<?x16xf32>, %n: index) num_warps(2) min_blocks(1) alignments([16, 0]) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c16 = arith.constant 16 : index
  %a = fa_gpu.alloc : !ring3
  %a0 = fa_gpu.stage %a[%c0] : !ring3 -> !s
  fa_gpu.copy_async %x[%c0, %c0] below(%n, %c16) to %a0 vector 16 : memref<?x16xf32>, !s
  fa_gpu.commit
  %a1 = fa_gpu.stage %a[%c1] : !ring3 -> !s
  fa_gpu.copy_async %x[%c1, %c0] below(%n, %c16) to %a1 vector 16 : memref<?x16xf32>, !s
  fa_gpu.commit
  %last = scf.for %i = %c0 to %n step %c1 iter_args(%s = %c0) -> (index) {
    fa_gpu.wait 1
    fa_gpu.barrier
    %down = arith.subi %s, %c1 : index
    %first = arith.cmpi eq, %s, %c0 : index
    %into = arith.select %first, %c2, %down : index
    %b2 = fa_gpu.stage %a[%into] : !ring3 -> !s
    %ahead = arith.addi %i, %c2 : index
    %more = arith.cmpi slt, %ahead, %n : index
    scf.if %more {
      fa_gpu.copy_async %x[%ahead, %c0] below(%n, %c16) to %b2 vector 16 : memref<?x16xf32>, !s
    }
    fa_gpu.commit
    %b0 = fa_gpu.stage %a[%s] : !ring3 -> !s
    %u = fa_gpu.load_shared %b0 : !s -> tensor<32x16xf32, #m>
    %up = arith.addi %s, %c1 : index
    %over = arith.cmpi eq, %s, %c2 : index
    %next = arith.select %over, %c0, %up : index
    scf.yield %next : index
  }
  fa_gpu.return
}

// A copy is there after a wait and a barrier; a claim and turns hold barriers.
// CHECK-LABEL: @hold
// CHECK: fa_gpu.wait 0
// CHECK-NEXT: fa_gpu.barrier
// CHECK-NEXT: fa_gpu.load_shared
// CHECK: fa_gpu.claim
// CHECK-NEXT: fa_gpu.store_shared
// CHECK-NEXT: fa_gpu.wait_turn
// CHECK-NEXT: fa_gpu.load_shared
// CHECK-NEXT: fa_gpu.end_turn
// CHECK-NEXT: fa_gpu.store_shared
// CHECK-NEXT: fa_gpu.return
fa_gpu.kernel @hold(%x: memref<?x16xf32>, %n: index, %c: memref<?xi32>) num_warps(2) min_blocks(1) alignments([16, 0, 0]) {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %scratch = fa_gpu.alloc : !fa_gpu.shared<1xi32, pitch = 1>
  %a = fa_gpu.alloc : !s
  fa_gpu.copy_async %x[%c0, %c0] below(%n, %c16) to %a vector 16 : memref<?x16xf32>, !s
  fa_gpu.commit
  fa_gpu.wait 0
  %u = fa_gpu.load_shared %a : !s -> tensor<32x16xf32, #m>
  %w = fa_gpu.claim %c via %scratch : memref<?xi32>, !fa_gpu.shared<1xi32, pitch = 1>
  fa_gpu.store_shared %u, %a : tensor<32x16xf32, #m>, !s
  fa_gpu.wait_turn %w at %c[%c0] : memref<?xi32>
  %v = fa_gpu.load_shared %a : !s -> tensor<32x16xf32, #l>
  fa_gpu.end_turn at %c[%c0] : memref<?xi32>
  fa_gpu.store_shared %u, %a : tensor<32x16xf32, #m>, !s
  fa_gpu.return
}

// A loop of another kind, whose end is found by a claim: the barriers of the
// claim and of the body part its rounds.
// CHECK-LABEL: @rounds
// CHECK: scf.while
// CHECK-NEXT: fa_gpu.claim
// CHECK: } do {
// CHECK: fa_gpu.store_shared
// CHECK-NEXT: fa_gpu.barrier
// CHECK-NEXT: fa_gpu.load_shared
// CHECK-NOT: fa_gpu.barrier
// CHECK: fa_gpu.return
fa_gpu.kernel @rounds(%x: memref<?x16xf32>, %n: index, %c: memref<?xi32>) num_warps(2) min_blocks(1) alignments([16, 0, 0]) {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %scratch = fa_gpu.alloc : !fa_gpu.shared<1xi32, pitch = 1>
  scf.while : () -> () {
    %w = fa_gpu.claim %c via %scratch : memref<?xi32>, !fa_gpu.shared<1xi32, pitch = 1>
    %more = arith.cmpi slt, %w, %n : index
    scf.condition(%more)
  } do {
    %t = fa.load %x[%c0, %c0] below(%c16, %c16) : memref<?x16xf32> -> tensor<32x16xf32, #l>
    %a = fa_gpu.alloc : !s
    fa_gpu.store_shared %t, %a : tensor<32x16xf32, #l>, !s
    %u = fa_gpu.load_shared %a : !s -> tensor<32x16xf32, #m>
    scf.yield
  }
  fa_gpu.return
}

// In global memory: the same threads need no barrier, others do.
// CHECK-LABEL: @global
// CHECK: fa.store
// CHECK-NEXT: fa.load
// CHECK-NEXT: fa_gpu.barrier
// CHECK-NEXT: fa.load
// CHECK-NEXT: fa_gpu.return
fa_gpu.kernel @global(%x: memref<?x16xf32>) num_warps(2) min_blocks(1) alignments([16]) {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %t = arith.constant dense<1.0> : tensor<32x16xf32, #l>
  fa.store %t, %x[%c0, %c0] below(%c16, %c16) : tensor<32x16xf32, #l>, memref<?x16xf32>
  %u = fa.load %x[%c0, %c0] below(%c16, %c16) : memref<?x16xf32> -> tensor<32x16xf32, #l>
  %v = fa.load %x[%c0, %c0] below(%c16, %c16) : memref<?x16xf32> -> tensor<32x16xf32, #m>
  fa_gpu.return
}
