//===- MapToCpuTiles.cpp - from tiles to vectors and buffers ----------------===//
//
// Lowers the body of one nest. A tile is either an expression, evaluated a
// vector at a time where it is needed, or a buffer in scratch memory. Ops are
// visited in program order; a buffer is made where a product, a loop-carried
// tile or a second expensive use needs one, in place of a dead one if possible.
//
//===----------------------------------------------------------------------===//

#include "passes/map/MapToCpu.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/bit.h"

using namespace mlir;
using namespace fathom;
using namespace fathom::cpu;

namespace {

/// How an expression is evaluated: a rank 2 tile along its rows or columns
/// (the values of Lanes), a rank 1 tile along the lanes, or one entry of it.
enum Mode { kRows = 0, kColumns = 1, kVector = 2, kEntry = 3 };

/// A tile in scratch memory: `rows` rows of `width` entries, `pitch` apart.
struct Buffer {
  Type element; // of the tile
  int64_t rows, width, pitch;
  int64_t offset, bytes;
  Lanes lanes;
  Value pointer;
  Value owner; // the tile it holds
};

/// What is known while one region is lowered.
struct Scope {
  SmallVector<Buffer *> owned; // freed when the region ends
  /// Tiles that got a buffer here, with the ones they had before.
  SmallVector<std::pair<Value, std::array<Buffer *, 2>>> entered;
  SmallVector<Buffer *> targets; // of the yield, null for scalars
};

/// Where an expression is evaluated, and what has been computed there.
struct Point {
  int64_t vl;
  Value row, lane;
  DenseMap<std::pair<Value, int>, Value> memo;
  Point(int64_t vl, Value row, Value lane) : vl(vl), row(row), lane(lane) {}
};

/// A tile's place in a caller's buffer, in terms of lanes.
struct Access {
  Type element;
  Value pointer;
  Value rowStride, laneStride, validRows, validLanes;
  int64_t rows, width;
};

/// The tile of a caller's buffer that a loop will probably load in its next
/// round: the rows after those it loaded in this one.
constexpr int32_t kFetchInto = 3; // the first level cache
struct NextTile {
  Block *block; // of the load
  Value pointer, rowStride;
  Type element;
  int64_t rows, lines; // cache lines of a row
};

class BodyLowering {
public:
  BodyLowering(Block &body, OpBuilder &builder, IRMapping &mapping,
               Value scratch, const Machine &machine)
      : b(builder.getUnknownLoc(), builder), map(mapping), scratch(scratch),
        machine(machine), lanes(*body.getParent(), machine),
        entry(builder.getInsertionBlock()) {}

  LogicalResult run(Block &body) {
    choose(body);
    scopes.emplace_back();
    LogicalResult r = lowerBlock(body);
    popScope();
    return r;
  }
  int64_t scratchBytes() const { return highWater; }

private:
  // Small builders.
  Value index(int64_t v) {
    Value &c = constants[v];
    if (!c) {
      OpBuilder::InsertionGuard g(b);
      b.setInsertionPointToStart(entry);
      c = arith::ConstantIndexOp::create(b, v);
    }
    return c;
  }
  Value add(Value x, Value y) { return arith::AddIOp::create(b, x, y); }
  Value add(Value x, int64_t y) { return y ? add(x, index(y)) : x; }
  Value mul(Value x, Value y) { return arith::MulIOp::create(b, x, y); }
  Value mul(Value x, int64_t y) { return y == 1 ? x : mul(x, index(y)); }
  Value least(Value x, Value y) { return arith::MinSIOp::create(b, x, y); }
  Value isEqual(Value x, int64_t y) {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, x, index(y));
  }
  Type pointerType() { return LLVM::LLVMPointerType::get(b.getContext()); }
  Value step(Value pointer, Type element, Value count) {
    Value i = arith::IndexCastOp::create(b, b.getI64Type(), count);
    return LLVM::GEPOp::create(b, pointerType(), element, pointer,
                               ArrayRef<LLVM::GEPArg>{i});
  }
  Value step(Value pointer, Type element, int64_t count) {
    if (count == 0)
      return pointer;
    return LLVM::GEPOp::create(b, pointerType(), element, pointer,
                               ArrayRef<LLVM::GEPArg>{int32_t(count)});
  }
  Value load(Type type, Value pointer, unsigned alignment = 0) {
    return LLVM::LoadOp::create(b, type, pointer, alignment);
  }
  void store(Value v, Value pointer, unsigned alignment = 0) {
    LLVM::StoreOp::create(b, v, pointer, alignment);
  }
  Value splat(Value v, int64_t vl) {
    return vector::BroadcastOp::create(b, VectorType::get({vl}, v.getType()),
                                       v);
  }
  Value zero(Type type) {
    return arith::ConstantOp::create(b, b.getZeroAttr(type));
  }
  Value laneMask(int64_t vl, int64_t valid) {
    SmallVector<bool> bits(vl);
    std::fill_n(bits.begin(), valid, true);
    return arith::ConstantOp::create(
        b, DenseElementsAttr::get(VectorType::get({vl}, b.getI1Type()), bits));
  }

  using LoopBody = function_ref<SmallVector<Value>(Value, ValueRange)>;
  SmallVector<Value> loop(Value lo, Value hi, int64_t by, ValueRange init,
                          LoopBody body) {
    auto op = scf::ForOp::create(b, lo, hi, index(by), init);
    OpBuilder::InsertionGuard g(b);
    if (!init.empty())
      b.setInsertionPointToStart(op.getBody());
    else
      b.setInsertionPoint(op.getBody()->getTerminator());
    SmallVector<Value> next =
        body(op.getInductionVar(), op.getRegionIterArgs());
    if (!init.empty())
      scf::YieldOp::create(b, next);
    return op.getResults();
  }
  /// A loop over [0, n), or its body alone when that runs once.
  SmallVector<Value> loop(int64_t n, int64_t by, ValueRange init,
                          LoopBody body) {
    if (n <= by)
      return body(index(0), init);
    return loop(index(0), index(n), by, init, body);
  }
  void forEach(Value hi, function_ref<void(Value)> body) {
    loop(index(0), hi, 1, {}, [&](Value i, ValueRange) {
      body(i);
      return SmallVector<Value>();
    });
  }
  void ifThenElse(Value condition, function_ref<void()> yes,
                  function_ref<void()> no) {
    auto op = scf::IfOp::create(b, condition, /*withElseRegion=*/bool(no));
    OpBuilder::InsertionGuard g(b);
    b.setInsertionPoint(op.thenYield());
    yes();
    if (no) {
      b.setInsertionPoint(op.elseYield());
      no();
    }
  }

  // Buffers.
  Type storageType(Type element) {
    Type t = computeType(element);
    return t.isInteger(1) || t.isIndex() ? memoryType(t) : t;
  }
  Value toStorage(Value x, Type element) {
    return toMemory(b, x, computeType(element));
  }
  Value fromStorage(Value x, Type element) {
    return fromMemory(b, x, computeType(element));
  }
  Buffer *allocate(Value tile, Lanes l);
  Buffer *allocate(Type element, int64_t rows, int64_t width, Lanes l);
  Buffer layout(Type element, int64_t rows, int64_t width, Lanes l);
  Buffer *find(Value tile, Lanes l);
  void enter(Value tile, Buffer *buffer);
  void release();
  void popScope();
  Value address(Buffer &buffer, Value row, Value lane) {
    Value linear = buffer.rows == 1 ? lane : add(mul(row, buffer.pitch), lane);
    return step(buffer.pointer, storageType(buffer.element), linear);
  }
  unsigned alignment(Buffer &buffer, int64_t vl) {
    return vl * storageType(buffer.element).getIntOrFloatBitWidth() / 8;
  }
  Value read(Buffer &buffer, Value row, Value lane, int64_t vl) {
    Type s = storageType(buffer.element);
    Value p = address(buffer, row, lane);
    Value v = vl == 0
                  ? load(s, p)
                  : load(VectorType::get({vl}, s), p, alignment(buffer, vl));
    return fromStorage(v, buffer.element);
  }
  void write(Buffer &buffer, Value row, Value lane, Value v) {
    bool isVector = isa<VectorType>(v.getType());
    int64_t vl = isVector ? cast<VectorType>(v.getType()).getNumElements() : 0;
    store(toStorage(v, buffer.element), address(buffer, row, lane),
          vl ? alignment(buffer, vl) : 0);
  }
  bool isWritable(Buffer *buffer) {
    return llvm::is_contained(scopes.back().owned, buffer) ||
           llvm::is_contained(scopes.back().targets, buffer);
  }
  bool fits(Buffer *buffer, Value tile, Lanes l);
  bool hasPendingUse(Value v, Operation *except, Operation *within = nullptr);
  using Leaves = SmallVector<std::pair<Buffer *, bool>>;
  void collectLeaves(Value v, int mode, int root, Leaves &leaves);
  Buffer *yieldTarget(Value v);
  Buffer *chooseTarget(Value v, Lanes l, Operation *op);
  Buffer *ensure(Value tile, Lanes l);
  void prepare(Value v, int mode);

  // Expressions.
  int64_t vectorLength(Value tile) {
    return machine.lanes(computeType(tileType(tile).getElementType()));
  }
  int modeOf(Value tile, Lanes l) {
    return tileType(tile).getRank() == 2 ? int(l) : int(kVector);
  }
  Value eval(Value v, int mode, Point &p);
  Value evalElementwise(Operation *op, int mode, Point &p);
  Value evalGather(GatherOp op, int mode, Point &p);
  Value linearIndex(Value buffer, OperandRange indices, int mode, Point &p,
                    Value &nonEmpty, Value &pointer);
  int cost(Value v);
  int sites(Value v);
  void choose(Block &body);
  void emit(Value v, Lanes l, Buffer *target,
            MutableArrayRef<ReduceOp> reduces);
  void emitLoop(Value v, Lanes l, Buffer *target,
                MutableArrayRef<ReduceOp> reduces, bool vertical);
  Value identity(ReduceKind kind, Type type);
  Value combine(ReduceKind kind, Value x, Value y);
  Value combineLanes(ReduceKind kind, Value x);
  SmallVector<ReduceOp> reducesOf(Value v, Block *block);

