//===- Gpu.cpp - what the fa_gpu passes share -------------------------------===//

#include "passes/map/gpu/Gpu.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Iterators.h"
#include "mlir/Transforms/CSE.h"
#include <numeric>

using namespace mlir;
using namespace fathom;
using namespace fathom::gpu;

bool gpu::roundsTo16Bits(KernelOp kernel) {
  return kernel
      .walk([](Operation *op) {
        return isa<arith::TruncFOp>(op) && isTile(op->getResult(0)) &&
                       tileType(op->getResult(0)).getElementTypeBitWidth() == 16
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      })
      .wasInterrupted();
}

ThreadLayoutAttr gpu::standardLayout(MLIRContext *ctx, ArrayRef<int64_t> shape,
                                     int64_t numWarps) {
  int64_t along = std::gcd(numWarps, shape[0] / 16);
  if (shape.size() == 1)
    return ThreadLayoutAttr::getMma(ctx, shape[0], 8, along, numWarps / along)
        .sliced(1);
  return ThreadLayoutAttr::getMma(ctx, shape[0], shape[1], along,
                                  numWarps / along);
}

/// True if the ops that make `v` may be repeated: few, and of one line.
static bool isCheap(Value v, int depth = 0) {
  Operation *op = v.getDefiningOp();
  if (!isTile(v))
    return true;
  if (!op || depth > 8)
    return false;
  if (isa<IotaOp>(op) || op->hasTrait<OpTrait::ConstantLike>())
    return true;
  if (auto broadcast = dyn_cast<BroadcastOp>(op))
    return !isTile(broadcast.getSource());
  if (tileType(v).getRank() != 1)
    return false;
  return isa<LoadOp>(op) ||
         (isElementwise(op) && llvm::all_of(op->getOperands(), [&](Value o) {
            return isCheap(o, depth + 1);
          }));
}

/// Makes cheap `v` again in `layout`, beside where it is made.
static Value remake(Value v, ThreadLayoutAttr layout) {
  if (!isTile(v) || layoutOf(v) == layout)
    return v;
  Operation *op = v.getDefiningOp();
  IRMapping map;
  for (Value o : op->getOperands())
    map.map(o, remake(o, layout));
  OpBuilder b(op);
  Operation *copy = b.clone(*op, map);
  auto type = withLayout(tileType(v), layout);
  if (auto constant = dyn_cast<arith::ConstantOp>(copy)) {
    auto dense = cast<DenseElementsAttr>(constant.getValue());
    constant.setValueAttr(
        DenseElementsAttr::get(type, dense.getSplatValue<Attribute>()));
  }
  copy->getResult(0).setType(type);
  return copy->getResult(0);
}

ThreadLayoutAttr gpu::wholeLines(ThreadLayoutAttr layout,
                                 ArrayRef<int64_t> shape, unsigned dim) {
  auto modes = ThreadLayoutAttr::modes(layout.getWarps());
  if (llvm::none_of(modes, [&](auto m) { return m.dim == int64_t(dim); }))
    return layout;
  MLIRContext *ctx = layout.getContext();
  int64_t warps = layout.getNumWarps();
  if (shape.size() == 1)
    return ThreadLayoutAttr::getLine(ctx, shape[0], warps);
  int64_t rows = shape[1 - dim], cols = shape[dim];
  ThreadLayoutAttr l =
      rows / 16 % warps == 0
          ? ThreadLayoutAttr::getMma(ctx, rows, cols, warps, 1)
          : ThreadLayoutAttr::getRows(ctx, rows, cols, 1, warps);
  return dim == 1 ? l : l.transposed();
}

Value gpu::inLayout(OpBuilder &b, Value v, ThreadLayoutAttr layout) {
  if (layoutOf(v) == layout)
    return v;
  if (isCheap(v))
    return remake(v, layout);
  return ConvertOp::create(b, v.getLoc(), withLayout(tileType(v), layout), v);
}

SharedType gpu::bufferFor(ArrayRef<int64_t> shape, Type element) {
  int64_t bytes = element.isIndex()
                      ? 8
                      : llvm::divideCeil(element.getIntOrFloatBitWidth(), 8);
  int64_t pitch = shape.back();
  // Lines of an odd number of 16-byte pieces start in different banks.
  if (shape.size() == 2) {
    pitch = llvm::alignTo(pitch * bytes, 16) / bytes;
    if (pitch * bytes / 16 % 2 == 0)
      pitch += 16 / bytes;
  }
  return SharedType::get(element.getContext(), shape, element, pitch,
                         /*stages=*/1, /*flipped=*/false, /*swizzle=*/0);
}

