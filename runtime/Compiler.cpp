//===- Compiler.cpp - from a variant's text to something that runs ----------===//

#include "runtime/Compiler.h"

#include "codegen/cuda/CudaCodegen.h"
#include "codegen/cuda/DeviceHeader.h"
#include "codegen/cuda/Nvrtc.h"
#include "passes/Passes.h"
#include "passes/Pipeline.h"
#include "runtime/Devices.h"
#include "runtime/PartTimes.h"
#include "runtime/Stored.h"
#include "runtime/cache/BuildId.h"
#include "runtime/cache/KernelCache.h"
#include "runtime/cpu/CpuExecutable.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <future>

using namespace llvm;

namespace fathom {
namespace {

/// Collects what the compiler says while it lives, as one text.
class Messages {
public:
  explicit Messages(mlir::MLIRContext &ctx)
      : handler(&ctx, [this](mlir::Diagnostic &d) {
          if (d.getSeverity() != mlir::DiagnosticSeverity::Error)
            return mlir::success();
          raw_string_ostream os(text);
          if (!text.empty())
            os << "\n";
          if (auto loc =
                  d.getLocation()->findInstanceOf<mlir::FileLineColLoc>())
            os << loc.getFilename().getValue() << ":" << loc.getLine() << ":"
               << loc.getColumn() << ": ";
          os << d;
          for (mlir::Diagnostic &note : d.getNotes())
            os << "\n  note: " << note;
          return mlir::success();
        }) {}

