//===- EmulationTest.cpp - the device header and its emulation ---------------===//
//
// Kernels written by hand compute what they should, in any order of threads and
// copies; planted faults are found and named; the same files are CUDA.
//
//===----------------------------------------------------------------------===//

#include "codegen/cuda/DeviceHeader.h"
#include "codegen/cuda/Nvrtc.h"
#include "tests/emulation/Emulator.h"
#include "llvm/Support/MemoryBuffer.h"
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numeric>
#include <random>

using namespace fathom::emulation;
using testing::HasSubstr;

namespace {

/// A file of Inputs, after `defines`, the way printed files are.
std::string kernelFile(const std::string &name, const std::string &fault = "") {
  auto buffer = llvm::MemoryBuffer::getFile(std::string(FATHOM_TEST_DIR) +
                                            "/Inputs/" + name + ".cu");
  EXPECT_TRUE(bool(buffer)) << name;
  return "#ifdef FATHOM_EMULATION\n#include \"emulation.h\"\n#else\n" +
         fathom::cuda::deviceHeader().str() + "#endif\n" +
         (fault.empty() ? "" : "#define FAULT_" + fault + "\n") +
         (*buffer)->getBuffer().str();
}

Emulator compile(const std::string &name, const std::string &fault = "") {
  auto emulator = Emulator::compile(kernelFile(name, fault));
  if (!emulator) {
    ADD_FAILURE() << llvm::toString(emulator.takeError());
    abort();
  }
  return std::move(*emulator);
}

/// An array in row-major order, as a kernel's parameter.
template <class T, int R>
struct Array {
  std::vector<T> data;
  fa::Buffer<T, R> buffer;

  template <class... Sizes>
  Array(Memory &memory, bool writable, Sizes... sizes)
      : data((size_t(sizes) * ...)), buffer{data.data(), {sizes...}, {}} {
    long long stride = 1;
    for (int r = R - 1; r >= 0; stride *= buffer.size[r--])
      buffer.stride[r] = stride;
    memory.add(data.data(), data.size() * sizeof(T), writable, "x");
  }
};

/// Both orders of copies; threads rising and in two others.
const Options kOrders[] = {{false, 0}, {true, 0}, {false, 1}, {true, 2}};

float fromBf16(fa::bf16 x) {
  return fa::bitcast<float>(unsigned(x.bits) << 16);
}

//===----------------------------------------------------------------------===//
// Right
//===----------------------------------------------------------------------===//

std::string multiply(Emulator &emulator, bool transposed, Options options,
                     int64_t sharedBytes = 2 * 9728, bool check = true) {
  constexpr long long M = 128, N = 64, K = 160;
  Memory memory;
  Array<fa::bf16, 2> a(memory, false, transposed ? K : M, transposed ? M : K);
  Array<fa::bf16, 2> b(memory, false, transposed ? N : K, transposed ? K : N);
  Array<float, 2> c(memory, true, M, N);
  std::mt19937 random(1);
  for (auto *x : {&a.data, &b.data})
    for (fa::bf16 &v : *x) // small integers: sums are exact
      v.bits = fa::bitcast<unsigned>(float(int(random() % 9) - 4)) >> 16;
  long long depth = K;
  void *params[] = {&a.buffer, &b.buffer, &c.buffer, &depth};
  std::string wrong =
      emulator.run(transposed ? "product_transposed" : "product", M / 64, 128,
                   sharedBytes, params, memory, options);
  if (!wrong.empty() || !check)
    return wrong;
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < N; ++j) {
      float sum = 0;
      for (int k = 0; k < K; ++k)
        sum += fromBf16(a.data[transposed ? k * M + i : i * K + k]) *
               fromBf16(b.data[transposed ? j * K + k : k * N + j]);
      if (c.data[i * N + j] != sum)
        return fmt::format("({}, {}): expected {}, got {}", i, j, sum,
                           c.data[i * N + j]);
    }
  return "";
}

TEST(Emulation, Products) {
  Emulator emulator = compile("gemm");
  for (Options options : kOrders)
    for (bool transposed : {false, true})
      EXPECT_EQ(multiply(emulator, transposed, options), "");
}

