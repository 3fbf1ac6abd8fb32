// RUN: fa-opt %s --fa-gpu-copy-async | FileCheck %s
// RUN: fa-opt %s --fa-gpu-copy-async --remarks-filter=fathom --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

#l = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 2:1:8], lanes = [4:1:2, 8:0:1], warps = [2:0:16]>
#lt = #fa_gpu.layout<registers = [2:0:1, 2:1:8, 2:0:8], lanes = [4:0:2, 8:1:1], warps = [2:1:16]>
#m = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 2:1:8], lanes = [4:1:2, 8:0:1], warps = [2:r]>
!s = !fa_gpu.shared<32x16xbf16, pitch = 24>
!st = !fa_gpu.shared<16x32xbf16, pitch = 40>
!a = memref<?x?xbf16, strided<[?, 1], offset: ?>>

// REMARK: [Passed] {{.*}}"copied in pieces of 16 bytes"
// REMARK: [Passed] {{.*}}"copied in pieces of 8 bytes"
// REMARK: [Passed] {{.*}}"copied in pieces of 16 bytes"
// REMARK: [Missed] {{.*}}"lines of the buffer run across the array's"
// REMARK: [Missed] {{.*}}"the tile is used in registers too"
// REMARK: [Missed] {{.*}}"not known to be aligned to 4 bytes, with a limit there"
// REMARK: [Missed] {{.*}}"not known to be aligned to 4 bytes, with a limit there"
// REMARK: [Missed] {{.*}}"between load and store the array may be written"
// REMARK-NOT: remark:

// CHECK-LABEL: @copies
fa_gpu.kernel @copies(%x: !a, %y: !a, %n: index) num_warps(2) min_blocks(1) alignments([16, 0, 0]) {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %c12 = arith.constant 12 : index
  // CHECK: %[[S:.*]] = fa_gpu.alloc : <32x16
  %s = fa_gpu.alloc : !s
  // CHECK: %[[T:.*]] = fa_gpu.alloc : <16x32
  %t = fa_gpu.alloc : !st
  %flipped = fa_gpu.flip %t : !st -> !fa_gpu.shared<32x16xbf16, pitch = 40, flipped>
  %sflipped = fa_gpu.flip %s : !s -> !fa_gpu.shared<16x32xbf16, pitch = 24, flipped>
  // The limit, 8, cuts the tile at a whole piece.
  // CHECK-NOT: fa.load
  // CHECK: fa_gpu.copy_async %{{.*}}[%{{.*}}, %c0] below(%{{.*}}, %c8) to %[[S]] vector 16
  // CHECK-NEXT: fa_gpu.commit
  // CHECK-NEXT: fa_gpu.wait 0
  %0 = fa.load %x[%n, %c0] below(%n, %c8) : !a -> tensor<32x16xbf16, #l>
  fa_gpu.store_shared %0, %s : tensor<32x16xbf16, #l>, !s
  // CHECK-NEXT: fa_gpu.copy_async {{.*}} vector 8
  %1 = fa.load %x[%n, %c0] below(%n, %c12) : !a -> tensor<32x16xbf16, #l>
  fa_gpu.store_shared %1, %s : tensor<32x16xbf16, #l>, !s
  // Turned twice.
  // CHECK: fa_gpu.copy_async {{.*}} to %[[S]] vector 16
  %2 = fa.load %x[%n, %c0] below(%n, %c8) : !a -> tensor<32x16xbf16, #l>
  %turned = fa.transpose %2 : tensor<32x16xbf16, #l> -> tensor<16x32xbf16, #lt>
  fa_gpu.store_shared %turned, %sflipped : tensor<16x32xbf16, #lt>, !fa_gpu.shared<16x32xbf16, pitch = 24, flipped>
  // CHECK-NOT: fa_gpu.copy_async
  %3 = fa.load %x[%n, %c0] below(%n, %c8) : !a -> tensor<32x16xbf16, #l>
  fa_gpu.store_shared %3, %flipped : tensor<32x16xbf16, #l>, !fa_gpu.shared<32x16xbf16, pitch = 40, flipped>
  %4 = fa.load %x[%n, %c0] below(%n, %c8) : !a -> tensor<32x16xbf16, #l>
  fa_gpu.store_shared %4, %s : tensor<32x16xbf16, #l>, !s
  fa.store %4, %y[%n, %c0] below(%n, %c8) : tensor<32x16xbf16, #l>, !a
  // No alignment; a limit that could be anything.
  %5 = fa.load %y[%n, %c0] below(%n, %c8) : !a -> tensor<32x16xbf16, #l>
  fa_gpu.store_shared %5, %s : tensor<32x16xbf16, #l>, !s
  %6 = fa.load %x[%n, %c0] below(%n, %n) : !a -> tensor<32x16xbf16, #l>
  fa_gpu.store_shared %6, %s : tensor<32x16xbf16, #l>, !s
  %7 = fa.load %x[%n, %c0] below(%n, %c8) : !a -> tensor<32x16xbf16, #l>
  fa.store %4, %x[%n, %c0] below(%n, %c8) : tensor<32x16xbf16, #l>, !a
  fa_gpu.store_shared %7, %s : tensor<32x16xbf16, #l>, !s
  fa_gpu.return
}
