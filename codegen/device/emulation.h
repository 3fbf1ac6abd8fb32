//===- emulation.h - device.h for the host ----------------------*- C++ -*-===//
//
// The functions of device.h with the same names and meaning, for a kernel file
// compiled as C++ with FATHOM_EMULATION into a shared object. All that is more
// than arithmetic goes to a Machine, which the loader attaches: it runs the
// threads, holds the shared memory and checks every access
// (tests/emulation/Machine.h).
//
// A kernel is called through the exported fa_emulated_NAME(params), with
// pointers to the parameters as cuLaunchKernel takes them. FA_EMULATED(NAME)
// makes it; tests/emulation/Emulator.cpp appends one a kernel.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_CODEGEN_DEVICE_EMULATION_H
#define FATHOM_CODEGEN_DEVICE_EMULATION_H

#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#define FA_DEVICE inline
#define FA_KERNEL(threads, min_blocks) static
#define FA_COUNTERS                                                            \
  extern "C" {                                                                 \
  __attribute__((visibility("default"))) unsigned long long fa_counters[64];   \
  }
#define FA_IN_PLACE

#include "portable.h"

namespace fa::emulation {

enum class Mma { f16, bf16, tf32, f64 };

/// Of global memory. All but `read` and `write` are atomic; `count` is both an
/// acquire and a release.
enum class Access { read, write, add, count, acquire, release };

/// What runs a kernel. The functions are called by the running thread; those
/// that wait return once another has run.
class Machine {
public:
  int thread = 0; ///< where the running thread is
  long long block = 0, grid = 0;

  /// An access of the running thread, checked; where its bytes are.
  virtual void *shared(unsigned offset, unsigned bytes, bool write) = 0;
  virtual void *global(const void *p, unsigned bytes, Access kind) = 0;

  virtual void copy(unsigned offset, const void *p, unsigned bytes,
                    bool valid) = 0;
  virtual void commit() = 0;
  virtual void wait(unsigned pending) = 0;

  /// Barriers in shared memory, and copies that they wait for. `at` has one
  /// coordinate a dim, the last dim last.
  virtual void initMbarrier(unsigned offset, int arrivals) = 0;
  virtual void arriveMbarrier(unsigned offset, unsigned bytes) = 0;
  virtual void waitMbarrier(unsigned offset, bool parity) = 0;
  virtual void copyBox(unsigned offset, const void *map, unsigned mbarrier,
                       const int *at, int rank) = 0;

  // For these the lanes of a warp meet.
  virtual void loadMatrix(unsigned *r, unsigned offset, int count,
                          bool transposed) = 0;
  virtual void storeMatrix(unsigned offset, const unsigned *r, int count,
                           bool transposed) = 0;
  /// d += a b; the registers of one lane, as device.h states.
  virtual void mma(Mma kind, void *d, const void *a, const void *b) = 0;
  /// d += a b for a warp's 16 of 64 rows, a in registers or by descriptor. d is
  /// there when a wait covers the group.
  struct Product {
    Mma kind;
    int n;
    float *d;
    const unsigned *registers; ///< a, or null
    unsigned long long a, b;
    bool transposedA, transposedB, add;
  };
  virtual void startProduct(const Product &product) = 0;
  virtual void fenceProducts() = 0;
  virtual void commitProducts() = 0;
  virtual void waitForProducts(int pending) = 0;
  /// The running thread's writes to shared memory are there for products.
  virtual void fenceAsync() = 0;
  virtual unsigned long long shuffle(unsigned long long bits, int mask) = 0;
  virtual bool vote(bool v, bool all) = 0;
  virtual void warpBarrier() = 0;
  /// Barrier 0 is that of the whole CTA, for any number of threads.
  virtual void barrier(int id, int threads, bool waits) = 0;

  /// Lets others run, in a loop that waits for them.
  virtual void pause(const char *what) = 0;

protected:
  ~Machine() = default;
};

/// The machine this shared object runs on.
static Machine *machine;

template <class... P, std::size_t... I>
void call(void (*kernel)(P...), void *const *params,
          std::index_sequence<I...>) {
  kernel(*static_cast<P *>(params[I])...);
}
template <class... P>
void call(void (*kernel)(P...), void *const *params) {
  call(kernel, params, std::index_sequence_for<P...>());
}

} // namespace fa::emulation

