//===- Printer.h - what printing a kernel is made of ------------*- C++ -*-===//
//
// One Printer prints one kernel. A scalar is a variable or a literal; a tile is
// an array of the registers of a thread, or an expression of a register's
// number r where that is as short: constants, broadcasts, iotas and what is
// computed of them in integers. Two 16-bit floats share a word; as expressions
// they are floats.
//
// Loops over registers are unrolled by the compiler and r is a constant in
// them: what an expression computes from r alone costs nothing.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_CODEGEN_CUDA_PRINTER_H
#define FATHOM_CODEGEN_CUDA_PRINTER_H

#include "codegen/cuda/Program.h"
#include "dialect/gpu/GpuDialect.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Error.h"
#include <fmt/format.h>
#include <functional>
#include <map>

namespace fathom::cuda {

/// Types of values and of array entries.
bool isHalf(mlir::Type element); ///< bf16 or f16
/// In memory and as a scalar, such as "fa::bf16"; empty if there is none.
std::string cType(mlir::Type element);
/// In expressions: a 16-bit float is a float there.
std::string expressionType(mlir::Type element);
/// Of the array that holds a tile.
std::string registerType(mlir::Type element);
int64_t bytesOf(mlir::Type element);
/// `value` is a multiple of `n`, as far as constants and arithmetic tell.
bool isMultipleOf(mlir::Value value, int64_t n, gpu::KernelOp kernel);
/// The value of an integer constant.
std::optional<int64_t> constantOf(mlir::Value value);
/// "fa::swizzled<...>(...)" of a line and a column of 16-bit entries.
std::string swizzledText(gpu::SharedType type, llvm::StringRef line,
                         llvm::StringRef column);
/// Without the brackets around all of it.
llvm::StringRef bare(llvm::StringRef expression);

class Printer {
public:
  explicit Printer(gpu::KernelOp kernel) : kernel(kernel) {}
  llvm::Expected<Kernel> print();

private:
  using Op = mlir::Operation;
  using Value = mlir::Value;
  using Layout = gpu::ThreadLayoutAttr;
  using R = llvm::StringRef; ///< text of a register's number
  using Result = mlir::LogicalResult;

  //===--- Text -----------------------------------------------------------===//
  template <class... T>
  void line(fmt::format_string<T...> format, T &&...args) {
    body += std::string(indent, ' ') +
            fmt::format(format, std::forward<T>(args)...) + "\n";
  }
  /// A line that ends with {, and what closes it.
  template <class... T>
  void open(fmt::format_string<T...> format, T &&...args) {
    line(format, std::forward<T>(args)...);
    indent += 2;
  }
  void close() {
    indent -= 2;
    line("}}");
  }
  /// `statement` for each r from 0 below `count` in steps.
  void unrolled(int64_t count, int64_t step, llvm::StringRef statement);
  /// The same with several statements: to be closed.
  void openUnrolled(int64_t count, int64_t step = 1, R r = "r");
  void comment(Op *op);
  Result fail(Op *op, const llvm::Twine &message);

  //===--- Names ----------------------------------------------------------===//
  std::string fresh(llvm::StringRef base);
  /// What a value should be called, from its location or its op.
  std::string hint(Value v);
  std::string nameOf(Value v) { return names.lookup(v); }
  std::string declare(Value v); ///< a new name for v

  //===--- Expressions (PrintElements.cpp) --------------------------------===//
  /// A scalar, as in memory; as in expressions.
  std::string scalar(Value v);
  std::string scalarExpression(Value v);
  /// Entry r of a tile, as in expressions; as in memory.
  std::string entry(Value tile, R r);
  std::string stored(Value tile, R r);
  /// A word of 16-bit entries r and r + 1.
  std::string word(Value tile, R r);
  std::string literal(mlir::TypedAttr attr);
  std::string literal(mlir::Type element, double value);
  /// What `op` computes of `args`; empty if it cannot be printed.
  std::string expression(Op *op, llvm::ArrayRef<std::string> args);
  /// A tile of indices as what several entries share plus an int of few bits, a
  /// coordinate; nothing for tiles that are no sums.
  struct Sum {
    std::string shared, own; ///< empty is 0
  };
  std::optional<Sum> sumOf(Value tile, R r);
  /// A comparison of two of these in 32 bits; empty if it is not one.
  std::string comparison32(Op *op, R r);
  /// Entry r of a line of offsets in floats; empty for other tiles.
  std::string offset(Op *op, R r);
  /// True if no array holds this tile: its entries are expressions.
  bool isInline(Value tile);
  /// Names that an expression for `v` reads.
  void roots(Value v, llvm::StringSet<> &found);

  //===--- Layouts --------------------------------------------------------===//
  /// What the thread adds to the coordinate in `dim`: a variable, or "0".
  std::string threadOffset(Layout layout, int64_t dim);
  /// What r adds; empty if nothing ever.
  std::string registerOffset(Layout layout, int64_t dim, R r);
  std::string coordinate(Layout layout, int64_t dim, R r);
  /// The register number in layout.sliced(1 - dim).
  std::string slicedNumber(Layout layout, int64_t dim, R r);
  /// A condition that holds in one of the threads that hold the same entries;
  /// empty if it always does.
  std::string onlyOnce(Layout layout);
  /// The part of the warps alone.
  std::string warpOffset(Layout layout, int64_t dim);

