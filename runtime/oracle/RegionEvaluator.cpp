//===- RegionEvaluator.cpp - regions of a variant, evaluated ----------------===//
//
// A region is compiled once into a flat list of instructions; running it is a
// loop over a switch. With duals, a float register is followed by one partial
// derivative per direction.
//
//===----------------------------------------------------------------------===//

#include "runtime/oracle/RegionEvaluator.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace fathom;
using namespace fathom::oracle;

enum class Instruction::Code : uint8_t {
  unknown,
  // Float results.
  constf,
  loadf,
  extractf,
  addf,
  subf,
  mulf,
  divf,
  remf,
  negf,
  minimumf,
  maximumf,
  minnumf,
  maxnumf,
  copysign,
  atan2,
  powf,
  fpowi,
  fma,
  selectf,
  castf,
  sitofp,
  uitofp,
  distance,
  exp,
  exp2,
  expm1,
  log,
  log2,
  log10,
  log1p,
  sqrt,
  rsqrt,
  cbrt,
  sin,
  cos,
  tan,
  asin,
  acos,
  atan,
  sinh,
  cosh,
  tanh,
  asinh,
  acosh,
  atanh,
  erf,
  erfc,
  absf,
  floor,
  ceil,
  round,
  roundeven,
  trunc,
  // Integer results.
  consti,
  loadi,
  extracti,
  dim,
  seqlenq,
  seqlenk,
  addi,
  subi,
  muli,
  divsi,
  divui,
  ceildivsi,
  ceildivui,
  floordivsi,
  remsi,
  remui,
  andi,
  ori,
  xori,
  shli,
  shrsi,
  shrui,
  minsi,
  maxsi,
  minui,
  maxui,
  absi,
  selecti,
  cmpi,
  cmpf,
  fptosi,
  fptoui,
  casti,
  castui,
  isnan,
  isinf,
  isfinite,
  // No result.
  contribute
};
using Code = Instruction::Code;

namespace {

Code codeOf(StringRef op) {
  return llvm::StringSwitch<Code>(op)
      .Case("arith.addf", Code::addf)
      .Case("arith.subf", Code::subf)
      .Case("arith.mulf", Code::mulf)
      .Case("arith.divf", Code::divf)
      .Case("arith.remf", Code::remf)
      .Case("arith.negf", Code::negf)
      .Case("arith.minimumf", Code::minimumf)
      .Case("arith.maximumf", Code::maximumf)
      .Case("arith.minnumf", Code::minnumf)
      .Case("arith.maxnumf", Code::maxnumf)
      .Cases({"arith.extf", "arith.truncf"}, Code::castf)
      .Case("arith.sitofp", Code::sitofp)
      .Case("arith.uitofp", Code::uitofp)
      .Case("arith.addi", Code::addi)
      .Case("arith.subi", Code::subi)
      .Case("arith.muli", Code::muli)
      .Case("arith.divsi", Code::divsi)
      .Case("arith.divui", Code::divui)
      .Case("arith.ceildivsi", Code::ceildivsi)
      .Case("arith.ceildivui", Code::ceildivui)
      .Case("arith.floordivsi", Code::floordivsi)
      .Case("arith.remsi", Code::remsi)
      .Case("arith.remui", Code::remui)
      .Case("arith.andi", Code::andi)
      .Case("arith.ori", Code::ori)
      .Case("arith.xori", Code::xori)
      .Case("arith.shli", Code::shli)
      .Case("arith.shrsi", Code::shrsi)
      .Case("arith.shrui", Code::shrui)
      .Case("arith.minsi", Code::minsi)
      .Case("arith.maxsi", Code::maxsi)
      .Case("arith.minui", Code::minui)
      .Case("arith.maxui", Code::maxui)
      .Case("arith.cmpi", Code::cmpi)
      .Case("arith.cmpf", Code::cmpf)
      .Case("arith.fptosi", Code::fptosi)
      .Case("arith.fptoui", Code::fptoui)
      .Cases({"arith.extsi", "arith.trunci", "arith.index_cast"}, Code::casti)
      .Cases({"arith.extui", "arith.index_castui"}, Code::castui)
      .Case("math.absi", Code::absi)
      .Case("math.absf", Code::absf)
      .Case("math.acos", Code::acos)
      .Case("math.acosh", Code::acosh)
      .Case("math.asin", Code::asin)
      .Case("math.asinh", Code::asinh)
      .Case("math.atan", Code::atan)
      .Case("math.atan2", Code::atan2)
      .Case("math.atanh", Code::atanh)
      .Case("math.cbrt", Code::cbrt)
      .Case("math.ceil", Code::ceil)
      .Case("math.copysign", Code::copysign)
      .Case("math.cos", Code::cos)
      .Case("math.cosh", Code::cosh)
      .Case("math.erf", Code::erf)
      .Case("math.erfc", Code::erfc)
      .Case("math.exp", Code::exp)
      .Case("math.exp2", Code::exp2)
      .Case("math.expm1", Code::expm1)
      .Case("math.floor", Code::floor)
      .Case("math.fma", Code::fma)
      .Case("math.fpowi", Code::fpowi)
      .Case("math.isfinite", Code::isfinite)
      .Case("math.isinf", Code::isinf)
      .Case("math.isnan", Code::isnan)
      .Case("math.log", Code::log)
      .Case("math.log10", Code::log10)
      .Case("math.log1p", Code::log1p)
      .Case("math.log2", Code::log2)
      .Case("math.powf", Code::powf)
      .Case("math.round", Code::round)
      .Case("math.roundeven", Code::roundeven)
      .Case("math.rsqrt", Code::rsqrt)
      .Case("math.sin", Code::sin)
      .Case("math.sinh", Code::sinh)
      .Case("math.sqrt", Code::sqrt)
      .Case("math.tan", Code::tan)
      .Case("math.tanh", Code::tanh)
      .Case("math.trunc", Code::trunc)
      .Case("fa.distance", Code::distance)
      .Case("fa.seqlen_q", Code::seqlenq)
      .Case("fa.seqlen_k", Code::seqlenk)
      .Case("fa.contribute", Code::contribute)
      .Default(Code::unknown);
}

/// Integers are kept sign-extended from their own width (a true i1 is -1).
int64_t wrap(int64_t v, unsigned width) {
  return width >= 64 ? v : llvm::SignExtend64(v, width);
}
uint64_t unsignedOf(int64_t v, unsigned width) {
  return width >= 64 ? v : uint64_t(v) & ((uint64_t(1) << width) - 1);
}
int64_t truth(bool b) { return -int64_t(b); }

unsigned widthOf(Type t) {
  return t.isIndex() ? 64 : t.getIntOrFloatBitWidth();
}

template <typename T>
T roundTo(T v, const llvm::fltSemantics &s) {
  bool loses;
  llvm::APFloat f((double)v);
  f.convert(s, llvm::APFloat::rmNearestTiesToEven, &loses);
  f.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven,
            &loses);
  return f.convertToDouble();
}

