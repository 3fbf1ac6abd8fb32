//===- GpuOps.cpp - verifiers and syntax of fa_gpu ops ----------------------===//
//
// A layout that does not fit, a factor that no instruction takes, or a buffer
// read as another shape fails here, before a GPU could be asked.
//
//===----------------------------------------------------------------------===//

#include "dialect/gpu/GpuDialect.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/FunctionImplementation.h"

using namespace mlir;
using namespace fathom;
using namespace fathom::gpu;

#define GET_OP_CLASSES
#include "dialect/gpu/GpuOps.cpp.inc"

using Effects =
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>;

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// Warps that a multiprocessor of any GPU in question holds.
constexpr int64_t kMaxWarps = 64;

ParseResult KernelOp::parse(OpAsmParser &p, OperationState &s) {
  Builder &b = p.getBuilder();
  StringAttr name;
  SmallVector<OpAsmParser::Argument> args;
  int64_t warps = 0, blocks = 1;
  SmallVector<int64_t> alignments;
  auto number = [&](StringRef key, int64_t &n) -> ParseResult {
    return failure(p.parseKeyword(key) || p.parseLParen() ||
                   p.parseInteger(n) || p.parseRParen());
  };
  if (p.parseSymbolName(name, "sym_name", s.attributes) ||
      p.parseArgumentList(args, OpAsmParser::Delimiter::Paren,
                          /*allowType=*/true) ||
      number("num_warps", warps) || number("min_blocks", blocks) ||
      p.parseKeyword("alignments") || p.parseLParen() ||
      p.parseCommaSeparatedList(
          AsmParser::Delimiter::Square,
          [&] { return p.parseInteger(alignments.emplace_back()); }) ||
      p.parseRParen() || p.parseOptionalAttrDictWithKeyword(s.attributes))
    return failure();
  SmallVector<Type> types;
  for (auto &a : args)
    types.push_back(a.type);
  s.addAttribute("function_type", TypeAttr::get(b.getFunctionType(types, {})));
  s.addAttribute("num_warps", b.getI64IntegerAttr(warps));
  s.addAttribute("min_blocks", b.getI64IntegerAttr(blocks));
  s.addAttribute("alignments", b.getDenseI64ArrayAttr(alignments));
  Region *body = s.addRegion();
  if (p.parseRegion(*body, args))
    return failure();
  ensureTerminator(*body, b, s.location);
  return success();
}

void KernelOp::print(OpAsmPrinter &p) {
  p << " ";
  p.printSymbolName(getSymName());
  p << "(";
  llvm::interleaveComma(getBody().getArguments(), p,
                        [&](BlockArgument a) { p.printRegionArgument(a); });
  p << ") num_warps(" << getNumWarps() << ") min_blocks(" << getMinBlocks()
    << ") alignments([";
  llvm::interleaveComma(getAlignments(), p);
  p << "])";
  p.printOptionalAttrDictWithKeyword(
      (*this)->getAttrs(),
      {"sym_name", "function_type", "num_warps", "min_blocks", "alignments"});
  p << " ";
  p.printRegion(getBody(), /*printEntryBlockArgs=*/false,
                /*printBlockTerminators=*/true);
}

int64_t KernelOp::getAlignment(Value buffer) {
  auto arg = dyn_cast<BlockArgument>(buffer);
  return arg && arg.getOwner() == &getBody().front()
             ? getAlignments()[arg.getArgNumber()]
             : 0;
}

int64_t KernelOp::getSharedBytes() {
  int64_t bytes = 0;
  getBody().walk([&](Operation *op) {
    if (auto alloc = dyn_cast<AllocOp>(op)) {
      if (auto at = alloc.getOffset())
        bytes = std::max<int64_t>(bytes,
                                  *at + alloc.getResult().getType().getBytes());
    } else if (auto barriers = dyn_cast<MbarriersOp>(op)) {
      if (auto at = barriers.getOffset())
        bytes = std::max<int64_t>(
            bytes, *at + barriers.getResult().getType().getBytes());
    }
  });
  return bytes;
}

