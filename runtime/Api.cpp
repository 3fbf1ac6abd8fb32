//===- Api.cpp - the public C++ interface -----------------------------------===//
//
// Turns the caller's tensors into checked views, calls the compiler or the
// compiled instance, and hands back what the caller did not preallocate.
//
//===----------------------------------------------------------------------===//

#include "runtime/Bundle.h"
#include "runtime/Compiler.h"
#include "runtime/DLPack.h"
#include "runtime/Devices.h"
#include "runtime/Merge.h"
#include "runtime/Stored.h"
#include "runtime/cache/KernelCache.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace fathom {
namespace {

template <typename... Args>
Status invalid(fmt::format_string<Args...> format, Args &&...args) {
  return {ErrorCode::invalid_argument,
          fmt::format(format, std::forward<Args>(args)...)};
}

Result<Layout> parseLayout(const std::string &text) {
  if (auto l = symbolizeLayout(text))
    return *l;
  return invalid("option layout: expected one of bshd, bhsd, packed, got '{}'",
                 text);
}

/// The operands as views of arrays on `device`, not yet checked against each
/// other.
Result<Operands> views(const VariantInfo &variant, const Inputs &in,
                       Device device) {
  Operands x;
  x.maxSeqlenQ = in.maxSeqlenQ;
  x.maxSeqlenK = in.maxSeqlenK;
  for (auto [name, ref, to] :
       {std::tuple{"q", &in.q, &x.q},
        {"k", &in.k, &x.k},
        {"v", &in.v, &x.v},
        {"cu_seqlens_q", &in.cuSeqlensQ, &x.cuSeqlensQ},
        {"cu_seqlens_k", &in.cuSeqlensK, &x.cuSeqlensK}}) {
    if (!ref->given())
      continue; // bind() says what is missing
    auto t = fromDLPack(name, *ref, device);
    if (!t)
      return t.status();
    *to = *t;
  }
  for (size_t c = 0; c < in.captures.size(); ++c) {
    bool known = c < variant.captures.size();
    bool scalar = known && !variant.captures[c].isTensor; // read by the host
    auto t = fromDLPack(known ? variant.captures[c].name : "capture",
                        in.captures[c], scalar ? Device() : device);
    if (!t)
      return t.status();
    x.captures.push_back(*t);
  }
  return x;
}

/// The outputs of one call: checked where the caller gave them, else new.
class OutputSet {
public:
  OutputSet(const Operands &x, Device device, void *stream = nullptr)
      : device(device), stream(stream) {
    for (const Tensor *t : {&x.q, &x.k, &x.v, &x.dO, &x.dLse})
      inputs.push_back(*t);
    inputs.insert(inputs.end(), x.captures.begin(), x.captures.end());
  }
  void alsoRead(const Tensor &t) { inputs.push_back(t); }

  /// Puts the output into `tensor` and, if it is new, into `array`.
  void add(const char *name, const TensorRef &given, const Tensor &like,
           Tensor &tensor, Array &array) {
    if (error)
      return;
    if (!given.given()) {
      auto t = allocate(device, like.dtype, like.shape, stream);
      if (!t) {
        error = Status(t.status().code(), fmt::format("output '{}': {}", name,
                                                      t.status().message()));
        return;
      }
      tensor = *t;
      array = toArray(tensor);
      return;
    }
    auto t = outputFromDLPack(name, given, device);
    if (!t) {
      error = t.status();
      return;
    }
    if (t->shape != like.shape || t->dtype != like.dtype) {
      error = invalid("operand '{}': expected {}, got {}", name,
                      like.describe(), t->describe());
      return;
    }
    for (const Tensor &other : inputs)
      if (overlap(*t, other))
        error = invalid("operand '{}': expected an output apart from all "
                        "inputs, got one that "
                        "overlaps an input",
                        name);
    for (auto &[otherName, other] : outputs)
      if (overlap(*t, other))
        error = invalid("operand '{}': expected an output apart from the "
                        "others, got one that "
                        "overlaps '{}'",
                        name, otherName);
    outputs.push_back({name, *t});
    tensor = *t;
  }

