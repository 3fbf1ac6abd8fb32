//===- ProgramTest.cpp - programs as text, interpreted ----------------------===//

#include "codegen/cuda/Program.h"

#include "gtest/gtest.h"
#include <random>

using namespace fathom::cuda;
using I = Instruction;

namespace {

/// Two kernels; a plan with a workspace, a clear, two launches and a result:
/// rows = ceil(size 0 of x / 4), scratch is rows x 3.
Program sample() {
  Program p;
  p.target = "sm_90";
  for (const char *name : {"first", "second"}) {
    Kernel k;
    k.name = name;
    k.source = "// \"quoted\" \\ and\ttab, µ\n";
    k.threads = 128;
    k.sharedBytes = 1024;
    k.cubin = std::string("\177ELF\0\1\2\377", 8);
    k.ptx = ".version 8.0";
    k.resources = {42, 1, 2, 3, 4, 5, {"(C7510) note"}};
    p.kernels.push_back(k);
  }
  Plan plan;
  plan.name = "x.fwd";
  plan.arguments = {{Scalar::f32, 2}, {Scalar::i32, -1}, {Scalar::bf16, -1}};
  plan.workspaces = {{Scalar::f32, {{1}, {-1, 3}}}, {Scalar::i32, {}}};
  plan.launches = {{0,
                    1,
                    {{Parameter::argument, 0},
                     {Parameter::workspace, 0},
                     {Parameter::value, 3, Scalar::i32}}},
                   {1,
                    2,
                    {{Parameter::workspace, 1},
                     {Parameter::argument, 2},
                     {Parameter::argument, 1},
                     {Parameter::value, 0, Scalar::i64}}}};
  plan.code = {{I::dim, 0, 0, 0, 0, 0},       {I::constant, 2, 0, 0, 0, 4},
               {I::ceildivsi, 1, 0, 2, 0, 0}, {I::scalar, 3, 1, 0, 0, 0},
               {I::allocate, 0, 0, 0, 0, 0},  {I::allocate, 0, 1, 0, 0, 0},
               {I::clear, 0, 0, 0, 0, 255},   {I::launch, 0, 0, 0, 0, 0},
               {I::launch, 0, 1, 0, 0, 0}};
  plan.results = {1, 0};
  plan.registers = 4;
  p.plans.push_back(plan);
  return p;
}

TEST(Program, TextRoundTrip) {
  Program p = sample(), q;
  ASSERT_EQ(check(p), "");
  std::string text = toText(p), error;
  ASSERT_TRUE(fromText(text, q, error)) << error;
  EXPECT_EQ(toText(q), text);
  EXPECT_EQ(q.kernels[0].cubin, p.kernels[0].cubin);
  EXPECT_EQ(q.kernels[1].source, p.kernels[1].source);
  EXPECT_EQ(q.kernels[1].resources.notes, p.kernels[1].resources.notes);
  ASSERT_NE(q.find("x.fwd"), nullptr);
  EXPECT_EQ(q.find("x.bwd"), nullptr);
  EXPECT_EQ(q.find("x.fwd")->code[6].imm, 255);
  EXPECT_EQ(q.find("x.fwd")->workspaces[0].dims[1].size, 3);
}

TEST(Program, UnsoundPlansAreRefused) {
  auto fault = [](auto &&harm) {
    Program p = sample();
    harm(p.plans[0], p);
    std::string reason = check(p), error;
    Program q;
    EXPECT_NE(reason, "");
    EXPECT_FALSE(fromText(toText(p), q, error));
    EXPECT_EQ(error, reason);
    EXPECT_TRUE(q.plans.empty());
    return reason;
  };
  auto code = [&](size_t at, Instruction i) {
    return fault([&](Plan &p, Program &) { p.code[at] = i; });
  };
  EXPECT_EQ(code(0, {I::dim, 0, 3}),
            "plan 'x.fwd', instruction 0: an argument is out of range");
  code(0, {I::dim, 0, 0, 0, 0, 2});
  code(0, {I::dim, 0, 1, 0, 0, 0});
  code(0, {I::dim, 4});
  code(0, {I::addi, 0, 0, 0}); // reads itself
  code(1, {I::constant, 0});   // written twice
  code(3, {I::scalar, 3, 2});  // not an integer
  code(3, {I::scalar, 3, 0});  // not a scalar
  code(3, {I::cmp, 3, 0, 0, 0, 10});
  code(3, {I::select, 3, 0, 0, 3});
  code(4, {I::launch, 0, 0}); // before its workspace
  code(4, {I::allocate, 0, 2});
  code(5, {I::allocate, 0, 0});
  code(6, {I::clear, 0, 0, 0, 0, 256});
  code(6, {I::clear, 0, -1});
  code(7, {I::launch, 0, 2});
  fault([](Plan &p, Program &) { p.launches[0].kernel = 2; });
  fault([](Plan &p, Program &) { p.launches[0].grid = -1; });
  fault([](Plan &p, Program &) { p.launches[0].parameters[0].index = 3; });
  fault([](Plan &p, Program &) { p.launches[0].parameters[2].index = 4; });
  fault([](Plan &p, Program &) {
    p.launches[0].parameters[2].type = Scalar::f32;
  });
  fault([](Plan &p, Program &) { p.registers = 3; });
  fault([](Plan &p, Program &) { p.registers = 1 << 30; });
  fault([](Plan &p, Program &) { p.arguments[0].rank = 100; });
  fault([](Plan &p, Program &) { p.arguments[0].rank = -2; });
  fault([](Plan &p, Program &) { p.results[0] = 4; });
  fault([](Plan &p, Program &) { p.workspaces[0].dims[0].reg = 4; });
  fault([](Plan &p, Program &) { p.workspaces[0].dims[1].size = -1; });
  fault([](Plan &, Program &p) { p.kernels[0].threads = 1025; });
  fault([](Plan &, Program &p) { p.kernels[0].name = "a b"; });
  fault([](Plan &, Program &p) { p.kernels[0].sharedBytes = -1; });
}

TEST(Program, ForeignTextsAreRefused) {
  for (std::string text :
       {std::string(), std::string("{}"), std::string("[]"),
        std::string("null"),
        std::string("{\"format\":\"fathom-cuda-program-0\",\"target\":\"\","
                    "\"kernels\":[],\"plans\":[]}"),
        std::string("\0\0", 2), std::string(100000, '['),
        std::string(100000, '{')}) {
    Program q;
    std::string error;
    EXPECT_FALSE(fromText(text, q, error)) << text.substr(0, 20);
    EXPECT_NE(error, "");
  }
}

/// Whatever is accepted is sound.
TEST(Program, HarmedTextsNeverBecomeUnsound) {
  const std::string text = toText(sample());
  std::mt19937 random(1);
  int accepted = 0;
  for (int n = 0; n < 4000; ++n) {
    std::string harmed = text;
    for (int edits = 1 + random() % 3; edits-- > 0 && !harmed.empty();) {
      size_t at = random() % harmed.size();
      switch (random() % 4) {
      case 0:
        harmed[at] = "0123456789-,[]{}\"e"[random() % 18];
        break;
      case 1:
        harmed.erase(at, 1 + random() % 8);
        break;
      case 2:
        harmed.insert(at, std::to_string(int(random())));
        break;
      default:
        harmed.resize(at + 1);
      }
    }
    Program q;
    std::string error;
    if (fromText(harmed, q, error)) {
      ++accepted;
      EXPECT_EQ(check(q), "");
    } else {
      EXPECT_NE(error, "");
    }
  }
  EXPECT_GT(accepted, 0);
}

} // namespace
