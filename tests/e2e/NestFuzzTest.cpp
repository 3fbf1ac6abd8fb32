//===- NestFuzzTest.cpp - random nests against an interpreter ---------------===//
//
// Random programs of tiles, loops and branches, printed as nest IR for the CPU
// target and evaluated entry by entry here. What they are after is the reuse of
// buffers: a tile overwritten before its last use, in place or by a yield.
//
//===----------------------------------------------------------------------===//

#include "tests/e2e/CpuHarness.h"

#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>

using namespace fathom;
using namespace fathom::test;

namespace {

using Shape = std::vector<int64_t>;

struct Tile {
  Shape shape;
  std::vector<double> data;
  double at(int64_t i, int64_t j = 0) const {
    return data[shape.size() == 2 ? i * shape[1] + j : i];
  }
};

struct Statement {
  std::string kind, detail; // an op, and its variant
  std::vector<std::string> results, operands;
  std::vector<Shape> shapes; // of the results
  std::vector<Statement> body, otherwise;
  std::vector<std::string> args, yields, otherYields;
  int64_t trips = 0;
};

std::string typeOf(const Shape &s) {
  return fmt::format("tensor<{}xf64>", fmt::join(s, "x"));
}

//===----------------------------------------------------------------------===//
// Making a program
//===----------------------------------------------------------------------===//

class Generator {
public:
  explicit Generator(unsigned seed) : random(seed) {}

  /// Inputs are named in0 ...; every result of the top level is an output.
  std::vector<Statement> make(int count) { return block(count, 0); }
  std::map<std::string, Shape> shapes;

private:
  int64_t pick(int64_t n) {
    return std::uniform_int_distribution<int64_t>(0, n - 1)(random);
  }
  int64_t dim() { return std::array<int64_t, 4>{3, 16, 20, 33}[pick(4)]; }
  std::string name() { return fmt::format("%v{}", next++); }
  std::string define(const Shape &s) {
    std::string n = name();
    shapes[n] = s;
    visible.push_back(n);
    return n;
  }
  /// A tile of this shape: mostly an earlier one, else loaded.
  std::string tile(const Shape &s, std::vector<Statement> &out) {
    std::vector<std::string> fits;
    for (const std::string &v : visible)
      if (shapes[v] == s)
        fits.push_back(v);
    if (!fits.empty() && pick(5))
      return fits[pick(2) ? fits.size() - 1 : pick(fits.size())];
    Statement l;
    l.kind = "load";
    l.detail = std::to_string(pick(3));
    l.shapes = {s};
    l.results = {define(s)};
    out.push_back(l);
    return l.results[0];
  }
  Shape shape() {
    if (!visible.empty() && pick(4))
      return shapes[visible[pick(visible.size())]];
    return pick(3) ? Shape{dim(), dim()} : Shape{dim()};
  }

  void statement(std::vector<Statement> &out, int depth) {
    Statement s;
    Shape shape = this->shape();
    switch (pick(depth < 2 ? 11 : 8)) {
    case 0:
    case 1: {
      s.kind = std::array{"arith.addf", "arith.subf", "arith.mulf",
                          "arith.maximumf"}[pick(4)];
      s.operands = {tile(shape, out), tile(shape, out)};
      break;
    }
    case 2:
      s.kind = std::array{"math.tanh", "math.absf", "arith.negf"}[pick(3)];
      s.operands = {tile(shape, out)};
      break;
    case 3: // i < j + shift ? x : y
      if (shape.size() != 2)
        shape = {dim(), dim()};
      s.kind = "mask";
      s.detail = std::to_string(pick(9) - 4);
      s.operands = {tile(shape, out), tile(shape, out)};
      break;
    case 4: {
      shape = {dim(), dim()};
      s.kind = "broadcast";
      int64_t d = pick(2);
      s.detail = std::to_string(d);
      s.operands = {tile({shape[d]}, out)};
      break;
    }
    case 5: {
      Shape from = shape.size() == 2 ? shape : Shape{dim(), dim()};
      if (pick(2)) {
        s.kind = "transpose";
        s.operands = {tile(from, out)};
        shape = {from[1], from[0]};
      } else {
        s.kind = pick(2) ? "reduce add" : "reduce max";
        int64_t d = pick(2);
        s.detail = std::to_string(d);
        s.operands = {tile(from, out)};
        shape = {from[1 - d]};
      }
      break;
    }
    case 6:
    case 7: {
      if (shape.size() != 2)
        shape = {dim(), dim()};
      int64_t k = dim();
      s.kind = "dot";
      s.operands = {tile({shape[0], k}, out), tile({k, shape[1]}, out),
                    tile(shape, out)};
      break;
    }
    case 8:
    case 9: {
      s.kind = "for";
      s.trips = pick(4);
      int n = 1 + pick(3);
      std::vector<std::string> inits;
      for (int i = 0; i < n; ++i) {
        Shape t = this->shape();
        s.operands.push_back(tile(t, out));
        s.shapes.push_back(t);
      }
      size_t outer = visible.size();
      for (int i = 0; i < n; ++i)
        s.args.push_back(define(s.shapes[i]));
      s.body = block(1 + pick(5), depth + 1);
      for (int i = 0; i < n; ++i)
        s.yields.push_back(tile(s.shapes[i], s.body));
      visible.resize(outer);
      for (const Shape &t : s.shapes)
        s.results.push_back(define(t));
      out.push_back(s);
      return;
    }
    default: {
      s.kind = "if";
      s.detail = std::to_string(pick(2)); // which parity of the innermost round
      int n = 1 + pick(2);
      for (int i = 0; i < n; ++i)
        s.shapes.push_back(this->shape());
      size_t outer = visible.size();
      for (auto [body, yields] : {std::pair(&s.body, &s.yields),
                                  std::pair(&s.otherwise, &s.otherYields)}) {
        *body = block(pick(4), depth + 1);
        for (int i = 0; i < n; ++i)
          yields->push_back(tile(s.shapes[i], *body));
        visible.resize(outer);
      }
      for (const Shape &t : s.shapes)
        s.results.push_back(define(t));
      out.push_back(s);
      return;
    }
    }
    s.shapes = {shape};
    s.results = {define(shape)};
    out.push_back(s);
  }

