//===- RegionEvaluatorTest.cpp - integers of the region evaluator -----------===//
//
// Integer and comparison ops against MLIR's own constant folding. Floats and
// derivatives are tested in tests/passes/DifferentiateTest.cpp.
//
//===----------------------------------------------------------------------===//

#include "runtime/oracle/RegionEvaluator.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"
#include <chrono>
#include <random>

using namespace fathom;
using namespace fathom::oracle;

namespace {

class RegionEvaluator : public ::testing::Test {
protected:
  RegionEvaluator() {
    mlir::DialectRegistry registry;
    registerFA(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }

  VariantInterface parse(const std::string &text) {
    module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    return module ? *module->getOps<VariantInterface>().begin()
                  : VariantInterface();
  }

  /// Computes `op`, of type `type` from operands of type `from`, at x and y, and
  /// expects what MLIR folds it to. False if it does not fold (x / 0).
  bool expectFolded(const std::string &op, const std::string &from,
                    const std::string &type, std::vector<int64_t> operands,
                    const std::string &suffix) {
    std::string text = "fa.variant @v()\nmask (%b: index, %h: index, %i: "
                       "index, %j: index) {\n";
    std::string names;
    for (size_t n = 0; n < operands.size(); ++n) {
      text += "%x" + std::to_string(n) + " = arith.constant " +
              (from == "i1" ? (operands[n] & 1 ? "true" : "false")
                            : std::to_string(operands[n])) +
              (from == "i1" ? "\n" : " : " + from + "\n");
      names += (n ? ", %x" : "%x") + std::to_string(n);
    }
    text += "%r = " + op + " " + names + " : " + suffix +
            "\n%w = arith.constant " +
            (type == "i1" ? "false" : "0 : " + type) +
            "\n%e = arith.cmpi eq, %r, %w : " + type + "\nfa.yield %e : i1\n}";
    VariantInterface v = parse(text);
    EXPECT_TRUE(v) << text;
    mlir::Block &block = v.getMask().front();
    auto it = std::next(block.begin(), operands.size());
    llvm::SmallVector<mlir::Attribute> constants(operands.size());
    for (size_t n = 0; n < operands.size(); ++n)
      mlir::matchPattern(it->getOperand(n), mlir::m_Constant(&constants[n]));
    llvm::SmallVector<mlir::OpFoldResult> folded;
    if (failed(it->fold(constants, folded)) || folded.size() != 1)
      return false;
    mlir::Attribute result = llvm::dyn_cast<mlir::Attribute>(folded[0]);
    if (!result) // one of the operands
      mlir::matchPattern(llvm::cast<mlir::Value>(folded[0]),
                         mlir::m_Constant(&result));
    llvm::cast<mlir::arith::ConstantOp>(*std::next(it))
        .setValueAttr(llvm::cast<mlir::TypedAttr>(result));
    auto e = VariantEvaluator<double>::create(v, {});
    EXPECT_TRUE(succeeded(e) && e->visible({})) << text;
    return true;
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

TEST_F(RegionEvaluator, IntegersAgreeWithFolding) {
  std::mt19937_64 random(5);
  auto value = [&](const std::string &type) -> int64_t {
    int64_t v = random();
    if (random() % 2)
      v = v % 20;
    return type == "i8" ? (int8_t)v : type == "i32" ? (int32_t)v : v;
  };
  int folded = 0;
  for (std::string type : {"i1", "i8", "i32", "i64", "index"}) {
    for (std::string op :
         {"addi",      "subi",      "muli",       "divsi", "divui",
          "ceildivsi", "ceildivui", "floordivsi", "remsi", "remui",
          "andi",      "ori",       "xori",       "shli",  "shrsi",
          "shrui",     "minsi",     "maxsi",      "minui", "maxui"})
      for (int n = 0; n < 12; ++n)
        folded += expectFolded("arith." + op, type, type,
                               {value(type), value(type)}, type);
    for (std::string p :
         {"eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"})
      for (int n = 0; n < 6; ++n)
        folded += expectFolded("arith.cmpi " + p + ",", type, "i1",
                               {value(type), value(type)}, type);
  }
  struct Cast {
    const char *op, *from, *to;
  };
  for (Cast c : std::initializer_list<Cast>{{"extsi", "i8", "i32"},
                                            {"extui", "i8", "i32"},
                                            {"extsi", "i1", "i32"},
                                            {"extui", "i1", "i32"},
                                            {"trunci", "i64", "i8"},
                                            {"trunci", "i32", "i1"},
                                            {"index_cast", "i32", "index"},
                                            {"index_cast", "index", "i8"},
                                            {"index_castui", "i8", "index"}})
    for (int n = 0; n < 6; ++n)
      folded +=
          expectFolded(std::string("arith.") + c.op, c.from, c.to,
                       {value(c.from)}, std::string(c.from) + " to " + c.to);
  EXPECT_GT(folded, 1000);
}

/// Many threads may use one evaluator, and a reference run takes millions of
/// scores: this prints what one costs.
TEST_F(RegionEvaluator, Speed) {
  VariantInterface v =
      parse(R"(fa.variant @v(%slopes: tensor<?xf32>, %cap: f32) causal
score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
  %0 = arith.divf %s, %cap : f32
  %1 = math.tanh %0 : f32
  %2 = arith.mulf %1, %cap : f32
  %3 = tensor.extract %slopes[%h] : tensor<?xf32>
  %4 = fa.distance %i, %j : f32
  %5 = arith.mulf %3, %4 : f32
  %6 = arith.subf %2, %5 : f32
  fa.yield %6 : f32
})");
  double slope = 0.25, cap = 30;
  auto e =
      VariantEvaluator<double>::create(v, {{&slope, {1}, {1}}, {&cap, {}, {}}});
  ASSERT_TRUE(succeeded(e));
  const int count = 200000;
  auto seconds = [&](auto one) {
    auto start = std::chrono::steady_clock::now();
    for (int n = 0; n < count; ++n)
      one(n);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                         start)
        .count();
  };
  double sum = 0, ds;
  Contributions<double> byCapture;
  double plain = seconds(
      [&](int n) { sum += e->score(n * 1e-4, {0, 0, n, 0, n + 1, n + 1}); });
  double dual = seconds([&](int n) {
    e->score(n * 1e-4, {0, 0, n, 0, n + 1, n + 1}, ds, byCapture);
  });
  std::cout << "a score: " << plain / count * 1e9 << " ns, with derivatives "
            << dual / count * 1e9 << " ns\n";
  EXPECT_TRUE(std::isfinite(sum));
}

} // namespace
