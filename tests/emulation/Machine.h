//===- Machine.h - runs a kernel's threads on the host -----------*- C++ -*-===//
//
// The other side of codegen/device/emulation.h. Threads are fibers that change
// places only where they wait. Two CTAs are resident at a time and start in
// rising order, so that a loop may wait for an earlier one.
//
// A warp's lanes meet for collective operations and barriers; all lanes of the
// warp must come to the same one, and the last does the work. A run ends at the
// first of these errors, with the kernel, the block and the thread:
//   - lanes of one warp at different operations, or one that ended;
//   - no thread can go on, or those that can only wait for a change;
//   - a barrier in shared memory that is none, or arrived at too often;
//   - shared memory: out of bounds, misaligned, read before written, races
//     (Shadow.h), asynchronous copies read or overwritten under way;
//   - products of four warps: factors written under way, or seen by no fence;
//     their sums are NaN until the wait;
//   - global memory: outside registered ranges, read-only, misaligned, races
//     (Global.h).
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_TESTS_EMULATION_MACHINE_H
#define FATHOM_TESTS_EMULATION_MACHINE_H

#include "tests/emulation/Fiber.h"
#include "tests/emulation/Global.h"
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace fathom::emulation {

struct Options {
  bool latest = false; ///< asynchronous copies land at the wait, not at once
  unsigned seed = 0;   ///< order of the threads; 0: rising
};

/// What a fa::TensorMap holds here. Dims as the array has them; strides and the
/// pattern of the swizzle in bytes.
struct BoxMap {
  static constexpr uint32_t kMark = 0xb0c5a7a9;
  uint32_t mark = kMark;
  uint8_t rank = 0, elementBytes = 0, swizzle = 0;
  const char *data = nullptr;
  uint32_t sizes[5] = {};
  uint16_t box[5] = {};
  int64_t strides[5] = {};
};
static_assert(sizeof(BoxMap) <= sizeof(fa::TensorMap));

struct Launch {
  std::string name;
  void (*entry)(void *const *params) = nullptr;
  void *const *params = nullptr;
  int64_t grid = 0;
  int threads = 0;
  int64_t sharedBytes = 0;
};

class Machine final : public fa::emulation::Machine {
public:
  Machine();
  ~Machine();

  /// What went wrong, or an empty string.
  std::string run(const Launch &launch, const Memory &memory, Options options);

  void *shared(unsigned offset, unsigned bytes, bool write) override;
  void *global(const void *p, unsigned bytes,
               fa::emulation::Access kind) override;
  void copy(unsigned offset, const void *p, unsigned bytes,
            bool valid) override;
  void commit() override;
  void wait(unsigned pending) override;
  void initMbarrier(unsigned offset, int arrivals) override;
  void arriveMbarrier(unsigned offset, unsigned bytes) override;
  void waitMbarrier(unsigned offset, bool parity) override;
  void copyBox(unsigned offset, const void *map, unsigned mbarrier,
               const int *at, int rank) override;
  void loadMatrix(unsigned *r, unsigned offset, int count,
                  bool transposed) override;
  void storeMatrix(unsigned offset, const unsigned *r, int count,
                   bool transposed) override;
  void mma(fa::emulation::Mma kind, void *d, const void *a,
           const void *b) override;
  void startProduct(const Product &product) override;
  void fenceProducts() override;
  void commitProducts() override;
  void waitForProducts(int pending) override;
  void fenceAsync() override;
  unsigned long long shuffle(unsigned long long bits, int mask) override;
  bool vote(bool v, bool all) override;
  void warpBarrier() override;
  void barrier(int id, int threads, bool waits) override;
  void pause(const char *what) override;

private:
  struct Thread;
  struct Warp;
  struct Cta;
  struct Call;
  struct Barrier;
  struct Mbarrier;

  static void threadMain();
  void start(Cta &cta, int64_t block);
  void finish();

  void meet(Call &call);
  void perform(Warp &warp);
  void moveMatrices(Warp &warp);
  void multiply(Warp &warp);
  void start(Warp &warp, const Product &product);
  void landProducts(Warp &warp, int pending);
  void arrive(Warp &warp);
  void complete(Cta &cta, Barrier &barrier);
  void release(Warp &warp);

  Thread *next();
  void resume(Thread *thread);
  void enqueue(Warp &warp);

  void *sharedBytes(unsigned offset, unsigned bytes, bool write,
                    const Agent &agent, const Thread &thread);
  void land(Thread &thread, size_t count);
  Mbarrier &mbarrierAt(unsigned offset);
  void land(Mbarrier &mbarrier);
  void endPhase(Mbarrier &mbarrier);
  uint32_t random();

  /// Ends the run; the thread at fault is the running one unless given.
  [[noreturn]] void fail(const std::string &what,
                         const Thread *thread = nullptr);
  void setError(const Thread *thread, const std::string &what);
  std::string whoWaits(const Cta &cta) const;

  Launch launch;
  Options options;
  std::unique_ptr<GlobalShadow> memory;
  std::unique_ptr<Cta> ctas[2];
  Fiber host;
  Thread *running = nullptr;
  Warp *active = nullptr; ///< whose lanes have the turn
  std::deque<Warp *> queue;
  uint32_t time = 0;
  uint64_t pauses = 0; ///< since something changed
  uint64_t state = 0;  ///< of random()
  std::string error;
};

} // namespace fathom::emulation

#endif // FATHOM_TESTS_EMULATION_MACHINE_H
