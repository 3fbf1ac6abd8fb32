//===- StoredTest.cpp - executables that come back from bytes ---------------===//

#include "runtime/Stored.h"

#include "gtest/gtest.h"

using namespace fathom;

namespace {

using Op = cuda::Instruction;

/// @v with one saved buffer of [Sq, 2 Sk], whose sizes need no GPU.
cuda::Program program() {
  cuda::Program p;
  p.target = "sm_80";
  cuda::Plan saved;
  saved.name = "v.saved";
  saved.arguments = {{cuda::Scalar::bf16, 4},
                     {cuda::Scalar::bf16, 4},
                     {cuda::Scalar::bf16, 4},
                     {cuda::Scalar::f32, -1}};
  saved.registers = 4;
  auto add = [&](Op::Op op, int dst, int a, int b, int64_t imm) {
    Op i;
    i.op = op, i.dst = dst, i.a = a, i.b = b, i.imm = imm;
    saved.code.push_back(i);
  };
  add(Op::dim, 0, 0, 0, 2);
  add(Op::dim, 1, 1, 0, 2);
  add(Op::constant, 2, 0, 0, 2);
  add(Op::muli, 3, 1, 2, 0);
  saved.results = {0, 3};
  cuda::Plan fwd = saved;
  fwd.name = "v.fwd";
  fwd.code.clear();
  fwd.results.clear();
  fwd.arguments.push_back({cuda::Scalar::bf16, 4}); // o
  fwd.arguments.push_back({cuda::Scalar::f32, 3});  // lse
  fwd.arguments.push_back({cuda::Scalar::f32, 2});  // saved
  p.plans = {fwd, saved};
  return p;
}

TEST(Stored, ProgramsComeBack) {
  Executable e;
  e.name = "v";
  e.what = "@v for a test";
  e.gradients = true;
  e.gradCaptures = {0};
  ASSERT_TRUE(link(e, program()).ok());
  DiskCache::Entry entry{cuda::toText(*e.program), toMeta(e)};
  EXPECT_EQ(describeMeta(entry.meta), "@v for a test");
  auto again = fromEntry(entry);
  ASSERT_TRUE(again);
  EXPECT_EQ(toMeta(*again), entry.meta);
  EXPECT_TRUE(again->fwd.exists() && again->saved.exists());
  EXPECT_FALSE(again->bwd.exists() || again->joint.exists());

  Operands x;
  float scalar = 1;
  auto view = [](int64_t length) {
    return Tensor::view(DType::bf16, {1, 2, length, 8},
                        reinterpret_cast<void *>(int64_t(4096)));
  };
  x.q = view(5), x.k = x.v = view(7);
  x.captures = {Tensor::view(DType::f32, {}, &scalar)};
  auto shapes = again->savedShapes(x);
  ASSERT_TRUE(shapes.ok()) << shapes.status().message();
  ASSERT_EQ(shapes->size(), 1u);
  EXPECT_EQ(shapes->front().second, (Dims{5, 14}));
  x.captures[0].dtype = DType::f64;
  EXPECT_EQ(int(again->savedShapes(x).status().code()),
            int(ErrorCode::internal));
}

TEST(Stored, WhatIsNoneDoesNot) {
  Executable e;
  e.name = "v";
  ASSERT_TRUE(link(e, program()).ok());
  DiskCache::Entry good{cuda::toText(*e.program), toMeta(e)};
  EXPECT_TRUE(fromEntry(good));
  EXPECT_FALSE(fromEntry({"", good.meta}));
  EXPECT_FALSE(fromEntry({good.object, ""}));
  EXPECT_FALSE(fromEntry({good.object, "{}"}));
  EXPECT_FALSE(fromEntry({"junk", "{\"name\":\"v\",\"gradCaptures\":[],"
                                  "\"nests\":[],\"functions\":{}}"}));
  for (size_t n = 0; n < good.object.size(); n += 11)
    EXPECT_FALSE(fromEntry({good.object.substr(0, n), good.meta}));
  cuda::Program bad = program();
  bad.plans[1].code[0].a = 17;
  EXPECT_FALSE(link(e, std::move(bad)).ok());
}

} // namespace
