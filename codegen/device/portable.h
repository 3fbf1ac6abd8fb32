//===- portable.h - what means the same on the device and the host -*- C++ -*-===//
//
// The part of the device header that is plain C++: types, conversions that
// need no instruction of their own, integer and mathematical functions. The
// text of device.h follows it on the device, emulation.h includes it on the
// host. FA_DEVICE is what stands before a function.
//
//===----------------------------------------------------------------------===//

namespace fa {

/// 16-bit floats in memory. In registers, tiles of them are arrays of unsigned,
/// two entries each, entry 2i in the low half.
struct bf16 {
  unsigned short bits;
};
struct f16 {
  unsigned short bits;
};

/// What one access of 8 or 16 bytes moves.
struct alignas(8) u32x2 {
  unsigned x, y;
};
struct alignas(16) u32x4 {
  unsigned x, y, z, w;
};
struct alignas(8) f32x2 {
  float x, y;
};
struct alignas(16) f32x4 {
  float x, y, z, w;
};

/// An array of rank R in global memory, strides in elements.
template <class T, int R>
struct Buffer {
  T *data;
  long long size[R];
  long long stride[R];
};
template <class T>
struct Buffer<T, 0> {
  T *data;
};

/// An array in global memory as the copy engine sees it: sizes, strides and the
/// box of entries that one copy moves. The host makes it.
struct alignas(64) TensorMap {
  unsigned long long words[16];
};

template <class A, class B>
inline constexpr bool same = false;
template <class A>
inline constexpr bool same<A, A> = true;

/// The same bits as another type of the same size.
template <class To, class From>
FA_DEVICE To bitcast(From x) {
  return __builtin_bit_cast(To, x);
}

/// Where byte `column` of `line` lies in a swizzled buffer of `lines` lines
/// (!fa_gpu.shared).
template <unsigned swizzle>
FA_DEVICE constexpr unsigned swizzled(unsigned lines, unsigned line,
                                      unsigned column) {
  unsigned at =
      column / swizzle * (lines * swizzle) + line * swizzle + column % swizzle;
  return at ^ (at >> 3 & (swizzle - 16));
}
/// From one place to another, `step` further: what swizzled() gives for the
/// lines and columns between, if adding them carries into no bit that matters.
FA_DEVICE constexpr unsigned swizzled_step(unsigned at, unsigned step) {
  return (at ^ (step & 0x70u)) + (step & ~0x70u);
}

/// The swizzled matrix from `address` in shared memory on, as wgmma takes it:
/// 8 lines of a panel, `swizzle` bytes each, stand together. Across panels, the
/// next one is `panel` bytes away; along a line, 16 bytes further is 1 more.
template <unsigned swizzle>
FA_DEVICE unsigned long long matrix_descriptor(unsigned address,
                                               unsigned panel) {
  using u64 = unsigned long long;
  constexpr u64 mode = swizzle == 128 ? 1 : swizzle == 64 ? 2 : 3;
  return u64(address >> 4 & 0x3fff) | u64(panel >> 4) << 16 |
         u64(swizzle / 2) << 32 | mode << 62;
}

/// What literals cannot say.
template <class T>
FA_DEVICE T infinity() {
  if constexpr (sizeof(T) == 4)
    return bitcast<T>(0x7f800000u);
  else
    return bitcast<T>(0x7ff0000000000000ull);
}
template <class T>
FA_DEVICE T not_a_number() {
  return infinity<T>() - infinity<T>();
}

//===----------------------------------------------------------------------===//
// Integers: named as in arith, total (no result is undefined), wrapping.
//===----------------------------------------------------------------------===//

template <class T>
struct UnsignedOf {
  using type = T;
};
template <>
struct UnsignedOf<signed char> {
  using type = unsigned char;
};
template <>
struct UnsignedOf<short> {
  using type = unsigned short;
};
template <>
struct UnsignedOf<int> {
  using type = unsigned;
};
template <>
struct UnsignedOf<long long> {
  using type = unsigned long long;
};
template <class T>
using Unsigned = typename UnsignedOf<T>::type;

template <class T>
FA_DEVICE Unsigned<T> as_unsigned(T x) {
  return Unsigned<T>(x);
}

template <class T>
FA_DEVICE T addi(T a, T b) {
  return T(as_unsigned(a) + as_unsigned(b));
}
template <class T>
FA_DEVICE T subi(T a, T b) {
  return T(as_unsigned(a) - as_unsigned(b));
}
template <class T>
FA_DEVICE T muli(T a, T b) {
  return T(1u * as_unsigned(a) * as_unsigned(b));
}
/// Division by 0 gives 0, and leaves the dividend as remainder.
template <class T>
FA_DEVICE T divsi(T a, T b) {
  return b == 0 ? T(0) : b == T(-1) ? subi(T(0), a) : T(a / b);
}
template <class T>
FA_DEVICE T remsi(T a, T b) {
  return b == 0 ? a : b == T(-1) ? T(0) : T(a % b);
}
template <class T>
FA_DEVICE T divui(T a, T b) {
  return b == 0 ? T(0) : T(as_unsigned(a) / as_unsigned(b));
}
template <class T>
FA_DEVICE T remui(T a, T b) {
  return b == 0 ? a : T(as_unsigned(a) % as_unsigned(b));
}
template <class T>
FA_DEVICE T floordivsi(T a, T b) {
  return T(divsi(a, b) - T(remsi(a, b) != 0 && (a < 0) != (b < 0)));
}
template <class T>
FA_DEVICE T ceildivsi(T a, T b) {
  return T(divsi(a, b) + T(remsi(a, b) != 0 && (a < 0) == (b < 0)));
}
template <class T>
FA_DEVICE T ceildivui(T a, T b) {
  return T(divui(a, b) + T(remui(a, b) != 0));
}
template <class T>
FA_DEVICE T minsi(T a, T b) {
  return a < b ? a : b;
}
template <class T>
FA_DEVICE T maxsi(T a, T b) {
  return a > b ? a : b;
}
template <class T>
FA_DEVICE T minui(T a, T b) {
  return as_unsigned(a) < as_unsigned(b) ? a : b;
}
template <class T>
FA_DEVICE T maxui(T a, T b) {
  return as_unsigned(a) > as_unsigned(b) ? a : b;
}
/// x, or the number closest to it within 2^30 of 0: as good as x to compare
/// smaller numbers with.
FA_DEVICE int saturate(long long x) {
  return int(x<-(1 << 30) ? -(1 << 30) : x>(1 << 30) ? 1 << 30 : x);
}
/// Shifts take the amount modulo the width.
template <class T>
FA_DEVICE T shli(T a, T n) {
  return T(as_unsigned(a) << (n & T(8 * sizeof(T) - 1)));
}
template <class T>
FA_DEVICE T shrsi(T a, T n) {
  return T(a >> (n & T(8 * sizeof(T) - 1)));
}
template <class T>
FA_DEVICE T shrui(T a, T n) {
  return T(as_unsigned(a) >> (n & T(8 * sizeof(T) - 1)));
}
template <class T>
FA_DEVICE T absi(T a) {
  return a < 0 ? subi(T(0), a) : a;
}
/// a to the power of n, which is 0 for a negative n unless a is 1 or -1.
template <class T>
FA_DEVICE T ipowi(T a, T n) {
  if (n < 0)
    return a == T(-1) ? (n & 1 ? T(-1) : T(1)) : T(a == 1);
  T r = 1;
  for (; n > 0; n >>= 1, a = muli(a, a))
    if (n & 1)
      r = muli(r, a);
  return r;
}

//===----------------------------------------------------------------------===//
// Mathematics, for float and double.
//===----------------------------------------------------------------------===//

#define FA_UNARY(name, single, wide)                                           \
  FA_DEVICE float name(float x) { return ::single(x); }                        \
  FA_DEVICE double name(double x) { return ::wide(x); }
#define FA_BINARY(name, single, wide)                                          \
  FA_DEVICE float name(float x, float y) { return ::single(x, y); }            \
  FA_DEVICE double name(double x, double y) { return ::wide(x, y); }

FA_UNARY(exp, expf, exp)
FA_UNARY(exp2, exp2f, exp2)
FA_UNARY(expm1, expm1f, expm1)
FA_UNARY(log, logf, log)
FA_UNARY(log2, log2f, log2)
FA_UNARY(log10, log10f, log10)
FA_UNARY(log1p, log1pf, log1p)
FA_UNARY(sqrt, sqrtf, sqrt)
FA_UNARY(cbrt, cbrtf, cbrt)
FA_UNARY(sin, sinf, sin)
FA_UNARY(cos, cosf, cos)
FA_UNARY(tan, tanf, tan)
FA_UNARY(asin, asinf, asin)
FA_UNARY(acos, acosf, acos)
FA_UNARY(atan, atanf, atan)
FA_UNARY(sinh, sinhf, sinh)
FA_UNARY(cosh, coshf, cosh)
FA_UNARY(tanh, tanhf, tanh)
FA_UNARY(asinh, asinhf, asinh)
FA_UNARY(acosh, acoshf, acosh)
FA_UNARY(atanh, atanhf, atanh)
FA_UNARY(erf, erff, erf)
FA_UNARY(erfc, erfcf, erfc)
FA_UNARY(fabs, fabsf, fabs)
FA_UNARY(floor, floorf, floor)
FA_UNARY(ceil, ceilf, ceil)
FA_UNARY(round, roundf, round)
FA_UNARY(roundeven, rintf, rint)
FA_UNARY(trunc, truncf, trunc)
FA_BINARY(pow, powf, pow)
FA_BINARY(atan2, atan2f, atan2)
FA_BINARY(fmod, fmodf, fmod)
FA_BINARY(copysign, copysignf, copysign)
FA_BINARY(fmin, fminf, fmin) // a NaN loses
FA_BINARY(fmax, fmaxf, fmax)
#undef FA_UNARY
#undef FA_BINARY

FA_DEVICE float fma(float x, float y, float z) { return ::fmaf(x, y, z); }
FA_DEVICE double fma(double x, double y, double z) { return ::fma(x, y, z); }

/// As fmin and fmax, but a NaN wins. Those for float are instructions.
FA_DEVICE double fminimum(double x, double y) {
  return x != x || y != y ? x + y : ::fmin(x, y);
}
FA_DEVICE double fmaximum(double x, double y) {
  return x != x || y != y ? x + y : ::fmax(x, y);
}

template <class T>
FA_DEVICE bool isnan(T x) {
  return x != x;
}
template <class T>
FA_DEVICE bool isfinite(T x) {
  return x - x == 0;
}
template <class T>
FA_DEVICE bool isinf(T x) {
  return x == x && x - x != 0;
}
template <class T>
FA_DEVICE bool isnormal(T x) {
  T smallest = sizeof(T) == 4 ? T(1.17549435e-38f) : T(2.2250738585072014e-308);
  return isfinite(x) && fabs(x) >= smallest;
}
/// x to the power of an integer, by squaring.
template <class T, class N>
FA_DEVICE T fpowi(T x, N n) {
  Unsigned<N> left = as_unsigned(absi(n));
  T r = 1;
  for (; left; left >>= 1, x *= x)
    if (left & 1)
      r *= x;
  return n < 0 ? 1 / r : r;
}

//===----------------------------------------------------------------------===//
// Rounding to 16 bits from types that a float does not hold.
//===----------------------------------------------------------------------===//

/// x as a float whose lowest bit tells that it is inexact: rounding it again,
/// to 16 bits, gives what rounding x once gives.
FA_DEVICE float round_to_odd(double x) {
  float f = float(x);
  if (double(f) == x || x != x)
    return f;
  unsigned bits = bitcast<unsigned>(f);
  if (fabs(double(f)) > fabs(x))
    bits -= 1; // towards zero
  return bitcast<float>(bits | 1);
}
FA_DEVICE float round_to_odd(float x) { return x; }
/// Integers of more bits than a double holds keep a mark of what is cut off.
template <class T>
FA_DEVICE float round_to_odd(T x) {
  constexpr int cut = 8 * sizeof(T) > 53 ? 11 : 0;
  constexpr T rest = (T(1) << cut) - 1;
  if (cut && (x > T(1ull << 53) || (x < 0 && x < -T(1ull << 53))))
    x = T((x & ~rest) | T((x & rest) != 0) << (cut ? cut - 1 : 0));
  return round_to_odd(double(x));
}

} // namespace fa
