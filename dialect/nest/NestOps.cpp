//===- NestOps.cpp - verifiers and syntax of the nest level -----------------===//

#include "dialect/FADialect.h"

using namespace mlir;
using namespace fathom;

using Effects =
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>;

namespace {
/// The rules shared by everything that moves a tile to or from a buffer.
LogicalResult verifyAccess(Operation *op, RankedTensorType tile,
                           MemRefType buffer, size_t indices, size_t limits) {
  if ((int64_t)indices != buffer.getRank())
    return op->emitOpError("expected one index per buffer dim, ")
           << buffer.getRank() << ", got " << indices;
  if ((int64_t)limits != tile.getRank())
    return op->emitOpError("expected one limit per tile dim, ")
           << tile.getRank() << ", got " << limits;
  if (tile.getRank() > buffer.getRank())
    return op->emitOpError("expected a tile of rank at most the buffer's, ")
           << buffer.getRank() << ", got " << tile.getRank();
  if (tile.getElementType() != buffer.getElementType())
    return op->emitOpError(
               "expected the tile's element type to be the buffer's, ")
           << buffer.getElementType() << ", got " << tile.getElementType();
  return success();
}

LogicalResult verifyGather(Operation *op, RankedTensorType tile,
                           MemRefType buffer, ValueRange indices) {
  if ((int64_t)indices.size() != buffer.getRank())
    return op->emitOpError("expected one index per buffer dim, ")
           << buffer.getRank() << ", got " << indices.size();
  for (Value i : indices)
    if (!i.getType().isIndex() &&
        i.getType() != tile.clone(IndexType::get(op->getContext())))
      return op->emitOpError(
                 "expected indexes of type index or a tile of index "
                 "of the shape of ")
             << tile << ", got " << i.getType();
  if (tile.getElementType() != buffer.getElementType())
    return op->emitOpError(
               "expected the tile's element type to be the buffer's, ")
           << buffer.getElementType() << ", got " << tile.getElementType();
  return success();
}
} // namespace

//===----------------------------------------------------------------------===//
// fa.nest
//===----------------------------------------------------------------------===//

void NestOp::build(OpBuilder &b, OperationState &s, StringRef label,
                   ValueRange bounds, ArrayRef<int64_t> steps,
                   int64_t numParallel,
                   function_ref<void(OpBuilder &, Location, ValueRange)> body) {
  s.addOperands(bounds);
  s.addAttribute("steps", b.getDenseI64ArrayAttr(steps));
  s.addAttribute("num_parallel", b.getI64IntegerAttr(numParallel));
  if (!label.empty())
    s.addAttribute("label", b.getStringAttr(label));
  Region *r = s.addRegion();
  Block *block = new Block();
  r->push_back(block);
  for (size_t i = 0; i < steps.size(); ++i)
    block->addArgument(b.getIndexType(), s.location);
  if (body) {
    OpBuilder::InsertionGuard g(b);
    b.setInsertionPointToStart(block);
    body(b, s.location, block->getArguments());
  }
}

void NestOp::getAsmBlockArgumentNames(Region &, OpAsmSetValueNameFn) {}

ParseResult NestOp::parse(OpAsmParser &p, OperationState &s) {
  Builder &b = p.getBuilder();
  std::string label;
  if (succeeded(p.parseOptionalString(&label)))
    s.addAttribute("label", b.getStringAttr(label));
  SmallVector<OpAsmParser::Argument> ivs;
  SmallVector<OpAsmParser::UnresolvedOperand> bounds;
  SmallVector<int64_t> steps;
  auto dim = [&]() -> ParseResult {
    int64_t step = 1;
    if (p.parseArgument(ivs.emplace_back()) || p.parseEqual() ||
        p.parseOperand(bounds.emplace_back()))
      return failure();
    if (succeeded(p.parseOptionalKeyword("step")) && p.parseInteger(step))
      return failure();
    ivs.back().type = b.getIndexType();
    steps.push_back(step);
    return success();
  };
  auto dims = [&] {
    return p.parseCommaSeparatedList(AsmParser::Delimiter::Paren, dim);
  };
  if (p.parseKeyword("parallel") || dims())
    return failure();
  int64_t numParallel = steps.size();
  if (succeeded(p.parseOptionalKeyword("sequential")) && dims())
    return failure();
  s.addAttribute("steps", b.getDenseI64ArrayAttr(steps));
  s.addAttribute("num_parallel", b.getI64IntegerAttr(numParallel));
  Region *body = s.addRegion();
  if (p.parseOptionalAttrDictWithKeyword(s.attributes) ||
      p.parseRegion(*body, ivs) ||
      p.resolveOperands(bounds, b.getIndexType(), s.operands))
    return failure();
  if (body->empty())
    return p.emitError(p.getNameLoc(), "expected a body that is not empty");
  return success();
}

