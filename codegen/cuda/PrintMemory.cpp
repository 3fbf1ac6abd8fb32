//===- PrintMemory.cpp - loads, stores, copies, shared memory ---------------===//
//
// How tiles get in and out. Entries that lie one after the other, in the
// layout and in memory, move as one access where alignment is known.
//
//===----------------------------------------------------------------------===//

#include "codegen/cuda/Printer.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;
using namespace fathom;
using namespace fathom::cuda;

//===----------------------------------------------------------------------===//
// Accesses of several entries
//===----------------------------------------------------------------------===//

/// Entries of a type that one access may move, at most.
static int64_t maxVectorOf(Type element) {
  if (isHalf(element))
    return 8;
  return element.isF32() || element.isInteger(32) ? 4 : 1;
}

std::string Printer::vectorType(Type element, int64_t vector) {
  int64_t words = vector * bytesOf(element) / 4;
  if (words == 1)
    return "unsigned";
  return fmt::format("fa::{}32x{}", element.isF32() ? "f" : "u", words);
}

void Printer::unpackVector(StringRef t, Type element, int64_t vector,
                           StringRef from) {
  int64_t words = vector * bytesOf(element) / 4;
  for (int64_t i = 0; i < words; ++i) {
    std::string at = isHalf(element) ? "r / 2" : "r";
    if (i)
      at += fmt::format(" + {}", i);
    std::string part =
        words == 1 ? from.str() : fmt::format("{}.{}", from.str(), "xyzw"[i]);
    if (element.isInteger(32))
      part = "int(" + part + ")";
    line("{}[{}] = {};", t.str(), at, part);
  }
}

std::string Printer::packVector(Value tile, int64_t vector) {
  Type element = tileType(tile).getElementType();
  int64_t words = vector * bytesOf(element) / 4, step = vector / words;
  std::string text;
  for (int64_t i = 0; i < words; ++i) {
    std::string r = i ? fmt::format("(r + {})", i * step) : "r";
    std::string part = isHalf(element) ? word(tile, r) : entry(tile, r);
    if (element.isInteger(32))
      part = "unsigned(" + part + ")";
    text += (i ? ", " : "") + bare(part).str();
  }
  return words == 1 ? text : vectorType(element, vector) + "{" + text + "}";
}

//===----------------------------------------------------------------------===//
// Global memory
//===----------------------------------------------------------------------===//

std::string Printer::stride(Value buffer, int64_t dim) {
  auto type = cast<MemRefType>(buffer.getType());
  SmallVector<int64_t> strides;
  int64_t offset;
  if (succeeded(type.getStridesAndOffset(strides, offset)) &&
      !ShapedType::isDynamic(strides[dim]))
    return strides[dim] == 1 ? "" : std::to_string(strides[dim]);
  if (dim == type.getRank() - 1 && kernel.getAlignment(buffer) > 0)
    return "";
  return fmt::format("{}.stride[{}]", nameOf(buffer), dim);
}

/// base + index * stride, where there is something to add.
static void addProduct(std::string &sum, const std::string &index,
                       const std::string &stride) {
  if (index == "0" || index.empty())
    return;
  bool simple = StringRef(index).find_first_of("+-/% ") == StringRef::npos;
  sum += " + " + (stride.empty() ? index
                  : simple       ? index + " * " + stride
                                 : "(" + index + ") * " + stride);
}

std::string Printer::pointer(Value buffer, ValueRange indices) {
  std::string text = nameOf(buffer) + ".data";
  for (auto [d, index] : llvm::enumerate(indices))
    addProduct(text, scalar(index), stride(buffer, d));
  return text;
}

std::string Printer::address(Layout layout, ArrayRef<std::string> strides,
                             R r) {
  std::string text;
  for (auto [d, stride] : llvm::enumerate(strides))
    addProduct(text, registerOffset(layout, d, r), stride);
  return text.empty() ? "0" : text.substr(3);
}

/// The 32 bits that `index` comes from; else itself.
static Value narrow(Value index) {
  auto cast = index.getDefiningOp<arith::IndexCastOp>();
  return cast && getElementTypeOrSelf(cast.getIn()).isInteger(32) ? cast.getIn()
                                                                  : index;
}

/// True if `size` entries from `first` on are known to lie below `limit`.
static bool isBelow(Value first, int64_t size, Value limit) {
  auto i = constantOf(first), n = constantOf(limit);
  if (i && n)
    return *n - *i >= size;
  auto sum = narrow(limit).getDefiningOp<arith::AddIOp>();
  n = sum ? constantOf(sum.getRhs()) : std::nullopt;
  return n && narrow(sum.getLhs()) == narrow(first) && *n >= size;
}

std::string Printer::left(Value first, int64_t size, Value limit) {
  auto isNarrow = [](Value v) {
    auto constant = constantOf(v);
    return constant ? llvm::isInt<32>(*constant) : narrow(v) != v;
  };
  bool both = isNarrow(first) && isNarrow(limit);
  auto text = [&](Value v) { return bare(scalar(both ? narrow(v) : v)).str(); };
  return fmt::format("fa::left_below<{}>({}, {}, {})",
                     both ? "int" : "long long", text(limit), text(first),
                     size);
}

