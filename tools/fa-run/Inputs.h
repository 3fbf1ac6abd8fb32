//===- Inputs.h - where fa-run's operands come from -------------*- C++ -*-===//

#ifndef FATHOM_TOOLS_FARUN_INPUTS_H
#define FATHOM_TOOLS_FARUN_INPUTS_H

#include "runtime/Operands.h"

namespace fathom {

/// What the command line says about the operands. Empty: not said.
struct InputOptions {
  std::string q, k, v, dO, dLse; ///< .npy files
  std::vector<std::string>
      captures; ///< NAME=FILE.npy, NAME=random:8x128, NAME=30
  std::string cuSeqlensQ, cuSeqlensK; ///< 0,5,9 or a .npy file
  std::string dtype;
  Layout layout = Layout::bshd;
  bool backward = false, randomDLse = false;
  int64_t batch = 1, seqlenQ = 128, seqlenK = 0, heads = 2, kvHeads = 0;
  int64_t headDim = 64, headDimV = 0;
  uint64_t seed = 0;
};

/// Reads the files and draws the rest: normal values, rounded to the dtype;
/// captured tensors get the shape their use in the regions implies.
Result<Operands> makeInputs(VariantInterface variant, const VariantInfo &info,
                            const InputOptions &options);

} // namespace fathom

#endif // FATHOM_TOOLS_FARUN_INPUTS_H
