// RUN: fa-opt %s --fa-gpu-peel-masks | FileCheck %s
// RUN: fa-opt %s --fa-gpu-peel-masks --remarks-filter=fathom --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

#acc = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 8:1:8], lanes = [4:1:2, 8:0:1], warps = [4:0:16]>
!s = !fa_gpu.shared<64x64xbf16, pitch = 72>

// REMARK: [Passed] {{.*}}"most rounds ask no more whether they need a mask"
// REMARK: [Passed] {{.*}}"most rounds ask no more whether they need a mask"
// REMARK: [Missed] {{.*}}"the mask cuts through tiles in several ways"
// REMARK: [Missed] {{.*}}"a test is not linear in the loop"
// REMARK: [Missed] {{.*}}"a test depends on what the loop carries"
// REMARK: [Missed] {{.*}}"no tile depends on a test"

// All keys of the tile exist, up to the last tile: rounds before k - 63 ask no
// more, none where %b does not hold.
// CHECK-LABEL: fa_gpu.kernel @keys
// CHECK: %[[END:.*]] = arith.subi %arg2, %
// CHECK: arith.minsi %[[END]], %arg1
// CHECK: %[[STOP:.*]] = arith.select %arg4
// CHECK: %[[A:.*]] = scf.for %{{.*}} to %[[STOP]] step
// CHECK-NOT: scf.if
// CHECK: scf.for %{{.*}} to %arg1 step %{{.*}} iter_args(%{{.*}} = %[[A]])
// CHECK-NOT: scf.if
// CHECK: math.absf
// CHECK-NOT: scf.for
fa_gpu.kernel @keys(%o: memref<?x64xf32>, %n: index, %k: index, %row: index, %b: i1) num_warps(4) min_blocks(1) alignments([16, 0, 0, 0, 0]) {
  %c0 = arith.constant 0 : index
  %c63 = arith.constant 63 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant dense<0.0> : tensor<64x64xf32, #acc>
  %q = fa_gpu.alloc : !s
  %r = scf.for %j = %c0 to %n step %c64 iter_args(%x = %zero) -> (tensor<64x64xf32, #acc>) {
    %last = arith.addi %j, %c63 : index
    %in = arith.cmpi sgt, %k, %last : index
    %all = arith.andi %b, %in : i1
    %s = fa_gpu.mma %q, %q, %zero : !s, !s, tensor<64x64xf32, #acc>
    %t = scf.if %all -> (tensor<64x64xf32, #acc>) {
      scf.yield %s : tensor<64x64xf32, #acc>
    } else {
      %m = math.absf %s : tensor<64x64xf32, #acc>
      scf.yield %m : tensor<64x64xf32, #acc>
    }
    %y = arith.addf %x, %t : tensor<64x64xf32, #acc>
    scf.yield %y : tensor<64x64xf32, #acc>
  }
  fa.store %r, %o[%c0, %c0] below(%n, %c64) : tensor<64x64xf32, #acc>, memref<?x64xf32>
  fa_gpu.return
}

// The other way round: rounds from row - 64 on, operands swapped.
// CHECK-LABEL: fa_gpu.kernel @window
// CHECK: %[[A:.*]] = scf.for
// CHECK: math.absf
// CHECK: scf.for %{{.*}} iter_args(%{{.*}} = %[[A]])
// CHECK-NOT: math.absf
// CHECK-NOT: scf.for
// CHECK: fa_gpu.return
fa_gpu.kernel @window(%o: memref<?x64xf32>, %n: index, %k: index, %row: index, %b: i1) num_warps(4) min_blocks(1) alignments([16, 0, 0, 0, 0]) {
  %c0 = arith.constant 0 : index
  %c63 = arith.constant 63 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant dense<0.0> : tensor<64x64xf32, #acc>
  %q = fa_gpu.alloc : !s
  %r = scf.for %j = %c0 to %n step %c64 iter_args(%x = %zero) -> (tensor<64x64xf32, #acc>) {
    %last = arith.addi %c64, %j : index
    %all = arith.cmpi sle, %row, %last : index
    %s = fa_gpu.mma %q, %q, %zero : !s, !s, tensor<64x64xf32, #acc>
    %t = scf.if %all -> (tensor<64x64xf32, #acc>) {
      scf.yield %s : tensor<64x64xf32, #acc>
    } else {
      %m = math.absf %s : tensor<64x64xf32, #acc>
      scf.yield %m : tensor<64x64xf32, #acc>
    }
    %y = arith.addf %x, %t : tensor<64x64xf32, #acc>
    scf.yield %y : tensor<64x64xf32, #acc>
  }
  fa.store %r, %o[%c0, %c0] below(%n, %c64) : tensor<64x64xf32, #acc>, memref<?x64xf32>
  fa_gpu.return
}

// Near misses: two tests that change with the loop, one that changes by more
// than the loop does, one on what is carried, none.
// CHECK-LABEL: fa_gpu.kernel @both
// CHECK-COUNT-1: scf.for
// CHECK-NOT: scf.for
fa_gpu.kernel @both(%o: memref<?x64xf32>, %n: index, %k: index, %row: index, %b: i1) num_warps(4) min_blocks(1) alignments([16, 0, 0, 0, 0]) {
  %c0 = arith.constant 0 : index
  %c63 = arith.constant 63 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant dense<0.0> : tensor<64x64xf32, #acc>
  %q = fa_gpu.alloc : !s
  %r = scf.for %j = %c0 to %n step %c64 iter_args(%x = %zero) -> (tensor<64x64xf32, #acc>) {
    %in = arith.cmpi sgt, %k, %j : index
    %seen = arith.cmpi sle, %row, %j : index
    %all = arith.andi %in, %seen : i1
    %s = fa_gpu.mma %q, %q, %zero : !s, !s, tensor<64x64xf32, #acc>
    %t = scf.if %all -> (tensor<64x64xf32, #acc>) {
      scf.yield %s : tensor<64x64xf32, #acc>
    } else {
      %m = math.absf %s : tensor<64x64xf32, #acc>
      scf.yield %m : tensor<64x64xf32, #acc>
    }
    %y = arith.addf %x, %t : tensor<64x64xf32, #acc>
    scf.yield %y : tensor<64x64xf32, #acc>
  }
  fa.store %r, %o[%c0, %c0] below(%n, %c64) : tensor<64x64xf32, #acc>, memref<?x64xf32>
  fa_gpu.return
}

