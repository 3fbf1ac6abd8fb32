// Where entries are, in floats: what a thread has is converted once, what a
// register adds is a constant. Lines by diagonal; sums that no lanes share.
// RUN: fa-opt %s --emit=cuda --target=sm_80 | FileCheck %s

#acc = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 4:1:8], lanes = [4:1:2, 8:0:1], warps = [4:0:16]>
#row = #fa_gpu.layout<registers = [2:0:8], lanes = [4:r, 8:0:1], warps = [4:0:16]>
#col = #fa_gpu.layout<registers = [2:0:1, 4:0:8], lanes = [4:0:2, 8:r], warps = [4:r]>
#part = #fa_gpu.layout<registers = [2:0:8], lanes = [4:1:1, 8:0:1], warps = [4:0:16]>

// CHECK: const float row_offset = float(row);
// CHECK: const float row2_offset = float(row2);
fa_gpu.kernel @places(%x: memref<?x32xf32>, %l: memref<?xf32>, %start: f32) num_warps(4) min_blocks(1) alignments([16, 4, 0]) {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  // CHECK: const float [[S:.*]] = arg2 + row_offset;
  // CHECK: [[R:sum]][r] = [[S]] + float(r * 8);
  // CHECK: const float [[D:.*]] = [[R]][r / 2 % 2] - row2_offset;
  // CHECK: diff[r] = [[D]] - float((r % 2 + {{.*}});
  %s = fa.broadcast %start dim 0 : f32 -> tensor<64xf32, #row>
  %rt = fa_gpu.thread_offset : tensor<64xf32, #row>
  %ro = fa_gpu.register_offset : tensor<64xf32, #row>
  %r0 = arith.addf %s, %rt : tensor<64xf32, #row>
  %r = arith.addf %r0, %ro : tensor<64xf32, #row>
  %rr = fa.broadcast %r dim 0 : tensor<64xf32, #row> -> tensor<64x32xf32, #acc>
  %ct = fa_gpu.thread_offset : tensor<32xf32, #col>
  %co = fa_gpu.register_offset : tensor<32xf32, #col>
  %cct = fa.broadcast %ct dim 1 : tensor<32xf32, #col> -> tensor<64x32xf32, #acc>
  %cco = fa.broadcast %co dim 1 : tensor<32xf32, #col> -> tensor<64x32xf32, #acc>
  %d0 = arith.subf %rr, %cct : tensor<64x32xf32, #acc>
  %d = arith.subf %d0, %cco : tensor<64x32xf32, #acc>
  %line = fa_gpu.alloc at 0 : !fa_gpu.shared<96xf32, pitch = 96>
  // CHECK: const unsigned [[AT:at]] = shared + unsigned(row - (row2) + 31) * 4;
  // CHECK: tile[r] = fa::load_shared<float>([[AT]] + (r / 2 % 2 * 8 - (r % 2 + r / 4 * 8)) * 4);
  %t = fa_gpu.load_diagonals %line : !fa_gpu.shared<96xf32, pitch = 96> -> tensor<64x32xf32, #acc>
  %u = arith.addf %t, %d : tensor<64x32xf32, #acc>
  // CHECK: part[r] = 0.0f;
  // CHECK: for (int r = 0; r < 16; ++r)
  // CHECK-NEXT: part[r / 2 % 2] = part[r / 2 % 2] + {{.*}}[r];
  // CHECK-NOT: shuffle
  // CHECK: // fa.reduce part
  // CHECK: fa::shuffle_xor({{.*}}, 2)
  %p = fa_gpu.partial_sum %u dim 1 : tensor<64x32xf32, #acc> -> tensor<64x4xf32, #part>
  %sum = fa.reduce add %p dim 1 : tensor<64x4xf32, #part> -> tensor<64xf32, #row>
  fa.store %sum, %l[%c0] below(%c64) : tensor<64xf32, #row>, memref<?xf32>
  fa.store %u, %x[%c0, %c0] below(%c64, %c32) : tensor<64x32xf32, #acc>, memref<?x32xf32>
  fa_gpu.return
}
