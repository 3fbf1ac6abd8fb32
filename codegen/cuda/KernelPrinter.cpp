//===- KernelPrinter.cpp - a kernel as CUDA text ----------------------------===//
//
// The frame of a file, control flow, and elementwise work: neighbouring ops on
// tiles of one layout share a loop.
//
//===----------------------------------------------------------------------===//

#include "codegen/cuda/KernelPrinter.h"
#include "codegen/cuda/DeviceHeader.h"
#include "codegen/cuda/Printer.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fathom;
using namespace fathom::cuda;

//===----------------------------------------------------------------------===//
// Text and names
//===----------------------------------------------------------------------===//

static std::string identifier(StringRef text) {
  std::string name;
  for (char c : text)
    name += llvm::isAlnum(c) ? c : '_';
  if (name.empty() || llvm::isDigit(name[0]))
    name = "v" + name;
  return name;
}

std::string cuda::kernelName(StringRef symbol) { return identifier(symbol); }

void Printer::unrolled(int64_t count, int64_t step, StringRef statement) {
  line("#pragma unroll");
  line("for (int r = 0; r < {}; {})", count,
       step == 1 ? "++r" : fmt::format("r += {}", step));
  indent += 2;
  line("{}", statement.str());
  indent -= 2;
}

void Printer::openUnrolled(int64_t count, int64_t step, R r) {
  line("#pragma unroll");
  open("for (int {0} = 0; {0} < {1}; {2}) {{", r.str(), count,
       step == 1 ? "++" + r.str() : fmt::format("{} += {}", r.str(), step));
}

LogicalResult Printer::fail(Operation *op, const llvm::Twine &message) {
  if (error.empty())
    error = "kernel @" + kernel.getSymName().str() + ": " +
            op->getName().getStringRef().str() + ": " + message.str();
  return failure();
}

std::string Printer::fresh(StringRef base) {
  std::string name = identifier(base);
  for (int n = 2; !taken.insert(name).second; ++n)
    name = fmt::format("{}{}{}", identifier(base),
                       llvm::isDigit(base.back()) ? "_" : "", n);
  return name;
}

std::string Printer::hint(Value v) {
  if (auto loc = v.getLoc()->findInstanceOf<NameLoc>())
    if (!loc.getName().empty())
      return identifier(loc.getName().getValue());
  Operation *op = v.getDefiningOp();
  if (!op)
    return "x";
  if (auto load = dyn_cast<LoadOp>(op))
    return nameOf(load.getBuffer()) + "_tile";
  if (auto gather = dyn_cast<GatherOp>(op))
    return nameOf(gather.getBuffer()) + "_at";
  if (auto load = dyn_cast<memref::LoadOp>(op))
    return nameOf(load.getMemRef()) + "_value";
  if (auto dim = dyn_cast<memref::DimOp>(op))
    return nameOf(dim.getSource()) + "_size";
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return (stringifyReduceKind(reduce.getKind()) + "_of").str();
  if (isa<gpu::AllocOp, gpu::StageOp>(op))
    return "shared";
  StringRef name = op->getName().stripDialect();
  return llvm::StringSwitch<std::string>(name)
      .Cases({"andi", "ori", "xori", "cmpi", "cmpf"}, "is")
      .Cases({"truncf", "extf", "convert"}, "cast")
      .Cases({"index_cast", "trunci", "extsi", "extui"}, "n")
      .Cases({"for", "if"}, "x")
      .Cases({"load_shared", "load_diagonals"}, "tile")
      .Case("block_id", "block")
      .Case("claim", "item")
      .Case("partial_sum", "part")
      .Cases({"mma", "wgmma"}, "acc")
      .Cases({"addi", "addf"}, "sum")
      .Cases({"subi", "subf"}, "diff")
      .Cases({"muli", "mulf"}, "prod")
      .Cases({"divf", "divui", "divsi"}, "quot")
      .Default(name.str());
}

