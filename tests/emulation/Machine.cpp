//===- Machine.cpp - runs a kernel's threads on the host --------------------===//

#include "tests/emulation/Machine.h"
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <fmt/format.h>
#include <numeric>

using namespace fathom::emulation;
using fa::emulation::Access;
using fa::emulation::Mma;

namespace {
/// So many pauses of waiting threads while no thread writes global memory or
/// ends mean that none ever will.
constexpr uint64_t kMaxPauses = 2'000'000;

enum class Op {
  loadMatrix,
  storeMatrix,
  mma,
  product,
  productFence,
  productCommit,
  productWait,
  shuffle,
  vote,
  warpBarrier,
  bar
};

/// Where a new fiber finds its machine.
thread_local Machine *starting;
} // namespace

/// What one lane comes to a meeting with.
struct Machine::Call {
  Op op;
  int variant = 0;        ///< what all lanes must agree on
  unsigned offset = 0;    ///< of a row in shared memory
  void *result = nullptr; ///< registers
  const void *a = nullptr, *b = nullptr;
  unsigned long long bits = 0;
  int threads = 0; ///< of a barrier; 0: all

  bool sameAs(const Call &other) const {
    return op == other.op && variant == other.variant &&
           threads == other.threads;
  }
  std::string describe() const;
};

std::string Machine::Call::describe() const {
  switch (op) {
  case Op::loadMatrix:
  case Op::storeMatrix:
    return fmt::format("{}_x{}{}",
                       op == Op::loadMatrix ? "ldmatrix" : "stmatrix",
                       variant / 2, variant % 2 ? "_trans" : "");
  case Op::mma:
    return "mma";
  case Op::product:
    return "wgmma";
  case Op::productFence:
    return "wgmma_fence()";
  case Op::productCommit:
    return "wgmma_commit()";
  case Op::productWait:
    return fmt::format("wgmma_wait<{}>()", variant);
  case Op::shuffle:
    return fmt::format("shuffle_xor({})", variant);
  case Op::vote:
    return variant ? "vote_all" : "vote_any";
  case Op::warpBarrier:
    return "warp_barrier()";
  case Op::bar:
    break;
  }
  int id = variant / 2;
  return id == 0 ? "barrier()"
                 : fmt::format("named_barrier{}({}, {})",
                               variant % 2 ? "" : "_arrive", id, threads);
}

struct Machine::Thread {
  /// The mbarrier whose phase it waits for.
  const Mbarrier *awaited = nullptr;
  struct Copy {
    unsigned offset, bytes;
    const void *from; ///< null: zeros
  };
  Fiber fiber;
  Warp *warp = nullptr;
  int id = 0, lane = 0;
  std::vector<Copy> copies;   ///< under way, oldest first
  std::vector<size_t> groups; ///< of how many copies, oldest first
  size_t open = 0;            ///< copies after the last commit
  uint32_t fences = 0;        ///< fence_async() so far
};

/// Sets of lanes are bits.
struct Machine::Warp {
  Cta *cta = nullptr;
  int id = 0;
  uint32_t all = 0, ready = 0, paused = 0, arrived = 0, done = 0;
  bool queued = false;
  int turn = 0; ///< the lane that goes first
  Call *calls[32] = {};
  WarpTime time;

  /// The sum of products under way; those on one sum are one.
  struct Sum {
    float *d[32];
    std::vector<float> values; ///< by lane
    uint64_t group = 0;        ///< of the last
  };
  /// Bytes of a factor that a product under way reads.
  struct Factor {
    unsigned offset;
    std::array<unsigned char, 16> bytes;
    uint64_t group;
  };
  std::vector<Sum> sums;
  std::vector<Factor> factors;
  uint64_t groups = 0; ///< of products, committed
  bool fenced = false; ///< since the last commit
};

struct Machine::Barrier {
  int expected = 0, arrived = 0; ///< threads
  uint32_t warps = 0, waiting = 0;
  uint32_t known[kAgents] = {}; ///< by those that come out of it
};

/// A barrier in shared memory. A phase ends when nothing is missing.
struct Machine::Mbarrier {
  /// 16 bytes of a copy, the first `valid` of them from the array.
  struct Piece {
    unsigned offset, valid;
    const char *from;
  };
  unsigned offset = 0;
  int arrivals = 0, missing = 0; ///< threads
  int64_t bytes = 0;             ///< announced less landed
  bool parity = false;           ///< of the phase that has not ended
  std::vector<Piece> pieces;     ///< under way
  uint32_t arrived[kAgents] = {};
  uint32_t known[kAgents] = {}; ///< by those that waited for the last phase
};

struct Machine::Cta {
  int64_t block = 0;
  bool live = false;
  int left = 0; ///< threads that have not ended
  BlockTimes blocks;
  std::deque<Thread> threads;
  std::deque<Warp> warps;
  Barrier barriers[16];
  std::map<unsigned, Mbarrier> mbarriers; ///< by place
  std::vector<unsigned char> shared;
  Shadow shadow;
  /// By byte, who wrote it last and that thread's fences before.
  struct Writer {
    int thread = -1;
    uint32_t fences = 0;
  };
  std::vector<Writer> writers;
  void wrote(unsigned offset, unsigned bytes, const Thread &thread) {
    std::fill_n(writers.begin() + offset, bytes,
                Writer{thread.id, thread.fences});
  }
};

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

