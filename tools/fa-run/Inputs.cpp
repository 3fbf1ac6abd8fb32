//===- Inputs.cpp - where fa-run's operands come from -----------------------===//

#include "tools/fa-run/Inputs.h"

#include "runtime/Npy.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <random>
#include <unistd.h>

using namespace llvm;

namespace fathom {
namespace {

/// True if `x` is a whole number that integer type `type` holds.
bool fits(fathom::DType type, double x) {
  if (!(x == std::floor(x)))
    return false;
  if (type == fathom::DType::i1)
    return x == 0 || x == 1;
  int bits = 8 * fathom::byteSize(type);
  if (type == fathom::DType::u8)
    return x >= 0 && x < 256;
  return x >= -std::ldexp(1.0, bits - 1) && x < std::ldexp(1.0, bits - 1);
}

template <typename... Args>
Status invalid(fmt::format_string<Args...> format, Args &&...args) {
  return {ErrorCode::invalid_argument,
          fmt::format(format, std::forward<Args>(args)...)};
}

class Maker {
public:
  Maker(VariantInterface variant, const VariantInfo &info,
        const InputOptions &o)
      : variant(variant), info(info), o(o), random(o.seed) {}

  Result<Operands> make() {
    if (Status s = sequences(); !s)
      return s;
    if (Status s = qkv(); !s)
      return s;
    Layout l = o.layout;
    Tensor q = logical(x.q, l), k = logical(x.k, l), v = logical(x.v, l);
    // A wrong rank is bind()'s to report.
    if (!q.defined() || !k.defined() || !v.defined())
      return x;
    batch = x.cuSeqlensQ.defined() ? x.cuSeqlensQ.size() - 1 : q.shape[0];
    heads = q.shape[1];
    longestQ = longest(x.cuSeqlensQ, q.shape[2]);
    longestK = longest(x.cuSeqlensK, k.shape[2]);
    if (Status s = captures(); !s)
      return s;
    std::vector<int64_t> oShape = q.shape,
                         rows(q.shape.begin(), q.shape.end() - 1);
    oShape.back() = v.shape.back();
    if (!o.dO.empty()) {
      if (Status s = read("do", o.dO, *dtype, x.dO); !s)
        return s;
    } else if (o.backward) {
      x.dO = normal(Tensor::zeros(*dtype, shapeInLayout(oShape, l)));
    }
    if (!o.dLse.empty()) {
      if (Status s = read("dlse", o.dLse, accType(*dtype), x.dLse); !s)
        return s;
    } else if (o.randomDLse) {
      x.dLse = normal(Tensor::zeros(accType(*dtype), shapeInLayout(rows, l)));
    }
    return std::move(x);
  }

private:
  static Tensor logical(const Tensor &t, Layout l) {
    return t.rank() == (l == Layout::packed ? 3 : 4) ? toLogical(t, l)
                                                     : Tensor();
  }

  static int64_t longest(const Tensor &cu, int64_t all) {
    std::vector<int64_t> c = boundaries(cu);
    for (size_t n = 1; n < c.size(); ++n)
      all = n == 1 ? c[1] - c[0] : std::max(all, c[n] - c[n - 1]);
    return std::max<int64_t>(all, 0);
  }

  Tensor normal(Tensor t, double scale = 1) {
    std::normal_distribution<double> d(0, scale);
    for (int64_t n = 0, e = t.size(); n < e; ++n)
      t.store(n, d(random));
    return t;
  }

  Status read(const std::string &operand, const std::string &path, DType type,
              Tensor &to) {
    auto t = readNpy(path);
    if (!t)
      return Status(t.status().code(), fmt::format("operand '{}': {}", operand,
                                                   t.status().message()));
    if (isFloat(t->dtype) != isFloat(type))
      return invalid("operand '{}': expected {} values in '{}', got {}",
                     operand, isFloat(type) ? "float" : "integer", path,
                     t->describe());
    to = t->to(type);
    return {};
  }

  Status boundariesFrom(const char *operand, const std::string &text,
                        Tensor &to) {
    if (text.empty())
      return {};
    if (StringRef(text).ends_with(".npy"))
      return read(operand, text, DType::i32, to);
    SmallVector<StringRef> parts;
    StringRef(text).split(parts, ',');
    to = Tensor::zeros(DType::i32, {int64_t(parts.size())});
    for (auto [n, part] : enumerate(parts)) {
      int32_t value;
      if (part.trim().getAsInteger(10, value))
        return invalid("operand '{}': expected integers with commas between "
                       "them or a .npy file, "
                       "got '{}'",
                       operand, text);
      to.store(n, value);
    }
    return {};
  }