  std::optional<Status> error;

private:
  Device device;
  void *stream;
  std::vector<Tensor> inputs;
  std::vector<std::pair<std::string, Tensor>> outputs;
};

/// The type and shape of an output in the order of the layout; no memory.
Tensor shaped(DType dtype, const Dims &logicalShape, Layout layout) {
  return Tensor::view(dtype, shapeInLayout(logicalShape, layout), nullptr);
}

CallContext where(Device device, const Call &call) {
  return {device, call.stream, call.workspace, call.workspaceBytes};
}

Dims rowsOf(const Operands &x) {
  return {x.q.shape[0], x.q.shape[1], x.q.shape[2]};
}

Dims outputShape(const Operands &x) {
  return {x.q.shape[0], x.q.shape[1], x.q.shape[2], x.v.shape[3]};
}

} // namespace

struct Variant::Impl {
  std::shared_ptr<VariantSource> source;
};

struct Kernel::Impl {
  VariantInfo variant;
  InstanceOptions instance;
  std::shared_ptr<const Instance> code;

  Device device() const { return code->device(); }
  Result<Operands> operands(const Inputs &in) const;
  /// Operands of which only sizes are looked at: no memory stands behind them.
  Operands shapedOperands(const Shape &s) const;
  Result<Workspace> workspace(Operands x) const;
};

struct Saved::Impl {
  std::shared_ptr<const Instance> code;
  Operands x;
  Tensor o, lse; // logical
  Executable::Saved kept;
};

//===----------------------------------------------------------------------===//
// Variant
//===----------------------------------------------------------------------===//

static Result<Variant> make(Result<std::shared_ptr<VariantSource>> source) {
  if (!source)
    return source.status();
  auto impl = std::make_shared<Variant::Impl>();
  impl->source = std::move(*source);
  return Variant(std::move(impl));
}

Result<Variant> Variant::parse(const std::string &text,
                               const std::string &name) {
  return make(VariantSource::parse(text, "<text>", name));
}

Result<Variant> Variant::load(const std::string &path,
                              const std::string &name) {
  return make(VariantSource::load(path, name));
}

const std::string &Variant::name() const { return impl->source->info().name; }

std::vector<std::string> Variant::captures() const {
  std::vector<std::string> names;
  for (const CaptureInfo &c : impl->source->info().captures)
    names.push_back(c.name);
  return names;
}

/// What the caller's words mean.
static Result<CompileOptions> toCompileOptions(const KernelOptions &o) {
  auto dtype = parseDType(o.dtype);
  if (!dtype || !isFloat(*dtype))
    return invalid(
        "option dtype: expected one of f64, f32, bf16, f16, got '{}'", o.dtype);
  auto layout = parseLayout(o.layout);
  if (!layout)
    return layout.status();
  CompileOptions c;
  c.instance = {
      *dtype,  o.headDim,   o.headDimV ? o.headDimV : o.headDim, o.group,
      *layout, o.gradients, o.gradients && o.lseGradient};
  for (auto [what, d] : {std::pair{"headDim", c.instance.headDim},
                         {"headDimV", c.instance.headDimV}})
    if (d < 1 || d > 512)
      return invalid("option {}: expected 1 to 512, got {}", what, d);
  if (o.group < 1)
    return invalid("option group: expected at least 1, got {}", o.group);
  c.blockM = o.blockM;
  c.blockN = o.blockN;
  c.pPolicy = o.pPolicy;
  c.dqPolicy = o.dqPolicy;
  c.dqSplits = o.dqSplits;
  c.kvSplits = o.kvSplits;
  c.seqlenQHint = o.seqlenQHint;
  c.deterministic = o.deterministic;
  c.aligned = rowsAreAligned(c.instance);
  return c;
}

