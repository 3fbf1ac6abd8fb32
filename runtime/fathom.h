//===- fathom.h - the public C++ interface of Fathom ------------*- C++ -*-===//
//
// Everything a host program needs: load an attention variant, run it forward
// and backward on DLPack tensors, merge partial results. Includes nothing of
// LLVM, MLIR or CUDA, throws nothing: errors come back as data.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_RUNTIME_FATHOM_H
#define FATHOM_RUNTIME_FATHOM_H

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace fathom {

/// What went wrong, in a class a program can act on and words a person can.
enum class ErrorCode {
  ok = 0,
  invalid_argument, ///< the caller's tensors, options or text
  io_error,         ///< a file or directory
  compile_error,    ///< the compiler refused or failed
  unsupported,      ///< legal, but not on this device or in this build
  internal,         ///< a fault in Fathom
};

class [[nodiscard]] Status {
public:
  Status() = default;
  Status(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}
  bool ok() const { return code_ == ErrorCode::ok; }
  explicit operator bool() const { return ok(); }
  ErrorCode code() const { return code_; }
  const std::string &message() const { return message_; }

private:
  ErrorCode code_ = ErrorCode::ok;
  std::string message_;
};

/// A value or the reason why there is none. `*` and `->` need `ok()`.
template <typename T>
class [[nodiscard]] Result {
public:
  Result(T value) : value_(std::move(value)) {}
  Result(Status status) : status_(std::move(status)) {}
  bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Status &status() const { return status_; }
  T &operator*() { return *value_; }
  const T &operator*() const { return *value_; }
  T *operator->() { return &*value_; }
  const T *operator->() const { return &*value_; }

private:
  std::optional<T> value_;
  Status status_;
};

} // namespace fathom

#endif // FATHOM_RUNTIME_FATHOM_H
