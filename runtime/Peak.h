//===- Peak.h - what this machine can do ------------------------*- C++ -*-===//

#ifndef FATHOM_RUNTIME_PEAK_H
#define FATHOM_RUNTIME_PEAK_H

#include "runtime/Tensor.h"

namespace fathom {

/// Floating-point operations a second of a loop of independent fused
/// multiply-adds in `type` (f64, or f32 for all others), on `threads` threads
/// at once, with the widest vectors this CPU has.
double measurePeak(DType type, unsigned threads);

} // namespace fathom

#endif // FATHOM_RUNTIME_PEAK_H
