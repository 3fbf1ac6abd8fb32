//===- Npy.cpp - arrays in .npy files ---------------------------------------===//
//
// The file is a magic word, a version, a header length and a header: a Python
// dictionary literal with exactly the keys descr, fortran_order and shape.
//
//===----------------------------------------------------------------------===//

#include "runtime/Npy.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace fathom {
namespace {

using File = std::unique_ptr<std::FILE, int (*)(std::FILE *)>;

struct Header {
  std::string descr;
  bool fortranOrder = false;
  std::vector<int64_t> shape;
};

/// Reads the one dictionary shape that the format allows.
class HeaderParser {
public:
  explicit HeaderParser(std::string_view text) : text(text) {}

  bool parse(Header &h) {
    bool descr = false, order = false, shape = false;
    if (!eat("{"))
      return false;
    while (!eat("}")) {
      std::string key;
      if (!string(key) || !eat(":"))
        return false;
      if (key == "descr" && !descr)
        descr = string(h.descr);
      else if (key == "fortran_order" && !order)
        order = boolean(h.fortranOrder);
      else if (key == "shape" && !shape)
        shape = tuple(h.shape);
      else
        return false;
      if (!eat(",") && peek() != '}')
        return false;
    }
    return descr && order && shape && peek() == 0;
  }

private:
  char peek() {
    while (!text.empty() &&
           (text[0] == ' ' || text[0] == '\n' || text[0] == '\t'))
      text.remove_prefix(1);
    return text.empty() ? 0 : text[0];
  }
  bool eat(std::string_view token) {
    peek();
    if (text.substr(0, token.size()) != token)
      return false;
    text.remove_prefix(token.size());
    return true;
  }
  bool string(std::string &s) {
    char quote = peek();
    if (quote != '\'' && quote != '"')
      return false;
    size_t end = text.find(quote, 1);
    if (end == std::string_view::npos)
      return false;
    s = text.substr(1, end - 1);
    text.remove_prefix(end + 1);
    return true;
  }
  bool boolean(bool &b) { return (b = eat("True")) || eat("False"); }
  bool tuple(std::vector<int64_t> &dims) {
    if (!eat("("))
      return false;
    while (!eat(")")) {
      if (dims.size() == 32 || peek() < '0' || peek() > '9')
        return false;
      int64_t n = 0;
      for (; !text.empty() && text[0] >= '0' && text[0] <= '9';
           text.remove_prefix(1))
        if (__builtin_mul_overflow(n, 10, &n) ||
            __builtin_add_overflow(n, text[0] - '0', &n))
          return false;
      dims.push_back(n);
      if (!eat(",") && peek() != ')')
        return false;
    }
    return true;
  }

  std::string_view text;
};

std::optional<DType> dtypeOf(std::string_view descr) {
  static constexpr std::pair<std::string_view, DType> known[] = {
      {"<f8", DType::f64}, {"<f4", DType::f32}, {"<f2", DType::f16},
      {"<i8", DType::i64}, {"<i4", DType::i32}, {"<i2", DType::i16},
      {"|i1", DType::i8},  {"|u1", DType::u8},  {"|b1", DType::i1}};
  for (auto [n, t] : known)
    if (n == descr)
      return t;
  return std::nullopt;
}

} // namespace

