//===- Driver.cpp - the whole compiler on a command line ------------------===//

#include "Driver.h"

#include "codegen/cpu/CpuCodegen.h"
#include "codegen/cuda/CudaCodegen.h"
#include "codegen/cuda/Nvrtc.h"
#include "dialect/FADialect.h"
#include "dialect/gpu/GpuDialect.h"
#include "passes/Pipeline.h"
#include "passes/analysis/Explain.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/ToolOutputFile.h"

#include <cmath>

using namespace mlir;
using namespace fathom;
namespace cl = llvm::cl;

//===----------------------------------------------------------------------===//
// Options
//===----------------------------------------------------------------------===//

namespace {
/// Made by main, not before it: the release holds several tools in one file.
struct Options {
  cl::OptionCategory compiling{
      "Compiling",
      "Run the pipeline on a variant: --emit=llvm, --fa-stop-after=nest, ..."};
  cl::opt<std::string> emit{"emit", cl::cat(compiling),
                            cl::value_desc("mlir|llvm|obj|cuda|ptx|cubin"),
                            cl::desc("what to make (default: mlir)")};
  cl::opt<std::string> target{
      "target", cl::init("cpu"), cl::cat(compiling), cl::value_desc("name"),
      cl::desc(
          "what to make it for: cpu (this machine), x86-64-v2, -v3 or -v4, "
          "sm_90 (a GPU) or compute_80 (PTX for all GPUs from there on)")};
  cl::opt<std::string> stopAfter{
      "fa-stop-after", cl::cat(compiling), cl::value_desc("stage|pass"),
      cl::desc(
          "variant, schedule, nest, map or a pass; --emit=llvm then compiles "
          "what this prefix gives")};
  cl::list<std::string> skip{"fa-skip", cl::CommaSeparated, cl::cat(compiling),
                             cl::value_desc("pass,..."),
                             cl::desc("optional passes to leave out")};
  cl::opt<std::string> dumpDir{"dump-dir", cl::cat(compiling),
                               cl::value_desc("folder"),
                               cl::desc("write the IR after each pass, and "
                                        "what is emitted, into this folder")};
  cl::opt<std::string> variant{
      "variant", cl::cat(compiling), cl::value_desc("name"),
      cl::desc("which variant of the file (default: its only one)")};
  cl::opt<std::string> dtype{"dtype", cl::init("f32"), cl::cat(compiling),
                             cl::value_desc("f64|f32|bf16|f16"),
                             cl::desc("dtype of the instance")};
  cl::opt<int64_t> headDim{"head-dim", cl::init(64), cl::cat(compiling),
                           cl::desc("head dim of Q and K")};
  cl::opt<int64_t> headDimV{"head-dim-v", cl::init(0), cl::cat(compiling),
                            cl::desc("head dim of V (default: as of Q and K)")};
  cl::opt<int64_t> group{
      "group", cl::init(0), cl::cat(compiling),
      cl::desc("query heads a KV head (default: --heads / --kv-heads, or 1)")};
  cl::opt<std::string> layout{"layout", cl::init("bshd"), cl::cat(compiling),
                              cl::value_desc("bshd|bhsd|packed"),
                              cl::desc("order of the dims of Q, K, V, O")};
  cl::opt<bool> backward{"backward", cl::init(true), cl::cat(compiling),
                         cl::desc("also compile the gradient")};
  cl::opt<std::string> part{
      "part", cl::cat(compiling),
      cl::desc("forward or backward, each with its own tiles on a GPU "
               "(default: both, with one tiling)")};
  cl::opt<bool> aligned{
      "aligned", cl::init(true), cl::cat(compiling),
      cl::desc("GPU: Q, K, V, O and their gradients have a last stride of 1 "
               "and all else in multiples of 16 bytes")};
  cl::opt<int64_t> numWarps{"num-warps", cl::init(0), cl::cat(compiling),
                            cl::desc("GPU: warps a CTA (0: by the registers "
                                     "that accumulators take)")};
  cl::opt<int64_t> stages{"stages", cl::init(0), cl::cat(compiling),
                          cl::desc("GPU: buffers for what loops copy ahead "
                                   "(0: chosen)")};
  cl::opt<int64_t> blockM{"block-m", cl::init(0), cl::cat(compiling),
                          cl::desc("rows of Q in a tile")};
  cl::opt<int64_t> blockN{"block-n", cl::init(0), cl::cat(compiling),
                          cl::desc("rows of K in a tile")};
  cl::opt<std::string> pPolicy{
      "p-policy", cl::cat(compiling),
      cl::desc("recompute, store or store_compressed")};
  cl::opt<std::string> dqPolicy{
      "dq-policy", cl::cat(compiling),
      cl::desc("sequential, atomic, ordered, split or two_kernel")};
  cl::opt<int64_t> dqSplits{"dq-splits", cl::init(4), cl::cat(compiling),
                            cl::desc("parts of the keys for split")};
  cl::opt<int64_t> kvSplits{
      "kv-splits", cl::init(1), cl::cat(compiling),
      cl::desc("parts of the keys that the forward passes over in parallel")};
  cl::opt<int64_t> seqlenQHint{
      "seqlen-q-hint", cl::init(0), cl::cat(compiling),
      cl::desc("GPU: query rows expected, for tiles of few rows (0: unknown)")};
  cl::opt<bool> packHeads{
      "pack-heads", cl::cat(compiling),
      cl::desc("tiles of the query heads of a KV head in the forward (on a GPU "
               "the default where the hint is less than these)")};
  cl::opt<int64_t> groupSplits{
      "group-splits", cl::init(1), cl::cat(compiling),
      cl::desc("parts of the query heads of a KV head that the backward passes "
               "over in parallel")};
  cl::opt<bool> deterministic{
      "deterministic", cl::cat(compiling),
      cl::desc("hold the result to be bitwise the same in every run")};

