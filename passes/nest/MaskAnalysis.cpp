//===- MaskAnalysis.cpp - which entries of a mask tile can be true ----------===//

#include "passes/nest/MaskAnalysis.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;
using namespace fathom;

namespace {
/// Limits on the size of formulas; what is over them is dropped, safely.
constexpr size_t kMaxConjunctions = 16;
constexpr size_t kMaxForms = 24;

/// Positions and lengths are far below this, and sums of some such numbers do
/// not wrap. Greater numbers ("no limit") stand for it.
constexpr int64_t kFar = int64_t(1) << 56;
/// From here on a sum with a position may wrap.
constexpr int64_t kWraps = int64_t(1) << 62;
/// Positions are below 2^31, so that products up to here do not wrap.
constexpr uint64_t kMaxFactor = uint64_t(1) << 31;

/// True for what can't reach `kFar`.
bool isNear(Value v) {
  if (auto arg = dyn_cast<BlockArgument>(v))
    return isa<NestOp, scf::ForOp>(arg.getOwner()->getParentOp());
  if (auto cast = v.getDefiningOp<arith::IndexCastOp>())
    return isa<IntegerType>(cast.getIn().getType()) &&
           cast.getIn().getType().getIntOrFloatBitWidth() <= 32;
  return v.getDefiningOp<memref::DimOp>() != nullptr;
}

/// Positions are index values; i64 is as wide. Narrower integers may wrap.
bool isPosition(Type t) {
  Type e = getElementTypeOrSelf(t);
  return e.isIndex() || e.isInteger(64);
}

bool isScalar(Value v) { return !isa<ShapedType>(v.getType()); }

std::optional<APInt> getConstant(Value v) {
  APInt c;
  if (matchPattern(v, m_ConstantInt(&c)))
    return c;
  if (auto bc = v.getDefiningOp<BroadcastOp>())
    return getConstant(bc.getSource());
  return std::nullopt;
}

/// ka * a + kb * b, or nothing where a number does not fit.
std::optional<LinearForm> combine(const LinearForm &a, int64_t ka,
                                  const LinearForm &b, int64_t kb) {
  bool overflow = false;
  auto mulAdd = [&](int64_t &into, int64_t x, int64_t k) {
    int64_t product;
    overflow |= llvm::MulOverflow(x, k, product);
    overflow |= llvm::AddOverflow(into, product, into);
  };
  LinearForm r;
  for (auto [f, k] : {std::pair(&a, ka), std::pair(&b, kb)}) {
    mulAdd(r.constant, f->constant, k);
    for (auto [id, c] : f->terms)
      mulAdd(r.terms[id], c, k);
  }
  if (overflow)
    return std::nullopt;
  std::erase_if(r.terms, [](auto &t) { return t.second == 0; });
  return r;
}

LinearForm plus(LinearForm f, int64_t c) {
  f.constant += c;
  return f;
}

int64_t getCoefficient(const LinearForm &f, unsigned id) {
  auto it = f.terms.find(id);
  return it == f.terms.end() ? 0 : it->second;
}

/// The part of `f` without `id`.
LinearForm without(LinearForm f, unsigned id) {
  f.terms.erase(id);
  return f;
}

/// Rounds like arith.divsi or, with `floors`, down; `d` is positive.
int64_t divide(int64_t n, int64_t d, bool floors) {
  return floors ? llvm::divideFloorSigned(n, d) : n / d;
}
} // namespace

//===----------------------------------------------------------------------===//
// Variables
//===----------------------------------------------------------------------===//

unsigned MaskAnalysis::getVariable(Variable v) {
  for (auto [id, w] : llvm::enumerate(variables))
    if (w.kind == v.kind && w.value == v.value && w.map == v.map &&
        w.dividend.terms == v.dividend.terms &&
        w.dividend.constant == v.dividend.constant && w.divisor == v.divisor &&
        w.floors == v.floors)
      return id;
  variables.push_back(std::move(v));
  return variables.size() - 1;
}

unsigned MaskAnalysis::getQuotient(LinearForm dividend, int64_t divisor,
                                   bool floors) {
  return getVariable(
      {Variable::quotient, {}, {-1, -1}, std::move(dividend), divisor, floors});
}

bool MaskAnalysis::isInLoop(Value v) const {
  return loop && loop.getRegion().isAncestor(v.getParentRegion());
}

