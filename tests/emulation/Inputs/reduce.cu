// sums[i] = the sum of row i, by a block of 128 threads.

FA_KERNEL(128, 1)
void row_sums(fa::Buffer<float, 2> x, fa::Buffer<float, 1> sums) {
  const float *row = x.data + fa::block_id() * x.stride[0];
  float sum = 0;
#ifdef FAULT_GLOBAL_BOUNDS
  for (long long i = fa::thread_id(); i <= x.size[1]; i += 128)
#else
  for (long long i = fa::thread_id(); i < x.size[1]; i += 128)
#endif
    sum += fa::load_global(row + i);
#ifdef FAULT_MISALIGNED_VECTOR
  sum += fa::load_global((const fa::f32x4 *)(row + fa::thread_id() % 2)).x;
#endif
#ifdef FAULT_READ_ONLY
  fa::store_global(x.data, sum);
#endif
#ifdef FAULT_DIVERGENT_SHUFFLE
  if (fa::lane_id() < 16)
#endif
    for (int mask = 16; mask; mask /= 2)
      sum += fa::shuffle_xor(sum, mask);
#ifdef FAULT_NOT_WRITTEN
  if (fa::warp_id() < 3)
#endif
    if (fa::lane_id() == 0)
#ifdef FAULT_SHARED_BOUNDS
      fa::store_shared(4u * fa::warp_id() + 4, sum);
#else
      fa::store_shared(4u * fa::warp_id(), sum);
#endif
#ifdef FAULT_DIVERGENT_BARRIER
  if (fa::warp_id() >= 2)
    return;
#endif
#ifdef FAULT_HALF_A_WARP
  if (fa::lane_id() >= 16)
    return;
#endif
#ifndef FAULT_NO_BARRIER
    fa::barrier();
#endif
  sum = 0;
  for (unsigned w = 0; w < 4; ++w)
    sum += fa::load_shared<float>(4 * w);
  if (fa::thread_id() == 0)
    fa::store_global(sums.data + fa::block_id(), sum);
}
