//===- fa-run.cpp - run a variant on arrays ---------------------------------===//
//
// Compiles a variant for the arrays given, runs it forward and backward,
// checks the results against the reference and times them.
//
//===----------------------------------------------------------------------===//

#include "codegen/cuda/Nvrtc.h"
#include "runtime/Compiler.h"
#include "runtime/Devices.h"
#include "runtime/Npy.h"
#include "runtime/PartTimes.h"
#include "runtime/Peak.h"
#include "runtime/Stored.h"
#include "runtime/cache/KernelCache.h"
#include "runtime/cpu/CpuRuntime.h"
#include "runtime/oracle/ReferenceAttention.h"
#include "tools/fa-run/Inputs.h"

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"

#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <thread>

using namespace llvm;
using namespace fathom;

namespace {

constexpr int kFailed = 1, kUsage = 2;

constexpr const char kOverview[] =
    R"(fa-run: compile an attention variant, run it on arrays, check and time it.

EXAMPLES
  Random input, forward and backward, checked against the reference:
    fa-run causal.mlir --heads 8 --kv-heads 2 --seqlen-q 300 --backward --verify

  Arrays from files ([batch, sequence, heads, head dim]), results into out/:
    fa-run causal.mlir --q q.npy --k k.npy --v v.npy --do do.npy --backward --out out

  A captured table, a captured scalar, bf16:
    fa-run softcap_alibi.mlir --capture slopes=slopes.npy --capture cap=30 --dtype bf16 --verify

  Sequences of 5 and 4 packed into one:
    fa-run causal.mlir --layout packed --cu-seqlens-q 0,5,9 --verify

  Times and the ratio to this machine's peak:
    fa-run causal.mlir --heads 4 --seqlen-q 2048 --head-dim 128 --backward --bench

  On a GPU; what there is:
    fa-run causal.mlir --device cuda:0 --dtype bf16 --backward --verify --bench
    fa-run --list-devices

  Compiled ahead of time, on a machine without a GPU, and run elsewhere:
    fa-run causal.mlir --dtype bf16 --backward --target sm_90,compute_80 --emit-bundle causal.fab
    fa-run causal.mlir --dtype bf16 --backward --bundle causal.fab --device cuda

  What the cache holds:
    fa-run --cache-list
    fa-run --cache-clear

  Compiled kernels are kept in FATHOM_CACHE_DIR, XDG_CACHE_HOME/fathom or ~/.cache/fathom, at most
  FATHOM_CACHE_MIB (512) MiB of them; FATHOM_CACHE_DIR=off keeps none.

EXIT CODE
  0 all well; 1 a check failed or the run did; 2 the command line, a file, the variant or an
  operand is wrong.
)";

/// All options; made in main() so that a program with several tools in it has
/// only those of the tool that runs.
struct Options {
  cl::OptionCategory category{"fa-run options"};

  cl::opt<std::string> file{cl::Positional, cl::desc("variant.mlir"),
                            cl::cat(category)};
  cl::opt<std::string> variant =
      text("variant", "the variant meant, if the file has several", "NAME");
  cl::opt<std::string> q = text("q", "Q as .npy", "FILE");
  cl::opt<std::string> k = text("k", "K as .npy", "FILE");
  cl::opt<std::string> v = text("v", "V as .npy", "FILE");
  cl::opt<std::string> dO =
      text("do", "gradient of O as .npy (default: random)", "FILE");
  cl::opt<std::string> dLse = text(
      "dlse", "gradient of L as .npy, or 'random' (default: none)", "FILE");
  cl::list<std::string> captures{
      "capture",
      cl::desc("a captured operand: NAME=FILE.npy, NAME=random:8x128 or "
               "NAME=30 (default: random)"),
      cl::value_desc("NAME=VALUE"), cl::cat(category)};
  cl::opt<std::string> cuQ =
      text("cu-seqlens-q", "boundaries of packed sequences: 0,5,9 or a .npy",
           "LIST");
  cl::opt<std::string> cuK = text(
      "cu-seqlens-k", "the same for K and V (default: those of Q)", "LIST");
  cl::opt<std::string> layout =
      text("layout", "bshd, bhsd or packed (default: bshd)", "NAME");
  cl::opt<std::string> dtype =
      text("dtype",
           "f64, f32, bf16 or f16; arrays are rounded to it "
           "(default: that of --q, or f32)",
           "TYPE");
  cl::opt<int64_t> batch = number("batch", "random input: batch size", 1);
  cl::opt<int64_t> seqlenQ = number("seqlen-q", "random input: queries", 128);
  cl::opt<int64_t> seqlenK =
      number("seqlen-k", "random input: keys (default: as queries)", 0);
  cl::opt<int64_t> heads = number("heads", "random input: query heads", 2);
  cl::opt<int64_t> kvHeads =
      number("kv-heads", "random input: KV heads (default: as query heads)", 0);
  cl::opt<int64_t> headDim =
      number("head-dim", "random input: head dim of Q and K", 64);
  cl::opt<int64_t> headDimV = number(
      "head-dim-v", "random input: head dim of V (default: that of Q)", 0);
  cl::opt<int64_t> seed = number("seed", "random input: seed", 0);