template <typename T>
int64_t toInt(T v, bool isSigned) {
  if (std::isnan(v))
    return 0;
  if (isSigned)
    return v >= T(9223372036854775807.0) ? std::numeric_limits<int64_t>::max()
           : v <= -T(9223372036854775808.0)
               ? std::numeric_limits<int64_t>::min()
               : (int64_t)v;
  return v <= 0                           ? 0
         : v >= T(18446744073709551615.0) ? -1
                                          : (int64_t)(uint64_t)v;
}

bool compareInts(arith::CmpIPredicate p, int64_t a, int64_t b, unsigned width) {
  uint64_t ua = unsignedOf(a, width), ub = unsignedOf(b, width);
  switch (p) {
  case arith::CmpIPredicate::eq:
    return a == b;
  case arith::CmpIPredicate::ne:
    return a != b;
  case arith::CmpIPredicate::slt:
    return a < b;
  case arith::CmpIPredicate::sle:
    return a <= b;
  case arith::CmpIPredicate::sgt:
    return a > b;
  case arith::CmpIPredicate::sge:
    return a >= b;
  case arith::CmpIPredicate::ult:
    return ua < ub;
  case arith::CmpIPredicate::ule:
    return ua <= ub;
  case arith::CmpIPredicate::ugt:
    return ua > ub;
  case arith::CmpIPredicate::uge:
    return ua >= ub;
  }
  return false;
}

template <typename T>
bool compareFloats(arith::CmpFPredicate p, T a, T b) {
  bool un = std::isnan(a) || std::isnan(b);
  switch (p) {
  case arith::CmpFPredicate::AlwaysFalse:
    return false;
  case arith::CmpFPredicate::OEQ:
    return a == b;
  case arith::CmpFPredicate::OGT:
    return a > b;
  case arith::CmpFPredicate::OGE:
    return a >= b;
  case arith::CmpFPredicate::OLT:
    return a < b;
  case arith::CmpFPredicate::OLE:
    return a <= b;
  case arith::CmpFPredicate::ONE:
    return !un && a != b;
  case arith::CmpFPredicate::ORD:
    return !un;
  case arith::CmpFPredicate::UEQ:
    return un || a == b;
  case arith::CmpFPredicate::UGT:
    return un || a > b;
  case arith::CmpFPredicate::UGE:
    return un || a >= b;
  case arith::CmpFPredicate::ULT:
    return un || a < b;
  case arith::CmpFPredicate::ULE:
    return un || a <= b;
  case arith::CmpFPredicate::UNE:
    return un || a != b;
  case arith::CmpFPredicate::UNO:
    return un;
  case arith::CmpFPredicate::AlwaysTrue:
    return true;
  }
  return false;
}

