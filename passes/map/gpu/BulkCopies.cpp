//===- BulkCopies.cpp - fa-gpu-bulk-copies ----------------------------------===//
//
// The copy engine moves whole boxes of an array for the one thread that asks:
// no thread computes addresses, and who waits for a barrier knows that the box
// is there. The host describes the array; what lies past a limit is what lies
// outside of it.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/map/gpu/SharedAccess.h"
#include "passes/nest/Tiles.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace fathom;
using namespace fathom::gpu;

namespace fathom {
#define GEN_PASS_DEF_GPUBULKCOPIESPASS
#include "passes/Passes.h.inc"
} // namespace fathom

namespace {
constexpr StringLiteral kName = "fa-gpu-bulk-copies";

/// A buffer that copies fill, all from one array.
struct Filled {
  AllocOp alloc;
  SmallVector<CopyAsyncOp> copies;
  SmallVector<Operation *> readers;
  /// Of a ring of stages: the loop, and the stage of a round.
  scf::ForOp loop;
  BlockArgument ring;

  TypedValue<SharedType> buffer() { return alloc.getResult(); }
};

/// The stage that `access`, in one of several, touches.
Value stageOf(Value buffer) {
  while (auto flip = buffer.getDefiningOp<FlipOp>())
    buffer = flip.getBuffer();
  auto stage = buffer.getDefiningOp<StageOp>();
  return stage ? stage.getIndex() : Value();
}

/// What the host knows `v` by, if it does: a constant, an argument of the
/// kernel or a size of one.
bool isOfHost(Value v) {
  if (auto arg = dyn_cast<BlockArgument>(v))
    return isa<KernelOp>(arg.getOwner()->getParentOp());
  if (auto dim = v.getDefiningOp<memref::DimOp>())
    return dim.getConstantIndex() && isOfHost(dim.getSource());
  return getConstantIntValue(v).has_value();
}

class Copier {
public:
  explicit Copier(KernelOp kernel) : kernel(kernel) {}

  void run() {
    auto module = kernel->getParentOfType<ModuleOp>();
    module.walk([&](LaunchOp launch) {
      if (launch.getKernel() == kernel.getSymName())
        launches.push_back(launch);
    });
    SmallVector<Filled> all;
    kernel.walk([&](AllocOp alloc) {
      Filled filled{alloc, {}, {}, {}, {}};
      StringRef why = inspect(filled);
      if (filled.copies.empty())
        return;
      if (why.empty())
        all.push_back(filled);
      else
        missed(filled.copies.front(), kName, why);
    });
    // All rings of a loop share the stage and the phase of its round.
    llvm::MapVector<Operation *, SmallVector<Filled *>> rings;
    for (Filled &filled : all)
      if (!filled.loop)
        fillOnce(filled);
      else if (auto &list = rings[filled.loop];
               list.empty() || list.front()->ring == filled.ring)
        list.push_back(&filled);
    for (auto &[loop, list] : rings)
      fillRings(cast<scf::ForOp>(loop), list);
    if (all.empty())
      return;
    passed(kernel, kName,
           Twine(all.size()) +
               (all.size() == 1 ? " buffer is" : " buffers are") +
               " filled with boxes");
    bool others =
        kernel.walk([](CopyAsyncOp) { return WalkResult::interrupt(); })
            .wasInterrupted();
    if (!others)
      kernel.walk([](Operation *op) {
        if (isa<CommitOp, WaitOp>(op))
          op->erase();
      });
  }

private:
  /// Why boxes can't fill the buffer; empty if they can.
  StringRef inspect(Filled &filled) {
    SharedType type = filled.buffer().getType();
    bool others = false;
    for (Operation *user : usersOf(filled.buffer())) {
      if (auto copy = dyn_cast<CopyAsyncOp>(user))
        filled.copies.push_back(copy);
      else if (isa<MmaOp, WgmmaOp, LoadSharedOp>(user))
        filled.readers.push_back(user);
      else
        others = true;
    }
    if (filled.copies.empty())
      return "";
    if (others)
      return "the buffer is written otherwise too";
    if (launches.empty())
      return "no host function launches the kernel";
    if (!swizzled(type))
      return "it is no buffer of 16-bit entries with lines of whole panels of "
             "32 bytes";
    if (filled.readers.empty())
      return "nobody reads the buffer";
    CopyAsyncOp first = filled.copies.front();
    for (CopyAsyncOp copy : filled.copies)
      if (copy.getSource() != first.getSource() ||
          !llvm::equal(copy.getLimits(), first.getLimits()))
        return "copies to the buffer are of several arrays or limits";
    Value source = first.getSource();
    auto array = cast<MemRefType>(source.getType());
    if (array.getRank() < 2 || array.getRank() > 5 || !isOfHost(source))
      return "the array is none of 2 to 5 dims that the host knows";
    if (int64_t a = kernel.getAlignment(source); a == 0 || a % 16)
      return "the array is not known to be aligned to 16 bytes";
    if (!llvm::all_of(first.getLimits(), isOfHost))
      return "a limit is computed in the kernel";
    if (isWrittenIn(kernel, source))
      return "the array is written by the kernel";
    for (LaunchOp launch : launches)
      if (Value v = inLaunch(launch, source);
          !isa<BlockArgument>(v) && !v.getDefiningOp<memref::AllocOp>())
        return "the array is a view of another";
    return type.getStages() == 1 ? inspectOnce(filled) : inspectRing(filled);
  }