/// Layouts where an op of the nest level ties those of its tiles together in
/// another way than by equal types.
static LogicalResult verifyLayouts(Operation *op, int64_t warps) {
  SmallVector<Value> values(op->getOperands());
  llvm::append_range(values, op->getResults());
  for (Value v : values) {
    auto tile = dyn_cast<RankedTensorType>(v.getType());
    if (!tile)
      continue;
    ThreadLayoutAttr l = layoutOf(tile);
    if (!l)
      return op->emitOpError("expected tiles with a layout in a kernel, got ")
             << tile;
    if (l.getNumWarps() != warps)
      return op->emitOpError("expected layouts of ")
             << warps << " warps, as the kernel or the role has, got "
             << l.getNumWarps();
  }
  if (auto reduce = dyn_cast<ReduceOp>(op)) {
    ThreadLayoutAttr have = layoutOf(reduce.getTile());
    for (auto m : ThreadLayoutAttr::modes(have.getWarps()))
      if (m.dim == int64_t(reduce.getDim()))
        return op->emitOpError("expected whole lines along dim ")
               << reduce.getDim() << " in each warp, got " << have
               << "; convert the tile first";
    if (ThreadLayoutAttr l = layoutOf(reduce.getResult()))
      if (l != have.sliced(reduce.getDim()))
        return op->emitOpError("expected the result to have the operand's "
                               "layout without dim ")
               << reduce.getDim();
  }
  if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
    if (ThreadLayoutAttr l = layoutOf(broadcast.getSource()))
      if (l != layoutOf(broadcast.getResult()).sliced(1 - broadcast.getDim()))
        return op->emitOpError("expected the operand to have the result's "
                               "layout without dim ")
               << 1 - broadcast.getDim();
  }
  if (auto transpose = dyn_cast<TransposeOp>(op))
    if (layoutOf(transpose.getTile()).transposed() !=
        layoutOf(transpose.getResult()))
      return op->emitOpError("expected the result to have the operand's "
                             "layout with the dims exchanged");
  auto acc = dyn_cast<AccumulateOp>(op);
  if (isa<DotOp, NestOp, PassTurnOp, ForwardEndOp, LaunchOp, ClearOp, RequireOp,
          MapBoxesOp>(op) ||
      (acc && acc.getMode() == AccumulateMode::ordered))
    return op->emitOpError("expected no op of this kind in a kernel");
  return success();
}

/// Copies end where a wait covers their group: each is followed by a commit
/// before anything waits.
static LogicalResult verifyCopies(KernelOp kernel) {
  CopyAsyncOp open;
  WalkResult result = kernel.getBody().walk([&](Operation *op) {
    if (auto copy = dyn_cast<CopyAsyncOp>(op))
      open = copy;
    else if (isa<CommitOp>(op))
      open = {};
    else if (open && isa<WaitOp>(op))
      return WalkResult::interrupt();
    return WalkResult::advance();
  });
  if (!open)
    return success();
  return open.emitOpError("expected a fa_gpu.commit after it")
         << (result.wasInterrupted() ? " and before the next fa_gpu.wait" : "");
}

/// Sums of products under way go to a wait, to another product's acc, or round
/// a loop.
static LogicalResult verifyInFlight(KernelOp kernel) {
  SmallVector<Value> all;
  llvm::DenseSet<Value> seen;
  auto add = [&](Value v) {
    if (seen.insert(v).second)
      all.push_back(v);
  };
  kernel.getBody().walk([&](WgmmaOp op) { add(op.getResult()); });
  for (size_t i = 0; i < all.size(); ++i)
    for (OpOperand &use : all[i].getUses()) {
      Operation *op = use.getOwner();
      unsigned n = use.getOperandNumber();
      auto product = dyn_cast<WgmmaOp>(op);
      if (isa<WgmmaWaitOp>(op) || (product && &use == &product.getAccMutable()))
        continue;
      auto loop = dyn_cast<scf::ForOp>(op);
      if (isa<scf::YieldOp>(op)) {
        loop = dyn_cast<scf::ForOp>(op->getParentOp());
        if (!loop && isa<scf::IfOp>(op->getParentOp())) {
          add(op->getParentOp()->getResult(n));
          continue;
        }
      } else if (loop && n >= loop.getNumControlOperands()) {
        n -= loop.getNumControlOperands();
      } else {
        loop = {};
      }
      if (!loop)
        return op->emitOpError("expected no sum of a product under way, got "
                               "operand ")
               << n << "; wait for it first";
      add(loop.getResult(n));
      add(loop.getRegionIterArg(n));
    }
  return success();
}

