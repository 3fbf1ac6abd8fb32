//===- Driver.cpp - NVIDIA's driver, opened when used -----------------------===//

#include "runtime/cuda/Driver.h"

#include "runtime/PartTimes.h"

#include <cstdlib>
#include <dlfcn.h>
#include <fmt/format.h>

namespace fathom::cuda {

namespace {

// CUdevice_attribute.
constexpr int kMultiprocessors = 16, kMajor = 75, kMinor = 76,
              kSharedPerSm = 81, kSharedPerCta = 97, kMemoryPools = 115;
// CUresult.
constexpr Code kInvalidValue = 1, kOutOfMemory = 2, kNoDevice = 100,
               kNoBinary = 209, kUnsupportedPtx = 222, kInvalidHandle = 400;

constexpr const char *kWayOut = "; device 'cpu' needs none";

ErrorCode classOf(Code code) {
  switch (code) {
  case kOutOfMemory:
  case kNoDevice:
  case kNoBinary:
  case kUnsupportedPtx:
    return ErrorCode::unsupported;
  case kInvalidHandle: // a stream of another context, or none at all
  case kInvalidValue:
    return ErrorCode::invalid_argument;
  default:
    return ErrorCode::internal;
  }
}

} // namespace

Status Driver::status(Code code, const std::string &what) const {
  if (code == 0)
    return {};
  const char *name = nullptr, *text = nullptr;
  functions.GetErrorName(code, &name);
  functions.GetErrorString(code, &text);
  const char *hint = "";
  if (code == kInvalidHandle)
    hint = "; a stream must be one of the device's";
  if (code == kUnsupportedPtx)
    hint = "; the compiler is newer than the driver: compile machine code "
           "(sm_N), not PTX (compute_N)";
  return {classOf(code),
          fmt::format("{}: {} ({}){}", what, name ? name : "unknown error",
                      text ? text : std::to_string(code), hint)};
}

Status Driver::open() {
  PartTimer timer("driver opened");
  const char *given = std::getenv("FATHOM_LIBCUDA");
  const char *path = given ? given : "libcuda.so.1";
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return {ErrorCode::unsupported,
            fmt::format("NVIDIA's driver is missing: {} can't be opened{}",
                        path, kWayOut)};
  std::string missing;
  auto find = [&]<typename F>(F *&function, const char *name) {
    function = reinterpret_cast<F *>(dlsym(library, name));
    if (!function)
      missing = name;
  };
  Api &f = functions;
  find(f.FuncGetParamInfo, "cuFuncGetParamInfo");
  find(f.TensorMapEncodeTiled, "cuTensorMapEncodeTiled");
  missing.clear(); // these may be
  find(f.Init, "cuInit");
  find(f.DriverGetVersion, "cuDriverGetVersion");
  find(f.GetErrorName, "cuGetErrorName");
  find(f.GetErrorString, "cuGetErrorString");
  find(f.DeviceGetCount, "cuDeviceGetCount");
  find(f.DeviceGet, "cuDeviceGet");
  find(f.DeviceGetName, "cuDeviceGetName");
  find(f.DeviceTotalMem, "cuDeviceTotalMem_v2");
  find(f.DeviceGetAttribute, "cuDeviceGetAttribute");
  find(f.DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain");
  find(f.CtxGetCurrent, "cuCtxGetCurrent");
  find(f.CtxPushCurrent, "cuCtxPushCurrent_v2");
  find(f.CtxPopCurrent, "cuCtxPopCurrent_v2");
  find(f.ThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode");
  find(f.ModuleLoadDataEx, "cuModuleLoadDataEx");
  find(f.ModuleUnload, "cuModuleUnload");
  find(f.ModuleGetFunction, "cuModuleGetFunction");
  find(f.ModuleGetGlobal, "cuModuleGetGlobal_v2");
  find(f.FuncGetAttribute, "cuFuncGetAttribute");
  find(f.FuncSetAttribute, "cuFuncSetAttribute");
  find(f.LaunchKernel, "cuLaunchKernel");
  find(f.MemAllocAsync, "cuMemAllocAsync");
  find(f.MemFreeAsync, "cuMemFreeAsync");
  find(f.MemFree, "cuMemFree_v2");
  find(f.MemsetD8Async, "cuMemsetD8Async");
  find(f.MemcpyAsync, "cuMemcpyAsync");
  find(f.StreamSynchronize, "cuStreamSynchronize");
  if (!missing.empty())
    return {ErrorCode::unsupported,
            fmt::format("NVIDIA's driver is too old, it has no {}: expected "
                        "one for CUDA 12{}",
                        missing, kWayOut)};
  int count = 0;
  Code code = f.Init(0);
  if (!code)
    code = f.DeviceGetCount(&count);
  if (!code)
    code = f.DriverGetVersion(&version_);
  if (!code && !count)
    code = kNoDevice;
  if (code) {
    Status s = status(code, "no GPU can be used");
    return {ErrorCode::unsupported, s.message() + kWayOut};
  }
  for (int n = 0; n < count; ++n) {
    Gpu g;
    g.number = n;
    char name[256] = {};
    size_t memory = 0;
    int major = 0, minor = 0, pools = 0;
    if (Code e = f.DeviceGet(&g.handle, n))
      return status(e, fmt::format("cuda:{}", n));
    f.DeviceGetName(name, sizeof(name) - 1, g.handle);
    f.DeviceTotalMem(&memory, g.handle);
    auto ask = [&](int &value, int attribute) {
      f.DeviceGetAttribute(&value, attribute, g.handle);
    };
    ask(major, kMajor);
    ask(minor, kMinor);
    ask(g.multiprocessors, kMultiprocessors);
    ask(g.sharedPerCta, kSharedPerCta);
    ask(g.sharedPerSm, kSharedPerSm);
    ask(pools, kMemoryPools);
    g.name = name;
    g.memory = memory;
    g.arch = 10 * major + minor;
    g.ordersMemory = pools;
    gpus_.push_back(std::move(g));
  }
  contexts.resize(count);
  return {};
}

Result<const Driver *> Driver::get() {
  // Never closed: streams, graphs and other libraries use it till the end.
  struct Opened {
    Driver driver;
    Status status = driver.open();
  };
  static const Opened *opened = new Opened();
  if (!opened->status)
    return opened->status;
  return &opened->driver;
}

Result<const Gpu *> Driver::gpu(int number) const {
  if (number >= 0 && size_t(number) < gpus_.size())
    return &gpus_[number];
  return Status(ErrorCode::invalid_argument,
                fmt::format("device: expected cuda:0 to cuda:{}, got cuda:{}",
                            gpus_.size() - 1, number));
}

Result<Context> Driver::context(const Gpu &gpu) const {
  std::lock_guard<std::mutex> guard(lock);
  Context &c = contexts[gpu.number];
  if (!c) {
    PartTimer timer("driver's context");
    if (Code code = functions.DevicePrimaryCtxRetain(&c, gpu.handle))
      return status(code, fmt::format("cuda:{}", gpu.number));
  }
  return c;
}

CurrentGpu::CurrentGpu(const Driver &driver, const Gpu &gpu) : driver(driver) {
  auto context = driver.context(gpu);
  if (!context) {
    status_ = context.status();
    return;
  }
  // Most callers have it already: no need to push it.
  Context current = nullptr;
  if (driver.api().CtxGetCurrent(&current) == 0 && current == *context)
    return;
  Code code = driver.api().CtxPushCurrent(*context);
  pushed = code == 0;
  status_ = driver.status(code, fmt::format("cuda:{}", gpu.number));
}

CurrentGpu::~CurrentGpu() {
  Context popped;
  if (pushed)
    driver.api().CtxPopCurrent(&popped);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Result<void *> allocate(int number, int64_t bytes, void *stream) {
  Address address = 0;
  Status s = onGpu(number, [&](const Driver &d, const Gpu &g) -> Status {
    if (bytes == 0)
      return {};
    if (!g.ordersMemory)
      return {ErrorCode::unsupported,
              fmt::format("cuda:{} has no memory pools: give outputs and "
                          "workspace",
                          number)};
    return d.status(
        d.api().MemAllocAsync(&address, bytes, stream),
        fmt::format("{} bytes on cuda:{} ({})", bytes, number, g.name));
  });
  if (!s)
    return s;
  return reinterpret_cast<void *>(address);
}

void deallocate(int number, void *memory) {
  if (!memory)
    return;
  // There is no one to tell of an error, nor anything to do about it.
  (void)onGpu(number, [&](const Driver &d, const Gpu &) {
    d.api().MemFree(reinterpret_cast<Address>(memory));
    return Status();
  });
}

Status copy(int number, void *to, const void *from, int64_t bytes,
            void *stream) {
  return onGpu(number, [&](const Driver &d, const Gpu &) {
    Code code = bytes == 0
                    ? 0
                    : d.api().MemcpyAsync(reinterpret_cast<Address>(to),
                                          reinterpret_cast<Address>(from),
                                          bytes, stream);
    if (!code)
      code = d.api().StreamSynchronize(stream);
    return d.status(code,
                    fmt::format("copy of {} bytes on cuda:{}", bytes, number));
  });
}

Status synchronize(int number, void *stream) {
  return onGpu(number, [&](const Driver &d, const Gpu &) {
    return d.status(d.api().StreamSynchronize(stream),
                    fmt::format("work on cuda:{}", number));
  });
}

} // namespace fathom::cuda
