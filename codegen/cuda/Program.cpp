//===- Program.cpp - programs as text, and what makes one sound -------------===//
//
// Programs come back from disk, so nothing in a text is trusted: what passes
// check() can be interpreted without a further look at an index.
//
//===----------------------------------------------------------------------===//

#include "codegen/cuda/Program.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Base64.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

namespace fathom::cuda {

using llvm::ArrayRef;
using llvm::formatv;
using llvm::StringLiteral;
using llvm::StringRef;
namespace json = llvm::json;

namespace {

constexpr StringLiteral kFormat = "fathom-cuda-program-2";
/// In the order of the enumerations.
constexpr StringLiteral kScalars[] = {"i1",    "i8",  "i16",  "i32", "i64",
                                      "index", "f16", "bf16", "f32", "f64"};
constexpr StringLiteral kKinds[] = {"argument", "workspace", "value", "map"};
constexpr StringLiteral kOps[] = {
    "constant", "dim",   "scalar", "addi",      "subi",       "muli",  "divsi",
    "divui",    "remsi", "remui",  "ceildivsi", "floordivsi", "minsi", "maxsi",
    "minui",    "maxui", "andi",   "ori",       "xori",       "shli",  "shrsi",
    "shrui",    "cmp",   "select", "allocate",  "clear",      "launch"};
static_assert(std::size(kScalars) == size_t(Scalar::f64) + 1 &&
              std::size(kKinds) == Parameter::map + 1 &&
              std::size(kOps) == Instruction::launch + 1);

constexpr int kMaxRank = 8;
constexpr int kMaxRegisters = 1 << 16;
constexpr int kMaxThreads = 1024;
constexpr int64_t kMaxSharedBytes = 1 << 20;

template <typename Enum, size_t n>
bool readName(const json::Value &value, Enum &out, json::Path path,
              const StringLiteral (&names)[n]) {
  auto name = value.getAsString();
  for (size_t i = 0; name && i < n; ++i)
    if (names[i] == *name) {
      out = Enum(i);
      return true;
    }
  path.report("expected one of the known names");
  return false;
}

/// As UTF-8, which JSON must be; only a comment can lose by it.
std::string utf8(const std::string &text) {
  return json::isUTF8(text) ? text : json::fixUTF8(text);
}

bool isInteger(Scalar type) { return type <= Scalar::index; }

} // namespace

int64_t sizeOf(Scalar type) {
  constexpr int64_t sizes[] = {1, 1, 2, 4, 8, 8, 2, 2, 4, 8};
  return sizes[size_t(type)];
}

const Plan *Program::find(const std::string &name) const {
  for (const Plan &plan : plans)
    if (plan.name == name)
      return &plan;
  return nullptr;
}

//===----------------------------------------------------------------------===//
// Soundness
//===----------------------------------------------------------------------===//

namespace {

/// Walks one plan in the order in which it runs. The first fault stays.
class PlanCheck {
public:
  PlanCheck(const Program &program, const Plan &plan)
      : program(program), plan(plan) {}

  std::string run() {
    for (const Argument &a : plan.arguments)
      require(a.rank >= -1 && a.rank <= kMaxRank, "an argument's rank");
    require(plan.registers >= 0 && plan.registers <= kMaxRegisters,
            "the number of registers");
    if (!error.empty())
      return error;
    written.assign(plan.registers, false);
    allocated.assign(plan.workspaces.size(), false);
    for (at = 0; at < plan.code.size() && error.empty(); ++at)
      visit(plan.code[at]);
    for (int r : plan.results)
      read(r);
    return error;
  }

private:
  void require(bool holds, const char *what) {
    if (!holds && error.empty())
      error = formatv("plan '{0}', instruction {1}: {2} is out of range",
                      plan.name, at, what);
  }
  template <typename T>
  const T *pick(const std::vector<T> &from, int index, const char *what) {
    bool there = index >= 0 && size_t(index) < from.size();
    require(there, what);
    return there ? &from[index] : nullptr;
  }
  void read(int r) {
    require(r >= 0 && r < plan.registers && written[r],
            "a register that is read");
  }
  void write(int r) {
    bool fresh = r >= 0 && r < plan.registers && !written[r];
    require(fresh, "a register that is written");
    if (fresh)
      written[r] = true;
  }

