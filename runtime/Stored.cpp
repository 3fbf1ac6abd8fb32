//===- Stored.cpp - executables as bytes ------------------------------------===//

#include "runtime/Stored.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

#include <fmt/format.h>

using namespace llvm;

namespace fathom {

std::vector<std::pair<EntryPoint *, std::string>> entriesOf(Executable &e) {
  return {{&e.joint, e.name},
          {&e.fwd, e.name + ".fwd"},
          {&e.bwd, e.name + ".bwd"},
          {&e.saved, e.name + ".saved"}};
}

/// Without gradients there is nothing to cut: the whole function is the
/// forward.
static void nameForward(Executable &e) {
  if (!e.gradients && e.joint.exists())
    std::swap(e.joint, e.fwd);
}

Status link(Executable &e, std::unique_ptr<cpu::CpuExecutable> code) {
  for (auto &[entry, symbol] : entriesOf(e)) {
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
  nameForward(e);
  e.code = std::move(code);
  return {};
}

Status link(Executable &e, cuda::Program program) {
  return {ErrorCode::unsupported, "this build of Fathom runs nothing on GPUs"};
}

std::string toMeta(const Executable &e) {
  json::Object functions; // programs say theirs
  Executable copy = e;
  for (auto &[entry, symbol] : entriesOf(copy)) {
    if (e.program)
      break;
    json::Array arguments;
    for (ArgumentType a : entry->arguments)
      arguments.push_back(json::Array{int64_t(a.dtype), a.rank});
    functions[symbol] = json::Object{{"arguments", std::move(arguments)},
                                     {"results", entry->results}};
  }
  json::Object meta{{"name", e.name},
                    {"what", e.what},
                    {"program", e.program != nullptr},
                    {"gradients", e.gradients},
                    {"lseGradient", e.lseGradient},
                    {"compressedP", e.compressedP},
                    {"gradCaptures", json::Array(e.gradCaptures)},
                    {"nests", json::Array(e.nests)},
                    {"functions", std::move(functions)}};
  return formatv("{0}", json::Value(std::move(meta))).str();
}

std::string describeMeta(const std::string &meta) {
  auto value = json::parse(meta);
  if (!value) {
    consumeError(value.takeError());
    return "";
  }
  json::Object *o = value->getAsObject();
  return o ? o->getString("what").value_or("").str() : "";
}

/// The arguments of CPU functions, which object code does not say.
static bool readFunctions(Executable &e, json::Object *functions) {
  if (!functions)
    return false;
  for (auto &[point, symbol] : entriesOf(e)) {
    json::Object *f = functions->getObject(symbol);
    if (!f || !f->getArray("arguments"))
      return false;
    point->results = f->getInteger("results").value_or(0);
    for (const json::Value &v : *f->getArray("arguments")) {
      const json::Array *pair = v.getAsArray();
      if (!pair || pair->size() != 2)
        return false;
      point->arguments.push_back({DType((*pair)[0].getAsInteger().value_or(0)),
                                  (*pair)[1].getAsInteger().value_or(0)});
    }
  }
  return true;
}

std::shared_ptr<const Executable> fromEntry(const DiskCache::Entry &entry) {
  auto value = json::parse(entry.meta);
  if (!value) {
    consumeError(value.takeError());
    return nullptr;
  }
  json::Object *meta = value->getAsObject();
  if (!meta || !meta->getString("name") || !meta->getArray("gradCaptures") ||
      !meta->getArray("nests"))
    return nullptr;
  auto e = std::make_shared<Executable>();
  e->name = meta->getString("name")->str();
  e->what = meta->getString("what").value_or("").str();
  e->gradients = meta->getBoolean("gradients").value_or(false);
  e->lseGradient = meta->getBoolean("lseGradient").value_or(false);
  e->compressedP = meta->getBoolean("compressedP").value_or(false);
  for (const json::Value &v : *meta->getArray("gradCaptures"))
    e->gradCaptures.push_back(v.getAsInteger().value_or(0));
  for (const json::Value &v : *meta->getArray("nests"))
    e->nests.push_back(v.getAsString().value_or("").str());
  if (meta->getBoolean("program").value_or(false)) {
    cuda::Program program;
    std::string error;
    return cuda::fromText(entry.object, program, error) &&
                   link(*e, std::move(program))
               ? e
               : nullptr;
  }
  if (!readFunctions(*e, meta->getObject("functions")))
    return nullptr;
  auto code =
      cpu::CpuExecutable::load(MemoryBuffer::getMemBufferCopy(entry.object));
  if (!code) {
    consumeError(code.takeError());
    return nullptr;
  }
  return link(*e, std::move(*code)) ? e : nullptr;
}

} // namespace fathom
