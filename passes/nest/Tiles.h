//===- Tiles.h - building and reading tiled nests ---------------*- C++ -*-===//
//
// What the nest passes share: short builders for tile ops, matchers for the
// idioms that occur in nests, and the two ways of moving work between nests,
// recomputing a stored tile where it is loaded and removing what is dead.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_PASSES_NEST_TILES_H
#define FATHOM_PASSES_NEST_TILES_H

#include "dialect/FADialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "passes/Remarks.h"

namespace fathom {

//===----------------------------------------------------------------------===//
// Builders
//===----------------------------------------------------------------------===//

/// An OpBuilder with one location and short names for what nests are made of.
class TileBuilder : public mlir::OpBuilder {
public:
  TileBuilder(mlir::OpBuilder b, mlir::Location loc)
      : mlir::OpBuilder(b), loc(loc) {}

  mlir::Location loc;

  template <typename Op, typename... Args>
  auto make(Args &&...args) {
    return Op::create(*this, loc, std::forward<Args>(args)...);
  }
  mlir::Value index(int64_t i) { return make<mlir::arith::ConstantIndexOp>(i); }
  mlir::Value dim(mlir::Value buffer, int64_t d) {
    return make<mlir::memref::DimOp>(buffer, d);
  }
  mlir::Value add(mlir::Value a, mlir::Value b) {
    return make<mlir::arith::AddIOp>(a, b);
  }
  mlir::Value sub(mlir::Value a, mlir::Value b) {
    return make<mlir::arith::SubIOp>(a, b);
  }
  mlir::Value mul(mlir::Value a, mlir::Value b) {
    return make<mlir::arith::MulIOp>(a, b);
  }
  /// a / b rounded up, for a >= 0 and constant b.
  mlir::Value ceilDiv(mlir::Value a, int64_t b);
  /// a rounded up to a multiple of b.
  mlir::Value roundUp(mlir::Value a, int64_t b);

  /// A constant of `type` (float scalar or tile of floats), each entry `v`.
  mlir::Value constant(mlir::Type type, double v);
  /// `v` (scalar or rank 1) as a tile of `type`; `v` itself if it is one.
  mlir::Value broadcast(mlir::Value v, int64_t dim,
                        mlir::RankedTensorType type);
  /// `v` (float, scalar or tile) in element type `element`.
  mlir::Value castTo(mlir::Value v, mlir::Type element);
  mlir::Value transpose(mlir::Value t);
  /// acc + a b
  mlir::Value dot(mlir::Value a, mlir::Value b, mlir::Value acc) {
    return make<DotOp>(acc.getType(), a, b, acc);
  }
  mlir::Value load(mlir::Value buffer, mlir::ValueRange indices,
                   mlir::ValueRange limits, llvm::ArrayRef<int64_t> shape);
  void store(mlir::Value tile, mlir::Value buffer, mlir::ValueRange indices,
             mlir::ValueRange limits);
  mlir::Value reduce(ReduceKind kind, mlir::Value tile, int64_t dim);
  /// x where it is not `bad`, else `fill`: keeps -inf and 0 out of exp and div.
  mlir::Value guard(mlir::Value x, double bad, double fill);
  /// A loop from 0 below `end` that carries `init`; `body` returns what it yields.
  mlir::scf::ForOp
  loop(mlir::Value end, int64_t step, mlir::ValueRange init,
       llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value,
                                                         mlir::ValueRange)>
           body);
};

/// The tile type of `shape` and `element`.
inline mlir::RankedTensorType tileOf(llvm::ArrayRef<int64_t> shape,
                                     mlir::Type element) {
  return mlir::RankedTensorType::get(shape, element);
}

/// The type of a buffer at the boundary: logical dims, free strides.
mlir::MemRefType stridedType(llvm::ArrayRef<int64_t> shape, mlir::Type element);

/// Clones the body of `region` (scalars) at the insertion point, on tiles of
/// `shape`: a value that depends on a tile becomes a tile, the others stay
/// scalars. `args` replaces the region's arguments (captures as memrefs or
/// scalars). Returns the yielded values; each fa.contribute met is passed to
/// `contribute` with its value and indices (scalars or tiles).
llvm::SmallVector<mlir::Value> inlineOnTiles(
    TileBuilder &b, mlir::Region &region, mlir::ValueRange args,
    llvm::ArrayRef<int64_t> shape, mlir::Value seqlenQ, mlir::Value seqlenK,
    llvm::function_ref<void(ContributeOp, mlir::Value, mlir::ValueRange)>
        contribute = nullptr);

//===----------------------------------------------------------------------===//
// Matchers
//===----------------------------------------------------------------------===//

/// The value a scalar or splat constant holds, if it is a float constant.
std::optional<double> floatConstant(mlir::Value v);

/// x if v is select(x == bad, fill, x) (what TileBuilder::guard makes), or a
/// form of it with swapped sides.
mlir::Value matchGuard(mlir::Value v, double bad, double fill);

/// The source and dim of a broadcast from a rank 1 tile, else null.
mlir::Value matchRowBroadcast(mlir::Value v, int64_t dim);

/// v without casts between float types.
mlir::Value stripCasts(mlir::Value v);

/// The only fa.store to `buffer` in the function, or null.
StoreOp onlyStore(mlir::Value buffer);