bool MaskAnalysis::isNonNegative(Value v) const {
  if (auto c = getConstant(v))
    return c->isNonNegative();
  if (auto arg = dyn_cast<BlockArgument>(v)) {
    if (isa<NestOp>(arg.getOwner()->getParentOp()))
      return true;
    auto f = dyn_cast<scf::ForOp>(arg.getOwner()->getParentOp());
    return f && f.getInductionVar() == arg && isNonNegative(f.getLowerBound());
  }
  return v.getDefiningOp<memref::DimOp>() != nullptr;
}

bool MaskAnalysis::isNonNegative(const LinearForm &f) const {
  return f.constant >= 0 && llvm::all_of(f.terms, [&](auto &t) {
           const Variable &v = variables[t.first];
           return t.second > 0 &&
                  (v.kind == Variable::lane ||
                   (v.kind == Variable::scalar && isNonNegative(v.value)) ||
                   (v.kind == Variable::quotient && isNonNegative(v.dividend)));
         });
}

bool MaskAnalysis::dependsOn(const LinearForm &f,
                             function_ref<bool(unsigned)> pred) const {
  return llvm::any_of(f.terms, [&](auto &t) {
    return pred(t.first) || dependsOn(variables[t.first].dividend, pred);
  });
}

bool MaskAnalysis::hasLane(const LinearForm &f) const {
  return dependsOn(
      f, [&](unsigned id) { return variables[id].kind == Variable::lane; });
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

std::optional<LinearForm> MaskAnalysis::readDivision(Operation *op,
                                                     LaneMap map) {
  auto divisor = getConstant(op->getOperand(1));
  auto dividend = readIndex(op->getOperand(0), map);
  if (!divisor || !dividend || !divisor->isStrictlyPositive())
    return std::nullopt;
  if (isa<arith::DivUIOp, arith::RemUIOp>(op) && !isNonNegative(*dividend))
    return std::nullopt;
  auto isChoice = [&](unsigned id) {
    return variables[id].kind == Variable::choice;
  };
  if (dependsOn(*dividend, isChoice))
    return std::nullopt;
  int64_t d = divisor->getSExtValue();
  LinearForm q;
  bool floors = isa<arith::FloorDivSIOp>(op);
  if (dividend->terms.empty())
    q.constant = divide(dividend->constant, d, floors);
  else
    q.terms[getQuotient(*dividend, d, floors)] = 1;
  if (isa<arith::RemSIOp, arith::RemUIOp>(op))
    return combine(*dividend, 1, q, -d);
  return q;
}

/// Nothing where `v` is a tile that is not index arithmetic; a scalar always
/// has a form, at worst as a variable of its own.
std::optional<LinearForm> MaskAnalysis::readIndex(Value v, LaneMap map) {
  LinearForm f;
  if (auto c = getConstant(v)) {
    int64_t x = c->getSExtValue();
    // So far out, sums may wrap: nothing is known of them.
    if (x > kWraps || x < -kWraps)
      return std::nullopt;
    f.constant = std::clamp(x, -kFar, kFar);
    return f;
  }
  Operation *op = v.getDefiningOp();
  if (auto m = dyn_cast_or_null<arith::MulIOp>(op))
    for (Value factor : m->getOperands())
      if (auto c = getConstant(factor); c && c->abs().ugt(kMaxFactor))
        return std::nullopt; // the product may wrap, as in a hash
  std::optional<LinearForm> r;
  if (op && isPosition(v.getType())) {
    auto linear = [&](int64_t ka, int64_t kb) -> std::optional<LinearForm> {
      auto a = readIndex(op->getOperand(0), map),
           b = readIndex(op->getOperand(1), map);
      return a && b ? combine(*a, ka, *b, kb) : std::nullopt;
    };
    r = TypeSwitch<Operation *, std::optional<LinearForm>>(op)
            .Case([&](arith::AddIOp) { return linear(1, 1); })
            .Case([&](arith::SubIOp) { return linear(1, -1); })
            .Case([&](arith::MulIOp m) -> std::optional<LinearForm> {
              auto a = readIndex(m.getLhs(), map),
                   b = readIndex(m.getRhs(), map);
              if (!a || !b || (!a->terms.empty() && !b->terms.empty()))
                return std::nullopt;
              return a->terms.empty() ? combine(*b, a->constant, {}, 0)
                                      : combine(*a, b->constant, {}, 0);
            })
            .Case([&](arith::IndexCastOp c) -> std::optional<LinearForm> {
              if (!isPosition(c.getIn().getType()))
                return std::nullopt;
              return readIndex(c.getIn(), map);
            })
            .Case([&](IotaOp i) -> std::optional<LinearForm> {
              LinearForm lane;
              lane.terms[getVariable({Variable::lane, {}, {map[0], -1}})] = 1;
              return combine(*readIndex(i.getStart(), map), 1, lane, 1);
            })
            .Case([&](BroadcastOp bc) {
              return readIndex(bc.getSource(), {map[bc.getDim()], -1});
            })
            .Case([&](TransposeOp t) {
              return readIndex(t.getTile(), {map[1], map[0]});
            })
            .Case<arith::DivSIOp, arith::DivUIOp, arith::FloorDivSIOp,
                  arith::RemSIOp, arith::RemUIOp>([&](Operation *d) {
              return isScalar(v) && !isInLoop(v) ? std::nullopt
                                                 : readDivision(d, map);
            })
            .Case<arith::MinSIOp, arith::MaxSIOp, arith::SelectOp>(
                [&](Operation *) -> std::optional<LinearForm> {
                  if (isScalar(v) && !isInLoop(v))
                    return std::nullopt;
                  f.terms[getVariable({Variable::choice, v, map})] = 1;
                  return f;
                })
            .Default([](Operation *) { return std::nullopt; });
  }
  if (r || !isScalar(v))
    return r;
  f.terms[getVariable({Variable::scalar, v})] = 1;
  return f;
}

MaskAnalysis::Dnf MaskAnalysis::unknown() {
  understood = false;
  return {Conjunction()};
}

MaskAnalysis::Dnf MaskAnalysis::either(Dnf a, const Dnf &b) {
  llvm::append_range(a, b);
  return a.size() > kMaxConjunctions ? Dnf{Conjunction()} : a;
}

MaskAnalysis::Dnf MaskAnalysis::both(const Dnf &a, const Dnf &b) {
  if (a.size() * b.size() > kMaxConjunctions)
    return a.size() < b.size() ? a : b; // fewer facts: more may be true
  Dnf r;
  for (const Conjunction &x : a)
    for (const Conjunction &y : b) {
      Conjunction &c = r.emplace_back(x);
      llvm::append_range(c.forms, y.forms);
      llvm::append_range(c.flags, y.flags);
    }
  return r;
}

/// The formula f <= 0. Minima, maxima and selects become and and or.
MaskAnalysis::Dnf MaskAnalysis::atMostZero(LinearForm f) {
  for (auto [id, k] : f.terms) {
    if (variables[id].kind != Variable::choice)
      continue;
    Operation *op = variables[id].value.getDefiningOp();
    LaneMap map = variables[id].map;
    LinearForm rest = without(f, id);
    auto with = [&](Value v) {
      auto x = readIndex(v, map);
      auto sum = x ? combine(rest, 1, *x, k) : std::nullopt;
      return sum ? atMostZero(*sum) : unknown();
    };
    if (auto s = dyn_cast<arith::SelectOp>(op))
      return either(
          both(readMask(s.getCondition(), map, false), with(s.getTrueValue())),
          both(readMask(s.getCondition(), map, true), with(s.getFalseValue())));
    Dnf a = with(op->getOperand(0)), b = with(op->getOperand(1));
    bool minimum = isa<arith::MinSIOp>(op);
    return minimum == (k > 0) ? either(a, b) : both(a, b);
  }
  return {Conjunction{{std::move(f)}, {}}};
}

MaskAnalysis::Dnf MaskAnalysis::readCompare(Operation *op, LaneMap map,
                                            bool negate) {
  using P = arith::CmpIPredicate;
  auto cmp = cast<arith::CmpIOp>(op);
  P p =
      negate ? arith::invertPredicate(cmp.getPredicate()) : cmp.getPredicate();
  Value l = cmp.getLhs(), r = cmp.getRhs();
  if (getElementTypeOrSelf(l.getType()).isInteger(1)) {
    if (p != P::eq && p != P::ne)
      return unknown();
    bool differ = p == P::ne;
    return either(both(readMask(l, map, false), readMask(r, map, differ)),
                  both(readMask(l, map, true), readMask(r, map, !differ)));
  }
  if (!isPosition(l.getType()))
    return unknown();
  auto a = readIndex(l, map), b = readIndex(r, map);
  auto ab = a && b ? combine(*a, 1, *b, -1) : std::nullopt;
  auto ba = a && b ? combine(*b, 1, *a, -1) : std::nullopt;
  if (!ab || !ba)
    return unknown();
  auto negative = [&](const LinearForm &f) { return atMostZero(plus(f, 1)); };
  auto nonNegative = [&](const LinearForm &f) {
    return atMostZero(*combine(f, -1, {}, 0));
  };
  // x <u y: both of one sign and x < y, or x >= 0 > y.
  auto below = [&](const LinearForm &x, const LinearForm &y, const Dnf &less) {
    return either(both(nonNegative(x), either(negative(y), less)),
                  both(both(negative(x), negative(y)), less));
  };
  switch (p) {
  case P::sle:
    return atMostZero(*ab);
  case P::slt:
    return negative(*ab);
  case P::sge:
    return atMostZero(*ba);
  case P::sgt:
    return negative(*ba);
  case P::eq:
    return both(atMostZero(*ab), atMostZero(*ba));
  case P::ne:
    return either(negative(*ab), negative(*ba));
  case P::ule:
    return below(*a, *b, atMostZero(*ab));
  case P::ult:
    return below(*a, *b, negative(*ab));
  case P::uge:
    return below(*b, *a, atMostZero(*ba));
  case P::ugt:
    return below(*b, *a, negative(*ba));
  }
  llvm_unreachable("all predicates are handled");
}

/// The formula under which an entry of `v` is true, or with `negate` false.
MaskAnalysis::Dnf MaskAnalysis::readMask(Value v, LaneMap map, bool negate) {
  if (auto c = getConstant(v))
    return c->isZero() == negate ? Dnf{Conjunction()} : Dnf{};
  auto read = [&](Value x, bool n) { return readMask(x, map, n != negate); };
  Operation *op = v.getDefiningOp();
  if (isa_and_nonnull<arith::AndIOp, arith::OrIOp>(op)) {
    Dnf a = read(op->getOperand(0), false), b = read(op->getOperand(1), false);
    return isa<arith::AndIOp>(op) != negate ? both(a, b) : either(a, b);
  }
  if (isa_and_nonnull<arith::XOrIOp>(op)) {
    Value a = op->getOperand(0), b = op->getOperand(1);
    return either(both(readMask(a, map, false), read(b, true)),
                  both(readMask(a, map, true), read(b, false)));
  }
  if (auto s = dyn_cast_or_null<arith::SelectOp>(op))
    return either(both(readMask(s.getCondition(), map, false),
                       read(s.getTrueValue(), false)),
                  both(readMask(s.getCondition(), map, true),
                       read(s.getFalseValue(), false)));
  if (auto bc = dyn_cast_or_null<BroadcastOp>(op))
    return readMask(bc.getSource(), {map[bc.getDim()], -1}, negate);
  if (auto t = dyn_cast_or_null<TransposeOp>(op))
    return readMask(t.getTile(), {map[1], map[0]}, negate);
  if (isa_and_nonnull<arith::CmpIOp>(op) &&
      !(isScalar(v) && !isPosition(op->getOperand(0).getType())))
    return readCompare(op, map, negate);
  if (isScalar(v))
    return {Conjunction{{}, {{v, !negate}}}};
  return unknown();
}

MaskAnalysis::MaskAnalysis(Value mask, scf::ForOp loop) : loop(loop) {
  if (auto t = dyn_cast<RankedTensorType>(mask.getType()))
    llvm::copy(t.getShape(), laneSizes.begin());
  visible = readMask(mask, {0, 1}, false);
  hidden = readMask(mask, {0, 1}, true);
  for (auto [from, to] :
       {std::pair(&visible, &anyVisible), std::pair(&hidden, &anyHidden)})
    for (Conjunction c : *from)
      if (project(c, /*forRange=*/false))
        to->push_back(std::move(c));
}

//===----------------------------------------------------------------------===//
// Elimination of lanes
//===----------------------------------------------------------------------===//

/// Least and greatest value over the lanes, as forms without lanes.
std::pair<LinearForm, LinearForm>
MaskAnalysis::getInterval(const LinearForm &f) {
  LinearForm lo, hi;
  lo.constant = hi.constant = f.constant;
  for (auto [id, k] : f.terms) {
    Variable v = variables[id];
    LinearForm a, b; // of the variable
    if (v.kind == Variable::lane) {
      b.constant = laneSizes[v.map[0]] - 1;
    } else if (v.kind == Variable::quotient && hasLane(v.dividend)) {
      auto [x, y] = getInterval(v.dividend);
      for (auto [from, to] : {std::pair(&x, &a), std::pair(&y, &b)}) {
        if (from->terms.empty())
          to->constant = divide(from->constant, v.divisor, v.floors);
        else
          to->terms[getQuotient(*from, v.divisor, v.floors)] = 1;
      }
    } else {
      a.terms[id] = b.terms[id] = 1;
    }
    if (k < 0)
      std::swap(a, b);
    lo = combine(lo, 1, a, k).value_or(lo);
    hi = combine(hi, 1, b, k).value_or(hi);
  }
  return {lo, hi};
}

/// Divides by common factors, keeps the tightest of forms that differ in the
/// constant only, drops what holds by the ranges of induction variables.
/// Returns false where a form can't hold.
bool MaskAnalysis::simplify(std::vector<LinearForm> &forms) {
  std::map<std::map<unsigned, int64_t>, int64_t> tightest;
  for (LinearForm &f : forms) {
    if (f.terms.empty()) {
      if (f.constant > 0)
        return false;
      continue;
    }
    int64_t g = 0;
    for (auto &t : f.terms)
      g = std::gcd(g, t.second);
    for (auto &t : f.terms)
      t.second /= g;
    int64_t c = llvm::divideCeilSigned(f.constant, g);
    auto [it, fresh] = tightest.try_emplace(f.terms, c);
    it->second = std::max(it->second, c);
  }
  // Facts: 0 <= lower <= iv <= upper - 1.
  std::vector<LinearForm> facts;
  for (unsigned id = 0, n = variables.size(); id < n; ++id) {
    auto arg = dyn_cast_or_null<BlockArgument>(variables[id].value);
    if (variables[id].kind != Variable::scalar || !arg)
      continue;
    LinearForm iv;
    iv.terms[id] = 1;
    auto add = [&](std::optional<LinearForm> f) {
      if (f)
        facts.push_back(*f);
    };
    auto range = [&](Value upper) {
      if (auto u = readIndex(upper, {-1, -1}))
        add(combine(plus(iv, 1), 1, *u, -1));
    };
    if (auto nest = dyn_cast<NestOp>(arg.getOwner()->getParentOp())) {
      add(combine(iv, -1, {}, 0));
      range(nest.getBounds()[arg.getArgNumber()]);
    } else if (auto f = dyn_cast<scf::ForOp>(arg.getOwner()->getParentOp());
               f && f.getInductionVar() == arg) {
      if (auto l = readIndex(f.getLowerBound(), {-1, -1}))
        add(combine(*l, 1, iv, -1));
      range(f.getUpperBound());
    }
  }
  for (const LinearForm &f : facts)
    if (auto it = tightest.find(f.terms);
        it != tightest.end() && it->second <= f.constant)
      tightest.erase(it);
  forms.clear();
  for (auto &[terms, c] : tightest)
    forms.push_back({terms, c});
  return true;
}

/// Replaces the forms by what follows from them once lanes, and quotients that
/// depend on lanes (or, `forRange`, on the induction variable) are eliminated.
/// Returns false where they can't all hold.
bool MaskAnalysis::project(Conjunction &c, bool forRange) {
  auto usesIv = [&](unsigned id) {
    return loop && variables[id].value == loop.getInductionVar();
  };
  std::vector<LinearForm> &forms = c.forms;
  auto eliminated = [&](unsigned id) {
    const Variable &v = variables[id];
    return v.kind == Variable::lane ||
           (v.kind == Variable::quotient &&
            (hasLane(v.dividend) ||
             (forRange && dependsOn(v.dividend, usesIv))));
  };
  for (;;) {
    // Quotients come after the variables of their dividends, so that the
    // greatest id is free of others.
    std::optional<unsigned> next;
    for (const LinearForm &f : forms)
      for (auto &t : f.terms)
        if (eliminated(t.first) && (!next || t.first > *next))
          next = t.first;
    if (!next)
      break;
    unsigned id = *next;
    Variable v = variables[id];
    LinearForm self;
    self.terms[id] = 1;
    auto add = [&](std::optional<LinearForm> f) {
      if (f)
        forms.push_back(*f);
    };
    if (v.kind == Variable::lane) {
      add(combine(self, -1, {}, 0));
      add(plus(self, 1 - laneSizes[v.map[0]]));
    } else {
      // dividend - divisor * quotient is in [0, d-1], or in [1-d, d-1] where
      // the division rounds to zero and the sign is unknown.
      bool floors = v.floors || isNonNegative(v.dividend);
      if (auto f = combine(self, v.divisor, v.dividend, -1))
        add(plus(*f, floors ? 0 : 1 - v.divisor));
      if (auto f = combine(v.dividend, 1, self, -v.divisor))
        add(plus(*f, 1 - v.divisor));
      if (!forRange || !dependsOn(v.dividend, usesIv)) {
        auto [lo, hi] = getInterval(self);
        add(combine(lo, 1, self, -1));
        add(combine(self, 1, hi, -1));
      }
    }
    std::vector<LinearForm> rest, lower, upper;
    for (LinearForm &f : forms) {
      int64_t k = getCoefficient(f, id);
      (k < 0 ? lower : k > 0 ? upper : rest).push_back(std::move(f));
    }
    for (const LinearForm &l : lower)
      for (const LinearForm &u : upper)
        if (auto f =
                combine(l, getCoefficient(u, id), u, -getCoefficient(l, id)))
          rest.push_back(std::move(*f));
    forms = std::move(rest);
    if (!simplify(forms))
      return false;
    if (forms.size() > kMaxForms)
      forms.resize(kMaxForms);
  }
  return simplify(forms);
}

//===----------------------------------------------------------------------===//
// Emission
//===----------------------------------------------------------------------===//

void MaskAnalysis::collectInputs(const LinearForm &f,
                                 SetVector<Value> &in) const {
  for (auto &t : f.terms) {
    if (variables[t.first].kind == Variable::scalar)
      in.insert(variables[t.first].value);
    collectInputs(variables[t.first].dividend, in);
  }
}

SetVector<Value> MaskAnalysis::getInputs() const {
  SetVector<Value> in;
  for (const Dnf *dnf : {&anyVisible, &anyHidden})
    for (const Conjunction &c : *dnf) {
      for (const LinearForm &f : c.forms)
        collectInputs(f, in);
      for (auto &flag : c.flags)
        in.insert(flag.first);
    }
  return in;
}

namespace {
/// Scalar index arithmetic, folded where it can be.
struct Emitter {
  OpBuilder &b;
  Location loc;

  Value constant(int64_t c) {
    return arith::ConstantIndexOp::create(b, loc, c);
  }
  Value truth(bool v) {
    return arith::ConstantOp::create(b, loc, b.getBoolAttr(v));
  }
  Value index(Value v) {
    return v.getType().isIndex()
               ? v
               : b.createOrFold<arith::IndexCastOp>(loc, b.getIndexType(), v);
  }
  Value add(Value x, Value y) {
    return b.createOrFold<arith::AddIOp>(loc, x, y);
  }
  Value sub(Value x, Value y) {
    return b.createOrFold<arith::SubIOp>(loc, x, y);
  }
  Value mul(Value x, int64_t k) {
    return k == 1 ? x : b.createOrFold<arith::MulIOp>(loc, x, constant(k));
  }
  Value min(Value x, Value y) {
    return x == y ? x : b.createOrFold<arith::MinSIOp>(loc, x, y);
  }
  Value max(Value x, Value y) {
    return x == y ? x : b.createOrFold<arith::MaxSIOp>(loc, x, y);
  }
  /// An absent x is left out.
  Value both(Value x, Value y) {
    return x ? b.createOrFold<arith::AndIOp>(loc, x, y) : y;
  }
  Value either(Value x, Value y) {
    return x ? b.createOrFold<arith::OrIOp>(loc, x, y) : y;
  }
  Value negate(Value x) {
    return b.createOrFold<arith::XOrIOp>(loc, x, truth(true));
  }
  Value cmp(arith::CmpIPredicate p, Value x, Value y) {
    return b.createOrFold<arith::CmpIOp>(loc, p, x, y);
  }
  Value select(Value c, Value x, Value y) {
    return b.createOrFold<arith::SelectOp>(loc, c, x, y);
  }
  /// Rounds to zero, or down; d > 0.
  Value divide(Value n, int64_t d, bool floors) {
    if (d == 1)
      return n;
    if (floors) {
      Value below = cmp(arith::CmpIPredicate::slt, n, constant(0));
      n = sub(n, select(below, constant(d - 1), constant(0)));
    }
    return b.createOrFold<arith::DivSIOp>(loc, n, constant(d));
  }
};
} // namespace

Value MaskAnalysis::emitVariable(OpBuilder &b, Location loc,
                                 unsigned id) const {
  const Variable &v = variables[id];
  Emitter e{b, loc};
  if (v.kind == Variable::quotient)
    return e.divide(emit(b, loc, v.dividend), v.divisor, v.floors);
  Value x = e.index(v.value);
  return isNear(v.value) ? x
                         : e.max(e.min(x, e.constant(kFar)), e.constant(-kFar));
}

Value MaskAnalysis::emit(OpBuilder &b, Location loc,
                         const LinearForm &f) const {
  Emitter e{b, loc};
  Value sum;
  for (auto [id, k] : f.terms)
    if (k > 0) {
      Value t = e.mul(emitVariable(b, loc, id), k);
      sum = sum ? e.add(sum, t) : t;
    }
  if (!sum || f.constant != 0)
    sum = sum ? e.add(sum, e.constant(f.constant)) : e.constant(f.constant);
  for (auto [id, k] : f.terms)
    if (k < 0)
      sum = e.sub(sum, e.mul(emitVariable(b, loc, id), -k));
  return sum;
}

/// f <= 0, or f > 0.
Value MaskAnalysis::emitCompare(OpBuilder &b, Location loc,
                                arith::CmpIPredicate p,
                                const LinearForm &f) const {
  LinearForm left, right;
  for (auto [id, k] : f.terms)
    (k > 0 ? left : right).terms[id] = std::abs(k);
  (f.constant > 0 ? left : right).constant = std::abs(f.constant);
  return Emitter{b, loc}.cmp(p, emit(b, loc, left), emit(b, loc, right));
}

Value MaskAnalysis::emitHolds(OpBuilder &b, Location loc,
                              const Conjunction &c) const {
  Emitter e{b, loc};
  Value all;
  for (const LinearForm &f : c.forms)
    all = e.both(all, emitCompare(b, loc, arith::CmpIPredicate::sle, f));
  for (auto [flag, value] : c.flags)
    all = e.both(all, value ? flag : e.negate(flag));
  return all ? all : e.truth(true);
}

Value MaskAnalysis::emitAny(OpBuilder &b, Location loc) const {
  Emitter e{b, loc};
  Value any;
  for (const Conjunction &c : anyVisible)
    any = e.either(any, emitHolds(b, loc, c));
  return any ? any : e.truth(false);
}

Value MaskAnalysis::emitAll(OpBuilder &b, Location loc) const {
  Emitter e{b, loc};
  Value all;
  for (const Conjunction &c : anyHidden) {
    Value fails;
    // Of bounds on the loop's variable from one side, the widest: one test.
    Value above, below;
    for (const LinearForm &f : c.forms) {
      std::optional<unsigned> iv;
      for (auto &t : f.terms)
        if (loop && variables[t.first].value == loop.getInductionVar())
          iv = t.first;
      int64_t k = iv ? getCoefficient(f, *iv) : 0;
      auto bound = k == 1 ? combine(without(f, *iv), -1, {}, 0)
                          : std::optional(k == -1 ? without(f, *iv) : f);
      if (std::abs(k) != 1 || !bound || c.forms.size() == 1)
        fails =
            e.either(fails, emitCompare(b, loc, arith::CmpIPredicate::sgt, f));
      else if (Value v = emit(b, loc, *bound); k == 1)
        above = above ? e.min(above, v) : v;
      else
        below = below ? e.max(below, v) : v;
    }
    using P = arith::CmpIPredicate;
    if (above)
      fails = e.either(fails, e.cmp(P::sgt, loop.getInductionVar(), above));
    if (below)
      fails = e.either(fails, e.cmp(P::slt, loop.getInductionVar(), below));
    for (auto [flag, value] : c.flags)
      fails = e.either(fails, value ? e.negate(flag) : flag);
    all = e.both(all, fails ? fails : e.truth(false));
  }
  return all ? all : e.truth(true);
}

bool MaskAnalysis::canBeAll() const {
  return llvm::none_of(anyHidden, [](const Conjunction &c) {
    return c.forms.empty() && c.flags.empty();
  });
}

MaskAnalysis::Range MaskAnalysis::emitRange(OpBuilder &b, Location loc) {
  Emitter e{b, loc};
  Value lb = loop.getLowerBound(), ub = loop.getUpperBound(),
        step = loop.getStep();
  unsigned iv = getVariable({Variable::scalar, loop.getInductionVar()});
  auto inside = [&](const LinearForm &f) {
    return dependsOn(f, [&](unsigned id) {
      return variables[id].kind == Variable::scalar &&
             isInLoop(variables[id].value);
    });
  };

  // Per conjunction: the forms that bound iv from below, from above, and those
  // free of it; forms that use other values of the loop's body are left out.
  bool exact = true;
  struct Bounds {
    std::vector<LinearForm> lower, upper;
    Conjunction free;
  };
  std::vector<Bounds> parts;
  for (Conjunction c : visible) {
    for (const LinearForm &f : c.forms)
      exact &= !dependsOn(f, [&](unsigned id) {
        const Variable &v = variables[id];
        return v.kind == Variable::quotient &&
               dependsOn(v.dividend, [&](unsigned x) { return x == iv; });
      });
    if (!project(c, /*forRange=*/true))
      continue;
    Bounds &p = parts.emplace_back();
    for (const LinearForm &f : c.forms) {
      int64_t k = getCoefficient(f, iv);
      if (inside(without(f, iv)))
        exact = false;
      else
        (k < 0 ? p.lower : k > 0 ? p.upper : p.free.forms).push_back(f);
    }
    for (auto &flag : c.flags) {
      if (isInLoop(flag.first))
        exact = false;
      else
        p.free.flags.push_back(flag);
    }
  }
  if (parts.empty())
    return {lb, lb, true};

  // An interval a conjunction; their hull is their union where all share the
  // lower or all share the upper end.
  auto same = [&](auto member) {
    return llvm::all_of(parts, [&](Bounds &p) {
      return llvm::equal(p.*member, parts[0].*member, [](auto &x, auto &y) {
        return x.terms == y.terms && x.constant == y.constant;
      });
    });
  };
  bool sameLower = same(&Bounds::lower), sameUpper = same(&Bounds::upper);
  exact &= sameLower || sameUpper;

  Value lo, hi;
  for (Bounds &p : parts) {
    Value l = lb, u = ub;
    for (const LinearForm &f : p.lower) { // iv >= ceil(rest / d)
      int64_t d = -getCoefficient(f, iv);
      l = e.max(l,
                e.divide(emit(b, loc, plus(without(f, iv), d - 1)), d, true));
    }
    for (const LinearForm &f : p.upper) { // iv <= floor(-rest / d)
      int64_t d = getCoefficient(f, iv);
      auto rest = combine(without(f, iv), -1, {}, 0);
      if (!rest) {
        exact = false;
        continue;
      }
      u = e.min(u, d == 1 ? emit(b, loc, plus(*rest, 1))
                          : e.add(e.divide(emit(b, loc, *rest), d, true),
                                  e.constant(1)));
    }
    Value holds;
    if (!p.free.forms.empty() || !p.free.flags.empty())
      holds = emitHolds(b, loc, p.free);
    // An empty part must not widen the hull by an end that others lack.
    if (!sameLower && !sameUpper) {
      Value some = e.cmp(arith::CmpIPredicate::slt, l, u);
      holds = holds ? e.both(holds, some) : some;
    }
    if (holds && !sameLower)
      l = e.select(holds, l, ub);
    if (holds && (sameLower || !sameUpper))
      u = e.select(holds, u, lb);
    lo = lo && !sameLower ? e.min(lo, l) : l;
    hi = hi && (sameLower || !sameUpper) ? e.max(hi, u) : u;
  }
  if (lo != lb) {
    // Whole steps from the old bound, so that the tiles stay the same.
    Value steps = e.sub(lo, lb);
    std::optional<APInt> s = getConstant(step);
    Value round =
        s ? e.constant(s->getSExtValue() - 1) : e.sub(step, e.constant(1));
    steps = b.createOrFold<arith::DivUIOp>(loc, e.add(steps, round), step);
    lo = e.min(e.add(lb, b.createOrFold<arith::MulIOp>(loc, steps, step)), ub);
  }
  return {lo, hi, exact};
}