static Kernel makeKernel(const VariantInfo &variant,
                         const InstanceOptions &instance,
                         std::shared_ptr<const Instance> code) {
  auto kernel = std::make_shared<Kernel::Impl>();
  kernel->variant = variant;
  kernel->instance = instance;
  kernel->code = std::move(code);
  return Kernel(std::move(kernel));
}

static Result<Kernel> compileWith(const std::shared_ptr<VariantSource> &source,
                                  const CompileOptions &options,
                                  Device device) {
  auto code = instantiate(source, options, device);
  if (!code)
    return code.status();
  return makeKernel(source->info(), options.instance, *code);
}

Result<Kernel> Variant::compile(const KernelOptions &o) const {
  auto options = toCompileOptions(o);
  if (!options)
    return options.status();
  auto device = parseDevice(o.device);
  if (!device)
    return device.status();
  return compileWith(impl->source, *options, *device);
}

Status Variant::precompile(const KernelOptions &o,
                           const std::string &target) const {
  auto options = toCompileOptions(o);
  if (!options)
    return options.status();
  return makeBundle(*impl->source, *options, {target}).status();
}

Status Variant::bundle(const KernelOptions &o,
                       const std::vector<std::string> &targets,
                       const std::string &path) const {
  auto options = toCompileOptions(o);
  if (!options)
    return options.status();
  auto bundle = makeBundle(*impl->source, *options, targets);
  return bundle ? writeBundle(*bundle, path) : bundle.status();
}

Result<Kernel> Kernel::load(const std::string &path,
                            const std::string &deviceName) {
  auto device = parseDevice(deviceName);
  if (!device)
    return device.status();
  auto bundle = readBundle(path);
  if (!bundle)
    return bundle.status();
  VariantInfo variant = bundle->variant;
  InstanceOptions instance = bundle->instance;
  auto code = instantiate(std::move(*bundle), *device);
  if (!code)
    return code.status();
  return makeKernel(variant, instance, *code);
}

Result<Kernel> Variant::compileFor(const Inputs &inputs,
                                   KernelOptions options) const {
  auto layout = parseLayout(options.layout);
  if (!layout)
    return layout.status();
  const VariantInfo &info = impl->source->info();
  auto q = fromDLPack("q", inputs.q);
  if (!q)
    return q.status();
  options.device = fathom::name(q->device);
  auto given = views(info, inputs, q->device);
  if (!given)
    return given.status();
  auto x = bind(info, *layout, std::move(*given));
  if (!x)
    return x.status();
  options.dtype = fathom::name(x->q.dtype);
  options.headDim = x->q.shape[3];
  options.headDimV = x->v.shape[3];
  options.group = x->group();
  auto compileOptions = toCompileOptions(options);
  if (!compileOptions)
    return compileOptions.status();
  if (!q->device.isHost())
    chooseForSizes(*compileOptions, *x);
  return compileWith(impl->source, *compileOptions, q->device);
}

//===----------------------------------------------------------------------===//
// Kernel
//===----------------------------------------------------------------------===//

Result<Operands> Kernel::Impl::operands(const Inputs &in) const {
  auto given = views(variant, in, device());
  if (!given)
    return given.status();
  auto bound = bind(variant, instance.layout, std::move(*given));
  if (!bound)
    return bound;
  if (bound->q.dtype != instance.dtype)
    return invalid(
        "operand 'q': expected {}, which the kernel was compiled for, got {}",
        fathom::name(instance.dtype), fathom::name(bound->q.dtype));
  for (auto [operand, got, want] :
       {std::tuple{"q", bound->q.shape[3], instance.headDim},
        {"v", bound->v.shape[3], instance.headDimV}})
    if (got != want)
      return invalid("operand '{}': expected head dim {}, which the kernel was "
                     "compiled for, got {}",
                     operand, want, got);
  if (bound->q.shape[1] != instance.group * bound->k.shape[1])
    return invalid("operand 'q': expected {} heads, {} for each head of 'k', "
                   "which the kernel was "
                   "compiled for, got {}",
                   instance.group * bound->k.shape[1], instance.group,
                   bound->q.shape[1]);
  for (size_t c = 0; c < bound->captures.size(); ++c) {
    DType want = variant.captureType(c, instance.dtype);
    Tensor &t = bound->captures[c];
    if (t.dtype == want)
      continue;
    if (!t.device.isHost())
      return invalid("captured operand '{}': expected {} on a GPU, where "
                     "nothing is converted, got {}",
                     variant.captures[c].name, fathom::name(want),
                     t.describe());
    t = t.to(want);
  }
  return bound;
}