/// Integer division rounded down or up; 0 for what has no answer.
int64_t divide(int64_t a, int64_t b, int rounding) {
  if (b == 0 || (b == -1 && a == std::numeric_limits<int64_t>::min()))
    return 0;
  int64_t q = a / b, r = a % b;
  if (r && rounding < 0 && (r < 0) != (b < 0))
    --q;
  if (r && rounding > 0 && (r < 0) == (b < 0))
    ++q;
  return q;
}

/// Where an entry is in memory and its row-major number; indexes are clamped.
std::pair<int64_t, int64_t> locate(const CapturedArray &c,
                                   ArrayRef<int32_t> indices,
                                   ArrayRef<int64_t> ints) {
  int64_t at = 0, flat = 0;
  for (size_t d = 0; d < c.sizes.size(); ++d) {
    int64_t i = std::clamp<int64_t>(ints[indices[d]], 0,
                                    std::max<int64_t>(c.sizes[d] - 1, 0));
    at += i * c.strides[d];
    flat = flat * c.sizes[d] + i;
  }
  return {at, flat};
}

bool isEmpty(const CapturedArray &c) { return llvm::is_contained(c.sizes, 0); }

} // namespace

//===----------------------------------------------------------------------===//
// Compiling a region
//===----------------------------------------------------------------------===//

template <typename T>
struct RegionProgram<T>::Compiler {
  RegionProgram &program;
  VariantInterface variant;
  llvm::DenseMap<Value, int32_t> registers;

  Compiler(RegionProgram &p, VariantInterface v) : program(p), variant(v) {}

  int32_t define(Value v) {
    int32_t r =
        isa<FloatType>(v.getType()) ? program.numFloats++ : program.numInts++;
    registers[v] = r;
    return r;
  }

  /// Captured scalars are read once, where the region begins; tensors are
  /// known by their argument number.
  void arguments(Block &block) {
    size_t captures = variant.getCaptureNames().size();
    // The float and index arguments take the first registers, in order.
    for (BlockArgument a : block.getArguments().drop_front(captures))
      define(a);
    for (BlockArgument a : block.getArguments().take_front(captures)) {
      if (isa<ShapedType>(a.getType()) || a.use_empty())
        continue;
      bool isFloat = isa<FloatType>(a.getType());
      Instruction in;
      in.code = isFloat ? Code::loadf : Code::loadi;
      in.width = isFloat ? 64 : widthOf(a.getType());
      in.a = a.getArgNumber();
      in.b = isFloat ? program.numDirections++ : 0;
      in.dst = define(a);
      program.code.push_back(in);
    }
  }