  cl::OptionCategory explaining{"Explaining",
                                "What was chosen, why, and what it costs"};
  cl::opt<std::string> explain{"explain", cl::ValueOptional,
                               cl::cat(explaining), cl::value_desc("text|json"),
                               cl::desc("count products, memory and traffic in "
                                        "the tiled IR, for each P policy")};
  cl::opt<std::string> device{
      "device", cl::init("h200"), cl::cat(explaining), cl::value_desc("name"),
      cl::desc("device of the roofline: h200, h100, a100, ascend910")};
  cl::opt<double> deviceTflops{
      "device-tflops", cl::cat(explaining),
      cl::desc("peak of 16-bit products in TFLOP/s, in place of the device's")};
  cl::opt<double> deviceGbs{
      "device-gbs", cl::cat(explaining),
      cl::desc("memory rate in GB/s, in place of the device's")};
  cl::opt<int64_t> batch{"batch", cl::init(1), cl::cat(explaining),
                         cl::desc("batch to count for")};
  cl::opt<int64_t> heads{"heads", cl::init(8), cl::cat(explaining),
                         cl::desc("query heads to count for")};
  cl::opt<int64_t> kvHeads{
      "kv-heads", cl::init(0), cl::cat(explaining),
      cl::desc("KV heads to count for (default: heads / group)")};
  cl::opt<int64_t> seqlenQ{"seqlen-q", cl::init(1024), cl::cat(explaining),
                           cl::desc("queries a sequence to count for")};
  cl::opt<int64_t> seqlenK{
      "seqlen-k", cl::init(0), cl::cat(explaining),
      cl::desc("keys a sequence to count for (default: as many as queries)")};
};
} // namespace

static Options *options = nullptr;

/// The CPU of --target, which drive() checks.
static cpu::CpuTarget cpuTarget() {
  return {options->target == "cpu" ? "" : options->target.getValue()};
}