LogicalResult KernelOp::verify() {
  if (getNumWarps() < 1 || getNumWarps() > 32)
    return emitOpError("expected 1 to 32 warps, got ") << getNumWarps();
  if (getMinBlocks() < 1)
    return emitOpError("expected min_blocks of at least 1, got ")
           << getMinBlocks();
  if (getNumWarps() * getMinBlocks() > kMaxWarps)
    return emitOpError("expected num_warps times min_blocks of at most ")
           << kMaxWarps << ", what a multiprocessor holds, got "
           << getNumWarps() << " and " << getMinBlocks();
  if (getAlignments().size() != getNumArguments())
    return emitOpError("expected one alignment per argument, ")
           << getNumArguments() << ", got " << getAlignments().size();
  for (int64_t a : getAlignments())
    if (a < 0 || (a && !llvm::isPowerOf2_64(a)))
      return emitOpError("expected alignments of 0 or a power of 2, got ") << a;
  for (Type t : getArgumentTypes())
    if (!isa<MemRefType, BoxMapType>(t) && !t.isIntOrIndexOrFloat())
      return emitOpError("expected memrefs, maps of boxes and scalars as "
                         "arguments, got ")
             << t;
  return success();
}

LogicalResult KernelOp::verifyRegions() {
  WalkResult result = getBody().walk([&](Operation *op) {
    return failed(verifyLayouts(op, warpsOf(op))) ? WalkResult::interrupt()
                                                  : WalkResult::advance();
  });
  return failure(result.wasInterrupted() || failed(verifyCopies(*this)) ||
                 failed(verifyInFlight(*this)));
}

int64_t gpu::warpsOf(Operation *op) {
  for (; op; op = op->getParentOp()) {
    if (auto kernel = dyn_cast<KernelOp>(op))
      return kernel.getNumWarps();
    if (auto roles = dyn_cast_or_null<RolesOp>(op->getParentOp()))
      return roles.getWarps()[op->getParentRegion()->getRegionNumber()];
  }
  return 0;
}

LogicalResult RolesOp::verify() {
  size_t count = getRoles().size();
  if (count < 2 || getWarps().size() != count || getRegisters().size() != count)
    return emitOpError("expected two or more regions, and warps and registers "
                       "of each, got ")
           << count << " regions, " << getWarps().size() << " and "
           << getRegisters().size();
  auto kernel = cast<KernelOp>((*this)->getParentOp());
  int64_t sum = 0;
  for (int64_t warps : getWarps()) {
    if (warps < 1)
      return emitOpError("expected at least one warp a role, got ") << warps;
    sum += warps;
  }
  if (sum != int64_t(kernel.getNumWarps()))
    return emitOpError("expected roles for the ")
           << kernel.getNumWarps() << " warps of the kernel, got " << sum;
  for (int64_t n : getRegisters())
    if (n && (n < 24 || n > 240 || n % 8))
      return emitOpError("expected registers of 0, or of 24 to 240 in eights, "
                         "got ")
             << n;
  if (!isa<ReturnOp>((*this)->getNextNode()))
    return emitOpError("expected nothing after it in the kernel");
  for (Region &role : llvm::drop_begin(getRoles())) {
    WalkResult result = role.walk([&](Operation *op) {
      for (Value v : op->getResults())
        if (isLaidOut(v.getType()))
          return WalkResult::interrupt();
      bool known = isMemoryEffectFree(op) || op->getNumRegions() ||
                   isa<CopyBoxOp, WaitPhaseOp, ReturnOp>(op);
      if (known)
        return WalkResult::advance();
      return WalkResult::interrupt();
    });
    if (result.wasInterrupted())
      return emitOpError("expected scalars and copies only in roles after the "
                         "first");
  }
  return success();
}

