//===- Peak.cpp - what this machine can do ----------------------------------===//

#include "runtime/Peak.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace fathom {
namespace {

constexpr int kChains = 12; // hides the latency of two units
constexpr int64_t kSteps = 200000;

/// Returns the operations done; `sink` keeps the loop alive.
template <typename T, int Lanes>
__attribute__((always_inline)) inline double chains(T *sink) {
  typedef T Vector __attribute__((vector_size(Lanes * sizeof(T))));
  Vector x[kChains], a, b;
  for (int l = 0; l < Lanes; ++l)
    a[l] = T(0.999), b[l] = T(0.001);
  for (Vector &v : x)
    v = b;
  for (int64_t n = 0; n < kSteps; ++n)
#pragma GCC unroll 12
    for (int c = 0; c < kChains; ++c)
      x[c] = x[c] * a + b;
  for (Vector &v : x)
    *sink += v[0];
  return 2.0 * kChains * Lanes * kSteps;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpragmas"
#ifdef __clang__
#pragma clang fp contract(fast)
#endif

#if defined(__x86_64__)
template <typename T>
__attribute__((target("avx512f"))) double wide(T *sink) {
  return chains<T, 64 / sizeof(T)>(sink);
}
template <typename T>
__attribute__((target("avx2,fma"))) double middle(T *sink) {
  return chains<T, 32 / sizeof(T)>(sink);
}
#endif
template <typename T>
double narrow(T *sink) {
  return chains<T, 16 / sizeof(T)>(sink);
}

template <typename T>
double once(T *sink) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f"))
    return wide(sink);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return middle(sink);
#endif
  return narrow(sink);
}
#pragma GCC diagnostic pop

template <typename T>
double measure(unsigned threads) {
  double best = 0;
  for (int round = 0; round < 8; ++round) {
    std::vector<double> work(threads);
    auto run = [&](unsigned t) {
      T sink = 0;
      for (int n = 0; n < 32; ++n)
        work[t] += once(&sink);
      volatile T keep = sink;
      (void)keep;
    };
    auto start = std::chrono::steady_clock::now();
    std::vector<std::thread> pool;
    for (unsigned t = 1; t < threads; ++t)
      pool.emplace_back(run, t);
    run(0);
    for (std::thread &t : pool)
      t.join();
    std::chrono::duration<double> seconds =
        std::chrono::steady_clock::now() - start;
    double total = 0;
    for (double w : work)
      total += w;
    best = std::max(best, total / seconds.count());
  }
  return best;
}

} // namespace

double measurePeak(DType type, unsigned threads) {
  threads = std::max(threads, 1u);
  return type == DType::f64 ? measure<double>(threads)
                            : measure<float>(threads);
}

} // namespace fathom
