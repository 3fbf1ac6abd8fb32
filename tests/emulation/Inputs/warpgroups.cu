// c (64 x 8) = a b^T for a[64,K], b[8,K] by one group of four warps, in steps of
// 64 through two swizzled stages, a product under way while the next factors
// are written.
// FAULT_... plants an error each.

#ifndef FATHOM_EMULATION
template <>
FA_DEVICE void fa::wgmma<8, fa::bf16, false, false>(float *d,
                                                    unsigned long long a,
                                                    unsigned long long b,
                                                    bool add) {
  asm volatile("{.reg .pred p; setp.ne.b32 p, %6, 0; "
               "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 "
               "{%0,%1,%2,%3}, %4, %5, p, 1, 1, 0, 0;}"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "l"(a), "l"(b), "r"(int(add)));
}
#endif

namespace {
template <int rows>
FA_DEVICE void put(unsigned to, fa::Buffer<fa::bf16, 2> x, long long k) {
  for (int i = fa::thread_id(); i < rows * 64; i += 128)
    fa::store_shared<fa::bf16>(
        to + fa::swizzled<128>(rows, i / 64, i % 64 * 2),
        fa::load_global(x.data + i / 64 * x.stride[0] + k + i % 64));
}
} // namespace

FA_KERNEL(128, 1)
void warpgroup(fa::Buffer<fa::bf16, 2> a, fa::Buffer<fa::bf16, 2> b,
               fa::Buffer<float, 2> c) {
  constexpr unsigned kStage = 64 * 128 + 8 * 128;
  float acc[4];
  for (int s = 0; s < a.size[1] / 64; ++s) {
#ifdef FAULT_ONE_STAGE
    unsigned stage = 0;
#else
    unsigned stage = s % 2 * kStage;
#endif
    fa::barrier();
    put<64>(stage, a, s * 64);
    put<8>(stage + 64 * 128, b, s * 64);
#ifndef FAULT_NO_FENCE_ASYNC
    fa::fence_async();
#endif
    fa::barrier();
    unsigned long long da = fa::matrix_descriptor<128>(
                           fa::shared_address(stage), 16),
                       db = fa::matrix_descriptor<128>(
                           fa::shared_address(stage + 64 * 128), 16);
#ifndef FAULT_NO_FENCE
    fa::wgmma_fence();
#endif
#pragma unroll
    for (int k = 0; k < 4; ++k)
      fa::wgmma<8, fa::bf16, false, false>(acc, da + k * 2, db + k * 2,
                                           s > 0 || k > 0);
#ifdef FAULT_DIVERGENT
    if (fa::thread_id() % 2)
#endif
      fa::wgmma_commit();
    // The product before this one has ended: its stage may be written.
    fa::wgmma_wait<1>();
  }
#ifndef FAULT_NO_WAIT
  fa::wgmma_wait<0>();
#endif
  fa::pin<4>(acc);
  int row = fa::thread_id() / 32 * 16 + fa::lane_id() / 4,
      column = fa::lane_id() % 4 * 2;
  for (int r = 0; r < 4; ++r)
    fa::store_global(c.data + (row + r / 2 * 8) * c.stride[0] + column + r % 2,
                     acc[r]);
}