static PipelineOptions pipelineOptions() {
  const Options &o = *options;
  PipelineOptions p;
  p.variant = o.variant;
  p.dtype = o.dtype;
  p.headDimQK = o.headDim;
  p.headDimV = o.headDimV;
  p.layout = o.layout;
  p.backward = o.backward;
  p.group = o.group;
  if (!o.group.getNumOccurrences())
    p.group = o.kvHeads > 0 ? std::max<int64_t>(1, o.heads / o.kvHeads) : 1;
  p.blockM = o.blockM;
  p.blockN = o.blockN;
  p.pPolicy = o.pPolicy;
  p.dqPolicy = o.dqPolicy;
  p.dqSplits = o.dqSplits;
  p.kvSplits = o.kvSplits;
  p.seqlenQHint = o.seqlenQHint;
  p.packHeads = o.packHeads;
  p.groupSplits = o.groupSplits;
  p.deterministic = o.deterministic;
  p.skip.assign(o.skip.begin(), o.skip.end());
  p.stopAfter = o.stopAfter;
  cuda::Target gpu;
  std::string reason;
  if (cuda::Target::parse(o.target, gpu, reason))
    p.target = o.target, p.sharedBytes = gpu.limits.sharedPerCta;
  p.aligned = o.aligned;
  p.part = o.part;
  p.numWarps = o.numWarps;
  p.stages = o.stages;
  p.mapOptions = "vector-bits=" + std::to_string(cpuTarget().vectorBits());
  // A stop inside of the pipeline shows the IR there.
  p.map = p.stopAfter.empty() || p.stopAfter == "map" ||
          llvm::any_of(pipelineSteps(), [&](const PipelineStep &s) {
            return s.pass == p.stopAfter && s.stage == "map";
          });
  return p;
}

/// A pipeline among the passes; it takes the options above.
static void registerPipeline(StringRef name, StringRef description,
                             std::string first, std::string last) {
  registerPassPipeline(
      name, description,
      [=](OpPassManager &pm, StringRef text,
          function_ref<LogicalResult(const llvm::Twine &)> fail) {
        if (!text.trim().empty() && text.trim() != "target=cpu")
          return fail("expected no option or target=cpu (other options stand "
                      "beside), got '" +
                      text + "'");
        PipelineOptions p = pipelineOptions();
        p.startAfter = first;
        if (!last.empty()) {
          p.stopAfter = last;
          p.map = last == "map";
        }
        std::string message;
        llvm::raw_string_ostream os(message);
        if (failed(buildPipeline(pm, p, os)))
          return fail(StringRef(message).trim());
        return success();
      },
      [](function_ref<void(const mlir::detail::PassOptions &)>) {});
}

void fathom::registerDriverOptions() {
  static Options all;
  options = &all;
  cl::AddExtraVersionPrinter([](llvm::raw_ostream &os) {
    os << "Fathom version " FATHOM_VERSION "\n";
  });
  registerPipeline(
      "fa-pipeline",
      "All stages, or up to --fa-stop-after; options as below Compiling", "",
      "");
  std::string before;
  for (StringRef stage : {"variant", "schedule", "nest", "map"}) {
    registerPipeline(("fa-" + stage + "-stage").str(),
                     ("The " + stage + " stage alone").str(), before,
                     stage.str());
    before = stage.str();
  }
}

/// Passes that were written out on the command line, if any.
static bool hasPasses() {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  PassManager pm(&context);
  return succeeded(
             MlirOptMainConfig::createFromCLOptions().setupPassPipeline(pm)) &&
         !pm.empty();
}

bool fathom::driverRequested() {
  const Options &o = *options;
  if (o.explain.getNumOccurrences() || o.emit.getNumOccurrences() ||
      o.dumpDir.getNumOccurrences())
    return true;
  bool any = false;
  for (cl::Option *n :
       std::initializer_list<cl::Option *>{&options->target,
                                           &options->stopAfter,
                                           std::addressof(options->skip),
                                           &options->variant,
                                           &options->dtype,
                                           &options->headDim,
                                           &options->headDimV,
                                           &options->group,
                                           &options->layout,
                                           &options->backward,
                                           &options->blockM,
                                           &options->blockN,
                                           &options->pPolicy,
                                           &options->dqPolicy,
                                           &options->dqSplits,
                                           &options->kvSplits,
                                           &options->seqlenQHint,
                                           &options->packHeads,
                                           &options->groupSplits,
                                           &options->deterministic})
    any |= n->getNumOccurrences() > 0;
  return any && !hasPasses();
}

