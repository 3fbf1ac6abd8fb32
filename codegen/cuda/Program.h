//===- Program.h - what a GPU instance is made of ---------------*- C++ -*-===//
//
// The product of the CUDA back end, as data: kernels (text and machine code)
// and, for each entry point, a plan that says what the host does to run it.
// The runtime interprets plans, the cache and ahead-of-time bundles store
// programs. Includes nothing of LLVM, MLIR or CUDA.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_CODEGEN_CUDA_PROGRAM_H
#define FATHOM_CODEGEN_CUDA_PROGRAM_H

#include <cstdint>
#include <string>
#include <vector>

namespace fathom::cuda {

/// What ptxas and the driver say about a kernel's needs.
struct Resources {
  int registers = 0;    ///< per thread
  int spillStores = 0;  ///< bytes per thread
  int spillLoads = 0;   ///< bytes per thread
  int stackBytes = 0;   ///< per thread
  int staticShared = 0; ///< bytes per CTA
  int constantBytes = 0;
  std::vector<std::string> notes; ///< what else the assembler warned of
};

/// One kernel. `source` is a file that stands alone.
struct Kernel {
  std::string name;
  std::string source;
  int threads = 0;         ///< per CTA
  int64_t sharedBytes = 0; ///< dynamic shared memory per CTA
  std::string cubin, ptx;  ///< empty until compiled
  Resources resources;
};

/// The type of an argument or of an array's elements.
enum class Scalar : uint8_t {
  i1,
  i8,
  i16,
  i32,
  i64,
  index,
  f16,
  bf16,
  f32,
  f64
};
int64_t sizeOf(Scalar type); ///< bytes

/// An argument of an entry point: an array, or a scalar if rank is -1.
struct Argument {
  Scalar type = Scalar::f32;
  int rank = -1;
};

/// An array that lives for one call. A dim is a register, or static if
/// the register is -1.
struct Workspace {
  struct Dim {
    int reg = -1;
    int64_t size = 0;
  };
  Scalar type = Scalar::f32;
  std::vector<Dim> dims; ///< C order, no padding
};

/// An array as the copy engine of a GPU shall see it, which takes boxes of it.
struct BoxMap {
  static constexpr int kMaxRank = 5, kMaxBox = 256;
  bool ofWorkspace = false;
  int array = 0;                     ///< an argument or a workspace
  std::vector<Workspace::Dim> sizes; ///< entries past them count as zeros
  std::vector<int> box;
  int swizzle = 0; ///< bytes of the pattern in which boxes lie; 0: none
};

/// One parameter of a launch.
struct Parameter {
  enum Kind : uint8_t {
    argument,  ///< argument `index` of the entry point: array or scalar
    workspace, ///< workspace `index`
    value,     ///< register `index`, as `type`
    map        ///< what the GPU takes for map `index`, 128 bytes
  } kind = argument;
  int index = 0;
  Scalar type = Scalar::index;
  /// Of an array: which of its dims each dim is; empty: as they are.
  std::vector<int> order;
};

/// A launch of kernel `kernel` with as many CTAs as register `grid` says; not
/// done at all where that is 0.
struct Launch {
  int kernel = 0;
  int grid = 0;
  std::vector<Parameter> parameters;
};

/// Registers are int64 and written once, before they are read. Comparisons
/// give 0 or 1.
struct Instruction {
  enum Op : uint8_t {
    constant, ///< dst = imm
    dim,      ///< dst = size imm of argument a
    scalar,   ///< dst = argument a, an integer scalar
    addi,
    subi,
    muli,
    divsi,
    divui,
    remsi,
    remui,
    ceildivsi,
    floordivsi, ///< dst = a op b
    minsi,
    maxsi,
    minui,
    maxui,
    andi,
    ori,
    xori,
    shli,
    shrsi,
    shrui,
    cmp,      ///< dst = a (predicate imm) b, numbered as arith.cmpi's
    select,   ///< dst = c ? a : b
    allocate, ///< workspace a exists from here on
    clear,    ///< every byte of workspace a becomes imm
    launch    ///< launch a
  } op = constant;
  int dst = 0, a = 0, b = 0, c = 0;
  int64_t imm = 0;
};

/// What the host does for one entry point.
struct Plan {
  std::string name; ///< the function it comes from, e.g. causal.fwd
  std::vector<Argument> arguments;
  std::vector<Workspace> workspaces;
  std::vector<BoxMap> maps;
  std::vector<Launch> launches;
  std::vector<Instruction> code;
  std::vector<int> results; ///< registers; of type index
  int registers = 0;
};

struct Program {
  std::string target; ///< as the user says it: sm_90, compute_80
  std::vector<Kernel> kernels;
  std::vector<Plan> plans;

  const Plan *find(const std::string &name) const;
};

/// Empty, or why the runtime must not run `program`: an index out of range, a
/// register or workspace used before it is there, a type that doesn't fit.
std::string check(const Program &program);

/// Text (JSON) with the kernels' machine code inside, and back. False and a
/// reason if `text` is not what toText() makes of a program that check()s.
std::string toText(const Program &program);
bool fromText(const std::string &text, Program &program, std::string &error);

} // namespace fathom::cuda

#endif // FATHOM_CODEGEN_CUDA_PROGRAM_H
