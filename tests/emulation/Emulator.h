//===- Emulator.h - kernel files on the host ---------------------*- C++ -*-===//
//
// Compiles the text of a kernel file with codegen/device/emulation.h and runs
// its kernels, with the checks of Machine.h.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_TESTS_EMULATION_EMULATOR_H
#define FATHOM_TESTS_EMULATION_EMULATOR_H

#include "tests/emulation/Machine.h"
#include "llvm/Support/Error.h"

namespace fathom::emulation {

class Emulator {
public:
  /// Compiles `source`, or takes what an earlier call compiled from the same
  /// text (files in the build tree). `source` includes emulation.h itself,
  /// under FATHOM_EMULATION, as printed files do.
  static llvm::Expected<Emulator> compile(llvm::StringRef source);

  /// Runs a kernel; `params` are pointers to its parameters. What went wrong,
  /// or an empty string. Accesses to global memory must lie in `memory`.
  std::string run(llvm::StringRef kernel, int64_t grid, int threads,
                  int64_t sharedBytes, void *const *params,
                  const Memory &memory, Options options = {});

private:
  explicit Emulator(void *library);

  std::shared_ptr<void> library; ///< as dlopen gave it
  std::shared_ptr<Machine> machine;
};

} // namespace fathom::emulation

#endif // FATHOM_TESTS_EMULATION_EMULATOR_H
