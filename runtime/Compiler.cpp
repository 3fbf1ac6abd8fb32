//===- Compiler.cpp - from a variant's text to something that runs ----------===//

#include "runtime/Compiler.h"

#include "passes/Passes.h"
#include "passes/Pipeline.h"
#include "runtime/cpu/CpuExecutable.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
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
          if (auto loc = d.getLocation()->findInstanceOf<mlir::FileLineColLoc>())
            os << loc.getFilename().getValue() << ":" << loc.getLine() << ":" << loc.getColumn()
               << ": ";
          os << d;
          for (mlir::Diagnostic &note : d.getNotes())
            os << "\n  note: " << note;
          return mlir::success();
        }) {}

  std::string text;

private:
  mlir::ScopedDiagnosticHandler handler;
};

} // namespace

Result<std::shared_ptr<VariantSource>> VariantSource::parse(const std::string &text,
                                                            const std::string &file,
                                                            const std::string &name) {
  mlir::DialectRegistry registry;
  registerFA(registry);
  auto source = std::make_shared<VariantSource>();
  source->ctx =
      std::make_unique<mlir::MLIRContext>(registry, mlir::MLIRContext::Threading::DISABLED);
  source->ctx->loadAllAvailableDialects();
  Messages messages(*source->ctx);
  SourceMgr buffers;
  buffers.AddNewSourceBuffer(MemoryBuffer::getMemBuffer(text, file), SMLoc());
  source->moduleRef = mlir::parseSourceFile<mlir::ModuleOp>(buffers, source->ctx.get());
  if (!source->moduleRef)
    return Status(ErrorCode::invalid_argument, messages.text.empty()
                                                   ? fmt::format("{}: not an MLIR file", file)
                                                   : messages.text);
  std::vector<std::string> names;
  for (VariantOp v : source->module().getOps<VariantOp>()) {
    names.push_back(v.getSymName().str());
    if (name.empty() || v.getSymName() == name)
      source->variant = v;
  }
  if (names.empty())
    return Status(ErrorCode::invalid_argument,
                  fmt::format("{}: expected a fa.variant, got a file without one", file));
  if (name.empty() && names.size() > 1)
    return Status(ErrorCode::invalid_argument,
                  fmt::format("{}: expected one fa.variant, got {} (@{}); choose one by name", file,
                              names.size(), fmt::join(names, ", @")));
  if (!source->variant)
    return Status(ErrorCode::invalid_argument,
                  fmt::format("{}: expected a fa.variant @{}, got @{}", file, name,
                              fmt::join(names, ", @")));
  auto info = describe(source->variant, source->variant.getSymName().str());
  if (!info)
    return info.status();
  source->variantInfo = std::move(*info);
  return source;
}

Result<std::shared_ptr<VariantSource>> VariantSource::load(const std::string &path,
                                                           const std::string &name) {
  auto buffer = MemoryBuffer::getFile(path);
  if (!buffer)
    return Status(ErrorCode::io_error,
                  fmt::format("cannot read '{}': {}", path, buffer.getError().message()));
  return parse((*buffer)->getBuffer().str(), path, name);
}

static Result<DType> dtypeOf(mlir::Type t) {
  if (t.isIndex())
    return DType::i64;
  std::string text;
  raw_string_ostream(text) << t;
  if (auto d = parseDType(text))
    return *d;
  return Status(ErrorCode::internal, fmt::format("no array type for {}", text));
}

/// The signature of a function after the nest stage.
static Result<EntryPoint> entryPoint(mlir::ModuleOp module, const std::string &name) {
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

Result<std::shared_ptr<const Executable>> compile(VariantSource &source,
                                                  const CompileOptions &options) {
  static const bool once = [] {
    registerFAPasses();
    return true;
  }();
  (void)once;
  const InstanceOptions &instance = options.instance;
  PipelineOptions p;
  p.variant = source.info().name;
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
  p.deterministic = options.deterministic;
  p.countTiles = options.countTiles;
  p.skip = options.skipPasses;
  p.stopAfter = options.stopAfter;
  p.insertAfter = options.insertAfter;
  p.map = false;
  p.runnable = true;

  Messages messages(source.context());
  mlir::OwningOpRef<mlir::ModuleOp> module = source.module().clone();
  mlir::PassManager pm(&source.context());
  std::string errors;
  raw_string_ostream os(errors);
  if (failed(buildPipeline(pm, p, os)))
    return Status(ErrorCode::invalid_argument, errors);
  if (failed(pm.run(*module)))
    return Status(ErrorCode::compile_error, messages.text);

  auto executable = std::make_shared<Executable>();
  executable->gradients = instance.gradients;
  executable->lseGradient = instance.lseGradient;
  for (auto [i, capture] : llvm::enumerate(source.info().captures))
    if (isFloat(capture.dtype))
      executable->gradCaptures.push_back(i);
  const std::string &base = source.info().name;
  std::pair<EntryPoint *, std::string> entries[] = {
      {&executable->joint, base},
      {&executable->fwd, base + ".fwd"},
      {&executable->bwd, base + ".bwd"},
      {&executable->saved, base + ".saved"}};
  for (auto &[entry, symbol] : entries) {
    auto e = entryPoint(*module, symbol);
    if (!e)
      return e.status();
    *entry = *e;
  }
  module->walk([&](NestOp nest) {
    executable->nests.push_back(nest.getLabel().value_or("nest").str());
  });
  auto code = cpu::CpuExecutable::compile(*module);
  if (!code)
    return Status(ErrorCode::compile_error, toString(code.takeError()) + messages.text);
  for (auto &[entry, symbol] : entries)
    entry->function = (*code)->lookup(symbol);
  executable->code = std::shared_ptr<cpu::CpuExecutable>(std::move(*code));
  return std::shared_ptr<const Executable>(executable);
}

} // namespace fathom