std::string sumRows(Emulator &emulator, Options options, int threads = 128) {
  Memory memory;
  Array<float, 2> x(memory, false, 5, 1000);
  Array<float, 1> sums(memory, true, 5);
  std::iota(x.data.begin(), x.data.end(), 0);
  void *params[] = {&x.buffer, &sums.buffer};
  std::string wrong =
      emulator.run("row_sums", 5, threads, 16, params, memory, options);
  for (int i = 0; i < 5 && wrong.empty(); ++i)
    if (float sum = 1e6f * i + 499500; sums.data[i] != sum)
      wrong = fmt::format("{}: expected {}, got {}", i, sum, sums.data[i]);
  return wrong;
}

TEST(Emulation, Reduction) {
  Emulator emulator = compile("reduce");
  for (Options options : kOrders)
    EXPECT_EQ(sumRows(emulator, options), "");
}

std::string sumColumns(Emulator &emulator, Options options) {
  Memory memory;
  Array<float, 2> x(memory, false, 150, 4);
  Array<float, 1> sums(memory, true, 8);
  Array<double, 1> wide(memory, true, 1);
  Array<int, 1> count(memory, true, 2);
  std::iota(x.data.begin(), x.data.end(), 0);
  void *params[] = {&x.buffer, &sums.buffer.data, &wide.buffer.data,
                    &count.buffer.data};
  std::string wrong =
      emulator.run("column_sums", 3, 64, 0, params, memory, options);
  std::vector<float> expected = {44700, 44850, 45000, 45150,
                                 44700, 44850, 45000, 0};
  if (wrong.empty() && (sums.data != expected || wide.data[0] != 45150 ||
                        count.data != std::vector<int>({150, 150})))
    return "wrong sums";
  return wrong;
}

TEST(Emulation, Atomics) {
  Emulator emulator = compile("columns");
  for (Options options : kOrders)
    EXPECT_EQ(sumColumns(emulator, options), "");
}

std::string takeTurns(Emulator &emulator, Options options) {
  Memory memory;
  Array<int, 1> ticket(memory, true, 1), value(memory, true, 1);
  void *params[] = {&ticket.buffer.data, &value.buffer.data};
  std::string wrong =
      emulator.run("ordered", 20, 64, 0, params, memory, options);
  unsigned expected = 0;
  for (int i = 0; i < 20; ++i)
    expected = 3 * expected + i;
  if (wrong.empty() && unsigned(value.data[0]) != expected)
    return "out of order";
  return wrong;
}

TEST(Emulation, Turns) {
  Emulator emulator = compile("ticket");
  for (Options options : kOrders)
    EXPECT_EQ(takeTurns(emulator, options), "");
}

std::string playRoles(Emulator &emulator, Options options) {
  Memory memory;
  Array<int, 1> x(memory, false, 64 * 9), sum(memory, true, 1);
  std::iota(x.data.begin(), x.data.end(), 0);
  void *params[] = {&x.buffer, &sum.buffer.data};
  std::string wrong =
      emulator.run("roles", 2, 128, 512, params, memory, options);
  int expected = 2 * (64 * 9) * (64 * 9 - 1) / 2;
  if (wrong.empty() && sum.data[0] != expected)
    return fmt::format("expected {}, got {}", expected, sum.data[0]);
  return wrong;
}

std::string turnAround(Emulator &emulator, Options options) {
  Memory memory;
  Array<int, 1> x(memory, true, 64);
  std::iota(x.data.begin(), x.data.end(), 0);
  std::vector<int> expected = x.data;
  for (int &v : expected)
    ++v;
  void *params[] = {&x.buffer.data};
  std::string wrong = emulator.run("turn", 1, 64, 256, params, memory, options);
  return wrong.empty() && x.data != expected ? "wrong words" : wrong;
}

TEST(Emulation, NamedBarriers) {
  Emulator emulator = compile("roles");
  for (Options options : kOrders) {
    EXPECT_EQ(playRoles(emulator, options), "");
    EXPECT_EQ(turnAround(emulator, options), "");
  }
}

std::string copyBoxes(Emulator &emulator, Options options) {
  constexpr int M = 37, N = 44, steps = 5;
  Memory memory;
  Array<int, 2> x(memory, false, M, N);
  Array<int, 3> out(memory, true, steps, 8, 64);
  std::iota(x.data.begin(), x.data.end(), 1);
  BoxMap map;
  map.rank = 2, map.elementBytes = 4, map.swizzle = 128;
  map.data = reinterpret_cast<const char *>(x.data.data());
  map.sizes[0] = M, map.sizes[1] = N;
  map.strides[0] = 4 * N, map.strides[1] = 4;
  map.box[0] = 8, map.box[1] = 32;
  fa::TensorMap words;
  std::memcpy(&words, &map, sizeof(map));
  void *params[] = {&words, &out.buffer};
  std::string wrong =
      emulator.run("boxes", 1, 96, 8192 + 32, params, memory, options);
  for (int i = 0; i < 8 * steps && wrong.empty(); ++i)
    for (int j = 0; j < 64; ++j) {
      int expected = i < M && j < N ? x.data[i * N + j] : 0;
      if (int got = out.data[i * 64 + j]; got != expected)
        return fmt::format("({}, {}): expected {}, got {}", i, j, expected,
                           got);
    }
  return wrong;
}

