//===- PrintProducts.cpp - reductions and matrix products -------------------===//
//
// Where lanes work together: sums over a dim by shuffles, products of 16-bit
// tiles by tensor cores.
//
//===----------------------------------------------------------------------===//

#include "codegen/cuda/Printer.h"

using namespace mlir;
using namespace fathom;
using namespace fathom::cuda;

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

LogicalResult Printer::reduce(Operation *op) {
  auto reduce = cast<ReduceOp>(op);
  auto tile = cast<RankedTensorType>(reduce.getTile().getType());
  Layout layout = gpu::layoutOf(tile);
  Type element = tile.getElementType();
  int64_t dim = reduce.getDim();
  ReduceKind kind = reduce.getKind();
  bool logical = element.isInteger(1);
  if (!logical && !element.isF32() && !element.isF64())
    return fail(op, "expected entries of f32, f64 or i1");
  comment(op);

  auto combined = [&](const std::string &a, const std::string &b) {
    switch (kind) {
    case ReduceKind::add:
      return a + " + " + b;
    case ReduceKind::max:
      return "fa::fmax(" + a + ", " + b + ")";
    case ReduceKind::any:
      return a + " | " + b;
    case ReduceKind::all:
      return a + " & " + b;
    }
    llvm_unreachable("a kind of reduction");
  };
  std::string start = logical ? (kind == ReduceKind::all ? "true" : "false")
                      : kind == ReduceKind::max ? literal(element, -INFINITY)
                                                : literal(element, 0);

  // First the entries of a thread, then those of its lanes.
  Value result = reduce.getResult();
  std::string into, number;
  int64_t n = 1;
  if (tile.getRank() == 1) {
    into = declare(result);
    line("{} {} = {};", cType(element), into, start);
  } else {
    Layout rest = layout.sliced(dim);
    n = rest.getNumRegisters();
    into = declareVariable(result);
    unrolled(n, 1, fmt::format("{}[r] = {};", into, start));
    number = "[" + bare(slicedNumber(layout, 1 - dim, "r")).str() + "]";
  }
  unrolled(layout.getNumRegisters(), 1,
           fmt::format("{}{} = {};", into, number,
                       combined(into + number, entry(reduce.getTile(), "r"))));
  int64_t below = 1;
  SmallVector<int64_t> masks;
  for (auto m : Layout::modes(layout.getLanes())) {
    for (int64_t mask = below; mask < below * m.size; mask *= 2)
      if (m.dim == dim)
        masks.push_back(mask);
    below *= m.size;
  }
  if (masks.empty())
    return success();
  std::string at = tile.getRank() == 1 ? into : into + "[r]";
  if (tile.getRank() == 2)
    openUnrolled(n);
  for (int64_t mask : masks) {
    std::string other =
        logical ? fmt::format("bool(fa::shuffle_xor(int({}), {}))", at, mask)
                : fmt::format("fa::shuffle_xor({}, {})", at, mask);
    line("{} = {};", at, combined(at, other));
  }
  if (tile.getRank() == 2)
    close();
  return success();
}

