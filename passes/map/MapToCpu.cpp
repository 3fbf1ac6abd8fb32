//===- MapToCpu.cpp - fa-map-to-cpu -----------------------------------------===//
//
// Turns every fa.nest into a function that computes one item and a call of the
// runtime that runs it for all of them on all threads.
//
//===----------------------------------------------------------------------===//

#include "passes/map/MapToCpu.h"
#include "passes/Passes.h"
#include "passes/map/Loops.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Interfaces/ViewLikeInterface.h"
#include "mlir/Transforms/LoopInvariantCodeMotionUtils.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/TargetParser/Host.h"

namespace fathom {
#define GEN_PASS_DEF_MAPTOCPUPASS
#include "passes/Passes.h.inc"
} // namespace fathom

using namespace mlir;
using namespace fathom;
using namespace fathom::cpu;

func::FuncOp cpu::getRuntimeFunction(Operation *user, StringRef name,
                                     TypeRange arguments) {
  auto module = user->getParentOfType<ModuleOp>();
  if (auto f = module.lookupSymbol<func::FuncOp>(name))
    return f;
  OpBuilder b = OpBuilder::atBlockBegin(module.getBody());
  auto f = func::FuncOp::create(b, module.getLoc(), name,
                                b.getFunctionType(arguments, {}));
  f.setPrivate();
  return f;
}

namespace {

int64_t hostVectorBits() {
  llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
  if (features.lookup("avx512f") && features.lookup("avx512bw") &&
      features.lookup("avx512vl"))
    return 512;
  return features.lookup("avx2") && features.lookup("fma") ? 256 : 128;
}

/// The type under which a captured value stands in the task that is handed to
/// the threads: a descriptor for a memref.
Type taskType(Type type) {
  MLIRContext *c = type.getContext();
  if (auto memref = dyn_cast<MemRefType>(type)) {
    Type pointer = LLVM::LLVMPointerType::get(c), i64 = IntegerType::get(c, 64);
    SmallVector<Type> fields = {pointer, pointer, i64};
    if (memref.getRank() > 0)
      fields.append(2, LLVM::LLVMArrayType::get(i64, memref.getRank()));
    return LLVM::LLVMStructType::getLiteral(c, fields);
  }
  if (type.isIndex())
    return IntegerType::get(c, 64);
  return type.isIntOrFloat() && type.getIntOrFloatBitWidth() <= 64 ? type
                                                                   : Type();
}

int32_t taskBytes(Type type) {
  auto memref = dyn_cast<MemRefType>(type);
  return memref ? 8 * (3 + 2 * memref.getRank()) : 8;
}

struct MapToCpu : public fathom::impl::MapToCpuPassBase<MapToCpu> {
  using MapToCpuPassBase::MapToCpuPassBase;

  void runOnOperation() override {
    Machine machine{vectorBits ? int64_t(vectorBits) : hostVectorBits()};
    if (machine.vectorBits != 128 && machine.vectorBits != 256 &&
        machine.vectorBits != 512) {
      getOperation().emitError("expected vector-bits of 128, 256 or 512, got ")
          << vectorBits;
      return signalPassFailure();
    }
    for (auto f :
         llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>())) {
      if (f.isExternal())
        continue;
      for (auto [i, nest] : llvm::enumerate(prepareNests(f)))
        if (failed(outline(f, nest, i, machine)))
          return signalPassFailure();
      freeWorkspaces(f);
    }
  }

  LogicalResult outline(func::FuncOp f, NestOp nest, unsigned number,
                        const Machine &machine);
  void freeWorkspaces(func::FuncOp f);
};

