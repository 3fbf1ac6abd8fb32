//===- Executable.h - a compiled instance, ready to run ---------*- C++ -*-===//
//
// Holds the entry points of an instance and calls them with arrays. Knows the
// signatures of dialect/README.md and no compiler.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_RUNTIME_EXECUTABLE_H
#define FATHOM_RUNTIME_EXECUTABLE_H

#include "runtime/Operands.h"

#include <functional>

namespace fathom {
namespace cuda {
struct Program;
}

/// Where a call runs.
struct CallContext {
  Device device;
  void *stream = nullptr; ///< of the GPU
  /// Memory on the device, used by this call alone. Null: the call allocates.
  void *workspace = nullptr;
  int64_t workspaceBytes = 0;
};

/// What of an instance is compiled.
enum class Piece : uint8_t { whole, forward, backward };

/// One argument of an entry point: a buffer, or a scalar if rank is -1.
struct ArgumentType {
  DType dtype;
  int64_t rank;
};

/// A function of the instance.
struct EntryPoint {
  std::vector<ArgumentType> arguments;
  int64_t results = 0; ///< all of type index
  /// Takes its arguments and results as dialect/README.md says. On a GPU it
  /// returns when its work is in the stream.
  std::function<Status(void **, const CallContext &)> function;
  /// Bytes of workspace that a call with these arguments takes, of which only
  /// the sizes are looked at. Absent: none.
  std::function<Result<int64_t>(void **)> workspace;

  bool exists() const { return bool(function); }
};

/// The outputs of a run, in logical order. Without gradients only o and lse
/// are defined. `dCaptures` has one entry per captured operand, undefined where
/// there is no gradient.
struct Results {
  Tensor o, lse, dq, dk, dv;
  std::vector<Tensor> dCaptures;
};

class Executable {
public:
  /// What forward leaves for backward besides o and lse.
  using Saved = std::vector<Tensor>;

  std::string name; ///< of the variant
  std::string what; ///< what it is compiled from and for, in words
  /// Either `joint` or `fwd` (and `bwd`, `saved` with gradients) is there.
  EntryPoint joint, fwd, bwd, saved;
  bool gradients = false, lseGradient = false;
  std::vector<int64_t> gradCaptures; ///< captured operands with a gradient
  bool compressedP = false;          ///< backward has P in 8 bits, not exact
  std::vector<std::string> nests; ///< labels, by the id of their tile counter
  std::shared_ptr<void> code;     ///< keeps the functions alive
  std::shared_ptr<const cuda::Program> program; ///< for a GPU
  /// Tiles counted by each kernel on a GPU, if it is compiled to count.
  std::function<Result<std::vector<std::pair<std::string, int64_t>>>(int)>
      ticks;

  bool isJoint() const { return joint.exists(); }

  /// Runs forward and, with gradients, backward.
  Status run(const Operands &x, const Results &out,
             const CallContext &where = {}) const;
  /// Not for joint instances.
  Status forward(const Operands &x, const Results &out, Saved &kept,
                 const CallContext &where = {}) const;
  Status backward(const Operands &x, const Results &out, const Saved &kept,
                  const CallContext &where = {}) const;
  /// Calls `fwd` with arrays alone, whatever it is.
  Status call(llvm::ArrayRef<Tensor> arrays, const CallContext &where) const;
  /// What forward will keep. Looks at the sizes of `x` only, as do those below.
  Result<std::vector<std::pair<DType, Dims>>>
  savedShapes(const Operands &x) const;
  /// Bytes of workspace.
  Result<int64_t> forwardWorkspace(const Operands &x, const Results &out,
                                   const Saved &kept) const;
  Result<int64_t> backwardWorkspace(const Operands &x, const Results &out,
                                    const Saved &kept) const;

private:
  class Call;
  void forwardArguments(Call &call, const Operands &x, const Results &out,
                        const Saved &kept) const;
  void backwardArguments(Call &call, const Operands &x, const Results &out,
                         const Saved &kept) const;
  void inputs(Call &call, const Operands &x) const;
  void gradientResults(Call &call, const Results &out) const;
};

} // namespace fathom

#endif // FATHOM_RUNTIME_EXECUTABLE_H