Machine::Machine() = default;
Machine::~Machine() = default;

uint32_t Machine::random() {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return uint32_t(state >> 32);
}

std::string Machine::run(const Launch &l, const Memory &m, Options o) {
  launch = l, options = o;
  memory = std::make_unique<GlobalShadow>(m);
  state = 0x9e3779b97f4a7c15ull * (o.seed + 1);
  grid = l.grid;
  error.clear(), queue.clear();
  active = nullptr, time = 0, pauses = 0;
  if (l.threads < 1 || l.threads > 1024 || l.sharedBytes < 0)
    return fmt::format("kernel {}: expected 1 to 1024 threads and no negative "
                       "shared memory, got {} threads and {} bytes",
                       l.name, l.threads, l.sharedBytes);
  for (auto &cta : ctas)
    cta = std::make_unique<Cta>();
  int64_t block = 0;
  while (error.empty()) {
    bool live = false;
    for (auto &cta : ctas) {
      if (!cta->live && block < grid)
        start(*cta, block++);
      live |= cta->live;
    }
    if (!live)
      break;
    Thread *to = next();
    if (!to)
      for (auto &cta : ctas)
        if (cta->live && error.empty())
          setError(nullptr, fmt::format("block {}: no thread can go on: {}",
                                        cta->block, whoWaits(*cta)));
    if (!to)
      break;
    running = nullptr;
    resume(to);
  }
  return error;
}

void Machine::start(Cta &cta, int64_t block) {
  int threads = launch.threads, warps = (threads + 31) / 32;
  cta.block = block, cta.live = true, cta.left = threads;
  cta.blocks.clear();
  active = nullptr;
  cta.threads.resize(threads), cta.warps.resize(warps);
  for (auto &barrier : cta.barriers)
    barrier = {};
  cta.mbarriers.clear();
  cta.shared.resize(launch.sharedBytes);
  cta.writers.assign(launch.sharedBytes, {});
  cta.shadow.reset(launch.sharedBytes, warps, ++time);
  for (int w = 0; w < warps; ++w) {
    Warp &warp = cta.warps[w];
    warp = {};
    warp.cta = &cta, warp.id = w;
    int lanes = std::min(32, threads - 32 * w);
    warp.all = warp.ready = lanes == 32 ? ~0u : (1u << lanes) - 1;
    warp.time.now = time;
    std::fill_n(warp.time.known, kAgents, time);
    enqueue(warp);
  }
  for (int t = 0; t < threads; ++t) {
    Thread &thread = cta.threads[t];
    thread.warp = &cta.warps[t / 32], thread.id = t, thread.lane = t % 32;
    thread.awaited = nullptr;
    thread.fences = 0;
    thread.fiber.start(threadMain);
  }
}

void Machine::threadMain() {
  Machine &machine = *starting;
  machine.launch.entry(machine.launch.params);
  machine.finish();
}

void Machine::finish() {
  Thread &thread = *running;
  Warp &warp = *thread.warp;
  if (!warp.sums.empty())
    fail("ends while a product of its warp is under way");
  thread.groups.clear(), thread.open = 0;
  land(thread, thread.copies.size());
  pauses = 0;
  if (warp.arrived)
    fail(fmt::format("ends, while thread {} of its warp waits at {}",
                     warp.id * 32 + std::countr_zero(warp.arrived),
                     warp.calls[std::countr_zero(warp.arrived)]->describe()));
  warp.done |= 1u << thread.lane;
  if (--warp.cta->left == 0) {
    for (auto &[offset, mbarrier] : warp.cta->mbarriers)
      if (!mbarrier.pieces.empty())
        fail(fmt::format("ends last, while a copy for the mbarrier at {} is "
                         "under way",
                         offset));
    warp.cta->live = false;
    thread.fiber.switchTo(host);
  }
  resume(next());
  __builtin_unreachable();
}

/// Leaves the running thread, or the host, for `to`; null is the host.
void Machine::resume(Thread *to) {
  Thread *from = running;
  if (to && to == from)
    return;
  running = to;
  if (to) {
    thread = to->id, block = to->warp->cta->block;
    starting = this;
  }
  (from ? from->fiber : host).switchTo(to ? to->fiber : host);
}

void Machine::enqueue(Warp &warp) {
  if (warp.queued)
    return;
  warp.queued = true;
  queue.push_back(&warp);
}

/// The thread whose turn it is, or null if none can run.
Machine::Thread *Machine::next() {
  // A seed makes warps lose their turn now and then.
  if (active && active->ready && options.seed && random() % 64 == 0) {
    enqueue(*active);
    active = nullptr;
  }
  while (!active || !active->ready) {
    if (active && active->paused) {
      std::swap(active->ready, active->paused);
      enqueue(*active);
    }
    if (queue.empty())
      return nullptr;
    size_t at = options.seed ? random() % queue.size() : 0;
    active = queue[at];
    queue.erase(queue.begin() + at);
    active->queued = false;
  }
  uint32_t rotated = std::rotr(active->ready, active->turn);
  int lane = (std::countr_zero(rotated) + active->turn) & 31;
  active->ready &= ~(1u << lane);
  return &active->cta->threads[active->id * 32 + lane];
}

