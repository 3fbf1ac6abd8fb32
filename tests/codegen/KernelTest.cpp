//===- KernelTest.cpp - printed kernels compute what their ops mean ---------===//
//
// Small kernels of fa_gpu, printed, run on the CPU and compared with plain
// loops. Numbers are small integers, so that sums are exact in any order;
// outputs start as a number that nothing computes.
//
//===----------------------------------------------------------------------===//

#include "codegen/cuda/CudaCodegen.h"
#include "codegen/cuda/Nvrtc.h"
#include "dialect/gpu/GpuDialect.h"
#include "tests/emulation/Emulator.h"

#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"
#include <bit>
#include <deque>
#include <fmt/format.h>
#include <functional>
#include <gtest/gtest.h>
#include <random>
#include <set>

using namespace mlir;
using namespace fathom;
using emulation::Emulator;
using gpu::ThreadLayoutAttr;

namespace {

MLIRContext &context() {
  static MLIRContext *c = [] {
    DialectRegistry registry;
    registerFA(registry);
    auto *made = new MLIRContext(registry, MLIRContext::Threading::DISABLED);
    made->loadAllAvailableDialects();
    return made;
  }();
  return *c;
}

std::string text(ThreadLayoutAttr layout) {
  std::string s;
  llvm::raw_string_ostream(s) << layout;
  return s;
}
ThreadLayoutAttr mma(int64_t rows, int64_t cols, int64_t m, int64_t n) {
  return ThreadLayoutAttr::getMma(&context(), rows, cols, m, n);
}
ThreadLayoutAttr lines(int64_t rows, int64_t cols, int64_t v, int64_t warps) {
  return ThreadLayoutAttr::getRows(&context(), rows, cols, v, warps);
}

//===----------------------------------------------------------------------===//
// Arrays
//===----------------------------------------------------------------------===//

int64_t bytesOf(StringRef type) {
  return type == "f64" || type == "index"  ? 8
         : type == "f32" || type == "i32"  ? 4
         : type == "bf16" || type == "f16" ? 2
                                           : 1;
}

/// How a buffer of lines of `length` entries lies: with so much more pitch, or,
/// below 0, swizzled.
std::string arrangement(int64_t length, int64_t pad) {
  return pad < 0 ? fmt::format("swizzle = {}", -pad)
                 : fmt::format("pitch = {}", length + pad);
}

constexpr double kPoison = 77;

/// A matrix (or a vector) of any type, in rows of `pitch` entries.
struct Array {
  std::string type;
  int64_t rows, cols, pitch, rank;
  std::vector<char> bytes;
  std::vector<int64_t> parameter;

  Array(std::string type, int64_t rows, int64_t cols, int64_t rank = 2)
      : type(type), rows(rows), cols(cols),
        pitch(llvm::alignTo(cols, 16 / bytesOf(type))), rank(rank),
        bytes(rows * pitch * bytesOf(type) + 16) {
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < pitch; ++j)
        set(i, j, type == "i1" ? 0 : kPoison);
    parameter = {int64_t(at(0, 0))};
    if (rank == 2)
      parameter.insert(parameter.end(), {rows, cols, pitch, 1});
    else
      parameter.insert(parameter.end(), {cols, 1});
  }
  char *at(int64_t i, int64_t j) {
    char *start = reinterpret_cast<char *>(
        llvm::alignTo(uintptr_t(bytes.data()), uintptr_t(16)));
    return start + (i * pitch + j) * bytesOf(type);
  }
  void set(int64_t i, int64_t j, double x) {
    auto put = [&](auto v) { memcpy(at(i, j), &v, sizeof v); };
    if (type == "f64")
      put(x);
    else if (type == "f32")
      put(float(x));
    else if (type == "f16")
      put(_Float16(x));
    else if (type == "bf16")
      put(uint16_t(std::bit_cast<uint32_t>(float(x)) >> 16));
    else if (type == "index")
      put(int64_t(x));
    else if (type == "i32")
      put(int32_t(x));
    else
      put(int8_t(x));
  }
  double get(int64_t i, int64_t j) {
    auto take = [&]<class T>(T v) {
      memcpy(&v, at(i, j), sizeof v);
      return double(v);
    };
    if (type == "f64")
      return take(double());
    if (type == "f32")
      return take(float());
    if (type == "f16")
      return take(_Float16());
    if (type == "bf16") {
      uint16_t half;
      memcpy(&half, at(i, j), 2);
      return std::bit_cast<float>(uint32_t(half) << 16);
    }
    if (type == "index")
      return take(int64_t());
    if (type == "i32")
      return take(int32_t());
    return take(int8_t());
  }
  Array &fill(unsigned seed, int range = 9) {
    std::mt19937 random(seed);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < cols; ++j)
        set(i, j,
            type == "i1" ? int(random() % 2)
                         : int(random() % range) - (range > 5 ? range / 2 : 0));
    return *this;
  }
  std::string mlir() const {
    return rank == 2 ? "memref<?x?x" + type + ", strided<[?, ?], offset: ?>>"
                     : "memref<?x" + type + ", strided<[?], offset: ?>>";
  }
};

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

/// What one kernel is run on.
struct Case {
  std::string name, body;
  std::vector<Array *> arrays;
  std::vector<int64_t> numbers; ///< index arguments
  std::function<void()> check;
  int warps = 4;
  int64_t alignment = 16, grid = 1;
};

