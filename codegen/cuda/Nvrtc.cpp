//===- Nvrtc.cpp - CUDA C++ to machine code ---------------------------------===//
//
// The few functions of NVRTC that are needed, declared here, found by dlsym.
// The assembler's report is a part of NVRTC's log.
//
//===----------------------------------------------------------------------===//

#include "codegen/cuda/Nvrtc.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Object/BuildID.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"

#include <atomic>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <system_error>
#include <thread>
#include <unistd.h>

namespace fathom::cuda {

using llvm::createStringError;
using llvm::formatv;
using llvm::StringRef;
namespace path = llvm::sys::path;
namespace fs = llvm::sys::fs;

namespace {

using Handle = void *; // nvrtcProgram
using Code = int;      // nvrtcResult, 0 is success
constexpr Code kCompilationFailed = 6;
constexpr Code kBuiltinsMissing = 7;

struct Nvrtc {
  Code (*version)(int *, int *);
  Code (*numArchs)(int *);
  Code (*archs)(int *);
  Code (*create)(Handle *, const char *source, const char *name, int,
                 const char *const *, const char *const *);
  Code (*compile)(Handle, int, const char *const *options);
  Code (*destroy)(Handle *);
  Code (*logSize)(Handle, size_t *);
  Code (*log)(Handle, char *);
  Code (*ptxSize)(Handle, size_t *);
  Code (*ptx)(Handle, char *);
  Code (*cubinSize)(Handle, size_t *);
  Code (*cubin)(Handle, char *);
  const char *(*errorString)(Code);

  NvrtcInfo info;
  std::string builtins; ///< path of the library of built-in headers
  std::string error;    ///< why it can't be used

  Nvrtc();

private:
  void *open();
  void *openIn(StringRef directory);
  template <typename F>
  void find(void *library, F *&function, const char *name) {
    function = reinterpret_cast<F *>(dlsym(library, name));
    if (!function && error.empty())
      error = formatv("expected the function {0} in {1}: it is too old", name,
                      info.path);
  }
  void identify();
};

constexpr const char *kNames[] = {"libnvrtc.so.13", "libnvrtc.so.12",
                                  "libnvrtc.so"};

/// The library among the files of a directory. It opens its built-in headers
/// by a plain name, so those are opened first, from the same directory.
void *Nvrtc::openIn(StringRef directory) {
  for (const char *name : kNames) {
    llvm::SmallString<256> file(directory);
    path::append(file, name);
    if (!fs::exists(file))
      continue;
    std::error_code failed;
    for (fs::directory_iterator i(directory, failed), end; !failed && i != end;
         i.increment(failed))
      if (path::filename(i->path()).starts_with("libnvrtc-builtins.so."))
        dlopen(i->path().c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (void *library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL))
      return library;
  }
  return nullptr;
}

void *Nvrtc::open() {
  if (const char *given = std::getenv("FATHOM_NVRTC")) {
    if (fs::is_directory(given))
      return openIn(given);
    // Opens the built-in headers beside it too.
    openIn(path::parent_path(given));
    return dlopen(given, RTLD_NOW | RTLD_LOCAL);
  }
  for (const char *name : kNames)
    if (void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL))
      return library;
  for (const char *variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char *root = std::getenv(variable))
      if (void *library = openIn(std::string(root) + "/lib64"))
        return library;
  if (void *library = openIn("/usr/local/cuda/lib64"))
    return library;
  for (const char *variable : {"CONDA_PREFIX", "VIRTUAL_ENV"}) {
    const char *root = std::getenv(variable);
    if (!root)
      continue;
    std::string lib = std::string(root) + "/lib";
    if (void *library = openIn(lib))
      return library;
    std::error_code failed;
    for (fs::directory_iterator i(lib, failed), end; !failed && i != end;
         i.increment(failed))
      if (path::filename(i->path()).starts_with("python3"))
        for (const char *package : {"cu13", "cuda_nvrtc"})
          if (void *library = openIn(i->path() + "/site-packages/nvidia/" +
                                     package + "/lib"))
            return library;
  }
  return nullptr;
}

/// Where an open library lies, or nothing.
std::string pathOf(void *library) {
  link_map *map = nullptr;
  if (!library || dlinfo(library, RTLD_DI_LINKMAP, &map) || !map)
    return "";
  return map->l_name;
}

/// Of a library of 100 MB most pages are needed soon, one fault after the other:
/// where they are not in memory yet, they come meanwhile.
void readAhead(const std::string &file) {
  int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return;
  posix_fadvise(fd, 0, 0, POSIX_FADV_WILLNEED);
  close(fd);
}

/// The build id of a library, or its size and time.
std::string fileIdentity(const std::string &file) {
  if (auto object = llvm::object::ObjectFile::createObjectFile(file)) {
    auto id = llvm::object::getBuildID(object->getBinary());
    if (!id.empty())
      return llvm::toHex(id, /*LowerCase=*/true);
  } else {
    llvm::consumeError(object.takeError());
  }
  fs::file_status status;
  if (fs::status(file, status))
    return "";
  return formatv("{0}-{1}", status.getSize(),
                 status.getLastModificationTime().time_since_epoch().count());
}

void Nvrtc::identify() {
  // The built-in headers are loaded by the first compilation, by this name.
  std::string name =
      formatv("libnvrtc-builtins.so.{0}.{1}", info.major, info.minor);
  builtins = pathOf(dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL));
  std::string first = fileIdentity(info.path), second = fileIdentity(builtins);
  if (!first.empty() && !second.empty())
    info.identity =
        formatv("NVRTC {0}.{1} {2} {3}", info.major, info.minor, first, second);
}