SharedType gpu::swizzled(SharedType type) {
  if (type.getSwizzle())
    return type;
  Type element = type.getElementType();
  if (type.getRank() != 2 || !(element.isBF16() || element.isF16()) ||
      type.getLines() % 8)
    return {};
  for (int64_t bytes : {128, 64, 32})
    if (type.getLineLength() * 2 % bytes == 0)
      return SharedType::get(type.getContext(), type.getShape(), element,
                             bytes / 2, type.getStages(), type.getFlipped(),
                             bytes);
  return {};
}

void gpu::swizzle(Value buffer) {
  buffer.setType(swizzled(cast<SharedType>(buffer.getType())));
  for (Operation *user : buffer.getUsers())
    if (isa<FlipOp, StageOp>(user))
      swizzle(user->getResult(0));
}

Value gpu::phaseOf(OpBuilder &b, Location loc, Value phases, Value index) {
  Value bit = arith::IndexCastOp::create(b, loc, b.getI32Type(), index);
  Value down = arith::ShRUIOp::create(b, loc, phases, bit);
  return arith::TruncIOp::create(b, loc, b.getI1Type(), down);
}

Value gpu::nextPhase(OpBuilder &b, Location loc, Value phases, Value index) {
  Value bit = arith::IndexCastOp::create(b, loc, b.getI32Type(), index);
  Value one = arith::ConstantIntOp::create(b, loc, 1, 32);
  Value mask = arith::ShLIOp::create(b, loc, one, bit);
  return arith::XOrIOp::create(b, loc, phases, mask);
}

Value gpu::stripViews(Value v, bool &flipped) {
  while (true) {
    if (auto flip = v.getDefiningOp<FlipOp>()) {
      flipped = !flipped;
      v = flip.getBuffer();
    } else if (auto stage = v.getDefiningOp<StageOp>()) {
      v = stage.getBuffer();
    } else {
      return v;
    }
  }
}

AllocOp gpu::allocOf(Value buffer) {
  return stripViews(buffer).getDefiningOp<AllocOp>();
}

SmallVector<Operation *> gpu::usersOf(Value buffer) {
  SmallVector<Operation *> users;
  for (Operation *user : buffer.getUsers()) {
    if (isa<FlipOp, StageOp>(user))
      llvm::append_range(users, usersOf(user->getResult(0)));
    else
      users.push_back(user);
  }
  return users;
}

StoreSharedOp gpu::onlyStore(AllocOp alloc) {
  StoreSharedOp found;
  bool other = false;
  for (Operation *user : usersOf(alloc.getResult())) {
    if (auto store = dyn_cast<StoreSharedOp>(user)) {
      other |= bool(found);
      found = store;
    } else {
      other |= !isa<LoadSharedOp, MmaOp, WgmmaOp>(user);
    }
  }
  return other ? StoreSharedOp() : found;
}

ScheduleAttr gpu::scheduleOf(KernelOp kernel) {
  ScheduleAttr schedule;
  kernel->getParentOfType<ModuleOp>().walk([&](LaunchOp launch) {
    auto f = launch->getParentOfType<func::FuncOp>();
    if (f && launch.getKernel() == kernel.getSymName())
      schedule = f->getAttrOfType<ScheduleAttr>(kScheduleAttr);
  });
  return schedule;
}

bool gpu::collectBehind(Operation *op, Operation *to,
                        SmallVector<Operation *> &slice) {
  for (Value v : op->getOperands()) {
    Operation *def = v.getDefiningOp();
    if (!def || def->getBlock() != to->getBlock() ||
        !to->isBeforeInBlock(def) || llvm::is_contained(slice, def))
      continue;
    if (!isPure(def) || def->getNumRegions() || !collectBehind(def, to, slice))
      return false;
  }
  slice.push_back(op);
  return true;
}

void gpu::tidy(KernelOp kernel) {
  IRRewriter rewriter(kernel.getContext());
  DominanceInfo dominance(kernel);
  eliminateCommonSubExpressions(rewriter, dominance, kernel);
  bool changed = true;
  while (changed) {
    changed = false;
    kernel->walk<WalkOrder::PostOrder, ReverseIterator>([&](Operation *op) {
      if (isa<AllocOp>(op)) {
        SmallVector<Operation *> users = usersOf(op->getResult(0));
        bool read = !llvm::all_of(users, llvm::IsaPred<StoreSharedOp>);
        if (!read)
          for (Operation *user : users)
            user->erase();
        changed |= !read && !users.empty();
      }
      if (isOpTriviallyDead(op)) {
        op->erase();
        changed = true;
      }
    });
  }
}