  LogicalResult operation(Operation &op) {
    auto unsupported = [&] {
      return op.emitError(
                 "expected an op that the reference can evaluate, got '")
             << op.getName() << "'";
    };
    for (Type t : op.getOperandTypes())
      if (isa<IntegerType>(t) && widthOf(t) > 64)
        return unsupported();
    Instruction in;
    in.code = codeOf(op.getName().getStringRef());
    SmallVector<int32_t> operands;
    for (Value v : op.getOperands())
      operands.push_back(isa<ShapedType>(v.getType())
                             ? cast<BlockArgument>(v).getArgNumber()
                             : registers.at(v));
    bool isFloat =
        op.getNumResults() == 1 && isa<FloatType>(op.getResult(0).getType());
    if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
      if (auto f = dyn_cast<FloatAttr>(constant.getValue())) {
        in.code = Code::constf;
        in.value = f.getValueAsDouble();
      } else {
        in.code = Code::consti;
        in.imm = cast<IntegerAttr>(constant.getValue())
                     .getValue()
                     .sextOrTrunc(64)
                     .getSExtValue();
      }
    } else if (auto cmp = dyn_cast<arith::CmpIOp>(op)) {
      in.imm = (int64_t)cmp.getPredicate();
      in.width = widthOf(cmp.getLhs().getType());
    } else if (auto cmp = dyn_cast<arith::CmpFOp>(op)) {
      in.imm = (int64_t)cmp.getPredicate();
    } else if (isa<arith::SelectOp>(op)) {
      in.code = isFloat ? Code::selectf : Code::selecti;
    } else if (op.getName().getStringRef() == "tensor.extract") {
      in.code = isFloat ? Code::extractf : Code::extracti;
      in.indices.assign(operands.begin() + 1, operands.end());
      operands.truncate(1);
      operands.push_back(isFloat ? program.numDirections++ : 0);
    } else if (op.getName().getStringRef() == "tensor.dim") {
      in.code = Code::dim;
    } else if (in.code == Code::distance) {
      in.imm = variant.getAlignment() == Alignment::top_left;
    } else if (in.code == Code::contribute) {
      in.indices.assign(operands.begin() + 2, operands.end());
      auto target = dyn_cast<BlockArgument>(op.getOperand(1));
      if (!target)
        return unsupported();
      operands[1] = target.getArgNumber();
    } else if (in.code == Code::uitofp || in.code == Code::castui) {
      in.width = widthOf(op.getOperand(0).getType());
    } else if (in.code == Code::unknown) {
      return unsupported();
    }
    if (operands.size() > 0)
      in.a = operands[0];
    if (operands.size() > 1)
      in.b = operands[1];
    if (operands.size() > 2)
      in.c = operands[2];
    if (op.getNumResults() == 1) {
      Type t = op.getResult(0).getType();
      if (auto f = dyn_cast<FloatType>(t)) {
        if (f.getWidth() < 32)
          in.narrow = &f.getFloatSemantics();
      } else if (widthOf(t) > 64) {
        return unsupported();
      } else if (in.code != Code::cmpi && in.code != Code::castui) {
        in.width = widthOf(t);
      }
      in.dst = define(op.getResult(0));
    }
    program.code.push_back(in);
    return success();
  }
};

template <typename T>
FailureOr<RegionProgram<T>> RegionProgram<T>::compile(VariantInterface variant,
                                                      Region &region) {
  RegionProgram program;
  Compiler c(program, variant);
  Block &block = region.front();
  c.arguments(block);
  for (Operation &op : block.without_terminator())
    if (failed(c.operation(op)))
      return failure();
  program.result = c.registers.at(block.back().getOperand(0));
  return program;
}

//===----------------------------------------------------------------------===//
// Running it
//===----------------------------------------------------------------------===//

template <typename T>
struct RegionProgram<T>::Frame {
  SmallVector<T, 64>
      floats; // with duals: value, partials, value, partials, ...
  SmallVector<int64_t, 32> ints;
  Point at;
  SmallVector<std::pair<unsigned, int64_t>, 4> sources; // of the directions
};

