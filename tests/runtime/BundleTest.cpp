//===- BundleTest.cpp - kernels compiled ahead of time ----------------------===//

#include "runtime/Bundle.h"

#include "gtest/gtest.h"
#include <filesystem>
#include <fstream>
#include <unistd.h>

using namespace fathom;
namespace fs = std::filesystem;

namespace {

Bundle sample() {
  Bundle b;
  b.variant.name = "odd name \"x\"";
  b.variant.captures = {{"table", DType::f32, true, {-1, 8}},
                        {"cap", DType::i32, false, {}}};
  b.variant.alibi = 0;
  b.instance = {DType::bf16, 64, 96, 4, Layout::packed, true, true};
  b.items = {{"sm_90", Piece::forward, true, {"program\n1", "{\"a\":1}"}},
             {"compute_80", Piece::backward, false, {"program 2", "{}"}}};
  return b;
}

void says(const Status &s, const std::string &words) {
  EXPECT_FALSE(s.ok());
  EXPECT_NE(s.message().find(words), std::string::npos) << s.message();
}

TEST(Bundles, ComeBackAsTheyWere) {
  Bundle b = sample();
  auto r = bundleFromText(toText(b), "text");
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_EQ(toText(*r), toText(b));
  EXPECT_EQ(r->variant.name, b.variant.name);
  EXPECT_EQ(r->variant.captures[0].shape, b.variant.captures[0].shape);
  EXPECT_EQ(r->variant.captures[1].dtype, DType::i32);
  EXPECT_EQ(r->variant.alibi, b.variant.alibi);
  EXPECT_EQ(r->instance.headDimV, 96);
  EXPECT_EQ(r->instance.layout, Layout::packed);
  EXPECT_EQ(r->items[1].piece, Piece::backward);
  EXPECT_EQ(r->items[0].entry.object, "program\n1");
}

TEST(Bundles, WhatIsNoneIsRefused) {
  auto from = [](const std::string &text) {
    return bundleFromText(text, "x.fab").status();
  };
  says(from("junk"), "'x.fab': expected a bundle of kernels (fa-run "
                     "--emit-bundle makes one), got other text");
  says(from("[1]"), "got other JSON");
  says(from("{\"format\": \"fathom-bundle-9\"}"),
       "got one of format 'fathom-bundle-9'; this build reads fathom-bundle-1");
  std::string text = toText(sample());
  for (const char *field :
       {"variant", "instance", "pieces", "captures", "dtype", "head_dim",
        "head_dim_v", "group", "layout", "gradients", "lse_gradient", "alibi",
        "target", "piece", "aligned", "program", "meta", "tensor", "shape"}) {
    std::string other = text, quoted = '"' + std::string(field) + "\":";
    size_t at = other.find(quoted);
    ASSERT_NE(at, std::string::npos) << field;
    other.replace(at + 1, 1, "_");
    says(from(other), "is missing or wrong");
  }
  for (size_t n = 0; n < text.size(); n += 7) // any part of one
    EXPECT_FALSE(from(text.substr(0, n)).ok());
  says(readBundle("/nonexistent").status(), "cannot read '/nonexistent'");
}

TEST(Bundles, AreWrittenWhole) {
  fs::path dir =
      fs::temp_directory_path() / ("fathom-bundle-" + std::to_string(getpid()));
  fs::create_directories(dir);
  std::string path = dir / "a.fab";
  std::ofstream(path) << "old";
  ASSERT_TRUE(writeBundle(sample(), path).ok());
  EXPECT_TRUE(readBundle(path).ok());
  EXPECT_EQ(
      std::distance(fs::directory_iterator(dir), fs::directory_iterator()), 1);
  says(writeBundle(sample(), dir / "none" / "a.fab"), "cannot write");
  fs::remove_all(dir);
}

TEST(Bundles, AreForGpus) {
  says(instantiate(sample(), Device{}).status(), "got cpu");
  says(Kernel::load("/nonexistent").status(), "cannot read");
  says(Kernel::load("/nonexistent", "moon").status(), "got 'moon'");
}

} // namespace
