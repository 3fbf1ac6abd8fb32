//===- MapToCpuMath.cpp - vector math of the CPU target ---------------------===//
//
// Elementary functions on f32 vectors, and the conversions of 16-bit floats in
// integer arithmetic, which works on every CPU and needs no runtime library.
//
//===----------------------------------------------------------------------===//

#include "passes/map/MapToCpu.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace fathom;
using namespace fathom::cpu;

namespace {
using B = ImplicitLocOpBuilder;

Value constant(B &b, Type type, double value) {
  Type element = getElementTypeOrSelf(type);
  TypedAttr attr = isa<FloatType>(element)
                       ? TypedAttr(b.getFloatAttr(element, value))
                       : TypedAttr(b.getIntegerAttr(element, (int64_t)value));
  if (auto vector = dyn_cast<VectorType>(type))
    attr = DenseElementsAttr::get(vector, attr);
  return arith::ConstantOp::create(b, attr);
}
Value fma(B &b, Value x, Value y, Value z) {
  return LLVM::FMulAddOp::create(b, x.getType(), x, y, z);
}
/// c[0] + x (c[1] + x (...)).
Value horner(B &b, Value x, ArrayRef<double> c) {
  Value r = constant(b, x.getType(), c.back());
  for (double k : llvm::reverse(c.drop_back()))
    r = fma(b, r, x, constant(b, x.getType(), k));
  return r;
}
/// x within [lo, hi]; a NaN stays one.
Value clamp(B &b, Value x, double lo, double hi) {
  Value l = constant(b, x.getType(), lo), h = constant(b, x.getType(), hi);
  x = arith::SelectOp::create(
      b, arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, l, x), l, x);
  return arith::SelectOp::create(
      b, arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, h, x), h, x);
}
/// x 2^n for an integral n within [-252, 254].
Value scale(B &b, Value x, Value n, const Machine &machine) {
  auto type = dyn_cast<VectorType>(x.getType());
  if (type && machine.hasScale() && type.getNumElements() == 16) {
    Value mask = arith::ConstantOp::create(b, b.getI16IntegerAttr(-1));
    Value mode = arith::ConstantOp::create(b, b.getI32IntegerAttr(4));
    return LLVM::CallIntrinsicOp::create(
               b, type, b.getStringAttr("llvm.x86.avx512.mask.scalef.ps.512"),
               ValueRange{x, n, x, mask, mode})
        .getResult(0);
  }
  // In two steps, each of which is a normal number.
  Type ints = withElement(x.getType(), b.getI32Type());
  // A NaN may give any n.
  Value i = arith::FPToSIOp::create(
      b, ints, arith::MaxNumFOp::create(b, n, constant(b, n.getType(), -252)));
  Value half = arith::ShRSIOp::create(b, i, constant(b, ints, 1));
  for (Value part : {half, Value(arith::SubIOp::create(b, i, half))}) {
    Value bits = arith::ShLIOp::create(
        b, arith::AddIOp::create(b, part, constant(b, ints, 127)),
        constant(b, ints, 23));
    x = arith::MulFOp::create(b, x,
                              arith::BitcastOp::create(b, x.getType(), bits));
  }
  return x;
}

Value exp2F32(B &b, Value x, const Machine &m) {
  x = clamp(b, x, -151, 129);
  Value n = math::RoundEvenOp::create(b, x);
  Value f = arith::SubFOp::create(b, x, n);
  Value p = horner(b, f,
                   {1.0, 0.6931471824645996, 0.24022647738456726,
                    0.055503323674201965, 0.00961843691766262,
                    0.0013398875016719103, 0.00015353361959569156});
  return scale(b, p, n, m);
}

Value expF32(B &b, Value x, const Machine &m) {
  x = clamp(b, x, -104.5, 89.5);
  Value n = math::RoundEvenOp::create(
      b,
      arith::MulFOp::create(b, x, constant(b, x.getType(), 1.44269504088896)));
  // ln 2 in two parts, the first with few enough bits that n times it is exact.
  Value r = fma(b, n, constant(b, x.getType(), -0.693359375), x);
  r = fma(b, n, constant(b, x.getType(), 2.12194440e-4), r);
  Value q = horner(b, r,
                   {0.4999999403953552, 0.1666652113199234, 0.04166838899254799,
                    0.008368715643882751, 0.0013814602280035615});
  Value one = constant(b, x.getType(), 1.0);
  q = fma(b, arith::MulFOp::create(b, q, r), r, r);
  return scale(b, arith::AddFOp::create(b, q, one), n, m);
}

