//===- GpuHarness.h - whole programs for GPUs, emulated ---------*- C++ -*-===//
//
// Compiles a World by the pipeline for a GPU and makes of it an executable for
// arrays on the host: the runtime's interpreter runs the plans, the emulator
// the kernels. Needs neither a GPU nor NVRTC.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_TESTS_E2E_GPUHARNESS_H
#define FATHOM_TESTS_E2E_GPUHARNESS_H

#include "codegen/cuda/CudaCodegen.h"
#include "codegen/cuda/Target.h"
#include "passes/Passes.h"
#include "passes/Pipeline.h"
#include "tests/e2e/Harness.h"
#include "tests/emulation/EmulatedMachine.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"

namespace fathom::test {

/// The standard variant of that name, in `type`.
inline Spec named(const char *name, DType type) {
  for (Spec s : standardSpecs())
    if (s.name == name) {
      s.dtype = type;
      return s;
    }
  ADD_FAILURE() << "no variant " << name;
  return {};
}

/// Tables read by distance, one way and the other; distances as numbers.
inline constexpr const char *kDistanceScores[] = {
    R"(%d = arith.subi %i, %j : index
         %a = math.absi %d : index
         %n = arith.minui %a, %c9 : index
         %t = tensor.extract %table[%h, %n] : tensor<?x?xf32>
         %r = arith.addf %s, %t : f32)",
    R"(%d = arith.subi %j, %i : index
         %n = arith.addi %d, %c9 : index
         %t = tensor.extract %table[%h, %n] : tensor<?x?xf32>
         %u = math.tanh %t : f32
         %r = arith.mulf %s, %u : f32)",
    R"(%d = arith.subi %i, %j : index
         %a = arith.index_cast %d : index to i64
         %e = math.absi %a : i64
         %f = arith.sitofp %e : i64 to f32
         %t = tensor.extract %table[%h, %c9] : tensor<?x?xf32>
         %g = arith.mulf %f, %t : f32
         %r = arith.subf %s, %g : f32)"};

/// A variant with such a score.
inline Spec byDistance(const char *score, const char *mask, DType type) {
  Spec spec = named("bias", type);
  spec.text = std::string("fa.variant @v(%table: tensor<?x?xf32>)") + mask +
              " score (%s: f32, %b: index, %h: index, %i: index, %j: index) {"
              "%c9 = arith.constant 9 : index\n" +
              score + "\nfa.yield %r : f32 }";
  return spec;
}

/// What the caller of a pipeline for a GPU decides of itself. Block sizes of 0
/// take the default.
inline PipelineOptions gpuOptions(const World &w, std::string target = "sm_90",
                                  int64_t blockM = 32, int64_t blockN = 32) {
  PipelineOptions p;
  p.variant = w.source->info().name;
  p.dtype = name(w.spec.dtype);
  p.headDimQK = w.spec.d;
  p.headDimV = w.spec.dv;
  p.group = w.spec.heads / w.spec.kvHeads;
  p.layout = w.spec.cuQ.empty() ? "bhsd" : "packed";
  cuda::Target gpu;
  std::string reason;
  if (cuda::Target::parse(target, gpu, reason))
    p.sharedBytes = gpu.limits.sharedPerCta;
  p.target = std::move(target);
  p.blockM = blockM;
  p.blockN = blockN;
  return p;
}

/// One part of an instance ("forward" or "backward") as a program; what went
/// wrong goes to `error`.
inline std::optional<cuda::Program> gpuProgram(const World &w,
                                               PipelineOptions p,
                                               std::string part,
                                               std::string &error) {
  static const bool registered = (registerFAPasses(), true);
  (void)registered;
  p.part = std::move(part);
  mlir::MLIRContext &ctx = w.source->context();
  mlir::ScopedDiagnosticHandler handler(&ctx, [&](mlir::Diagnostic &d) {
    if (d.getSeverity() == mlir::DiagnosticSeverity::Error)
      error += d.str() + "; ";
    return mlir::success();
  });
  llvm::raw_string_ostream errors(error);
  mlir::OwningOpRef<mlir::ModuleOp> module = w.source->module().clone();
  mlir::PassManager pm(&ctx);
  if (failed(buildPipeline(pm, p, errors)) || failed(pm.run(*module)))
    return std::nullopt;
  auto program = cuda::emitProgram(*module);
  if (!program) {
    error += llvm::toString(program.takeError());
    return std::nullopt;
  }
  program->target = p.target;
  error = cuda::check(*program);
  cuda::Target target;
  if (error.empty() && cuda::Target::parse(p.target, target, error))
    for (const cuda::Kernel &k : program->kernels)
      if (error.empty())
        error = cuda::checkFits(k, target);
  if (!error.empty())
    return std::nullopt;
  return std::move(*program);
}

