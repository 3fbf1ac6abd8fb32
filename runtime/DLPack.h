//===- DLPack.h - tensors of other libraries --------------------*- C++ -*-===//

#ifndef FATHOM_RUNTIME_DLPACK_H
#define FATHOM_RUNTIME_DLPACK_H

#include "runtime/Tensor.h"

namespace fathom {

/// A view of a caller's tensor on the CPU or a GPU. `operand` is for messages.
Result<Tensor> fromDLPack(const std::string &operand, const TensorRef &ref);
/// The same for a tensor that must lie on `device`.
Result<Tensor> fromDLPack(const std::string &operand, const TensorRef &ref,
                          Device device);

/// The same for a tensor that is written: also checks that it may be, and that
/// no two indexes mean one element.
Result<Tensor> outputFromDLPack(const std::string &operand,
                                const TensorRef &ref, Device device);

/// Whether two tensors share a byte. May say yes wrongly only for strides of
/// more than 10^5 combinations; slices of one tensor are told apart.
bool overlap(const Tensor &a, const Tensor &b);

/// A library array of this tensor, which must own its elements.
Array toArray(Tensor tensor);

} // namespace fathom

#endif // FATHOM_RUNTIME_DLPACK_H
