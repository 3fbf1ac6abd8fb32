//===- DifferentiateTest.cpp - derived gradients against dual numbers -------===//
//
// Random score programs over every op that fa-differentiate has a rule for,
// with random sugar and captures of several types. The dscore region that the
// pass derives is evaluated and compared with dual numbers over the variant as
// it was written; the normalized regions are compared with it as well.
//
// Another seed: DifferentiateTest --gtest_random_seed=N.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "runtime/oracle/RegionEvaluator.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "gtest/gtest.h"
#include <cmath>
#include <map>
#include <random>

using namespace fathom;
using namespace fathom::oracle;

namespace {

constexpr int64_t kB = 2, kH = 3, kSq = 5, kSk = 7;

/// Writes one random variant.
class Generator {
public:
  Generator(std::mt19937_64 &random) : random(random) {}

  /// The program uses op number `must` (modulo the ops there are) on s.
  std::string variant(size_t must) {
    std::string sugar = randomSugar();
    floats = {"%s", "%scalar"};
    indexes = {"%h", "%i", "%j"};
    body = "";
    next = 0;
    steps = ops().size();
    step(must % steps, "%s");
    for (int n = pick(2, 10); n > 0; --n)
      step(random() % steps, anyFloat());
    std::string result = floats.back();
    if (result != "%s" && coin())
      result = f("arith.addf", {result, anyFloat()});
    std::string score = body, mask;
    if (coin()) {
      body = "";
      indexes = {"%h", "%i", "%j"};
      std::string visible = compareIndexes();
      for (int n = pick(0, 2); n > 0; --n) {
        std::string other = compareIndexes();
        visible =
            value(coin() ? "arith.andi" : "arith.ori", {visible, other}, "i1");
      }
      mask = "mask (%b: index, %h: index, %i: index, %j: index) {\n" + body +
             "  fa.yield " + visible + " : i1\n}\n";
    }
    return "fa.variant @v(%scalar: f32, %slopes: tensor<?xf32>, %bias: "
           "tensor<?x?xbf16>, %count: "
           "tensor<?xi32>) " +
           sugar +
           "\nscore (%s: f32, %b: index, %h: index, %i: index, %j: index) {\n" +
           score + "  fa.yield " + result + " : f32\n}\n" + mask;
  }

private:
  using Rule = std::function<std::string(std::string)>;

  int pick(int low, int high) { return low + random() % (high - low + 1); }
  bool coin() { return random() % 2; }
  std::string anyFloat() {
    // Mostly what was made last, so that programs are deep.
    return coin() ? floats.back() : floats[random() % floats.size()];
  }

  std::string value(const std::string &op, std::vector<std::string> operands,
                    std::string type) {
    std::string name = "%v" + std::to_string(next++);
    body += "  " + name + " = " + op;
    for (size_t n = 0; n < operands.size(); ++n)
      body += (n ? ", " : " ") + operands[n];
    body += " : " + type + "\n";
    return name;
  }
  std::string f(const std::string &op, std::vector<std::string> operands) {
    return value(op, operands, "f32");
  }
  std::string number(double v) {
    return value("arith.constant " + std::to_string(v), {}, "f32");
  }
  std::string randomNumber() { return number(pick(-20, 20) / 8.0); }
  std::string index(int64_t v) {
    return value("arith.constant " + std::to_string(v), {}, "index");
  }
  std::string compareIndexes() {
    static const char *ops[] = {"slt", "sle", "sgt", "sge",
                                "eq",  "ne",  "ult", "uge"};
    std::string a = arithmetic(), b = coin() ? arithmetic() : index(pick(0, 6));
    return value(std::string("arith.cmpi ") + ops[random() % 8] + ",", {a, b},
                 "index");
  }
  std::string arithmetic() {
    static const char *ops[] = {"arith.addi",  "arith.subi",  "arith.muli",
                                "arith.minsi", "arith.maxsi", "arith.remsi",
                                "arith.divsi"};
    std::string a = indexes[random() % indexes.size()];
    if (coin())
      return a;
    if (pick(0, 5) == 0)
      return value(coin() ? "fa.seqlen_q" : "fa.seqlen_k", {}, "index");
    size_t op = random() % 7;
    std::string b =
        op < 5 ? indexes[random() % indexes.size()] : index(pick(1, 4));
    std::string r = value(ops[op], {a, b}, "index");
    indexes.push_back(r);
    return r;
  }
  std::string compareFloats(const std::string &a) {
    static const char *ops[] = {"olt", "ole", "ogt", "oge",
                                "ult", "uge", "une"};
    return value(std::string("arith.cmpf ") + ops[random() % 7] + ",",
                 {a, coin() ? randomNumber() : anyFloat()}, "f32");
  }

