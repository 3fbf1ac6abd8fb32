//===- fathom.cpp - all tools in one file -----------------------------------===//
//
// A static tool carries its own MLIR and LLVM, some 50 MB. The release holds
// them once: this file runs the tool whose name it is called by, and each tool
// is a link to it.
//
//===----------------------------------------------------------------------===//

#include <cstdio>
#include <cstring>

#define FATHOM_TOOL(name, main) int main(int argc, char **argv);
#include "tools/fathom/Tools.inc"
#undef FATHOM_TOOL

int main(int argc, char **argv) {
  const char *slash = std::strrchr(argv[0], '/');
  const char *called = slash ? slash + 1 : argv[0];
#define FATHOM_TOOL(name, main)                                                \
  if (!std::strcmp(called, name))                                              \
    return main(argc, argv);
#include "tools/fathom/Tools.inc"
#undef FATHOM_TOOL
  std::fprintf(stderr,
               "fathom: expected to be called as one of these, got '%s':\n",
               called);
#define FATHOM_TOOL(name, main) std::fprintf(stderr, "  %s\n", name);
#include "tools/fathom/Tools.inc"
  return 2;
}
