//===- Compiler.cpp - from a variant's text to something that runs ----------===//

#include "runtime/Compiler.h"

#include "passes/Passes.h"
#include "passes/Pipeline.h"
#include "runtime/Devices.h"
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

/// The entry points and the symbols they are compiled from.
static std::vector<std::pair<EntryPoint *, std::string>>
entriesOf(Executable &e, const std::string &name) {
  return {{&e.joint, name},
          {&e.fwd, name + ".fwd"},
          {&e.bwd, name + ".bwd"},
          {&e.saved, name + ".saved"}};
}

/// Finds the functions in `code`, which the executable then owns.
static Status link(Executable &e, const std::string &name,
                   std::unique_ptr<cpu::CpuExecutable> code) {
  for (auto &[entry, symbol] : entriesOf(e, name)) {
    if (entry->arguments.empty())
      continue;
    cpu::EntryFunction function = code->lookup(symbol);
    if (!function)
      return {ErrorCode::internal,
              fmt::format("the compiled code has no function '{}'", symbol)};
    entry->function = [function](void **args, const CallContext &) {
      function(args);
      return Status();
    };
  }
  if (!e.gradients && e.joint.exists())
    std::swap(e.joint,
              e.fwd); // nothing to cut: the whole function is the forward
  e.code = std::move(code);
  return {};
}

/// What is kept of an executable beside its object code.
static std::string toMeta(Executable &e, const std::string &name,
                          const std::string &what) {
  json::Object functions;
  for (auto &[entry, symbol] : entriesOf(e, name)) {
    json::Array arguments;
    for (ArgumentType a : entry->arguments)
      arguments.push_back(json::Array{int64_t(a.dtype), a.rank});
    functions[symbol] = json::Object{{"arguments", std::move(arguments)},
                                     {"results", entry->results}};
  }
  json::Object meta{{"name", name},
                    {"what", what},
                    {"gradients", e.gradients},
                    {"lseGradient", e.lseGradient},
                    {"compressedP", e.compressedP},
                    {"gradCaptures", json::Array(e.gradCaptures)},
                    {"nests", json::Array(e.nests)},
                    {"functions", std::move(functions)}};
  return formatv("{0}", json::Value(std::move(meta))).str();
}

std::string describeEntry(const std::string &meta) {
  auto value = json::parse(meta);
  if (!value) {
    consumeError(value.takeError());
    return "";
  }
  json::Object *o = value->getAsObject();
  return o ? o->getString("what").value_or("").str() : "";
}

/// Null if `entry` is not what toMeta() and the code generator made.
static std::shared_ptr<const Executable>
fromEntry(const DiskCache::Entry &entry) {
  auto value = json::parse(entry.meta);
  if (!value) {
    consumeError(value.takeError());
    return nullptr;
  }
  json::Object *meta = value->getAsObject();
  json::Object *functions = meta ? meta->getObject("functions") : nullptr;
  if (!functions || !meta->getString("name") ||
      !meta->getArray("gradCaptures") || !meta->getArray("nests"))
    return nullptr;
  auto e = std::make_shared<Executable>();
  std::string name = meta->getString("name")->str();
  e->gradients = meta->getBoolean("gradients").value_or(false);
  e->lseGradient = meta->getBoolean("lseGradient").value_or(false);
  e->compressedP = meta->getBoolean("compressedP").value_or(false);
  for (const json::Value &v : *meta->getArray("gradCaptures"))
    e->gradCaptures.push_back(v.getAsInteger().value_or(0));
  for (const json::Value &v : *meta->getArray("nests"))
    e->nests.push_back(v.getAsString().value_or("").str());
  for (auto &[point, symbol] : entriesOf(*e, name)) {
    json::Object *f = functions->getObject(symbol);
    if (!f || !f->getArray("arguments"))
      return nullptr;
    point->results = f->getInteger("results").value_or(0);
    for (const json::Value &v : *f->getArray("arguments")) {
      const json::Array *pair = v.getAsArray();
      if (!pair || pair->size() != 2)
        return nullptr;
      point->arguments.push_back({DType((*pair)[0].getAsInteger().value_or(0)),
                                  (*pair)[1].getAsInteger().value_or(0)});
    }
  }
  auto code =
      cpu::CpuExecutable::load(MemoryBuffer::getMemBufferCopy(entry.object));
  if (!code) {
    consumeError(code.takeError());
    return nullptr;
  }
  return link(*e, name, std::move(*code)) ? e : nullptr;
}

