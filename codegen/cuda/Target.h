//===- Target.h - the GPUs that code is made for ----------------*- C++ -*-===//
//
// What a target's name means, and the limits of its multiprocessors. Needs
// neither NVRTC nor a driver.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_CODEGEN_CUDA_TARGET_H
#define FATHOM_CODEGEN_CUDA_TARGET_H

#include "codegen/cuda/Program.h"

#include <string>

namespace fathom::cuda {

/// What one architecture has. All of them have bf16, cp.async and ldmatrix.
struct Limits {
  int arch;         ///< 90 for compute capability 9.0
  int sharedPerCta; ///< bytes; beyond 48 KiB by request
  int sharedPerSm;  ///< bytes
  int threadsPerSm; ///< resident
  int ctasPerSm;    ///< resident
  int registersPerSm = 65536;
  int registersPerThread = 255;
  int sharedReserved = 1024; ///< bytes the driver takes from each CTA
};

/// sm_90: machine code for compute capability 9.0 and later ones of the same
/// major number, and PTX. sm_90a: exactly for 9.0, with wgmma. compute_80: PTX
/// for every GPU from 8.0 on.
struct Target {
  std::string name;    ///< as the user says it
  int arch = 0;        ///< 90
  bool exact = false;  ///< the suffix a
  bool machine = true; ///< false: PTX only
  Limits limits = {};

  /// False and a reason for what is not a known target.
  static bool parse(const std::string &name, Target &target,
                    std::string &error);

  /// Whether machine code for this target runs on compute capability `arch`,
  /// and whether PTX for it does.
  bool codeRunsOn(int device) const;
  bool ptxRunsOn(int device) const;
};

/// CTAs of `kernel` that one multiprocessor holds at a time, by registers (if
/// it is compiled), shared memory and threads. 0: none fits.
int occupancy(const Kernel &kernel, const Limits &limits);

/// Empty, or why no GPU of the target can hold a CTA of `kernel`.
std::string checkFits(const Kernel &kernel, const Target &target);

/// Empty, or the assembler's note that in a compiled kernel products of four
/// warps wait for each other, or that registers do not move between warps: it
/// then costs more than one without these.
std::string serialized(const Kernel &kernel);

/// What in a compiled kernel costs speed and should not be there: more than 64
/// bytes of spill, a stack frame, notes of the assembler that it serialized or
/// copied. Empty for a good kernel.
std::vector<std::string> warnings(const Kernel &kernel);

} // namespace fathom::cuda

#endif // FATHOM_CODEGEN_CUDA_TARGET_H