LogicalResult MapBoxesOp::verify() {
  MemRefType source = getSource().getType();
  BoxMapType map = getResult().getType();
  if (int64_t(map.getBox().size()) != source.getRank() ||
      int64_t(getSizes().size()) != source.getRank())
    return emitOpError(
               "expected boxes and sizes of as many dims as the array, ")
           << source.getRank() << ", got " << map.getBox().size() << " and "
           << getSizes().size();
  if (map.getElementType() != source.getElementType())
    return emitOpError("expected entries of one type, got ")
           << source.getElementType() << " and " << map.getElementType();
  return success();
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto kernel =
      symbols.lookupNearestSymbolFrom<KernelOp>(*this, getKernelAttr());
  if (!kernel)
    return emitOpError("expected a fa_gpu.kernel, got ") << getKernel();
  if (TypeRange(kernel.getArgumentTypes()) != TypeRange(getOperands_()))
    return emitOpError("expected operands of the types of the kernel's "
                       "arguments, ")
           << kernel.getFunctionType() << ", got " << getOperands_().getTypes();
  return success();
}

LogicalResult ClaimOp::verify() {
  MemRefType counter = getCounter().getType();
  SharedType scratch = getScratch().getType();
  if (counter.getRank() != 1 || !counter.getElementType().isInteger(32))
    return emitOpError("expected a counter of rank 1 and i32, got ") << counter;
  if (scratch.getRank() != 1 || !scratch.getElementType().isInteger(32))
    return emitOpError("expected scratch of rank 1 and i32, got ") << scratch;
  return success();
}

void ClearOp::getEffects(Effects &e) {
  e.emplace_back(MemoryEffects::Write::get(), &getBufferMutable());
}
void RequireOp::getEffects(Effects &e) {
  e.emplace_back(MemoryEffects::Write::get()); // not to be moved or dropped
}
void ClaimOp::getEffects(Effects &e) {
  e.emplace_back(MemoryEffects::Read::get(), &getCounterMutable());
  e.emplace_back(MemoryEffects::Write::get(), &getCounterMutable());
  e.emplace_back(MemoryEffects::Write::get(), &getScratchMutable());
}

//===----------------------------------------------------------------------===//
// Shared memory
//===----------------------------------------------------------------------===//

LogicalResult AllocOp::verify() {
  SharedType type = getResult().getType();
  if (type.getFlipped())
    return emitOpError("expected a buffer that is not flipped");
  if (auto at = getOffset();
      at && (int64_t(*at) < 0 || *at % type.getAlignment()))
    return emitOpError("expected an offset that is a multiple of ")
           << type.getAlignment() << ", got " << *at;
  return success();
}
void AllocOp::getEffects(Effects &e) {
  e.emplace_back(MemoryEffects::Allocate::get(), cast<OpResult>(getResult()));
}

LogicalResult StageOp::verify() {
  if (getResult().getType() != getBuffer().getType().withoutStages())
    return emitOpError("expected ") << getBuffer().getType().withoutStages()
                                    << ", got " << getResult().getType();
  return success();
}

LogicalResult FlipOp::verify() {
  SharedType t = getBuffer().getType();
  if (t.getRank() != 2 || getResult().getType() != t.flip())
    return emitOpError("expected the operand with its dims exchanged, got ")
           << t << " -> " << getResult().getType();
  return success();
}
OpFoldResult FlipOp::fold(FoldAdaptor) {
  if (auto inner = getBuffer().getDefiningOp<FlipOp>())
    return inner.getBuffer();
  return {};
}

/// `tile` and `buffer` hold the same.
static LogicalResult verifyHolds(Operation *op, RankedTensorType tile,
                                 SharedType buffer) {
  if (buffer.getStages() != 1)
    return op->emitOpError("expected one stage of a buffer, got ") << buffer;
  if (tile.getShape() != buffer.getShape() ||
      tile.getElementType() != buffer.getElementType())
    return op->emitOpError("expected a buffer of the tile's shape and type, ")
           << tile << ", got " << buffer;
  return success();
}
LogicalResult StoreSharedOp::verify() {
  return verifyHolds(*this, tileType(getTile()), getBuffer().getType());
}
void StoreSharedOp::getEffects(Effects &e) {
  e.emplace_back(MemoryEffects::Write::get(), &getBufferMutable());
}
LogicalResult LoadSharedOp::verify() {
  return verifyHolds(*this, tileType(getTile()), getBuffer().getType());
}
void LoadSharedOp::getEffects(Effects &e) {
  e.emplace_back(MemoryEffects::Read::get(), &getBufferMutable());
}