Value tanhF32(B &b, Value x, const Machine &m) {
  // Near zero an odd polynomial, elsewhere 1 - 2 / (exp(2|x|) + 1).
  Value one = constant(b, x.getType(), 1.0),
        two = constant(b, x.getType(), 2.0);
  Value a = math::AbsFOp::create(b, x);
  Value e = expF32(b, arith::MulFOp::create(b, a, two), m);
  Value big = arith::SubFOp::create(
      b, one, arith::DivFOp::create(b, two, arith::AddFOp::create(b, e, one)));
  big = math::CopySignOp::create(b, big, x);
  Value z = arith::MulFOp::create(b, x, x);
  Value p = horner(b, z,
                   {-3.33332819422e-1, 1.33314422036e-1, -5.37397155531e-2,
                    2.06390887954e-2, -5.70498872745e-3});
  Value small = fma(b, arith::MulFOp::create(b, p, z), x, x);
  Value near = arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, a,
                                     constant(b, x.getType(), 0.625));
  return arith::SelectOp::create(b, near, small, big);
}
/// The natural logarithm, or that of base 2.
Value logF32(B &b, Value x, bool base2) {
  Type type = x.getType(), ints = withElement(type, b.getI32Type());
  auto compare = [&](arith::CmpFPredicate p, Value v, double c) {
    return arith::CmpFOp::create(b, p, v, constant(b, type, c));
  };
  auto select = [&](Value c, Value t, Value f) -> Value {
    return arith::SelectOp::create(b, c, t, f);
  };
  // x = m 2^e with m within [sqrt(1/2), sqrt(2)); f = m - 1.
  Value tiny = compare(arith::CmpFPredicate::OLT, x, 1.17549435e-38);
  Value scaled =
      select(tiny, arith::MulFOp::create(b, x, constant(b, type, 8388608)), x);
  Value bits = arith::BitcastOp::create(b, ints, scaled);
  Value e = arith::SubIOp::create(
      b, arith::ShRUIOp::create(b, bits, constant(b, ints, 23)),
      select(tiny, constant(b, ints, 126 + 23), constant(b, ints, 126)));
  Value m = arith::BitcastOp::create(
      b, type,
      arith::OrIOp::create(
          b, arith::AndIOp::create(b, bits, constant(b, ints, 0x7fffff)),
          constant(b, ints, 0x3f000000)));
  Value low = compare(arith::CmpFPredicate::OLT, m, 0.707106781186547524);
  Value n = arith::SIToFPOp::create(b, type, e), one = constant(b, type, 1.0);
  n = select(low, arith::SubFOp::create(b, n, one), n);
  m = select(low, arith::AddFOp::create(b, m, m), m);
  Value f = arith::SubFOp::create(b, m, one),
        z = arith::MulFOp::create(b, f, f);
  Value y = horner(b, f,
                   {3.3333331174e-1, -2.4999993993e-1, 2.0000714765e-1,
                    -1.6668057665e-1, 1.4249322787e-1, -1.2420140846e-1,
                    1.1676998740e-1, -1.1514610310e-1, 7.0376836292e-2});
  y = arith::MulFOp::create(b, y, arith::MulFOp::create(b, f, z));
  Value r;
  if (base2) {
    // log2(e) less 1 apart, so that f and y enter exactly.
    Value rest = constant(b, type, 0.44269504088896340735992);
    y = fma(b, z, constant(b, type, -0.5), y);
    r = arith::MulFOp::create(b, y, rest);
    r = fma(b, f, rest, r);
    r = arith::AddFOp::create(b, r, y);
    r = arith::AddFOp::create(b, r, f);
    r = arith::AddFOp::create(b, r, n);
  } else {
    y = fma(b, n, constant(b, type, -2.12194440e-4), y);
    y = fma(b, z, constant(b, type, -0.5), y);
    r = arith::AddFOp::create(b, f, y);
    r = fma(b, n, constant(b, type, 0.693359375), r);
  }
  double inf = std::numeric_limits<double>::infinity();
  r = select(compare(arith::CmpFPredicate::OEQ, x, inf), x, r);
  Value odd =
      select(compare(arith::CmpFPredicate::OEQ, x, 0), constant(b, type, -inf),
             constant(b, type, std::numeric_limits<double>::quiet_NaN()));
  return select(compare(arith::CmpFPredicate::OGT, x, 0), r, odd);
}
} // namespace

