//===- EmulatedMachineTest.cpp - a plan with kernels, emulated --------------===//

#include "tests/emulation/EmulatedMachine.h"
#include "codegen/cuda/DeviceHeader.h"

#include <gtest/gtest.h>
#include <numeric>

using namespace fathom;
using namespace fathom::emulation;
using I = cuda::Instruction;
using cuda::Parameter;
using cuda::Scalar;

namespace {

constexpr const char *kSums = R"(
FA_KERNEL(32, 1)
void sums(fa::Buffer<float, 2> x, fa::Buffer<float, 1> rows, float scale) {
  long long i = fa::block_id() * 32 + fa::thread_id();
  if (i >= x.size[0])
    return;
  float sum = 0;
  for (long long j = 0; j < x.size[1]; ++j)
    sum += x.data[i * x.stride[0] + j * x.stride[1]];
  fa::atomic_add(rows.data + i, sum * scale);
}
)";

constexpr const char *kTwice = R"(
FA_KERNEL(32, 1)
void twice(fa::Buffer<float, 1> rows, fa::Buffer<float, 1> out, int n) {
  long long i = fa::block_id() * 32 + fa::thread_id();
  if (i < n)
    out.data[i * out.stride[0]] = 2 * rows.data[i * rows.stride[0]];
}
)";

cuda::Kernel kernel(const char *name, const char *text) {
  cuda::Kernel k;
  k.name = name;
  k.source = "#ifdef FATHOM_EMULATION\n#include \"emulation.h\"\n#else\n" +
             cuda::deviceHeader().str() + "#endif\n" + text;
  k.threads = 32;
  return k;
}

/// out = 2 scale (sums of the rows of x), the sums in a workspace.
cuda::Program rowSums() {
  cuda::Program p;
  p.target = "sm_80";
  p.kernels = {kernel("sums", kSums), kernel("twice", kTwice)};
  cuda::Plan plan;
  plan.name = "sums";
  plan.arguments = {{Scalar::f32, 2}, {Scalar::f32, 1}, {Scalar::f32, -1}};
  plan.workspaces = {{Scalar::f32, {{0}}}};
  plan.launches = {{0,
                    2,
                    {{Parameter::argument, 0},
                     {Parameter::workspace, 0},
                     {Parameter::argument, 2}}},
                   {1,
                    2,
                    {{Parameter::workspace, 0},
                     {Parameter::argument, 1},
                     {Parameter::value, 0, Scalar::i32}}}};
  plan.code = {{I::dim, 0, 0},          {I::constant, 1, 0, 0, 0, 32},
               {I::ceildivsi, 2, 0, 1}, {I::allocate, 0, 0},
               {I::clear, 0, 0},        {I::launch, 0, 0},
               {I::launch, 0, 1}};
  plan.registers = 3;
  p.plans = {plan};
  return p;
}

Status runRowSums(const cuda::Program &p, std::vector<float> &out) {
  int64_t sizes[] = {50, 3}, strides[] = {1, 50}, one[] = {1};
  std::vector<float> x(150);
  std::iota(x.begin(), x.end(), 0.f);
  out.assign(50, 0);
  EmulatedMachine machine(p);
  machine.memory.add(x.data(), 600, /*writable=*/false, "x");
  machine.memory.add(out.data(), 200, /*writable=*/true, "out");
  float scale = 0.5f;
  std::vector<cuda::CallArgument> args = {
      {Scalar::f32, 2, x.data(), sizes, strides},
      {Scalar::f32, 1, out.data(), sizes, one},
      {Scalar::f32, -1}};
  std::memcpy(&args[2].bits, &scale, sizeof(scale));
  EXPECT_EQ(cuda::check(p), "");
  Status s = cuda::PlanRunner(p, p.plans[0]).run(args, machine);
  EXPECT_GT(machine.launches, 0);
  return s;
}

TEST(EmulatedMachine, RunsPlans) {
  std::vector<float> out;
  Status s = runRowSums(rowSums(), out);
  ASSERT_TRUE(s.ok()) << s.message();
  for (int i = 0; i < 50; ++i)
    EXPECT_EQ(out[i], 3 * i + 150) << i;
}

TEST(EmulatedMachine, WorkspacesThatAreNotClearedAreNaN) {
  std::vector<float> out;
  cuda::Program p = rowSums();
  p.plans[0].code.erase(p.plans[0].code.begin() + 4);
  ASSERT_TRUE(runRowSums(p, out).ok());
  for (float x : out)
    EXPECT_NE(x, x);
}

TEST(EmulatedMachine, FaultsOfKernelsAreErrors) {
  std::vector<float> out;
  cuda::Program p = rowSums();
  p.plans[0].workspaces[0].dims[0] = {-1, 49}; // one row short
  Status s = runRowSums(p, out);
  ASSERT_FALSE(s.ok());
  EXPECT_NE(s.message().find("sums"), std::string::npos) << s.message();
}

} // namespace