  static StringRef inspectOnce(Filled &filled) {
    CopyAsyncOp copy = filled.copies.front();
    Block *block = copy->getBlock();
    bool once =
        filled.copies.size() == 1 && !isa<scf::IfOp>(copy->getParentOp());
    for (Operation *reader : filled.readers) {
      Operation *op = block->findAncestorOpInBlock(*reader);
      once &= op && copy->isBeforeInBlock(op);
    }
    return once ? "" : "the one stage is filled more than once";
  }

  /// A ring as fa-gpu-pipeline-loads makes it: a loop carries the stage that a
  /// round reads; the round fills the one before it, and before the loop all
  /// others are filled in order.
  static StringRef inspectRing(Filled &filled) {
    constexpr StringRef why = "its stages are not filled and read in turn";
    int64_t stages = filled.buffer().getType().getStages();
    for (Operation *reader : filled.readers)
      for (Value v : reader->getOperands()) {
        if (!isa<SharedType>(v.getType()) ||
            allocOf(v).getResult() != filled.buffer())
          continue;
        auto ring = dyn_cast_or_null<BlockArgument>(stageOf(v));
        if (!ring || (filled.ring && ring != filled.ring))
          return why;
        filled.ring = ring;
      }
    filled.loop =
        filled.ring
            ? dyn_cast<scf::ForOp>(filled.ring.getOwner()->getParentOp())
            : scf::ForOp();
    if (!filled.loop || filled.ring == filled.loop.getInductionVar())
      return why;
    unsigned n = filled.ring.getArgNumber() - 1;
    if (getConstantIntValue(filled.loop.getInitArgs()[n]) != 0 ||
        !(ringIndex(filled.loop.getYieldedValues()[n], stages) ==
          RingIndex{filled.ring, 1}))
      return why;
    SmallVector<bool> ahead(stages - 1, false);
    int64_t inLoop = 0;
    for (CopyAsyncOp copy : filled.copies) {
      Value stage = stageOf(copy.getBuffer());
      if (!stage)
        return why;
      if (filled.loop->isProperAncestor(copy)) {
        ++inLoop;
        if (!(ringIndex(stage, stages) == RingIndex{filled.ring, stages - 1}))
          return why;
        continue;
      }
      auto number = getConstantIntValue(stage);
      Operation *op = filled.loop->getBlock()->findAncestorOpInBlock(*copy);
      if (!number || *number < 0 || *number >= stages - 1 || ahead[*number] ||
          !op || !op->isBeforeInBlock(filled.loop))
        return why;
      ahead[*number] = true;
    }
    return inLoop == 1 && llvm::all_of(ahead, [](bool b) { return b; }) ? ""
                                                                        : why;
  }

