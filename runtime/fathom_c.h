//===- fathom_c.h - the C interface of Fathom ---------------------*- C -*-===//
//
// What fathom.h offers, for other languages: opaque handles, DLPack tensors,
// error codes. C99. Every function that can fail returns a code and leaves
// words in fathom_message(). All outputs are the caller's.
//
// A struct begins with its size as the caller knows it (FATHOM_INIT sets it and
// zeroes the rest), so that fields can be added behind: what a caller does not
// know of is 0 or null, which means the default.
//
// Handles are safe to use from many threads; a handle's free is the last use.
// Handles that come from others live on without them.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_RUNTIME_FATHOM_C_H
#define FATHOM_RUNTIME_FATHOM_C_H

#include "fathom_dlpack.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// The interface this header states. A library with another number before the
/// dot of its version has another one.
#define FATHOM_C_VERSION 1
int32_t fathom_c_version(void);
/// "0.1.0".
const char *fathom_version(void);

/// fathom_options o; FATHOM_INIT(o);
#define FATHOM_INIT(object)                                                    \
  do {                                                                         \
    size_t fathom_n_ = sizeof(object);                                         \
    char *fathom_p_ = (char *)&(object);                                       \
    while (fathom_n_)                                                          \
      fathom_p_[--fathom_n_] = 0;                                              \
    (object).size = sizeof(object);                                            \
  } while (0)

typedef enum fathom_status {
  FATHOM_OK = 0,
  FATHOM_INVALID_ARGUMENT = 1, ///< the caller's tensors, options or text
  FATHOM_IO_ERROR = 2,         ///< a file or directory
  FATHOM_COMPILE_ERROR = 3,    ///< the compiler refused or failed
  FATHOM_UNSUPPORTED = 4,      ///< legal, but not on this device or build
  FATHOM_INTERNAL = 5          ///< a fault in Fathom
} fathom_status;

/// What this thread's last failure was; valid until its next one.
const char *fathom_message(void);

//===----------------------------------------------------------------------===//
// Devices and the cache
//===----------------------------------------------------------------------===//

typedef struct fathom_device_info {
  size_t size;
  const char *device; ///< as fathom_options takes it: cpu, cuda:0
  const char *name;   ///< what its maker calls it
  const char *target; ///< what is compiled for it: cpu, sm_90
  int64_t memory;     ///< bytes; 0 for the CPU
} fathom_device_info;

/// How many devices there are; at least the CPU. The list is made once.
int32_t fathom_device_count(void);
/// Strings live as long as the library.
fathom_status fathom_device(int32_t index, fathom_device_info *info);
/// Why there is no GPU, or why one can't be used; empty if all is well.
const char *fathom_device_note(void);

/// Copies between the CPU and a GPU, or on one of them; types and sizes must
/// agree, both tensors must be in C order. Waits for the work in `stream`, and
/// for the copy.
fathom_status fathom_copy(const DLTensor *from, const DLTensor *to,
                          void *stream);

typedef struct fathom_cache_info {
  size_t size;
  int64_t memory, disk, compiled; ///< where this process's kernels came from
  int64_t entries, bytes, limit;  ///< on disk
  const char *directory; ///< empty: none; valid until this thread asks again
} fathom_cache_info;

fathom_status fathom_cache(fathom_cache_info *info);
/// Forgets all compiled kernels, in memory and on disk.
void fathom_cache_clear(void);

//===----------------------------------------------------------------------===//
// Variants and kernels
//===----------------------------------------------------------------------===//

typedef struct fathom_variant fathom_variant;
typedef struct fathom_kernel fathom_kernel;
typedef struct fathom_saved fathom_saved;

/// `name` picks one of several in the text; null: the only one.
fathom_status fathom_variant_parse(const char *text, const char *name,
                                   fathom_variant **variant);
fathom_status fathom_variant_load(const char *path, const char *name,
                                  fathom_variant **variant);
void fathom_variant_free(fathom_variant *variant);
/// Strings live as long as the variant.
const char *fathom_variant_name(const fathom_variant *variant);
int32_t fathom_variant_capture_count(const fathom_variant *variant);
/// Null beyond the last.
const char *fathom_variant_capture(const fathom_variant *variant,
                                   int32_t index);

/// What a kernel is compiled for; KernelOptions in fathom.h says the same.
typedef struct fathom_options {
  size_t size;
  const char *device;    ///< cpu (the default), cuda, cuda:N
  const char *dtype;     ///< f64, f32 (the default), bf16, f16
  const char *layout;    ///< bshd (the default), bhsd, packed
  const char *p_policy;  ///< recompute, store, store_compressed
  const char *dq_policy; ///< sequential, atomic, ordered, split, two_kernel
  int64_t head_dim;      ///< 0: 64
  int64_t head_dim_v;    ///< 0: as head_dim
  int64_t group;         ///< query heads per KV head; 0: 1
  int64_t block_m, block_n;
  int64_t dq_splits;     ///< 0: 4
  int32_t forward_only;  ///< no gradients, nothing is saved
  int32_t lse_gradient;  ///< backward takes a gradient of lse too
  int32_t deterministic; ///< the same bits in every run, or an error
  int64_t kv_splits;     ///< parts of the keys in parallel; 0: 1
  int64_t seqlen_q_hint; ///< GPU: query rows expected; 0: unknown
} fathom_options;

