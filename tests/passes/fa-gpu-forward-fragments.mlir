// RUN: fa-opt %s --fa-gpu-forward-fragments | FileCheck %s
// RUN: fa-opt %s --fa-gpu-forward-fragments --remarks-filter=fathom --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

#acc = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 8:1:8], lanes = [4:1:2, 8:0:1], warps = [4:0:16]>
#accT = #fa_gpu.layout<registers = [2:0:1, 2:1:8, 8:0:8], lanes = [4:0:2, 8:1:1], warps = [4:1:16]>
#cols = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 2:1:8, 4:0:16], lanes = [4:1:2, 8:0:1], warps = [4:1:16]>
!s = !fa_gpu.shared<64x64xbf16, pitch = 72>
!st = !fa_gpu.shared<64x64xbf16, pitch = 72, flipped>
!f = !fa_gpu.shared<64x64xf32, pitch = 68>

// REMARK: [Passed] {{.*}}"the first factor stays in registers"
// REMARK: [Passed] {{.*}}"the first factor stays in registers"
// REMARK: [Missed] {{.*}}"the factor comes from memory"
// REMARK: [Missed] {{.*}}"no warp holds whole lines of the factor"
// REMARK: [Missed] {{.*}}"no warp holds whole lines of the factor"
// REMARK: [Missed] {{.*}}"factors of this type are read from memory"
// REMARK: [Missed] {{.*}}"the buffer may hold another round's tile"

// CHECK-LABEL: fa_gpu.kernel @fragments
fa_gpu.kernel @fragments(%x: memref<?x64xbf16>, %o: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 16, 0]) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant dense<0.0> : tensor<64x64xf32, #acc>
  %zerof = arith.constant dense<0.0> : tensor<64x64xf32, #acc>
  %v = fa_gpu.alloc : !s
  %b0 = fa_gpu.alloc : !s
  %b1 = fa_gpu.alloc : !s
  %b2 = fa_gpu.alloc : !s
  %b3 = fa_gpu.alloc : !s
  %b4 = fa_gpu.alloc : !s
  %b5 = fa_gpu.alloc : !s
  %f = fa_gpu.alloc : !f
  %loaded = fa.load %x[%c0, %c0] below(%n, %c64) : memref<?x64xbf16> -> tensor<64x64xbf16, #acc>
  // CHECK: %[[P:.*]] = arith.negf
  %p = arith.negf %loaded : tensor<64x64xbf16, #acc>
  fa_gpu.store_shared %loaded, %v : tensor<64x64xbf16, #acc>, !s

  // The buffer that nobody reads any more is gone.
  // CHECK-NOT: fa_gpu.store_shared %[[P]]
  // CHECK: %[[O:.*]] = fa_gpu.mma %[[P]], %{{.*}}, %{{.*}} : tensor<64x64xbf16
  fa_gpu.store_shared %p, %b0 : tensor<64x64xbf16, #acc>, !s
  %0 = fa_gpu.mma %b0, %v, %zero : !s, !s, tensor<64x64xf32, #acc>

  // Columns, where columns are the factor's lines: stored through a view or
  // read through one.
  // CHECK: %[[T:.*]] = fa.transpose %[[P]]
  %pt = fa.transpose %p : tensor<64x64xbf16, #acc> -> tensor<64x64xbf16, #accT>
  // CHECK: %[[U:.*]] = fa.transpose %[[T]]
  // CHECK: fa_gpu.mma %[[U]], %{{.*}}, %[[O]] : tensor<64x64xbf16
  %b1t = fa_gpu.flip %b1 : !s -> !st
  fa_gpu.store_shared %pt, %b1t : tensor<64x64xbf16, #accT>, !st
  %1 = fa_gpu.mma %b1, %v, %0 : !s, !s, tensor<64x64xf32, #acc>

  // Near misses. A loaded tile goes to the buffer without registers.
  // CHECK: fa_gpu.mma %{{.*}}, %{{.*}}, %{{.*}} : !fa_gpu.shared
  fa_gpu.store_shared %loaded, %b2 : tensor<64x64xbf16, #acc>, !s
  %2 = fa_gpu.mma %b2, %v, %1 : !s, !s, tensor<64x64xf32, #acc>
  // Rows, where columns are the factor's lines.
  // CHECK: fa_gpu.mma %{{.*}}, %{{.*}}, %{{.*}} : !fa_gpu.shared
  fa_gpu.store_shared %p, %b3 : tensor<64x64xbf16, #acc>, !s
  %b3t = fa_gpu.flip %b3 : !s -> !st
  %3 = fa_gpu.mma %b3t, %v, %2 : !st, !s, tensor<64x64xf32, #acc>
  // Warps that hold pieces of lines.
  // CHECK: fa_gpu.mma %{{.*}}, %{{.*}}, %{{.*}} : !fa_gpu.shared
  %c = fa.load %x[%c0, %c0] below(%n, %c64) : memref<?x64xbf16> -> tensor<64x64xbf16, #cols>
  %pc = arith.negf %c : tensor<64x64xbf16, #cols>
  fa_gpu.store_shared %pc, %b4 : tensor<64x64xbf16, #cols>, !s
  %4 = fa_gpu.mma %b4, %v, %3 : !s, !s, tensor<64x64xf32, #acc>
  // f32 is multiplied without tensor cores.
  // CHECK: fa_gpu.mma %{{.*}}, %{{.*}}, %{{.*}} : !fa_gpu.shared
  %e = arith.extf %p : tensor<64x64xbf16, #acc> to tensor<64x64xf32, #acc>
  fa_gpu.store_shared %e, %f : tensor<64x64xf32, #acc>, !f
  %5 = fa_gpu.mma %f, %f, %4 : !f, !f, tensor<64x64xf32, #acc>
  // The first round reads what was there before, later ones the round before.
  // CHECK: scf.for
  // CHECK: fa_gpu.mma %{{.*}}, %{{.*}}, %{{.*}} : !fa_gpu.shared
  %6 = scf.for %i = %c0 to %n step %c64 iter_args(%acc = %5) -> (tensor<64x64xf32, #acc>) {
    %a = fa_gpu.mma %b5, %v, %acc : !s, !s, tensor<64x64xf32, #acc>
    fa_gpu.store_shared %p, %b5 : tensor<64x64xbf16, #acc>, !s
    scf.yield %a : tensor<64x64xf32, #acc>
  }
  fa.store %6, %o[%c0, %c0] below(%n, %c64) : tensor<64x64xf32, #acc>, memref<?x64xf32>
  fa_gpu.return
}