void Machine::pause(const char *what) {
  Warp &warp = *running->warp;
  if (++pauses > kMaxPauses)
    fail(fmt::format("waits at {} for what no thread does", what));
  warp.paused |= 1u << running->lane;
  resume(next());
}

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

void Machine::setError(const Thread *thread, const std::string &what) {
  std::string place =
      thread ? fmt::format("block {}, thread {}: ", thread->warp->cta->block,
                           thread->id)
             : "";
  error = fmt::format("kernel {}, {}{}", launch.name, place, what);
}

void Machine::fail(const std::string &what, const Thread *thread) {
  setError(thread ? thread : running, what);
  resume(nullptr);
  __builtin_unreachable();
}

/// One clause for each run of warps that wait for the same.
std::string Machine::whoWaits(const Cta &cta) const {
  std::string all;
  std::string last;
  for (const Warp &warp : cta.warps) {
    std::string state = "ended";
    int lane = 0;
    for (int l = 0; l < 32 && warp.all >> l & 1; ++l)
      if (const Mbarrier *m = cta.threads[warp.id * 32 + l].awaited) {
        lane = l;
        state = fmt::format("waits at mbarrier_wait({}, {}), where {} of {} "
                            "arrivals and {} bytes are missing",
                            m->offset, m->parity, m->missing, m->arrivals,
                            m->bytes);
        break;
      }
    if (warp.arrived) {
      lane = 0;
      const Call &call = *warp.calls[std::countr_zero(warp.arrived)];
      state = "waits at " + call.describe();
      if (warp.arrived == warp.all && call.op == Op::bar) {
        const Barrier &barrier = cta.barriers[call.variant / 2];
        state += fmt::format(", where {} of {} threads are", barrier.arrived,
                             barrier.expected);
      }
    }
    if (state != last)
      all += fmt::format("{}thread {} {}", all.empty() ? "" : "; ",
                         warp.id * 32 + lane, state);
    last = state;
  }
  return all;
}

//===----------------------------------------------------------------------===//
// Memory of the running thread
//===----------------------------------------------------------------------===//

void *Machine::sharedBytes(unsigned offset, unsigned bytes, bool write,
                           const Agent &agent, const Thread &thread) {
  Cta &cta = *thread.warp->cta;
  const char *verb = write ? "writes" : "reads";
  std::string wrong;
  if (uint64_t(offset) + bytes > uint64_t(launch.sharedBytes))
    wrong = fmt::format("{} {} bytes of shared memory at {}, of which the CTA "
                        "has {}",
                        verb, bytes, offset, launch.sharedBytes);
  else if (offset % bytes)
    wrong = fmt::format("{} {} bytes of shared memory at {}, which is not a "
                        "multiple of {}",
                        verb, bytes, offset, bytes);
  else
    wrong = write ? cta.shadow.write(offset, bytes, agent)
                  : cta.shadow.read(offset, bytes, agent);
  if (!wrong.empty())
    fail(wrong, &thread);
  if (write)
    cta.wrote(offset, bytes, thread);
  return cta.shared.data() + offset;
}

void *Machine::shared(unsigned offset, unsigned bytes, bool write) {
  const Warp &warp = *running->warp;
  Agent agent{warp.id, running->lane, &warp.time};
  return sharedBytes(offset, bytes, write, agent, *running);
}

void *Machine::global(const void *p, unsigned bytes, Access kind) {
  const Warp &warp = *running->warp;
  Agent agent{warp.id, running->lane, &warp.time};
  std::string wrong = memory->access(p, bytes, kind, agent, warp.cta->block,
                                     warp.cta->blocks, time + 1);
  if (!wrong.empty())
    fail(wrong);
  if (kind != Access::read && kind != Access::acquire)
    pauses = 0;
  return const_cast<void *>(p);
}

void Machine::copy(unsigned offset, const void *p, unsigned bytes, bool valid) {
  if (valid)
    global(p, bytes, Access::read);
  void *to = shared(offset, bytes, true);
  running->warp->cta->shadow.beginCopy(offset, bytes, running->id);
  if (!options.latest)
    valid ? std::memcpy(to, p, bytes) : std::memset(to, 0, bytes);
  running->copies.push_back({offset, bytes, valid ? p : nullptr});
  ++running->open;
}

void Machine::commit() {
  running->groups.push_back(running->open);
  running->open = 0;
}

void Machine::wait(unsigned pending) {
  auto &groups = running->groups;
  if (groups.size() <= pending)
    return;
  auto end = groups.end() - pending;
  land(*running, std::accumulate(groups.begin(), end, size_t(0)));
  groups.erase(groups.begin(), end);
}

