//===- Tensor.cpp - arrays on the host --------------------------------------===//

#include "runtime/Tensor.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>

namespace fathom {
namespace {

struct TypeInfo {
  std::string_view name;
  int64_t bytes;
  bool isFloat;
};

constexpr TypeInfo kTypes[] = {
    {"f64", 8, true},  {"f32", 4, true},  {"f16", 2, true},  {"bf16", 2, true},
    {"i64", 8, false}, {"i32", 4, false}, {"i16", 2, false}, {"i8", 1, false},
    {"u8", 1, false},  {"i1", 1, false}};

/// A binary float format: `digits` bits of significand, hidden one included,
/// and the exponent e of the smallest normal number 2^e.
struct Format {
  int digits;
  int minExponent;
  double largest;
};

Format format(DType type) {
  switch (type) {
  case DType::f16:
    return {11, -14, 65504.0};
  case DType::bf16:
    return {8, -126, std::ldexp(255.0, 120)};
  case DType::f32:
    return {24, -126, std::numeric_limits<float>::max()};
  default:
    return {53, -1022, std::numeric_limits<double>::max()};
  }
}

/// The exponent of the unit in the last place of values like `x`.
int lastPlace(const Format &f, double x) {
  int e = x == 0 ? f.minExponent : std::ilogb(x);
  return std::max(e, f.minExponent) - (f.digits - 1);
}

template <typename T>
T get(const std::byte *p) {
  T x;
  std::memcpy(&x, p, sizeof(T));
  return x;
}

template <typename T>
void put(std::byte *p, T x) {
  std::memcpy(p, &x, sizeof(T));
}

double decodeHalf(uint16_t bits) {
  double sign = bits & 0x8000 ? -1.0 : 1.0;
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  if (exponent == 31)
    return fraction ? std::numeric_limits<double>::quiet_NaN()
                    : sign * INFINITY;
  return exponent ? sign * std::ldexp(1024 + fraction, exponent - 25)
                  : sign * std::ldexp(fraction, -24);
}

/// `x` must be a value of f16.
uint16_t encodeHalf(double x) {
  uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  if (std::isnan(x))
    return sign | 0x7e00;
  if (std::isinf(x))
    return sign | 0x7c00;
  x = std::fabs(x);
  if (x < std::ldexp(1.0, -14))
    return sign | uint16_t(std::ldexp(x, 24));
  int e = std::ilogb(x);
  return sign | uint16_t((e + 15) << 10) |
         uint16_t(std::ldexp(x, 10 - e) - 1024);
}

Dims denseStrides(const Dims &shape) {
  Dims strides(shape.size());
  int64_t n = 1;
  for (size_t d = shape.size(); d-- > 0; n *= std::max<int64_t>(shape[d], 1))
    strides[d] = n;
  return strides;
}

} // namespace

std::string name(Device device) {
  return device.isHost() ? "cpu" : "cuda:" + std::to_string(device.gpu);
}

std::string_view name(DType type) { return kTypes[int(type)].name; }
int64_t byteSize(DType type) { return kTypes[int(type)].bytes; }
bool isFloat(DType type) { return kTypes[int(type)].isFloat; }
DType accType(DType type) {
  return type == DType::f64 ? DType::f64 : DType::f32;
}

std::optional<DType> parseDType(std::string_view n) {
  for (size_t i = 0; i < std::size(kTypes); ++i)
    if (kTypes[i].name == n)
      return DType(i);
  return std::nullopt;
}

double roundTo(DType type, double x) {
  if (type == DType::f64 || !std::isfinite(x))
    return x;
  if (type == DType::f32)
    return float(x);
  Format f = format(type);
  int place = lastPlace(f, x);
  double y = std::ldexp(std::nearbyint(std::ldexp(x, -place)), place);
  return std::fabs(y) > f.largest ? std::copysign(INFINITY, x) : y;
}

double ulp(DType type, double x) {
  return std::isfinite(x) ? std::ldexp(1.0, lastPlace(format(type), x)) : 0;
}

Tensor Tensor::zeros(DType dtype, Dims shape) {
  int64_t bytes = byteSize(dtype);
  for (int64_t d : shape)
    if (__builtin_mul_overflow(bytes, d, &bytes))
      return {};
  // 64 bytes: the widest vector register. calloc gives large arrays lazily.
  void *memory = std::calloc(std::max<size_t>(bytes, 1) + 63, 1);
  if (!memory)
    return {};
  std::shared_ptr<void> owner(memory, std::free);
  uintptr_t aligned = (reinterpret_cast<uintptr_t>(memory) + 63) / 64 * 64;
  Tensor t = view(dtype, std::move(shape), reinterpret_cast<void *>(aligned));
  t.owner = std::move(owner);
  return t;
}

Tensor Tensor::view(DType dtype, Dims shape, void *data, Dims strides) {
  Tensor t;
  t.dtype = dtype;
  t.strides = strides.empty() ? denseStrides(shape) : std::move(strides);
  t.shape = std::move(shape);
  t.data = static_cast<std::byte *>(data);
  return t;
}

int64_t Tensor::size() const {
  int64_t n = 1;
  for (int64_t d : shape)
    n *= d;
  return n;
}

Tensor Tensor::permuted(std::span<const int64_t> order) const {
  assert(order.size() == shape.size());
  Tensor t = *this;
  for (size_t d = 0; d < order.size(); ++d) {
    t.shape[d] = shape[order[d]];
    t.strides[d] = strides[order[d]];
  }
  return t;
}

Tensor Tensor::withLeadingDim() const {
  Tensor t = *this;
  t.strides.insert(t.strides.begin(),
                   shape.empty() ? 1 : shape[0] * strides[0]);
  t.shape.insert(t.shape.begin(), 1);
  return t;
}

bool Tensor::isContiguous() const {
  Dims dense = denseStrides(shape);
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] != 1 && strides[d] != dense[d])
      return false;
  return true;
}

