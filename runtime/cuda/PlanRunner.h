//===- PlanRunner.h - plans of GPU programs, interpreted --------*- C++ -*-===//
//
// Works out what a plan does for given arguments, all of it before the first
// effect, then has a machine do it. The machine is a GPU's stream or, in tests,
// an emulation: nothing here knows CUDA.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_RUNTIME_CUDA_PLANRUNNER_H
#define FATHOM_RUNTIME_CUDA_PLANRUNNER_H

#include "codegen/cuda/Program.h"
#include "runtime/fathom.h"

#include "llvm/ADT/ArrayRef.h"

#include <memory>

namespace fathom::cuda {

/// What a call gives for an argument of the plan: an array, or a scalar whose
/// bytes are the first ones of `bits`. Sizes and strides must live as long as
/// the call; strides count elements.
struct CallArgument {
  Scalar type = Scalar::f32;
  int rank = -1;
  void *data = nullptr;
  const int64_t *sizes = nullptr, *strides = nullptr;
  uint64_t bits = 0;
};

/// The same from pointers to memref descriptors and scalars, which is how
/// dialect/README.md has functions of the CPU called.
std::vector<CallArgument> fromDescriptors(const Plan &plan, void *const *args);

/// What a BoxMap is in one call. Dims as the array has them.
struct BoxArray {
  void *data = nullptr;
  int rank = 0;
  int elementBytes = 0;
  int swizzle = 0;
  int64_t sizes[BoxMap::kMaxRank] = {};
  int64_t strides[BoxMap::kMaxRank] = {}; ///< bytes
  int box[BoxMap::kMaxRank] = {};
};
constexpr int64_t kMapBytes = 128, kMapAlignment = 64;

/// What effects need. Each happens after those before it, in a stream or at
/// once.
class Machine {
public:
  virtual ~Machine();
  /// Aligned to kWorkspaceAlignment.
  virtual Status allocate(int64_t bytes, void *&memory) = 0;
  virtual Status release(void *memory) = 0;
  virtual Status clear(void *memory, int64_t bytes, uint8_t value) = 0;
  /// Writes the kMapBytes that kernels take for `array`, which has entries. Not
  /// an effect: they may be used again for the same array.
  virtual Status makeMap(const BoxArray &array, void *map);
  /// `parameters` point to the parameters as the kernel declares them, and are
  /// gone after the call.
  virtual Status launch(int kernel, int64_t grid, void *const *parameters) = 0;
};

constexpr int64_t kWorkspaceAlignment = 256;

/// Memory of the caller's for the workspaces of one call.
struct Block {
  void *data = nullptr; ///< null: the machine allocates
  int64_t bytes = 0;
};

/// One plan of a program that check() accepted; both must outlive it. Safe for
/// many threads.
class PlanRunner {
public:
  PlanRunner(const Program &program, const Plan &plan);

  const Plan &plan() const { return *plan_; }
  /// Whether a run touches the machine at all.
  bool hasEffects() const { return !effects.empty(); }

  /// Bytes of the block that a run takes. Looks at sizes only.
  Result<int64_t> workspaceBytes(llvm::ArrayRef<CallArgument> arguments) const;

  /// `results`: where the plan's results go, if it has any.
  Status run(llvm::ArrayRef<CallArgument> arguments, Machine &machine,
             Block workspace = {}, int64_t *results = nullptr) const;

  /// Bytes of each parameter of a launch, for comparing with the kernel's.
  std::vector<int64_t> parameterBytes(const Launch &launch) const;

private:
  struct State;
  struct Maps;
  Status checkArguments(llvm::ArrayRef<CallArgument> arguments) const;
  Status evaluate(llvm::ArrayRef<CallArgument> arguments, State &state) const;
  Status perform(llvm::ArrayRef<CallArgument> arguments, const State &state,
                 char *block, Machine &machine) const;
  Status launch(const Launch &launch, llvm::ArrayRef<CallArgument> arguments,
                const State &state, char *block, Machine &machine) const;
  Status makeMap(int index, llvm::ArrayRef<CallArgument> arguments,
                 const State &state, char *block, Machine &machine,
                 void *map) const;
  Status fault(ErrorCode code, const std::string &what) const;

  const Program *program;
  const Plan *plan_;
  std::vector<const Instruction *> effects; ///< clears and launches, in order
  std::shared_ptr<Maps> maps;               ///< of the last calls
};

} // namespace fathom::cuda

#endif // FATHOM_RUNTIME_CUDA_PLANRUNNER_H