Result<ForwardResult> Kernel::forward(const Inputs &inputs,
                                      const Outputs &outputs,
                                      const Call &call) const {
  auto x = impl->operands(inputs);
  if (!x)
    return x.status();
  const InstanceOptions &i = impl->instance;
  ForwardResult result;
  Results r;
  OutputSet set(*x, impl->device(), call.stream);
  set.add("o", outputs.o, shaped(i.dtype, outputShape(*x), i.layout), r.o,
          result.o);
  set.add("lse", outputs.lse, shaped(accType(i.dtype), rowsOf(*x), i.layout),
          r.lse, result.lse);
  if (set.error)
    return *set.error;
  r.o = toLogical(r.o, i.layout);
  r.lse = lseToLogical(r.lse, i.layout);
  auto part = impl->code->forward(*x, r);
  if (!part)
    return part.status();
  Executable::Saved kept;
  if (Status s = (*part)->forward(*x, r, kept, where(impl->device(), call)); !s)
    return s;
  if (!i.gradients)
    return result;
  auto saved = std::make_shared<Saved::Impl>();
  saved->code = impl->code;
  saved->x = std::move(*x);
  saved->o = r.o;
  saved->lse = r.lse;
  saved->kept = std::move(kept);
  result.saved = Saved(std::move(saved));
  return result;
}

Result<Gradients> Kernel::backward(const Saved &saved, TensorRef dO,
                                   TensorRef dLse,
                                   const GradientOutputs &outputs,
                                   const Call &call) const {
  const InstanceOptions &i = impl->instance;
  if (!saved.get())
    return invalid("expected what forward saved, got nothing; compile with "
                   "gradients = true");
  if (!saved.get()->code->isSame(*impl->code))
    return invalid("expected what a forward of this kernel saved, got that of "
                   "another kernel");
  if (dLse.given() != i.lseGradient)
    return invalid("operand 'dlse': the kernel was compiled with lseGradient = "
                   "{}, but it is {}",
                   i.lseGradient, dLse.given() ? "given" : "missing");
  Operands x = saved.get()->x;
  Dims rows = rowsOf(x);
  struct Input {
    const char *name;
    const TensorRef &ref;
    Tensor like;
    Tensor &to;
  };
  for (Input in :
       {Input{"do", dO, shaped(i.dtype, outputShape(x), i.layout), x.dO},
        Input{"dlse", dLse, shaped(accType(i.dtype), rows, i.layout),
              x.dLse}}) {
    if (!in.ref.given() && in.name == std::string("dlse"))
      continue;
    auto t = fromDLPack(in.name, in.ref, impl->device());
    if (!t)
      return t.status();
    if (t->shape != in.like.shape || t->dtype != in.like.dtype)
      return invalid("operand '{}': expected {}, got {}", in.name,
                     in.like.describe(), t->describe());
    in.to = *t;
  }
  x.dO = toLogical(x.dO, i.layout);
  if (x.dLse.defined())
    x.dLse = lseToLogical(x.dLse, i.layout);

  Gradients result;
  Results r;
  r.o = saved.get()->o;
  r.lse = saved.get()->lse;
  OutputSet set(x, impl->device(), call.stream);
  set.alsoRead(r.o);
  set.alsoRead(r.lse);
  set.add("dq", outputs.dq, shaped(i.dtype, x.q.shape, i.layout), r.dq,
          result.dq);
  set.add("dk", outputs.dk, shaped(i.dtype, x.k.shape, i.layout), r.dk,
          result.dk);
  set.add("dv", outputs.dv, shaped(i.dtype, x.v.shape, i.layout), r.dv,
          result.dv);
  if (!outputs.dCaptures.empty() &&
      outputs.dCaptures.size() != x.captures.size())
    return invalid("expected {} captured gradients (or none), one per captured "
                   "operand, got {}",
                   x.captures.size(), outputs.dCaptures.size());
  r.dCaptures.resize(x.captures.size());
  result.dCaptures.resize(x.captures.size());
  for (size_t c = 0; c < x.captures.size(); ++c)
    if (isFloat(x.captures[c].dtype))
      set.add(("gradient of " + impl->variant.captures[c].name).c_str(),
              outputs.dCaptures.empty() ? TensorRef() : outputs.dCaptures[c],
              Tensor::view(accType(i.dtype), x.captures[c].shape, nullptr),
              r.dCaptures[c], result.dCaptures[c]);
  if (set.error)
    return *set.error;
  for (Tensor *t : {&r.dq, &r.dk, &r.dv})
    *t = toLogical(*t, i.layout);
  auto part = impl->code->backward(x, r);
  if (!part)
    return part.status();
  if (Status s = (*part)->backward(x, r, saved.get()->kept,
                                   where(impl->device(), call));
      !s)
    return s;
  return result;
}

