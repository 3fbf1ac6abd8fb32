//===- KernelCount.h - how many kernels a test program compiled -*- C++ -*-===//

#ifndef FATHOM_TESTS_E2E_KERNELCOUNT_H
#define FATHOM_TESTS_E2E_KERNELCOUNT_H

#include <atomic>
#include <cstdio>

/// Tells tools/check at exit.
struct KernelCount {
  const char *name;
  std::atomic<long> number = 0;
  ~KernelCount() {
    if (number)
      std::printf("\ncount: %s %ld\n", name, number.load());
  }
};
inline KernelCount kernelCount{"kernels-compiled"};
inline KernelCount emulatedCount{"kernels-emulated"};

#endif // FATHOM_TESTS_E2E_KERNELCOUNT_H
