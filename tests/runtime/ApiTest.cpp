//===- ApiTest.cpp - the public interface -----------------------------------===//
//
// Through fathom.h alone, against the oracle.
//
//===----------------------------------------------------------------------===//

#include "runtime/fathom.h"

#include "runtime/Compiler.h"
#include "runtime/DLPack.h"
#include "runtime/oracle/ReferenceAttention.h"

#include "gtest/gtest.h"
#include <cmath>
#include <deque>
#include <random>
#include <thread>

using namespace fathom;

namespace {

const char *const kText = R"(
fa.variant @full
fa.variant @causal causal
fa.variant @bias(%bias: tensor<?x?xf32>, %shift: f32, %doc: tensor<?xi32>) causal
score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
  %0 = tensor.extract %bias[%h, %j] : tensor<?x?xf32>
  %1 = arith.mulf %0, %shift : f32
  %2 = arith.addf %s, %1 : f32
  fa.yield %2 : f32
}
mask (%b: index, %h: index, %i: index, %j: index) {
  %0 = tensor.extract %doc[%i] : tensor<?xi32>
  %1 = tensor.extract %doc[%j] : tensor<?xi32>
  %2 = arith.cmpi eq, %0, %1 : i32
  fa.yield %2 : i1
})";

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

std::mt19937_64 random_(11);

Tensor normal(DType type, std::vector<int64_t> shape) {
  Tensor t = Tensor::zeros(type, std::move(shape));
  std::normal_distribution<double> d;
  for (int64_t n = 0; n < t.size(); ++n)
    t.store(n, d(random_));
  return t;
}

Tensor tensorOf(const Array &a) { return *fromDLPack("array", a); }

void expectRight(const char *name, const Tensor &got, const Tensor &ref,
                 const Tensor &naive, DType type, const Tensor &slack = {}) {
  oracle::Check c = oracle::compare(name, got, ref, naive, type, slack);
  EXPECT_TRUE(c.pass) << name << " " << c.error << " > " << c.tolerance << " "
                      << c.worst;
}