/// An instance for a GPU whose kernels the emulator runs.
class Emulated {
public:
  Executable executable;      ///< its calls take arrays on the host
  emulation::Options options; ///< of the calls that follow
  cuda::Program programs[2];  ///< forward, backward

  /// Null and a reason if it cannot be made.
  static std::unique_ptr<Emulated> compile(const World &w, PipelineOptions p,
                                           std::string &error) {
    auto e = std::make_unique<Emulated>();
    Executable &x = e->executable;
    x.name = w.source->info().name;
    x.gradients = p.backward;
    x.lseGradient = p.lseGrad;
    for (auto [i, capture] : llvm::enumerate(w.source->info().captures))
      if (p.captureGrads && isFloat(capture.dtype))
        x.gradCaptures.push_back(i);
    bool joint = llvm::is_contained(p.skip, "fa-partition");
    for (int part = 0; part < (p.backward && !joint ? 2 : 1); ++part) {
      auto made = gpuProgram(w, p, part ? "backward" : "forward", error);
      if (!made)
        return nullptr;
      e->programs[part] = std::move(*made);
      emulatedCount.number += e->programs[part].kernels.size();
    }
    const cuda::Program &forward = e->programs[0];
    int64_t gradients = 3 + x.gradCaptures.size();
    if (!p.backward || joint) {
      e->link(p.backward ? x.joint : x.fwd, forward, x.name,
              2 + p.backward * gradients);
      return e;
    }
    e->link(x.saved, forward, x.name + ".saved", 0);
    if (const cuda::Plan *fwd = forward.find(x.name + ".fwd"))
      e->link(x.fwd, forward, fwd->name,
              fwd->arguments.size() - x.saved.arguments.size());
    e->link(x.bwd, e->programs[1], x.name + ".bwd", gradients);
    return e;
  }

private:
  /// The last `written` arguments are results.
  void link(EntryPoint &entry, const cuda::Program &program,
            const std::string &name, int64_t written) {
    const cuda::Plan *plan = program.find(name);
    if (!plan)
      return;
    int64_t n = plan->arguments.size(), first = n - written;
    for (const cuda::Argument &a : plan->arguments)
      entry.arguments.push_back({dtypeOf(a.type), a.rank});
    entry.results = plan->results.size();
    entry.function = [this, plan, &program, first, n](void **args,
                                                      const CallContext &) {
      auto given = cuda::fromDescriptors(*plan, args);
      emulation::EmulatedMachine machine(program);
      machine.options = options;
      for (auto [i, a] : llvm::enumerate(given))
        if (a.rank >= 0)
          expose(machine, a, int64_t(i) >= first, std::to_string(i));
      std::vector<int64_t> results(plan->results.size());
      Status s = cuda::PlanRunner(program, *plan)
                     .run(given, machine, {}, results.data());
      for (auto [i, r] : llvm::enumerate(results))
        *static_cast<int64_t *>(args[n + i]) = r;
      return s;
    };
  }

  /// Lets kernels reach an array; results lose what they held.
  static void expose(emulation::EmulatedMachine &machine,
                     const cuda::CallArgument &a, bool result,
                     const std::string &number) {
    int64_t last = 0, size = 1, bytes = cuda::sizeOf(a.type);
    for (int d = 0; d < a.rank; ++d) {
      last += (a.sizes[d] - 1) * a.strides[d];
      size *= a.sizes[d];
    }
    if (size == 0)
      return;
    machine.memory.add(a.data, (last + 1) * bytes, result,
                       "argument " + number);
    if (result) // NaN; a byte of -1 would be a probability of zero
      std::memset(a.data, bytes == 1 ? 0x11 : 0xff, (last + 1) * bytes);
  }

  static DType dtypeOf(cuda::Scalar type) {
    static const std::map<cuda::Scalar, DType> types = {
        {cuda::Scalar::i1, DType::i1},   {cuda::Scalar::i8, DType::i8},
        {cuda::Scalar::i16, DType::i16}, {cuda::Scalar::i32, DType::i32},
        {cuda::Scalar::i64, DType::i64}, {cuda::Scalar::index, DType::i64},
        {cuda::Scalar::f16, DType::f16}, {cuda::Scalar::bf16, DType::bf16},
        {cuda::Scalar::f32, DType::f32}, {cuda::Scalar::f64, DType::f64}};
    return types.at(type);
  }
};

/// The orders of threads and of asynchronous copies that programs run in.
inline std::vector<emulation::Options> emulationOrders() {
  return {{.latest = false, .seed = 0},
          {.latest = true, .seed = 0},
          {.latest = false, .seed = 1},
          {.latest = true, .seed = 1}};
}

} // namespace fathom::test

#endif // FATHOM_TESTS_E2E_GPUHARNESS_H
