//===- Tensor.h - arrays on the host ----------------------------*- C++ -*-===//
//
// A strided view of shared memory with an element type, and the rounding rules
// of those types. The runtime, the oracle and the tools pass arrays as this.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_RUNTIME_TENSOR_H
#define FATHOM_RUNTIME_TENSOR_H

#include "runtime/fathom.h"

#include "llvm/ADT/SmallVector.h"

#include <cassert>
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace fathom {

enum class DType : uint8_t { f64, f32, f16, bf16, i64, i32, i16, i8, u8, i1 };

std::string_view name(DType type);
/// The type called `name` ("bf16"), or nothing.
std::optional<DType> parseDType(std::string_view name);
int64_t byteSize(DType type);
bool isFloat(DType type);
/// f64 for f64, f32 for the other floats.
DType accType(DType type);

/// `x` rounded once, to nearest even, to a value of float type `type`. Values
/// beyond the largest finite one become infinite.
double roundTo(DType type, double x);
/// The distance from |x| to the next larger value of float type `type`.
double ulp(DType type, double x);

/// Where arrays lie and kernels run: the CPU, or a GPU by its number.
struct Device {
  int gpu = -1;

  bool isHost() const { return gpu < 0; }
  bool operator==(const Device &) const = default;
};

/// "cpu", "cuda:0".
std::string name(Device device);

/// Sizes or strides; up to four need no memory of their own.
class Dims : public llvm::SmallVector<int64_t, 4> {
public:
  using SmallVector::SmallVector;
  Dims(const std::vector<int64_t> &list)
      : SmallVector(list.begin(), list.end()) {}
  operator std::vector<int64_t>() const { return {begin(), end()}; }
  bool operator==(const Dims &other) const {
    return std::equal(begin(), end(), other.begin(), other.end());
  }
};

/// A strided array. Copies share the elements. Strides count elements. What
/// reads or writes elements is for arrays on the host.
struct Tensor {
  DType dtype = DType::f32;
  Dims shape;
  Dims strides;
  std::byte *data = nullptr; ///< the element at index 0, 0, ...
  Device device;
  std::shared_ptr<void> owner;

  /// A new C-order array of zeros; undefined if there is no memory for it.
  static Tensor zeros(DType dtype, Dims shape);
  /// A view of memory that outlives it; C order if `strides` is empty.
  static Tensor view(DType dtype, Dims shape, void *data, Dims strides = {});

  int64_t rank() const { return shape.size(); }
  int64_t size() const;
  bool defined() const { return data != nullptr; }
  /// The same elements with dim d being the old dim order[d].
  Tensor permuted(std::span<const int64_t> order) const;
  /// The same elements with a new dim of size 1 in front.
  Tensor withLeadingDim() const;
  bool isContiguous() const;

  /// Where the element at `index` is, counted in elements from `data`.
  int64_t offset(std::span<const int64_t> index) const {
    int64_t o = 0;
    for (size_t d = 0; d < index.size(); ++d)
      o += index[d] * strides[d];
    return o;
  }
  /// Where the n-th element in C order is.
  int64_t offsetOf(int64_t n) const;

  double load(int64_t offset) const;
  /// Rounds (floats) or truncates (integers) to the element type.
  void store(int64_t offset, double x);
  double at(std::initializer_list<int64_t> index) const {
    return load(offset({index.begin(), index.size()}));
  }
  void fill(double x);

  /// A C-order copy in `type`.
  Tensor to(DType type) const;
  /// All elements in C order.
  std::vector<double> values() const;
  /// "bf16[2, 4, 64]".
  std::string describe() const;
};

} // namespace fathom

#endif // FATHOM_RUNTIME_TENSOR_H
