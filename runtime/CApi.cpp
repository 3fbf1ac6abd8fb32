//===- CApi.cpp - the C interface -------------------------------------------===//
//
// Handles around the objects of fathom.h, structs of any size read as the
// newest, and messages kept by thread.
//
//===----------------------------------------------------------------------===//

#include "runtime/DLPack.h"
#include "runtime/Devices.h"
#include "runtime/fathom_c.h"

#include <algorithm>
#include <cstring>

using namespace fathom;

struct fathom_variant {
  Variant variant;
  std::vector<std::string> captures;
};
struct fathom_kernel {
  Kernel kernel;
};
struct fathom_saved {
  Saved saved;
};

namespace {

thread_local std::string message;

fathom_status fail(const Status &s) {
  message = s.message();
  return fathom_status(s.code());
}

fathom_status fail(const char *words) {
  return fail(Status(ErrorCode::invalid_argument, words));
}

/// What the caller knows of `T`, and zeroes.
template <typename T>
T known(const T *given) {
  T whole{};
  if (given)
    std::memcpy(&whole, given, std::min(given->size, sizeof(T)));
  return whole;
}

/// Fills as much of `T` as the caller knows.
template <typename T>
void hand(T *to, T from) {
  from.size = to->size;
  std::memcpy(to, &from, std::min(to->size, sizeof(T)));
}

TensorRef ref(const DLTensor *t) { return t ? TensorRef(*t) : TensorRef(); }

std::vector<TensorRef> refs(const DLTensor *const *list, int32_t count) {
  std::vector<TensorRef> all;
  for (int32_t n = 0; list && n < count; ++n)
    all.push_back(ref(list[n]));
  return all;
}

Inputs toInputs(const fathom_inputs *given) {
  fathom_inputs in = known(given);
  return {ref(in.q),
          ref(in.k),
          ref(in.v),
          refs(in.captures, in.capture_count),
          ref(in.cu_seqlens_q),
          ref(in.cu_seqlens_k),
          in.max_seqlen_q,
          in.max_seqlen_k};
}

Call toCall(const fathom_call *given) {
  fathom_call c = known(given);
  return {c.stream, c.workspace, c.workspace_bytes};
}

fathom_status finish(Result<Variant> made, fathom_variant **variant) {
  if (!variant)
    return fail(
        "argument 'variant': expected a place for the handle, got null");
  *variant = nullptr;
  if (!made)
    return fail(made.status());
  std::vector<std::string> captures = made->captures();
  *variant = new fathom_variant{std::move(*made), std::move(captures)};
  return FATHOM_OK;
}

const DeviceList &deviceList() {
  static const DeviceList list = listDevices();
  return list;
}

std::string orEmpty(const char *text) { return text ? text : ""; }

} // namespace

int32_t fathom_c_version(void) { return FATHOM_C_VERSION; }
const char *fathom_version(void) { return FATHOM_VERSION; }
const char *fathom_message(void) { return message.c_str(); }

//===----------------------------------------------------------------------===//
// Devices and the cache
//===----------------------------------------------------------------------===//

int32_t fathom_device_count(void) { return deviceList().devices.size(); }
const char *fathom_device_note(void) { return deviceList().note.c_str(); }

fathom_status fathom_device(int32_t index, fathom_device_info *info) {
  if (index < 0 || index >= fathom_device_count() || !info)
    return fail("expected the index of a device and a struct to fill");
  const DeviceInfo &d = deviceList().devices[index];
  hand(info, {0, d.device.c_str(), d.name.c_str(), d.target.c_str(), d.memory});
  return FATHOM_OK;
}

fathom_status fathom_copy(const DLTensor *from, const DLTensor *to,
                          void *stream) {
  auto source = fromDLPack("from", ref(from));
  auto target = fromDLPack("to", ref(to));
  if (!source || !target)
    return fail(source ? target.status() : source.status());
  if (source->dtype != target->dtype || source->shape != target->shape)
    return fail(Status(ErrorCode::invalid_argument,
                       "operand 'to': expected " + source->describe() +
                           " like 'from', got " + target->describe()));
  for (auto [name, t] : {std::pair{"from", &*source}, {"to", &*target}})
    if (!t->isContiguous())
      return fail(Status(ErrorCode::invalid_argument,
                         "operand '" + std::string(name) +
                             "': expected a tensor in C order, got strides"));
  for (const Tensor *t : {&*source, &*target})
    if (Status s = synchronize(t->device, stream); !s)
      return fail(s);
  Status s = copy(*source, *target);
  return s ? FATHOM_OK : fail(s);
}