TEST(Emulation, Boxes) {
  Emulator emulator = compile("boxes");
  for (Options options : kOrders)
    EXPECT_EQ(copyBoxes(emulator, options), "");
}

std::string multiplyByFours(Emulator &emulator, Options options) {
  constexpr long long K = 256;
  Memory memory;
  Array<fa::bf16, 2> a(memory, false, 64, K), b(memory, false, 8, K);
  Array<float, 2> c(memory, true, 64, 8);
  std::mt19937 random(3);
  for (auto *x : {&a.data, &b.data})
    for (fa::bf16 &v : *x)
      v.bits = fa::bitcast<unsigned>(float(int(random() % 9) - 4)) >> 16;
  void *params[] = {&a.buffer, &b.buffer, &c.buffer};
  std::string wrong =
      emulator.run("warpgroup", 1, 128, 2 * 72 * 128, params, memory, options);
  for (int i = 0; i < 64 && wrong.empty(); ++i)
    for (int j = 0; j < 8 && wrong.empty(); ++j) {
      float sum = 0;
      for (int k = 0; k < K; ++k)
        sum += fromBf16(a.data[i * K + k]) * fromBf16(b.data[j * K + k]);
      if (c.data[i * 8 + j] != sum)
        wrong = fmt::format("({}, {}): expected {}, got {}", i, j, sum,
                            c.data[i * 8 + j]);
    }
  return wrong;
}

TEST(Emulation, ProductsOfWarpgroups) {
  Emulator emulator = compile("warpgroups");
  for (Options options : kOrders)
    EXPECT_EQ(multiplyByFours(emulator, options), "");
}

template <class In, class Out>
void checkFragments(Emulator &emulator, const char *kernel, int M, int N, int K,
                    const std::function<In(int)> &make,
                    const std::function<Out(In)> &value) {
  Memory memory;
  Array<In, 1> a(memory, false, M * K), b(memory, false, K * N);
  Array<Out, 1> d(memory, true, M * N);
  std::mt19937 random(2);
  for (auto *x : {&a.data, &b.data})
    for (In &v : *x)
      v = make(int(random() % 17) - 8);
  void *params[] = {&a.buffer.data, &b.buffer.data, &d.buffer.data};
  ASSERT_EQ(emulator.run(kernel, 1, 32, 0, params, memory), "") << kernel;
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < N; ++j) {
      Out sum = 0;
      for (int k = 0; k < K; ++k)
        sum += value(a.data[i * K + k]) * value(b.data[k * N + j]);
      ASSERT_EQ(d.data[i * N + j], sum) << kernel << " " << i << " " << j;
    }
}

TEST(Emulation, Fragments) {
  Emulator emulator = compile("fragments");
  checkFragments<float, float>(
      emulator, "tf32", 16, 8, 8, [](int v) { return float(v); },
      [](float v) { return v; });
  checkFragments<double, double>(
      emulator, "f64", 8, 8, 4, [](int v) { return v / 3.0; },
      [](double v) { return v; });
  checkFragments<fa::f16, float>(
      emulator, "half", 16, 8, 16,
      [](int v) { return fa::bitcast<fa::f16>(_Float16(v / 8.0)); },
      [](fa::f16 v) { return float(fa::bitcast<_Float16>(v)); });
}

