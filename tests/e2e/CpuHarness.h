//===- CpuHarness.h - runs compiled functions on small arrays ---*- C++ -*-===//
//
// What the end-to-end tests of the CPU target share: arrays with any strides,
// and calls by the convention of dialect/README.md.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_TESTS_E2E_CPUHARNESS_H
#define FATHOM_TESTS_E2E_CPUHARNESS_H

#include "dialect/FADialect.h"
#include "runtime/cpu/CpuExecutable.h"
#include "runtime/cpu/CpuRuntime.h"
#include "tests/e2e/KernelCount.h"

#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>
#include <random>

namespace fathom::test {

/// An array whose entry (i, j, ...) is at data[offset + i * strides[0] + ...].
template <typename T>
struct Array {
  std::vector<int64_t> shape, strides;
  std::vector<T> data;
  int64_t offset = 0;
  mutable std::vector<int64_t> descriptor;

  /// Contiguous; with `padding`, each row has as many unused entries.
  explicit Array(std::vector<int64_t> shape, int64_t padding = 0)
      : shape(shape), strides(shape) {
    int64_t n = 1;
    for (size_t d = shape.size(); d-- > 0;) {
      strides[d] = n;
      n *= shape[d] + (d + 1 == shape.size() ? padding : 0);
    }
    data.assign(n + 16, T());
  }
  T &operator()(int64_t i) { return data[offset + i * strides[0]]; }
  T &operator()(int64_t i, int64_t j) {
    return data[offset + i * strides[0] + j * strides[1]];
  }

  Array &fill(unsigned seed, double lo = -1, double hi = 1) {
    std::mt19937 g(seed);
    std::uniform_real_distribution<double> u(lo, hi);
    for (T &x : data)
      x = T(u(g));
    return *this;
  }
  /// Its shape turned round; the data stays.
  Array &transpose() {
    std::swap(shape[0], shape[1]);
    std::swap(strides[0], strides[1]);
    return *this;
  }
  void *argument() {
    descriptor = {int64_t(data.data()), int64_t(data.data()), offset};
    descriptor.insert(descriptor.end(), shape.begin(), shape.end());
    descriptor.insert(descriptor.end(), strides.begin(), strides.end());
    return descriptor.data();
  }
};

/// A parsed and compiled file.
class Program {
public:
  static Program fromText(const std::string &text,
                          const std::string &cpu = "") {
    Program p;
    mlir::DialectRegistry registry;
    registerFA(registry);
    p.context = std::make_unique<mlir::MLIRContext>(
        registry, mlir::MLIRContext::Threading::DISABLED);
    p.context->loadAllAvailableDialects();
    auto module =
        mlir::parseSourceString<mlir::ModuleOp>(text, p.context.get());
    if (!module) {
      ADD_FAILURE() << "not parsed";
      return p;
    }
    ++kernelCount.number;
    auto e = cpu::CpuExecutable::compile(*module, cpu::CpuTarget{cpu});
    if (!e)
      ADD_FAILURE() << llvm::toString(e.takeError());
    else
      p.executable = std::move(*e);
    return p;
  }
  static Program fromFile(const std::string &path,
                          const std::string &cpu = "") {
    auto buffer = llvm::MemoryBuffer::getFile(path);
    if (!buffer) {
      ADD_FAILURE() << "cannot read " << path;
      return {};
    }
    return fromText((*buffer)->getBuffer().str(), cpu);
  }

  template <typename... Args>
  void run(const char *name, Args &...args) {
    if (!executable)
      return;
    cpu::EntryFunction f = executable->lookup(name);
    ASSERT_NE(f, nullptr) << name;
    void *pointers[] = {pointerTo(args)...};
    f(pointers);
  }

  std::unique_ptr<mlir::MLIRContext> context;
  std::unique_ptr<cpu::CpuExecutable> executable;

private:
  template <typename T>
  static void *pointerTo(Array<T> &a) {
    return a.argument();
  }
  template <typename T>
  static void *pointerTo(T &scalar) {
    return &scalar;
  }
};

/// The CPUs to compile for on this machine: its own, and smaller ones.
inline std::vector<std::string> testCpus() {
  std::vector<std::string> cpus = {""};
  int64_t bits = cpu::CpuTarget{}.vectorBits();
  if (bits >= 512)
    cpus.push_back("x86-64-v3");
  if (bits >= 256)
    cpus.push_back("x86-64-v2");
  return cpus;
}

} // namespace fathom::test

#endif // FATHOM_TESTS_E2E_CPUHARNESS_H