  Status sequences() {
    if (Status s = boundariesFrom("cu_seqlens_q", o.cuSeqlensQ, x.cuSeqlensQ);
        !s)
      return s;
    // One list serves both sides.
    const std::string &k = o.cuSeqlensK.empty() ? o.cuSeqlensQ : o.cuSeqlensK;
    return boundariesFrom("cu_seqlens_k", k, x.cuSeqlensK);
  }

  Status qkv() {
    if (!o.dtype.empty()) {
      dtype = parseDType(o.dtype);
      if (!dtype || !isFloat(*dtype))
        return invalid("--dtype: expected one of f64, f32, bf16, f16, got '{}'",
                       o.dtype);
    }
    int files = !o.q.empty() + !o.k.empty() + !o.v.empty();
    if (files == 0)
      return drawQKV();
    for (auto [name, path] : {std::pair{"q", &o.q}, {"k", &o.k}, {"v", &o.v}})
      if (path->empty())
        return invalid("operand '{0}' is missing: give --{0} FILE.npy (or none "
                       "of --q, --k, --v "
                       "for random values)",
                       name);
    if (!dtype) { // that of the file
      auto q = readNpy(o.q);
      if (!q)
        return Status(q.status().code(),
                      "operand 'q': " + q.status().message());
      dtype = q->dtype;
      if (!isFloat(*dtype))
        return invalid("operand 'q': expected float values in '{}', got {}",
                       o.q, q->describe());
    }
    for (auto [name, path, to] :
         {std::tuple{"q", &o.q, &x.q}, {"k", &o.k, &x.k}, {"v", &o.v, &x.v}})
      if (Status s = read(name, *path, *dtype, *to); !s)
        return s;
    return {};
  }

