//===- fathom.h - the public C++ interface of Fathom ------------*- C++ -*-===//
//
// Everything a host program needs: load an attention variant, run it forward
// and backward on DLPack tensors, merge partial results. Includes nothing of
// LLVM, MLIR or CUDA, throws nothing: errors come back as data.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_RUNTIME_FATHOM_H
#define FATHOM_RUNTIME_FATHOM_H

#include "fathom_dlpack.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace fathom {

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

/// What went wrong, in a class a program can act on and words a person can.
enum class ErrorCode {
  ok = 0,
  invalid_argument, ///< the caller's tensors, options or text
  io_error,         ///< a file or directory
  compile_error,    ///< the compiler refused or failed
  unsupported,      ///< legal, but not on this device or in this build
  internal,         ///< a fault in Fathom
};

class [[nodiscard]] Status {
public:
  Status() = default;
  Status(ErrorCode code, std::string message)
      : code_(code), message_(std::move(message)) {}
  bool ok() const { return code_ == ErrorCode::ok; }
  explicit operator bool() const { return ok(); }
  ErrorCode code() const { return code_; }
  const std::string &message() const { return message_; }

private:
  ErrorCode code_ = ErrorCode::ok;
  std::string message_;
};

/// A value or the reason why there is none. `*` and `->` need `ok()`.
template <typename T>
class [[nodiscard]] Result {
public:
  Result(T value) : value_(std::move(value)) {}
  Result(Status status) : status_(std::move(status)) {}
  bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Status &status() const { return status_; }
  T &operator*() { return *value_; }
  const T &operator*() const { return *value_; }
  T *operator->() { return &*value_; }
  const T *operator->() const { return &*value_; }

private:
  std::optional<T> value_;
  Status status_;
};

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

/// A tensor of the caller's. The struct it is made from must live as long as
/// the call it is given to. Null strides and byte_offset are honoured; a
/// stride of 0 is fine for inputs.
class TensorRef {
public:
  TensorRef() = default;
  TensorRef(const DLTensor &tensor) : tensor(&tensor) {}
  TensorRef(const DLManagedTensorVersioned &managed)
      : tensor(&managed.dl_tensor), major(managed.version.major),
        readOnly(managed.flags & DLPACK_FLAG_BITMASK_READ_ONLY) {}
  bool given() const { return tensor != nullptr; }

  const DLTensor *tensor = nullptr;
  uint32_t major = 1;
  bool readOnly = false;
};

/// A tensor of the library's, on the device of the kernel that made it. Copies
/// share the elements.
class Array {
public:
  Array() = default;
  bool defined() const { return impl != nullptr; }
  /// Valid while this array lives.
  const DLTensor &dlpack() const;
  operator TensorRef() const { return dlpack(); }
  /// For another library; it calls the deleter.
  DLManagedTensorVersioned *toDLPack() const;

  struct Impl;
  explicit Array(std::shared_ptr<Impl> impl) : impl(std::move(impl)) {}

private:
  std::shared_ptr<Impl> impl;
};

//===----------------------------------------------------------------------===//
// Devices
//===----------------------------------------------------------------------===//

struct DeviceInfo {
  std::string device; ///< as KernelOptions takes it: "cpu", "cuda:0"
  std::string name;   ///< what its maker calls it
  std::string target; ///< what is compiled for it: "cpu", "sm_90"
  int64_t memory = 0; ///< bytes; 0 for the CPU
};

/// The CPU, then the GPUs; `note` says why there are none, or why one can't be
/// used or compiled for.
struct DeviceList {
  std::vector<DeviceInfo> devices;
  std::string note;
};
DeviceList listDevices();

/// A C-order copy of a tensor on `device` ("cpu", "cuda:0"), from wherever it
/// is; for programs that don't know CUDA. Waits for the work in `stream`, and
/// for the copy.
Result<Array> copyTo(const std::string &device, const TensorRef &tensor,
                     void *stream = nullptr);

//===----------------------------------------------------------------------===//
// The cache of compiled kernels
//===----------------------------------------------------------------------===//

struct CacheStats {
  /// Where the kernels of this process came from.
  int64_t memory = 0, disk = 0, compiled = 0;
  std::string directory;          ///< empty: nothing is kept on disk
  int64_t entries = 0, bytes = 0; ///< on disk
  int64_t limit = 0;              ///< bytes
};
CacheStats cacheStats();