//===----------------------------------------------------------------------===//
// Errors and output
//===----------------------------------------------------------------------===//

static LogicalResult error(const llvm::Twine &message) {
  llvm::errs() << "fa-opt: " << message << "\n";
  return failure();
}

/// Writes `text` to `path`; "-" is the standard output.
static LogicalResult writeText(StringRef path, StringRef text) {
  std::string message;
  auto file = openOutputFile(path, &message);
  if (!file)
    return error(message);
  file->os() << text;
  file->keep();
  return success();
}

//===----------------------------------------------------------------------===//
// Explaining
//===----------------------------------------------------------------------===//

/// The sizes to count for; without a group only their range is checked.
static FailureOr<ProblemSize> getProblemSize(std::optional<int64_t> group) {
  constexpr int64_t limit = int64_t(1) << 31;
  Options &o = *options;
  for (auto *n : {&o.batch, &o.heads, &o.kvHeads, &o.seqlenQ, &o.seqlenK}) {
    int64_t low = n->getNumOccurrences() ? 1 : 0;
    if (*n < low || *n > limit)
      return error("expected --" + n->ArgStr + " between 1 and 2^31, got " +
                   llvm::Twine(n->getValue()));
  }
  ProblemSize size;
  size.batch = o.batch, size.heads = o.heads, size.seqlenQ = o.seqlenQ;
  size.seqlenK = o.seqlenK.getNumOccurrences() ? o.seqlenK : o.seqlenQ;
  // Tiles are visited one by one.
  constexpr int64_t pairs = int64_t(1) << 34;
  if (options->explain.getNumOccurrences() &&
      size.seqlenQ > pairs / size.seqlenK)
    return error("expected --seqlen-q times --seqlen-k of at most 2^34 (131072 "
                 "each) with --explain, got " +
                 llvm::Twine(size.seqlenQ) + " and " +
                 llvm::Twine(size.seqlenK));
  int64_t g = group.value_or(1);
  size.kvHeads =
      o.kvHeads.getNumOccurrences() ? o.kvHeads.getValue() : size.heads / g;
  if (group && size.heads != size.kvHeads * g)
    return error("expected --heads to be " + llvm::Twine(g) +
                 " (the group) times --kv-heads, got " +
                 llvm::Twine(size.heads) + " and " + llvm::Twine(size.kvHeads));
  return size;
}

static FailureOr<DevicePeaks> getDevice() {
  Options &o = *options;
  for (auto *n : {&o.deviceTflops, &o.deviceGbs})
    if (n->getNumOccurrences() && !(*n > 0 && std::isfinite(*n)))
      return error("expected --" + n->ArgStr + " above 0, got " +
                   std::to_string(n->getValue()));
  std::string names;
  for (const DevicePeaks &d : knownDevices())
    names += (names.empty() ? "" : ", ") + d.name;
  const DevicePeaks *known = llvm::find_if(
      knownDevices(), [&](const DevicePeaks &d) { return d.name == o.device; });
  if (known == knownDevices().end())
    return error("expected --device to be one of " + names +
                 " (or --device-tflops and --device-gbs), got '" + o.device +
                 "'");
  DevicePeaks device = *known;
  if (o.deviceTflops.getNumOccurrences())
    device.tflops = o.deviceTflops;
  if (o.deviceGbs.getNumOccurrences())
    device.gbs = o.deviceGbs;
  if (o.deviceTflops.getNumOccurrences() && o.deviceGbs.getNumOccurrences())
    device.name = "as given";
  return device;
}