  // Ops.
  LogicalResult lowerBlock(Block &block);
  LogicalResult lower(Operation *op);
  LogicalResult lowerFor(scf::ForOp op);
  LogicalResult lowerIf(scf::IfOp op);
  void lowerYield(Operation *yield);
  LogicalResult lowerDot(DotOp op);
  void kernel(DotOp op, int mode, Buffer &vectors, Buffer &scalars,
              int64_t scalarRow, int64_t scalarStep, Buffer &target, Value row,
              Value lane, int64_t rows, int64_t vectorCount);
  void prefetch(const NextTile &next, Value call, int64_t calls);
  void lowerLoad(LoadOp op);
  void pack(const Access &a, Buffer &buffer);
  void packInto(const Access &a, Value target);
  func::FuncOp getHelper(StringRef name, TypeRange arguments,
                         function_ref<void(Block::BlockArgListType)> body);
  void bySquares(int64_t rows, int64_t width, Type element, int64_t vl,
                 function_ref<void(Value, Value)> square,
                 function_ref<void(Value, Value)> one);
  void transposeSquare(Type element, int64_t vl, Value from, Value fromPitch,
                       Value to, Value toPitch);
  Value isTransposed(const Access &a);
  void lowerStore(Value tile, Value buffer, OperandRange indices,
                  OperandRange limits, bool adds);
  void addTo(Value pointer, Type element, Value x, bool adds);
  void lowerScatter(ScatterAddOp op);
  Access access(Value buffer, OperandRange indices, OperandRange limits,
                RankedTensorType tile, Lanes l);
  Value basePointer(Value memref);
  Value loadFirst(VectorType type, int64_t n, Value pointer);
  void storeFirst(Value x, int64_t n, Value pointer);
  Value sum(Value old, Value x, Type element);
  Value ticket(Value tickets, OperandRange indices);
  void callRuntime(StringRef name, ValueRange args);
  void locked(Value buffer, AccumulateMode mode, function_ref<void()> addition);
  void waitTurn(Value pointer, Value turn);
  void passTurn(Value pointer);

  ImplicitLocOpBuilder b;
  IRMapping &map;
  Value scratch;
  const Machine &machine;
  LaneChoice lanes;
  Block *entry;
  DenseMap<int64_t, Value> constants;
  std::vector<std::unique_ptr<Buffer>> buffers;
  SmallVector<Scope> scopes;
  SmallVector<std::pair<int64_t, int64_t>> used; // [begin, end) of scratch
  int64_t highWater = 0;
  DenseMap<Value, std::array<Buffer *, 2>> state;
  DenseSet<Operation *> done;
  SmallVector<NextTile> nextTiles;
  DenseSet<Value> eager; // expressions that get a buffer where they stand
  DenseMap<Value, int> costs, siteCounts;
  SmallVector<Region *> otherBranches; // of the scf.ifs being lowered
};

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

/// A buffer that has no place yet.
Buffer BodyLowering::layout(Type element, int64_t rows, int64_t width,
                            Lanes l) {
  int64_t pitch = llvm::alignTo(width, machine.padding());
  int64_t entryBytes = storageType(element).getIntOrFloatBitWidth() / 8;
  int64_t bytes = llvm::alignTo(rows * pitch * entryBytes, 64);
  return {element, rows, width, pitch, /*offset=*/0, bytes, l, {}, {}};
}

Buffer *BodyLowering::allocate(Type element, int64_t rows, int64_t width,
                               Lanes l) {
  auto buffer = std::make_unique<Buffer>(layout(element, rows, width, l));
  // The lowest gap that is wide enough.
  llvm::sort(used);
  int64_t at = 0;
  for (auto [begin, end] : used) {
    if (begin - at >= buffer->bytes)
      break;
    at = std::max(at, end);
  }
  buffer->offset = at;
  used.emplace_back(at, at + buffer->bytes);
  highWater = std::max(highWater, at + buffer->bytes);
  {
    OpBuilder::InsertionGuard g(b);
    b.setInsertionPointToStart(entry);
    buffer->pointer = step(scratch, b.getI8Type(), at);
  }
  scopes.back().owned.push_back(buffer.get());
  buffers.push_back(std::move(buffer));
  return buffers.back().get();
}

Buffer *BodyLowering::allocate(Value tile, Lanes l) {
  RankedTensorType t = tileType(tile);
  if (t.getRank() == 1)
    return allocate(t.getElementType(), 1, t.getDimSize(0), Lanes::rows);
  int lane = l == Lanes::rows ? 1 : 0;
  return allocate(t.getElementType(), t.getDimSize(1 - lane),
                  t.getDimSize(lane), l);
}

/// The buffer that holds `tile` with lanes `l`, or null.
Buffer *BodyLowering::find(Value tile, Lanes l) {
  auto it = state.find(tile);
  if (it == state.end())
    return nullptr;
  return it->second[tileType(tile).getRank() == 2 ? int(l) : 0];
}

void BodyLowering::enter(Value tile, Buffer *buffer) {
  int slot = tileType(tile).getRank() == 2 ? int(buffer->lanes) : 0;
  std::array<Buffer *, 2> &slots = state[tile];
  scopes.back().entered.emplace_back(tile, slots);
  slots[slot] = buffer;
  buffer->owner = tile;
}

/// Frees the buffers of this scope whose tiles have no use left.
void BodyLowering::release() {
  llvm::erase_if(scopes.back().owned, [&](Buffer *buffer) {
    if (buffer->owner && hasPendingUse(buffer->owner, nullptr))
      return false;
    llvm::erase(used,
                std::pair(buffer->offset, buffer->offset + buffer->bytes));
    return true;
  });
}

void BodyLowering::popScope() {
  for (Buffer *buffer : scopes.back().owned)
    llvm::erase(used,
                std::pair(buffer->offset, buffer->offset + buffer->bytes));
  for (auto &[tile, before] : llvm::reverse(scopes.back().entered))
    state[tile] = before;
  scopes.pop_back();
}

bool BodyLowering::fits(Buffer *buffer, Value tile, Lanes l) {
  RankedTensorType t = tileType(tile);
  if (storageType(buffer->element) != storageType(t.getElementType()))
    return false;
  if (t.getRank() == 1)
    return buffer->rows == 1 && buffer->width == t.getDimSize(0);
  int lane = l == Lanes::rows ? 1 : 0;
  return buffer->lanes == l && buffer->rows == t.getDimSize(1 - lane) &&
         buffer->width == t.getDimSize(lane);
}

/// True if code still to be emitted reads `v`. Uses by `except` or inside
/// `within` don't count, nor those in the other branch of an scf.if.
bool BodyLowering::hasPendingUse(Value v, Operation *except,
                                 Operation *within) {
  for (Operation *user : v.getUsers()) {
    if (user == except || (within && within->isAncestor(user)))
      continue;
    if (llvm::any_of(otherBranches, [&](Region *r) {
          return r->isAncestor(user->getParentRegion());
        }))
      continue;
    if (!done.contains(user))
      return true;
    // A use by an expression lasts as long as the expression.
    if ((isElementwise(user) || isa<BroadcastOp, TransposeOp>(user)) &&
        !eager.contains(user->getResult(0)) &&
        hasPendingUse(user->getResult(0), except, within))
      return true;
  }
  return false;
}

/// The buffers that evaluating `v` reads, and whether each is read only at the
/// place where the result (of mode `root`) is written.
void BodyLowering::collectLeaves(Value v, int mode, int root, Leaves &leaves) {
  if (!isTile(v))
    return;
  if (auto it = state.find(v); it != state.end()) {
    auto [rows, columns] = it->second;
    if (rows || columns) {
      Buffer *exact = mode == kColumns ? columns : rows;
      for (Buffer *buffer : {rows, columns})
        if (buffer)
          leaves.emplace_back(buffer, buffer == exact && mode == root);
      return;
    }
  }
  Operation *op = v.getDefiningOp();
  if (auto t = dyn_cast_or_null<TransposeOp>(op))
    return collectLeaves(t.getTile(), 1 - mode, root, leaves);
  if (auto broadcast = dyn_cast_or_null<BroadcastOp>(op)) {
    bool along =
        tileType(v).getRank() == 1 || int(broadcast.getDim()) == 1 - mode;
    return collectLeaves(broadcast.getSource(),
                         along && mode != kEntry ? kVector : kEntry, root,
                         leaves);
  }
  if (op && (isElementwise(op) || isa<GatherOp>(op)))
    for (Value operand : op->getOperands())
      collectLeaves(operand, mode, root, leaves);
}

/// The buffer that `v` is to end up in because a yield of its block says so.
Buffer *BodyLowering::yieldTarget(Value v) {
  for (OpOperand &use : v.getUses())
    if (isa<scf::YieldOp>(use.getOwner()) &&
        use.getOwner()->getBlock() == v.getParentBlock() &&
        use.getOperandNumber() < scopes.back().targets.size())
      return scopes.back().targets[use.getOperandNumber()];
  return nullptr;
}