/// Forward and backward in `layout` on `device`, compared with the oracle.
void runAll(const std::string &variant, DType type, Layout layout,
            bool lseGradient, const std::string &device = "cpu") {
  SCOPED_TRACE(variant + " " + std::string(name(type)) + " " +
               stringifyLayout(layout).str() + " " + device);
  std::deque<Array> copies; // as long as views of them are in use
  auto there = [&](const Held &t) -> TensorRef {
    auto copy = copyTo(device, t);
    EXPECT_TRUE(copy.ok()) << copy.status().message();
    copies.push_back(*copy);
    return copies.back();
  };
  auto back = [&](const Array &a) {
    auto copy = copyTo("cpu", a);
    EXPECT_TRUE(copy.ok()) << copy.status().message();
    copies.push_back(*copy);
    return tensorOf(copies.back());
  };
  auto in = [&](std::vector<int64_t> s) {
    return normal(type, shapeInLayout(s, layout));
  };
  int64_t b = layout == Layout::packed ? 1 : 2, sq = 37, sk = 41;
  Held q(in({b, 4, sq, 24})), k(in({b, 2, sk, 24})), v(in({b, 2, sk, 16})),
      dO(in({b, 4, sq, 16}));
  Held dLse(normal(accType(type), shapeInLayout({b, 4, sq}, layout)));
  Held bias(normal(DType::f32, {4, 41})), shift(normal(DType::f32, {})),
      doc(Tensor::zeros(DType::i32, {41}));
  for (int64_t n = 0; n < 41; ++n)
    doc.tensor.store(n, n / 15);
  Held cuQ(Tensor::zeros(DType::i32, {4})),
      cuK(Tensor::zeros(device == "cpu" ? DType::i64 : DType::i32, {4}));
  std::vector<int64_t> listQ{0, 20, 20, 37}, listK{0, 13, 30, 41};
  for (int n = 0; n < 4; ++n) {
    cuQ.tensor.store(n, listQ[n]);
    cuK.tensor.store(n, listK[n]);
  }
  Inputs inputs{there(q), there(k), there(v), {}, {}, {}};
  // An f64 kernel on a GPU takes no f32 table.
  Held bias64(bias.tensor.to(DType::f64));
  bool wide = device != "cpu" && type == DType::f64;
  if (variant == "bias")
    inputs.captures = {there(wide ? bias64 : bias), shift, there(doc)};
  if (layout == Layout::packed) {
    inputs.cuSeqlensQ = there(cuQ);
    inputs.cuSeqlensK = there(cuK);
  }
  auto loaded = Variant::parse(kText, variant);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  KernelOptions options;
  options.layout = stringifyLayout(layout).str();
  options.lseGradient = lseGradient;
  auto kernel = loaded->compileFor(inputs, options);
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  auto forward = kernel->forward(inputs);
  ASSERT_TRUE(forward.ok()) << forward.status().message();
  auto grads = kernel->backward(forward->saved, there(dO),
                                lseGradient ? there(dLse) : TensorRef());
  ASSERT_TRUE(grads.ok()) << grads.status().message();

  auto source = VariantSource::parse(kText, "text", variant);
  oracle::Problem p;
  p.variant = (*source)->op();
  p.q = toLogical(q.tensor, layout);
  p.k = toLogical(k.tensor, layout);
  p.v = toLogical(v.tensor, layout);
  p.dO = toLogical(dO.tensor, layout);
  if (lseGradient)
    p.dLse = lseToLogical(dLse.tensor, layout);
  if (variant == "bias")
    p.captures = {bias.tensor, shift.tensor, doc.tensor};
  if (layout == Layout::packed) {
    p.cuSeqlensQ = listQ;
    p.cuSeqlensK = listK;
  }
  auto ref = *oracle::reference(p, 2), naive = *oracle::naive(p, 2);
  auto logical = [&](const Array &a) { return toLogical(back(a), layout); };
  expectRight("o", logical(forward->o), ref.o, naive.o, type);
  expectRight("lse", lseToLogical(back(forward->lse), layout), ref.lse,
              naive.lse, accType(type));
  expectRight("dq", logical(grads->dq), ref.dq, naive.dq, type, ref.dqSlack);
  expectRight("dk", logical(grads->dk), ref.dk, naive.dk, type, ref.dkSlack);
  expectRight("dv", logical(grads->dv), ref.dv, naive.dv, type, ref.dvSlack);
  if (variant == "bias") {
    ASSERT_EQ(grads->dCaptures.size(), 3u);
    EXPECT_FALSE(grads->dCaptures[2].defined());
    for (int c = 0; c < 2; ++c)
      expectRight("captured", back(grads->dCaptures[c]), ref.dCaptures[c],
                  naive.dCaptures[c], type, ref.dCaptureSlacks[c]);
  }
}

TEST(Api, AgreesWithTheOracle) {
  runAll("causal", DType::f32, Layout::bshd, false);
  runAll("causal", DType::bf16, Layout::packed, true);
  runAll("bias", DType::f64, Layout::bhsd, true);
  runAll("bias", DType::f16, Layout::bshd, false);
  runAll("bias", DType::f32, Layout::packed, false);
}

TEST(Api, AgreesWithTheOracleOnAGpu) {
  DeviceList list = listDevices();
  if (list.devices.size() < 2 || !list.note.empty())
    GTEST_SKIP() << list.note;
  for (DType type : {DType::bf16, DType::f16, DType::f32, DType::f64})
    for (Layout layout : {Layout::bshd, Layout::bhsd, Layout::packed})
      for (const char *variant : {"full", "causal", "bias"})
        runAll(variant, type, layout, layout == Layout::bhsd, "cuda:0");
}

