//===- PrintElements.cpp - values and expressions in CUDA -------------------===//
//
// Types, literals, the entries of tiles, and what one op of arith or math
// computes, as an expression of device.h's functions.
//
//===----------------------------------------------------------------------===//

#include "codegen/cuda/Printer.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fathom;
using namespace fathom::cuda;

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

bool cuda::isHalf(Type element) { return element.isBF16() || element.isF16(); }

std::string cuda::cType(Type element) {
  if (element.isBF16())
    return "fa::bf16";
  if (element.isF16())
    return "fa::f16";
  if (element.isF32())
    return "float";
  if (element.isF64())
    return "double";
  if (element.isIndex() || element.isSignlessInteger(64))
    return "long long";
  if (auto integer = dyn_cast<IntegerType>(element))
    switch (integer.getWidth()) {
    case 1:
      return "bool";
    case 8:
      return "signed char";
    case 16:
      return "short";
    case 32:
      return "int";
    }
  return "";
}

std::string cuda::expressionType(Type element) {
  return isHalf(element) ? "float" : cType(element);
}
std::string cuda::registerType(Type element) {
  return isHalf(element) ? "unsigned" : cType(element);
}
int64_t cuda::bytesOf(Type element) {
  return element.isIndex()
             ? 8
             : llvm::divideCeil(element.getIntOrFloatBitWidth(), 8);
}

StringRef cuda::bare(StringRef e) {
  if (!e.starts_with("(") || !e.ends_with(")"))
    return e;
  int depth = 0;
  for (size_t i = 0; i + 1 < e.size(); ++i) {
    depth += e[i] == '(' ? 1 : e[i] == ')' ? -1 : 0;
    if (depth == 0)
      return e;
  }
  return e.drop_front().drop_back();
}

//===----------------------------------------------------------------------===//
// Integers that are known
//===----------------------------------------------------------------------===//

std::optional<int64_t> cuda::constantOf(Value value) {
  APInt constant;
  if (value.getType().isIntOrIndex() &&
      matchPattern(value, m_ConstantInt(&constant)))
    return constant.getSExtValue();
  return {};
}

bool cuda::isMultipleOf(Value v, int64_t n, gpu::KernelOp kernel) {
  if (n == 1)
    return true;
  if (auto constant = constantOf(v))
    return *constant % n == 0;
  auto is = [&](Value x) { return isMultipleOf(x, n, kernel); };
  if (auto arg = dyn_cast<BlockArgument>(v)) {
    auto loop = dyn_cast<scf::ForOp>(arg.getOwner()->getParentOp());
    return loop && arg == loop.getInductionVar() && is(loop.getLowerBound()) &&
           is(loop.getStep());
  }
  Operation *op = v.getDefiningOp();
  if (auto dim = dyn_cast<memref::DimOp>(op)) {
    MemRefType type = cast<MemRefType>(dim.getSource().getType());
    auto index = dim.getConstantIndex();
    return index && *index == type.getRank() - 1 &&
           kernel.getAlignment(dim.getSource()) %
                   (n * bytesOf(type.getElementType())) ==
               0 &&
           kernel.getAlignment(dim.getSource()) > 0;
  }
  if (isa<arith::IndexCastOp>(op))
    return is(op->getOperand(0));
  if (isa<arith::MulIOp>(op))
    return is(op->getOperand(0)) || is(op->getOperand(1));
  if (isa<arith::AddIOp, arith::SubIOp, arith::MinSIOp, arith::MaxSIOp>(op))
    return is(op->getOperand(0)) && is(op->getOperand(1));
  if (isa<arith::SelectOp>(op))
    return is(op->getOperand(1)) && is(op->getOperand(2));
  return false;
}

//===----------------------------------------------------------------------===//
// Literals
//===----------------------------------------------------------------------===//

