//===- PlanRunnerTest.cpp - plans on a machine that writes down -------------===//

#include "runtime/cuda/PlanRunner.h"

#include "gtest/gtest.h"
#include <chrono>
#include <cstring>
#include <random>

using namespace fathom;
using namespace fathom::cuda;
using I = Instruction;

namespace {

/// fa::Buffer<T, 2>.
struct Buffer2 {
  char *data;
  long long size[2], stride[2];
};

class Recorder : public Machine {
public:
  std::string log;
  Buffer2 x, scratch;
  int value = 0;
  float scale = 0;
  bool failAtLaunch = false;
  alignas(256) char memory[4096];

  Status allocate(int64_t bytes, void *&at) override {
    log += "allocate " + std::to_string(bytes) + "; ";
    at = memory;
    return {};
  }
  Status release(void *at) override {
    EXPECT_EQ(at, memory);
    log += "release; ";
    return {};
  }
  Status clear(void *at, int64_t bytes, uint8_t byte) override {
    log += "clear " + std::to_string(static_cast<char *>(at) - memory) + " " +
           std::to_string(bytes) + " " + std::to_string(byte) + "; ";
    return {};
  }
  Status launch(int kernel, int64_t grid, void *const *p) override {
    if (failAtLaunch)
      return {ErrorCode::internal, "broken"};
    log += "launch " + std::to_string(kernel) + " grid " +
           std::to_string(grid) + "; ";
    std::memcpy(&x, p[0], sizeof(x));
    std::memcpy(&scratch, p[1], sizeof(scratch));
    std::memcpy(&value, p[2], sizeof(value));
    std::memcpy(&scale, p[3], sizeof(scale));
    return {};
  }
};

/// A grid of ceil(size 0 of x / n), for the scalar n, and a scratch array of as
/// many rows.
class Plans : public ::testing::Test {
protected:
  Program program;
  Recorder machine;
  int64_t sizes[2] = {10, 6}, strides[2] = {100, 1};
  std::vector<CallArgument> args;

  Plans() {
    cuda::Kernel k;
    k.name = "k";
    k.threads = 32;
    program.kernels = {k};
    Plan plan;
    plan.name = "x.fwd";
    plan.arguments = {{Scalar::f32, 2}, {Scalar::i32, -1}, {Scalar::f32, -1}};
    plan.workspaces = {{Scalar::f32, {{2}, {-1, 3}}}, {Scalar::i32, {}}};
    plan.launches = {{0,
                      2,
                      {{Parameter::argument, 0},
                       {Parameter::workspace, 0},
                       {Parameter::value, 1, Scalar::i32},
                       {Parameter::argument, 2}}}};
    plan.code = {{I::dim, 0, 0, 0, 0, 0},     {I::scalar, 1, 1},
                 {I::ceildivsi, 2, 0, 1},     {I::allocate, 0, 1},
                 {I::allocate, 0, 0},         {I::clear, 0, 1, 0, 0, 0},
                 {I::clear, 0, 0, 0, 0, 255}, {I::launch, 0, 0}};
    plan.results = {2};
    plan.registers = 3;
    program.plans = {plan};
    float scale = 0.5f;
    args.resize(3);
    args[0] = {Scalar::f32, 2, &sizes, sizes, strides, 0};
    args[1].type = Scalar::i32;
    args[1].bits = 4;
    std::memcpy(&args[2].bits, &scale, sizeof(scale));
  }

