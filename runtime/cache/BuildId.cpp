//===- BuildId.cpp - which compiler this is ---------------------------------===//

#include "runtime/cache/BuildId.h"
#include "runtime/PartTimes.h"
#include "runtime/cache/BuildId.inc" // kOwnBuildId, made by BuildId.cmake
#include "runtime/cache/KernelCache.h"

#include "mlir/IR/Verifier.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/TargetParser/Host.h"

#include <cstring>
#include <elf.h>
#include <link.h>
#include <mutex>

namespace fathom {
namespace {

/// The GNU build id of a loaded object, if it has one.
std::optional<std::string> noteOf(const dl_phdr_info &object) {
  for (int n = 0; n < object.dlpi_phnum; ++n) {
    const ElfW(Phdr) &p = object.dlpi_phdr[n];
    if (p.p_type != PT_NOTE)
      continue;
    const char *at =
        reinterpret_cast<const char *>(object.dlpi_addr + p.p_vaddr);
    const char *end = at + p.p_memsz;
    while (at + sizeof(ElfW(Nhdr)) <= end) {
      auto *note = reinterpret_cast<const ElfW(Nhdr) *>(at);
      const char *name = at + sizeof(*note);
      const char *content = name + (note->n_namesz + 3) / 4 * 4;
      if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 &&
          !std::memcmp(name, "GNU", 4))
        return llvm::toHex(llvm::StringRef(content, note->n_descsz),
                           /*LowerCase=*/true);
      at = content + (note->n_descsz + 3) / 4 * 4;
    }
  }
  return std::nullopt;
}

/// The build id of the object that holds `address`; "own" if Fathom itself does.
std::optional<std::string> objectOf(const void *address) {
  struct Search {
    uintptr_t address, own;
    std::optional<std::string> found;
  } search{reinterpret_cast<uintptr_t>(address),
           reinterpret_cast<uintptr_t>(&noteOf),
           {}};
  dl_iterate_phdr(
      [](dl_phdr_info *object, size_t, void *data) {
        auto &s = *static_cast<Search *>(data);
        bool holds = false, own = false;
        for (int n = 0; n < object->dlpi_phnum; ++n) {
          const ElfW(Phdr) &p = object->dlpi_phdr[n];
          uintptr_t begin = object->dlpi_addr + p.p_vaddr;
          if (p.p_type != PT_LOAD)
            continue;
          holds |= s.address - begin < p.p_memsz;
          own |= s.own - begin < p.p_memsz;
        }
        if (holds)
          s.found = own ? "own" : noteOf(*object);
        return int(holds);
      },
      &search);
  return search.found;
}

} // namespace

const std::optional<std::string> &compilerBuildId() {
  static const std::optional<std::string> id =
      []() -> std::optional<std::string> {
    std::string text = kOwnBuildId;
    text += " LLVM " LLVM_VERSION_STRING;
    for (const void *address :
         {reinterpret_cast<const void *>(&llvm::sys::getHostCPUName),
          reinterpret_cast<const void *>(&mlir::verify)}) {
      auto object = objectOf(address);
      if (!object)
        return std::nullopt;
      text += " " + *object;
    }
    return text;
  }();
  return id;
}

const cuda::NvrtcInfo *knownNvrtc() {
  static const std::optional<cuda::NvrtcInfo> known = [] {
    auto text = KernelCache::global().disk().note("nvrtc");
    return text ? cuda::recallNvrtc(*text) : std::nullopt;
  }();
  return known ? &*known : nullptr;
}

Result<const cuda::NvrtcInfo *> openNvrtc() {
  PartTimer timer("NVRTC opened");
  auto nvrtc = cuda::nvrtc();
  if (!nvrtc)
    return Status(ErrorCode::unsupported, toString(nvrtc.takeError()));
  static std::once_flag once;
  std::call_once(once, [&] {
    if (knownNvrtc() && knownNvrtc()->identity == (*nvrtc)->identity)
      return;
    if (std::string text = cuda::rememberNvrtc(); !text.empty())
      KernelCache::global().disk().keepNote("nvrtc", text);
  });
  return *nvrtc;
}

} // namespace fathom