/// What the assembler says of a GPU's kernels, as `explain` wants it.
static llvm::json::Array kernelsToJson(const cuda::Program &program) {
  llvm::json::Array all;
  cuda::Target target;
  std::string reason;
  (void)cuda::Target::parse(program.target, target, reason);
  for (const cuda::Kernel &k : program.kernels)
    all.push_back(llvm::json::Object{
        {"name", k.name},
        {"threads", k.threads},
        {"registers", k.resources.registers},
        {"spill_bytes", k.resources.spillStores + k.resources.spillLoads},
        {"stack_bytes", k.resources.stackBytes},
        {"shared_bytes", k.sharedBytes + k.resources.staticShared},
        {"ctas_per_sm", cuda::occupancy(k, target.limits)},
        {"warnings", llvm::json::Array(cuda::warnings(k))}});
  return all;
}

static void printKernels(const cuda::Program &program, llvm::raw_ostream &os) {
  os << "\nkernels for " << program.target << "\n"
     << llvm::formatv("  {0,-32}{1,9}{2,11}{3,8}{4,8}{5,9}{6,9}\n", "",
                      "threads", "registers", "spilled", "stack", "shared",
                      "CTAs/SM");
  for (const llvm::json::Value &v : kernelsToJson(program)) {
    const llvm::json::Object &k = *v.getAsObject();
    auto n = [&](StringRef key) { return k.getInteger(key).value_or(0); };
    os << llvm::formatv("  {0,-32}{1,9}{2,11}{3,8}{4,8}{5,9}{6,9}\n",
                        *k.getString("name"), n("threads"), n("registers"),
                        n("spill_bytes"), n("stack_bytes"), n("shared_bytes"),
                        n("ctas_per_sm"));
    for (const llvm::json::Value &w : *k.getArray("warnings"))
      os << "    " << *w.getAsString() << "\n";
  }
}

/// `kernels` is null for a CPU.
static LogicalResult writeReport(const ExplainReport &report,
                                 const cuda::Program *kernels,
                                 StringRef output) {
  std::string text;
  llvm::raw_string_ostream os(text);
  if (options->explain == "json") {
    llvm::json::Value json = reportToJson(report);
    if (kernels)
      (*json.getAsObject())["kernels"] = kernelsToJson(*kernels);
    os << llvm::formatv("{0:2}", json) << "\n";
  } else {
    printReport(report, os);
    if (kernels)
      printKernels(*kernels, os);
  }
  return writeText(output, text);
}

//===----------------------------------------------------------------------===//
// Running passes
//===----------------------------------------------------------------------===//

namespace {
/// Writes the module after each pass into a folder, as 03-fa-tile.mlir.
class Dump : public PassInstrumentation {
public:
  explicit Dump(StringRef folder) : folder(folder) {}

  void runAfterPass(Pass *pass, Operation *op) override {
    if (isa<ModuleOp>(op))
      write(pass->getArgument(), "mlir",
            [&](llvm::raw_ostream &os) { op->print(os); });
  }

  void write(StringRef name, StringRef suffix,
             function_ref<void(llvm::raw_ostream &)> print) {
    std::string file =
        llvm::formatv("{0}/{1,0+2}-{2}.{3}", folder, count++, name, suffix);
    std::string text;
    llvm::raw_string_ostream os(text);
    print(os);
    failedToWrite |= failed(writeText(file, text));
  }

  bool failedToWrite = false;

private:
  std::string folder;
  unsigned count = 0;
};
} // namespace

/// Runs what `fill` adds; the folder of --dump-dir gets the steps if `dump`.
static LogicalResult
runPasses(ModuleOp module, bool dump,
          function_ref<LogicalResult(PassManager &)> fill) {
  PassManager pm(module.getContext(), ModuleOp::getOperationName());
  if (failed(applyPassManagerCLOptions(pm)) || failed(fill(pm)))
    return failure();
  Dump *files = nullptr;
  if (dump) {
    if (std::error_code e = llvm::sys::fs::create_directories(options->dumpDir))
      return error("cannot make the folder '" + options->dumpDir +
                   "': " + e.message());
    auto owned = std::make_unique<Dump>(options->dumpDir);
    files = owned.get();
    files->write("input", "mlir",
                 [&](llvm::raw_ostream &os) { module.print(os); });
    pm.addInstrumentation(std::move(owned));
  }
  LogicalResult result = pm.run(module);
  return failure(failed(result) || (files && files->failedToWrite));
}