LogicalResult LoadDiagonalsOp::verify() {
  RankedTensorType t = tileType(getTile());
  SharedType buffer = getBuffer().getType();
  if (t.getRank() != 2 || buffer.getRank() != 1 || buffer.getStages() != 1)
    return emitOpError(
               "expected a tile of rank 2 and one stage of a line, got ")
           << t << " and " << buffer;
  int64_t diagonals = t.getDimSize(0) + t.getDimSize(1) - 1;
  if (buffer.getShape()[0] < diagonals)
    return emitOpError("expected a buffer of at least ")
           << diagonals << " entries, one per diagonal, got " << buffer;
  if (t.getElementType() != buffer.getElementType() ||
      !t.getElementType().isIntOrFloat() || t.getElementTypeBitWidth() < 32)
    return emitOpError("expected entries of one type of 32 or 64 bits, got ")
           << t.getElementType() << " and " << buffer.getElementType();
  return success();
}
void LoadDiagonalsOp::getEffects(Effects &e) {
  e.emplace_back(MemoryEffects::Read::get(), &getBufferMutable());
}

LogicalResult ConvertOp::verify() {
  RankedTensorType a = tileType(getTile()), r = tileType(getResult());
  if (a.getShape() != r.getShape() || a.getElementType() != r.getElementType())
    return emitOpError("expected tiles that differ in layout only, got ")
           << a << " -> " << r;
  return success();
}
OpFoldResult ConvertOp::fold(FoldAdaptor) {
  return getTile().getType() == getType() ? OpFoldResult(getTile())
                                          : OpFoldResult();
}

LogicalResult RelabelOp::verify() {
  RankedTensorType a = tileType(getTile()), r = tileType(getResult());
  if (a.getShape() != r.getShape() || a.getElementType() != r.getElementType())
    return emitOpError("expected tiles that differ in layout only, got ")
           << a << " -> " << r;
  ThreadLayoutAttr from = layoutOf(getTile()), to = layoutOf(getResult());
  if (from.isReplicated() || to.isReplicated())
    return emitOpError("expected layouts that hold each entry once, got ")
           << from << " -> " << to << "; convert the tile instead";
  if (from.getNumRegisters() != to.getNumRegisters())
    return emitOpError("expected as many registers on both sides, got ")
           << from.getNumRegisters() << " -> " << to.getNumRegisters();
  return success();
}

static LogicalResult verifyFloatLine(Operation *op) {
  RankedTensorType t = tileType(op->getResult(0));
  if (t.getRank() != 1 || !isa<Float32Type, Float64Type>(t.getElementType()))
    return op->emitOpError("expected a line of f32 or f64, got ") << t;
  return success();
}
LogicalResult ThreadOffsetOp::verify() { return verifyFloatLine(*this); }
LogicalResult RegisterOffsetOp::verify() { return verifyFloatLine(*this); }

LogicalResult PartialSumOp::verify() {
  RankedTensorType t = tileType(getTile()), r = tileType(getResult());
  int64_t dim = getDim();
  if (t.getRank() != 2 || dim < 0 || dim > 1)
    return emitOpError("expected a tile of rank 2 and a dim of it, got ")
           << t << " and dim " << dim;
  if (!isa<Float32Type, Float64Type>(t.getElementType()) ||
      r.getElementType() != t.getElementType())
    return emitOpError("expected tiles of f32 or f64, got ")
           << t.getElementType() << " and " << r.getElementType();
  ThreadLayoutAttr layout = layoutOf(getTile()).thinned(dim);
  SmallVector<int64_t> shape(t.getShape());
  shape[dim] = layout.getSize(dim);
  if (layoutOf(getResult()) != layout || r.getShape() != ArrayRef(shape))
    return emitOpError("expected one entry per lane that shares a line, ")
           << withLayout(RankedTensorType::get(shape, t.getElementType()),
                         layout)
           << ", got " << r;
  return success();
}

//===----------------------------------------------------------------------===//
// Copies and order
//===----------------------------------------------------------------------===//