/// Runs the passes of `options` on a copy of the source.
static Result<mlir::OwningOpRef<mlir::ModuleOp>>
runPasses(VariantSource &source, const PipelineOptions &options) {
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

static Result<KernelCache::Compiled>
compileAnew(VariantSource &source, const InstanceOptions &instance,
            const PipelineOptions &options, const std::string &what) {
  auto passed = runPasses(source, options);
  if (!passed)
    return passed.status();
  mlir::ModuleOp module = **passed;
  const std::string &name = source.info().name;
  auto e = std::make_shared<Executable>();
  e->gradients = instance.gradients;
  e->lseGradient = instance.lseGradient;
  for (auto [i, capture] : enumerate(source.info().captures))
    if (isFloat(capture.dtype))
      e->gradCaptures.push_back(i);
  for (auto &[entry, symbol] : entriesOf(*e, name)) {
    auto found = entryPoint(module, symbol);
    if (!found)
      return found.status();
    *entry = *found;
  }
  module.walk([&](mlir::func::FuncOp f) {
    if (auto schedule = f->getAttrOfType<ScheduleAttr>(kScheduleAttr))
      e->compressedP |= schedule.getP() == PPolicy::store_compressed;
  });
  module->walk([&](NestOp nest) {
    e->nests.push_back(nest.getLabel().value_or("nest").str());
  });
  DiskCache::Entry entry;
  entry.meta = toMeta(*e, name, what);
  Messages messages(source.context());
  auto code = cpu::CpuExecutable::compile(module);
  if (!code)
    return Status(ErrorCode::compile_error,
                  toString(code.takeError()) + messages.text);
  entry.object = (*code)->object().str();
  if (Status s = link(*e, name, std::move(*code)); !s)
    return s;
  return KernelCache::Compiled{e, std::move(entry)};
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

Result<std::shared_ptr<const Executable>>
compile(VariantSource &source, const CompileOptions &options) {
  if (Status valid = checkSchedule(options); !valid)
    return valid;
  static const bool once = [] {
    registerFAPasses();
    return true;
  }();
  (void)once;
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
  if (options.target != "cpu")
    return Status(ErrorCode::unsupported,
                  fmt::format("target: this build of Fathom compiles for cpu "
                              "only, got '{}'",
                              options.target));
  std::lock_guard lock(source.mutex);
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
  p.pPolicy = options.pPolicy;
  p.dqPolicy = options.dqPolicy;
  p.dqSplits = options.dqSplits;
  p.deterministic = options.deterministic;
  p.countTiles = options.countTiles;
  p.skip = options.skipPasses;
  p.stopAfter = options.stopAfter;
  p.insertAfter = options.insertAfter;
  p.map = false;
  p.runnable = true;

  std::string what = fmt::format(
      "@{} {} {} head dims {}/{} group {} {}{}", source.info().name, p.dtype,
      p.layout, p.headDimQK, p.headDimV, p.group, options.target,
      instance.gradients ? "" : " without gradients");
  auto anew = [&] { return compileAnew(source, instance, p, what); };
  const std::optional<std::string> &build = compilerBuildId();
  // What is not in the key is not kept: an unknown build, passes put in by tests.
  if (!build || !p.insertAfter.empty()) {
    auto made = anew();
    if (!made)
      return made.status();
    return made->executable;
  }
  // The instance as the variant stage leaves it: two texts that say the same
  // have one key. Names of values and locations are not in it.
  PipelineOptions early = p;
  early.stopAfter = "variant";
  early.runnable = false;
  auto normal = runPasses(source, early);
  if (!normal)
    return normal.status();
  std::string text;
  raw_string_ostream(text) << ***normal;
  CacheKey key;
  key.add("ir", text)
      .add("build", *build)
      .add("target", cpu::CpuTarget().describe())
      .add("block_m", std::to_string(p.blockM))
      .add("block_n", std::to_string(p.blockN))
      .add("p_policy", p.pPolicy)
      .add("dq_policy", p.dqPolicy)
      .add("dq_splits", std::to_string(p.dqSplits))
      .add("deterministic", std::to_string(p.deterministic))
      .add("count_tiles", std::to_string(p.countTiles))
      .add("skip", fmt::format("{}", fmt::join(p.skip, ",")))
      .add("stop_after", p.stopAfter)
      .add("gradients", std::to_string(instance.gradients))
      .add("lse_gradient", std::to_string(instance.lseGradient));
  return KernelCache::global().get(key.digest(), anew, fromEntry);
}

Result<std::shared_ptr<const Instance>>
instantiate(std::shared_ptr<VariantSource> source, CompileOptions options,
            Device device) {
  auto target = targetOf(device);
  if (!target)
    return target.status();
  options.target = *target;
  bool aligned = options.aligned, gradients = options.instance.gradients;
  auto instance = std::make_shared<const Instance>(
      device, [source = std::move(source),
               options = std::move(options)](Piece part, bool aligned) mutable {
        CompileOptions o = options;
        o.part = part;
        o.aligned = aligned;
        return compile(*source, o);
      });
  for (Piece part : {Piece::forward, Piece::backward})
    if (part == Piece::forward || gradients)
      if (auto made = instance->get(part, aligned); !made)
        return made.status();
  return instance;
}

} // namespace fathom
