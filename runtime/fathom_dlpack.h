//===- fathom_dlpack.h - tensors that libraries share -------------*- C -*-===//
//
// DLPack 1.0, word for word as its ABI has it; skipped where dlpack.h came
// first. C99 and C++.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_RUNTIME_FATHOM_DLPACK_H
#define FATHOM_RUNTIME_FATHOM_DLPACK_H

#include <stdint.h>

#ifndef DLPACK_DLPACK_H_
#define DLPACK_DLPACK_H_
#define DLPACK_MAJOR_VERSION 1
#define DLPACK_MINOR_VERSION 0
#define DLPACK_FLAG_BITMASK_READ_ONLY (1UL << 0UL)
#ifdef __cplusplus
extern "C" {
#endif
typedef enum { kDLCPU = 1, kDLCUDA = 2 } DLDeviceType;
typedef struct {
  DLDeviceType device_type;
  int32_t device_id;
} DLDevice;
typedef enum {
  kDLInt = 0,
  kDLUInt = 1,
  kDLFloat = 2,
  kDLBfloat = 4,
  kDLBool = 6
} DLDataTypeCode;
typedef struct {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
} DLDataType;
typedef struct {
  void *data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t *shape;
  int64_t *strides; /* in elements; null: C order */
  uint64_t byte_offset;
} DLTensor;
typedef struct {
  uint32_t major;
  uint32_t minor;
} DLPackVersion;
typedef struct DLManagedTensorVersioned {
  DLPackVersion version;
  void *manager_ctx;
  void (*deleter)(struct DLManagedTensorVersioned *self);
  uint64_t flags;
  DLTensor dl_tensor;
} DLManagedTensorVersioned;
#ifdef __cplusplus
}
#endif
#elif !defined(DLPACK_MAJOR_VERSION)
#error                                                                         \
    "expected dlpack.h of version 1.0 or later before Fathom's headers, got an older one"
#endif

#endif /* FATHOM_RUNTIME_FATHOM_DLPACK_H */