  std::string text;

private:
  mlir::ScopedDiagnosticHandler handler;
};

Result<DType> dtypeOf(mlir::Type t) {
  if (t.isIndex())
    return DType::i64;
  std::string text;
  raw_string_ostream(text) << t;
  if (auto d = parseDType(text))
    return *d;
  return Status(ErrorCode::internal, fmt::format("no array type for {}", text));
}

/// True if `func` is fa.attention on its arguments and nothing else.
bool isInstance(mlir::func::FuncOp func, AttentionOp a) {
  mlir::Block &body = func.getBody().front();
  SmallVector<mlir::Value> operands{a.getQ(), a.getK(), a.getV()};
  append_range(operands, a.getPacking());
  append_range(operands, a.getCaptures());
  return llvm::hasNItems(body, 2) && &body.front() == a.getOperation() &&
         equal(operands, body.getArguments()) &&
         equal(a->getResults(), body.getTerminator()->getOperands());
}

} // namespace

Result<std::shared_ptr<VariantSource>>
VariantSource::parse(const std::string &text, const std::string &file,
                     const std::string &name) {
  PartTimer timer("text to IR");
  mlir::DialectRegistry registry;
  registerFA(registry);
  auto source = std::make_shared<VariantSource>();
  source->ctx = std::make_unique<mlir::MLIRContext>(
      registry, mlir::MLIRContext::Threading::DISABLED);
  source->ctx->loadAllAvailableDialects();
  source->ctx->printOpOnDiagnostic(false);
  Messages messages(*source->ctx);
  SourceMgr buffers;
  buffers.AddNewSourceBuffer(MemoryBuffer::getMemBuffer(text, file), SMLoc());
  source->moduleRef =
      mlir::parseSourceFile<mlir::ModuleOp>(buffers, source->ctx.get());
  if (!source->moduleRef)
    return Status(ErrorCode::invalid_argument,
                  messages.text.empty()
                      ? fmt::format("{}: not an MLIR file", file)
                      : messages.text);
  std::vector<std::string> names;
  std::string chosen;
  for (mlir::Operation &op : *source->module().getBody()) {
    VariantInterface v = dyn_cast<VariantOp>(op);
    auto func = dyn_cast<mlir::func::FuncOp>(op);
    if (func)
      func.walk([&](AttentionOp a) { v = a; });
    if (!v)
      continue;
    std::string symbol = mlir::SymbolTable::getSymbolName(&op).str();
    names.push_back(symbol);
    if (!name.empty() && symbol != name)
      continue;
    chosen = symbol;
    source->variant = v;
    source->instanceOptions.reset();
    if (func) {
      auto a = cast<AttentionOp>(v.getOperation());
      if (!isInstance(func, a))
        return Status(ErrorCode::invalid_argument,
                      fmt::format("{}: expected @{} to hand its arguments to "
                                  "one fa.attention, in "
                                  "order, and to return its results",
                                  file, symbol));
      auto dtype = dtypeOf(
          cast<mlir::RankedTensorType>(a.getQ().getType()).getElementType());
      if (!dtype)
        return dtype.status();
      source->instanceOptions =
          InstanceOptions{*dtype, a.getHeadDimQK(), a.getHeadDimV(),
                          int64_t(a.getGroup()), a.getLayout()};
    }
  }
  if (names.empty())
    return Status(
        ErrorCode::invalid_argument,
        fmt::format("{}: expected a fa.variant, got a file without one", file));
  if (name.empty() && names.size() > 1)
    return Status(ErrorCode::invalid_argument,
                  fmt::format("{}: expected one fa.variant, got {} (@{}); "
                              "choose one by its name (fa-run: --variant)",
                              file, names.size(), fmt::join(names, ", @")));
  if (!source->variant)
    return Status(ErrorCode::invalid_argument,
                  fmt::format("{}: expected a fa.variant @{}, got @{}", file,
                              name, fmt::join(names, ", @")));
  auto info = describe(source->variant, chosen);
  if (!info)
    return info.status();
  source->variantInfo = std::move(*info);
  source->hash = hashOf(chosen + "\n" + text);
  return source;
}

Result<std::shared_ptr<VariantSource>>
VariantSource::load(const std::string &path, const std::string &name) {
  auto buffer = MemoryBuffer::getFile(path);
  if (!buffer)
    return Status(
        ErrorCode::io_error,
        fmt::format("cannot read '{}': {}", path, buffer.getError().message()));
  return parse((*buffer)->getBuffer().str(), path, name);
}

/// The signature of a function after the nest stage.
static Result<EntryPoint> entryPoint(mlir::ModuleOp module,
                                     const std::string &name) {
  EntryPoint entry;
  auto func = module.lookupSymbol<mlir::func::FuncOp>(name);
  if (!func)
    return entry;
  for (mlir::Type t : func.getArgumentTypes()) {
    auto buffer = dyn_cast<mlir::MemRefType>(t);
    auto dtype = dtypeOf(buffer ? buffer.getElementType() : t);
    if (!dtype)
      return dtype.status();
    entry.arguments.push_back({*dtype, buffer ? buffer.getRank() : -1});
  }
  entry.results = func.getNumResults();
  return entry;
}

/// Runs the passes of `options` on a copy of the source.
static Result<mlir::OwningOpRef<mlir::ModuleOp>>
runPasses(VariantSource &source, const PipelineOptions &options) {
  PartTimer timer("passes");
  Messages messages(source.context());
  mlir::OwningOpRef<mlir::ModuleOp> module = source.module().clone();
  // The others of the file are none of this kernel's business.
  for (mlir::Operation &op : make_early_inc_range(*module->getBody()))
    if (mlir::SymbolTable::getSymbolName(&op) != source.info().name)
      op.erase();
  mlir::PassManager pm(&source.context());
  std::string errors;
  raw_string_ostream os(errors);
  if (failed(buildPipeline(pm, options, os))) {
    StringRef words = errors;
    words.consume_front("error: ");
    return Status(ErrorCode::invalid_argument, words.rtrim().str());
  }
  if (failed(pm.run(*module)))
    return Status(ErrorCode::compile_error, messages.text);
  return module;
}

/// What code is made for, and what that goes by in a cache's key.
struct BackEnd {
  bool gpu = false;
  cuda::Target target;
  std::string name, compiler;

