//===- Fiber.cpp - a stack of its own ---------------------------------------===//

#include "tests/emulation/Fiber.h"
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>

using namespace fathom::emulation;

namespace {
constexpr size_t kStackBytes = 256 * 1024, kGuardBytes = 4096;
} // namespace

Fiber::~Fiber() {
  if (stack)
    munmap(stack, kStackBytes);
}

#if defined(__x86_64__)
// Saves what a call preserves, and the place to return to, on the stack that
// is left; takes the same from the other.
asm(R"(
.text
.p2align 4
.type fathom_switch_stack, @function
fathom_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size fathom_switch_stack, . - fathom_switch_stack
)");
extern "C" void fathom_switch_stack(void **save, void *load);
#endif

void Fiber::start(void (*entry)()) {
  if (!stack) {
    stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED || mprotect(stack, kGuardBytes, PROT_NONE)) {
      perror("emulation: no memory for stacks");
      abort();
    }
  }
#if defined(__x86_64__)
  // Six registers, the place to go to, and a zero where its caller would be.
  auto **words =
      reinterpret_cast<uintptr_t **>(static_cast<char *>(stack) + kStackBytes) -
      8;
  for (int i = 0; i < 8; ++i)
    words[i] = nullptr;
  words[6] = reinterpret_cast<uintptr_t *>(entry);
  top = words;
#else
  getcontext(&context);
  context.uc_stack.ss_sp = static_cast<char *>(stack) + kGuardBytes;
  context.uc_stack.ss_size = kStackBytes - kGuardBytes;
  context.uc_link = nullptr;
  makecontext(&context, entry, 0);
#endif
}

void Fiber::switchTo(Fiber &to) {
#if defined(__x86_64__)
  fathom_switch_stack(&top, to.top);
#else
  swapcontext(&context, &to.context);
#endif
}
