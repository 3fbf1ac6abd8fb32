// RUN: fa-opt %s --fa-gpu-order-products | FileCheck %s
// RUN: fa-opt %s --fa-gpu-order-products --remarks-filter=fathom --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

#acc = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 8:1:8], lanes = [4:1:2, 8:0:1], warps = [4:0:16]>
#accT = #fa_gpu.layout<registers = [2:0:1, 2:1:8, 8:0:8], lanes = [4:0:2, 8:1:1], warps = [4:1:16]>
#row = #fa_gpu.layout<registers = [2:0:8], lanes = [4:r, 8:0:1], warps = [4:0:16]>
!s = !fa_gpu.shared<64x64xbf16, pitch = 72>

// REMARK: [Passed] {{.*}}"2 products moved, 0 lines read ahead"
// REMARK: [Missed] {{.*}}"the products stand as they must"
// REMARK: [Missed] {{.*}}"the products stand as they must"
// REMARK: [Passed] {{.*}}"0 products moved, 1 lines read ahead"
// REMARK: [Passed] {{.*}}"1 products moved, 0 lines read ahead"
// REMARK: [Missed] {{.*}}"the products stand as they must"

// The second product of q and k needs nothing of this round; the product of what
// is stored can wait, with its relabel, for the other one behind a barrier.
// CHECK-LABEL: fa_gpu.kernel @moved
// CHECK: scf.for
// CHECK: %[[S:.*]] = fa_gpu.mma
// CHECK-NEXT: %[[T:.*]] = fa_gpu.mma
// CHECK-NEXT: %[[P:.*]] = arith.truncf %[[S]]
// CHECK-NEXT: fa_gpu.store_shared %[[P]], %[[PS:.*]] :
// CHECK-NEXT: %[[D:.*]] = arith.truncf %[[T]]
// CHECK-NEXT: fa_gpu.store_shared %[[D]], %[[DS:.*]] :
// CHECK-NEXT: %[[A:.*]] = fa_gpu.mma %[[PS]],
// CHECK-NEXT: fa.transpose %[[A]]
// CHECK-NEXT: fa_gpu.mma %[[DS]],
fa_gpu.kernel @moved(%o: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 0]) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant dense<0.0> : tensor<64x64xf32, #acc>
  %q = fa_gpu.alloc : !s
  %k = fa_gpu.alloc : !s
  %ps = fa_gpu.alloc : !s
  %ds = fa_gpu.alloc : !s
  %r:2 = scf.for %i = %c0 to %n step %c64 iter_args(%x = %zero, %y = %zero) -> (tensor<64x64xf32, #acc>, tensor<64x64xf32, #acc>) {
    %s = fa_gpu.mma %q, %k, %zero : !s, !s, tensor<64x64xf32, #acc>
    %p = arith.truncf %s : tensor<64x64xf32, #acc> to tensor<64x64xbf16, #acc>
    fa_gpu.store_shared %p, %ps : tensor<64x64xbf16, #acc>, !s
    %a = fa_gpu.mma %ps, %k, %x : !s, !s, tensor<64x64xf32, #acc>
    %at = fa.transpose %a : tensor<64x64xf32, #acc> -> tensor<64x64xf32, #accT>
    %t = fa_gpu.mma %k, %q, %zero : !s, !s, tensor<64x64xf32, #acc>
    %d = arith.truncf %t : tensor<64x64xf32, #acc> to tensor<64x64xbf16, #acc>
    fa_gpu.store_shared %d, %ds : tensor<64x64xbf16, #acc>, !s
    %b = fa_gpu.mma %ds, %k, %y : !s, !s, tensor<64x64xf32, #acc>
    %back = fa.transpose %at : tensor<64x64xf32, #accT> -> tensor<64x64xf32, #acc>
    scf.yield %back, %b : tensor<64x64xf32, #acc>, tensor<64x64xf32, #acc>
  }
  fa.store %r#0, %o[%c0, %c0] below(%n, %c64) : tensor<64x64xf32, #acc>, memref<?x64xf32>
  fa.store %r#1, %o[%c64, %c0] below(%n, %c64) : tensor<64x64xf32, #acc>, memref<?x64xf32>
  fa_gpu.return
}