// CASES B054 to B062: any strides for inputs, slices for outputs.
TEST(Api, StridesAreHonoured) {
  // q, k, v are slices of one tensor, dO is expanded, o goes into every second
  // row of a larger tensor.
  Held fused(normal(DType::f32, {1, 33, 3, 2, 16}));
  auto slice = [&](int64_t n) {
    Tensor t = fused.tensor;
    t.shape.erase(t.shape.begin() + 2);
    t.strides.erase(t.strides.begin() + 2);
    t.data += n * 2 * 16 * 4;
    return t;
  };
  Held q(slice(0)), k(slice(1)), v(slice(2));
  Tensor one = Tensor::zeros(DType::f32, {1});
  one.store(0, 0.5);
  Tensor flat =
      Tensor::view(DType::f32, {1, 33, 2, 16}, one.data, {0, 0, 0, 0});
  flat.owner = one.owner;
  Held dO(flat);
  Tensor large = Tensor::zeros(DType::f32, {1, 66, 2, 16});
  large.fill(7);
  Tensor every = large;
  every.shape[1] = 33;
  every.strides[1] *= 2;
  Held o(every);
  auto variant = Variant::parse(kText, "causal");
  auto kernel = variant->compileFor({q, k, v, {}, {}, {}});
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  auto forward = kernel->forward({q, k, v, {}, {}, {}}, {o, {}});
  ASSERT_TRUE(forward.ok()) << forward.status().message();
  EXPECT_FALSE(forward->o.defined());
  auto dense = kernel->forward({Held(q.tensor.to(DType::f32)),
                                Held(k.tensor.to(DType::f32)),
                                Held(v.tensor.to(DType::f32)),
                                {},
                                {},
                                {}});
  EXPECT_EQ(every.values(), tensorOf(dense->o).values());
  for (int64_t i = 1; i < 66; i += 2)
    EXPECT_EQ(large.at({0, i, 1, 15}), 7);
  // The gradients go into the slices of one tensor too.
  Held dFused(normal(DType::f32, {1, 33, 3, 2, 16}));
  auto gradients = kernel->backward(forward->saved, dO);
  ASSERT_TRUE(gradients.ok()) << gradients.status().message();
  fused.tensor.data = dFused.tensor.data;
  Held dq(slice(0)), dk(slice(1)), dv(slice(2));
  auto again = kernel->backward(forward->saved, dO, {}, {dq, dk, dv, {}});
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(dk.tensor.values(), tensorOf(gradients->dk).values());
  // CASES: outputs that overlap are refused.
  auto refused = kernel->backward(forward->saved, dO, {}, {dq, dq, dv, {}});
  EXPECT_NE(refused.status().message().find(
                "'dk': expected an output apart from the others"),
            std::string::npos)
      << refused.status().message();
  refused = kernel->backward(forward->saved, dO, {}, {q, dk, dv, {}});
  EXPECT_NE(refused.status().message().find("overlaps an input"),
            std::string::npos);
}

TEST(Api, ErrorsAreData) {
  auto says = [](const Status &s, ErrorCode code, const std::string &words) {
    EXPECT_EQ(int(s.code()), int(code));
    EXPECT_NE(s.message().find(words), std::string::npos) << s.message();
  };
  says(Variant::parse("module {").status(), ErrorCode::invalid_argument,
       "<text>:1:");
  says(Variant::parse(kText).status(), ErrorCode::invalid_argument,
       "choose one by its name (fa-run: --variant)");
  says(Variant::load("/nonexistent").status(), ErrorCode::io_error,
       "No such file");
  auto variant = Variant::parse(kText, "bias");
  EXPECT_EQ(variant->captures(),
            (std::vector<std::string>{"bias", "shift", "doc"}));
  KernelOptions o;
  o.dtype = "f8";
  says(variant->compile(o).status(), ErrorCode::invalid_argument,
       "f64, f32, bf16, f16, got 'f8'");
  o = {};
  o.headDim = 0;
  says(variant->compile(o).status(), ErrorCode::invalid_argument,
       "headDim: expected 1 to 512");
  o = {};
  o.pPolicy = "guess";
  EXPECT_FALSE(variant->compile(o).ok());
  Held q(normal(DType::f32, {1, 4, 3, 8})), k(normal(DType::f32, {1, 4, 2, 8}));
  says(variant->compileFor({q, k, k, {}, {}, {}}).status(),
       ErrorCode::invalid_argument,
       "divides the 3 heads"); // CASES B050
  Held k1(normal(DType::f32, {1, 4, 1, 8}));
  says(variant->compileFor({q, k1, k1, {}, {}, {}}).status(),
       ErrorCode::invalid_argument,
       "captured operand 'bias' of @bias is missing");
  auto causal = Variant::parse(kText, "causal");
  auto kernel = causal->compileFor({q, k1, k1, {}, {}, {}});
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  says(kernel->forward({q, k1, {}, {}, {}, {}}).status(),
       ErrorCode::invalid_argument, "'v' is missing");
  Held wide(normal(DType::f32, {1, 4, 3, 9}));
  says(kernel->forward({wide, k1, k1, {}, {}, {}}).status(),
       ErrorCode::invalid_argument, "head dim");
  Held equal(normal(DType::f32, {1, 4, 1, 8}));
  says(kernel->forward({equal, k1, k1, {}, {}, {}}).status(),
       ErrorCode::invalid_argument, "expected 3 heads, 3 for each head of 'k'");
  says(kernel->backward({}, q).status(), ErrorCode::invalid_argument,
       "what forward saved");
  auto forward = kernel->forward({q, k1, k1, {}, {}, {}});
  says(kernel->backward(forward->saved, q, q).status(),
       ErrorCode::invalid_argument, "'dlse'");
  says(kernel->backward(forward->saved, k1).status(),
       ErrorCode::invalid_argument,
       "'do': expected f32[1, 4, 3, 8], got f32[1, 4, 1, 8]");
}

