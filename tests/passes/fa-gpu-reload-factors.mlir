// RUN: fa-opt %s --fa-gpu-reload-factors=limit=120000 | FileCheck %s
// RUN: fa-opt %s --fa-gpu-reload-factors=limit=300000 | FileCheck %s --check-prefix=FITS
// RUN: fa-opt %s --fa-gpu-reload-factors | FileCheck %s --check-prefix=FITS
// RUN: fa-opt %s --fa-gpu-reload-factors=limit=120000 --remarks-filter=fathom --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: fa-opt %s --fa-gpu-reload-factors=limit=120000 --fa-gpu-copy-async --fa-gpu-pipeline-loads --fa-gpu-place-barriers --fa-gpu-assign-shared-memory | FileCheck %s --check-prefix=PLACED

// REMARK: [Passed] {{.*}}"factors are loaded for each product, 1 sum goes in parts"
// REMARK: [Missed] {{.*}}"smaller tiles would fit"

#acc = #fa_gpu.layout<registers = [2:1:1, 2:0:8], lanes = [4:1:2, 8:0:1], warps = [2:1:8, 2:r]>
#wide = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 16:1:8], lanes = [4:1:2, 8:0:1], warps = [4:1:128]>
!a = memref<?x512xf64>
!w = !fa_gpu.shared<16x512xf64, pitch = 514>
!wt = !fa_gpu.shared<512x16xf64, pitch = 514, flipped>

// The sum over 512 in parts of 32, whose factors are copied ahead; a whole %x is
// loaded again for the other product.
// CHECK-LABEL: fa_gpu.kernel @both(
// CHECK-SAME: %[[X:[a-z0-9]*]]: memref<?x512xf64>, %[[Y:[a-z0-9]*]]: memref<?x512xf64>, %[[N:[a-z0-9]*]]: index
// CHECK-DAG: %[[XS:.*]] = fa_gpu.alloc : <16x32xf64, pitch = 34>
// CHECK-DAG: %[[YS:.*]] = fa_gpu.alloc : <16x32xf64, pitch = 34>
// CHECK-DAG: %[[WHOLE:.*]] = fa_gpu.alloc : <16x512xf64, pitch = 514>
// CHECK: scf.for %[[I:.*]] = %c0 to %[[N]] step %c16
// CHECK: %[[S:.*]] = scf.for %[[C:.*]] = %{{.*}} to %{{.*}} step %{{.*}} iter_args(%[[ACC:.*]] = %{{.*}}) -> (tensor<16x16xf64, #{{.*}}>) {
// CHECK: %[[XT:.*]] = fa.load %[[X]][%[[I]], %[[C]]] below(%[[N]], %c512) : memref<?x512xf64> -> tensor<16x32xf64, #{{.*}}>
// CHECK: fa_gpu.store_shared %[[XT]],
// CHECK: fa.load %[[Y]]
// CHECK: %[[F:.*]] = fa_gpu.flip {{.*}} -> <32x16xf64, pitch = 34, flipped>
// CHECK: %[[R:.*]] = fa_gpu.mma %{{.*}}, %[[F]], %[[ACC]]
// CHECK: scf.yield %[[R]]
// CHECK: }
// CHECK: fa_gpu.store_shared %[[S]],
// CHECK: %[[AGAIN:.*]] = fa.load %[[X]][%[[I]], %c0] below(%[[N]], %c512) : memref<?x512xf64> -> tensor<16x512xf64
// CHECK: fa_gpu.store_shared %[[AGAIN]], %[[WHOLE]]
// CHECK: fa_gpu.mma %{{.*}}, %[[WHOLE]],
// FITS-LABEL: fa_gpu.kernel @both(
// FITS-COUNT-1: scf.for
// FITS-NOT: scf.for
// FITS: fa_gpu.return
// PLACED-LABEL: fa_gpu.kernel @both(
// PLACED-DAG: <16x32xf64, pitch = 34, stages = 2>
fa_gpu.kernel @both(%x: !a, %y: !a, %n: index) num_warps(4) min_blocks(1) alignments([16, 16, 0]) {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %c512 = arith.constant 512 : index
  %zero = arith.constant dense<0.0> : tensor<16x16xf64, #acc>
  %start = arith.constant dense<0.0> : tensor<16x512xf64, #wide>
  %xs = fa_gpu.alloc : !w
  %ys = fa_gpu.alloc : !w
  %z = fa_gpu.alloc : !w
  %p = fa_gpu.alloc : !fa_gpu.shared<16x16xf64, pitch = 18>
  fa_gpu.store_shared %start, %z : tensor<16x512xf64, #wide>, !w
  %yt = fa.load %y[%c0, %c0] below(%n, %c512) : !a -> tensor<16x512xf64, #wide>
  fa_gpu.store_shared %yt, %ys : tensor<16x512xf64, #wide>, !w
  %r = scf.for %i = %c0 to %n step %c16 iter_args(%o = %start) -> (tensor<16x512xf64, #wide>) {
    %xt = fa.load %x[%i, %c0] below(%n, %c512) : !a -> tensor<16x512xf64, #wide>
    fa_gpu.store_shared %xt, %xs : tensor<16x512xf64, #wide>, !w
    %f = fa_gpu.flip %ys : !w -> !wt
    %s = fa_gpu.mma %xs, %f, %zero : !w, !wt, tensor<16x16xf64, #acc>
    fa_gpu.store_shared %s, %p : tensor<16x16xf64, #acc>, !fa_gpu.shared<16x16xf64, pitch = 18>
    %t = fa_gpu.mma %p, %xs, %o : !fa_gpu.shared<16x16xf64, pitch = 18>, !w, tensor<16x512xf64, #wide>
    scf.yield %t : tensor<16x512xf64, #wide>
  }
  fa_gpu.return
}

#tall = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 4:1:8], lanes = [4:1:2, 8:0:1], warps = [2:0:16, 2:r]>
#lines = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 64:1:8], lanes = [4:1:2, 8:0:1], warps = [2:0:16, 2:r]>

// CHECK-LABEL: fa_gpu.kernel @large(
// CHECK-COUNT-1: fa.load
// CHECK-NOT: scf.for
// CHECK: fa_gpu.return
fa_gpu.kernel @large(%x: !a, %n: index) num_warps(4) min_blocks(1) alignments([16, 0]) {
  %c0 = arith.constant 0 : index
  %c512 = arith.constant 512 : index
  %zero = arith.constant dense<0.0> : tensor<32x32xf64, #tall>
  %xs = fa_gpu.alloc : !fa_gpu.shared<32x512xf64, pitch = 514>
  %xt = fa.load %x[%c0, %c0] below(%n, %c512) : !a -> tensor<32x512xf64, #lines>
  fa_gpu.store_shared %xt, %xs : tensor<32x512xf64, #lines>, !fa_gpu.shared<32x512xf64, pitch = 514>
  %f = fa_gpu.flip %xs : !fa_gpu.shared<32x512xf64, pitch = 514> -> !fa_gpu.shared<512x32xf64, pitch = 514, flipped>
  %s = fa_gpu.mma %xs, %f, %zero : !fa_gpu.shared<32x512xf64, pitch = 514>, !fa_gpu.shared<512x32xf64, pitch = 514, flipped>, tensor<32x32xf64, #tall>
  fa_gpu.return
}
