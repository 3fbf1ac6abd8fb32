// Lesson 11: the same variant on a GPU. `fa-run` takes the first GPU if there is one
// (`--device cpu` takes the CPU). The kernels can be looked at anywhere:
//
// RUN: fa-opt %s --dtype bf16 --head-dim 64 --target=sm_90 --part=forward --emit=cuda | FileCheck %s
//
// A file begins with the functions that kernels are written with, one an instruction.
// CHECK: FA_DEVICE void mma_m16n8k16
//
// Then the kernel, each op under its name. Q and K are copied to shared memory, 16
// bytes a thread at a time; the next keys are on their way while these are multiplied.
// CHECK: FA_KERNEL({{[0-9]+}}, 1)
// CHECK-NEXT: void causal_fwd_output0({{.*}}fa::Buffer<fa::bf16, 4> q, fa::Buffer<fa::bf16, 4> k, fa::Buffer<fa::bf16, 4> v, fa::Buffer<float, 3> lse, fa::Buffer<fa::bf16, 4> o,
// CHECK: // fa_gpu.copy_async
// CHECK: fa::cp_async<16>
// CHECK: for (int
// CHECK: fa::cp_async_wait
//
// S = Q K^T, on tensor cores.
// CHECK: // fa_gpu.mma
// CHECK: fa::ldmatrix_x4
// CHECK: fa::mma_m16n8k16<fa::bf16>
//
// P = exp(S - m), as a power of 2; the scale is in the factor.
// CHECK: fa::exp2_approx
//
// O += P V. The registers of S are those of P: the first factor needs no load.
// CHECK: // fa_gpu.mma
// CHECK: fa::ldmatrix_x4_trans
// CHECK: fa::mma_m16n8k16<fa::bf16>
//
// One step earlier, tiles say which thread holds what (dialect/README.md):
//
// RUN: fa-opt %s --dtype bf16 --head-dim 64 --target=sm_90 --part=forward --fa-stop-after=map | FileCheck %s --check-prefix=IR
// IR: #fa_gpu.layout<registers = [2:1:1, 2:0:8, {{.*}}], lanes = [4:1:2, 8:0:1], warps = [{{.*}}]>
// IR: fa_gpu.launch @causal.fwd.output0 grid(
// IR: fa_gpu.kernel @causal.fwd.output0(

fa.variant @causal() causal