  /// |x| + low: where log and the like are smooth.
  std::string positive(const std::string &x, double low = 0.5) {
    return f("arith.addf", {f("math.absf", {x}), number(low)});
  }
  /// In (-1, 1), not too near the ends.
  std::string small(const std::string &x) {
    return f("arith.mulf", {f("math.sin", {x}), number(0.875)});
  }
  /// op(x) where x is in its domain, and a number elsewhere: there op's
  /// derivative is NaN or infinite, and must not be seen.
  std::string guarded(const std::string &op, const std::string &x) {
    std::string r = f(op, {x}), other = randomNumber();
    std::string inside = value("arith.cmpf ogt,", {x, number(0.125)}, "f32");
    if (coin())
      return value("arith.select", {inside, r, other}, "f32");
    std::string outside = value("arith.cmpf ule,", {x, number(0.125)}, "f32");
    return value("arith.select", {outside, other, r}, "f32");
  }

  const std::vector<Rule> &ops() {
    if (!rules.empty())
      return rules;
    auto add = [&](Rule r) { rules.push_back(std::move(r)); };
    for (const char *op :
         {"arith.addf", "arith.subf", "arith.mulf", "arith.minimumf",
          "arith.maximumf", "arith.minnumf", "arith.maxnumf", "math.copysign"})
      for (bool swap : {false, true})
        add([=, this](std::string x) {
          std::string y = coin() ? anyFloat() : randomNumber();
          return swap ? f(op, {y, x}) : f(op, {x, y});
        });
    for (const char *op : {"arith.divf", "arith.remf"}) {
      add([=, this](std::string x) {
        return f(op, {x, positive(anyFloat())});
      });
      add([=, this](std::string x) {
        return f(op, {anyFloat(), positive(x)});
      });
    }
    for (const char *op :
         {"arith.negf", "math.absf", "math.sin", "math.cos", "math.tanh",
          "math.erf", "math.erfc", "math.atan", "math.asinh"})
      add([=, this](std::string x) { return f(op, {x}); });
    // These grow fast: on a bounded argument.
    for (const char *op :
         {"math.exp", "math.exp2", "math.expm1", "math.sinh", "math.cosh"})
      add([=, this](std::string x) {
        return f(op, {f("arith.mulf", {small(x), number(3)})});
      });
    for (const char *op : {"math.asin", "math.acos", "math.atanh", "math.tan"})
      add([=, this](std::string x) { return f(op, {small(x)}); });
    for (const char *op : {"math.log", "math.log2", "math.log10", "math.sqrt",
                           "math.rsqrt", "math.cbrt"}) {
      add([=, this](std::string x) { return f(op, {positive(x)}); });
      add([=, this](std::string x) { return guarded(op, x); });
    }
    add([this](std::string x) { return f("math.log1p", {positive(x, -0.5)}); });
    add([this](std::string x) { return f("math.acosh", {positive(x, 1.25)}); });
    add([this](std::string x) {
      return f("math.atan2", {x, positive(anyFloat())});
    });
    add([this](std::string x) {
      return f("math.atan2", {anyFloat(), positive(x)});
    });
    add([this](std::string x) {
      return f("math.powf", {positive(x), small(anyFloat())});
    });
    add([this](std::string x) {
      return f("math.powf", {positive(anyFloat()), small(x)});
    });
    add([this](std::string x) {
      return f("math.powf", {x, number(pick(0, 3))});
    });
    add([this](std::string x) {
      return value("math.fpowi", {positive(x), smallInteger()}, "f32, i32");
    });
    add([this](std::string x) {
      return f("math.fma", {x, anyFloat(), small(anyFloat())});
    });
    add([this](std::string x) {
      return f("math.fma", {anyFloat(), randomNumber(), x});
    });
    for (const char *op : {"math.floor", "math.ceil", "math.round",
                           "math.roundeven", "math.trunc"})
      add([=, this](std::string x) {
        return f("arith.addf", {f(op, {x}), anyFloat()});
      });
    add([this](std::string x) {
      return value("arith.select", {compareFloats(x), anyFloat(), x}, "f32");
    });
    add([this](std::string x) {
      return value("arith.select", {compareIndexes(), x, anyFloat()}, "f32");
    });
    add([this](std::string x) { // through integers: derivative 0
      std::string n = value("arith.fptosi", {small(x)}, "f32 to i32");
      return f("arith.addf",
               {value("arith.sitofp", {n}, "i32 to f32"), anyFloat()});
    });
    add([this](std::string x) {
      std::string n = value("arith.fptoui", {positive(small(x))}, "f32 to i32");
      return f("arith.addf", {value("arith.uitofp", {n}, "i32 to f32"), x});
    });
    add([this](std::string x) {
      return f("arith.mulf", {x, value("fa.distance %i, %j", {}, "f32")});
    });
    add([this](std::string x) {
      return f("arith.mulf",
               {x, value("tensor.extract %slopes[%h]", {}, "tensor<?xf32>")});
    });
    add([this](
            std::string x) { // a captured bf16 table, at an index that repeats
      std::string zero = index(0);
      std::string t = value("tensor.extract %bias[" +
                                (coin() ? std::string("%i") : zero) + ", %j]",
                            {}, "tensor<?x?xbf16>");
      return f("arith.addf", {x, value("arith.extf", {t}, "bf16 to f32")});
    });
    add([this](std::string x) { // computed in bf16
      std::string n = value("arith.truncf", {small(x)}, "f32 to bf16");
      std::string t =
          value("tensor.extract %bias[%i, %j]", {}, "tensor<?x?xbf16>");
      std::string m =
          value(coin() ? "arith.mulf" : "arith.subf", {n, t}, "bf16");
      return value("arith.extf", {m}, "bf16 to f32");
    });
    add([this](std::string x) { // in f64 and back
      std::string w = value("arith.extf", {x}, "f32 to f64");
      std::string m = value("arith.mulf", {w, w}, "f64");
      return value("arith.truncf", {value("math.tanh", {m}, "f64")},
                   "f64 to f32");
    });
    return rules;
  }
  std::string smallInteger() {
    std::string n = value("tensor.extract %count[%h]", {}, "tensor<?xi32>");
    return n;
  }

