//===- device.h - the functions that kernels are written with ---*- C++ -*-===//
//
// Stands at the top of every generated kernel, after portable.h: one function
// an instruction or primitive operation. CUDA C++17 without includes, so that
// it compiles where no CUDA headers are. Shared memory is addressed by byte
// offsets into the CTA's dynamic shared memory. emulation.h gives the same
// names the same meaning on the host.
//
// Plain accesses to shared memory are C++, which the compiler may move between
// barriers; what the compiler cannot see through is volatile and clobbers
// memory.
//
//===----------------------------------------------------------------------===//

/// Before `void name(parameters)`.
#define FA_KERNEL(threads, min_blocks)                                         \
  extern "C" __global__ __launch_bounds__(threads, min_blocks)

/// Before a kernel that counts something; by this name the host finds it.
#define FA_COUNTERS extern "C" __device__ unsigned long long fa_counters[64];

/// Before a parameter whose place, not only value, kernels use.
#define FA_IN_PLACE __grid_constant__

extern __shared__ __align__(1024) unsigned char fa_shared_memory[];

namespace fa {

//===----------------------------------------------------------------------===//
// Where am I
//===----------------------------------------------------------------------===//

FA_DEVICE int thread_id() { return int(threadIdx.x); }
FA_DEVICE int lane_id() { return int(threadIdx.x & 31); }
/// The same in all lanes, which the compiler learns from the shuffle.
FA_DEVICE int warp_id() {
  return __shfl_sync(0xffffffffu, int(threadIdx.x >> 5), 0);
}
FA_DEVICE long long block_id() { return (long long)blockIdx.x; }
FA_DEVICE long long grid_size() { return (long long)gridDim.x; }

//===----------------------------------------------------------------------===//
// Conversions, to nearest even
//===----------------------------------------------------------------------===//

FA_DEVICE float widen(bf16 x) { return bitcast<float>(unsigned(x.bits) << 16); }
FA_DEVICE float widen(f16 x) {
  float r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x.bits));
  return r;
}
template <class T>
FA_DEVICE T narrow(float x) {
  T r;
  if constexpr (same<T, bf16>)
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r.bits) : "f"(x));
  else
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r.bits) : "f"(x));
  return r;
}
/// From a float to an integer: towards zero; what does not fit becomes the
/// nearest that does, NaN any number. To bool: an integer's lowest bit.
template <class To, class From>
FA_DEVICE To convert(From x) {
  constexpr bool half = same<From, bf16> || same<From, f16>;
  if constexpr (same<To, From>)
    return x;
  else if constexpr (half)
    return convert<To>(widen(x));
  else if constexpr (same<To, bf16> || same<To, f16>)
    return narrow<To>(round_to_odd(x));
  else if constexpr (same<To, bool>)
    return bool((long long)(x) & 1);
  else
    return To(x);
}

/// Two 16-bit floats of type T in a word.
template <class T>
FA_DEVICE unsigned pack(float lo, float hi) {
  unsigned r;
  if constexpr (same<T, bf16>)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
  return r;
}
template <class T>
FA_DEVICE float unpack_lo(unsigned x) {
  return widen(T{(unsigned short)(x & 0xffff)});
}
template <class T>
FA_DEVICE float unpack_hi(unsigned x) {
  return widen(T{(unsigned short)(x >> 16)});
}
/// The nearest number of mma_m16n8k8_tf32, ties away from zero.
FA_DEVICE unsigned to_tf32(float x) {
  unsigned r;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
  return r;
}

//===----------------------------------------------------------------------===//
// Mathematics that is an instruction
//===----------------------------------------------------------------------===//