static LogicalResult runPipeline(ModuleOp module, const PipelineOptions &p,
                                 bool dump) {
  return runPasses(module, dump, [&](PassManager &pm) -> LogicalResult {
    std::string message;
    llvm::raw_string_ostream os(message);
    if (succeeded(buildPipeline(pm, p, os)))
      return success();
    return error(StringRef(message).trim());
  });
}

//===----------------------------------------------------------------------===//
// The driver
//===----------------------------------------------------------------------===//

static OwningOpRef<ModuleOp> parse(StringRef input, llvm::SourceMgr &sources,
                                   MLIRContext &context) {
  std::string message;
  auto file = openInputFile(input, &message);
  if (!file) {
    (void)error(message);
    return {};
  }
  sources.AddNewSourceBuffer(std::move(file), {});
  return parseSourceFile<ModuleOp>(sources, &context);
}

template <typename Op>
static bool contains(ModuleOp module) {
  return module.walk([](Op) { return WalkResult::interrupt(); })
      .wasInterrupted();
}

/// One column a P policy, from the schedule stage on; the remarks of a column
/// say what its passes did.
static LogicalResult explainPolicies(ModuleOp input, ExplainReport &report,
                                     std::vector<PassRemark> &remarks) {
  PipelineOptions p = pipelineOptions();
  const std::string stop = p.stopAfter;
  ArrayRef<PipelineStep> steps = pipelineSteps();
  const PipelineStep *last = llvm::find_if(
      steps, [&](const PipelineStep &s) { return s.pass == stop; });
  if (stop == "variant" || stop == "schedule" ||
      (last != steps.end() &&
       (last->stage == "variant" || last->stage == "schedule")))
    return error("expected --fa-stop-after to be a pass from fa-tile on, since "
                 "--explain counts nests, got '" +
                 stop + "'");
  bool inNest = last != steps.end() && last->stage == "nest";
  p.map = false;
  p.stopAfter = "schedule";
  OwningOpRef<ModuleOp> scheduled = input.clone();
  remarks.clear();
  if (failed(runPipeline(*scheduled, p, false)))
    return failure();
  std::vector<PassRemark> first = std::move(remarks);

  func::FuncOp instance;
  for (auto func : scheduled->getOps<func::FuncOp>())
    if (!instance && func->hasAttr(kScheduleAttr))
      instance = func;
  if (!instance)
    return error("expected an fa.variant or a function with fa.attention to "
                 "explain, got none");
  auto schedule = cast<ScheduleAttr>(instance->getAttr(kScheduleAttr));
  AttentionOp attention = *instance.getOps<AttentionOp>().begin();
  FailureOr<ProblemSize> size = getProblemSize(attention.getGroup());
  if (failed(size))
    return failure();
  report.size = *size;
  report.name = instance.getName();
  std::string text;
  llvm::raw_string_ostream(text) << schedule;
  report.schedule = text;

  p.startAfter = "schedule";
  p.stopAfter = inNest ? stop : "nest";
  for (PPolicy policy :
       {PPolicy::recompute, PPolicy::store, PPolicy::store_compressed}) {
    OwningOpRef<ModuleOp> module = scheduled->clone();
    auto func = module->lookupSymbol<func::FuncOp>(report.name);
    func->setAttr(kScheduleAttr, schedule.withP(policy));
    remarks = first;
    if (failed(runPipeline(*module, p, false)))
      return failure();
    FailureOr<ExplainColumn> column =
        countModule(*module, *size, stringifyPPolicy(policy));
    if (failed(column))
      return failure();
    column->remarks = std::move(remarks);
    if (policy == schedule.getP())
      report.chosen = report.columns.size();
    report.columns.push_back(std::move(*column));
  }
  return success();
}

/// The nests of the module as they are.
static LogicalResult explainNests(ModuleOp module, ExplainReport &report,
                                  std::vector<PassRemark> &remarks) {
  FailureOr<ProblemSize> size = getProblemSize(pipelineOptions().group);
  if (failed(size))
    return failure();
  FailureOr<ExplainColumn> column = countModule(module, *size, "as given");
  if (failed(column))
    return failure();
  report.size = *size;
  report.name = column->functions.front().name;
  column->remarks = std::move(remarks);
  report.columns.push_back(std::move(*column));
  return success();
}