/// Prints all kernels into one file, compiles it once and runs each, in some
/// orders of threads and copies. Arrays are a, b, c, ..., numbers n0, n1, ...
void runAll(std::vector<Case> runs) {
  std::string module;
  for (const Case &r : runs) {
    std::string args, alignments;
    for (auto [i, a] : llvm::enumerate(r.arrays)) {
      args += fmt::format("{}%{}: {}", i ? ", " : "", char('a' + i), a->mlir());
      alignments += fmt::format("{}{}", i ? ", " : "", r.alignment);
    }
    for (size_t i = 0; i < r.numbers.size(); ++i) {
      args += fmt::format(", %n{}: index", i);
      alignments += ", 0";
    }
    module += fmt::format("fa_gpu.kernel @{}({}) num_warps({}) min_blocks(1) "
                          "alignments([{}]) {{\n"
                          "%c0 = arith.constant 0 : index\n"
                          "%c1 = arith.constant 1 : index\n"
                          "{}fa_gpu.return\n}}\n",
                          r.name, args, r.warps, alignments, r.body);
  }
  auto parsed = parseSourceString<ModuleOp>(module, &context());
  ASSERT_TRUE(bool(parsed)) << module;
  auto program = cuda::emitProgram(*parsed);
  ASSERT_TRUE(bool(program)) << llvm::toString(program.takeError());
  std::string source;
  for (const cuda::Kernel &k : program->kernels)
    source += source.empty() ? k.source
                             : k.source.substr(k.source.find("\nFA_KERNEL"));
  auto emulator = Emulator::compile(source);
  ASSERT_TRUE(bool(emulator)) << llvm::toString(emulator.takeError());

  // The same text is CUDA, where there is a compiler for it.
  bool warpgroups = module.find("wgmma") != std::string::npos;
  if (auto compiler = cuda::nvrtc(); compiler && warpgroups) {
    for (cuda::Kernel &k : program->kernels) {
      cuda::Target target;
      std::string error;
      ASSERT_TRUE(cuda::Target::parse("sm_90a", target, error)) << error;
      llvm::Error failed = cuda::compile(k, target);
      ASSERT_FALSE(bool(failed)) << llvm::toString(std::move(failed));
      EXPECT_EQ(llvm::join(cuda::warnings(k), "; "), "");
    }
  } else if (compiler) {
    cuda::Kernel all = program->kernels[0];
    all.source = source;
    for (const char *name : {"sm_80", "sm_90"}) {
      cuda::Target target;
      std::string error;
      ASSERT_TRUE(cuda::Target::parse(name, target, error)) << error;
      llvm::Error failed = cuda::compile(all, target);
      ASSERT_FALSE(bool(failed)) << llvm::toString(std::move(failed));
    }
  } else {
    llvm::outs() << "not compiled for GPUs: "
                 << llvm::toString(compiler.takeError()) << "\n";
  }

  for (auto [run, kernel] : llvm::zip(runs, program->kernels)) {
    SCOPED_TRACE(run.name);
    std::vector<std::vector<char>> before;
    for (Array *a : run.arrays)
      before.push_back(a->bytes);
    for (emulation::Options o : {emulation::Options{false, 0}, {true, 1}}) {
      emulation::Memory memory;
      std::vector<void *> parameters;
      for (auto [a, bytes] : llvm::zip(run.arrays, before)) {
        std::copy(bytes.begin(), bytes.end(), a->bytes.begin());
        memory.add(a->at(0, 0), a->rows * a->pitch * bytesOf(a->type), true,
                   "x");
        parameters.push_back(a->parameter.data());
      }
      for (int64_t &n : run.numbers)
        parameters.push_back(&n);
      std::string wrong =
          emulator->run(kernel.name, run.grid, kernel.threads,
                        kernel.sharedBytes, parameters.data(), memory, o);
      ASSERT_EQ(wrong, "") << kernel.source.substr(
          kernel.source.find("\nFA_KERNEL"));
      run.check();
      if (testing::Test::HasFailure())
        FAIL() << kernel.source.substr(kernel.source.find("\nFA_KERNEL"));
    }
  }
}

/// Each entry is what `expected` says.
void compare(Array &y, const std::function<double(int64_t, int64_t)> &expected,
             double tolerance = 0) {
  for (int64_t i = 0; i < y.rows; ++i)
    for (int64_t j = 0; j < y.cols; ++j)
      if (double e = expected(i, j), got = y.get(i, j);
          !(std::abs(e - got) <= tolerance)) {
        ADD_FAILURE() << "at " << i << ", " << j << ": expected " << e
                      << ", got " << got;
        return;
      }
}

std::string constants(std::initializer_list<int64_t> values) {
  std::string s;
  for (int64_t v : std::set<int64_t>(values))
    s += fmt::format("%k{0} = arith.constant {0} : index\n", v);
  return s;
}

//===----------------------------------------------------------------------===//
// Loads and stores
//===----------------------------------------------------------------------===//

