//===- MapToCpu.h - the parts of fa-map-to-cpu ------------------*- C++ -*-===//
//
// What the files of the pass share: the machine, the choice of lanes, the
// vector math, and the lowering of one nest body.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_PASSES_MAP_MAPTOCPU_H
#define FATHOM_PASSES_MAP_MAPTOCPU_H

#include "dialect/FADialect.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace fathom::cpu {

/// The vector unit that code is made for.
struct Machine {
  int64_t vectorBits;

  /// Entries of `type` in one vector.
  int64_t lanes(mlir::Type type) const {
    return vectorBits / (type.isF64() ? 64 : 32);
  }
  /// Rows in memory are padded to this many entries.
  int64_t padding() const { return vectorBits / 32; }
  /// Rows of the register tile of a product; its width is two vectors.
  int64_t tileRows() const {
    return vectorBits == 512 ? 8 : vectorBits == 256 ? 6 : 4;
  }
  /// AVX-512 multiplies by a power of two in one instruction.
  bool hasScale() const { return vectorBits == 512; }
};

/// Strips fa.transpose; `flipped` is toggled for each one.
mlir::Value stripTransposes(mlir::Value v, bool &flipped);

//===----------------------------------------------------------------------===//
// Lanes
//===----------------------------------------------------------------------===//

/// Which dim of a rank 2 tile lies along the vector lanes (and is contiguous
/// in memory): dim 1 (`rows`) or dim 0 (`columns`).
enum class Lanes { rows = 0, columns = 1 };
inline Lanes flip(Lanes l, bool flipped = true) {
  return flipped ? Lanes(1 - int(l)) : l;
}

/// Chooses Lanes for all rank 2 tiles of a nest at once. Elementwise ops, loop
/// carried tiles and transposes tie tiles together; a product ties the lanes of
/// its result to those of one operand. The choice minimizes an estimate of
/// copies, weighted by loop depth.
class LaneChoice {
public:
  LaneChoice(mlir::Region &region, const Machine &machine);

  Lanes get(mlir::Value tile) const;
  /// False for tiles that can be made either way.
  bool isChosen(mlir::Value tile) const { return ids.contains(tile); }
  /// The layouts, one bit each, in which a loaded tile is wanted.
  unsigned getWanted(mlir::Operation *load) const;

private:
  unsigned find(unsigned n, bool &flipped) const;
  unsigned node(mlir::Value v);
  void tie(mlir::Value a, mlir::Value b, bool flipped = false);
  bool isFree(mlir::Value v) const { return free.contains(v); }
  double cost() const;
  unsigned wantedBy(mlir::Operation *load,
                    const llvm::DenseMap<mlir::Value, unsigned> &demand) const;
  llvm::DenseMap<mlir::Value, unsigned> demands() const;

  const Machine &machine;
  mlir::Region &region;
  llvm::DenseMap<mlir::Value, unsigned> ids;
  llvm::SmallVector<std::pair<unsigned, bool>> parents;
  llvm::SmallVector<bool> columns; // per root
  llvm::DenseSet<mlir::Value> free;
  llvm::SmallVector<mlir::Operation *> dots, reduces, writes, loads;
};

//===----------------------------------------------------------------------===//
// Math on vectors (or scalars) of f32 and f64
//===----------------------------------------------------------------------===//

/// The type entries of `type` have while they are computed with: 16-bit
/// floats become f32.
mlir::Type computeType(mlir::Type type);

/// `like`'s shape with entries of type `element`.
mlir::Type withElement(mlir::Type like, mlir::Type element);

/// An f32 value rounded to `narrow` (bf16 or f16), as f32.
mlir::Value roundTo(mlir::ImplicitLocOpBuilder &b, mlir::Value x,
                    mlir::Type narrow);
/// Widening from the bits in memory (i16 for bf16) and back.
mlir::Value fromMemory(mlir::ImplicitLocOpBuilder &b, mlir::Value bits,
                       mlir::Type element);
mlir::Value toMemory(mlir::ImplicitLocOpBuilder &b, mlir::Value x,
                     mlir::Type element);
/// The type under which entries of `element` stand in a buffer of the caller.
mlir::Type memoryType(mlir::Type element);

/// f32 functions within about one ulp; null when `op` has none here and is to
/// be left to the math library.
mlir::Value expandMath(mlir::ImplicitLocOpBuilder &b, mlir::Operation *op,
                       mlir::ValueRange args, const Machine &machine);

//===----------------------------------------------------------------------===//
// The body of a nest
//===----------------------------------------------------------------------===//

/// Lowers `body` at `b`: tiles become vectors and buffers carved out of the
/// memory at `scratch`. `scratchBytes` is how much of it is used. Values
/// defined outside `body` are looked up in `mapping`.
mlir::LogicalResult lowerBody(mlir::Block &body, mlir::OpBuilder &b,
                              mlir::IRMapping &mapping, mlir::Value scratch,
                              const Machine &machine, int64_t &scratchBytes);

/// Runtime functions called by mapped code.
inline constexpr llvm::StringLiteral kParallelFor = "fathom_parallel_for";
inline constexpr llvm::StringLiteral kWaitTurn = "fathom_wait_turn";
inline constexpr llvm::StringLiteral kLock = "fathom_lock";
inline constexpr llvm::StringLiteral kUnlock = "fathom_unlock";
inline constexpr llvm::StringLiteral kTick = "fathom_tick";

/// The declaration of a runtime function, made on first use.
mlir::func::FuncOp getRuntimeFunction(mlir::Operation *user,
                                      llvm::StringRef name,
                                      mlir::TypeRange arguments);

} // namespace fathom::cpu

#endif // FATHOM_PASSES_MAP_MAPTOCPU_H
