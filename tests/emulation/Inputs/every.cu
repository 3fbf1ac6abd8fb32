// Every function of the header, for the types it takes.

namespace {

template <class T>
FA_DEVICE void conversions(T *p) {
  T x = *p;
  x += fa::convert<T>(fa::convert<fa::bf16>(x));
  x += fa::convert<T>(fa::convert<fa::f16>(x));
  x += fa::convert<T>(fa::convert<int>(x));
  x += fa::convert<T>(fa::convert<unsigned>(x));
  x += fa::convert<T>(fa::convert<long long>(x));
  x += fa::convert<T>(fa::convert<float>(x));
  x += fa::convert<T>(fa::convert<double>(x));
  x += fa::convert<T>(fa::convert<bool>(x));
  *p = x;
}

template <class T>
FA_DEVICE void integers(T *p) {
  T a = p[0], b = p[1], r = fa::addi(a, b) + fa::subi(a, b) + fa::muli(a, b);
  r += fa::divsi(a, b) + fa::remsi(a, b) + fa::divui(a, b) + fa::remui(a, b);
  r += fa::floordivsi(a, b) + fa::ceildivsi(a, b) + fa::ceildivui(a, b);
  r += fa::minsi(a, b) + fa::maxsi(a, b) + fa::minui(a, b) + fa::maxui(a, b);
  r += fa::shli(a, b) + fa::shrsi(a, b) + fa::shrui(a, b) + fa::absi(a);
  r += fa::ipowi(a, b) + fa::ctlz(a) + fa::cttz(a) + fa::ctpop(a);
  p[2] = r + fa::mulhsi(a, b) + fa::mulhui(a, b);
}

template <class T>
FA_DEVICE void reals(T *p) {
  T a = p[0], b = p[1], r = fa::exp(a) + fa::exp2(a) + fa::expm1(a);
  r += fa::log(a) + fa::log2(a) + fa::log10(a) + fa::log1p(a) + fa::sqrt(a);
  r += fa::rsqrt(a) + fa::cbrt(a) + fa::sin(a) + fa::cos(a) + fa::tan(a);
  r += fa::asin(a) + fa::acos(a) + fa::atan(a) + fa::sinh(a) + fa::cosh(a);
  r += fa::tanh(a) + fa::asinh(a) + fa::acosh(a) + fa::atanh(a) + fa::erf(a);
  r += fa::erfc(a) + fa::fabs(a) + fa::floor(a) + fa::ceil(a) + fa::round(a);
  r += fa::roundeven(a) + fa::trunc(a) + fa::pow(a, b) + fa::atan2(a, b);
  r += fa::fmod(a, b) + fa::copysign(a, b) + fa::fmin(a, b) + fa::fmax(a, b);
  r += fa::fma(a, b, a) + fa::fminimum(a, b) + fa::fmaximum(a, b);
  r += fa::isnan(a) + fa::isinf(a) + fa::isfinite(a) + fa::isnormal(a);
  p[2] = r + fa::fpowi(a, int(b)) + fa::fpowi(a, (long long)(b));
}

} // namespace

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
FA_DEVICE void boxes(const fa::TensorMap &map) {
  fa::mbarrier_init(0, 1), fa::mbarrier_init_fence();
  fa::mbarrier_arrive(0), fa::mbarrier_arrive_expect(0, 16);
  fa::copy_box(128, map, 0, 1, 2);
  fa::copy_box(128, map, 0, 1, 2, 3), fa::copy_box(128, map, 0, 1, 2, 3, 4);
  fa::copy_box(128, map, 0, 1, 2, 3, 4, 5);
  fa::mbarrier_wait(0, true);
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  fa::give_registers<40>(), fa::take_registers<232>();
#endif
}
#endif

FA_KERNEL(128, 1)
void every(fa::Buffer<float, 2> f, double *d, int *i, long long *l,
           fa::Buffer<fa::bf16, 0> h, const FA_IN_PLACE fa::TensorMap map) {
  conversions(f.data), conversions(d), conversions(i), conversions(l);
  integers(i), integers(l), reals(f.data), reals(d);
  unsigned r[4] = {};
  float acc[4] = {};
  double wide[2] = {};
  fa::cp_async<16>(0, f.data, true);
  fa::cp_async<8>(16, f.data, true);
  fa::cp_async<4>(24, f.data, i[0] > 0);
  fa::cp_async_commit();
  fa::cp_async_wait<1>();
  fa::cp_async_wait<0>();
  fa::barrier();
  fa::ldmatrix_x4(r, fa::lane_id() * 16), fa::ldmatrix_x2(r, 0);
  fa::ldmatrix_x4_trans(r, 0), fa::ldmatrix_x2_trans(r, 0);
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  fa::stmatrix_x4(0, r), fa::stmatrix_x4_trans(0, r), boxes(map);
#endif
  fa::mma_m16n8k16<fa::bf16>(acc, r, r[0], r[1]);
  fa::mma_m16n8k16<fa::f16>(acc, r, r[0], r[1]);
  r[0] = fa::to_tf32(acc[0]);
  fa::mma_m16n8k8_tf32(acc, r, r[0], r[1]);
  fa::mma_m8n8k4_f64(wide, 1.0, 2.0);
  acc[0] += fa::shuffle_xor(acc[0], 1) + fa::shuffle_xor(wide[0], 1);
  acc[0] += fa::vote_all(acc[0] > 0) + fa::vote_any(acc[1] > 0);
  acc[0] += fa::exp2_approx(acc[0]) + fa::tanh_approx(acc[2]);
  fa::warp_barrier();
  fa::named_barrier(1, 64), fa::named_barrier_arrive(2, 64);
  fa::atomic_add(f.data, acc[0]), fa::atomic_add(d, wide[0] + wide[1]);
  fa::atomic_add(i, 1), fa::atomic_add_v2(f.data, acc[0], acc[1]);
  fa::atomic_add_v4(f.data, acc[0], acc[1], acc[2], acc[3]);
  fa::atomic_add_pairs(f.data, acc[0], acc[1], acc[2], acc[3], true, i[0] > 0);
  while (fa::load_acquire(i) != fa::block_id())
    fa::nanosleep_hint();
  fa::store_release(i, 1), fa::thread_fence();
  i[5] = fa::atomic_inc(i) + fa::warp_id() + fa::thread_id();
  l[5] = fa::grid_size();
  fa::store_shared(0, fa::load_global((const fa::u32x4 *)f.data));
  fa::store_global((fa::f32x4 *)f.data, fa::load_shared<fa::f32x4>(0));
  fa::store_global(h.data, fa::load_shared<fa::bf16>(2));
  i[7] = fa::pack<fa::bf16>(acc[0], acc[1]) + fa::pack<fa::f16>(acc[0], acc[1]);
  f.data[1] = fa::unpack_lo<fa::bf16>(i[8]) + fa::unpack_hi<fa::f16>(i[8]);
}