/// The buffer for the result `v` of `op`: where it must end up, or in place of
/// a tile that dies here, or a new one.
Buffer *BodyLowering::chooseTarget(Value v, Lanes l, Operation *op) {
  Leaves leaves;
  auto isRead = [&](Buffer *buffer, bool anywhere) {
    return llvm::any_of(leaves, [&](auto leaf) {
      return leaf.first == buffer && (anywhere || !leaf.second);
    });
  };
  int mode = modeOf(v, l);
  if (auto dot = dyn_cast<DotOp>(op)) {
    collectLeaves(dot.getAcc(), mode, mode, leaves);
    bool flipped = false;
    for (Value factor : {dot.getA(), dot.getB()})
      for (Buffer *buffer : state[stripTransposes(factor, flipped)])
        leaves.emplace_back(buffer, false);
  } else if (auto reduce = dyn_cast<ReduceOp>(op)) {
    Leaves read;
    collectLeaves(reduce.getTile(), modeOf(reduce.getTile(), l), -1, read);
    leaves = read;
  } else {
    collectLeaves(v, mode, mode, leaves);
  }
  Buffer *target = yieldTarget(v);
  if (target && fits(target, v, l) && !isRead(target, /*anywhere=*/false) &&
      (!target->owner || !hasPendingUse(target->owner, op)))
    return target;
  for (auto [buffer, inPlace] : leaves)
    if (inPlace && isWritable(buffer) && fits(buffer, v, l) &&
        !isRead(buffer, false) && buffer->owner &&
        !hasPendingUse(buffer->owner, op))
      return buffer;
  return allocate(v, l);
}

/// The buffer of `tile` with lanes `l`, made now if there is none.
Buffer *BodyLowering::ensure(Value tile, Lanes l) {
  bool flipped = false;
  Value root = stripTransposes(tile, flipped);
  l = flip(l, flipped);
  if (Buffer *buffer = find(root, l))
    return buffer;
  Buffer *other = find(root, flip(l));
  Buffer *buffer = allocate(root, l);
  if (!other) {
    emit(root, l, buffer, {});
  } else {
    int64_t vl = vectorLength(root);
    bySquares(
        buffer->rows, buffer->width, buffer->element, vl,
        [&](Value row, Value lane) {
          transposeSquare(storageType(buffer->element), vl,
                          address(*other, lane, row), index(other->pitch),
                          address(*buffer, row, lane), index(buffer->pitch));
        },
        [&](Value row, Value lane) {
          write(*buffer, row, lane, read(*other, lane, row, 0));
        });
  }
  enter(root, buffer);
  return buffer;
}

/// Makes every buffer that evaluating `v` in `mode` reads stand the right way.
void BodyLowering::prepare(Value v, int mode) {
  if (!isTile(v) || tileType(v).getRank() != 2)
    return;
  if (auto it = state.find(v);
      it != state.end() && (it->second[0] || it->second[1])) {
    ensure(v, Lanes(mode));
    return;
  }
  Operation *op = v.getDefiningOp();
  if (auto t = dyn_cast_or_null<TransposeOp>(op))
    return prepare(t.getTile(), 1 - mode);
  if (op && (isElementwise(op) || isa<GatherOp>(op)))
    for (Value operand : op->getOperands())
      prepare(operand, mode);
}

//===----------------------------------------------------------------------===//
// Expressions
//===----------------------------------------------------------------------===//

Value BodyLowering::eval(Value v, int mode, Point &p) {
  if (!isTile(v)) {
    Value x = map.lookup(v);
    Type wide = computeType(x.getType());
    return wide == x.getType() ? x : Value(arith::ExtFOp::create(b, wide, x));
  }
  auto key = std::pair(v, mode);
  if (Value known = p.memo.lookup(key))
    return known;
  auto compute = [&]() -> Value {
    if (Buffer *buffer =
            find(v, mode == kColumns ? Lanes::columns : Lanes::rows)) {
      if (mode == kVector)
        return read(*buffer, index(0), p.lane, p.vl);
      if (mode == kEntry)
        return read(*buffer, index(0), p.row, 0);
      return read(*buffer, p.row, p.lane, p.vl);
    }
    Operation *op = v.getDefiningOp();
    if (auto t = dyn_cast<TransposeOp>(op))
      return eval(t.getTile(), 1 - mode, p);
    if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
      auto elements = cast<DenseElementsAttr>(constant.getValue());
      Type element = computeType(elements.getElementType());
      TypedAttr one = elements.getSplatValue<TypedAttr>();
      if (auto f = dyn_cast<FloatAttr>(one); f && f.getType() != element)
        one = b.getFloatAttr(element, f.getValueAsDouble());
      if (mode != kEntry)
        one = DenseElementsAttr::get(VectorType::get({p.vl}, element), one);
      return arith::ConstantOp::create(b, one);
    }
    if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
      Value source = broadcast.getSource();
      if (!isTile(source)) {
        Value x = eval(source, mode, p);
        return mode == kEntry ? x : splat(x, p.vl);
      }
      if (tileType(v).getRank() == 1)
        return eval(source, mode, p);
      if (int(broadcast.getDim()) == 1 - mode)
        return eval(source, kVector, p);
      return splat(eval(source, kEntry, p), p.vl);
    }
    if (auto iota = dyn_cast<IotaOp>(op)) {
      Value start = map.lookup(iota.getStart());
      if (mode == kEntry)
        return add(start, p.row);
      Value steps =
          vector::StepOp::create(b, VectorType::get({p.vl}, b.getIndexType()));
      return add(splat(add(start, p.lane), p.vl), steps);
    }
    if (auto gather = dyn_cast<GatherOp>(op))
      return evalGather(gather, mode, p);
    return evalElementwise(op, mode, p);
  };
  Value r = compute();
  p.memo[key] = r;
  return r;
}

Value BodyLowering::evalElementwise(Operation *op, int mode, Point &p) {
  SmallVector<Value> args;
  for (Value operand : op->getOperands())
    args.push_back(eval(operand, mode, p));
  Type narrow = tileType(op->getResult(0)).getElementType();
  Type element = computeType(narrow);
  Type type = mode == kEntry ? element : Type(VectorType::get({p.vl}, element));
  b.setLoc(op->getLoc());
  Value r;
  if (isa<arith::ExtFOp, arith::TruncFOp>(op) && args[0].getType() == type)
    r = args[0]; // between f32 and 16 bits
  else if ((r = expandMath(b, op, args, machine))) {
  } else {
    OperationState s(op->getLoc(), op->getName(), args, type);
    s.propertiesAttr = op->getPropertiesAsAttribute();
    r = b.create(s)->getResult(0);
  }
  return narrow == element ? r : roundTo(b, r, narrow);
}

/// Which entries of `buffer` a gather or scatter means, as vectors, clamped
/// into the buffer; `nonEmpty` says whether the buffer has entries at all.
Value BodyLowering::linearIndex(Value buffer, OperandRange indices, int mode,
                                Point &p, Value &nonEmpty, Value &pointer) {
  Value memref = map.lookup(buffer);
  auto meta = memref::ExtractStridedMetadataOp::create(b, memref);
  Type memory = memoryType(cast<MemRefType>(memref.getType()).getElementType());
  pointer = step(basePointer(memref), memory, meta.getOffset());
  nonEmpty = arith::ConstantOp::create(b, b.getBoolAttr(true));
  Value scalar = index(0), vector;
  for (auto [d, i] : llvm::enumerate(indices)) {
    Value last = add(meta.getSizes()[d], -1), stride = meta.getStrides()[d],
          lo = index(0);
    nonEmpty = arith::AndIOp::create(
        b, nonEmpty,
        arith::CmpIOp::create(b, arith::CmpIPredicate::sge, last, index(0)));
    Value x = eval(i, mode, p);
    if (isTile(i)) {
      last = splat(last, p.vl);
      stride = splat(stride, p.vl);
      lo = splat(lo, p.vl);
    }
    x = mul(least(arith::MaxSIOp::create(b, x, lo), last), stride);
    if (!isTile(i))
      scalar = add(scalar, x);
    else
      vector = vector ? add(vector, x) : x;
  }
  scalar = splat(scalar, p.vl);
  return vector ? add(vector, scalar) : scalar;
}

Value BodyLowering::evalGather(GatherOp op, int mode, Point &p) {
  Value nonEmpty, pointer;
  Value linear =
      linearIndex(op.getBuffer(), op.getIndices(), mode, p, nonEmpty, pointer);
  Type element = op.getBuffer().getType().getElementType(),
       memory = memoryType(element);
  Value offsets = arith::IndexCastOp::create(
      b, VectorType::get({p.vl}, b.getI64Type()), linear);
  Value pointers =
      LLVM::GEPOp::create(b, VectorType::get({p.vl}, pointerType()), memory,
                          pointer, ArrayRef<LLVM::GEPArg>{offsets});
  VectorType type = VectorType::get({p.vl}, memory);
  Value bits = LLVM::masked_gather::create(
      b, type, pointers, splat(nonEmpty, p.vl), ValueRange{zero(type)},
      b.getI32IntegerAttr(memory.getIntOrFloatBitWidth() / 8));
  return fromMemory(b, bits, element);
}

//===----------------------------------------------------------------------===//
// What gets a buffer
//===----------------------------------------------------------------------===//

namespace {
bool isExpression(Operation *op) {
  return op && op->getNumResults() == 1 &&
         (isElementwise(op) || isa<BroadcastOp, TransposeOp, IotaOp>(op) ||
          (isa<arith::ConstantOp>(op) && isTile(op->getResult(0))));
}
int ownCost(Operation *op) {
  if (isa<BroadcastOp, TransposeOp, arith::ConstantOp>(op))
    return 0;
  if (isa<math::MathDialect>(op->getDialect()))
    return isa<math::AbsFOp, math::FmaOp>(op) ? 1 : 10;
  if (isa<arith::DivFOp, arith::RemFOp, arith::DivSIOp, arith::DivUIOp,
          arith::RemSIOp, arith::RemUIOp, arith::FloorDivSIOp,
          arith::CeilDivSIOp>(op))
    return 10;
  return 1;
}
bool crossesLoop(Value v, Operation *user) {
  for (Region *r = user->getParentRegion(); r != v.getParentRegion();
       r = r->getParentOp()->getParentRegion())
    if (isa<scf::ForOp>(r->getParentOp()))
      return true;
  return false;
}
} // namespace

/// Vector instructions, roughly, to evaluate `v` once.
int BodyLowering::cost(Value v) {
  Operation *op = v.getDefiningOp();
  if (!isTile(v) || !isExpression(op) || eager.contains(v))
    return 0;
  if (auto it = costs.find(v); it != costs.end())
    return it->second;
  int c = ownCost(op);
  for (Value operand : op->getOperands())
    c += cost(operand);
  return costs[v] = std::min(c, 1000);
}