Printer::Access Printer::access(Value buffer, ValueRange indices,
                                ValueRange limits, RankedTensorType tile,
                                int64_t maxVector) {
  Access a;
  Layout layout = gpu::layoutOf(tile);
  int64_t rank = tile.getRank(), first = indices.size() - rank;
  Type element = tile.getElementType();
  std::string sum = pointer(buffer, indices);
  for (int64_t d = 0; d < rank; ++d) {
    a.strides.push_back(stride(buffer, first + d));
    addProduct(sum, threadOffset(layout, d), a.strides[d]);
    // No limit where all of the tile is known to lie below.
    Value index = indices[first + d], limit = limits[d];
    a.left.emplace_back();
    if (isBelow(index, tile.getDimSize(d), limit))
      continue;
    std::string name = fresh(d + 1 < rank ? "rows"
                             : rank > 1   ? "cols"
                                          : "some");
    std::string thread = threadOffset(layout, d);
    line("const int {} = {}{};", name, left(index, tile.getDimSize(d), limit),
         thread == "0" ? "" : " - " + thread);
    a.left.back() = name;
  }
  a.pointer = fresh(nameOf(buffer) + "_p");
  line("{} *const {} = {};", cType(element), a.pointer, sum);

  int64_t last = rank - 1;
  int64_t alignment = kernel.getAlignment(buffer) / bytesOf(element);
  for (int64_t v = maxVector; v > 1; v /= 2)
    if (layout.getVectorSize(last) % v == 0 && alignment > 0 &&
        alignment % v == 0 && isMultipleOf(indices.back(), v, kernel) &&
        (a.left[last].empty() || isMultipleOf(limits[last], v, kernel))) {
      a.vector = v;
      break;
    }
  return a;
}

std::string Printer::inside(const Access &a, Layout layout, R r) {
  std::string text;
  for (auto [d, left] : llvm::enumerate(a.left)) {
    if (left.empty())
      continue;
    std::string offset = registerOffset(layout, d, r);
    text += (text.empty() ? "" : " && ") +
            (offset.empty() ? "0 < " + left : offset + " < " + left);
  }
  return text;
}

static std::string zeroOf(Type element) {
  if (element.isF32())
    return "0.0f";
  return element.isF64() ? "0.0" : element.isInteger(1) ? "false" : "0";
}

LogicalResult Printer::load(Operation *op) {
  auto load = cast<LoadOp>(op);
  RankedTensorType tile = load.getTile().getType();
  Layout layout = gpu::layoutOf(tile);
  Type element = tile.getElementType();
  int64_t n = layout.getNumRegisters();
  comment(op);
  Access a = access(load.getBuffer(), load.getIndices(), load.getLimits(), tile,
                    maxVectorOf(element));
  std::string t = declareVariable(load.getTile());
  if (a.vector > 1) {
    openUnrolled(n, a.vector);
    std::string type = vectorType(element, a.vector), v = fresh("v");
    std::string read =
        fmt::format("fa::load_global((const {} *)({} + {}))", type, a.pointer,
                    address(layout, a.strides, "r"));
    std::string is = inside(a, layout, "r");
    line("const {} {} = {};", type, v,
         is.empty() ? read : fmt::format("{} ? {} : {}{{}}", is, read, type));
    unpackVector(t, element, a.vector, v);
    close();
    return success();
  }
  auto one = [&](R r, StringRef part, const std::string &zero) {
    std::string read = fmt::format("fa::load_global({} + {}){}", a.pointer,
                                   address(layout, a.strides, r), part.str());
    std::string is = inside(a, layout, r);
    if (n % 2 && r != "r")
      is = fmt::format("r + 1 < {}{}", n, is.empty() ? "" : " && " + is);
    return is.empty() ? read : fmt::format("{} ? {} : {}", is, read, zero);
  };
  if (!isHalf(element)) {
    unrolled(n, 1,
             fmt::format("{}[r] = {};", t, one("r", "", zeroOf(element))));
    return success();
  }
  openUnrolled(n, 2);
  line("const unsigned low = {};", one("r", ".bits", "0u"));
  line("const unsigned high = {};", one("(r + 1)", ".bits", "0u"));
  line("{}[r / 2] = low | high << 16;", t);
  close();
  return success();
}

static std::string both(const std::string &a, const std::string &b) {
  return a.empty() || b.empty() ? a + b : a + " && " + b;
}
static std::string ifText(const std::string &condition) {
  return condition.empty() ? "" : "if (" + condition + ") ";
}