/// All fa.load ops of `buffer`.
llvm::SmallVector<LoadOp> loadsOf(mlir::Value buffer);

/// True if `a` and `b` are computed the same way once `mapA` and `mapB` replace
/// values on either side: equal after mapping, or equal ops on such values.
bool sameValue(mlir::Value a, const mlir::IRMapping &mapA, mlir::Value b,
               const mlir::IRMapping &mapB);
bool sameValues(mlir::ValueRange a, const mlir::IRMapping &mapA,
                mlir::ValueRange b, const mlir::IRMapping &mapB);
inline bool sameValues(mlir::ValueRange a, mlir::ValueRange b) {
  return sameValues(a, mlir::IRMapping(), b, mlir::IRMapping());
}

/// The operands of a commutative `Op` that makes `v`, else two nulls.
template <typename Op>
std::pair<mlir::Value, mlir::Value> matchBinary(mlir::Value v) {
  auto op = v ? v.getDefiningOp<Op>() : Op();
  if (!op)
    return {};
  return {op->getOperand(0), op->getOperand(1)};
}

/// The buffer that `v` is a view of, or `v`.
mlir::Value rootOf(mlir::Value v);

/// Buffers that an op and all ops inside it read and write, from their memory
/// effects; those that views are of.
struct Access {
  llvm::SetVector<mlir::Value> reads, writes;
};
Access accessOf(mlir::Operation *op);

/// True if neither writes what the other reads or writes: they may swap.
bool independent(const Access &a, const Access &b);

/// True if `op` may move past the ops between it and `to`, and past `to`, in
/// its block.
bool mayMoveTo(mlir::Operation *op, mlir::Operation *to);

/// True if an op inside `scope` writes what `buffer` is, or is a view of.
bool isWrittenIn(mlir::Operation *scope, mlir::Value buffer);

/// True if v is a multiple of n: by its definition, or as the variable of a
/// nest dim or loop that runs in such steps.
bool isMultiple(mlir::Value v, int64_t n);

/// True if no entry of the tile lies past a limit, where it would read as
/// zero: the tile starts and the buffer ends at multiples of the tile's size.
bool isWhole(LoadOp load);

/// True if `kvHeads` KV heads of `group` query heads each are `heads`: the same
/// value, or heads / group.
bool coversHeads(mlir::Value kvHeads, int64_t group, mlir::Value heads);

/// True if `v` depends on `iv`, through ops of any kind.
bool dependsOn(mlir::Value v, mlir::Value iv);

/// True if `mask` is false wherever `iv` plus a place in the tile is at or past
/// `end`: one of its conjuncts is iota(iv) < end.
bool maskEndsAt(mlir::Value mask, mlir::Value iv, mlir::Value end,
                const mlir::IRMapping &map);

/// The one loop that stands directly in the body of `nest`, else null.
mlir::scf::ForOp onlyLoop(NestOp nest);

/// The nests of `func` after its fa.forward_end; empty if it has none.
llvm::SmallVector<NestOp> backwardNests(mlir::func::FuncOp func);

/// A softmax as the nests state it: P = exp(x - guard(m)) / guard(l) is stored,
/// and somewhere L = m + log l of the same m and l.
struct Softmax {
  NestOp nest;             // stores P
  StoreOp p;               // its store; indices are dims of the nest
  mlir::arith::DivFOp div; // P before rounding
  mlir::Value x;           // what is exponentiated, a tile
  LoadOp m, l;             // row maximum and sum, as loaded there
  StoreOp lse;             // the store of L
  LoadOp lseM;             // m as loaded in L's nest
};

/// Matches the softmax whose P is stored in `buffer`.
std::optional<Softmax> matchSoftmax(mlir::func::FuncOp func,
                                    mlir::memref::AllocOp buffer);

/// L for the rows that `map` gives to the dims of the P nest.
mlir::Value loadLse(TileBuilder &b, const Softmax &s,
                    const mlir::IRMapping &map);

//===----------------------------------------------------------------------===//
// Moving work
//===----------------------------------------------------------------------===//

/// Where a tile of a buffer comes from: the store that writes it, in a nest
/// whose block arguments are the store's indices.
struct Producer {
  NestOp nest;
  StoreOp store;
};

/// The producer of the tile that `load` reads, if the tile can be computed
/// again at the load: one store to a local buffer, at indices that are the
/// dims of its nest, same shape and limits. On failure `why` says why not.
std::optional<Producer> findProducer(LoadOp load, std::string &why);

/// Clones what `v` needs from its nest before `b`'s insertion point, with `map`
/// from the nest's block arguments; values outside the nest are used as they
/// are.
mlir::Value cloneSlice(TileBuilder &b, mlir::Value v, mlir::IRMapping &map);

/// Replaces `load` by computing its tile again, and then the loads this brings
/// in for which `again` holds. Returns false if there is no producer.
bool recomputeLoad(LoadOp load, llvm::function_ref<bool(LoadOp)> again);

/// Erases ops without use, stores to buffers that nobody reads, empty nests.
void eraseDead(mlir::func::FuncOp func);

/// Common subexpressions, dead ops, and loads and pure ops that do not change
/// in a loop moved before it; within each nest of `func`.
void tidyNests(mlir::func::FuncOp func);

} // namespace fathom

#endif // FATHOM_PASSES_NEST_TILES_H
