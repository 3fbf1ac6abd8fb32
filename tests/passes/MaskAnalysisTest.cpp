//===- MaskAnalysisTest.cpp - the analysis against every entry of random masks ===//
//
// Builds random masks over small tiles in a loop over blocks, asks the analysis
// for any, all and the loop's bounds, and compares with the mask's entries, all
// evaluated by a small interpreter of index arithmetic.
//
//===----------------------------------------------------------------------===//

#include "passes/nest/MaskAnalysis.h"

#include <gtest/gtest.h>
#include <random>

using namespace mlir;
using namespace fathom;

namespace {
//===----------------------------------------------------------------------===//
// The interpreter
//===----------------------------------------------------------------------===//

using Entries = std::vector<int64_t>;

struct Interpreter {
  DenseMap<Value, Entries> known;

  static std::pair<int64_t, int64_t> shape(Value v) {
    auto t = dyn_cast<RankedTensorType>(v.getType());
    if (!t)
      return {1, 1};
    return t.getRank() == 1
               ? std::pair<int64_t, int64_t>{t.getDimSize(0), 1}
               : std::pair<int64_t, int64_t>{t.getDimSize(0), t.getDimSize(1)};
  }

  const Entries &eval(Value v) {
    if (auto it = known.find(v); it != known.end())
      return it->second;
    Operation *op = v.getDefiningOp();
    std::vector<Entries> in;
    for (Value o : op->getOperands())
      in.push_back(eval(o));
    auto [rows, cols] = shape(v);
    Entries out(rows * cols);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c)
        out[r * cols + c] = entry(op, in, r, c, r * cols + c);
    return known[v] = out;
  }

  static int64_t entry(Operation *op, const std::vector<Entries> &in, int64_t r,
                       int64_t c, int64_t n) {
    auto at = [&](unsigned i) {
      return in[i].size() == 1 ? in[i][0] : in[i][n];
    };
    if (auto k = dyn_cast<arith::ConstantOp>(op)) {
      Attribute a = k.getValue();
      if (auto splat = dyn_cast<SplatElementsAttr>(a))
        a = splat.getSplatValue<Attribute>();
      auto i = cast<IntegerAttr>(a);
      return i.getType().isInteger(1) ? i.getValue().getZExtValue()
                                      : i.getValue().getSExtValue();
    }
    if (isa<IotaOp>(op))
      return in[0][0] + n;
    if (auto bc = dyn_cast<BroadcastOp>(op))
      return in[0].size() == 1 ? in[0][0] : in[0][bc.getDim() == 0 ? r : c];
    if (auto cmp = dyn_cast<arith::CmpIOp>(op))
      return arith::applyCmpPredicate(
          cmp.getPredicate(), APInt(64, at(0), true), APInt(64, at(1), true));
    if (isa<arith::AddIOp>(op))
      return at(0) + at(1);
    if (isa<arith::SubIOp>(op))
      return at(0) - at(1);
    if (isa<arith::MulIOp>(op))
      return at(0) * at(1);
    if (isa<arith::DivSIOp>(op))
      return at(0) / at(1);
    if (isa<arith::DivUIOp>(op))
      return (uint64_t)at(0) / (uint64_t)at(1);
    if (isa<arith::RemSIOp>(op))
      return at(0) % at(1);
    if (isa<arith::FloorDivSIOp>(op))
      return llvm::divideFloorSigned(at(0), at(1));
    if (isa<arith::MinSIOp>(op))
      return std::min(at(0), at(1));
    if (isa<arith::MaxSIOp>(op))
      return std::max(at(0), at(1));
    if (isa<arith::AndIOp>(op))
      return at(0) & at(1);
    if (isa<arith::OrIOp>(op))
      return at(0) | at(1);
    if (isa<arith::XOrIOp>(op))
      return at(0) ^ at(1);
    if (isa<arith::SelectOp>(op))
      return at(0) ? at(1) : at(2);
    ADD_FAILURE() << "no rule for " << op->getName().getStringRef().str();
    return 0;
  }
};

//===----------------------------------------------------------------------===//
// Masks
//===----------------------------------------------------------------------===//