std::string Printer::literal(Type element, double value) {
  if (isa<FloatType>(element)) {
    bool wide = element.isF64();
    const char *type = wide ? "double" : "float";
    if (std::isinf(value))
      return fmt::format("{}fa::infinity<{}>()", value < 0 ? "-" : "", type);
    if (std::isnan(value))
      return fmt::format("fa::not_a_number<{}>()", type);
    std::string text =
        wide ? fmt::format("{}", value) : fmt::format("{}", float(value));
    if (text.find_first_of(".e") == std::string::npos)
      text += ".0";
    if (!wide)
      text += "f";
    return value < 0 || text[0] == '-' ? "(" + text + ")" : text;
  }
  return fmt::format("{}", int64_t(value));
}

std::string Printer::literal(TypedAttr attr) {
  if (auto splat = dyn_cast<SplatElementsAttr>(attr))
    attr = cast<TypedAttr>(splat.getSplatValue<Attribute>());
  if (auto number = dyn_cast<FloatAttr>(attr))
    return literal(number.getType(), number.getValueAsDouble());
  auto integer = dyn_cast<IntegerAttr>(attr);
  if (!integer)
    return "";
  if (integer.getType().isInteger(1))
    return integer.getValue().isZero() ? "false" : "true";
  int64_t value = integer.getValue().getSExtValue();
  if (value == INT64_MIN)
    return "(-9223372036854775807LL - 1)";
  bool wide = bytesOf(integer.getType()) == 8 && std::abs(value) >= 32768;
  std::string text = fmt::format("{}{}", value, wide ? "LL" : "");
  return value < 0 ? "(" + text + ")" : text;
}

//===----------------------------------------------------------------------===//
// Scalars and entries
//===----------------------------------------------------------------------===//

std::string Printer::scalar(Value v) {
  if (auto it = names.find(v); it != names.end())
    return it->second;
  if (auto constant = v.getDefiningOp<arith::ConstantOp>()) {
    std::string text = literal(constant.getValue());
    return isHalf(v.getType())
               ? "fa::convert<" + cType(v.getType()) + ">(" + text + ")"
               : text;
  }
  return "";
}

std::string Printer::scalarExpression(Value v) {
  if (!isHalf(v.getType()))
    return scalar(v);
  if (auto constant = v.getDefiningOp<arith::ConstantOp>())
    return literal(constant.getValue());
  return "fa::convert<float>(" + scalar(v) + ")";
}

static std::string comparison(arith::CmpIPredicate p, const std::string &type,
                              const std::string &a, const std::string &b);
static std::string operatorOf(Operation *op, Type element);

static Type elementOf(Value v) { return getElementTypeOrSelf(v.getType()); }

bool Printer::isInline(Value v) {
  if (auto it = costs.find(v); it != costs.end())
    return it->second >= 0;
  int cost = -1;
  Operation *op = v.getDefiningOp();
  if (isa_and_nonnull<arith::ConstantOp, IotaOp, BroadcastOp,
                      gpu::ThreadOffsetOp, gpu::RegisterOffsetOp>(op)) {
    cost = 0;
  } else if (auto transpose = dyn_cast_or_null<TransposeOp>(op)) {
    cost = 0;
  } else if (op && isElementwise(op) && elementOf(v).isIntOrIndex()) {
    // Short, and of what costs no registers: computed where it is used.
    cost = !isa<arith::IndexCastOp>(op);
    for (Value operand : op->getOperands()) {
      if (!isa<RankedTensorType>(operand.getType()))
        continue;
      if (!isInline(operand) || isa<TransposeOp>(operand.getDefiningOp())) {
        cost = -1;
        break;
      }
      cost += costs[operand];
    }
    // Lines are few registers, read by many entries.
    if (cost > (cast<RankedTensorType>(v.getType()).getRank() == 1 ? 3 : 8))
      cost = -1;
  }
  costs[v] = cost;
  return cost >= 0;
}

