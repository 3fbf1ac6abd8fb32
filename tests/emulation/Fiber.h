//===- Fiber.h - a stack of its own ------------------------------*- C++ -*-===//
//
// Threads of a kernel take turns on one thread of the host: each has a stack,
// and changing over costs a few instructions on x86-64 (elsewhere ucontext).
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_TESTS_EMULATION_FIBER_H
#define FATHOM_TESTS_EMULATION_FIBER_H

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace fathom::emulation {

class Fiber {
public:
  /// The running context itself, which only comes to be when it is left.
  Fiber() = default;
  Fiber(const Fiber &) = delete;
  Fiber &operator=(const Fiber &) = delete;
  ~Fiber();

  /// Begins `entry` anew on the next switch to here. It must not return.
  void start(void (*entry)());
  /// Leaves this, the running one, for `to`.
  void switchTo(Fiber &to);

private:
  void *stack = nullptr; ///< the mapping, a guard page first
#if defined(__x86_64__)
  void *top = nullptr; ///< the saved stack pointer
#else
  ucontext_t context;
#endif
};

} // namespace fathom::emulation

#endif // FATHOM_TESTS_EMULATION_FIBER_H
