//===- NpyTest.cpp - .npy files, good and bad -------------------------------===//

#include "runtime/Npy.h"

#include "gtest/gtest.h"
#include <filesystem>
#include <fstream>
#include <random>

using namespace fathom;

namespace {

class Npy : public ::testing::Test {
protected:
  std::string path = (std::filesystem::temp_directory_path() /
                      ("fathom-npy-" + std::to_string(getpid()) + ".npy"))
                         .string();
  ~Npy() override { std::filesystem::remove(path); }

  void write(const std::string &bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }

  static std::string file(const std::string &header,
                          const std::string &elements, int version = 1) {
    std::string s = "\x93NUMPY";
    s += char(version);
    s += char(0);
    s += char(header.size() & 255);
    s += char(header.size() >> 8);
    if (version > 1)
      s += std::string(2, 0);
    return s + header + elements;
  }

  std::string error(const std::string &bytes) {
    write(bytes);
    auto t = readNpy(path);
    return t.ok() ? "" : t.status().message();
  }
};

std::string floats(std::initializer_list<float> f) {
  return {reinterpret_cast<const char *>(f.begin()), f.size() * 4};
}

TEST_F(Npy, RoundTrip) {
  for (DType type :
       {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64, DType::i32,
        DType::i16, DType::i8, DType::u8, DType::i1})
    for (std::vector<int64_t> shape :
         {std::vector<int64_t>{}, {5}, {2, 3}, {2, 0, 3}}) {
      Tensor t = Tensor::zeros(type, shape);
      for (int64_t n = 0; n < t.size(); ++n)
        t.store(n, n % 2);
      ASSERT_TRUE(writeNpy(path, t).ok());
      auto r = readNpy(path);
      ASSERT_TRUE(r.ok()) << r.status().message();
      EXPECT_EQ(r->shape, shape);
      EXPECT_EQ(r->dtype,
                byteSize(type) == 2 && isFloat(type) ? DType::f32 : type);
      EXPECT_EQ(r->values(), t.values());
    }
}

TEST_F(Npy, WritesStridedViewsInCOrder) {
  Tensor t = Tensor::zeros(DType::f32, {2, 3});
  for (int64_t n = 0; n < 6; ++n)
    t.store(n, n);
  ASSERT_TRUE(writeNpy(path, t.permuted(std::vector<int64_t>{1, 0})).ok());
  EXPECT_EQ(readNpy(path)->values(), (std::vector<double>{0, 3, 1, 4, 2, 5}));
}

TEST_F(Npy, FortranOrderAndLaterVersions) {
  for (int version : {1, 2, 3}) {
    write(file("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }\n",
               floats({0, 1, 2, 3, 4, 5}), version));
    auto t = readNpy(path);
    ASSERT_TRUE(t.ok()) << t.status().message();
    EXPECT_EQ(t->values(), (std::vector<double>{0, 2, 4, 1, 3, 5}));
  }
}

TEST_F(Npy, SaysWhatIsWrong) {
  auto has = [&](const std::string &bytes, const std::string &words) {
    std::string message = error(bytes);
    EXPECT_NE(message.find(words), std::string::npos) << message;
  };
  has("", "expected a .npy file");
  has("PK\x03\x04 not numpy", "expected a .npy file");
  has(file("{'descr': '>f4', 'fortran_order': False, 'shape': (1,)}",
           floats({1})),
      "'>f4'");
  has(file("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}",
           floats({1})),
      "'|O'");
  has(file("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}",
           floats({1})),
      "expected 8 bytes of elements for shape (2), got 4");
  has(file("{'descr': '<f4', 'fortran_order': False, 'shape': "
           "(9223372036854775807, 9)}",
           ""),
      "too large");
  has(file("{'descr': '<f4', 'fortran_order': False, 'shape': "
           "(99999999999999999999,)}",
           ""),
      "expected a header");
  has(file("{'descr': '<f4', 'shape': (2,)}", floats({1, 2})),
      "expected a header");
  has(file("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}", ""),
      "expected a header");
  has(file("", "", 7), "version 1, 2 or 3, got 7");
  EXPECT_NE(
      readNpy("/nonexistent/x.npy").status().message().find("No such file"),
      std::string::npos);
  EXPECT_FALSE(readNpy("/").ok());
  EXPECT_FALSE(
      writeNpy("/nonexistent/x.npy", Tensor::zeros(DType::f32, {1})).ok());
}

TEST_F(Npy, JunkNeverCrashes) {
  std::string good =
      file("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n",
           floats({0, 1, 2, 3, 4, 5}));
  for (size_t n = 0; n < good.size(); ++n)
    EXPECT_NE(error(good.substr(0, n)), "");
  std::mt19937 random(7);
  for (int n = 0; n < 2000; ++n) {
    std::string bad = good;
    for (int k = random() % 4; k >= 0; --k)
      bad[random() % bad.size()] = random();
    (void)error(bad);
  }
}

} // namespace
