//===- Global.h - who touches global memory ----------------------*- C++ -*-===//
//
// The arrays that kernels may access, and for each byte of those that may be
// written who wrote and who read it last within the launch. Two accesses of
// which one writes must be ordered, unless both are atomic:
//
//   - in one CTA by barriers, as in Shadow.h;
//   - between CTAs by a release (store_release, atomic_inc) that the other
//     acquired (load_acquire, atomic_inc). These count for the whole CTA, and
//     only the last reader of a byte is known: some races go unseen, but what
//     is reported is one.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_TESTS_EMULATION_GLOBAL_H
#define FATHOM_TESTS_EMULATION_GLOBAL_H

#include "codegen/device/emulation.h"
#include "tests/emulation/Shadow.h"
#include <map>
#include <unordered_map>

namespace fathom::emulation {

/// The global memory that kernels may access.
class Memory {
public:
  void add(const void *p, size_t bytes, bool writable, std::string name = "");
  void remove(const void *p);

private:
  friend class GlobalShadow;
  struct Range {
    uintptr_t begin = 0, end = 0;
    bool writable = false;
    std::string name;
  };
  std::map<uintptr_t, Range> ranges; ///< by begin
};

/// What a CTA knows of the others: for each block, a time before which its
/// accesses are ordered before this CTA's next ones. May be shorter.
using BlockTimes = std::vector<uint32_t>;

/// One launch's accesses.
class GlobalShadow {
public:
  explicit GlobalShadow(const Memory &memory) : memory(memory) {}

  /// What is wrong with an access of `agent`, a lane in `block` that knows
  /// `blocks`, or an empty string. `time` is later than all accesses so far.
  std::string access(const void *p, unsigned bytes, fa::emulation::Access kind,
                     const Agent &agent, uint32_t block, BlockTimes &blocks,
                     uint32_t time);

private:
  struct Mark {
    uint32_t block = 0, time = 0;
    uint16_t thread = 0;
    bool valid = false, atomic = false;
    bool operator==(const Mark &) const = default;
  };
  struct Cell {
    Mark write, read;
    bool operator==(const Cell &) const = default;
  };
  static constexpr uintptr_t kPage = 256;

  std::string inRange(uintptr_t begin, unsigned bytes, bool write);
  std::string check(const Cell &cell, const Mark &mark, bool write,
                    const Agent &agent, const BlockTimes &blocks) const;

  const Memory &memory;
  Memory::Range last; ///< hit
  std::unordered_map<uintptr_t, std::vector<Cell>> pages;
  std::unordered_map<uintptr_t, BlockTimes> released; ///< by address
};

} // namespace fathom::emulation

#endif // FATHOM_TESTS_EMULATION_GLOBAL_H
