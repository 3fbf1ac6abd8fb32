//===- HostPlan.cpp - from a host function to a plan ------------------------===//

#include "codegen/cuda/HostPlan.h"
#include "dialect/gpu/GpuDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fathom;
using namespace fathom::cuda;

static std::optional<Scalar> scalarOf(Type type) {
  if (type.isIndex())
    return Scalar::index;
  if (type.isF16())
    return Scalar::f16;
  if (type.isBF16())
    return Scalar::bf16;
  if (type.isF32())
    return Scalar::f32;
  if (type.isF64())
    return Scalar::f64;
  if (auto integer = dyn_cast<IntegerType>(type))
    switch (integer.getWidth()) {
    case 1:
      return Scalar::i1;
    case 8:
      return Scalar::i8;
    case 16:
      return Scalar::i16;
    case 32:
      return Scalar::i32;
    case 64:
      return Scalar::i64;
    }
  return {};
}

/// The instruction of an op of two integers, if there is one.
static std::optional<Instruction::Op> codeOf(Operation *op) {
  using I = Instruction;
  StringRef name = op->getName().stripDialect();
  if (!isa<arith::ArithDialect>(op->getDialect()))
    return {};
  return llvm::StringSwitch<std::optional<Instruction::Op>>(name)
      .Case("addi", I::addi)
      .Case("subi", I::subi)
      .Case("muli", I::muli)
      .Case("divsi", I::divsi)
      .Case("divui", I::divui)
      .Case("remsi", I::remsi)
      .Case("remui", I::remui)
      .Case("ceildivsi", I::ceildivsi)
      .Case("floordivsi", I::floordivsi)
      .Case("minsi", I::minsi)
      .Case("maxsi", I::maxsi)
      .Case("minui", I::minui)
      .Case("maxui", I::maxui)
      .Case("andi", I::andi)
      .Case("ori", I::ori)
      .Case("xori", I::xori)
      .Case("shli", I::shli)
      .Case("shrsi", I::shrsi)
      .Case("shrui", I::shrui)
      .Default(std::nullopt);
}

namespace {
class PlanMaker {
public:
  PlanMaker(func::FuncOp function, ArrayRef<std::string> kernels)
      : function(function), kernels(kernels) {}

  llvm::Expected<Plan> make();

private:
  LogicalResult visit(Operation *op);
  LogicalResult allocate(memref::AllocOp op);
  LogicalResult mapBoxes(gpu::MapBoxesOp op);
  LogicalResult launch(gpu::LaunchOp op);
  LogicalResult fail(Operation *op, const llvm::Twine &message) {
    if (error.empty())
      error = "host function @" + function.getSymName().str() + ": " +
              op->getName().getStringRef().str() + ": " + message.str();
    return failure();
  }

  int add(Instruction instruction) {
    instruction.dst = plan.registers++;
    plan.code.push_back(instruction);
    return instruction.dst;
  }
  int constant(int64_t value) {
    Instruction i;
    i.op = Instruction::constant;
    i.imm = value;
    return add(i);
  }
  /// The register of an integer; scalar arguments are fetched when needed.
  int registerOf(Value v);
  int argumentOf(Value v) {
    auto arg = dyn_cast<BlockArgument>(v);
    return arg ? int(arg.getArgNumber()) : -1;
  }

  func::FuncOp function;
  ArrayRef<std::string> kernels;
  Plan plan;
  std::string error;
  DenseMap<Value, int> registers, workspaces, maps;
};
} // namespace

int PlanMaker::registerOf(Value v) {
  if (auto it = registers.find(v); it != registers.end())
    return it->second;
  Instruction i;
  i.op = Instruction::scalar;
  i.a = argumentOf(v);
  return registers[v] = add(i);
}

