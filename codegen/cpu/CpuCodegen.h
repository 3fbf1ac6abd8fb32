//===- CpuCodegen.h - from a mapped module to machine code ------*- C++ -*-===//
//
// The CPU back end: a module that went through fa-map-to-cpu becomes LLVM IR
// and an object file. Each public function @f gets a symbol `_fa_f` as
// dialect/README.md states.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_CODEGEN_CPU_CPUCODEGEN_H
#define FATHOM_CODEGEN_CPU_CPUCODEGEN_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"
#include <memory>
#include <string>

namespace fathom::cpu {

/// Before the name of every symbol that a caller may look up.
inline constexpr llvm::StringLiteral kEntryPrefix = "_fa_";

/// The CPU that code is made for.
struct CpuTarget {
  /// A name LLVM knows, such as "x86-64-v3"; empty is this machine's CPU.
  std::string name;

  /// Bits of the vectors that fa-map-to-cpu should use for it.
  int64_t vectorBits() const;
  /// Name and features, as text: what a cache must be keyed by.
  std::string describe() const;
};

/// Lowers a mapped module to the LLVM dialect, in place.
mlir::LogicalResult lowerToLLVMDialect(mlir::ModuleOp module);

/// LLVM IR as text. Lowers `module` in place.
llvm::Expected<std::string> emitLLVMIR(mlir::ModuleOp module,
                                       const CpuTarget &target);

/// An ELF object. Lowers `module` in place.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
emitObject(mlir::ModuleOp module, const CpuTarget &target);

} // namespace fathom::cpu

#endif // FATHOM_CODEGEN_CPU_CPUCODEGEN_H