/// How often the expression `v` is evaluated for every entry.
int BodyLowering::sites(Value v) {
  if (auto it = siteCounts.find(v); it != siteCounts.end())
    return it->second;
  int n = 0;
  for (Operation *user : v.getUsers())
    n += isExpression(user) && !eager.contains(user->getResult(0))
             ? sites(user->getResult(0))
             : 1;
  return siteCounts[v] = std::min(n, 1000);
}

void BodyLowering::choose(Block &body) {
  SmallVector<Value> candidates;
  body.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (isa<GatherOp>(op))
      eager.insert(op->getResult(0));
    else if (isElementwise(op))
      candidates.push_back(op->getResult(0));
    // The factors of a product are read many times.
    if (auto dot = dyn_cast<DotOp>(op))
      for (Value factor : {dot.getA(), dot.getB()}) {
        bool flipped = false;
        Value root = stripTransposes(factor, flipped);
        if (root.getDefiningOp() && isElementwise(root.getDefiningOp()))
          eager.insert(root);
      }
  });
  for (bool changed = true; changed;) {
    changed = false;
    costs.clear();
    siteCounts.clear();
    for (Value v : candidates) {
      if (eager.contains(v))
        continue;
      RankedTensorType type = tileType(v);
      bool isFloat = isa<FloatType>(type.getElementType());
      bool pays;
      if (type.getRank() == 1 && isFloat)
        pays = !v.hasOneUse() || isExpression(*v.user_begin()) ||
               crossesLoop(v, *v.user_begin());
      else
        pays = (sites(v) > 1 || llvm::any_of(v.getUsers(),
                                             [&](Operation *u) {
                                               return crossesLoop(v, u);
                                             })) &&
               cost(v) > (isFloat ? 3 : 10);
      if (pays) {
        eager.insert(v);
        changed = true;
        break;
      }
    }
  }
}

//===----------------------------------------------------------------------===//
// Loops over a tile
//===----------------------------------------------------------------------===//

Value BodyLowering::identity(ReduceKind kind, Type type) {
  Type element = getElementTypeOrSelf(type);
  TypedAttr attr;
  if (kind == ReduceKind::any || kind == ReduceKind::all)
    attr = b.getBoolAttr(kind == ReduceKind::all);
  else if (kind == ReduceKind::add)
    attr = b.getFloatAttr(element, 0.0);
  else
    attr = b.getFloatAttr(
        element, APFloat::getInf(cast<FloatType>(element).getFloatSemantics(),
                                 /*Negative=*/true));
  if (auto vector = dyn_cast<VectorType>(type))
    attr = DenseElementsAttr::get(vector, attr);
  return arith::ConstantOp::create(b, attr);
}

Value BodyLowering::combine(ReduceKind kind, Value x, Value y) {
  switch (kind) {
  case ReduceKind::add:
    return arith::AddFOp::create(b, x, y);
  case ReduceKind::max: // y when x is a NaN
    return arith::SelectOp::create(
        b, arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, x, y), x, y);
  case ReduceKind::any:
    return arith::OrIOp::create(b, x, y);
  case ReduceKind::all:
    return arith::AndIOp::create(b, x, y);
  }
  llvm_unreachable("all kinds are handled");
}

Value BodyLowering::combineLanes(ReduceKind kind, Value x) {
  using K = vector::CombiningKind;
  K k = kind == ReduceKind::add   ? K::ADD
        : kind == ReduceKind::max ? K::MAXNUMF
        : kind == ReduceKind::any ? K::OR
                                  : K::AND;
  auto flags = kind == ReduceKind::add ? arith::FastMathFlags::reassoc
                                       : arith::FastMathFlags::none;
  return vector::ReductionOp::create(b, k, x, flags);
}

/// The reductions of `v` in `block` that have not been emitted.
SmallVector<ReduceOp> BodyLowering::reducesOf(Value v, Block *block) {
  SmallVector<ReduceOp> r;
  for (Operation *user : v.getUsers())
    if (auto reduce = dyn_cast<ReduceOp>(user);
        reduce && user->getBlock() == block && !done.contains(user))
      r.push_back(reduce);
  return r;
}

/// Evaluates `v` once for every entry, stores it (if `target`) and reduces it.
void BodyLowering::emit(Value v, Lanes l, Buffer *target,
                        MutableArrayRef<ReduceOp> reduces) {
  prepare(v, modeOf(v, l));
  // A reduction along the rows in memory keeps vectors of sums and wants the
  // rows innermost; one along the lanes wants them outermost.
  SmallVector<ReduceOp> across, along;
  for (ReduceOp r : reduces) {
    bool isAlong =
        tileType(v).getRank() == 1 || (l == Lanes::rows) == (r.getDim() == 1);
    (isAlong ? along : across).push_back(r);
  }
  if (!across.empty() || along.empty())
    emitLoop(v, l, target, across, /*vertical=*/!across.empty());
  if (!along.empty()) {
    if (!across.empty() && target)
      enter(v, target);
    emitLoop(v, l, across.empty() ? target : nullptr, along,
             /*vertical=*/false);
  }
  for (ReduceOp r : reduces)
    done.insert(r);
}

void BodyLowering::emitLoop(Value v, Lanes l, Buffer *target,
                            MutableArrayRef<ReduceOp> reduces, bool vertical) {
  constexpr int64_t kUnroll = 4;
  RankedTensorType type = tileType(v);
  int mode = modeOf(v, l);
  int laneDim = type.getRank() == 2 && l == Lanes::rows ? 1 : 0;
  int64_t width = type.getDimSize(laneDim);
  int64_t rows = type.getRank() == 2 ? type.getDimSize(1 - laneDim) : 1;
  int64_t vl = vectorLength(v);
  int64_t full = width / vl, count = llvm::divideCeil(width, vl);
  VectorType vectorType =
      VectorType::get({vl}, computeType(type.getElementType()));

  SmallVector<Buffer *> results;
  for (ReduceOp r : reduces) {
    Buffer *buffer = nullptr;
    if (isTile(r.getResult())) {
      buffer = chooseTarget(r.getResult(), l, r);
      enter(r.getResult(), buffer);
    }
    results.push_back(buffer);
  }

  // One vector: evaluate, store, add to the sums.
  auto visit = [&](Point &p, bool tail, MutableArrayRef<Value> sums) {
    Value x = eval(v, mode, p);
    if (target)
      write(*target, p.row, p.lane, x);
    for (auto [sum, r] : llvm::zip(sums, reduces)) {
      Value y = x;
      if (tail && !vertical)
        y = arith::SelectOp::create(b, laneMask(vl, width % vl), x,
                                    identity(r.getKind(), vectorType));
      sum = combine(r.getKind(), y, sum);
    }
  };
  // Several vectors of one row; what holds for the whole row is computed once.
  auto visitRow = [&](Value row, Value lane, int64_t n, bool tail,
                      MutableArrayRef<Value> sums, size_t sumStride) {
    DenseMap<std::pair<Value, int>, Value> shared;
    for (int64_t u = 0; u < n; ++u) {
      Point p(vl, row, add(lane, u * vl));
      p.memo = shared;
      visit(p, tail && u == n - 1, sums.slice(u * sumStride, reduces.size()));
      for (auto &[key, value] : p.memo)
        if (key.second == kEntry)
          shared.insert({key, value});
    }
  };
  auto initial = [&](int64_t n) {
    SmallVector<Value> init;
    for (int64_t u = 0; u < n; ++u)
      for (ReduceOp r : reduces)
        init.push_back(identity(r.getKind(), vectorType));
    return init;
  };
  auto finish = [&](Value x) {
    Type narrow = type.getElementType();
    return narrow == computeType(narrow) ? x : roundTo(b, x, narrow);
  };

  if (vertical) {
    auto group = [&](Value lane, int64_t n) {
      SmallVector<Value> sums =
          loop(rows, 1, initial(n), [&](Value row, ValueRange sums) {
            SmallVector<Value> next(sums);
            visitRow(row, lane, n, false, next, reduces.size());
            return next;
          });
      for (int64_t u = 0; u < n; ++u)
        for (size_t r = 0; r < reduces.size(); ++r)
          write(*results[r], index(0), add(lane, u * vl),
                finish(sums[u * reduces.size() + r]));
    };
    int64_t groups = count / kUnroll;
    if (groups)
      loop(groups * kUnroll * vl, kUnroll * vl, {},
           [&](Value lane, ValueRange) {
             group(lane, kUnroll);
             return SmallVector<Value>();
           });
    if (int64_t rest = count % kUnroll)
      group(index(groups * kUnroll * vl), rest);
    return;
  }

  loop(rows, 1, {}, [&](Value row, ValueRange) {
    SmallVector<Value> sums = initial(1);
    int64_t groups = count <= kUnroll ? 0 : full / kUnroll;
    if (groups)
      sums = loop(groups * kUnroll * vl, kUnroll * vl, sums,
                  [&](Value lane, ValueRange args) {
                    SmallVector<Value> next(args);
                    visitRow(row, lane, kUnroll, false, next, 0);
                    return next;
                  });
    if (int64_t rest = count - groups * kUnroll)
      visitRow(row, index(groups * kUnroll * vl), rest, full != count, sums, 0);
    for (auto [sum, r, buffer] : llvm::zip(sums, reduces, results)) {
      Value x = finish(combineLanes(r.getKind(), sum));
      if (buffer)
        store(toStorage(x, type.getElementType()),
              address(*buffer, index(0), row));
      else
        map.map(r.getResult(), x);
    }
    return SmallVector<Value>();
  });
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

LogicalResult BodyLowering::lowerBlock(Block &block) {
  for (Operation &op : block) {
    b.setLoc(op.getLoc());
    if (done.contains(&op))
      continue; // a reduction that went into an earlier loop
    if (failed(lower(&op)))
      return failure();
    done.insert(&op);
    release();
  }
  return success();
}

LogicalResult BodyLowering::lower(Operation *op) {
  auto touchesTiles = [](Operation *o) {
    return llvm::any_of(o->getOperands(), isTile) ||
           llvm::any_of(o->getResults(), isTile);
  };
  if (isExpression(op)) {
    Value v = op->getResult(0);
    if (!isTile(v)) {
      b.clone(*op, map);
      return success();
    }
    for (Value operand : op->getOperands())
      if (isTile(operand) && isa<arith::BitcastOp>(op) &&
          computeType(tileType(operand).getElementType()) !=
              tileType(operand).getElementType())
        return op->emitOpError("expected 32 or 64 bits on the CPU, got ")
               << operand.getType();
    if (auto c = dyn_cast<arith::ConstantOp>(op);
        c && !isa<SplatElementsAttr>(c.getValue()))
      return op->emitOpError("expected a tile constant of one value, got ")
             << c.getValue();
    if (eager.contains(v)) {
      Lanes l = lanes.get(v);
      prepare(v, modeOf(v, l));
      Buffer *target = chooseTarget(v, l, op);
      SmallVector<ReduceOp> reduces = reducesOf(v, op->getBlock());
      emit(v, l, target, reduces);
      enter(v, target);
    }
    return success();
  }
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](scf::ForOp o) { return lowerFor(o); })
      .Case([&](scf::IfOp o) { return lowerIf(o); })
      .Case([&](scf::YieldOp o) {
        lowerYield(o);
        return success();
      })
      .Case([&](DotOp o) { return lowerDot(o); })
      .Case([&](LoadOp o) {
        lowerLoad(o);
        return success();
      })
      .Case([&](GatherOp o) {
        Value v = o.getResult();
        Lanes l = lanes.get(v);
        prepare(v, modeOf(v, l));
        Buffer *target = chooseTarget(v, l, op);
        SmallVector<ReduceOp> reduces = reducesOf(v, op->getBlock());
        emit(v, l, target, reduces);
        enter(v, target);
        return success();
      })
      .Case([&](ReduceOp o) {
        Value tile = o.getTile();
        // A tile without a layout of its own is read so that lanes stay apart.
        Lanes l = lanes.isChosen(tile) ? lanes.get(tile)
                  : o.getDim() == 0    ? Lanes::rows
                                       : Lanes::columns;
        SmallVector<ReduceOp> reduces = reducesOf(tile, op->getBlock());
        emit(tile, l, nullptr, reduces);
        return success();
      })
      .Case([&](StoreOp o) {
        lowerStore(o.getTile(), o.getBuffer(), o.getIndices(), o.getLimits(),
                   /*adds=*/false);
        return success();
      })
      .Case([&](AccumulateOp o) {
        // Others wait for the addition, not for what is added.
        if (o.getMode() != AccumulateMode::plain && cost(o.getTile()) > 0)
          ensure(o.getTile(), lanes.get(o.getTile()));
        auto add = [&] {
          lowerStore(o.getTile(), o.getBuffer(), o.getIndices(), o.getLimits(),
                     /*adds=*/true);
        };
        if (o.getMode() == AccumulateMode::ordered) {
          Value t = ticket(o.getTickets(), o.getTicketIndices());
          waitTurn(t, map.lookup(o.getTurn()));
          add();
          passTurn(t);
        } else {
          locked(o.getBuffer(), o.getMode(), add);
        }
        return success();
      })
      .Case([&](PassTurnOp o) {
        Value t = ticket(o.getTickets(), o.getTicketIndices());
        waitTurn(t, map.lookup(o.getTurn()));
        passTurn(t);
        return success();
      })
      .Case([&](ScatterAddOp o) {
        locked(o.getBuffer(), o.getMode(), [&] { lowerScatter(o); });
        return success();
      })
      .Case([&](TickOp o) {
        Value id = arith::ConstantOp::create(b, b.getI64IntegerAttr(o.getId()));
        callRuntime(kTick, id);
        return success();
      })
      .Default([&](Operation *o) -> LogicalResult {
        bool tiles = touchesTiles(o);
        o->walk([&](Operation *inner) { tiles |= touchesTiles(inner); });
        if (tiles)
          return o->emitOpError("is not supported on tiles by the CPU target");
        b.clone(*o, map);
        return success();
      });
}

