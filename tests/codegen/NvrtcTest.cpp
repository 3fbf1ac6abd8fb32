//===- NvrtcTest.cpp - kernels compiled without a GPU -----------------------===//

#include "codegen/cuda/Nvrtc.h"

#include "gtest/gtest.h"

using namespace fathom::cuda;

namespace {

Kernel kernelOf(std::string source, int threads = 128) {
  Kernel k;
  k.name = "k";
  k.source = std::move(source);
  k.threads = threads;
  return k;
}

Target target(const std::string &name) {
  Target t;
  std::string error;
  EXPECT_TRUE(Target::parse(name, t, error)) << error;
  return t;
}

std::string compiled(Kernel &k, const std::string &name) {
  return llvm::toString(compile(k, target(name)));
}

constexpr const char *kTiny = R"(
extern "C" __global__ __launch_bounds__(128) void k(float *p, long long n) {
  if (threadIdx.x < n)
    p[threadIdx.x] += 1.0f;
}
)";

/// Tests that need the compiler are skipped where it is not installed.
class Nvrtc : public ::testing::Test {
protected:
  void SetUp() override {
    auto there = nvrtc();
    if (!there)
      GTEST_SKIP() << llvm::toString(there.takeError());
  }
};

TEST(Target, NamesAreStrict) {
  EXPECT_EQ(target("sm_80").arch, 80);
  EXPECT_TRUE(target("sm_90a").exact);
  EXPECT_FALSE(target("compute_80").machine);
  EXPECT_EQ(target("sm_120").limits.sharedPerCta, 99 * 1024);
  for (const char *bad : {"", "sm_", "sm_75", "sm_081", "sm_90b", "sm_80a",
                          "sm80", "compute_", "sm_+90", "sm_90 ", "cpu"}) {
    Target t;
    std::string error;
    EXPECT_FALSE(Target::parse(bad, t, error)) << bad;
    EXPECT_NE(error.find("80, 86, 87, 89, 90"), std::string::npos) << error;
    EXPECT_NE(error.find(std::string("got '") + bad + "'"), std::string::npos);
  }
}

TEST(Target, WhereCodeRuns) {
  EXPECT_TRUE(target("sm_80").codeRunsOn(86));
  EXPECT_FALSE(target("sm_86").codeRunsOn(80));
  EXPECT_FALSE(target("sm_80").codeRunsOn(90));
  EXPECT_TRUE(target("sm_80").ptxRunsOn(90));
  EXPECT_FALSE(target("sm_90").ptxRunsOn(80));
  EXPECT_TRUE(target("sm_90a").codeRunsOn(90));
  EXPECT_FALSE(target("sm_90a").ptxRunsOn(100));
  EXPECT_FALSE(target("compute_80").codeRunsOn(80));
  EXPECT_TRUE(target("compute_80").ptxRunsOn(121));
}

TEST(Target, Occupancy) {
  Kernel k = kernelOf("", 256);
  Limits h100 = target("sm_90").limits;
  EXPECT_EQ(occupancy(k, h100), 8); // threads
  k.resources.registers = 128;
  EXPECT_EQ(occupancy(k, h100), 2);
  k.sharedBytes = 120 * 1024;
  EXPECT_EQ(occupancy(k, h100), 1);
  k.sharedBytes = 227 * 1024;
  EXPECT_EQ(occupancy(k, h100), 1);
  k.sharedBytes = 228 * 1024;
  EXPECT_EQ(occupancy(k, h100), 0);
  EXPECT_NE(checkFits(k, target("sm_90")).find("232448"), std::string::npos);
  k.sharedBytes = 0;
  k.threads = 1024;
  EXPECT_EQ(occupancy(k, h100), 0);
  EXPECT_NE(checkFits(k, target("sm_90")), "");
}