struct CacheEntry {
  std::string key;
  std::string what;  ///< in words: variant, dtype, target, ...
  int64_t bytes = 0; ///< on disk
  int64_t used = 0;  ///< last, in seconds since 1970
};
/// What is on disk, the last used first.
std::vector<CacheEntry> cacheEntries();
/// Forgets all compiled kernels, in memory and on disk. Those in use live on.
void clearCache();

/// A step from a variant's text to kernels on a device, summed over the process
/// and its threads.
struct PartTime {
  std::string part;
  int64_t count = 0;
  double seconds = 0;
};
/// In the order in which steps first ended.
std::vector<PartTime> partTimes();

//===----------------------------------------------------------------------===//
// Variants and kernels
//===----------------------------------------------------------------------===//

/// Operands of attention. Layout "bshd": q [B, Sq, Hq, D], k and v
/// [B, Sk, Hkv, D]; "bhsd": heads before lengths; "packed": q [total, Hq, D]
/// and the boundaries of the sequences (int32 or int64, B + 1 entries).
///
/// All lie on the kernel's device, but for captured scalars, which the host
/// reads. On a GPU nothing is read or converted before the kernels run:
/// boundaries are int32 and not checked (each must be at least the one before,
/// the first 0 and the last the total), captured tensors have the type that
/// the variant states (float64 for its float32 in a kernel for f64).
struct Inputs {
  TensorRef q, k, v;
  std::vector<TensorRef>
      captures; ///< in the variant's order; scalars have rank 0
  TensorRef cuSeqlensQ, cuSeqlensK;
  /// No packed sequence is longer; a lower bound starts fewer blocks on a GPU.
  /// 0: as the boundaries say; on a GPU the total.
  int64_t maxSeqlenQ = 0, maxSeqlenK = 0;
};

/// Preallocated outputs, in the layout of the inputs; what is not given is
/// allocated. lse is [B, Hq, Sq] ("packed": [Hq, total]). Outputs must not
/// overlap each other or an input.
struct Outputs {
  TensorRef o, lse;
};
struct GradientOutputs {
  TensorRef dq, dk, dv;
  std::vector<TensorRef> dCaptures; ///< empty, or one per captured operand
};

/// Where a call runs, on a GPU. Nothing given: the default stream, and memory
/// that the call allocates and frees in the stream's order. Calls return before
/// their work is done; inputs, outputs and workspace must live until then.
struct Call {
  void *stream = nullptr; ///< a CUstream or cudaStream_t
  /// Device memory for this call alone, aligned to 256 bytes; see
  /// Kernel::workspace.
  void *workspace = nullptr;
  int64_t workspaceBytes = 0;
};

/// What a kernel is compiled for. Empty and zero: the compiler chooses.
struct KernelOptions {
  std::string device = "cpu"; ///< or "cuda:N", or "cuda" for the first GPU
  std::string dtype = "f32";  ///< f64, f32, bf16 or f16
  int64_t headDim = 64;
  int64_t headDimV = 0; ///< 0: as headDim
  int64_t group = 1;    ///< query heads per KV head
  std::string layout = "bshd";
  bool gradients = true;    ///< false: forward only, nothing is saved
  bool lseGradient = false; ///< backward takes a gradient of lse too
  std::string pPolicy;      ///< recompute, store, store_compressed
  std::string dqPolicy;     ///< sequential, atomic, ordered, split, two_kernel
  int64_t blockM = 0, blockN = 0;
  int64_t dqSplits = 4;       ///< parts of the keys where dqPolicy is split
  bool deterministic = false; ///< the same bits in every run, or an error
  /// Parts of the keys that forward passes over in parallel; for few query rows.
  /// 0: compileFor() chooses (not if deterministic), else 1.
  int64_t kvSplits = 0;
  /// GPU: query rows that a sequence will have, for tiles that fit. 0:
  /// compileFor() looks, else unknown.
  int64_t seqlenQHint = 0;
};

/// The sizes of a run. "packed": the lengths are totals, in `sequences` parts.
struct Shape {
  int64_t batch = 1, heads = 1, seqlenQ = 0, seqlenK = 0, sequences = 1;
};