Operands Kernel::Impl::shapedOperands(const Shape &s) const {
  static std::byte nothing alignas(16)[16];
  int64_t kvHeads = s.heads / instance.group;
  auto view = [&](int64_t heads, int64_t length, int64_t dim) {
    return Tensor::view(instance.dtype, {s.batch, heads, length, dim}, nothing);
  };
  Operands x;
  x.q = view(s.heads, s.seqlenQ, instance.headDim);
  x.k = view(kvHeads, s.seqlenK, instance.headDim);
  x.v = view(kvHeads, s.seqlenK, instance.headDimV);
  if (instance.layout == Layout::packed) {
    x.cuSeqlensQ = x.cuSeqlensK =
        Tensor::view(DType::i32, {s.sequences + 1}, nothing);
    x.maxSeqlenQ = s.seqlenQ;
    x.maxSeqlenK = s.seqlenK;
  }
  for (size_t c = 0; c < variant.captures.size(); ++c)
    x.captures.push_back(Tensor::view(
        variant.captureType(c, instance.dtype),
        std::vector<int64_t>(variant.captures[c].shape.size(), 1), nothing));
  return x;
}

Result<Workspace> Kernel::Impl::workspace(Operands x) const {
  Workspace bytes;
  if (device().isHost())
    return bytes;
  // Outputs of the right sizes; that they lie on each other matters to no one.
  DType acc = accType(instance.dtype);
  Results r;
  r.o = x.dO = Tensor::view(instance.dtype, outputShape(x), x.q.data);
  r.lse = Tensor::view(acc, rowsOf(x), x.q.data);
  if (instance.lseGradient)
    x.dLse = r.lse;
  r.dq = x.q, r.dk = x.k, r.dv = x.v;
  r.dCaptures = x.captures;
  for (Tensor &t : r.dCaptures)
    t.dtype = acc;
  auto forward = code->forward(x, r);
  if (!forward)
    return forward.status();
  Executable::Saved kept;
  auto shapes = (*forward)->savedShapes(x);
  if (!shapes)
    return shapes.status();
  for (const auto &[type, shape] : *shapes)
    kept.push_back(Tensor::view(type, shape, x.q.data));
  auto size = (*forward)->forwardWorkspace(x, r, kept);
  if (!size)
    return size.status();
  bytes.forward = *size;
  if (!instance.gradients)
    return bytes;
  auto backward = code->backward(x, r);
  if (!backward)
    return backward.status();
  size = (*backward)->backwardWorkspace(x, r, kept);
  if (!size)
    return size.status();
  bytes.backward = *size;
  return bytes;
}