std::string Printer::entry(Value v, R r) {
  auto type = dyn_cast<RankedTensorType>(v.getType());
  if (!type)
    return scalarExpression(v);
  if (auto it = names.find(v); it != names.end()) {
    const std::string &array = it->second;
    if (array.back() == '*') // a scalar for each r, in its loop
      return array.substr(0, array.size() - 1);
    if (!isHalf(type.getElementType()))
      return fmt::format("{}[{}]", array, bare(r).str());
    std::string half = cType(type.getElementType());
    return fmt::format("({1} % 2 ? fa::unpack_hi<{2}>({0}[{1} / 2]) : "
                       "fa::unpack_lo<{2}>({0}[{1} / 2]))",
                       array, r.str(), half);
  }
  Operation *op = v.getDefiningOp();
  Layout layout = gpu::layoutOf(v);
  if (auto constant = dyn_cast<arith::ConstantOp>(op))
    return literal(constant.getValue());
  if (auto iota = dyn_cast<IotaOp>(op)) {
    std::string start = scalar(iota.getStart());
    if (constantOf(iota.getStart()))
      start = fmt::format("{}LL", *constantOf(iota.getStart()));
    return fmt::format("({} + {})", start, coordinate(layout, 0, r));
  }
  if (isa<gpu::ThreadOffsetOp, gpu::RegisterOffsetOp>(op))
    return offset(op, r);
  if (auto transpose = dyn_cast<TransposeOp>(op))
    return entry(transpose.getTile(), r);
  if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
    Value source = broadcast.getSource();
    if (!isa<RankedTensorType>(source.getType()))
      return scalarExpression(source);
    if (type.getRank() == 1)
      return entry(source, r);
    return entry(source, slicedNumber(layout, broadcast.getDim(), r));
  }
  if (std::string text = comparison32(op, r); !text.empty())
    return text;
  SmallVector<std::string> args;
  for (Value operand : op->getOperands())
    args.push_back(entry(operand, r));
  return expression(op, args);
}

std::string Printer::stored(Value v, R r) {
  Type element = elementOf(v);
  if (!isHalf(element)) {
    std::string text = bare(entry(v, r)).str();
    // Literals and small integers' arithmetic have the type int.
    return isa<FloatType>(element) || element.isInteger(32)
               ? text
               : fmt::format("({})({})", cType(element), text);
  }
  Value source = v;
  while (auto transpose = source.getDefiningOp<TransposeOp>())
    source = transpose.getTile();
  if (auto it = names.find(source); it != names.end())
    return fmt::format("{0}{{(unsigned short)({1}[{2} / 2] >> {2} % 2 * 16)}}",
                       cType(element), it->second, r.str());
  return fmt::format("fa::convert<{}>({})", cType(element),
                     bare(entry(v, r)).str());
}

std::string Printer::word(Value v, R r) {
  Value source = v;
  while (auto transpose = source.getDefiningOp<TransposeOp>())
    source = transpose.getTile();
  if (auto it = names.find(source); it != names.end())
    return fmt::format("{}[{} / 2]", it->second, r.str());
  std::string next = r == "r" ? "(r + 1)" : "(" + r.str() + " + 1)";
  std::string high = bare(entry(v, next)).str();
  if (gpu::layoutOf(v).getNumRegisters() % 2)
    high = fmt::format("{} < {} ? {} : 0.0f", bare(next).str(),
                       gpu::layoutOf(v).getNumRegisters(), high);
  return fmt::format("fa::pack<{}>({}, {})", cType(elementOf(v)),
                     bare(entry(v, r)).str(), high);
}

