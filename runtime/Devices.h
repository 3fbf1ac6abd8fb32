//===- Devices.h - memory and streams, wherever they are --------*- C++ -*-===//
//
// What the runtime does on a device besides running kernels, for the CPU and
// for GPUs alike. The GPU's driver is opened when one of these asks for it.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_RUNTIME_DEVICES_H
#define FATHOM_RUNTIME_DEVICES_H

#include "runtime/Tensor.h"

namespace fathom {

/// "cpu", "cuda" (the first GPU) or "cuda:N". Does not ask whether it exists.
Result<Device> parseDevice(const std::string &text);

/// What kernels for `device` are compiled for, e.g. "sm_90"; "cpu" for the CPU.
Result<std::string> targetOf(Device device);

/// A new C-order array; of zeros on the CPU, of anything on a GPU, where it may
/// be used by work in `stream` at once and is freed when its last copy goes.
Result<Tensor> allocate(Device device, DType dtype, Dims shape,
                        void *stream = nullptr);

/// Copies the elements of C-order arrays between the CPU and a GPU; waits.
Status copy(const Tensor &from, const Tensor &to);

/// Waits until the work in `stream` is done.
Status synchronize(Device device, void *stream);

} // namespace fathom

#endif // FATHOM_RUNTIME_DEVICES_H