TEST(Kernel, LoadsAndStores) {
  std::vector<Case> runs;
  std::deque<Array> arrays;
  auto add = [&](const std::string &type, ThreadLayoutAttr layout, int64_t rows,
                 int64_t cols, bool aligned) {
    // 3 rows and some columns lie outside the limits.
    int64_t n = rows - 3, m = cols == 16 ? 16 : cols - 8;
    arrays.emplace_back(type, n, m).fill(runs.size());
    Array &x = arrays.back();
    arrays.emplace_back(type, rows, cols);
    Array &y = arrays.back();
    arrays.emplace_back(type, rows, cols);
    Array &z = arrays.back();
    std::string tile =
        fmt::format("tensor<{}x{}x{}, {}>", rows, cols, type, text(layout));
    Case r;
    r.name = fmt::format("move{}", runs.size());
    r.arrays = {&x, &y, &z};
    r.numbers = {n, m};
    r.warps = layout.getNumWarps();
    r.alignment = aligned ? 16 : 0;
    r.body = constants({rows, cols, m});
    r.body += fmt::format(
        "%t = fa.load %a[%c0, %c0] below(%n0, {1}) : {0} -> {2}\n"
        "fa.store %t, %b[%c0, %c0] below(%k{3}, %k{4}) : {2}, {0}\n"
        "fa.store %t, %c[%c0, %c0] below(%n0, {1}) : {2}, {0}\n",
        x.mlir(), aligned ? fmt::format("%k{}", m) : "%n1", tile, rows, cols);
    r.check = [&x, &y, &z, n, m, type] {
      double poison = type == "i1" ? 0 : kPoison;
      compare(y, [&](int64_t i, int64_t j) {
        return i < n && j < m ? x.get(i, j) : 0;
      });
      compare(z, [&](int64_t i, int64_t j) {
        return i < n && j < m ? x.get(i, j) : poison;
      });
    };
    runs.push_back(r);
  };
  for (const char *type :
       {"f32", "f64", "bf16", "f16", "i1", "i8", "i32", "index"}) {
    add(type, mma(32, 32, 2, 1), 32, 32, true);
    add(type, lines(16, 16, 8, 1), 16, 16, false);
  }
  add("bf16", lines(64, 128, 8, 4), 64, 128, true);
  add("f32", lines(64, 128, 4, 4), 64, 128, true);
  add("f32", lines(64, 80, 2, 4), 64, 80, true);
  add("bf16", mma(64, 80, 1, 4), 64, 80, true);
  add("bf16", mma(64, 64, 2, 4).transposed(), 64, 64, true);
  add("f32", mma(128, 16, 8, 1), 128, 16, true);
  add("bf16", lines(80, 16, 2, 8).transposed(), 16, 80, false);
  runAll(runs);
}

TEST(Kernel, VectorsAndReplicas) {
  // A vector in a layout of rows and one of columns, at an odd place.
  std::vector<Case> runs;
  std::deque<Array> arrays;
  for (const char *type : {"f32", "bf16"})
    for (int64_t dim : {0, 1}) {
      ThreadLayoutAttr layout = mma(64, 64, 2, 2).sliced(dim);
      arrays.emplace_back(type, 1, 70, 1).fill(dim);
      Array &x = arrays.back();
      arrays.emplace_back(type, 1, 70, 1);
      Array &y = arrays.back();
      Case r;
      r.name = fmt::format("vector{}", runs.size());
      r.arrays = {&x, &y};
      r.numbers = {67};
      r.body = constants({5});
      r.body += fmt::format(
          "%t = fa.load %a[%k5] below(%n0) : {0} -> tensor<64x{1}, {2}>\n"
          "fa.store %t, %b[%k5] below(%n0) : tensor<64x{1}, {2}>, {0}\n",
          x.mlir(), type, text(layout));
      r.check = [&x, &y] {
        compare(y, [&](int64_t, int64_t j) {
          return j >= 5 && j < 67 ? x.get(0, j) : kPoison;
        });
      };
      runs.push_back(r);
    }
  runAll(runs);
}

//===----------------------------------------------------------------------===//
// Elementwise work, reductions
//===----------------------------------------------------------------------===//

TEST(Kernel, ElementwiseBroadcastReduce) {
  std::vector<Case> runs;
  std::deque<Array> arrays;
  auto add = [&](ThreadLayoutAttr layout, int64_t rows, int64_t cols,
                 int64_t dim) {
    Array &x = arrays.emplace_back("f32", rows, cols).fill(runs.size());
    int64_t left = dim ? rows : cols;
    Array &sum = arrays.emplace_back("f32", 1, left, 1);
    Array &max = arrays.emplace_back("f32", 1, left, 1);
    Array &half = arrays.emplace_back("bf16", rows, cols);
    Case r;
    r.name = fmt::format("reduce{}", runs.size());
    r.arrays = {&x, &sum, &max, &half};
    r.numbers = {3};
    r.warps = layout.getNumWarps();
    std::string l = text(layout), s = text(layout.sliced(dim)),
                o = text(layout.sliced(1 - dim));
    int64_t along = dim ? cols : rows;
    std::string shape = fmt::format("{}x{}", rows, cols);
    auto tile = [&](const char *type) {
      return fmt::format("tensor<{}x{}, {}>", shape, type, l);
    };
    r.body = constants({rows, cols, left});
    r.body +=
        fmt::format("%x = fa.load %a[%c0, %c0] below(%k{}, %k{}) : {} -> {}\n",
                    rows, cols, x.mlir(), tile("f32"));
    // Entries whose coordinate along the dim is below 3 are left out.
    r.body +=
        fmt::format("%i = fa.iota %c0 : tensor<{}xindex, {}>\n", along, o);
    r.body += fmt::format("%ii = fa.broadcast %i dim {} : tensor<{}xindex, {}> "
                          "-> {}\n",
                          dim, along, o, tile("index"));
    r.body += fmt::format("%nn = fa.broadcast %n0 dim 0 : index -> {}\n",
                          tile("index"));
    r.body +=
        fmt::format("%is = arith.cmpi sge, %ii, %nn : {}\n", tile("index"));
    r.body +=
        fmt::format("%zero = arith.constant dense<0.0> : {}\n", tile("f32"));
    r.body += fmt::format("%low = arith.constant dense<0xFF800000> : {}\n",
                          tile("f32"));
    r.body += fmt::format("%y = arith.select %is, %x, %zero : {}, {}\n",
                          tile("i1"), tile("f32"));
    r.body += fmt::format("%w = arith.select %is, %x, %low : {}, {}\n",
                          tile("i1"), tile("f32"));
    for (auto [kind, from, to] :
         {std::tuple("add", "y", "b"), std::tuple("max", "w", "c")}) {
      r.body += fmt::format("%{0} = fa.reduce {0} %{1} dim {2} : {3} -> "
                            "tensor<{4}xf32, {5}>\n",
                            kind, from, dim, tile("f32"), left, s);
      r.body += fmt::format("fa.store %{}, %{}[%c0] below(%k{}) : "
                            "tensor<{}xf32, {}>, {}\n",
                            kind, to, left, left, s, sum.mlir());
    }
    // x times its row's maximum, in 16 bits and back and again.
    r.body += fmt::format("%mm = fa.broadcast %max dim {} : tensor<{}xf32, {}> "
                          "-> {}\n",
                          1 - dim, left, s, tile("f32"));
    r.body += fmt::format("%p = arith.mulf %x, %mm : {}\n", tile("f32"));
    r.body += fmt::format("%h = arith.truncf %p : {} to {}\n", tile("f32"),
                          tile("bf16"));
    r.body += fmt::format("%f = arith.extf %h : {} to {}\n", tile("bf16"),
                          tile("f32"));
    r.body += fmt::format("%g = arith.addf %f, %x : {}\n", tile("f32"));
    r.body += fmt::format("%hh = arith.truncf %g : {} to {}\n", tile("f32"),
                          tile("bf16"));
    r.body += fmt::format("fa.store %hh, %d[%c0, %c0] below(%k{}, %k{}) : {}, "
                          "{}\n",
                          rows, cols, tile("bf16"), half.mlir());
    r.check = [&x, &sum, &max, &half, dim, along] {
      auto at = [&](int64_t i, int64_t j) {
        return dim ? x.get(i, j) : x.get(j, i);
      };
      auto largest = [&](int64_t i) {
        double m = -INFINITY;
        for (int64_t j = 3; j < along; ++j)
          m = std::max(m, at(i, j));
        return m;
      };
      compare(sum, [&](int64_t, int64_t i) {
        double s = 0;
        for (int64_t j = 3; j < along; ++j)
          s += at(i, j);
        return s;
      });
      compare(max, [&](int64_t, int64_t i) { return largest(i); });
      compare(half, [&](int64_t i, int64_t j) {
        return x.get(i, j) * largest(dim ? i : j) + x.get(i, j);
      });
    };
    runs.push_back(r);
  };
  add(mma(64, 64, 4, 1), 64, 64, 1);
  add(mma(64, 80, 2, 1), 64, 80, 1);
  add(mma(128, 16, 8, 1), 128, 16, 1);
  add(mma(16, 16, 1, 1), 16, 16, 0);
  add(mma(32, 64, 1, 4), 32, 64, 0);
  add(mma(64, 64, 4, 1).transposed(), 64, 64, 0);
  runAll(runs);
}