std::optional<Printer::Sum> Printer::sumOf(Value v, R r) {
  if (!isa<RankedTensorType>(v.getType()))
    return Sum{scalar(v), ""};
  if (!isInline(v))
    return Sum{entry(v, r), ""};
  Operation *op = v.getDefiningOp();
  Layout layout = gpu::layoutOf(v);
  if (auto constant = dyn_cast<arith::ConstantOp>(op))
    return Sum{literal(constant.getValue()), ""};
  // Of 32 bits, where that changes nothing.
  auto narrow = dyn_cast<arith::IndexCastOp>(op);
  auto iota =
      dyn_cast_or_null<IotaOp>(narrow ? narrow.getIn().getDefiningOp() : op);
  if (iota && (!narrow || constantOf(iota.getStart()) == 0)) {
    std::string start = scalar(iota.getStart()),
                thread = threadOffset(layout, 0);
    if (start == "0")
      start = "";
    if (thread != "0")
      start += (start.empty() ? "" : " + ") + thread;
    return Sum{start, registerOffset(layout, 0, r)};
  }
  if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
    bool line = isa<RankedTensorType>(broadcast.getSource().getType()) &&
                cast<RankedTensorType>(v.getType()).getRank() == 2;
    return sumOf(broadcast.getSource(),
                 line ? slicedNumber(layout, broadcast.getDim(), r) : r.str());
  }
  if (!isa<arith::AddIOp, arith::SubIOp>(op) ||
      operatorOf(op, elementOf(v)).empty())
    return Sum{entry(v, r), ""};
  auto a = sumOf(op->getOperand(0), r), b = sumOf(op->getOperand(1), r);
  if (!a || !b)
    return {};
  auto joined = [&](const std::string &x, const std::string &y) {
    if (isa<arith::AddIOp>(op))
      return x + (x.empty() || y.empty() ? "" : " + ") + y;
    return y.empty() ? x : x + (x.empty() ? "-(" : " - (") + y + ")";
  };
  return Sum{joined(a->shared, b->shared), joined(a->own, b->own)};
}

std::string Printer::comparison32(Operation *op, R r) {
  auto cmp = dyn_cast<arith::CmpIOp>(op);
  if (!cmp || cmp.getPredicate() >= arith::CmpIPredicate::ult ||
      !(elementOf(cmp.getLhs()).isIndex() ||
        elementOf(cmp.getLhs()).isInteger(32)))
    return "";
  auto a = sumOf(cmp.getLhs(), r), b = sumOf(cmp.getRhs(), r);
  if (!a || !b || (a->own.empty() && b->own.empty()))
    return "";
  auto minus = [](const std::string &x, const std::string &y) {
    return y.empty() ? x.empty() ? "0" : x
                     : x + (x.empty() ? "-(" : " - (") + y + ")";
  };
  std::string shared = minus(b->shared, a->shared);
  if (!elementOf(cmp.getLhs()).isIndex())
    shared = "0LL + " + shared;
  return comparison(cmp.getPredicate(), "", a->own.empty() ? "0" : a->own,
                    (b->own.empty() ? "" : b->own + " + ") + "fa::saturate(" +
                        shared + ")");
}

std::string Printer::offset(Operation *op, R r) {
  Layout layout = gpu::layoutOf(op->getResult(0));
  std::string type = cType(elementOf(op->getResult(0)));
  if (isa<gpu::RegisterOffsetOp>(op)) {
    std::string own = registerOffset(layout, 0, r);
    return type + "(" + (own.empty() ? "0" : own) + ")";
  }
  std::string thread = threadOffset(layout, 0);
  return thread == "0"
             ? type + "(0)"
             : top(thread + "_offset", type, type + "(" + thread + ")");
}

void Printer::roots(Value v, llvm::StringSet<> &found) {
  if (auto it = names.find(v); it != names.end()) {
    found.insert(it->second);
    return;
  }
  if (Operation *op = v.getDefiningOp())
    for (Value operand : op->getOperands())
      roots(operand, found);
}

//===----------------------------------------------------------------------===//
// Coordinates
//===----------------------------------------------------------------------===//

/// The digits of `number`, written in the radix of `flat`, that `keep` wants:
/// digit * what keep returns, added up. Empty if there are none.
static std::string
digits(ArrayRef<int64_t> flat, StringRef number,
       function_ref<int64_t(gpu::ThreadLayoutAttr::Mode)> keep) {
  auto modes = gpu::ThreadLayoutAttr::modes(flat);
  std::string sum;
  int64_t below = 1, total = 1;
  for (auto m : modes)
    total *= m.size;
  for (auto m : modes) {
    if (int64_t factor = keep(m)) {
      std::string digit = number.str();
      if (below > 1)
        digit += fmt::format(" / {}", below);
      if (below * m.size < total)
        digit += fmt::format(" % {}", m.size);
      if (factor > 1)
        digit += fmt::format(" * {}", factor);
      sum += (sum.empty() ? "" : " + ") + digit;
    }
    below *= m.size;
  }
  return sum;
}

