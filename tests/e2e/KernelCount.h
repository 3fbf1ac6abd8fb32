//===- KernelCount.h - how many kernels a test program compiled -*- C++ -*-===//

#ifndef FATHOM_TESTS_E2E_KERNELCOUNT_H
#define FATHOM_TESTS_E2E_KERNELCOUNT_H

#include <atomic>
#include <cstdio>

/// Tells tools/check at exit.
struct KernelCount {
  std::atomic<long> number = 0;
  ~KernelCount() {
    std::printf("\ncount: kernels-compiled %ld\n", number.load());
  }
};
inline KernelCount kernelCount;

#endif // FATHOM_TESTS_E2E_KERNELCOUNT_H