LogicalResult BodyLowering::lowerFor(scf::ForOp op) {
  SmallVector<Value> scalars;
  SmallVector<Buffer *> targets(op.getNumRegionIterArgs());
  for (auto [k, init] : llvm::enumerate(op.getInitArgs())) {
    if (!isTile(init)) {
      scalars.push_back(map.lookup(init));
      continue;
    }
    Lanes l = lanes.get(op.getRegionIterArg(k));
    Buffer *buffer = find(init, l);
    bool once = llvm::count(op.getInitArgs(), init) == 1;
    if (!buffer || !once || !isWritable(buffer) || !fits(buffer, init, l) ||
        buffer->owner != init || hasPendingUse(init, op)) {
      prepare(init, modeOf(init, l));
      buffer = yieldTarget(op.getResult(k));
      if (!buffer || !fits(buffer, init, l) ||
          llvm::is_contained(targets, buffer) ||
          (buffer->owner && hasPendingUse(buffer->owner, nullptr)))
        buffer = allocate(init, l);
      emit(init, l, buffer, {});
    }
    targets[k] = buffer;
    buffer->owner = op.getRegionIterArg(k);
  }
  auto newLoop = scf::ForOp::create(b, map.lookup(op.getLowerBound()),
                                    map.lookup(op.getUpperBound()),
                                    map.lookup(op.getStep()), scalars);
  {
    OpBuilder::InsertionGuard g(b);
    if (scalars.empty())
      newLoop.getBody()->getTerminator()->erase();
    b.setInsertionPointToStart(newLoop.getBody());
    map.map(op.getInductionVar(), newLoop.getInductionVar());
    scopes.emplace_back();
    scopes.back().targets = targets;
    unsigned s = 0;
    for (auto [k, arg] : llvm::enumerate(op.getRegionIterArgs())) {
      if (targets[k])
        enter(arg, targets[k]);
      else
        map.map(arg, newLoop.getRegionIterArg(s++));
    }
    if (failed(lowerBlock(*op.getBody())))
      return failure();
    popScope();
  }
  unsigned s = 0;
  for (auto [k, result] : llvm::enumerate(op.getResults())) {
    if (targets[k])
      enter(result, targets[k]);
    else
      map.map(result, newLoop.getResult(s++));
  }
  return success();
}

LogicalResult BodyLowering::lowerIf(scf::IfOp op) {
  SmallVector<Type> scalars;
  SmallVector<Buffer *> targets(op.getNumResults());
  for (auto [k, result] : llvm::enumerate(op.getResults())) {
    if (!isTile(result)) {
      scalars.push_back(result.getType());
      continue;
    }
    Lanes l = lanes.get(result);
    auto usable = [&](Buffer *buffer) {
      return buffer && fits(buffer, result, l) &&
             !llvm::is_contained(targets, buffer) &&
             (!buffer->owner ||
              !hasPendingUse(buffer->owner, nullptr, /*within=*/op));
    };
    Buffer *buffer = yieldTarget(result);
    // Or the place of a tile that one branch passes through.
    if (!usable(buffer))
      for (Operation *yield :
           {op.thenYield().getOperation(), op.elseYield().getOperation()}) {
        Buffer *through = find(yield->getOperand(k), l);
        if (through && isWritable(through) &&
            through->owner == yield->getOperand(k) && usable(through)) {
          buffer = through;
          break;
        }
      }
    targets[k] = usable(buffer) ? buffer : allocate(result, l);
  }
  SmallVector<Value> owners;
  for (Buffer *t : targets)
    owners.push_back(t ? t->owner : Value());
  auto newIf = scf::IfOp::create(b, scalars, map.lookup(op.getCondition()),
                                 /*addThenBlock=*/true,
                                 /*addElseBlock=*/bool(op.elseBlock()));
  for (auto [region, newRegion] :
       {std::pair(&op.getThenRegion(), &newIf.getThenRegion()),
        std::pair(&op.getElseRegion(), &newIf.getElseRegion())}) {
    if (region->empty())
      continue;
    OpBuilder::InsertionGuard g(b);
    if (!newRegion->front().empty())
      newRegion->front().getTerminator()->erase();
    b.setInsertionPointToStart(&newRegion->front());
    scopes.emplace_back();
    scopes.back().targets = targets;
    otherBranches.push_back(region == &op.getThenRegion()
                                ? &op.getElseRegion()
                                : &op.getThenRegion());
    if (failed(lowerBlock(region->front())))
      return failure();
    otherBranches.pop_back();
    popScope();
    for (auto [t, owner] : llvm::zip(targets, owners))
      if (t)
        t->owner = owner;
  }
  unsigned s = 0;
  for (auto [k, result] : llvm::enumerate(op.getResults())) {
    if (targets[k])
      enter(result, targets[k]);
    else
      map.map(result, newIf.getResult(s++));
  }
  return success();
}