TEST_F(Nvrtc, CompilesForEachKindOfTarget) {
  for (const char *name :
       {"sm_80", "sm_90", "sm_90a", "sm_120", "compute_80"}) {
    Kernel k = kernelOf(kTiny);
    ASSERT_EQ(compiled(k, name), "") << name;
    EXPECT_NE(k.ptx.find(".entry k"), std::string::npos);
    bool machine = target(name).machine;
    EXPECT_EQ(k.cubin.substr(0, 4), machine ? "\177ELF" : "");
    EXPECT_EQ(k.resources.registers > 0, machine);
    EXPECT_TRUE(warnings(k).empty());
  }
}

TEST_F(Nvrtc, IdentityIsKnown) {
  auto info = nvrtc();
  ASSERT_TRUE(bool(info));
  EXPECT_NE((*info)->identity.find("NVRTC"), std::string::npos);
  EXPECT_NE((*info)->path, "");
}

TEST_F(Nvrtc, ErrorsShowTheLine) {
  Kernel k = kernelOf("extern \"C\" __global__ void k(float *p) {\n"
                      "  p[0] = 1;\n"
                      "  p[1] = nothing + 1;\n"
                      "}\n");
  std::string error = compiled(k, "sm_90");
  EXPECT_NE(error.find("kernel 'k' for sm_90"), std::string::npos) << error;
  EXPECT_NE(error.find("line 3: identifier \"nothing\" is undefined"),
            std::string::npos)
      << error;
  EXPECT_NE(error.find("\n    p[1] = nothing + 1;"), std::string::npos);
  EXPECT_TRUE(k.cubin.empty());
}

TEST_F(Nvrtc, ErrorsOfTheAssemblerShowItsLine) {
  Kernel k = kernelOf("extern \"C\" __global__ void k(float *p) {\n"
                      "  asm volatile(\"no.such.thing;\");\n"
                      "}\n");
  std::string error = compiled(k, "sm_90");
  EXPECT_NE(error.find("of the PTX"), std::string::npos) << error;
  EXPECT_NE(error.find("\n    no.such.thing;"), std::string::npos) << error;
}

constexpr const char *kSpilling = R"(
extern "C" __global__ __launch_bounds__(1024) void k(const float *p, float *q,
                                                     int n) {
  float a[128];
#pragma unroll
  for (int i = 0; i < 128; i++)
    a[i] = p[i * 1024 + threadIdx.x];
  __syncthreads();
  for (int j = 0; j < n; j++) {
#pragma unroll
    for (int i = 0; i < 128; i++)
      a[i] = a[i] * a[(i * 7 + 3) % 128] + 1.f;
  }
#pragma unroll
  for (int i = 0; i < 128; i++)
    q[i * 1024 + threadIdx.x] = a[i];
}
)";

TEST_F(Nvrtc, SpillsAreReported) {
  Kernel k = kernelOf(kSpilling, 1024);
  ASSERT_EQ(compiled(k, "sm_90"), "");
  EXPECT_EQ(k.resources.registers, 64);
  EXPECT_GT(k.resources.spillStores, 64);
  EXPECT_GT(k.resources.spillLoads, 64);
  ASSERT_EQ(warnings(k).size(), 1u);
  EXPECT_NE(warnings(k)[0].find("spills"), std::string::npos);
  EXPECT_EQ(occupancy(k, target("sm_90").limits), 1);
}

TEST_F(Nvrtc, StackFramesAreReported) {
  Kernel k = kernelOf("extern \"C\" __global__ void k(float *p, int n) {\n"
                      "  float a[64] = {};\n"
                      "  for (int i = 0; i < n; i++) a[int(p[i]) & 63] += 1;\n"
                      "  for (int i = 0; i < 64; i++) p[i] = a[i];\n"
                      "}\n");
  ASSERT_EQ(compiled(k, "sm_80"), "");
  EXPECT_EQ(k.resources.stackBytes, 256);
  ASSERT_EQ(warnings(k).size(), 1u);
  EXPECT_NE(warnings(k)[0].find("stack frame of 256"), std::string::npos);
}

