//===- DLPackTest.cpp - views of other libraries' tensors -------------------===//

#include "runtime/DLPack.h"

#include "gtest/gtest.h"
#include <cmath>
#include <random>
#include <set>

using namespace fathom;

namespace {

struct Given {
  std::vector<int64_t> shape, strides;
  std::vector<float> data = std::vector<float>(4096);
  DLTensor dl{};

  Given(std::vector<int64_t> shape, std::vector<int64_t> strides = {},
        uint64_t byteOffset = 0)
      : shape(std::move(shape)), strides(std::move(strides)) {
    dl = {data.data(),
          {kDLCPU, 0},
          int32_t(this->shape.size()),
          {kDLFloat, 32, 1},
          this->shape.data(),
          this->strides.empty() ? nullptr : this->strides.data(),
          byteOffset};
    for (size_t n = 0; n < data.size(); ++n)
      data[n] = n;
  }
};

TEST(DLPack, NullStridesAndOffsetsAreHonoured) {
  Given dense({2, 3}, {}, 8), columns({2, 3}, {1, 2}), expanded({2, 3}, {0, 1});
  EXPECT_EQ(fromDLPack("x", dense.dl)->values(),
            (std::vector<double>{2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(fromDLPack("x", columns.dl)->values(),
            (std::vector<double>{0, 2, 4, 1, 3, 5}));
  EXPECT_EQ(fromDLPack("x", expanded.dl)->values(),
            (std::vector<double>{0, 1, 2, 0, 1, 2}));
}

TEST(DLPack, RefusesWithWords) {
  auto says = [](const TensorRef &t, const std::string &words,
                 bool output = false) {
    auto r = output ? outputFromDLPack("x", t, {}) : fromDLPack("x", t);
    ASSERT_FALSE(r.ok());
    EXPECT_NE(r.status().message().find(words), std::string::npos)
        << r.status().message();
    EXPECT_NE(r.status().message().find("'x'"), std::string::npos);
  };
  says({}, "is missing");
  Given g({2, 3});
  Given bad = g;
  bad.dl.device.device_type = DLDeviceType(7);
  says(bad.dl, "on the CPU or a CUDA device");
  bad.dl.device = {kDLCUDA, 1};
  says(bad.dl, "expected a tensor on cpu, got one on cuda:1", true);
  bad.dl = g.dl;
  bad.dl.dtype = {kDLFloat, 8, 1};
  says(bad.dl, "code 2, 8 bits");
  bad.dl = g.dl;
  bad.dl.byte_offset = 2;
  says(bad.dl, "aligned to its 4 bytes"); // CASES B063
  bad.dl = g.dl;
  bad.dl.data = nullptr;
  says(bad.dl, "got null");
  DLManagedTensorVersioned m{};
  m.dl_tensor = g.dl;
  m.version = {2, 0};
  says(m, "version 1, got version 2");
  m.version = {1, 1};
  m.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
  EXPECT_TRUE(fromDLPack("x", m).ok());
  says(m, "read-only", true);
  Given expanded({2, 3}, {0, 1}), folded({2, 3}, {2, 1});
  says(expanded.dl, "stride of 0", true);
  says(folded.dl, "do not overlap", true);
  EXPECT_TRUE(outputFromDLPack("x", Given({2, 3}, {-3, 1}).dl, {}).ok());
}

TEST(DLPack, OverlapIsExact) {
  std::mt19937 random(5);
  std::vector<std::byte> memory(4096);
  int met = 0;
  for (int n = 0; n < 20000; ++n) {
    auto make = [&] {
      Tensor t;
      t.dtype = random() % 2 ? DType::f32 : DType::f16;
      t.data = memory.data() + 1024 + byteSize(t.dtype) * (random() % 60);
      for (int d = random() % 4; d > 0; --d) {
        t.shape.push_back(1 + random() % 3);
        t.strides.push_back(int64_t(random() % 31) - 15);
      }
      return t;
    };
    Tensor a = make(), b = make();
    std::set<std::byte *> bytes;
    for (int64_t i = 0; i < a.size(); ++i)
      for (int64_t k = 0; k < byteSize(a.dtype); ++k)
        bytes.insert(a.data + a.offsetOf(i) * byteSize(a.dtype) + k);
    bool shared = false;
    for (int64_t i = 0; i < b.size(); ++i)
      for (int64_t k = 0; k < byteSize(b.dtype); ++k)
        shared |= bytes.count(b.data + b.offsetOf(i) * byteSize(b.dtype) + k);
    ASSERT_EQ(overlap(a, b), shared) << n;
    met += shared;
  }
  EXPECT_GT(met, 1000);
}

// CASES B058: slices of one QKV tensor.
TEST(DLPack, SlicesAreApart) {
  Tensor fused = Tensor::zeros(DType::f32, {2, 2048, 3, 16, 128});
  auto slice = [&](int64_t n) {
    Tensor t = fused;
    t.shape.erase(t.shape.begin() + 2);
    t.strides.erase(t.strides.begin() + 2);
    t.data += n * fused.strides[2] * 4;
    return t;
  };
  EXPECT_FALSE(overlap(slice(0), slice(1)));
  EXPECT_FALSE(overlap(slice(2), slice(1)));
  EXPECT_TRUE(overlap(slice(1), slice(1)));
  EXPECT_TRUE(overlap(fused, slice(2)));
}

TEST(DLPack, ArraysGoToOtherLibraries) {
  DLManagedTensorVersioned *m;
  {
    Tensor t = Tensor::zeros(DType::bf16, {2, 3});
    t.store(5, 7);
    m = toArray(t).toDLPack();
  }
  EXPECT_EQ(m->version.major, 1u);
  EXPECT_EQ(m->dl_tensor.dtype.code, kDLBfloat);
  EXPECT_EQ(fromDLPack("x", *m)->at({1, 2}), 7);
  m->deleter(m);
}

/// Parts of a row of attention, by hand.
TEST(Merge, EmptyPartsAreNeutral) { // CASES B006
  auto tensor = [](std::vector<int64_t> shape, std::vector<double> values) {
    Tensor t = Tensor::zeros(DType::f32, std::move(shape));
    for (size_t n = 0; n < values.size(); ++n)
      t.store(n, values[n]);
    return toArray(t);
  };
  auto o = [&](double x) { return tensor({1, 1, 1, 2}, {x, -x}); };
  auto l = [&](double x) { return tensor({1, 1, 1}, {x}); };
  Array o1 = o(1), l1 = l(std::log(3.0)), o2 = o(5), l2 = l(0), nan = o(NAN),
        none = l(-INFINITY);
  auto m = merge({{o1, l1}, {nan, none}, {o2, l2}});
  ASSERT_TRUE(m.ok()) << m.status().message();
  auto value = [](const Array &a, int64_t n) {
    return static_cast<float *>(a.dlpack().data)[n];
  };
  EXPECT_FLOAT_EQ(value(m->o, 0), 2); // (3 * 1 + 1 * 5) / 4
  EXPECT_FLOAT_EQ(value(m->o, 1), -2);
  EXPECT_FLOAT_EQ(value(m->lse, 0), std::log(4.0));
  m = merge({{nan, none}, {nan, none}});
  EXPECT_EQ(value(m->o, 0), 0);
  EXPECT_EQ(value(m->lse, 0), -INFINITY);
  Array far = l(1000);
  m = merge({{o1, far}, {o2, l2}});
  EXPECT_EQ(value(m->o, 0), 1);
  EXPECT_EQ(value(m->lse, 0), 1000);

  EXPECT_FALSE(merge({}).ok());
  EXPECT_FALSE(merge({{o1, l1}}, "hsdb").ok());
  auto bad = merge({{o1, l1}, {l2, o2}});
  EXPECT_NE(
      bad.status().message().find("'o of part 1': expected f32[1, 1, 1, 2]"),
      std::string::npos)
      << bad.status().message();
  auto over = merge({{o1, l1}}, "bshd", {o1, {}});
  EXPECT_NE(over.status().message().find("overlaps an input"),
            std::string::npos);
}

} // namespace
