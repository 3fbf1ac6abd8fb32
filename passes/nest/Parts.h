//===- Parts.h - a nest's loop in parts that run in parallel ----*- C++ -*-===//
//
// What splitting passes share: a nest becomes two, of which the first runs its
// loop once for each part of its range and keeps what the loop carried, and the
// second goes on from what is made of the parts.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_PASSES_NEST_PARTS_H
#define FATHOM_PASSES_NEST_PARTS_H

#include "passes/nest/Tiles.h"

namespace fathom {

/// The first of the two nests. Tiles that the loop carries lie in a buffer each:
/// [part, dims of the nest..., columns of the tile].
class Parts {
public:
  /// Copies `nest` up to `loop`, with one more dim over `count` parts before dim
  /// `dim`. The last dim of `nest` runs over the rows of the tiles that `loop`
  /// carries. The copy's loop still has the whole range.
  Parts(NestOp nest, mlir::scf::ForOp loop, int64_t count, unsigned dim);

  mlir::scf::ForOp getLoop() const { return part; }
  mlir::Value getNumber() const { return number; } ///< of the part

  /// In `nest`: the tiles that part `number` left.
  llvm::SmallVector<mlir::Value> load(TileBuilder &b, mlir::Value number) const;

private:
  struct Buffer {
    mlir::Value memory;
    llvm::SmallVector<mlir::Value> limits;
    llvm::ArrayRef<int64_t> shape; // of the tile
  };
  static Buffer makeBuffer(TileBuilder &b, mlir::RankedTensorType type,
                           int64_t count, mlir::ValueRange sizes);
  static llvm::SmallVector<mlir::Value> place(TileBuilder &b,
                                              const Buffer &buffer,
                                              mlir::Value number,
                                              llvm::ArrayRef<mlir::Value> dims);

  NestOp nest;
  mlir::scf::ForOp part;
  mlir::Value number;
  llvm::SmallVector<Buffer> buffers;
};

} // namespace fathom

#endif // FATHOM_PASSES_NEST_PARTS_H