  void visit(const Instruction &i) {
    using I = Instruction;
    switch (i.op) {
    case I::constant:
      return write(i.dst);
    case I::dim:
      if (auto *a = pick(plan.arguments, i.a, "an argument"))
        require(i.imm >= 0 && i.imm < a->rank, "a dimension");
      return write(i.dst);
    case I::scalar:
      if (auto *a = pick(plan.arguments, i.a, "an argument"))
        require(a->rank == -1 && isInteger(a->type), "an integer scalar");
      return write(i.dst);
    case I::allocate:
      return allocate(i.a);
    case I::clear:
      require(i.imm >= -128 && i.imm < 256, "a byte");
      return exists(i.a);
    case I::launch:
      if (auto *l = pick(plan.launches, i.a, "a launch"))
        launch(*l);
      return;
    case I::select:
      read(i.c);
      break;
    case I::cmp:
      require(i.imm >= 0 && i.imm <= 9, "a predicate");
      break;
    default:
      break;
    }
    read(i.a);
    read(i.b);
    write(i.dst);
  }

  void allocate(int w) {
    auto *space = pick(plan.workspaces, w, "a workspace");
    if (!space)
      return;
    require(!allocated[w], "a workspace that is there already");
    require(space->dims.size() <= kMaxRank, "a workspace's rank");
    for (const Workspace::Dim &d : space->dims)
      if (d.reg >= 0)
        read(d.reg);
      else
        require(d.reg == -1 && d.size >= 0, "a workspace's size");
    allocated[w] = true;
  }
  void exists(int w) {
    if (pick(plan.workspaces, w, "a workspace"))
      require(allocated[w], "a workspace that is not there yet");
  }

  void launch(const Launch &l) {
    pick(program.kernels, l.kernel, "a kernel");
    read(l.grid);
    require(l.parameters.size() <= 256, "the number of parameters");
    for (const Parameter &p : l.parameters) {
      int rank = -1;
      if (p.kind == Parameter::argument) {
        if (auto *a = pick(plan.arguments, p.index, "an argument"))
          rank = a->rank;
      } else if (p.kind == Parameter::workspace) {
        exists(p.index);
        if (error.empty())
          rank = plan.workspaces[p.index].dims.size();
      } else if (p.kind == Parameter::map) {
        if (auto *m = pick(plan.maps, p.index, "a map"))
          map(*m);
      } else {
        read(p.index);
        require(isInteger(p.type), "the type of a value");
      }
      std::vector<int> sorted = p.order;
      llvm::sort(sorted);
      for (size_t d = 0; d < sorted.size(); ++d)
        require(int(sorted.size()) == rank && sorted[d] == int(d),
                "the order of an array's dims");
    }
  }

  void map(const BoxMap &m) {
    int64_t rank = -1;
    if (m.ofWorkspace) {
      exists(m.array);
      if (auto *w = pick(plan.workspaces, m.array, "a workspace"))
        rank = w->dims.size();
    } else if (auto *a = pick(plan.arguments, m.array, "an argument")) {
      rank = a->rank;
    }
    require(rank >= 1 && rank <= BoxMap::kMaxRank &&
                int64_t(m.sizes.size()) == rank &&
                int64_t(m.box.size()) == rank,
            "a map's rank");
    for (const Workspace::Dim &d : m.sizes)
      if (d.reg >= 0)
        read(d.reg);
      else
        require(d.reg == -1 && d.size >= 0, "a map's size");
    for (int n : m.box)
      require(n >= 1 && n <= BoxMap::kMaxBox, "a box");
    require(m.swizzle == 0 || m.swizzle == 32 || m.swizzle == 64 ||
                m.swizzle == 128,
            "a swizzle");
  }

