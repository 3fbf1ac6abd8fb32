//===- CudaTest.cpp - programs on GPUs --------------------------------------===//
//
// Runs where a GPU is, and with FakeCuda.cpp in the driver's place where none
// is. What needs a driver and has none is skipped.
//
//===----------------------------------------------------------------------===//

#include "codegen/cuda/DeviceHeader.h"
#include "codegen/cuda/Nvrtc.h"
#include "runtime/cuda/CudaProgram.h"

#include "gtest/gtest.h"
#include <chrono>
#include <dlfcn.h>
#include <thread>

using namespace fathom;
using namespace fathom::cuda;
using I = Instruction;

namespace {

constexpr const char *kAdd = R"(
struct Array {
  float *data;
  long long size[1], stride[1];
};
extern "C" __global__ __launch_bounds__(128) void add(Array x, Array y,
                                                      Array out, int n) {
  long long i = blockIdx.x * 128ll + threadIdx.x;
  if (i < n)
    out.data[i * out.stride[0]] =
        x.data[i * x.stride[0]] + y.data[i * y.stride[0]];
}
)";

/// out = x + 2 y, by way of a workspace.
Program addProgram(const std::string &target) {
  Program p;
  p.target = target;
  cuda::Kernel k;
  k.name = "add";
  k.source = kAdd;
  k.threads = 128;
  k.sharedBytes = 64 * 1024; // beyond what is given without asking
  p.kernels = {k};
  Plan plan;
  plan.name = "add";
  plan.arguments = {{Scalar::f32, 1}, {Scalar::f32, 1}, {Scalar::f32, 1}};
  plan.workspaces = {{Scalar::f32, {{0}}}};
  Parameter x{Parameter::argument, 0}, y{Parameter::argument, 1},
      out{Parameter::argument, 2}, w{Parameter::workspace, 0},
      n{Parameter::value, 0, Scalar::i32};
  plan.launches = {{0, 2, {x, y, w, n}}, {0, 2, {w, y, out, n}}};
  plan.code = {{I::dim, 0, 0},          {I::constant, 1, 0, 0, 0, 128},
               {I::ceildivsi, 2, 0, 1}, {I::allocate, 0, 0},
               {I::clear, 0, 0},        {I::launch, 0, 0},
               {I::launch, 0, 1}};
  plan.results = {2};
  plan.registers = 3;
  Plan size = plan;
  size.name = "size";
  size.code.resize(3);
  p.plans = {plan, size};
  return p;
}

Program compiled(const std::string &target) {
  Program p = addProgram(target);
  EXPECT_EQ(llvm::toString(compile(p)), "");
  return p;
}

/// Three arrays on a GPU; out has a stride of 2.
class Arrays {
public:
  Arrays(int gpu, int n) : gpu(gpu), n(n) {
    std::vector<float> x(n), y(n);
    for (int i = 0; i < n; ++i) {
      x[i] = i;
      y[i] = 1000 - i;
    }
    const void *from[] = {x.data(), y.data()};
    for (int a = 0; a < 3; ++a) {
      auto m = allocate(gpu, 8 * n, nullptr);
      EXPECT_TRUE(m.ok()) << m.status().message();
      memory[a] = *m;
      if (a < 2)
        EXPECT_TRUE(copy(gpu, *m, from[a], 4 * n).ok());
      args.push_back({Scalar::f32, 1, *m, &this->n, &strides[a]});
    }
  }
  ~Arrays() {
    for (void *m : memory)
      deallocate(gpu, m);
  }
  bool areAdded(void *stream = nullptr) {
    std::vector<float> out(2 * n);
    EXPECT_TRUE(copy(gpu, out.data(), memory[2], 8 * n, stream).ok());
    for (int i = 0; i < n; ++i)
      if (out[2 * i] != i + 2 * (1000 - i))
        return false;
    return true;
  }
  void reset() {
    std::vector<float> zero(2 * n);
    EXPECT_TRUE(copy(gpu, memory[2], zero.data(), 8 * n).ok());
  }