TEST(Kernel, ComparesCoordinates) {
  // n1 + j <= (n0 + i) - n2, also where 32 bits would not hold the numbers.
  std::vector<Case> runs;
  std::deque<Array> arrays;
  ThreadLayoutAttr l = mma(32, 48, 2, 1);
  std::string t = fmt::format("tensor<32x48xindex, {}>", text(l)),
              f = fmt::format("tensor<32x48xf32, {}>", text(l)),
              i = fmt::format("tensor<32xindex, {}>", text(l.sliced(1))),
              j = fmt::format("tensor<48xindex, {}>", text(l.sliced(0)));
  constexpr int64_t far = int64_t(1) << 40;
  for (auto n : {std::array<int64_t, 3>{0, 0, 0},
                 {7, 3, 9},
                 {far, far + 5, 2},
                 {far, 0, 1},
                 {0, far, 0},
                 {0, far, -far - 3}}) {
    Array &y = arrays.emplace_back("f32", 32, 48);
    Case r;
    r.name = fmt::format("compare{}", runs.size());
    r.arrays = {&y};
    r.numbers.assign(n.begin(), n.end());
    r.warps = 2;
    r.body = constants({32, 48});
    r.body += fmt::format(
        "%i = fa.iota %n0 : {2}\n%j = fa.iota %n1 : {3}\n"
        "%ii = fa.broadcast %i dim 0 : {2} -> {0}\n"
        "%jj = fa.broadcast %j dim 1 : {3} -> {0}\n"
        "%nn = fa.broadcast %n2 dim 0 : index -> {0}\n"
        "%d = arith.subi %ii, %nn : {0}\n"
        "%is = arith.cmpi sle, %jj, %d : {0}\n"
        "%one = arith.constant dense<1.0> : {1}\n"
        "%two = arith.constant dense<2.0> : {1}\n"
        "%y = arith.select %is, %one, %two : {4}, {1}\n"
        "fa.store %y, %a[%c0, %c0] below(%k32, %k48) : {1}, {5}\n",
        t, f, i, j, fmt::format("tensor<32x48xi1, {}>", text(l)), y.mlir());
    r.check = [&y, n] {
      compare(y, [&](int64_t i, int64_t j) {
        return n[1] + j <= n[0] + i - n[2] ? 1 : 2;
      });
    };
    runs.push_back(r);
  }
  runAll(runs);
}

