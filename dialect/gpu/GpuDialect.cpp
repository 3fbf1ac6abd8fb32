//===- GpuDialect.cpp - the fa_gpu dialect: layouts and shared memory -------===//

#include "dialect/gpu/GpuDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"
#include <numeric>

using namespace mlir;
using namespace fathom;
using namespace fathom::gpu;

#include "dialect/gpu/GpuDialect.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialect/gpu/GpuAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "dialect/gpu/GpuTypes.cpp.inc"

namespace {
/// Layouts are long: they get a name at the top of a file.
struct Aliases : public OpAsmDialectInterface {
  using OpAsmDialectInterface::OpAsmDialectInterface;
  AliasResult getAlias(Attribute attr, raw_ostream &os) const override {
    if (!isa<ThreadLayoutAttr>(attr))
      return AliasResult::NoAlias;
    os << "layout";
    return AliasResult::FinalAlias;
  }
};
} // namespace

void FAGpuDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialect/gpu/GpuAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialect/gpu/GpuTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialect/gpu/GpuOps.cpp.inc"
      >();
  addInterfaces<Aliases>();
}

ThreadLayoutAttr gpu::layoutOf(Type type) {
  auto tile = dyn_cast<RankedTensorType>(type);
  return tile ? dyn_cast_or_null<ThreadLayoutAttr>(tile.getEncoding())
              : ThreadLayoutAttr();
}

bool gpu::isLaidOut(Type type) { return bool(layoutOf(type)); }

RankedTensorType gpu::withLayout(RankedTensorType type,
                                 ThreadLayoutAttr layout) {
  return RankedTensorType::get(type.getShape(), type.getElementType(), layout);
}

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

SmallVector<ThreadLayoutAttr::Mode>
ThreadLayoutAttr::modes(ArrayRef<int64_t> flat) {
  SmallVector<Mode> result;
  for (size_t i = 0; i + 2 < flat.size(); i += 3)
    result.push_back({flat[i], flat[i + 1], flat[i + 2]});
  return result;
}

/// Appends a mode, unless it is the trivial one.
static void add(SmallVector<int64_t> &flat, int64_t size, int64_t dim,
                int64_t stride) {
  if (size < 2)
    return;
  // Repeats side by side are one.
  size_t n = flat.size();
  if (dim < 0 && n >= 3 && flat[n - 2] < 0)
    flat[n - 3] *= size;
  else
    flat.append({size, dim, dim < 0 ? 0 : stride});
}

static int64_t count(ArrayRef<int64_t> flat) {
  int64_t n = 1;
  for (ThreadLayoutAttr::Mode m : ThreadLayoutAttr::modes(flat))
    n *= m.size;
  return n;
}

/// What number `n`, written in the radix of `flat`, adds in `dim`.
static int64_t offset(ArrayRef<int64_t> flat, int64_t n, int64_t dim) {
  int64_t sum = 0;
  for (ThreadLayoutAttr::Mode m : ThreadLayoutAttr::modes(flat)) {
    if (m.dim == dim)
      sum += n % m.size * m.stride;
    n /= m.size;
  }
  return sum;
}

int64_t ThreadLayoutAttr::getNumRegisters() const {
  return count(getRegisters());
}
int64_t ThreadLayoutAttr::getNumWarps() const { return count(getWarps()); }
int64_t ThreadLayoutAttr::getRegisterOffset(int64_t r, int64_t dim) const {
  return offset(getRegisters(), r, dim);
}
int64_t ThreadLayoutAttr::getThreadOffset(int64_t thread, int64_t dim) const {
  return offset(getLanes(), thread % kWarp, dim) +
         offset(getWarps(), thread / kWarp, dim);
}

int64_t ThreadLayoutAttr::getVectorSize(int64_t dim) const {
  int64_t n = 1;
  for (Mode m : modes(getRegisters())) {
    if (m.dim != dim || m.stride != n)
      break;
    n *= m.size;
  }
  return n;
}

bool ThreadLayoutAttr::isReplicated() const {
  for (ArrayRef<int64_t> flat : {getLanes(), getWarps()})
    for (Mode m : modes(flat))
      if (m.dim < 0)
        return true;
  return false;
}

ThreadLayoutAttr ThreadLayoutAttr::transposed() const {
  auto swap = [](ArrayRef<int64_t> flat) {
    SmallVector<int64_t> result;
    for (Mode m : modes(flat))
      result.append({m.size, m.dim < 0 ? -1 : 1 - m.dim, m.stride});
    return result;
  };
  return get(getContext(), swap(getRegisters()), swap(getLanes()),
             swap(getWarps()));
}