  std::vector<Statement> block(int count, int depth) {
    std::vector<Statement> out;
    for (int i = 0; i < count; ++i)
      statement(out, depth);
    return out;
  }

  std::mt19937 random;
  std::vector<std::string> visible;
  int next = 0;
};

//===----------------------------------------------------------------------===//
// Printing and running it
//===----------------------------------------------------------------------===//

/// The loaded tiles, by seed and shape.
double entry(int source, int64_t i, int64_t j) {
  return std::sin(1.0 + source * 7 + i * 1.3 + j * 0.7);
}

class Printer {
public:
  std::string text;
  std::map<std::string, Shape> *shapes;

  void block(const std::vector<Statement> &b, const std::string &round) {
    for (const Statement &s : b)
      statement(s, round);
  }

private:
  template <typename... Args>
  void line(fmt::format_string<Args...> f, Args &&...args) {
    text += fmt::format(f, std::forward<Args>(args)...) + "\n";
  }
  std::string fresh() { return fmt::format("%t{}", next++); }

  void statement(const Statement &s, const std::string &round) {
    std::string r = fmt::format("{}", fmt::join(s.results, ", ")),
                type = typeOf(s.shapes[0]);
    auto operandType = [&](int i) { return typeOf((*shapes)[s.operands[i]]); };
    std::vector<std::string> types;
    for (const Shape &t : s.shapes)
      types.push_back(typeOf(t));
    if (s.kind == "load") {
      bool two = s.shapes[0].size() == 2;
      line("{} = fa.load %in{}[{}] below({}) : memref<{}xf64> -> {}", r,
           two ? s.detail : s.detail + "r", two ? "%c0, %c0" : "%c0",
           two ? "%big, %big" : "%big", two ? "64x64" : "64", type);
    } else if (s.kind == "mask") {
      std::string i = fresh(), j = fresh(), k = fresh(), bi = fresh(),
                  bj = fresh(), m = fresh();
      std::string rows = fmt::format("tensor<{}xindex>", s.shapes[0][0]);
      std::string columns = fmt::format("tensor<{}xindex>", s.shapes[0][1]);
      std::string both =
          fmt::format("tensor<{}x{}xindex>", s.shapes[0][0], s.shapes[0][1]);
      line("{} = fa.iota %c0 : {}", i, rows);
      line("{} = arith.constant {} : index", k, s.detail);
      line("{} = fa.iota {} : {}", j, k, columns);
      line("{} = fa.broadcast {} dim 0 : {} -> {}", bi, i, rows, both);
      line("{} = fa.broadcast {} dim 1 : {} -> {}", bj, j, columns, both);
      line("{} = arith.cmpi slt, {}, {} : {}", m, bi, bj, both);
      line("{} = arith.select {}, {}, {} : tensor<{}x{}xi1>, {}", r, m,
           s.operands[0], s.operands[1], s.shapes[0][0], s.shapes[0][1], type);
    } else if (s.kind == "broadcast") {
      line("{} = fa.broadcast {} dim {} : {} -> {}", r, s.operands[0], s.detail,
           operandType(0), type);
    } else if (s.kind == "transpose") {
      line("{} = fa.transpose {} : {} -> {}", r, s.operands[0], operandType(0),
           type);
    } else if (s.kind.starts_with("reduce")) {
      line("{} = fa.{} {} dim {} : {} -> {}", r, s.kind, s.operands[0],
           s.detail, operandType(0), type);
    } else if (s.kind == "dot") {
      line("{} = fa.dot {} : {}, {}, {}", r, fmt::join(s.operands, ", "),
           operandType(0), operandType(1), type);
    } else if (s.kind == "for") {
      std::string iv = fresh();
      std::vector<std::string> init;
      for (size_t i = 0; i < s.args.size(); ++i)
        init.push_back(fmt::format("{} = {}", s.args[i], s.operands[i]));
      line("{} = scf.for {} = %c0 to %n{} step %c1 iter_args({}) -> ({}) {{", r,
           iv, s.trips, fmt::join(init, ", "), fmt::join(types, ", "));
      block(s.body, iv);
      line("scf.yield {} : {} }}", fmt::join(s.yields, ", "),
           fmt::join(types, ", "));
    } else if (s.kind == "if") {
      std::string odd = fresh(), c = fresh();
      line("{} = arith.remui {}, %c2 : index", odd, round);
      line("{} = arith.cmpi eq, {}, %c{} : index", c, odd, s.detail);
      line("{} = scf.if {} -> ({}) {{", r, c, fmt::join(types, ", "));
      block(s.body, round);
      line("scf.yield {} : {} }} else {{", fmt::join(s.yields, ", "),
           fmt::join(types, ", "));
      block(s.otherwise, round);
      line("scf.yield {} : {} }}", fmt::join(s.otherYields, ", "),
           fmt::join(types, ", "));
    } else {
      line("{} = {} {} : {}", r, s.kind, fmt::join(s.operands, ", "), type);
    }
  }
  int next = 0;
};

class Interpreter {
public:
  std::map<std::string, Tile> values;

