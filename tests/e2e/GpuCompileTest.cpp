//===- GpuCompileTest.cpp - what NVRTC makes of GPU programs ----------------===//
//
// Instances with the tiles that the compiler chooses are compiled to machine
// code for several GPUs, none of which needs to be there. What costs speed is
// counted: spilled registers, stack frames, what the assembler serialized.
//
//===----------------------------------------------------------------------===//

#include "codegen/cuda/Nvrtc.h"
#include "codegen/cuda/Target.h"
#include "tests/e2e/Harness.h"

using namespace fathom;
using namespace fathom::test;

namespace {

/// Kernels of the selection that have warnings today. Lower it with them.
constexpr int kKnownWarnings = 24;

class GpuCompile : public testing::Test {
protected:
  void SetUp() override {
    if (auto there = cuda::nvrtc(); !there)
      GTEST_SKIP() << llvm::toString(there.takeError());
  }
};

TEST_F(GpuCompile, DefaultTilesNeedNoMoreThanThereIs) {
  std::vector<const char *> variants = {"causal", "plain", "softcap"};
  if (fullRun())
    variants.insert(variants.end(), {"window", "alibi", "document", "packed"});
  int kernels = 0, bad = 0;
  for (const char *variant : variants)
    for (int64_t d : {64, 96, 128, 256})
      for (const char *target : {"sm_80", "sm_90", "sm_90a", "sm_120"}) {
        if (!fullRun() && variant != variants[0] && d % 64)
          continue;
        Spec spec;
        for (const Spec &s : standardSpecs())
          if (s.name == std::string(variant))
            spec = s;
        auto source = *VariantSource::parse(spec.text, spec.name, "");
        for (Piece piece : {Piece::forward, Piece::backward}) {
          CompileOptions o;
          o.instance.dtype = DType::bf16;
          o.instance.headDim = o.instance.headDimV = d;
          if (!spec.cuQ.empty())
            o.instance.layout = Layout::packed;
          o.target = target;
          o.piece = piece;
          o.aligned = true;
          auto e = compile(*source, o);
          EXPECT_TRUE(e.ok()) << variant << " " << d << " " << target << ": "
                              << e.status().message();
          if (!e.ok())
            continue;
          for (const cuda::Kernel &k : (*e)->program->kernels) {
            ++kernels;
            std::vector<std::string> found = cuda::warnings(k);
            bad += !found.empty();
            std::printf("%s d=%d %s %s: %d registers, %d threads, %ld bytes "
                        "shared, spills %d/%d\n",
                        variant, int(d), target, k.name.c_str(),
                        k.resources.registers, k.threads, long(k.sharedBytes),
                        k.resources.spillStores, k.resources.spillLoads);
            for (const std::string &text : found)
              std::printf("  %s\n", text.c_str());
          }
        }
      }
  std::printf("\ncount: gpu-kernels-compiled %d\n", kernels);
  EXPECT_LE(bad, fullRun() ? kernels : kKnownWarnings);
}

} // namespace