/// Ends the first `count` copies.
void Machine::land(Thread &thread, size_t count) {
  Warp &warp = *thread.warp;
  Agent agent{warp.id, thread.lane, &warp.time};
  for (size_t i = 0; i < count; ++i) {
    const Thread::Copy &copy = thread.copies[i];
    void *to = warp.cta->shared.data() + copy.offset;
    if (options.latest)
      copy.from ? std::memcpy(to, copy.from, copy.bytes)
                : std::memset(to, 0, copy.bytes);
    warp.cta->shadow.endCopy(copy.offset, copy.bytes, agent);
    warp.cta->wrote(copy.offset, copy.bytes, thread);
  }
  thread.copies.erase(thread.copies.begin(), thread.copies.begin() + count);
}

//===----------------------------------------------------------------------===//
// Barriers in shared memory, and copies of boxes
//===----------------------------------------------------------------------===//

void Machine::initMbarrier(unsigned offset, int arrivals) {
  shared(offset, 8, true);
  if (arrivals < 1 || arrivals >= 1 << 20)
    fail(fmt::format("makes a barrier of {} arrivals at {}", arrivals, offset));
  auto &all = running->warp->cta->mbarriers;
  if (auto it = all.find(offset); it != all.end() && !it->second.pieces.empty())
    fail(fmt::format("makes a barrier at {}, where one has copies under way",
                     offset));
  Mbarrier &m = all[offset];
  m = {};
  m.offset = offset;
  m.arrivals = m.missing = arrivals;
}

/// The one at `offset`, which the running thread uses.
Machine::Mbarrier &Machine::mbarrierAt(unsigned offset) {
  auto &all = running->warp->cta->mbarriers;
  auto it = all.find(offset);
  if (it == all.end())
    fail(fmt::format("uses a barrier at {} of shared memory, where none was "
                     "made",
                     offset));
  shared(offset, 8, false);
  return it->second;
}

void Machine::arriveMbarrier(unsigned offset, unsigned bytes) {
  Mbarrier &m = mbarrierAt(offset);
  const WarpTime &mine = running->warp->time;
  for (int w = 0; w < kAgents; ++w)
    m.arrived[w] = std::max(m.arrived[w], mine.known[w]);
  if (m.missing-- == 0)
    fail(fmt::format("arrives at the mbarrier at {} once more than the {} "
                     "arrivals of a phase, which is not over",
                     offset, m.arrivals));
  m.bytes += bytes;
  endPhase(m);
}

void Machine::waitMbarrier(unsigned offset, bool parity) {
  Mbarrier &m = mbarrierAt(offset);
  land(m);
  while (m.parity == parity) {
    running->awaited = &m;
    resume(next());
  }
  WarpTime &mine = running->warp->time;
  for (int w = 0; w < kAgents; ++w)
    mine.known[w] = std::max(mine.known[w], m.known[w]);
}

/// Ends the phase if nothing is missing.
void Machine::endPhase(Mbarrier &m) {
  pauses = 0;
  if (m.missing || m.bytes)
    return;
  m.parity = !m.parity;
  m.missing = m.arrivals;
  std::copy_n(m.arrived, kAgents, m.known);
  for (Thread &thread : running->warp->cta->threads)
    if (thread.awaited == &m) {
      thread.awaited = nullptr;
      thread.warp->ready |= 1u << thread.lane;
      if (thread.warp != active)
        enqueue(*thread.warp);
    }
}

/// Ends the copies for `m`.
void Machine::land(Mbarrier &m) {
  if (m.pieces.empty())
    return;
  Cta &cta = *running->warp->cta;
  WarpTime then;
  then.now = ++time;
  Agent engine{kCopyEngine, kAllLanes, &then};
  for (const Mbarrier::Piece &piece : m.pieces) {
    unsigned char *to = cta.shared.data() + piece.offset;
    std::memset(to, 0, 16);
    if (piece.valid)
      std::memcpy(to, piece.from, piece.valid);
    cta.shadow.endCopy(piece.offset, 16, engine);
    std::fill_n(cta.writers.begin() + piece.offset, 16, Cta::Writer());
  }
  m.bytes -= 16 * int64_t(m.pieces.size());
  m.pieces.clear();
  m.arrived[kCopyEngine] = ++time;
  endPhase(m);
}

