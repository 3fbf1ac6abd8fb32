//===- Executable.cpp - a compiled instance, ready to run -------------------===//

#include "runtime/Executable.h"

#include "runtime/Devices.h"

#include <fmt/format.h>

namespace fathom {

/// Collects arguments in order, checks them against the entry point's types
/// and calls it. Descriptors are {allocated, aligned, offset, sizes, strides}.
class Executable::Call {
public:
  explicit Call(const EntryPoint &entry) : entry(entry) {}

  void buffer(const char *name, const Tensor &t) {
    if (!expect(name, t.dtype, t.rank()))
      return;
    arguments.push_back({nullptr, words.size()});
    int64_t address = reinterpret_cast<int64_t>(t.data);
    words.append({address, address, 0});
    words.append(t.shape.begin(), t.shape.end());
    words.append(t.strides.begin(), t.strides.end());
  }

  void index(const char *name, int64_t value) {
    if (!expect(name, DType::i64, -1))
      return;
    arguments.push_back({nullptr, words.size()});
    words.push_back(value);
  }

  /// A captured operand: a buffer, or a scalar by value.
  void captured(const char *name, const Tensor &t) {
    if (arguments.size() < entry.arguments.size() &&
        entry.arguments[arguments.size()].rank < 0 && t.rank() == 0) {
      if (expect(name, t.dtype, -1))
        arguments.push_back({t.data, 0});
      return;
    }
    buffer(name, t);
  }

  Status run(const CallContext &where,
             std::vector<int64_t> *results = nullptr) {
    if (Status s = check(); !s)
      return s;
    std::vector<int64_t> values(entry.results);
    auto pointers = pointersTo();
    for (int64_t &v : values)
      pointers.push_back(&v);
    if (Status s = entry.function(pointers.data(), where); !s)
      return s;
    if (results)
      *results = std::move(values);
    return {};
  }

  Result<int64_t> workspace() {
    if (Status s = check(); !s)
      return s;
    return entry.workspace ? entry.workspace(pointersTo().data())
                           : Result<int64_t>(0);
  }

private:
  Status check() {
    if (!error && arguments.size() != entry.arguments.size())
      error = Status(
          ErrorCode::internal,
          fmt::format("expected {} arguments of the compiled function, got {}",
                      entry.arguments.size(), arguments.size()));
    return error ? *error : Status();
  }

  bool expect(const char *name, DType dtype, int64_t rank) {
    if (error)
      return false;
    size_t n = arguments.size();
    if (n < entry.arguments.size() && entry.arguments[n].dtype == dtype &&
        entry.arguments[n].rank == rank)
      return true;
    auto say = [](ArgumentType a) {
      return a.rank < 0 ? fmt::format("{} scalar", fathom::name(a.dtype))
                        : fmt::format("{} buffer of rank {}",
                                      fathom::name(a.dtype), a.rank);
    };
    error = Status(
        ErrorCode::internal,
        fmt::format(
            "argument {} of the compiled function: expected {}, got '{}', a {}",
            n, n < entry.arguments.size() ? say(entry.arguments[n]) : "none",
            name, say({dtype, rank})));
    return false;
  }

  llvm::SmallVector<void *, 24> pointersTo() {
    llvm::SmallVector<void *, 24> pointers;
    for (auto [data, at] : arguments)
      pointers.push_back(data ? data : &words[at]);
    return pointers;
  }

