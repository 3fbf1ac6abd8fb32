//===- Bundle.cpp - kernels compiled ahead of time --------------------------===//

#include "runtime/Bundle.h"

#include "codegen/cuda/Target.h"
#include "runtime/Devices.h"
#include "runtime/Stored.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>

using namespace llvm;

namespace fathom {

static constexpr const char kFormat[] = "fathom-bundle-1";
static constexpr const char *kPieces[] = {"whole", "forward", "backward"};

namespace {

json::Value toJson(const CaptureInfo &c) {
  return json::Object{{"name", c.name},
                      {"dtype", std::string(name(c.dtype))},
                      {"tensor", c.isTensor},
                      {"shape", json::Array(c.shape)}};
}

/// Reads fields; the first that is missing or wrong leaves its name.
class Reader {
public:
  Reader(const json::Object &o, std::string &error) : o(o), error(error) {}

  std::string text(StringRef field) {
    auto value = o.getString(field);
    if (!value)
      return fail(field), "";
    return value->str();
  }
  int64_t number(StringRef field, int64_t least, int64_t most) {
    auto value = o.getInteger(field);
    if (!value || *value < least || *value > most)
      return fail(field), least;
    return *value;
  }
  bool flag(StringRef field) {
    auto value = o.getBoolean(field);
    if (!value)
      fail(field);
    return value.value_or(false);
  }
  DType dtype(StringRef field) {
    auto value = parseDType(text(field));
    if (!value)
      fail(field);
    return value.value_or(DType::f32);
  }
  const json::Array &list(StringRef field) {
    static const json::Array none;
    auto *value = o.getArray(field);
    if (!value)
      fail(field);
    return value ? *value : none;
  }
  Reader object(StringRef field) { return of(o.getObject(field), field); }
  Reader of(const json::Object *value, StringRef field) {
    static const json::Object none;
    if (!value)
      fail(field);
    return {value ? *value : none, error};
  }

private:
  void fail(StringRef field) {
    if (error.empty())
      error = field.str();
  }

