//===- ReferenceAttention.cpp - what is right -------------------------------===//
//
// One row of scores at a time: softmax over the row, then its part of every
// gradient. The reference and the naive computation are the same loops with
// other arithmetic.
//
//===----------------------------------------------------------------------===//

#include "runtime/oracle/ReferenceAttention.h"
#include "runtime/oracle/RegionEvaluator.h"

#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <system_error>
#include <thread>

using namespace llvm;

namespace fathom::oracle {
namespace {

/// Where values are rounded. The reference rounds nothing, and its backward
/// knows more than o and lse.
struct Rounding {
  bool exact = true;
  DType type = DType::f64;
  double (*backwardP)(double) = nullptr;
  double relative = 0; ///< of P, at most; for the slack
};

struct Sequence {
  int64_t b, q0, q1, k0, k1; // rows of q and k in their tensors
};

std::vector<Sequence> sequences(const Problem &p) {
  std::vector<Sequence> list;
  if (p.cuSeqlensQ.empty())
    for (int64_t b = 0; b < p.q.shape[0]; ++b)
      list.push_back({b, 0, p.q.shape[2], 0, p.k.shape[2]});
  for (size_t n = 0; n + 1 < p.cuSeqlensQ.size(); ++n)
    list.push_back({int64_t(n), p.cuSeqlensQ[n], p.cuSeqlensQ[n + 1],
                    p.cuSeqlensK[n], p.cuSeqlensK[n + 1]});
  return list;
}

/// Rows [begin, end) of head (b, h), in C order.
template <typename T>
std::vector<T> rows(const Tensor &t, int64_t b, int64_t h, int64_t begin,
                    int64_t end) {
  int64_t d = t.shape[3];
  std::vector<T> out((end - begin) * d);
  for (int64_t i = begin; i < end; ++i)
    for (int64_t c = 0; c < d; ++c)
      out[(i - begin) * d + c] = T(t.at({b, h, i, c}));
  return out;
}

template <typename T>
T dot(const T *a, const T *b, int64_t n) {
  T sum = 0;
  for (int64_t c = 0; c < n; ++c)
    sum += a[c] * b[c];
  return sum;
}

template <typename T>
void addScaled(T *to, T factor, const T *from, int64_t n) {
  for (int64_t c = 0; c < n; ++c)
    to[c] += factor * from[c];
}

/// The same two with the magnitudes of the terms.
template <typename T>
T dotSize(const T *a, const T *b, int64_t n) {
  T sum = 0;
  for (int64_t c = 0; c < n; ++c)
    sum += std::fabs(a[c] * b[c]);
  return sum;
}

template <typename T>
void addSize(T *to, T factor, const T *from, int64_t n) {
  for (int64_t c = 0; c < n; ++c)
    to[c] += std::fabs(factor * from[c]);
}

/// T is the arithmetic, E that of the regions.
template <typename T, typename E>
class Attention {
public:
  Attention(const Problem &p, const VariantEvaluator<E> &variant,
            Rounding rounding, ArrayRef<int64_t> captureSizes)
      : p(p), variant(variant), rounding(rounding), dqk(p.q.shape[3]),
        dv(p.v.shape[3]), group(p.k.shape[1] ? p.q.shape[1] / p.k.shape[1] : 1),
        backward(p.dO.defined()), captureSizes(captureSizes) {
    VariantInterface stated = p.variant;
    std::optional<APFloat> s = stated.getScale();
    scale = s ? E(s->convertToDouble()) : E(1) / std::sqrt(E(dqk));
    auto like = [](const Tensor &t) {
      return Tensor::zeros(DType::f64, t.shape);
    };
    std::vector<int64_t> rowShape(p.q.shape.begin(), p.q.shape.end() - 1),
        oShape = rowShape;
    oShape.push_back(dv);
    answer.o = Tensor::zeros(DType::f64, oShape);
    answer.lse = Tensor::zeros(DType::f64, rowShape);
    answer.lse.fill(-INFINITY);
    if (backward) {
      answer.dq = like(p.q);
      answer.dk = like(p.k);
      answer.dv = like(p.v);
    }
    if (backward && rounding.exact) {
      answer.dqSlack = like(p.q);
      answer.dkSlack = like(p.k);
      answer.dvSlack = like(p.v);
    }
  }