/// Moves the yielded tiles into their buffers, in an order in which none is
/// overwritten before it is read.
void BodyLowering::lowerYield(Operation *yield) {
  struct Move {
    Value from;
    Buffer *to;
  };
  SmallVector<Move> moves;
  SmallVector<Value> scalars;
  SmallVector<Buffer *> targets = scopes.back().targets;
  for (auto [k, v] : llvm::enumerate(yield->getOperands())) {
    if (!isTile(v)) {
      scalars.push_back(map.lookup(v));
      continue;
    }
    if (find(v, targets[k]->lanes) == targets[k])
      continue;
    prepare(v, modeOf(v, targets[k]->lanes));
    moves.push_back({v, targets[k]});
  }
  while (!moves.empty()) {
    auto isFree = [&](Move &move) {
      return llvm::all_of(moves, [&](Move &other) {
        Leaves leaves;
        int mode = modeOf(other.from, other.to->lanes);
        collectLeaves(other.from, mode, mode, leaves);
        return llvm::none_of(leaves, [&](auto leaf) {
          return leaf.first == move.to && (&other != &move || !leaf.second);
        });
      });
    };
    Move *next = llvm::find_if(moves, isFree);
    if (next == moves.end()) {
      // A cycle: take one value out of the way.
      Move &first = moves.front();
      Buffer *copy = allocate(first.from, first.to->lanes);
      emit(first.from, first.to->lanes, copy, {});
      enter(first.from, copy);
      state[first.from]
           [1 - (tileType(first.from).getRank() == 2 ? int(copy->lanes) : 0)] =
               nullptr;
      continue;
    }
    emit(next->from, next->to->lanes, next->to, {});
    moves.erase(next);
  }
  scf::YieldOp::create(b, scalars);
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

LogicalResult BodyLowering::lowerDot(DotOp op) {
  // C = A B with lanes along C's rows takes vectors of B and scalars of A;
  // along C's columns it is the same with the roles of A and B, and of rows
  // and columns, exchanged.
  Value c = op.getResult();
  Lanes l = lanes.get(c);
  int mode = int(l);
  bool byRows = l == Lanes::rows;
  Value vectorTile = byRows ? op.getB() : op.getA(),
        scalarTile = byRows ? op.getA() : op.getB();
  Type in = storageType(tileType(vectorTile).getElementType());
  if (in.isF64() && !tileType(c).getElementType().isF64())
    return op.emitOpError("expected an f64 accumulator for f64 operands, got ")
           << c.getType();
  Buffer *vectors = ensure(vectorTile, l);
  // Scalars may stand either way.
  Buffer *scalars = nullptr;
  Lanes scalarLanes = byRows ? Lanes::rows : Lanes::columns;
  bool flipped = false;
  Value root = stripTransposes(scalarTile, flipped);
  for (Lanes s : {scalarLanes, flip(scalarLanes)})
    if (!scalars && (scalars = find(root, flip(s, flipped))))
      scalarLanes = s;
  if (!scalars) {
    scalarLanes = lanes.get(scalarTile);
    scalars = ensure(scalarTile, scalarLanes);
  }
  // Entry (i, k) of the scalar operand, i along the rows of the product.
  bool rowMajor = (scalarLanes == Lanes::rows) == byRows;
  int64_t scalarRow = rowMajor ? scalars->pitch : 1,
          scalarStep = rowMajor ? 1 : scalars->pitch;

  prepare(op.getAcc(), mode);
  Buffer *target = chooseTarget(c, l, op);
  int64_t vl = vectorLength(c), count = llvm::divideCeil(target->width, vl);
  int64_t mr = machine.tileRows(), rows = target->rows;
  // The product is a good time to fetch what the next round will load.
  NextTile *next = llvm::find_if(
      nextTiles, [&](NextTile &t) { return t.block == op->getBlock(); });
  std::optional<NextTile> fetched;
  if (next != nextTiles.end()) {
    fetched = *next;
    nextTiles.erase(next);
  }
  int64_t whole = rows / mr * mr;
  int64_t callsPerPanel = whole / mr, calls = callsPerPanel * (count / 2);
  auto panel = [&](Value lane, int64_t vectorCount) {
    if (whole)
      loop(whole, mr, {}, [&](Value row, ValueRange) {
        if (fetched && vectorCount == 2) {
          Value call = add(mul(arith::DivUIOp::create(b, lane, index(2 * vl)),
                               callsPerPanel),
                           arith::DivUIOp::create(b, row, index(mr)));
          prefetch(*fetched, call, calls);
        }
        kernel(op, mode, *vectors, *scalars, scalarRow, scalarStep, *target,
               row, lane, mr, vectorCount);
        return SmallVector<Value>();
      });
    if (int64_t rest = rows % mr)
      kernel(op, mode, *vectors, *scalars, scalarRow, scalarStep, *target,
             index(rows - rest), lane, rest, vectorCount);
  };
  if (int64_t pairs = count / 2)
    loop(pairs * 2 * vl, 2 * vl, {}, [&](Value lane, ValueRange) {
      panel(lane, 2);
      return SmallVector<Value>();
    });
  if (count % 2)
    panel(index((count - 1) * vl), 1);
  enter(c, target);
  return success();
}

/// Fetches the share of `next` that belongs to one of several calls.
void BodyLowering::prefetch(const NextTile &next, Value call, int64_t calls) {
  int64_t share = llvm::divideCeil(next.rows, calls);
  int64_t perLine = 64 * 8 / next.element.getIntOrFloatBitWidth();
  for (int64_t r = 0; r < share; ++r) {
    Value row = add(mul(call, share), r);
    Value p = step(next.pointer, next.element, mul(row, next.rowStride));
    for (int64_t line = 0; line < next.lines; ++line)
      LLVM::Prefetch::create(
          b, step(p, next.element, line * perLine), b.getI32IntegerAttr(0),
          b.getI32IntegerAttr(kFetchInto), b.getI32IntegerAttr(1));
  }
}

/// One register tile: `rows` x `vectorCount` vectors of the result. Sums start
/// at zero and are added to the accumulator at the end, and a long sum is made
/// of parts: the rounding errors of a chain grow with its length.
void BodyLowering::kernel(DotOp op, int mode, Buffer &vectors, Buffer &scalars,
                          int64_t scalarRow, int64_t scalarStep, Buffer &target,
                          Value row, Value lane, int64_t rows,
                          int64_t vectorCount) {
  constexpr int64_t kPart = 32;
  Type narrow = tileType(op.getResult()).getElementType(),
       element = computeType(narrow);
  int64_t vl = vectorLength(op.getResult());
  VectorType type = VectorType::get({vl}, element);
  Type in = storageType(vectors.element);
  int64_t depth = vectors.rows;
  bool fromZero = matchPattern(op.getAcc(), m_AnyZeroFloat());
  Value zeros = zero(type);
  Value vectorBase = step(vectors.pointer, in, lane);
  Value scalarBase = step(scalars.pointer, in, mul(row, scalarRow));
  auto accumulate = [&](Value k, int64_t count, SmallVector<Value> sums) {
    Value vp = step(vectorBase, in, mul(k, vectors.pitch));
    Value sp = step(scalarBase, in, mul(k, scalarStep));
    for (int64_t u = 0; u < count; ++u) {
      SmallVector<Value> xs;
      for (int64_t v = 0; v < vectorCount; ++v) {
        Value x = load(VectorType::get({vl}, in),
                       step(vp, in, u * vectors.pitch + v * vl),
                       alignment(vectors, vl));
        xs.push_back(in == element ? x
                                   : Value(arith::ExtFOp::create(b, type, x)));
      }
      for (int64_t r = 0; r < rows; ++r) {
        Value s = load(in, step(sp, in, r * scalarRow + u * scalarStep));
        if (in != element)
          s = arith::ExtFOp::create(b, element, s);
        s = splat(s, vl);
        for (int64_t v = 0; v < vectorCount; ++v) {
          Value &sum = sums[r * vectorCount + v];
          sum = LLVM::FMulAddOp::create(b, type, s, xs[v], sum);
        }
      }
    }
    return sums;
  };
  // Sums over [from, to), added to the accumulator or to what is in `target`.
  auto part = [&](Value from, Value to, bool isFirst) {
    int64_t unroll = depth % 4 == 0 ? 4 : 1;
    SmallVector<Value> sums(rows * vectorCount, zeros);
    sums = loop(from, to, unroll, sums, [&](Value k, ValueRange args) {
      return accumulate(k, unroll, SmallVector<Value>(args));
    });
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t v = 0; v < vectorCount; ++v) {
        Value x = sums[r * vectorCount + v];
        Point p(vl, add(row, r), add(lane, v * vl));
        if (!isFirst)
          x = arith::AddFOp::create(b, read(target, p.row, p.lane, vl), x);
        else if (!fromZero)
          x = arith::AddFOp::create(b, eval(op.getAcc(), mode, p), x);
        write(target, p.row, p.lane,
              narrow == element ? x : roundTo(b, x, narrow));
      }
  };
  int64_t first =
      fromZero && narrow == element ? std::min(depth, kPart) : depth;
  part(index(0), index(first), /*isFirst=*/true);
  if (first < depth)
    loop(index(first), index(depth), kPart, {}, [&](Value k, ValueRange) {
      part(k,
           depth % kPart ? least(add(k, kPart), index(depth)) : add(k, kPart),
           false);
      return SmallVector<Value>();
    });
}

//===----------------------------------------------------------------------===//
// Memory of the caller
//===----------------------------------------------------------------------===//

Value BodyLowering::basePointer(Value memref) {
  Value p = memref::ExtractAlignedPointerAsIndexOp::create(b, memref);
  Value bits = arith::IndexCastOp::create(b, b.getI64Type(), p);
  return LLVM::IntToPtrOp::create(b, pointerType(), bits);
}

Access BodyLowering::access(Value buffer, OperandRange indices,
                            OperandRange limits, RankedTensorType tile,
                            Lanes l) {
  Value memref = map.lookup(buffer);
  Access a;
  a.element = tile.getElementType();
  auto meta = memref::ExtractStridedMetadataOp::create(b, memref);
  Value offset = meta.getOffset();
  SmallVector<Value> at;
  for (auto [d, i] : llvm::enumerate(indices)) {
    at.push_back(map.lookup(i));
    offset = add(offset, mul(at.back(), meta.getStrides()[d]));
  }
  a.pointer = step(basePointer(memref), memoryType(a.element), offset);
  int64_t first = at.size() - tile.getRank();
  auto valid = [&](int64_t d) {
    Value n = arith::SubIOp::create(b, map.lookup(limits[d]), at[first + d]);
    return least(arith::MaxSIOp::create(b, n, index(0)),
                 index(tile.getDimSize(d)));
  };
  int lane = tile.getRank() == 2 && l == Lanes::rows ? 1 : 0;
  a.laneStride = meta.getStrides()[first + lane];
  a.validLanes = valid(lane);
  a.width = tile.getDimSize(lane);
  if (tile.getRank() == 2) {
    a.rowStride = meta.getStrides()[first + 1 - lane];
    a.validRows = valid(1 - lane);
    a.rows = tile.getDimSize(1 - lane);
  } else {
    a.rowStride = index(0);
    a.validRows = index(1);
    a.rows = 1;
  }
  return a;
}

