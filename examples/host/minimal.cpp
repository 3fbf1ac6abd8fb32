//===- minimal.cpp - attention from a C++ program ---------------------------===//
//
// Parses a variant, compiles it for the tensors at hand, runs it forward and
// backward, and puts a row together from two halves of the keys. Exit code 0
// says that the halves gave the whole.
//
// With an installed Fathom:
//   find_package(Fathom REQUIRED)
//   target_link_libraries(minimal PRIVATE Fathom::fathom)
//
//===----------------------------------------------------------------------===//

#include <fathom.h>

#include <cmath>
#include <cstdio>
#include <random>

namespace {

/// A C-order float tensor of the program's own; null strides mean C order.
struct Floats {
  std::vector<int64_t> shape;
  std::vector<float> data;
  DLTensor tensor;

  Floats(std::vector<int64_t> sizes, std::mt19937 &random)
      : shape(std::move(sizes)) {
    int64_t n = 1;
    for (int64_t d : shape)
      n *= d;
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < n; ++i)
      data.push_back(normal(random));
    tensor = {data.data(),
              {kDLCPU, 0},
              int32_t(shape.size()),
              {kDLFloat, 32, 1},
              shape.data(),
              nullptr,
              0};
  }
};

const float *values(const fathom::Array &a) {
  return static_cast<float *>(a.dlpack().data);
}

int fail(const fathom::Status &status) {
  std::fprintf(stderr, "%s\n", status.message().c_str());
  return 1;
}

} // namespace

int main() {
  // A score is lowered by its distance, times a slope that each head has.
  auto variant = fathom::Variant::parse(R"(
    fa.variant @alibi(%slopes: tensor<?xf32>)
    score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %slope = tensor.extract %slopes[%h] : tensor<?xf32>
      %distance = fa.distance %i, %j : f32
      %0 = arith.mulf %slope, %distance : f32
      %1 = arith.subf %s, %0 : f32
      fa.yield %1 : f32
    })");
  if (!variant)
    return fail(variant.status());

  // [batch, sequence, heads, head dim]; 4 query heads share 2 KV heads.
  std::mt19937 random(1);
  Floats q({1, 50, 4, 32}, random), k({1, 70, 2, 32}, random),
      v({1, 70, 2, 32}, random);
  Floats slopes({4}, random), dO({1, 50, 4, 32}, random);
  fathom::Inputs inputs{q.tensor, k.tensor, v.tensor, {slopes.tensor}, {}, {}};
  auto kernel = variant->compileFor(inputs);
  if (!kernel)
    return fail(kernel.status());

  auto forward = kernel->forward(inputs);
  if (!forward)
    return fail(forward.status());
  auto gradients = kernel->backward(forward->saved, dO.tensor);
  if (!gradients)
    return fail(gradients.status());
  std::printf("o[0] = %g, lse[0] = %g, dq[0] = %g, gradient of slope 0 = %g\n",
              values(forward->o)[0], values(forward->lse)[0],
              values(gradients->dq)[0], values(gradients->dCaptures[0])[0]);

  // Full attention over keys 0 to 29 and 30 to 69, as views of k and v.
  auto full = fathom::Variant::parse("fa.variant @full()");
  if (!full)
    return fail(full.status());
  auto part = [](Floats &t, int64_t begin, int64_t end,
                 std::vector<int64_t> &shape) {
    DLTensor view = t.tensor;
    shape = {1, end - begin, 2, 32};
    view.shape = shape.data();
    view.byte_offset = begin * 2 * 32 * sizeof(float);
    return view;
  };
  std::vector<int64_t> shape1, shape2;
  DLTensor k1 = part(k, 0, 30, shape1), v1 = part(v, 0, 30, shape1);
  DLTensor k2 = part(k, 30, 70, shape2), v2 = part(v, 30, 70, shape2);
  auto once = full->compileFor({q.tensor, k.tensor, v.tensor, {}, {}, {}});
  if (!once)
    return fail(once.status());
  auto whole = once->forward({q.tensor, k.tensor, v.tensor, {}, {}, {}});
  auto first = once->forward({q.tensor, k1, v1, {}, {}, {}});
  auto second = once->forward({q.tensor, k2, v2, {}, {}, {}});
  if (!whole || !first || !second)
    return fail(whole ? first ? second.status() : first.status()
                      : whole.status());
  auto merged =
      fathom::merge({{first->o, first->lse}, {second->o, second->lse}});
  if (!merged)
    return fail(merged.status());
  float worst = 0;
  for (size_t n = 0; n < q.data.size(); ++n)
    worst =
        std::fmax(worst, std::fabs(values(merged->o)[n] - values(whole->o)[n]));
  std::printf("two halves against the whole: %g apart\n", worst);
  return worst < 1e-5f ? 0 : 1;
}