ThreadLayoutAttr ThreadLayoutAttr::sliced(int64_t dim) const {
  auto drop = [&](ArrayRef<int64_t> flat, bool repeat) {
    SmallVector<int64_t> result;
    for (Mode m : modes(flat)) {
      if (m.dim == 1 - dim)
        add(result, m.size, 0, m.stride);
      else if (repeat)
        add(result, m.size, -1, 0);
    }
    return result;
  };
  return get(getContext(), drop(getRegisters(), false), drop(getLanes(), true),
             drop(getWarps(), true));
}

ThreadLayoutAttr ThreadLayoutAttr::getMma(MLIRContext *ctx, int64_t rows,
                                          int64_t cols, int64_t warpsM,
                                          int64_t warpsN) {
  int64_t blocksM = rows / 16, blocksN = cols / 8;
  int64_t m = std::gcd(warpsM, blocksM), n = std::gcd(warpsN, blocksN);
  SmallVector<int64_t> registers, lanes, warps;
  add(registers, 2, 1, 1);
  add(registers, 2, 0, 8);
  add(registers, blocksN / n, 1, 8);
  add(registers, blocksM / m, 0, 16 * m);
  add(lanes, 4, 1, 2);
  add(lanes, 8, 0, 1);
  add(warps, m, 0, 16);
  add(warps, warpsM / m, -1, 0);
  add(warps, n, 1, blocksN / n * 8);
  add(warps, warpsN / n, -1, 0);
  return get(ctx, registers, lanes, warps);
}

ThreadLayoutAttr ThreadLayoutAttr::getRows(MLIRContext *ctx, int64_t rows,
                                           int64_t cols, int64_t vector,
                                           int64_t numWarps) {
  int64_t pieces = cols / vector, l = std::gcd(kWarp, pieces),
          r = std::gcd(kWarp / l, rows), w = std::gcd(numWarps, rows / r);
  SmallVector<int64_t> registers, lanes, warps;
  add(registers, vector, 1, 1);
  add(registers, pieces / l, 1, vector * l);
  add(registers, rows / r / w, 0, r * w);
  add(lanes, l, 1, vector);
  add(lanes, r, 0, 1);
  add(lanes, kWarp / l / r, -1, 0);
  add(warps, w, 0, r);
  add(warps, numWarps / w, -1, 0);
  return get(ctx, registers, lanes, warps);
}

ThreadLayoutAttr ThreadLayoutAttr::getLine(MLIRContext *ctx, int64_t size,
                                           int64_t numWarps) {
  int64_t l = std::gcd(kWarp, size);
  SmallVector<int64_t> registers, lanes, warps;
  add(registers, size / l, 0, l);
  add(lanes, l, 0, 1);
  add(lanes, kWarp / l, -1, 0);
  add(warps, numWarps, -1, 0);
  return get(ctx, registers, lanes, warps);
}

std::optional<std::pair<int64_t, int64_t>>
ThreadLayoutAttr::matchMma(int64_t rows, int64_t cols) const {
  if (rows % 16 || cols % 8)
    return {};
  int64_t warps = getNumWarps();
  for (int64_t m = warps; m >= 1; --m)
    if (warps % m == 0 &&
        *this == getMma(getContext(), rows, cols, m, warps / m))
      return std::pair(m, warps / m);
  return {};
}

LogicalResult
ThreadLayoutAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                         ArrayRef<int64_t> registers, ArrayRef<int64_t> lanes,
                         ArrayRef<int64_t> warps) {
  for (ArrayRef<int64_t> flat : {registers, lanes, warps}) {
    if (flat.size() % 3)
      return emitError() << "expected modes of size, dim and stride";
    for (Mode m : modes(flat))
      if (m.size < 2 || m.dim < -1 || m.dim > 1 || m.stride < (m.dim >= 0) ||
          (m.dim < 0 && m.stride))
        return emitError() << "expected modes of a size of at least 2, in dim "
                              "0 or 1 with a stride, or repeats, got "
                           << m.size << ":" << m.dim << ":" << m.stride;
  }
  for (Mode m : modes(registers))
    if (m.dim < 0)
      return emitError() << "expected no repeats in registers";
  if (count(lanes) != kWarp)
    return emitError() << "expected lanes of " << kWarp << " in all, got "
                       << count(lanes);
  return success();
}

