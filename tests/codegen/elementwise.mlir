// Neighbouring ops on one layout share a loop; broadcasts, iotas and integers
// of them are expressions; 16-bit floats go in pairs.
// RUN: fa-opt %s --emit=cuda --target=sm_80 | FileCheck %s

#acc = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 4:1:8], lanes = [4:1:2, 8:0:1], warps = [4:0:16]>
#row = #fa_gpu.layout<registers = [2:0:8], lanes = [4:r, 8:0:1], warps = [4:0:16]>

// CHECK: void work(fa::Buffer<float, 2> arg0, fa::Buffer<fa::bf16, 2> arg1, fa::Buffer<float, 1> arg2, long long arg3, float arg4)
fa_gpu.kernel @work(%x: memref<?x32xf32>, %y: memref<?x32xbf16>, %m: memref<?xf32>, %n: index, %scale: f32)
    num_warps(4) min_blocks(1) alignments([16, 16, 4, 0, 0]) {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %low = arith.constant dense<0xFF800000> : tensor<64x32xf32, #acc>
  %t = fa.load %x[%c0, %c0] below(%c64, %c32) : memref<?x32xf32> -> tensor<64x32xf32, #acc>
  %r = fa.load %m[%c0] below(%c64) : memref<?xf32> -> tensor<64xf32, #row>
  // Scalars stand before the loop.
  // CHECK: const long long [[N:prod[0-9]*]] = arg3 * 64;
  // CHECK: float [[OUT:exp[0-9_]*]][16];
  // CHECK: for (int r = 0; r < 16; ++r) {
  // CHECK-NEXT: const bool [[IS:is[0-9]*]] = {{.*}} < fa::saturate([[N]] - (row));
  // CHECK-NEXT: const float [[S:prod[0-9]*]] = arg0_tile[r] * arg4;
  // CHECK-NEXT: const float [[SEL:select[0-9]*]] = [[IS]] ? [[S]] : -fa::infinity<float>();
  // CHECK-NEXT: const float [[D:diff[0-9]*]] = [[SEL]] - arg2_tile[r / 2 % 2];
  // CHECK-NEXT: [[OUT]][r] = fa::exp([[D]]);
  %i = fa.iota %c0 : tensor<64xindex, #row>
  %ii = fa.broadcast %i dim 0 : tensor<64xindex, #row> -> tensor<64x32xindex, #acc>
  %limit = arith.muli %n, %c64 : index
  %nn = fa.broadcast %limit dim 0 : index -> tensor<64x32xindex, #acc>
  %is = arith.cmpi slt, %ii, %nn : tensor<64x32xindex, #acc>
  %ss = fa.broadcast %scale dim 0 : f32 -> tensor<64x32xf32, #acc>
  %s = arith.mulf %t, %ss : tensor<64x32xf32, #acc>
  %v = arith.select %is, %s, %low : tensor<64x32xi1, #acc>, tensor<64x32xf32, #acc>
  %mm = fa.broadcast %r dim 0 : tensor<64xf32, #row> -> tensor<64x32xf32, #acc>
  %d = arith.subf %v, %mm : tensor<64x32xf32, #acc>
  %e = math.exp %d : tensor<64x32xf32, #acc>
  // CHECK: unsigned [[H:cast[0-9]*]][8];
  // CHECK: [[H]][r / 2] = fa::pack<fa::bf16>([[OUT]][r], [[OUT]][r + 1]);
  %h = arith.truncf %e : tensor<64x32xf32, #acc> to tensor<64x32xbf16, #acc>
  // CHECK: [[H2:sum[0-9]*]][r / 2] = fa::pack<fa::bf16>({{.*}}fa::unpack_hi<fa::bf16>([[H]][r / 2]){{.*}}
  %g = arith.addf %h, %h : tensor<64x32xbf16, #acc>
  // CHECK: fa::store_global((unsigned *)(arg1_p + {{.*}}), [[H2]][r / 2]);
  fa.store %g, %y[%c0, %c0] below(%c64, %c32) : tensor<64x32xbf16, #acc>, memref<?x32xbf16>
  // Functions where C++ has no operator, approximate ones where it is allowed.
  // CHECK: fa::fmaximum(
  // CHECK: fa::exp2_approx(
  // CHECK: fa::exp2(
  %a = arith.maximumf %e, %t : tensor<64x32xf32, #acc>
  %b = math.exp2 %a fastmath<afn> : tensor<64x32xf32, #acc>
  %c = math.exp2 %b : tensor<64x32xf32, #acc>
  fa.store %c, %x[%c0, %c0] below(%c64, %c32) : tensor<64x32xf32, #acc>, memref<?x32xf32>
  fa_gpu.return
}