  Answer run(unsigned threads) {
    std::vector<std::pair<Sequence, int64_t>> tasks; // and the KV head
    for (const Sequence &s : sequences(p))
      for (int64_t h = 0; h < p.k.shape[1]; ++h)
        tasks.push_back({s, h});
    threads = std::clamp<size_t>(threads, 1, std::max<size_t>(tasks.size(), 1));
    std::vector<std::vector<CapturedSum>> parts(threads);
    auto work = [&](unsigned me) {
      for (int64_t n : captureSizes)
        parts[me].push_back(CapturedSum(backward ? n : 0));
      for (size_t t = me; t < tasks.size(); t += threads)
        runHead(tasks[t].first, tasks[t].second, parts[me]);
    };
    std::vector<std::thread> pool;
    unsigned started = 1;
    try {
      for (; started < threads; ++started)
        pool.emplace_back(work, started);
    } catch (const std::system_error &) {
      // The system gives no more threads: this one does the rest.
    }
    work(0);
    for (unsigned t = started; t < threads; ++t)
      work(t);
    for (std::thread &t : pool)
      t.join();
    for (size_t c = 0; backward && c < captureSizes.size(); ++c) {
      answer.dCaptures.emplace_back();
      answer.dCaptureSlacks.emplace_back();
      if (!isFloat(p.captures[c].dtype))
        continue;
      Tensor g = Tensor::zeros(DType::f64, p.captures[c].shape),
             slack = g.to(DType::f64);
      for (int64_t n = 0; n < captureSizes[c]; ++n) {
        T sum = 0, size = 0, square = 0;
        for (auto &part : parts) {
          sum += part[c].sum[n];
          size += part[c].size[n];
          square += part[c].square[n];
        }
        g.store(n, sum);
        slack.store(n, 2 * roundingOf(std::sqrt(size)) +
                           4 * rounding.relative * std::sqrt(square));
      }
      answer.dCaptures.back() = g;
      answer.dCaptureSlacks.back() = slack;
    }
    return std::move(answer);
  }

private:
  /// Sums for a captured operand: of the terms, of the squares of their
  /// magnitudes before anything cancels, of the squares of the terms.
  struct CapturedSum {
    explicit CapturedSum(int64_t n) : sum(n), size(n), square(n) {}
    std::vector<T> sum, size, square;
  };

  double roundingOf(T size) const { return 2 * ulp(accType(p.q.dtype), size); }