LogicalResult ThreadLayoutAttr::verifyEncoding(
    ArrayRef<int64_t> shape, Type,
    function_ref<InFlightDiagnostic()> emitError) const {
  for (auto [dim, size] : llvm::enumerate(shape)) {
    SmallVector<Mode> all;
    for (ArrayRef<int64_t> flat : {getRegisters(), getLanes(), getWarps()})
      for (Mode m : modes(flat))
        if (m.dim == int64_t(dim))
          all.push_back(m);
    llvm::sort(all, [](Mode a, Mode b) { return a.stride < b.stride; });
    int64_t n = 1;
    for (Mode m : all) {
      if (m.stride != n)
        return emitError() << "expected a mode of stride " << n << " in dim "
                           << dim << ", got " << m.stride;
      n *= m.size;
    }
    if (n != size)
      return emitError() << "expected a layout of " << size
                         << " entries in dim " << dim << ", got " << n;
  }
  for (ArrayRef<int64_t> flat : {getRegisters(), getLanes(), getWarps()})
    for (Mode m : modes(flat))
      if (m.dim >= int64_t(shape.size()))
        return emitError() << "expected modes in dims below " << shape.size()
                           << ", got " << m.dim;
  return success();
}

static ParseResult parseModes(AsmParser &p, StringRef name,
                              SmallVector<int64_t> &flat) {
  return failure(
      p.parseKeyword(name) || p.parseEqual() ||
      p.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
        int64_t size = 0, dim = -1, stride = 0;
        if (p.parseInteger(size) || p.parseColon())
          return failure();
        if (failed(p.parseOptionalKeyword("r")) &&
            (p.parseInteger(dim) || p.parseColon() || p.parseInteger(stride)))
          return failure();
        flat.append({size, dim, stride});
        return success();
      }));
}

Attribute ThreadLayoutAttr::parse(AsmParser &p, Type) {
  SmallVector<int64_t> registers, lanes, warps;
  if (p.parseLess() || parseModes(p, "registers", registers) ||
      p.parseComma() || parseModes(p, "lanes", lanes) || p.parseComma() ||
      parseModes(p, "warps", warps) || p.parseGreater())
    return {};
  return getChecked([&] { return p.emitError(p.getNameLoc()); }, p.getContext(),
                    registers, lanes, warps);
}

void ThreadLayoutAttr::print(AsmPrinter &p) const {
  auto list = [&](StringRef name, ArrayRef<int64_t> flat) {
    p << name << " = [";
    llvm::interleaveComma(modes(flat), p, [&](Mode m) {
      if (m.dim < 0)
        p << m.size << ":r";
      else
        p << m.size << ":" << m.dim << ":" << m.stride;
    });
    p << "]";
  };
  p << "<";
  list("registers", getRegisters());
  list(", lanes", getLanes());
  list(", warps", getWarps());
  p << ">";
}

//===----------------------------------------------------------------------===//
// Shared memory
//===----------------------------------------------------------------------===//

int64_t SharedType::getLines() const {
  return getRank() == 1 ? 1 : getShape()[getFlipped() ? 1 : 0];
}
int64_t SharedType::getLineLength() const {
  return getRank() == 1 ? getShape()[0] : getShape()[getFlipped() ? 0 : 1];
}
int64_t SharedType::getElementBytes() const {
  Type t = getElementType();
  return t.isIndex() ? 8 : llvm::divideCeil(t.getIntOrFloatBitWidth(), 8);
}
int64_t SharedType::getStageBytes() const {
  int64_t entries = getSwizzle() ? getLineLength() : getPitch();
  return llvm::alignTo(getLines() * entries * getElementBytes(), 16);
}
SharedType SharedType::withStages(int64_t stages) const {
  return get(getContext(), getShape(), getElementType(), getPitch(), stages,
             getFlipped(), getSwizzle());
}
SharedType SharedType::flip() const {
  SmallVector<int64_t> shape(llvm::reverse(getShape()));
  return get(getContext(), shape, getElementType(), getPitch(), getStages(),
             !getFlipped(), getSwizzle());
}
SharedType SharedType::getSwizzled(ArrayRef<int64_t> shape, Type element,
                                   int64_t swizzle) {
  return get(element.getContext(), shape, element, /*pitch=*/swizzle / 2,
             /*stages=*/1, /*flipped=*/false, swizzle);
}