  int gpu;
  int64_t n;
  int64_t strides[3] = {1, 1, 2};
  void *memory[3] = {};
  std::vector<CallArgument> args;
};

class Cuda : public ::testing::Test {
protected:
  void SetUp() override {
    auto opened = Driver::get();
    if (!opened)
      GTEST_SKIP() << opened.status().message();
    driver = *opened;
    gpu = &driver->gpus()[0];
    fake = gpu->name == "Fake GPU";
    if (auto there = nvrtc(); !there)
      GTEST_SKIP() << llvm::toString(there.takeError());
    native = "sm_" + std::to_string(gpu->arch);
  }
  std::shared_ptr<const CudaProgram> make(Program p) {
    auto made = CudaProgram::create(std::move(p));
    EXPECT_TRUE(made.ok()) << made.status().message();
    return *made;
  }
  std::shared_ptr<const CudaProgram> make() { return make(compiled(native)); }

  const Driver *driver = nullptr;
  const Gpu *gpu = nullptr;
  bool fake = false;
  std::string native;
};

TEST(NoCuda, UncompiledAndUnsoundProgramsAreRefused) {
  auto made = CudaProgram::create(addProgram("sm_90"));
  EXPECT_NE(made.status().message().find("'add' is not compiled"),
            std::string::npos);
  Program p = addProgram("sm_90");
  p.kernels[0].ptx = "text";
  EXPECT_TRUE(CudaProgram::create(p).ok());
  p.plans[0].registers = 1;
  EXPECT_FALSE(CudaProgram::create(p).ok());
  p = addProgram("sm_9");
  EXPECT_NE(CudaProgram::create(p).status().message().find("got 'sm_9'"),
            std::string::npos);
}

TEST(NoCuda, SizesNeedNoGpu) {
  Program p = addProgram("sm_90");
  p.kernels[0].ptx = "text";
  auto program = CudaProgram::create(p);
  int64_t n = 1000, stride = 1, result = 0;
  std::vector<CallArgument> args(3, {Scalar::f32, 1, nullptr, &n, &stride});
  CallPlace nowhere;
  nowhere.gpu = 12345;
  ASSERT_TRUE(
      (*program)->run(*(*program)->find("size"), args, nowhere, &result).ok());
  EXPECT_EQ(result, 8);
  auto bytes = (*program)->find("add")->workspaceBytes(args);
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ(*bytes, 4000);
}

TEST(NoCuda, WithoutADriverTheWayOutIsSaid) {
  auto driver = Driver::get();
  if (driver)
    GTEST_SKIP() << "there is a GPU";
  EXPECT_EQ(driver.status().code(), ErrorCode::unsupported);
  EXPECT_NE(driver.status().message().find("device 'cpu'"), std::string::npos)
      << driver.status().message();
}

TEST_F(Cuda, GpusAreDescribed) {
  for (const Gpu &g : driver->gpus()) {
    std::printf("cuda:%d %s sm_%d, %d multiprocessors, %.1f GiB\n", g.number,
                g.name.c_str(), g.arch, g.multiprocessors,
                double(g.memory) / (1 << 30));
    Target t;
    std::string error;
    ASSERT_TRUE(Target::parse("sm_" + std::to_string(g.arch), t, error));
    EXPECT_EQ(t.limits.sharedPerCta, g.sharedPerCta);
    EXPECT_EQ(t.limits.sharedPerSm, g.sharedPerSm);
  }
}

TEST_F(Cuda, RunsOnEveryGpu) {
  auto p = make();
  for (const Gpu &g : driver->gpus()) {
    if (g.arch != gpu->arch)
      continue;
    for (int n : {1, 128, 1000}) {
      Arrays a(g.number, n);
      CallPlace where;
      where.gpu = g.number;
      int64_t grid = 0;
      a.reset();
      Status s = p->run(*p->find("add"), a.args, where, &grid);
      ASSERT_TRUE(s.ok()) << s.message();
      EXPECT_EQ(grid, (n + 127) / 128);
      EXPECT_TRUE(a.areAdded());
      // In the caller's memory.
      auto bytes = p->find("add")->workspaceBytes(a.args);
      auto memory = allocate(g.number, *bytes, nullptr);
      where.workspace = {*memory, *bytes};
      a.reset();
      s = p->run(*p->find("add"), a.args, where, &grid);
      ASSERT_TRUE(s.ok()) << s.message();
      EXPECT_TRUE(a.areAdded());
      deallocate(g.number, *memory);
    }
  }
}

