//===- CpuRuntime.cpp - threads and services of compiled CPU code -----------===//
//
// A pool of threads that claim the items of a nest in rising order, so that an
// item that waits for the turn of a lower one waits for one that is running or
// done, whatever the number of threads. With FATHOM_POISON=1 every workspace
// and all scratch memory start as NaN.
//
//===----------------------------------------------------------------------===//

#include "runtime/cpu/CpuRuntime.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>

// The compiler's own library converts f16 for CPUs that can't. Only the
// addresses are needed, and not every compiler knows _Float16.
extern "C" void __extendhfsf2();
extern "C" void __truncsfhf2();
extern "C" void __truncdfhf2();

namespace fathom::cpu {
namespace {

using ItemFunction = void (*)(void *task, void *scratch, int64_t item);

constexpr size_t kAlignment = 64;

bool poisons() {
  static const bool on = [] {
    const char *v = std::getenv("FATHOM_POISON");
    return v && std::strcmp(v, "1") == 0;
  }();
  return on;
}

int defaultThreadCount() {
  if (const char *v = std::getenv("FATHOM_NUM_THREADS"))
    if (int n = std::atoi(v); n > 0)
      return n;
  return std::max(1u, std::thread::hardware_concurrency());
}

void *allocate(size_t bytes) {
  size_t padded =
      (std::max<size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  void *p = std::aligned_alloc(kAlignment, padded);
  if (!p)
    std::abort(); // there is no way out of compiled code
  if (poisons())
    std::memset(p, 0xff, padded);
  return p;
}

/// Scratch memory of one thread, kept between runs.
class Scratch {
public:
  ~Scratch() { std::free(memory); }
  void *get(size_t bytes) {
    if (bytes > size) {
      std::free(memory);
      memory = allocate(bytes);
      size = bytes;
    } else if (poisons()) {
      std::memset(memory, 0xff, size);
    }
    return memory;
  }

private:
  void *memory = nullptr;
  size_t size = 0;
};

struct Job {
  ItemFunction function;
  void *task;
  int64_t items, scratchBytes;
  std::atomic<int64_t> next{0};

  void work() {
    thread_local Scratch scratch;
    void *memory = scratch.get(scratchBytes);
    for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < items;)
      function(task, memory, i);
  }
};

class Pool {
public:
  ~Pool() { stop(); }

  int size() {
    std::lock_guard lock(runMutex);
    return wanted();
  }

  void resize(int n) {
    std::lock_guard lock(runMutex);
    count = n;
    stop();
  }

  void run(Job &job) {
    std::unique_lock running(runMutex, std::try_to_lock);
    // A second host thread, or a nested launch, does its work alone.
    if (!running || wanted() == 1 || job.items == 1)
      return job.work();
    if (workers.empty())
      try {
        for (int i = 1; i < wanted(); ++i)
          workers.emplace_back([this, seen = round]() mutable { serve(seen); });
      } catch (const std::system_error &) {
        // The system gives no more threads: those there are do the work.
      }
    {
      std::lock_guard lock(mutex);
      current = &job;
      pending = int(workers.size());
      ++round;
    }
    wake.notify_all();
    job.work();
    std::unique_lock lock(mutex);
    done.wait(lock, [&] { return pending == 0; });
    current = nullptr;
  }

private:
  int wanted() {
    if (count == 0)
      count = defaultThreadCount();
    return count;
  }

  void serve(uint64_t seen) {
    std::unique_lock lock(mutex);
    for (;;) {
      wake.wait(lock, [&] { return stopping || round != seen; });
      if (stopping)
        return;
      seen = round;
      Job *job = current;
      lock.unlock();
      job->work();
      lock.lock();
      if (--pending == 0)
        done.notify_one();
    }
  }

  void stop() {
    {
      std::lock_guard lock(mutex);
      stopping = true;
    }
    wake.notify_all();
    for (std::thread &t : workers)
      t.join();
    workers.clear();
    stopping = false;
  }

  std::mutex runMutex; // held for the length of a run
  int count = 0;
  std::vector<std::thread> workers;