void Machine::copyBox(unsigned offset, const void *p, unsigned mbarrier,
                      const int *at, int rank) {
  BoxMap map;
  std::memcpy(&map, p, sizeof(map));
  if (map.mark != BoxMap::kMark || map.rank != rank)
    fail(fmt::format("copies a box of rank {} by what is no map of one", rank));
  int64_t line = int64_t(map.box[rank - 1]) * map.elementBytes;
  if (line % 16 || (map.swizzle && line != map.swizzle) || offset % 128)
    fail(fmt::format("copies boxes with lines of {} bytes and a swizzle of {} "
                     "to {}",
                     line, map.swizzle, offset));
  Mbarrier &m = mbarrierAt(mbarrier);
  const Warp &warp = *running->warp;
  Agent agent{warp.id, running->lane, &warp.time};
  int64_t lines = 1;
  for (int d = 0; d + 1 < rank; ++d)
    lines *= map.box[d];
  for (int64_t l = 0; l < lines; ++l) {
    const char *from = map.data;
    bool inside = true;
    int64_t rest = l;
    for (int d = rank - 2; d >= 0; rest /= map.box[d--]) {
      int64_t x = at[d] + rest % map.box[d];
      inside &= x >= 0 && x < map.sizes[d];
      from += x * map.strides[d];
    }
    for (int64_t c = 0; c < line; c += 16) {
      // Addresses count from a multiple of the pattern's size.
      unsigned to = offset + l * line + c;
      to ^= to >> 3 & (map.swizzle ? map.swizzle - 16 : 0);
      Mbarrier::Piece piece{to, 0, nullptr};
      int64_t x = at[rank - 1] + c / map.elementBytes;
      if (inside && x >= 0 && x < map.sizes[rank - 1]) {
        piece.from = from + x * map.elementBytes;
        piece.valid =
            std::min<int64_t>(16, (map.sizes[rank - 1] - x) * map.elementBytes);
        for (unsigned b = 0; b < piece.valid; b += map.elementBytes)
          global(piece.from + b, map.elementBytes, Access::read);
      }
      sharedBytes(to, 16, true, agent, *running);
      warp.cta->shadow.beginCopy(to, 16, running->id, true);
      m.pieces.push_back(piece);
    }
  }
  bool awaited = false;
  for (const Thread &thread : warp.cta->threads)
    awaited |= thread.awaited == &m;
  if (!options.latest || awaited)
    land(m);
}

//===----------------------------------------------------------------------===//
// Where the lanes of a warp meet
//===----------------------------------------------------------------------===//

void Machine::loadMatrix(unsigned *r, unsigned offset, int count,
                         bool transposed) {
  Call call{Op::loadMatrix, count * 2 + transposed};
  call.offset = offset, call.result = r;
  meet(call);
}

void Machine::storeMatrix(unsigned offset, const unsigned *r, int count,
                          bool transposed) {
  Call call{Op::storeMatrix, count * 2 + transposed};
  call.offset = offset, call.a = r;
  meet(call);
}

void Machine::mma(Mma kind, void *d, const void *a, const void *b) {
  Call call{Op::mma, int(kind)};
  call.result = d, call.a = a, call.b = b;
  meet(call);
}

void Machine::startProduct(const Product &product) {
  Call call{Op::product};
  call.a = &product;
  meet(call);
}
void Machine::fenceProducts() {
  Call call{Op::productFence};
  meet(call);
}
void Machine::commitProducts() {
  Call call{Op::productCommit};
  meet(call);
}
void Machine::waitForProducts(int pending) {
  Call call{Op::productWait, pending};
  meet(call);
}
void Machine::fenceAsync() { ++running->fences; }

unsigned long long Machine::shuffle(unsigned long long bits, int mask) {
  if (mask < 0 || mask > 31)
    fail(fmt::format("comes to shuffle_xor({}), but a mask is 0 to 31", mask));
  Call call{Op::shuffle, mask};
  call.bits = bits;
  meet(call);
  return call.bits;
}

bool Machine::vote(bool v, bool all) {
  Call call{Op::vote, all};
  call.bits = v;
  meet(call);
  return call.bits;
}

void Machine::warpBarrier() {
  Call call{Op::warpBarrier};
  meet(call);
}

void Machine::barrier(int id, int threads, bool waits) {
  if (id < 0 || id > 15 || (threads == 0) != (id == 0))
    fail(fmt::format("comes to barrier {} of {} threads, but the named are 1 "
                     "to 15",
                     id, threads));
  Call call{Op::bar, id * 2 + waits};
  call.threads = threads;
  meet(call);
}

void Machine::meet(Call &call) {
  Warp &warp = *running->warp;
  auto mate = [&](uint32_t lanes) {
    return warp.id * 32 + std::countr_zero(lanes);
  };
  if (warp.done)
    fail(fmt::format("comes to {}, but thread {} of its warp has ended",
                     call.describe(), mate(warp.done)));
  if (warp.arrived) {
    const Call &first = *warp.calls[std::countr_zero(warp.arrived)];
    if (!first.sameAs(call))
      fail(fmt::format("comes to {}, while thread {} of its warp waits at {}",
                       call.describe(), mate(warp.arrived), first.describe()));
  }
  warp.calls[running->lane] = &call;
  warp.arrived |= 1u << running->lane;
  if (warp.arrived == warp.all)
    perform(warp);
  resume(next());
}

/// All lanes go on.
void Machine::release(Warp &warp) {
  warp.arrived = 0;
  warp.ready = warp.all;
  warp.turn = options.seed ? random() % 32 : 0;
}

