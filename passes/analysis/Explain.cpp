//===- Explain.cpp - what was chosen, why, and what it costs --------------===//

#include "passes/analysis/Explain.h"

#include "dialect/FADialect.h"
#include "mlir/IR/Remarks.h"
#include "llvm/Support/FormatVariadic.h"

#include <fmt/format.h>

using namespace mlir;
using namespace fathom;

ArrayRef<DevicePeaks> fathom::knownDevices() {
  static const DevicePeaks devices[] = {{"h200", 989, 4800},
                                        {"h100", 989, 3350},
                                        {"a100", 312, 2039},
                                        {"ascend910", 256, 1200}};
  return devices;
}

//===----------------------------------------------------------------------===//
// Remarks
//===----------------------------------------------------------------------===//

namespace {
class Collector : public remark::detail::MLIRRemarkStreamerBase {
public:
  explicit Collector(std::vector<PassRemark> &out) : out(out) {}
  void streamOptimizationRemark(const remark::detail::Remark &r) override {
    PassRemark entry;
    entry.kind = r.getRemarkType() == llvm::remarks::Type::Passed   ? "changed"
                 : r.getRemarkType() == llvm::remarks::Type::Missed ? "missed"
                                                                    : "note";
    entry.pass = r.getRemarkName().str();
    for (const auto &arg : r.getArgs()) {
      if (!entry.text.empty())
        entry.text += ", ";
      if (arg.key != "Remark" && arg.key != "Reason")
        entry.text += arg.key + " = ";
      entry.text += arg.val;
    }
    out.push_back(entry);
  }

private:
  std::vector<PassRemark> &out;
};
} // namespace

LogicalResult fathom::collectRemarks(MLIRContext &context,
                                     std::vector<PassRemark> &out) {
  remark::RemarkCategories categories;
  categories.all = categories.passed = categories.missed = categories.analysis =
      categories.failed = ".*";
  return remark::enableOptimizationRemarks(
      context, std::make_unique<Collector>(out),
      std::make_unique<remark::RemarkEmittingPolicyAll>(), categories);
}

//===----------------------------------------------------------------------===//
// Counting a module
//===----------------------------------------------------------------------===//

/// Appends what `forward` hands to the backward: its arguments from the first
/// output on. `@NAME.saved` has the arguments before that one, and gives the
/// sizes of what follows O and L.
static LogicalResult appendKept(ModuleOp module, const FunctionCount &forward,
                                StringRef name, const ProblemSize &size,
                                std::vector<BufferCount> &kept) {
  auto saved = module.lookupSymbol<func::FuncOp>((name + ".saved").str());
  if (!saved)
    return success();
  unsigned outputs = saved.getNumArguments();
  FailureOr<SmallVector<int64_t>> sizes = evaluateResults(saved, size);
  if (failed(sizes))
    return failure();
  ArrayRef<int64_t> rest = *sizes;
  for (const BufferCount &b : forward.buffers) {
    if (!b.argument || *b.argument < outputs || b.writers.empty())
      continue;
    BufferCount k = b;
    unsigned position = *b.argument - outputs;
    k.name = position == 0   ? "O"
             : position == 1 ? "L"
                             : "saved " + std::to_string(position - 2);
    kept.push_back(k);
  }
  llvm::sort(kept, [](auto &a, auto &b) { return a.argument < b.argument; });
  for (BufferCount &k : kept) {
    if (*k.argument < outputs + 2 || rest.size() < k.sizes.size())
      continue;
    int64_t entry = 1, bytes = k.bytes;
    for (int64_t s : k.sizes)
      entry *= s;
    bytes = entry ? bytes / entry : 0;
    k.sizes.assign(rest.begin(), rest.begin() + k.sizes.size());
    rest = rest.drop_front(k.sizes.size());
    for (int64_t s : k.sizes)
      bytes *= s;
    k.bytes = bytes;
  }
  return success();
}