  void runHead(const Sequence &s, int64_t kvHead,
               std::vector<CapturedSum> &dCaptures) {
    int64_t b = p.cuSeqlensQ.empty() ? s.b : 0, nk = s.k1 - s.k0;
    std::vector<T> k = rows<T>(p.k, b, kvHead, s.k0, s.k1),
                   v = rows<T>(p.v, b, kvHead, s.k0, s.k1);
    std::vector<T> dK(backward ? k.size() : 0), dV(backward ? v.size() : 0);
    std::vector<T> score(nk), prob(nk), ds(nk), o(dv), dQ(dqk), dP(nk);
    // Sums of magnitudes, for the reference.
    std::vector<T> dPSize(nk), dQSize(dqk), dKSize(dK.size()),
        dVSize(dV.size());
    std::vector<char> visible(nk);
    std::vector<Contributions<E>> byCapture(backward ? nk : 0);
    for (int64_t h = kvHead * group; h < (kvHead + 1) * group; ++h) {
      std::vector<T> q = rows<T>(p.q, b, h, s.q0, s.q1), dO;
      if (backward)
        dO = rows<T>(p.dO, b, h, s.q0, s.q1);
      for (int64_t i = 0; i < s.q1 - s.q0; ++i) {
        const T *qRow = &q[i * dqk];
        Point at{s.b, h, i, 0, s.q1 - s.q0, nk};
        T max = -INFINITY, sum = 0;
        for (int64_t j = 0; j < nk; ++j) {
          at.j = j;
          visible[j] = variant.visible(at);
          if (!visible[j])
            continue;
          E raw = T(scale * dot(qRow, &k[j * dqk], dqk)), derivative = 1;
          score[j] = backward ? variant.score(raw, at, derivative, byCapture[j])
                              : variant.score(raw, at);
          ds[j] = derivative;
          max = score[j] > max ? score[j] : max;
        }
        for (int64_t j = 0; j < nk; ++j) {
          prob[j] = !visible[j] || score[j] == -INFINITY
                        ? T(0)
                        : std::exp(score[j] - max);
          sum += prob[j];
        }
        int64_t row = s.q0 + i;
        if (sum == 0)
          continue; // nothing visible: the outputs hold what they should
        T lse = max + std::log(sum);
        answer.lse.store(answer.lse.offset({{b, h, row}}), lse);
        std::fill(o.begin(), o.end(), T(0));
        for (int64_t j = 0; j < nk; ++j) {
          prob[j] = T(roundTo(rounding.type, prob[j] / sum));
          if (visible[j])
            addScaled(o.data(), prob[j], &v[j * dv], dv);
        }
        for (T &x : o)
          x = T(roundTo(rounding.type, x));
        put(answer.o, b, h, row, o);
        if (!backward)
          continue;

        const T *dORow = &dO[i * dv];
        T dL = p.dLse.defined() ? T(p.dLse.at({b, h, row})) : T(0), delta = 0,
          deltaSize = 0;
        for (int64_t j = 0; j < nk; ++j) {
          if (!visible[j])
            continue;
          if (!rounding.exact)
            prob[j] = T(roundTo(rounding.type, std::exp(score[j] - lse)));
          if (rounding.backwardP)
            prob[j] = rounding.backwardP(prob[j]);
          dP[j] = dot(dORow, &v[j * dv], dv);
          delta += prob[j] * dP[j];
          addScaled(&dV[j * dv], prob[j], dORow, dv);
          if (rounding.exact) {
            dPSize[j] = dotSize(dORow, &v[j * dv], dv);
            deltaSize += prob[j] * dPSize[j];
            addSize(&dVSize[j * dv], prob[j], dORow, dv);
          }
        }
        if (!rounding.exact)
          delta = dot(dORow, o.data(), dv);
        std::fill(dQ.begin(), dQ.end(), T(0));
        std::fill(dQSize.begin(), dQSize.end(), T(0));
        for (int64_t j = 0; j < nk; ++j) {
          if (!visible[j])
            continue;
          T dScore = prob[j] * (dP[j] - delta + dL);
          for (const Contribution<E> &c : byCapture[j])
            dCaptures[c.capture].sum[c.entry] += T(dScore * c.value);
          T dS = T(roundTo(rounding.type, dScore * ds[j]));
          addScaled(dQ.data(), dS, &k[j * dqk], dqk);
          addScaled(&dK[j * dqk], dS, qRow, dqk);
          if (rounding.exact) {
            T size = prob[j] * (dPSize[j] + deltaSize + std::fabs(dL));
            for (const Contribution<E> &c : byCapture[j]) {
              CapturedSum &to = dCaptures[c.capture];
              T whole = size * T(c.value), left = dScore * T(c.value);
              to.size[c.entry] += whole * whole;
              to.square[c.entry] += left * left;
            }
            size *= std::fabs(ds[j] * T(scale));
            addSize(dQSize.data(), size, &k[j * dqk], dqk);
            addSize(&dKSize[j * dqk], size, qRow, dqk);
          }
        }
        if (rounding.exact)
          putSlack(answer.dqSlack, b, h, row, dQSize);
        for (T &x : dQ)
          x *= T(scale);
        put(answer.dq, b, h, row, dQ);
      }
    }
    if (!backward)
      return;
    for (T &x : dK)
      x *= T(scale);
    for (int64_t j = 0; j < nk; ++j) {
      put(answer.dk, b, kvHead, s.k0 + j, ArrayRef(dK).slice(j * dqk, dqk));
      put(answer.dv, b, kvHead, s.k0 + j, ArrayRef(dV).slice(j * dv, dv));
      if (rounding.exact) {
        putSlack(answer.dkSlack, b, kvHead, s.k0 + j,
                 ArrayRef(dKSize).slice(j * dqk, dqk));
        putSlack(answer.dvSlack, b, kvHead, s.k0 + j,
                 ArrayRef(dVSize).slice(j * dv, dv));
      }
    }
  }

  void put(Tensor &t, int64_t b, int64_t h, int64_t row, ArrayRef<T> values) {
    int64_t at = t.offset({{b, h, row, 0}});
    for (size_t c = 0; c < values.size(); ++c)
      t.store(at + c, roundTo(rounding.type, values[c]));
  }

  void putSlack(Tensor &t, int64_t b, int64_t h, int64_t row,
                ArrayRef<T> sizes) {
    int64_t at = t.offset({{b, h, row, 0}});
    for (size_t c = 0; c < sizes.size(); ++c)
      t.store(at + c, roundingOf(sizes[c]));
  }

