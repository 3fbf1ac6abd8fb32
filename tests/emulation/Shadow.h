//===- Shadow.h - who touched a CTA's shared memory --------------*- C++ -*-===//
//
// For each byte of shared memory: who wrote it, who has read it since, and
// whether an asynchronous copy is under way into it. Two accesses of which one
// writes must be ordered:
//
//   - those of one thread are, as it makes them;
//   - those of two warps are if a barrier lies between them in which both took
//     part (or a chain of such);
//   - those of two lanes of a warp likewise; warp_barrier() is such a barrier
//     for its warp. Shuffles, votes, matrix loads and products order nothing;
//   - a matrix load or store (ldmatrix, stmatrix) is an access of all lanes;
//   - an asynchronous copy is a write that lasts from its issue until the wait
//     of the thread that issued it, and then one of that thread at the wait;
//   - a copy of a box is one that lasts until its mbarrier ends the phase. It is
//     ordered before what those do who wait for that; who arrives at an mbarrier
//     orders what its warp did before the warp's last barrier likewise.
//
// Time is a counter that rises at each barrier. A warp has a time, that of its
// last barrier, with which its accesses are marked, and knows for each warp a
// time before which that warp's accesses are ordered before its own next ones.
// What is checked is therefore not the order in which threads happened to run,
// but whether another could happen: any order of running finds the same
// unordered pairs, as long as it comes to the same accesses. Two readers in one
// warp count as if all its lanes had read.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_TESTS_EMULATION_SHADOW_H
#define FATHOM_TESTS_EMULATION_SHADOW_H

#include <cstdint>
#include <string>
#include <vector>

namespace fathom::emulation {

constexpr int kMaxWarps = 32;
constexpr int kAllLanes = 32;
constexpr int kCopyEngine = kMaxWarps; ///< counts as one more warp
constexpr int kAgents = kMaxWarps + 1;

/// What a warp knows of time.
struct WarpTime {
  uint32_t now = 0;
  uint32_t known[kAgents] = {}; ///< its own entry: its last barrier
};

/// Who makes an access: one lane of a warp, or all.
struct Agent {
  int warp = 0, lane = 0;
  const WarpTime *time = nullptr;
};

class Shadow {
public:
  /// New memory of `bytes`, never written, for `warps` warps; `time` is later
  /// than all before.
  void reset(uint32_t bytes, int warps, uint32_t time);

  // Each returns what is wrong, or an empty string.
  std::string read(uint32_t offset, uint32_t bytes, const Agent &agent);
  std::string write(uint32_t offset, uint32_t bytes, const Agent &agent);
  /// An asynchronous copy by `thread`, begun after write() and ended.
  void beginCopy(uint32_t offset, uint32_t bytes, int thread, bool box = false);
  void endCopy(uint32_t offset, uint32_t bytes, const Agent &agent);

private:
  struct Cell {
    uint32_t written = 0; ///< time; before `begin`: not yet
    uint32_t readers = 0; ///< number of a reader set, since the last write
    uint16_t writer = 0;  ///< thread, or kAll + warp
    uint16_t copier = 0;  ///< thread + 1 while a copy is under way; and kBox
    bool operator==(const Cell &) const = default;
  };
  /// One a warp of a reader set; lane < 0: none.
  struct Reader {
    uint32_t time = 0;
    int32_t lane = -1;
  };

  std::string check(const Cell &cell, bool write, const Agent &agent) const;
  bool ordered(int warp, int lane, uint32_t time, const Agent &agent) const;
  uint32_t addReader(uint32_t set, const Agent &agent);
  void forgetReaders();

  std::vector<Cell> cells;
  std::vector<Reader> readers; ///< set s at s * warps; set 0 is empty
  struct Step {
    uint32_t from = 0, agent = 0, time = 0, to = 0;
  };
  std::vector<Step> steps; ///< recent results of addReader, by hash
  uint32_t size = 0, begin = 0;
  int warps = 0;
};

} // namespace fathom::emulation

#endif // FATHOM_TESTS_EMULATION_SHADOW_H
