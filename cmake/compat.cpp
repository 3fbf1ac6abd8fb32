//===- compat.cpp - what an older glibc lacks -------------------------------===//
//
// LLVM's archives ask for arc4random, which glibc has since 2.36.
//
//===----------------------------------------------------------------------===//

#include <cstdint>
#include <sys/random.h>

extern "C" uint32_t arc4random() {
  uint32_t value = 0;
  while (getrandom(&value, sizeof value, 0) != sizeof value) {
  }
  return value;
}