void Machine::perform(Warp &warp) {
  const Call &first = *warp.calls[0];
  bool matrix = first.op == Op::loadMatrix || first.op == Op::storeMatrix ||
                first.op == Op::mma || first.op == Op::product;
  if (warp.all != ~0u && (matrix || first.op == Op::shuffle))
    fail(fmt::format("comes to {} in a warp of fewer than 32 threads",
                     first.describe()));
  if (first.op == Op::bar)
    return arrive(warp);
  if (first.op == Op::mma)
    multiply(warp);
  else if (first.op == Op::product)
    start(warp, *static_cast<const Product *>(first.a));
  else if (matrix)
    moveMatrices(warp);
  else if (first.op == Op::productFence)
    warp.fenced = true;
  else if (first.op == Op::productCommit)
    ++warp.groups, warp.fenced = false;
  else if (first.op == Op::productWait)
    landProducts(warp, first.variant);
  else if (first.op == Op::warpBarrier)
    warp.time.now = warp.time.known[warp.id] = ++time;
  else if (first.op == Op::shuffle)
    for (int l = 0; l < 32; ++l) {
      if (int mate = l ^ first.variant; l < mate)
        std::swap(warp.calls[l]->bits, warp.calls[mate]->bits);
    }
  else {
    bool all = true, any = false;
    for (uint32_t left = warp.all; left; left &= left - 1) {
      bool v = warp.calls[std::countr_zero(left)]->bits;
      all &= v, any |= v;
    }
    for (uint32_t left = warp.all; left; left &= left - 1)
      warp.calls[std::countr_zero(left)]->bits = first.variant ? all : any;
  }
  release(warp);
}

/// The warp is complete at a CTA's barrier.
void Machine::arrive(Warp &warp) {
  Cta &cta = *warp.cta;
  const Call &call = *warp.calls[0];
  auto &barrier = cta.barriers[call.variant / 2];
  bool waits = call.variant % 2;
  int threads = cta.threads.size();
  int expected = call.threads ? call.threads : threads;
  if (call.threads && (expected % 32 || expected < 32 || expected > threads))
    fail(fmt::format("comes to {}: expected a multiple of 32 up to {} threads",
                     call.describe(), threads));
  if (barrier.arrived && barrier.expected != expected)
    fail(fmt::format("comes to {}, but others there expect {} threads",
                     call.describe(), barrier.expected));
  if (barrier.warps >> warp.id & 1)
    fail(fmt::format("comes to {} again, before the others came",
                     call.describe()));
  barrier.expected = expected;
  barrier.arrived += std::popcount(warp.all);
  barrier.warps |= 1u << warp.id;
  for (int w = 0; w < kAgents; ++w)
    barrier.known[w] = std::max(barrier.known[w], warp.time.known[w]);
  if (waits) {
    barrier.waiting |= 1u << warp.id;
  } else {
    barrier.known[warp.id] = warp.time.now = ++time;
    release(warp);
  }
  if (barrier.arrived > expected)
    fail(fmt::format("comes to {}, where {} threads are already",
                     call.describe(),
                     barrier.arrived - std::popcount(warp.all)));
  if (barrier.arrived == expected)
    complete(cta, barrier);
}

void Machine::complete(Cta &cta, Barrier &barrier) {
  ++time;
  uint32_t waiting = std::exchange(barrier.waiting, 0);
  for (Warp &warp : cta.warps)
    if (waiting >> warp.id & 1)
      barrier.known[warp.id] = time;
  for (Warp &warp : cta.warps)
    if (waiting >> warp.id & 1) {
      warp.time.now = time;
      std::copy_n(barrier.known, kAgents, warp.time.known);
      release(warp);
      enqueue(warp);
    }
  if (active && active->queued)
    active = nullptr;
  barrier = {};
}

//===----------------------------------------------------------------------===//
// Matrices
//===----------------------------------------------------------------------===//

void Machine::moveMatrices(Warp &warp) {
  const Call &first = *warp.calls[0];
  bool load = first.op == Op::loadMatrix, transposed = first.variant % 2;
  Agent agent{warp.id, kAllLanes, &warp.time};
  for (int m = 0; m < first.variant / 2; ++m) {
    uint16_t rows[8][8];
    // Entry `half` of register m of lane l.
    auto entry = [&](int l, int half) -> uint16_t & {
      int i = l / 4, j = 2 * (l % 4) + half;
      return transposed ? rows[j][i] : rows[i][j];
    };
    if (!load)
      for (int l = 0; l < 32; ++l) {
        unsigned word = static_cast<const unsigned *>(warp.calls[l]->a)[m];
        entry(l, 0) = word & 0xffff, entry(l, 1) = word >> 16;
      }
    for (int i = 0; i < 8; ++i) {
      int lane = 8 * m + i;
      const Thread &thread = warp.cta->threads[warp.id * 32 + lane];
      void *row =
          sharedBytes(warp.calls[lane]->offset, 16, !load, agent, thread);
      load ? std::memcpy(rows[i], row, 16) : std::memcpy(row, rows[i], 16);
    }
    if (load)
      for (int l = 0; l < 32; ++l)
        static_cast<unsigned *>(warp.calls[l]->result)[m] =
            entry(l, 0) | unsigned(entry(l, 1)) << 16;
  }
}

