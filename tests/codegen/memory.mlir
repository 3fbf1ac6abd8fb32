// How tiles move: one access for neighbours where alignment is known, limits as
// conditions, one of several threads that hold the same.
// RUN: fa-opt %s --emit=cuda --target=sm_80 | FileCheck %s

#rows = #fa_gpu.layout<registers = [8:1:1, 4:0:16], lanes = [8:1:8, 4:0:1], warps = [4:0:4]>
#acc = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 4:1:8], lanes = [4:1:2, 8:0:1], warps = [4:0:16]>
#line = #fa_gpu.layout<registers = [2:0:8], lanes = [4:r, 8:0:1], warps = [4:0:16]>

// CHECK: void moves(fa::Buffer<fa::bf16, 2> arg0, fa::Buffer<float, 2> arg1, fa::Buffer<float, 1> arg2, long long arg3)
// CHECK-DAG: const int row = lane / 8 + warp * 4;
// CHECK-DAG: const int col = lane % 8 * 8;
// CHECK-DAG: const bool first = lane % 4 == 0;
fa_gpu.kernel @moves(%x: memref<?x64xbf16, strided<[?, ?], offset: ?>>, %y: memref<?x32xf32, strided<[?, ?], offset: ?>>,
                     %v: memref<?xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 0, 4, 0]) {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  // Eight entries an access; only the rows are checked.
  // CHECK: // fa.load arg0, 0, 0, arg3, 64 : 64x64xbf16
  // CHECK: const int [[ROWS:rows]] = int(fa::maxsi<long long>(0, fa::minsi<long long>(arg3, 64))) - row;
  // CHECK: for (int r = 0; r < 32; r += 8) {
  // CHECK-NEXT: const fa::u32x4 v = r / 8 * 16 < [[ROWS]] ? fa::load_global((const fa::u32x4 *)(arg0_p + (r / 8 * 16) * arg0.stride[0] + r % 8)) : fa::u32x4{};
  // CHECK-NEXT: arg0_tile[r / 2] = v.x;
  %t = fa.load %x[%c0, %c0] below(%n, %c64) : memref<?x64xbf16, strided<[?, ?], offset: ?>> -> tensor<64x64xbf16, #rows>
  %s = fa_gpu.alloc at 32 : !fa_gpu.shared<64x64xbf16, pitch = 72>
  // CHECK: const unsigned shared = 32; // 64x64 bf16, pitch 72
  // CHECK: const unsigned at = shared + (row * 72 + col) * 2;
  // CHECK: fa::store_shared<fa::u32x4>(at + ((r / 8 * 16) * 72 + r % 8) * 2, fa::u32x4{arg0_tile[r / 2], {{.*}}});
  fa_gpu.store_shared %t, %s : tensor<64x64xbf16, #rows>, !fa_gpu.shared<64x64xbf16, pitch = 72>
  // CHECK: fa::barrier();
  fa_gpu.barrier
  // Nothing known of the array: entry by entry, with its last stride.
  // CHECK: arg1_tile[r] = r / 2 % 2 * 8 < {{rows[0-9]*}} ? fa::load_global(arg1_p + (r / 2 % 2 * 8) * arg1.stride[0] + (r % 2 + r / 4 * 8) * arg1.stride[1]) : 0.0f;
  %u = fa.load %y[%c0, %c0] below(%n, %c32) : memref<?x32xf32, strided<[?, ?], offset: ?>> -> tensor<64x32xf32, #acc>
  // CHECK: fa::store_global(arg1_p2 + {{.*}}, arg1_tile[r]);
  fa.store %u, %y[%c0, %c0] below(%n, %c32) : tensor<64x32xf32, #acc>, memref<?x32xf32, strided<[?, ?], offset: ?>>
  // CHECK: if (r / 2 % 2 * 8 < {{rows[0-9]*}}) fa::atomic_add(arg1_p3 +
  fa.accumulate atomic %u, %y[%c0, %c0] below(%n, %c32) : tensor<64x32xf32, #acc>, memref<?x32xf32, strided<[?, ?], offset: ?>>
  // Four lanes hold each entry of a line; one stores it.
  // CHECK: if (first && r * 8 < some{{.*}}) fa::store_global(
  %w = fa.load %v[%c0] below(%n) : memref<?xf32> -> tensor<64xf32, #line>
  fa.store %w, %v[%c0] below(%n) : tensor<64xf32, #line>, memref<?xf32>
  fa_gpu.return
}

// Lanes side by side add four entries together where four are aligned.
// CHECK: next kernel
// CHECK: fa::atomic_add_pairs(x_p + (r / 2 % 2 * 8) * x.stride[0] + r % 2 + r / 4 * 8, 1.0f, 1.0f, 1.0f, 1.0f, r / 2 % 2 * 8 < rows, (r + 4) / 2 % 2 * 8 < rows);
fa_gpu.kernel @sums(%x: memref<?x32xf32, strided<[?, 1], offset: ?>> loc("x"), %n: index) num_warps(4) min_blocks(1) alignments([16, 0]) {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %t = arith.constant dense<1.0> : tensor<64x32xf32, #acc>
  fa.accumulate atomic %t, %x[%c0, %c0] below(%n, %c32) : tensor<64x32xf32, #acc>, memref<?x32xf32, strided<[?, 1], offset: ?>>
  fa_gpu.return
}