FA_DEVICE float exp2_approx(float x) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}
FA_DEVICE float tanh_approx(float x) {
  float r;
  asm("tanh.approx.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}
FA_DEVICE float rsqrt(float x) { return ::rsqrtf(x); }
FA_DEVICE double rsqrt(double x) { return ::rsqrt(x); }
FA_DEVICE float fminimum(float x, float y) {
  float r;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(y));
  return r;
}
FA_DEVICE float fmaximum(float x, float y) {
  float r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(y));
  return r;
}
FA_DEVICE int ctlz(int x) { return __clz(x); }
FA_DEVICE long long ctlz(long long x) { return __clzll(x); }
FA_DEVICE int cttz(int x) { return x ? __ffs(x) - 1 : 32; }
FA_DEVICE long long cttz(long long x) { return x ? __ffsll(x) - 1 : 64; }
FA_DEVICE int ctpop(int x) { return __popc(x); }
FA_DEVICE long long ctpop(long long x) { return __popcll(x); }
/// The upper half of a product.
FA_DEVICE int mulhsi(int a, int b) { return __mulhi(a, b); }
FA_DEVICE long long mulhsi(long long a, long long b) { return __mul64hi(a, b); }
FA_DEVICE int mulhui(int a, int b) { return int(__umulhi(a, b)); }
FA_DEVICE long long mulhui(long long a, long long b) {
  return (long long)(__umul64hi(a, b));
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

template <class T>
FA_DEVICE T load_shared(unsigned offset) {
  return *reinterpret_cast<const T *>(fa_shared_memory + offset);
}
template <class T>
FA_DEVICE void store_shared(unsigned offset, T value) {
  *reinterpret_cast<T *>(fa_shared_memory + offset) = value;
}
template <class T>
FA_DEVICE T load_global(const T *p) {
  return *p;
}
template <class T>
FA_DEVICE void store_global(T *p, T value) {
  *p = value;
}

FA_DEVICE unsigned shared_address(unsigned offset) {
  return unsigned(__cvta_generic_to_shared(fa_shared_memory)) + offset;
}

/// Begins to copy `bytes` (16, 8 or 4) from p to shared memory, both aligned to
/// as much. Without `valid` it writes zeros and touches no memory at p.
template <int bytes>
FA_DEVICE void cp_async(unsigned offset, const void *p, bool valid) {
  static_assert(bytes == 16 || bytes == 8 || bytes == 4);
  unsigned to = shared_address(offset), count = valid ? bytes : 0;
  if constexpr (bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to),
                 "l"(p), "r"(count)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to),
                 "l"(p), "n"(bytes), "r"(count)
                 : "memory");
}
/// Makes the copies since the last commit a group.
FA_DEVICE void cp_async_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
/// Waits for this thread's groups but the last `pending`.
template <int pending>
FA_DEVICE void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

#if __CUDA_ARCH__ >= 900
/// A barrier that lies in shared memory, 8 bytes. Its phases have the parities
/// 0, 1, 0 and so on; one ends when `arrivals` threads have arrived and the
/// copies that they announced for it have landed. Others see it after a fence
/// of this thread and a barrier().
FA_DEVICE void mbarrier_init(unsigned offset, int arrivals) {
  asm volatile(
      "mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(offset)),
      "r"(arrivals)
      : "memory");
}
FA_DEVICE void mbarrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
FA_DEVICE void mbarrier_arrive(unsigned offset) {
  asm volatile(
      "mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(offset))
      : "memory");
}
/// Arrives, and announces copies of so many bytes.
FA_DEVICE void mbarrier_arrive_expect(unsigned offset, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                   shared_address(offset)),
               "r"(bytes)
               : "memory");
}
/// Waits until the last phase of this parity has ended; one of parity 1 has
/// before the first.
FA_DEVICE void mbarrier_wait(unsigned offset, bool parity) {
  unsigned ended;
  do
    asm volatile("{\n.reg .pred p;\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, p;\n}"
                 : "=r"(ended)
                 : "r"(shared_address(offset)), "r"(unsigned(parity))
                 : "memory");
  while (!ended);
}

/// Starts copying the box of `map` that begins at these coordinates, the last
/// dim last, to `offset`. Entries outside of the array become zeros. The bytes
/// count for the barrier at `mbarrier`.
#define FA_COPY_BOX(dims, coordinates, ...)                                    \
  asm volatile("cp.async.bulk.tensor." dims ".shared::cluster.global"          \
               ".mbarrier::complete_tx::bytes [%0], [%1, {" coordinates        \
               "}], [%2];" ::"r"(shared_address(offset)),                      \
               "l"(&map), "r"(shared_address(mbarrier)), __VA_ARGS__           \
               : "memory")
FA_DEVICE void copy_box(unsigned offset, const TensorMap &map,
                        unsigned mbarrier, int x, int y) {
  FA_COPY_BOX("2d", "%4, %3", "r"(x), "r"(y));
}
FA_DEVICE void copy_box(unsigned offset, const TensorMap &map,
                        unsigned mbarrier, int x, int y, int z) {
  FA_COPY_BOX("3d", "%5, %4, %3", "r"(x), "r"(y), "r"(z));
}
FA_DEVICE void copy_box(unsigned offset, const TensorMap &map,
                        unsigned mbarrier, int x, int y, int z, int u) {
  FA_COPY_BOX("4d", "%6, %5, %4, %3", "r"(x), "r"(y), "r"(z), "r"(u));
}
FA_DEVICE void copy_box(unsigned offset, const TensorMap &map,
                        unsigned mbarrier, int x, int y, int z, int u, int v) {
  FA_COPY_BOX("5d", "%7, %6, %5, %4, %3", "r"(x), "r"(y), "r"(z), "r"(u),
              "r"(v));
}
#undef FA_COPY_BOX
/// A thread of this warpgroup, all of which comes here, gives back registers or
/// takes some, to have `count`: 24 to 240, a multiple of 8. sm_90a only.
template <int count>
FA_DEVICE void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}
template <int count>
FA_DEVICE void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}
#endif

