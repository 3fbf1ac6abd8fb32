//===- CpuExecutable.h - compiled CPU code in this process ------*- C++ -*-===//
//
// Compiles nest-level modules, or loads object code made earlier, and finds
// functions in it.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_RUNTIME_CPU_CPUEXECUTABLE_H
#define FATHOM_RUNTIME_CPU_CPUEXECUTABLE_H

#include "codegen/cpu/CpuCodegen.h"

namespace llvm::orc {
class LLJIT;
}

namespace fathom::cpu {

/// A function by the calling convention of dialect/README.md.
using EntryFunction = void (*)(void **args);

class CpuExecutable {
public:
  /// Maps and compiles a nest-level module, which is used up. Errors of passes
  /// are diagnostics of the module's context.
  static llvm::Expected<std::unique_ptr<CpuExecutable>>
  compile(mlir::ModuleOp module, const CpuTarget &target = {});

  /// Links object code made by emitObject.
  static llvm::Expected<std::unique_ptr<CpuExecutable>>
  load(std::unique_ptr<llvm::MemoryBuffer> object);

  ~CpuExecutable();

  /// The function compiled from @name, or null.
  EntryFunction lookup(llvm::StringRef name) const;

  /// The object code, for a cache; load() takes it back.
  llvm::StringRef object() const { return bytes; }

private:
  CpuExecutable();
  std::unique_ptr<llvm::orc::LLJIT> jit;
  std::string bytes;
};

} // namespace fathom::cpu

#endif // FATHOM_RUNTIME_CPU_CPUEXECUTABLE_H