TEST(Api, ForwardOnlySavesNothing) {
  Held q(normal(DType::f32, {1, 9, 2, 8}));
  KernelOptions o;
  o.gradients = false;
  auto kernel =
      Variant::parse(kText, "full")->compileFor({q, q, q, {}, {}, {}}, o);
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  auto forward = kernel->forward({q, q, q, {}, {}, {}});
  ASSERT_TRUE(forward.ok()) << forward.status().message();
  EXPECT_EQ(forward->saved.get(), nullptr);
  EXPECT_FALSE(kernel->backward(forward->saved, q).ok());
}

TEST(Api, MemoryIsKnownBefore) {
  auto variant = Variant::parse(kText, "causal");
  for (const char *policy : {"recompute", "store"}) {
    KernelOptions o;
    o.dtype = "bf16";
    o.pPolicy = policy;
    auto kernel = variant->compile(o);
    ASSERT_TRUE(kernel.ok()) << kernel.status().message();
    auto m = kernel->estimate({1, 32, 8192, 8192});
    ASSERT_TRUE(m.ok()) << m.status().message();
    int64_t tensor = int64_t(32) * 8192 * 64 * 2;
    EXPECT_EQ(m->inputs, 3 * tensor);
    EXPECT_EQ(m->outputs, tensor + (1 << 20)); // L: 1 MiB
    EXPECT_EQ(m->gradients, 3 * tensor);
    if (policy == std::string("store"))
      EXPECT_GE(m->saved, int64_t(4) << 30); // P: 4 GiB
    else
      EXPECT_LE(m->saved, 1 << 20);
  }
}

TEST(Api, Copies) {
  Held x(normal(DType::bf16, {3, 4}));
  Tensor turned = x.tensor;
  std::swap(turned.shape[0], turned.shape[1]);
  std::swap(turned.strides[0], turned.strides[1]);
  auto copy = copyTo("cpu", Held(turned));
  ASSERT_TRUE(copy.ok()) << copy.status().message();
  EXPECT_EQ(tensorOf(*copy).values(), turned.values());
  EXPECT_TRUE(tensorOf(*copy).isContiguous());
  EXPECT_FALSE(copyTo("moon", x).ok());
  EXPECT_FALSE(copyTo("cpu", {}).ok());
}

// CASES B110: compile and run from many threads.
TEST(Api, ManyThreads) {
  auto variant = Variant::parse(kText, "causal");
  Held q(normal(DType::f32, {1, 40, 2, 8}));
  std::vector<std::vector<double>> results(6);
  std::vector<std::thread> threads;
  for (auto &result : results)
    threads.emplace_back([&] {
      auto kernel = variant->compileFor({q, q, q, {}, {}, {}});
      if (!kernel)
        return;
      auto forward = kernel->forward({q, q, q, {}, {}, {}});
      if (forward)
        result = tensorOf(forward->o).values();
    });
  for (auto &t : threads)
    t.join();
  for (auto &result : results) {
    EXPECT_EQ(result.size(), 640u);
    EXPECT_EQ(result, results[0]);
  }
}

} // namespace