template <typename T>
template <bool Duals>
void RegionProgram<T>::run(Frame &frame, ArrayRef<CapturedArray> captures,
                           Contributions<T> *contributed) const {
  const int32_t stride = Duals ? 1 + numDirections : 1;
  T *f = frame.floats.data();
  int64_t *n = frame.ints.data();

  for (const Instruction &in : code) {
    T *dst = f + in.dst * stride;
    const T *pa = f + in.a * stride, *pb = f + in.b * stride,
            *pc = f + in.c * stride;

    // Sets dst and, with duals, sums derivative * partial over the operands. A
    // partial that is 0 stays 0 whatever it is multiplied with.
    auto product = [](T derivative, T partial) {
      return partial == 0 ? T(0) : derivative * partial;
    };
    auto unary = [&](T value, auto derivative) {
      if constexpr (Duals) {
        T d = derivative();
        for (int32_t k = 1; k < stride; ++k)
          dst[k] = product(d, pa[k]);
      }
      *dst = value;
    };
    auto binary = [&](T value, auto byA, auto byB) {
      if constexpr (Duals) {
        T da = byA(), db = byB();
        for (int32_t k = 1; k < stride; ++k)
          dst[k] = product(da, pa[k]) + product(db, pb[k]);
      }
      *dst = value;
    };
    auto copy = [&](const T *from) { std::copy_n(from, stride, dst); };
    auto flat = [&](T value) { // does not depend on s or a capture
      std::fill_n(dst, stride, T(0));
      *dst = value;
    };
    auto source = [&](T value, int64_t entry) {
      flat(value);
      if constexpr (Duals) {
        dst[1 + in.b] = 1;
        frame.sources[in.b] = {(unsigned)in.a, entry};
      }
    };
    // The first of two operands or the second; between equal ones, the mean.
    auto choose = [&](bool first) {
      copy(first ? pa : pb);
      if (*pa == *pb)
        for (int32_t k = 1; k < stride; ++k)
          dst[k] = (pa[k] + pb[k]) / 2;
    };
    auto setInt = [&](int64_t v) { n[in.dst] = wrap(v, in.width); };
    const T two = 2, ln2 = std::log(two), one = 1;
    // References, so that an operand of the other kind is never read.
    auto x = [&] { return *pa; };
    auto y = [&] { return *pb; };
    auto ia = [&] { return n[in.a]; };
    auto ib = [&] { return n[in.b]; };
    auto ua = [&] { return unsignedOf(n[in.a], in.width); };
    auto ub = [&] { return unsignedOf(n[in.b], in.width); };

    switch (in.code) {
    case Code::constf:
      flat(in.value);
      break;
    case Code::loadf:
      source(*captures[in.a].data, 0);
      break;
    case Code::extractf: {
      auto [where, entry] =
          locate(captures[in.a], in.indices, {n, frame.ints.size()});
      source(isEmpty(captures[in.a]) ? 0 : captures[in.a].data[where], entry);
      break;
    }
    case Code::addf:
      binary(x() + y(), [&] { return one; }, [&] { return one; });
      break;
    case Code::subf:
      binary(x() - y(), [&] { return one; }, [&] { return -one; });
      break;
    case Code::mulf:
      binary(x() * y(), y, x);
      break;
    case Code::divf:
      binary(
          x() / y(), [&] { return 1 / y(); },
          [&] { return -x() / (y() * y()); });
      break;
    case Code::remf:
      binary(
          std::fmod(x(), y()), [&] { return one; },
          [&] { return -std::trunc(x() / y()); });
      break;
    case Code::negf:
      unary(-x(), [&] { return -one; });
      break;
    case Code::minimumf:
      choose(std::isnan(x()) || x() < y());
      break;
    case Code::maximumf:
      choose(std::isnan(x()) || x() > y());
      break;
    case Code::minnumf:
      choose(std::isnan(y()) || x() < y());
      break;
    case Code::maxnumf:
      choose(std::isnan(y()) || x() > y());
      break;
    case Code::copysign:
      x() == 0 ? flat(std::copysign(x(), y()))
               : unary(std::copysign(x(), y()), [&] {
                   return std::signbit(x()) == std::signbit(y()) ? one : -one;
                 });
      break;
    case Code::atan2:
      binary(
          std::atan2(x(), y()), [&] { return y() / (x() * x() + y() * y()); },
          [&] { return -x() / (x() * x() + y() * y()); });
      break;
    case Code::powf:
      binary(
          std::pow(x(), y()),
          [&] { return y() == 0 ? T(0) : y() * std::pow(x(), y() - 1); },
          [&] { return x() > 0 ? std::pow(x(), y()) * std::log(x()) : T(0); });
      break;
    case Code::fpowi: {
      T e = ib();
      unary(std::pow(x(), e),
            [&] { return e == 0 ? T(0) : e * std::pow(x(), e - 1); });
      break;
    }
    case Code::fma: {
      T z = *pc;
      binary(std::fma(x(), y(), z), y, x);
      for (int32_t k = 1; k < stride; ++k)
        dst[k] += pc[k];
      break;
    }
    case Code::selectf:
      copy(ia() ? pb : pc);
      break;
    case Code::castf:
      copy(pa);
      break;
    case Code::sitofp:
      flat(ia());
      break;
    case Code::uitofp:
      flat((T)ua());
      break;
    case Code::distance: {
      int64_t off = in.imm ? 0 : frame.at.seqlenK - frame.at.seqlenQ;
      flat(std::abs(ia() + off - ib()));
      break;
    }
    case Code::exp: {
      T v = std::exp(x());
      unary(v, [&] { return v; });
      break;
    }
    case Code::exp2: {
      T v = std::exp2(x());
      unary(v, [&] { return v * ln2; });
      break;
    }
    case Code::expm1:
      unary(std::expm1(x()), [&] { return std::exp(x()); });
      break;
    case Code::log:
      unary(std::log(x()), [&] { return 1 / x(); });
      break;
    case Code::log2:
      unary(std::log2(x()), [&] { return 1 / (x() * ln2); });
      break;
    case Code::log10:
      unary(std::log10(x()), [&] { return 1 / (x() * std::log(T(10))); });
      break;
    case Code::log1p:
      unary(std::log1p(x()), [&] { return 1 / (1 + x()); });
      break;
    case Code::sqrt: {
      T v = std::sqrt(x());
      unary(v, [&] { return 1 / (2 * v); });
      break;
    }
    case Code::rsqrt: {
      T v = 1 / std::sqrt(x());
      unary(v, [&] { return -v / (2 * x()); });
      break;
    }
    case Code::cbrt: {
      T v = std::cbrt(x());
      unary(v, [&] { return 1 / (3 * v * v); });
      break;
    }
    case Code::sin:
      unary(std::sin(x()), [&] { return std::cos(x()); });
      break;
    case Code::cos:
      unary(std::cos(x()), [&] { return -std::sin(x()); });
      break;
    case Code::tan: {
      T v = std::tan(x());
      unary(v, [&] { return 1 + v * v; });
      break;
    }
    case Code::asin:
      unary(std::asin(x()), [&] { return 1 / std::sqrt(1 - x() * x()); });
      break;
    case Code::acos:
      unary(std::acos(x()), [&] { return -1 / std::sqrt(1 - x() * x()); });
      break;
    case Code::atan:
      unary(std::atan(x()), [&] { return 1 / (1 + x() * x()); });
      break;
    case Code::sinh:
      unary(std::sinh(x()), [&] { return std::cosh(x()); });
      break;
    case Code::cosh:
      unary(std::cosh(x()), [&] { return std::sinh(x()); });
      break;
    case Code::tanh: {
      T c = std::cosh(x());
      unary(std::tanh(x()), [&] { return 1 / (c * c); });
      break;
    }
    case Code::asinh:
      unary(std::asinh(x()), [&] { return 1 / std::sqrt(x() * x() + 1); });
      break;
    case Code::acosh:
      unary(std::acosh(x()), [&] { return 1 / std::sqrt(x() * x() - 1); });
      break;
    case Code::atanh:
      unary(std::atanh(x()), [&] { return 1 / (1 - x() * x()); });
      break;
    case Code::erf:
    case Code::erfc: {
      T sign = in.code == Code::erf ? 1 : -1;
      unary(in.code == Code::erf ? std::erf(x()) : std::erfc(x()), [&] {
        return sign * 2 / std::sqrt(std::acos(-one)) * std::exp(-x() * x());
      });
      break;
    }
    case Code::absf:
      x() == 0 ? flat(0)
               : unary(std::abs(x()), [&] { return x() > 0 ? one : -one; });
      break;
    case Code::floor:
      flat(std::floor(x()));
      break;
    case Code::ceil:
      flat(std::ceil(x()));
      break;
    case Code::round:
      flat(std::round(x()));
      break;
    case Code::roundeven:
      flat(std::nearbyint(x()));
      break;
    case Code::trunc:
      flat(std::trunc(x()));
      break;

    case Code::consti:
      setInt(in.imm);
      break;
    case Code::loadi:
      setInt((int64_t)*captures[in.a].data);
      break;
    case Code::extracti: {
      auto [where, entry] =
          locate(captures[in.a], in.indices, {n, frame.ints.size()});
      setInt(isEmpty(captures[in.a]) ? 0 : (int64_t)captures[in.a].data[where]);
      break;
    }
    case Code::dim: {
      ArrayRef<int64_t> sizes = captures[in.a].sizes;
      setInt(ib() >= 0 && ib() < (int64_t)sizes.size() ? sizes[ib()] : 0);
      break;
    }
    case Code::seqlenq:
      setInt(frame.at.seqlenQ);
      break;
    case Code::seqlenk:
      setInt(frame.at.seqlenK);
      break;
    case Code::addi:
      setInt((uint64_t)ia() + (uint64_t)ib());
      break;
    case Code::subi:
      setInt((uint64_t)ia() - (uint64_t)ib());
      break;
    case Code::muli:
      setInt((uint64_t)ia() * (uint64_t)ib());
      break;
    case Code::divsi:
      setInt(divide(ia(), ib(), 0));
      break;
    case Code::divui:
      setInt(ub() ? ua() / ub() : 0);
      break;
    case Code::ceildivsi:
      setInt(divide(ia(), ib(), 1));
      break;
    case Code::ceildivui:
      setInt(ub() ? ua() / ub() + (ua() % ub() != 0) : 0);
      break;
    case Code::floordivsi:
      setInt(divide(ia(), ib(), -1));
      break;
    case Code::remsi:
      setInt(ib() == 0 || ib() == -1 ? 0 : ia() % ib());
      break;
    case Code::remui:
      setInt(ub() ? ua() % ub() : 0);
      break;
    case Code::andi:
      setInt(ia() & ib());
      break;
    case Code::ori:
      setInt(ia() | ib());
      break;
    case Code::xori:
      setInt(ia() ^ ib());
      break;
    case Code::shli:
      setInt(ub() < in.width ? (uint64_t)ia() << ub() : 0);
      break;
    case Code::shrsi:
      setInt(ub() < in.width ? ia() >> ub() : 0);
      break;
    case Code::shrui:
      setInt(ub() < in.width ? ua() >> ub() : 0);
      break;
    case Code::minsi:
      setInt(std::min(ia(), ib()));
      break;
    case Code::maxsi:
      setInt(std::max(ia(), ib()));
      break;
    case Code::minui:
      setInt(std::min(ua(), ub()));
      break;
    case Code::maxui:
      setInt(std::max(ua(), ub()));
      break;
    case Code::absi:
      setInt(ia() < 0 ? -(uint64_t)ia() : ia());
      break;
    case Code::selecti:
      setInt(ia() ? ib() : n[in.c]);
      break;
    case Code::cmpi:
      n[in.dst] = truth(
          compareInts((arith::CmpIPredicate)in.imm, ia(), ib(), in.width));
      break;
    case Code::cmpf:
      n[in.dst] = truth(compareFloats((arith::CmpFPredicate)in.imm, x(), y()));
      break;
    case Code::fptosi:
      setInt(toInt(x(), true));
      break;
    case Code::fptoui:
      setInt(toInt(x(), false));
      break;
    case Code::casti:
      setInt(ia());
      break;
    case Code::castui:
      n[in.dst] = ua();
      break;
    case Code::isnan:
      setInt(truth(std::isnan(x())));
      break;
    case Code::isinf:
      setInt(truth(std::isinf(x())));
      break;
    case Code::isfinite:
      setInt(truth(std::isfinite(x())));
      break;
    case Code::contribute:
      if (contributed)
        contributed->push_back(
            {(unsigned)in.b,
             locate(captures[in.b], in.indices, {n, frame.ints.size()}).second,
             x()});
      break;
    case Code::unknown:
      break;
    }
    if (in.narrow)
      *dst = roundTo(*dst, *in.narrow);
  }
}