LogicalResult Printer::store(Operation *op) {
  auto store = cast<StoreOp>(op);
  Value t = store.getTile();
  RankedTensorType tile = tileType(t);
  Layout layout = gpu::layoutOf(tile);
  Type element = tile.getElementType();
  comment(op);
  Access a = access(store.getBuffer(), store.getIndices(), store.getLimits(),
                    tile, maxVectorOf(element));
  std::string place = a.pointer + " + " + address(layout, a.strides, "r");
  std::string value = stored(t, "r");
  if (a.vector > 1) {
    place = fmt::format("({} *)({})", vectorType(element, a.vector), place);
    value = packVector(t, a.vector);
  }
  unrolled(layout.getNumRegisters(), a.vector,
           fmt::format("{}fa::store_global({}, {});",
                       ifText(both(onlyOnce(layout), inside(a, layout, "r"))),
                       place, value));
  return success();
}

/// "old + x" in the type of an entry, as it is stored.
static std::string sumText(Type element, const std::string &place,
                           const std::string &x) {
  if (isHalf(element))
    return fmt::format("fa::convert<{0}>(fa::convert<float>(fa::load_global({1}"
                       ")) + {2})",
                       cType(element), place, x);
  return fmt::format("fa::load_global({}) + {}", place, x);
}

/// The largest that a register adds to the coordinate in `dim`.
static int64_t lastOffset(gpu::ThreadLayoutAttr layout, int64_t dim) {
  int64_t last = 0;
  for (auto m : gpu::ThreadLayoutAttr::modes(layout.getRegisters()))
    last += m.dim == dim ? (m.size - 1) * m.stride : 0;
  return last;
}

static bool hasAtomics(Type element) {
  return element.isF32() || element.isF64() || element.isInteger(32);
}

/// True for accumulators of tensor cores with an even number of blocks of 8
/// columns side by side in a thread.
static bool isMmaPairs(gpu::ThreadLayoutAttr layout) {
  auto is = [](gpu::ThreadLayoutAttr::Mode m, int64_t size, int64_t dim,
               int64_t stride) {
    return m.size == size && m.dim == dim && m.stride == stride;
  };
  auto registers = gpu::ThreadLayoutAttr::modes(layout.getRegisters());
  auto lanes = gpu::ThreadLayoutAttr::modes(layout.getLanes());
  return registers.size() >= 3 && is(registers[0], 2, 1, 1) &&
         is(registers[1], 2, 0, 8) && registers[2].dim == 1 &&
         registers[2].stride == 8 && registers[2].size % 2 == 0 &&
         is(lanes[0], 4, 1, 2);
}

LogicalResult Printer::accumulate(Operation *op) {
  auto add = cast<AccumulateOp>(op);
  Value t = add.getTile();
  RankedTensorType tile = tileType(t);
  Layout layout = gpu::layoutOf(tile);
  Type element = tile.getElementType();
  bool atomic = add.getMode() == AccumulateMode::atomic;
  if (add.getMode() == AccumulateMode::ordered)
    return fail(op, "expected plain or atomic, with the turn as "
                    "fa_gpu.wait_turn, got ordered");
  if (atomic && !hasAtomics(element))
    return fail(op, "expected f32, f64 or i32 for an atomic sum");
  comment(op);
  Access a = access(add.getBuffer(), add.getIndices(), add.getLimits(), tile,
                    element.isF32() ? 4 : 1);
  std::string place = a.pointer + " + " + address(layout, a.strides, "r");
  std::string is = inside(a, layout, "r");
  std::string condition = ifText(both(onlyOnce(layout), is));
  int64_t n = layout.getNumRegisters();
  // One branch for a tile that is all inside, not one for each sum.
  auto sums = [&](llvm::function_ref<void(bool whole)> print) {
    if (is.empty())
      return print(true);
    std::string whole;
    for (auto [d, left] : llvm::enumerate(a.left))
      if (!left.empty())
        whole =
            both(whole, fmt::format("{} < {}", lastOffset(layout, d), left));
    open("if ({}) {{", whole);
    print(true);
    indent -= 2;
    open("}} else {{");
    print(false);
    close();
  };
  // Pairs of accumulators of tensor cores: lanes side by side make fours.
  int64_t last = tile.getRank() - 1;
  if (atomic && last == 1 && a.vector == 2 && isMmaPairs(layout) &&
      kernel.getAlignment(add.getBuffer()) % 16 == 0 &&
      isMultipleOf(add.getIndices().back(), 4, kernel) &&
      (a.left[last].empty() ||
       isMultipleOf(add.getLimits()[last], 4, kernel))) {
    sums([&](bool whole) {
      openUnrolled(n / 4, 1, "i");
      line("const int r = i / 2 * 8 + i % 2 * 2;");
      auto is = [&](R r) {
        std::string text =
            both(onlyOnce(layout), whole ? "" : inside(a, layout, r));
        return text.empty() ? "true" : text;
      };
      line("fa::atomic_add_pairs({}, {}, {}, {}, {}, {}, {});", place,
           bare(entry(t, "r")).str(), bare(entry(t, "(r + 1)")).str(),
           bare(entry(t, "(r + 4)")).str(), bare(entry(t, "(r + 5)")).str(),
           is("r"), is("(r + 4)"));
      close();
    });
    return success();
  }
  if (atomic) {
    std::string values = bare(entry(t, "r")).str();
    for (int64_t i = 1; i < a.vector; ++i)
      values += ", " + bare(entry(t, fmt::format("(r + {})", i))).str();
    std::string sum = fmt::format(
        "fa::atomic_add{}({}, {});",
        a.vector > 1 ? fmt::format("_v{}", a.vector) : "", place, values);
    sums([&](bool whole) {
      unrolled(n, a.vector,
               (whole ? ifText(onlyOnce(layout)) : condition) + sum);
    });
    return success();
  }
  if (a.vector == 1) {
    unrolled(n, 1,
             fmt::format("{}fa::store_global({}, {});", condition, place,
                         sumText(element, place, entry(t, "r"))));
    return success();
  }
  std::string type = vectorType(element, a.vector), p = fresh("sum_p");
  openUnrolled(n, a.vector);
  is = both(onlyOnce(layout), is);
  if (!is.empty())
    open("if ({}) {{", is);
  line("{0} *{1} = ({0} *)({2});", type, p, place);
  line("{} v = fa::load_global({});", type, p);
  for (int64_t i = 0; i < a.vector; ++i)
    line("v.{} += {};", "xyzw"[i],
         bare(entry(t, i ? fmt::format("(r + {})", i) : "r")).str());
  line("fa::store_global({}, v);", p);
  if (!is.empty())
    close();
  close();
  return success();
}