Result<Tensor> readNpy(const std::string &path) {
  auto fail = [&](std::string why) {
    return Status(ErrorCode::io_error,
                  fmt::format("cannot read '{}': {}", path, why));
  };
  File file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file)
    return fail(std::strerror(errno));
  unsigned char head[12];
  if (std::fread(head, 1, 10, file.get()) != 10 ||
      std::memcmp(head, "\x93NUMPY", 6))
    return fail(
        "expected a .npy file (numpy.save writes one), got other bytes");
  unsigned version = head[6];
  size_t length = head[8] | head[9] << 8, start = 10;
  if (version == 2 || version == 3) {
    if (std::fread(head + 10, 1, 2, file.get()) != 2)
      return fail("the file ends within its header");
    length |= size_t(head[10]) << 16 | size_t(head[11]) << 24;
    start = 12;
  } else if (version != 1) {
    return fail(
        fmt::format("expected .npy format version 1, 2 or 3, got {}", version));
  }
  if (length > (1 << 20))
    return fail(fmt::format("expected a header of at most 1 MiB, got {} bytes",
                            length));
  std::string text(length, 0);
  if (std::fread(text.data(), 1, length, file.get()) != length)
    return fail("the file ends within its header");
  Header h;
  if (!HeaderParser(text).parse(h))
    return fail("expected a header with 'descr', 'fortran_order' and 'shape', "
                "got something else");
  auto dtype = dtypeOf(h.descr);
  if (!dtype)
    return fail(fmt::format(
        "expected little-endian elements of type f2, f4, f8, i1, i2, i4, i8, "
        "u1 or b1, got '{}'; convert the array with astype() before saving",
        h.descr));
  int64_t bytes = byteSize(*dtype);
  for (int64_t d : h.shape)
    if (__builtin_mul_overflow(bytes, d, &bytes))
      return fail(
          fmt::format("shape ({}) is too large", fmt::join(h.shape, ", ")));
  // Before memory is taken: does the file hold that much?
  if (fseeko(file.get(), 0, SEEK_END))
    return fail(std::strerror(errno));
  int64_t present = int64_t(ftello(file.get())) - int64_t(start + length);
  if (present != bytes)
    return fail(
        fmt::format("expected {} bytes of elements for shape ({}), got {}",
                    bytes, fmt::join(h.shape, ", "), present));
  if (fseeko(file.get(), start + length, SEEK_SET))
    return fail(std::strerror(errno));
  Tensor t = Tensor::zeros(*dtype, h.shape);
  if (!t.defined())
    return fail(fmt::format("no memory for {} bytes", bytes));
  if (std::fread(t.data, 1, bytes, file.get()) != size_t(bytes))
    return fail("the file ends within its elements");
  if (h.fortranOrder) {
    int64_t n = 1;
    for (size_t d = 0; d < h.shape.size();
         n *= std::max<int64_t>(h.shape[d++], 1))
      t.strides[d] = n;
  }
  return t;
}

Status writeNpy(const std::string &path, const Tensor &tensor) {
  auto fail = [&] {
    return Status(ErrorCode::io_error, fmt::format("cannot write '{}': {}",
                                                   path, std::strerror(errno)));
  };
  bool widen = tensor.dtype == DType::f16 || tensor.dtype == DType::bf16;
  Tensor t = tensor.to(widen ? DType::f32 : tensor.dtype);
  constexpr std::string_view descr[] = {"<f8", "<f4", "",    "",    "<i8",
                                        "<i4", "<i2", "|i1", "|u1", "|b1"};
  std::string header = fmt::format(
      "{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}",
      descr[int(t.dtype)], fmt::join(t.shape, ", "), t.rank() == 1 ? "," : "");
  // Elements start at a multiple of 64 bytes.
  header.append(63 - (10 + header.size()) % 64, ' ').push_back('\n');
  std::string prefix = {'\x93',
                        'N',
                        'U',
                        'M',
                        'P',
                        'Y',
                        1,
                        0,
                        char(header.size() & 255),
                        char(header.size() >> 8)};
  File file(std::fopen(path.c_str(), "wb"), std::fclose);
  size_t bytes = t.size() * byteSize(t.dtype);
  if (!file || std::fwrite(prefix.data(), 1, 10, file.get()) != 10 ||
      std::fwrite(header.data(), 1, header.size(), file.get()) !=
          header.size() ||
      std::fwrite(t.data, 1, bytes, file.get()) != bytes ||
      std::fflush(file.get()))
    return fail();
  return {};
}

} // namespace fathom
