// Loops carry arrays; what two of them exchange is kept aside; a product adds
// to the array that nothing else reads.
// RUN: fa-opt %s --emit=cuda --target=sm_80 | FileCheck %s

#acc = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 2:1:8], lanes = [4:1:2, 8:0:1], warps = []>

fa_gpu.kernel @loops(%y: memref<?x16xf32>, %n: index) num_warps(1) min_blocks(1) alignments([16, 0]) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %zero = arith.constant dense<0.0> : tensor<16x16xf32, #acc>
  %one = arith.constant dense<1.0> : tensor<16x16xf32, #acc>
  %a = fa_gpu.alloc at 0 : !fa_gpu.shared<16x16xbf16, pitch = 24>
  %b = fa_gpu.alloc at 1024 : !fa_gpu.shared<16x16xbf16, pitch = 24>
  // CHECK: float [[SUM:acc]][8];
  // CHECK: [[SUM]][r] = 0.0f;
  // CHECK: #pragma unroll 1
  // CHECK-NEXT: for (long long [[I:i]] = 0; [[I]] < arg1; ++[[I]]) {
  // CHECK: fa::mma_m16n8k16<fa::bf16>([[SUM]] + 4 * (m * 2 + n), a[m], b[0], b[1]);
  // CHECK-NOT: [[SUM]][r] =
  // CHECK: }
  %s = scf.for %i = %c0 to %n step %c1 iter_args(%x = %zero) -> (tensor<16x16xf32, #acc>) {
    %p = fa_gpu.mma %a, %b, %x : !fa_gpu.shared<16x16xbf16, pitch = 24>, !fa_gpu.shared<16x16xbf16, pitch = 24>, tensor<16x16xf32, #acc>
    scf.yield %p : tensor<16x16xf32, #acc>
  }
  // CHECK: for (long long {{.*}} += 16) {
  // CHECK: float kept[8];
  // CHECK: kept[r] = [[P:x[0-9]*]][r];
  // CHECK: float kept2[8];
  // CHECK: kept2[r] = [[Q:x[0-9]*]][r];
  // CHECK: [[Q]][r] = kept[r];
  // CHECK: [[P]][r] = kept2[r];
  %t:2 = scf.for %i = %c0 to %n step %c16 iter_args(%p = %s, %q = %one) -> (tensor<16x16xf32, #acc>, tensor<16x16xf32, #acc>) {
    scf.yield %q, %p : tensor<16x16xf32, #acc>, tensor<16x16xf32, #acc>
  }
  // CHECK: float [[R:x[0-9]*]][8];
  // CHECK-NEXT: if ({{is[0-9]*}}) {
  // CHECK: } else {
  // CHECK: [[R]][r] = 0.0f;
  // CHECK: fa::store_global({{.*}}[[R]][r]
  %is = arith.cmpi slt, %n, %c16 : index
  %u = scf.if %is -> (tensor<16x16xf32, #acc>) {
    scf.yield %t#0 : tensor<16x16xf32, #acc>
  } else {
    scf.yield %zero : tensor<16x16xf32, #acc>
  }
  fa.store %u, %y[%c0, %c0] below(%c16, %c16) : tensor<16x16xf32, #acc>, memref<?x16xf32>
  fa_gpu.return
}
