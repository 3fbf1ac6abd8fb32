//===- Count.cpp - what a tiled function does, in numbers -----------------===//
//
// A small interpreter: it runs the index arithmetic and the control flow of a
// function and, in place of work on tiles, counts. Loops of which nothing but
// the clipping of edge tiles depends run twice, for all iterations but the
// last and for the last, so that counting costs blocks, not tiles.
//
//===----------------------------------------------------------------------===//

#include "passes/analysis/Count.h"

#include "dialect/FADialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/ViewLikeInterface.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace fathom;

namespace {
using Number = std::optional<int64_t>;

int64_t bytesOf(Type t) {
  return t.isIndex() ? 8 : llvm::divideCeil(t.getIntOrFloatBitWidth(), 8);
}

/// Product that sticks at the largest value.
int64_t times(int64_t a, int64_t b) {
  return llvm::SaturatingMultiply((uint64_t)a, (uint64_t)b) > INT64_MAX
             ? INT64_MAX
             : a * b;
}

std::string str(Type t) {
  std::string s;
  llvm::raw_string_ostream(s) << t;
  return s;
}

class Counter {
public:
  Counter(func::FuncOp func, const ProblemSize &size) : func(func) {
    bind(size);
  }

  LogicalResult run() { return runBlock(func.getBody().front(), 1); }
  FunctionCount take();
  Number get(Value v) const {
    auto it = env.find(v);
    return it == env.end() ? Number() : it->second;
  }

private:
  struct Access {
    BufferCount count;
    SmallVector<int64_t> extents;
    llvm::SmallSetVector<int64_t, 4> writers, readers;
  };

  void bind(const ProblemSize &size);
  LogicalResult runBlock(Block &block, int64_t n);
  LogicalResult runOp(Operation &op, int64_t n);
  LogicalResult runFor(scf::ForOp loop, int64_t n);
  LogicalResult runIf(scf::IfOp op, int64_t n);
  LogicalResult runNestDim(NestOp nest, unsigned dim, int64_t n);
  /// Runs `body` for the values of an induction variable.
  LogicalResult runRange(Value iv, ValueRange carried, int64_t lower,
                         int64_t upper, int64_t step, int64_t n,
                         function_ref<LogicalResult(int64_t)> body);
  bool steersControl(ValueRange seeds);

  Number evaluate(Operation &op) const;
  void defineMemory(Operation &op);
  void set(Value v, Number n) {
    if (n)
      env[v] = *n;
    else
      env.erase(v);
  }

  Access &access(Value buffer);
  void touch(Value buffer, int64_t bytes, bool read, bool write);
  void tileAccess(Value buffer, RankedTensorType tile, ValueRange indices,
                  ValueRange limits, int64_t n, bool read, bool write);

  func::FuncOp func;
  DenseMap<Value, int64_t> env;
  DenseMap<Value, SmallVector<Number>> sizes;
  DenseMap<Value, Value> roots;
  /// Buffers of which entry i is i times the number (cumulative lengths).
  DenseMap<Value, int64_t> ramps;
  DenseMap<Value, bool> steers;
  llvm::MapVector<Value, Access> accesses;
  llvm::MapVector<Operation *, DotCount> dots;
  SmallVector<std::string> nestNames;
  int64_t held = 0, workspace = 0;
  bool upperBound = false;
  std::optional<int64_t> forwardNests;
};
} // namespace

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