std::string Printer::indexed(Value buffer, ValueRange indices, R r,
                             std::string &nonEmpty) {
  std::string text = nameOf(buffer) + ".data";
  for (auto [d, index] : llvm::enumerate(indices)) {
    std::string size = fmt::format("{}.size[{}]", nameOf(buffer), d);
    nonEmpty += (nonEmpty.empty() ? "" : " && ") + size + " > 0";
    Value small = narrow(index);
    addProduct(text,
               fmt::format("fa::maxsi<{0}>(0, fa::minsi<{0}>({1}, {2}))",
                           small == index ? "long long" : "int",
                           bare(entry(small, r)).str(),
                           small == index ? size + " - 1"
                                          : "fa::last_index(" + size + ")"),
               stride(buffer, d));
  }
  return text;
}

LogicalResult Printer::gather(Operation *op) {
  auto gather = cast<GatherOp>(op);
  Type element = gather.getResult().getType().getElementType();
  Layout layout = gpu::layoutOf(gather.getResult().getType());
  int64_t n = layout.getNumRegisters();
  comment(op);
  std::string t = declareVariable(gather.getResult()), full, ignored;
  auto one = [&](R r, std::string &nonEmpty) {
    return "fa::load_global(" +
           indexed(gather.getBuffer(), gather.getIndices(), r, nonEmpty) + ")";
  };
  std::string first = one("r", full), is;
  if (!full.empty()) {
    is = fresh("filled");
    line("const bool {} = {};", is, full);
    is += " ? ";
  }
  if (!isHalf(element)) {
    unrolled(n, 1,
             fmt::format("{}[r] = {}{}{};", t, is, first,
                         is.empty() ? "" : " : " + zeroOf(element)));
    return success();
  }
  std::string none = is.empty() ? "" : " : 0u";
  openUnrolled(n, 2);
  line("const unsigned low = {}{}.bits{};", is, first, none);
  line("const unsigned high = {}{}.bits{};",
       n % 2 ? fmt::format("r + 1 < {}{}", n, is.empty() ? " ? " : " && " + is)
             : is,
       one("(r + 1)", ignored), n % 2 ? " : 0u" : none);
  line("{}[r / 2] = low | high << 16;", t);
  close();
  return success();
}

LogicalResult Printer::scatterAdd(Operation *op) {
  // Threads of a CTA may meet at an entry: without atomics they take turns.
  auto scatter = cast<ScatterAddOp>(op);
  RankedTensorType tile = tileType(scatter.getTile());
  bool plain = scatter.getMode() == AccumulateMode::plain;
  if (!plain && !hasAtomics(tile.getElementType()))
    return fail(op, "expected f32, f64 or i32 for a sum of several threads");
  Layout layout = gpu::layoutOf(tile);
  comment(op);
  std::string full;
  std::string place =
      indexed(scatter.getBuffer(), scatter.getIndices(), "r", full);
  std::string is = fresh("filled");
  line("const bool {} = {};", is, full.empty() ? "true" : full);
  std::string value = bare(entry(scatter.getTile(), "r")).str();
  std::string once = both(onlyOnce(layout), is);
  if (!plain) {
    unrolled(
        layout.getNumRegisters(), 1,
        fmt::format("{}fa::atomic_add({}, {});", ifText(once), place, value));
    return success();
  }
  line("#pragma unroll 1");
  open("for (int turn = 0; turn < {}; ++turn) {{",
       gpu::warpsOf(op) * gpu::kWarp);
  open("if ({}) {{", both("turn == fa::thread_id()", once));
  openUnrolled(layout.getNumRegisters(), 1, "r");
  std::string at = fresh("place");
  line("{} *const {} = {};", cType(tile.getElementType()), at, place);
  line("fa::store_global({0}, fa::load_global({0}) + {1});", at, value);
  close();
  close();
  line("{}", barrierText);
  close();
  return success();
}

