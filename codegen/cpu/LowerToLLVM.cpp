//===- LowerToLLVM.cpp - mapped module to LLVM dialect ----------------------===//
//
// Adds the entry points and runs the upstream conversions.
//
//===----------------------------------------------------------------------===//

#include "codegen/cpu/CpuCodegen.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MathToLibm/MathToLibm.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/UBToLLVM/UBToLLVM.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace fathom::cpu;

/// Adds `_fa_NAME(void **args)` for every public function.
static LogicalResult addEntryPoints(ModuleOp module) {
  MLIRContext *context = module.getContext();
  Type pointer = LLVM::LLVMPointerType::get(context),
       i64 = IntegerType::get(context, 64);
  for (auto f : llvm::make_early_inc_range(module.getOps<func::FuncOp>())) {
    if (f.isExternal() || f.isPrivate())
      continue;
    ImplicitLocOpBuilder b(f.getLoc(), context);
    b.setInsertionPointAfter(f);
    auto entry = func::FuncOp::create(b, (kEntryPrefix + f.getName()).str(),
                                      b.getFunctionType(pointer, {}));
    b.setInsertionPointToStart(entry.addEntryBlock());
    int32_t next = 0;
    auto nextArgument = [&]() -> Value {
      Value at = LLVM::GEPOp::create(b, pointer, pointer, entry.getArgument(0),
                                     ArrayRef<LLVM::GEPArg>{next++});
      return LLVM::LoadOp::create(b, pointer, at);
    };
    SmallVector<Value> args;
    for (Type type : f.getArgumentTypes()) {
      Value p = nextArgument();
      if (auto memref = dyn_cast<MemRefType>(type)) {
        SmallVector<Type> fields = {pointer, pointer, i64};
        if (memref.getRank() > 0)
          fields.append(2, LLVM::LLVMArrayType::get(i64, memref.getRank()));
        Value d = LLVM::LoadOp::create(
            b, LLVM::LLVMStructType::getLiteral(context, fields), p);
        args.push_back(
            UnrealizedConversionCastOp::create(b, type, d).getResult(0));
      } else if (type.isIndex()) {
        args.push_back(arith::IndexCastOp::create(
            b, type, LLVM::LoadOp::create(b, i64, p)));
      } else if (type.isIntOrFloat()) {
        args.push_back(LLVM::LoadOp::create(b, type, p));
      } else {
        return f.emitOpError("expected arguments of memref, index, integer or "
                             "float type, got ")
               << type;
      }
    }
    auto call = func::CallOp::create(b, f, args);
    for (Value result : call.getResults()) {
      Value at = nextArgument();
      if (result.getType().isIndex())
        result = arith::IndexCastOp::create(b, i64, result);
      else if (!result.getType().isIntOrFloat())
        return f.emitOpError(
                   "expected results of index, integer or float type, got ")
               << result.getType();
      LLVM::StoreOp::create(b, result, at);
    }
    func::ReturnOp::create(b);
    f.setPrivate();
  }
  return success();
}

/// expm1 and log1p become calls, entry by entry: upstream's way, exp(x) - 1 and
/// log(1 + x), loses what they are for.
static void callAccurateMath(ModuleOp module) {
  SmallVector<Operation *> ops;
  module.walk([&](Operation *op) {
    if (isa<math::ExpM1Op, math::Log1pOp>(op))
      ops.push_back(op);
  });
  for (Operation *op : ops) {
    Value x = op->getOperand(0);
    Type element = getElementTypeOrSelf(x.getType());
    if (!element.isF32() && !element.isF64())
      continue;
    std::string name = isa<math::ExpM1Op>(op) ? "expm1" : "log1p";
    if (element.isF32())
      name += "f";
    auto f = module.lookupSymbol<func::FuncOp>(name);
    if (!f) {
      OpBuilder top = OpBuilder::atBlockBegin(module.getBody());
      f = func::FuncOp::create(top, module.getLoc(), name,
                               top.getFunctionType(element, element));
      f.setPrivate();
    }
    ImplicitLocOpBuilder b(op->getLoc(), op);
    auto call = [&](Value v) {
      return func::CallOp::create(b, f, v).getResult(0);
    };
    Value result = x;
    if (auto vector = dyn_cast<VectorType>(x.getType())) {
      for (int64_t i = 0; i < vector.getNumElements(); ++i)
        result = vector::InsertOp::create(
            b, call(vector::ExtractOp::create(b, x, i)), result, i);
    } else {
      result = call(x);
    }
    op->getResult(0).replaceAllUsesWith(result);
    op->erase();
  }
}

/// f64 to a 16-bit float goes by way of f32, as tiles do: the direct way is a
/// call of a function that not every C library has.
static void splitTruncations(ModuleOp module) {
  module.walk([](arith::TruncFOp op) {
    if (!op.getIn().getType().isF64() ||
        op.getType().getIntOrFloatBitWidth() != 16)
      return;
    OpBuilder b(op);
    op.getInMutable().assign(
        arith::TruncFOp::create(b, op.getLoc(), b.getF32Type(), op.getIn()));
  });
}

LogicalResult fathom::cpu::lowerToLLVMDialect(ModuleOp module) {
  if (failed(addEntryPoints(module)))
    return failure();
  callAccurateMath(module);
  splitTruncations(module);
  PassManager pm(module.getContext());
  pm.addPass(createCSEPass());
  pm.addPass(createLoopInvariantCodeMotionPass());
  pm.addPass(memref::createExpandStridedMetadataPass());
  arith::ArithExpandOpsPassOptions expand;
  expand.includeBf16 = true; // not every CPU and C library has them
  pm.addPass(arith::createArithExpandOpsPass(expand));
  pm.addPass(createSCFToControlFlowPass());
  pm.addPass(createConvertMathToLLVMPass());
  pm.addPass(createConvertMathToLibmPass()); // entry by entry
  pm.addPass(createConvertVectorToLLVMPass());
  FinalizeMemRefToLLVMConversionPassOptions memref;
  memref.useGenericFunctions = true;
  pm.addPass(createFinalizeMemRefToLLVMConversionPass(memref));
  pm.addPass(createArithToLLVMConversionPass());
  pm.addPass(createUBToLLVMConversionPass());
  pm.addPass(createConvertControlFlowToLLVMPass());
  pm.addPass(createConvertFuncToLLVMPass());
  pm.addPass(createReconcileUnrealizedCastsPass());
  return pm.run(module);
}