LogicalResult PlanMaker::allocate(memref::AllocOp op) {
  Workspace workspace;
  MemRefType type = op.getType();
  auto scalar = scalarOf(type.getElementType());
  if (!scalar || !type.getLayout().isIdentity())
    return fail(op, "expected a dense array of numbers");
  workspace.type = *scalar;
  auto size = op.getDynamicSizes().begin();
  for (int64_t d : type.getShape()) {
    Workspace::Dim dim;
    if (ShapedType::isDynamic(d))
      dim.reg = registerOf(*size++);
    else
      dim.size = d;
    workspace.dims.push_back(dim);
  }
  int number = plan.workspaces.size();
  workspaces[op.getResult()] = number;
  plan.workspaces.push_back(workspace);
  Instruction i;
  i.op = Instruction::allocate;
  i.a = number;
  plan.code.push_back(i);
  return success();
}

LogicalResult PlanMaker::mapBoxes(gpu::MapBoxesOp op) {
  BoxMap map;
  map.array = argumentOf(op.getSource());
  if (map.array < 0) {
    auto w = workspaces.find(op.getSource());
    if (w == workspaces.end())
      return fail(op, "expected an array that is an argument or allocated");
    map.ofWorkspace = true;
    map.array = w->second;
  }
  for (Value size : op.getSizes())
    map.sizes.push_back({registerOf(size), 0});
  auto type = op.getResult().getType();
  map.box.assign(type.getBox().begin(), type.getBox().end());
  map.swizzle = type.getSwizzle();
  maps[op.getResult()] = plan.maps.size();
  plan.maps.push_back(map);
  return success();
}

LogicalResult PlanMaker::launch(gpu::LaunchOp op) {
  Launch launch;
  auto it = llvm::find(kernels, op.getKernel());
  if (it == kernels.end())
    return fail(op, "expected a kernel of this module, got @" + op.getKernel());
  launch.kernel = it - kernels.begin();
  launch.grid = registerOf(op.getGrid());
  for (Value v : op.getOperands_()) {
    Parameter p;
    if (isa<gpu::BoxMapType>(v.getType())) {
      auto map = maps.find(v);
      if (map == maps.end())
        return fail(op, "expected a map that is made here");
      p.kind = Parameter::map;
      p.index = map->second;
      launch.parameters.push_back(p);
      continue;
    }
    Type element = getElementTypeOrSelf(v.getType());
    auto type = scalarOf(element);
    if (!type)
      return fail(op, "expected numbers and arrays of numbers");
    p.type = *type;
    if (auto transpose = v.getDefiningOp<memref::TransposeOp>()) {
      for (unsigned d = 0; d < transpose.getPermutation().getNumResults(); ++d)
        p.order.push_back(transpose.getPermutation().getDimPosition(d));
      v = transpose.getIn();
    }
    if (int argument = argumentOf(v); argument >= 0) {
      p.kind = Parameter::argument;
      p.index = argument;
    } else if (isa<MemRefType>(v.getType())) {
      auto w = workspaces.find(v);
      if (w == workspaces.end())
        return fail(op, "expected arrays that are arguments or allocated here");
      p.kind = Parameter::workspace;
      p.index = w->second;
    } else if (element.isIntOrIndex()) {
      p.kind = Parameter::value;
      p.index = registerOf(v);
    } else {
      return fail(op, "expected floats to be arguments of the function");
    }
    launch.parameters.push_back(p);
  }
  Instruction i;
  i.op = Instruction::launch;
  i.a = plan.launches.size();
  plan.launches.push_back(launch);
  plan.code.push_back(i);
  return success();
}

