//===- GpuApiTest.cpp - fathom.h on a GPU that computes nothing -------------===//
//
// With FakeCuda.cpp's idle kernels in the driver's place: what stands around
// the kernels. ApiTest compares results where a GPU is.
//
//===----------------------------------------------------------------------===//

#include "codegen/cuda/Nvrtc.h"
#include "runtime/DLPack.h"
#include "runtime/Devices.h"

#include "gtest/gtest.h"
#include <chrono>
#include <filesystem>
#include <thread>
#include <unistd.h>

using namespace fathom;

namespace {

void says(const Status &s, ErrorCode code, const std::string &words) {
  EXPECT_EQ(int(s.code()), int(code)) << s.message();
  EXPECT_NE(s.message().find(words), std::string::npos) << s.message();
}

class Gpu : public ::testing::Test {
protected:
  void SetUp() override {
    if (auto nvrtc = cuda::nvrtc(); !nvrtc)
      GTEST_SKIP() << toString(nvrtc.takeError());
    if (listDevices().devices.size() < 2)
      GTEST_SKIP() << listDevices().note;
    for (Array *a : {&q, &k, &v, &dO})
      *a = array({1, 40, 2, 64}, "cuda:0");
  }
  static Array array(Dims shape, const std::string &device,
                     DType type = DType::bf16) {
    Array host = toArray(Tensor::zeros(type, shape));
    auto made = copyTo(device, host);
    EXPECT_TRUE(made.ok()) << made.status().message();
    return *made;
  }
  Result<Kernel> compile(const char *text = "fa.variant @causal causal") {
    return Variant::parse(text)->compileFor(inputs());
  }
  Inputs inputs() const { return {q, k, v, {}, {}, {}}; }
  Array q, k, v, dO;
};

TEST_F(Gpu, ForwardAndBackward) {
  auto kernel = compile();
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  auto forward = kernel->forward(inputs());
  ASSERT_TRUE(forward.ok()) << forward.status().message();
  const DLTensor &o = forward->o.dlpack();
  EXPECT_EQ(o.device.device_type, kDLCUDA);
  EXPECT_EQ(o.device.device_id, 0);
  auto gradients = kernel->backward(forward->saved, dO);
  ASSERT_TRUE(gradients.ok()) << gradients.status().message();
  // Kept by another library beyond the arrays.
  DLManagedTensorVersioned *kept = gradients->dq.toDLPack();
  gradients = Status(ErrorCode::internal, "");
  kept->deleter(kept);
}

TEST_F(Gpu, WorkspacesOfTheCaller) {
  auto kernel = compile();
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  auto bytes = kernel->workspace(inputs());
  ASSERT_TRUE(bytes.ok()) << bytes.status().message();
  EXPECT_GT(bytes->backward, 0);
  auto estimate = kernel->estimate({1, 2, 40, 40});
  ASSERT_TRUE(estimate.ok()) << estimate.status().message();
  EXPECT_EQ(estimate->workspaceForward, bytes->forward);
  EXPECT_EQ(estimate->workspaceBackward, bytes->backward);
  Array memory = array({bytes->backward + 256}, "cuda:0", DType::u8);
  Call call;
  call.workspace = memory.dlpack().data;
  call.workspaceBytes = bytes->backward;
  auto forward = kernel->forward(inputs(), {}, call);
  ASSERT_TRUE(forward.ok()) << forward.status().message();
  EXPECT_TRUE(kernel->backward(forward->saved, dO, {}, {}, call).ok());
  call.workspaceBytes -= 1;
  says(kernel->backward(forward->saved, dO, {}, {}, call).status(),
       ErrorCode::invalid_argument, "workspace");
  call.workspaceBytes += 1;
  call.workspace = static_cast<char *>(call.workspace) + 8;
  says(kernel->backward(forward->saved, dO, {}, {}, call).status(),
       ErrorCode::invalid_argument, "workspace");
}

TEST_F(Gpu, OperandsOnTheWrongDeviceAreNamed) {
  auto kernel = compile();
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  Array host = array({1, 40, 2, 64}, "cpu"),
        second = array({1, 40, 2, 64}, "cuda:1");
  says(kernel->forward({q, host, v, {}, {}, {}}).status(),
       ErrorCode::invalid_argument,
       "operand 'k': expected a tensor on cuda:0, got one on cpu");
  says(kernel->forward({second, second, second, {}, {}, {}}).status(),
       ErrorCode::invalid_argument,
       "operand 'q': expected a tensor on cuda:0, got one on cuda:1");
  says(kernel->forward(inputs(), {host, {}}).status(),
       ErrorCode::invalid_argument,
       "operand 'o': expected a tensor on cuda:0, got one on cpu");
  auto forward = kernel->forward(inputs());
  ASSERT_TRUE(forward.ok());
  says(kernel->backward(forward->saved, host).status(),
       ErrorCode::invalid_argument, "operand 'do': expected a tensor on cuda");
  // Each GPU has its kernels, of one compile.
  int64_t before = cacheStats().compiled;
  auto other = Variant::parse("fa.variant @causal causal")
                   ->compileFor({second, second, second, {}, {}, {}});
  ASSERT_TRUE(other.ok()) << other.status().message();
  EXPECT_EQ(cacheStats().compiled, before);
  EXPECT_TRUE(other->forward({second, second, second, {}, {}, {}}).ok());
  says(other->backward(forward->saved, second).status(),
       ErrorCode::invalid_argument, "forward of this kernel saved");
  KernelOptions options;
  options.device = "cuda:2";
  says(Variant::parse("fa.variant @causal causal")->compile(options).status(),
       ErrorCode::invalid_argument, "cuda:2");
}

// Without 16 bytes to a row another kernel runs, compiled when it is needed.
TEST_F(Gpu, OtherOperandsOtherKernels) {
  auto kernel = compile("fa.variant @full");
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  int64_t before = cacheStats().compiled;
  EXPECT_TRUE(kernel->forward(inputs()).ok());
  EXPECT_EQ(cacheStats().compiled, before);
  DLTensor shifted = q.dlpack();
  shifted.byte_offset = 2; // reads past its end, were it read
  Inputs x = inputs();
  x.q = shifted;
  auto forward = kernel->forward(x);
  ASSERT_TRUE(forward.ok()) << forward.status().message();
  EXPECT_EQ(cacheStats().compiled, before + 1);
  EXPECT_TRUE(kernel->backward(forward->saved, dO).ok());
  EXPECT_EQ(cacheStats().compiled, before + 2);
  EXPECT_TRUE(kernel->forward(x).ok());
  EXPECT_EQ(cacheStats().compiled, before + 2);
}

TEST_F(Gpu, CapturesAndBoundaries) {
  auto variant = Variant::parse(
      "fa.variant @v(%t: tensor<?xf32>, %c: f32)\n"
      "score (%s: f32, %b: index, %h: index, %i: index, %j: index) {\n"
      "  %0 = tensor.extract %t[%h] : tensor<?xf32>\n"
      "  %1 = arith.mulf %0, %c : f32\n"
      "  %2 = arith.addf %s, %1 : f32\n"
      "  fa.yield %2 : f32 }");
  Array table = array({2}, "cuda:0", DType::f32),
        wrong = array({2}, "cuda:0", DType::f64),
        scalar = array({}, "cpu", DType::f32),
        packed = array({40, 2, 64}, "cuda:0"),
        cu = array({3}, "cuda:0", DType::i32),
        cu64 = array({3}, "cuda:0", DType::i64);
  KernelOptions options;
  options.layout = "packed";
  Inputs x{packed, packed, packed, {table, scalar}, cu, cu, 30, 30};
  auto kernel = variant->compileFor(x, options);
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  auto forward = kernel->forward(x);
  ASSERT_TRUE(forward.ok()) << forward.status().message();
  auto gradients = kernel->backward(forward->saved, packed);
  ASSERT_TRUE(gradients.ok()) << gradients.status().message();
  EXPECT_EQ(gradients->dCaptures[0].dlpack().device.device_type, kDLCUDA);
  EXPECT_EQ(gradients->dCaptures[1].dlpack().device.device_type, kDLCUDA);
  x.captures[0] = wrong;
  says(kernel->forward(x).status(), ErrorCode::invalid_argument,
       "captured operand 't': expected f32 on a GPU, where nothing is "
       "converted, got f64[2]");
  x.captures = {table, scalar};
  x.cuSeqlensK = cu64;
  says(kernel->forward(x).status(), ErrorCode::invalid_argument,
       "operand 'cu_seqlens_k': expected i32 on a GPU, got i64[3]");
}

TEST_F(Gpu, Merging) {
  Array lse = array({1, 2, 40}, "cuda:0", DType::f32);
  std::vector<fathom::Part> parts(30, {q, lse}); // two groups
  auto merged = merge(parts);
  ASSERT_TRUE(merged.ok()) << merged.status().message();
  EXPECT_EQ(merged->o.dlpack().device.device_type, kDLCUDA);
  parts[7].o = array({1, 40, 2, 64}, "cpu");
  says(merge(parts).status(), ErrorCode::invalid_argument,
       "operand 'o of part 7': expected a tensor on cuda:0, got one on cpu");
}

TEST_F(Gpu, BundlesNeedNoCompiler) {
  std::string path = std::filesystem::temp_directory_path() /
                     ("fathom-" + std::to_string(getpid()) + ".fab");
  KernelOptions options;
  options.dtype = "bf16";
  auto variant = Variant::parse("fa.variant @causal causal");
  Status s = variant->bundle(options, {"sm_90", "compute_80"}, path);
  ASSERT_TRUE(s.ok()) << s.message();
  int64_t before = cacheStats().compiled;
  auto kernel = Kernel::load(path);
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  auto forward = kernel->forward(inputs());
  ASSERT_TRUE(forward.ok()) << forward.status().message();
  EXPECT_TRUE(kernel->backward(forward->saved, dO).ok());
  EXPECT_EQ(cacheStats().compiled, before);
  options.gradients = false;
  s = variant->bundle(options, {"sm_120"}, path);
  ASSERT_TRUE(s.ok()) << s.message();
  says(Kernel::load(path).status(), ErrorCode::unsupported,
       "the bundle of @causal has no forward for aligned operands on sm_90; it "
       "is for sm_120");
  std::filesystem::remove(path);
}

TEST_F(Gpu, ManyThreads) {
  auto kernel = compile();
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] {
      for (int n = 0; n < 50; ++n) {
        auto forward = kernel->forward(inputs());
        EXPECT_TRUE(forward.ok());
        EXPECT_TRUE(forward.ok() && kernel->backward(forward->saved, dO).ok());
      }
    });
  for (auto &t : threads)
    t.join();
}