/// Compiles for the device, or takes the kernel from the cache. `options` null:
/// the defaults.
fathom_status fathom_compile(const fathom_variant *variant,
                             const fathom_options *options,
                             fathom_kernel **kernel);
/// Compiles all that a GPU of `target` (sm_90; compute_80: any from sm_80 on)
/// may need into the cache. No GPU needs to be there.
fathom_status fathom_precompile(const fathom_variant *variant,
                                const fathom_options *options,
                                const char *target);
/// The same for several targets, with commas between them, into a file.
fathom_status fathom_bundle(const fathom_variant *variant,
                            const fathom_options *options, const char *targets,
                            const char *path);
/// What is in such a file, for a GPU of one of its targets. `device` null: the
/// first GPU. Nothing is compiled.
fathom_status fathom_kernel_load(const char *path, const char *device,
                                 fathom_kernel **kernel);
void fathom_kernel_free(fathom_kernel *kernel);

/// Tensors as Inputs in fathom.h states them. `captures` are in the variant's
/// order.
typedef struct fathom_inputs {
  size_t size;
  const DLTensor *q, *k, *v;
  const DLTensor *const *captures;
  int32_t capture_count;
  const DLTensor *cu_seqlens_q, *cu_seqlens_k; ///< layout packed only
  int64_t max_seqlen_q, max_seqlen_k;          ///< 0: not said
} fathom_inputs;

/// Compiles for these inputs, of which only types and sizes are looked at:
/// device, dtype, head dims and group are theirs, and on a GPU kv_splits and
/// seqlen_q_hint, where 0, are chosen to fit. The kernel runs other sizes too.
fathom_status fathom_compile_for(const fathom_variant *variant,
                                 const fathom_inputs *inputs,
                                 const fathom_options *options,
                                 fathom_kernel **kernel);

/// Where a call runs, on a GPU.
typedef struct fathom_call {
  size_t size;
  void *stream;    ///< a CUstream or cudaStream_t; null: the default stream
  void *workspace; ///< device memory, aligned to 256; null: the call allocates
  int64_t workspace_bytes;
} fathom_call;

/// o [like q, with v's head dim] and lse. `saved`, if not null, becomes what
/// backward needs; it refers to inputs, o and lse. `call` may be null.
fathom_status fathom_forward(const fathom_kernel *kernel,
                             const fathom_inputs *inputs, const DLTensor *o,
                             const DLTensor *lse, const fathom_call *call,
                             fathom_saved **saved);
void fathom_saved_free(fathom_saved *saved);

typedef struct fathom_gradients {
  size_t size;
  const DLTensor *dq, *dk, *dv;
  /// Null, or one per captured operand; null entries are not handed out.
  const DLTensor *const *captures;
  int32_t capture_count;
} fathom_gradients;

/// `dlse` exactly if the kernel was compiled with lse_gradient.
fathom_status fathom_backward(const fathom_kernel *kernel,
                              const fathom_saved *saved, const DLTensor *d_o,
                              const DLTensor *dlse,
                              const fathom_gradients *gradients,
                              const fathom_call *call);

/// Bytes of workspace for these operands, of which only sizes are looked at.
fathom_status fathom_workspace(const fathom_kernel *kernel,
                               const fathom_inputs *inputs, int64_t *forward,
                               int64_t *backward);

typedef struct fathom_shape {
  size_t size;
  int64_t batch, heads, seqlen_q, seqlen_k; ///< 0 is a size
  int64_t sequences;                        ///< layout packed; 0: 1
} fathom_shape;

/// Bytes that a run takes.
typedef struct fathom_estimate_info {
  size_t size;
  int64_t inputs, outputs, saved, gradients;
  int64_t workspace_forward, workspace_backward;
} fathom_estimate_info;

fathom_status fathom_estimate(const fathom_kernel *kernel,
                              const fathom_shape *shape,
                              fathom_estimate_info *estimate);

/// (o, lse) over all keys from those over `count` disjoint parts of the keys.
fathom_status fathom_merge(const DLTensor *const *parts_o,
                           const DLTensor *const *parts_lse, int32_t count,
                           const char *layout, const DLTensor *o,
                           const DLTensor *lse, const fathom_call *call);

#ifdef __cplusplus
}
#endif

#endif // FATHOM_RUNTIME_FATHOM_C_H