FailureOr<ExplainColumn>
fathom::countModule(ModuleOp module, const ProblemSize &size, StringRef title) {
  ExplainColumn column;
  column.title = title.str();
  for (auto func : module.getOps<func::FuncOp>()) {
    if (func.getBody()
            .walk([](NestOp) { return WalkResult::interrupt(); })
            .wasInterrupted()) {
      FailureOr<FunctionCount> count = countFunction(func, size);
      if (failed(count))
        return failure();
      StringRef name = func.getName();
      if (name.consume_back(".fwd")) {
        column.cut = true;
        if (failed(appendKept(module, *count, name, size, column.kept)))
          return failure();
      } else if (!name.ends_with(".bwd")) {
        column.cut |= count->forwardNests.has_value();
        for (const BufferCount &b : count->buffers)
          if (count->forwardNests ? b.crosses(*count->forwardNests)
                                  : b.crosses())
            column.kept.push_back(b);
      }
      column.functions.push_back(std::move(*count));
    }
  }
  return column;
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

/// A number with a unit out of `units`, each `base` times the one before.
static std::string scaled(double v, double base, ArrayRef<const char *> units) {
  size_t u = 0;
  while (v >= base && u + 1 < units.size())
    v /= base, ++u;
  if (v == (int64_t)v)
    return fmt::format("{} {}", (int64_t)v, units[u]);
  return fmt::format("{:.{}f} {}", v, v < 10 ? 2 : 1, units[u]);
}
static std::string asBytes(double v) {
  return scaled(v, 1024, {"B", "KiB", "MiB", "GiB", "TiB", "PiB"});
}
static std::string asFlops(double v) {
  return scaled(v, 1000, {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"});
}
static std::string asTime(double seconds) {
  return scaled(seconds * 1e9, 1000, {"ns", "us", "ms", "s"});
}

static int64_t squareBytes(ArrayRef<BufferCount> buffers) {
  int64_t sum = 0;
  for (const BufferCount &b : buffers)
    sum += b.square ? b.bytes : 0;
  return sum;
}

namespace {
/// Bounds on the run time: all traffic goes to memory, or each byte only once.
struct Roofline {
  double compute, traffic, once;
  double slow() const { return std::max(compute, traffic); }
  double fast() const { return std::max(compute, once); }
};
} // namespace

static Roofline roofline(const FunctionCount &f, const DevicePeaks &d) {
  return {f.flops() / (d.tflops * 1e12),
          (f.bytesRead() + f.bytesWritten()) / (d.gbs * 1e9),
          f.bytesOnce() / (d.gbs * 1e9)};
}

static double intensity(const FunctionCount &f) {
  double bytes = f.bytesRead() + f.bytesWritten();
  return bytes ? f.flops() / bytes : 0;
}

static std::string shapeOf(const BufferCount &b) {
  std::string s;
  for (int64_t d : b.sizes)
    s += std::to_string(d) + "x";
  return s + b.elementType;
}

/// The functions of a column by what is left of their names after the variant's.
static const FunctionCount *find(const ExplainColumn &column, StringRef suffix,
                                 StringRef name) {
  for (const FunctionCount &f : column.functions)
    if (f.name == (name + suffix).str())
      return &f;
  return nullptr;
}

static StringRef titleOf(StringRef function) {
  return function.ends_with(".fwd")   ? "forward"
         : function.ends_with(".bwd") ? "backward"
                                      : function;
}

/// The part of a function's name before its stage.
static std::string stem(StringRef function) {
  function.consume_back(".fwd");
  function.consume_back(".bwd");
  return function.str();
}

void fathom::printReport(const ExplainReport &report, raw_ostream &os) {
  const ProblemSize &s = report.size;
  const DevicePeaks &dev = report.device;
  os << fmt::format(
      "@{}: batch {}, heads {}, kv heads {}, seqlen q {}, seqlen k {}\n",
      report.name, s.batch, s.heads, s.kvHeads, s.seqlenQ, s.seqlenK);
  os << fmt::format("device: {}, {} TFLOP/s, {} GB/s\n", dev.name, dev.tflops,
                    dev.gbs);
  if (!report.schedule.empty())
    os << "schedule: " << report.schedule << "\n";
  os << "\n";

  auto row = [&](StringRef title, auto cell) {
    os << fmt::format("{:<26}", title.str());
    for (const ExplainColumn &c : report.columns)
      os << fmt::format(" {:>20}", cell(c));
    os << "\n";
  };
  row("", [&](const ExplainColumn &c) {
    bool mark =
        report.columns.size() > 1 && &c == &report.columns[report.chosen];
    return c.title + (mark ? " *" : "");
  });
  const ExplainColumn &chosen = report.columns[report.chosen];
  bool upperBound = false;
  for (const FunctionCount &f : chosen.functions) {
    StringRef suffix = StringRef(f.name).drop_front(stem(f.name).size());
    auto line = [&](StringRef title, auto cell) {
      row(title, [&](const ExplainColumn &c) -> std::string {
        const FunctionCount *g = find(c, suffix, stem(f.name));
        return g ? cell(*g) : "-";
      });
    };
    using F = const FunctionCount &;
    os << titleOf(f.name) << "\n";
    line("  products", [](F g) { return asFlops(g.flops()); });
    line("  read", [](F g) { return asBytes(g.bytesRead()); });
    line("  written", [](F g) { return asBytes(g.bytesWritten()); });
    line("  N x N buffers",
         [](F g) { return asBytes(squareBytes(g.buffers)); });
    line("  peak workspace", [](F g) { return asBytes(g.workspace); });
    line("  FLOP per byte",
         [](F g) { return fmt::format("{:.1f}", intensity(g)); });
    line("  roofline, no cache",
         [&](F g) { return asTime(roofline(g, dev).slow()); });
    line("  roofline, each byte once",
         [&](F g) { return asTime(roofline(g, dev).fast()); });
    upperBound |= f.upperBound;
  }
  os << (chosen.cut ? "kept for the backward\n" : "kept between nests\n");
  row("  N x N",
      [](const ExplainColumn &c) { return asBytes(squareBytes(c.kept)); });
  for (const BufferCount &b : chosen.kept)
    if (!b.square)
      row("  " + b.name, [&](const ExplainColumn &c) -> std::string {
        for (const BufferCount &k : c.kept)
          if (k.name == b.name)
            return asBytes(k.bytes);
        return "-";
      });
  if (upperBound)
    os << "upper bounds: some tiles are skipped only where the data says so\n";

  for (const ExplainColumn &c : report.columns) {
    if (&c != &chosen && squareBytes(c.kept) == 0)
      continue;
    os << "\nkept, " << c.title << "\n";
    for (const BufferCount &b : c.kept)
      os << fmt::format("  {:<8} {:>10}  {}{}, written in {}\n", b.name,
                        asBytes(b.bytes), shapeOf(b),
                        b.square ? " (N x N)" : "", fmt::join(b.writers, ", "));
  }
  for (const FunctionCount &f : chosen.functions) {
    os << "\n" << titleOf(f.name) << ": products\n";
    for (const DotCount &d : f.dots)
      os << fmt::format(
          "  {:<20} {:>4} x {:<4} k {:<4} {:<5} {:>12} times {:>14}\n", d.nest,
          d.m, d.n, d.k, d.type, d.times, asFlops(d.flops()));
    os << titleOf(f.name) << ": memory\n";
    for (const BufferCount &b : f.buffers)
      os << fmt::format("  {:<8} {:<28} {:>10} read {:>10} written{}\n", b.name,
                        shapeOf(b), asBytes(b.read), asBytes(b.written),
                        b.square ? ", N x N" : "");
  }
  if (!chosen.remarks.empty())
    os << "\npasses\n";
  for (size_t i = 0, next; i < chosen.remarks.size(); i = next) {
    const PassRemark &r = chosen.remarks[i];
    for (next = i + 1;
         next < chosen.remarks.size() && chosen.remarks[next] == r;)
      ++next;
    std::string often =
        next - i > 1 ? fmt::format(" ({} times)", next - i) : "";
    os << fmt::format("  {:<28} {:<8} {}{}\n", r.pass, r.kind, r.text, often);
  }
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

static llvm::json::Object toJson(const BufferCount &b) {
  using llvm::json::Array;
  llvm::json::Object o{{"name", b.name},
                       {"type", b.elementType},
                       {"sizes", Array(b.sizes)},
                       {"bytes", b.bytes},
                       {"read", b.read},
                       {"written", b.written},
                       {"n_by_n", b.square},
                       {"crosses", b.crosses()},
                       {"writers", Array(b.writers)},
                       {"readers", Array(b.readers)}};
  if (b.argument)
    o["argument"] = *b.argument;
  return o;
}

static llvm::json::Array toJson(ArrayRef<BufferCount> buffers) {
  llvm::json::Array a;
  for (const BufferCount &b : buffers)
    a.push_back(toJson(b));
  return a;
}

static llvm::json::Object toJson(const FunctionCount &f,
                                 const DevicePeaks &device) {
  llvm::json::Array products;
  for (const DotCount &d : f.dots)
    products.push_back(llvm::json::Object{{"nest", d.nest},
                                          {"m", d.m},
                                          {"n", d.n},
                                          {"k", d.k},
                                          {"type", d.type},
                                          {"times", d.times},
                                          {"flops", d.flops()}});
  Roofline r = roofline(f, device);
  return llvm::json::Object{
      {"name", f.name},
      {"flops", f.flops()},
      {"read_bytes", f.bytesRead()},
      {"written_bytes", f.bytesWritten()},
      {"n_by_n_bytes", squareBytes(f.buffers)},
      {"workspace_bytes", f.workspace},
      {"flops_per_byte", intensity(f)},
      {"upper_bound", f.upperBound},
      {"products", std::move(products)},
      {"buffers", toJson(ArrayRef(f.buffers))},
      {"roofline", llvm::json::Object{{"compute_s", r.compute},
                                      {"traffic_s", r.traffic},
                                      {"traffic_once_s", r.once},
                                      {"no_cache_s", r.slow()},
                                      {"each_byte_once_s", r.fast()}}}};
}

llvm::json::Value fathom::reportToJson(const ExplainReport &report) {
  const ProblemSize &s = report.size;
  llvm::json::Array policies;
  for (const ExplainColumn &c : report.columns) {
    llvm::json::Array functions, remarks;
    for (const FunctionCount &f : c.functions)
      functions.push_back(toJson(f, report.device));
    for (const PassRemark &r : c.remarks)
      remarks.push_back(llvm::json::Object{
          {"pass", r.pass}, {"kind", r.kind}, {"text", r.text}});
    policies.push_back(
        llvm::json::Object{{"p", c.title},
                           {"chosen", &c == &report.columns[report.chosen]},
                           {"kept_n_by_n_bytes", squareBytes(c.kept)},
                           {"kept", toJson(ArrayRef(c.kept))},
                           {"functions", std::move(functions)},
                           {"passes", std::move(remarks)}});
  }
  return llvm::json::Object{
      {"name", report.name},
      {"size", llvm::json::Object{{"batch", s.batch},
                                  {"heads", s.heads},
                                  {"kv_heads", s.kvHeads},
                                  {"seqlen_q", s.seqlenQ},
                                  {"seqlen_k", s.seqlenK}}},
      {"device", llvm::json::Object{{"name", report.device.name},
                                    {"tflops", report.device.tflops},
                                    {"gbs", report.device.gbs}}},
      {"schedule", report.schedule},
      {"policies", std::move(policies)}};
}
