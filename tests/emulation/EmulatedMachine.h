//===- EmulatedMachine.h - whole GPU programs on the host -------*- C++ -*-===//
//
// What the runtime's interpreter of plans runs on where there is no GPU: memory
// of the host, kernels by the emulator. Plans, sizes, workspaces and parameters
// are those of a run on a GPU.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_TESTS_EMULATION_EMULATEDMACHINE_H
#define FATHOM_TESTS_EMULATION_EMULATEDMACHINE_H

#include "runtime/cuda/PlanRunner.h"
#include "tests/emulation/Emulator.h"

namespace fathom::emulation {

class EmulatedMachine final : public cuda::Machine {
public:
  /// Kernels are compiled when they are first launched.
  explicit EmulatedMachine(const cuda::Program &program) : program(program) {}
  ~EmulatedMachine() override;

  Memory memory;    ///< what kernels may access: add the arguments' arrays
  Options options;  ///< of the launches that follow
  int launches = 0; ///< so far

  /// Workspaces start as NaN in every float type.
  Status allocate(int64_t bytes, void *&at) override;
  Status release(void *at) override;
  Status clear(void *at, int64_t bytes, uint8_t value) override;
  Status makeMap(const cuda::BoxArray &array, void *map) override;
  /// An error is what the emulator found.
  Status launch(int kernel, int64_t grid, void *const *parameters) override;

private:
  const cuda::Program &program;
  std::map<int, Emulator> kernels;
  std::map<void *, size_t> blocks;
};

} // namespace fathom::emulation

#endif // FATHOM_TESTS_EMULATION_EMULATEDMACHINE_H