template <typename T>
typename RegionProgram<T>::Frame
RegionProgram<T>::enter(ArrayRef<T> floats, const Point &at, bool duals) const {
  Frame frame;
  int32_t stride = duals ? 1 + numDirections : 1;
  frame.floats.resize(numFloats * stride);
  frame.ints.resize(numInts);
  frame.at = at;
  if (duals)
    frame.sources.resize(numDirections);
  for (size_t k = 0; k < floats.size(); ++k)
    frame.floats[k * stride] = floats[k];
  int64_t indexes[] = {at.b, at.h, at.i, at.j};
  llvm::copy(indexes, frame.ints.begin());
  return frame;
}

template <typename T>
T RegionProgram<T>::evaluate(ArrayRef<T> floats, const Point &at,
                             ArrayRef<CapturedArray> captures,
                             Contributions<T> *contributed) const {
  Frame frame = enter(floats, at, /*duals=*/false);
  run<false>(frame, captures, contributed);
  return frame.floats[result];
}

template <typename T>
bool RegionProgram<T>::test(const Point &at,
                            ArrayRef<CapturedArray> captures) const {
  Frame frame = enter({}, at, /*duals=*/false);
  run<false>(frame, captures, nullptr);
  return frame.ints[result] != 0;
}

template <typename T>
T RegionProgram<T>::differentiate(T s, const Point &at,
                                  ArrayRef<CapturedArray> captures, T &ds,
                                  Contributions<T> &byCapture) const {
  Frame frame = enter({s}, at, /*duals=*/true);
  frame.floats[1] = 1;
  run<true>(frame, captures, nullptr);
  const T *r = frame.floats.data() + result * (1 + numDirections);
  ds = r[1];
  for (int32_t k = 1; k < numDirections; ++k)
    if (r[1 + k] != 0)
      byCapture.push_back(
          {frame.sources[k].first, frame.sources[k].second, r[1 + k]});
  return r[0];
}