// Near misses. The buffer of the first is stored to again; a branch in between
// needs it.
// CHECK-LABEL: fa_gpu.kernel @stored_again
// CHECK: scf.for
// CHECK: fa_gpu.store_shared
// CHECK-NEXT: fa_gpu.mma
// CHECK-NEXT: fa_gpu.store_shared
// CHECK-NEXT: fa_gpu.mma
fa_gpu.kernel @stored_again(%p: memref<?x64xbf16>, %o: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 16, 0]) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant dense<0.0> : tensor<64x64xf32, #acc>
  %k = fa_gpu.alloc : !s
  %ps = fa_gpu.alloc : !s
  %h = fa.load %p[%c0, %c0] below(%n, %c64) : memref<?x64xbf16> -> tensor<64x64xbf16, #acc>
  %g = arith.negf %h : tensor<64x64xbf16, #acc>
  %r:2 = scf.for %i = %c0 to %n step %c64 iter_args(%x = %zero, %y = %zero) -> (tensor<64x64xf32, #acc>, tensor<64x64xf32, #acc>) {
    fa_gpu.store_shared %h, %ps : tensor<64x64xbf16, #acc>, !s
    %a = fa_gpu.mma %ps, %k, %x : !s, !s, tensor<64x64xf32, #acc>
    fa_gpu.store_shared %g, %ps : tensor<64x64xbf16, #acc>, !s
    %b = fa_gpu.mma %ps, %k, %y : !s, !s, tensor<64x64xf32, #acc>
    scf.yield %a, %b : tensor<64x64xf32, #acc>, tensor<64x64xf32, #acc>
  }
  fa.store %r#0, %o[%c0, %c0] below(%n, %c64) : tensor<64x64xf32, #acc>, memref<?x64xf32>
  fa.store %r#1, %o[%c64, %c0] below(%n, %c64) : tensor<64x64xf32, #acc>, memref<?x64xf32>
  fa_gpu.return
}

// CHECK-LABEL: fa_gpu.kernel @needed
// CHECK: scf.for
// CHECK: fa_gpu.mma
// CHECK-NEXT: scf.if
// CHECK: fa_gpu.mma
fa_gpu.kernel @needed(%p: memref<?x64xbf16>, %o: memref<?x64xf32>, %n: index, %c: i1) num_warps(4) min_blocks(1) alignments([16, 16, 0, 0]) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant dense<0.0> : tensor<64x64xf32, #acc>
  %k = fa_gpu.alloc : !s
  %ps = fa_gpu.alloc : !s
  %h = fa.load %p[%c0, %c0] below(%n, %c64) : memref<?x64xbf16> -> tensor<64x64xbf16, #acc>
  %r = scf.for %i = %c0 to %n step %c64 iter_args(%x = %zero) -> (tensor<64x64xf32, #acc>) {
    fa_gpu.store_shared %h, %ps : tensor<64x64xbf16, #acc>, !s
    %a = fa_gpu.mma %ps, %k, %zero : !s, !s, tensor<64x64xf32, #acc>
    scf.if %c {
      fa.store %a, %o[%i, %c0] below(%n, %c64) : tensor<64x64xf32, #acc>, memref<?x64xf32>
    }
    %b = fa_gpu.mma %ps, %k, %x : !s, !s, tensor<64x64xf32, #acc>
    scf.yield %b : tensor<64x64xf32, #acc>
  }
  fa.store %r, %o[%c0, %c0] below(%n, %c64) : tensor<64x64xf32, #acc>, memref<?x64xf32>
  fa_gpu.return
}

// A line that is there before the round is read ahead; what is copied in between
// is not.
// CHECK-LABEL: fa_gpu.kernel @lines
// CHECK: %[[L:.*]] = fa_gpu.alloc : <64xf32
// CHECK: %[[M:.*]] = fa_gpu.alloc : <64xf32
// CHECK: scf.for
// CHECK-NEXT: fa_gpu.load_shared %[[L]]
// CHECK-NEXT: fa_gpu.mma
// CHECK-NEXT: fa_gpu.mma
// CHECK-NEXT: fa_gpu.copy_async
// CHECK-NEXT: fa_gpu.commit
// CHECK-NEXT: fa_gpu.wait 0
// CHECK-NEXT: fa_gpu.load_shared %[[M]]
fa_gpu.kernel @lines(%x: memref<?xf32>, %o: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 16, 0]) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant dense<0.0> : tensor<64x64xf32, #acc>
  %q = fa_gpu.alloc : !s
  %l = fa_gpu.alloc : !fa_gpu.shared<64xf32, pitch = 64>
  %m = fa_gpu.alloc : !fa_gpu.shared<64xf32, pitch = 64>
  %r = scf.for %i = %c0 to %n step %c64 iter_args(%y = %zero) -> (tensor<64x64xf32, #acc>) {
    %s = fa_gpu.mma %q, %q, %zero : !s, !s, tensor<64x64xf32, #acc>
    %t = fa_gpu.mma %q, %q, %s : !s, !s, tensor<64x64xf32, #acc>
    %a = fa_gpu.load_shared %l : !fa_gpu.shared<64xf32, pitch = 64> -> tensor<64xf32, #row>
    fa_gpu.copy_async %x[%i] below(%n) to %m vector 4 : memref<?xf32>, !fa_gpu.shared<64xf32, pitch = 64>
    fa_gpu.commit
    fa_gpu.wait 0
    %b = fa_gpu.load_shared %m : !fa_gpu.shared<64xf32, pitch = 64> -> tensor<64xf32, #row>
    %c = arith.addf %a, %b : tensor<64xf32, #row>
    %d = fa.broadcast %c dim 0 : tensor<64xf32, #row> -> tensor<64x64xf32, #acc>
    %e = arith.addf %t, %d : tensor<64x64xf32, #acc>
    scf.yield %e : tensor<64x64xf32, #acc>
  }
  fa.store %r, %o[%c0, %c0] below(%n, %c64) : tensor<64x64xf32, #acc>, memref<?x64xf32>
  fa_gpu.return
}