  const json::Object &o;
  std::string &error;
};

} // namespace

std::string toText(const Bundle &b) {
  json::Array captures, items;
  for (const CaptureInfo &c : b.variant.captures)
    captures.push_back(toJson(c));
  for (const Bundle::Item &i : b.items)
    items.push_back(json::Object{{"target", i.target},
                                 {"piece", kPieces[int(i.piece)]},
                                 {"aligned", i.aligned},
                                 {"meta", i.entry.meta},
                                 {"program", i.entry.object}});
  json::Object variant{
      {"name", b.variant.name},
      {"captures", std::move(captures)},
      {"alibi", b.variant.alibi ? int64_t(*b.variant.alibi) : int64_t(-1)},
      {"instance", b.variant.isInstance}};
  json::Object instance{{"dtype", std::string(name(b.instance.dtype))},
                        {"head_dim", b.instance.headDim},
                        {"head_dim_v", b.instance.headDimV},
                        {"group", b.instance.group},
                        {"layout", stringifyLayout(b.instance.layout).str()},
                        {"gradients", b.instance.gradients},
                        {"lse_gradient", b.instance.lseGradient}};
  return formatv("{0:2}\n",
                 json::Value(json::Object{{"format", kFormat},
                                          {"variant", std::move(variant)},
                                          {"instance", std::move(instance)},
                                          {"pieces", std::move(items)}}))
      .str();
}

Result<Bundle> bundleFromText(const std::string &text,
                              const std::string &file) {
  auto wrong = [&](const std::string &what) {
    return Status(ErrorCode::invalid_argument,
                  fmt::format("'{}': expected a bundle of kernels (fa-run "
                              "--emit-bundle makes one), got {}",
                              file, what));
  };
  auto value = json::parse(text);
  if (!value) {
    consumeError(value.takeError());
    return wrong("other text");
  }
  json::Object *top = value->getAsObject();
  if (!top || !top->getString("format"))
    return wrong("other JSON");
  if (*top->getString("format") != kFormat)
    return wrong("one of format '" + top->getString("format")->str() +
                 "'; this build reads " + kFormat);
  std::string error;
  Bundle b;
  Reader r(*top, error), variant = r.object("variant"),
                         instance = r.object("instance");
  b.variant.name = variant.text("name");
  b.variant.isInstance = variant.flag("instance");
  for (const json::Value &v : variant.list("captures")) {
    Reader c = r.of(v.getAsObject(), "captures");
    CaptureInfo info{c.text("name"), c.dtype("dtype"), c.flag("tensor"), {}};
    for (const json::Value &d : c.list("shape"))
      info.shape.push_back(d.getAsInteger().value_or(-1));
    b.variant.captures.push_back(std::move(info));
  }
  int64_t alibi =
      variant.number("alibi", -1, int64_t(b.variant.captures.size()) - 1);
  if (alibi >= 0)
    b.variant.alibi = alibi;
  b.instance = {instance.dtype("dtype"),
                instance.number("head_dim", 1, 512),
                instance.number("head_dim_v", 1, 512),
                instance.number("group", 1, INT32_MAX),
                symbolizeLayout(instance.text("layout")).value_or(Layout::bshd),
                instance.flag("gradients"),
                instance.flag("lse_gradient")};
  for (const json::Value &v : r.list("pieces")) {
    Reader p = r.of(v.getAsObject(), "pieces");
    Bundle::Item item{p.text("target"),
                      Piece::whole,
                      p.flag("aligned"),
                      {p.text("program"), p.text("meta")}};
    auto *piece = find(kPieces, p.text("piece"));
    if (piece == std::end(kPieces))
      return wrong("one whose field 'piece' is missing or wrong");
    item.piece = Piece(piece - kPieces);
    b.items.push_back(std::move(item));
  }
  if (!error.empty())
    return wrong("one whose field '" + error + "' is missing or wrong");
  return b;
}

Status writeBundle(const Bundle &bundle, const std::string &path) {
  auto cannot = [&](const std::string &why) {
    return Status(ErrorCode::io_error,
                  fmt::format("cannot write '{}': {}", path, why));
  };
  SmallString<128> aside;
  int fd;
  if (auto error = sys::fs::createUniqueFile(path + ".%%%%%%", fd, aside))
    return cannot(error.message());
  raw_fd_ostream os(fd, /*shouldClose=*/true);
  os << toText(bundle);
  os.close();
  std::error_code error = os.error();
  os.clear_error();
  if (!error)
    error = sys::fs::rename(aside, path);
  if (!error)
    return {};
  sys::fs::remove(aside);
  return cannot(error.message());
}

Result<Bundle> readBundle(const std::string &path) {
  auto buffer = MemoryBuffer::getFile(path);
  if (!buffer)
    return Status(
        ErrorCode::io_error,
        fmt::format("cannot read '{}': {}", path, buffer.getError().message()));
  return bundleFromText((*buffer)->getBuffer().str(), path);
}

/// How well code for `target` suits a GPU of compute capability `arch`: 0 not
/// at all, PTX before machine code, older before newer.
static int suits(const std::string &target, int arch) {
  cuda::Target t;
  std::string error;
  if (!cuda::Target::parse(target, t, error))
    return 0;
  if (t.codeRunsOn(arch))
    return 20000 + 10 * t.arch + t.exact;
  return t.ptxRunsOn(arch) ? 10 * t.arch : 0;
}

Result<std::shared_ptr<const Instance>> instantiate(Bundle bundle,
                                                    Device device) {
  if (device.isHost())
    return Status(ErrorCode::unsupported,
                  "device: a bundle has kernels for GPUs; expected cuda or "
                  "cuda:N, got cpu");
  auto target = targetOf(device);
  if (!target)
    return target.status();
  cuda::Target is;
  std::string error;
  if (!cuda::Target::parse(*target, is, error))
    return Status(ErrorCode::unsupported, error);
  auto shared = std::make_shared<const Bundle>(std::move(bundle));
  auto find = [shared, arch = is.arch](
                  Piece piece, bool aligned) -> Result<Instance::Pointer> {
    const Bundle::Item *best = nullptr;
    for (const Bundle::Item &i : shared->items)
      if (i.piece == piece && i.aligned == aligned &&
          suits(i.target, arch) > (best ? suits(best->target, arch) : 0))
        best = &i;
    if (!best) {
      std::set<std::string> targets;
      for (const Bundle::Item &i : shared->items)
        targets.insert(i.target);
      return Status(ErrorCode::unsupported,
                    fmt::format("the bundle of @{} has no {} for {} operands "
                                "on sm_{}; it is for {}",
                                shared->variant.name, kPieces[int(piece)],
                                aligned ? "aligned" : "unaligned", arch,
                                fmt::join(targets, ", ")));
    }
    if (auto e = fromEntry(best->entry))
      return e;
    return Status(ErrorCode::invalid_argument,
                  fmt::format("the bundle of @{} is damaged: expected the {} "
                              "for {}, got other text",
                              shared->variant.name, kPieces[int(piece)],
                              best->target));
  };
  auto instance = std::make_shared<const Instance>(device, find);
  // What is not there or damaged is said now, not in the first call.
  bool aligned = rowsAreAligned(shared->instance);
  for (Piece piece : {Piece::forward, Piece::backward})
    if (piece == Piece::forward || shared->instance.gradients)
      if (auto made = instance->get(piece, aligned); !made)
        return made.status();
  return instance;
}

} // namespace fathom
