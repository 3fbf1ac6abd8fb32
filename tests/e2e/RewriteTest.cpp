//===- RewriteTest.cpp - passes rewrite what they match ---------------------===//
//
// Dropping labels, discardable attributes and locations between any two passes
// changes nothing in the final IR: passes do not talk to each other behind the
// IR. Editing the textbook nests gives the edited function, whatever passes run
// afterwards: nothing is generated anew.
//
//===----------------------------------------------------------------------===//

#include "tests/e2e/Harness.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "passes/Passes.h"
#include "passes/Pipeline.h"

using namespace fathom;
using namespace fathom::test;

namespace {

/// The IR after the nest stage, stripped at the end in any case.
std::string finalIR(World &w,
                    std::vector<std::pair<std::string, std::string>> insert) {
  registerFAPasses();
  PipelineOptions p;
  p.headDimQK = w.spec.d;
  p.headDimV = w.spec.dv;
  p.group = w.spec.heads / w.spec.kvHeads;
  p.layout = w.spec.cuQ.empty() ? "bhsd" : "packed";
  p.map = false;
  p.insertAfter = std::move(insert);
  p.insertAfter.push_back({"fa-fuse-nests", "fa-test-strip"});
  mlir::PassManager pm(&w.source->context());
  std::string text;
  llvm::raw_string_ostream os(text);
  EXPECT_TRUE(succeeded(buildPipeline(pm, p, os))) << text;
  mlir::OwningOpRef<mlir::ModuleOp> module = w.source->module().clone();
  EXPECT_TRUE(succeeded(pm.run(*module)));
  module->print(os);
  return text;
}

TEST(Rewrite, StrippingBetweenPassesChangesNothing) {
  for (const Spec &spec : standardSpecs()) {
    World w(spec);
    std::string expected = finalIR(w, {});
    for (const PipelineStep &s : pipelineSteps())
      if (s.stage == "nest" && s.pass != "fa-fuse-nests" &&
          s.pass != "fa-count-tiles")
        EXPECT_EQ(finalIR(w, {{s.pass.str(), "fa-test-strip"}}), expected)
            << spec.name << ", stripped after " << s.pass.str();
  }
}

/// max |a - b| over all outputs, and max |a|.
std::pair<double, double> difference(const Results &a, const Results &b) {
  double most = 0, size = 0;
  auto both = [&](const Tensor &x, const Tensor &y) {
    if (!x.defined())
      return;
    for (int64_t n = 0; n < x.size(); ++n) {
      double u = x.load(n), v = y.load(n);
      if (std::isfinite(u))
        size = std::max(size, std::abs(u));
      if (!(u == v))
        most = std::max(most, std::isnan(u - v) ? INFINITY : std::abs(u - v));
    }
  };
  both(a.o, b.o);
  both(a.lse, b.lse);
  both(a.dq, b.dq);
  both(a.dk, b.dk);
  both(a.dv, b.dv);
  for (size_t c = 0; c < a.dCaptures.size(); ++c)
    both(a.dCaptures[c], b.dCaptures[c]);
  return {most, size};
}

TEST(Rewrite, AnEditOfTheTextbookSurvivesAllPasses) {
  for (const char *kind : {"halve-p", "add-term", "swap-operands", "reorder"})
    for (const char *name : {"causal", "alibi", "gqa_6_3", "plain"}) {
      Spec spec;
      for (const Spec &s : standardSpecs())
        if (s.name == name)
          spec = s;
      spec.dtype = DType::f64; // differences are edits, not rounding
      World w(spec);
      std::pair<std::string, std::string> edit = {
          "fa-tile", std::string("fa-test-mutate{kind=") + kind + "}"};
      CompileOptions textbook = w.options();
      textbook.stopAfter = "fa-tile";
      CompileOptions all = w.options();
      Results plain = w.run(*w.compile(textbook));
      textbook.insertAfter = all.insertAfter = {edit};
      auto editedTextbook = w.compile(textbook), editedAll = w.compile(all);
      ASSERT_TRUE(editedTextbook && editedAll);
      Results expected = w.run(*editedTextbook), got = w.run(*editedAll);
      auto [error, size] = difference(expected, got);
      EXPECT_LE(error, 1e-11 * size) << kind << " of " << name;
      auto [effect, unused] = difference(plain, expected);
      if (std::string(kind) == "reorder")
        EXPECT_LE(effect, 1e-11 * size) << kind << " of " << name;
      else
        EXPECT_GE(effect, 1e-4 * size)
            << kind << " of " << name << " did nothing";
    }
}

} // namespace