LogicalResult CopyAsyncOp::verify() {
  MemRefType source = getSource().getType();
  SharedType buffer = getBuffer().getType();
  if (int64_t(getIndices().size()) != source.getRank())
    return emitOpError("expected one index per dim of the source, ")
           << source.getRank() << ", got " << getIndices().size();
  if (int64_t(getLimits().size()) != buffer.getRank())
    return emitOpError("expected one limit per dim of the buffer, ")
           << buffer.getRank() << ", got " << getLimits().size();
  if (source.getElementType() != buffer.getElementType())
    return emitOpError("expected entries of one type, got ")
           << source.getElementType() << " and " << buffer.getElementType();
  if (buffer.getStages() != 1 || buffer.getFlipped())
    return emitOpError("expected one stage of a buffer that is not flipped, "
                       "got ")
           << buffer;
  int64_t vector = getVector(), bytes = buffer.getElementBytes();
  if (vector != 4 && vector != 8 && vector != 16)
    return emitOpError("expected a vector of 4, 8 or 16 bytes, got ") << vector;
  if (vector % bytes || buffer.getLineLength() * bytes % vector ||
      (buffer.getLines() > 1 && buffer.getPitch() * bytes % vector))
    return emitOpError("expected lines and a pitch of whole vectors of ")
           << vector << " bytes, got " << buffer;
  auto kernel = (*this)->getParentOfType<KernelOp>();
  int64_t alignment = kernel ? kernel.getAlignment(getSource()) : vector;
  if (vector > bytes && (alignment == 0 || alignment % vector))
    return emitOpError("expected a source aligned to ")
           << vector << " bytes, got an alignment of " << alignment;
  return success();
}
void CopyAsyncOp::getEffects(Effects &e) {
  e.emplace_back(MemoryEffects::Read::get(), &getSourceMutable());
  e.emplace_back(MemoryEffects::Write::get(), &getBufferMutable());
}

LogicalResult WaitOp::verify() {
  if (int64_t(getPending()) < 0)
    return emitOpError("expected at least 0 groups under way, got ")
           << int64_t(getPending());
  return success();
}

LogicalResult MbarriersOp::verify() {
  if (int64_t(getArrivals()) < 1)
    return emitOpError("expected at least one arrival, got ")
           << int64_t(getArrivals());
  if (auto at = getOffset(); at && (int64_t(*at) < 0 || *at % 8))
    return emitOpError("expected an offset that is a multiple of 8, got ")
           << *at;
  return success();
}
void MbarriersOp::getEffects(Effects &e) {
  e.emplace_back(MemoryEffects::Allocate::get(), cast<OpResult>(getResult()));
  e.emplace_back(MemoryEffects::Write::get(), cast<OpResult>(getResult()));
}

LogicalResult CopyBoxOp::verify() {
  BoxMapType map = getMap().getType();
  SharedType buffer = getBuffer().getType();
  ArrayRef<int64_t> box = map.getBox();
  if (getIndices().size() != box.size())
    return emitOpError("expected one index per dim of the array, ")
           << box.size() << ", got " << getIndices().size();
  if (buffer.getStages() != 1 || buffer.getFlipped() ||
      buffer.getSwizzle() != map.getSwizzle())
    return emitOpError("expected one stage of a buffer with the swizzle of the "
                       "boxes that is not flipped, got ")
           << buffer;
  if (buffer.getElementType() != map.getElementType())
    return emitOpError("expected entries of one type, got ")
           << map.getElementType() << " and " << buffer.getElementType();
  ArrayRef<int64_t> lead = box.drop_back(2);
  if (box.size() < 2 || llvm::any_of(lead, [](int64_t n) { return n != 1; }) ||
      buffer.getLines() % box[box.size() - 2] || box[box.size() - 2] % 8)
    return emitOpError("expected boxes of two dims, with a multiple of 8 lines "
                       "that fits the buffer's, got ")
           << map << " for " << buffer;
  return success();
}
void CopyBoxOp::getEffects(Effects &e) {
  e.emplace_back(MemoryEffects::Read::get()); // the array
  e.emplace_back(MemoryEffects::Write::get(), &getBufferMutable());
  e.emplace_back(MemoryEffects::Read::get(), &getSignalsMutable());
}
void ArriveOp::getEffects(Effects &e) {
  e.emplace_back(MemoryEffects::Write::get());
  e.emplace_back(MemoryEffects::Read::get(), &getBarriersMutable());
}
void WaitPhaseOp::getEffects(Effects &e) {
  e.emplace_back(MemoryEffects::Write::get());
  e.emplace_back(MemoryEffects::Read::get(), &getBarriersMutable());
}