TEST_F(Nvrtc, SerializedProductsAreAnError) {
  // A sum is read before the wait.
  Kernel k = kernelOf(
      "extern \"C\" __global__ void k(float *p, unsigned long long a) {\n"
      "  float d[4] = {};\n"
      "  for (int i = 0; i < 4; i++) {\n"
      "    asm volatile(\"wgmma.fence.sync.aligned;\" ::: \"memory\");\n"
      "    asm volatile(\"wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 "
      "\"\n"
      "      \"{%0,%1,%2,%3}, %4, %4, 1, 1, 1, 0, 0;\" : \"+f\"(d[0]), "
      "\"+f\"(d[1]),\n"
      "      \"+f\"(d[2]), \"+f\"(d[3]) : \"l\"(a));\n"
      "    asm volatile(\"wgmma.commit_group.sync.aligned;\" ::: \"memory\");\n"
      "    d[0] += p[i];\n"
      "  }\n"
      "  asm volatile(\"wgmma.wait_group.sync.aligned 0;\" ::: \"memory\");\n"
      "  for (int i = 0; i < 4; i++) p[4 * threadIdx.x + i] = d[i];\n"
      "}\n");
  std::string error = compiled(k, "sm_90a");
  EXPECT_NE(error.find("leave out fa-gpu-warpgroup-products"),
            std::string::npos)
      << error;
}

TEST(Remembered, HoldsWhileNothingChanges) {
  auto info = nvrtc();
  if (!info) {
    consumeError(info.takeError());
    GTEST_SKIP() << "no NVRTC";
  }
  std::string text = rememberNvrtc();
  auto known = recallNvrtc(text);
  ASSERT_TRUE(known) << text;
  EXPECT_EQ(known->identity, (*info)->identity);
  EXPECT_EQ(known->archs, (*info)->archs);
  EXPECT_FALSE(recallNvrtc(""));
  EXPECT_FALSE(recallNvrtc(text + "\nmore"));
  // A library that was installed anew, or is looked for elsewhere.
  std::string other = text;
  other[text.find('\n', text.find((*info)->path + " ")) - 1] ^= 1;
  EXPECT_FALSE(recallNvrtc(other));
  const char *had = getenv("CUDA_HOME");
  std::string before = had ? had : "";
  setenv("CUDA_HOME", "/nowhere", 1);
  EXPECT_FALSE(recallNvrtc(text));
  had ? setenv("CUDA_HOME", before.c_str(), 1) : unsetenv("CUDA_HOME");
  EXPECT_TRUE(recallNvrtc(text));
}

TEST(Warnings, NotesOfTheAssemblerThatCostSpeed) {
  Kernel k = kernelOf("");
  k.resources.notes = {"(C7510) wgmma is serialized", "(C7519) arrive injected",
                       "(C7520) serialized too", "no number"};
  EXPECT_EQ(warnings(k).size(), 2u);
}

TEST_F(Nvrtc, TooMuchSharedMemoryIsRefused) {
  Kernel k = kernelOf(kTiny);
  k.sharedBytes = 100 * 1024;
  EXPECT_EQ(compiled(k, "sm_80"), "");
  std::string error = compiled(k, "sm_86");
  EXPECT_NE(error.find("needs 102400 bytes of shared memory, sm_86 has 101376"),
            std::string::npos)
      << error;
}

TEST_F(Nvrtc, ProgramsCompileWhole) {
  Program p;
  p.target = "sm_90";
  for (int i = 0; i < 4; ++i)
    p.kernels.push_back(kernelOf(kTiny));
  EXPECT_EQ(llvm::toString(compile(p)), "");
  for (Kernel &k : p.kernels)
    EXPECT_NE(k.cubin, "");
  p.kernels[1].source = p.kernels[3].source = "broken";
  std::string error = llvm::toString(compile(p));
  EXPECT_NE(error.find("broken"), error.rfind("broken")) << error;
  p.target = "sm_91";
  EXPECT_NE(llvm::toString(compile(p)).find("got 'sm_91'"), std::string::npos);
}

} // namespace