  const Program &program;
  const Plan &plan;
  size_t at = 0;
  std::vector<bool> written, allocated;
  std::string error;
};

std::string checkKernel(const Kernel &k) {
  bool word = !k.name.empty() && llvm::all_of(k.name, [](char c) {
    return llvm::isAlnum(c) || c == '_';
  });
  if (!word)
    return formatv("kernel '{0}': expected a name of letters, digits and _",
                   k.name);
  if (k.threads < 1 || k.threads > kMaxThreads)
    return formatv("kernel '{0}': expected 1 to {1} threads, got {2}", k.name,
                   kMaxThreads, k.threads);
  if (k.sharedBytes < 0 || k.sharedBytes > kMaxSharedBytes)
    return formatv("kernel '{0}': expected 0 to {1} bytes of shared memory, "
                   "got {2}",
                   k.name, kMaxSharedBytes, k.sharedBytes);
  return "";
}

} // namespace

std::string check(const Program &program) {
  for (const Kernel &k : program.kernels)
    if (std::string error = checkKernel(k); !error.empty())
      return error;
  for (const Plan &plan : program.plans)
    if (std::string error = PlanCheck(program, plan).run(); !error.empty())
      return error;
  return "";
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

static json::Value toJSON(const Resources &r) {
  return json::Object{{"registers", r.registers},
                      {"spillStores", r.spillStores},
                      {"spillLoads", r.spillLoads},
                      {"stack", r.stackBytes},
                      {"shared", r.staticShared},
                      {"constant", r.constantBytes},
                      {"notes", r.notes}};
}

static bool fromJSON(const json::Value &value, Resources &r, json::Path path) {
  json::ObjectMapper o(value, path);
  return o && o.map("registers", r.registers) &&
         o.map("spillStores", r.spillStores) &&
         o.map("spillLoads", r.spillLoads) && o.map("stack", r.stackBytes) &&
         o.map("shared", r.staticShared) &&
         o.map("constant", r.constantBytes) && o.map("notes", r.notes);
}

static json::Value toJSON(const Kernel &k) {
  return json::Object{{"name", k.name},
                      {"source", utf8(k.source)},
                      {"threads", k.threads},
                      {"shared", k.sharedBytes},
                      {"cubin", llvm::encodeBase64(k.cubin)},
                      {"ptx", utf8(k.ptx)},
                      {"resources", toJSON(k.resources)}};
}

static bool fromJSON(const json::Value &value, Kernel &k, json::Path path) {
  json::ObjectMapper o(value, path);
  std::string cubin;
  if (!o || !o.map("name", k.name) || !o.map("source", k.source) ||
      !o.map("threads", k.threads) || !o.map("shared", k.sharedBytes) ||
      !o.map("cubin", cubin) || !o.map("ptx", k.ptx) ||
      !o.map("resources", k.resources))
    return false;
  std::vector<char> bytes;
  if (llvm::Error error = llvm::decodeBase64(cubin, bytes)) {
    llvm::consumeError(std::move(error));
    path.field("cubin").report("expected base64");
    return false;
  }
  k.cubin.assign(bytes.begin(), bytes.end());
  return true;
}

static json::Value toJSON(Scalar type) { return kScalars[size_t(type)]; }
static bool fromJSON(const json::Value &value, Scalar &type, json::Path path) {
  return readName(value, type, path, kScalars);
}

static json::Value toJSON(const Argument &a) {
  return json::Object{{"type", toJSON(a.type)}, {"rank", a.rank}};
}
static bool fromJSON(const json::Value &value, Argument &a, json::Path path) {
  json::ObjectMapper o(value, path);
  return o && o.map("type", a.type) && o.map("rank", a.rank);
}

static json::Value toJSON(const Workspace::Dim &d) {
  return json::Object{{"reg", d.reg}, {"size", d.size}};
}
static bool fromJSON(const json::Value &value, Workspace::Dim &d,
                     json::Path path) {
  json::ObjectMapper o(value, path);
  return o && o.map("reg", d.reg) && o.map("size", d.size);
}

static json::Value toJSON(const Workspace &w) {
  return json::Object{{"type", toJSON(w.type)}, {"dims", json::Array(w.dims)}};
}
static bool fromJSON(const json::Value &value, Workspace &w, json::Path path) {
  json::ObjectMapper o(value, path);
  return o && o.map("type", w.type) && o.map("dims", w.dims);
}

static json::Value toJSON(const BoxMap &m) {
  return json::Object{{"workspace", m.ofWorkspace},
                      {"array", m.array},
                      {"sizes", json::Array(m.sizes)},
                      {"box", json::Array(m.box)},
                      {"swizzle", m.swizzle}};
}
static bool fromJSON(const json::Value &value, BoxMap &m, json::Path path) {
  json::ObjectMapper o(value, path);
  return o && o.map("workspace", m.ofWorkspace) && o.map("array", m.array) &&
         o.map("sizes", m.sizes) && o.map("box", m.box) &&
         o.map("swizzle", m.swizzle);
}

static json::Value toJSON(const Parameter &p) {
  return json::Object{{"kind", kKinds[p.kind]},
                      {"index", p.index},
                      {"type", toJSON(p.type)},
                      {"order", json::Array(p.order)}};
}
static bool fromJSON(const json::Value &value, Parameter &p, json::Path path) {
  json::ObjectMapper o(value, path);
  const json::Value *kind = o ? value.getAsObject()->get("kind") : nullptr;
  return kind && readName(*kind, p.kind, path.field("kind"), kKinds) &&
         o.map("index", p.index) && o.map("type", p.type) &&
         o.map("order", p.order);
}

static json::Value toJSON(const Launch &l) {
  return json::Object{{"kernel", l.kernel},
                      {"grid", l.grid},
                      {"parameters", json::Array(l.parameters)}};
}
static bool fromJSON(const json::Value &value, Launch &l, json::Path path) {
  json::ObjectMapper o(value, path);
  return o && o.map("kernel", l.kernel) && o.map("grid", l.grid) &&
         o.map("parameters", l.parameters);
}

/// [op, dst, a, b, c, imm]: there are many.
static json::Value toJSON(const Instruction &i) {
  return json::Array{kOps[i.op], i.dst, i.a, i.b, i.c, i.imm};
}
static bool fromJSON(const json::Value &value, Instruction &i,
                     json::Path path) {
  const json::Array *x = value.getAsArray();
  if (!x || x->size() != 6) {
    path.report("expected [op, dst, a, b, c, imm]");
    return false;
  }
  return readName((*x)[0], i.op, path.index(0), kOps) &&
         fromJSON((*x)[1], i.dst, path.index(1)) &&
         fromJSON((*x)[2], i.a, path.index(2)) &&
         fromJSON((*x)[3], i.b, path.index(3)) &&
         fromJSON((*x)[4], i.c, path.index(4)) &&
         fromJSON((*x)[5], i.imm, path.index(5));
}

static json::Value toJSON(const Plan &p) {
  return json::Object{{"name", p.name},
                      {"arguments", json::Array(p.arguments)},
                      {"workspaces", json::Array(p.workspaces)},
                      {"maps", json::Array(p.maps)},
                      {"launches", json::Array(p.launches)},
                      {"code", json::Array(p.code)},
                      {"results", json::Array(p.results)},
                      {"registers", p.registers}};
}
static bool fromJSON(const json::Value &value, Plan &p, json::Path path) {
  json::ObjectMapper o(value, path);
  return o && o.map("name", p.name) && o.map("arguments", p.arguments) &&
         o.map("workspaces", p.workspaces) && o.map("maps", p.maps) &&
         o.map("launches", p.launches) && o.map("code", p.code) &&
         o.map("results", p.results) && o.map("registers", p.registers);
}

/// The parser calls itself for each level, so a foreign text could use up the
/// stack.
static bool isDeep(StringRef text) {
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (quoted && c == '\\')
      ++i;
    else if (c == '"')
      quoted = !quoted;
    else if (!quoted && (c == '{' || c == '['))
      ++depth;
    else if (!quoted && (c == '}' || c == ']'))
      --depth;
    if (depth > 32)
      return true;
  }
  return false;
}

std::string toText(const Program &program) {
  json::Value value = json::Object{{"format", kFormat},
                                   {"target", program.target},
                                   {"kernels", json::Array(program.kernels)},
                                   {"plans", json::Array(program.plans)}};
  return formatv("{0}", value);
}

bool fromText(const std::string &text, Program &program, std::string &error) {
  if (isDeep(text)) {
    error = "expected a CUDA program, got a text nested too deep";
    return false;
  }
  auto value = json::parse(text);
  if (!value) {
    error =
        "expected a CUDA program in JSON: " + llvm::toString(value.takeError());
    return false;
  }
  json::Path::Root root("program");
  json::Path path(root);
  json::ObjectMapper o(*value, path);
  std::string format;
  Program read;
  if (!o || !o.map("format", format) || !o.map("target", read.target) ||
      !o.map("kernels", read.kernels) || !o.map("plans", read.plans)) {
    error = "expected a CUDA program: " + llvm::toString(root.getError());
    return false;
  }
  if (format != kFormat)
    error = formatv("expected a program of format '{0}', got '{1}'", kFormat,
                    format);
  else
    error = check(read);
  if (!error.empty())
    return false;
  program = std::move(read);
  return true;
}

} // namespace fathom::cuda