TEST(Kernel, AnyAllAndBranches) {
  // A branch on whether any entry is 1; what it yields is carried on.
  Array x("i1", 1, 64, 1), y("f32", 64, 32);
  std::deque<Array> arrays;
  std::vector<Case> runs;
  ThreadLayoutAttr v = mma(64, 32, 1, 4).sliced(1), l = mma(64, 32, 1, 4);
  for (int bits : {0, 1, 64}) {
    Array &x = arrays.emplace_back("i1", 1, 64, 1);
    for (int j = 0; j < bits; ++j)
      x.set(0, bits == 1 ? 37 : j, 1);
    Array &y = arrays.emplace_back("f32", 64, 32);
    Case r;
    r.name = fmt::format("branch{}", bits);
    r.arrays = {&x, &y};
    r.numbers = {5};
    r.body = constants({32, 64});
    std::string t = fmt::format("tensor<64x32xf32, {}>", text(l)),
                b = fmt::format("tensor<64xi1, {}>", text(v));
    r.body += fmt::format(
        "%t = fa.load %a[%c0] below(%k64) : {0} -> {1}\n"
        "%any = fa.reduce any %t dim 0 : {1} -> i1\n"
        "%all = fa.reduce all %t dim 0 : {1} -> i1\n"
        "%one = arith.constant dense<1.0> : {2}\n"
        "%ten = arith.constant dense<10.0> : {2}\n"
        "%init = arith.constant dense<0.0> : {2}\n"
        // Two tiles that change places in each of five rounds.
        "%r:2 = scf.for %i = %c0 to %n0 step %c1 iter_args(%p = %init, %q = "
        "%ten) -> ({2}, {2}) {{\n"
        "  %s = scf.if %any -> ({2}) {{\n"
        "    %u = scf.if %all -> ({2}) {{\n"
        "      %w = arith.addf %q, %ten : {2}\n"
        "      scf.yield %w : {2}\n"
        "    }} else {{\n"
        "      scf.yield %q : {2}\n"
        "    }}\n"
        "    scf.yield %u : {2}\n"
        "  }} else {{\n"
        "    %w = arith.addf %q, %one : {2}\n"
        "    scf.yield %w : {2}\n"
        "  }}\n"
        "  scf.yield %s, %p : {2}, {2}\n"
        "}}\n"
        "%d = arith.mulf %r#1, %ten : {2}\n"
        "%e = arith.addf %r#0, %d : {2}\n"
        "fa.store %e, %b[%c0, %c0] below(%k64, %k32) : {2}, {3}\n",
        x.mlir(), b, t, y.mlir());
    r.check = [&y, bits] {
      double p = 0, q = 10;
      for (int i = 0; i < 5; ++i) {
        double s = bits == 64 ? q + 10 : bits ? q : q + 1;
        q = std::exchange(p, s);
      }
      compare(y, [&](int64_t, int64_t) { return p + 10 * q; });
    };
    runs.push_back(r);
  }
  runAll(runs);
}

//===----------------------------------------------------------------------===//
// Shared memory
//===----------------------------------------------------------------------===//