  Plan &plan() { return program.plans[0]; }
  PlanRunner runner() {
    EXPECT_EQ(check(program), "");
    return PlanRunner(program, plan());
  }
  /// Fails, and before anything is done.
  std::string refusal(Block block = {}) {
    int64_t result;
    Status s = runner().run(args, machine, block, &result);
    EXPECT_FALSE(s.ok());
    EXPECT_EQ(machine.log, "");
    return s.message();
  }
};

TEST_F(Plans, EffectsComeInOrder) {
  int64_t rows = 0;
  ASSERT_TRUE(runner().run(args, machine, {}, &rows).ok());
  EXPECT_EQ(rows, 3);
  EXPECT_EQ(machine.log, "allocate 292; clear 0 4 0; clear 256 36 255; "
                         "launch 0 grid 3; release; ");
  EXPECT_EQ(machine.x.data, reinterpret_cast<char *>(&sizes));
  EXPECT_EQ(machine.x.size[1], 6);
  EXPECT_EQ(machine.x.stride[0], 100);
  EXPECT_EQ(machine.scratch.data, machine.memory + 256);
  EXPECT_EQ(machine.scratch.size[0], 3);
  EXPECT_EQ(machine.scratch.stride[0], 3);
  EXPECT_EQ(machine.scratch.stride[1], 1);
  EXPECT_EQ(machine.value, 4);
  EXPECT_EQ(machine.scale, 0.5f);
}

TEST_F(Plans, WorkspacesOfTheCaller) {
  auto bytes = runner().workspaceBytes(args);
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ(*bytes, 292);
  EXPECT_NE(refusal({machine.memory, 291}).find("at least 292 bytes, got 291"),
            std::string::npos);
  EXPECT_NE(refusal({machine.memory + 8, 400}).find("aligned"),
            std::string::npos);
  int64_t rows;
  ASSERT_TRUE(runner().run(args, machine, {machine.memory, 292}, &rows).ok());
  EXPECT_EQ(machine.log, "clear 0 4 0; clear 256 36 255; launch 0 grid 3; ");
}

TEST_F(Plans, WorkspaceIsReleasedAfterAFailure) {
  machine.failAtLaunch = true;
  int64_t rows;
  Status s = runner().run(args, machine, {}, &rows);
  EXPECT_EQ(s.message(), "broken");
  EXPECT_NE(machine.log.find("release"), std::string::npos);
}

TEST_F(Plans, EmptyGridsAreNotLaunched) {
  sizes[0] = 0;
  int64_t rows = -1;
  ASSERT_TRUE(runner().run(args, machine, {}, &rows).ok());
  EXPECT_EQ(rows, 0);
  EXPECT_EQ(machine.log, "allocate 256; clear 0 4 0; release; ");
}

TEST_F(Plans, RefusalsComeBeforeEffects) {
  args[1].bits = 0;
  EXPECT_NE(refusal().find("divided by zero"), std::string::npos);
  args[1].bits = 1;
  sizes[0] = int64_t(1) << 31;
  EXPECT_NE(refusal().find("not below 2^31"), std::string::npos);
  sizes[0] = -1;
  EXPECT_NE(refusal(), "");
  sizes[0] = 10;
  args[1].bits = uint32_t(-1);
  EXPECT_NE(refusal().find("workspace"), std::string::npos); // negative rows
  args[1].bits = 1;
  plan().code[2] = {I::constant, 2, 0, 0, 0, int64_t(1) << 40};
  EXPECT_NE(refusal().find("grid of 1099511627776 CTAs"), std::string::npos);
  plan().code[2].imm = INT64_MAX;
  EXPECT_NE(refusal().find("workspace"), std::string::npos);
  plan().code[2] = {I::constant, 2, 0, 0, 0, 1};
  plan().code[1] = {I::constant, 1, 0, 0, 0, int64_t(1) << 32};
  EXPECT_NE(refusal().find("32 bits"), std::string::npos);
  args[0].rank = 1;
  EXPECT_NE(refusal().find("expected rank 2"), std::string::npos);
  args.pop_back();
  EXPECT_NE(refusal().find("expected 3 arguments, got 2"), std::string::npos);
}

TEST_F(Plans, DescriptorsAreArguments) {
  struct {
    char *allocated, *aligned;
    int64_t offset, sizes[2], strides[2];
  } x = {nullptr, machine.memory, 2, {7, 6}, {9, 1}};
  int n = 7;
  float scale = 2;
  void *pointers[] = {&x, &n, &scale};
  int64_t rows;
  ASSERT_TRUE(
      runner().run(fromDescriptors(plan(), pointers), machine, {}, &rows).ok());
  EXPECT_EQ(rows, 1);
  EXPECT_EQ(machine.x.data, machine.memory + 8);
  EXPECT_EQ(machine.x.stride[0], 9);
  EXPECT_EQ(machine.scale, 2);
}

TEST(PlanArithmetic, IsThatOfArith) {
  struct Case {
    I::Op op;
    int64_t a, b, want;
  };
  const int64_t low = INT64_MIN;
  for (Case c : {Case{I::addi, INT64_MAX, 1, low},
                 {I::subi, 3, 5, -2},
                 {I::muli, -3, 5, -15},
                 {I::divsi, -7, 2, -3},
                 {I::divsi, low, -1, low},
                 {I::divui, -1, 2, INT64_MAX},
                 {I::remsi, -7, 2, -1},
                 {I::remsi, low, -1, 0},
                 {I::remui, -1, 10, 5},
                 {I::ceildivsi, 7, 2, 4},
                 {I::ceildivsi, -7, 2, -3},
                 {I::ceildivsi, 7, -2, -3},
                 {I::ceildivsi, -7, -2, 4},
                 {I::ceildivsi, 6, 2, 3},
                 {I::floordivsi, 7, 2, 3},
                 {I::floordivsi, -7, 2, -4},
                 {I::floordivsi, 7, -2, -4},
                 {I::floordivsi, -6, 2, -3},
                 {I::minsi, -1, 1, -1},
                 {I::maxsi, -1, 1, 1},
                 {I::minui, -1, 1, 1},
                 {I::maxui, -1, 1, -1},
                 {I::andi, 6, 3, 2},
                 {I::ori, 6, 3, 7},
                 {I::xori, 6, 3, 5},
                 {I::shli, 3, 2, 12},
                 {I::shli, 3, 64, 0},
                 {I::shrsi, -8, 1, -4},
                 {I::shrsi, -8, 99, -1},
                 {I::shrui, -1, 63, 1}}) {
    Program p;
    Plan plan;
    plan.code = {{I::constant, 0, 0, 0, 0, c.a},
                 {I::constant, 1, 0, 0, 0, c.b},
                 {c.op, 2, 0, 1},
                 {I::cmp, 3, 0, 1, 0, 2}, // slt
                 {I::select, 4, 0, 1, 3}};
    plan.results = {2, 4};
    plan.registers = 5;
    p.plans = {plan};
    ASSERT_EQ(check(p), "");
    PlanRunner runner(p, p.plans[0]);
    EXPECT_FALSE(runner.hasEffects());
    Recorder machine;
    int64_t results[2];
    ASSERT_TRUE(runner.run({}, machine, {}, results).ok());
    EXPECT_EQ(results[0], c.want) << c.op << ": " << c.a << ", " << c.b;
    EXPECT_EQ(results[1], std::min(c.a, c.b));
  }
}

TEST(PlanArithmetic, Predicates) {
  for (int64_t predicate = 0; predicate < 10; ++predicate)
    for (int64_t a : {-1, 0, 1})
      for (int64_t b : {-1, 0, 1}) {
        uint64_t ua = a, ub = b;
        bool want[] = {
            a == b,  a != b, a<b, a <= b, a> b, a >= b, ua<ub, ua <= ub, ua> ub,
            ua >= ub};
        Program p;
        Plan plan;
        plan.code = {{I::constant, 0, 0, 0, 0, a},
                     {I::constant, 1, 0, 0, 0, b},
                     {I::cmp, 2, 0, 1, 0, predicate}};
        plan.results = {2};
        plan.registers = 3;
        p.plans = {plan};
        Recorder machine;
        int64_t result;
        ASSERT_TRUE(
            PlanRunner(p, p.plans[0]).run({}, machine, {}, &result).ok());
        EXPECT_EQ(result, want[predicate]) << predicate << " " << a << " " << b;
      }
}

/// Whatever check() accepts runs to an end or a refusal.
TEST_F(Plans, AcceptedPlansStayInBounds) {
  class Reader : public Machine {
  public:
    const Program *program = nullptr;
    std::vector<char> memory;
    Status allocate(int64_t bytes, void *&at) override {
      if (bytes > (1 << 20))
        return {ErrorCode::unsupported, "too much"};
      memory.resize(bytes + 256);
      at = memory.data();
      return {};
    }
    Status release(void *) override { return {}; }
    Status clear(void *at, int64_t bytes, uint8_t value) override {
      std::memset(at, value, bytes);
      return {};
    }
    Status launch(int kernel, int64_t grid, void *const *p) override {
      EXPECT_LT(size_t(kernel), program->kernels.size());
      EXPECT_GT(grid, 0);
      return {};
    }
  };
  const Program sound = program;
  std::mt19937 random(7);
  auto number = [&]() -> int64_t {
    switch (random() % 8) {
    case 0:
      return int64_t(random()) << 31 | random();
    case 1:
      return -int64_t(random() % 3);
    default:
      return random() % 5;
    }
  };
  int accepted = 0, ran = 0;
  for (int n = 0; n < 100000; ++n) {
    program = sound;
    for (int edits = 1 + random() % 3; edits-- > 0;) {
      Instruction &i = plan().code[random() % plan().code.size()];
      Parameter &p = plan().launches[0].parameters[random() % 4];
      switch (random() % 10) {
      case 0:
        i.op = I::Op(random() % (I::launch + 1));
        break;
      case 1:
        i.dst = number();
        break;
      case 2:
        i.a = number();
        break;
      case 3:
        i.b = number();
        break;
      case 4:
        i.imm = number();
        break;
      case 5:
        p.kind = Parameter::Kind(random() % 3);
        break;
      case 6:
        p.index = number();
        break;
      case 7:
        plan().workspaces[random() % 2].dims.push_back(
            {int(number()), number()});
        break;
      case 8:
        plan().registers = number();
        break;
      default:
        plan().results.push_back(number());
      }
    }
    if (!check(program).empty())
      continue;
    ++accepted;
    Reader reader;
    reader.program = &program;
    std::vector<int64_t> results(plan().results.size());
    ran +=
        PlanRunner(program, plan()).run(args, reader, {}, results.data()).ok();
  }
  EXPECT_GT(accepted, 1000);
  EXPECT_GT(ran, 1000);
}

/// No bound: machines differ. Printed for whoever changes the interpreter.
TEST_F(Plans, TimeOfACall) {
  class Nothing : public Machine {
    Status allocate(int64_t, void *&) override { return {}; }
    Status release(void *) override { return {}; }
    Status clear(void *, int64_t, uint8_t) override { return {}; }
    Status launch(int, int64_t, void *const *) override { return {}; }
  } nothing;
  PlanRunner r = runner();
  int64_t rows;
  constexpr int n = 100000;
  auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < n; ++i)
    ASSERT_TRUE(r.run(args, nothing, {machine.memory, 292}, &rows).ok());
  std::chrono::duration<double, std::nano> time =
      std::chrono::steady_clock::now() - start;
  std::printf("%.0f ns a call\n", time.count() / n);
}

