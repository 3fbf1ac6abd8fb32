//===- CpuCodegen.cpp - LLVM dialect to LLVM IR and object code -------------===//

#include "codegen/cpu/CpuCodegen.h"

#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/SmallVectorMemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/SubtargetFeature.h"

using namespace fathom::cpu;

namespace {

std::string featureString(const CpuTarget &target) {
  if (!target.name.empty())
    return "";
  llvm::SubtargetFeatures features;
  llvm::StringMap<bool> host = llvm::sys::getHostCPUFeatures();
  llvm::SmallVector<llvm::StringRef> names(host.keys());
  llvm::sort(names);
  for (llvm::StringRef name : names)
    features.AddFeature(name, host[name]);
  return features.getString();
}

std::string cpuName(const CpuTarget &target) {
  return target.name.empty() ? llvm::sys::getHostCPUName().str() : target.name;
}

llvm::Expected<std::unique_ptr<llvm::TargetMachine>>
makeTargetMachine(const CpuTarget &target) {
  static bool initialized = [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    return true;
  }();
  (void)initialized;
  llvm::Triple triple(llvm::sys::getProcessTriple());
  std::string error;
  const llvm::Target *t = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!t)
    return llvm::createStringError(error);
  std::unique_ptr<llvm::MCSubtargetInfo> cpus(
      t->createMCSubtargetInfo(triple, "", ""));
  if (!target.name.empty() && (!cpus || !cpus->isCPUStringValid(target.name)))
    return llvm::createStringError(
        "expected a CPU that LLVM knows, such as x86-64-v3, got '" +
        target.name + "'");
  llvm::TargetOptions options;
  // fmuladd becomes one instruction where there is one.
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  std::unique_ptr<llvm::TargetMachine> machine(t->createTargetMachine(
      triple, cpuName(target), featureString(target), options,
      llvm::Reloc::PIC_, std::nullopt, llvm::CodeGenOptLevel::Default));
  if (!machine)
    return llvm::createStringError("LLVM has no code generator for this CPU");
  return machine;
}

llvm::Expected<std::unique_ptr<llvm::Module>>
translate(mlir::ModuleOp module, llvm::LLVMContext &context,
          llvm::TargetMachine &machine) {
  if (failed(lowerToLLVMDialect(module)))
    return llvm::createStringError("the module could not be lowered to LLVM");
  mlir::DialectRegistry registry;
  mlir::registerBuiltinDialectTranslation(registry);
  mlir::registerLLVMDialectTranslation(registry);
  module.getContext()->appendDialectRegistry(registry);
  std::unique_ptr<llvm::Module> m =
      mlir::translateModuleToLLVMIR(module, context, "fathom");
  if (!m)
    return llvm::createStringError(
        "the module could not be translated to LLVM IR");
  m->setTargetTriple(machine.getTargetTriple());
  m->setDataLayout(machine.createDataLayout());
  for (auto [from, to] :
       {std::pair("_mlir_memref_to_llvm_alloc", "fathom_alloc"),
        std::pair("_mlir_memref_to_llvm_free", "fathom_free")})
    if (llvm::Function *f = m->getFunction(from))
      f->setName(to);
  for (llvm::Function &f : *m) {
    if (f.isDeclaration())
      continue;
    if (!f.getName().starts_with(kEntryPrefix))
      f.setLinkage(llvm::GlobalValue::InternalLinkage);
    // Without it LLVM may split wide vectors on CPUs that clock down for them.
    f.addFnAttr("prefer-vector-width", "512");
    f.addFnAttr("min-legal-vector-width", "512");
    f.addFnAttr(llvm::Attribute::NoUnwind);
  }
  return m;
}

} // namespace

int64_t CpuTarget::vectorBits() const {
  auto machine = makeTargetMachine(*this);
  if (!machine) {
    llvm::consumeError(machine.takeError()); // emitObject will say it
    return 128;
  }
  const llvm::MCSubtargetInfo &info = *(*machine)->getMCSubtargetInfo();
  if (info.checkFeatures("+avx512f,+avx512bw,+avx512vl"))
    return 512;
  return info.checkFeatures("+avx2,+fma") ? 256 : 128;
}

std::string CpuTarget::describe() const {
  return cpuName(*this) + " " + featureString(*this);
}

llvm::Expected<std::string> fathom::cpu::emitLLVMIR(mlir::ModuleOp module,
                                                    const CpuTarget &target) {
  auto machine = makeTargetMachine(target);
  if (!machine)
    return machine.takeError();
  llvm::LLVMContext context;
  auto m = translate(module, context, **machine);
  if (!m)
    return m.takeError();
  std::string text;
  llvm::raw_string_ostream os(text);
  (*m)->print(os, nullptr);
  return text;
}

llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
fathom::cpu::emitObject(mlir::ModuleOp module, const CpuTarget &target) {
  auto machine = makeTargetMachine(target);
  if (!machine)
    return machine.takeError();
  llvm::LLVMContext context;
  auto m = translate(module, context, **machine);
  if (!m)
    return m.takeError();
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream os(bytes);
  llvm::legacy::PassManager pm;
  if ((*machine)->addPassesToEmitFile(pm, os, nullptr,
                                      llvm::CodeGenFileType::ObjectFile))
    return llvm::createStringError("this target writes no object files");
  pm.run(**m);
  return std::make_unique<llvm::SmallVectorMemoryBuffer>(
      std::move(bytes), "fathom.o",
      /*RequiresNullTerminator=*/false);
}