  static Result<BackEnd> of(const std::string &name) {
    BackEnd b;
    if (name == "cpu") {
      b.name = cpu::CpuTarget().describe();
      return b;
    }
    std::string error;
    if (!cuda::Target::parse(name, b.target, error))
      return Status(ErrorCode::invalid_argument, error);
    b.gpu = true;
    b.name = name;
    if (const cuda::NvrtcInfo *known = knownNvrtc())
      b.compiler = known->identity;
    return b;
  }

  /// What it takes to compile, and not to find what is compiled.
  Status open() {
    if (!gpu)
      return {};
    auto nvrtc = openNvrtc();
    if (!nvrtc)
      return nvrtc.status();
    compiler = (*nvrtc)->identity;
    return {};
  }

  /// The key's fields, if all are known.
  std::optional<CacheKey> key() const {
    const std::optional<std::string> &build = compilerBuildId();
    if (!build || (gpu && compiler.empty()))
      return std::nullopt;
    CacheKey k;
    k.add("build", *build).add("target", name);
    if (gpu)
      k.add("device_header", hashOf(cuda::deviceHeader().str()))
          .add("nvrtc", compiler);
    return k;
  }
};

/// The kernels and plans of a module that has been through the passes.
static Result<cuda::Program> emit(mlir::ModuleOp module,
                                  const cuda::Target &target) {
  PartTimer timer("CUDA printed");
  Messages messages(*module.getContext());
  auto program = cuda::emitProgram(module);
  if (!program)
    return Status(ErrorCode::compile_error,
                  toString(program.takeError()) + messages.text);
  program->target = target.name;
  return std::move(*program);
}

static Result<KernelCache::Compiled>
generateForGpu(std::shared_ptr<Executable> e, cuda::Program program) {
  PartTimer timer("NVRTC");
  if (Error error = cuda::compile(program))
    return Status(ErrorCode::compile_error, toString(std::move(error)));
  DiskCache::Entry entry;
  entry.object = cuda::toText(program);
  if (Status s = link(*e, std::move(program)); !s)
    return s;
  entry.meta = toMeta(*e);
  return KernelCache::Compiled{std::move(e), std::move(entry)};
}

static Result<KernelCache::Compiled>
generateForCpu(std::shared_ptr<Executable> e, mlir::ModuleOp module) {
  for (auto &[point, symbol] : entriesOf(*e)) {
    auto found = entryPoint(module, symbol);
    if (!found)
      return found.status();
    *point = *found;
  }
  module->walk([&](NestOp nest) {
    e->nests.push_back(nest.getLabel().value_or("nest").str());
  });
  DiskCache::Entry entry;
  entry.meta = toMeta(*e);
  Messages messages(*module.getContext());
  auto code = cpu::CpuExecutable::compile(module);
  if (!code)
    return Status(ErrorCode::compile_error,
                  toString(code.takeError()) + messages.text);
  entry.object = (*code)->object().str();
  if (Status s = link(*e, std::move(*code)); !s)
    return s;
  return KernelCache::Compiled{std::move(e), std::move(entry)};
}

static ScheduleAttr scheduleOf(mlir::ModuleOp module) {
  ScheduleAttr schedule;
  module.walk([&](mlir::func::FuncOp f) {
    if (!schedule)
      schedule = f->getAttrOfType<ScheduleAttr>(kScheduleAttr);
  });
  return schedule;
}

/// Makes `o` need less memory on chip than `schedule` did: nothing is copied
/// ahead, then tiles are smaller, if they are the compiler's choice and no one
/// else counts on them. False: nothing is left to try.
static bool shrink(PipelineOptions &o, const PipelineOptions &given,
                   ScheduleAttr schedule) {
  if (schedule && schedule.getStages() > 1) {
    o.stages = 1;
    return true;
  }
  if (given.blockM || given.blockN || !schedule ||
      schedule.getP() != PPolicy::recompute ||
      (o.blockM && o.blockM != schedule.getBlockM()) || // the text's stands
      std::max(schedule.getBlockM(), schedule.getBlockN()) <= 16)
    return false;
  o.blockM = schedule.getBlockM();
  o.blockN = schedule.getBlockN();
  (o.blockN >= o.blockM ? o.blockN : o.blockM) /= 2;
  return true;
}

static Result<KernelCache::Compiled>
compileAnew(VariantSource &source, const InstanceOptions &instance,
            const PipelineOptions &given, const BackEnd &back,
            const std::string &what) {
  auto e = std::make_shared<Executable>();
  e->name = source.info().name;
  e->what = what;
  e->gradients = instance.gradients;
  e->lseGradient = instance.lseGradient;
  for (auto [i, capture] : enumerate(source.info().captures))
    if (isFloat(capture.dtype))
      e->gradCaptures.push_back(i);
  std::unique_lock lock(source.mutex);
  for (PipelineOptions options = given;;) {
    auto module = runPasses(source, options);
    if (!module)
      return module.status();
    ScheduleAttr schedule = scheduleOf(**module);
    e->compressedP = schedule && schedule.getP() == PPolicy::store_compressed;
    if (!back.gpu)
      return generateForCpu(std::move(e), **module);
    auto program = emit(**module, back.target);
    if (!program)
      return program.status();
    bool fit = all_of(program->kernels, [&](const cuda::Kernel &k) {
      return cuda::checkFits(k, back.target).empty();
    });
    if (!fit && shrink(options, given, schedule))
      continue;
    // NVRTC takes its time, and other pieces may want the passes.
    *module = nullptr;
    lock.unlock();
    return generateForGpu(std::move(e), std::move(*program));
  }
}

/// What `anew` makes, or what is kept of it under `key`; nothing is kept without
/// one.
static Result<std::shared_ptr<const Executable>>
cached(const std::optional<CacheKey> &key,
       const std::function<Result<KernelCache::Compiled>()> &anew) {
  if (key)
    return KernelCache::global().get(key->digest(), anew, fromEntry);
  auto made = anew();
  if (!made)
    return made.status();
  return made->executable;
}

static void registerPasses() {
  static const bool once = [] {
    registerFAPasses();
    return true;
  }();
  (void)once;
}

/// The caller's choices, before the compiler sees them.
static Status checkSchedule(const CompileOptions &o) {
  auto invalid = [](std::string text) {
    return Status(ErrorCode::invalid_argument, std::move(text));
  };
  for (auto [name, block] :
       {std::pair("block_m", o.blockM), {"block_n", o.blockN}})
    if (block && (block < 8 || block > 512 || block % 8))
      return invalid(fmt::format(
          "{}: expected a multiple of 8 from 8 to 512, got {}", name, block));
  if (!o.pPolicy.empty() && !symbolizePPolicy(o.pPolicy))
    return invalid(fmt::format(
        "p policy: expected recompute, store or store_compressed, got '{}'",
        o.pPolicy));
  if (o.dqSplits < 1 || o.dqSplits > 64)
    return invalid(
        fmt::format("dq splits: expected 1 to 64, got {}", o.dqSplits));
  if (o.kvSplits < 0 || o.kvSplits > 64)
    return invalid(
        fmt::format("kv splits: expected 1 to 64, or 0 to leave the choice, "
                    "got {}",
                    o.kvSplits));
  if (o.groupSplits < 0 || o.groupSplits > 64)
    return invalid(
        fmt::format("group splits: expected 1 to 64, or 0 to leave the choice, "
                    "got {}",
                    o.groupSplits));
  if (o.seqlenQHint < 0)
    return invalid(
        fmt::format("query rows: expected at least 1, or 0 if they are not "
                    "known, got {}",
                    o.seqlenQHint));
  auto dq = symbolizeDQPolicy(o.dqPolicy);
  if (!o.dqPolicy.empty() && !dq)
    return invalid(
        fmt::format("dq policy: expected sequential, atomic, ordered, split or "
                    "two_kernel, got '{}'",
                    o.dqPolicy));
  if (o.deterministic && dq == DQPolicy::atomic)
    return invalid(
        "dq policy: expected sequential, ordered, split or two_kernel in a "
        "deterministic schedule, got atomic");
  return {};
}

void chooseForSizes(CompileOptions &o, const Operands &x) {
  bool packed = x.cuSeqlensQ.defined();
  int64_t rows = packed ? x.maxSeqlenQ : x.q.shape[2];
  if (!o.seqlenQHint)
    o.seqlenQHint = rows;
  int64_t batch = packed ? x.cuSeqlensQ.shape[0] - 1 : x.q.shape[0],
          keys = packed ? x.maxSeqlenK : x.k.shape[2],
          kvHeads = std::max<int64_t>(x.k.shape[1], 1),
          group = std::max<int64_t>(x.q.shape[1] / kvHeads, 1);
  if (!o.groupSplits) {
    o.groupSplits = 1;
    // A part changes how sums round, as below. Parts are of whole heads.
    int64_t blocks = batch * kvHeads * divideCeil(keys, 128);
    if (o.instance.gradients && !o.deterministic && blocks > 0)
      while (o.groupSplits * 2 <= group && group % (o.groupSplits * 2) == 0 &&
             o.groupSplits * blocks < 1024)
        o.groupSplits *= 2;
  }
  if (o.kvSplits)
    return;
  o.kvSplits = 1;
  // With few rows, and gradients not asked for: decoding. The number of parts
  // changes how sums round, so a deterministic schedule does not let it depend
  // on the batch.
  if (o.instance.gradients || o.deterministic || rows < 1 || rows > 32)
    return;
  int64_t blockM = o.blockM     ? o.blockM
                   : rows <= 16 ? 16
                                : 32,
          blockN = o.blockN ? o.blockN : 64;
  // As fa-select-schedule does, which packs heads where rows are fewer.
  int64_t items = rows < group
                      ? batch * kvHeads * rows * divideCeil(group, 64)
                      : batch * x.q.shape[1] * divideCeil(rows, blockM);
  // Four small items for each of the processors of a large GPU, and at least
  // 128 keys for each part.
  int64_t parts = std::min<int64_t>(528 / std::max<int64_t>(items, 1),
                                    divideCeil(keys, 2 * blockN));
  o.kvSplits = llvm::bit_floor(uint64_t(std::clamp<int64_t>(parts, 1, 64)));
}

Result<std::shared_ptr<const Executable>>
compile(VariantSource &source, const CompileOptions &options) {
  if (Status valid = checkSchedule(options); !valid)
    return valid;
  registerPasses();
  const InstanceOptions &instance = options.instance;
  if (auto is = source.instance())
    for (auto [what, want, got] :
         {std::tuple{"dtype", std::string(name(is->dtype)),
                     std::string(name(instance.dtype))},
          {"head dim of q", std::to_string(is->headDim),
           std::to_string(instance.headDim)},
          {"head dim of v", std::to_string(is->headDimV),
           std::to_string(instance.headDimV)},
          {"query heads per KV head", std::to_string(is->group),
           std::to_string(instance.group)},
          {"layout", stringifyLayout(is->layout).str(),
           stringifyLayout(instance.layout).str()}})
      if (want != got)
        return Status(ErrorCode::invalid_argument,
                      fmt::format("@{} is an instance: expected {} {}, got {}",
                                  source.info().name, what, want, got));
  auto back = BackEnd::of(options.target);
  if (!back)
    return back.status();
  PipelineOptions p;
  p.variant = source.instance() ? "" : source.info().name;
  p.dtype = name(instance.dtype);
  p.headDimQK = instance.headDim;
  p.headDimV = instance.headDimV;
  p.group = instance.group;
  p.layout = stringifyLayout(instance.layout).str();
  p.backward = instance.gradients;
  p.lseGrad = instance.lseGradient;
  p.blockM = options.blockM;
  p.blockN = options.blockN;
  p.numWarps = options.numWarps;
  p.stages = options.stages;
  p.pPolicy = options.pPolicy;
  p.dqPolicy = options.dqPolicy;
  p.dqSplits = options.dqSplits;
  p.kvSplits = std::max<int64_t>(options.kvSplits, 1);
  // The schedule tells no more apart than these.
  int64_t rows = options.seqlenQHint;
  p.seqlenQHint = !back->gpu || rows > 32 || !rows ? 0
                  : rows < instance.group          ? 1
                  : rows <= 16                     ? 16
                                                   : 32;
  p.packHeads = options.packHeads;
  p.groupSplits = std::max<int64_t>(options.groupSplits, 1);
  p.deterministic = options.deterministic;
  p.countTiles = options.countTiles;
  p.skip = options.skipPasses;
  p.stopAfter = options.stopAfter;
  p.insertAfter = options.insertAfter;
  p.map = back->gpu;
  p.runnable = true;
  if (back->gpu) {
    p.target = options.target;
    p.sharedBytes = back->target.limits.sharedPerCta;
    p.aligned = options.aligned;
    p.part = options.piece == Piece::backward ? "backward" : "forward";
  }

  std::string what = fmt::format(
      "@{} {} {} head dims {}/{} group {} {}{}", source.info().name, p.dtype,
      p.layout, p.headDimQK, p.headDimV, p.group, options.target,
      instance.gradients ? "" : " without gradients");
  if (back->gpu)
    what += fmt::format(
        " {} {}", options.piece == Piece::backward ? "backward" : "forward",
        options.aligned ? "aligned" : "unaligned");
  // What is compiled, beside the variant.
  auto keyOf = [&](const std::string &field, const std::string &value) {
    std::optional<CacheKey> key = back->key();
    if (!p.insertAfter.empty()) // passes put in by tests are not in the key
      key.reset();
    if (key)
      key->add(field, value)
          .add("block_m", std::to_string(p.blockM))
          .add("block_n", std::to_string(p.blockN))
          .add("num_warps", std::to_string(p.numWarps))
          .add("stages", std::to_string(p.stages))
          .add("p_policy", p.pPolicy)
          .add("dq_policy", p.dqPolicy)
          .add("dq_splits", std::to_string(p.dqSplits))
          .add("kv_splits", std::to_string(p.kvSplits))
          .add("seqlen_q_hint", std::to_string(p.seqlenQHint))
          .add("pack_heads", std::to_string(p.packHeads))
          .add("group_splits", std::to_string(p.groupSplits))
          .add("deterministic", std::to_string(p.deterministic))
          .add("count_tiles", std::to_string(p.countTiles))
          .add("skip", fmt::format("{}", fmt::join(p.skip, ",")))
          .add("stop_after", p.stopAfter)
          .add("gradients", std::to_string(instance.gradients))
          .add("lse_gradient", std::to_string(instance.lseGradient))
          .add("piece", std::to_string(int(options.piece)))
          .add("aligned", std::to_string(options.aligned));
    return key;
  };
  // The text with the instance's options stands for the key that it led to
  // before: no pass has to run, NVRTC stays closed.
  auto alias = [&]() -> std::string {
    auto key = keyOf("text", source.digest());
    if (!key)
      return "";
    return key->add("dtype", p.dtype)
        .add("head_dim_qk", std::to_string(p.headDimQK))
        .add("head_dim_v", std::to_string(p.headDimV))
        .add("group", std::to_string(p.group))
        .add("layout", p.layout)
        .digest();
  };
  KernelCache &cache = KernelCache::global();
  {
    std::string known;
    {
      PartTimer timer("text to key");
      known = alias();
    }
    if (!known.empty())
      if (auto e = cache.find(known, fromEntry))
        return e;
  }
  if (Status s = back->open(); !s)
    return s;
  std::optional<CacheKey> key = keyOf("ir", "");
  if (key) {
    // The instance as the variant stage leaves it: two texts that say the same
    // have one key. Names of values and locations are not in it.
    PipelineOptions early = p;
    early.stopAfter = "variant";
    early.runnable = early.map = false;
    std::string text;
    {
      std::lock_guard lock(source.mutex);
      auto normal = runPasses(source, early);
      if (!normal)
        return normal.status();
      raw_string_ostream(text) << ***normal;
    }
    key->add("ir", text);
  }
  auto made = cached(
      key, [&] { return compileAnew(source, instance, p, *back, what); });
  if (key && made)
    cache.setAlias(alias(), key->digest());
  return made;
}

Result<std::shared_ptr<const Executable>>
compileNest(const std::string &text, const std::string &name,
            const std::string &what, const std::string &target) {
  registerPasses();
  auto back = BackEnd::of(target);
  if (!back)
    return back.status();
  if (Status s = back->open(); !s)
    return s;
  std::optional<CacheKey> key = back->key();
  if (key)
    key->add("nest", text).add("name", name);
  return cached(key, [&]() -> Result<KernelCache::Compiled> {
    mlir::DialectRegistry registry;
    registerFA(registry);
    mlir::MLIRContext ctx(registry, mlir::MLIRContext::Threading::DISABLED);
    ctx.loadAllAvailableDialects();
    std::string said;
    mlir::OwningOpRef<mlir::ModuleOp> module;
    {
      Messages messages(ctx);
      module = mlir::parseSourceString<mlir::ModuleOp>(text, &ctx);
      mlir::PassManager pm(&ctx);
      PipelineOptions p;
      p.startAfter = "nest";
      p.map = back->gpu;
      p.target = target;
      raw_string_ostream os(said);
      if (!module || failed(buildPipeline(pm, p, os)) ||
          failed(pm.run(*module)))
        return Status(ErrorCode::internal,
                      fmt::format("@{}: {}{}", name, said, messages.text));
    }
    auto e = std::make_shared<Executable>();
    e->name = name;
    e->what = what;
    if (!back->gpu)
      return generateForCpu(std::move(e), *module);
    auto program = emit(*module, back->target);
    if (!program)
      return program.status();
    return generateForGpu(std::move(e), std::move(*program));
  });
}

Result<std::shared_ptr<const Instance>>
instantiate(std::shared_ptr<VariantSource> source, CompileOptions options,
            Device device) {
  auto target = targetOf(device);
  if (!target)
    return target.status();
  options.target = *target;
  bool aligned = options.aligned;
  bool backward = !device.isHost() && options.instance.gradients;
  auto instance = std::make_shared<const Instance>(
      device, [source = std::move(source),
               options = std::move(options)](Piece piece, bool aligned) {
        CompileOptions o = options;
        o.piece = piece;
        o.aligned = aligned;
        return compile(*source, o);
      });
  // Backward at the same time; of errors the forward's come first.
  std::future<Status> other;
  if (backward)
    other = std::async(std::launch::async, [&] {
      return instance->get(Piece::backward, aligned).status();
    });
  Status made = instance->get(Piece::forward, aligned).status();
  Status madeOther = other.valid() ? other.get() : Status();
  if (!made || !madeOther)
    return made ? madeOther : made;
  return instance;
}

Result<Bundle> makeBundle(VariantSource &source, CompileOptions options,
                          const std::vector<std::string> &targets) {
  Bundle bundle{source.info(), options.instance, {}};
  if (targets.empty())
    return Status(ErrorCode::invalid_argument,
                  "target: expected at least one target, e.g. sm_90, got none");
  for (const std::string &target : targets) {
    options.target = target;
    if (target == "cpu")
      return Status(ErrorCode::unsupported,
                    "target: expected a GPU's, e.g. sm_90 or compute_80, got "
                    "cpu, which compiles when it is used");
    for (Piece piece : {Piece::forward, Piece::backward})
      for (bool aligned : {true, false}) {
        if ((piece == Piece::backward && !options.instance.gradients) ||
            (aligned && !rowsAreAligned(options.instance)))
          continue;
        options.piece = piece;
        options.aligned = aligned;
        auto e = compile(source, options);
        if (!e)
          return e.status();
        bundle.items.push_back({target,
                                piece,
                                aligned,
                                {cuda::toText(*(*e)->program), toMeta(**e)}});
      }
  }
  return bundle;
}

} // namespace fathom