TEST(Emulation, Conversions) {
  Emulator emulator = compile("convert");
  // Just above the middle between two 16-bit floats: twice rounded, it would
  // come out even.
  double bf = 1 + 0x1p-8 + 0x1p-40, half = 1 + 0x1p-11 + 0x1p-40;
  struct {
    double x;
    unsigned bf16, f16;
    int i;
  } cases[] = {{1, 0x3f80, 0x3c00, 1},
               {-2.5, 0xc020, 0xc100, -2},
               {bf, 0x3f81, 0x3c04, 1},
               {half, 0x3f80, 0x3c01, 1},
               {1 + 0x1p-8, 0x3f80, 0x3c04, 1},
               {1 + 0x1p-11, 0x3f80, 0x3c00, 1},
               {65519.99, 0x4780, 0x7bff, 65519},
               {65520, 0x4780, 0x7c00, 65520},
               {1e300, 0x7f80, 0x7c00, INT32_MAX},
               {-1e300, 0xff80, 0xfc00, INT32_MIN},
               {0x1p-133, 0x0001, 0, 0},
               {0x1p-24, 0x3380, 0x0001, 0},
               {-0.0, 0x8000, 0x8000, 0}};
  constexpr int n = std::size(cases);
  Memory memory;
  Array<double, 1> x(memory, false, n);
  Array<fa::bf16, 1> b(memory, true, n);
  Array<fa::f16, 1> h(memory, true, n);
  Array<int, 1> i(memory, true, n);
  for (int k = 0; k < n; ++k)
    x.data[k] = cases[k].x;
  void *params[] = {&x.buffer, &b.buffer, &h.buffer, &i.buffer};
  ASSERT_EQ(emulator.run("narrow", 1, 32, 0, params, memory), "");
  for (int k = 0; k < n; ++k) {
    EXPECT_EQ(b.data[k].bits, cases[k].bf16) << cases[k].x;
    EXPECT_EQ(h.data[k].bits, cases[k].f16) << cases[k].x;
    EXPECT_EQ(i.data[k], cases[k].i) << cases[k].x;
  }
}

TEST(Emulation, EveryFunction) { compile("every"); }

/// The device header and the kernels, for each target.
TEST(Emulation, FilesAreCuda) {
  using namespace fathom::cuda;
  if (auto there = nvrtc(); !there)
    GTEST_SKIP() << llvm::toString(there.takeError());
  for (const char *name :
       {"gemm", "reduce", "columns", "ticket", "roles", "fragments", "convert",
        "boxes", "every", "warpgroups"})
    for (const char *arch : {"sm_80", "sm_90", "sm_90a", "compute_80"}) {
      if (name == std::string("boxes") && !llvm::StringRef(arch).contains("90"))
        continue;
      if (name == std::string("warpgroups") && arch != std::string("sm_90a"))
        continue;
      Target target;
      std::string reason;
      ASSERT_TRUE(Target::parse(arch, target, reason)) << reason;
      Kernel kernel;
      kernel.name = name;
      kernel.source = kernelFile(name);
      kernel.threads = 128;
      llvm::Error error = fathom::cuda::compile(kernel, target);
      EXPECT_FALSE(error) << llvm::toString(std::move(error));
      if (name != std::string("every"))
        EXPECT_THAT(warnings(kernel), testing::IsEmpty())
            << name << " " << arch;
    }
}

//===----------------------------------------------------------------------===//
// Wrong
//===----------------------------------------------------------------------===//

struct Fault {
  const char *file, *name;
  std::string (*run)(Emulator &, Options);
  const char *message, *other = nullptr, *third = nullptr; ///< any will do
};
std::string product(Emulator &emulator, Options options) {
  return multiply(emulator, false, options);
}
std::string littleShared(Emulator &emulator, Options options) {
  return multiply(emulator, true, options, 2 * 9728 - 32);
}
std::string rows(Emulator &emulator, Options options) {
  return sumRows(emulator, options);
}

