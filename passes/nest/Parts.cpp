//===- Parts.cpp - a nest's loop in parts that run in parallel --------------===//

#include "passes/nest/Parts.h"

using namespace mlir;
using namespace fathom;

Parts::Buffer Parts::makeBuffer(TileBuilder &b, RankedTensorType type,
                                int64_t count, ValueRange sizes) {
  Buffer buffer;
  buffer.shape = type.getShape();
  SmallVector<int64_t> shape(1 + sizes.size(), ShapedType::kDynamic);
  shape[0] = count;
  buffer.limits.push_back(sizes.back());
  if (type.getRank() == 2) {
    shape.push_back(type.getDimSize(1));
    buffer.limits.push_back(b.index(type.getDimSize(1)));
  }
  buffer.memory = b.make<memref::AllocOp>(
      MemRefType::get(shape, type.getElementType()), sizes);
  return buffer;
}

SmallVector<Value> Parts::place(TileBuilder &b, const Buffer &buffer,
                                Value number, ArrayRef<Value> dims) {
  SmallVector<Value> indices = {number};
  llvm::append_range(indices, dims);
  if (buffer.shape.size() == 2)
    indices.push_back(b.index(0));
  return indices;
}

Parts::Parts(NestOp nest, scf::ForOp loop, int64_t count, unsigned dim)
    : nest(nest) {
  TileBuilder b(OpBuilder(nest), nest.getLoc());
  SmallVector<Value> bounds(nest.getBounds());
  SmallVector<int64_t> steps(nest.getSteps());
  // Rows past the last dim's bound are kept too: whole tiles.
  SmallVector<Value> sizes(bounds);
  sizes.back() = b.roundUp(sizes.back(), steps.back());
  for (Type t : loop.getResultTypes())
    buffers.push_back(makeBuffer(b, cast<RankedTensorType>(t), count, sizes));

  bounds.insert(bounds.begin() + dim, b.index(count));
  steps.insert(steps.begin() + dim, 1);
  auto first = b.make<NestOp>("parts", bounds, steps, steps.size());
  number = first.getIv(dim);
  SmallVector<Value> dims;
  IRMapping map;
  for (Value iv : first.getBlock()->getArguments())
    if (iv != number) {
      map.map(nest.getIv(dims.size()), iv);
      dims.push_back(iv);
    }
  TileBuilder t(OpBuilder::atBlockBegin(first.getBlock()), loop.getLoc());
  for (Operation &op : *nest.getBlock()) {
    t.clone(op, map);
    if (&op == loop)
      break;
  }
  part = cast<scf::ForOp>(first.getBlock()->back());
  t.setInsertionPointAfter(part);
  for (auto [buffer, v] : llvm::zip_equal(buffers, part.getResults()))
    t.store(v, buffer.memory, place(t, buffer, number, dims), buffer.limits);
}

SmallVector<Value> Parts::load(TileBuilder &b, Value number) const {
  NestOp in = nest; // accessors of ops are not const
  SmallVector<Value> dims(in.getBlock()->getArguments()), tiles;
  for (const Buffer &buffer : buffers)
    tiles.push_back(b.load(buffer.memory, place(b, buffer, number, dims),
                           buffer.limits, buffer.shape));
  return tiles;
}