  Status drawQKV() {
    if (!dtype)
      dtype = DType::f32;
    int64_t hq = o.heads, hkv = o.kvHeads, b = o.batch;
    int64_t sq = o.seqlenQ, sk = o.seqlenK;
    int64_t d = o.headDim, dv = o.headDimV;
    if (o.layout == Layout::packed) {
      std::vector<int64_t> cuQ = boundaries(x.cuSeqlensQ),
                           cuK = boundaries(x.cuSeqlensK);
      if (cuQ.empty() || cuK.empty())
        return invalid("operand 'cu_seqlens_q' is missing: layout packed needs "
                       "--cu-seqlens-q, "
                       "for example 0,5,9");
      b = 1;
      sq = cuQ.back();
      sk = cuK.back();
    }
    for (auto [name, n] : {std::pair{"batch", b},
                           {"heads", hq},
                           {"kv-heads", hkv},
                           {"seqlen-q", sq},
                           {"seqlen-k", sk},
                           {"head-dim", d},
                           {"head-dim-v", dv}})
      if (n < 0)
        return invalid("--{}: expected at least 0, got {}", name, n);
    // Inputs, outputs and the reference take about six arrays of this size.
    double need = 6.0 * 8 * b * std::max(hq * sq, hkv * sk) * std::max(d, dv);
    double have = double(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
    if (need > have)
      return invalid("expected operands that fit this machine's {:.0f} GiB, "
                     "got some that need "
                     "about {:.0f} GiB; lower --batch, --heads or --seqlen-q",
                     have / 0x1p30, need / 0x1p30);
    x.q =
        normal(Tensor::zeros(*dtype, shapeInLayout({b, hq, sq, d}, o.layout)));
    x.k =
        normal(Tensor::zeros(*dtype, shapeInLayout({b, hkv, sk, d}, o.layout)));
    x.v = normal(
        Tensor::zeros(*dtype, shapeInLayout({b, hkv, sk, dv}, o.layout)));
    return {};
  }

  /// The size that a block argument of a region runs over; `arg` counts from
  /// the first index argument (b, h, i, j).
  int64_t extent(unsigned arg) const {
    return std::vector<int64_t>{batch, heads, longestQ, longestK}[arg];
  }

  /// The shape of captured tensor `c` by its uses in the regions.
  std::optional<std::vector<int64_t>> inferShape(size_t c) {
    std::vector<int64_t> shape = info.captures[c].shape;
    if (variant.getAlibi() == c) {
      shape.front() = std::max(shape.front(), batch);
      shape.back() = heads;
    }
    for (auto [region, firstIndex] :
         {std::pair{&variant.getScore(), 1}, {&variant.getMask(), 0}}) {
      if (region->empty())
        continue;
      unsigned first = info.captures.size() + firstIndex;
      for (mlir::Operation *user : region->getArgument(c).getUsers()) {
        auto extract = dyn_cast<mlir::tensor::ExtractOp>(user);
        if (!extract)
          continue;
        for (auto [d, index] : enumerate(extract.getIndices()))
          if (auto arg = dyn_cast<mlir::BlockArgument>(index);
              arg && arg.getArgNumber() >= first &&
              info.captures[c].shape[d] < 0)
            shape[d] = std::max(shape[d], extent(arg.getArgNumber() - first));
      }
    }
    for (int64_t d : shape)
      if (d < 0)
        return std::nullopt;
    return shape;
  }

  /// Data that makes sense: slopes that fall with the head, document numbers
  /// that rise along the last dim, a soft cap well above typical scores.
  Tensor draw(size_t c, std::vector<int64_t> shape) {
    const CaptureInfo &capture = info.captures[c];
    Tensor t = Tensor::zeros(type(c), shape);
    if (isFloat(t.dtype)) {
      if (variant.getAlibi() == c) {
        for (int64_t n = 0; n < t.size(); ++n)
          t.store(n, std::exp2(-8.0 * (n % shape.back() + 1) / shape.back()));
        return t;
      }
      if (!capture.isTensor) {
        t.store(0, variant.getSoftcap() ? 20 : 1);
        return t;
      }
      return normal(t, 0.5);
    }
    int64_t last = shape.empty() ? 1 : std::max<int64_t>(shape.back(), 1);
    if (!capture.isTensor) {
      t.store(0, std::uniform_int_distribution<int64_t>(
                     1, std::max<int64_t>(longestK, 1))(random));
      return t;
    }
    int64_t document = 0;
    for (int64_t n = 0; n < t.size(); ++n) {
      document = n % last == 0 ? 0 : document + (random() % 16 == 0);
      t.store(n, document);
    }
    return t;
  }

  DType type(size_t c) const { return info.captureType(c, *dtype); }

  Status captures() {
    x.captures.resize(info.captures.size());
    for (const std::string &text : o.captures) {
      auto [name, value] = StringRef(text).split('=');
      size_t c = 0;
      while (c < info.captures.size() && info.captures[c].name != name)
        ++c;
      if (c == info.captures.size() || value.empty()) {
        std::vector<std::string> names;
        for (const CaptureInfo &i : info.captures)
          names.push_back(i.name);
        return invalid("--capture: expected NAME=VALUE with a NAME that @{} "
                       "captures ({}), got "
                       "'{}'",
                       info.name,
                       names.empty()
                           ? "it captures none"
                           : fmt::format("{}", fmt::join(names, ", ")),
                       text);
      }
      if (Status s = capture(c, value); !s)
        return s;
    }
    for (size_t c = 0; c < x.captures.size(); ++c) {
      if (x.captures[c].defined())
        continue;
      const CaptureInfo &i = info.captures[c];
      auto shape = inferShape(c);
      if (!shape)
        return invalid("captured operand '{0}' of @{1} is missing, and its "
                       "shape does not follow "
                       "from its use: give --capture {0}=FILE.npy or --capture "
                       "{0}=random:8x128",
                       i.name, info.name);
      x.captures[c] = draw(c, *shape);
    }
    return {};
  }

  Status capture(size_t c, StringRef value) {
    const CaptureInfo &i = info.captures[c];
    if (value.consume_front("random")) {
      std::vector<int64_t> shape;
      SmallVector<StringRef> parts;
      if (value.consume_front(":"))
        value.split(parts, 'x');
      for (StringRef part : parts) {
        int64_t n;
        if (part.getAsInteger(10, n) || n < 0 || n > (1 << 30))
          return invalid(
              "--capture {}: expected a shape such as random:8x128, got '{}'",
              i.name, part.str());
        shape.push_back(n);
      }
      if (shape.size() != i.shape.size())
        return invalid("--capture {}: expected {} sizes after random:, got {}",
                       i.name, i.shape.size(), shape.size());
      x.captures[c] = draw(c, shape);
      return {};
    }
    double number;
    if (!value.getAsDouble(number)) {
      if (i.isTensor)
        return invalid("--capture {0}: expected a tensor ({0}=FILE.npy or "
                       "{0}=random:...), got "
                       "the scalar {1}",
                       i.name, value.str());
      x.captures[c] = Tensor::zeros(type(c), {});
      // An integer must be one, and any number within its type.
      bool asked = !std::isfinite(number) &&
                   value.find_first_of("0123456789") == StringRef::npos;
      if (isFloat(i.dtype) ? !asked && !std::isfinite(roundTo(type(c), number))
                           : !fits(i.dtype, number))
        return invalid(
            "--capture {0}: expected a number that {1} holds, got {2}", i.name,
            std::string(fathom::name(i.dtype)), value.str());
      x.captures[c].store(0, number);
      return {};
    }
    return read(i.name, value.str(), type(c), x.captures[c]);
  }

  VariantInterface variant;
  const VariantInfo &info;
  const InputOptions &o;
  std::mt19937_64 random;
  Operands x;
  std::optional<DType> dtype;
  int64_t batch = 0, heads = 0, longestQ = 0, longestK = 0;
};

} // namespace

Result<Operands> makeInputs(VariantInterface variant, const VariantInfo &info,
                            const InputOptions &options) {
  return Maker(variant, info, options).make();
}

} // namespace fathom