TEST(Kernel, ThroughSharedMemory) {
  std::vector<Case> runs;
  std::deque<Array> arrays;
  auto add = [&](const std::string &type, int64_t rows, int64_t cols,
                 ThreadLayoutAttr from, ThreadLayoutAttr to, bool flipped,
                 int64_t pad) {
    Array &x = arrays.emplace_back(type, rows, cols).fill(runs.size());
    Array &y = arrays.emplace_back(type, rows, cols);
    std::string how = arrangement(flipped ? rows : cols, pad);
    Case r;
    r.name = fmt::format("convert{}", runs.size());
    r.arrays = {&x, &y};
    r.numbers = {0};
    r.warps = from.getNumWarps();
    std::string a = fmt::format("tensor<{}x{}x{}, {}>", rows, cols, type,
                                text(from)),
                b = fmt::format("tensor<{}x{}x{}, {}>", rows, cols, type,
                                text(to)),
                plain = fmt::format("!fa_gpu.shared<{}x{}x{}, {}>",
                                    flipped ? cols : rows,
                                    flipped ? rows : cols, type, how),
                view =
                    flipped
                        ? fmt::format("!fa_gpu.shared<{}x{}x{}, {}, flipped>",
                                      rows, cols, type, how)
                        : plain;
    r.body = constants({rows, cols});
    r.body += fmt::format(
        "%buf = fa_gpu.alloc : {0}\n{1}"
        "%t = fa.load %a[%c0, %c0] below(%k{2}, %k{3}) : {4} -> {5}\n"
        "fa_gpu.store_shared %t, {6} : {5}, {7}\n"
        "fa_gpu.barrier\n"
        "%u = fa_gpu.load_shared {6} : {7} -> {8}\n"
        "fa.store %u, %b[%c0, %c0] below(%k{2}, %k{3}) : {8}, {4}\n",
        plain,
        flipped
            ? fmt::format("%view = fa_gpu.flip %buf : {} -> {}\n", plain, view)
            : "",
        rows, cols, x.mlir(), a, flipped ? "%view" : "%buf", view, b);
    r.check = [&x, &y] {
      compare(y, [&](int64_t i, int64_t j) { return x.get(i, j); });
    };
    runs.push_back(r);
  };
  add("bf16", 64, 64, mma(64, 64, 4, 1), lines(64, 64, 8, 4), false, 8);
  add("bf16", 64, 80, lines(64, 80, 8, 4), mma(64, 80, 1, 4), false, 8);
  add("f16", 64, 32, mma(64, 32, 2, 2), mma(64, 32, 4, 1), true, 8);
  add("bf16", 32, 64, mma(64, 32, 4, 1).transposed(), mma(32, 64, 2, 2), true,
      8);
  add("f32", 64, 64, mma(64, 64, 4, 1), lines(64, 64, 4, 4), false, 4);
  add("f32", 64, 64, mma(64, 64, 4, 1), mma(64, 64, 4, 1).transposed(), false,
      1);
  add("f32", 16, 32, mma(16, 32, 1, 4), mma(16, 32, 4, 1), true, 4);
  add("f64", 64, 32, mma(64, 32, 2, 2), lines(64, 32, 2, 4), false, 2);
  add("i1", 64, 32, mma(64, 32, 2, 2), lines(64, 32, 8, 4), false, 0);
  add("index", 32, 32, mma(32, 32, 2, 1), lines(32, 32, 1, 2), false, 1);
  // Swizzled.
  add("bf16", 64, 64, mma(64, 64, 4, 1), lines(64, 64, 8, 4), false, -128);
  add("bf16", 128, 128, mma(128, 128, 8, 1), mma(128, 128, 4, 2), false, -128);
  add("f16", 64, 96, lines(64, 96, 8, 4), mma(64, 96, 1, 4), false, -64);
  add("f16", 64, 48, mma(64, 48, 2, 2), lines(64, 48, 2, 4), false, -32);
  add("bf16", 64, 32, mma(64, 32, 2, 2), mma(64, 32, 4, 1), true, -128);
  add("bf16", 64, 64, mma(64, 64, 4, 1).transposed(), mma(64, 64, 2, 2), false,
      -64);
  add("bf16", 48, 48, mma(48, 48, 1, 2), lines(48, 48, 1, 2), false, -32);
  runAll(runs);
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

enum class A { plain, flipped, registers };

Case product(std::deque<Array> &arrays, const std::string &type, int64_t m,
             int64_t n, int64_t k, int warpsM, int warpsN, A form, bool flipB,
             int number, int64_t swizzle = 0, bool warpgroups = false) {
  std::string sum = type == "f64" ? "f64" : "f32";
  bool half = sum == "f32" && type != "f32";
  bool flipA = form == A::flipped;
  int64_t pad = swizzle ? -swizzle : half ? 8 : 4;
  Array &a =
      flipA ? arrays.emplace_back(type, k, m) : arrays.emplace_back(type, m, k);
  Array &b =
      flipB ? arrays.emplace_back(type, n, k) : arrays.emplace_back(type, k, n);
  Array &c = arrays.emplace_back(sum, m, n);
  Array &y = arrays.emplace_back(sum, m, n);
  a.fill(number), b.fill(number + 100), c.fill(number + 200);
  int warps = warpsM * warpsN;
  Case r;
  r.name = fmt::format("product{}", number);
  r.arrays = {&a, &b, &c, &y};
  r.numbers = {0};
  r.warps = warps;
  std::string acc = fmt::format("tensor<{}x{}x{}, {}>", m, n, sum,
                                text(mma(m, n, warpsM, warpsN)));
  r.body = constants({m, n, k});
  // A factor as it lies in memory, and the view that the product takes.
  auto factor = [&](const char *name, Array &x, bool flip) {
    std::string how = arrangement(x.cols, pad),
                plain = fmt::format("!fa_gpu.shared<{}x{}x{}, {}>", x.rows,
                                    x.cols, type, how),
                view = fmt::format("!fa_gpu.shared<{}x{}x{}, {}, flipped>",
                                   x.cols, x.rows, type, how),
                tile = fmt::format("tensor<{}x{}x{}, {}>", x.rows, x.cols, type,
                                   text(lines(x.rows, x.cols, 1, warps)));
    r.body += fmt::format(
        "%{0}s = fa_gpu.alloc : {1}\n"
        "%{0}t = fa.load %{0}[%c0, %c0] below(%k{2}, %k{3}) : {4} -> {5}\n"
        "fa_gpu.store_shared %{0}t, %{0}s : {5}, {1}\n",
        name, plain, x.rows, x.cols, x.mlir(), tile);
    if (!flip)
      return fmt::format("%{}s : {}", name, plain);
    r.body += fmt::format("%{0}v = fa_gpu.flip %{0}s : {1} -> {2}\n", name,
                          plain, view);
    return fmt::format("%{}v : {}", name, view);
  };
  std::string left, right = factor("b", b, flipB);
  if (form == A::registers) {
    left = fmt::format("%at : tensor<{}x{}x{}, {}>", m, k, type,
                       text(mma(m, k, warpsM, 1)));
    r.body += fmt::format("%at = fa.load %a[%c0, %c0] below(%k{}, %k{}) : {} "
                          "-> {}\n",
                          m, k, a.mlir(), left.substr(6));
  } else {
    left = factor("a", a, flipA);
  }
  auto part = [](const std::string &s, bool type) {
    size_t at = s.find(" : ");
    return type ? s.substr(at + 3) : s.substr(0, at);
  };
  if (warpgroups)
    r.body += "fa_gpu.fence_async\n";
  r.body += fmt::format(
      "fa_gpu.barrier\n"
      "%ct = fa.load %c[%c0, %c0] below(%k{0}, %k{1}) : {2} -> {3}\n"
      "{8} {4}, {5}, %ct : {6}, {7}, {3}\n"
      "{9}fa.store %p, %d[%c0, %c0] below(%k{0}, %k{1}) : {3}, {2}\n",
      m, n, c.mlir(), acc, part(left, false), part(right, false),
      part(left, true), part(right, true),
      warpgroups ? "%q = fa_gpu.wgmma" : "%p = fa_gpu.mma",
      warpgroups ? fmt::format("%p = fa_gpu.wgmma_wait 0 %q : {}\n", acc) : "");
  r.check = [&a, &b, &c, &y, flipA, flipB, k] {
    compare(y, [&](int64_t i, int64_t j) {
      double s = c.get(i, j);
      for (int64_t l = 0; l < k; ++l)
        s += (flipA ? a.get(l, i) : a.get(i, l)) *
             (flipB ? b.get(j, l) : b.get(l, j));
      return s;
    });
  };
  return r;
}

TEST(Kernel, ProductsOfHalves) {
  std::deque<Array> arrays;
  std::vector<Case> runs;
  auto add = [&](const char *type, int64_t m, int64_t n, int64_t k, int wm,
                 int wn, A form, bool flipB, int64_t swizzle = 0) {
    runs.push_back(product(arrays, type, m, n, k, wm, wn, form, flipB,
                           runs.size(), swizzle));
  };
  for (A form : {A::plain, A::flipped, A::registers})
    for (bool flip : {false, true}) {
      add("bf16", 64, 64, 32, 4, 1, form, flip);
      add("f16", 32, 80, 48, 1, 1, form, flip);
      if (form != A::registers)
        add("bf16", 64, 80, 16, 2, 2, form, flip);
    }
  add("bf16", 16, 16, 80, 1, 1, A::plain, true);
  add("bf16", 128, 16, 64, 8, 1, A::registers, false);
  add("bf16", 128, 64, 16, 4, 2, A::flipped, true);
  add("f16", 16, 8, 16, 1, 1, A::plain, false);
  add("f16", 16, 64, 32, 1, 8, A::plain, false);
  add("bf16", 16, 24, 32, 4, 1, A::plain, true);
  for (A form : {A::plain, A::flipped, A::registers})
    for (bool flip : {false, true}) {
      add("bf16", 64, 128, 128, 4, 1, form, flip, 128);
      add("f16", 32, 96, 32, 2, 1, form, flip, 64);
      if (form != A::registers)
        add("bf16", 64, 96, 64, 2, 4, form, flip, 32);
    }
  runAll(runs);
}

TEST(Kernel, ProductsOfWarpgroups) {
  std::deque<Array> arrays;
  std::vector<Case> runs;
  auto add = [&](const char *type, int64_t m, int64_t n, int64_t k, int wm,
                 int wn, A form, bool flipB, int64_t swizzle) {
    runs.push_back(product(arrays, type, m, n, k, wm, wn, form, flipB,
                           runs.size(), swizzle, /*warpgroups=*/true));
  };
  for (A form : {A::plain, A::flipped, A::registers})
    for (bool flip : {false, true}) {
      add("bf16", 64, 128, 128, 4, 1, form, flip, 128);
      add("bf16", 128, 64, 64, 8, 1, form, flip, 128);
      add("f16", 128, 96, 32, 4, 1, form, flip, 64);
      add("bf16", 64, 48, 64, 4, 1, form, flip, 32);
      if (form != A::registers)
        add("bf16", 64, 128, 64, 4, 2, form, flip, 128);
    }
  add("bf16", 256, 64, 64, 8, 1, A::flipped, true, 128);
  add("f16", 64, 256, 64, 4, 1, A::plain, false, 128);
  runAll(runs);
}

TEST(Kernel, ProductsOfFloats) {
  std::deque<Array> arrays;
  std::vector<Case> runs;
  for (const char *type : {"f32", "f64"})
    for (A form : {A::plain, A::flipped})
      for (bool flip : {false, true})
        runs.push_back(product(arrays, type, 32, 48, 20, 2,
                               form == A::plain ? 1 : 2, form, flip,
                               runs.size()));
  runs.push_back(
      product(arrays, "f32", 64, 80, 16, 8, 1, A::plain, true, runs.size()));
  runAll(runs);
}

TEST(Kernel, CopiesAhead) {
  // Sums the products of blocks, with the next block on its way.
  std::deque<Array> arrays;
  std::vector<Case> runs;
  auto add = [&](int warps, int64_t cols, int64_t vector, int64_t pad = 8) {
    int64_t rows = 100, m = 16 * warps;
    std::string how = arrangement(cols, pad);
    Array &a = arrays.emplace_back("bf16", m, rows).fill(vector);
    Array &b = arrays.emplace_back("bf16", rows, cols).fill(vector + 1);
    Array &y = arrays.emplace_back("f32", m, cols);
    std::string acc = fmt::format("tensor<{}x{}xf32, {}>", m, cols,
                                  text(mma(m, cols, warps, 1))),
                left = fmt::format("tensor<{}x16xbf16, {}>", m,
                                   text(mma(m, 16, warps, 1))),
                one = fmt::format("!fa_gpu.shared<16x{}xbf16, {}>", cols, how),
                two = fmt::format("!fa_gpu.shared<16x{}xbf16, {}, stages = 2>",
                                  cols, how);
    Case r;
    r.name = fmt::format("ahead{}", runs.size());
    r.arrays = {&a, &b, &y};
    r.numbers = {rows};
    r.warps = warps;
    r.body = constants({2, 16, m, cols});
    r.body += fmt::format(
        "%buf = fa_gpu.alloc : {0}\n"
        "%first = fa_gpu.stage %buf[%c0] : {0} -> {1}\n"
        "fa_gpu.copy_async %b[%c0, %c0] below(%n0, %k{2}) to %first vector {3} "
        ": {4}, {1}\n"
        "fa_gpu.commit\n"
        "%zero = arith.constant dense<0.0> : {5}\n"
        "%sum = scf.for %i = %c0 to %n0 step %k16 iter_args(%s = %zero) -> "
        "({5}) {{\n"
        "  %n = arith.divui %i, %k16 : index\n"
        "  %j = arith.remui %n, %k2 : index\n"
        "  %o = arith.subi %c1, %j : index\n"
        "  %next = arith.addi %i, %k16 : index\n"
        "  %there = fa_gpu.stage %buf[%o] : {0} -> {1}\n"
        "  fa_gpu.barrier\n"
        "  fa_gpu.copy_async %b[%next, %c0] below(%n0, %k{2}) to %there vector "
        "{3} : {4}, {1}\n"
        "  fa_gpu.commit\n"
        "  fa_gpu.wait 1\n"
        "  fa_gpu.barrier\n"
        "  %here = fa_gpu.stage %buf[%j] : {0} -> {1}\n"
        "  %t = fa.load %a[%c0, %i] below(%k{6}, %n0) : {4} -> {7}\n"
        "  %p = fa_gpu.mma %t, %here, %s : {7}, {1}, {5}\n"
        "  scf.yield %p : {5}\n"
        "}}\n"
        "fa_gpu.wait 0\n"
        "fa.store %sum, %c[%c0, %c0] below(%k{6}, %k{2}) : {5}, {8}\n",
        two, one, cols, vector, b.mlir(), acc, m, left, y.mlir());
    r.check = [&a, &b, &y, rows] {
      compare(y, [&](int64_t i, int64_t j) {
        double s = 0;
        for (int64_t l = 0; l < rows; ++l)
          s += a.get(i, l) * b.get(l, j);
        return s;
      });
    };
    runs.push_back(r);
  };
  add(4, 64, 16);
  add(2, 80, 16);
  add(1, 16, 8);
  add(8, 48, 4);
  add(4, 128, 16, -128);
  add(1, 64, 16, -128);
  add(2, 96, 8, -64);
  add(1, 48, 4, -32);
  runAll(runs);
}

//===----------------------------------------------------------------------===//
// Sums in memory
//===----------------------------------------------------------------------===//

TEST(Kernel, SumsInMemory) {
  std::vector<Case> runs;
  std::deque<Array> arrays;
  auto add = [&](const char *mode, const std::string &type,
                 ThreadLayoutAttr layout, int64_t grid) {
    Array &x = arrays.emplace_back(type, 64, 32).fill(runs.size());
    Array &y = arrays.emplace_back(type, 64, 32);
    Case r;
    r.name = fmt::format("add{}", runs.size());
    r.arrays = {&x, &y};
    r.numbers = {60};
    r.warps = layout.getNumWarps();
    r.grid = grid;
    std::string t = fmt::format("tensor<64x32x{}, {}>", type, text(layout));
    r.body = constants({32, 64});
    r.body += fmt::format(
        "%t = fa.load %a[%c0, %c0] below(%n0, %k32) : {0} -> {1}\n"
        "fa.accumulate {2} %t, %b[%c0, %c0] below(%n0, %k32) : {1}, {0}\n",
        x.mlir(), t, mode);
    r.check = [&x, &y, grid] {
      compare(y, [&](int64_t i, int64_t j) {
        return kPoison + (i < 60 ? grid * x.get(i, j) : 0);
      });
    };
    runs.push_back(r);
  };
  add("plain", "f32", mma(64, 32, 4, 1), 1);
  add("plain", "f32", lines(64, 32, 4, 8), 1);
  add("plain", "f64", mma(64, 32, 8, 1), 1);
  add("atomic", "f32", mma(64, 32, 4, 1), 3);
  add("atomic", "f32", mma(64, 32, 2, 2), 2);
  add("atomic", "f32", mma(64, 32, 1, 4), 2);
  add("atomic", "f32", lines(64, 32, 4, 4), 3);
  add("atomic", "f64", mma(64, 32, 8, 1), 2);
  runAll(runs);
}

TEST(Kernel, GatherAndScatter) {
  std::vector<Case> runs;
  std::deque<Array> arrays;
  for (const char *type : {"f32", "bf16", "i8"}) {
    Array &table = arrays.emplace_back(type, 3, 20).fill(1);
    Array &at = arrays.emplace_back("index", 32, 32).fill(2, 40);
    Array &y = arrays.emplace_back(type, 32, 32);
    Case r;
    r.name = fmt::format("gather_{}", type);
    r.arrays = {&table, &at, &y};
    r.numbers = {1};
    r.warps = 2;
    std::string l = text(mma(32, 32, 2, 1)),
                i = fmt::format("tensor<32x32xindex, {}>", l),
                t = fmt::format("tensor<32x32x{}, {}>", type, l);
    r.body = constants({32});
    r.body +=
        fmt::format("%i = fa.load %b[%c0, %c0] below(%k32, %k32) : {0} -> {1}\n"
                    "%t = fa.gather %a[%n0, %i] : {2}, (index, {1}) -> {3}\n"
                    "fa.store %t, %c[%c0, %c0] below(%k32, %k32) : {3}, {2}\n",
                    at.mlir(), i, table.mlir(), t);
    r.check = [&table, &at, &y] {
      compare(y, [&](int64_t i, int64_t j) {
        return table.get(1, std::clamp<int64_t>(at.get(i, j), 0, 19));
      });
    };
    runs.push_back(r);
  }
  Array &table = arrays.emplace_back("f32", 3, 20);
  Array &at = arrays.emplace_back("index", 32, 32).fill(2, 40);
  Array &x = arrays.emplace_back("f32", 32, 32).fill(3);
  Case r;
  r.name = "scatter";
  r.arrays = {&table, &at, &x};
  r.numbers = {1};
  r.warps = 4; // half of the warps repeat the others
  std::string l = text(mma(32, 32, 4, 1)),
              i = fmt::format("tensor<32x32xindex, {}>", l),
              t = fmt::format("tensor<32x32xf32, {}>", l);
  r.body = constants({32});
  r.body += fmt::format(
      "%i = fa.load %b[%c0, %c0] below(%k32, %k32) : {0} -> {1}\n"
      "%t = fa.load %c[%c0, %c0] below(%k32, %k32) : {2} -> {3}\n"
      "fa.scatter_add atomic %t, %a[%n0, %i] : {3}, {2}, (index, {1})\n",
      at.mlir(), i, x.mlir(), t);
  r.check = [&table, &at, &x] {
    compare(table, [&](int64_t i, int64_t j) {
      double s = kPoison;
      if (i == 1)
        for (int64_t p = 0; p < 32; ++p)
          for (int64_t q = 0; q < 32; ++q)
            if (std::clamp<int64_t>(at.get(p, q), 0, 19) == j)
              s += x.get(p, q);
      return s;
    });
  };
  runs.push_back(r);
  runAll(runs);
}

} // namespace
