//===- Driver.h - NVIDIA's driver, opened when used -------------*- C++ -*-===//
//
// libcuda.so.1 without linking it: the functions Fathom calls, the GPUs of this
// machine, their primary contexts, errors as data. Includes nothing of CUDA.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_RUNTIME_CUDA_DRIVER_H
#define FATHOM_RUNTIME_CUDA_DRIVER_H

#include "runtime/fathom.h"

#include <mutex>

namespace fathom::cuda {

using Code = int; // CUresult, 0 is success
using Context = struct ContextImpl *;
using Module = struct ModuleImpl *;
using Function = struct FunctionImpl *;
using Address = uint64_t; // CUdeviceptr

/// The functions, named as CUDA has them without cu.
struct Api {
  Code (*Init)(unsigned);
  Code (*DriverGetVersion)(int *);
  Code (*GetErrorName)(Code, const char **);
  Code (*GetErrorString)(Code, const char **);
  Code (*DeviceGetCount)(int *);
  Code (*DeviceGet)(int *, int);
  Code (*DeviceGetName)(char *, int, int);
  Code (*DeviceTotalMem)(size_t *, int);
  Code (*DeviceGetAttribute)(int *, int attribute, int);
  Code (*DevicePrimaryCtxRetain)(Context *, int);
  Code (*CtxGetCurrent)(Context *);
  Code (*CtxPushCurrent)(Context);
  Code (*CtxPopCurrent)(Context *);
  Code (*ThreadExchangeStreamCaptureMode)(int *);
  Code (*ModuleLoadDataEx)(Module *, const void *, unsigned, int *, void **);
  Code (*ModuleUnload)(Module);
  Code (*ModuleGetFunction)(Function *, Module, const char *);
  Code (*ModuleGetGlobal)(Address *, size_t *, Module, const char *);
  Code (*FuncGetAttribute)(int *, int attribute, Function);
  Code (*FuncSetAttribute)(Function, int attribute, int);
  /// Since CUDA 12.4, else null.
  Code (*FuncGetParamInfo)(Function, size_t, size_t *, size_t *);
  Code (*LaunchKernel)(Function, unsigned, unsigned, unsigned, unsigned,
                       unsigned, unsigned, unsigned, void *stream, void **,
                       void **);
  Code (*MemAllocAsync)(Address *, size_t, void *stream);
  Code (*MemFreeAsync)(Address, void *stream);
  Code (*MemFree)(Address);
  Code (*MemsetD8Async)(Address, unsigned char, size_t, void *stream);
  Code (*MemcpyAsync)(Address, Address, size_t, void *stream);
  Code (*StreamSynchronize)(void *stream);
  /// Since CUDA 12, else null. CUtensorMap, data type, rank, address, sizes,
  /// strides, box, steps, interleaving, swizzle, promotion, filling.
  Code (*TensorMapEncodeTiled)(void *, int, uint32_t, void *, const uint64_t *,
                               const uint64_t *, const uint32_t *,
                               const uint32_t *, int, int, int, int);
};

/// A GPU as the driver describes it.
struct Gpu {
  int number = 0; ///< as cuda:N
  int handle = 0; ///< CUdevice
  std::string name;
  int arch = 0;       ///< 90 for compute capability 9.0
  int64_t memory = 0; ///< bytes
  int multiprocessors = 0;
  int sharedPerCta = 0;      ///< bytes, by request
  int sharedPerSm = 0;       ///< bytes
  bool ordersMemory = false; ///< has memory pools, so allocates in streams
};

class Driver {
public:
  /// The driver, or why nothing can run on a GPU. Opened once.
  static Result<const Driver *> get();

  const Api &api() const { return functions; }
  int version() const { return version_; } ///< 12040 for CUDA 12.4
  const std::vector<Gpu> &gpus() const { return gpus_; }
  Result<const Gpu *> gpu(int number) const;

  /// Success, or `what` failed with CUDA's name and text of the error.
  Status status(Code code, const std::string &what) const;

private:
  friend class CurrentGpu;
  Driver() = default;
  Status open();
  Result<Context> context(const Gpu &gpu) const;

  Api functions = {};
  int version_ = 0;
  std::vector<Gpu> gpus_;
  mutable std::mutex lock;
  mutable std::vector<Context> contexts; ///< primary ones, kept once asked for
};

/// Makes a GPU's primary context, which CUDA's runtime uses too, the calling
/// thread's as long as this lives. What the thread had before comes back.
class CurrentGpu {
public:
  CurrentGpu(const Driver &driver, const Gpu &gpu);
  ~CurrentGpu();
  CurrentGpu(const CurrentGpu &) = delete;
  const Status &status() const { return status_; }

private:
  const Driver &driver;
  bool pushed = false;
  Status status_;
};

/// Calls `function` with the driver and GPU `number`, which is current meanwhile.
template <typename F>
Status onGpu(int number, F &&function) {
  auto driver = Driver::get();
  if (!driver)
    return driver.status();
  auto gpu = (*driver)->gpu(number);
  if (!gpu)
    return gpu.status();
  CurrentGpu current(**driver, **gpu);
  if (!current.status())
    return current.status();
  return function(**driver, **gpu);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// Device memory that work in `stream` may use at once. deallocate() waits for
/// work that uses it.
Result<void *> allocate(int gpu, int64_t bytes, void *stream);
void deallocate(int gpu, void *memory);

/// Copies between host and device or on the device, after the work in `stream`;
/// waits until it is done.
Status copy(int gpu, void *to, const void *from, int64_t bytes,
            void *stream = nullptr);
Status synchronize(int gpu, void *stream);

} // namespace fathom::cuda

#endif // FATHOM_RUNTIME_CUDA_DRIVER_H