//===----------------------------------------------------------------------===//
// Shared memory
//===----------------------------------------------------------------------===//

LogicalResult Printer::alloc(Operation *op) {
  auto alloc = cast<gpu::AllocOp>(op);
  int64_t place = alloc.getOffset() ? int64_t(*alloc.getOffset())
                                    : places.lookup(alloc.getResult());
  std::string name = declare(alloc.getResult());
  gpu::SharedType type = alloc.getResult().getType();
  std::string shape;
  llvm::raw_string_ostream os(shape);
  llvm::interleave(type.getShape(), os, "x");
  os << " " << type.getElementType();
  if (type.getSwizzle())
    os << ", swizzle " << type.getSwizzle();
  else
    os << ", pitch " << type.getPitch();
  if (type.getStages() > 1)
    os << ", " << type.getStages() << " stages";
  line("const unsigned {} = {}; // {}", name, place, shape);
  return success();
}

LogicalResult Printer::stage(Operation *op) {
  auto stage = cast<gpu::StageOp>(op);
  std::string buffer = nameOf(stage.getBuffer());
  int64_t bytes = stage.getBuffer().getType().getStageBytes();
  std::string name = declare(stage.getResult());
  if (auto index = constantOf(stage.getIndex()))
    line("const unsigned {} = {} + {};", name, buffer, *index * bytes);
  else
    line("const unsigned {} = {} + unsigned({}) * {};", name, buffer,
         scalar(stage.getIndex()), bytes);
  return success();
}

std::string cuda::swizzledText(gpu::SharedType type, StringRef line,
                               StringRef column) {
  std::string bytes = column == "0" ? "0"
                      : column.find_first_of("+-/% ") == StringRef::npos
                          ? fmt::format("{} * 2", column.str())
                          : fmt::format("({}) * 2", bare(column).str());
  return fmt::format("fa::swizzled<{}>({}, {}, {})", type.getSwizzle(),
                     type.getLines(), bare(line).str(), bytes);
}

/// True if what registers add to the lines and columns of a thread carries into
/// no bit that the swizzle reads or writes: the two parts can be swizzled apart.
static bool swizzlesApart(gpu::SharedType type, gpu::ThreadLayoutAttr layout) {
  int64_t lineDim = type.getFlipped() ? 1 : 0;
  int64_t threads[2] = {0, 0}, registers[2] = {0, 0};
  for (int64_t d : {0, 1}) {
    for (int64_t t = 0; t < layout.getNumWarps() * gpu::kWarp; ++t)
      threads[d] |= layout.getThreadOffset(t, d);
    for (int64_t r = 0; r < layout.getNumRegisters(); ++r)
      registers[d] |= layout.getRegisterOffset(r, d);
  }
  int64_t mask[2];
  mask[lineDim] = 7;
  mask[1 - lineDim] = type.getPitch() - 1;
  return !(threads[0] & registers[0] & mask[0]) &&
         !(threads[1] & registers[1] & mask[1]);
}

std::function<std::string(Printer::R)> Printer::sharedPlace(Value buffer,
                                                            Layout layout) {
  auto type = cast<gpu::SharedType>(buffer.getType());
  if (type.getSwizzle()) {
    int64_t lineDim = type.getFlipped() ? 1 : 0;
    if (!swizzlesApart(type, layout))
      return [=, this](R r) {
        return nameOf(buffer) + " + " +
               swizzledText(type, coordinate(layout, lineDim, r),
                            coordinate(layout, 1 - lineDim, r));
      };
    std::string at = fresh("at");
    line("const unsigned {} = {} + {};", at, nameOf(buffer),
         swizzledText(type, threadOffset(layout, lineDim),
                      threadOffset(layout, 1 - lineDim)));
    return [=, this](R r) {
      auto step = [&](int64_t dim) {
        std::string text = registerOffset(layout, dim, r);
        return text.empty() ? "0" : text;
      };
      return fmt::format("fa::swizzled_step({}, {})", at,
                         swizzledText(type, step(lineDim), step(1 - lineDim)));
    };
  }
  SmallVector<std::string> strides;
  std::string thread;
  std::string pitch = fmt::format("{}", type.getPitch());
  for (int64_t d = 0; d < type.getRank(); ++d) {
    bool along = type.getRank() == 1 || (d == 1) != type.getFlipped();
    strides.push_back(along ? "" : pitch);
    addProduct(thread, threadOffset(layout, d), strides.back());
  }
  std::string at = fresh("at");
  line("const unsigned {} = {}{};", at, nameOf(buffer),
       thread.empty() ? ""
                      : fmt::format(" + ({}) * {}", thread.substr(3),
                                    type.getElementBytes()));
  return [=, this](R r) {
    return fmt::format("{} + ({}) * {}", at, address(layout, strides, r),
                       type.getElementBytes());
  };
}

