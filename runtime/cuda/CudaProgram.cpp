//===- CudaProgram.cpp - a GPU program, ready to run ------------------------===//

#include "runtime/cuda/CudaProgram.h"

#include "codegen/cuda/Target.h"
#include "runtime/PartTimes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>

namespace fathom::cuda {

namespace {

// CUfunction_attribute.
constexpr int kMaxThreads = 0, kMaxDynamicShared = 8;
// CUjit_option.
constexpr int kErrorLog = 5, kErrorLogBytes = 6;
constexpr int kRelaxedCapture = 2;

/// Loading a module is not work in a stream, so a capture that this thread does
/// needs not fail by it.
class OutsideCapture {
public:
  explicit OutsideCapture(const Driver &driver) : driver(driver) {
    driver.api().ThreadExchangeStreamCaptureMode(&mode);
  }
  ~OutsideCapture() { driver.api().ThreadExchangeStreamCaptureMode(&mode); }

private:
  const Driver &driver;
  int mode = kRelaxedCapture;
};

} // namespace

/// A program's kernels on one GPU.
struct CudaProgram::Loaded {
  std::vector<Function> functions;
  std::vector<Module> modules;
};

CudaProgram::CudaProgram(Program program) : program_(std::move(program)) {
  for (const Plan &plan : program_.plans)
    runners.emplace_back(program_, plan);
}

/// Modules stay: work in streams and captured graphs may still use them.
CudaProgram::~CudaProgram() {
  for (auto &loaded : perGpu)
    delete loaded.load();
}

Result<std::shared_ptr<const CudaProgram>>
CudaProgram::create(Program program) {
  Target target;
  std::string error = check(program);
  if (error.empty() && Target::parse(program.target, target, error))
    for (const Kernel &k : program.kernels)
      if (k.ptx.empty() && k.cubin.empty())
        error = fmt::format("kernel '{}' is not compiled", k.name);
  if (!error.empty())
    return Status(ErrorCode::internal, "GPU program: " + error);
  return std::shared_ptr<const CudaProgram>(
      new CudaProgram(std::move(program)));
}

const PlanRunner *CudaProgram::find(const std::string &plan) const {
  for (const PlanRunner &r : runners)
    if (r.plan().name == plan)
      return &r;
  return nullptr;
}

//===----------------------------------------------------------------------===//
// Loading
//===----------------------------------------------------------------------===//

Status CudaProgram::loadKernel(const Driver &driver, const Gpu &gpu, int index,
                               Module &module, Function &function) const {
  const Kernel &k = program_.kernels[index];
  Target target;
  std::string reason;
  (void)Target::parse(program_.target, target, reason); // create() did
  std::string where =
      fmt::format("cuda:{} ({}, sm_{})", gpu.number, gpu.name, gpu.arch);
  const std::string *image = nullptr;
  if (!k.cubin.empty() && target.codeRunsOn(gpu.arch))
    image = &k.cubin;
  else if (!k.ptx.empty() && target.ptxRunsOn(gpu.arch))
    image = &k.ptx;
  else
    return {ErrorCode::unsupported,
            fmt::format("kernel '{}' is compiled for {}, which {} can't run: "
                        "compile for sm_{} or compute_80",
                        k.name, target.name, where, gpu.arch)};
  if (k.sharedBytes > gpu.sharedPerCta)
    return {ErrorCode::unsupported,
            fmt::format("kernel '{}' needs {} bytes of shared memory, {} has "
                        "{} for a CTA: choose smaller blocks",
                        k.name, k.sharedBytes, where, gpu.sharedPerCta)};

  const Api &f = driver.api();
  std::string what = fmt::format("kernel '{}' on {}", k.name, where);
  char log[4096] = {};
  int options[] = {kErrorLog, kErrorLogBytes};
  void *values[] = {log, reinterpret_cast<void *>(sizeof(log) - 1)};
  if (Code code =
          f.ModuleLoadDataEx(&module, image->c_str(), 2, options, values)) {
    Status s = driver.status(code, what);
    return {s.code(), s.message() + (*log ? std::string("\n") + log : "")};
  }
  auto failed = [&](Status s) {
    f.ModuleUnload(module);
    return s;
  };
  Code code = f.ModuleGetFunction(&function, module, k.name.c_str());
  if (!code && k.sharedBytes)
    code = f.FuncSetAttribute(function, kMaxDynamicShared, k.sharedBytes);
  int threads = 0;
  if (!code)
    code = f.FuncGetAttribute(&threads, kMaxThreads, function);
  if (code)
    return failed(driver.status(code, what));
  if (threads < k.threads)
    return failed({ErrorCode::unsupported,
                   fmt::format("{} runs with at most {} threads, needs {}: its "
                               "registers are too many",
                               what, threads, k.threads)});
  if (Status s = checkParameters(driver, index, function); !s)
    return failed(s);
  return {};
}

/// A launch reads as many parameters as the kernel has: they must be there.
Status CudaProgram::checkParameters(const Driver &driver, int kernel,
                                    Function function) const {
  auto info = driver.api().FuncGetParamInfo;
  if (!info)
    return {};
  std::vector<int64_t> declared;
  size_t offset = 0, bytes = 0;
  while (info(function, declared.size(), &offset, &bytes) == 0)
    declared.push_back(bytes);
  for (const PlanRunner &r : runners)
    for (const Launch &l : r.plan().launches)
      if (l.kernel == kernel && r.parameterBytes(l) != declared)
        return {ErrorCode::internal,
                fmt::format("{} launches kernel '{}' with parameters that are "
                            "not the ones it has",
                            r.plan().name, program_.kernels[kernel].name)};
  return {};
}

Result<const CudaProgram::Loaded *> CudaProgram::loadNow(const Driver &driver,
                                                         const Gpu &gpu) const {
  std::lock_guard<std::mutex> guard(lock);
  if (const Loaded *there = perGpu[gpu.number].load())
    return there;
  PartTimer timer("kernels to the GPU");
  OutsideCapture outside(driver);
  auto made = std::make_unique<Loaded>();
  made->functions.resize(program_.kernels.size());
  made->modules.resize(program_.kernels.size());
  for (size_t k = 0; k < made->functions.size(); ++k)
    if (Status s =
            loadKernel(driver, gpu, k, made->modules[k], made->functions[k]);
        !s)
      return s;
  perGpu[gpu.number].store(made.get());
  return static_cast<const Loaded *>(made.release());
}

Result<const CudaProgram::Loaded *> CudaProgram::loaded(const Driver &driver,
                                                        const Gpu &gpu) const {
  if (gpu.number >= kMaxGpus)
    return Status(ErrorCode::unsupported,
                  fmt::format("device: GPUs up to cuda:{} are supported, got "
                              "cuda:{}",
                              kMaxGpus - 1, gpu.number));
  if (const Loaded *there = perGpu[gpu.number].load())
    return there;
  return loadNow(driver, gpu);
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

namespace {

/// A stream of a GPU that is current.
class StreamMachine final : public Machine {
public:
  StreamMachine(const Driver &driver, const Gpu &gpu, const Program *program,
                const Function *functions, void *stream)
      : driver(driver), gpu(gpu), program(program), functions(functions),
        stream(stream) {}

  Status allocate(int64_t bytes, void *&memory) override {
    auto m = cuda::allocate(gpu.number, bytes, stream);
    if (!m)
      return {m.status().code(), "workspace: " + m.status().message()};
    memory = *m;
    return {};
  }
  Status release(void *memory) override {
    Code code =
        driver.api().MemFreeAsync(reinterpret_cast<Address>(memory), stream);
    return code ? driver.status(code, "workspace") : Status();
  }
  Status clear(void *memory, int64_t bytes, uint8_t value) override {
    Code code = driver.api().MemsetD8Async(reinterpret_cast<Address>(memory),
                                           value, bytes, stream);
    return code ? driver.status(code, "workspace") : Status();
  }
  Status makeMap(const BoxArray &a, void *map) override {
    // CUtensorMapDataType of unsigned integers, by bytes: bits are moved.
    // CUtensorMapSwizzle counts 32, 64 and 128 bytes from 1.
    constexpr int types[] = {-1, 0, 1, -1, 2, -1, -1, -1, 4};
    int swizzle = a.swizzle ? llvm::Log2_32(a.swizzle) - 4 : 0;
    constexpr int promote128 = 2;
    // The innermost dim comes first, and its stride is not said.
    uint64_t sizes[BoxMap::kMaxRank], strides[BoxMap::kMaxRank];
    uint32_t box[BoxMap::kMaxRank], steps[BoxMap::kMaxRank];
    for (int d = 0, from = a.rank - 1; from >= 0; ++d, --from) {
      sizes[d] = a.sizes[from];
      box[d] = a.box[from];
      steps[d] = 1;
      if (d)
        strides[d - 1] = a.strides[from];
    }
    auto encode = driver.api().TensorMapEncodeTiled;
    if (!encode)
      return {ErrorCode::unsupported,
              "NVIDIA's driver is too old, it has no cuTensorMapEncodeTiled: "
              "expected one for CUDA 12, or code for sm_90"};
    Code code = encode(map, types[a.elementBytes], a.rank, a.data, sizes,
                       strides, box, steps, 0, swizzle, promote128, 0);
    if (!code)
      return {};
    std::string text;
    for (int d = 0; d < a.rank; ++d)
      text += fmt::format(" {}:{}", a.sizes[d], a.strides[d]);
    return driver.status(
        code, fmt::format("an array at {} of sizes and strides in bytes{}",
                          a.data, text));
  }
  Status launch(int kernel, int64_t grid, void *const *parameters) override {
    const Kernel &k = program->kernels[kernel];
    Code code = driver.api().LaunchKernel(
        functions[kernel], grid, 1, 1, k.threads, 1, 1, k.sharedBytes, stream,
        const_cast<void **>(parameters), nullptr);
    if (!code)
      return {};
    return driver.status(code, fmt::format("launch of kernel '{}' on cuda:{}, "
                                           "or earlier work in its stream",
                                           k.name, gpu.number));
  }

private:
  const Driver &driver;
  const Gpu &gpu;
  const Program *program;
  const Function *functions;
  void *stream;
};

/// For plans that only compute.
class NoMachine final : public Machine {
  Status none() {
    return {ErrorCode::internal, "expected a plan of no effect"};
  }
  Status allocate(int64_t, void *&) override { return none(); }
  Status release(void *) override { return none(); }
  Status clear(void *, int64_t, uint8_t) override { return none(); }
  Status launch(int, int64_t, void *const *) override { return none(); }
};

} // namespace

Status CudaProgram::run(const PlanRunner &plan,
                        llvm::ArrayRef<CallArgument> arguments,
                        const CallPlace &where, int64_t *results) const {
  if (!plan.hasEffects()) {
    NoMachine none;
    return plan.run(arguments, none, {}, results);
  }
  return onGpu(where.gpu, [&](const Driver &driver, const Gpu &gpu) -> Status {
    auto code = loaded(driver, gpu);
    if (!code)
      return code.status();
    StreamMachine machine(driver, gpu, &program_, (*code)->functions.data(),
                          where.stream);
    return plan.run(arguments, machine, where.workspace, results);
  });
}

Status CudaProgram::load(int number) const {
  return onGpu(number, [&](const Driver &driver, const Gpu &gpu) {
    return loaded(driver, gpu).status();
  });
}

Result<std::vector<std::pair<std::string, int64_t>>>
CudaProgram::ticks(int number) const {
  std::vector<std::pair<std::string, int64_t>> all;
  Status s = onGpu(number, [&](const Driver &driver, const Gpu &gpu) -> Status {
    auto there = loaded(driver, gpu);
    if (!there)
      return there.status();
    for (auto [n, module] : llvm::enumerate((*there)->modules)) {
      Address address = 0;
      size_t bytes = 0;
      if (driver.api().ModuleGetGlobal(&address, &bytes, module, "fa_counters"))
        continue; // it counts nothing
      std::vector<int64_t> counters(bytes / sizeof(int64_t));
      if (Status copied = copy(number, counters.data(),
                               reinterpret_cast<const void *>(address), bytes);
          !copied)
        return copied;
      all.push_back(
          {program_.kernels[n].name,
           std::accumulate(counters.begin(), counters.end(), int64_t(0))});
    }
    return {};
  });
  if (!s)
    return s;
  return all;
}

} // namespace fathom::cuda
