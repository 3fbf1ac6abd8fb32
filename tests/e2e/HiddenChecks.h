//===- HiddenChecks.h - what hidden entries must not do, on any target ------===//
//
// Checks of results that the CPU's and the GPU's tests share: rows that see no
// key, finite values in hidden entries, NaN in one row.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_TESTS_E2E_HIDDENCHECKS_H
#define FATHOM_TESTS_E2E_HIDDENCHECKS_H

#include "tests/e2e/Harness.h"

namespace fathom::test {

/// The first `rows` rows of each head saw no key.
inline void expectNothingSeen(const Spec &s, const Results &r, int64_t rows) {
  for (int64_t h = 0; h < s.heads; ++h)
    for (int64_t i = 0; i < rows; ++i) {
      EXPECT_EQ(r.lse.at({0, h, i}), -INFINITY);
      for (int64_t d = 0; d < s.d; ++d) {
        EXPECT_EQ(r.o.at({0, h, i, d}), 0);
        EXPECT_EQ(r.dq.at({0, h, i, d}), 0);
      }
    }
}

/// A window: huge keys and values outside of it, in tiles partly visible.
inline Spec narrowWindow(Spec window) {
  window.text = "fa.variant @v window(left = 3, right = 0)";
  return window;
}

/// Changes hidden keys and values of `original`, an instance of narrowWindow(),
/// to huge ones: what belongs to rows and keys below 20 stays the same, to the
/// bit. `what` is for messages.
inline void expectHiddenValuesNeverMatter(const World &original,
                                          const Executable &e,
                                          const std::string &what) {
  World w = original;
  for (Tensor *t : {&w.x.k, &w.x.v, &w.x.dO, &w.x.dLse})
    *t = t->to(t->dtype);
  const Spec &s = w.spec;
  // Only rows below 20 get a gradient; keys from 25 on are hidden to them.
  for (int64_t h = 0; h < s.heads; ++h)
    for (int64_t i = 20; i < s.sq; ++i) {
      w.x.dLse.store(w.x.dLse.offset(std::vector<int64_t>{0, h, i}), 0);
      for (int64_t d = 0; d < s.dv; ++d)
        w.x.dO.store(w.x.dO.offset(std::vector<int64_t>{0, h, i, d}), 0);
    }
  Results clean = w.run(e);
  for (int64_t h = 0; h < s.kvHeads; ++h)
    for (int64_t j = 25; j < s.sk; ++j)
      for (int64_t d = 0; d < s.d; ++d) {
        w.x.k.store(w.x.k.offset(std::vector<int64_t>{0, h, j, d}),
                    d % 2 ? 1e30 : -1e30);
        w.x.v.store(w.x.v.offset(std::vector<int64_t>{0, h, j, d}), 1e38);
      }
  Results dirty = w.run(e);
  auto expectEqual = [&](const Tensor &a, const Tensor &b, const char *name) {
    for (int64_t h = 0; h < a.shape[1]; ++h)
      for (int64_t i = 0; i < 20; ++i)
        for (int64_t d = 0; d < a.shape[3]; ++d)
          ASSERT_EQ(a.at({0, h, i, d}), b.at({0, h, i, d}))
              << name << " " << what << " " << i;
  };
  expectEqual(clean.o, dirty.o, "o");
  expectEqual(clean.dq, dirty.dq, "dq");
  expectEqual(clean.dk, dirty.dk, "dk");
  expectEqual(clean.dv, dirty.dv, "dv");
}

/// NaN in row 3 of Q's first head shows up in that row of O and nowhere else.
/// Changes `w`.
inline void expectNaNStaysInItsRow(World &w, const Executable &e) {
  Results clean = w.run(e);
  w.x.q.store(w.x.q.offset(std::vector<int64_t>{0, 0, 3, 0}), NAN);
  Results dirty = w.run(e);
  for (int64_t i = 0; i < w.spec.sq; ++i)
    for (int64_t d = 0; d < w.spec.dv; ++d) {
      if (i == 3)
        EXPECT_TRUE(std::isnan(dirty.o.at({0, 0, i, d})));
      else
        EXPECT_EQ(clean.o.at({0, 0, i, d}), dirty.o.at({0, 0, i, d})) << i;
      EXPECT_EQ(clean.o.at({0, 1, i, d}), dirty.o.at({0, 1, i, d}));
    }
}

} // namespace fathom::test

#endif // FATHOM_TESTS_E2E_HIDDENCHECKS_H
