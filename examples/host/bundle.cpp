//===- bundle.cpp - kernels made ahead of time, on a GPU --------------------===//
//
// Loads a file of compiled kernels and runs them: no compiler, no text. Knows
// no CUDA either; a program that has its own device memory and streams hands
// those over as DLPack tensors and as fathom::Call.
//
//   fa-run examples/01-causal.mlir --dtype bf16 --head-dim 64 --backward \
//     --target sm_80,sm_90,compute_80 --emit-bundle causal.fab
//   bundle causal.fab cuda:0
//
//===----------------------------------------------------------------------===//

#include <fathom.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>

namespace {

constexpr int64_t kLength = 200, kHeads = 4, kDim = 64;
int64_t sizes[] = {1, kLength, kHeads, kDim};

using Bf16 = std::vector<uint16_t>;

/// The upper half of a float, which is nearly a bf16.
uint16_t toBf16(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  return bits >> 16;
}

float toFloat(uint16_t x) {
  uint32_t bits = uint32_t(x) << 16;
  float y;
  std::memcpy(&y, &bits, 4);
  return y;
}

Bf16 normal(std::mt19937 &random) {
  std::normal_distribution<float> draw;
  Bf16 values(kLength * kHeads * kDim);
  for (uint16_t &v : values)
    v = toBf16(draw(random));
  return values;
}

DLTensor view(Bf16 &values) {
  return {values.data(), {kDLCPU, 0}, 4, {kDLBfloat, 16, 1}, sizes, nullptr, 0};
}

/// Rows of one head of o, by the definition, against what the kernel gave.
float worstError(const Bf16 &q, const Bf16 &k, const Bf16 &v,
                 const uint16_t *o) {
  auto at = [](const uint16_t *t, int64_t i, int64_t d) {
    return toFloat(t[i * kHeads * kDim + d]);
  };
  float worst = 0;
  for (int64_t i = 0; i < kLength; ++i) {
    std::vector<float> sum(kDim);
    float total = 0;
    for (int64_t j = 0; j <= i; ++j) {
      float score = 0;
      for (int64_t d = 0; d < kDim; ++d)
        score += at(q.data(), i, d) * at(k.data(), j, d);
      float p = std::exp(score / std::sqrt(float(kDim)));
      total += p;
      for (int64_t d = 0; d < kDim; ++d)
        sum[d] += p * at(v.data(), j, d);
    }
    for (int64_t d = 0; d < kDim; ++d)
      worst = std::fmax(worst, std::fabs(sum[d] / total - at(o, i, d)));
  }
  return worst;
}

int fail(const fathom::Status &status) {
  std::fprintf(stderr, "%s\n", status.message().c_str());
  return 1;
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: bundle FILE [cuda:N]\n");
    return 2;
  }
  std::string device = argc > 2 ? argv[2] : "cuda:0";
  auto kernel = fathom::Kernel::load(argv[1], device);
  if (!kernel)
    return fail(kernel.status());

  std::mt19937 random(1);
  Bf16 host[4] = {normal(random), normal(random), normal(random),
                  normal(random)};
  std::vector<fathom::Array> there; // q, k, v, do
  for (Bf16 &values : host) {
    auto copy = fathom::copyTo(device, view(values));
    if (!copy)
      return fail(copy.status());
    there.push_back(*copy);
  }
  fathom::Inputs inputs{there[0], there[1], there[2], {}, {}, {}};
  auto bytes = kernel->workspace(inputs);
  if (!bytes)
    return fail(bytes.status());
  std::printf("workspaces: %lld bytes forward, %lld backward\n",
              (long long)bytes->forward, (long long)bytes->backward);

  auto forward = kernel->forward(inputs);
  if (!forward)
    return fail(forward.status());
  auto gradients = kernel->backward(forward->saved, there[3]);
  if (!gradients)
    return fail(gradients.status());
  auto o = fathom::copyTo("cpu", forward->o);
  auto dq = fathom::copyTo("cpu", gradients->dq);
  if (!o || !dq)
    return fail(o ? dq.status() : o.status());
  auto *values = static_cast<uint16_t *>(o->dlpack().data);
  float worst = worstError(host[0], host[1], host[2], values);
  std::printf("o is at most %g off, dq[0] = %g\n", worst,
              toFloat(*static_cast<uint16_t *>(dq->dlpack().data)));
  return worst < 0.03f ? 0 : 1;
}