  /// What the kernel has as `v` in terms of the host.
  static Value inLaunch(LaunchOp launch, Value v) {
    if (auto arg = dyn_cast<BlockArgument>(v))
      return launch.getOperands_()[arg.getArgNumber()];
    OpBuilder b(launch);
    if (auto dim = v.getDefiningOp<memref::DimOp>())
      return memref::DimOp::create(b, v.getLoc(),
                                   inLaunch(launch, dim.getSource()),
                                   *dim.getConstantIndex());
    return arith::ConstantIndexOp::create(b, v.getLoc(),
                                          *getConstantIntValue(v));
  }

  /// The map of the array of `copy` for boxes that fill a buffer of `type`: a
  /// new argument of the kernel, made at each launch.
  Value mapFor(CopyAsyncOp copy, SharedType type) {
    auto array = cast<MemRefType>(copy.getSource().getType());
    int64_t lines = type.getLines(), most = 256;
    while (lines % most)
      most -= 8;
    SmallVector<int64_t> box(array.getRank(), 1);
    box[box.size() - 2] = std::min(lines, most);
    box.back() = type.getSwizzle() / type.getElementBytes();
    auto map = BoxMapType::get(type.getContext(), box, type.getElementType(),
                               type.getSwizzle());
    for (const Map &known : maps)
      if (known.map.getType() == map && known.source == copy.getSource() &&
          llvm::equal(known.limits, copy.getLimits()))
        return known.map;
    for (LaunchOp launch : launches) {
      OpBuilder b(launch);
      Value source = inLaunch(launch, copy.getSource());
      SmallVector<Value> sizes;
      for (int64_t d = 0; d < array.getRank() - 2; ++d)
        sizes.push_back(memref::DimOp::create(b, launch.getLoc(), source, d));
      for (Value limit : copy.getLimits())
        sizes.push_back(inLaunch(launch, limit));
      launch.getOperands_Mutable().append(
          MapBoxesOp::create(b, launch.getLoc(), map, source, sizes)
              .getResult());
    }
    Value arg = kernel.getBody().addArgument(map, copy.getLoc());
    SmallVector<Type> types(kernel.getBody().getArgumentTypes());
    kernel.setFunctionType(FunctionType::get(kernel.getContext(), types, {}));
    SmallVector<int64_t> alignments(kernel.getAlignments());
    alignments.push_back(0);
    kernel.setAlignments(alignments);
    maps.push_back(
        {copy.getSource(), SmallVector<Value>(copy.getLimits()), arg});
    return arg;
  }

  /// Makes all copies to the buffer ones of boxes. Those to the stages of a ring
  /// arrive at the barrier of the stage.
  void convert(Filled &filled, Value barriers) {
    swizzle(filled.buffer());
    for (CopyAsyncOp copy : filled.copies) {
      OpBuilder b(copy);
      Value map = mapFor(copy, copy.getBuffer().getType());
      Value stage = stageOf(copy.getBuffer());
      if (!stage)
        stage = arith::ConstantIndexOp::create(b, copy.getLoc(), 0);
      CopyBoxOp::create(b, copy.getLoc(), map, copy.getIndices(),
                        copy.getBuffer(), barriers, stage);
      copy.erase();
    }
  }

  /// Barriers, made where `block` begins: once a run of it.
  static Value barriersIn(Block *block, int64_t count, Location loc) {
    OpBuilder b = OpBuilder::atBlockBegin(block);
    auto type = MbarriersType::get(b.getContext(), count);
    return MbarriersOp::create(b, loc, type, /*arrivals=*/1, IntegerAttr());
  }

