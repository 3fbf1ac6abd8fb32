// RUN: fa-opt %s --fa-gpu-drop-guards | FileCheck %s
// RUN: fa-opt %s --fa-gpu-drop-guards --remarks-filter=fathom --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

#acc = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 8:1:8], lanes = [4:1:2, 8:0:1], warps = [4:0:16]>
#row = #fa_gpu.layout<registers = [2:0:8], lanes = [4:r, 8:0:1], warps = [4:0:16]>

// REMARK-COUNT-2: [Passed] {{.*}}"a product is 0 where its factor is"
// REMARK-COUNT-2: [Missed] {{.*}}"the product has factors that may be infinite"
// REMARK-NOT: remark:

// CHECK-LABEL: fa_gpu.kernel @guards
fa_gpu.kernel @guards(%x: memref<?x64xf32>, %l: memref<?xf32>, %o: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 0, 16, 0]) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant dense<0.0> : tensor<64x64xf32, #acc>
  %one = arith.constant dense<1.0> : tensor<64x64xf32, #acc>
  %a = fa_gpu.alloc : !fa_gpu.shared<64x64xbf16, pitch = 72>
  %p = fa.load %x[%c0, %c0] below(%n, %c64) : memref<?x64xf32> -> tensor<64x64xf32, #acc>
  %r = fa.load %l[%c0] below(%n) : memref<?xf32> -> tensor<64xf32, #row>
  %rr = fa.broadcast %r dim 0 : tensor<64xf32, #row> -> tensor<64x64xf32, #acc>
  %m = fa_gpu.mma %a, %a, %zero : !fa_gpu.shared<64x64xbf16, pitch = 72>, !fa_gpu.shared<64x64xbf16, pitch = 72>, tensor<64x64xf32, #acc>
  %d = arith.subf %m, %rr : tensor<64x64xf32, #acc>

  // P (dP - delta) (1 - t t)
  // CHECK: %[[T:.*]] = arith.mulf %{{.*}}, %{{.*}}
  // CHECK: %[[DS:.*]] = arith.mulf %{{.*}}, %[[T]]
  // CHECK-NEXT: fa.store %[[DS]]
  %is = arith.cmpf une, %p, %zero : tensor<64x64xf32, #acc>
  %q = arith.mulf %p, %d : tensor<64x64xf32, #acc>
  %t = math.tanh %p : tensor<64x64xf32, #acc>
  %tt = arith.mulf %t, %t : tensor<64x64xf32, #acc>
  %u = arith.subf %one, %tt : tensor<64x64xf32, #acc>
  %w = arith.mulf %u, %q : tensor<64x64xf32, #acc>
  %ds = arith.select %is, %w, %zero : tensor<64x64xi1, #acc>, tensor<64x64xf32, #acc>
  fa.store %ds, %o[%c0, %c0] below(%n, %c64) : tensor<64x64xf32, #acc>, memref<?x64xf32>

  // The other way round; the product is the one from above.
  // CHECK-NEXT: fa.store
  %not = arith.cmpf oeq, %zero, %p : tensor<64x64xf32, #acc>
  %y = arith.mulf %p, %d : tensor<64x64xf32, #acc>
  %v = arith.select %not, %zero, %y : tensor<64x64xi1, #acc>, tensor<64x64xf32, #acc>
  fa.store %v, %o[%c64, %c0] below(%n, %c64) : tensor<64x64xf32, #acc>, memref<?x64xf32>

  // Near misses: a factor from memory; no factor; another test.
  // CHECK: arith.select
  // CHECK: arith.select
  // CHECK: arith.select
  %f = arith.mulf %p, %rr : tensor<64x64xf32, #acc>
  %g = arith.select %is, %f, %zero : tensor<64x64xi1, #acc>, tensor<64x64xf32, #acc>
  fa.store %g, %o[%c0, %c0] below(%n, %c64) : tensor<64x64xf32, #acc>, memref<?x64xf32>
  %h = arith.select %is, %d, %zero : tensor<64x64xi1, #acc>, tensor<64x64xf32, #acc>
  fa.store %h, %o[%c0, %c0] below(%n, %c64) : tensor<64x64xf32, #acc>, memref<?x64xf32>
  %big = arith.cmpf ogt, %p, %zero : tensor<64x64xf32, #acc>
  %k = arith.select %big, %q, %zero : tensor<64x64xi1, #acc>, tensor<64x64xf32, #acc>
  fa.store %k, %o[%c0, %c0] below(%n, %c64) : tensor<64x64xf32, #acc>, memref<?x64xf32>
  fa_gpu.return
}
