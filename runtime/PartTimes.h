//===- PartTimes.h - where the time until a kernel runs went ----*- C++ -*-===//
//
// The steps from a variant's text to a loaded kernel are few and long: each is
// timed, always.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_RUNTIME_PARTTIMES_H
#define FATHOM_RUNTIME_PARTTIMES_H

#include "runtime/fathom.h"

#include <chrono>

namespace fathom {

/// Adds to what partTimes() of fathom.h tells.
void addPartTime(const std::string &part, double seconds);

/// Times a step while it lives.
class PartTimer {
public:
  explicit PartTimer(const char *part) : part(part) {}
  ~PartTimer() {
    addPartTime(part, std::chrono::duration<double>(
                          std::chrono::steady_clock::now() - start)
                          .count());
  }
  PartTimer(const PartTimer &) = delete;

private:
  const char *part;
  std::chrono::steady_clock::time_point start =
      std::chrono::steady_clock::now();
};

} // namespace fathom

#endif // FATHOM_RUNTIME_PARTTIMES_H