/// Four (two) 8x8 matrices of 16-bit entries; lane 8m + i gives the offset of
/// row i of matrix m, 16 bytes. Register m of lane l gets entries 2(l % 4) and
/// the next of row l / 4; transposed, those of column l / 4.
FA_DEVICE void ldmatrix_x4(unsigned *r, unsigned offset) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(offset))
               : "memory");
}
FA_DEVICE void ldmatrix_x2(unsigned *r, unsigned offset) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(shared_address(offset))
               : "memory");
}
FA_DEVICE void ldmatrix_x4_trans(unsigned *r, unsigned offset) {
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
      : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
      : "r"(shared_address(offset))
      : "memory");
}
FA_DEVICE void ldmatrix_x2_trans(unsigned *r, unsigned offset) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(shared_address(offset))
               : "memory");
}
#if __CUDA_ARCH__ >= 900
/// The reverse of ldmatrix; sm_90 and later.
FA_DEVICE void stmatrix_x4(unsigned offset, const unsigned *r) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(
          shared_address(offset)),
      "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
      : "memory");
}
FA_DEVICE void stmatrix_x4_trans(unsigned offset, const unsigned *r) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};" ::
          "r"(shared_address(offset)),
      "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
      : "memory");
}
#endif

/// A block of 16 x 16 16-bit entries, of which each lane holds what it would of
/// an mma's d with 8 more columns: two entries in a word; rows 0 to 7, rows 8 to
/// 15, then columns 8 to 15. Its rows lie `pitch` bytes apart from `offset` on.
FA_DEVICE void store_block(unsigned offset, int pitch, const unsigned *r) {
  int lane = lane_id();
#if __CUDA_ARCH__ >= 900
  stmatrix_x4(offset + lane % 16 * pitch + lane / 16 * 16, r);
#else
  unsigned to = offset + lane / 4 * pitch + lane % 4 * 4;
  store_shared(to, r[0]);
  store_shared(to + 8 * pitch, r[1]);
  store_shared(to + 16, r[2]);
  store_shared(to + 8 * pitch + 16, r[3]);
#endif
}

//===----------------------------------------------------------------------===//
// Matrix products of a warp: d += a b, with a in rows and b in columns
//===----------------------------------------------------------------------===//

/// Lane l, g = l / 4, t = l % 4 holds
///   d: (g, 2t), (g, 2t+1), (g+8, 2t), (g+8, 2t+1)
///   a: two entries each from (g, 2t), (g+8, 2t), (g, 2t+8), (g+8, 2t+8)
///   b: two entries each from (2t, g), (2t+8, g), downwards
template <class T>
FA_DEVICE void mma_m16n8k16(float *d, const unsigned *a, unsigned b0,
                            unsigned b1) {
#define FA_MMA(type)                                                           \
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 "  \
               "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"         \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))
  if constexpr (same<T, bf16>)
    FA_MMA("bf16");
  else
    FA_MMA("f16");
#undef FA_MMA
}
/// a: (g, t), (g+8, t), (g, t+4), (g+8, t+4); b: (t, g), (t+4, g); d as above.
FA_DEVICE void mma_m16n8k8_tf32(float *d, const unsigned *a, unsigned b0,
                                unsigned b1) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
               "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
/// a: (g, t); b: (t, g); d: (g, 2t), (g, 2t+1).
FA_DEVICE void mma_m8n8k4_f64(double *d, double a, double b) {
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 "
               "{%0,%1}, {%2}, {%3}, {%0,%1};"
               : "+d"(d[0]), "+d"(d[1])
               : "d"(a), "d"(b));
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
//===----------------------------------------------------------------------===//
// Matrix products of four warps: d += a b in the background; sm_90a
//===----------------------------------------------------------------------===//

/// 64 x n sums, d as of mma_m16n8k16 for the 16 rows of a warp. Factors are
/// matrix_descriptor()s, their lines 16 long along the depth or, transposed,
/// across it; or a is registers as of mma_m16n8k16. Without `add` d starts as
/// zero. The shapes that a kernel needs are defined after this header.
template <int n, class T, bool transposed_a, bool transposed_b>
FA_DEVICE void wgmma(float *d, unsigned long long a, unsigned long long b,
                     bool add);
template <int n, class T, bool transposed_a, bool transposed_b>
FA_DEVICE void wgmma(float *d, const unsigned *a, unsigned long long b,
                     bool add);