  cl::opt<bool> backward = flag("backward", "also compute the gradients");
  cl::opt<bool> verify =
      flag("verify", "check every output against the reference");
  cl::opt<bool> bench = flag("bench", "measure times");
  cl::opt<std::string> out = text(
      "out", "directory for o.npy, lse.npy, dq.npy, dk.npy, dv.npy, d_NAME.npy",
      "DIR");
  cl::opt<std::string> device =
      text("device",
           "cpu, cuda:N, or 'reference' for the reference itself (default: "
           "FATHOM_DEVICE, else the first GPU, else cpu)",
           "NAME");
  cl::opt<bool> listDevices = flag("list-devices", "print the devices and end");
  cl::list<std::string> targets{
      "target", cl::CommaSeparated,
      cl::desc("GPUs to compile for, of which none needs to be there: sm_80, "
               "sm_90, compute_80, ...; with --compile-only or --emit-bundle"),
      cl::value_desc("TARGET,..."), cl::cat(category)};
  cl::opt<bool> compileOnly =
      flag("compile-only", "compile all pieces for --target and end");
  cl::opt<std::string> emitBundle =
      text("emit-bundle", "the same into a file that runs without compiling",
           "FILE");
  cl::opt<std::string> bundle =
      text("bundle", "run the kernels of such a file", "FILE");
  cl::opt<int64_t> threads =
      number("threads", "threads to use (default: all)", 0);

  cl::opt<int64_t> blockM =
      number("block-m", "rows of Q in a tile (default: chosen)", 0);
  cl::opt<int64_t> blockN =
      number("block-n", "rows of K in a tile (default: chosen)", 0);
  cl::opt<int64_t> numWarps =
      number("num-warps", "GPU: warps a CTA (default: chosen)", 0);
  cl::opt<int64_t> stages = number(
      "stages", "GPU: buffers for what loops copy ahead (default: chosen)", 0);
  cl::opt<std::string> pPolicy =
      text("p-policy", "recompute, store or store_compressed", "NAME");
  cl::opt<std::string> dqPolicy = text(
      "dq-policy", "sequential, atomic, ordered, split or two_kernel", "NAME");
  cl::opt<int64_t> kvSplits = number(
      "kv-splits",
      "parts of the keys in parallel in the forward (default: chosen)", 0);
  cl::opt<bool> packHeads =
      flag("pack-heads", "tiles of the query heads of a KV head in the forward "
                         "(default on a GPU: where rows are fewer than these)");
  cl::opt<int64_t> groupSplits =
      number("group-splits",
             "parts of the query heads of a KV head in parallel in the "
             "backward (default: chosen)",
             0);
  cl::opt<bool> deterministic =
      flag("deterministic", "refuse what may differ from run to run");
  cl::list<std::string> skip{"pipeline-skip", cl::CommaSeparated,
                             cl::desc("leave out these optional passes"),
                             cl::value_desc("PASS,..."), cl::cat(category)};
  cl::opt<std::string> stopAfter =
      text("stop-after-pass", "run the nest stage up to this pass", "PASS");
  cl::opt<bool> cacheStats =
      flag("cache-stats", "print what came from the cache of kernels");
  cl::opt<bool> cacheList =
      flag("cache-list", "print the entries of the cache on disk and end");
  cl::opt<bool> cacheClear =
      flag("cache-clear", "remove all entries of the cache and end");
  cl::opt<bool> timing = flag(
      "timing", "print where the time from the text to loaded kernels went");
  cl::opt<bool> countTiles =
      flag("count-tiles", "print how many tiles were computed");

private:
  cl::opt<std::string> text(StringRef name, const char *what,
                            const char *value) {
    return cl::opt<std::string>(name, cl::desc(what), cl::value_desc(value),
                                cl::cat(category));
  }
  cl::opt<int64_t> number(StringRef name, const char *what, int64_t initial) {
    return cl::opt<int64_t>(name, cl::desc(what), cl::init(initial),
                            cl::cat(category));
  }
  cl::opt<bool> flag(StringRef name, const char *what) {
    return cl::opt<bool>(name, cl::desc(what), cl::cat(category));
  }
};

