// d = a b for one warp, each entry from where device.h says it is. Types that
// have no matrix load.

FA_KERNEL(32, 1)
void tf32(const float *a, const float *b, float *d) { // 16x8, 8x8
  int g = fa::lane_id() / 4, t = fa::lane_id() % 4;
  float acc[4] = {};
  unsigned x[4], y[2];
  for (int i = 0; i < 4; ++i)
    x[i] = fa::to_tf32(fa::load_global(a + (g + i % 2 * 8) * 8 + t + i / 2 * 4));
  for (int i = 0; i < 2; ++i)
    y[i] = fa::to_tf32(fa::load_global(b + (t + 4 * i) * 8 + g));
  fa::mma_m16n8k8_tf32(acc, x, y[0], y[1]);
  for (int i = 0; i < 4; ++i)
    fa::store_global(d + (g + i / 2 * 8) * 8 + 2 * t + i % 2, acc[i]);
}

FA_KERNEL(32, 1)
void f64(const double *a, const double *b, double *d) { // 8x4, 4x8
  int g = fa::lane_id() / 4, t = fa::lane_id() % 4;
  double acc[2] = {};
  fa::mma_m8n8k4_f64(acc, fa::load_global(a + g * 4 + t),
                     fa::load_global(b + t * 8 + g));
  for (int i = 0; i < 2; ++i)
    fa::store_global(d + g * 8 + 2 * t + i, acc[i]);
}

FA_KERNEL(32, 1)
void half(const fa::f16 *a, const fa::f16 *b, float *d) { // 16x16, 16x8
  int g = fa::lane_id() / 4, t = fa::lane_id() % 4;
  float acc[4] = {};
  unsigned x[4], y[2];
  for (int i = 0; i < 4; ++i)
    x[i] = fa::load_global(
        (const unsigned *)(a + (g + i % 2 * 8) * 16 + 2 * t + i / 2 * 8));
  for (int i = 0; i < 2; ++i)
    y[i] = fa::pack<fa::f16>(
        fa::widen(fa::load_global(b + (2 * t + 8 * i) * 8 + g)),
        fa::widen(fa::load_global(b + (2 * t + 8 * i + 1) * 8 + g)));
  fa::mma_m16n8k16<fa::f16>(acc, x, y[0], y[1]);
  for (int i = 0; i < 4; ++i)
    fa::store_global(d + (g + i / 2 * 8) * 8 + 2 * t + i % 2, acc[i]);
}