/// The kernels of --target, for a report; none where there is no NVRTC.
static LogicalResult compileKernels(ModuleOp input, bool nests,
                                    std::optional<cuda::Program> &kernels) {
  if (auto compiler = cuda::nvrtc(); !compiler) {
    llvm::errs() << "fa-opt: no report on kernels: "
                 << llvm::toString(compiler.takeError()) << "\n";
    return success();
  }
  OwningOpRef<ModuleOp> module = input.clone();
  PipelineOptions p = pipelineOptions();
  p.startAfter = nests ? "nest" : "";
  p.map = true;
  if (failed(runPipeline(*module, p, false)))
    return failure();
  auto program = cuda::emitProgram(*module);
  if (!program)
    return error(llvm::toString(program.takeError()));
  program->target = options->target;
  if (llvm::Error e = cuda::compile(*program))
    return error(llvm::toString(std::move(e)));
  kernels = std::move(*program);
  return success();
}

/// What --emit says of each kernel: one after the other, or a file each in
/// the folder `output` or that of --dump-dir.
static LogicalResult emitKernels(ModuleOp module, StringRef output) {
  auto program = cuda::emitProgram(module);
  if (!program)
    return error(llvm::toString(program.takeError()));
  StringRef kind = options->emit;
  if (kind != "cuda") {
    program->target = options->target;
    if (llvm::Error e = cuda::compile(*program))
      return error(llvm::toString(std::move(e)));
  }
  bool folder = llvm::sys::fs::is_directory(output);
  if (kind == "cubin" && program->kernels.size() != 1 && !folder)
    return error("expected -o FOLDER for the machine code of " +
                 llvm::Twine(program->kernels.size()) + " kernels");
  std::string all;
  for (const cuda::Kernel &k : program->kernels) {
    const std::string &text = kind == "cuda"  ? k.source
                              : kind == "ptx" ? k.ptx
                                              : k.cubin;
    StringRef suffix = kind == "cuda" ? "cu" : kind;
    for (StringRef to : {folder ? output : "", StringRef(options->dumpDir)})
      if (!to.empty() &&
          failed(writeText((to + "/" + k.name + "." + suffix).str(), text)))
        return failure();
    all += (all.empty() ? "" : "\n//===--- next kernel ---===//\n\n") + text;
  }
  return folder ? success() : writeText(output, all);
}

static LogicalResult emitModule(ModuleOp module, StringRef output) {
  if (options->emit.empty() || options->emit == "mlir") {
    std::string text;
    llvm::raw_string_ostream os(text);
    module.print(os);
    return writeText(output, text + "\n");
  }
  if (llvm::is_contained({"cuda", "ptx", "cubin"}, options->emit))
    return emitKernels(module, output);
  std::string made;
  if (options->emit == "llvm") {
    auto text = cpu::emitLLVMIR(module, cpuTarget());
    if (!text)
      return error(llvm::toString(text.takeError()));
    made = std::move(*text);
  } else {
    auto object = cpu::emitObject(module, cpuTarget());
    if (!object)
      return error(llvm::toString(object.takeError()));
    made = (*object)->getBuffer().str();
  }
  if (options->dumpDir.getNumOccurrences() &&
      failed(writeText(options->dumpDir +
                           (options->emit == "llvm" ? "/code.ll" : "/code.o"),
                       made)))
    return failure();
  return writeText(output, made);
}

