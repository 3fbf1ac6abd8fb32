//===- Stored.h - executables as bytes --------------------------*- C++ -*-===//
//
// What the cache and bundles keep of an executable, and how it comes back: an
// object file for the CPU, a program as text for GPUs, and beside it a JSON
// value that says what it is. Needs no compiler.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_RUNTIME_STORED_H
#define FATHOM_RUNTIME_STORED_H

#include "codegen/cuda/Program.h"
#include "runtime/Executable.h"
#include "runtime/cache/DiskCache.h"
#include "runtime/cpu/CpuExecutable.h"

namespace fathom {

/// The entry points of `e` and the symbols they are compiled from.
std::vector<std::pair<EntryPoint *, std::string>> entriesOf(Executable &e);

/// What is kept of an executable beside its code.
std::string toMeta(const Executable &e);
/// What `meta` says of its executable, in words.
std::string describeMeta(const std::string &meta);

/// Finds the functions in `code`, which the executable then owns. Its entry
/// points say their arguments already.
Status link(Executable &e, std::unique_ptr<cpu::CpuExecutable> code);
/// Makes entry points of the program's plans.
Status link(Executable &e, cuda::Program program);

/// Null if `entry` is not what toMeta() and a code generator made.
std::shared_ptr<const Executable> fromEntry(const DiskCache::Entry &entry);

} // namespace fathom

#endif // FATHOM_RUNTIME_STORED_H
