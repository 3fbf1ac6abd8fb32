//===- FakeCuda.cpp - a driver without a GPU --------------------------------===//
//
// Just enough of the driver's interface for CudaTest on a machine without one:
// two GPUs whose memory is the host's, work done when it is asked for, and one
// kernel, whatever the module says: out = x + y over arrays of rank 1. Checks
// that a context is current wherever CUDA wants one.
//
// With IDLE_KERNELS any kernel is there, and none does anything: what fathom.h
// promises around them can be tested, not what they compute.
//
//===----------------------------------------------------------------------===//

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

namespace {

constexpr int kInvalidValue = 1, kOutOfMemory = 2, kInvalidDevice = 101,
              kInvalidImage = 200, kInvalidContext = 201, kNotFound = 500;

/// A primary context is the address of one of these.
char contexts[2];
thread_local std::vector<void *> current;

struct Module {};
struct Function {
  int dynamicShared = 48 << 10;
};

struct Array {
  float *data;
  long long size, stride;
};

} // namespace

#define NEEDS_CONTEXT                                                          \
  if (current.empty() || !current.back())                                      \
  return kInvalidContext

extern "C" {

int cuInit(unsigned) { return 0; }
int cuDriverGetVersion(int *v) { return *v = 13000, 0; }
int cuGetErrorName(int code, const char **name) {
  switch (code) {
  case kInvalidValue:
    return *name = "CUDA_ERROR_INVALID_VALUE", 0;
  case kOutOfMemory:
    return *name = "CUDA_ERROR_OUT_OF_MEMORY", 0;
  case kInvalidImage:
    return *name = "CUDA_ERROR_INVALID_IMAGE", 0;
  default:
    return *name = "CUDA_ERROR_OTHER", 0;
  }
}
int cuGetErrorString(int, const char **text) {
  return *text = "as the fake driver says", 0;
}
int cuDeviceGetCount(int *n) { return *n = 2, 0; }
int cuDeviceGet(int *handle, int n) {
  // Handles need not be numbers.
  return n < 2 ? (*handle = n + 10, 0) : kInvalidDevice;
}
int cuDeviceGetName(char *name, int bytes, int) {
  return strncpy(name, "Fake GPU", bytes), 0;
}
int cuDeviceTotalMem_v2(size_t *bytes, int) { return *bytes = 1 << 30, 0; }
int cuDeviceGetAttribute(int *value, int attribute, int) {
  switch (attribute) {
  case 16: // multiprocessors
    return *value = 4, 0;
  case 75: // major
    return *value = 9, 0;
  case 76: // minor
    return *value = 0, 0;
  case 81: // shared memory per multiprocessor
    return *value = 228 << 10, 0;
  case 97: // shared memory per CTA
    return *value = 227 << 10, 0;
  case 115: // memory pools
    return *value = 1, 0;
  default:
    return kInvalidValue;
  }
}
int cuDevicePrimaryCtxRetain(void **context, int handle) {
  return *context = &contexts[handle - 10], 0;
}
int cuCtxGetCurrent(void **context) {
  return *context = current.empty() ? nullptr : current.back(), 0;
}
int cuCtxPushCurrent_v2(void *context) { return current.push_back(context), 0; }
int cuCtxPopCurrent_v2(void **context) {
  NEEDS_CONTEXT;
  *context = current.back();
  current.pop_back();
  return 0;
}
int cuThreadExchangeStreamCaptureMode(int *mode) {
  thread_local int now = 0;
  std::swap(now, *mode);
  return 0;
}
int cuModuleLoadDataEx(void **module, const void *image, unsigned, int *,
                       void **) {
  NEEDS_CONTEXT;
  if (memcmp(image, "\177ELF", 4) != 0 &&
      !strstr((const char *)image, ".entry"))
    return kInvalidImage;
  *module = new Module();
  return 0;
}
int cuModuleGetGlobal_v2(uint64_t *, size_t *, void *, const char *) {
  return kNotFound;
}
int cuModuleUnload(void *module) {
  NEEDS_CONTEXT;
  delete (Module *)module;
  return 0;
}
int cuModuleGetFunction(void **function, void *, const char *name) {
  NEEDS_CONTEXT;
#ifndef IDLE_KERNELS
  if (strcmp(name, "add") != 0)
    return kNotFound;
#endif
  *function = new Function();
  return 0;
}
int cuFuncGetAttribute(int *value, int attribute, void *) {
  NEEDS_CONTEXT;
  return attribute == 0 ? (*value = 512, 0) : kInvalidValue;
}
int cuFuncSetAttribute(void *function, int attribute, int value) {
  NEEDS_CONTEXT;
  if (attribute != 8 || value > (227 << 10))
    return kInvalidValue;
  ((Function *)function)->dynamicShared = value;
  return 0;
}
#ifndef IDLE_KERNELS
int cuFuncGetParamInfo(void *, size_t index, size_t *offset, size_t *bytes) {
  NEEDS_CONTEXT;
  if (index > 3)
    return kInvalidValue;
  *offset = 24 * index;
  *bytes = index < 3 ? sizeof(Array) : sizeof(int);
  return 0;
}
#endif
#ifdef IDLE_KERNELS
// Maps are encoded, into nothing that a kernel would look at.
int cuTensorMapEncodeTiled(void *map, int, unsigned, void *, const uint64_t *,
                           const uint64_t *, const uint32_t *, const uint32_t *,
                           int, int, int, int) {
  std::memset(map, 0, 128);
  return 0;
}
#endif
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz,
                   unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   void *, void **parameters, void **) {
  NEEDS_CONTEXT;
  if (!gx || gy != 1 || gz != 1 || !bx || by != 1 || bz != 1 ||
      int(shared) > ((Function *)function)->dynamicShared)
    return kInvalidValue;
#ifdef IDLE_KERNELS
  return 0;
#endif
  auto at = [&](int p) { return *(Array *)parameters[p]; };
  Array x = at(0), y = at(1), out = at(2);
  int n = *(int *)parameters[3];
  for (int64_t i = 0; i < int64_t(gx) * bx && i < n; ++i)
    out.data[i * out.stride] = x.data[i * x.stride] + y.data[i * y.stride];
  return 0;
}
int cuMemAllocAsync(uint64_t *address, size_t bytes, void *) {
  NEEDS_CONTEXT;
  if (bytes > (1u << 30))
    return kOutOfMemory;
  *address = uint64_t(aligned_alloc(256, (bytes + 255) / 256 * 256));
  return 0;
}
int cuMemFreeAsync(uint64_t address, void *) {
  NEEDS_CONTEXT;
  return free((void *)address), 0;
}
int cuMemFree_v2(uint64_t address) { return cuMemFreeAsync(address, nullptr); }
int cuMemsetD8Async(uint64_t address, unsigned char value, size_t bytes,
                    void *) {
  NEEDS_CONTEXT;
  return memset((void *)address, value, bytes), 0;
}
int cuMemcpyAsync(uint64_t to, uint64_t from, size_t bytes, void *) {
  NEEDS_CONTEXT;
  return memcpy((void *)to, (void *)from, bytes), 0;
}
int cuStreamSynchronize(void *) {
  NEEDS_CONTEXT;
  return 0;
}
}