// What a call costs the host besides what the driver takes, which here is
// nothing. Twice the aim, since the machine may be busy.
TEST_F(Gpu, CallsAreCheap) {
  auto kernel = compile();
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  Array o = array({1, 40, 2, 64}, "cuda:0"), dq = o, dk = k, dv = v;
  Array lse = array({1, 2, 40}, "cuda:0", DType::f32);
  dq = array({1, 40, 2, 64}, "cuda:0"), dk = array({1, 40, 2, 64}, "cuda:0"),
  dv = array({1, 40, 2, 64}, "cuda:0");
  auto bytes = kernel->workspace(inputs());
  Array memory = array({bytes->backward + 1}, "cuda:0", DType::u8);
  Call call{nullptr, memory.dlpack().data, bytes->backward};
  double best[2] = {1, 1};
  Inputs x = inputs();
  for (int n = 0; n < 2000; ++n) {
    auto t0 = std::chrono::steady_clock::now();
    auto forward = kernel->forward(x, {o, lse}, call);
    auto t1 = std::chrono::steady_clock::now();
    auto gradients =
        kernel->backward(forward->saved, dO, {}, {dq, dk, dv, {}}, call);
    auto t2 = std::chrono::steady_clock::now();
    ASSERT_TRUE(gradients.ok()) << gradients.status().message();
    best[0] = std::min(best[0], std::chrono::duration<double>(t1 - t0).count());
    best[1] = std::min(best[1], std::chrono::duration<double>(t2 - t1).count());
  }
  printf("forward %.2f us, backward %.2f us\n", 1e6 * best[0], 1e6 * best[1]);
  EXPECT_LT(best[0], 6e-6);
  EXPECT_LT(best[1], 12e-6);
}

} // namespace