// CHECK-LABEL: fa_gpu.kernel @twice
// CHECK-COUNT-1: scf.for
// CHECK-NOT: scf.for
fa_gpu.kernel @twice(%o: memref<?x64xf32>, %n: index, %k: index, %row: index, %b: i1) num_warps(4) min_blocks(1) alignments([16, 0, 0, 0, 0]) {
  %c0 = arith.constant 0 : index
  %c63 = arith.constant 63 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant dense<0.0> : tensor<64x64xf32, #acc>
  %q = fa_gpu.alloc : !s
  %r = scf.for %j = %c0 to %n step %c64 iter_args(%x = %zero) -> (tensor<64x64xf32, #acc>) {
    %jj = arith.addi %j, %j : index
    %all = arith.cmpi sgt, %k, %jj : index
    %s = fa_gpu.mma %q, %q, %zero : !s, !s, tensor<64x64xf32, #acc>
    %t = scf.if %all -> (tensor<64x64xf32, #acc>) {
      scf.yield %s : tensor<64x64xf32, #acc>
    } else {
      %m = math.absf %s : tensor<64x64xf32, #acc>
      scf.yield %m : tensor<64x64xf32, #acc>
    }
    %y = arith.addf %x, %t : tensor<64x64xf32, #acc>
    scf.yield %y : tensor<64x64xf32, #acc>
  }
  fa.store %r, %o[%c0, %c0] below(%n, %c64) : tensor<64x64xf32, #acc>, memref<?x64xf32>
  fa_gpu.return
}

// CHECK-LABEL: fa_gpu.kernel @carried
// CHECK-COUNT-1: scf.for
// CHECK-NOT: scf.for
fa_gpu.kernel @carried(%o: memref<?x64xf32>, %n: index, %k: index, %row: index, %b: i1) num_warps(4) min_blocks(1) alignments([16, 0, 0, 0, 0]) {
  %c0 = arith.constant 0 : index
  %c63 = arith.constant 63 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant dense<0.0> : tensor<64x64xf32, #acc>
  %q = fa_gpu.alloc : !s
  %r = scf.for %j = %c0 to %n step %c64 iter_args(%x = %zero) -> (tensor<64x64xf32, #acc>) {
    %abs = math.absf %x : tensor<64x64xf32, #acc>
    %rowsum = fa.reduce add %abs dim 1 : tensor<64x64xf32, #acc> -> tensor<64xf32, #fa_gpu.layout<registers = [2:0:8], lanes = [4:r, 8:0:1], warps = [4:0:16]>>
    %line = fa_gpu.convert %rowsum : tensor<64xf32, #fa_gpu.layout<registers = [2:0:8], lanes = [4:r, 8:0:1], warps = [4:0:16]>> -> tensor<64xf32, #fa_gpu.layout<registers = [2:0:32], lanes = [32:0:1], warps = [4:r]>>
    %sum = fa.reduce add %line dim 0 : tensor<64xf32, #fa_gpu.layout<registers = [2:0:32], lanes = [32:0:1], warps = [4:r]>> -> f32
    %limit = arith.constant 1.0 : f32
    %all = arith.cmpf olt, %sum, %limit : f32
    %s = fa_gpu.mma %q, %q, %zero : !s, !s, tensor<64x64xf32, #acc>
    %t = scf.if %all -> (tensor<64x64xf32, #acc>) {
      scf.yield %s : tensor<64x64xf32, #acc>
    } else {
      %m = math.absf %s : tensor<64x64xf32, #acc>
      scf.yield %m : tensor<64x64xf32, #acc>
    }
    %y = arith.addf %x, %t : tensor<64x64xf32, #acc>
    scf.yield %y : tensor<64x64xf32, #acc>
  }
  fa.store %r, %o[%c0, %c0] below(%n, %c64) : tensor<64x64xf32, #acc>, memref<?x64xf32>
  fa_gpu.return
}

// CHECK-LABEL: fa_gpu.kernel @plain
// CHECK-COUNT-1: scf.for
// CHECK-NOT: scf.for
fa_gpu.kernel @plain(%o: memref<?x64xf32>, %n: index, %k: index, %row: index, %b: i1) num_warps(4) min_blocks(1) alignments([16, 0, 0, 0, 0]) {
  %c0 = arith.constant 0 : index
  %c63 = arith.constant 63 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant dense<0.0> : tensor<64x64xf32, #acc>
  %q = fa_gpu.alloc : !s
  %r = scf.for %j = %c0 to %n step %c64 iter_args(%x = %zero) -> (tensor<64x64xf32, #acc>) {
    %s = fa_gpu.mma %q, %q, %zero : !s, !s, tensor<64x64xf32, #acc>
    %t = math.absf %s : tensor<64x64xf32, #acc>
    %y = arith.addf %x, %t : tensor<64x64xf32, #acc>
    scf.yield %y : tensor<64x64xf32, #acc>
  }
  fa.store %r, %o[%c0, %c0] below(%n, %c64) : tensor<64x64xf32, #acc>, memref<?x64xf32>
  fa_gpu.return
}