Nvrtc::Nvrtc() {
  void *library = open();
  if (!library) {
    const char *given = std::getenv("FATHOM_NVRTC");
    error = given
                ? formatv("expected libnvrtc at FATHOM_NVRTC, '{0}', which "
                          "can't be opened",
                          given)
                      .str()
                : "CUDA's run-time compiler is missing: install libnvrtc (CUDA "
                  "12 or 13) or set FATHOM_NVRTC to its path";
    return;
  }
  info.path = pathOf(library);
  readAhead(info.path);
  find(library, version, "nvrtcVersion");
  find(library, numArchs, "nvrtcGetNumSupportedArchs");
  find(library, archs, "nvrtcGetSupportedArchs");
  find(library, create, "nvrtcCreateProgram");
  find(library, compile, "nvrtcCompileProgram");
  find(library, destroy, "nvrtcDestroyProgram");
  find(library, logSize, "nvrtcGetProgramLogSize");
  find(library, log, "nvrtcGetProgramLog");
  find(library, ptxSize, "nvrtcGetPTXSize");
  find(library, ptx, "nvrtcGetPTX");
  find(library, cubinSize, "nvrtcGetCUBINSize");
  find(library, cubin, "nvrtcGetCUBIN");
  find(library, errorString, "nvrtcGetErrorString");
  if (!error.empty())
    return;
  int count = 0;
  if (version(&info.major, &info.minor) || numArchs(&count) || count < 0) {
    error = "NVRTC doesn't tell its version";
    return;
  }
  info.archs.resize(count);
  if (count)
    archs(info.archs.data());
  identify();
}

/// Never closed: other code of the process may use it.
const Nvrtc &library() {
  static const Nvrtc *nvrtc = new Nvrtc();
  return *nvrtc;
}

//===----------------------------------------------------------------------===//
// The log
//===----------------------------------------------------------------------===//

/// The integer before `unit` in a line of the assembler's, as in "72 registers".
int numberBefore(StringRef line, StringRef unit) {
  int sum = 0;
  for (size_t at = line.find(unit); at != StringRef::npos;
       at = line.find(unit, at + 1)) {
    StringRef head = line.take_front(at).rtrim();
    StringRef digits =
        head.take_back(head.size() - (head.find_last_not_of("0123456789") + 1));
    int number = 0;
    if (!digits.getAsInteger(10, number))
      sum += number;
  }
  return sum;
}

Resources parseReport(StringRef log) {
  Resources r;
  llvm::SmallVector<StringRef> lines;
  log.split(lines, '\n');
  for (StringRef line : lines) {
    if (line.contains("bytes stack frame")) {
      r.stackBytes = numberBefore(line, "bytes stack frame");
      r.spillStores = numberBefore(line, "bytes spill stores");
      r.spillLoads = numberBefore(line, "bytes spill loads");
    } else if (line.contains("Used ") && line.contains(" registers")) {
      r.registers = numberBefore(line, "registers");
      r.staticShared = numberBefore(line, "bytes smem");
      r.constantBytes = numberBefore(line, "bytes cmem");
    } else if (line.starts_with("ptxas") &&
               (line.contains("(C") || line.contains("warning"))) {
      auto [head, note] = line.split(':');
      r.notes.push_back(note.trim().str());
    }
  }
  return r;
}

