//===- Npy.h - arrays in .npy files -----------------------------*- C++ -*-===//

#ifndef FATHOM_RUNTIME_NPY_H
#define FATHOM_RUNTIME_NPY_H

#include "runtime/Tensor.h"

namespace fathom {

/// Reads a little-endian array of floats, integers or bools in C or Fortran
/// order, format versions 1 to 3. Any other bytes give an error, never more.
Result<Tensor> readNpy(const std::string &path);

/// Writes `tensor` in C order, format version 1.0. The format has no bf16:
/// tensors of 16-bit floats are written as f32, which holds them exactly.
Status writeNpy(const std::string &path, const Tensor &tensor);

} // namespace fathom

#endif // FATHOM_RUNTIME_NPY_H