Result<Workspace> Kernel::workspace(const Inputs &inputs) const {
  auto x = impl->operands(inputs);
  if (!x)
    return x.status();
  return impl->workspace(std::move(*x));
}

Result<MemoryEstimate> Kernel::estimate(const Shape &s) const {
  const InstanceOptions &i = impl->instance;
  if (s.batch < 0 || s.heads < 0 || s.seqlenQ < 0 || s.seqlenK < 0 ||
      s.sequences < 0 || s.heads % i.group)
    return invalid("expected sizes of at least 0 and a head count that {} "
                   "divides, got batch {}, "
                   "heads {}, lengths {} and {}, sequences {}",
                   i.group, s.batch, s.heads, s.seqlenQ, s.seqlenK,
                   s.sequences);
  int64_t kvHeads = s.heads / i.group, bytes = byteSize(i.dtype);
  int64_t q = s.batch * s.heads * s.seqlenQ, k = s.batch * kvHeads * s.seqlenK;
  MemoryEstimate m;
  m.inputs = (q * i.headDim + k * (i.headDim + i.headDimV)) * bytes;
  m.outputs = q * (i.headDimV * bytes + byteSize(accType(i.dtype)));
  m.gradients = i.gradients ? m.inputs : 0;
  Operands x = impl->shapedOperands(s);
  auto part = impl->code->get(Piece::forward, rowsAreAligned(i));
  if (!part)
    return part.status();
  auto sizes = (*part)->savedShapes(x);
  if (!sizes)
    return sizes.status();
  for (const auto &[type, shape] : *sizes) {
    int64_t n = byteSize(type);
    for (int64_t d : shape)
      n *= d;
    m.saved += n;
  }
  auto workspace = impl->workspace(std::move(x));
  if (!workspace)
    return workspace.status();
  m.workspaceForward = workspace->forward;
  m.workspaceBackward = workspace->backward;
  return m;
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

Result<Array> copyTo(const std::string &deviceName, const TensorRef &tensor,
                     void *stream) {
  auto device = parseDevice(deviceName);
  if (!device)
    return device.status();
  auto from = fromDLPack("tensor", tensor);
  if (!from)
    return from.status();
  if (!from->isContiguous()) {
    if (!from->device.isHost())
      return invalid("operand 'tensor': expected one in C order to copy from a "
                     "GPU, got strides");
    *from = from->to(from->dtype);
  }
  auto to = allocate(*device, from->dtype, from->shape, stream);
  if (!to)
    return to.status();
  for (const Tensor *t : {&*from, &*to})
    if (Status s = synchronize(t->device, stream); !s)
      return s;
  if (Status s = fathom::copy(*from, *to); !s)
    return s;
  return toArray(*to);
}

//===----------------------------------------------------------------------===//
// The cache
//===----------------------------------------------------------------------===//

CacheStats cacheStats() {
  KernelCache &cache = KernelCache::global();
  KernelCache::Stats s = cache.stats();
  auto [entries, bytes] = cache.disk().size();
  return {s.memory, s.disk, s.compiled,          cache.disk().directory(),
          entries,  bytes,  cache.disk().bound()};
}

std::vector<CacheEntry> cacheEntries() {
  std::vector<CacheEntry> entries;
  for (DiskCache::Listed &e : KernelCache::global().disk().list())
    entries.push_back({e.key, describeMeta(e.meta), e.bytes, e.used});
  return entries;
}

void clearCache() { KernelCache::global().clear(); }

//===----------------------------------------------------------------------===//
// Merging
//===----------------------------------------------------------------------===//

/// Arrays in logical order. More parts than one kernel takes are merged in
/// groups, whose results have the accumulation type.
static Status mergeInto(std::vector<Tensor> os, std::vector<Tensor> ls,
                        Tensor o, Tensor lse, const CallContext &where) {
  if (os.size() > kMaxParts) {
    std::vector<Tensor> groupOs, groupLs;
    for (size_t begin = 0; begin < os.size(); begin += kMaxParts) {
      size_t end = std::min(begin + kMaxParts, os.size());
      auto groupO = allocate(where.device, lse.dtype, o.shape, where.stream);
      auto groupL = allocate(where.device, lse.dtype, lse.shape, where.stream);
      if (!groupO || !groupL)
        return groupO ? groupL.status() : groupO.status();
      if (Status s = mergeInto({os.begin() + begin, os.begin() + end},
                               {ls.begin() + begin, ls.begin() + end}, *groupO,
                               *groupL, where);
          !s)
        return s;
      groupOs.push_back(*groupO);
      groupLs.push_back(*groupL);
    }
    return mergeInto(std::move(groupOs), std::move(groupLs), o, lse, where);
  }
  auto target = targetOf(where.device);
  if (!target)
    return target.status();
  DType from = os[0].dtype;
  int64_t dim = o.shape[3];
  auto kernel = compileNest(mergeNest(from, o.dtype, dim, os.size()), "merge",
                            fmt::format("merge of {} parts, {} to {}, head dim "
                                        "{}, {}",
                                        os.size(), name(from), name(o.dtype),
                                        dim, *target),
                            *target);
  if (!kernel)
    return kernel.status();
  std::vector<Tensor> arrays = std::move(os);
  arrays.insert(arrays.end(), ls.begin(), ls.end());
  arrays.insert(arrays.end(), {o, lse});
  return (*kernel)->call(arrays, where);
}

Result<Merged> merge(const std::vector<Part> &parts,
                     const std::string &layoutName, const Outputs &outputs,
                     const Call &call) {
  auto layout = parseLayout(layoutName);
  if (!layout)
    return layout.status();
  if (parts.empty())
    return invalid("expected at least one part to merge, got none");
  auto q = fromDLPack("o of part 0", parts[0].o);
  if (!q)
    return q.status();
  Device device = q->device;
  std::vector<Tensor> os, ls;
  Tensor firstO, firstL;
  for (size_t n = 0; n < parts.size(); ++n) {
    auto o = fromDLPack(fmt::format("o of part {}", n), parts[n].o, device);
    auto l = fromDLPack(fmt::format("lse of part {}", n), parts[n].lse, device);
    if (!o || !l)
      return o ? l.status() : o.status();
    if (n == 0) {
      int64_t rank = *layout == Layout::packed ? 3 : 4;
      if (o->rank() != rank || !isFloat(o->dtype))
        return invalid("operand 'o of part 0': expected floats of rank {} for "
                       "layout {}, got {}",
                       rank, layoutName, o->describe());
      firstO = *o;
      Dims rows = toLogical(*o, *layout).shape;
      rows.pop_back();
      firstL = shaped(accType(o->dtype), rows, *layout);
    }
    for (auto [name, got, want] :
         {std::tuple{"o", &*o, &firstO}, {"lse", &*l, &firstL}})
      if (got->shape != want->shape || got->dtype != want->dtype)
        return invalid("operand '{} of part {}': expected {}, got {}", name, n,
                       want->describe(), got->describe());
    os.push_back(toLogical(*o, *layout));
    ls.push_back(lseToLogical(*l, *layout));
  }

  Merged result;
  Operands none;
  OutputSet set(none, device, call.stream);
  for (size_t n = 0; n < parts.size(); ++n) {
    set.alsoRead(os[n]);
    set.alsoRead(ls[n]);
  }
  Tensor o, lse;
  set.add("o", outputs.o, firstO, o, result.o);
  set.add("lse", outputs.lse, firstL, lse, result.lse);
  if (set.error)
    return *set.error;
  if (Status s = mergeInto(std::move(os), std::move(ls), toLogical(o, *layout),
                           lseToLogical(lse, *layout), {device, call.stream});
      !s)
    return s;
  return result;
}

} // namespace fathom