TEST_F(Cuda, PtxRunsOnNewerGpus) {
  auto p = make(compiled("compute_80"));
  Arrays a(0, 500);
  int64_t grid;
  Status s = p->run(*p->find("add"), a.args, {}, &grid);
  if (s.message().find("compiler is newer") != std::string::npos)
    GTEST_SKIP() << s.message();
  ASSERT_TRUE(s.ok()) << s.message();
  EXPECT_TRUE(a.areAdded());
}

TEST_F(Cuda, RefusalsSayWhatIsSupported) {
  Arrays a(0, 10);
  int64_t grid;
  auto refusal = [&](Program program, ErrorCode code, int number = 0) {
    auto p = make(std::move(program));
    CallPlace where;
    where.gpu = number;
    Status s = p->run(*p->find("add"), a.args, where, &grid);
    EXPECT_FALSE(s.ok());
    EXPECT_EQ(s.code(), code) << s.message();
    return s.message();
  };
  EXPECT_NE(refusal(compiled(native), ErrorCode::invalid_argument, 999)
                .find("got cuda:999"),
            std::string::npos);
  std::string other = gpu->arch == 120 ? "sm_90a" : "sm_120a";
  EXPECT_NE(refusal(compiled(other), ErrorCode::unsupported)
                .find("compile for " + native + " or compute_80"),
            std::string::npos);
  Program p = compiled(native);
  p.kernels[0].sharedBytes = 400 * 1024;
  EXPECT_NE(refusal(p, ErrorCode::unsupported).find("409600 bytes of shared"),
            std::string::npos);
  p = compiled(native);
  p.plans[0].launches[0].parameters.pop_back();
  std::string mismatch = driver->api().FuncGetParamInfo
                             ? refusal(p, ErrorCode::internal)
                             : "parameters that are not";
  EXPECT_NE(mismatch.find("parameters that are not"), std::string::npos);
  // Which error a driver has for this is its own affair.
  p = compiled(native);
  p.kernels[0].cubin = "no machine code at all, but long enough to be read";
  auto harmed = make(p);
  Status s = harmed->run(*harmed->find("add"), a.args, {}, &grid);
  EXPECT_FALSE(s.ok());
  EXPECT_NE(s.message().find("kernel 'add' on cuda:0"), std::string::npos);
  EXPECT_NE(s.message().find("CUDA_ERROR_"), std::string::npos) << s.message();
}

TEST_F(Cuda, OutOfMemoryIsAnError) {
  auto m = allocate(0, int64_t(1) << 50, nullptr);
  ASSERT_FALSE(m.ok());
  EXPECT_EQ(m.status().code(), ErrorCode::unsupported);
  EXPECT_NE(m.status().message().find("CUDA_ERROR_OUT_OF_MEMORY"),
            std::string::npos)
      << m.status().message();
}

TEST_F(Cuda, TheThreadsContextComesBack) {
  auto p = make();
  std::thread([&] {
    auto current = [&] {
      Context c = nullptr;
      driver->api().CtxGetCurrent(&c);
      return c;
    };
    ASSERT_EQ(current(), nullptr);
    Arrays a(0, 100);
    int64_t grid;
    ASSERT_TRUE(p->run(*p->find("add"), a.args, {}, &grid).ok());
    EXPECT_TRUE(a.areAdded());
    EXPECT_EQ(current(), nullptr);
    // One of another GPU, if there are two.
    const Gpu &last = driver->gpus().back();
    CurrentGpu other(*driver, last);
    Context before = current();
    a.reset();
    ASSERT_TRUE(p->run(*p->find("add"), a.args, {}, &grid).ok());
    EXPECT_TRUE(a.areAdded());
    EXPECT_EQ(current(), before);
  }).join();
}

