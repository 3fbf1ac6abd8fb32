//===- Target.cpp - the GPUs that code is made for --------------------------===//

#include "codegen/cuda/Target.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

namespace fathom::cuda {

using llvm::formatv;
using llvm::StringRef;

// CUDA C++ Programming Guide, "Technical Specifications per Compute
// Capability".
static constexpr int kKiB = 1024;
static constexpr Limits kLimits[] = {
    {80, 163 * kKiB, 164 * kKiB, 2048, 32},
    {86, 99 * kKiB, 100 * kKiB, 1536, 16},
    {87, 163 * kKiB, 164 * kKiB, 1536, 16},
    {89, 99 * kKiB, 100 * kKiB, 1536, 24},
    {90, 227 * kKiB, 228 * kKiB, 2048, 32},
    {100, 227 * kKiB, 228 * kKiB, 2048, 32},
    {103, 227 * kKiB, 228 * kKiB, 2048, 32},
    {110, 227 * kKiB, 228 * kKiB, 1536, 24},
    {120, 99 * kKiB, 100 * kKiB, 1536, 24},
    {121, 99 * kKiB, 100 * kKiB, 1536, 24},
};

bool Target::parse(const std::string &name, Target &target,
                   std::string &error) {
  StringRef rest = name;
  Target t;
  t.name = name;
  t.machine = rest.consume_front("sm_");
  bool known = t.machine || rest.consume_front("compute_");
  t.exact = rest.consume_back("a");
  known &= !rest.starts_with("0") && !rest.starts_with("+") &&
           !rest.getAsInteger(10, t.arch);
  // Nothing before 9.0 has features of its own.
  known &= !t.exact || t.arch >= 90;
  if (known)
    for (const Limits &l : kLimits)
      if (l.arch == t.arch) {
        t.limits = l;
        target = t;
        return true;
      }
  error = formatv("expected a GPU target sm_N, sm_Na (N from 90) or compute_N "
                  "with N one of ");
  llvm::interleave(
      kLimits, [&](const Limits &l) { error += std::to_string(l.arch); },
      [&] { error += ", "; });
  error += formatv(", got '{0}'", name);
  return false;
}

bool Target::codeRunsOn(int device) const {
  if (!machine || exact)
    return machine && device == arch;
  return device / 10 == arch / 10 && device >= arch;
}

bool Target::ptxRunsOn(int device) const {
  return exact ? device == arch : device >= arch;
}

int occupancy(const Kernel &k, const Limits &limits) {
  int64_t warps = llvm::divideCeil(k.threads, 32);
  if (!warps)
    return 0;
  int64_t ctas =
      std::min<int64_t>(limits.ctasPerSm, limits.threadsPerSm / (warps * 32));
  // Registers go to a warp in units of 256, from one of four files.
  if (k.resources.registers) {
    int64_t perWarp = llvm::alignTo(k.resources.registers * 32, 256);
    int64_t fit = limits.registersPerSm / 4 / perWarp * 4;
    ctas = std::min(ctas, fit / warps);
  }
  int64_t shared = llvm::alignTo(
      k.sharedBytes + k.resources.staticShared + limits.sharedReserved, 128);
  return std::min(ctas, limits.sharedPerSm / shared);
}

std::string checkFits(const Kernel &k, const Target &target) {
  const Limits &l = target.limits;
  int64_t shared = k.sharedBytes + k.resources.staticShared;
  if (shared > l.sharedPerCta)
    return formatv("kernel '{0}' needs {1} bytes of shared memory, {2} has {3} "
                   "for a CTA: choose smaller blocks",
                   k.name, shared, target.name, l.sharedPerCta);
  if (occupancy(k, l) == 0)
    return formatv("kernel '{0}' needs {1} threads of {2} registers, which {3} "
                   "doesn't have for one CTA: choose smaller blocks",
                   k.name, k.threads, k.resources.registers, target.name);
  return "";
}

/// The number in "(C7510)", or 0.
static int noteNumber(StringRef note) {
  int number = 0;
  auto [head, tail] = note.split("(C");
  if (tail.split(')').first.getAsInteger(10, number))
    return 0;
  return number;
}

std::string serialized(const Kernel &k) {
  for (const std::string &note : k.resources.notes)
    if (int n = noteNumber(note); (n >= 7503 && n <= 7517) || n == 7520)
      return formatv("kernel '{0}': {1}", k.name, note);
  return "";
}

std::vector<std::string> warnings(const Kernel &k) {
  std::vector<std::string> found;
  const Resources &r = k.resources;
  if (std::max(r.spillStores, r.spillLoads) > 64)
    found.push_back(formatv("kernel '{0}' spills: {1} bytes stored, {2} bytes "
                            "loaded a thread, at most 64 are fine",
                            k.name, r.spillStores, r.spillLoads));
  // Spilled registers have a frame of their own.
  if (r.stackBytes && !r.spillStores)
    found.push_back(formatv("kernel '{0}' has a stack frame of {1} bytes: an "
                            "array is indexed by what is not a constant",
                            k.name, r.stackBytes));
  for (const std::string &note : r.notes) {
    int n = noteNumber(note);
    if ((n >= 7503 && n <= 7516) || n == 7520)
      found.push_back(formatv("kernel '{0}': {1}", k.name, note));
  }
  return found;
}

} // namespace fathom::cuda