/// Entries of a tile that lie next to each other in a buffer as in registers.
static int64_t sharedVector(gpu::SharedType type,
                            gpu::ThreadLayoutAttr layout) {
  int64_t along = type.getRank() == 1 || type.getFlipped() ? 0 : 1;
  int64_t run = layout.getVectorSize(along);
  for (int64_t v = maxVectorOf(type.getElementType()); v > 1; v /= 2)
    if (run % v == 0 && type.getPitch() % v == 0)
      return v;
  return 1;
}

/// True if warps hold the tile in blocks of 16 x 16 as products leave them, and
/// the buffer takes pieces of 16 bytes of a row.
static bool holdsBlocks(gpu::SharedType type, RankedTensorType tile) {
  gpu::ThreadLayoutAttr layout = gpu::layoutOf(tile);
  if (!isHalf(tile.getElementType()) || tile.getRank() != 2 ||
      type.getFlipped() || type.getSwizzle() || type.getPitch() % 8 ||
      layout.isReplicated())
    return false;
  auto modes = gpu::ThreadLayoutAttr::modes(layout.getRegisters());
  auto is = [&](size_t i, int64_t dim, int64_t stride) {
    return i < modes.size() && modes[i].dim == dim && modes[i].stride == stride;
  };
  return is(0, 1, 1) && modes[0].size == 2 && is(1, 0, 8) &&
         modes[1].size == 2 && is(2, 1, 8) && modes[2].size % 2 == 0 &&
         layout.getLanes() == ArrayRef<int64_t>{4, 1, 2, 8, 0, 1};
}

LogicalResult Printer::storeShared(Operation *op) {
  auto store = cast<gpu::StoreSharedOp>(op);
  gpu::SharedType type = store.getBuffer().getType();
  Layout layout = gpu::layoutOf(store.getTile());
  comment(op);
  if (holdsBlocks(type, tileType(store.getTile()))) {
    auto orZero = [](std::string s) { return s.empty() ? "0" : s; };
    auto place = [&](const std::string &row, const std::string &col) {
      return fmt::format("(({}) * {} + {}) * 2", orZero(row), type.getPitch(),
                         orZero(col));
    };
    std::string words = arrayOf(store.getTile()), at = fresh("at");
    line("const unsigned {} = {} + {};", at, nameOf(store.getBuffer()),
         place(warpOffset(layout, 0), warpOffset(layout, 1)));
    unrolled(layout.getNumRegisters(), 8,
             fmt::format("fa::store_block({} + {}, {}, {} + r / 2);", at,
                         place(registerOffset(layout, 0, "r"),
                               registerOffset(layout, 1, "r")),
                         type.getPitch() * 2, words));
    return success();
  }
  int64_t vector = sharedVector(type, layout);
  auto place = sharedPlace(store.getBuffer(), layout);
  std::string value = vector > 1 ? packVector(store.getTile(), vector)
                                 : stored(store.getTile(), "r");
  std::string c = vector > 1 ? vectorType(type.getElementType(), vector)
                             : cType(type.getElementType());
  unrolled(layout.getNumRegisters(), vector,
           fmt::format("{}fa::store_shared<{}>({}, {});",
                       ifText(onlyOnce(layout)), c, place("r"), value));
  return success();
}

LogicalResult Printer::loadShared(Operation *op) {
  auto load = cast<gpu::LoadSharedOp>(op);
  gpu::SharedType type = load.getBuffer().getType();
  Type element = type.getElementType();
  Layout layout = gpu::layoutOf(load.getTile());
  int64_t vector = sharedVector(type, layout), n = layout.getNumRegisters();
  comment(op);
  auto place = sharedPlace(load.getBuffer(), layout);
  std::string t = declareVariable(load.getTile());
  auto one = [&](const std::string &c, R r) {
    return fmt::format("fa::load_shared<{}>({})", c, place(r));
  };
  if (vector > 1) {
    openUnrolled(n, vector);
    std::string c = vectorType(element, vector), v = fresh("v");
    line("const {} {} = {};", c, v, one(c, "r"));
    unpackVector(t, element, vector, v);
    close();
    return success();
  }
  std::string c = cType(element);
  if (!isHalf(element)) {
    unrolled(n, 1, fmt::format("{}[r] = {};", t, one(c, "r")));
    return success();
  }
  openUnrolled(n, 2);
  line("const unsigned low = {}.bits;", one(c, "r"));
  line("const unsigned high = {}{}.bits{};",
       n % 2 ? fmt::format("r + 1 < {} ? ", n) : "", one(c, "(r + 1)"),
       n % 2 ? " : 0u" : "");
  line("{}[r / 2] = low | high << 16;", t);
  close();
  return success();
}

