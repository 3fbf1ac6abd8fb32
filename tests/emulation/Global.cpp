//===- Global.cpp - who touches global memory -------------------------------===//

#include "tests/emulation/Global.h"
#include <algorithm>
#include <fmt/format.h>

using namespace fathom::emulation;
using fa::emulation::Access;

namespace {
void merge(BlockTimes &into, const BlockTimes &from) {
  into.resize(std::max(into.size(), from.size()));
  for (size_t i = 0; i < from.size(); ++i)
    into[i] = std::max(into[i], from[i]);
}
} // namespace

void Memory::add(const void *p, size_t bytes, bool writable, std::string name) {
  auto begin = reinterpret_cast<uintptr_t>(p);
  if (bytes)
    ranges[begin] = {begin, begin + bytes, writable, std::move(name)};
}

void Memory::remove(const void *p) {
  ranges.erase(reinterpret_cast<uintptr_t>(p));
}

std::string GlobalShadow::inRange(uintptr_t begin, unsigned bytes, bool write) {
  auto error = [&](const std::string &what) {
    return fmt::format("{} {} bytes of global memory at {:#x}, {}",
                       write ? "writes" : "reads", bytes, begin, what);
  };
  if (begin % bytes)
    return error(fmt::format("which is not a multiple of {}", bytes));
  if (begin < last.begin || begin + bytes > last.end) {
    auto it = memory.ranges.upper_bound(begin);
    if (it == memory.ranges.begin())
      return error("outside every array");
    const Memory::Range &range = std::prev(it)->second;
    if (begin + bytes > range.end)
      return error(fmt::format("outside every array: {} bytes after the begin "
                               "of array '{}' of {} bytes",
                               begin - range.begin, range.name,
                               range.end - range.begin));
    last = range;
  }
  if (write && !last.writable)
    return error(
        fmt::format("in array '{}', which may only be read", last.name));
  return "";
}

std::string GlobalShadow::check(const Cell &cell, const Mark &mark, bool write,
                                const Agent &agent,
                                const BlockTimes &blocks) const {
  auto races = [&](const Mark &old) {
    if (!old.valid || (old.atomic && mark.atomic))
      return false;
    if (old.block != mark.block)
      return old.block >= blocks.size() || blocks[old.block] <= old.time;
    return old.thread != mark.thread &&
           agent.time->known[old.thread / 32] <= old.time;
  };
  auto describe = [&](const Mark &old, const char *did) {
    return fmt::format("thread {} of block {} {}, with nothing that orders the "
                       "two",
                       old.thread, old.block, did);
  };
  if (races(cell.write))
    return describe(cell.write, "wrote");
  if (write && races(cell.read))
    return describe(cell.read, "read");
  return "";
}

std::string GlobalShadow::access(const void *p, unsigned bytes, Access kind,
                                 const Agent &agent, uint32_t block,
                                 BlockTimes &blocks, uint32_t time) {
  auto begin = reinterpret_cast<uintptr_t>(p);
  bool write = kind != Access::read && kind != Access::acquire;
  std::string wrong = inRange(begin, bytes, write);
  if (!wrong.empty() || !last.writable)
    return wrong;
  if (kind == Access::acquire || kind == Access::count)
    if (auto it = released.find(begin); it != released.end())
      merge(blocks, it->second);
  if (kind == Access::release || kind == Access::count) {
    blocks.resize(std::max<size_t>(blocks.size(), block + 1));
    blocks[block] = time;
    merge(released[begin], blocks);
  }

  Mark mark{block, agent.time->now, uint16_t(agent.warp * 32 + agent.lane),
            true, kind != Access::read && kind != Access::write};
  std::vector<Cell> &page = pages[begin / kPage];
  if (page.empty())
    page.resize(kPage);
  // Neighbours mostly have the same past.
  Cell *cell = &page[begin % kPage], *end = cell + bytes;
  while (cell != end) {
    Cell first = *cell;
    wrong = check(first, mark, write, agent, blocks);
    if (!wrong.empty())
      return fmt::format("{} {} bytes of global memory, {} bytes after the "
                         "begin of array '{}', which {}",
                         write ? "writes" : "reads", bytes, begin - last.begin,
                         last.name, wrong);
    for (; cell != end && *cell == first; ++cell)
      (write ? cell->write : cell->read) = mark;
  }
  return "";
}