TEST_F(Cuda, ManyThreads) {
  auto p = make();
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      Arrays a(0, 100 + 50 * t);
      for (int i = 0; i < 20; ++i) {
        int64_t grid;
        a.reset();
        right +=
            p->run(*p->find("add"), a.args, {}, &grid).ok() && a.areAdded();
      }
    });
  for (std::thread &t : threads)
    t.join();
  EXPECT_EQ(right, 160);
}

/// Also when the capture is what first needs the machine code.
TEST_F(Cuda, CapturedCallsReplay) {
  if (fake)
    GTEST_SKIP() << "needs a GPU";
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  auto find = [&]<typename F>(F *&f, const char *name) {
    f = reinterpret_cast<F *>(dlsym(library, name));
    ASSERT_NE(f, nullptr) << name;
  };
  Code (*createStream)(void **, unsigned);
  Code (*destroyStream)(void *);
  Code (*begin)(void *, int);
  Code (*end)(void *, void **);
  Code (*instantiate)(void **, void *, unsigned long long);
  Code (*launch)(void *, void *);
  find(createStream, "cuStreamCreate");
  find(destroyStream, "cuStreamDestroy_v2");
  find(begin, "cuStreamBeginCapture_v2");
  find(end, "cuStreamEndCapture");
  find(instantiate, "cuGraphInstantiateWithFlags");
  find(launch, "cuGraphLaunch");
  for (bool own : {false, true}) {
    auto p = make();
    Arrays a(0, 1000);
    a.reset();
    CurrentGpu current(*driver, *gpu);
    void *stream = nullptr, *second = nullptr, *graph = nullptr,
         *exec = nullptr;
    ASSERT_EQ(createStream(&stream, 1), 0);
    ASSERT_EQ(createStream(&second, 1), 0);
    auto memory = allocate(0, 4000, nullptr);
    ASSERT_TRUE(synchronize(0, nullptr).ok());
    CallPlace where;
    where.stream = stream;
    if (own)
      where.workspace = {*memory, 4000};
    int64_t grid;
    ASSERT_EQ(begin(stream, /*global=*/0), 0);
    Status s = p->run(*p->find("add"), a.args, where, &grid);
    EXPECT_TRUE(s.ok()) << s.message();
    ASSERT_EQ(end(stream, &graph), 0);
    ASSERT_EQ(instantiate(&exec, graph, 0), 0);
    EXPECT_FALSE(a.areAdded());
    // The graph outlives the program.
    p.reset();
    for (void *replay : {stream, second}) {
      a.reset();
      ASSERT_EQ(launch(exec, replay), 0);
      EXPECT_TRUE(a.areAdded(replay));
    }
    deallocate(0, *memory);
    destroyStream(stream);
    destroyStream(second);
  }
}

TEST_F(Cuda, TimeOfACall) {
  auto p = make();
  Arrays a(0, 100);
  auto memory = allocate(0, 4096, nullptr);
  CallPlace where;
  where.workspace = {*memory, 4096};
  int64_t grid;
  constexpr int n = 300; // fewer than a stream's queue holds
  const PlanRunner &plan = *p->find("add");
  ASSERT_TRUE(p->run(plan, a.args, where, &grid).ok());
  ASSERT_TRUE(synchronize(0, nullptr).ok());
  auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < n; ++i)
    ASSERT_TRUE(p->run(plan, a.args, where, &grid).ok());
  std::chrono::duration<double, std::micro> time =
      std::chrono::steady_clock::now() - start;
  std::printf("%.2f us a call with one clear and two launches\n",
              time.count() / n);
  ASSERT_TRUE(synchronize(0, nullptr).ok());
  deallocate(0, *memory);
}

//===----------------------------------------------------------------------===//
// Maps of arrays
//===----------------------------------------------------------------------===//