//===----------------------------------------------------------------------===//
// Maps of arrays
//===----------------------------------------------------------------------===//

/// Makes maps that hold their number, and keeps what they were made of.
class MapMaker : public Machine {
public:
  std::vector<BoxArray> made;
  std::vector<int64_t> launched; ///< the first word of the map of a launch

  Status allocate(int64_t, void *&) override { return {}; }
  Status release(void *) override { return {}; }
  Status clear(void *, int64_t, uint8_t) override { return {}; }
  Status makeMap(const BoxArray &array, void *map) override {
    made.push_back(array);
    std::memset(map, 0xee, kMapBytes);
    int64_t number = made.size();
    std::memcpy(map, &number, 8);
    return {};
  }
  Status launch(int, int64_t, void *const *p) override {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(p[0]) % kMapAlignment, 0u);
    std::memcpy(&launched.emplace_back(), p[0], 8);
    return {};
  }
};

class Maps : public ::testing::Test {
protected:
  Program program;
  MapMaker machine;
  int64_t sizes[3] = {2, 70, 64}, strides[3] = {6400, 80, 1};
  CallArgument array{Scalar::bf16, 3, &sizes, sizes, strides, 0};

  Maps() {
    cuda::Kernel k;
    k.name = "k";
    k.threads = 32;
    program.kernels = {k};
    Plan plan;
    plan.name = "x.fwd";
    plan.arguments = {{Scalar::bf16, 3}};
    plan.maps = {{false, 0, {{0}, {1}, {-1, 64}}, {1, 64, 64}, 128}};
    plan.launches = {{0, 2, {{Parameter::map, 0}}}};
    plan.code = {{I::dim, 0, 0, 0, 0, 0},
                 {I::dim, 1, 0, 0, 0, 1},
                 {I::constant, 2, 0, 0, 0, 1},
                 {I::launch, 0, 0}};
    plan.registers = 3;
    program.plans = {plan};
  }
};