  std::mutex mutex; // guards what follows
  std::condition_variable wake, done;
  Job *current = nullptr;
  int pending = 0;
  uint64_t round = 0;
  bool stopping = false;
};

Pool &pool() {
  static Pool p;
  return p;
}

std::array<std::atomic<uint64_t>, kNumCounters> counters;

void parallelFor(void *function, void *task, int64_t items,
                 int64_t scratchBytes) {
  if (items <= 0)
    return;
  Job job{reinterpret_cast<ItemFunction>(function), task, items, scratchBytes};
  pool().run(job);
}

void waitTurn(int32_t *ticket, int64_t turn) {
  std::atomic_ref<int32_t> t(*ticket);
  for (int spins = 0; t.load(std::memory_order_acquire) != int32_t(turn);
       ++spins)
    if (spins > 64)
      std::this_thread::yield();
}

/// The lock of the buffer at `base`; buffers may share one.
std::mutex &lockOf(void *base) {
  static std::array<std::mutex, 64> locks;
  return locks[reinterpret_cast<uintptr_t>(base) / kAlignment % locks.size()];
}
void lock(void *base) { lockOf(base).lock(); }
void unlock(void *base) { lockOf(base).unlock(); }

void tick(int64_t id) {
  if (id >= 0 && id < kNumCounters)
    counters[id].fetch_add(1, std::memory_order_relaxed);
}

void *allocateWorkspace(size_t bytes) { return allocate(bytes); }
void freeWorkspace(void *p) { std::free(p); }

template <typename F>
void *address(F *f) {
  return reinterpret_cast<void *>(f);
}

} // namespace

void setThreadCount(int count) { pool().resize(std::max(count, 0)); }
int threadCount() { return pool().size(); }

uint64_t readCounter(int id) {
  return counters[id].load(std::memory_order_relaxed);
}
void resetCounters() {
  for (auto &c : counters)
    c.store(0, std::memory_order_relaxed);
}

const std::vector<RuntimeSymbol> &runtimeSymbols() {
#define FUNCTION1(NAME)                                                        \
  {#NAME "f", address<float(float)>(NAME##f)},                                 \
      {#NAME, address<double(double)>(NAME)}
#define FUNCTION2(NAME)                                                        \
  {#NAME "f", address<float(float, float)>(NAME##f)}, {                        \
    #NAME, address<double(double, double)>(NAME)                               \
  }
  static const std::vector<RuntimeSymbol> symbols = {
      {"fathom_parallel_for", address(parallelFor)},
      {"fathom_wait_turn", address(waitTurn)},
      {"fathom_lock", address(lock)},
      {"fathom_unlock", address(unlock)},
      {"fathom_tick", address(tick)},
      {"fathom_alloc", address(allocateWorkspace)},
      {"fathom_free", address(freeWorkspace)},
      {"memcpy", address(std::memcpy)},
      {"memmove", address(std::memmove)},
      {"memset", address(std::memset)},
      FUNCTION1(exp),
      FUNCTION1(exp2),
      FUNCTION1(expm1),
      FUNCTION1(log),
      FUNCTION1(log2),
      FUNCTION1(log10),
      FUNCTION1(log1p),
      FUNCTION1(sin),
      FUNCTION1(cos),
      FUNCTION1(tan),
      FUNCTION1(sinh),
      FUNCTION1(cosh),
      FUNCTION1(tanh),
      FUNCTION1(asin),
      FUNCTION1(acos),
      FUNCTION1(atan),
      FUNCTION1(asinh),
      FUNCTION1(acosh),
      FUNCTION1(atanh),
      FUNCTION1(erf),
      FUNCTION1(erfc),
      FUNCTION1(cbrt),
      FUNCTION1(sqrt),
      FUNCTION1(floor),
      FUNCTION1(ceil),
      FUNCTION1(trunc),
      FUNCTION1(round),
      FUNCTION1(rint),
      FUNCTION1(nearbyint),
      {"roundevenf", address<float(float)>(rintf)},
      {"roundeven", address<double(double)>(rint)},
      FUNCTION2(pow),
      FUNCTION2(atan2),
      FUNCTION2(fmod),
      FUNCTION2(fmin),
      FUNCTION2(fmax),
      {"sincosf", address<void(float, float *, float *)>(sincosf)},
      {"sincos", address<void(double, double *, double *)>(sincos)},
      {"__extendhfsf2", address(__extendhfsf2)},
      {"__truncsfhf2", address(__truncsfhf2)},
      {"__truncdfhf2", address(__truncdfhf2)},
      {"fmaf", address<float(float, float, float)>(fmaf)},
      {"fma", address<double(double, double, double)>(fma)},
  };
#undef FUNCTION1
#undef FUNCTION2
  return symbols;
}

} // namespace fathom::cpu
