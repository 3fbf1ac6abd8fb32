//===- Driver.cpp - compile and explain -----------------------------------===//

#include "Driver.h"

#include "dialect/FADialect.h"
#include "passes/analysis/Explain.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/CommandLine.h"
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
  cl::OptionCategory category{"Compiling and explaining"};
  cl::opt<std::string> explain{"explain", cl::ValueOptional, cl::cat(category),
                               cl::desc("say what was chosen and what it costs"),
                               cl::value_desc("text|json")};
  cl::opt<std::string> device{"device", cl::init("h200"), cl::cat(category),
                              cl::desc("device of the roofline: h200, h100, a100, ascend910"),
                              cl::value_desc("name")};
  cl::opt<double> deviceTflops{"device-tflops", cl::cat(category),
                               cl::desc("peak of 16-bit products in TFLOP/s, in place of the device's")};
  cl::opt<double> deviceGbs{"device-gbs", cl::cat(category),
                            cl::desc("memory rate in GB/s, in place of the device's")};
  cl::opt<int64_t> batch{"batch", cl::init(1), cl::cat(category), cl::desc("batch to count for")};
  cl::opt<int64_t> heads{"heads", cl::init(8), cl::cat(category), cl::desc("query heads to count for")};
  cl::opt<int64_t> kvHeads{"kv-heads", cl::init(0), cl::cat(category),
                           cl::desc("key heads to count for (default: heads / group)")};
  cl::opt<int64_t> seqlenQ{"seqlen-q", cl::init(1024), cl::cat(category),
                           cl::desc("queries a sequence to count for")};
  cl::opt<int64_t> seqlenK{"seqlen-k", cl::init(0), cl::cat(category),
                           cl::desc("keys a sequence to count for (default: as many as queries)")};
};
} // namespace

static Options *options = nullptr;

void fathom::registerDriverOptions() {
  static Options all;
  options = &all;
}

bool fathom::driverRequested() { return options->explain.getNumOccurrences() > 0; }

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

static FailureOr<ProblemSize> getProblemSize(int64_t group) {
  constexpr int64_t limit = int64_t(1) << 31;
  Options &o = *options;
  for (auto *n : {&o.batch, &o.heads, &o.kvHeads, &o.seqlenQ, &o.seqlenK}) {
    int64_t low = n->getNumOccurrences() ? 1 : 0;
    if (*n < low || *n > limit)
      return error("expected --" + n->ArgStr + " between 1 and 2^31, got " + llvm::Twine(n->getValue()));
  }
  ProblemSize size;
  size.batch = o.batch, size.heads = o.heads, size.seqlenQ = o.seqlenQ;
  size.seqlenK = o.seqlenK.getNumOccurrences() ? o.seqlenK : o.seqlenQ;
  size.kvHeads = o.kvHeads.getNumOccurrences() ? o.kvHeads.getValue() : size.heads / group;
  if (size.heads < group || size.heads != size.kvHeads * group)
    return error("expected --heads to be " + llvm::Twine(group) + " (the group) times --kv-heads, got " +
                 llvm::Twine(size.heads) + " and " + llvm::Twine(size.kvHeads));
  return size;
}

static FailureOr<Device> getDevice() {
  Options &o = *options;
  for (auto *n : {&o.deviceTflops, &o.deviceGbs})
    if (n->getNumOccurrences() && !(*n > 0 && std::isfinite(*n)))
      return error("expected --" + n->ArgStr + " above 0, got " + std::to_string(n->getValue()));
  std::string names;
  for (const Device &d : knownDevices())
    names += (names.empty() ? "" : ", ") + d.name;
  const Device *known = llvm::find_if(knownDevices(), [&](const Device &d) { return d.name == o.device; });
  if (known == knownDevices().end())
    return error("expected --device to be one of " + names + " (or --device-tflops and --device-gbs), got '" +
                 o.device + "'");
  Device device = *known;
  if (o.deviceTflops.getNumOccurrences())
    device.tflops = o.deviceTflops;
  if (o.deviceGbs.getNumOccurrences())
    device.gbs = o.deviceGbs;
  if (o.deviceTflops.getNumOccurrences() && o.deviceGbs.getNumOccurrences())
    device.name = "as given";
  return device;
}

static LogicalResult writeReport(const ExplainReport &report, StringRef output) {
  std::string text;
  llvm::raw_string_ostream os(text);
  if (options->explain == "json")
    os << llvm::formatv("{0:2}", reportToJson(report)) << "\n";
  else
    printReport(report, os);
  return writeText(output, text);
}

//===----------------------------------------------------------------------===//
// The driver
//===----------------------------------------------------------------------===//

static OwningOpRef<ModuleOp> parse(StringRef input, llvm::SourceMgr &sources, MLIRContext &context) {
  std::string message;
  auto file = openInputFile(input, &message);
  if (!file) {
    (void)error(message);
    return {};
  }
  sources.AddNewSourceBuffer(std::move(file), {});
  return parseSourceFile<ModuleOp>(sources, &context);
}

static LogicalResult drive(StringRef input, StringRef output, MLIRContext &context,
                           llvm::SourceMgr &sources) {
  const std::string &form = options->explain;
  if (!form.empty() && form != "text" && form != "json")
    return error("expected --explain to be text or json, got '" + form + "'");
  FailureOr<Device> device = getDevice();
  FailureOr<ProblemSize> size = getProblemSize(/*group=*/1);
  if (failed(device) || failed(size))
    return failure();

  std::vector<PassRemark> remarks;
  if (failed(collectRemarks(context, remarks)))
    return failure();
  OwningOpRef<ModuleOp> module = parse(input, sources, context);
  if (!module)
    return failure();

  ExplainReport report;
  report.size = *size;
  report.device = *device;
  FailureOr<ExplainColumn> column = countModule(*module, *size, "as given");
  if (failed(column))
    return failure();
  if (column->functions.empty())
    return error("expected a function with fa.nest in '" + input + "', got none");
  report.name = column->functions.front().name;
  report.columns.push_back(std::move(*column));
  return writeReport(report, output);
}

int fathom::runDriver(StringRef input, StringRef output, DialectRegistry &registry) {
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  llvm::SourceMgr sources;
  SourceMgrDiagnosticHandler handler(sources, &context);
  return asMainReturnCode(drive(input, output, context, sources));
}