//===----------------------------------------------------------------------===//
// Variants
//===----------------------------------------------------------------------===//

template <typename T>
FailureOr<VariantEvaluator<T>>
VariantEvaluator<T>::create(VariantInterface variant,
                            ArrayRef<CapturedArray> captures) {
  VariantEvaluator e;
  SmallVector<Type> types = variant.getCaptureTypes();
  if (captures.size() != types.size())
    return variant->emitError("expected ")
           << types.size() << " captured operands, got " << captures.size();
  for (size_t i = 0; i < types.size(); ++i) {
    auto t = dyn_cast<RankedTensorType>(types[i]);
    size_t rank = t ? t.getRank() : 0;
    if (captures[i].sizes.size() != rank || captures[i].strides.size() != rank)
      return variant->emitError("expected capture ")
             << variant.getCaptureNames()[i] << " of rank " << rank << ", got "
             << captures[i].sizes.size();
  }
  e.captures.assign(captures.begin(), captures.end());
  if (!variant.getScore().empty()) {
    auto p = RegionProgram<T>::compile(variant, variant.getScore());
    if (failed(p))
      return failure();
    e.scoreProgram = std::move(*p);
  }
  if (!variant.getMask().empty()) {
    auto p = RegionProgram<T>::compile(variant, variant.getMask());
    if (failed(p))
      return failure();
    e.maskProgram = std::move(*p);
  }
  e.topLeft = variant.getAlignment() == Alignment::top_left;
  if (auto l = variant.getWindowLeft())
    e.left = (int64_t)*l;
  if (auto r = variant.getWindowRight())
    e.right = (int64_t)*r;
  if (variant.getCausal())
    e.right = 0;
  if (auto cap = variant.getSoftcap()) {
    if (auto f = dyn_cast<FloatAttr>(*cap))
      e.softcap = f.getValueAsDouble();
    else
      e.softcapCapture = cast<IntegerAttr>(*cap).getInt();
  }
  if (auto a = variant.getAlibi())
    e.alibiCapture = *a;
  return e;
}