std::string Printer::declare(Value v) { return names[v] = fresh(hint(v)); }

void Printer::comment(Operation *op) {
  std::string text;
  auto add = [&](Value v) {
    std::string name = isa<RankedTensorType>(v.getType()) && isInline(v)
                           ? v.getDefiningOp()->getName().stripDialect().str()
                           : scalar(v);
    text += (text.empty() ? " " : ", ") + name;
  };
  for (Value v : op->getOperands())
    add(v);
  std::string shape;
  Type type;
  for (Value v : op->getOperands())
    if (isa<RankedTensorType, gpu::SharedType>(v.getType()) && !type)
      type = v.getType();
  if (op->getNumResults())
    type = op->getResult(0).getType();
  llvm::raw_string_ostream os(shape);
  if (auto tile = dyn_cast_or_null<RankedTensorType>(type)) {
    os << " : ";
    llvm::interleave(tile.getShape(), os, "x");
    os << "x" << tile.getElementType();
  } else if (auto shared = dyn_cast_or_null<gpu::SharedType>(type)) {
    os << " : ";
    llvm::interleave(shared.getShape(), os, "x");
    os << "x" << shared.getElementType();
  }
  line("// {}{}{}", op->getName().getStringRef().str(), text, shape);
}

//===----------------------------------------------------------------------===//
// Variables
//===----------------------------------------------------------------------===//

std::string Printer::declareVariable(Value v) {
  std::string name = declare(v);
  if (auto tile = dyn_cast<RankedTensorType>(v.getType())) {
    int64_t n = gpu::layoutOf(tile).getNumRegisters();
    line("{} {}[{}];", registerType(tile.getElementType()), name,
         isHalf(tile.getElementType()) ? llvm::divideCeil(n, 2) : n);
  } else {
    line("{} {};", cType(v.getType()), name);
  }
  return name;
}

void Printer::assign(StringRef target, Value v) {
  if (!isa<RankedTensorType>(v.getType())) {
    if (scalar(v) != target)
      line("{} = {};", target.str(), bare(scalar(v)).str());
    return;
  }
  if (nameOf(v) == target)
    return;
  int64_t n = gpu::layoutOf(v).getNumRegisters();
  if (isHalf(getElementTypeOrSelf(v)))
    unrolled(n, 2, fmt::format("{}[r / 2] = {};", target.str(), word(v, "r")));
  else
    unrolled(
        n, 1,
        fmt::format("{}[r] = {};", target.str(), bare(entry(v, "r")).str()));
}

void Printer::assignAll(ArrayRef<std::string> targets, ValueRange values) {
  // What is overwritten before it is read must be kept.
  SmallVector<bool> changes;
  for (auto [target, value] : llvm::zip(targets, values))
    changes.push_back(nameOf(value) != target);
  for (auto [i, value] : llvm::enumerate(values)) {
    llvm::StringSet<> read;
    roots(value, read);
    bool lost = false;
    for (size_t j = 0; j < targets.size(); ++j)
      lost |= j != i && changes[j] && read.contains(targets[j]);
    if (!lost)
      continue;
    std::string kept = fresh("kept");
    if (auto tile = dyn_cast<RankedTensorType>(value.getType())) {
      int64_t n = gpu::layoutOf(tile).getNumRegisters();
      line("{} {}[{}];", registerType(tile.getElementType()), kept,
           isHalf(tile.getElementType()) ? llvm::divideCeil(n, 2) : n);
      assign(kept, value);
    } else {
      line("const {} {} = {};", cType(value.getType()), kept,
           bare(scalar(value)).str());
    }
    names[value] = kept;
  }
  for (auto [target, value] : llvm::zip(targets, values))
    assign(target, value);
}

