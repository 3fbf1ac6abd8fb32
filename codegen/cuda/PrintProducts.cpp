//===- PrintProducts.cpp - reductions and matrix products -------------------===//
//
// Where lanes work together: sums over a dim by shuffles, products of 16-bit
// tiles by tensor cores.
//
//===----------------------------------------------------------------------===//

#include "codegen/cuda/Printer.h"

#include "mlir/IR/Matchers.h"

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

std::string Printer::sumArray(Value acc, Value result, bool &starts) {
  // The sum's own array, if nothing reads it later and it is no other's.
  bool own = acc.hasOneUse() && !nameOf(acc).empty() &&
             acc.getParentBlock() == result.getParentBlock() &&
             !isa_and_nonnull<gpu::ConvertOp>(acc.getDefiningOp());
  if (own) {
    starts = true;
    return names[result] = nameOf(acc);
  }
  std::string sum = declareVariable(result);
  Value source = acc;
  while (auto transpose = source.getDefiningOp<TransposeOp>())
    source = transpose.getTile();
  if (starts || !matchPattern(source, m_AnyZeroFloat())) {
    starts = true;
    assign(sum, acc);
  }
  return sum;
}

LogicalResult Printer::mma(Operation *op) {
  auto mma = cast<gpu::MmaOp>(op);
  comment(op);
  bool starts = true;
  std::string sum = sumArray(mma.getAcc(), mma.getResult(), starts);
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

//===----------------------------------------------------------------------===//
// Products of four warps
//===----------------------------------------------------------------------===//

/// fa::wgmma for one shape: the assembler wants each register by itself.
static std::string wgmmaText(const std::string &name, const std::string &type,
                             int64_t n, bool registers, bool transA,
                             bool transB) {
  std::string sums, operands;
  int64_t count = n / 2;
  for (int64_t i = 0; i < count; ++i) {
    sums += fmt::format("{}%{}", i ? "," : "", i);
    operands += fmt::format("{}\"+f\"(d[{}])", i ? ", " : "", i);
  }
  std::string a = fmt::format("%{}", count), inputs = "\"l\"(a)";
  if (registers) {
    a = "{";
    inputs.clear();
    for (int64_t i = 0; i < 4; ++i) {
      a += fmt::format("{}%{}", i ? "," : "", count + i);
      inputs += fmt::format("{}\"r\"(a[{}])", i ? ", " : "", i);
    }
    a += "}";
  }
  int64_t next = count + (registers ? 4 : 1);
  return fmt::format(
      "template <>\n"
      "FA_DEVICE void {}(float *d, {}a, unsigned long long b, bool add) {{\n"
      "  asm volatile(\"{{.reg .pred p; setp.ne.b32 p, %{}, 0; \"\n"
      "    \"wgmma.mma_async.sync.aligned.m64n{}k16.f32.{}.{} {{{}}}, {}, %{}, "
      "p, 1, 1{}, {};}}\"\n"
      "    : {}\n"
      "    : {}, \"l\"(b), \"r\"(int(add)));\n"
      "}}\n",
      name, registers ? "const unsigned *" : "unsigned long long ", next + 1, n,
      type, type, sums, a, next,
      registers ? ""
      : transA  ? ", 1"
                : ", 0",
      int(transB), operands, inputs);
}

LogicalResult Printer::wgmma(Operation *op) {
  auto wgmma = cast<gpu::WgmmaOp>(op);
  comment(op);
  bool starts = false;
  std::string sum = sumArray(wgmma.getAcc(), wgmma.getResult(), starts);
  auto tile = cast<RankedTensorType>(wgmma.getResult().getType());
  Layout layout = gpu::layoutOf(tile);
  auto [warpsM, warpsN] =
      *layout.matchMma(tile.getDimSize(0), tile.getDimSize(1));
  int64_t n = tile.getDimSize(1) / warpsN;
  int64_t blocks = tile.getDimSize(0) / (16 * warpsM);
  gpu::SharedType b = wgmma.getB().getType();
  auto a = dyn_cast<gpu::SharedType>(wgmma.getA().getType());
  int64_t depth = b.getShape()[0];
  std::string registersA = a ? "" : arrayOf(wgmma.getA());

  // The descriptor of a factor from the first row or column of these warps on,
  // and the text of what is added for a step along the depth or to a block.
  auto descriptor = [&](Value v, gpu::SharedType type, bool isA, int64_t own,
                        const std::string &number, int64_t block) {
    bool depthInLine = isA != type.getFlipped();
    int64_t swizzle = type.getSwizzle();
    int64_t panel = type.getLines() * swizzle;
    // Bytes from one line to one `count` further, or along the lines.
    auto across = [&](int64_t count) {
      return depthInLine ? count * swizzle : count * 2 / swizzle * panel;
    };
    std::string name = fresh(isA ? "desc_a" : "desc_b");
    line("const unsigned long long {} = fa::matrix_descriptor<{}>(fa::"
         "shared_address({}{}), {});",
         name, swizzle, nameOf(v),
         number.empty() ? "" : fmt::format(" + {} * {}", number, across(own)),
         depthInLine ? 16 : panel);
    int64_t steps = swizzle / 32; // in a panel's line
    std::string text = name;
    if (!depthInLine)
      text += fmt::format(" + k * {}", swizzle);
    else if (depth / 16 <= steps)
      text += " + k * 2";
    else
      text +=
          fmt::format(" + (k / {0} * {1} + k % {0} * 2)", steps, panel / 16);
    if (block)
      text += fmt::format(" + m * {}", across(block) / 16);
    return text;
  };
  std::string left =
      a ? descriptor(wgmma.getA(), a, true, 64,
                     warpsM > 4 ? fmt::format("warp % {} / 4", warpsM) : "",
                     blocks > 1 ? 16 * warpsM : 0)
        : fmt::format("{} + 4 * ({}k)", registersA,
                      blocks > 1 ? fmt::format("m * {} + ", depth / 16) : "");
  std::string right = descriptor(
      wgmma.getB(), b, false, n,
      warpsN > 1 ? fmt::format("warp / {}", warpsM) : "", /*block=*/0);

  std::string type = cType(b.getElementType());
  bool transA = a && a.getFlipped(), transB = !b.getFlipped();
  std::string name =
      fmt::format("fa::wgmma<{}, {}, {}, {}>", n, type, transA, transB);
  wgmmas.insert({name + (a ? "" : "r"),
                 wgmmaText(name, b.getElementType().isBF16() ? "bf16" : "f16",
                           n, !a, transA, transB)});
  int64_t registers = layout.getNumRegisters();
  if (starts)
    line("fa::pin<{}>({});", registers, sum);
  if (!a)
    line("fa::pin<{}>({});", blocks * depth / 4, registersA);
  line("fa::wgmma_fence();");
  openUnrolled(depth / 16, 1, "k");
  if (blocks > 1)
    openUnrolled(blocks, 1, "m");
  line("{}({}{}, {}, {}, {});", name, sum,
       blocks > 1 ? fmt::format(" + m * {}", n / 2) : "", left, right,
       starts ? "true" : "k > 0");
  if (blocks > 1)
    close();
  close();
  line("fa::wgmma_commit();");
  return success();
}

LogicalResult Printer::wgmmaWait(Operation *op) {
  auto wait = cast<gpu::WgmmaWaitOp>(op);
  comment(op);
  line("fa::wgmma_wait<{}>();", wait.getPending());
  for (auto [tile, result] : llvm::zip(wait.getTiles(), wait.getResults())) {
    std::string name = names[result] = nameOf(tile);
    line("fa::pin<{}>({});", gpu::layoutOf(tile).getNumRegisters(), name);
  }
  return success();
}
