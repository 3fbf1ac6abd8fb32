//===- GradientTest.cpp - gradients against differences ---------------------===//
//
// On small f64 inputs the compiled gradients agree with central differences of
// the compiled forward, and rowsum(P o dP) with rowsum(dO o O), the identity
// that fa-hoist-d-preprocess rests on.
//
//===----------------------------------------------------------------------===//

#include "tests/e2e/Harness.h"

#include "runtime/oracle/RegionEvaluator.h"

using namespace fathom;
using namespace fathom::test;

namespace {

/// 13 queries and keys, head dim 8, plus what each variant needs.
std::vector<Spec> smallSpecs() {
  std::vector<Spec> specs;
  for (Spec s : standardSpecs()) {
    if (s.name != "plain" && s.name != "causal" && s.name != "softcap" &&
        s.name != "alibi" && s.name != "window" && s.name != "gqa_8_2" &&
        s.name != "bias")
      continue;
    s.dtype = DType::f64;
    s.sq = s.sk = 13;
    s.d = s.dv = 8;
    if (s.name == "gqa_8_2") {
      s.heads = 4;
      s.kvHeads = 2;
    }
    specs.push_back(s);
  }
  return specs;
}

class Difference {
public:
  explicit Difference(World &w) : w(w) {
    CompileOptions o = w.options();
    o.instance.gradients = false;
    forward = w.compile(o);
  }

  /// sum(O * dO) + sum(L * dL) over rows that see a key.
  long double loss() {
    Results r = w.run(*forward);
    long double sum = 0;
    for (int64_t n = 0; n < r.o.size(); ++n)
      sum += (long double)r.o.load(n) * w.x.dO.load(n);
    for (int64_t n = 0; n < r.lse.size(); ++n)
      if (std::isfinite(r.lse.load(n)))
        sum += (long double)r.lse.load(n) * w.x.dLse.load(n);
    return sum;
  }

  /// max |gradient - difference|, by a five-point formula.
  double worst(Tensor x, const Tensor &gradient) {
    double most = 0;
    const double h = 1e-3;
    for (int64_t n = 0; n < x.size(); ++n) {
      double old = x.load(n);
      auto at = [&](double step) {
        x.store(n, old + step);
        return loss();
      };
      long double d =
          (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
      x.store(n, old);
      double error = std::abs((double)(d - gradient.load(n)));
      most = std::max(most, std::isnan(error) ? INFINITY : error);
    }
    return most;
  }

private:
  World &w;
  std::shared_ptr<const Executable> forward;
};

TEST(Gradient, AgreesWithCentralDifferences) {
  cpu::setThreadCount(1);
  for (const Spec &spec : smallSpecs()) {
    World w(spec);
    Results r = w.run(*w.compile(w.options()));
    Difference d(w);
    EXPECT_LE(d.worst(w.x.q, r.dq), 2e-9) << spec.name << " dq";
    EXPECT_LE(d.worst(w.x.k, r.dk), 2e-9) << spec.name << " dk";
    EXPECT_LE(d.worst(w.x.v, r.dv), 2e-9) << spec.name << " dv";
    for (size_t c = 0; c < r.dCaptures.size(); ++c)
      if (r.dCaptures[c].defined())
        EXPECT_LE(d.worst(w.x.captures[c], r.dCaptures[c]), 2e-9)
            << spec.name << " capture " << c;
  }
  cpu::setThreadCount(0);
}

/// rowsum(P o dP) from the reference scores and the compiled L, against
/// rowsum(dO o O) from the compiled O: both are sums of P_ij dO_id V_jd.
TEST(Gradient, RowSumsOfPdPAndOfdOOAreEqual) {
  using E = long double;
  for (const Spec &spec : smallSpecs()) {
    World w(spec);
    Results r = w.run(*w.compile(w.options()));
    int64_t group = spec.heads / spec.kvHeads;
    std::vector<std::vector<double>> values;
    std::vector<oracle::CapturedArray> captures;
    for (const Tensor &t : w.x.captures)
      values.push_back(t.values());
    for (auto [t, v] : llvm::zip(w.x.captures, values))
      captures.push_back({v.data(),
                          {t.shape.begin(), t.shape.end()},
                          {t.strides.begin(), t.strides.end()}});
    auto evaluator =
        oracle::VariantEvaluator<E>::create(w.source->op(), captures);
    ASSERT_TRUE(succeeded(evaluator));
    double worst = 0;
    for (int64_t h = 0; h < spec.heads; ++h)
      for (int64_t i = 0; i < spec.sq; ++i) {
        E pdp = 0, doo = 0, size = 0;
        for (int64_t j = 0; j < spec.sk; ++j) {
          oracle::Point at{0, h, i, j, spec.sq, spec.sk};
          if (!evaluator->visible(at))
            continue;
          E s = 0, dp = 0, terms = 0;
          for (int64_t d = 0; d < spec.d; ++d)
            s += (E)w.x.q.at({0, h, i, d}) * w.x.k.at({0, h / group, j, d});
          for (int64_t d = 0; d < spec.dv; ++d) {
            E t = (E)w.x.dO.at({0, h, i, d}) * w.x.v.at({0, h / group, j, d});
            dp += t;
            terms += std::abs(t);
          }
          s = evaluator->score(s / std::sqrt((E)spec.d), at);
          E p = std::exp(s - (E)r.lse.at({0, h, i}));
          pdp += p * dp;
          size += p * terms;
        }
        for (int64_t d = 0; d < spec.dv; ++d)
          doo += (E)w.x.dO.at({0, h, i, d}) * r.o.at({0, h, i, d});
        double error = std::abs(pdp - doo) / size;
        worst = std::max(worst, std::isnan(error) ? INFINITY : error);
      }
    EXPECT_LE(worst, 1e-15) << spec.name;
  }
}

} // namespace