/// `tickets` at `indices` is an entry of i32.
static LogicalResult verifyTicket(Operation *op, MemRefType tickets,
                                  OperandRange indices) {
  if (!tickets.getElementType().isInteger(32))
    return op->emitOpError("expected tickets of i32, got ") << tickets;
  if (int64_t(indices.size()) != tickets.getRank())
    return op->emitOpError("expected one index per dim of the tickets, ")
           << tickets.getRank() << ", got " << indices.size();
  return success();
}
LogicalResult WaitTurnOp::verify() {
  return verifyTicket(*this, getTickets().getType(), getIndices());
}
LogicalResult EndTurnOp::verify() {
  return verifyTicket(*this, getTickets().getType(), getIndices());
}

// Without an operand: these order all of memory.
void CommitOp::getEffects(Effects &e) {
  e.emplace_back(MemoryEffects::Write::get());
}
void WaitOp::getEffects(Effects &e) {
  e.emplace_back(MemoryEffects::Write::get());
}
void BarrierOp::getEffects(Effects &e) {
  e.emplace_back(MemoryEffects::Write::get());
}
void WaitTurnOp::getEffects(Effects &e) {
  e.emplace_back(MemoryEffects::Write::get());
}
void EndTurnOp::getEffects(Effects &e) {
  e.emplace_back(MemoryEffects::Write::get());
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

static ArrayRef<int64_t> shapeOf(Type t) {
  auto shared = dyn_cast<SharedType>(t);
  return shared ? shared.getShape() : cast<RankedTensorType>(t).getShape();
}
static Type elementOf(Type t) {
  auto shared = dyn_cast<SharedType>(t);
  return shared ? shared.getElementType()
                : cast<RankedTensorType>(t).getElementType();
}
static bool isHalf(Type element) { return element.isBF16() || element.isF16(); }

/// What fa_gpu.mma and fa_gpu.wgmma have in common.
static LogicalResult verifyProduct(Operation *op, Type a, SharedType b,
                                   RankedTensorType acc) {
  ArrayRef<int64_t> sa = shapeOf(a), sb = b.getShape(), sc = acc.getShape();
  if (sa.size() != 2 || sb.size() != 2 || sc.size() != 2 || sa[1] != sb[0] ||
      sa[0] != sc[0] || sb[1] != sc[1])
    return op->emitOpError("expected shapes MxK, KxN, MxN, got ")
           << a << ", " << b << ", " << acc;
  Type element = elementOf(a);
  bool half = isHalf(element);
  if (element != b.getElementType() ||
      acc.getElementType() != getAccType(element) ||
      !(half || element.isF32() || element.isF64()))
    return op->emitOpError("expected factors of one type of f64, f32, bf16 or "
                           "f16 and a sum of f64 for f64, else f32, got ")
           << a << ", " << b << ", " << acc;
  if (b.getStages() != 1 ||
      (isa<SharedType>(a) && cast<SharedType>(a).getStages() != 1))
    return op->emitOpError("expected one stage of a buffer");
  if (half)
    for (Type t : {a, Type(b)})
      if (auto shared = dyn_cast<SharedType>(t);
          shared && shared.getPitch() % 8)
        return op->emitOpError("expected lines that start at multiples of 16 "
                               "bytes, a pitch in eights, got ")
               << shared;
  auto warps = layoutOf(acc).matchMma(sc[0], sc[1]);
  if (!warps)
    return op->emitOpError("expected a sum in the layout of accumulators, got ")
           << acc;
  if (half && sa[1] % 16)
    return op->emitOpError("expected an inner dim that is a multiple of 16, "
                           "got ")
           << sa[1];
  if (auto tile = dyn_cast<RankedTensorType>(a)) {
    if (!half)
      return op->emitOpError("expected a factor of ")
             << element << " in shared memory";
    ThreadLayoutAttr whole = ThreadLayoutAttr::getMma(op->getContext(), sa[0],
                                                      sa[1], warps->first, 1);
    if (warps->second != 1 || layoutOf(tile) != whole)
      return op->emitOpError("expected a factor in registers with all warps "
                             "along its rows, as the sum, got ")
             << tile << " and " << acc;
  }
  return success();
}

LogicalResult MmaOp::verify() {
  return verifyProduct(*this, getA().getType(), getB().getType(),
                       tileType(getAcc()));
}
void MmaOp::getEffects(Effects &e) {
  if (isa<SharedType>(getA().getType()))
    e.emplace_back(MemoryEffects::Read::get(), &getAMutable());
  e.emplace_back(MemoryEffects::Read::get(), &getBMutable());
}

std::string WgmmaOp::misfit(Type a, SharedType b, RankedTensorType acc) {
  if (!isHalf(elementOf(a)))
    return "expected factors of bf16 or f16";
  for (Type t : {a, Type(b)})
    if (auto shared = dyn_cast<SharedType>(t); shared && !shared.getSwizzle())
      return "expected swizzled buffers";
  int64_t rows = acc.getDimSize(0), cols = acc.getDimSize(1);
  auto [m, n] = *layoutOf(acc).matchMma(rows, cols);
  if (m % 4 || rows % (16 * m) || cols % (8 * n) || cols / n > 256)
    return "expected a multiple of four warps along the rows, 16 rows and at "
           "most 256 columns for each";
  // Where a part of a factor begins inside the buffer's lines, a panel begins.
  auto starts = [](Type t, unsigned dim, int64_t part) {
    auto shared = dyn_cast<SharedType>(t);
    return !shared || dim == (shared.getFlipped() ? 1 : 0) ||
           shared.getShape()[dim] == part || part % shared.getPitch() == 0;
  };
  if (!starts(a, 0, 64) || !starts(b, 1, cols / n))
    return "expected the part of each four warps to begin with a panel of the "
           "buffer";
  return "";
}
LogicalResult WgmmaOp::verify() {
  Type a = getA().getType();
  SharedType b = getB().getType();
  RankedTensorType acc = tileType(getAcc());
  if (failed(verifyProduct(*this, a, b, acc)))
    return failure();
  if (std::string why = misfit(a, b, acc); !why.empty())
    return emitOpError(why) << ", got " << a << ", " << b << ", " << acc;
  return success();
}
// Until a wait, which orders all of memory, covers it.
void WgmmaOp::getEffects(Effects &e) {
  if (isa<SharedType>(getA().getType()))
    e.emplace_back(MemoryEffects::Read::get(), &getAMutable());
  e.emplace_back(MemoryEffects::Read::get(), &getBMutable());
}

ParseResult WgmmaWaitOp::parse(OpAsmParser &p, OperationState &s) {
  IntegerAttr pending;
  SmallVector<OpAsmParser::UnresolvedOperand> tiles;
  SmallVector<Type> types;
  if (p.parseAttribute(pending, p.getBuilder().getI64Type(), "pending",
                       s.attributes) ||
      p.parseOperandList(tiles) || p.parseOptionalAttrDict(s.attributes) ||
      p.parseOptionalColonTypeList(types) ||
      p.resolveOperands(tiles, types, p.getCurrentLocation(), s.operands))
    return failure();
  s.addTypes(types);
  return success();
}
void WgmmaWaitOp::print(OpAsmPrinter &p) {
  p << " " << getPending();
  if (!getTiles().empty())
    p << " " << getTiles();
  p.printOptionalAttrDict((*this)->getAttrs(), {"pending"});
  if (!getTiles().empty())
    p << " : " << getTiles().getTypes();
}
LogicalResult WgmmaWaitOp::verify() {
  if (int64_t(getPending()) < 0)
    return emitOpError("expected at least 0 products under way, got ")
           << int64_t(getPending());
  if (getOperandTypes() != getResultTypes())
    return emitOpError("expected results of the operands' types, got ")
           << getOperandTypes() << " -> " << getResultTypes();
  return success();
}
void WgmmaWaitOp::getEffects(Effects &e) {
  e.emplace_back(MemoryEffects::Write::get());
}
void FenceAsyncOp::getEffects(Effects &e) {
  e.emplace_back(MemoryEffects::Write::get());
}