  //===--- Ops ------------------------------------------------------------===//
  Result block(mlir::Block &block);
  /// Prints the op at `it` and moves on, by more than one op for a group.
  Result next(mlir::Block::iterator &it);
  Result group(mlir::Block::iterator &it);
  Result print(Op *op);
  Result scalarOp(Op *op);
  Result halfOp(Op *op);
  Result forOp(Op *op);
  Result ifOp(Op *op);
  Result roles(Op *op);
  /// Declares a variable or array for v.
  std::string declareVariable(Value v);
  /// Gives the variable or array `target` the value of v.
  void assign(llvm::StringRef target, Value v);
  /// target_i = values_i, all at once.
  void assignAll(llvm::ArrayRef<std::string> targets, mlir::ValueRange values);
  /// An array that holds the tile, declared if it is an expression.
  std::string arrayOf(Value tile);

  // PrintMemory.cpp
  /// Where the entries of a tile lie in global memory.
  struct Access {
    std::string pointer;                       ///< of the thread's register 0
    llvm::SmallVector<std::string, 2> strides; ///< "" is 1
    llvm::SmallVector<std::string, 2> left;    ///< r's offset is below; "" none
    int64_t vector = 1;                        ///< entries an access
  };
  Access access(Value buffer, mlir::ValueRange indices, mlir::ValueRange limits,
                mlir::RankedTensorType tile, int64_t maxVector);
  /// How many of `size` places from `first` on lie below `limit`.
  std::string left(Value first, int64_t size, Value limit);
  std::string stride(Value buffer, int64_t dim);
  std::string pointer(Value buffer, mlir::ValueRange indices);
  std::string address(Layout layout, llvm::ArrayRef<std::string> strides, R r);
  std::string inside(const Access &access, Layout layout, R r);
  Result load(Op *op);
  Result store(Op *op);
  Result accumulate(Op *op);
  Result gather(Op *op);
  Result scatterAdd(Op *op);
  /// The address of entry r of a buffer that scalars and tiles index.
  std::string indexed(Value buffer, mlir::ValueRange indices, R r,
                      std::string &nonEmpty);
  Result alloc(Op *op);
  Result stage(Op *op);
  Result copyAsync(Op *op);
  Result mbarriers(Op *op);
  std::string mbarrierPlace(Value barriers, Value index);
  Result copyBox(Op *op);
  Result storeShared(Op *op);
  Result loadShared(Op *op);
  Result loadDiagonals(Op *op);
  Result claim(Op *op);
  Result waitTurn(Op *op);
  Result endTurn(Op *op);
  /// Reads of V entries from r on into the array `t`, and the reverse.
  std::string vectorType(mlir::Type element, int64_t vector);
  void unpackVector(llvm::StringRef t, mlir::Type element, int64_t vector,
                    llvm::StringRef from);
  std::string packVector(Value tile, int64_t vector);
  /// The place of entry r in a buffer, given r. What all entries of a thread
  /// share stands in a variable.
  std::function<std::string(R)> sharedPlace(Value buffer, Layout layout);

  // PrintProducts.cpp
  Result reduce(Op *op);
  Result partialSum(Op *op);
  Result mma(Op *op);
  Result wgmma(Op *op);
  Result wgmmaWait(Op *op);
  /// The array that a product adds to: that of `acc`, if nothing reads it
  /// later, or a new one of `result`; `starts` at zero if it is not set.
  std::string sumArray(Value acc, Value result, bool &starts);
  /// Where a lane finds its rows of the matrices of a factor: given the number
  /// of a step of 16 along the depth and that of a block.
  std::function<std::string(R, R)> matrixPlace(Value factor, bool isA,
                                               Layout layout, int64_t blocks,
                                               int64_t blockStep);
  Result tensorCores(gpu::MmaOp op, llvm::StringRef sum);
  Result scalarProducts(gpu::MmaOp op, llvm::StringRef sum);

  gpu::KernelOp kernel;
  std::string body, tops; ///< of the kernel; what stands before
  int indent = 2;
  std::string error;
  llvm::StringSet<> taken;
  llvm::DenseMap<Value, std::string> names; ///< variables, arrays, literals
  llvm::DenseMap<Value, int> costs;         ///< of inline tiles; -1 for arrays
  llvm::StringMap<std::string> topNames;    ///< expression to variable
  llvm::DenseMap<Value, int64_t> places;    ///< of buffers without `offset`
  int64_t sharedBytes = 0;
  std::string barrierText = "fa::barrier();"; ///< of the CTA or the role
  bool singleThread = false;                  ///< only one runs the role
  /// Definitions of fa::wgmma for the shapes in use.
  std::map<std::string, std::string> wgmmas;
  bool counts = false; ///< some fa.tick stands in it

  std::string top(llvm::StringRef base, llvm::StringRef type,
                  const std::string &expression);
};

} // namespace fathom::cuda

#endif // FATHOM_CODEGEN_CUDA_PRINTER_H