namespace {
float fromBf16(unsigned bits) { return std::bit_cast<float>(bits << 16); }
float fromF16(unsigned bits) {
  // The exponent of the larger type starts 112 higher.
  unsigned rest = bits & 0x7fff;
  float r = std::bit_cast<float>(rest << 13) * 0x1p112f;
  unsigned wide =
      rest < 0x7c00 ? std::bit_cast<unsigned>(r) : 0x7f800000 | rest << 13;
  return std::bit_cast<float>(wide | (bits & 0x8000) << 16);
}
/// The entries of a register, which holds two of 16 bits or one of 32.
template <Mma kind>
float entry(unsigned word, int half) {
  if constexpr (kind == Mma::tf32)
    return std::bit_cast<float>(word & ~0x1fffu);
  unsigned bits = half ? word >> 16 : word & 0xffff;
  return kind == Mma::bf16 ? fromBf16(bits) : fromF16(bits);
}
/// d (16x8) += a (16xK) b (Kx8).
template <int K>
void product(float (&d)[16][8], const float (&a)[16][K],
             const float (&b)[K][8]) {
  for (int i = 0; i < 16; ++i)
    for (int k = 0; k < K; ++k)
      for (int j = 0; j < 8; ++j)
        d[i][j] += a[i][k] * b[k][j];
}
/// The product of a warp; `lane(l)` gives the registers d, a and b of lane l.
template <Mma kind>
void multiply16x8(float *const *d, const unsigned *const *a,
                  const unsigned *const *b) {
  constexpr int per = kind == Mma::tf32 ? 1 : 2, K = 8 * per;
  float dm[16][8], am[16][K], bm[K][8];
  for (int l = 0; l < 32; ++l) {
    int g = l / 4, t = l % 4;
    for (int r = 0; r < 4; ++r) {
      dm[g + r / 2 * 8][2 * t + r % 2] = d[l][r];
      for (int h = 0; h < per; ++h)
        am[g + r % 2 * 8][t * per + h + r / 2 * (K / 2)] =
            entry<kind>(a[l][r], h);
    }
    for (int r = 0; r < 2; ++r)
      for (int h = 0; h < per; ++h)
        bm[t * per + h + r * (K / 2)][g] = entry<kind>(b[l][r], h);
  }
  product(dm, am, bm);
  for (int l = 0; l < 32; ++l)
    for (int r = 0; r < 4; ++r)
      d[l][r] = dm[l / 4 + r / 2 * 8][2 * (l % 4) + r % 2];
}
void multiply8x8(double *const *d, const double *const *a,
                 const double *const *b) {
  for (int l = 0; l < 32; ++l)
    for (int r = 0; r < 2; ++r)
      for (int k = 0; k < 4; ++k)
        d[l][r] += *a[l / 4 * 4 + k] * *b[(2 * (l % 4) + r) * 4 + k];
}
} // namespace

void Machine::multiply(Warp &warp) {
  void *d[32];
  const void *a[32], *b[32];
  for (int l = 0; l < 32; ++l)
    d[l] = warp.calls[l]->result, a[l] = warp.calls[l]->a,
    b[l] = warp.calls[l]->b;
  auto words = [](const void **p) {
    return reinterpret_cast<const unsigned *const *>(p);
  };
  auto floats = reinterpret_cast<float *const *>(d);
  switch (Mma(warp.calls[0]->variant)) {
  case Mma::f16:
    return multiply16x8<Mma::f16>(floats, words(a), words(b));
  case Mma::bf16:
    return multiply16x8<Mma::bf16>(floats, words(a), words(b));
  case Mma::tf32:
    return multiply16x8<Mma::tf32>(floats, words(a), words(b));
  case Mma::f64:
    return multiply8x8(reinterpret_cast<double *const *>(d),
                       reinterpret_cast<const double *const *>(a),
                       reinterpret_cast<const double *const *>(b));
  }
}

//===----------------------------------------------------------------------===//
// Products of four warps
//===----------------------------------------------------------------------===//

namespace {
/// A matrix_descriptor().
struct Descriptor {
  unsigned start, panel, group, swizzle;
  explicit Descriptor(unsigned long long bits)
      : start(bits << 4 & 0x3fff0), panel(bits >> 16 << 4 & 0x3fff0),
        group(bits >> 32 << 4 & 0x3fff0), swizzle(256 >> (bits >> 62)) {}
  /// Where 8 entries stand: from entry `x` on of `line`, x in eights.
  unsigned place(unsigned line, unsigned x, bool transposed) const {
    unsigned along = 2 * x, across = 0;
    if (transposed) // from the first panel on; else a step is in one
      across = along / swizzle * panel, along %= swizzle;
    unsigned at =
        start + across + line / 8 * group + line % 8 * swizzle + along;
    return at ^ (at >> 3 & (swizzle - 16));
  }
};
} // namespace

