//===- Devices.cpp - memory and streams, wherever they are ------------------===//

#include "runtime/Devices.h"

#include "runtime/cache/BuildId.h"
#include "runtime/cuda/Driver.h"

#include "llvm/TargetParser/Host.h"

#include <charconv>
#include <cstring>
#include <fmt/format.h>

namespace fathom {

Result<Device> parseDevice(const std::string &text) {
  if (text == "cpu")
    return Device{};
  if (text == "cuda")
    return Device{0};
  Device d;
  const char *begin = text.data() + 5, *end = text.data() + text.size();
  if (text.rfind("cuda:", 0) == 0) {
    auto [rest, error] = std::from_chars(begin, end, d.gpu);
    if (error == std::errc() && rest == end && d.gpu >= 0)
      return d;
  }
  return Status(
      ErrorCode::invalid_argument,
      fmt::format("device: expected cpu, cuda or cuda:N, got '{}'", text));
}

//===----------------------------------------------------------------------===//
// What there is
//===----------------------------------------------------------------------===//

/// The best target for a GPU: its own, else an older one whose machine code it
/// runs, else PTX. Empty: it is too old.
static std::string targetFor(int arch) {
  const cuda::NvrtcInfo *nvrtc = knownNvrtc();
  if (!nvrtc)
    if (auto opened = openNvrtc())
      nvrtc = *opened;
  auto compiles = [&](int a) { // without it, no matter what it can
    return !nvrtc || llvm::is_contained(nvrtc->archs, a);
  };
  for (bool machine : {true, false})
    for (int a = arch; a >= 80; --a) {
      cuda::Target t;
      std::string error,
          name = (machine ? "sm_" : "compute_") + std::to_string(a);
      if (compiles(a) && cuda::Target::parse(name, t, error) &&
          (machine ? t.codeRunsOn(arch) : t.ptxRunsOn(arch)))
        return name;
    }
  return "";
}

Result<std::string> targetOf(Device device) {
  if (device.isHost())
    return std::string("cpu");
  auto driver = cuda::Driver::get();
  if (!driver)
    return driver.status();
  auto gpu = (*driver)->gpu(device.gpu);
  if (!gpu)
    return gpu.status();
  if (const char *given = std::getenv("FATHOM_GPU_TARGET"); given && *given) {
    cuda::Target t;
    std::string error;
    if (!cuda::Target::parse(given, t, error))
      return Status(ErrorCode::invalid_argument, "FATHOM_GPU_TARGET: " + error);
    if (!t.codeRunsOn((*gpu)->arch) && !t.ptxRunsOn((*gpu)->arch))
      return Status(ErrorCode::unsupported,
                    fmt::format("FATHOM_GPU_TARGET: expected a target that "
                                "runs on {} ({}), got {}",
                                name(device), (*gpu)->name, given));
    return std::string(given);
  }
  std::string target = targetFor((*gpu)->arch);
  if (!target.empty())
    return target;
  return Status(ErrorCode::unsupported,
                fmt::format("device {}: expected compute capability 8.0 or "
                            "later, got {}.{} ({})",
                            name(device), (*gpu)->arch / 10, (*gpu)->arch % 10,
                            (*gpu)->name));
}

DeviceList listDevices() {
  DeviceList list;
  list.devices.push_back({"cpu", llvm::sys::getHostCPUName().str(), "cpu", 0});
  auto driver = cuda::Driver::get();
  if (!driver) {
    list.note = driver.status().message();
    return list;
  }
  for (const cuda::Gpu &gpu : (*driver)->gpus()) {
    auto target = targetOf({gpu.number});
    list.devices.push_back({name(Device{gpu.number}), gpu.name,
                            target ? *target : "none", gpu.memory});
    if (!target)
      list.note = target.status().message();
  }
  if (!knownNvrtc())
    if (auto nvrtc = openNvrtc(); !nvrtc)
      list.note = nvrtc.status().message();
  return list;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Result<Tensor> allocate(Device device, DType dtype, Dims shape, void *stream) {
  auto described = [&] {
    return Tensor::view(dtype, shape, nullptr).describe();
  };
  if (device.isHost()) {
    Tensor t = Tensor::zeros(dtype, shape);
    if (t.defined())
      return t;
    return Status(ErrorCode::unsupported,
                  fmt::format("no memory for {}", described()));
  }
  int64_t bytes = byteSize(dtype);
  for (int64_t d : shape)
    if (__builtin_mul_overflow(bytes, d, &bytes))
      return Status(ErrorCode::unsupported,
                    fmt::format("no memory for {}", described()));
  // A tensor of no entries has an address too.
  auto memory =
      cuda::allocate(device.gpu, std::max<int64_t>(bytes, 16), stream);
  if (!memory)
    return Status(memory.status().code(),
                  fmt::format("no memory for {}: {}", described(),
                              memory.status().message()));
  Tensor t = Tensor::view(dtype, shape, *memory);
  t.device = device;
  t.owner = std::shared_ptr<void>(
      *memory, [gpu = device.gpu](void *m) { cuda::deallocate(gpu, m); });
  return t;
}

Status copy(const Tensor &from, const Tensor &to) {
  int64_t bytes = from.size() * byteSize(from.dtype);
  if (!from.device.isHost() || !to.device.isHost())
    return cuda::copy(from.device.isHost() ? to.device.gpu : from.device.gpu,
                      to.data, from.data, bytes);
  std::memmove(to.data, from.data, bytes);
  return {};
}

Status synchronize(Device device, void *stream) {
  return device.isHost() ? Status() : cuda::synchronize(device.gpu, stream);
}

} // namespace fathom
