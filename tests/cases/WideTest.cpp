//===- WideTest.cpp - offsets beyond 31 bits --------------------------------===//
//
// CASES B070, B071, B072: rows that lie 2^30 elements apart give the bits that
// compact rows give, forward and backward, for tensors and captured operands.
// Few pages are touched; the rest is address space.
//
//===----------------------------------------------------------------------===//

#include "runtime/DLPack.h"
#include "runtime/fathom.h"

#include "gtest/gtest.h"
#include <random>
#include <sys/mman.h>

using namespace fathom;

namespace {

constexpr int64_t kRow = int64_t(1) << 30;

/// A tensor with the DLPack struct that names it.
struct Held {
  Tensor tensor;
  Array array;
  DLTensor view;

  explicit Held(Tensor t) : tensor(t), array(toArray(t)), view(array.dlpack()) {
    view.strides = tensor.strides.data();
    view.shape = tensor.shape.data();
  }
  Held(const Held &) = delete;
  operator TensorRef() const { return view; }
};

/// Address space in which rows of dim `dim` of `shape` lie kRow elements apart.
class Space {
public:
  Space(std::vector<int64_t> shape, size_t dim)
      : bytes((shape[dim] - 1) * kRow * 4 + 4096 * 16),
        start(mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    Tensor compact = Tensor::zeros(DType::f32, shape);
    std::vector<int64_t> strides = compact.strides;
    strides[dim] = kRow;
    if (ok())
      wide =
          Tensor::view(DType::f32, shape, static_cast<char *>(start), strides);
  }
  ~Space() {
    if (ok())
      munmap(start, bytes);
  }
  Space(const Space &) = delete;
  bool ok() const { return start != MAP_FAILED; }

  Tensor wide;

private:
  size_t bytes;
  void *start;
};

TEST(Wide, RowsFarApart) {
  std::vector<int64_t> shape{1, 3, 1, 64};
  std::vector<std::unique_ptr<Space>> spaces;
  for (int n = 0; n < 8; ++n)
    spaces.push_back(std::make_unique<Space>(shape, 1));
  Space bias({3, 4}, 0);
  for (auto &s : spaces)
    if (!s->ok() || !bias.ok())
      GTEST_SKIP() << "expected 8 GiB of address space a tensor, got none";
  std::mt19937_64 random(3);
  std::normal_distribution<double> d;
  std::vector<Tensor> compact;
  for (int n = 0; n < 4; ++n) {
    compact.push_back(Tensor::zeros(DType::f32, shape));
    for (int64_t i = 0; i < compact[n].size(); ++i) {
      compact[n].store(i, d(random));
      spaces[n]->wide.store(spaces[n]->wide.offsetOf(i), compact[n].load(i));
    }
  }
  Tensor smallBias = Tensor::zeros(DType::f32, {3, 4});
  for (int64_t i = 0; i < 12; ++i) {
    smallBias.store(i, d(random));
    bias.wide.store(bias.wide.offsetOf(i), smallBias.load(i));
  }

  auto variant = Variant::parse(R"(
    fa.variant @v(%bias: tensor<?x?xf32>) causal
    score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %0 = tensor.extract %bias[%i, %j] : tensor<?x?xf32>
      %1 = arith.addf %s, %0 : f32
      fa.yield %1 : f32
    })");
  ASSERT_TRUE(variant.ok()) << variant.status().message();
  Held q(compact[0]), k(compact[1]), v(compact[2]), dO(compact[3]),
      b(smallBias);
  auto kernel = variant->compileFor({q, k, v, {b}, {}, {}});
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  auto forward = kernel->forward({q, k, v, {b}, {}, {}});
  ASSERT_TRUE(forward.ok()) << forward.status().message();
  auto gradients = kernel->backward(forward->saved, dO);
  ASSERT_TRUE(gradients.ok()) << gradients.status().message();

  Held wq(spaces[0]->wide), wk(spaces[1]->wide), wv(spaces[2]->wide),
      wdO(spaces[3]->wide), wb(bias.wide), wo(spaces[4]->wide),
      wdq(spaces[5]->wide), wdk(spaces[6]->wide), wdv(spaces[7]->wide);
  auto wide = kernel->forward({wq, wk, wv, {wb}, {}, {}}, {wo, {}});
  ASSERT_TRUE(wide.ok()) << wide.status().message();
  auto wideGradients =
      kernel->backward(wide->saved, wdO, {}, {wdq, wdk, wdv, {}});
  ASSERT_TRUE(wideGradients.ok()) << wideGradients.status().message();
  auto values = [](const Array &a) { return fromDLPack("array", a)->values(); };
  EXPECT_EQ(wo.tensor.values(), values(forward->o));
  EXPECT_EQ(values(wide->lse), values(forward->lse));
  EXPECT_EQ(wdq.tensor.values(), values(gradients->dq));
  EXPECT_EQ(wdk.tensor.values(), values(gradients->dk));
  EXPECT_EQ(wdv.tensor.values(), values(gradients->dv));
  EXPECT_EQ(values(wideGradients->dCaptures[0]),
            values(gradients->dCaptures[0]));
}

} // namespace