std::string Printer::top(StringRef base, StringRef type,
                         const std::string &expression) {
  std::string &name = topNames[expression];
  if (name.empty()) {
    name = fresh(base);
    tops += fmt::format("  const {} {} = {};\n", type.str(), name, expression);
  }
  return name;
}

std::string Printer::warpOffset(Layout layout, int64_t dim) {
  return digits(layout.getWarps(), "warp",
                [&](auto m) { return m.dim == dim ? m.stride : 0; });
}

std::string Printer::threadOffset(Layout layout, int64_t dim) {
  std::string lanes = digits(layout.getLanes(), "lane", [&](auto m) {
    return m.dim == dim ? m.stride : 0;
  });
  std::string warps = warpOffset(layout, dim);
  if (lanes.empty() && warps.empty())
    return "0";
  return top(dim ? "col" : "row", "int",
             lanes + (lanes.empty() || warps.empty() ? "" : " + ") + warps);
}

std::string Printer::registerOffset(Layout layout, int64_t dim, R r) {
  return digits(layout.getRegisters(), r,
                [&](auto m) { return m.dim == dim ? m.stride : 0; });
}

std::string Printer::coordinate(Layout layout, int64_t dim, R r) {
  std::string thread = threadOffset(layout, dim),
              more = registerOffset(layout, dim, r);
  if (more.empty())
    return thread;
  return thread == "0" ? more : thread + " + " + more;
}

std::string Printer::slicedNumber(Layout layout, int64_t dim, R r) {
  int64_t below = 1;
  std::string number = digits(layout.getRegisters(), r, [&](auto m) {
    if (m.dim != dim)
      return int64_t(0);
    return std::exchange(below, below * m.size);
  });
  return number.empty() ? "0" : "(" + number + ")";
}

std::string Printer::onlyOnce(Layout layout) {
  auto isRepeat = [](auto m) { return int64_t(m.dim < 0); };
  std::string lanes = digits(layout.getLanes(), "lane", isRepeat),
              warps = digits(layout.getWarps(), "warp", isRepeat);
  if (lanes.empty() && warps.empty())
    return "";
  return top("first", "bool",
             lanes + (lanes.empty() || warps.empty() ? "" : " + ") + warps +
                 " == 0");
}

//===----------------------------------------------------------------------===//
// One op
//===----------------------------------------------------------------------===//

static std::string comparison(arith::CmpIPredicate p, const std::string &type,
                              const std::string &a, const std::string &b) {
  using P = arith::CmpIPredicate;
  static constexpr const char *signs[] = {"==", "!=", "<",  "<=", ">",
                                          ">=", "<",  "<=", ">",  ">="};
  const char *sign = signs[int(p)];
  if (p < P::ult)
    return fmt::format("({} {} {})", a, sign, b);
  return fmt::format(
      "(fa::as_unsigned<{0}>({1}) {2} fa::as_unsigned<{0}>({3}))", type, a,
      sign, b);
}

static std::string comparison(arith::CmpFPredicate p, const std::string &a,
                              const std::string &b) {
  using P = arith::CmpFPredicate;
  auto is = [&](const char *sign) {
    return fmt::format("({} {} {})", a, sign, b);
  };
  switch (p) {
  case P::AlwaysFalse:
    return "false";
  case P::AlwaysTrue:
    return "true";
  case P::OEQ:
    return is("==");
  case P::OGT:
    return is(">");
  case P::OGE:
    return is(">=");
  case P::OLT:
    return is("<");
  case P::OLE:
    return is("<=");
  case P::ONE:
    return "(" + is("<") + " || " + is(">") + ")";
  case P::ORD:
    return fmt::format("({0} == {0} && {1} == {1})", a, b);
  case P::UEQ:
    return "!(" + is("<") + " || " + is(">") + ")";
  case P::UGT:
    return "!" + is("<=");
  case P::UGE:
    return "!" + is("<");
  case P::ULT:
    return "!" + is(">=");
  case P::ULE:
    return "!" + is(">");
  case P::UNE:
    return is("!=");
  case P::UNO:
    return fmt::format("({0} != {0} || {1} != {1})", a, b);
  }
  return "";
}