/// Keeps the compiler from moving what it does with r over this place.
template <int count>
FA_DEVICE void pin(float *r) {
#pragma unroll
  for (int i = 0; i < count; ++i)
    asm volatile("" : "+f"(r[i])::"memory");
}
template <int count>
FA_DEVICE void pin(unsigned *r) {
#pragma unroll
  for (int i = 0; i < count; ++i)
    asm volatile("" : "+r"(r[i])::"memory");
}
/// Before products: registers are as the program says.
FA_DEVICE void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
/// Makes the products since the last commit a group.
FA_DEVICE void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Waits for all groups but the last `pending`.
template <int pending>
FA_DEVICE void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}
/// What this thread wrote to shared memory is seen by products that others
/// start after the next barrier.
FA_DEVICE void fence_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
#endif

//===----------------------------------------------------------------------===//
// Between threads
//===----------------------------------------------------------------------===//

/// The value of the lane whose number differs by `mask`. All lanes take part.
template <class T>
FA_DEVICE T shuffle_xor(T v, int mask) {
  return __shfl_xor_sync(0xffffffffu, v, mask);
}
FA_DEVICE bool vote_all(bool v) { return __all_sync(0xffffffffu, v); }
FA_DEVICE bool vote_any(bool v) { return __any_sync(0xffffffffu, v); }

/// Orders the accesses of a warp's lanes, of the CTA's threads.
FA_DEVICE void warp_barrier() { __syncwarp(); }
FA_DEVICE void barrier() { __syncthreads(); }
/// Barrier `id` (1 to 15) of `threads` threads, whole warps; those that only
/// arrive do not wait.
FA_DEVICE void named_barrier(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
FA_DEVICE void named_barrier_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

FA_DEVICE void atomic_add(float *p, float v) {
  asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(p), "f"(v)
               : "memory");
}
FA_DEVICE void atomic_add(double *p, double v) {
  asm volatile("red.relaxed.gpu.global.add.f64 [%0], %1;" ::"l"(p), "d"(v)
               : "memory");
}
FA_DEVICE void atomic_add(int *p, int v) {
  asm volatile("red.relaxed.gpu.global.add.s32 [%0], %1;" ::"l"(p), "r"(v)
               : "memory");
}
/// Two (four) neighbours, each atomic; p is aligned to all of them.
FA_DEVICE void atomic_add_v2(float *p, float a, float b) {
#if __CUDA_ARCH__ >= 900
  asm volatile("red.relaxed.gpu.global.add.v2.f32 [%0], {%1, %2};" ::"l"(p),
               "f"(a), "f"(b)
               : "memory");
#else
  atomic_add(p, a);
  atomic_add(p + 1, b);
#endif
}
FA_DEVICE void atomic_add_v4(float *p, float a, float b, float c, float d) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(p),
      "f"(a), "f"(b), "f"(c), "f"(d)
      : "memory");
#else
  atomic_add_v2(p, a, b);
  atomic_add_v2(p + 2, c, d);
#endif
}

/// Adds a and b at p, c and d at p + 8, where `first` and `second` say so. All
/// lanes take part: the one whose number differs in the lowest bit has the two
/// entries beside, and four together are aligned to 16 bytes, both in or out.
FA_DEVICE void atomic_add_pairs(float *p, float a, float b, float c, float d,
                                bool first, bool second) {
#if __CUDA_ARCH__ >= 900
  bool odd = lane_id() & 1;
  float x = shuffle_xor(odd ? a : c, 1), y = shuffle_xor(odd ? b : d, 1);
  if (odd ? second : first)
    atomic_add_v4(odd ? p + 6 : p, odd ? x : a, odd ? y : b, odd ? c : x,
                  odd ? d : y);
#else
  if (first)
    atomic_add_v2(p, a, b);
  if (second)
    atomic_add_v2(p + 8, c, d);
#endif
}

/// Counts one up and returns what was there.
FA_DEVICE int atomic_inc(int *p) { return atomicAdd(p, 1); }
/// Raises a counter by one for the CTA.
FA_DEVICE void tick(unsigned long long *counter) {
  if (threadIdx.x == 0)
    atomicAdd(counter, 1ull);
}
FA_DEVICE int load_acquire(const int *p) {
  int r;
  asm volatile("ld.acquire.gpu.global.b32 %0, [%1];"
               : "=r"(r)
               : "l"(p)
               : "memory");
  return r;
}
FA_DEVICE void store_release(int *p, int v) {
  asm volatile("st.release.gpu.global.b32 [%0], %1;" ::"l"(p), "r"(v)
               : "memory");
}
FA_DEVICE void thread_fence() { __threadfence(); }
/// For loops that wait for another thread.
FA_DEVICE void nanosleep_hint() { asm volatile("nanosleep.u32 32;"); }

} // namespace fa
