//===- Shadow.cpp - who touched a CTA's shared memory -----------------------===//

#include "tests/emulation/Shadow.h"
#include <algorithm>
#include <fmt/format.h>

using namespace fathom::emulation;

namespace {
constexpr int kAll = 1024; ///< the number of warp w's lanes together: kAll + w
constexpr int kBox = 2048; ///< a copier's copy is one of a box
constexpr size_t kMaxSets = 1 << 16, kSteps = 1 << 12;

uint16_t number(const Agent &agent) {
  return agent.lane == kAllLanes ? kAll + agent.warp
                                 : agent.warp * 32 + agent.lane;
}
std::string who(int number) {
  if (number == kAll + kCopyEngine)
    return "the copy of a box";
  return number >= kAll
             ? fmt::format("the matrix access of warp {}", number - kAll)
             : fmt::format("thread {}", number);
}
std::string who(int warp, int lane) {
  return lane == kAllLanes ? fmt::format("warp {}", warp)
                           : fmt::format("thread {}", warp * 32 + lane);
}
} // namespace

void Shadow::reset(uint32_t bytes, int warpCount, uint32_t time) {
  if (cells.size() < bytes)
    cells.resize(bytes);
  steps.resize(kSteps);
  size = bytes;
  begin = time;
  warps = warpCount;
  forgetReaders();
}

bool Shadow::ordered(int warp, int lane, uint32_t time,
                     const Agent &agent) const {
  return agent.time->known[warp] > time ||
         (warp == agent.warp && lane == agent.lane && lane != kAllLanes);
}

std::string Shadow::check(const Cell &cell, bool write,
                          const Agent &agent) const {
  const char *verb = write ? "overwritten" : "read";
  if (cell.copier >= kBox)
    return fmt::format("{} while the copy of a box that thread {} started is "
                       "under way: its barrier's phase has not ended",
                       verb, cell.copier - kBox - 1);
  if (cell.copier)
    return fmt::format("{} while an asynchronous copy of thread {} into it is "
                       "under way: no wait of that thread covers it yet",
                       verb, cell.copier - 1);
  bool written = cell.written >= begin;
  if (!written)
    return write ? "" : "read before it was written";
  int writer = cell.writer;
  int warp = writer >= kAll ? writer - kAll : writer / 32;
  int lane = writer >= kAll ? kAllLanes : writer % 32;
  if (!ordered(warp, lane, cell.written, agent))
    return fmt::format("{}, with no barrier after {} wrote it", verb,
                       who(writer));
  if (!write)
    return "";
  for (int w = 0; w < warps; ++w) {
    const Reader &reader = readers[size_t(cell.readers) * warps + w];
    if (reader.lane >= 0 && !ordered(w, reader.lane, reader.time, agent))
      return fmt::format("overwritten, with no barrier after {} read it",
                         who(w, reader.lane));
  }
  return "";
}

uint32_t Shadow::addReader(uint32_t set, const Agent &agent) {
  Reader old = readers[size_t(set) * warps + agent.warp];
  uint32_t now = agent.time->now;
  if (old.lane >= 0 && old.time == now &&
      (old.lane == agent.lane || old.lane == kAllLanes))
    return set;
  uint32_t key = agent.warp * 64 + agent.lane;
  uint32_t hash = (set * 0x9e3779b1u ^ key * 0x85ebca6bu ^ now * 0xc2b2ae35u);
  Step &step = steps[(hash ^ hash >> 15) % kSteps];
  if (step.from == set && step.agent == key && step.time == now && step.to)
    return step.to;
  uint32_t to = readers.size() / warps;
  readers.resize(readers.size() + warps);
  std::copy_n(readers.begin() + size_t(set) * warps, warps,
              readers.begin() + size_t(to) * warps);
  // An older reader of the same warp counts on unless it is ordered before.
  bool both = old.lane >= 0 && !ordered(agent.warp, old.lane, old.time, agent);
  readers[size_t(to) * warps + agent.warp] = {now,
                                              both ? kAllLanes : agent.lane};
  step = {set, key, now, to};
  return to;
}

/// Keeps the sets that a byte still has.
void Shadow::forgetReaders() {
  std::fill(steps.begin(), steps.end(), Step());
  std::vector<Reader> old = std::move(readers);
  std::vector<uint32_t> moved(warps ? old.size() / warps + 1 : 1, 0);
  readers.assign(warps, Reader());
  for (uint32_t i = 0; i < size; ++i) {
    Cell &cell = cells[i];
    if (cell.written < begin || !cell.readers) {
      cell.readers = 0;
      continue;
    }
    uint32_t &to = moved[cell.readers];
    if (!to) {
      to = readers.size() / warps;
      readers.insert(readers.end(), old.begin() + size_t(cell.readers) * warps,
                     old.begin() + size_t(cell.readers + 1) * warps);
    }
    cell.readers = to;
  }
}

std::string Shadow::read(uint32_t offset, uint32_t bytes, const Agent &agent) {
  if (readers.size() / warps > kMaxSets)
    forgetReaders();
  // Neighbours mostly have the same past.
  for (uint32_t i = offset; i < offset + bytes;) {
    Cell first = cells[i];
    std::string wrong = check(first, false, agent);
    if (!wrong.empty())
      return fmt::format("byte {} of shared memory is {}", i, wrong);
    uint32_t set = addReader(first.readers, agent);
    for (; i < offset + bytes && cells[i] == first; ++i)
      cells[i].readers = set;
  }
  return "";
}

std::string Shadow::write(uint32_t offset, uint32_t bytes, const Agent &agent) {
  Cell mark{agent.time->now, 0, number(agent), 0};
  for (uint32_t i = offset; i < offset + bytes;) {
    Cell first = cells[i];
    std::string wrong = check(first, true, agent);
    if (!wrong.empty())
      return fmt::format("byte {} of shared memory is {}", i, wrong);
    for (; i < offset + bytes && cells[i] == first; ++i)
      cells[i] = mark;
  }
  return "";
}

void Shadow::beginCopy(uint32_t offset, uint32_t bytes, int thread, bool box) {
  for (uint32_t i = offset; i < offset + bytes; ++i)
    cells[i].copier = thread + 1 + (box ? kBox : 0);
}

void Shadow::endCopy(uint32_t offset, uint32_t bytes, const Agent &agent) {
  for (uint32_t i = offset; i < offset + bytes; ++i)
    cells[i] = {agent.time->now, 0, number(agent), 0};
}