void BodyLowering::lowerLoad(LoadOp op) {
  Value v = op.getTile();
  unsigned wanted = tileType(v).getRank() == 2 ? lanes.getWanted(op) : 1;
  for (Lanes l : {Lanes::rows, Lanes::columns})
    if (wanted & (1u << int(l))) {
      Buffer *buffer = allocate(v, l);
      pack(access(op.getBuffer(), op.getIndices(), op.getLimits(), tileType(v),
                  l),
           *buffer);
      enter(v, buffer);
    }
  RankedTensorType type = tileType(v);
  int64_t bytes = memoryType(type.getElementType()).getIntOrFloatBitWidth() / 8;
  Operation *parent = op->getParentOp();
  while (isa<scf::IfOp>(parent))
    parent = parent->getParentOp();
  if (type.getRank() != 2 || !isa<scf::ForOp>(parent) ||
      type.getNumElements() * bytes < 4096)
    return;
  Access a = access(op.getBuffer(), op.getIndices(), op.getLimits(), type,
                    Lanes::rows);
  NextTile next{op->getBlock(), nullptr,
                a.rowStride,    memoryType(a.element),
                a.rows,         int64_t(llvm::divideCeil(a.width * bytes, 64))};
  next.pointer = step(a.pointer, next.element, mul(a.rowStride, a.rows));
  nextTiles.push_back(next);
}

/// Copies what is below the limits into `buffer` and fills the rest with zero,
/// by one function for all tiles of this kind in the module.
void BodyLowering::pack(const Access &a, Buffer &buffer) {
  std::string name;
  llvm::raw_string_ostream(name)
      << "fathom.pack." << a.rows << "x" << a.width << "x" << a.element;
  Type i = b.getIndexType(), p = pointerType();
  func::FuncOp f =
      getHelper(name, {p, i, i, i, i, p}, [&](Block::BlockArgListType args) {
        packInto({a.element, args[0], args[1], args[2], args[3], args[4],
                  a.rows, a.width},
                 args[5]);
      });
  func::CallOp::create(b, f,
                       ValueRange{a.pointer, a.rowStride, a.laneStride,
                                  a.validRows, a.validLanes, buffer.pointer});
}

/// A private function of the module, built when it is first asked for.
func::FuncOp
BodyLowering::getHelper(StringRef name, TypeRange arguments,
                        function_ref<void(Block::BlockArgListType)> body) {
  auto module = entry->getParentOp()->getParentOfType<ModuleOp>();
  if (auto f = module.lookupSymbol<func::FuncOp>(name))
    return f;
  OpBuilder::InsertionGuard g(b);
  b.setInsertionPointToEnd(module.getBody());
  auto f = func::FuncOp::create(b, name, b.getFunctionType(arguments, {}));
  f.setPrivate();
  Block *block = f.addEntryBlock();
  b.setInsertionPointToStart(block);
  auto outer = std::pair(entry, std::move(constants));
  entry = block;
  constants.clear();
  body(block->getArguments());
  func::ReturnOp::create(b);
  std::tie(entry, constants) = std::move(outer);
  return f;
}

void BodyLowering::packInto(const Access &a, Value target) {
  Buffer buffer = layout(a.element, a.rows, a.width, Lanes::rows);
  buffer.pointer = target;
  Type memory = memoryType(a.element);
  int64_t vl =
      std::min(machine.padding(), machine.lanes(computeType(a.element)));
  unsigned bytes = memory.getIntOrFloatBitWidth() / 8;
  VectorType type = VectorType::get({vl}, memory);
  Type computed = computeType(a.element);
  Value zeros = zero(VectorType::get({vl}, computed));
  int64_t whole = a.width / vl * vl;
  Value rows = a.validRows;
  Value isPlain = arith::AndIOp::create(
      b, isEqual(a.laneStride, 1),
      arith::CmpIOp::create(b, arith::CmpIPredicate::eq, a.validLanes,
                            index(a.width)));
  ifThenElse(
      isPlain,
      [&] {
        forEach(a.validRows, [&](Value row) {
          Value p = step(a.pointer, memory, mul(row, a.rowStride));
          if (whole)
            loop(whole, vl, {}, [&](Value lane, ValueRange) {
              Value x = load(type, step(p, memory, lane), bytes);
              write(buffer, row, lane, fromMemory(b, x, a.element));
              return SmallVector<Value>();
            });
          if (whole < a.width) {
            Value x = loadFirst(type, a.width - whole, step(p, memory, whole));
            write(buffer, row, index(whole), fromMemory(b, x, a.element));
          }
        });
      },
      [&] {
        if (a.rows > 1) {
          Value square = isTransposed(a);
          auto at = [&](Value row, Value lane) {
            return step(a.pointer, memory, add(row, mul(lane, a.laneStride)));
          };
          Type storage = storageType(a.element);
          Value widened;
          if (memory != storage) {
            Value n =
                arith::ConstantOp::create(b, b.getI64IntegerAttr(vl * vl));
            widened = LLVM::AllocaOp::create(b, pointerType(), storage, n, 64);
          }
          auto moveSquare = [&](Value row, Value lane) {
            Value from = at(row, lane), pitch = a.laneStride;
            if (memory != storage) {
              // Widened first.
              Buffer wide = layout(a.element, vl, vl, Lanes::rows);
              wide.pointer = widened;
              loop(vl, 1, {}, [&](Value i, ValueRange) {
                Value x =
                    load(type, step(from, memory, mul(i, a.laneStride)), bytes);
                write(wide, i, index(0), fromMemory(b, x, a.element));
                return SmallVector<Value>();
              });
              from = wide.pointer;
              pitch = index(wide.pitch);
            }
            transposeSquare(storage, vl, from, pitch,
                            address(buffer, row, lane), index(buffer.pitch));
          };
          ifThenElse(
              square,
              [&] {
                bySquares(a.rows, a.width, a.element, vl, moveSquare,
                          [&](Value row, Value lane) {
                            write(buffer, row, lane,
                                  fromMemory(b, load(memory, at(row, lane)),
                                             a.element));
                          });
              },
              nullptr);
          // Nothing is left to do then.
          rows = arith::SelectOp::create(b, square, index(0), rows);
        }
        forEach(rows, [&](Value row) {
          Value p = step(a.pointer, memory, mul(row, a.rowStride));
          forEach(a.validLanes, [&](Value lane) {
            Value x = load(memory, step(p, memory, mul(lane, a.laneStride)));
            write(buffer, row, lane, fromMemory(b, x, a.element));
          });
          loop(a.validLanes, index(a.width), 1, {},
               [&](Value lane, ValueRange) {
                 write(buffer, row, lane, zero(computed));
                 return SmallVector<Value>();
               });
        });
      });
  if (a.rows > 1)
    loop(a.validRows, index(a.rows), 1, {}, [&](Value row, ValueRange) {
      loop(llvm::alignTo(a.width, vl), vl, {}, [&](Value lane, ValueRange) {
        write(buffer, row, lane, zeros);
        return SmallVector<Value>();
      });
      return SmallVector<Value>();
    });
}

/// True when what is contiguous in memory lies across the lanes and the whole
/// tile is valid.
Value BodyLowering::isTransposed(const Access &a) {
  auto equal = [&](Value x, Value y) {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, x, y);
  };
  Value whole = arith::AndIOp::create(b, equal(a.validRows, index(a.rows)),
                                      equal(a.validLanes, index(a.width)));
  return arith::AndIOp::create(b, isEqual(a.rowStride, 1), whole);
}

/// Moves a tile whose vectors lie across the lanes on one side: squares of `vl`
/// by `vl` where they fit, the rest entry by entry.
void BodyLowering::bySquares(int64_t rows, int64_t width, Type element,
                             int64_t vl,
                             function_ref<void(Value, Value)> square,
                             function_ref<void(Value, Value)> one) {
  int64_t whole =
      element.isIntOrFloat() && !element.isInteger(1) && width % vl == 0
          ? rows / vl * vl
          : 0;
  SmallVector<Value> none;
  auto each = [&](int64_t from, int64_t to, int64_t by,
                  function_ref<void(Value, Value)> body) {
    if (from < to)
      loop(index(from), index(to), by, {}, [&](Value row, ValueRange) {
        return loop(width, by, {}, [&](Value lane, ValueRange) {
          body(row, lane);
          return none;
        });
      });
  };
  each(0, whole, vl, square);
  each(whole, rows, 1, one);
}

/// Transposes `vl` vectors at `from` into as many at `to`, by one function for
/// the whole module.
void BodyLowering::transposeSquare(Type element, int64_t vl, Value from,
                                   Value fromPitch, Value to, Value toPitch) {
  unsigned bytes = element.getIntOrFloatBitWidth() / 8;
  std::string name =
      ("fathom.transpose" + Twine(bytes * 8) + "x" + Twine(vl)).str();
  Type i = b.getIndexType(), p = pointerType();
  func::FuncOp f =
      getHelper(name, {p, i, p, i}, [&](Block::BlockArgListType args) {
        auto at = [&](unsigned argument, int64_t i) {
          return step(args[argument], element, mul(args[argument + 1], i));
        };
        SmallVector<Value> square;
        for (int64_t i = 0; i < vl; ++i)
          square.push_back(
              load(VectorType::get({vl}, element), at(0, i), bytes));
        // Exchange the off-diagonal halves, then quarters, ...
        for (int64_t half = vl / 2; half >= 1; half /= 2) {
          SmallVector<int64_t> first, second;
          for (int64_t l = 0; l < vl; ++l) {
            first.push_back(l & half ? vl + l - half : l);
            second.push_back(l & half ? vl + l : l + half);
          }
          for (int64_t i = 0; i < vl; ++i) {
            if (i & half)
              continue;
            Value x = square[i], y = square[i + half];
            square[i] = vector::ShuffleOp::create(b, x, y, first);
            square[i + half] = vector::ShuffleOp::create(b, x, y, second);
          }
        }
        for (int64_t i = 0; i < vl; ++i)
          store(square[i], at(2, i), bytes);
      });
  func::CallOp::create(b, f, ValueRange{from, fromPitch, to, toPitch});
}