/// One loop over blocks with a mask tile of random size in it. Arguments of
/// the function: the other block start, the lengths, two numbers, a flag.
class MaskTest : public ::testing::Test {
protected:
  MaskTest() {
    DialectRegistry registry;
    registerFA(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }

  int64_t pick(int64_t lo, int64_t hi) {
    return std::uniform_int_distribution<int64_t>(lo, hi)(random);
  }

  void start() {
    Location loc = UnknownLoc::get(&context);
    module = ModuleOp::create(loc);
    OpBuilder m = OpBuilder::atBlockBegin(module->getBody());
    Type index = m.getIndexType();
    auto func = func::FuncOp::create(
        m, loc, "f",
        m.getFunctionType({index, index, index, index, index, m.getI1Type()},
                          {}));
    args = func.addEntryBlock()->getArguments();
    OpBuilder b = OpBuilder::atBlockBegin(&func.front());
    rows = pick(1, 5);
    cols = pick(1, 5);
    loopOverKeys = pick(0, 1);
    Value zero = arith::ConstantIndexOp::create(b, loc, 0);
    Value step =
        arith::ConstantIndexOp::create(b, loc, loopOverKeys ? cols : rows);
    loop = scf::ForOp::create(b, loc, zero, args[loopOverKeys ? 2 : 1], step);
    func::ReturnOp::create(b, loc);
    body.emplace(OpBuilder(loop.getBody()->getTerminator()));
  }

  Value uniform(Value v) {
    Type t = RankedTensorType::get({rows, cols}, v.getType());
    return BroadcastOp::create(*body, loop.getLoc(), t, v, 0);
  }
  Value constant(int64_t c) {
    return uniform(arith::ConstantIndexOp::create(*body, loop.getLoc(), c));
  }
  Value position(unsigned dim) {
    Value start = (dim == 1) == loopOverKeys ? loop.getInductionVar() : args[0];
    int64_t n = dim == 0 ? rows : cols;
    Value iota =
        IotaOp::create(*body, loop.getLoc(),
                       RankedTensorType::get({n}, body->getIndexType()), start);
    return BroadcastOp::create(
        *body, loop.getLoc(),
        RankedTensorType::get({rows, cols}, body->getIndexType()), iota, dim);
  }
  template <typename Op, typename... A>
  Value op(A... a) {
    return Op::create(*body, loop.getLoc(), a...);
  }
  using P = arith::CmpIPredicate;
  Value cmp(P p, Value a, Value b) { return op<arith::CmpIOp>(p, a, b); }
  Value logicConstant(bool v) {
    return uniform(
        arith::ConstantOp::create(*body, loop.getLoc(), body->getBoolAttr(v)));
  }
  Value negate(Value a) { return op<arith::XOrIOp>(a, logicConstant(true)); }

  /// Index arithmetic of any form.
  Value anyIndex(int depth) {
    if (depth == 0)
      switch (pick(0, 4)) {
      case 0:
        return position(0);
      case 1:
        return position(1);
      case 2:
        return constant(pick(-6, 6));
      case 3:
        return uniform(args[pick(1, 4)]);
      default:
        return op<arith::SubIOp>(position(0), position(1));
      }
    Value a = anyIndex(depth - 1), b = anyIndex(pick(0, depth - 1));
    switch (pick(0, 10)) {
    case 0:
    case 1:
      return op<arith::AddIOp>(a, b);
    case 2:
    case 3:
      return op<arith::SubIOp>(a, b);
    case 4:
      return op<arith::MulIOp>(a, constant(pick(-3, 3)));
    case 5:
      return op<arith::DivSIOp>(a, constant(pick(1, 4)));
    case 6:
      return op<arith::RemSIOp>(a, constant(pick(1, 4)));
    case 7:
      return op<arith::FloorDivSIOp>(a, constant(pick(1, 4)));
    case 8:
      return op<arith::MinSIOp>(a, b);
    case 9:
      return op<arith::MaxSIOp>(a, b);
    default:
      return op<arith::SelectOp>(anyMask(0), a, b);
    }
  }
  Value anyMask(int depth) {
    if (depth == 0)
      switch (pick(0, 9)) {
      case 0:
        return uniform(args[5]);
      case 1:
        return logicConstant(pick(0, 1));
      default:
        return cmp((P)pick(0, 9), anyIndex(pick(0, 2)), anyIndex(pick(0, 1)));
      }
    Value a = anyMask(depth - 1), b = anyMask(pick(0, depth - 1));
    switch (pick(0, 4)) {
    case 0:
    case 1:
      return op<arith::AndIOp>(a, b);
    case 2:
      return op<arith::OrIOp>(a, b);
    case 3:
      return op<arith::XOrIOp>(a, b);
    default:
      return op<arith::SelectOp>(anyMask(0), a, b);
    }
  }

  /// a <= b, written in one of many ways.
  Value atMost(Value a, Value b) {
    switch (pick(0, 6)) {
    case 0:
      return negate(cmp(P::sgt, a, b));
    case 1:
      return op<arith::SelectOp>(cmp(P::slt, b, a), logicConstant(false),
                                 logicConstant(true));
    case 2:
      return cmp(P::sle, op<arith::SubIOp>(a, b), constant(0));
    case 3:
      return cmp(P::sle, op<arith::AddIOp>(a, constant(5)),
                 op<arith::AddIOp>(constant(5), b));
    case 4:
      return cmp(P::sgt, op<arith::AddIOp>(b, constant(1)), a);
    case 5:
      return cmp(P::eq, op<arith::MinSIOp>(a, b), a);
    default:
      return cmp(P::sle, a, b);
    }
  }
  Value lengths() {
    return op<arith::AndIOp>(cmp(P::slt, position(0), uniform(args[1])),
                             cmp(P::slt, position(1), uniform(args[2])));
  }
  /// i + off, off the difference of lengths or a number.
  Value shifted() {
    return op<arith::AddIOp>(position(0),
                             uniform(op<arith::SubIOp>(args[2], args[1])));
  }
  Value causal() { return atMost(position(1), shifted()); }
  Value window() {
    return atMost(shifted(), op<arith::AddIOp>(position(1), uniform(args[3])));
  }
  Value prefix() {
    return op<arith::OrIOp>(
        atMost(op<arith::AddIOp>(position(1), constant(1)), uniform(args[4])),
        causal());
  }

  /// Compares the analysis with all entries, for several arguments.
  void check(Value mask, bool mustBeExact) {
    MaskAnalysis analysis(mask, loop);
    EXPECT_TRUE(analysis.isUnderstood() || !mustBeExact);
    OpBuilder before(loop);
    MaskAnalysis::Range range = analysis.emitRange(before, loop.getLoc());
    Value any = analysis.emitAny(*body, loop.getLoc()),
          all = analysis.emitAll(*body, loop.getLoc());
    for (int round = 0; round < 8; ++round) {
      DenseMap<Value, Entries> given;
      int64_t sq = pick(0, 13), sk = pick(0, 13);
      int64_t step = loopOverKeys ? cols : rows,
              otherStep = loopOverKeys ? rows : cols;
      int64_t other = otherStep * pick(0, 12 / otherStep);
      const Entries values{other,       sq,           sk,
                           pick(-3, 9), pick(-3, 14), pick(0, 1)};
      for (auto [arg, value] : llvm::zip_equal(args, values))
        given[arg] = {value};
      Interpreter outside{given};
      int64_t lo = outside.eval(range.lo)[0], hi = outside.eval(range.hi)[0];
      int64_t end = loopOverKeys ? sk : sq;
      ASSERT_TRUE(lo >= 0 && (lo % step == 0 || lo == end))
          << lo << " is between blocks of " << step;
      ASSERT_LE(hi, end);
      for (int64_t x = 0; x < end; x += step) {
        Interpreter inside{given};
        inside.known[loop.getInductionVar()] = {x};
        const Entries entries = inside.eval(mask);
        bool some = llvm::is_contained(entries, 1),
             every = !llvm::is_contained(entries, 0);
        bool maybe = inside.eval(any)[0], sure = inside.eval(all)[0];
        bool visited = lo <= x && x < hi;
        if ((some && !maybe) || (sure && !every) || (some && !visited) ||
            (range.exact && visited && !maybe) ||
            (mustBeExact && (some != maybe || every != sure))) {
          loop->getParentOp()->dump();
          FAIL() << "block " << x << " of " << end << ", other " << other
                 << ", sq " << sq << ", sk " << sk << ": some " << some
                 << " any " << maybe << " every " << every << " all " << sure
                 << " in [" << lo << ", " << hi << ")"
                 << (range.exact ? " exact" : "");
        }
        tight += maybe == some && sure == every;
        ++tiles;
      }
    }
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  ValueRange args;
  scf::ForOp loop;
  std::optional<OpBuilder> body;
  int64_t rows = 1, cols = 1;
  bool loopOverKeys = true;
  std::mt19937 random{20240917};
  int64_t tiles = 0, tight = 0;
};

TEST_F(MaskTest, NeverHidesAVisibleEntry) {
  for (int n = 0; n < 600 && !HasFatalFailure(); ++n) {
    start();
    SCOPED_TRACE("mask " + std::to_string(n));
    check(anyMask(pick(0, 3)), /*mustBeExact=*/false);
  }
  // Masks with quotients and factors are not exact; most tiles still are.
  EXPECT_GT(tight * 4, tiles * 3) << tight << " of " << tiles;
}

TEST_F(MaskTest, IsExactForCausalWindowPrefixInEveryForm) {
  for (int n = 0; n < 300 && !HasFatalFailure(); ++n) {
    start();
    SCOPED_TRACE("mask " + std::to_string(n));
    Value mask = lengths();
    int64_t kind = pick(0, 3);
    if (kind == 0 || kind == 1)
      mask = op<arith::AndIOp>(mask, causal());
    if (kind == 1 || kind == 2)
      mask = op<arith::AndIOp>(window(), mask);
    if (kind == 3)
      mask = op<arith::AndIOp>(mask, prefix());
    check(mask, /*mustBeExact=*/true);
  }
}

TEST_F(MaskTest, DiagonalBlocksAreExactForAlignedTiles) {
  do
    start();
  while (rows != cols);
  auto block = [&](unsigned dim) {
    return op<arith::DivSIOp>(position(dim), constant(rows));
  };
  check(cmp(P::eq, block(0), block(1)), true);
}

TEST_F(MaskTest, OnlyIndexArithmeticIsUnderstood) {
  start();
  Value i32 = arith::IndexCastOp::create(
      *body, loop.getLoc(),
      RankedTensorType::get({rows, cols}, body->getI32Type()), position(0));
  Value odd = cmp(P::eq, i32, i32);
  EXPECT_FALSE(MaskAnalysis(odd, loop).isUnderstood());
  Value mixed = op<arith::AndIOp>(odd, logicConstant(false));
  MaskAnalysis a(mixed, loop);
  EXPECT_FALSE(a.canBeAll());
}
} // namespace
