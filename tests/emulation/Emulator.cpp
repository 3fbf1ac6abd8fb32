//===- Emulator.cpp - kernel files on the host ------------------------------===//

#include "tests/emulation/Emulator.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/raw_ostream.h"
#include <dlfcn.h>
#include <fmt/format.h>
#include <regex>

using namespace fathom::emulation;
using llvm::StringRef;

namespace {

llvm::Error error(const std::string &what) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                 "emulation: " + what);
}

std::string contents(const std::string &path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  return buffer ? (*buffer)->getBuffer().str() : "";
}

/// The file with an exported entry for each kernel.
std::string withEntries(StringRef source) {
  static const std::regex kernel(R"(FA_KERNEL\([^)]*\)\s*void\s+(\w+))");
  std::string text = source.str(), entries;
  for (std::sregex_iterator it(text.begin(), text.end(), kernel), end;
       it != end; ++it)
    entries += "FA_EMULATED(" + (*it)[1].str() + ")\n";
  return text + "\n" + entries;
}

const std::vector<StringRef> kCompiler = {FATHOM_EMULATION_CXX,
                                          "-std=c++20",
                                          "-O1",
                                          "-w",
                                          "-shared",
                                          "-fPIC",
                                          "-fvisibility=hidden",
                                          "-fno-rtti",
                                          "-fno-exceptions",
                                          "-DFATHOM_EMULATION",
                                          "-I",
                                          FATHOM_EMULATION_INCLUDE,
                                          "-x",
                                          "c++"};

/// Runs the compiler; what it says if it fails.
std::string compileFile(const std::string &from, const std::string &to) {
  std::string log = to + ".log";
  std::vector<StringRef> command = kCompiler;
  command.insert(command.end(), {from, "-o", to});
  int rc = llvm::sys::ExecuteAndWait(FATHOM_EMULATION_CXX, command,
                                     std::nullopt, {std::nullopt, log, log});
  std::string said = contents(log);
  llvm::sys::fs::remove(log);
  return rc == 0 ? "" : said.empty() ? "the compiler does not run" : said;
}

} // namespace

Emulator::Emulator(void *library)
    : library(library, [](void *l) { dlclose(l); }),
      machine(std::make_shared<Machine>()) {}

llvm::Expected<Emulator> Emulator::compile(StringRef source) {
  std::string text = withEntries(source), include = FATHOM_EMULATION_INCLUDE;
  llvm::SHA256 hash;
  hash.update(text);
  hash.update(llvm::join(kCompiler, " "));
  hash.update(contents(include + "/emulation.h"));
  hash.update(contents(include + "/portable.h"));
  std::string stem = std::string(FATHOM_EMULATION_DIR) + "/" +
                     llvm::toHex(hash.final()).substr(0, 24);
  std::string library = stem + ".so";
  if (!llvm::sys::fs::exists(library)) {
    // Under another name until it is whole: tests run beside each other.
    std::string own = fmt::format("{}.{}", stem, getpid());
    llvm::sys::fs::create_directories(FATHOM_EMULATION_DIR);
    std::error_code code;
    llvm::raw_fd_ostream(own + ".cpp", code) << text;
    std::string said = compileFile(own + ".cpp", own + ".so");
    if (!said.empty())
      return error(own + ".cpp: " + said);
    llvm::sys::fs::rename(own + ".cpp", stem + ".cpp");
    llvm::sys::fs::rename(own + ".so", library);
  }
  void *handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    return error(dlerror());
  return Emulator(handle);
}

std::string Emulator::run(StringRef kernel, int64_t grid, int threads,
                          int64_t sharedBytes, void *const *params,
                          const Memory &memory, Options options) {
  void *entry = dlsym(library.get(), ("fa_emulated_" + kernel.str()).c_str());
  void *attach = dlsym(library.get(), "fa_emulation_attach");
  if (!entry || !attach)
    return fmt::format("expected a kernel '{}' in the file, which has none",
                       kernel.str());
  fa::emulation::Machine *base = machine.get();
  reinterpret_cast<void (*)(fa::emulation::Machine *)>(attach)(base);
  Launch launch{kernel.str(), reinterpret_cast<void (*)(void *const *)>(entry),
                params,       grid,
                threads,      sharedBytes};
  return machine->run(launch, memory, options);
}