const Fault kFaults[] = {
    {"gemm", "NO_BARRIER", product, "with no barrier after",
     "before it was written"},
    {"gemm", "NO_WAIT", product, "no wait of that thread covers it yet"},
    {"gemm", "SHORT_WAIT", product, "no wait of that thread covers it yet"},
    {"gemm", "OVERLAP", product, "overwritten"},
    {"gemm", "OVERWRITTEN_EARLY", product, "overwritten, with no barrier after",
     "no wait of that thread covers it yet"},
    {"gemm", "MISALIGNED_ROW", product, "which is not a multiple of 16"},
    {"gemm", "NONE", littleShared,
     "of shared memory at 19424, of which the CTA has 19424"},
    {"reduce", "NO_BARRIER", rows, "with no barrier after",
     "before it was written"},
    {"reduce", "NOT_WRITTEN", rows,
     "byte 12 of shared memory is read before it was written"},
    {"reduce", "SHARED_BOUNDS", rows,
     "thread 96: writes 4 bytes of shared memory at 16, of which the CTA has "
     "16"},
    {"reduce", "GLOBAL_BOUNDS", rows,
     "block 4, thread 104: reads 4 bytes of global memory at"},
    {"reduce", "READ_ONLY", rows, "which may only be read"},
    {"reduce", "MISALIGNED_VECTOR", rows, "which is not a multiple of 16"},
    {"reduce", "DIVERGENT_SHUFFLE", rows, "comes to barrier(), while thread",
     "comes to shuffle_xor(16), while thread"},
    {"reduce", "DIVERGENT_BARRIER", rows,
     "no thread can go on: thread 0 waits at barrier(), where 64 of 128 "
     "threads are; thread 64 ended"},
    {"reduce", "HALF_A_WARP", rows, "of its warp waits at barrier()",
     "of its warp has ended"},
    {"ticket", "NOT_RELEASED", takeTurns,
     "thread 0: waits at load_acquire for what no thread does",
     "thread 0: waits at nanosleep_hint for what no thread does"},
    {"ticket", "NO_TURN", takeTurns, "with nothing that orders the two"},
    {"ticket", "TWO_WRITERS", takeTurns, "with nothing that orders the two"},
    {"columns", "PLAIN", sumColumns, "with nothing that orders the two"},
    {"roles", "NOT_FREE", playRoles, "overwritten, with no barrier after",
     "comes to named_barrier_arrive(1, 128) again"},
    {"roles", "NEVER_FULL", playRoles, "no thread can go on"},
    {"roles", "COUNT", playRoles, "but others there expect"},
    {"warpgroups", "ONE_STAGE", multiplyByFours,
     "was written while a product that reads it was under way"},
    {"warpgroups", "NO_FENCE_ASYNC", multiplyByFours,
     "wrote without fence_async() after"},
    {"warpgroups", "NO_FENCE", multiplyByFours,
     "comes to wgmma without wgmma_fence() after the last commit"},
    {"warpgroups", "DIVERGENT", multiplyByFours, "comes to wgmma_",
     "of its warp waits at wgmma_"},
    {"warpgroups", "NO_WAIT", multiplyByFours,
     "ends while a product of its warp is under way"},
    {"roles", "NO_WARP_BARRIER", turnAround, "with no barrier after",
     "before it was written"},
    {"boxes", "NOT_MADE", copyBoxes, "with no barrier after thread 0 wrote it",
     "where none was made"},
    {"boxes", "NOT_FREE", copyBoxes, "overwritten, with no barrier after",
     "its barrier's phase has not ended"},
    {"boxes", "LITTLE_EXPECTED", copyBoxes, "no thread can go on",
     "its barrier's phase has not ended",
     "with no barrier after the copy of a box wrote it"},
    {"boxes", "TWO_ARRIVALS", copyBoxes, "no thread can go on",
     "once more than the 1 arrivals of a phase"},
    {"boxes", "PARITY", copyBoxes, "its barrier's phase has not ended",
     "before it was written", "no thread can go on"},
    {"boxes", "OTHER_BARRIER", copyBoxes, "with no barrier after",
     "its barrier's phase has not ended"},
    {"boxes", "NO_WAIT", copyBoxes, "with no barrier after",
     "before it was written"},
    {"boxes", "NO_WARP_BARRIER", copyBoxes,
     "overwritten, with no barrier after"},
    {"boxes", "NEVER_FREE", copyBoxes, "arrivals and 0 bytes are missing"},
};

TEST(Emulation, Faults) {
  for (const Fault &fault : kFaults) {
    Emulator emulator = compile(fault.file, fault.name);
    for (Options options : kOrders) {
      std::string wrong = fault.run(emulator, options);
      bool named = wrong.find(fault.message) != wrong.npos ||
                   (fault.other && wrong.find(fault.other) != wrong.npos) ||
                   (fault.third && wrong.find(fault.third) != wrong.npos);
      EXPECT_TRUE(named) << fault.file << " " << fault.name << ", latest "
                         << options.latest << ", seed " << options.seed
                         << ": got '" << wrong << "'";
      EXPECT_THAT(wrong, HasSubstr("kernel "));
      EXPECT_THAT(wrong, HasSubstr("block "));
    }
  }
}

TEST(Emulation, SaysWhatIsMissing) {
  auto broken = Emulator::compile("#include \"emulation.h\"\nint f() {");
  ASSERT_FALSE(broken);
  EXPECT_THAT(llvm::toString(broken.takeError()), HasSubstr("error:"));
  Emulator emulator = compile("ticket");
  EXPECT_THAT(emulator.run("disordered", 1, 32, 0, nullptr, {}),
              HasSubstr("expected a kernel 'disordered'"));
}

} // namespace