  void block(const std::vector<Statement> &b, int64_t round) {
    for (const Statement &s : b)
      statement(s, round);
  }

private:
  Tile fill(const Shape &s, const std::function<double(int64_t, int64_t)> &f) {
    Tile t{s, {}};
    for (int64_t i = 0; i < s[0]; ++i)
      for (int64_t j = 0; j < (s.size() == 2 ? s[1] : 1); ++j)
        t.data.push_back(f(i, j));
    return t;
  }
  void statement(const Statement &s, int64_t round) {
    if (s.kind == "for") {
      std::vector<Tile> carried;
      for (const std::string &o : s.operands)
        carried.push_back(values[o]);
      for (int64_t k = 0; k < s.trips; ++k) {
        for (size_t i = 0; i < carried.size(); ++i)
          values[s.args[i]] = carried[i];
        block(s.body, k);
        for (size_t i = 0; i < carried.size(); ++i)
          carried[i] = values[s.yields[i]];
      }
      for (size_t i = 0; i < carried.size(); ++i)
        values[s.results[i]] = carried[i];
      return;
    }
    if (s.kind == "if") {
      bool yes = round % 2 == std::stoi(s.detail);
      block(yes ? s.body : s.otherwise, round);
      std::vector<Tile> r;
      for (const std::string &y : yes ? s.yields : s.otherYields)
        r.push_back(values[y]);
      for (size_t i = 0; i < r.size(); ++i)
        values[s.results[i]] = r[i];
      return;
    }
    auto in = [&](int i) -> const Tile & { return values[s.operands[i]]; };
    int detail = s.detail.empty() ? 0 : std::stoi(s.detail);
    values[s.results[0]] =
        fill(s.shapes[0], [&](int64_t i, int64_t j) -> double {
          if (s.kind == "load")
            return entry(detail, i, s.shapes[0].size() == 2 ? j : 0);
          if (s.kind == "mask")
            return i < j + detail ? in(0).at(i, j) : in(1).at(i, j);
          if (s.kind == "broadcast")
            return in(0).at(detail == 0 ? i : j);
          if (s.kind == "transpose")
            return in(0).at(j, i);
          if (s.kind.starts_with("reduce")) {
            double r = s.kind == "reduce add" ? 0 : -INFINITY;
            for (int64_t k = 0; k < in(0).shape[detail]; ++k) {
              double x = detail == 0 ? in(0).at(k, i) : in(0).at(i, k);
              r = s.kind == "reduce add" ? r + x : std::max(r, x);
            }
            return r;
          }
          if (s.kind == "dot") {
            double r = in(2).at(i, j);
            for (int64_t k = 0; k < in(0).shape[1]; ++k)
              r += in(0).at(i, k) * in(1).at(k, j);
            return r;
          }
          double x = in(0).at(i, j),
                 y = s.operands.size() > 1 ? in(1).at(i, j) : 0;
          return s.kind == "arith.addf"       ? x + y
                 : s.kind == "arith.subf"     ? x - y
                 : s.kind == "arith.mulf"     ? x * y
                 : s.kind == "arith.maximumf" ? std::max(x, y)
                 : s.kind == "math.tanh"      ? std::tanh(x)
                 : s.kind == "math.absf"      ? std::fabs(x)
                                              : -x;
        });
  }
};

/// Rounding differs, so the sizes of what was added up bound the error; large
/// values are of no interest.
void checkProgram(unsigned seed, const std::string &cpu) {
  Generator g(seed);
  std::vector<Statement> program = g.make(14);
  Interpreter expected;
  expected.block(program, 0);
  Printer printer;
  printer.shapes = &g.shapes;
  printer.block(program, "%c0");
  std::vector<std::string> outputs;
  std::string head, tail;
  for (const Statement &s : program)
    for (size_t i = 0; i < s.results.size(); ++i) {
      const Shape &shape = s.shapes[i];
      std::string memref = fmt::format("memref<{}xf64>", fmt::join(shape, "x"));
      head += fmt::format(", %out{}: {}", outputs.size(), memref);
      bool two = shape.size() == 2;
      tail +=
          fmt::format("fa.store {}, %out{}[{}] below({}) : {}, {}\n",
                      s.results[i], outputs.size(), two ? "%c0, %c0" : "%c0",
                      two ? "%big, %big" : "%big", typeOf(shape), memref);
      outputs.push_back(s.results[i]);
    }
  std::string inputs;
  for (int i = 0; i < 3; ++i)
    inputs += fmt::format("{}%in{}: memref<64x64xf64>, %in{}r: memref<64xf64>",
                          i ? ", " : "", i, i);
  std::string text =
      fmt::format("func.func @f({}{}) {{\n%big = arith.constant 64 : index\n",
                  inputs, head);
  for (int i = 0; i < 4; ++i)
    text += fmt::format("%c{0} = arith.constant {0} : index\n", i);
  for (int i = 0; i < 4; ++i)
    text += fmt::format("%n{0} = arith.constant {0} : index\n", i);
  text +=
      "fa.nest parallel(%i = %c1) {\n" + printer.text + tail + "}\nreturn\n}\n";

  SCOPED_TRACE(fmt::format("seed {} cpu '{}'\n{}", seed, cpu, text));
  Program p = Program::fromText(text, cpu);
  ASSERT_TRUE(p.executable);
  std::vector<Array<double>> arrays;
  for (int i = 0; i < 3; ++i) {
    arrays.emplace_back(Shape{64, 64});
    for (int r = 0; r < 64; ++r)
      for (int c = 0; c < 64; ++c)
        arrays.back()(r, c) = entry(i, r, c);
    arrays.emplace_back(Shape{64});
    for (int r = 0; r < 64; ++r)
      arrays.back()(r) = entry(i, r, 0);
  }
  for (const std::string &o : outputs)
    arrays.emplace_back(g.shapes[o]);
  std::vector<void *> args;
  for (auto &a : arrays)
    args.push_back(a.argument());
  p.executable->lookup("f")(args.data());
  for (size_t o = 0; o < outputs.size(); ++o) {
    const Tile &t = expected.values[outputs[o]];
    double size = 1;
    for (double x : t.data)
      size = std::max(size, std::fabs(x));
    if (!(size < 1e6))
      continue;
    for (size_t i = 0; i < t.data.size(); ++i)
      ASSERT_NEAR(arrays[6 + o].data[i], t.data[i], 1e-7 * size)
          << outputs[o] << " entry " << i;
  }
}

TEST(NestFuzz, RandomPrograms) {
  int first = 0, count = 24;
  if (const char *s = std::getenv("FATHOM_TEST_SEEDS")) // FIRST:COUNT
    std::sscanf(s, "%d:%d", &first, &count);
  std::vector<std::string> cpus = testCpus();
  for (int seed = first;
       seed < first + count && !testing::Test::HasFatalFailure(); ++seed)
    checkProgram(seed, cpus[seed % cpus.size()]);
}

} // namespace
