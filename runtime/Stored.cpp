//===- Stored.cpp - executables as bytes ------------------------------------===//

#include "runtime/Stored.h"

#include "runtime/cuda/CudaProgram.h"

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

static DType dtypeOf(cuda::Scalar type) {
  switch (type) {
  case cuda::Scalar::i1:
    return DType::i1;
  case cuda::Scalar::i8:
    return DType::i8;
  case cuda::Scalar::i16:
    return DType::i16;
  case cuda::Scalar::i32:
    return DType::i32;
  case cuda::Scalar::i64:
  case cuda::Scalar::index:
    return DType::i64;
  case cuda::Scalar::f16:
    return DType::f16;
  case cuda::Scalar::bf16:
    return DType::bf16;
  case cuda::Scalar::f32:
    return DType::f32;
  case cuda::Scalar::f64:
    return DType::f64;
  }
  return DType::f32;
}

/// A dim of one entry may have any stride, which is never used; kernels for
/// aligned operands may still count on its being a multiple of 16 bytes.
static void dropIdleStrides(const cuda::Plan &plan, void **args) {
  for (const cuda::Argument &a : plan.arguments) {
    auto *sizes = static_cast<int64_t *>(*args++) + 3;
    for (int d = 0; d < a.rank; ++d)
      if (sizes[d] <= 1)
        sizes[a.rank + d] = d == a.rank - 1;
  }
}

Status link(Executable &e, cuda::Program program) {
  auto made = cuda::CudaProgram::create(std::move(program));
  if (!made)
    return made.status();
  const cuda::CudaProgram *code = made->get();
  for (auto &[entry, symbol] : entriesOf(e)) {
    const cuda::PlanRunner *plan = code->find(symbol);
    if (!plan)
      continue;
    entry->arguments.clear();
    for (const cuda::Argument &a : plan->plan().arguments)
      entry->arguments.push_back({dtypeOf(a.type), a.rank});
    entry->results = plan->plan().results.size();
    entry->function = [code, plan](void **args, const CallContext &where) {
      dropIdleStrides(plan->plan(), args);
      SmallVector<int64_t, 8> results(plan->plan().results.size());
      Status s = code->run(*plan, cuda::fromDescriptors(plan->plan(), args),
                           {where.device.gpu,
                            where.stream,
                            {where.workspace, where.workspaceBytes}},
                           results.data());
      for (size_t n = 0; n < results.size(); ++n)
        *static_cast<int64_t *>(args[plan->plan().arguments.size() + n]) =
            results[n];
      return s;
    };
    entry->workspace = [plan](void **args) {
      return plan->workspaceBytes(cuda::fromDescriptors(plan->plan(), args));
    };
  }
  nameForward(e);
  e.ticks = [code](int gpu) { return code->ticks(gpu); };
  e.program = {*made, &code->program()};
  e.code = std::const_pointer_cast<cuda::CudaProgram>(*made);
  return {};
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
