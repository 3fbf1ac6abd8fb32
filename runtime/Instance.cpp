//===- Instance.cpp - an instance in the parts that calls need --------------===//

#include "runtime/Instance.h"

namespace fathom {

bool isAligned(const Tensor &t) {
  int64_t bytes = byteSize(t.dtype), last = t.rank() - 1;
  if (reinterpret_cast<uintptr_t>(t.data) % 16)
    return false;
  for (int64_t d = 0; d <= last; ++d)
    if (t.shape[d] > 1 &&
        (d == last ? t.strides[d] != 1
                   : t.strides[d] < 0 || t.strides[d] * bytes % 16 != 0))
      return false;
  return true;
}

bool rowsAreAligned(const InstanceOptions &o) {
  return o.headDim * byteSize(o.dtype) % 16 == 0 &&
         o.headDimV * byteSize(o.dtype) % 16 == 0;
}

bool Instance::isSame(const Instance &other) const {
  if (this == &other)
    return true;
  if (device_ != other.device_)
    return false;
  for (const auto &[mine, theirs] :
       {std::pair{&made[0], &other.made[0]}, {&made[1], &other.made[1]}})
    for (bool aligned : {false, true})
      if (Pointer p = (*mine)[aligned].load();
          p && p == (*theirs)[aligned].load())
        return true;
  return false;
}

Result<Instance::Pointer> Instance::get(Piece part, bool aligned) const {
  if (device_.isHost()) {
    part = Piece::whole;
    aligned = false;
  }
  std::atomic<Pointer> &slot = made[int(part)][aligned];
  if (Pointer p = slot.load())
    return p;
  auto p = maker(part, aligned);
  if (p)
    slot.store(*p);
  return p;
}

Result<Instance::Pointer> Instance::forward(const Operands &x,
                                            const Results &out) const {
  bool aligned = true;
  for (const Tensor *t : {&x.q, &x.k, &x.v, &out.o})
    aligned &= isAligned(*t);
  return get(Piece::forward, aligned);
}

Result<Instance::Pointer> Instance::backward(const Operands &x,
                                             const Results &out) const {
  bool aligned = true;
  for (const Tensor *t :
       {&x.q, &x.k, &x.v, &x.dO, &out.o, &out.dq, &out.dk, &out.dv})
    aligned &= isAligned(*t);
  return get(Piece::backward, aligned);
}

} // namespace fathom