  void step(size_t op, const std::string &x) {
    std::string r = ops()[op](x);
    // Values stay in a range where f64 tells a wrong gradient from rounding.
    if (pick(0, 2) == 0)
      r = f("math.sin", {r});
    floats.push_back(r);
  }

  std::string randomSugar() {
    std::string s;
    if (pick(0, 2) == 0)
      s += "causal ";
    if (coin())
      s += "top_left ";
    if (pick(0, 2) == 0)
      s += "window(left = " + std::to_string(pick(0, 4)) +
           (coin() ? ", right = 1) " : ") ");
    int cap = pick(0, 3);
    if (cap == 0)
      s += "softcap(1.5) ";
    if (cap == 1)
      s += "softcap(%scalar) ";
    if (pick(0, 2) == 0)
      s += "alibi(%slopes) ";
    return s;
  }

  std::mt19937_64 &random;
  std::vector<Rule> rules;
  std::vector<std::string> floats, indexes;
  std::string body;
  size_t steps = 0;
  int next = 0;
};

struct Arrays {
  std::vector<double> scalar{1.375}, slopes, bias, count;
  std::vector<CapturedArray> captures;

  explicit Arrays(std::mt19937_64 &random) {
    std::normal_distribution<double> d;
    for (int64_t n = 0; n < kH; ++n)
      slopes.push_back(d(random));
    for (int64_t n = 0; n < kSq * kSk; ++n)
      bias.push_back(
          std::ldexp(std::round(std::ldexp(d(random), 6)), -6)); // fits in bf16
    count = {0, 1, 3};
    captures = {{scalar.data(), {}, {}},
                {slopes.data(), {kH}, {1}},
                {bias.data(), {kSq, kSk}, {kSk, 1}},
                {count.data(), {kH}, {1}}};
  }
};

class Differentiate : public ::testing::Test {
protected:
  Differentiate() {
    mlir::DialectRegistry registry;
    registerFA(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    // The road all programs go.
    for (const char *dtype : {"f64", "f32"}) {
      auto pm = std::make_unique<mlir::PassManager>(&context);
      SpecializePassOptions options;
      options.dtype = dtype;
      options.headDimQK = 8;
      pm->addPass(createSpecializePass(options));
      pm->addPass(createNormalizeVariantPass());
      pm->addPass(createDifferentiatePass());
      passes[dtype] = std::move(pm);
    }
  }

  /// The variant in `text`, and the joint function made of it.
  void load(const std::string &text, const std::string &dtype) {
    written = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    ASSERT_TRUE(written) << text;
    variant = *written->getOps<VariantInterface>().begin();
    compiled = written->clone();
    ASSERT_TRUE(succeeded(passes[dtype]->run(*compiled))) << text;
    compiled->walk([&](AttentionOp op) { attention = op; });
    compiled->walk([&](AttentionGradOp op) { gradient = op; });
  }

  /// The joint function reads back as itself and is in canonical form: the
  /// cache hashes its text.
  void expectStable() {
    auto text = [](mlir::ModuleOp module) {
      std::string s;
      llvm::raw_string_ostream(s) << module;
      return s;
    };
    std::string once = text(*compiled);
    auto parsed = mlir::parseSourceString<mlir::ModuleOp>(once, &context);
    ASSERT_TRUE(parsed) << once;
    ASSERT_EQ(text(*parsed), once);
    mlir::PassManager again(&context);
    again.addPass(createNormalizeVariantPass());
    ASSERT_TRUE(succeeded(again.run(*parsed)));
    ASSERT_EQ(text(*parsed), once);
  }

  mlir::MLIRContext context;
  std::map<std::string, std::unique_ptr<mlir::PassManager>> passes;
  mlir::OwningOpRef<mlir::ModuleOp> written, compiled;
  VariantInterface variant;
  AttentionOp attention;
  AttentionGradOp gradient;
};

/// The program of a region, or none for an empty region, which changes nothing.
std::optional<RegionProgram<double>> programOf(VariantInterface op,
                                               mlir::Region &region) {
  if (region.empty())
    return std::nullopt;
  return *RegionProgram<double>::compile(op, region);
}

using Sums = std::map<std::pair<unsigned, int64_t>, double>;

template <typename T>
Sums sum(const Contributions<T> &c, double factor) {
  Sums sums;
  for (auto &[capture, entry, v] : c)
    sums[{capture, entry}] += factor * (double)v;
  return sums;
}

TEST_F(Differentiate, RandomProgramsAgreeWithDualNumbers) {
  const int programs = 500, points = 40;
  auto seed = GTEST_FLAG_GET(random_seed);
  std::cout << "seed " << seed << "\n";
  std::mt19937_64 random(seed);
  Generator generator(random);
  Arrays arrays(random);
  std::normal_distribution<double> normal;
  int compared = 0, withPoints = 0, visible = 0;

  for (int p = 0; p < programs && !HasFailure(); ++p) {
    bool f64 = p % 4 != 3;
    std::string text = generator.variant(p);
    SCOPED_TRACE("seed " + std::to_string(seed) + ", program " +
                 std::to_string(p) + "\n" + text);
    ASSERT_NO_FATAL_FAILURE(load(text, f64 ? "f64" : "f32"));
    if (p % 10 == 0)
      ASSERT_NO_FATAL_FAILURE(expectStable());
    auto exact = VariantEvaluator<double>::create(variant, arrays.captures);
    auto wide = VariantEvaluator<long double>::create(variant, arrays.captures);
    ASSERT_TRUE(succeeded(exact) && succeeded(wide));
    auto scoreOf = programOf(attention, attention.getScore());
    auto maskOf = programOf(attention, attention.getMask());
    auto dscore = programOf(gradient, gradient.getDscore());

    int before = compared;
    for (int n = 0; n < points; ++n) {
      Point at{(int64_t)(random() % kB),
               (int64_t)(random() % kH),
               (int64_t)(random() % kSq),
               (int64_t)(random() % kSk),
               kSq,
               kSk};
      double s = normal(random), g = normal(random), byS;
      ASSERT_EQ(exact->visible(at),
                !maskOf || maskOf->test(at, arrays.captures));
      visible += exact->visible(at);

      Contributions<double> duals;
      double value = exact->score(s, at, byS, duals);
      long double wideByS;
      Contributions<long double> wideDuals;
      wide->score(s, at, wideByS, wideDuals);
      Sums expected = sum(duals, g), wideExpected = sum(wideDuals, g);
      expected[{~0u, 0}] = g * byS;
      wideExpected[{~0u, 0}] = g * (double)wideByS;
      // Only where the program has a finite gradient that f64 resolves.
      bool smooth = std::isfinite(value) && std::abs(value) < 1e6;
      for (auto &[entry, v] : expected)
        smooth &= std::isfinite(v) && std::abs(v) < 1e6 &&
                  std::abs(v - wideExpected[entry]) < 1e-9 * (1 + std::abs(v));
      if (!smooth)
        continue;
      ++compared;

      double tolerance =
          f64 ? 1e-7 : 1e-4; // constants of an f32 instance are rounded to f32
      double normalized =
          scoreOf ? scoreOf->evaluate({s}, at, arrays.captures) : s;
      ASSERT_NEAR(normalized, value, tolerance * (1 + std::abs(value)));
      Contributions<double> contributed;
      double ds =
          dscore ? dscore->evaluate({s, g}, at, arrays.captures, &contributed)
                 : g;
      Sums got = sum(contributed, 1);
      got[{~0u, 0}] = ds;
      for (auto &[entry, v] : got)
        expected.try_emplace(entry, 0);
      for (auto &[entry, v] : expected)
        ASSERT_NEAR(got[entry], v, tolerance * (1 + std::abs(v)))
            << "capture " << (int)entry.first << " entry " << entry.second
            << " at s = " << s << " b, h, i, j = " << at.b << " " << at.h << " "
            << at.i << " " << at.j;
    }
    withPoints += compared > before;
  }
  EXPECT_GE(withPoints, programs * 95 / 100);
  EXPECT_GE(compared, programs * points * 9 / 10);
  EXPECT_GT(visible, 0);
  std::cout << "count: score-programs " << withPoints << "\n";
}

/// At ties and kinks the pass and the duals follow one convention.
TEST_F(Differentiate, TiesFollowOneConvention) {
  std::mt19937_64 random(1);
  Arrays arrays(random);
  struct Case {
    const char *body;
    double s, gradient;
  };
  for (Case c : std::initializer_list<Case>{
           {"%r = arith.maximumf %s, %z : f32", 0, 0.5},
           {"%r = arith.maximumf %z, %s : f32", 0, 0.5},
           {"%r = arith.minimumf %s, %z : f32", 0, 0.5},
           {"%r = arith.minimumf %z, %s : f32", 0, 0.5},
           {"%r = arith.maxnumf %s, %z : f32", 0, 0.5},
           {"%r = arith.minnumf %z, %s : f32", 0, 0.5},
           {"%n = arith.divf %z, %z : f32  %r = arith.maxnumf %n, %s : f32", 0,
            1},
           {"%n = arith.divf %z, %z : f32  %r = arith.minnumf %s, %n : f32", 0,
            1},
           {"%r = arith.maximumf %s, %s : f32", 0, 1},
           {"%r = math.absf %s : f32", 0, 0},
           {"%r = math.copysign %s, %z : f32", 0, 0},
           {"%r = math.powf %s, %z : f32", 0, 0},
           {"%n = arith.constant 3.0 : f32  %r = math.powf %s, %n : f32", -2,
            12},
           {"%m = arith.maximumf %s, %z : f32  %r = math.sqrt %m : f32", -1, 0},
           {"%a = math.absf %s : f32  %r = math.sqrt %a : f32", 4, 0.25},
           {"%l = math.log %s : f32  %m = arith.mulf %l, %s : f32  %c = "
            "arith.cmpf ogt, %s, %z : f32 "
            "%r = arith.select %c, %m, %z : f32",
            0, 0},
           {"%l = math.log %s : f32  %m = arith.mulf %l, %s : f32  %c = "
            "arith.cmpf ogt, %s, %z : f32 "
            "%r = arith.select %c, %m, %z : f32",
            1, 1},
           // One value reaches the result on both ways.
           {"%q = math.sqrt %s : f32  %c = arith.cmpf ogt, %s, %z : f32  %n = "
            "arith.negf %q : f32 "
            "%r = arith.select %c, %q, %n : f32",
            0.25, 1},
       }) {
    SCOPED_TRACE(c.body);
    ASSERT_NO_FATAL_FAILURE(
        load(std::string("fa.variant @v()\nscore (%s: f32, %b: index, %h: "
                         "index, %i: index, %j: "
                         "index) {\n%z = arith.constant 0.0 : f32\n") +
                 c.body + "\nfa.yield %r : f32\n}",
             "f64"));
    auto dscore = programOf(gradient, gradient.getDscore());
    double ds = dscore ? dscore->evaluate({c.s, 1.0}, {}, {}) : 1;
    auto exact = VariantEvaluator<double>::create(variant, {});
    EXPECT_EQ(ds, c.gradient);
    double dual;
    Contributions<double> none;
    exact->score(c.s, {}, dual, none);
    EXPECT_EQ(dual, c.gradient);
  }
}

/// The dual numbers themselves, against differences of long doubles.
TEST_F(Differentiate, DualNumbersAgreeWithDifferences) {
  struct Case {
    const char *op;
    double x, y;
  };
  for (Case c : std::initializer_list<Case>{
           {"math.exp %s", .3, 0},
           {"math.exp2 %s", .3, 0},
           {"math.expm1 %s", .3, 0},
           {"math.log %s", .3, 0},
           {"math.log2 %s", .3, 0},
           {"math.log10 %s", .3, 0},
           {"math.log1p %s", .3, 0},
           {"math.sqrt %s", .3, 0},
           {"math.rsqrt %s", .3, 0},
           {"math.cbrt %s", -.3, 0},
           {"math.sin %s", .3, 0},
           {"math.cos %s", .3, 0},
           {"math.tan %s", .3, 0},
           {"math.asin %s", .3, 0},
           {"math.acos %s", .3, 0},
           {"math.atan %s", .3, 0},
           {"math.sinh %s", .3, 0},
           {"math.cosh %s", .3, 0},
           {"math.tanh %s", .3, 0},
           {"math.asinh %s", .3, 0},
           {"math.acosh %s", 1.3, 0},
           {"math.atanh %s", .3, 0},
           {"math.erf %s", .3, 0},
           {"math.erfc %s", .3, 0},
           {"math.absf %s", -.3, 0},
           {"arith.negf %s", .3, 0},
           {"arith.addf %s, %y", .3, .7},
           {"arith.subf %y, %s", .3, .7},
           {"arith.mulf %s, %y", .3, .7},
           {"arith.divf %y, %s", .3, .7},
           {"arith.divf %s, %y", .3, .7},
           {"arith.remf %s, %y", 2.3, .7},
           {"arith.remf %y, %s", .3, .7},
           {"math.powf %s, %y", .3, .7},
           {"math.powf %y, %s", .3, .7},
           {"math.atan2 %s, %y", .3, .7},
           {"math.atan2 %y, %s", .3, .7},
           {"math.copysign %s, %y", .3, -.7},
           {"math.fma %s, %y, %s", .3, .7},
           {"math.fma %s, %s, %y", .3, .7},
           {"arith.minimumf %s, %y", .3, .7},
           {"arith.maximumf %s, %y", .3, .7},
           {"arith.minnumf %s, %y", .3, .7},
           {"arith.maxnumf %s, %y", .3, .7},
           {"math.floor %s", .3, 0},
       }) {
    SCOPED_TRACE(c.op);
    written = mlir::parseSourceString<mlir::ModuleOp>(
        std::string("fa.variant @v(%y: f32)\nscore (%s: f32, %b: index, %h: "
                    "index, %i: index, %j: "
                    "index) {\n%r = ") +
            c.op + " : f32\nfa.yield %r : f32\n}",
        &context);
    ASSERT_TRUE(written);
    auto score = VariantEvaluator<long double>::create(
        *written->getOps<VariantInterface>().begin(),
        {CapturedArray{&c.y, {}, {}}});
    ASSERT_TRUE(succeeded(score));
    long double ds, h = 1e-6L;
    Contributions<long double> byY;
    EXPECT_EQ(score->score(c.x, {}, ds, byY), score->score(c.x, {}));
    long double difference =
        (score->score(c.x + h, {}) - score->score(c.x - h, {})) / (2 * h);
    EXPECT_NEAR((double)ds, (double)difference, 1e-9);
    double y = c.y;
    c.y = y + 1e-6;
    long double up = score->score(c.x, {});
    c.y = y - 1e-6;
    long double down = score->score(c.x, {});
    EXPECT_NEAR((double)(byY.empty() ? 0 : byY[0].value),
                (double)((up - down) / 2e-6L), 1e-8);
  }
}

} // namespace
