//===- GpuPrefixTest.cpp - GPU programs by fewer passes ---------------------===//
//
// Programs for GPUs by the pipeline without each of its optional passes, and
// with the first ones of its map stage alone, run by the emulator and compared
// with the oracle. No pass of the map stage leaves anything to a later one but
// the program itself.
//
//===----------------------------------------------------------------------===//

#include "tests/e2e/GpuHarness.h"

using namespace fathom;
using namespace fathom::test;

namespace {

std::vector<Spec> specs() {
  std::vector<Spec> all;
  for (Spec s : standardSpecs()) {
    if (s.name == "causal") {
      s.dtype = DType::bf16;
      s.d = s.dv = 64;
    } else if (s.name == "softcap") {
      s.dtype = DType::f16;
      s.d = s.dv = 40;
      s.heads = 4;
    } else if (s.name == "packed") {
      s.d = 32;
      s.dv = 48;
    } else {
      continue;
    }
    all.push_back(s);
  }
  return all;
}

bool isOnGpuRoad(const PipelineStep &s) {
  return s.target != "cpu" && s.pass != "fa-count-tiles";
}

/// Options with which `pass` runs, and the passes for one GPU have work: tiles
/// for two groups of four warps.
PipelineOptions optionsFor(const World &w, const PipelineStep &pass) {
  PipelineOptions p = gpuOptions(w);
  if (pass.target != "gpu" && !pass.target.empty()) {
    p = gpuOptions(w, pass.target.str(), 128, 64);
    p.numWarps = 8;
  }
  p.aligned = true;
  return p;
}

/// What is wrong with the program that `p` gives, or an empty string. Copies
/// land late and threads take turns at random: whoever counts on less fails.
std::string problems(const World &w, const PipelineOptions &p) {
  std::string error;
  auto e = Emulated::compile(w, p, error);
  if (!e)
    return "not compiled: " + error;
  e->options = {.latest = true, .seed = 1};
  return w.failures(w.run(e->executable));
}

TEST(GpuPrefix, EveryPassMayBeLeftOut) {
  int64_t runs = 0;
  for (const Spec &spec : specs()) {
    World w(spec);
    for (const PipelineStep &s : pipelineSteps()) {
      if (!isOnGpuRoad(s) || s.required)
        continue;
      PipelineOptions p = optionsFor(w, s);
      p.skip = {s.pass.str()};
      EXPECT_EQ(problems(w, p), "") << spec.name << " without " << s.pass.str();
      ++runs;
    }
  }
  std::printf("count: gpu-leave-one-out %ld\n", (long)runs);
}

TEST(GpuPrefix, EveryPrefixOfTheMapStageEqualsTheOracle) {
  int64_t runs = 0;
  for (const Spec &spec : specs()) {
    World w(spec);
    std::vector<PipelineStep> optional;
    for (const PipelineStep &s : pipelineSteps())
      if (isOnGpuRoad(s) && s.stage == "map" && !s.required)
        optional.push_back(s);
    // All of them and all but the last are tested above.
    for (size_t n = 0; n + 1 < optional.size(); ++n) {
      const PipelineStep *special = &optional[0];
      for (const PipelineStep &s : llvm::ArrayRef(optional).take_front(n))
        if (s.target != "gpu")
          special = &s;
      PipelineOptions p = optionsFor(w, *special);
      for (const PipelineStep &s : llvm::ArrayRef(optional).drop_front(n))
        p.skip.push_back(s.pass.str());
      EXPECT_EQ(problems(w, p), "")
          << spec.name << " up to " << optional[n].pass.str();
      ++runs;
    }
  }
  std::printf("count: gpu-prefixes %ld\n", (long)runs);
}

TEST(GpuPrefix, FewQueryRowsAndPartsOfTheKeys) {
  struct Case {
    const char *variant;
    DType dtype;
    int64_t heads, sq, sk, d, hint, splits; // lengths of 0: as they are
    int64_t warps = 0;
  };
  for (const Case &c : {Case{"plain", DType::bf16, 2, 1, 300, 64, 16, 1},
                        {"plain", DType::bf16, 2, 1, 300, 64, 16, 4},
                        {"causal", DType::bf16, 2, 3, 300, 128, 16, 4, 1},
                        {"causal", DType::f16, 2, 5, 200, 128, 16, 8},
                        {"causal", DType::bf16, 4, 30, 130, 40, 32, 2},
                        {"window", DType::bf16, 2, 20, 200, 64, 32, 4},
                        {"document", DType::bf16, 2, 45, 45, 16, 16, 3},
                        {"packed", DType::f32, 2, 0, 0, 32, 16, 2}}) {
    Spec s = named(c.variant, c.dtype);
    ASSERT_EQ(s.name, c.variant);
    s.heads = c.heads;
    if (c.sq) {
      s.sq = c.sq;
      s.sk = c.sk;
    }
    s.d = s.dv = c.d;
    World w(s);
    PipelineOptions p = gpuOptions(w, "sm_80", 0, 32);
    p.aligned = true;
    p.seqlenQHint = c.hint;
    p.kvSplits = c.splits;
    p.numWarps = c.warps;
    EXPECT_EQ(problems(w, p), "")
        << c.variant << ", " << c.sq << " rows, " << c.splits << " parts";
  }
}

TEST(GpuPrefix, LoopsThatIdsInMemoryBound) {
  for (Spec s : standardSpecs()) {
    if (s.name != "document" && s.name != "documents_packed" &&
        s.name != "padded")
      continue;
    s.dtype = DType::bf16;
    World w(s);
    for (const char *dq : {"atomic", "ordered", "two_kernel"}) {
      PipelineOptions p = gpuOptions(w, "sm_80", 16, 16);
      p.aligned = true;
      p.dqPolicy = dq;
      EXPECT_EQ(problems(w, p), "") << s.name << ", " << dq;
    }
  }
}

TEST(GpuPrefix, QueryHeadsOfAKVHeadAreOneTile) {
  struct Case {
    const char *variant;
    DType dtype;
    int64_t heads, kvHeads, sq, sk, d, splits;
    bool deterministic = false;
  };
  for (const Case &c : {Case{"plain", DType::bf16, 8, 2, 1, 300, 128, 4},
                        {"causal", DType::bf16, 6, 2, 2, 130, 64, 1},
                        {"alibi", DType::f16, 8, 1, 1, 200, 64, 2},
                        {"bias", DType::bf16, 8, 2, 3, 100, 40, 1},
                        {"window", DType::bf16, 6, 2, 1, 200, 128, 4},
                        {"document", DType::f16, 40, 2, 1, 90, 32, 1},
                        {"prefix", DType::f32, 8, 2, 1, 70, 32, 2},
                        {"packed", DType::bf16, 8, 2, 0, 0, 64, 2},
                        {"plain", DType::bf16, 8, 2, 1, 90, 256, 1, true}}) {
    Spec s = named(c.variant, c.dtype);
    ASSERT_EQ(s.name, c.variant);
    s.heads = c.heads;
    s.kvHeads = c.kvHeads;
    if (c.sq) {
      s.sq = c.sq;
      s.sk = c.sk;
    }
    s.d = s.dv = c.d;
    World w(s);
    for (const char *target : {"sm_80", "sm_90a"}) {
      PipelineOptions p = gpuOptions(w, target, 0, 0);
      p.backward = p.lseGrad = false;
      p.aligned = true;
      p.seqlenQHint = 1;
      p.kvSplits = c.splits;
      p.deterministic = c.deterministic;
      EXPECT_EQ(problems(w, p), "")
          << c.variant << ", " << c.heads << " heads, " << c.splits
          << " parts, " << target;
    }
  }
}

TEST(GpuPrefix, QueryHeadsOfAKVHeadInParts) {
  struct Case {
    const char *variant, *dq;
    int64_t heads, kvHeads, splits;
    bool deterministic = false;
  };
  for (const Case &c : {Case{"causal", "atomic", 8, 2, 2},
                        {"window", "ordered", 8, 1, 4, true},
                        {"alibi", "two_kernel", 6, 2, 3, true},
                        {"plain", "split", 6, 1, 4}}) {
    Spec s = named(c.variant, DType::bf16);
    s.heads = c.heads;
    s.kvHeads = c.kvHeads;
    s.sq = s.sk = 70;
    World w(s);
    for (int64_t block : {32, 64}) {
      PipelineOptions p =
          gpuOptions(w, block == 32 ? "sm_80" : "sm_90a", block, block);
      p.aligned = true;
      p.groupSplits = c.splits;
      p.dqPolicy = c.dq;
      p.deterministic = c.deterministic;
      EXPECT_EQ(problems(w, p), "")
          << c.variant << ", " << c.dq << ", " << p.target;
    }
  }
}

/// The text of all kernels of a part.
std::string printed(const World &w, PipelineOptions p, const char *part) {
  std::string text, error;
  auto program = gpuProgram(w, p, part, error);
  EXPECT_TRUE(program) << error;
  if (program)
    for (const cuda::Kernel &k : program->kernels)
      text += k.source;
  return text;
}

TEST(GpuPrefix, EveryMapPassChangesAtLeastThreeVariants) {
  std::map<std::string, std::string> changed;
  std::map<std::string, int> count;
  std::vector<Spec> specs = standardSpecs();
  // Only ends cut its tiles, and a score beside them.
  Spec capped;
  capped.name = "softcap alone";
  capped.text = "fa.variant @v softcap(2.0)";
  specs.push_back(capped);
  capped.name = "softcap alone, f16";
  capped.dtype = DType::f16;
  specs.push_back(capped);
  for (auto [score, mask] :
       {std::pair(0, ""), {0, " causal"}, {1, ""}, {2, ""}})
    specs.push_back(byDistance(kDistanceScores[score], mask, DType::bf16));
  for (Spec spec : specs) {
    if (spec.dtype == DType::f32 && spec.d % 8 == 0)
      spec.dtype = DType::bf16;
    World w(spec);
    PipelineOptions all = gpuOptions(w, "sm_90", 64, 64);
    all.aligned = spec.d % 8 == 0 && spec.dv % 8 == 0;
    std::string expected =
        printed(w, all, "forward") + printed(w, all, "backward");
    for (const PipelineStep &s : pipelineSteps()) {
      if (s.target != "gpu" || s.required)
        continue;
      PipelineOptions p = all;
      p.skip = {s.pass.str()};
      if (printed(w, p, "forward") + printed(w, p, "backward") == expected)
        continue;
      changed[s.pass.str()] += " " + spec.name;
      ++count[s.pass.str()];
    }
  }
  // Factors that are too wide for the chip: without it there is no program.
  for (const char *name : {"plain", "causal", "window"}) {
    std::string reload = "fa-gpu-reload-factors", error;
    Spec spec = named(name, DType::f64);
    spec.d = spec.dv = 512;
    World w(spec);
    PipelineOptions p = gpuOptions(w, "sm_86", 0, 0);
    p.stages = 1;
    EXPECT_TRUE(gpuProgram(w, p, "forward", error)) << error;
    p.skip = {reload};
    if (!gpuProgram(w, p, "forward", error)) {
      changed[reload] += std::string(" wide ") + name;
      ++count[reload];
    }
  }
  for (const PipelineStep &s : pipelineSteps())
    if (s.target == "gpu" && !s.required) {
      std::printf("%-30s changed%s\n", s.pass.str().c_str(),
                  changed[s.pass.str()].c_str());
      EXPECT_GE(count[s.pass.str()], 3) << s.pass.str();
    }
}

TEST(GpuPrefix, StrippingBetweenMapPassesChangesNothing) {
  std::string last = pipelineSteps().back().pass.str();
  for (const Spec &spec : specs()) {
    World w(spec);
    PipelineOptions p = gpuOptions(w);
    // Names of variables come from locations.
    p.insertAfter = {{last, "fa-test-strip"}};
    for (const char *part : {"forward", "backward"}) {
      std::string expected = printed(w, p, part);
      for (const PipelineStep &s : pipelineSteps()) {
        if (!isOnGpuRoad(s) || s.stage != "map" || s.pass == last)
          continue;
        PipelineOptions stripped = p;
        stripped.insertAfter.push_back({s.pass.str(), "fa-test-strip"});
        EXPECT_TRUE(printed(w, stripped, part) == expected)
            << spec.name << ", " << part << ", stripped after " << s.pass.str();
      }
    }
  }
}

} // namespace