template <typename T>
bool VariantEvaluator<T>::visible(const Point &at) const {
  int64_t distance = at.j - at.i - offset(at);
  if ((right && distance > *right) || (left && distance < -*left))
    return false;
  return !maskProgram || maskProgram->test(at, captures);
}

template <typename T>
T VariantEvaluator<T>::score(T s, const Point &at) const {
  if (softcap || softcapCapture) {
    T c = softcap ? *softcap : *captures[*softcapCapture].data;
    s = c * std::tanh(s / c);
  }
  if (alibiCapture) {
    const CapturedArray &slopes = captures[*alibiCapture];
    T slope =
        slopes.data[slopes.sizes.size() == 1
                        ? at.h * slopes.strides[0]
                        : at.b * slopes.strides[0] + at.h * slopes.strides[1]];
    s -= slope * std::abs(at.i + offset(at) - at.j);
  }
  return scoreProgram ? scoreProgram->evaluate({s}, at, captures) : s;
}

template <typename T>
T VariantEvaluator<T>::score(T s, const Point &at, T &ds,
                             Contributions<T> &byCapture) const {
  byCapture.clear();
  ds = 1;
  if (softcap || softcapCapture) {
    // c tanh(s/c): by s 1 - tanh^2, by c tanh - (s/c)(1 - tanh^2).
    T c = softcap ? *softcap : *captures[*softcapCapture].data;
    T x = s / c, t = std::tanh(x), cosh = std::cosh(x),
      slope = 1 / (cosh * cosh);
    ds = slope;
    if (softcapCapture)
      byCapture.push_back({*softcapCapture, 0, t - x * slope});
    s = c * t;
  }
  if (alibiCapture) {
    const CapturedArray &slopes = captures[*alibiCapture];
    bool perBatch = slopes.sizes.size() == 2;
    T distance = std::abs(at.i + offset(at) - at.j);
    T slope =
        slopes
            .data[perBatch ? at.b * slopes.strides[0] + at.h * slopes.strides[1]
                           : at.h * slopes.strides[0]];
    byCapture.push_back({*alibiCapture,
                         perBatch ? at.b * slopes.sizes[1] + at.h : at.h,
                         -distance});
    s -= slope * distance;
  }
  if (!scoreProgram)
    return s;
  T outer;
  size_t sugar = byCapture.size();
  T value = scoreProgram->differentiate(s, at, captures, outer, byCapture);
  // The region's derivative by its own s carries to what made that s.
  for (size_t k = 0; k < sugar; ++k)
    byCapture[k].value = outer == 0 ? T(0) : outer * byCapture[k].value;
  ds = outer == 0 ? T(0) : outer * ds;
  return value;
}

namespace fathom::oracle {
template class RegionProgram<float>;
template class RegionProgram<double>;
template class RegionProgram<long double>;
template class VariantEvaluator<float>;
template class VariantEvaluator<double>;
template class VariantEvaluator<long double>;
} // namespace fathom::oracle