std::string Printer::arrayOf(Value tile) {
  if (std::string name = nameOf(tile); !name.empty())
    return name;
  if (auto transpose = tile.getDefiningOp<TransposeOp>())
    return arrayOf(transpose.getTile());
  auto type = cast<RankedTensorType>(tile.getType());
  int64_t n = gpu::layoutOf(tile).getNumRegisters();
  std::string name = fresh(hint(tile));
  line("{} {}[{}];", registerType(type.getElementType()), name,
       isHalf(type.getElementType()) ? llvm::divideCeil(n, 2) : n);
  assign(name, tile);
  return name; // where it is declared may not be seen from other uses
}

//===----------------------------------------------------------------------===//
// Elementwise work
//===----------------------------------------------------------------------===//

/// An op of arith or math on tiles whose result is no 16-bit float.
static bool joinsGroups(Operation *op) {
  return isElementwise(op) && !isHalf(getElementTypeOrSelf(op->getResult(0)));
}

static bool isScalarArithmetic(Operation *op) {
  return isa<arith::ArithDialect, math::MathDialect>(op->getDialect()) &&
         op->getNumResults() == 1 && !isTile(op->getResult(0));
}

LogicalResult Printer::group(Block::iterator &it) {
  gpu::ThreadLayoutAttr layout = gpu::layoutOf(it->getResult(0));
  SmallVector<Operation *> members;
  llvm::DenseSet<Operation *> inside;
  for (Operation *end = it->getBlock()->getTerminator(); &*it != end; ++it) {
    if (joinsGroups(&*it) && gpu::layoutOf(it->getResult(0)) == layout) {
      members.push_back(&*it);
      inside.insert(&*it);
    } else if (isScalarArithmetic(&*it)) {
      if (failed(scalarOp(&*it)))
        return failure();
    } else if (!isa<arith::ConstantOp, BroadcastOp, IotaOp, gpu::ThreadOffsetOp,
                    gpu::RegisterOffsetOp>(*it)) {
      break;
    }
  }
  // What only the group reads is a scalar for each r; what others read too is
  // an array, unless it is so cheap that they compute it.
  auto isIn = [&](Operation *user) { return inside.contains(user); };
  SmallVector<Operation *> printed;
  for (Operation *op : members) {
    Value v = op->getResult(0);
    bool read = llvm::any_of(v.getUsers(), isIn);
    bool leaves = !llvm::all_of(v.getUsers(), isIn) && !isInline(v);
    if (!read && !leaves)
      continue;
    printed.push_back(op);
    if (leaves)
      (void)declareVariable(v);
  }
  if (printed.empty())
    return success();
  std::string r = "r";
  auto value = [&](Operation *op) -> std::string {
    if (std::string text = comparison32(op, r); !text.empty())
      return bare(text).str();
    SmallVector<std::string> args;
    for (Value operand : op->getOperands())
      args.push_back(entry(operand, r));
    return bare(expression(op, args)).str();
  };
  for (Operation *op : printed)
    if (expression(op, SmallVector<std::string>(op->getNumOperands(), "x"))
            .empty())
      return fail(op, "expected an op that has a form in CUDA");
  int64_t n = layout.getNumRegisters();
  if (printed.size() == 1) {
    Value v = printed[0]->getResult(0);
    if (!nameOf(v).empty())
      unrolled(n, 1, fmt::format("{}[r] = {};", nameOf(v), value(printed[0])));
    return success();
  }
  openUnrolled(n);
  SmallVector<Value> temporaries;
  for (Operation *op : printed) {
    Value v = op->getResult(0);
    if (std::string array = nameOf(v); !array.empty()) {
      line("{}[r] = {};", array, value(op));
      continue;
    }
    std::string name = fresh(hint(v));
    line("const {} {} = {};", cType(getElementTypeOrSelf(v)), name, value(op));
    names[v] = name + "*";
    temporaries.push_back(v);
  }
  close();
  for (Value v : temporaries)
    names.erase(v);
  return success();
}