  const EntryPoint &entry;
  /// An address, or null and where in `words` the argument is.
  llvm::SmallVector<std::pair<void *, size_t>, 24> arguments;
  llvm::SmallVector<int64_t, 160> words;
  std::optional<Status> error;
};

void Executable::inputs(Call &call, const Operands &x) const {
  call.buffer("q", x.q);
  call.buffer("k", x.k);
  call.buffer("v", x.v);
  if (x.cuSeqlensQ.defined()) {
    call.buffer("cu_seqlens_q", x.cuSeqlensQ);
    call.buffer("cu_seqlens_k", x.cuSeqlensK);
    call.index("max_seqlen_q", x.maxSeqlenQ);
    call.index("max_seqlen_k", x.maxSeqlenK);
  }
  for (const Tensor &t : x.captures)
    call.captured("capture", t);
}

void Executable::gradientResults(Call &call, const Results &out) const {
  call.buffer("dq", out.dq);
  call.buffer("dk", out.dk);
  call.buffer("dv", out.dv);
  for (int64_t c : gradCaptures) {
    Tensor t = out.dCaptures[c];
    if (t.rank() == 0) { // the gradient of a scalar is a buffer of one
      t.shape = {1};
      t.strides = {1};
    }
    call.buffer("captured gradient", t);
  }
}

Status Executable::run(const Operands &x, const Results &out,
                       const CallContext &where) const {
  if (!isJoint()) {
    Saved kept;
    if (Status s = forward(x, out, kept, where); !s || !gradients)
      return s;
    return backward(x, out, kept, where);
  }
  Call call(joint);
  inputs(call, x);
  if (gradients) {
    call.buffer("do", x.dO);
    if (lseGradient)
      call.buffer("dlse", x.dLse);
  }
  call.buffer("o", out.o);
  call.buffer("lse", out.lse);
  if (gradients)
    gradientResults(call, out);
  return call.run(where);
}

Result<std::vector<std::pair<DType, Dims>>>
Executable::savedShapes(const Operands &x) const {
  std::vector<std::pair<DType, Dims>> shapes;
  if (!saved.exists())
    return shapes;
  Call call(saved);
  inputs(call, x);
  std::vector<int64_t> sizes;
  if (Status s = call.run({}, &sizes); !s)
    return s;
  // The saved buffers stand at the end of the forward's arguments.
  size_t at = 0;
  for (size_t n = saved.arguments.size() + 2; n < fwd.arguments.size(); ++n) {
    ArgumentType a = fwd.arguments[n];
    if (a.rank < 0 || at + a.rank > sizes.size())
      return Status(ErrorCode::internal,
                    "the sizes of the saved buffers do not fit their types");
    shapes.emplace_back(a.dtype,
                        Dims(sizes.begin() + at, sizes.begin() + at + a.rank));
    at += a.rank;
  }
  return shapes;
}

void Executable::forwardArguments(Call &call, const Operands &x,
                                  const Results &out, const Saved &kept) const {
  inputs(call, x);
  call.buffer("o", out.o);
  call.buffer("lse", out.lse);
  for (const Tensor &t : kept)
    call.buffer("saved", t);
}

void Executable::backwardArguments(Call &call, const Operands &x,
                                   const Results &out,
                                   const Saved &kept) const {
  inputs(call, x);
  call.buffer("o", out.o);
  call.buffer("lse", out.lse);
  call.buffer("do", x.dO);
  if (lseGradient)
    call.buffer("dlse", x.dLse);
  for (const Tensor &t : kept)
    call.buffer("saved", t);
  gradientResults(call, out);
}

Status Executable::forward(const Operands &x, const Results &out, Saved &kept,
                           const CallContext &where) const {
  auto shapes = savedShapes(x);
  if (!shapes)
    return shapes.status();
  kept.clear();
  for (const auto &[type, shape] : *shapes) {
    auto t = allocate(where.device, type, shape, where.stream);
    if (!t)
      return {t.status().code(), "a saved buffer: " + t.status().message() +
                                     "; another p-policy keeps less"};
    kept.push_back(*t);
  }
  Call call(fwd);
  forwardArguments(call, x, out, kept);
  return call.run(where);
}

Status Executable::call(llvm::ArrayRef<Tensor> arrays,
                        const CallContext &where) const {
  Call call(fwd);
  for (const Tensor &t : arrays)
    call.buffer("array", t);
  return call.run(where);
}

Status Executable::backward(const Operands &x, const Results &out,
                            const Saved &kept, const CallContext &where) const {
  Call call(bwd);
  backwardArguments(call, x, out, kept);
  return call.run(where);
}

Result<int64_t> Executable::forwardWorkspace(const Operands &x,
                                             const Results &out,
                                             const Saved &kept) const {
  Call call(fwd);
  forwardArguments(call, x, out, kept);
  return call.workspace();
}

Result<int64_t> Executable::backwardWorkspace(const Operands &x,
                                              const Results &out,
                                              const Saved &kept) const {
  Call call(bwd);
  backwardArguments(call, x, out, kept);
  return call.workspace();
}

} // namespace fathom