LogicalResult SharedType::verify(function_ref<InFlightDiagnostic()> emitError,
                                 ArrayRef<int64_t> shape, Type elementType,
                                 int64_t pitch, int64_t stages, bool flipped,
                                 int64_t swizzle) {
  if (shape.empty() || shape.size() > 2 ||
      llvm::any_of(shape, [](int64_t n) { return n < 1; }))
    return emitError() << "expected one or two static dims";
  if (!elementType.isIntOrIndexOrFloat())
    return emitError() << "expected numbers as entries, got " << elementType;
  int64_t length = shape.size() == 1 ? shape[0] : shape[flipped ? 0 : 1];
  if (swizzle) {
    if (swizzle != 32 && swizzle != 64 && swizzle != 128)
      return emitError() << "expected a swizzle of 32, 64 or 128 bytes, got "
                         << swizzle;
    if (shape.size() != 2 || !elementType.isIntOrFloat() ||
        elementType.getIntOrFloatBitWidth() != 16)
      return emitError() << "expected rank 2 and 16-bit entries in a swizzled "
                            "buffer";
    if (length * 2 % swizzle || shape[flipped ? 1 : 0] % 8)
      return emitError() << "expected lines of whole panels of " << swizzle
                         << " bytes, and a multiple of 8 of them, in a "
                            "swizzled buffer, got "
                         << shape[flipped ? 1 : 0] << " lines of " << length * 2
                         << " bytes";
    if (pitch * 2 != swizzle)
      return emitError() << "expected a pitch of a panel's line, "
                         << swizzle / 2 << ", got " << pitch;
  } else if (pitch < length)
    return emitError() << "expected a pitch of at least the line's length, "
                       << length << ", got " << pitch;
  if (stages < 1)
    return emitError() << "expected at least one stage, got " << stages;
  if (flipped && shape.size() != 2)
    return emitError() << "expected rank 2 in a flipped view";
  return success();
}

LogicalResult BoxMapType::verify(function_ref<InFlightDiagnostic()> emitError,
                                 ArrayRef<int64_t> box, Type elementType,
                                 int64_t swizzle) {
  if (box.empty() || box.size() > 5 ||
      llvm::any_of(box, [](int64_t n) { return n < 1 || n > 256; }))
    return emitError() << "expected boxes of 1 to 5 dims of 1 to 256 entries";
  if (!elementType.isBF16() && !elementType.isF16())
    return emitError() << "expected 16-bit floats as entries, got "
                       << elementType;
  if (swizzle != 32 && swizzle != 64 && swizzle != 128)
    return emitError() << "expected a swizzle of 32, 64 or 128 bytes, got "
                       << swizzle;
  if (box.back() * 2 != swizzle)
    return emitError() << "expected lines of a box as long as the swizzle, "
                       << swizzle << " bytes, got " << box.back() * 2;
  return success();
}

Type BoxMapType::parse(AsmParser &p) {
  SmallVector<int64_t> box;
  Type element;
  int64_t swizzle = 0;
  if (p.parseLess() || p.parseDimensionList(box, /*allowDynamic=*/false) ||
      p.parseType(element) || p.parseComma() || p.parseKeyword("swizzle") ||
      p.parseEqual() || p.parseInteger(swizzle) || p.parseGreater())
    return {};
  return getChecked([&] { return p.emitError(p.getNameLoc()); }, p.getContext(),
                    box, element, swizzle);
}

void BoxMapType::print(AsmPrinter &p) const {
  p << "<";
  for (int64_t n : getBox())
    p << n << "x";
  p << getElementType() << ", swizzle = " << getSwizzle() << ">";
}

LogicalResult
MbarriersType::verify(function_ref<InFlightDiagnostic()> emitError,
                      int64_t count) {
  if (count < 1)
    return emitError() << "expected at least one barrier, got " << count;
  return success();
}

Type SharedType::parse(AsmParser &p) {
  SmallVector<int64_t> shape;
  Type element;
  int64_t pitch = 0, stages = 1, swizzle = 0;
  bool flipped = false;
  if (p.parseLess() || p.parseDimensionList(shape, /*allowDynamic=*/false) ||
      p.parseType(element) || p.parseComma())
    return {};
  bool swizzled = succeeded(p.parseOptionalKeyword("swizzle"));
  if ((!swizzled && p.parseKeyword("pitch")) || p.parseEqual() ||
      p.parseInteger(swizzled ? swizzle : pitch))
    return {};
  if (swizzled)
    pitch = swizzle / 2;
  while (succeeded(p.parseOptionalComma())) {
    StringRef key;
    if (p.parseKeyword(&key))
      return {};
    if (key == "stages") {
      if (p.parseEqual() || p.parseInteger(stages))
        return {};
    } else if (key == "flipped") {
      flipped = true;
    } else {
      p.emitError(p.getNameLoc(), "expected 'stages' or 'flipped', got '")
          << key << "'";
      return {};
    }
  }
  if (p.parseGreater())
    return {};
  return getChecked([&] { return p.emitError(p.getNameLoc()); }, p.getContext(),
                    shape, element, pitch, stages, flipped, swizzle);
}

void SharedType::print(AsmPrinter &p) const {
  p << "<";
  for (int64_t n : getShape())
    p << n << "x";
  p << getElementType() << ", ";
  if (getSwizzle())
    p << "swizzle = " << getSwizzle();
  else
    p << "pitch = " << getPitch();
  if (getStages() != 1)
    p << ", stages = " << getStages();
  if (getFlipped())
    p << ", flipped";
  p << ">";
}
