//===- Devices.cpp - memory and streams, wherever they are ------------------===//

#include "runtime/Devices.h"

#include "llvm/TargetParser/Host.h"

#include <charconv>
#include <cstring>
#include <fmt/format.h>

namespace fathom {

static Status noGpu() {
  return {ErrorCode::unsupported,
          "this build of Fathom runs nothing on GPUs; device 'cpu' is there"};
}

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

Result<std::string> targetOf(Device device) {
  if (device.isHost())
    return std::string("cpu");
  return noGpu();
}

Result<Tensor> allocate(Device device, DType dtype, Dims shape, void *stream) {
  if (!device.isHost())
    return noGpu();
  Tensor t = Tensor::zeros(dtype, shape);
  if (t.defined())
    return t;
  return Status(ErrorCode::unsupported,
                fmt::format("no memory for {}",
                            Tensor::view(dtype, shape, nullptr).describe()));
}

Status copy(const Tensor &from, const Tensor &to) {
  if (!from.device.isHost() || !to.device.isHost())
    return noGpu();
  std::memmove(to.data, from.data, from.size() * byteSize(from.dtype));
  return {};
}

Status synchronize(Device device, void *stream) {
  return device.isHost() ? Status() : noGpu();
}

DeviceList listDevices() {
  DeviceList list;
  list.devices.push_back({"cpu", llvm::sys::getHostCPUName().str(), "cpu", 0});
  list.note = noGpu().message();
  return list;
}

} // namespace fathom
