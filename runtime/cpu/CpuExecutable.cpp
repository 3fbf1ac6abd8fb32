//===- CpuExecutable.cpp - compiled CPU code in this process ----------------===//

#include "runtime/cpu/CpuExecutable.h"

#include "passes/Passes.h"
#include "runtime/cpu/CpuRuntime.h"

#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/Support/TargetSelect.h"

using namespace fathom::cpu;

CpuExecutable::CpuExecutable() = default;
CpuExecutable::~CpuExecutable() = default;

llvm::Expected<std::unique_ptr<CpuExecutable>>
CpuExecutable::compile(mlir::ModuleOp module, const CpuTarget &target) {
  mlir::PassManager pm(module.getContext());
  MapToCpuPassOptions options;
  options.vectorBits = target.vectorBits();
  pm.addPass(createMapToCpuPass(options));
  if (failed(pm.run(module)))
    return llvm::createStringError("the module could not be mapped to the CPU");
  auto object = emitObject(module, target);
  if (!object)
    return object.takeError();
  return load(std::move(*object));
}

llvm::Expected<std::unique_ptr<CpuExecutable>>
CpuExecutable::load(std::unique_ptr<llvm::MemoryBuffer> object) {
  // LLVM's registry of targets is not for two threads at a time.
  static const bool once = !llvm::InitializeNativeTarget();
  (void)once;
  std::unique_ptr<CpuExecutable> e(new CpuExecutable());
  e->bytes = object->getBuffer().str();
  auto jit = llvm::orc::LLJITBuilder().create();
  if (!jit)
    return jit.takeError();
  e->jit = std::move(*jit);
  llvm::orc::SymbolMap symbols;
  for (const RuntimeSymbol &s : runtimeSymbols())
    symbols[e->jit->mangleAndIntern(s.name)] = {
        llvm::orc::ExecutorAddr::fromPtr(s.address),
        llvm::JITSymbolFlags::Exported};
  if (llvm::Error error =
          e->jit->getMainJITDylib().define(llvm::orc::absoluteSymbols(symbols)))
    return std::move(error);
  if (llvm::Error error = e->jit->addObjectFile(std::move(object)))
    return std::move(error);
  return e;
}

EntryFunction CpuExecutable::lookup(llvm::StringRef name) const {
  auto address = jit->lookup((kEntryPrefix + name).str());
  if (!address) {
    llvm::consumeError(address.takeError());
    return nullptr;
  }
  return address->toPtr<EntryFunction>();
}
