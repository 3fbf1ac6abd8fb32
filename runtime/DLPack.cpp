//===- DLPack.cpp - tensors of other libraries ------------------------------===//

#include "runtime/DLPack.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>

namespace fathom {

struct Array::Impl {
  Tensor tensor;
  DLTensor dl;
};

namespace {

template <typename... Args>
Status invalid(fmt::format_string<Args...> format, Args &&...args) {
  return {ErrorCode::invalid_argument,
          fmt::format(format, std::forward<Args>(args)...)};
}

std::optional<DType> dtypeOf(DLDataType t) {
  if (t.lanes != 1)
    return std::nullopt;
  static constexpr struct {
    int code, bits;
    DType dtype;
  } known[] = {{kDLFloat, 64, DType::f64}, {kDLFloat, 32, DType::f32},
               {kDLFloat, 16, DType::f16}, {kDLBfloat, 16, DType::bf16},
               {kDLInt, 64, DType::i64},   {kDLInt, 32, DType::i32},
               {kDLInt, 16, DType::i16},   {kDLInt, 8, DType::i8},
               {kDLUInt, 8, DType::u8},    {kDLBool, 8, DType::i1}};
  for (auto k : known)
    if (k.code == t.code && k.bits == t.bits)
      return k.dtype;
  return std::nullopt;
}

DLDataType toDL(DType type) {
  switch (type) {
  case DType::bf16:
    return {kDLBfloat, 16, 1};
  case DType::u8:
    return {kDLUInt, 8, 1};
  case DType::i1:
    return {kDLBool, 8, 1};
  default:
    return {uint8_t(isFloat(type) ? kDLFloat : kDLInt),
            uint8_t(8 * byteSize(type)), 1};
  }
}

/// One dim of one of two tensors: adds stride * [0, count) bytes.
struct Step {
  int64_t stride, count;
};

/// Whether some choice of multiples of steps[n...] brings `distance` into the
/// open interval (-below, above). `reach[n]` is the most they can add.
bool meet(const std::vector<Step> &steps, const std::vector<int64_t> &reach,
          size_t n, int64_t distance, int64_t below, int64_t above,
          int &budget) {
  if (distance > -below && distance < above)
    return true;
  if (n == steps.size() || distance >= above || distance + reach[n] <= -below)
    return false;
  if (--budget < 0)
    return true;
  auto [stride, count] = steps[n];
  int64_t first =
      std::max<int64_t>(0, (-below - reach[n + 1] - distance) / stride);
  int64_t last = std::min(count - 1, (above - distance) / stride);
  for (int64_t m = first; m <= last; ++m)
    if (meet(steps, reach, n + 1, distance + m * stride, below, above, budget))
      return true;
  return false;
}

/// The addresses between which all bytes of a tensor lie.
std::pair<int64_t, int64_t> extent(const Tensor &t) {
  int64_t begin = reinterpret_cast<int64_t>(t.data), bytes = byteSize(t.dtype),
          end = begin + bytes;
  for (int64_t d = 0; d < t.rank(); ++d) {
    int64_t reach = t.strides[d] * bytes * (t.shape[d] - 1);
    (reach < 0 ? begin : end) += reach;
  }
  return {begin, end};
}

/// The lowest address of a tensor, and its dims as positive steps in bytes.
int64_t lowest(const Tensor &t, std::vector<Step> &steps) {
  int64_t address = reinterpret_cast<int64_t>(t.data),
          bytes = byteSize(t.dtype);
  for (int64_t d = 0; d < t.rank(); ++d) {
    int64_t stride = t.strides[d] * bytes;
    if (stride < 0)
      address += stride * (t.shape[d] - 1);
    if (stride && t.shape[d] > 1)
      steps.push_back({std::abs(stride), t.shape[d]});
  }
  return address;
}

} // namespace

Result<Tensor> fromDLPack(const std::string &operand, const TensorRef &ref) {
  if (!ref.given())
    return invalid("operand '{}' is missing", operand);
  const DLTensor &d = *ref.tensor;
  if (ref.major != 1)
    return invalid(
        "operand '{}': expected a DLPack tensor of version 1, got version {}",
        operand, ref.major);
  if (d.device.device_type != kDLCPU && d.device.device_type != kDLCUDA)
    return invalid("operand '{}': expected a tensor on the CPU or a CUDA "
                   "device (DLPack device type 1 or 2), got device type {}",
                   operand, int(d.device.device_type));
  auto dtype = dtypeOf(d.dtype);
  if (!dtype)
    return invalid("operand '{}': expected elements of type f64, f32, f16, "
                   "bf16, i64, i32, i16, "
                   "i8, u8 or bool, got DLPack code {}, {} bits, {} lanes",
                   operand, d.dtype.code, d.dtype.bits, d.dtype.lanes);
  if (d.ndim < 0 || d.ndim > 32 || (d.ndim && !d.shape))
    return invalid("operand '{}': expected 0 to 32 dims with a shape, got {}",
                   operand, d.ndim);
  Dims shape(d.shape, d.shape + d.ndim), strides;
  int64_t bytes = byteSize(*dtype);
  for (int64_t n : shape)
    if (n < 0 || (n > 0 && __builtin_mul_overflow(bytes, n, &bytes)))
      return invalid(
          "operand '{}': expected sizes whose product fits 63 bits, got {}",
          operand, n);
  if (d.strides)
    strides.assign(d.strides, d.strides + d.ndim);
  Tensor t = Tensor::view(*dtype, std::move(shape),
                          static_cast<char *>(d.data) + d.byte_offset,
                          std::move(strides));
  if (d.device.device_type == kDLCUDA)
    t.device.gpu = std::max(d.device.device_id, 0);
  if (!d.data && t.size())
    return invalid("operand '{}': expected a data pointer, got null", operand);
  if (!d.data) // no elements: any address that is not null
    t.data = reinterpret_cast<std::byte *>(alignof(std::max_align_t));
  if (reinterpret_cast<uintptr_t>(t.data) % byteSize(t.dtype))
    return invalid("operand '{}': expected data aligned to its {} bytes an "
                   "element, got address "
                   "{:#x}",
                   operand, byteSize(t.dtype),
                   reinterpret_cast<uintptr_t>(t.data));
  return t;
}

Result<Tensor> fromDLPack(const std::string &operand, const TensorRef &ref,
                          Device device) {
  auto t = fromDLPack(operand, ref);
  if (t && t->device != device)
    return invalid("operand '{}': expected a tensor on {}, got one on {}",
                   operand, name(device), name(t->device));
  return t;
}

Result<Tensor> outputFromDLPack(const std::string &operand,
                                const TensorRef &ref, Device device) {
  auto t = fromDLPack(operand, ref, device);
  if (!t)
    return t;
  if (ref.readOnly)
    return invalid("operand '{}': expected a tensor that may be written, got a "
                   "read-only one",
                   operand);
  for (int64_t d = 0; d < t->rank(); ++d)
    if (t->strides[d] == 0 && t->shape[d] > 1)
      return invalid("operand '{}': expected an output without a stride of 0, "
                     "got one in dim {}; "
                     "only inputs may be expanded",
                     operand, d);
  std::vector<Step> steps;
  lowest(*t, steps);
  std::sort(steps.begin(), steps.end(),
            [](Step a, Step b) { return a.stride < b.stride; });
  int64_t extent = byteSize(t->dtype);
  for (Step s : steps) {
    if (s.stride < extent)
      return invalid("operand '{}': expected an output whose elements do not "
                     "overlap, got strides "
                     "that make them",
                     operand);
    extent += s.stride * (s.count - 1);
  }
  return t;
}

bool overlap(const Tensor &a, const Tensor &b) {
  if (!a.defined() || !b.defined() || a.size() == 0 || b.size() == 0)
    return false;
  // Most tensors lie apart as wholes.
  auto [beginA, endA] = extent(a);
  auto [beginB, endB] = extent(b);
  if (endA <= beginB || endB <= beginA)
    return false;
  // distance = address in a - address in b. Going down from the end of b turns
  // its steps into additions.
  std::vector<Step> steps, ofB;
  int64_t distance = lowest(a, steps), end = lowest(b, ofB);
  for (Step s : ofB)
    end += s.stride * (s.count - 1);
  distance -= end;
  steps.insert(steps.end(), ofB.begin(), ofB.end());
  std::sort(steps.begin(), steps.end(),
            [](Step x, Step y) { return x.stride > y.stride; });
  std::vector<int64_t> reach(steps.size() + 1);
  for (size_t n = steps.size(); n-- > 0;)
    reach[n] = reach[n + 1] + steps[n].stride * (steps[n].count - 1);
  int budget = 100000;
  return meet(steps, reach, 0, distance, byteSize(a.dtype), byteSize(b.dtype),
              budget);
}

Array toArray(Tensor tensor) {
  auto impl = std::make_shared<Array::Impl>();
  impl->tensor = std::move(tensor);
  Tensor &t = impl->tensor;
  impl->dl = {t.data,
              {t.device.isHost() ? kDLCPU : kDLCUDA, std::max(t.device.gpu, 0)},
              int32_t(t.rank()),
              toDL(t.dtype),
              t.shape.data(),
              t.strides.data(),
              0};
  return Array(std::move(impl));
}

const DLTensor &Array::dlpack() const { return impl->dl; }

DLManagedTensorVersioned *Array::toDLPack() const {
  auto *m = new DLManagedTensorVersioned();
  m->version = {1, 0};
  m->manager_ctx = new std::shared_ptr<Impl>(impl);
  m->deleter = [](DLManagedTensorVersioned *self) {
    delete static_cast<std::shared_ptr<Impl> *>(self->manager_ctx);
    delete self;
  };
  m->dl_tensor = impl->dl;
  return m;
}

} // namespace fathom