/// Bytes that a run takes, known before it.
struct MemoryEstimate {
  int64_t inputs = 0;    ///< q, k, v
  int64_t outputs = 0;   ///< o, lse
  int64_t saved = 0;     ///< kept for backward besides o and lse
  int64_t gradients = 0; ///< dq, dk, dv
  int64_t workspaceForward = 0, workspaceBackward = 0; ///< during the call
};

/// Bytes of device memory that a call works in.
struct Workspace {
  int64_t forward = 0, backward = 0;
};

/// What forward leaves for backward. It refers to the inputs of that forward
/// and to outputs the caller gave: they must stay alive and unchanged.
class Saved {
public:
  Saved() = default;
  struct Impl;
  explicit Saved(std::shared_ptr<const Impl> impl) : impl(std::move(impl)) {}
  const Impl *get() const { return impl.get(); }

private:
  std::shared_ptr<const Impl> impl;
};

/// Arrays of outputs the caller gave are undefined in results.
struct ForwardResult {
  Array o, lse;
  Saved saved; ///< empty for a kernel without gradients
};
struct Gradients {
  Array dq, dk, dv;
  std::vector<Array>
      dCaptures; ///< one per captured operand; undefined for integers
};

/// A variant compiled for one dtype, head dims, group and layout; any batch
/// size, head count, lengths and strides. Safe to call from many threads.
class Kernel {
public:
  Result<ForwardResult> forward(const Inputs &inputs,
                                const Outputs &outputs = {},
                                const Call &call = {}) const;
  /// `dLse` exactly if the kernel was compiled with lseGradient.
  Result<Gradients> backward(const Saved &saved, TensorRef dO,
                             TensorRef dLse = {},
                             const GradientOutputs &outputs = {},
                             const Call &call = {}) const;
  Result<MemoryEstimate> estimate(const Shape &shape) const;
  /// What Call::workspace must have for these operands, of which only the sizes
  /// are looked at. 0 on the CPU.
  Result<Workspace> workspace(const Inputs &inputs) const;

  /// What Variant::bundle() wrote, for a GPU of one of its targets. Nothing is
  /// compiled.
  static Result<Kernel> load(const std::string &path,
                             const std::string &device = "cuda");

  struct Impl;
  explicit Kernel(std::shared_ptr<const Impl> impl) : impl(std::move(impl)) {}

private:
  std::shared_ptr<const Impl> impl;
};

/// An attention variant. Safe to use from many threads.
class Variant {
public:
  /// `name` picks one of several in the text; empty: the only one.
  static Result<Variant> parse(const std::string &text,
                               const std::string &name = "");
  static Result<Variant> load(const std::string &path,
                              const std::string &name = "");

  const std::string &name() const;
  /// Names of the captured operands, in order.
  std::vector<std::string> captures() const;
  /// Compiles for the device, or takes the kernel from the cache.
  Result<Kernel> compile(const KernelOptions &options) const;
  /// Compiles for these operands and their device; `options` says the rest.
  Result<Kernel> compileFor(const Inputs &inputs,
                            KernelOptions options = {}) const;
  /// Compiles all that a GPU of `target` ("sm_90"; "compute_80": any from sm_80
  /// on) may need into the cache. No GPU needs to be there; `options.device` is
  /// not looked at.
  Status precompile(const KernelOptions &options,
                    const std::string &target) const;
  /// The same for several targets, into a file that Kernel::load() takes.
  Status bundle(const KernelOptions &options,
                const std::vector<std::string> &targets,
                const std::string &path) const;

  struct Impl;
  explicit Variant(std::shared_ptr<Impl> impl) : impl(std::move(impl)) {}

private:
  std::shared_ptr<Impl> impl;
};

/// Attention over a part of the keys.
struct Part {
  TensorRef o, lse;
};
struct Merged {
  Array o, lse;
};
/// Attention over all keys from attention over disjoint parts of them, the
/// queries being the same. A part with lse = -inf adds nothing, whatever its o
/// holds. On the device of the parts; `call` says the stream.
Result<Merged> merge(const std::vector<Part> &parts,
                     const std::string &layout = "bshd",
                     const Outputs &outputs = {}, const Call &call = {});

} // namespace fathom

#endif // FATHOM_RUNTIME_FATHOM_H
