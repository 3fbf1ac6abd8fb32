// c = a b for tiles of 64x64, by four warps; a and b come to shared memory in
// steps of 32 by asynchronous copies, two stages.
//   product:            a[M,K], b[K,N]
//   product_transposed: a[K,M], b[N,K]
// FAULT_... plants an error each.

namespace {

constexpr unsigned kFlat = 32 * 2 + 16, kWide = 64 * 2 + 16; // bytes of a row
#ifdef FAULT_OVERLAP
constexpr unsigned kStage = 64 * kFlat + 32 * kWide - 64;
#else
constexpr unsigned kStage = 64 * kFlat + 32 * kWide;
#endif

using In = fa::Buffer<fa::bf16, 2>;

// Rows x 8 chunks of 16 bytes (Rows = 32) or Rows x 4 (Rows = 64).
template <int Rows>
FA_DEVICE void copyTile(unsigned to, In x, long long row, long long column) {
  constexpr int chunks = 256 / Rows;
  for (int i = fa::thread_id(); i < 256; i += 128) {
    int r = i / chunks, c = i % chunks;
    const fa::bf16 *from =
        x.data + (row + r) * x.stride[0] + (column + 8 * c) * x.stride[1];
    fa::cp_async<16>(to + r * (Rows == 64 ? kFlat : kWide) + 16 * c, from, true);
  }
}

template <bool Transposed>
FA_DEVICE void step(float (&acc)[8][4], unsigned a, unsigned b) {
  int lane = fa::lane_id(), m = fa::warp_id() * 16;
  for (int k = 0; k < 32; k += 16) {
    unsigned x[4], y[2];
    if (Transposed)
      fa::ldmatrix_x4_trans(x, a + (k + lane % 8 + lane / 16 * 8) * kWide +
                                   2 * (m + lane / 8 % 2 * 8));
    else
#ifdef FAULT_MISALIGNED_ROW
      fa::ldmatrix_x4(x, a + (m + lane % 16) * kFlat + 2 * (k + lane / 16 * 4));
#else
      fa::ldmatrix_x4(x, a + (m + lane % 16) * kFlat + 2 * (k + lane / 16 * 8));
#endif
    for (int n = 0; n < 8; ++n) {
      if (Transposed)
        fa::ldmatrix_x2(y, b + (8 * n + lane % 8) * kFlat +
                               2 * (k + lane / 8 % 2 * 8));
      else
        fa::ldmatrix_x2_trans(y, b + (k + lane % 16) * kWide + 16 * n);
      fa::mma_m16n8k16<fa::bf16>(acc[n], x, y[0], y[1]);
    }
  }
}

template <bool Transposed>
FA_DEVICE void multiply(In a, In b, fa::Buffer<float, 2> c, long long depth) {
  long long tiles = c.size[1] / 64, row = fa::block_id() / tiles * 64,
            column = fa::block_id() % tiles * 64;
  auto copy = [&](long long k) {
    unsigned at = k / 32 % 2 * kStage;
    if (Transposed) {
      copyTile<32>(at + 64 * kFlat, a, k, row);
      copyTile<64>(at, b, column, k);
    } else {
      copyTile<64>(at, a, row, k);
      copyTile<32>(at + 64 * kFlat, b, k, column);
    }
  };
  float acc[8][4] = {};
  copy(0);
  fa::cp_async_commit();
  for (long long k = 0; k < depth; k += 32) {
    if (k + 32 < depth)
      copy(k + 32);
    fa::cp_async_commit();
#if defined(FAULT_SHORT_WAIT)
    fa::cp_async_wait<2>();
#elif !defined(FAULT_NO_WAIT)
    fa::cp_async_wait<1>();
#endif
#ifndef FAULT_NO_BARRIER
    fa::barrier();
#endif
    unsigned at = k / 32 % 2 * kStage, wide = at + 64 * kFlat;
    step<Transposed>(acc, Transposed ? wide : at, Transposed ? at : wide);
#ifndef FAULT_OVERWRITTEN_EARLY
    fa::barrier();
#endif
  }
  int lane = fa::lane_id(), m = fa::warp_id() * 16 + lane / 4;
  for (int n = 0; n < 8; ++n)
    for (int half = 0; half < 2; ++half) {
      float *to = c.data + (row + m + 8 * half) * c.stride[0] + column + 8 * n +
                  lane % 4 * 2;
      fa::store_global((fa::f32x2 *)to,
                       fa::f32x2{acc[n][2 * half], acc[n][2 * half + 1]});
    }
}

} // namespace

FA_KERNEL(128, 1)
void product(In a, In b, fa::Buffer<float, 2> c, long long depth) {
  multiply<false>(a, b, c, depth);
}

FA_KERNEL(128, 1)
void product_transposed(In a, In b, fa::Buffer<float, 2> c, long long depth) {
  multiply<true>(a, b, c, depth);
}
