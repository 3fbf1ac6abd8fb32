//===- CudaProgram.h - a GPU program, ready to run --------------*- C++ -*-===//
//
// Loads a program's machine code on a GPU when that GPU first runs it, and runs
// plans in the caller's stream.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_RUNTIME_CUDA_CUDAPROGRAM_H
#define FATHOM_RUNTIME_CUDA_CUDAPROGRAM_H

#include "runtime/cuda/Driver.h"
#include "runtime/cuda/PlanRunner.h"

#include <atomic>
#include <memory>

namespace fathom::cuda {

/// Where a call of a plan runs.
struct CallPlace {
  int gpu = 0;
  /// A CUstream or cudaStream_t of the GPU's primary context; null: the default
  /// stream.
  void *stream = nullptr;
  /// For this call alone, until its work is done.
  Block workspace;
};

/// Safe for many threads. A call returns when its work is in the stream, and
/// may be captured into a graph.
class CudaProgram {
public:
  /// Null and a reason for a program that is not sound or not compiled. Needs
  /// no driver.
  static Result<std::shared_ptr<const CudaProgram>> create(Program program);
  ~CudaProgram();

  const Program &program() const { return program_; }
  /// The plan of this name, or null.
  const PlanRunner *find(const std::string &plan) const;

  /// `plan` is one of find()'s. `results` as PlanRunner::run has it. A plan
  /// without effects needs no GPU.
  Status run(const PlanRunner &plan, llvm::ArrayRef<CallArgument> arguments,
             const CallPlace &where, int64_t *results = nullptr) const;

  /// Loads everything on a GPU, which run() does at first need.
  Status load(int gpu) const;

  /// How often the fa.ticks of each kernel ran on a GPU since it was loaded
  /// there; without the kernels that have none. Waits for the GPU's work.
  Result<std::vector<std::pair<std::string, int64_t>>> ticks(int gpu) const;

private:
  struct Loaded;
  explicit CudaProgram(Program program);
  Result<const Loaded *> loaded(const Driver &driver, const Gpu &gpu) const;
  Result<const Loaded *> loadNow(const Driver &driver, const Gpu &gpu) const;
  Status loadKernel(const Driver &driver, const Gpu &gpu, int kernel,
                    Module &module, Function &function) const;
  Status checkParameters(const Driver &driver, int kernel,
                         Function function) const;

  Program program_;
  std::vector<PlanRunner> runners;
  static constexpr int kMaxGpus = 64;
  mutable std::mutex lock;
  mutable std::atomic<const Loaded *> perGpu[kMaxGpus] = {};
};

} // namespace fathom::cuda

#endif // FATHOM_RUNTIME_CUDA_CUDAPROGRAM_H
