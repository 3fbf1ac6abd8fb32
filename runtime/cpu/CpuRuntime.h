//===- CpuRuntime.h - threads and services of compiled CPU code -*- C++ -*-===//
//
// What mapped code calls while it runs, and the few knobs a host has.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_RUNTIME_CPU_CPURUNTIME_H
#define FATHOM_RUNTIME_CPU_CPURUNTIME_H

#include <cstdint>
#include <vector>

namespace fathom::cpu {

/// Threads that a run uses, this one included. 0 is the default: the
/// environment variable FATHOM_NUM_THREADS, else the number of CPUs. Not while
/// a run is in progress.
void setThreadCount(int count);
int threadCount();

/// Counters raised by fa.tick, by id.
constexpr int kNumCounters = 64;
uint64_t readCounter(int id);
void resetCounters();

/// A function that compiled code may call, by its symbol.
struct RuntimeSymbol {
  const char *name;
  void *address;
};
const std::vector<RuntimeSymbol> &runtimeSymbols();

} // namespace fathom::cpu

#endif // FATHOM_RUNTIME_CPU_CPURUNTIME_H
