// A kernel with every op of fa_gpu, as CUDA.
// RUN: fa-opt %root/tests/dialect/gpu.mlir --emit=cuda --target=sm_80 | FileCheck %s

// CHECK: // scores (128 threads, 28192 bytes of shared memory)
// CHECK: #ifdef FATHOM_EMULATION
// CHECK: FA_KERNEL(128, 2)
// CHECK-NEXT: void scores(fa::Buffer<fa::bf16, 2> arg0, fa::Buffer<fa::bf16, 2> arg1, fa::Buffer<float, 1> arg2, fa::Buffer<int, 1> arg3, long long arg4) {
// CHECK: const int row = lane / 4 + warp * 16;

// CHECK: fa::store_shared<int>([[SCRATCH:[a-z0-9]+]], fa::atomic_inc(arg3.data));
// CHECK: fa::load_shared<int>([[SCRATCH]]);

// Neighbouring threads copy neighbouring chunks of 16 bytes.
// CHECK: // fa_gpu.copy_async
// CHECK: const unsigned [[TO:to]] = shared2 + (copy_line * 72 + copy_col) * 2;
// CHECK: fa::cp_async<16>([[TO]] + j * 2304, {{.*}}, copy_line + j * 16 < rows);
// CHECK: fa::cp_async_commit();
// CHECK-NEXT: fa::cp_async_wait<0>();
// CHECK-NEXT: fa::barrier();

// The factor in rows is flipped: its lines are columns of b.
// CHECK: fa::ldmatrix_x4(a[m], at_a + k * 32 + m * 2304);
// CHECK: fa::ldmatrix_x4(b, at_b + k * 32 + n * 1152);
// CHECK: fa::mma_m16n8k16<fa::bf16>(acc + 4 * (m * 8 + n), a[m], b[0], b[1]);
// CHECK: cast[r / 2] = fa::pack<fa::bf16>(acc[r], acc[r + 1]);
// CHECK: fa::ldmatrix_x4_trans(b, at_b2 + k * 2304 + n * 16);
// CHECK: fa::mma_m16n8k16<fa::bf16>(acc2 + 4 * (m * 8 + n), cast + 2 * (m * 8 + 2 * k), b[0], b[1]);

// CHECK: fa::store_shared<unsigned>(at + ((r / 2 % 2 * 8) * 72 + r % 2 + r / 4 * 8) * 2, cast[r / 2]);
// CHECK: max_of[r / 2 % 2] = fa::fmax(max_of[r / 2 % 2], acc2[r]);
// CHECK: fa::shuffle_xor(max_of[r], 2)
// CHECK: while (fa::load_acquire(ticket) != int(0))
// CHECK: if (first && r * 8 < some) fa::store_global(arg2_p + r * 8, max_of[r]);
// CHECK: fa::store_release(ticket, fa::load_acquire(ticket) + 1);