void Machine::start(Warp &warp, const Product &p) {
  Cta &cta = *warp.cta;
  if (cta.threads.size() % 128)
    fail("comes to wgmma in a CTA that is not whole groups of four warps");
  if (p.n < 8 || p.n > 256 || p.n % 8)
    fail(fmt::format("comes to wgmma with {} columns", p.n));
  if (!warp.fenced)
    fail("comes to wgmma without wgmma_fence() after the last commit");
  const Product *lanes[32];
  for (int l = 0; l < 32; ++l) {
    const Product &q = *static_cast<const Product *>(warp.calls[l]->a);
    lanes[l] = &q;
    if (q.kind != p.kind || q.n != p.n || q.a != p.a || q.b != p.b ||
        q.transposedA != p.transposedA || q.transposedB != p.transposedB ||
        q.add != p.add || !q.registers != !p.registers)
      fail("comes to wgmma with other factors than its warp");
  }
  const Thread &thread = cta.threads[warp.id * 32];
  Agent agent{warp.id, kAllLanes, &warp.time};
  auto value = [&](uint16_t bits) {
    return p.kind == Mma::bf16 ? fromBf16(bits) : fromF16(bits);
  };
  // Eight entries of a factor in shared memory.
  auto read = [&](unsigned long long bits, unsigned line, unsigned x,
                  bool transposed, float *to, int step) {
    unsigned at = Descriptor(bits).place(line, x, transposed);
    auto *from =
        static_cast<unsigned char *>(sharedBytes(at, 16, false, agent, thread));
    for (unsigned i = 0; i < 16; ++i)
      if (auto writer = cta.writers[at + i];
          writer.thread >= 0 &&
          cta.threads[writer.thread].fences == writer.fences)
        fail(fmt::format("wgmma reads shared memory at {}, which thread {} "
                         "wrote without fence_async() after",
                         at + i, writer.thread),
             &thread);
    Warp::Factor factor{at, {}, warp.groups};
    std::copy_n(from, 16, factor.bytes.begin());
    warp.factors.push_back(factor);
    for (int i = 0; i < 8; ++i) {
      uint16_t half;
      std::memcpy(&half, from + 2 * i, 2);
      to[i * step] = value(half);
    }
  };
  // Rows of the warp by depth, columns by depth.
  float a[16][16];
  std::vector<std::array<float, 16>> b(p.n);
  unsigned row = warp.id % 4 * 16;
  if (p.registers)
    for (int l = 0; l < 32; ++l)
      for (int r = 0; r < 4; ++r)
        for (int half : {0, 1}) {
          unsigned word = lanes[l]->registers[r];
          a[l / 4 + r % 2 * 8][l % 4 * 2 + r / 2 * 8 + half] =
              value(half ? word >> 16 : word & 0xffff);
        }
  else if (p.transposedA)
    for (int k = 0; k < 16; ++k)
      for (int i = 0; i < 16; i += 8)
        read(p.a, k, row + i, true, &a[i][k], 16);
  else
    for (int i = 0; i < 16; ++i)
      for (int k = 0; k < 16; k += 8)
        read(p.a, row + i, k, false, &a[i][k], 1);
  if (p.transposedB)
    for (int k = 0; k < 16; ++k)
      for (int j = 0; j < p.n; j += 8)
        read(p.b, k, j, true, &b[j][k], 16);
  else
    for (int j = 0; j < p.n; ++j)
      for (int k = 0; k < 16; k += 8)
        read(p.b, j, k, false, &b[j][k], 1);

  auto sum = std::find_if(warp.sums.begin(), warp.sums.end(),
                          [&](Warp::Sum &s) { return s.d[0] == p.d; });
  int count = p.n / 2;
  if (sum == warp.sums.end()) {
    warp.sums.emplace_back();
    sum = warp.sums.end() - 1;
    sum->values.resize(32 * count);
    for (int l = 0; l < 32; ++l) {
      sum->d[l] = lanes[l]->d;
      std::copy_n(lanes[l]->d, p.add ? count : 0,
                  sum->values.begin() + l * count);
    }
  } else if (int(sum->values.size()) != 32 * count) {
    fail("comes to wgmma with a sum of other columns than under way");
  }
  sum->group = warp.groups;
  for (int l = 0; l < 32; ++l)
    for (int r = 0; r < count; ++r) {
      int i = l / 4 + r / 2 % 2 * 8, j = r / 4 * 8 + l % 4 * 2 + r % 2;
      float &d = sum->values[l * count + r];
      if (!p.add)
        d = 0;
      for (int k = 0; k < 16; ++k)
        d += a[i][k] * b[j][k];
      lanes[l]->d[r] = NAN;
    }
}

/// Ends all groups but the last `pending`.
void Machine::landProducts(Warp &warp, int pending) {
  auto under = [&](uint64_t group) { return group + pending >= warp.groups; };
  Agent agent{warp.id, kAllLanes, &warp.time};
  const Thread &thread = warp.cta->threads[warp.id * 32];
  for (const Warp::Factor &f : warp.factors)
    if (!under(f.group)) {
      void *now = sharedBytes(f.offset, 16, false, agent, thread);
      if (std::memcmp(now, f.bytes.data(), 16))
        fail(fmt::format("shared memory at {} was written while a product "
                         "that reads it was under way",
                         f.offset),
             &thread);
    }
  for (const Warp::Sum &sum : warp.sums)
    if (size_t count = sum.values.size() / 32; !under(sum.group))
      for (int l = 0; l < 32; ++l)
        std::copy_n(sum.values.begin() + l * count, count, sum.d[l]);
  std::erase_if(warp.factors, [&](auto &f) { return !under(f.group); });
  std::erase_if(warp.sums, [&](auto &s) { return !under(s.group); });
}
