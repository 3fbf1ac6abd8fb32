// One thread copies tiles of 8 x 64 words into two stages, two boxes each; two
// warps store what they find. Barriers 0 and 1 say that a stage is full, 2 and
// 3 that it is free.

FA_KERNEL(96, 1)
void boxes(const FA_IN_PLACE fa::TensorMap x, fa::Buffer<int, 3> out) {
  const unsigned bars = 8192;
  int me = fa::thread_id(), steps = int(out.size[0]);
  if (me == 0) {
    for (int b = 0; b < 4; ++b)
      fa::mbarrier_init(bars + 8 * b, b < 2 ? 1 : 2);
    fa::mbarrier_init_fence();
  }
#ifndef FAULT_NOT_MADE
  fa::barrier();
#endif
  if (me == 64)
    for (int i = 0; i < steps; ++i) {
      unsigned stage = i % 2, parity = i / 2 % 2;
      unsigned full = bars + 8 * stage, free = full + 16;
#ifndef FAULT_NOT_FREE
      fa::mbarrier_wait(free, !parity);
#endif
#ifdef FAULT_LITTLE_EXPECTED
      fa::mbarrier_arrive_expect(full, 1024);
#else
      fa::mbarrier_arrive_expect(full, 2048);
#endif
      fa::copy_box(2048 * stage, x, full, 8 * i, 0);
      fa::copy_box(2048 * stage + 1024, x, full, 8 * i, 32);
#ifdef FAULT_TWO_ARRIVALS
      fa::mbarrier_arrive(full);
#endif
    }
  if (me < 64)
    for (int i = 0; i < steps; ++i) {
      unsigned stage = i % 2, parity = i / 2 % 2;
      unsigned full = bars + 8 * stage, free = full + 16;
#ifdef FAULT_PARITY
      fa::mbarrier_wait(full, !parity);
#elif defined(FAULT_OTHER_BARRIER)
      fa::mbarrier_wait(bars, i / 2 % 2);
#elif !defined(FAULT_NO_WAIT)
      fa::mbarrier_wait(full, parity);
#endif
      for (int c = 0; c < 2; ++c) {
        int line = me / 8, chunk = me % 8;
        unsigned at = 2048 * stage + 1024 * c + 128 * line;
        auto v = fa::load_shared<fa::u32x4>(at + 16 * (chunk ^ line));
        int *to = out.data + (8 * i + line) * 64 + 32 * c + 4 * chunk;
        fa::store_global((fa::u32x4 *)to, v);
      }
#ifndef FAULT_NO_WARP_BARRIER
      fa::warp_barrier();
#endif
#ifdef FAULT_NEVER_FREE
      if (i < 2)
#endif
        if (fa::lane_id() == 0)
          fa::mbarrier_arrive(free);
    }
}