LogicalResult Printer::loadDiagonals(Operation *op) {
  auto load = cast<gpu::LoadDiagonalsOp>(op);
  gpu::SharedType type = load.getBuffer().getType();
  RankedTensorType tile = tileType(load.getTile());
  Layout layout = gpu::layoutOf(load.getTile());
  comment(op);
  std::string at = fresh("at"), t = declareVariable(load.getTile());
  int64_t bytes = type.getElementBytes(), last = tile.getDimSize(1) - 1;
  line("const unsigned {} = {} + unsigned({} - ({}) + {}) * {};", at,
       nameOf(load.getBuffer()), threadOffset(layout, 0),
       threadOffset(layout, 1), last, bytes);
  auto own = [&](int64_t dim) {
    std::string text = registerOffset(layout, dim, "r");
    return text.empty() ? "0" : text;
  };
  unrolled(layout.getNumRegisters(), 1,
           fmt::format("{}[r] = fa::load_shared<{}>({} + ({} - ({})) * {});", t,
                       cType(type.getElementType()), at, own(0), own(1),
                       bytes));
  return success();
}

LogicalResult Printer::copyAsync(Operation *op) {
  auto copy = cast<gpu::CopyAsyncOp>(op);
  gpu::SharedType type = copy.getBuffer().getType();
  int64_t bytes = type.getElementBytes(), entries = copy.getVector() / bytes;
  int64_t lines = type.getLines(), across = type.getLineLength() / entries;
  int64_t threads = gpu::warpsOf(op) * gpu::kWarp, chunks = lines * across;
  int64_t rank = type.getRank(), first = copy.getIndices().size() - rank;
  Value limit = copy.getLimits().back(), index = copy.getIndices().back();
  bool whole = isBelow(index, type.getLineLength(), limit);
  if (entries > 1 && !isMultipleOf(index, entries, kernel))
    return fail(op, llvm::Twine("expected a column that is a multiple of ") +
                        llvm::Twine(entries));
  if (entries > 1 && !whole && !isMultipleOf(limit, entries, kernel))
    return fail(op, llvm::Twine("expected a limit of columns that is a "
                                "multiple of ") +
                        llvm::Twine(entries));
  comment(op);

  // Chunk `thread + j * threads`, by lines: neighbours copy neighbours.
  bool even = threads % across == 0;
  std::string tid = top("thread", "int", "fa::thread_id()");
  std::string source = pointer(copy.getSource(), copy.getIndices());
  std::string lineStride = rank == 2 ? stride(copy.getSource(), first) : "";
  std::string colStride = stride(copy.getSource(), first + rank - 1);
  auto left = [&](int64_t d, const char *base) -> std::string {
    Value index = copy.getIndices()[first + d], limit = copy.getLimits()[d];
    if (isBelow(index, type.getShape()[d], limit))
      return "";
    std::string name = fresh(base);
    line("const int {} = {};", name,
         this->left(index, type.getShape()[d], limit));
    return name;
  };
  std::string rows = rank == 2 ? left(0, "rows") : "";
  std::string cols = left(rank - 1, "cols");
  std::string element = cType(type.getElementType());
  std::string from = fresh("from"), to = fresh("to");
  auto mul = [](const std::string &x, int64_t n) {
    return n == 1 ? x : fmt::format("{} * {}", x, n);
  };
  int64_t count = llvm::divideCeil(chunks, threads);
  std::string is;
  auto require = [&](const std::string &condition) {
    is = both(is, condition);
  };
  std::string guard;
  if (chunks % threads)
    guard = fmt::format("{} + j * {} < {}", tid, threads, chunks);
  std::string copyText = fmt::format("fa::cp_async<{}>", copy.getVector());
  if (even) {
    std::string line0 = across == 1 ? tid
                                    : top("copy_line", "int",
                                          fmt::format("{} / {}", tid, across));
    std::string col0 =
        across == 1 ? "0"
                    : top("copy_col", "int",
                          mul(fmt::format("{} % {}", tid, across), entries));
    addProduct(source, rank == 2 ? line0 : "0", lineStride);
    addProduct(source, col0, colStride);
    // The pointer walks: offsets of lines would be kept in registers, each.
    bool walks = rank == 2 && count > 1;
    int64_t step = threads / across;
    // Steps of whole groups of 8 lines leave the swizzle as it is.
    bool fixed = !type.getSwizzle() || step % 8 == 0 || count == 1;
    line("const {} *{}{} = {};", element, walks ? "" : "const ", from, source);
    if (!type.getSwizzle())
      line("const unsigned {} = {} + ({} * {} + {}) * {};", to,
           nameOf(copy.getBuffer()), line0, type.getPitch(), col0, bytes);
    else if (fixed)
      line("const unsigned {} = {} + {};", to, nameOf(copy.getBuffer()),
           swizzledText(type, line0, col0));
    openUnrolled(count, 1, "j");
    if (!rows.empty())
      require(fmt::format("{} + j * {} < {}", line0, step, rows));
    if (!cols.empty())
      require(fmt::format("{} < {}", col0, cols));
    std::string place =
        fixed ? fmt::format("{} + j * {}", to, step * type.getPitch() * bytes)
              : fmt::format(
                    "{} + {}", nameOf(copy.getBuffer()),
                    swizzledText(type, fmt::format("{} + j * {}", line0, step),
                                 col0));
    line("{}{}({}, {}, {});", ifText(guard), copyText, place, from,
         is.empty() ? "true" : is);
    if (walks)
      line("{} += {} * {};", from, step, lineStride);
    close();
    return success();
  }
  line("const {} *const {} = {};", element, from, source);
  openUnrolled(count, 1, "j");
  line("const int chunk = {} + j * {};", tid, threads);
  line("const int y = chunk / {}, x = {};", across,
       mul(fmt::format("chunk % {}", across), entries));
  if (!rows.empty())
    require("y < " + rows);
  if (!cols.empty())
    require("x < " + cols);
  std::string place = from;
  if (rank == 2)
    addProduct(place, "y", lineStride);
  addProduct(place, "x", colStride);
  std::string at = type.getSwizzle() ? swizzledText(type, "y", "x")
                                     : fmt::format("(y * {} + x) * {}",
                                                   type.getPitch(), bytes);
  line("{}{}({} + {}, {}, {});",
       ifText(guard.empty() ? "" : fmt::format("chunk < {}", chunks)), copyText,
       nameOf(copy.getBuffer()), at, place, is.empty() ? "true" : is);
  close();
  return success();
}