Type cpu::computeType(Type type) {
  return type.isBF16() || type.isF16()
             ? Type(Float32Type::get(type.getContext()))
             : type;
}

Type cpu::withElement(Type like, Type element) {
  if (auto vector = dyn_cast<VectorType>(like))
    return VectorType::get(vector.getShape(), element);
  return element;
}

Value cpu::roundTo(B &b, Value x, Type narrow) {
  Type type = x.getType();
  if (narrow.isF16()) {
    Value half = arith::TruncFOp::create(b, withElement(type, narrow), x);
    return arith::ExtFOp::create(b, type, half);
  }
  Type ints = withElement(type, b.getI32Type());
  Value bits = arith::BitcastOp::create(b, ints, x);
  // Round to nearest even: add half, minus one when the kept part is even.
  Value odd = arith::AndIOp::create(
      b, arith::ShRUIOp::create(b, bits, constant(b, ints, 16)),
      constant(b, ints, 1));
  Value sum = arith::AddIOp::create(b, arith::AddIOp::create(b, bits, odd),
                                    constant(b, ints, 0x7fff));
  // The addition could carry a NaN into infinity.
  Value nan = arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, x, x);
  sum = arith::SelectOp::create(
      b, nan, arith::OrIOp::create(b, bits, constant(b, ints, 0x400000)), sum);
  sum = arith::AndIOp::create(b, sum, constant(b, ints, int32_t(0xffff0000)));
  return arith::BitcastOp::create(b, type, sum);
}

Type cpu::memoryType(Type element) {
  MLIRContext *c = element.getContext();
  if (element.isBF16())
    return IntegerType::get(c, 16);
  if (element.isInteger(1))
    return IntegerType::get(c, 8);
  if (element.isIndex())
    return IntegerType::get(c, 64);
  return element;
}

Value cpu::fromMemory(B &b, Value bits, Type element) {
  Type type = withElement(bits.getType(), computeType(element));
  if (element.isBF16()) {
    Type ints = withElement(type, b.getI32Type());
    Value wide = arith::ShLIOp::create(b, arith::ExtUIOp::create(b, ints, bits),
                                       constant(b, ints, 16));
    return arith::BitcastOp::create(b, type, wide);
  }
  if (element.isF16())
    return arith::ExtFOp::create(b, type, bits);
  if (element.isInteger(1))
    return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, bits,
                                 constant(b, bits.getType(), 0));
  if (element.isIndex())
    return arith::IndexCastOp::create(b, type, bits);
  return bits;
}

Value cpu::toMemory(B &b, Value x, Type element) {
  Type type = withElement(x.getType(), memoryType(element));
  if (element.isBF16()) {
    // Already rounded: the low half is zero.
    Type ints = withElement(type, b.getI32Type());
    Value bits = arith::BitcastOp::create(b, ints, x);
    return arith::TruncIOp::create(
        b, type, arith::ShRUIOp::create(b, bits, constant(b, ints, 16)));
  }
  if (element.isF16())
    return arith::TruncFOp::create(b, type, x);
  if (element.isInteger(1))
    return arith::ExtUIOp::create(b, type, x);
  if (element.isIndex())
    return arith::IndexCastOp::create(b, type, x);
  return x;
}

Value cpu::expandMath(B &b, Operation *op, ValueRange args,
                      const Machine &machine) {
  if (args.empty() || !getElementTypeOrSelf(args[0].getType()).isF32())
    return {};
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case([&](math::ExpOp) { return expF32(b, args[0], machine); })
      .Case([&](math::Exp2Op) { return exp2F32(b, args[0], machine); })
      .Case([&](math::LogOp) { return logF32(b, args[0], false); })
      .Case([&](math::Log2Op) { return logF32(b, args[0], true); })
      .Case([&](math::TanhOp) { return tanhF32(b, args[0], machine); })
      .Default(Value());
}
