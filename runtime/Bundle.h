//===- Bundle.h - kernels compiled ahead of time ----------------*- C++ -*-===//
//
// One file with an instance's pieces for one or more GPU targets, and what a
// caller needs to know of its variant. Running it needs no compiler.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_RUNTIME_BUNDLE_H
#define FATHOM_RUNTIME_BUNDLE_H

#include "runtime/Instance.h"
#include "runtime/cache/DiskCache.h"

namespace fathom {

struct Bundle {
  struct Item {
    std::string target; ///< sm_90, compute_80
    Piece piece = Piece::whole;
    bool aligned = false;
    DiskCache::Entry entry; ///< as the cache keeps it
  };

  VariantInfo variant;
  InstanceOptions instance;
  std::vector<Item> items;
};

std::string toText(const Bundle &bundle);
/// `file` is for messages.
Result<Bundle> bundleFromText(const std::string &text, const std::string &file);

/// Whole or not at all: an older file stays until the new one is there.
Status writeBundle(const Bundle &bundle, const std::string &path);
Result<Bundle> readBundle(const std::string &path);

/// The instance in a bundle, for a device that one of its targets is for.
Result<std::shared_ptr<const Instance>> instantiate(Bundle bundle,
                                                    Device device);

} // namespace fathom

#endif // FATHOM_RUNTIME_BUNDLE_H
