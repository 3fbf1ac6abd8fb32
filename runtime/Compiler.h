//===- Compiler.h - from a variant's text to something that runs -*- C++ -*-===//
//
// The only file of the runtime that calls the passes and the code generator.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_RUNTIME_COMPILER_H
#define FATHOM_RUNTIME_COMPILER_H

#include "runtime/Bundle.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <mutex>

namespace fathom {

/// A parsed and verified file, and what is meant in it: an fa.variant, or a
/// function that is an instance already (its arguments go to one fa.attention
/// in order, whose results it returns). Only compile() is safe for many threads.
class VariantSource {
public:
  /// `name` picks one; empty: the file's only one. `file` is for messages.
  static Result<std::shared_ptr<VariantSource>> parse(const std::string &text,
                                                      const std::string &file,
                                                      const std::string &name);
  static Result<std::shared_ptr<VariantSource>> load(const std::string &path,
                                                     const std::string &name);

  /// Two that have the same are the same file's same variant.
  const std::string &digest() const { return hash; }
  mlir::MLIRContext &context() { return *ctx; }
  mlir::ModuleOp module() { return *moduleRef; }
  VariantInterface op() { return variant; }
  const VariantInfo &info() const { return variantInfo; }
  /// What an instance is an instance for; nothing for an fa.variant. Whether
  /// with gradients is not said here.
  const std::optional<InstanceOptions> &instance() const {
    return instanceOptions;
  }

  std::mutex mutex; ///< guards the context while compile() uses it

private:
  std::string hash;
  std::unique_ptr<mlir::MLIRContext> ctx;
  mlir::OwningOpRef<mlir::ModuleOp> moduleRef;
  VariantInterface variant;
  VariantInfo variantInfo;
  std::optional<InstanceOptions> instanceOptions;
};

/// How it is compiled. Empty and zero leave the choice to the compiler.
struct CompileOptions {
  InstanceOptions instance;
  /// cpu (this machine's), sm_90, compute_80, ... A GPU needs not be there.
  std::string target = "cpu";
  /// On a GPU: forward or backward, and whether all operands are aligned.
  Piece piece = Piece::whole;
  bool aligned = false;
  int64_t blockM = 0, blockN = 0;
  int64_t numWarps = 0; ///< GPU: warps per CTA; 0: the compiler chooses
  int64_t stages = 0;   ///< GPU: buffers for what loops copy ahead
  std::string pPolicy, dqPolicy;
  int64_t dqSplits = 4;
  /// Parts of the keys that the forward passes over in parallel; 0: 1, unless
  /// chooseForSizes() says otherwise.
  int64_t kvSplits = 0;
  /// GPU: query rows that a sequence will have; 0: unknown.
  int64_t seqlenQHint = 0;
  /// Tiles of the query heads of a KV head in the forward; on a GPU also chosen
  /// where the hint is less than these.
  bool packHeads = false;
  /// Parts of the query heads of a KV head that the backward passes over in
  /// parallel; 0: 1, unless chooseForSizes() says otherwise.
  int64_t groupSplits = 0;
  bool deterministic = false;
  /// Parts of the pipeline, for tests and measurements.
  std::vector<std::string> skipPasses;
  std::string stopAfter;
  bool countTiles = false;
  std::vector<std::pair<std::string, std::string>> insertAfter;
};

/// Chooses what is left open and depends on the sizes of runs: the hint, parts
/// of the keys where few query rows leave a GPU idle, and of query heads where
/// few KV heads do. Sizes of other runs may differ; they only run slower.
void chooseForSizes(CompileOptions &options, const Operands &x);

/// Compiles an instance or a part of it, or takes it from the cache.
Result<std::shared_ptr<const Executable>>
compile(VariantSource &source, const CompileOptions &options);

/// An instance for `device`, of which the parts for `options.aligned` operands
/// are compiled at once.
Result<std::shared_ptr<const Instance>>
instantiate(std::shared_ptr<VariantSource> source, CompileOptions options,
            Device device);

/// Compiles the nest-level function @NAME of `text` into an executable whose
/// `fwd` it is.
Result<std::shared_ptr<const Executable>>
compileNest(const std::string &text, const std::string &name,
            const std::string &what, const std::string &target);

/// All pieces of an instance, compiled for GPUs that need not be there.
Result<Bundle> makeBundle(VariantSource &source, CompileOptions options,
                          const std::vector<std::string> &targets);

} // namespace fathom

#endif // FATHOM_RUNTIME_COMPILER_H