/// A call of the function of device.h with the op's own name, if there is one.
static std::string functionOf(Operation *op) {
  StringRef name = op->getName().stripDialect();
  // The hardware's function where the op allows an approximation.
  auto fast = dyn_cast<arith::ArithFastMathInterface>(op);
  if (fast && fast.getFastMathFlagsAttr() &&
      getElementTypeOrSelf(op->getResult(0)).isF32() &&
      arith::bitEnumContainsAll(fast.getFastMathFlagsAttr().getValue(),
                                arith::FastMathFlags::afn) &&
      isa<math::Exp2Op, math::TanhOp>(op))
    return name.str() + "_approx";
  if (isa<math::MathDialect>(op->getDialect()))
    return llvm::StringSwitch<std::string>(name)
        .Case("absf", "fabs")
        .Case("powf", "pow")
        .Cases({"ctlz", "cttz", "ctpop", "absi", "ipowi", "fpowi"}, name.str())
        .Cases({"exp", "exp2", "expm1", "log", "log2", "log10", "log1p"},
               name.str())
        .Cases({"sqrt", "rsqrt", "cbrt", "sin", "cos", "tan"}, name.str())
        .Cases({"asin", "acos", "atan", "atan2", "sinh", "cosh"}, name.str())
        .Cases({"tanh", "asinh", "acosh", "atanh", "erf", "erfc"}, name.str())
        .Cases({"floor", "ceil", "round", "roundeven", "trunc"}, name.str())
        .Cases({"copysign", "fma", "isnan", "isinf", "isfinite", "isnormal"},
               name.str())
        .Default("");
  return llvm::StringSwitch<std::string>(name)
      .Case("maxnumf", "fmax")
      .Case("minnumf", "fmin")
      .Case("maximumf", "fmaximum")
      .Case("minimumf", "fminimum")
      .Case("remf", "fmod")
      .Cases({"divsi", "divui", "remsi", "remui", "floordivsi", "ceildivsi"},
             name.str())
      .Cases({"ceildivui", "minsi", "maxsi", "minui", "maxui"}, name.str())
      .Cases({"shli", "shrsi", "shrui", "addi", "subi", "muli"}, name.str())
      .Default("");
}

/// The operator of an op that is one, for this type.
static std::string operatorOf(Operation *op, Type element) {
  if (isa<arith::AddFOp>(op))
    return "+";
  if (isa<arith::SubFOp>(op))
    return "-";
  if (isa<arith::MulFOp>(op))
    return "*";
  if (isa<arith::DivFOp>(op))
    return "/";
  if (element.isInteger(1)) {
    if (isa<arith::AndIOp, arith::MulIOp, arith::MinUIOp, arith::MaxSIOp>(op))
      return "&&";
    if (isa<arith::OrIOp, arith::MaxUIOp, arith::MinSIOp>(op))
      return "||";
    if (isa<arith::XOrIOp, arith::AddIOp, arith::SubIOp>(op))
      return "!=";
    return "";
  }
  if (isa<arith::AndIOp>(op))
    return "&";
  if (isa<arith::OrIOp>(op))
    return "|";
  if (isa<arith::XOrIOp>(op))
    return "^";
  // Indices do not wrap, nor what is known not to.
  auto overflow = dyn_cast<arith::ArithIntegerOverflowFlagsInterface>(op);
  if (element.isIndex() || (overflow && overflow.hasNoSignedWrap())) {
    if (isa<arith::AddIOp>(op))
      return "+";
    if (isa<arith::SubIOp>(op))
      return "-";
    if (isa<arith::MulIOp>(op))
      return "*";
  }
  return "";
}