/// Each CTA copies a box of 64 x 64 entries, out is 128 x 64 for each matrix.
constexpr const char *kBoxes = R"(
FA_KERNEL(32, 1)
void boxes(const FA_IN_PLACE fa::TensorMap x, fa::Buffer<fa::bf16, 3> out) {
  int b = int(fa::block_id()) / 2, first = int(fa::block_id()) % 2 * 64;
  if (fa::thread_id() == 0) {
    fa::mbarrier_init(8192, 1);
    fa::mbarrier_init_fence();
    fa::mbarrier_arrive_expect(8192, 8192);
    fa::copy_box(0, x, 8192, b, first, 0);
  }
  fa::barrier();
  fa::mbarrier_wait(8192, false);
  for (int i = fa::lane_id(); i < 64; i += 32)
    for (int c = 0; c < 8; ++c)
      fa::store_global(
          (fa::u32x4 *)(out.data + ((b * 128 + first + i) * 64 + c * 8)),
          fa::load_shared<fa::u32x4>(fa::swizzled<128>(64, i, 16 * c)));
}
)";

TEST_F(Cuda, BoxesOfArraysArrive) {
  if (fake || gpu->arch < 90)
    GTEST_SKIP() << "no copy engine that takes boxes";
  Program p;
  p.target = native;
  cuda::Kernel k;
  k.name = "boxes";
  k.source = deviceHeader().str() + kBoxes;
  k.threads = 32;
  k.sharedBytes = 8200;
  p.kernels = {k};
  Plan plan;
  plan.name = "boxes";
  plan.arguments = {{Scalar::bf16, 3}, {Scalar::bf16, 3}};
  plan.maps = {{false, 0, {{0}, {1}, {-1, 64}}, {1, 64, 64}, 128}};
  plan.launches = {{0, 3, {{Parameter::map, 0}, {Parameter::argument, 1}}}};
  plan.code = {{I::dim, 0, 0, 0, 0, 0},
               {I::dim, 1, 0, 0, 0, 1},
               {I::constant, 2, 0, 0, 0, 2},
               {I::muli, 3, 0, 2},
               {I::launch, 0, 0}};
  plan.registers = 4;
  p.plans = {plan};
  ASSERT_EQ(llvm::toString(compile(p)), "");
  auto program = make(p);

  constexpr int64_t B = 3, S = 100, pitch = 72;
  std::vector<uint16_t> x(B * S * pitch), out(B * 128 * 64);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = i + 1;
  auto from = allocate(0, x.size() * 2, nullptr);
  auto to = allocate(0, out.size() * 2, nullptr);
  ASSERT_TRUE(from.ok() && to.ok());
  ASSERT_TRUE(copy(0, *from, x.data(), x.size() * 2).ok());
  int64_t sizes[] = {B, S, 64}, outSizes[] = {B, 128, 64},
          outStrides[] = {128 * 64, 64, 1};
  // Matrices one after the other, within each other, all the same one.
  for (auto [matrix, row] :
       {std::pair{S * pitch, pitch}, {pitch, B * pitch}, {int64_t(0), pitch}}) {
    int64_t strides[] = {matrix, row, 1};
    std::vector<CallArgument> args = {
        {Scalar::bf16, 3, *from, sizes, strides},
        {Scalar::bf16, 3, *to, outSizes, outStrides}};
    Status s = program->run(*program->find("boxes"), args, {});
    ASSERT_TRUE(s.ok()) << s.message();
    ASSERT_TRUE(copy(0, out.data(), *to, out.size() * 2).ok());
    for (int b = 0; b < B; ++b)
      for (int i = 0; i < 128; ++i)
        for (int j = 0; j < 64; ++j)
          ASSERT_EQ(out[(b * 128 + i) * 64 + j],
                    i < S ? x[b * matrix + i * row + j] : 0)
              << matrix << " " << b << " " << i << " " << j;
  }
  deallocate(0, *from);
  deallocate(0, *to);
}

} // namespace