static LogicalResult drive(StringRef input, StringRef output,
                           MLIRContext &context, llvm::SourceMgr &sources) {
  const Options &o = *options;
  auto oneOf = [](const cl::opt<std::string> &option,
                  ArrayRef<StringRef> values) -> LogicalResult {
    if (!option.getNumOccurrences() ||
        llvm::is_contained(values, option.getValue()))
      return success();
    return error("expected --" + option.ArgStr + " to be one of " +
                 llvm::join(values, ", ") + ", got '" + option.getValue() +
                 "'");
  };
  bool explain = o.explain.getNumOccurrences(),
       emit = o.emit.getNumOccurrences() || !explain;
  cuda::Target gpu;
  std::string reason;
  bool isGpu = cuda::Target::parse(o.target, gpu, reason);
  if (failed(oneOf(o.emit, {"mlir", "llvm", "obj", "cuda", "ptx", "cubin"})))
    return failure();
  if (!isGpu && (StringRef(o.target).starts_with("sm_") ||
                 StringRef(o.target).starts_with("compute_")))
    return error(reason);
  if (!isGpu &&
      failed(oneOf(o.target, {"cpu", "x86-64-v2", "x86-64-v3", "x86-64-v4",
                              "sm_80", "sm_90", "compute_80"})))
    return failure();
  bool forGpu = llvm::is_contained({"cuda", "ptx", "cubin"}, o.emit);
  if (o.emit.getNumOccurrences() && o.emit != "mlir" && forGpu != isGpu)
    return error(
        "expected --emit=" + o.emit + " with " +
        (forGpu ? "--target=sm_90 or another GPU" : "a CPU as --target") +
        ", got --target=" + o.target);
  if (isGpu && o.emit == "cubin" && !gpu.machine)
    return error("expected --emit=ptx with --target=" + o.target +
                 ", which has no machine code, got --emit=cubin");
  if (!o.explain.empty() && failed(oneOf(o.explain, {"text", "json"})))
    return failure();
  if (explain && o.emit.getNumOccurrences() && output == "-")
    return error("expected -o FILE for what --emit makes, since --explain "
                 "writes to the standard output");
  FailureOr<DevicePeaks> device = getDevice();
  if (failed(device) || failed(getProblemSize(std::nullopt)))
    return failure();

  std::vector<PassRemark> remarks;
  if (failed(collectRemarks(context, remarks)))
    return failure();
  OwningOpRef<ModuleOp> module = parse(input, sources, context);
  if (!module)
    return failure();
  if (!contains<VariantOp>(*module) && !contains<gpu::KernelOp>(*module) &&
      !contains<AttentionOp>(*module) && !contains<NestOp>(*module))
    return error("expected an fa.variant, fa.attention or fa.nest in '" +
                 input + "', got none");
  bool dump = o.dumpDir.getNumOccurrences();
  bool passes = hasPasses();
  if (passes) {
    if (failed(runPasses(*module, dump, [](PassManager &pm) {
          return MlirOptMainConfig::createFromCLOptions().setupPassPipeline(pm);
        })))
      return failure();
    dump = false;
  }
  // Kernels are past all stages.
  if (contains<gpu::KernelOp>(*module) && forGpu)
    return emitModule(*module, output);

  bool nests = contains<NestOp>(*module);
  if (explain) {
    ExplainReport report;
    report.device = *device;
    if (failed(nests ? explainNests(*module, report, remarks)
                     : explainPolicies(*module, report, remarks)))
      return failure();
    std::optional<cuda::Program> kernels;
    if (isGpu && failed(compileKernels(*module, nests, kernels)))
      return failure();
    if (failed(writeReport(report, kernels ? &*kernels : nullptr,
                           o.emit.getNumOccurrences() ? "-" : output)))
      return failure();
  }
  if (!emit)
    return success();
  PipelineOptions p = pipelineOptions();
  if (nests)
    p.startAfter = "nest";
  bool binary = o.emit == "llvm" || o.emit == "obj" || forGpu;
  p.map |= binary;
  p.runnable |= binary;
  if ((!passes || binary) && failed(runPipeline(*module, p, dump)))
    return failure();
  return emitModule(*module, output);
}

int fathom::runDriver(StringRef input, StringRef output,
                      DialectRegistry &registry) {
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.printOpOnDiagnostic(false);
  llvm::SourceMgr sources;
  SourceMgrDiagnosticHandler handler(sources, &context);
  return asMainReturnCode(drive(input, output, context, sources));
}
