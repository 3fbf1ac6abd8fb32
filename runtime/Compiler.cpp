//===- Compiler.cpp - from a variant's text to something that runs ----------===//

#include "runtime/Compiler.h"

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

Result<std::shared_ptr<const Executable>> compile(VariantSource &source,
                                                  const CompileOptions &options) {
  return Status(ErrorCode::unsupported, "this build has no code generator for the CPU");
}

} // namespace fathom