fathom_status fathom_cache(fathom_cache_info *info) {
  if (!info)
    return fail("argument 'info': expected a struct to fill, got null");
  thread_local std::string directory;
  CacheStats s = cacheStats();
  directory = s.directory;
  hand(info, {0, s.memory, s.disk, s.compiled, s.entries, s.bytes, s.limit,
              directory.c_str()});
  return FATHOM_OK;
}

void fathom_cache_clear(void) { clearCache(); }

//===----------------------------------------------------------------------===//
// Variants
//===----------------------------------------------------------------------===//

fathom_status fathom_variant_parse(const char *text, const char *name,
                                   fathom_variant **variant) {
  return finish(Variant::parse(orEmpty(text), orEmpty(name)), variant);
}

fathom_status fathom_variant_load(const char *path, const char *name,
                                  fathom_variant **variant) {
  return finish(Variant::load(orEmpty(path), orEmpty(name)), variant);
}

void fathom_variant_free(fathom_variant *variant) { delete variant; }

const char *fathom_variant_name(const fathom_variant *variant) {
  return variant->variant.name().c_str();
}

int32_t fathom_variant_capture_count(const fathom_variant *variant) {
  return variant->captures.size();
}

const char *fathom_variant_capture(const fathom_variant *variant,
                                   int32_t index) {
  if (index < 0 || index >= fathom_variant_capture_count(variant))
    return nullptr;
  return variant->captures[index].c_str();
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

static KernelOptions toOptions(const fathom_options *options) {
  fathom_options o = known(options);
  KernelOptions k;
  for (auto [given, to] : {std::pair{o.device, &k.device},
                           {o.dtype, &k.dtype},
                           {o.layout, &k.layout},
                           {o.p_policy, &k.pPolicy},
                           {o.dq_policy, &k.dqPolicy}})
    if (given)
      *to = given;
  for (auto [given, to] : {std::pair{o.head_dim, &k.headDim},
                           {o.head_dim_v, &k.headDimV},
                           {o.group, &k.group},
                           {o.block_m, &k.blockM},
                           {o.block_n, &k.blockN},
                           {o.dq_splits, &k.dqSplits},
                           {o.kv_splits, &k.kvSplits},
                           {o.seqlen_q_hint, &k.seqlenQHint}})
    if (given)
      *to = given;
  k.gradients = !o.forward_only;
  k.lseGradient = o.lse_gradient;
  k.deterministic = o.deterministic;
  return k;
}

static fathom_status finish(Result<Kernel> made, fathom_kernel **kernel) {
  if (!made)
    return fail(made.status());
  *kernel = new fathom_kernel{std::move(*made)};
  return FATHOM_OK;
}

fathom_status fathom_compile(const fathom_variant *variant,
                             const fathom_options *options,
                             fathom_kernel **kernel) {
  if (!kernel)
    return fail("argument 'kernel': expected a place for the handle, got null");
  *kernel = nullptr;
  if (!variant)
    return fail("argument 'variant': expected a variant, got null");
  return finish(variant->variant.compile(toOptions(options)), kernel);
}

fathom_status fathom_compile_for(const fathom_variant *variant,
                                 const fathom_inputs *inputs,
                                 const fathom_options *options,
                                 fathom_kernel **kernel) {
  if (!kernel)
    return fail("argument 'kernel': expected a place for the handle, got null");
  *kernel = nullptr;
  if (!variant)
    return fail("argument 'variant': expected a variant, got null");
  return finish(
      variant->variant.compileFor(toInputs(inputs), toOptions(options)),
      kernel);
}

fathom_status fathom_precompile(const fathom_variant *variant,
                                const fathom_options *options,
                                const char *target) {
  if (!variant)
    return fail("argument 'variant': expected a variant, got null");
  Status s = variant->variant.precompile(toOptions(options), orEmpty(target));
  return s ? FATHOM_OK : fail(s);
}

fathom_status fathom_bundle(const fathom_variant *variant,
                            const fathom_options *options, const char *targets,
                            const char *path) {
  if (!variant)
    return fail("argument 'variant': expected a variant, got null");
  std::vector<std::string> list;
  std::string text = orEmpty(targets);
  for (size_t begin = 0, end; begin <= text.size(); begin = end + 1) {
    end = std::min(text.find(',', begin), text.size());
    list.push_back(text.substr(begin, end - begin));
  }
  Status s = variant->variant.bundle(toOptions(options), list, orEmpty(path));
  return s ? FATHOM_OK : fail(s);
}

fathom_status fathom_kernel_load(const char *path, const char *device,
                                 fathom_kernel **kernel) {
  if (!kernel)
    return fail("argument 'kernel': expected a place for the handle, got null");
  *kernel = nullptr;
  return finish(Kernel::load(orEmpty(path), device ? device : "cuda"), kernel);
}

void fathom_kernel_free(fathom_kernel *kernel) { delete kernel; }

fathom_status fathom_forward(const fathom_kernel *kernel,
                             const fathom_inputs *inputs, const DLTensor *o,
                             const DLTensor *lse, const fathom_call *call,
                             fathom_saved **saved) {
  if (saved)
    *saved = nullptr;
  if (!kernel)
    return fail("argument 'kernel': expected a kernel, got null");
  if (!o || !lse)
    return fail("operands 'o' and 'lse': expected tensors to write to, got "
                "null; the C interface allocates no outputs");
  auto result = kernel->kernel.forward(toInputs(inputs), {ref(o), ref(lse)},
                                       toCall(call));
  if (!result)
    return fail(result.status());
  if (saved && result->saved.get())
    *saved = new fathom_saved{std::move(result->saved)};
  return FATHOM_OK;
}

void fathom_saved_free(fathom_saved *saved) { delete saved; }

fathom_status fathom_backward(const fathom_kernel *kernel,
                              const fathom_saved *saved, const DLTensor *d_o,
                              const DLTensor *dlse,
                              const fathom_gradients *gradients,
                              const fathom_call *call) {
  if (!kernel)
    return fail("argument 'kernel': expected a kernel, got null");
  fathom_gradients g = known(gradients);
  if (!g.dq || !g.dk || !g.dv)
    return fail("operands 'dq', 'dk' and 'dv': expected tensors to write to, "
                "got null; the C interface allocates no outputs");
  auto result = kernel->kernel.backward(
      saved ? saved->saved : Saved(), ref(d_o), ref(dlse),
      {ref(g.dq), ref(g.dk), ref(g.dv), refs(g.captures, g.capture_count)},
      toCall(call));
  return result ? FATHOM_OK : fail(result.status());
}

fathom_status fathom_workspace(const fathom_kernel *kernel,
                               const fathom_inputs *inputs, int64_t *forward,
                               int64_t *backward) {
  if (!kernel)
    return fail("argument 'kernel': expected a kernel, got null");
  auto bytes = kernel->kernel.workspace(toInputs(inputs));
  if (!bytes)
    return fail(bytes.status());
  if (forward)
    *forward = bytes->forward;
  if (backward)
    *backward = bytes->backward;
  return FATHOM_OK;
}

fathom_status fathom_estimate(const fathom_kernel *kernel,
                              const fathom_shape *shape,
                              fathom_estimate_info *estimate) {
  if (!kernel || !estimate)
    return fail("expected a kernel and a struct to fill, got null");
  fathom_shape s = known(shape);
  auto m = kernel->kernel.estimate({s.batch, s.heads, s.seqlen_q, s.seqlen_k,
                                    s.sequences ? s.sequences : 1});
  if (!m)
    return fail(m.status());
  hand(estimate, {0, m->inputs, m->outputs, m->saved, m->gradients,
                  m->workspaceForward, m->workspaceBackward});
  return FATHOM_OK;
}

fathom_status fathom_merge(const DLTensor *const *parts_o,
                           const DLTensor *const *parts_lse, int32_t count,
                           const char *layout, const DLTensor *o,
                           const DLTensor *lse, const fathom_call *call) {
  if (!parts_o || !parts_lse || !o || !lse)
    return fail("expected parts, and tensors 'o' and 'lse' to write to, got "
                "null; the C interface allocates no outputs");
  std::vector<Part> parts;
  for (int32_t n = 0; n < count; ++n)
    parts.push_back({ref(parts_o[n]), ref(parts_lse[n])});
  auto result =
      merge(parts, layout ? layout : "bshd", {ref(o), ref(lse)}, toCall(call));
  return result ? FATHOM_OK : fail(result.status());
}