/// Every function on the nest level starts with q, k, v and the packing. The
/// dims of captured buffers are not known; they get the extents of the scores.
void Counter::bind(const ProblemSize &size) {
  auto args = func.getArguments();
  auto memref = [&](unsigned i) {
    return i < args.size() ? dyn_cast<MemRefType>(args[i].getType())
                           : MemRefType();
  };
  auto scalar = [&](unsigned i) {
    return i < args.size() && args[i].getType().isIndex();
  };
  auto lengths = [&](unsigned i) {
    MemRefType t = memref(i);
    return t && t.getRank() == 1 && t.getElementType().isInteger(32);
  };
  bool packed = lengths(3) && lengths(4) && scalar(5) && scalar(6);
  int64_t b = packed ? 1 : size.batch;
  int64_t sq = packed ? times(size.batch, size.seqlenQ) : size.seqlenQ;
  int64_t sk = packed ? times(size.batch, size.seqlenK) : size.seqlenK;
  for (auto [i, arg] : llvm::enumerate(args)) {
    auto type = dyn_cast<MemRefType>(arg.getType());
    if (!type)
      continue;
    bool key = i == 1 || i == 2;
    SmallVector<int64_t> guess = {b, key ? size.kvHeads : size.heads,
                                  key ? sk : sq, sk};
    if (type.getRank() == 1)
      guess = {size.heads};
    else if (type.getRank() == 2)
      guess = {sq, sk};
    guess.resize(std::max<size_t>(guess.size(), type.getRank()), 1);
    SmallVector<Number> &dims = sizes[arg];
    for (int64_t d = 0; d < type.getRank(); ++d)
      dims.push_back(type.isDynamicDim(d) ? guess[d] : type.getDimSize(d));
  }
  if (!packed)
    return;
  for (unsigned i : {3, 4}) {
    if (memref(i).isDynamicDim(0))
      sizes[args[i]] = {size.batch + 1};
    ramps[args[i]] = i == 3 ? size.seqlenQ : size.seqlenK;
  }
  env[args[5]] = size.seqlenQ;
  env[args[6]] = size.seqlenK;
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

LogicalResult Counter::runBlock(Block &block, int64_t n) {
  for (Operation &op : block)
    if (failed(runOp(op, n)))
      return failure();
  return success();
}

/// Whether a loop bound or a branch hangs on one of `seeds`.
bool Counter::steersControl(ValueRange seeds) {
  auto [it, isNew] = steers.try_emplace(seeds.front(), false);
  if (!isNew)
    return it->second;
  llvm::SetVector<Value> slice(seeds.begin(), seeds.end());
  auto add = [&](Value v) {
    if (v.getType().isIntOrIndex())
      slice.insert(v);
  };
  for (size_t i = 0; i < slice.size(); ++i) {
    for (OpOperand &use : slice[i].getUses()) {
      Operation *user = use.getOwner();
      unsigned number = use.getOperandNumber();
      if ((isa<scf::ForOp>(user) && number < 3) || isa<scf::IfOp>(user) ||
          isa<ViewLikeOpInterface>(user))
        return steers[seeds.front()] = true;
      if (auto loop = dyn_cast<scf::ForOp>(user))
        add(loop.getRegionIterArgs()[number - 3]);
      else if (auto yield = dyn_cast<scf::YieldOp>(user)) {
        add(yield->getParentOp()->getResult(number));
        if (auto parent = dyn_cast<scf::ForOp>(yield->getParentOp()))
          add(parent.getRegionIterArgs()[number]);
      }
      for (Value r : user->getResults())
        if (!isa<scf::ForOp>(user))
          add(r);
    }
  }
  return false;
}

LogicalResult Counter::runRange(Value iv, ValueRange carried, int64_t lower,
                                int64_t upper, int64_t step, int64_t n,
                                function_ref<LogicalResult(int64_t)> body) {
  int64_t trips =
      upper > lower ? llvm::divideCeil((uint64_t)(upper - lower), step) : 0;
  SmallVector<Value> seeds = {iv};
  llvm::append_range(seeds, carried);
  if (steersControl(seeds)) {
    for (int64_t t = 0; t < trips; ++t) {
      env[iv] = lower + t * step;
      if (failed(body(n)))
        return failure();
    }
    return success();
  }
  if (trips > 1) {
    env[iv] = lower;
    if (failed(body(times(n, trips - 1))))
      return failure();
  }
  if (trips == 0)
    return success();
  for (Value v : carried)
    env.erase(v);
  env[iv] = lower + (trips - 1) * step;
  return body(n);
}

LogicalResult Counter::runFor(scf::ForOp loop, int64_t n) {
  Number lower = get(loop.getLowerBound()), upper = get(loop.getUpperBound()),
         step = get(loop.getStep());
  if (!lower || !upper || !step || *step < 1)
    return loop.emitOpError(
        "expected bounds that follow from the problem size, "
        "cannot count its trips");
  for (auto [arg, init] :
       llvm::zip(loop.getRegionIterArgs(), loop.getInitArgs()))
    set(arg, get(init));
  SmallVector<Value> carried;
  for (Value arg : loop.getRegionIterArgs())
    if (arg.getType().isIntOrIndex())
      carried.push_back(arg);
  SmallVector<Number> last(loop.getNumResults());
  for (auto [l, init] : llvm::zip(last, loop.getInitArgs()))
    l = get(init);
  auto body = [&](int64_t m) {
    if (failed(runBlock(*loop.getBody(), m)))
      return failure();
    for (auto [l, v] : llvm::zip(last, loop.getYieldedValues()))
      l = get(v);
    for (auto [arg, l] : llvm::zip(loop.getRegionIterArgs(), last))
      set(arg, l);
    return success();
  };
  if (failed(runRange(loop.getInductionVar(), carried, *lower, *upper, *step, n,
                      body)))
    return failure();
  for (auto [r, l] : llvm::zip(loop.getResults(), last))
    set(r, l);
  return success();
}

static int64_t weigh(Region &region) {
  int64_t weight = 0;
  region.walk([&](DotOp dot) {
    auto a = cast<RankedTensorType>(dot.getA().getType());
    weight += a.getNumElements() *
              cast<RankedTensorType>(dot.getAcc().getType()).getDimSize(1);
  });
  return weight;
}

LogicalResult Counter::runIf(scf::IfOp op, int64_t n) {
  Number cond = get(op.getCondition());
  if (!cond) {
    int64_t then = weigh(op.getThenRegion()), other = weigh(op.getElseRegion());
    upperBound |= then != other;
    cond = then >= other;
  }
  Region &side = *cond ? op.getThenRegion() : op.getElseRegion();
  if (side.empty())
    return success();
  if (failed(runBlock(side.front(), n)))
    return failure();
  for (auto [r, v] :
       llvm::zip(op.getResults(), side.front().getTerminator()->getOperands()))
    set(r, get(v));
  return success();
}

LogicalResult Counter::runNestDim(NestOp nest, unsigned dim, int64_t n) {
  if (dim == nest.getNumDims())
    return runBlock(*nest.getBlock(), n);
  Number bound = get(nest.getBounds()[dim]);
  if (!bound)
    return nest.emitOpError(
               "expected bounds that follow from the problem size, cannot "
               "count the trips of dim ")
           << dim;
  return runRange(nest.getIv(dim), {}, 0, *bound, nest.getSteps()[dim], n,
                  [&](int64_t m) { return runNestDim(nest, dim + 1, m); });
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

/// The value of a scalar integer op, where it follows from known ones.
Number Counter::evaluate(Operation &op) const {
  auto binary = [&](auto fn) -> Number {
    Number a = get(op.getOperand(0)), b = get(op.getOperand(1));
    return a && b ? fn(*a, *b) : Number();
  };
  auto checked = [&](bool (*overflows)(int64_t, int64_t, int64_t *)) {
    return binary([&](int64_t a, int64_t b) -> Number {
      int64_t r;
      return overflows(a, b, &r) ? Number() : Number(r);
    });
  };
  auto divide = [&](auto fn) {
    return binary([&](int64_t a, int64_t b) {
      return b == 0 || (b == -1 && a == INT64_MIN) ? Number()
                                                   : Number(fn(a, b));
    });
  };
  using A = int64_t;
  return llvm::TypeSwitch<Operation *, Number>(&op)
      .Case([&](arith::ConstantOp c) -> Number {
        auto v = dyn_cast<IntegerAttr>(c.getValue());
        if (!v || v.getValue().getSignificantBits() > 64)
          return {};
        return v.getType().isInteger(1) ? v.getValue().getZExtValue()
                                        : v.getValue().getSExtValue();
      })
      .Case([&](arith::AddIOp) {
        return checked(
            [](A a, A b, A *r) { return (bool)llvm::AddOverflow(a, b, *r); });
      })
      .Case([&](arith::SubIOp) {
        return checked(
            [](A a, A b, A *r) { return (bool)llvm::SubOverflow(a, b, *r); });
      })
      .Case([&](arith::MulIOp) {
        return checked(
            [](A a, A b, A *r) { return (bool)llvm::MulOverflow(a, b, *r); });
      })
      .Case<arith::DivSIOp, arith::DivUIOp>(
          [&](auto) { return divide([](A a, A b) { return a / b; }); })
      .Case<arith::CeilDivSIOp, arith::CeilDivUIOp>([&](auto) {
        return divide([](A a, A b) { return llvm::divideCeilSigned(a, b); });
      })
      .Case([&](arith::FloorDivSIOp) {
        return divide([](A a, A b) { return llvm::divideFloorSigned(a, b); });
      })
      .Case<arith::RemSIOp, arith::RemUIOp>(
          [&](auto) { return divide([](A a, A b) { return a % b; }); })
      .Case<arith::MaxSIOp, arith::MaxUIOp>(
          [&](auto) { return binary([](A a, A b) { return std::max(a, b); }); })
      .Case<arith::MinSIOp, arith::MinUIOp>(
          [&](auto) { return binary([](A a, A b) { return std::min(a, b); }); })
      .Case([&](arith::AndIOp) -> Number {
        Number a = get(op.getOperand(0)), b = get(op.getOperand(1));
        if ((a && *a == 0) || (b && *b == 0))
          return 0;
        return a && b ? Number(*a & *b) : Number();
      })
      .Case([&](arith::OrIOp) -> Number {
        Number a = get(op.getOperand(0)), b = get(op.getOperand(1));
        bool isBool = op.getResult(0).getType().isInteger(1);
        if (isBool && ((a && *a) || (b && *b)))
          return 1;
        return a && b ? Number(*a | *b) : Number();
      })
      .Case(
          [&](arith::XOrIOp) { return binary([](A a, A b) { return a ^ b; }); })
      .Case([&](arith::CmpIOp c) {
        return binary([&](A a, A b) -> Number {
          return arith::applyCmpPredicate(c.getPredicate(), APInt(64, a, true),
                                          APInt(64, b, true));
        });
      })
      .Case([&](arith::SelectOp s) -> Number {
        Number c = get(s.getCondition());
        return c ? get(*c ? s.getTrueValue() : s.getFalseValue()) : Number();
      })
      .Case<arith::IndexCastOp, arith::IndexCastUIOp, arith::ExtSIOp,
            arith::ExtUIOp, arith::TruncIOp>(
          [&](auto) { return get(op.getOperand(0)); })
      .Case([&](memref::DimOp d) -> Number {
        Number i = get(d.getIndex());
        auto it = sizes.find(d.getSource());
        if (!i || it == sizes.end() || *i < 0 ||
            *i >= (int64_t)it->second.size())
          return {};
        return it->second[*i];
      })
      .Case([&](memref::LoadOp l) -> Number {
        auto it = ramps.find(l.getMemRef());
        Number i = it != ramps.end() ? get(l.getIndices().front()) : Number();
        return i ? Number(*i * it->second) : Number();
      })
      .Default([](Operation *) { return Number(); });
}

/// Records the sizes of the memref that `op` makes, and which buffer it views.
void Counter::defineMemory(Operation &op) {
  auto dims = [&](Value v, OperandRange dynamic) {
    SmallVector<Number> &s = sizes[v];
    s.clear();
    for (int64_t d : cast<MemRefType>(v.getType()).getShape()) {
      if (ShapedType::isDynamic(d)) {
        s.push_back(dynamic.empty() ? Number() : get(dynamic.front()));
        dynamic = dynamic.drop_front(!dynamic.empty());
      } else {
        s.push_back(d);
      }
    }
  };
  if (auto alloc = dyn_cast<memref::AllocOp>(op))
    return dims(alloc.getMemref(), alloc.getDynamicSizes());
  if (auto alloc = dyn_cast<memref::AllocaOp>(op))
    return dims(alloc.getMemref(), alloc.getDynamicSizes());
  if (auto transpose = dyn_cast<memref::TransposeOp>(op)) {
    Value source = transpose.getIn();
    auto it = roots.find(source);
    roots[transpose.getResult()] = it == roots.end() ? source : it->second;
    SmallVector<Number> same = sizes[source], exchanged;
    for (unsigned d = 0; d < same.size(); ++d)
      exchanged.push_back(same[transpose.getPermutation().getDimPosition(d)]);
    sizes[transpose.getResult()] = exchanged;
    return;
  }
  auto view = dyn_cast<ViewLikeOpInterface>(op);
  if (!view || op.getNumResults() != 1)
    return;
  Value result = op.getResult(0), source = view.getViewSource();
  auto it = roots.find(source);
  roots[result] = it == roots.end() ? source : it->second;
  if (auto sub = dyn_cast<memref::SubViewOp>(op)) {
    SmallVector<Number> all;
    for (OpFoldResult s : sub.getMixedSizes()) {
      if (auto attr = dyn_cast<Attribute>(s))
        all.push_back(cast<IntegerAttr>(attr).getInt());
      else
        all.push_back(get(cast<Value>(s)));
    }
    SmallVector<Number> kept;
    llvm::SmallBitVector dropped = sub.getDroppedDims();
    for (auto [d, n] : llvm::enumerate(all))
      if (!dropped.test(d))
        kept.push_back(n);
    sizes[result] = kept;
  } else if (isa<memref::CastOp>(op)) {
    SmallVector<Number> same = sizes[source];
    sizes[result] = same;
  } else if (isa<MemRefType>(result.getType())) {
    dims(result, op.getOperands().take_front(0));
  }
}

Counter::Access &Counter::access(Value buffer) {
  auto it = roots.find(buffer);
  Value root = it == roots.end() ? buffer : it->second;
  Access &a = accesses[root];
  if (a.count.elementType.empty())
    a.count.elementType =
        str(cast<MemRefType>(root.getType()).getElementType());
  return a;
}

void Counter::touch(Value buffer, int64_t bytes, bool read, bool write) {
  Access &a = access(buffer);
  int64_t nest = (int64_t)nestNames.size() - 1;
  if (read) {
    a.count.read += bytes;
    a.readers.insert(nest);
  }
  if (write) {
    a.count.written += bytes;
    a.writers.insert(nest);
  }
}

void Counter::tileAccess(Value buffer, RankedTensorType tile,
                         ValueRange indices, ValueRange limits, int64_t n,
                         bool read, bool write) {
  auto type = cast<MemRefType>(buffer.getType());
  int64_t entries = 1, lead = type.getRank() - tile.getRank();
  SmallVector<int64_t> extents(type.getRank(), 0);
  for (int64_t d = 0; d < type.getRank(); ++d) {
    Number i = get(indices[d]);
    if (d < lead) {
      extents[d] = i ? *i + 1 : 0;
      continue;
    }
    Number end = get(limits[d - lead]);
    int64_t size = tile.getDimSize(d - lead);
    extents[d] = end.value_or(0);
    entries *= i && end ? std::clamp<int64_t>(*end - *i, 0, size) : size;
  }
  if (entries == 0)
    return;
  touch(buffer, times(n, entries * bytesOf(type.getElementType())), read,
        write);
  Access &a = access(buffer);
  if (!roots.contains(buffer)) {
    a.extents.resize(type.getRank(), 0);
    for (auto [seen, e] : llvm::zip(a.extents, extents))
      seen = std::max(seen, e);
  }
  a.count.square |= tile.getRank() == 2 && tile.getDimSize(0) > 1 &&
                    tile.getDimSize(1) > 1 && type.isDynamicDim(lead) &&
                    type.isDynamicDim(lead + 1);
}

LogicalResult Counter::runOp(Operation &op, int64_t n) {
  auto tile = [](Value v) { return cast<RankedTensorType>(v.getType()); };
  auto entries = [&](Value buffer, Value t) {
    return times(
        n, tile(t).getNumElements() *
               bytesOf(cast<MemRefType>(buffer.getType()).getElementType()));
  };
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return runFor(loop, n);
  if (auto branch = dyn_cast<scf::IfOp>(op))
    return runIf(branch, n);
  if (isa<scf::WhileOp>(op))
    return op.emitOpError("expected loops with bounds, cannot count its trips");
  if (auto nest = dyn_cast<NestOp>(op)) {
    auto label = nest.getLabel();
    nestNames.push_back(label ? label->str()
                              : "nest " + std::to_string(nestNames.size()));
    return runNestDim(nest, 0, n);
  }

  if (auto dot = dyn_cast<DotOp>(op)) {
    RankedTensorType a = tile(dot.getA()), c = tile(dot.getAcc());
    DotCount &count = dots[&op];
    count.nest = nestNames.empty() ? "" : nestNames.back();
    count.m = c.getDimSize(0), count.n = c.getDimSize(1),
    count.k = a.getDimSize(1);
    count.type = str(a.getElementType());
    count.times += n;
  } else if (auto load = dyn_cast<LoadOp>(op)) {
    tileAccess(load.getBuffer(), tile(load.getTile()), load.getIndices(),
               load.getLimits(), n, true, false);
  } else if (auto store = dyn_cast<StoreOp>(op)) {
    tileAccess(store.getBuffer(), tile(store.getTile()), store.getIndices(),
               store.getLimits(), n, false, true);
  } else if (auto acc = dyn_cast<AccumulateOp>(op)) {
    tileAccess(acc.getBuffer(), tile(acc.getTile()), acc.getIndices(),
               acc.getLimits(), n, true, true);
  } else if (auto gather = dyn_cast<GatherOp>(op)) {
    touch(gather.getBuffer(), entries(gather.getBuffer(), gather.getResult()),
          true, false);
  } else if (auto scatter = dyn_cast<ScatterAddOp>(op)) {
    touch(scatter.getBuffer(), entries(scatter.getBuffer(), scatter.getTile()),
          true, true);
  } else if (auto load = dyn_cast<memref::LoadOp>(op)) {
    touch(load.getMemRef(), times(n, bytesOf(load.getType())), true, false);
  } else if (auto store = dyn_cast<memref::StoreOp>(op)) {
    touch(store.getMemRef(), times(n, bytesOf(store.getValue().getType())),
          false, true);
  } else if (isa<ForwardEndOp>(op)) {
    forwardNests = nestNames.size();
  } else if (auto dealloc = dyn_cast<memref::DeallocOp>(op)) {
    held -= access(dealloc.getMemref()).count.bytes;
  }

  defineMemory(op);
  if (auto alloc = dyn_cast<memref::AllocOp>(op)) {
    Access &a = access(alloc.getMemref());
    a.count.bytes = bytesOf(alloc.getType().getElementType());
    a.count.sizes.clear();
    for (Number d : sizes[alloc.getMemref()]) {
      if (!d || *d < 0)
        return alloc.emitOpError(
            "expected sizes that follow from the problem size");
      a.count.sizes.push_back(*d);
      a.count.bytes = times(a.count.bytes, *d);
    }
    held += a.count.bytes;
    workspace = std::max(workspace, held);
  }
  if (op.getNumResults() == 1 && op.getResult(0).getType().isIntOrIndex()) {
    Number value = evaluate(op);
    // A bound that memory can only tighten: what is known of it counts.
    if (!value && isa<arith::MinSIOp, arith::MaxSIOp>(op)) {
      Number a = get(op.getOperand(0));
      value = a ? a : get(op.getOperand(1));
      upperBound |= value.has_value();
    }
    set(op.getResult(0), value);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

FunctionCount Counter::take() {
  FunctionCount f;
  f.name = func.getName().str();
  f.workspace = workspace;
  f.upperBound = upperBound;
  f.forwardNests = forwardNests;
  for (auto &[op, dot] : dots)
    f.dots.push_back(dot);
  unsigned allocs = 0;
  for (auto &[buffer, a] : accesses) {
    BufferCount &c = a.count;
    auto name = [&](int64_t n) {
      return n < 0 ? std::string("function") : nestNames[n];
    };
    for (int64_t w : a.writers)
      c.writers.push_back(name(w));
    for (int64_t r : a.readers)
      c.readers.push_back(name(r));
    if (!a.writers.empty())
      c.firstWriter = *llvm::min_element(a.writers);
    if (!a.readers.empty())
      c.lastReader = *llvm::max_element(a.readers);
    if (auto arg = dyn_cast<BlockArgument>(buffer)) {
      c.argument = arg.getArgNumber();
      c.name = "arg" + std::to_string(arg.getArgNumber());
      // What was touched says more than the guess for captured buffers.
      auto type = cast<MemRefType>(buffer.getType());
      c.bytes = bytesOf(type.getElementType());
      for (int64_t d = 0; d < type.getRank(); ++d) {
        int64_t seen = d < (int64_t)a.extents.size() ? a.extents[d] : 0;
        int64_t bound = sizes[buffer][d].value_or(1);
        c.sizes.push_back(seen && type.isDynamicDim(d) ? seen : bound);
        c.bytes = times(c.bytes, c.sizes.back());
      }
    } else {
      c.allocation = allocs++;
      c.name = "alloc" + std::to_string(c.allocation);
    }
    f.buffers.push_back(c);
  }
  // Arguments first, then allocations, each in their order.
  auto key = [&](const BufferCount &b) {
    return std::pair(b.argument.value_or(func.getNumArguments()), b.allocation);
  };
  llvm::sort(f.buffers, [&](auto &a, auto &b) { return key(a) < key(b); });
  return f;
}

double FunctionCount::flops() const {
  double sum = 0;
  for (const DotCount &d : dots)
    sum += d.flops();
  return sum;
}
int64_t FunctionCount::bytesRead() const {
  int64_t sum = 0;
  for (const BufferCount &b : buffers)
    sum += b.read;
  return sum;
}
int64_t FunctionCount::bytesWritten() const {
  int64_t sum = 0;
  for (const BufferCount &b : buffers)
    sum += b.written;
  return sum;
}
int64_t FunctionCount::bytesOnce() const {
  int64_t sum = 0;
  for (const BufferCount &b : buffers)
    sum += std::min(b.read, b.bytes) + std::min(b.written, b.bytes);
  return sum;
}

FailureOr<FunctionCount> fathom::countFunction(func::FuncOp func,
                                               const ProblemSize &size) {
  Counter counter(func, size);
  if (failed(counter.run()))
    return failure();
  return counter.take();
}

FailureOr<SmallVector<int64_t>>
fathom::evaluateResults(func::FuncOp func, const ProblemSize &size) {
  Counter counter(func, size);
  if (failed(counter.run()))
    return failure();
  SmallVector<int64_t> values;
  for (Value v : func.getBody().front().getTerminator()->getOperands()) {
    Number n = counter.get(v);
    if (!n)
      return func.emitOpError(
          "expected results that follow from the problem size");
    values.push_back(*n);
  }
  return values;
}