// What is added to memory goes first, with what the addition needs; not where
// something else is written there before.
// CHECK-LABEL: fa_gpu.kernel @sums
// CHECK: fa_gpu.store_shared
// CHECK-NEXT: %[[T:.*]] = fa_gpu.mma %{{.*}}, %cst :
// CHECK-NEXT: arith.addi
// CHECK-NEXT: fa.accumulate atomic %[[T]]
// CHECK-NEXT: fa_gpu.mma
fa_gpu.kernel @sums(%w: memref<?x64xf32>, %o: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 16, 0]) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant dense<0.0> : tensor<64x64xf32, #acc>
  %p = arith.constant dense<1.0> : tensor<64x64xbf16, #acc>
  %q = fa_gpu.alloc : !s
  %ps = fa_gpu.alloc : !s
  %r = scf.for %i = %c0 to %n step %c64 iter_args(%y = %zero) -> (tensor<64x64xf32, #acc>) {
    fa_gpu.store_shared %p, %ps : tensor<64x64xbf16, #acc>, !s
    %s = fa_gpu.mma %ps, %q, %y : !s, !s, tensor<64x64xf32, #acc>
    %t = fa_gpu.mma %ps, %ps, %zero : !s, !s, tensor<64x64xf32, #acc>
    %j = arith.addi %i, %c64 : index
    fa.accumulate atomic %t, %w[%j, %c0] below(%n, %c64) : tensor<64x64xf32, #acc>, memref<?x64xf32>
    scf.yield %s : tensor<64x64xf32, #acc>
  }
  fa.store %r, %o[%c0, %c0] below(%n, %c64) : tensor<64x64xf32, #acc>, memref<?x64xf32>
  fa_gpu.return
}

// CHECK-LABEL: fa_gpu.kernel @written
// CHECK: fa_gpu.store_shared
// CHECK-NEXT: fa_gpu.mma
// CHECK-NEXT: fa_gpu.mma
fa_gpu.kernel @written(%w: memref<?x64xf32>, %o: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 16, 0]) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant dense<0.0> : tensor<64x64xf32, #acc>
  %p = arith.constant dense<1.0> : tensor<64x64xbf16, #acc>
  %q = fa_gpu.alloc : !s
  %ps = fa_gpu.alloc : !s
  %r = scf.for %i = %c0 to %n step %c64 iter_args(%y = %zero) -> (tensor<64x64xf32, #acc>) {
    fa_gpu.store_shared %p, %ps : tensor<64x64xbf16, #acc>, !s
    %s = fa_gpu.mma %ps, %q, %y : !s, !s, tensor<64x64xf32, #acc>
    %t = fa_gpu.mma %ps, %ps, %zero : !s, !s, tensor<64x64xf32, #acc>
    %j = arith.addi %i, %c64 : index
    fa.store %zero, %w[%i, %c0] below(%n, %c64) : tensor<64x64xf32, #acc>, memref<?x64xf32>
    fa.accumulate atomic %t, %w[%j, %c0] below(%n, %c64) : tensor<64x64xf32, #acc>, memref<?x64xf32>
    scf.yield %s : tensor<64x64xf32, #acc>
  }
  fa.store %r, %o[%c0, %c0] below(%n, %c64) : tensor<64x64xf32, #acc>, memref<?x64xf32>
  fa_gpu.return
}