LogicalResult Printer::halfOp(Operation *op) {
  SmallVector<std::string> args(op->getNumOperands(), "x");
  if (expression(op, args).empty())
    return fail(op, "expected an op that has a form in CUDA");
  Value v = op->getResult(0);
  int64_t n = gpu::layoutOf(v).getNumRegisters();
  std::string words = word(v, "r"); // before v has a name
  std::string name = declareVariable(v);
  unrolled(n, 2, fmt::format("{}[r / 2] = {};", name, words));
  return success();
}

LogicalResult Printer::scalarOp(Operation *op) {
  Value v = op->getResult(0);
  if (auto constant = dyn_cast<arith::ConstantOp>(op))
    return literal(constant.getValue()).empty() ? fail(op, "expected a number")
                                                : success();
  std::string type = cType(v.getType());
  SmallVector<std::string> args;
  for (Value operand : op->getOperands())
    args.push_back(scalarExpression(operand));
  std::string text = bare(expression(op, args)).str();
  if (text.empty() || type.empty())
    return fail(op, "expected an op that has a form in CUDA");
  if (isHalf(v.getType()))
    text = "fa::convert<" + type + ">(" + text + ")";
  std::string name = declare(v);
  line("const {} {} = {};", type, name, text);
  return success();
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

LogicalResult Printer::forOp(Operation *op) {
  auto loop = cast<scf::ForOp>(op);
  SmallVector<std::string> targets;
  for (auto [arg, init, result] : llvm::zip(
           loop.getRegionIterArgs(), loop.getInitArgs(), loop.getResults())) {
    Value yielded = loop.getYieldedValues()[arg.getArgNumber() - 1];
    bool named = bool(arg.getLoc()->findInstanceOf<NameLoc>());
    Value calledLike = named || yielded == arg ? Value(arg) : yielded;
    std::string name = fresh(hint(calledLike));
    names[arg] = name;
    names[result] = name;
    if (auto tile = dyn_cast<RankedTensorType>(arg.getType())) {
      int64_t n = gpu::layoutOf(tile).getNumRegisters();
      line("{} {}[{}];", registerType(tile.getElementType()), name,
           isHalf(tile.getElementType()) ? llvm::divideCeil(n, 2) : n);
      assign(name, init);
    } else {
      line("{} {} = {};", cType(arg.getType()), name, bare(scalar(init)).str());
    }
    targets.push_back(name);
  }
  Value iv = loop.getInductionVar();
  std::string i =
      fresh(iv.getLoc()->findInstanceOf<NameLoc>() ? hint(iv) : "i");
  names[iv] = i;
  std::string step = scalar(loop.getStep());
  line("#pragma unroll 1");
  open("for ({0} {1} = {2}; {1} < {3}; {4}) {{", cType(iv.getType()), i,
       bare(scalar(loop.getLowerBound())).str(), scalar(loop.getUpperBound()),
       step == "1" ? "++" + i : i + " += " + step);
  if (failed(block(*loop.getBody())))
    return failure();
  assignAll(targets, loop.getYieldedValues());
  close();
  return success();
}

LogicalResult Printer::ifOp(Operation *op) {
  auto branch = cast<scf::IfOp>(op);
  SmallVector<std::string> targets;
  for (Value result : branch.getResults())
    targets.push_back(declareVariable(result));
  open("if ({}) {{", bare(scalar(branch.getCondition())).str());
  if (failed(block(*branch.thenBlock())))
    return failure();
  assignAll(targets, branch.thenYield().getResults());
  if (branch.elseBlock() && (branch.elseBlock()->getOperations().size() > 1 ||
                             branch.getNumResults())) {
    indent -= 2;
    open("}} else {{");
    if (failed(block(*branch.elseBlock())))
      return failure();
    assignAll(targets, branch.elseYield().getResults());
  }
  close();
  return success();
}

LogicalResult Printer::roles(Operation *op) {
  auto roles = cast<gpu::RolesOp>(op);
  constexpr int64_t kRegisters = 65536;
  // What a thread of the CTA starts with.
  int64_t each = kRegisters / (kernel.getNumWarps() * gpu::kWarp) / 8 * 8;
  int64_t first = 0;
  comment(op);
  for (auto [r, region] : llvm::enumerate(roles.getRoles())) {
    int64_t warps = roles.getWarps()[r], registers = roles.getRegisters()[r];
    bool last = r + 1 == roles.getRoles().size();
    if (r)
      indent -= 2;
    open("{}{}{{", r ? "} else " : "",
         last ? "" : fmt::format("if (warp < {}) ", first + warps));
    if (registers && registers != each)
      line("fa::{}_registers<{}>();", registers < each ? "give" : "take",
           registers);
    barrierText =
        fmt::format("fa::named_barrier({}, {});", r + 1, warps * gpu::kWarp);
    singleThread = r > 0;
    if (singleThread)
      open("if (fa::thread_id() == {}) {{", first * gpu::kWarp);
    if (failed(block(region.front())))
      return failure();
    if (singleThread)
      close();
    first += warps;
  }
  close();
  return success();
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

LogicalResult Printer::block(Block &block) {
  for (Block::iterator it = block.begin(); &*it != block.getTerminator();)
    if (failed(next(it)))
      return failure();
  return success();
}

LogicalResult Printer::next(Block::iterator &it) {
  Operation *op = &*it;
  for (Value v : op->getResults()) {
    Type type = getElementTypeOrSelf(v.getType());
    if (!isa<gpu::SharedType, gpu::MbarriersType>(v.getType()) &&
        cType(type).empty())
      return fail(op, "expected a type that CUDA has");
    if (isTile(v) && !gpu::layoutOf(v))
      return fail(op, "expected tiles with a layout");
    if (auto c = dyn_cast<arith::ConstantOp>(op);
        c && literal(c.getValue()).empty())
      return fail(op, "expected the same number in all entries");
  }
  if (joinsGroups(op))
    return group(it);
  ++it;
  return print(op);
}

LogicalResult Printer::print(Operation *op) {
  if (isScalarArithmetic(op))
    return scalarOp(op);
  if (isa<arith::ConstantOp, IotaOp, BroadcastOp, TransposeOp,
          gpu::ThreadOffsetOp, gpu::RegisterOffsetOp>(op))
    return success();
  if (isa<arith::ArithDialect, math::MathDialect>(op->getDialect()))
    return halfOp(op);
  auto text = [&](const std::string &t) {
    line("{}", t);
    return success();
  };
  auto value = [&](Value v, const std::string &t) {
    std::string name = declare(v);
    line("const {} {} = {};", cType(v.getType()), name, t);
    return success();
  };
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case<scf::ForOp>([&](auto o) { return forOp(o); })
      .Case<scf::IfOp>([&](auto o) { return ifOp(o); })
      .Case<LoadOp>([&](auto o) { return load(o); })
      .Case<StoreOp>([&](auto o) { return store(o); })
      .Case<AccumulateOp>([&](auto o) { return accumulate(o); })
      .Case<GatherOp>([&](auto o) { return gather(o); })
      .Case<ScatterAddOp>([&](auto o) { return scatterAdd(o); })
      .Case<ReduceOp>([&](auto o) { return reduce(o); })
      .Case<gpu::PartialSumOp>([&](auto o) { return partialSum(o); })
      .Case<TickOp>([&](TickOp o) {
        counts = true;
        line("fa::tick(fa_counters + {});", o.getId() % 64);
        return success();
      })
      .Case<memref::DimOp>([&](memref::DimOp o) -> LogicalResult {
        auto index = o.getConstantIndex();
        if (!index)
          return fail(o, "expected a constant dim");
        return value(o,
                     fmt::format("{}.size[{}]", nameOf(o.getSource()), *index));
      })
      .Case<memref::LoadOp>([&](memref::LoadOp o) {
        return value(o, fmt::format("fa::load_global({})",
                                    pointer(o.getMemRef(), o.getIndices())));
      })
      .Case<memref::StoreOp>([&](memref::StoreOp o) {
        return text(fmt::format("if (fa::thread_id() == 0) "
                                "fa::store_global({}, {});",
                                pointer(o.getMemRef(), o.getIndices()),
                                scalar(o.getValueToStore())));
      })
      .Case<gpu::BlockIdOp>([&](auto o) { return value(o, "fa::block_id()"); })
      .Case<gpu::ClaimOp>([&](auto o) { return claim(o); })
      .Case<gpu::AllocOp>([&](auto o) { return alloc(o); })
      .Case<gpu::StageOp>([&](auto o) { return stage(o); })
      .Case<gpu::FlipOp>([&](gpu::FlipOp o) {
        names[o.getResult()] = nameOf(o.getBuffer());
        return success();
      })
      .Case<gpu::StoreSharedOp>([&](auto o) { return storeShared(o); })
      .Case<gpu::LoadSharedOp>([&](auto o) { return loadShared(o); })
      .Case<gpu::LoadDiagonalsOp>([&](auto o) { return loadDiagonals(o); })
      .Case<gpu::ConvertOp>([&](gpu::ConvertOp o) -> LogicalResult {
        if (o.getTile().getType() != o.getType())
          return fail(o, "expected the tile's own layout, since "
                         "fa-gpu-lower-converts goes first");
        names[o.getResult()] = arrayOf(o.getTile());
        return success();
      })
      .Case<gpu::RelabelOp>([&](gpu::RelabelOp o) {
        names[o.getResult()] = arrayOf(o.getTile());
        return success();
      })
      .Case<gpu::CopyAsyncOp>([&](auto o) { return copyAsync(o); })
      .Case<gpu::CommitOp>([&](auto) { return text("fa::cp_async_commit();"); })
      .Case<gpu::WaitOp>([&](gpu::WaitOp o) {
        return text(fmt::format("fa::cp_async_wait<{}>();", o.getPending()));
      })
      .Case<gpu::BarrierOp>([&](auto) { return text(barrierText); })
      .Case<gpu::RolesOp>([&](auto o) { return roles(o); })
      .Case<gpu::MbarriersOp>([&](auto o) { return mbarriers(o); })
      .Case<gpu::CopyBoxOp>([&](auto o) { return copyBox(o); })
      .Case<gpu::WaitPhaseOp>([&](gpu::WaitPhaseOp o) {
        return text(fmt::format("fa::mbarrier_wait({}, {});",
                                mbarrierPlace(o.getBarriers(), o.getIndex()),
                                scalar(o.getParity())));
      })
      .Case<gpu::ArriveOp>([&](gpu::ArriveOp o) {
        (void)text("fa::warp_barrier();");
        return text(fmt::format("if (lane == 0) fa::mbarrier_arrive({});",
                                mbarrierPlace(o.getBarriers(), o.getIndex())));
      })
      .Case<gpu::WaitTurnOp>([&](auto o) { return waitTurn(o); })
      .Case<gpu::EndTurnOp>([&](auto o) { return endTurn(o); })
      .Case<gpu::MmaOp>([&](auto o) { return mma(o); })
      .Case<gpu::WgmmaOp>([&](auto o) { return wgmma(o); })
      .Case<gpu::WgmmaWaitOp>([&](auto o) { return wgmmaWait(o); })
      .Case<gpu::FenceAsyncOp>([&](auto) {
        line("fa::fence_async();");
        return success();
      })
      .Default([&](Operation *o) {
        return fail(o, "expected an op that has a form in CUDA");
      });
}

//===----------------------------------------------------------------------===//
// The file
//===----------------------------------------------------------------------===//

llvm::Expected<Kernel> Printer::print() {
  // Words of C++, and what the frame declares.
  for (StringRef word :
       {"fa",       "lane",     "warp",      "r",        "float",   "double",
        "int",      "long",     "short",     "char",     "bool",    "unsigned",
        "signed",   "const",    "for",       "if",       "else",    "while",
        "do",       "return",   "and",       "or",       "not",     "xor",
        "exp",      "log",      "new",       "delete",   "this",    "true",
        "false",    "auto",     "void",      "struct",   "class",   "operator",
        "template", "union",    "switch",    "case",     "default", "break",
        "continue", "goto",     "static",    "inline",   "extern",  "min",
        "max",      "volatile", "register",  "typename", "using",   "namespace",
        "public",   "private",  "protected", "friend",   "try",     "catch",
        "throw",    "sizeof"})
    taken.insert(word);
  taken.insert(kernelName(kernel.getSymName()));

  std::string parameters;
  for (auto [i, arg] : llvm::enumerate(kernel.getBody().getArguments())) {
    bool named = bool(arg.getLoc()->findInstanceOf<NameLoc>());
    std::string name = names[arg] =
        fresh(named ? hint(arg) : fmt::format("arg{}", i));
    std::string type;
    if (auto memref = dyn_cast<MemRefType>(arg.getType())) {
      type = fmt::format("fa::Buffer<{}, {}>", cType(memref.getElementType()),
                         memref.getRank());
      if (cType(memref.getElementType()).empty())
        type = "";
    } else if (isa<gpu::BoxMapType>(arg.getType())) {
      type = "const FA_IN_PLACE fa::TensorMap";
    } else {
      type = cType(arg.getType());
    }
    if (type.empty()) {
      (void)fail(kernel, "expected arguments of types that CUDA has");
      return llvm::createStringError(error);
    }
    parameters += (i ? ", " : "") + type + " " + name;
  }

  // Buffers that have no place yet stand one after the other.
  sharedBytes = kernel.getSharedBytes();
  auto place = [&](Value v, int64_t bytes, int64_t alignment) {
    sharedBytes = llvm::alignTo(sharedBytes, alignment);
    places[v] = sharedBytes;
    sharedBytes += bytes;
  };
  kernel.getBody().walk([&](Operation *op) {
    if (auto alloc = dyn_cast<gpu::AllocOp>(op); alloc && !alloc.getOffset())
      place(alloc.getResult(), alloc.getResult().getType().getBytes(),
            alloc.getResult().getType().getAlignment());
    if (auto make = dyn_cast<gpu::MbarriersOp>(op); make && !make.getOffset())
      place(make.getResult(), make.getResult().getType().getBytes(), 8);
  });
  if (failed(block(kernel.getBody().front())))
    return llvm::createStringError(error);

  Kernel result;
  result.name = kernelName(kernel.getSymName());
  result.threads = kernel.getNumWarps() * gpu::kWarp;
  result.sharedBytes = sharedBytes;
  result.source = fmt::format(
      "// {} ({} threads, {} bytes of shared memory)\n"
      "// Made by Fathom from @{}.\n"
      "#ifdef FATHOM_EMULATION\n#include \"emulation.h\"\n#else\n",
      result.name, result.threads, sharedBytes, kernel.getSymName().str());
  result.source += deviceHeader();
  for (auto &[name, text] : wgmmas)
    result.source += text;
  result.source +=
      fmt::format("#endif\n\n{}FA_KERNEL({}, {})\nvoid {}({}) {{\n"
                  "  [[maybe_unused]] const int lane = fa::lane_id(), warp = "
                  "fa::warp_id();\n{}{}}}\n",
                  counts ? "FA_COUNTERS\n" : "", result.threads,
                  kernel.getMinBlocks(), result.name, parameters, tops, body);
  return result;
}

llvm::Expected<Kernel> cuda::printKernel(gpu::KernelOp kernel) {
  return Printer(kernel).print();
}