LogicalResult Printer::partialSum(Operation *op) {
  auto sum = cast<gpu::PartialSumOp>(op);
  RankedTensorType tile = sum.getTile().getType();
  Layout layout = gpu::layoutOf(tile);
  comment(op);
  std::string into = declareVariable(sum.getResult());
  unrolled(gpu::layoutOf(sum.getResult()).getNumRegisters(), 1,
           fmt::format("{}[r] = {};", into, literal(tile.getElementType(), 0)));
  std::string at =
      into + "[" + bare(slicedNumber(layout, 1 - sum.getDim(), "r")).str() +
      "]";
  unrolled(layout.getNumRegisters(), 1,
           fmt::format("{0} = {0} + {1};", at, entry(sum.getTile(), "r")));
  return success();
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

LogicalResult Printer::mma(Operation *op) {
  auto mma = cast<gpu::MmaOp>(op);
  Value acc = mma.getAcc();
  comment(op);
  // The sum's own array, if nothing reads it later and it is no other's.
  bool own = acc.hasOneUse() && !nameOf(acc).empty() &&
             acc.getParentBlock() == op->getBlock() &&
             !isa_and_nonnull<gpu::ConvertOp>(acc.getDefiningOp());
  std::string sum;
  if (own) {
    sum = names[mma.getResult()] = nameOf(acc);
  } else {
    sum = declareVariable(mma.getResult());
    assign(sum, acc);
  }
  Type element = mma.getB().getType().getElementType();
  return isHalf(element) ? tensorCores(mma, sum) : scalarProducts(mma, sum);
}

/// buffer + (line * pitch + column) * 2, of a lane, with what warps add.
static std::string fragmentPlace(StringRef buffer, StringRef line,
                                 StringRef column, int64_t pitch,
                                 const std::string &warp, bool warpInLine) {
  std::string l = line.str(), c = column.str();
  if (!warp.empty())
    (warpInLine ? l : c) += " + " + warp;
  return fmt::format("{} + (({}) * {} + {}) * 2", buffer.str(), l, pitch, c);
}

LogicalResult Printer::tensorCores(gpu::MmaOp op, StringRef sum) {
  Layout layout = gpu::layoutOf(op.getResult());
  gpu::SharedType b = op.getB().getType();
  auto a = dyn_cast<gpu::SharedType>(op.getA().getType());
  int64_t depth = b.getShape()[0];
  // The blocks of 16 x 8 of a warp, and the rows from one to the next.
  int64_t blocksN = 1, blocksM = 1, rowStep = 16;
  for (auto m : Layout::modes(layout.getRegisters())) {
    if (m.dim == 1 && m.stride >= 8)
      blocksN = m.size;
    if (m.dim == 0 && m.stride >= 16)
      blocksM = m.size, rowStep = m.stride;
  }
  std::string type = cType(b.getElementType());

  std::string atA, atB = fresh("at_b"), fragmentsA;
  if (a) {
    atA = fresh("at_a");
    std::string warp = warpOffset(layout, 0);
    line("const unsigned {} = {};", atA,
         a.getFlipped()
             ? fragmentPlace(nameOf(op.getA()), "lane / 16 * 8 + lane % 8",
                             "lane / 8 % 2 * 8", a.getPitch(), warp, false)
             : fragmentPlace(nameOf(op.getA()), "lane % 16", "lane / 16 * 8",
                             a.getPitch(), warp, true));
  } else {
    fragmentsA = arrayOf(op.getA());
  }
  std::string warp = warpOffset(layout, 1);
  line("const unsigned {} = {};", atB,
       b.getFlipped()
           ? fragmentPlace(nameOf(op.getB()), "lane / 16 * 8 + lane % 8",
                           "lane / 8 % 2 * 8", b.getPitch(), warp, true)
           : fragmentPlace(nameOf(op.getB()), "lane % 16", "lane / 16 * 8",
                           b.getPitch(), warp, false));
  // Bytes from one step along the depth, and one block, to the next.
  int64_t stepA = a && a.getFlipped() ? 16 * a.getPitch() * 2 : 32;
  int64_t blockA = a ? rowStep * (a.getFlipped() ? 1 : a.getPitch()) * 2 : 0;
  int64_t stepB = b.getFlipped() ? 32 : 16 * b.getPitch() * 2;
  int64_t blockB = (b.getFlipped() ? b.getPitch() : 1) * 8 * 2;
  const char *trans = b.getFlipped() ? "" : "_trans";

  auto products = [&](const std::string &block, int count) {
    openUnrolled(blocksM, 1, "m");
    std::string left =
        a ? "a[m]"
          : fmt::format("{} + 2 * (m * {} + 2 * k)", fragmentsA, depth / 8);
    for (int i = 0; i < count; ++i)
      line("fa::mma_m16n8k16<{}>({} + 4 * (m * {} + {}{}), {}, b[{}], "
           "b[{}]);",
           type, sum.str(), blocksN, block, i ? " + 1" : "", left, 2 * i,
           2 * i + 1);
    close();
  };
  openUnrolled(depth / 16, 1, "k");
  if (a) {
    line("unsigned a[{}][4];", blocksM);
    line("#pragma unroll");
    line("for (int m = 0; m < {}; ++m)", blocksM);
    line("  fa::ldmatrix_x4{}(a[m], {} + k * {} + m * {});",
         a.getFlipped() ? "_trans" : "", atA, stepA, blockA);
  }
  if (blocksN > 1) {
    line("#pragma unroll");
    open("for (int n = 0; n + 1 < {}; n += 2) {{", blocksN);
    line("unsigned b[4];");
    line("fa::ldmatrix_x4{}(b, {} + k * {} + n * {});", trans, atB, stepB,
         blockB);
    products("n", 2);
    close();
  }
  if (blocksN % 2) {
    line("unsigned b[2];");
    line("fa::ldmatrix_x2{}(b, {} + k * {} + {});", trans, atB, stepB,
         (blocksN - 1) * blockB);
    products(std::to_string(blocksN - 1), 1);
  }
  close();
  return success();
}

LogicalResult Printer::scalarProducts(gpu::MmaOp op, StringRef sum) {
  Layout layout = gpu::layoutOf(op.getResult());
  gpu::SharedType b = op.getB().getType();
  auto a = cast<gpu::SharedType>(op.getA().getType());
  Type element = b.getElementType();
  Layout rows = layout.sliced(1), cols = layout.sliced(0);
  std::string type = cType(element);
  int64_t bytes = b.getElementBytes();
  // Where a line of a factor begins, and how far its entries lie apart.
  auto place = [&](Value buffer, gpu::SharedType t, Layout l, bool lineFirst) {
    std::string at = fresh("at");
    std::string thread = threadOffset(l, 0);
    line("const unsigned {} = {} + {} * {};", at, nameOf(buffer), thread,
         (lineFirst != t.getFlipped() ? t.getPitch() : 1) * bytes);
    return at;
  };
  std::string atA = place(op.getA(), a, rows, true),
              atB = place(op.getB(), b, cols, false);
  auto factor = [&](StringRef name, const std::string &at, gpu::SharedType t,
                    Layout l, bool lineFirst) {
    bool lines = lineFirst != t.getFlipped();
    int64_t n = l.getNumRegisters();
    std::string r = registerOffset(l, 0, "r");
    line("{} {}[{}];", type, name.str(), n);
    unrolled(n, 1,
             fmt::format("{}[r] = fa::load_shared<{}>({} + ({}) * {} + k * "
                         "{});",
                         name.str(), type, at, r.empty() ? "0" : r,
                         (lines ? t.getPitch() : 1) * bytes,
                         (lines ? 1 : t.getPitch()) * bytes));
  };
  line("#pragma unroll 2");
  open("for (int k = 0; k < {}; ++k) {{", b.getShape()[0]);
  factor("a", atA, a, rows, true);
  factor("b", atB, b, cols, false);
  unrolled(layout.getNumRegisters(), 1,
           fmt::format("{0}[r] = fa::fma(a[{1}], b[{2}], {0}[r]);", sum.str(),
                       bare(slicedNumber(layout, 0, "r")).str(),
                       bare(slicedNumber(layout, 1, "r")).str()));
  close();
  return success();
}
