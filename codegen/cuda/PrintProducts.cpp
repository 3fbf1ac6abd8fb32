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

std::function<std::string(Printer::R, Printer::R)>
Printer::matrixPlace(Value factor, bool isA, Layout layout, int64_t blocks,
                     int64_t blockStep) {
  auto type = cast<gpu::SharedType>(factor.getType());
  // Lines of the buffer run along the depth, or each is one of its steps.
  bool depthInLine = isA != type.getFlipped();
  std::string lane =
      isA == depthInLine ? "lane % 16" : "lane / 16 * 8 + lane % 8";
  std::string column =
      isA == depthInLine ? "lane / 16 * 8" : "lane / 8 % 2 * 8";
  std::string warp = warpOffset(layout, isA ? 0 : 1);
  if (!warp.empty())
    (depthInLine ? lane : column) += " + " + warp;
  std::string at = fresh(isA ? "at_a" : "at_b"), buffer = nameOf(factor);
  int64_t pitch = type.getPitch();
  if (!type.getSwizzle()) {
    line("const unsigned {} = {} + (({}) * {} + {}) * 2;", at, buffer, lane,
         pitch, column);
    int64_t step = depthInLine ? 32 : 16 * pitch * 2;
    int64_t block = (depthInLine ? pitch : 1) * blockStep * 2;
    return [=](R k, R b) {
      return fmt::format("{} + {} * {} + {} * {}", at, k.str(), step, b.str(),
                         block);
    };
  }
  auto scaled = [](R n, int64_t by) {
    return fmt::format("{} * {}", n.str(), by);
  };
  // Blocks of a warp along a line must not carry into what the warp adds.
  int64_t ofWarps = 8, ofBlocks = 0;
  for (int64_t w = 0; w < layout.getNumWarps(); ++w)
    ofWarps |= layout.getThreadOffset(w * gpu::kWarp, isA ? 0 : 1);
  for (int64_t b = 0; b < blocks; b += isA ? 1 : 2)
    ofBlocks |= b * blockStep;
  bool apart = depthInLine || !(ofWarps & ofBlocks & (pitch - 1));
  if (apart)
    line("const unsigned {} = {} + {};", at, buffer,
         swizzledText(type, lane, column));
  return [=](R k, R b) {
    std::string l = depthInLine ? scaled(b, blockStep) : scaled(k, 16);
    std::string c = depthInLine ? scaled(k, 16) : scaled(b, blockStep);
    if (apart)
      return fmt::format("fa::swizzled_step({}, {})", at,
                         swizzledText(type, l, c));
    return buffer + " + " +
           swizzledText(type, lane + " + " + l, column + " + " + c);
  };
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

  std::string fragmentsA;
  std::function<std::string(R, R)> placeA;
  if (a)
    placeA = matrixPlace(op.getA(), true, layout, blocksM, rowStep);
  else
    fragmentsA = arrayOf(op.getA());
  auto placeB = matrixPlace(op.getB(), false, layout, blocksN, 8);
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
    line("  fa::ldmatrix_x4{}(a[m], {});", a.getFlipped() ? "_trans" : "",
         placeA("k", "m"));
  }
  if (blocksN > 1) {
    line("#pragma unroll");
    open("for (int n = 0; n + 1 < {}; n += 2) {{", blocksN);
    line("unsigned b[4];");
    line("fa::ldmatrix_x4{}(b, {});", trans, placeB("k", "n"));
    products("n", 2);
    close();
  }
  if (blocksN % 2) {
    line("unsigned b[2];");
    line("fa::ldmatrix_x2{}(b, {});", trans,
         placeB("k", std::to_string(blocksN - 1)));
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