int64_t Tensor::offsetOf(int64_t n) const {
  int64_t o = 0;
  for (size_t d = shape.size(); d-- > 0; n /= shape[d])
    o += n % shape[d] * strides[d];
  return o;
}

double Tensor::load(int64_t offset) const {
  const std::byte *p = data + offset * byteSize(dtype);
  switch (dtype) {
  case DType::f64:
    return get<double>(p);
  case DType::f32:
    return get<float>(p);
  case DType::f16:
    return decodeHalf(get<uint16_t>(p));
  case DType::bf16: {
    uint32_t bits = uint32_t(get<uint16_t>(p)) << 16;
    return get<float>(reinterpret_cast<std::byte *>(&bits));
  }
  case DType::i64:
    return get<int64_t>(p);
  case DType::i32:
    return get<int32_t>(p);
  case DType::i16:
    return get<int16_t>(p);
  case DType::i8:
    return get<int8_t>(p);
  case DType::u8:
    return get<uint8_t>(p);
  case DType::i1:
    return get<uint8_t>(p) & 1;
  }
  return 0;
}

void Tensor::store(int64_t offset, double x) {
  std::byte *p = data + offset * byteSize(dtype);
  switch (dtype) {
  case DType::f64:
    return put(p, x);
  case DType::f32:
    return put(p, float(x));
  case DType::f16:
    return put(p, encodeHalf(roundTo(dtype, x)));
  case DType::bf16: {
    float y = roundTo(dtype, x);
    return put(
        p, uint16_t(get<uint32_t>(reinterpret_cast<std::byte *>(&y)) >> 16));
  }
  case DType::i64:
    return put(p, int64_t(x));
  case DType::i32:
    return put(p, int32_t(x));
  case DType::i16:
    return put(p, int16_t(x));
  case DType::i8:
    return put(p, int8_t(x));
  case DType::u8:
    return put(p, uint8_t(x));
  case DType::i1:
    return put(p, uint8_t(x != 0));
  }
}

void Tensor::fill(double x) {
  for (int64_t n = 0, e = size(); n < e; ++n)
    store(offsetOf(n), x);
}

Tensor Tensor::to(DType type) const {
  Tensor t = zeros(type, shape);
  for (int64_t n = 0, e = size(); n < e; ++n)
    t.store(n, load(offsetOf(n)));
  return t;
}

std::vector<double> Tensor::values() const {
  std::vector<double> v(size());
  for (int64_t n = 0; n < int64_t(v.size()); ++n)
    v[n] = load(offsetOf(n));
  return v;
}

std::string Tensor::describe() const {
  return fmt::format("{}[{}]", name(dtype), fmt::join(shape, ", "));
}

} // namespace fathom