/// Line `number` of a text, from 1.
StringRef lineOf(StringRef text, unsigned number) {
  for (; number > 1 && !text.empty(); --number)
    text = text.split('\n').second;
  return text.split('\n').first;
}

/// The first errors of a log, each with the line it is about. NVRTC names
/// lines of the source, "k.cu(3): error: ...", and the assembler lines of its
/// input, "ptxas application ptx input, line 28; error : ...".
std::string showErrors(StringRef log, StringRef source, StringRef ptx) {
  constexpr int most = 5;
  std::string shown;
  int count = 0;
  llvm::SmallVector<StringRef> lines;
  log.split(lines, '\n');
  for (StringRef line : lines) {
    if (!line.contains("error"))
      continue;
    StringRef text = source, message = line.split("error").second;
    auto [where, rest] = line.split(')');
    StringRef digits = where.split('(').second;
    unsigned number = 0;
    if (line.starts_with("ptxas")) {
      text = ptx;
      digits = line.split("line ").second.split(';').first;
    }
    if (digits.getAsInteger(10, number) || ++count > most)
      continue;
    shown += formatv("\n  line {0}{1}: {2}\n    {3}", number,
                     text.data() == ptx.data() ? " of the PTX" : "",
                     message.ltrim(" :"), lineOf(text, number).trim());
  }
  if (count > most)
    shown += formatv("\n  and {0} more", count - most);
  // What is not of a known form is shown as it is.
  return count ? shown : "\n" + log.trim().str();
}

std::string get(Handle program, Code (*size)(Handle, size_t *),
                Code (*read)(Handle, char *)) {
  size_t bytes = 0;
  if (size(program, &bytes) || !bytes)
    return "";
  std::string text(bytes, '\0');
  if (read(program, text.data()))
    return "";
  return text;
}

/// The same without the closing zero.
std::string getText(Handle program, Code (*size)(Handle, size_t *),
                    Code (*read)(Handle, char *)) {
  std::string text = get(program, size, read);
  while (!text.empty() && text.back() == '\0')
    text.pop_back();
  return text;
}

llvm::Error checkSupported(const Nvrtc &nvrtc, const Target &target) {
  if (llvm::is_contained(nvrtc.info.archs, target.arch))
    return llvm::Error::success();
  std::string archs;
  for (int arch : nvrtc.info.archs)
    archs += formatv("{0}{1}", archs.empty() ? "" : ", ", arch);
  return createStringError(
      formatv("NVRTC {0}.{1} ({2}) doesn't know {3}, only {4}: use one of "
              "these, or set FATHOM_NVRTC to another version",
              nvrtc.info.major, nvrtc.info.minor, nvrtc.info.path, target.name,
              archs)
          .str());
}

} // namespace

llvm::Expected<const NvrtcInfo *> nvrtc() {
  const Nvrtc &n = library();
  if (!n.error.empty())
    return createStringError(n.error);
  return &n.info;
}

/// What tells a file from what it was before, and from another.
static std::string stampOf(StringRef file) {
  fs::file_status status;
  if (fs::status(file, status))
    return formatv("{0} -", file);
  fs::UniqueID id = status.getUniqueID();
  return formatv("{0} {1}:{2} {3} {4}", file, id.getDevice(), id.getFile(),
                 status.getSize(),
                 status.getLastModificationTime().time_since_epoch().count());
}

/// First what is found, a line each, then what decides that it is found.
static std::string nvrtcText(const NvrtcInfo &info, StringRef builtins) {
  std::string text =
      formatv("{0}\n{1}\n{2}\n", info.identity, info.path, builtins);
  for (int arch : info.archs)
    text += formatv("{0} ", arch);
  for (StringRef file :
       {StringRef(info.path), builtins, StringRef("/etc/ld.so.cache")})
    text += "\n" + stampOf(file);
  for (const char *name : {"FATHOM_NVRTC", "LD_LIBRARY_PATH", "CUDA_HOME",
                           "CUDA_PATH", "CONDA_PREFIX", "VIRTUAL_ENV"})
    if (const char *value = std::getenv(name))
      text += formatv("\n{0}={1}", name, value);
  return text;
}

std::string rememberNvrtc() {
  const Nvrtc &n = library();
  bool known = n.error.empty() && !n.info.identity.empty();
  return known ? nvrtcText(n.info, n.builtins) : "";
}

