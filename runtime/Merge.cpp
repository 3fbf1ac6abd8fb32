//===- Merge.cpp - (O, L) pairs into one ------------------------------------===//

#include "runtime/Merge.h"

#include <fmt/format.h>

namespace fathom {

namespace {

/// Lines of IR; values are named by the caller.
class Text {
public:
  template <typename... Args>
  void line(fmt::format_string<Args...> format, Args &&...args) {
    text += fmt::format(format, std::forward<Args>(args)...) + "\n";
  }
  std::string text;
};

} // namespace

std::string mergeNest(DType from, DType to, int64_t dim, size_t parts) {
  constexpr int kRows = 32;
  std::string acc(name(accType(to))),
      strides4 = "strided<[?, ?, ?, ?], offset: ?>";
  auto array = [&](DType type) {
    return fmt::format("memref<?x?x?x{}x{}, {}>", dim, name(type), strides4);
  };
  std::string in = array(from), out = array(to),
              row = fmt::format(
                  "memref<?x?x?x{}, strided<[?, ?, ?], offset: ?>>", acc),
              tile = fmt::format("tensor<{}x{}x{}>", kRows, dim, acc),
              rows = fmt::format("tensor<{}x{}>", kRows, acc),
              flags = fmt::format("tensor<{}xi1>", kRows);
  auto typed = [&](DType type) {
    return fmt::format("tensor<{}x{}x{}>", kRows, dim, name(type));
  };
  Text t;
  std::string arguments;
  for (size_t n = 0; n < parts; ++n)
    arguments += fmt::format("%o{}: {}, ", n, in);
  for (size_t n = 0; n < parts; ++n)
    arguments += fmt::format("%l{}: {}, ", n, row);
  t.line("func.func @merge({}%o: {}, %lse: {}) {{", arguments, out, row);
  for (int d = 0; d < 3; ++d) {
    t.line("%c{0} = arith.constant {0} : index", d);
    t.line("%n{0} = memref.dim %lse, %c{0} : {1}", d, row);
  }
  t.line("%d = arith.constant {} : index", dim);
  t.line("fa.nest \"merge\" parallel(%b = %n0, %h = %n1, %i = %n2 step {}) {{",
         kRows);
  t.line("%zero = arith.constant dense<0.0> : {}", rows);
  t.line("%zeros = arith.constant dense<0.0> : {}", tile);
  t.line("%one = arith.constant dense<1.0> : {}", rows);
  t.line("%inf = arith.constant dense<{}> : {}",
         acc == "f64" ? "0xFFF0000000000000" : "0xFF800000", rows);
  std::string max = "%inf";
  for (size_t n = 0; n < parts; ++n) {
    t.line("%x{0} = fa.load %l{0}[%b, %h, %i] below(%n2) : {1} -> {2}", n, row,
           rows);
    t.line("%m{} = arith.maximumf {}, %x{} : {}", n, max, n, rows);
    max = fmt::format("%m{}", n);
  }
  // Weights are relative to the largest; rows without a key have none.
  t.line("%none = arith.cmpf oeq, {}, %inf : {}", max, rows);
  t.line("%top = arith.select %none, %zero, {} : {}, {}", max, flags, rows);
  std::string sum = "%zeros", total = "%zero";
  for (size_t n = 0; n < parts; ++n) {
    t.line("%s{0} = arith.subf %x{0}, %top : {1}", n, rows);
    t.line("%w{0} = math.exp %s{0} : {1}", n, rows);
    t.line("%t{0} = arith.addf {1}, %w{0} : {2}", n, total, rows);
    t.line("%y{0} = fa.load %o{0}[%b, %h, %i, %c0] below(%n2, %d) : {1} -> {2}",
           n, in, typed(from));
    std::string value = fmt::format("%y{}", n);
    if (byteSize(from) < byteSize(accType(to))) {
      t.line("%z{0} = arith.extf %y{0} : {1} to {2}", n, typed(from), tile);
      value = fmt::format("%z{}", n);
    }
    t.line("%e{0} = arith.cmpf oeq, %x{0}, %inf : {1}", n, rows);
    t.line("%f{0} = fa.broadcast %e{0} dim 0 : {1} -> tensor<{2}x{3}xi1>", n,
           flags, kRows, dim);
    t.line("%g{0} = fa.broadcast %w{0} dim 0 : {1} -> {2}", n, rows, tile);
    t.line("%p{0} = arith.mulf {1}, %g{0} : {2}", n, value, tile);
    t.line(
        "%q{0} = arith.select %f{0}, %zeros, %p{0} : tensor<{1}x{2}xi1>, {3}",
        n, kRows, dim, tile);
    t.line("%r{0} = arith.addf {1}, %q{0} : {2}", n, sum, tile);
    sum = fmt::format("%r{}", n);
    total = fmt::format("%t{}", n);
  }
  t.line("%empty = arith.cmpf oeq, {}, %zero : {}", total, rows);
  t.line("%by = arith.select %empty, %one, {} : {}, {}", total, flags, rows);
  t.line("%bys = fa.broadcast %by dim 0 : {} -> {}", rows, tile);
  t.line("%mean = arith.divf {}, %bys : {}", sum, tile);
  std::string result = "%mean";
  if (byteSize(to) < byteSize(accType(to))) {
    t.line("%rounded = arith.truncf %mean : {} to {}", tile, typed(to));
    result = "%rounded";
  }
  t.line("%log = math.log {} : {}", total, rows);
  t.line("%l = arith.addf {}, %log : {}", max, rows);
  t.line("fa.store %l, %lse[%b, %h, %i] below(%n2) : {}, {}", rows, row);
  t.line("fa.store {}, %o[%b, %h, %i, %c0] below(%n2, %d) : {}, {}", result,
         typed(to), out);
  t.line("}}\nreturn\n}}");
  return t.text;
}

} // namespace fathom