/// The first `n` entries of a vector at `pointer`, the others zero. In pieces
/// of 8, 4, 2 and 1 and not by a masked load or store: LLVM 22 makes a masked
/// store of one narrowed entry too wide.
Value BodyLowering::loadFirst(VectorType type, int64_t n, Value pointer) {
  Value x = zero(type);
  Type element = type.getElementType();
  for (int64_t at = 0, piece; at < n; at += piece) {
    piece = int64_t(llvm::bit_floor(uint64_t(n - at)));
    Value part =
        load(VectorType::get({piece}, element), step(pointer, element, at),
             element.getIntOrFloatBitWidth() / 8);
    x = vector::InsertStridedSliceOp::create(b, part, x, ArrayRef<int64_t>{at},
                                             ArrayRef<int64_t>{1});
  }
  return x;
}

void BodyLowering::storeFirst(Value x, int64_t n, Value pointer) {
  Type element = getElementTypeOrSelf(x.getType());
  for (int64_t at = 0, piece; at < n; at += piece) {
    piece = int64_t(llvm::bit_floor(uint64_t(n - at)));
    Value part = vector::ExtractStridedSliceOp::create(
        b, x, ArrayRef<int64_t>{at}, ArrayRef<int64_t>{piece},
        ArrayRef<int64_t>{1});
    store(part, step(pointer, element, at),
          element.getIntOrFloatBitWidth() / 8);
  }
}

/// old + x, rounded to `element`.
Value BodyLowering::sum(Value old, Value x, Type element) {
  if (!isa<FloatType>(element))
    return add(old, x);
  Value r = arith::AddFOp::create(b, old, x);
  return computeType(element) == element ? r : roundTo(b, r, element);
}

/// Puts `x` at `pointer`, or adds it to what is there.
void BodyLowering::addTo(Value pointer, Type element, Value x, bool adds) {
  Type memory = memoryType(element);
  unsigned bytes = memory.getIntOrFloatBitWidth() / 8;
  if (adds) {
    Value old = load(withElement(x.getType(), memory), pointer, bytes);
    x = sum(fromMemory(b, old, element), x, element);
  }
  store(toMemory(b, x, element), pointer, bytes);
}

void BodyLowering::lowerStore(Value tile, Value buffer, OperandRange indices,
                              OperandRange limits, bool adds) {
  Lanes l = lanes.get(tile);
  int m = modeOf(tile, l);
  // The expression stands in two loops below.
  if (cost(tile) > 6)
    ensure(tile, l);
  prepare(tile, m);
  Access a = access(buffer, indices, limits, tileType(tile), l);
  Type memory = memoryType(a.element);
  int64_t vl = vectorLength(tile), whole = a.width / vl * vl;
  Value isPlain = arith::AndIOp::create(
      b, isEqual(a.laneStride, 1),
      arith::CmpIOp::create(b, arith::CmpIPredicate::eq, a.validLanes,
                            index(a.width)));
  Buffer *spill = allocate(tileType(tile).getElementType(), 1, vl, Lanes::rows);
  auto byLanes = [&] {
    forEach(a.validRows, [&](Value row) {
      Value p = step(a.pointer, memory, mul(row, a.rowStride));
      loop(llvm::alignTo(a.width, vl), vl, {}, [&](Value lane, ValueRange) {
        Point point(vl, row, lane);
        write(*spill, index(0), index(0), eval(tile, m, point));
        Value n =
            least(arith::SubIOp::create(b, a.validLanes, lane), index(vl));
        forEach(n, [&](Value i) {
          addTo(step(p, memory, mul(add(lane, i), a.laneStride)), a.element,
                read(*spill, index(0), i, 0), adds);
        });
        return SmallVector<Value>();
      });
    });
  };
  auto byVectors = [&] {
    forEach(a.validRows, [&](Value row) {
      Value p = step(a.pointer, memory, mul(row, a.rowStride));
      if (whole)
        loop(whole, vl, {}, [&](Value lane, ValueRange) {
          Point point(vl, row, lane);
          addTo(step(p, memory, lane), a.element, eval(tile, m, point), adds);
          return SmallVector<Value>();
        });
      if (whole < a.width) {
        Point point(vl, row, index(whole));
        Value x = eval(tile, m, point), q = step(p, memory, whole);
        if (adds) {
          Value old =
              loadFirst(VectorType::get({vl}, memory), a.width - whole, q);
          x = sum(fromMemory(b, old, a.element), x, a.element);
        }
        storeFirst(toMemory(b, x, a.element), a.width - whole, q);
      }
    });
  };
  if (a.rows % vl || a.width % vl || !a.element.isIntOrFloat() ||
      a.element.isInteger(1))
    return ifThenElse(isPlain, byVectors, byLanes);
  auto squares = [&] {
    Buffer *before = allocate(a.element, vl, vl, Lanes::rows);
    Buffer *after = allocate(a.element, vl, vl, Lanes::rows);
    Type storage = storageType(a.element);
    bySquares(
        a.rows, a.width, a.element, vl,
        [&](Value row, Value lane) {
          loop(vl, 1, {}, [&](Value i, ValueRange) {
            Point point(vl, add(row, i), lane);
            write(*before, i, index(0), eval(tile, m, point));
            return SmallVector<Value>();
          });
          transposeSquare(storage, vl, before->pointer, index(before->pitch),
                          after->pointer, index(after->pitch));
          Value p = step(a.pointer, memory, add(row, mul(lane, a.laneStride)));
          loop(vl, 1, {}, [&](Value i, ValueRange) {
            addTo(step(p, memory, mul(i, a.laneStride)), a.element,
                  read(*after, i, index(0), vl), adds);
            return SmallVector<Value>();
          });
        },
        nullptr);
  };
  ifThenElse(isPlain, byVectors,
             [&] { ifThenElse(isTransposed(a), squares, byLanes); });
}

void BodyLowering::lowerScatter(ScatterAddOp op) {
  // Row by row, so that entries that meet are added in a fixed order.
  Value tile = op.getTile();
  RankedTensorType type = tileType(tile);
  int m = modeOf(tile, Lanes::rows);
  prepare(tile, m);
  for (Value i : op.getIndices())
    prepare(i, m);
  int64_t width = type.getShape().back(),
          rows = type.getRank() == 2 ? type.getDimSize(0) : 1;
  int64_t vl = vectorLength(tile);
  Type element = type.getElementType(), memory = memoryType(element);
  Buffer *values = allocate(element, 1, vl, Lanes::rows);
  Buffer *places = allocate(b.getIndexType(), 1, vl, Lanes::rows);
  loop(rows, 1, {}, [&](Value row, ValueRange) {
    loop(llvm::alignTo(width, vl), vl, {}, [&](Value lane, ValueRange) {
      Point p(vl, row, lane);
      Value nonEmpty, pointer;
      Value linear =
          linearIndex(op.getBuffer(), op.getIndices(), m, p, nonEmpty, pointer);
      write(*values, index(0), index(0), eval(tile, m, p));
      write(*places, index(0), index(0), linear);
      Value n = least(arith::SubIOp::create(b, index(width), lane), index(vl));
      n = arith::SelectOp::create(b, nonEmpty, n, index(0));
      forEach(n, [&](Value i) {
        addTo(step(pointer, memory, read(*places, index(0), i, 0)), element,
              read(*values, index(0), i, 0), /*adds=*/true);
      });
      return SmallVector<Value>();
    });
    return SmallVector<Value>();
  });
}

//===----------------------------------------------------------------------===//
// Turns
//===----------------------------------------------------------------------===//

void BodyLowering::callRuntime(StringRef name, ValueRange args) {
  auto f = getRuntimeFunction(entry->getParentOp(), name, args.getTypes());
  func::CallOp::create(b, f, args);
}

/// Atomic additions into a buffer exclude each other: one lock and vectors take
/// less time than an atomic addition for every entry.
void BodyLowering::locked(Value buffer, AccumulateMode mode,
                          function_ref<void()> addition) {
  if (mode != AccumulateMode::atomic)
    return addition();
  Value base = basePointer(map.lookup(buffer));
  callRuntime(kLock, base);
  addition();
  callRuntime(kUnlock, base);
}

Value BodyLowering::ticket(Value tickets, OperandRange indices) {
  Value memref = map.lookup(tickets);
  auto meta = memref::ExtractStridedMetadataOp::create(b, memref);
  Value offset = meta.getOffset();
  for (auto [d, i] : llvm::enumerate(indices))
    offset = add(offset, mul(map.lookup(i), meta.getStrides()[d]));
  return step(basePointer(memref), b.getI32Type(), offset);
}

void BodyLowering::waitTurn(Value pointer, Value turn) {
  Value n = arith::IndexCastOp::create(b, b.getI64Type(), turn);
  callRuntime(kWaitTurn, {pointer, n});
}

void BodyLowering::passTurn(Value pointer) {
  Value one = arith::ConstantOp::create(b, b.getI32IntegerAttr(1));
  LLVM::AtomicRMWOp::create(b, LLVM::AtomicBinOp::add, pointer, one,
                            LLVM::AtomicOrdering::release);
}

} // namespace

LogicalResult cpu::lowerBody(Block &body, OpBuilder &b, IRMapping &mapping,
                             Value scratch, const Machine &machine,
                             int64_t &scratchBytes) {
  BodyLowering lowering(body, b, mapping, scratch, machine);
  LogicalResult r = lowering.run(body);
  scratchBytes = lowering.scratchBytes();
  return r;
}