std::optional<NvrtcInfo> recallNvrtc(StringRef text) {
  llvm::SmallVector<StringRef> lines, archs;
  text.split(lines, '\n', /*MaxSplit=*/4);
  if (lines.size() < 5)
    return std::nullopt;
  NvrtcInfo info;
  info.identity = lines[0];
  info.path = lines[1];
  lines[3].split(archs, ' ', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  for (StringRef arch : archs)
    if (arch.getAsInteger(10, info.archs.emplace_back()))
      return std::nullopt;
  if (text != nvrtcText(info, lines[2]))
    return std::nullopt;
  for (const char *name : kNames)
    if (void *open = dlopen(name, RTLD_NOW | RTLD_NOLOAD)) {
      bool same = pathOf(open) == info.path;
      dlclose(open);
      if (!same)
        return std::nullopt;
    }
  return info;
}

llvm::Error compile(Kernel &kernel, const Target &target) {
  if (auto there = nvrtc(); !there)
    return there.takeError();
  const Nvrtc &n = library();
  if (llvm::Error error = checkSupported(n, target))
    return error;
  // Before the assembler is: it would say it in other words.
  if (std::string error = checkFits(kernel, target); !error.empty())
    return createStringError(error);

  Handle program = nullptr;
  std::string file = kernel.name + ".cu";
  Code code = n.create(&program, kernel.source.c_str(), file.c_str(), 0,
                       nullptr, nullptr);
  if (code)
    return createStringError(formatv("NVRTC refused kernel '{0}': {1}",
                                     kernel.name, n.errorString(code))
                                 .str());
  llvm::scope_exit destroyed([&] { n.destroy(&program); });

  std::string arch = "--gpu-architecture=" + target.name;
  // Warnings about unused names in printed code are of no use; those of the
  // assembler stay.
  llvm::SmallVector<const char *> options = {arch.c_str(), "--std=c++17", "-w"};
  if (target.machine)
    options.push_back("--ptxas-options=-v");
  code = n.compile(program, options.size(), options.data());
  std::string log = getText(program, n.logSize, n.log);
  std::string ptx = getText(program, n.ptxSize, n.ptx);
  if (code == kCompilationFailed)
    return createStringError("NVRTC refused kernel '" + kernel.name + "' for " +
                             target.name + ":" +
                             showErrors(log, kernel.source, ptx));
  if (code)
    return createStringError(
        formatv("NVRTC failed on kernel '{0}' for {1}: {2}{3}{4}", kernel.name,
                target.name, n.errorString(code),
                code == kBuiltinsMissing
                    ? "; libnvrtc-builtins must lie beside libnvrtc"
                    : "",
                log.empty() ? "" : "\n" + log)
            .str());
  kernel.ptx = std::move(ptx);
  kernel.cubin = target.machine ? get(program, n.cubinSize, n.cubin) : "";
  if (target.machine && kernel.cubin.empty())
    return createStringError("NVRTC gave no machine code for kernel '" +
                             kernel.name + "'");
  kernel.resources = parseReport(log);
  if (std::string error = serialized(kernel); !error.empty())
    return createStringError(error +
                             "; leave out fa-gpu-warpgroup-products, or choose "
                             "smaller blocks");
  if (std::string error = checkFits(kernel, target); !error.empty())
    return createStringError(error);
  return llvm::Error::success();
}

llvm::Error compile(Program &program) {
  Target target;
  std::string reason;
  if (!Target::parse(program.target, target, reason))
    return createStringError(reason);
  std::vector<std::string> errors(program.kernels.size());
  std::atomic<size_t> next = 0;
  auto work = [&] {
    for (size_t i; (i = next++) < errors.size();)
      errors[i] = llvm::toString(compile(program.kernels[i], target));
  };
  std::vector<std::thread> threads;
  size_t count =
      std::min<size_t>(errors.size(), std::thread::hardware_concurrency());
  try {
    while (threads.size() + 1 < count)
      threads.emplace_back(work);
  } catch (const std::system_error &) {
    // The system gives no more threads: those there are do the work.
  }
  work();
  for (std::thread &t : threads)
    t.join();
  llvm::erase_if(errors, [](const std::string &e) { return e.empty(); });
  if (errors.empty())
    return llvm::Error::success();
  return createStringError(llvm::join(errors, "\n"));
}

} // namespace fathom::cuda