TEST_F(Maps, AreMadeOncePerArray) {
  ASSERT_EQ(check(program), "");
  PlanRunner runner(program, program.plans[0]);
  EXPECT_EQ(runner.parameterBytes(program.plans[0].launches[0]),
            std::vector<int64_t>{kMapBytes});
  for (int i = 0; i < 2; ++i)
    ASSERT_TRUE(runner.run(array, machine).ok());
  ASSERT_EQ(machine.made.size(), 1u);
  const BoxArray &a = machine.made[0];
  EXPECT_EQ(a.data, &sizes);
  EXPECT_EQ(a.rank, 3);
  EXPECT_EQ(a.elementBytes, 2);
  EXPECT_EQ(a.swizzle, 128);
  EXPECT_EQ(a.sizes[1], 70);
  EXPECT_EQ(a.strides[0], 12800);
  EXPECT_EQ(a.strides[1], 160);
  EXPECT_EQ(a.box[1], 64);

  strides[1] = 88;
  ASSERT_TRUE(runner.run(array, machine).ok());
  sizes[1] = 71;
  ASSERT_TRUE(runner.run(array, machine).ok());
  array.data = &strides;
  ASSERT_TRUE(runner.run(array, machine).ok());
  ASSERT_TRUE(runner.run(array, machine).ok());
  EXPECT_EQ(machine.launched, (std::vector<int64_t>{1, 1, 2, 3, 4, 4}));
}

