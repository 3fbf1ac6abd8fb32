//===- PartTimes.cpp - where the time until a kernel runs went --------------===//

#include "runtime/PartTimes.h"

#include <mutex>

namespace fathom {
namespace {

struct All {
  std::mutex mutex;
  std::vector<PartTime> parts;
};

/// Never destroyed: threads may end after static objects do.
All &all() {
  static All *parts = new All();
  return *parts;
}

} // namespace

std::vector<PartTime> partTimes() {
  std::lock_guard lock(all().mutex);
  return all().parts;
}

void addPartTime(const std::string &part, double seconds) {
  std::lock_guard lock(all().mutex);
  for (PartTime &p : all().parts)
    if (p.part == part) {
      ++p.count;
      p.seconds += seconds;
      return;
    }
  all().parts.push_back({part, 1, seconds});
}

} // namespace fathom