int fail(int code, const std::string &message) {
  std::fflush(stdout);
  fmt::print(stderr, "fa-run: error: {}\n", message);
  return code;
}

int fail(const Status &s) {
  return fail(s.code() == ErrorCode::internal ? kFailed : kUsage, s.message());
}

/// An output in the order of the layout and its logical view; `there` is the
/// array on the device, which is `array` itself on the CPU.
struct Output {
  std::string name;
  Tensor array, logical;
  DType roundedTo;
  Tensor there = {};
};

/// One run: operands, outputs, and what computes them.
class Run {
public:
  Run(Options &o) : o(o) {}

  int main() {
    if (o.listDevices)
      return printDevices();
    if (o.cacheClear)
      clearCache();
    if (o.cacheList)
      printCache();
    if (o.file.empty() && (o.cacheStats || o.cacheList || o.cacheClear)) {
      if (o.cacheStats)
        printStats();
      return 0;
    }
    if (o.file.empty())
      return fail(
          kUsage,
          "expected a file with a fa.variant; fa-run --help has examples");
    bool compiles = o.compileOnly || !o.emitBundle.empty();
    if (!compiles && !o.targets.empty())
      return fail(kUsage, "--target: expected --compile-only or --emit-bundle "
                          "FILE beside it; --device says where to run");
    if (!compiles)
      if (Status s = chooseDevice(); !s)
        return fail(s);
    if (!o.layout.empty() || !o.cuQ.empty()) {
      auto l =
          symbolizeLayout(o.layout.empty() ? "packed" : o.layout.getValue());
      if (!l)
        return fail(
            kUsage,
            fmt::format(
                "--layout: expected one of bshd, bhsd, packed, got '{}'",
                o.layout.getValue()));
      layout = *l;
    }
    if (o.threads.getNumOccurrences() && (o.threads < 1 || o.threads > 1024))
      return fail(kUsage, fmt::format("--threads: expected 1 to 1024, got {}",
                                      o.threads.getValue()));
    threads = o.threads > 0 ? unsigned(o.threads)
                            : std::max(1u, std::thread::hardware_concurrency());
    cpu::setThreadCount(threads);
    auto loaded = VariantSource::load(o.file, o.variant);
    if (!loaded)
      return fail(loaded.status());
    source = *loaded;
    if (source->instance() && o.layout.empty())
      layout = source->instance()->layout;
    if (Status s = operands(); !s)
      return fail(s);
    if (compiles)
      return compileOnly();
    allocate();
    printHead();
    if (reference) {
      if (!answer(oracle::reference(problem(), threads), outputs))
        return fail(kFailed, messages(*source));
    } else {
      auto start = std::chrono::steady_clock::now();
      auto made = o.bundle.empty()
                      ? instantiate(source, compileOptions(), device)
                      : fromBundle();
      if (!made)
        return fail(made.status());
      instance = *made;
      if (Status s = toDevice(); !s)
        return fail(s);
      // By the operands' class, which may be the other one.
      auto compiled = instance->forward(there, results());
      if (!compiled)
        return fail(compiled.status());
      executable = *compiled;
      if (backward() && !device.isHost() && !executable->isJoint()) {
        auto piece = instance->backward(there, results());
        if (!piece)
          return fail(piece.status());
        warn(**piece);
      }
      double seconds = since(start);
      KernelCache::Stats stats = KernelCache::global().stats();
      fmt::print("{} in {:.0f} ms\n",
                 stats.compiled ? "compiled"
                 : stats.disk   ? "taken from the cache"
                                : "loaded",
                 1e3 * seconds);
      warn(*executable);
      if (o.cacheStats)
        printStats();
      cpu::resetCounters();
      if (Status s = runAll(); !s)
        return fail(s);
      if (Status s = fromDevice(); !s)
        return fail(s);
      if (o.timing)
        printTiming();
      if (o.countTiles && !device.isHost())
        if (Status s = printTicks(); !s)
          return fail(s);
      if (o.countTiles && device.isHost())
        for (auto [id, label] : enumerate(executable->nests))
          if (id < cpu::kNumCounters && cpu::readCounter(id))
            fmt::print("tiles {}: {}\n", label, cpu::readCounter(id));
    }
    bool right = true;
    if (o.verify) {
      auto checked = check();
      if (!checked)
        return fail(checked.status());
      right = *checked;
    }
    if (!o.out.empty())
      if (Status s = write(); !s)
        return fail(s);
    if (o.bench && executable)
      if (Status s = measure(); !s)
        return fail(s);
    return right ? 0 : kFailed;
  }

private:
  static double since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                         start)
        .count();
  }

  static int printDevices() {
    fathom::DeviceList list = fathom::listDevices();
    for (const DeviceInfo &d : list.devices)
      fmt::print("{:<10}{:<12}{}{}\n", d.device, d.target, d.name,
                 d.memory ? fmt::format(", {} MiB", d.memory >> 20) : "");
    if (!list.note.empty())
      fmt::print("not all can be used: {}\n", list.note);
    auto nvrtc = cuda::nvrtc();
    if (nvrtc)
      fmt::print("compiles for GPUs with NVRTC {}.{}, {}\n", (*nvrtc)->major,
                 (*nvrtc)->minor, (*nvrtc)->path);
    else
      fmt::print("compiles for no GPU: {}\n", toString(nvrtc.takeError()));
    return 0;
  }

  /// Tiles that kernels counted on the GPU.
  Status printTicks() {
    std::vector<std::shared_ptr<const Executable>> pieces{executable};
    if (backward() && !executable->isJoint()) {
      auto piece = instance->backward(there, results());
      if (!piece)
        return piece.status();
      pieces.push_back(*piece);
    }
    for (const auto &piece : pieces) {
      auto counts = piece->ticks(device.gpu);
      if (!counts)
        return counts.status();
      for (auto &[kernel, count] : *counts)
        fmt::print("tiles {}: {}\n", kernel, count);
    }
    return {};
  }

  static void printTiming() {
    fmt::print("\n{:<20}{:>10}{:>8}\n", "part", "ms", "times");
    for (const PartTime &p : partTimes())
      fmt::print("{:<20}{:>10.3f}{:>8}\n", p.part, 1e3 * p.seconds, p.count);
  }

  static void printStats() {
    CacheStats s = cacheStats();
    fmt::print("cache: {} compiled, {} from disk; on disk: {} entries, {} KiB "
               "of {} MiB{}{}\n",
               s.compiled, s.disk, s.entries, (s.bytes + 1023) / 1024,
               s.limit >> 20, s.directory.empty() ? "" : " in ", s.directory);
  }

  static void printCache() {
    for (const CacheEntry &e : cacheEntries())
      fmt::print("{} {:>6} KiB  {}\n", e.key.substr(0, 12),
                 (e.bytes + 1023) / 1024, e.what);
  }

  /// Compiles for GPUs that need not be there.
  int compileOnly() {
    if (o.targets.empty())
      return fail(kUsage, "--target is missing: give the GPUs to compile for, "
                          "for example --target sm_90,compute_80");
    auto start = std::chrono::steady_clock::now();
    CompileOptions options = compileOptions();
    auto made =
        makeBundle(*source, options, {o.targets.begin(), o.targets.end()});
    if (!made)
      return fail(made.status());
    double seconds = since(start);
    for (const Bundle::Item &item : made->items) {
      auto e = fromEntry(item.entry);
      if (!e)
        return fail(kFailed, "a compiled piece can't be read back");
      for (const cuda::Kernel &k : e->program->kernels)
        fmt::print("{} {} registers, {} + {} bytes of shared memory, {} of "
                   "spill: {}\n",
                   k.name, k.resources.registers, k.sharedBytes,
                   k.resources.staticShared, k.resources.spillStores, e->what);
      warn(*e);
    }
    KernelCache::Stats stats = KernelCache::global().stats();
    fmt::print("{} pieces in {:.0f} ms: {} compiled, {} from the cache\n",
               made->items.size(), 1e3 * seconds, stats.compiled, stats.disk);
    if (o.cacheStats)
      printStats();
    if (o.timing)
      printTiming();
    if (!o.emitBundle.empty())
      if (Status s = writeBundle(*made, o.emitBundle); !s)
        return fail(s);
    return 0;
  }

  Result<std::shared_ptr<const Instance>> fromBundle() {
    auto bundle = readBundle(o.bundle);
    if (!bundle)
      return bundle.status();
    const InstanceOptions want = compileOptions().instance,
                          &got = bundle->instance;
    auto say = [&](const std::string &name, const InstanceOptions &i) {
      return fmt::format("@{} {} {} head dims {}/{} group {}{}{}", name,
                         fathom::name(i.dtype), stringifyLayout(i.layout).str(),
                         i.headDim, i.headDimV, i.group,
                         i.gradients ? "" : " without gradients",
                         i.lseGradient ? " with a gradient of lse" : "");
    };
    std::string wants = say(source->info().name, want),
                has = say(bundle->variant.name, got);
    if (wants != has)
      return Status(
          ErrorCode::invalid_argument,
          fmt::format("--bundle: expected kernels of {}, got {}", wants, has));
    return instantiate(std::move(*bundle), device);
  }

  /// What in the kernels costs speed and should not be there.
  static void warn(const Executable &e) {
    if (!e.program)
      return;
    for (const cuda::Kernel &k : e.program->kernels)
      for (const std::string &w : cuda::warnings(k))
        fmt::print(stderr, "fa-run: warning: {}\n", w);
  }

  /// --device, or FATHOM_DEVICE, or a GPU if one can be used, or the CPU.
  Status chooseDevice() {
    std::string text = o.device;
    const char *environment = std::getenv("FATHOM_DEVICE");
    if (text.empty() && environment)
      text = environment;
    reference = text == "reference";
    if (reference)
      return {};
    if (text.empty()) {
      bool cpuOnly = o.countTiles || !o.stopAfter.empty();
      text = "cpu";
      if (!cpuOnly) {
        fathom::DeviceList list = fathom::listDevices();
        if (list.devices.size() > 1 && list.note.empty())
          text = "cuda:0";
      }
    }
    auto parsed = parseDevice(text);
    if (!parsed)
      return {ErrorCode::invalid_argument,
              fmt::format("--device: expected one of cpu, cuda, cuda:N, "
                          "reference, got '{}'",
                          text)};
    device = *parsed;
    return {};
  }

  /// Operands and outputs for the device: copies, outputs with their NaN.
  Status toDevice() {
    there = x;
    for (Output &out : outputs)
      out.there = out.array;
    if (device.isHost())
      return {};
    std::vector<Tensor *> inputs{
        &there.q,          &there.k,          &there.v,   &there.dO,
        &there.cuSeqlensQ, &there.cuSeqlensK, &there.dLse};
    for (size_t c = 0; c < there.captures.size(); ++c)
      if (source->info().captures[c].isTensor)
        inputs.push_back(&there.captures[c]);
    for (Tensor *t : inputs)
      if (t->defined())
        if (Status s = send(*t); !s)
          return s;
    for (Output &out : outputs)
      if (Status s = send(out.there); !s)
        return s;
    return {};
  }

  /// Replaces `t` by a copy on the device whose dims lie in memory in the same
  /// order.
  Status send(Tensor &t) {
    std::vector<int64_t> order(t.rank()), back(t.rank());
    for (size_t d = 0; d < order.size(); ++d)
      order[d] = d;
    std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return std::tie(t.strides[b], a) < std::tie(t.strides[a], b);
    });
    for (size_t d = 0; d < order.size(); ++d)
      back[order[d]] = d;
    Tensor dense = t.permuted(order);
    if (!dense.isContiguous())
      dense = dense.to(dense.dtype);
    auto copied = fathom::allocate(device, dense.dtype, dense.shape);
    if (!copied)
      return copied.status();
    if (Status s = fathom::copy(dense, *copied); !s)
      return s;
    t = copied->permuted(back);
    return {};
  }

  Status fromDevice() {
    if (device.isHost())
      return {};
    if (Status s = synchronize(device, nullptr); !s)
      return s;
    for (Output &out : outputs)
      if (Status s = fathom::copy(out.there, out.array); !s)
        return s;
    return {};
  }

  Status runAll() {
    if (device.isHost() || executable->isJoint())
      return executable->run(there, results(), {device});
    Executable::Saved kept;
    Results r = results();
    if (Status s = executable->forward(there, r, kept, {device}); !s)
      return s;
    return backward() ? runBackward(r, kept) : Status();
  }

  Status runBackward(const Results &r, const Executable::Saved &kept) {
    auto piece = instance->backward(there, r);
    if (!piece)
      return piece.status();
    return (*piece)->backward(there, r, kept, {device});
  }

  static std::string messages(VariantSource &source) {
    return fmt::format("@{} can not be evaluated", source.info().name);
  }

  Status operands() {
    InputOptions in;
    in.q = o.q, in.k = o.k, in.v = o.v, in.dO = o.dO;
    in.randomDLse = o.dLse == "random";
    in.dLse = in.randomDLse ? "" : o.dLse.getValue();
    in.captures.assign(o.captures.begin(), o.captures.end());
    in.cuSeqlensQ = o.cuQ, in.cuSeqlensK = o.cuK;
    in.dtype = o.dtype;
    in.layout = layout;
    in.backward = o.backward || !o.dO.empty() || !o.dLse.empty();
    // 0 is a size: only an option that is not given follows another.
    auto given = [](const cl::opt<int64_t> &option, int64_t otherwise) {
      return option.getNumOccurrences() ? option.getValue() : otherwise;
    };
    in.batch = o.batch, in.seqlenQ = o.seqlenQ;
    in.seqlenK = given(o.seqlenK, o.seqlenQ);
    in.heads = o.heads, in.kvHeads = given(o.kvHeads, o.heads);
    in.headDim = o.headDim, in.headDimV = given(o.headDimV, o.headDim);
    in.seed = o.seed;
    if (auto is =
            source->instance()) { // it says what the command line need not
      if (o.dtype.empty() && o.q.empty())
        in.dtype = name(is->dtype);
      if (!o.headDim.getNumOccurrences())
        in.headDim = is->headDim;
      if (!o.headDimV.getNumOccurrences())
        in.headDimV = is->headDimV;
      if (!o.kvHeads.getNumOccurrences())
        in.kvHeads = std::max<int64_t>(in.heads / is->group, 1);
    }
    auto made = makeInputs(source->op(), source->info(), in);
    if (!made)
      return made.status();
    auto bound = bind(source->info(), layout, std::move(*made));
    if (!bound)
      return bound.status();
    x = std::move(*bound);
    return {};
  }

  bool backward() const { return x.dO.defined(); }

  /// Outputs hold NaN until they are written.
  void allocate() {
    DType t = x.q.dtype, acc = accType(t);
    std::vector<int64_t> oShape = x.q.shape,
                         rows(oShape.begin(), oShape.end() - 1);
    oShape.back() = x.v.shape.back();
    auto add = [&](const char *name, std::vector<int64_t> shape) {
      Tensor a = Tensor::zeros(t, shapeInLayout(shape, layout));
      outputs.push_back({name, a, toLogical(a, layout), t});
    };
    add("o", oShape);
    Tensor lse = Tensor::zeros(acc, shapeInLayout(rows, layout));
    outputs.push_back({"lse", lse, lseToLogical(lse, layout), acc});
    if (backward()) {
      add("dq", x.q.shape);
      add("dk", x.k.shape);
      add("dv", x.v.shape);
      for (size_t c = 0; c < x.captures.size(); ++c) {
        if (!isFloat(x.captures[c].dtype))
          continue;
        Tensor g = Tensor::zeros(acc, x.captures[c].shape);
        outputs.push_back({"d_" + source->info().captures[c].name, g, g, t});
      }
    }
    for (Output &out : outputs)
      out.array.fill(NAN);
  }

  /// The outputs on the device.
  Results results() {
    Results r;
    r.o = toLogical(outputs[0].there, layout);
    r.lse = lseToLogical(outputs[1].there, layout);
    if (!backward())
      return r;
    r.dq = toLogical(outputs[2].there, layout);
    r.dk = toLogical(outputs[3].there, layout);
    r.dv = toLogical(outputs[4].there, layout);
    size_t n = 5;
    for (const Tensor &c : x.captures)
      r.dCaptures.push_back(isFloat(c.dtype) ? outputs[n++].there : Tensor());
    return r;
  }

  oracle::Problem problem() const {
    oracle::Problem p;
    p.variant = source->op();
    p.q = x.q, p.k = x.k, p.v = x.v, p.dO = x.dO, p.dLse = x.dLse;
    p.captures = x.captures;
    p.cuSeqlensQ = boundaries(x.cuSeqlensQ);
    p.cuSeqlensK = boundaries(x.cuSeqlensK);
    return p;
  }

  /// The answer's tensors in the order of `outputs`.
  std::vector<Tensor> inOrder(const oracle::Answer &a) const {
    std::vector<Tensor> list{a.o, a.lse};
    if (backward()) {
      list.insert(list.end(), {a.dq, a.dk, a.dv});
      for (const Tensor &t : a.dCaptures)
        if (t.defined())
          list.push_back(t);
    }
    return list;
  }

  std::vector<Tensor> slackInOrder(const oracle::Answer &a) const {
    std::vector<Tensor> list{{}, {}, a.dqSlack, a.dkSlack, a.dvSlack};
    for (const Tensor &t : a.dCaptureSlacks)
      if (t.defined())
        list.push_back(t);
    return list;
  }

  bool answer(FailureOr<oracle::Answer> a, std::vector<Output> &to) const {
    if (failed(a))
      return false;
    for (auto [out, t] : zip(to, inOrder(*a)))
      for (int64_t n = 0, e = t.size(); n < e; ++n)
        out.logical.store(out.logical.offsetOf(n), t.load(n));
    return true;
  }

  CompileOptions compileOptions() const {
    CompileOptions c;
    c.instance = {x.q.dtype, x.q.shape[3], x.v.shape[3],    x.group(),
                  layout,    backward(),   x.dLse.defined()};
    c.blockM = o.blockM, c.blockN = o.blockN;
    c.numWarps = o.numWarps, c.stages = o.stages;
    c.pPolicy = o.pPolicy, c.dqPolicy = o.dqPolicy;
    c.kvSplits = o.kvSplits;
    c.packHeads = o.packHeads;
    c.groupSplits = o.groupSplits;
    c.skipPasses.assign(o.skip.begin(), o.skip.end());
    c.stopAfter = o.stopAfter;
    c.deterministic = o.deterministic;
    c.countTiles = o.countTiles;
    c.aligned = isAligned(x.q) && isAligned(x.k) && isAligned(x.v);
    if (!device.isHost() || !o.targets.empty())
      chooseForSizes(c, x);
    return c;
  }

  void printHead() {
    fmt::print("@{} {} {}: batch {}, heads {} / {}, lengths {} / {}, head dims "
               "{} / {}\n",
               source->info().name, name(x.q.dtype),
               stringifyLayout(layout).str(), x.q.shape[0], x.q.shape[1],
               x.k.shape[1], x.q.shape[2], x.k.shape[2], x.q.shape[3],
               x.v.shape[3]);
  }

  Result<bool> check() {
    oracle::Problem p = problem();
    bool compressed = executable && executable->compressedP;
    auto ref = oracle::reference(p, threads, compressed),
         rough =
             oracle::naive(p, threads, compressed ? oracle::roundP8 : nullptr);
    if (failed(ref) || failed(rough))
      return Status(ErrorCode::invalid_argument, messages(*source));
    bool all = true;
    size_t width = 8;
    for (const Output &out : outputs)
      width = std::max(width, out.name.size() + 2);
    fmt::print("\n{:<{}}{:>12}{:>12}\n", "output", width, "max error",
               "tolerance");
    std::vector<Tensor> want = inOrder(*ref), loose = inOrder(*rough);
    std::vector<Tensor> slack = slackInOrder(*ref);
    for (auto [n, out] : enumerate(outputs)) {
      oracle::Check c = oracle::compare(out.name, out.logical, want[n],
                                        loose[n], out.roundedTo, slack[n]);
      fmt::print("{:<{}}{:>12.2e}{:>12.2e}  {}{}\n", c.name, width, c.error,
                 c.tolerance, c.pass ? "ok" : "FAIL ", c.worst);
      all &= c.pass;
    }
    if (compressed)
      fmt::print("The gradients' tolerance is that of a P kept in 8 bits.\n");
    return all;
  }

  Status write() {
    if (auto error = sys::fs::create_directories(o.out))
      return {ErrorCode::io_error,
              fmt::format("cannot make directory '{}': {}", o.out.getValue(),
                          error.message())};
    for (const Output &out : outputs)
      if (Status s = writeNpy(o.out + "/" + out.name + ".npy", out.array); !s)
        return s;
    return {};
  }

  template <typename F>
  Result<double> median(F f, int &runs) {
    std::vector<double> times;
    // On a GPU as many calls in a row as take 5 ms, and one wait for them.
    int calls = 1;
    runs = 0;
    for (double total = 0;
         times.size() < 5 || (total < 1 && times.size() < 101);) {
      auto start = std::chrono::steady_clock::now();
      for (int n = 0; n < calls; ++n)
        if (Status s = f(); !s)
          return s;
      if (Status s = synchronize(device, nullptr); !s)
        return s;
      double seconds = since(start);
      if (!device.isHost() && seconds < 5e-3 && calls < 10000) {
        calls = std::clamp<int>(calls * 6e-3 / seconds, calls + 1, 10000);
        continue; // too few to tell, or the first, which loads the code
      }
      times.push_back(seconds / calls);
      total += seconds;
      runs += calls;
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  }

  Status measure() {
    auto pairs = oracle::visiblePairs(problem());
    if (failed(pairs))
      return {ErrorCode::invalid_argument, messages(*source)};
    // Of a GPU there is no peak to measure with the CPU's loop.
    bool host = device.isHost();
    double peak = host ? measurePeak(x.q.dtype, threads) : 0;
    double d = x.q.shape[3], dv = x.v.shape[3];
    double forwardWork = 2 * *pairs * (d + dv),
           backwardWork = 2 * *pairs * (3 * d + 2 * dv);
    Results r = results();
    struct Line {
      const char *what;
      double seconds, work;
      int runs;
    };
    std::vector<Line> lines;
    auto line = [&](const char *what, double work, auto &&f) -> Status {
      int runs = 0;
      auto t = median(f, runs);
      if (!t)
        return t.status();
      lines.push_back({what, *t, work, runs});
      if (host) // others may have run meanwhile
        peak = std::max(peak, measurePeak(x.q.dtype, threads));
      return {};
    };
    if (executable->isJoint()) {
      if (Status s = line(backward() ? "both" : "forward",
                          forwardWork + (backward() ? backwardWork : 0),
                          [&] { return executable->run(there, r, {device}); });
          !s)
        return s;
    } else {
      Executable::Saved kept;
      if (Status s = line(
              "forward", forwardWork,
              [&] { return executable->forward(there, r, kept, {device}); });
          !s)
        return s;
      if (backward())
        if (Status s = line("backward", backwardWork,
                            [&] { return runBackward(r, kept); });
            !s)
          return s;
    }
    if (!host) {
      fmt::print("\n{:<12}{:>12}{:>8}{:>12}\n", "", "median ms", "runs",
                 "TFLOP/s");
      for (const Line &l : lines)
        fmt::print("{:<12}{:>12.4f}{:>8}{:>12.1f}\n", l.what, 1e3 * l.seconds,
                   l.runs, l.work / l.seconds / 1e12);
      return {};
    }
    fmt::print("\n{:<12}{:>12}{:>8}{:>12}{:>10}\n", "", "median ms", "runs",
               "GFLOP/s", "of peak");
    for (const Line &l : lines)
      fmt::print("{:<12}{:>12.3f}{:>8}{:>12.1f}{:>10.2f}\n", l.what,
                 1e3 * l.seconds, l.runs, l.work / l.seconds / 1e9,
                 l.work / l.seconds / peak);
    fmt::print("peak: {:.1f} GFLOP/s of {} multiply-adds on {} thread{}, the "
               "best before and after\n",
               peak / 1e9, x.q.dtype == DType::f64 ? "f64" : "f32", threads,
               threads == 1 ? "" : "s");
    return {};
  }

  Options &o;
  Layout layout = Layout::bshd;
  unsigned threads = 1;
  std::shared_ptr<VariantSource> source;
  Device device;
  bool reference = false;
  Operands x;     ///< on the host
  Operands there; ///< on the device
  std::vector<Output> outputs;
  std::shared_ptr<const Instance> instance;
  std::shared_ptr<const Executable> executable; ///< of the forward
};

} // namespace

int main(int argc, char **argv) {
  cl::ResetCommandLineParser(); // without the options that LLVM's libraries bring
  Options options;
  cl::HideUnrelatedOptions(options.category);
  cl::SetVersionPrinter(
      [](raw_ostream &os) { os << "fa-run " FATHOM_VERSION "\n"; });
  std::string problems;
  raw_string_ostream os(problems);
  if (!cl::ParseCommandLineOptions(argc, argv, kOverview, &os)) {
    fmt::print(stderr, "{}", problems);
    return kUsage;
  }
  return Run(options).main();
}
