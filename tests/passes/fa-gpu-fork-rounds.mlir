// RUN: fa-opt %s --fa-gpu-fork-rounds | FileCheck %s
// RUN: fa-opt %s --fa-gpu-fork-rounds --remarks-filter=fathom --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

#acc = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 8:1:8], lanes = [4:1:2, 8:0:1], warps = [4:0:16]>
!s = !fa_gpu.shared<64x64xbf16, pitch = 72>

// REMARK: [Passed] {{.*}}"one fork a round, to the round's end"
// REMARK: [Passed] {{.*}}"one fork a round, to the round's end"
// REMARK: [Passed] {{.*}}"one fork a round, to the round's end"
// REMARK: [Missed] {{.*}}"its tiles depend on several tests"
// REMARK: [Missed] {{.*}}"no tile depends on a test"
// REMARK-NOT: remark:

// All that follows the first question is there twice; what asks again, does
// not any more.
// CHECK-LABEL: fa_gpu.kernel @keys
// CHECK: scf.for
// CHECK: %[[S:.*]] = fa_gpu.mma
// CHECK: %[[NEXT:.*]] = scf.if %{{.*}} -> (tensor<64x64xf32
// CHECK-NOT: scf.if
// CHECK: %[[Y:.*]] = arith.addf %{{.*}}, %[[S]]
// CHECK: %[[Z:.*]] = arith.mulf %[[Y]], %[[S]]
// CHECK: scf.yield %[[Z]]
// CHECK: } else {
// CHECK-NOT: scf.if
// CHECK: %[[M:.*]] = math.absf %[[S]]
// CHECK: %[[Y2:.*]] = arith.addf %{{.*}}, %[[M]]
// CHECK: %[[N:.*]] = math.ceil %[[S]]
// CHECK: %[[Z2:.*]] = arith.mulf %[[Y2]], %[[N]]
// CHECK: scf.yield %[[Z2]]
// CHECK: scf.yield %[[NEXT]]
fa_gpu.kernel @keys(%o: memref<?x64xf32>, %n: index, %k: index, %b: i1) num_warps(4) min_blocks(1) alignments([16, 0, 0, 0]) {
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
    %u = scf.if %all -> (tensor<64x64xf32, #acc>) {
      scf.yield %s : tensor<64x64xf32, #acc>
    } else {
      %m = math.ceil %s : tensor<64x64xf32, #acc>
      scf.yield %m : tensor<64x64xf32, #acc>
    }
    %z = arith.mulf %y, %u : tensor<64x64xf32, #acc>
    scf.yield %z : tensor<64x64xf32, #acc>
  }
  fa.store %r, %o[%c0, %c0] below(%n, %c64) : tensor<64x64xf32, #acc>, memref<?x64xf32>
  fa_gpu.return
}

// Where all 64 keys of a tile exist, its limit is its own end; another array's
// limit stays.
// CHECK-LABEL: fa_gpu.kernel @limits
// CHECK: scf.for %[[J:.*]] =
// CHECK: scf.if
// CHECK: %[[END:.*]] = arith.addi %[[J]], %c64
// CHECK: fa.accumulate{{.*}} below(%[[END]], %c64)
// CHECK: fa.accumulate{{.*}} below(%arg3, %c64)
// CHECK: else
// CHECK: fa.accumulate{{.*}} below(%arg2, %c64)
// CHECK: fa.accumulate{{.*}} below(%arg3, %c64)
fa_gpu.kernel @limits(%o: memref<?x64xf32>, %n: index, %k: index, %other: index) num_warps(4) min_blocks(1) alignments([16, 0, 0, 0]) {
  %c0 = arith.constant 0 : index
  %c63 = arith.constant 63 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant dense<0.0> : tensor<64x64xf32, #acc>
  %q = fa_gpu.alloc : !s
  scf.for %j = %c0 to %n step %c64 {
    %last = arith.addi %j, %c63 : index
    %in = arith.cmpi sgt, %k, %last : index
    %s = fa_gpu.mma %q, %q, %zero : !s, !s, tensor<64x64xf32, #acc>
    %t = scf.if %in -> (tensor<64x64xf32, #acc>) {
      scf.yield %s : tensor<64x64xf32, #acc>
    } else {
      %m = math.absf %s : tensor<64x64xf32, #acc>
      scf.yield %m : tensor<64x64xf32, #acc>
    }
    fa.accumulate atomic %t, %o[%j, %c0] below(%k, %c64) : tensor<64x64xf32, #acc>, memref<?x64xf32>
    fa.accumulate atomic %t, %o[%j, %c0] below(%other, %c64) : tensor<64x64xf32, #acc>, memref<?x64xf32>
  }
  fa_gpu.return
}

// The test may be on anything that is known by then.
// CHECK-LABEL: fa_gpu.kernel @carried
// CHECK: scf.for
// CHECK: %[[TEST:.*]] = arith.cmpf
// CHECK: fa_gpu.mma
// CHECK: scf.if %[[TEST]]
// CHECK: else
// CHECK: math.absf
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

// Near misses: two tests, none.
// CHECK-LABEL: fa_gpu.kernel @two
// CHECK-COUNT-2: scf.if
// CHECK-NOT: scf.if
fa_gpu.kernel @two(%o: memref<?x64xf32>, %n: index, %a: i1, %b: i1) num_warps(4) min_blocks(1) alignments([16, 0, 0, 0]) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant dense<0.0> : tensor<64x64xf32, #acc>
  %q = fa_gpu.alloc : !s
  %r = scf.for %j = %c0 to %n step %c64 iter_args(%x = %zero) -> (tensor<64x64xf32, #acc>) {
    %s = fa_gpu.mma %q, %q, %zero : !s, !s, tensor<64x64xf32, #acc>
    %t = scf.if %a -> (tensor<64x64xf32, #acc>) {
      scf.yield %s : tensor<64x64xf32, #acc>
    } else {
      scf.yield %x : tensor<64x64xf32, #acc>
    }
    %u = scf.if %b -> (tensor<64x64xf32, #acc>) {
      scf.yield %t : tensor<64x64xf32, #acc>
    } else {
      scf.yield %x : tensor<64x64xf32, #acc>
    }
    scf.yield %u : tensor<64x64xf32, #acc>
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