LogicalResult Printer::mbarriers(Operation *op) {
  auto make = cast<gpu::MbarriersOp>(op);
  int64_t count = make.getResult().getType().getCount();
  int64_t place = make.getOffset() ? int64_t(*make.getOffset())
                                   : places.lookup(make.getResult());
  std::string name = declare(make.getResult());
  line("const unsigned {} = {}; // {} barriers", name, place, count);
  open("if (fa::thread_id() == 0) {{");
  for (int64_t i = 0; i < count; ++i)
    line("fa::mbarrier_init({} + {}, {});", name, 8 * i, make.getArrivals());
  line("fa::mbarrier_init_fence();");
  close();
  return success();
}

std::string Printer::mbarrierPlace(Value barriers, Value index) {
  if (auto i = constantOf(index))
    return fmt::format("{} + {}", nameOf(barriers), 8 * *i);
  return fmt::format("{} + 8 * unsigned({})", nameOf(barriers), scalar(index));
}

LogicalResult Printer::copyBox(Operation *op) {
  auto copy = cast<gpu::CopyBoxOp>(op);
  gpu::SharedType type = copy.getBuffer().getType();
  ArrayRef<int64_t> box = copy.getMap().getType().getBox();
  int64_t lines = type.getLines(), length = type.getLineLength();
  int64_t boxLines = box[box.size() - 2], boxLength = box.back();
  comment(op);
  open("{}{{", singleThread ? "" : "if (fa::thread_id() == 0) ");
  std::string barrier = fresh("barrier");
  line("const unsigned {} = {};", barrier,
       mbarrierPlace(copy.getSignals(), copy.getIndex()));
  line("fa::mbarrier_arrive_expect({}, {});", barrier, type.getStageBytes());
  for (int64_t col = 0; col < length; col += boxLength)
    for (int64_t row = 0; row < lines; row += boxLines) {
      std::string at;
      for (auto [d, index] : llvm::enumerate(copy.getIndices())) {
        int64_t left = box.size() - d, add = left == 2 ? row : col;
        at += fmt::format(", int({}{})", bare(scalar(index)).str(),
                          left > 2 || !add ? "" : fmt::format(" + {}", add));
      }
      line("fa::copy_box({} + {}, {}, {}{});", nameOf(copy.getBuffer()),
           (col * lines + row * boxLength) * type.getElementBytes(),
           nameOf(copy.getMap()), barrier, at);
    }
  close();
  return success();
}

//===----------------------------------------------------------------------===//
// Order between CTAs
//===----------------------------------------------------------------------===//

LogicalResult Printer::claim(Operation *op) {
  auto claim = cast<gpu::ClaimOp>(op);
  std::string scratch = nameOf(claim.getScratch());
  comment(op);
  line("if (fa::thread_id() == 0)");
  line("  fa::store_shared<int>({}, fa::atomic_inc({}.data));", scratch,
       nameOf(claim.getCounter()));
  line("{}", barrierText);
  std::string name = declare(claim.getResult());
  line("const long long {} = fa::load_shared<int>({});", name, scratch);
  line("{} // {} may be written again", barrierText, scratch);
  return success();
}

LogicalResult Printer::waitTurn(Operation *op) {
  auto wait = cast<gpu::WaitTurnOp>(op);
  comment(op);
  open("if (fa::thread_id() == 0) {{");
  line("const int *const ticket = {};",
       pointer(wait.getTickets(), wait.getIndices()));
  line("while (fa::load_acquire(ticket) != int({}))", scalar(wait.getTurn()));
  line("  fa::nanosleep_hint();");
  close();
  line("{}", barrierText);
  return success();
}

LogicalResult Printer::endTurn(Operation *op) {
  auto end = cast<gpu::EndTurnOp>(op);
  comment(op);
  line("{}", barrierText);
  open("if (fa::thread_id() == 0) {{");
  line("int *const ticket = {};", pointer(end.getTickets(), end.getIndices()));
  line("fa::thread_fence();");
  line("fa::store_release(ticket, fa::load_acquire(ticket) + 1);");
  close();
  return success();
}