LogicalResult MapToCpu::outline(func::FuncOp f, NestOp nest, unsigned number,
                                const Machine &machine) {
  Location loc = nest.getLoc();
  ImplicitLocOpBuilder b(loc, nest);
  Type pointer = LLVM::LLVMPointerType::get(b.getContext()),
       i64 = b.getI64Type();
  auto constant = [&](int64_t v) {
    return arith::ConstantIndexOp::create(b, v);
  };

  // How many items there are.
  unsigned numParallel = nest.getNumParallel();
  SmallVector<Value> counts;
  Value items = constant(1);
  for (unsigned d = 0; d < numParallel; ++d) {
    int64_t step = nest.getSteps()[d];
    Value n = arith::MaxSIOp::create(b, nest.getBounds()[d], constant(0));
    if (step != 1)
      n = arith::DivUIOp::create(
          b, arith::AddIOp::create(b, n, constant(step - 1)), constant(step));
    counts.push_back(n);
    items = arith::MulIOp::create(b, items, n);
  }

  // What the body uses from outside.
  SetVector<Value> captured;
  getUsedValuesDefinedAbove(nest.getBody(), captured);
  SmallVector<Operation *> constants;
  SmallVector<Value> passed(counts);
  SmallVector<Type> fields(counts.size(), i64);
  for (Value v : captured) {
    if (v.getDefiningOp() &&
        v.getDefiningOp()->hasTrait<OpTrait::ConstantLike>()) {
      constants.push_back(v.getDefiningOp());
      continue;
    }
    Type field = taskType(v.getType());
    if (!field)
      return nest.emitOpError("expected memrefs and scalars from outside, got ")
             << v.getType();
    passed.push_back(v);
    fields.push_back(field);
  }
  SmallVector<int32_t> offsets = {0};
  for (Value v : passed)
    offsets.push_back(offsets.back() + taskBytes(v.getType()));
  auto fieldAt = [&](Value task, size_t i) -> Value {
    return LLVM::GEPOp::create(b, pointer, b.getI8Type(), task,
                               ArrayRef<LLVM::GEPArg>{offsets[i]});
  };
  auto cast = [](ImplicitLocOpBuilder &b, Type type, Value v) -> Value {
    if (v.getType() == type)
      return v;
    if (v.getType().isIndex() || type.isIndex())
      return arith::IndexCastOp::create(b, type, v);
    return UnrealizedConversionCastOp::create(b, type, v).getResult(0);
  };

  // The function of one item.
  OpBuilder::InsertPoint launch = b.saveInsertionPoint();
  b.setInsertionPointAfter(f);
  std::string name = (f.getName() + ".nest" + Twine(number)).str();
  auto itemFunc = func::FuncOp::create(
      b, name, b.getFunctionType({pointer, pointer, i64}, {}));
  itemFunc.setPrivate();
  itemFunc.setArgAttr(1, "llvm.noalias", b.getUnitAttr());
  Block *entry = itemFunc.addEntryBlock();
  b.setInsertionPointToStart(entry);
  Value taskArg = entry->getArgument(0), scratch = entry->getArgument(1);
  IRMapping map;
  SmallVector<Value> values;
  for (auto [i, v] : llvm::enumerate(passed)) {
    values.push_back(
        cast(b, v.getType(),
             LLVM::LoadOp::create(b, fields[i], fieldAt(taskArg, i))));
    if (i >= counts.size())
      map.map(v, values.back());
  }
  for (Operation *c : constants)
    b.clone(*c, map);
  Value rest =
      arith::IndexCastOp::create(b, b.getIndexType(), entry->getArgument(2));
  for (unsigned d = numParallel; d-- > 0;) {
    Value i =
        d == 0 ? rest : arith::RemUIOp::create(b, rest, values[d]).getResult();
    if (d != 0)
      rest = arith::DivUIOp::create(b, rest, values[d]);
    map.map(nest.getIv(d),
            arith::MulIOp::create(
                b, i, arith::ConstantIndexOp::create(b, nest.getSteps()[d])));
  }
  auto ret = func::ReturnOp::create(b);
  b.setInsertionPoint(ret);
  int64_t scratchBytes = 0;
  if (failed(
          lowerBody(*nest.getBlock(), b, map, scratch, machine, scratchBytes)))
    return failure();

  // The launch.
  b.restoreInsertionPoint(launch);
  Value taskMemory;
  {
    OpBuilder::InsertionGuard g(b);
    b.setInsertionPointToStart(&f.getBody().front());
    taskMemory = LLVM::AllocaOp::create(
        b, pointer, b.getI8Type(),
        arith::ConstantOp::create(b, b.getI64IntegerAttr(offsets.back())), 8);
  }
  for (auto [i, v] : llvm::enumerate(passed)) {
    LLVM::StoreOp::create(b, cast(b, fields[i], v), fieldAt(taskMemory, i));
  }
  Value function = func::ConstantOp::create(b, itemFunc.getFunctionType(),
                                            FlatSymbolRefAttr::get(itemFunc));
  function =
      UnrealizedConversionCastOp::create(b, pointer, function).getResult(0);
  func::CallOp::create(
      b, getRuntimeFunction(f, kParallelFor, {pointer, pointer, i64, i64}),
      ValueRange{
          function, taskMemory, arith::IndexCastOp::create(b, i64, items),
          arith::ConstantOp::create(b, b.getI64IntegerAttr(scratchBytes))});
  nest.erase();
  return success();
}

/// Workspaces live as long as the call.
void MapToCpu::freeWorkspaces(func::FuncOp f) {
  Block &body = f.getBody().front();
  OpBuilder b(body.getTerminator());
  for (auto alloc : body.getOps<memref::AllocOp>())
    if (llvm::none_of(alloc->getUsers(),
                      [](Operation *u) { return isa<memref::DeallocOp>(u); }))
      memref::DeallocOp::create(b, alloc.getLoc(), alloc);
}

} // namespace
