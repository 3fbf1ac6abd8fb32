//===- EmulatedMachine.cpp - whole GPU programs on the host -----------------===//

#include "tests/emulation/EmulatedMachine.h"

#include <cstdlib>
#include <cstring>

namespace fathom::emulation {

EmulatedMachine::~EmulatedMachine() {
  for (auto &[at, bytes] : blocks)
    std::free(at);
}

Status EmulatedMachine::allocate(int64_t bytes, void *&at) {
  size_t whole = llvm::alignTo(bytes, cuda::kWorkspaceAlignment);
  at = std::aligned_alloc(cuda::kWorkspaceAlignment, whole);
  if (!at)
    return {ErrorCode::unsupported,
            "no memory for a workspace of " + std::to_string(bytes)};
  std::memset(at, 0xff, whole);
  memory.add(at, bytes, /*writable=*/true, "workspace");
  blocks[at] = bytes;
  return {};
}

Status EmulatedMachine::release(void *at) {
  if (!blocks.erase(at))
    return {ErrorCode::internal, "expected a workspace to release"};
  memory.remove(at);
  std::free(at);
  return {};
}

Status EmulatedMachine::clear(void *at, int64_t bytes, uint8_t value) {
  std::memset(at, value, bytes);
  return {};
}

Status EmulatedMachine::makeMap(const cuda::BoxArray &array, void *at) {
  BoxMap map;
  map.rank = array.rank;
  map.elementBytes = array.elementBytes;
  map.swizzle = array.swizzle;
  map.data = static_cast<const char *>(array.data);
  // What the driver asks for.
  bool fits = reinterpret_cast<uintptr_t>(array.data) % 16 == 0;
  for (int d = 0; d < array.rank; ++d) {
    map.sizes[d] = array.sizes[d];
    map.strides[d] = array.strides[d];
    map.box[d] = array.box[d];
    if (d + 1 < array.rank)
      fits &= array.strides[d] >= 0 && array.strides[d] % 16 == 0;
  }
  if (!fits || array.strides[array.rank - 1] != array.elementBytes)
    return {ErrorCode::invalid_argument, "no map can be made of an array"};
  std::memset(at, 0, cuda::kMapBytes);
  std::memcpy(at, &map, sizeof(map));
  return {};
}

Status EmulatedMachine::launch(int kernel, int64_t grid,
                               void *const *parameters) {
  const cuda::Kernel &k = program.kernels[kernel];
  auto found = kernels.find(kernel);
  if (found == kernels.end()) {
    auto made = Emulator::compile(k.source);
    if (!made)
      return {ErrorCode::compile_error,
              "kernel '" + k.name + "': " + llvm::toString(made.takeError())};
    found = kernels.emplace(kernel, std::move(*made)).first;
  }
  ++launches;
  std::string wrong = found->second.run(k.name, grid, k.threads, k.sharedBytes,
                                        parameters, memory, options);
  if (wrong.empty())
    return {};
  return {ErrorCode::internal, wrong};
}

} // namespace fathom::emulation
