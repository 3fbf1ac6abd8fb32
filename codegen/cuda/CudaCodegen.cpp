//===- CudaCodegen.cpp - from a mapped module to a GPU program --------------===//

#include "codegen/cuda/CudaCodegen.h"
#include "codegen/cuda/HostPlan.h"
#include "codegen/cuda/KernelPrinter.h"

using namespace mlir;
using namespace fathom;
using namespace fathom::cuda;

llvm::Expected<Program> cuda::emitProgram(ModuleOp module) {
  Program program;
  std::vector<std::string> symbols;
  for (auto kernel : module.getOps<gpu::KernelOp>()) {
    llvm::Expected<Kernel> printed = printKernel(kernel);
    if (!printed)
      return printed.takeError();
    symbols.push_back(kernel.getSymName().str());
    program.kernels.push_back(std::move(*printed));
  }
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isPrivate())
      continue;
    llvm::Expected<Plan> plan = makePlan(function, symbols);
    if (!plan)
      return plan.takeError();
    program.plans.push_back(std::move(*plan));
  }
  return program;
}
