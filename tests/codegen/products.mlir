// The forms of a product's factors: as they lie, flipped, in registers; f32
// without tensor cores.
// RUN: fa-opt %s --emit=cuda --target=sm_80 | FileCheck %s

#acc = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 3:1:8, 2:0:32], lanes = [4:1:2, 8:0:1], warps = [2:0:16]>
#a = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 4:1:8, 2:0:32], lanes = [4:1:2, 8:0:1], warps = [2:0:16]>

fa_gpu.kernel @halves(%n: index) num_warps(2) min_blocks(1) alignments([0]) {
  %zero = arith.constant dense<0.0> : tensor<64x24xf32, #acc>
  %one = arith.constant dense<1.0> : tensor<64x32xf16, #a>
  %x = fa_gpu.alloc at 0 : !fa_gpu.shared<32x64xf16, pitch = 72>
  %y = fa_gpu.alloc at 8192 : !fa_gpu.shared<32x24xf16, pitch = 32>
  %xt = fa_gpu.flip %x : !fa_gpu.shared<32x64xf16, pitch = 72> -> !fa_gpu.shared<64x32xf16, pitch = 72, flipped>
  // A flipped left factor: lines are the depth, transposed when loaded. Three
  // blocks of columns: two by one load, the last alone.
  // CHECK: const unsigned at_a = shared + ((lane / 16 * 8 + lane % 8) * 72 + lane / 8 % 2 * 8 + warp * 16) * 2;
  // CHECK: const unsigned at_b = shared2 + ((lane % 16) * 32 + lane / 16 * 8) * 2;
  // CHECK: for (int k = 0; k < 2; ++k) {
  // CHECK: fa::ldmatrix_x4_trans(a[m], at_a + k * 2304 + m * 64);
  // CHECK: fa::ldmatrix_x4_trans(b, at_b + k * 1024 + n * 16);
  // CHECK: fa::ldmatrix_x2_trans(b, at_b + k * 1024 + 2 * 16);
  // CHECK: fa::mma_m16n8k16<fa::f16>(acc + 4 * (m * 3 + 2), a[m], b[0], b[1]);
  %p = fa_gpu.mma %xt, %y, %zero : !fa_gpu.shared<64x32xf16, pitch = 72, flipped>, !fa_gpu.shared<32x24xf16, pitch = 32>, tensor<64x24xf32, #acc>
  // A factor in registers is used as it is.
  // CHECK: [[C:constant]][r / 2] = fa::pack<fa::f16>(1.0f, 1.0f);
  // CHECK: fa::mma_m16n8k16<fa::f16>(acc + 4 * (m * 3 + n), [[C]] + 2 * (m * 4 + 2 * k), b[0], b[1]);
  %q = fa_gpu.mma %one, %y, %p : tensor<64x32xf16, #a>, !fa_gpu.shared<32x24xf16, pitch = 32>, tensor<64x24xf32, #acc>
  fa_gpu.return
}

// CHECK: next kernel
// CHECK: FA_KERNEL(64, 1)
fa_gpu.kernel @floats(%n: index) num_warps(2) min_blocks(1) alignments([0]) {
  %zero = arith.constant dense<0.0> : tensor<64x24xf32, #acc>
  %x = fa_gpu.alloc at 0 : !fa_gpu.shared<64x20xf32, pitch = 24>
  %y = fa_gpu.alloc at 8192 : !fa_gpu.shared<20x24xf32, pitch = 28>
  // CHECK: for (int k = 0; k < 20; ++k) {
  // CHECK: a[r] = fa::load_shared<float>({{.*}}
  // CHECK: acc[r] = fa::fma(a[r / 2 % 2 + r / 12 * 2], b[r % 2 + r / 4 % 3 * 2], acc[r]);
  %p = fa_gpu.mma %x, %y, %zero : !fa_gpu.shared<64x20xf32, pitch = 24>, !fa_gpu.shared<20x24xf32, pitch = 28>, tensor<64x24xf32, #acc>
  fa_gpu.return
}

// Swizzled factors: what a lane adds is swizzled once, steps are constants.
// CHECK: next kernel
fa_gpu.kernel @swizzled(%n: index) num_warps(2) min_blocks(1) alignments([0]) {
  %zero = arith.constant dense<0.0> : tensor<64x24xf32, #acc>
  %x = fa_gpu.alloc at 0 : !fa_gpu.shared<32x64xf16, swizzle = 128>
  // CHECK: const unsigned shared2 = 4096; // 24x32 f16, swizzle 64
  %y = fa_gpu.alloc at 4096 : !fa_gpu.shared<24x32xf16, swizzle = 64>
  %xt = fa_gpu.flip %x : !fa_gpu.shared<32x64xf16, swizzle = 128> -> !fa_gpu.shared<64x32xf16, swizzle = 128, flipped>
  %yt = fa_gpu.flip %y : !fa_gpu.shared<24x32xf16, swizzle = 64> -> !fa_gpu.shared<32x24xf16, swizzle = 64, flipped>
  // CHECK: const unsigned at_a = shared + fa::swizzled<128>(32, lane / 16 * 8 + lane % 8, (lane / 8 % 2 * 8 + warp * 16) * 2);
  // CHECK: const unsigned at_b = shared2 + fa::swizzled<64>(24, lane / 16 * 8 + lane % 8, (lane / 8 % 2 * 8) * 2);
  // CHECK: fa::ldmatrix_x4_trans(a[m], fa::swizzled_step(at_a, fa::swizzled<128>(32, k * 16, (m * 32) * 2)));
  // CHECK: fa::ldmatrix_x4(b, fa::swizzled_step(at_b, fa::swizzled<64>(24, n * 8, (k * 16) * 2)));
  // CHECK: fa::ldmatrix_x2(b, fa::swizzled_step(at_b, fa::swizzled<64>(24, 2 * 8, (k * 16) * 2)));
  %p = fa_gpu.mma %xt, %yt, %zero : !fa_gpu.shared<64x32xf16, swizzle = 128, flipped>, !fa_gpu.shared<32x24xf16, swizzle = 64, flipped>, tensor<64x24xf32, #acc>
  fa_gpu.return
}