/// Between number types; `x` is an expression of type `from`.
static std::string conversion(Operation *op, Type from, Type to,
                              const std::string &x) {
  std::string type = expressionType(to), inner = bare(x).str();
  // What a float does not hold is rounded once only.
  auto toHalf = [&](const std::string &y) {
    return isHalf(to) ? "fa::round_to_odd(" + y + ")" : type + "(" + y + ")";
  };
  return llvm::TypeSwitch<Operation *, std::string>(op)
      .Case<arith::ExtFOp>([&](auto) {
        return type == expressionType(from) ? x : type + "(" + inner + ")";
      })
      .Case<arith::TruncFOp>([&](auto) {
        if (from.isF64())
          return toHalf(inner);
        return isHalf(to) ? x : type + "(" + inner + ")";
      })
      .Case<arith::SIToFPOp>([&](auto) {
        return toHalf(from.isInteger(1) ? "-int(" + inner + ")" : inner);
      })
      .Case<arith::UIToFPOp>([&](auto) {
        return toHalf(from.isInteger(1) ? "int(" + inner + ")"
                                        : "fa::as_unsigned<" + cType(from) +
                                              ">(" + inner + ")");
      })
      .Case<arith::FPToSIOp>(
          [&](auto) { return "fa::convert<" + type + ">(" + inner + ")"; })
      .Case<arith::FPToUIOp>([&](auto) {
        return "(" + type + ")fa::convert<fa::Unsigned<" + type + ">>(" +
               inner + ")";
      })
      .Case<arith::ExtSIOp>([&](auto) {
        return from.isInteger(1) ? "(" + type + ")-int(" + inner + ")"
                                 : "(" + type + ")(" + inner + ")";
      })
      .Case<arith::ExtUIOp, arith::IndexCastUIOp>([&](auto) {
        if (from.isInteger(1))
          return "(" + type + ")(" + inner + ")";
        return "(" + type + ")fa::as_unsigned<" + cType(from) + ">(" + inner +
               ")";
      })
      .Case<arith::TruncIOp, arith::IndexCastOp>([&](auto) {
        if (to.isInteger(1))
          return "(((" + inner + ") & 1) != 0)";
        return from.isInteger(1) && !to.isInteger(1)
                   ? "-(" + type + ")(" + inner + ")"
                   : "(" + type + ")(" + inner + ")";
      })
      .Case<arith::BitcastOp>([&](auto) {
        return isHalf(from) || isHalf(to)
                   ? std::string()
                   : "fa::bitcast<" + type + ">(" + cType(from) + "(" + inner +
                         "))";
      })
      .Default([](auto) { return std::string(); });
}

std::string Printer::expression(Operation *op, ArrayRef<std::string> args) {
  Type element = elementOf(op->getResult(0));
  Type from = op->getNumOperands() ? elementOf(op->getOperand(0)) : Type();
  if (auto constant = dyn_cast<arith::ConstantOp>(op))
    return literal(constant.getValue());
  if (isa<arith::SelectOp>(op))
    return fmt::format("({} ? {} : {})", args[0], args[1], args[2]);
  if (auto cmp = dyn_cast<arith::CmpIOp>(op))
    return comparison(cmp.getPredicate(), cType(from), args[0], args[1]);
  if (auto cmp = dyn_cast<arith::CmpFOp>(op))
    return comparison(cmp.getPredicate(), args[0], args[1]);
  if (isa<arith::NegFOp>(op))
    return "(-" + args[0] + ")";
  if (args.size() == 2)
    if (std::string sign = operatorOf(op, element); !sign.empty())
      return fmt::format("({} {} {})", args[0], sign, args[1]);
  if (std::string name = functionOf(op); !name.empty()) {
    // Literals would not tell the type.
    std::string text = "fa::" + name;
    if (isa<IntegerType, IndexType>(element) &&
        isa<IntegerType, IndexType>(from))
      text += name.starts_with("ct") ? "" : "<" + cType(element) + ">";
    SmallVector<StringRef> inner;
    for (StringRef a : args)
      inner.push_back(bare(a));
    return text + "(" + llvm::join(inner, ", ") + ")";
  }
  if (args.size() == 1)
    return conversion(op, from, element, args[0]);
  return "";
}
