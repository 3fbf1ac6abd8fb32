//===- Instance.h - an instance in the parts that calls need ----*- C++ -*-===//
//
// On the CPU an instance is one executable. On a GPU forward and backward are
// compiled apart, and each for two classes of operands: aligned ones, whose
// rows can be read 16 bytes at a time, and any. What a call needs is compiled
// when it is first needed.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_RUNTIME_INSTANCE_H
#define FATHOM_RUNTIME_INSTANCE_H

#include "runtime/Executable.h"

#include <atomic>

namespace fathom {

/// What an instance is made for.
struct InstanceOptions {
  DType dtype = DType::f32;
  int64_t headDim = 64, headDimV = 64, group = 1;
  Layout layout = Layout::bshd;
  bool gradients = true;
  bool lseGradient = false;
};

/// Whether the last stride is 1, and the address and all other strides, none of
/// them negative, are multiples of 16 bytes. Dims of one entry have no say.
bool isAligned(const Tensor &t);
/// Whether that may hold for operands of such an instance: a row's size is a
/// multiple of 16 bytes.
bool rowsAreAligned(const InstanceOptions &o);

/// Safe for many threads.
class Instance {
public:
  using Pointer = std::shared_ptr<const Executable>;
  /// Compiles or loads a part; called again if it failed.
  using Maker = std::function<Result<Pointer>(Piece, bool aligned)>;

  Instance(Device device, Maker maker)
      : device_(device), maker(std::move(maker)) {}

  Device device() const { return device_; }
  /// Whether this is one instance: what one's forward saved the other's
  /// backward can use.
  bool isSame(const Instance &other) const;
  /// The part that runs these. On the CPU the only one.
  Result<Pointer> forward(const Operands &x, const Results &out) const;
  Result<Pointer> backward(const Operands &x, const Results &out) const;
  Result<Pointer> get(Piece part, bool aligned) const;

private:
  Device device_;
  Maker maker;
  mutable std::atomic<Pointer> made[3][2];
};

} // namespace fathom

#endif // FATHOM_RUNTIME_INSTANCE_H