LogicalResult PlanMaker::visit(Operation *op) {
  if (auto alloc = dyn_cast<memref::AllocOp>(op))
    return allocate(alloc);
  if (auto map = dyn_cast<gpu::MapBoxesOp>(op))
    return mapBoxes(map);
  if (auto l = dyn_cast<gpu::LaunchOp>(op))
    return launch(l);
  if (auto clear = dyn_cast<gpu::ClearOp>(op)) {
    auto w = workspaces.find(clear.getBuffer());
    if (w == workspaces.end())
      return fail(op, "expected a workspace that is allocated here");
    Instruction i;
    i.op = Instruction::clear;
    i.a = w->second;
    plan.code.push_back(i);
    return success();
  }
  if (auto ret = dyn_cast<func::ReturnOp>(op)) {
    for (Value v : ret.getOperands())
      plan.results.push_back(registerOf(v));
    return success();
  }
  if (isa<TickOp, memref::DeallocOp>(op))
    return success();
  if (isa<memref::TransposeOp>(op)) // launches take arrays in another order
    return success();
  if (op->getNumResults() != 1 || !op->getResult(0).getType().isIntOrIndex())
    return fail(op, "expected an op that a plan has");
  int &result = registers[op->getResult(0)];
  if (auto c = dyn_cast<arith::ConstantOp>(op)) {
    auto value = cast<IntegerAttr>(c.getValue()).getValue();
    result = constant(value.getBitWidth() == 1 ? value.getZExtValue()
                                               : value.getSExtValue());
    return success();
  }
  if (auto dim = dyn_cast<memref::DimOp>(op)) {
    auto d = dim.getConstantIndex();
    int argument = argumentOf(dim.getSource());
    if (!d)
      return fail(op, "expected a constant dim");
    if (argument < 0) { // an allocation states its sizes
      auto w = workspaces.find(dim.getSource());
      if (w == workspaces.end())
        return fail(op, "expected an array that is an argument or allocated");
      const Workspace::Dim &size = plan.workspaces[w->second].dims[*d];
      result = size.reg >= 0 ? size.reg : constant(size.size);
      return success();
    }
    Instruction i;
    i.op = Instruction::dim;
    i.a = argument;
    i.imm = *d;
    result = add(i);
    return success();
  }
  // Reading operands may grow the map.
  Instruction i;
  auto operand = [&](int n) { return registerOf(op->getOperand(n)); };
  if (auto cmp = dyn_cast<arith::CmpIOp>(op)) {
    i.op = Instruction::cmp;
    i.a = operand(0), i.b = operand(1);
    i.imm = int64_t(cmp.getPredicate());
  } else if (isa<arith::SelectOp>(op)) {
    i.op = Instruction::select;
    i.c = operand(0), i.a = operand(1), i.b = operand(2);
  } else if (auto code = codeOf(op)) {
    i.op = *code;
    i.a = operand(0), i.b = operand(1);
  } else if (isa<arith::IndexCastOp, arith::IndexCastUIOp, arith::ExtUIOp,
                 arith::ExtSIOp>(op)) {
    if (isa<arith::ExtSIOp>(op) && op->getOperand(0).getType().isInteger(1))
      return fail(op, "expected a type of more than one bit");
    registers[op->getResult(0)] = operand(0);
    return success();
  } else {
    return fail(op, "expected an op that a plan has");
  }
  registers[op->getResult(0)] = add(i);
  return success();
}

llvm::Expected<Plan> PlanMaker::make() {
  plan.name = function.getSymName();
  for (BlockArgument arg : function.getArguments()) {
    Argument argument;
    auto scalar = scalarOf(getElementTypeOrSelf(arg.getType()));
    if (!scalar)
      return llvm::createStringError("host function @" + plan.name +
                                     ": expected arguments that are numbers "
                                     "or arrays of numbers");
    argument.type = *scalar;
    if (auto memref = dyn_cast<MemRefType>(arg.getType()))
      argument.rank = memref.getRank();
    plan.arguments.push_back(argument);
  }
  if (!function.getBody().hasOneBlock())
    return llvm::createStringError("host function @" + plan.name +
                                   ": expected one block");
  for (Operation &op : function.getBody().front())
    if (failed(visit(&op)))
      return llvm::createStringError(error);
  return std::move(plan);
}

llvm::Expected<Plan> cuda::makePlan(func::FuncOp function,
                                    ArrayRef<std::string> kernels) {
  return PlanMaker(function, kernels).make();
}
