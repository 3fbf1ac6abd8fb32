//===- PrefixTest.cpp - every prefix of the pipeline is a program -----------===//
//
// Runs every prefix of the pipeline, and the pipeline without each of its
// optional passes, on the CPU, and compares forward and backward with the
// oracle. Also prints which pass changes which variant: every pass must change
// at least three.
//
//===----------------------------------------------------------------------===//

#include "tests/e2e/Harness.h"

#include "mlir/Pass/PassManager.h"
#include "passes/Passes.h"
#include "passes/Pipeline.h"
#include "passes/analysis/Explain.h"

using namespace fathom;
using namespace fathom::test;

namespace {

/// Steps that a run may end after, or leave out.
bool isOnCpuRoad(const PipelineStep &s) {
  return s.stage != "map" && s.pass != "fa-count-tiles";
}

TEST(Prefix, EveryPrefixEqualsTheOracle) {
  int64_t runs = 0;
  for (const auto &[number, spec] : llvm::enumerate(standardSpecs())) {
    World w(spec);
    int64_t n = number;
    for (const PipelineStep &s : pipelineSteps()) {
      if (!isOnCpuRoad(s) || s.stage == "variant" || s.stage == "schedule")
        continue;
      // A selection: each variant takes every other prefix, not all the same.
      if (!fullRun() && n++ % 2 && s.pass != "fa-tile")
        continue;
      CompileOptions o = w.options();
      o.stopAfter = s.pass.str();
      o.kvSplits = 1 + number % 2;
      o.packHeads = true;
      o.groupSplits = 2;
      EXPECT_EQ(w.problems(o), "") << spec.name << " up to " << s.pass.str();
      ++runs;
    }
  }
  std::printf("count: prefixes %ld\n", (long)runs);
}

TEST(Prefix, EveryPassMayBeLeftOut) {
  int64_t runs = 0;
  for (const auto &[number, spec] : llvm::enumerate(standardSpecs())) {
    World w(spec);
    int64_t n = number;
    for (const PipelineStep &s : pipelineSteps()) {
      if (!isOnCpuRoad(s) || s.required)
        continue;
      if (!fullRun() && n++ % 3)
        continue;
      CompileOptions o = w.options();
      o.skipPasses = {s.pass.str()};
      o.kvSplits = 1 + number % 2;
      o.packHeads = true;
      o.groupSplits = 2;
      EXPECT_EQ(w.problems(o), "") << spec.name << " without " << s.pass.str();
      ++runs;
    }
  }
  std::printf("count: leave-one-out %ld\n", (long)runs);
}

/// What the pass said last of why it did nothing; every pass must say so.
std::string reason(const std::vector<PassRemark> &remarks,
                   const std::string &pass) {
  for (size_t n = remarks.size(); n-- > 0;)
    if (remarks[n].pass == pass && remarks[n].kind == "missed")
      return remarks[n].text;
  ADD_FAILURE() << pass << " changed nothing and gave no reason";
  return "";
}

TEST(Prefix, EveryPassChangesAtLeastThreeVariants) {
  registerFAPasses();
  std::map<std::string, std::vector<std::string>> changed, unchanged;
  std::vector<Spec> specs = standardSpecs();
  // More distances of one sign.
  for (Spec spec : standardSpecs())
    if (spec.name == "alibi")
      for (const char *mask : {"causal top_left", "causal window(left = 7)"}) {
        spec.text = std::string("fa.variant @v(%slopes: tensor<?xf32>) ") +
                    mask + " alibi(%slopes)";
        spec.name = mask;
        specs.push_back(spec);
      }
  for (const Spec &spec : specs) {
    World w(spec);
    std::vector<PassRemark> remarks;
    ASSERT_TRUE(succeeded(collectRemarks(w.source->context(), remarks)));
    mlir::OwningOpRef<mlir::ModuleOp> module = w.source->module().clone();
    std::string before;
    for (const PipelineStep &s : pipelineSteps()) {
      if (!isOnCpuRoad(s))
        continue;
      PipelineOptions p;
      p.headDimQK = spec.d;
      p.headDimV = spec.dv;
      p.group = spec.heads / spec.kvHeads;
      p.layout = spec.cuQ.empty() ? "bhsd" : "packed";
      p.stopAfter = s.pass.str();
      p.map = false;
      p.kvSplits = 2;
      p.packHeads = true;
      p.groupSplits = 2;
      mlir::PassManager pm(&w.source->context());
      std::string text, after;
      llvm::raw_string_ostream errors(text), os(after);
      ASSERT_TRUE(succeeded(buildPipeline(pm, p, errors))) << text;
      module = w.source->module().clone();
      ASSERT_TRUE(succeeded(pm.run(*module)));
      module->print(os);
      if (after != before)
        changed[s.pass.str()].push_back(spec.name);
      else
        unchanged[s.pass.str()].push_back(spec.name + ": " +
                                          reason(remarks, s.pass.str()));
      before = after;
    }
  }
  for (const PipelineStep &s : pipelineSteps()) {
    if (!isOnCpuRoad(s))
      continue;
    std::string line;
    for (const std::string &name : changed[s.pass.str()])
      line += " " + name;
    std::printf("%-30s changed%s\n", s.pass.str().c_str(), line.c_str());
    for (const std::string &name : unchanged[s.pass.str()])
      std::printf("%-30s missed  %s\n", "", name.c_str());
    EXPECT_GE(changed[s.pass.str()].size(), 3u) << s.pass.str();
  }
}

} // namespace