#define FA_EXPORT extern "C" __attribute__((visibility("default")))
#define FA_EMULATED(name)                                                      \
  FA_EXPORT void fa_emulated_##name(void *const *params) {                     \
    fa::emulation::call(&name, params);                                        \
  }
FA_EXPORT inline __attribute__((used)) void
fa_emulation_attach(fa::emulation::Machine *machine) {
  fa::emulation::machine = machine;
}

namespace fa {

using emulation::Access;
using emulation::machine;

inline int thread_id() { return machine->thread; }
inline void tick(unsigned long long *counter) { *counter += thread_id() == 0; }
inline int lane_id() { return machine->thread & 31; }
inline int warp_id() { return machine->thread >> 5; }
inline long long block_id() { return machine->block; }
inline long long grid_size() { return machine->grid; }

//===----------------------------------------------------------------------===//
// Conversions
//===----------------------------------------------------------------------===//

inline float widen(bf16 x) { return bitcast<float>(unsigned(x.bits) << 16); }
inline float widen(f16 x) { return float(bitcast<_Float16>(x)); }
template <class T>
T narrow(float x) {
  if constexpr (same<T, f16>)
    return bitcast<f16>(_Float16(x));
  unsigned bits = bitcast<unsigned>(x);
  if (x != x)
    return {(unsigned short)(0x7fff)};
  return {(unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}
/// Towards zero, to the nearest number that T holds; 0 for NaN.
template <class T, class From>
T truncate(From x) {
  using limits = std::numeric_limits<T>;
  constexpr From past = 2 * From(limits::max() / 2 + 1); // the first too large
  if (x != x)
    return 0;
  if (x >= past)
    return limits::max();
  return x <= From(limits::min()) ? limits::min() : T(x);
}
template <class To, class From>
To convert(From x) {
  constexpr bool half = same<From, bf16> || same<From, f16>;
  constexpr bool real = same<From, float> || same<From, double>;
  if constexpr (same<To, From>)
    return x;
  else if constexpr (half)
    return convert<To>(widen(x));
  else if constexpr (same<To, bf16> || same<To, f16>)
    return narrow<To>(round_to_odd(x));
  else if constexpr (same<To, bool>)
    return convert<long long>(x) & 1;
  else if constexpr (real && std::numeric_limits<To>::is_integer)
    return truncate<To>(x);
  else
    return To(x);
}

template <class T>
unsigned pack(float lo, float hi) {
  return narrow<T>(lo).bits | unsigned(narrow<T>(hi).bits) << 16;
}
template <class T>
float unpack_lo(unsigned x) {
  return widen(T{(unsigned short)(x & 0xffff)});
}
template <class T>
float unpack_hi(unsigned x) {
  return widen(T{(unsigned short)(x >> 16)});
}
inline unsigned to_tf32(float x) {
  unsigned bits = bitcast<unsigned>(x);
  return std::isfinite(x) ? (bits + 0x1000) & ~0x1fffu : bits;
}

//===----------------------------------------------------------------------===//
// Mathematics
//===----------------------------------------------------------------------===//

inline float exp2_approx(float x) {
  float r = ::exp2f(fabs(x) < 1.17549435e-38f ? 0 : x);
  return r < 1.17549435e-38f ? 0 : r;
}
inline float tanh_approx(float x) { return ::tanhf(x); }
inline float rsqrt(float x) { return 1 / ::sqrtf(x); }
inline double rsqrt(double x) { return 1 / ::sqrt(x); }
inline float fminimum(float x, float y) {
  return float(fminimum(double(x), double(y)));
}
inline float fmaximum(float x, float y) {
  return float(fmaximum(double(x), double(y)));
}
inline int ctlz(int x) { return x ? __builtin_clz(x) : 32; }
inline long long ctlz(long long x) { return x ? __builtin_clzll(x) : 64; }
inline int cttz(int x) { return x ? __builtin_ctz(x) : 32; }
inline long long cttz(long long x) { return x ? __builtin_ctzll(x) : 64; }
inline int ctpop(int x) { return __builtin_popcount(x); }
inline long long ctpop(long long x) { return __builtin_popcountll(x); }
inline int mulhsi(int a, int b) { return int((long long)(a)*b >> 32); }
inline long long mulhsi(long long a, long long b) {
  return (long long)((__int128)(a)*b >> 64);
}
inline int mulhui(int a, int b) {
  return int((unsigned long long)(unsigned(a)) * unsigned(b) >> 32);
}
inline long long mulhui(long long a, long long b) {
  return (long long)((unsigned __int128)(as_unsigned(a)) * as_unsigned(b) >>
                     64);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

template <class T>
T load_shared(unsigned offset) {
  T r;
  std::memcpy(&r, machine->shared(offset, sizeof(T), false), sizeof(T));
  return r;
}
template <class T>
void store_shared(unsigned offset, T value) {
  std::memcpy(machine->shared(offset, sizeof(T), true), &value, sizeof(T));
}
template <class T>
T load_global(const T *p) {
  T r;
  std::memcpy(&r, machine->global(p, sizeof(T), Access::read), sizeof(T));
  return r;
}
template <class T>
void store_global(T *p, T value) {
  std::memcpy(machine->global(p, sizeof(T), Access::write), &value, sizeof(T));
}

template <int bytes>
void cp_async(unsigned offset, const void *p, bool valid) {
  static_assert(bytes == 16 || bytes == 8 || bytes == 4);
  machine->copy(offset, p, bytes, valid);
}
inline void cp_async_commit() { machine->commit(); }
template <int pending>
void cp_async_wait() {
  machine->wait(pending);
}

inline void mbarrier_init(unsigned offset, int arrivals) {
  machine->initMbarrier(offset, arrivals);
}
inline void mbarrier_init_fence() {}
inline void mbarrier_arrive(unsigned offset) {
  machine->arriveMbarrier(offset, 0);
}
inline void mbarrier_arrive_expect(unsigned offset, unsigned bytes) {
  machine->arriveMbarrier(offset, bytes);
}
inline void mbarrier_wait(unsigned offset, bool parity) {
  machine->waitMbarrier(offset, parity);
}
template <class... Index>
void copy_box(unsigned offset, const TensorMap &map, unsigned mbarrier,
              Index... at) {
  int x[] = {int(at)...};
  machine->copyBox(offset, &map, mbarrier, x, sizeof...(at));
}
template <int count>
void give_registers() {}
template <int count>
void take_registers() {}

inline void ldmatrix_x4(unsigned *r, unsigned offset) {
  machine->loadMatrix(r, offset, 4, false);
}
inline void ldmatrix_x2(unsigned *r, unsigned offset) {
  machine->loadMatrix(r, offset, 2, false);
}
inline void ldmatrix_x4_trans(unsigned *r, unsigned offset) {
  machine->loadMatrix(r, offset, 4, true);
}
inline void ldmatrix_x2_trans(unsigned *r, unsigned offset) {
  machine->loadMatrix(r, offset, 2, true);
}
inline void stmatrix_x4(unsigned offset, const unsigned *r) {
  machine->storeMatrix(offset, r, 4, false);
}
inline void stmatrix_x4_trans(unsigned offset, const unsigned *r) {
  machine->storeMatrix(offset, r, 4, true);
}
inline void store_block(unsigned offset, int pitch, const unsigned *r) {
  int lane = lane_id();
  stmatrix_x4(offset + lane % 16 * pitch + lane / 16 * 16, r);
}

//===----------------------------------------------------------------------===//
// Matrix products
//===----------------------------------------------------------------------===//

template <class T>
void mma_m16n8k16(float *d, const unsigned *a, unsigned b0, unsigned b1) {
  unsigned b[] = {b0, b1};
  machine->mma(same<T, f16> ? emulation::Mma::f16 : emulation::Mma::bf16, d, a,
               b);
}
inline void mma_m16n8k8_tf32(float *d, const unsigned *a, unsigned b0,
                             unsigned b1) {
  unsigned b[] = {b0, b1};
  machine->mma(emulation::Mma::tf32, d, a, b);
}
inline void mma_m8n8k4_f64(double *d, double a, double b) {
  machine->mma(emulation::Mma::f64, d, &a, &b);
}

inline unsigned shared_address(unsigned offset) { return offset; }
template <int n, class T, bool transposed_a, bool transposed_b>
void wgmma(float *d, unsigned long long a, unsigned long long b, bool add) {
  machine->startProduct(
      {same<T, f16> ? emulation::Mma::f16 : emulation::Mma::bf16, n, d, nullptr,
       a, b, transposed_a, transposed_b, add});
}
template <int n, class T, bool transposed_a, bool transposed_b>
void wgmma(float *d, const unsigned *a, unsigned long long b, bool add) {
  machine->startProduct(
      {same<T, f16> ? emulation::Mma::f16 : emulation::Mma::bf16, n, d, a, 0, b,
       transposed_a, transposed_b, add});
}
template <int count, class T>
void pin(T *) {}
inline void wgmma_fence() { machine->fenceProducts(); }
inline void wgmma_commit() { machine->commitProducts(); }
template <int pending>
void wgmma_wait() {
  machine->waitForProducts(pending);
}
inline void fence_async() { machine->fenceAsync(); }

//===----------------------------------------------------------------------===//
// Between threads
//===----------------------------------------------------------------------===//

template <class T>
T shuffle_xor(T v, int mask) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  unsigned long long bits = 0;
  std::memcpy(&bits, &v, sizeof(T));
  bits = machine->shuffle(bits, mask);
  std::memcpy(&v, &bits, sizeof(T));
  return v;
}
inline bool vote_all(bool v) { return machine->vote(v, true); }
inline bool vote_any(bool v) { return machine->vote(v, false); }

inline void warp_barrier() { machine->warpBarrier(); }
inline void barrier() { machine->barrier(0, 0, true); }
inline void named_barrier(int id, int threads) {
  machine->barrier(id, threads, true);
}
inline void named_barrier_arrive(int id, int threads) {
  machine->barrier(id, threads, false);
}

// One thread runs at a time and changes place only in the machine, so these
// are atomic as they are.
template <class T>
void atomic_add(T *p, decltype(T()) v) {
  T *place = static_cast<T *>(machine->global(p, sizeof(T), Access::add));
  *place = addi(*place, v);
}
inline void atomic_add_v2(float *p, float a, float b) {
  auto *place = static_cast<float *>(machine->global(p, 8, Access::add));
  place[0] += a, place[1] += b;
}
inline void atomic_add_v4(float *p, float a, float b, float c, float d) {
  auto *place = static_cast<float *>(machine->global(p, 16, Access::add));
  place[0] += a, place[1] += b, place[2] += c, place[3] += d;
}
inline void atomic_add_pairs(float *p, float a, float b, float c, float d,
                             bool first, bool second) {
  bool odd = lane_id() & 1;
  float x = shuffle_xor(odd ? a : c, 1), y = shuffle_xor(odd ? b : d, 1);
  if (odd ? second : first)
    atomic_add_v4(odd ? p + 6 : p, odd ? x : a, odd ? y : b, odd ? c : x,
                  odd ? d : y);
}
inline int atomic_inc(int *p) {
  int *place = static_cast<int *>(machine->global(p, 4, Access::count));
  return (*place)++;
}
inline int load_acquire(const int *p) {
  machine->pause("load_acquire");
  return *static_cast<int *>(machine->global(p, 4, Access::acquire));
}
inline void store_release(int *p, int v) {
  *static_cast<int *>(machine->global(p, 4, Access::release)) = v;
}
inline void thread_fence() {}
inline void nanosleep_hint() { machine->pause("nanosleep_hint"); }

} // namespace fa

#endif // FATHOM_CODEGEN_DEVICE_EMULATION_H
