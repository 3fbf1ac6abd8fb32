// Adds the rows of x[N,4] to sums[4], a row a thread, in three ways at once:
// sums[0..3] in full, [4..5] by pairs and so on; counts the threads.

FA_KERNEL(64, 1)
void column_sums(fa::Buffer<float, 2> x, float *sums, double *wide, int *count) {
  long long i = fa::block_id() * 64 + fa::thread_id();
  if (i >= x.size[0])
    return;
  fa::f32x4 v = fa::load_global((const fa::f32x4 *)(x.data + i * x.stride[0]));
  fa::atomic_add_v4(sums, v.x, v.y, v.z, v.w);
  fa::atomic_add_v2(sums + 4, v.x, v.y);
#ifdef FAULT_PLAIN
  fa::store_global(sums + 6, fa::load_global(sums + 6) + v.z);
#else
  fa::atomic_add(sums + 6, v.z);
#endif
  fa::atomic_add(wide, double(v.w));
  fa::atomic_add(count, 1);
  fa::atomic_inc(count + 1);
}
