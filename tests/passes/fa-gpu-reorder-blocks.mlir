// RUN: fa-opt %s --fa-gpu-reorder-blocks | FileCheck %s
// RUN: fa-opt %s --fa-gpu-reorder-blocks --remarks-filter=fathom --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// REMARK: [Passed] {{.*}}"its tiles lie in the order of a thread's registers"
// REMARK: [Missed] {{.*}}"a kernel that reads it needs its rows"

#acc = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 8:1:8], lanes = [4:1:2, 8:0:1], warps = [4:0:16]>
#rows = #fa_gpu.layout<registers = [8:1:1, 8:0:8], lanes = [8:1:8, 4:0:1], warps = [2:0:4]>
#row = #fa_gpu.layout<registers = [8:0:8], lanes = [8:r, 4:0:1], warps = [2:0:4]>
!w = memref<?x64x64xf32>

// CHECK-DAG: #[[ACC:.*]] = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 8:1:8], lanes = [4:1:2, 8:0:1], warps = [4:0:16]>
// CHECK-DAG: #[[LINES:.*]] = #fa_gpu.layout<registers = [4:1:1, 8:0:8], lanes = [16:1:4, 2:0:1], warps = [4:0:2]>
// CHECK-DAG: #[[ACC2:.*]] = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 8:1:8, 2:0:32], lanes = [4:1:2, 8:0:1], warps = [2:0:16]>
// CHECK-DAG: #[[LINES2:.*]] = #fa_gpu.layout<registers = [4:1:1, 8:0:8, 2:0:4], lanes = [16:1:4, 2:0:1], warps = [2:0:2]>

func.func @host(%n: index, %o: memref<?x64xbf16>, %l: memref<?xf32>) {
  %w = memref.alloc(%n) : !w
  %v = memref.alloc(%n) : !w
  fa_gpu.launch @add grid(%n) (%w, %v) : !w, !w
  fa_gpu.launch @out grid(%n) (%w, %v, %o, %l) : !w, !w, memref<?x64xbf16>, memref<?xf32>
  return
}

// CHECK-LABEL: fa_gpu.kernel @add
// CHECK: %[[U:.*]] = fa_gpu.relabel %[[T:.*]] : tensor<64x64xf32, #[[ACC]]> -> tensor<64x64xf32, #[[LINES]]>
// CHECK-NEXT: fa.accumulate atomic %[[U]], %arg0
// CHECK-NEXT: fa.accumulate atomic %[[T]], %arg1
fa_gpu.kernel @add(%w: !w, %v: !w) num_warps(4) min_blocks(1) alignments([16, 16]) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %i = fa_gpu.block_id
  %zero = arith.constant dense<0.0> : tensor<64x64xf32, #acc>
  %t = arith.addf %zero, %zero : tensor<64x64xf32, #acc>
  fa.accumulate atomic %t, %w[%i, %c0, %c0] below(%c64, %c64) : tensor<64x64xf32, #acc>, !w
  fa.accumulate atomic %t, %v[%i, %c0, %c0] below(%c64, %c64) : tensor<64x64xf32, #acc>, !w
  fa_gpu.return
}

// Half as many warps: each takes what two had. The second is summed by rows.
// CHECK-LABEL: fa_gpu.kernel @out
// CHECK: %[[T:.*]] = fa.load %arg0{{.*}} -> tensor<64x64xf32, #[[LINES2]]>
// CHECK-NEXT: %[[U:.*]] = fa_gpu.relabel %[[T]] : tensor<64x64xf32, #[[LINES2]]> -> tensor<64x64xf32, #[[ACC2]]>
// CHECK: %[[H:.*]] = arith.truncf %[[U]]
// CHECK-NEXT: fa.store %[[H]], %arg2{{.*}} : tensor<64x64xbf16, #[[ACC2]]>
// CHECK-NEXT: fa.load %arg1
// CHECK-NEXT: fa.reduce
fa_gpu.kernel @out(%w: !w, %v: !w, %o: memref<?x64xbf16>, %l: memref<?xf32>) num_warps(2) min_blocks(1) alignments([16, 16, 16, 0]) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %i = fa_gpu.block_id
  %r = arith.muli %i, %c64 : index
  %t = fa.load %w[%i, %c0, %c0] below(%c64, %c64) : !w -> tensor<64x64xf32, #rows>
  %h = arith.truncf %t : tensor<64x64xf32, #rows> to tensor<64x64xbf16, #rows>
  fa.store %h, %o[%r, %c0] below(%c64, %c64) : tensor<64x64xbf16, #rows>, memref<?x64xbf16>
  %s = fa.load %v[%i, %c0, %c0] below(%c64, %c64) : !w -> tensor<64x64xf32, #rows>
  %sum = fa.reduce add %s dim 1 : tensor<64x64xf32, #rows> -> tensor<64xf32, #row>
  fa.store %sum, %l[%r] below(%c64) : tensor<64xf32, #row>, memref<?xf32>
  fa_gpu.return
}
