//===- DevicesTest.cpp - what is known of arrays on a GPU without one -------===//
//
// Addresses that nothing stands behind: whoever reads them crashes.
//
//===----------------------------------------------------------------------===//

#include "runtime/Devices.h"

#include "runtime/DLPack.h"
#include "runtime/Instance.h"

#include "gtest/gtest.h"

using namespace fathom;

namespace {

/// A DLPack struct and the sizes it points to.
struct Foreign {
  std::vector<int64_t> shape, strides;
  DLTensor tensor;

  Foreign(DLDataType type, std::vector<int64_t> sizes, DLDevice device,
          std::vector<int64_t> steps = {}, int64_t address = 4096)
      : shape(std::move(sizes)), strides(std::move(steps)),
        tensor{reinterpret_cast<void *>(address),
               device,
               int32_t(shape.size()),
               type,
               shape.data(),
               strides.empty() ? nullptr : strides.data(),
               0} {}
  operator TensorRef() const { return tensor; }
};

constexpr DLDataType kF32{kDLFloat, 32, 1}, kI32{kDLInt, 32, 1},
    kI64{kDLInt, 64, 1};
constexpr DLDevice kGpu0{kDLCUDA, 0}, kGpu1{kDLCUDA, 1};

void says(const Status &s, const std::string &words) {
  EXPECT_FALSE(s.ok());
  EXPECT_NE(s.message().find(words), std::string::npos) << s.message();
}

TEST(Devices, AreSaidByName) {
  for (const char *text : {"cpu", "cuda:0", "cuda:7"}) {
    auto d = parseDevice(text);
    ASSERT_TRUE(d.ok()) << d.status().message();
    EXPECT_EQ(name(*d), text);
  }
  EXPECT_EQ(name(*parseDevice("cuda")), "cuda:0");
  for (const char *text :
       {"", "gpu", "cuda:", "cuda:-1", "cuda:x", "cuda:1 ", "cuda0", "cpu:0"})
    says(parseDevice(text).status(),
         "expected cpu, cuda or cuda:N, got '" + std::string(text) + "'");
}

TEST(Devices, TheCpuIsAlwaysThere) {
  DeviceList list = listDevices();
  ASSERT_FALSE(list.devices.empty());
  EXPECT_EQ(list.devices[0].device, "cpu");
  EXPECT_EQ(list.devices[0].target, "cpu");
  EXPECT_EQ(list.devices.size() == 1, !list.note.empty());
}

TEST(Devices, AlignmentIsThatOfAllRows) {
  auto view = [](std::vector<int64_t> shape, std::vector<int64_t> strides = {},
                 int64_t address = 4096, DType type = DType::bf16) {
    return Tensor::view(type, std::move(shape),
                        reinterpret_cast<void *>(address), std::move(strides));
  };
  EXPECT_TRUE(isAligned(view({2, 5, 3, 64})));
  EXPECT_FALSE(isAligned(view({2, 5, 3, 64}, {}, 4104)));
  EXPECT_FALSE(isAligned(view({2, 5, 3, 60})));
  EXPECT_TRUE(isAligned(view({2, 5, 3, 60}, {}, 4096, DType::f32)));
  EXPECT_TRUE(isAligned(view({2, 5, 3, 60}, {960, 192, 64, 1})));
  EXPECT_FALSE(isAligned(view({2, 5, 3, 64}, {960, 192, 64, 2})));
  EXPECT_FALSE(isAligned(view({2, 5, 3, 64}, {961, 192, 64, 1})));
  EXPECT_TRUE(isAligned(view({1, 5, 3, 64}, {961, 192, 64, 1}))); // no matter
  EXPECT_TRUE(isAligned(view({2, 5, 3, 64}, {0, 0, 0, 1})));
  EXPECT_TRUE(isAligned(view({2, 5, 1, 64}, {320, 64, 7, 1})));
  // The copy engine does not go backwards.
  EXPECT_FALSE(isAligned(view({2, 5, 1, 64}, {-320, -64, 7, 1})));
}

// The part a call gets is that of its operands' class, compiled once.
TEST(Instances, PartsAreMadeWhenNeeded) {
  std::vector<std::pair<Piece, bool>> made;
  auto maker = [&](Piece piece, bool aligned) -> Result<Instance::Pointer> {
    made.emplace_back(piece, aligned);
    return Instance::Pointer(std::make_shared<Executable>());
  };
  Operands x;
  Results r;
  x.q = x.k = x.v = x.dO = r.o = r.dq = r.dk = r.dv = Tensor::view(
      DType::bf16, {1, 1, 8, 64}, reinterpret_cast<void *>(int64_t(4096)));
  Instance gpu(Device{0}, maker);
  auto first = gpu.forward(x, r);
  EXPECT_EQ(*gpu.forward(x, r), *first);
  (void)gpu.backward(x, r);
  x.v.data += 2;
  EXPECT_NE(*gpu.forward(x, r), *first);
  x.v.data -= 2;
  r.dk.data += 2; // no operand of forward
  (void)gpu.forward(x, r);
  (void)gpu.backward(x, r);
  std::vector<std::pair<Piece, bool>> want{{Piece::forward, true},
                                           {Piece::backward, true},
                                           {Piece::forward, false},
                                           {Piece::backward, false}};
  EXPECT_EQ(made, want);
  made.clear();
  Instance cpu(Device{}, maker);
  EXPECT_EQ(*cpu.forward(x, r), *cpu.backward(x, r));
  EXPECT_EQ(made.size(), 1u);
}

TEST(Devices, OperandsOnTheWrongOneAreNamed) {
  auto variant = Variant::parse(
      "fa.variant @scaled(%cap: f32, %t: tensor<?xf32>)\n"
      "score (%s: f32, %b: index, %h: index, %i: index, %j: index) {\n"
      "fa.yield %s : f32 }");
  ASSERT_TRUE(variant.ok()) << variant.status().message();
  Foreign q(kF32, {1, 8, 2, 16}, kGpu0), other(kF32, {1, 8, 2, 16}, kGpu1);
  Foreign host(kF32, {1, 8, 2, 16}, {kDLCPU, 0});
  Foreign cap(kF32, {}, kGpu0), t(kF32, {4}, {kDLCPU, 0});
  says(variant->compileFor({q, other, q, {}, {}, {}}).status(),
       "operand 'k': expected a tensor on cuda:0, got one on cuda:1");
  says(variant->compileFor({host, host, q, {}, {}, {}}).status(),
       "operand 'v': expected a tensor on cpu, got one on cuda:0");
  // The host reads captured scalars, the device captured tensors.
  says(variant->compileFor({q, q, q, {cap, t}, {}, {}}).status(),
       "operand 'cap': expected a tensor on cpu, got one on cuda:0");
  float value = 1;
  Foreign scalar(kF32, {}, {kDLCPU, 0}, {}, reinterpret_cast<int64_t>(&value));
  says(variant->compileFor({q, q, q, {scalar, t}, {}, {}}).status(),
       "operand 't': expected a tensor on cuda:0, got one on cpu");
}

TEST(Devices, BoundariesOnAGpuAreNotRead) {
  VariantInfo full;
  full.name = "full";
  auto operands = [&](DLDataType type, int64_t max) -> Result<Operands> {
    Operands x;
    Foreign q(kF32, {100, 2, 16}, kGpu0), cu(type, {5}, kGpu0);
    x.q = x.k = x.v = *fromDLPack("q", q);
    x.cuSeqlensQ = x.cuSeqlensK = *fromDLPack("cu_seqlens", cu);
    x.maxSeqlenQ = max;
    return bind(full, Layout::packed, x);
  };
  auto x = operands(kI32, 0);
  ASSERT_TRUE(x.ok()) << x.status().message();
  EXPECT_EQ(x->maxSeqlenQ, 100);
  EXPECT_EQ(operands(kI32, 40)->maxSeqlenQ, 40);
  EXPECT_EQ(operands(kI32, 1000)->maxSeqlenQ, 100);
  says(operands(kI64, 0).status(),
       "operand 'cu_seqlens_q': expected i32 on a GPU, got i64[5]");
  says(operands(kI32, -1).status(), "expected at least 0, got -1");
}

} // namespace