  const Problem &p;
  const VariantEvaluator<E> &variant;
  Rounding rounding;
  int64_t dqk, dv, group;
  bool backward;
  ArrayRef<int64_t> captureSizes;
  E scale;
  Answer answer;
};

/// The captured operands as the evaluator takes them.
struct Captured {
  explicit Captured(const Problem &p) {
    for (const Tensor &t : p.captures) {
      values.push_back(t.values());
      CapturedArray c;
      c.data = values.back().data();
      c.sizes.assign(t.shape.begin(), t.shape.end());
      Tensor dense = Tensor::view(DType::f64, t.shape, nullptr);
      c.strides.assign(dense.strides.begin(), dense.strides.end());
      arrays.push_back(c);
      sizes.push_back(t.size());
    }
  }
  std::vector<std::vector<double>> values;
  SmallVector<CapturedArray> arrays;
  SmallVector<int64_t> sizes;
};

template <typename T, typename E>
FailureOr<Answer> attend(const Problem &p, unsigned threads,
                         Rounding rounding) {
  Captured captured(p);
  auto variant = VariantEvaluator<E>::create(p.variant, captured.arrays);
  if (failed(variant))
    return failure();
  return Attention<T, E>(p, *variant, rounding, captured.sizes).run(threads);
}

} // namespace

/// 2^(1/16) - 1: half a step of the 8-bit codes.
constexpr double kCodedError = 0.0443;

FailureOr<Answer> reference(const Problem &p, unsigned threads, bool codedP) {
  Rounding exact;
  exact.relative = codedP ? kCodedError : ulp(p.q.dtype, 1) / 2;
  return p.q.dtype == DType::f64
             ? attend<long double, long double>(p, threads, exact)
             : attend<double, double>(p, threads, exact);
}

FailureOr<Answer> naive(const Problem &p, unsigned threads,
                        double (*roundP)(double)) {
  DType t = p.q.dtype;
  if (t == DType::f64)
    return attend<double, double>(p, threads, {false, t, roundP, 0});
  return attend<float, float>(p, threads, {false, t, roundP, 0});
}

double roundP8(double p) {
  double c = std::floor(-8 * std::log2(p) + 0.5);
  return c > 254 ? 0 : std::exp2(-std::max(c, 0.0) / 8);
}

FailureOr<double> visiblePairs(const Problem &p) {
  Captured captured(p);
  auto variant = VariantEvaluator<double>::create(p.variant, captured.arrays);
  if (failed(variant))
    return failure();
  std::vector<Sequence> list = sequences(p);
  double all = 0, seen = 0, visible = 0;
  for (const Sequence &s : list)
    all += double(s.q1 - s.q0) * (s.k1 - s.k0) * p.q.shape[1];
  int64_t step = std::max<int64_t>(1, all / (1 << 22));
  int64_t row = 0;
  for (const Sequence &s : list)
    for (int64_t h = 0; h < p.q.shape[1]; ++h)
      for (int64_t i = 0; i < s.q1 - s.q0; ++i) {
        if (row++ % step)
          continue;
        Point at{s.b, h, i, 0, s.q1 - s.q0, s.k1 - s.k0};
        for (at.j = 0; at.j < at.seqlenK; ++at.j)
          visible += variant->visible(at);
        seen += at.seqlenK;
      }
  return seen ? visible * all / seen : 0;
}

Check compare(std::string name, const Tensor &got, const Tensor &ref,
              const Tensor &naive, DType dtype, const Tensor &slack) {
  Check check;
  check.name = std::move(name);
  if (got.shape != ref.shape) {
    check.pass = false;
    check.worst =
        fmt::format("expected shape [{}], got [{}]", fmt::join(ref.shape, ", "),
                    fmt::join(got.shape, ", "));
    return check;
  }
  double naiveError = 0, largest = 0;
  for (int64_t n = 0, e = ref.size(); n < e; ++n) {
    double r = ref.load(n), error = std::fabs(naive.load(n) - r);
    if (std::isfinite(r))
      largest = std::max(largest, std::fabs(r));
    if (std::isfinite(error))
      naiveError = std::max(naiveError, error);
  }
  double allowed = 2 * naiveError + 2 * ulp(dtype, largest);
  check.tolerance = allowed;
  int64_t worst = -1;
  double worstRatio = 0;
  for (int64_t n = 0, e = ref.size(); n < e; ++n) {
    double r = ref.load(n), g = got.load(got.offsetOf(n));
    // Equal infinities and equal NaNs have no distance; a difference that is
    // not finite is the largest there is.
    bool same = g == r || (std::isnan(r) && std::isnan(g)) ||
                (std::isinf(g) && g == roundTo(dtype, r));
    if (same)
      continue;
    double error = std::fabs(g - r), here = allowed;
    if (std::isnan(error))
      error = INFINITY;
    if (slack.defined())
      here += slack.load(n);
    if (double ratio = error / here; ratio > worstRatio) {
      worstRatio = ratio;
      check.error = error;
      check.tolerance = here;
      worst = n;
    }
  }
  check.pass = worstRatio <= 1;
  if (!check.pass) {
    std::vector<int64_t> index(ref.rank());
    for (int64_t d = ref.rank(), n = worst; d-- > 0; n /= ref.shape[d])
      index[d] = n % ref.shape[d];
    check.worst = fmt::format("at [{}]: expected {:.9g}, got {:.9g}",
                              fmt::join(index, ", "), ref.load(worst),
                              got.load(got.offsetOf(worst)));
  }
  return check;
}

} // namespace fathom::oracle