void NestOp::print(OpAsmPrinter &p) {
  if (auto label = getLabel()) {
    p << " ";
    p.printString(*label);
  }
  auto dims = [&](unsigned from, unsigned to) {
    p << "(";
    for (unsigned d = from; d < to; ++d) {
      if (d != from)
        p << ", ";
      p << getIv(d) << " = " << getBounds()[d];
      if (getSteps()[d] != 1)
        p << " step " << getSteps()[d];
    }
    p << ")";
  };
  p << " parallel";
  dims(0, getNumParallel());
  if (getNumParallel() < getNumDims()) {
    p << " sequential";
    dims(getNumParallel(), getNumDims());
  }
  p.printOptionalAttrDictWithKeyword((*this)->getAttrs(),
                                     {"label", "steps", "num_parallel"});
  p << " ";
  p.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

LogicalResult NestOp::verify() {
  size_t n = getSteps().size();
  if (getBounds().size() != n)
    return emitOpError("expected one bound per step, ")
           << n << ", got " << getBounds().size();
  if (getNumParallel() > n)
    return emitOpError("expected num_parallel of at most ")
           << n << ", got " << getNumParallel();
  for (int64_t s : getSteps())
    if (s < 1)
      return emitOpError("expected steps of at least 1, got ") << s;
  if (getBlock()->getNumArguments() != n)
    return emitOpError("expected one block argument per dim, ")
           << n << ", got " << getBlock()->getNumArguments();
  for (Type t : getBlock()->getArgumentTypes())
    if (!t.isIndex())
      return emitOpError("expected block arguments of type index, got ") << t;
  return success();
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

LogicalResult LoadOp::verify() {
  return verifyAccess(*this, tileType(getTile()), getBuffer().getType(),
                      getIndices().size(), getLimits().size());
}
void LoadOp::getEffects(Effects &e) {
  e.emplace_back(MemoryEffects::Read::get(), &getBufferMutable());
}

LogicalResult StoreOp::verify() {
  return verifyAccess(*this, tileType(getTile()), getBuffer().getType(),
                      getIndices().size(), getLimits().size());
}
void StoreOp::getEffects(Effects &e) {
  e.emplace_back(MemoryEffects::Write::get(), &getBufferMutable());
}

LogicalResult AccumulateOp::verify() {
  if (failed(verifyAccess(*this, tileType(getTile()), getBuffer().getType(),
                          getIndices().size(), getLimits().size())))
    return failure();
  bool ordered = getMode() == AccumulateMode::ordered;
  if (ordered != (bool)getTurn() || ordered != (bool)getTickets())
    return emitOpError("expected 'turn' and 'at' with mode ordered and only "
                       "there, got mode ")
           << stringifyAccumulateMode(getMode());
  return success();
}
void AccumulateOp::getEffects(Effects &e) {
  e.emplace_back(MemoryEffects::Read::get(), &getBufferMutable());
  e.emplace_back(MemoryEffects::Write::get(), &getBufferMutable());
  if (getTickets())
    e.emplace_back(MemoryEffects::Write::get(), &*getTicketsMutable().begin());
}
void PassTurnOp::getEffects(Effects &e) {
  e.emplace_back(MemoryEffects::Write::get(), &getTicketsMutable());
}
void ForwardEndOp::getEffects(Effects &e) {
  e.emplace_back(MemoryEffects::Write::get());
}
void TickOp::getEffects(Effects &e) {
  e.emplace_back(MemoryEffects::Write::get());
}

LogicalResult GatherOp::verify() {
  return verifyGather(*this, tileType(getResult()), getBuffer().getType(),
                      getIndices());
}
void GatherOp::getEffects(Effects &e) {
  e.emplace_back(MemoryEffects::Read::get(), &getBufferMutable());
}
LogicalResult ScatterAddOp::verify() {
  if (getMode() == AccumulateMode::ordered)
    return emitOpError("expected mode plain or atomic, got ordered");
  return verifyGather(*this, tileType(getTile()), getBuffer().getType(),
                      getIndices());
}
void ScatterAddOp::getEffects(Effects &e) {
  e.emplace_back(MemoryEffects::Read::get(), &getBufferMutable());
  e.emplace_back(MemoryEffects::Write::get(), &getBufferMutable());
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

LogicalResult DotOp::verify() {
  RankedTensorType a = tileType(getA()), b = tileType(getB()),
                   c = tileType(getAcc());
  if (a.getRank() != 2 || b.getRank() != 2 || c.getRank() != 2)
    return emitOpError("expected tiles of rank 2");
  if (a.getDimSize(1) != b.getDimSize(0) ||
      a.getDimSize(0) != c.getDimSize(0) || b.getDimSize(1) != c.getDimSize(1))
    return emitOpError("expected shapes MxK, KxN, MxN, got ")
           << a << ", " << b << ", " << c;
  if (a.getElementType() != b.getElementType() ||
      !isa<FloatType>(a.getElementType()) ||
      !isa<FloatType>(c.getElementType()))
    return emitOpError("expected a and b of one float type, got ")
           << a << ", " << b;
  return success();
}

LogicalResult TransposeOp::verify() {
  RankedTensorType a = tileType(getTile()), r = tileType(getResult());
  if (a.getRank() != 2 || r.getRank() != 2 ||
      a.getDimSize(0) != r.getDimSize(1) ||
      a.getDimSize(1) != r.getDimSize(0) ||
      a.getElementType() != r.getElementType())
    return emitOpError("expected the result to be the transposed operand, got ")
           << a << " -> " << r;
  return success();
}
OpFoldResult TransposeOp::fold(FoldAdaptor) {
  if (auto inner = getTile().getDefiningOp<TransposeOp>())
    return inner.getTile();
  return {};
}

LogicalResult ReduceOp::verify() {
  RankedTensorType t = tileType(getTile());
  if (getDim() >= (uint64_t)t.getRank())
    return emitOpError("expected dim below ")
           << t.getRank() << ", got " << getDim();
  bool logic = getKind() == ReduceKind::any || getKind() == ReduceKind::all;
  if (logic ? !t.getElementType().isInteger(1)
            : !isa<FloatType>(t.getElementType()))
    return emitOpError("expected ")
           << (logic ? "i1" : "float") << " entries for "
           << stringifyReduceKind(getKind()) << ", got " << t.getElementType();
  Type expected = t.getElementType();
  if (t.getRank() == 2)
    expected =
        RankedTensorType::get({t.getDimSize(1 - getDim())}, t.getElementType());
  // A layout is checked where it is known what it means, in a kernel.
  Type got = getResult().getType();
  if (auto tile = dyn_cast<RankedTensorType>(got))
    got = RankedTensorType::get(tile.getShape(), tile.getElementType());
  if (got != expected)
    return emitOpError("expected result type ")
           << expected << ", got " << getResult().getType();
  return success();
}

LogicalResult BroadcastOp::verify() {
  RankedTensorType r = tileType(getResult());
  if (getDim() >= (uint64_t)r.getRank())
    return emitOpError("expected dim below ")
           << r.getRank() << ", got " << getDim();
  Type s = getSource().getType();
  if (s == r.getElementType())
    return success();
  auto st = dyn_cast<RankedTensorType>(s);
  if (!st || st.getRank() != 1 || st.getElementType() != r.getElementType() ||
      st.getDimSize(0) != r.getDimSize(getDim()))
    return emitOpError("expected a scalar or a rank 1 tile that fits dim ")
           << getDim() << " of " << r << ", got " << s;
  return success();
}

LogicalResult IotaOp::verify() {
  RankedTensorType r = tileType(getResult());
  if (r.getRank() != 1 || !r.getElementType().isIndex())
    return emitOpError("expected a rank 1 tile of index, got ") << r;
  return success();
}
