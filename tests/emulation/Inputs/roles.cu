// Two warps fill two buffers in turn, two others add up what is in them. For
// buffer i, barrier 1 + i says that it is full, 3 + i that it is free.

FA_KERNEL(128, 1)
void roles(fa::Buffer<int, 1> x, int *sum) {
  int steps = int(x.size[0] / 64), me = fa::thread_id() % 64, total = 0;
  for (int i = 0; i < steps; ++i) {
    int full = 1 + i % 2, free = 3 + i % 2;
    unsigned at = 256u * (i % 2);
    if (fa::thread_id() < 64) {
#ifndef FAULT_NOT_FREE
      if (i >= 2)
        fa::named_barrier(free, 128);
#endif
      fa::store_shared(at + 4 * me, fa::load_global(x.data + 64 * i + me));
#ifdef FAULT_NEVER_FULL
      if (i < 2)
#endif
#ifdef FAULT_COUNT
        fa::named_barrier_arrive(full, 96);
#else
      fa::named_barrier_arrive(full, 128);
#endif
    } else {
      fa::named_barrier(full, 128);
      total += fa::load_shared<int>(at + 4 * (63 - me));
      if (i + 2 < steps)
        fa::named_barrier_arrive(free, 128);
    }
  }
  if (fa::thread_id() >= 64)
    fa::atomic_add(sum, total);
}

// Each warp turns its own 32 words around, twice.
FA_KERNEL(64, 1)
void turn(int *x) {
  int lane = fa::lane_id();
  unsigned base = 128u * fa::warp_id();
  int v = fa::load_global(x + fa::thread_id());
  for (int i = 0; i < 2; ++i) {
    fa::store_shared(base + 4 * lane, v + i);
#ifndef FAULT_NO_WARP_BARRIER
    fa::warp_barrier();
#endif
    v = fa::load_shared<int>(base + 4 * (31 - lane));
    fa::warp_barrier();
  }
  fa::store_global(x + fa::thread_id(), v);
}