TEST_F(Maps, OddStridesOfOneEntryDoNotMatter) {
  sizes[0] = 1, strides[0] = 3;
  PlanRunner runner(program, program.plans[0]);
  ASSERT_TRUE(runner.run(array, machine).ok());
  EXPECT_EQ(machine.made[0].strides[0] % 16, 0);
}

TEST_F(Maps, NoneIsMadeOfNoEntries) {
  sizes[1] = 0;
  PlanRunner runner(program, program.plans[0]);
  ASSERT_TRUE(runner.run(array, machine).ok());
  EXPECT_TRUE(machine.made.empty());
  EXPECT_EQ(machine.launched, std::vector<int64_t>{0});
}

TEST_F(Maps, MustFit) {
  program.plans[0].maps[0].box.pop_back();
  EXPECT_NE(check(program), "");
  program.plans[0].maps[0].box = {1, 64, 512};
  EXPECT_NE(check(program), "");
  program.plans[0].maps[0].box = {1, 64, 64};
  program.plans[0].maps[0].sizes[0].reg = 7;
  EXPECT_NE(check(program), "");
}

TEST_F(Maps, SurviveText) {
  Program back;
  std::string error;
  ASSERT_TRUE(fromText(toText(program), back, error)) << error;
  ASSERT_EQ(back.plans[0].maps.size(), 1u);
  EXPECT_EQ(back.plans[0].maps[0].box, (std::vector<int>{1, 64, 64}));
  EXPECT_EQ(back.plans[0].maps[0].sizes[2].size, 64);
  EXPECT_EQ(back.plans[0].launches[0].parameters[0].kind, Parameter::map);
}

} // namespace