  /// Waits before the first of the readers in `block`.
  static void waitInFront(Filled &filled, Block *block, Value parity,
                          Value barriers, Value index) {
    Operation *first = nullptr;
    for (Operation *reader : filled.readers) {
      Operation *op = block->findAncestorOpInBlock(*reader);
      if (!first || op->isBeforeInBlock(first))
        first = op;
    }
    OpBuilder b(first);
    if (!parity)
      parity = arith::ConstantIntOp::create(b, first->getLoc(), 0, 1);
    if (!index)
      index = arith::ConstantIndexOp::create(b, first->getLoc(), 0);
    WaitPhaseOp::create(b, first->getLoc(), parity, barriers, index);
  }

  void fillOnce(Filled &filled) {
    CopyAsyncOp copy = filled.copies.front();
    Block *block = copy->getBlock();
    Value barriers = barriersIn(block, 1, copy.getLoc());
    waitInFront(filled, block, {}, barriers, {});
    convert(filled, barriers);
  }

  /// `loop` with one more value that it carries, from `init` to `next` of it.
  static scf::ForOp carry(scf::ForOp loop, Value init,
                          function_ref<Value(OpBuilder &, Value)> next) {
    IRRewriter rewriter(loop.getContext());
    rewriter.setInsertionPoint(loop);
    return cast<scf::ForOp>(*loop.replaceWithAdditionalYields(
        rewriter, init, /*replaceInitOperandUsesInLoop=*/false,
        [&](OpBuilder &b, Location, ArrayRef<BlockArgument> args) {
          return SmallVector<Value>{next(b, args[0])};
        }));
  }

  void fillRings(scf::ForOp loop, ArrayRef<Filled *> rings) {
    Location loc = loop.getLoc();
    // Loops around this one carry the phases on. Where there is something else
    // around it, the barriers are made anew instead.
    SmallVector<scf::ForOp> around;
    Block *top = loop->getBlock();
    for (Operation *op = loop->getParentOp(); isa<scf::ForOp>(op);
         op = op->getParentOp()) {
      around.push_back(cast<scf::ForOp>(op));
      top = op->getBlock();
    }
    if (!isa<KernelOp>(top->getParentOp())) {
      around.clear();
      top = loop->getBlock();
    }
    OpBuilder b = OpBuilder::atBlockBegin(top);
    Value phases = arith::ConstantIntOp::create(b, loc, 0, 32);
    for (scf::ForOp &outer : llvm::reverse(around)) {
      outer = carry(outer, phases, [](OpBuilder &, Value v) { return v; });
      phases = outer.getRegionIterArgs().back();
    }
    unsigned number = rings.front()->ring.getArgNumber();
    loop = carry(loop, phases, [&](OpBuilder &in, Value v) {
      auto body = cast<BlockArgument>(v).getOwner();
      return nextPhase(in, loc, v, body->getArgument(number));
    });
    Value result = loop.getResults().back();
    for (scf::ForOp outer : around) {
      Operation *yield = outer.getBody()->getTerminator();
      yield->setOperand(yield->getNumOperands() - 1, result);
      result = outer.getResults().back();
    }
    Value ring = loop.getBody()->getArgument(number);
    b.setInsertionPointToStart(loop.getBody());
    Value parity = phaseOf(b, loc, loop.getRegionIterArgs().back(), ring);
    int64_t stages = rings.front()->buffer().getType().getStages();
    for (Filled *filled : rings) {
      Value barriers = barriersIn(top, stages, loc);
      waitInFront(*filled, loop.getBody(), parity, barriers, ring);
      convert(*filled, barriers);
    }
  }

  KernelOp kernel;
  SmallVector<LaunchOp> launches;
  struct Map {
    Value source;
    SmallVector<Value> limits;
    Value map;
  };
  SmallVector<Map> maps;
};

struct GpuBulkCopiesPass
    : public fathom::impl::GpuBulkCopiesPassBase<GpuBulkCopiesPass> {
  void runOnOperation() override {
    SmallVector<KernelOp> kernels(getOperation().getOps<KernelOp>());
    for (KernelOp kernel : kernels)
      Copier(kernel).run();
  }
};
} // namespace
