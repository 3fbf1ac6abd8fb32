//===- PlanRunner.cpp - plans of GPU programs, interpreted ------------------===//
//
// The way of a call that has one launch takes a fraction of a microsecond: no
// memory from the heap, no look-up by name.
//
//===----------------------------------------------------------------------===//

#include "runtime/cuda/PlanRunner.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/MathExtras.h"

#include <climits>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <mutex>

namespace fathom::cuda {

using llvm::ArrayRef;

/// Sizes, grids.
static constexpr int64_t kMax31 = INT32_MAX;

Machine::~Machine() = default;

Status Machine::makeMap(const BoxArray &, void *) {
  return {ErrorCode::unsupported, "expected a machine with a copy engine"};
}

std::vector<CallArgument> fromDescriptors(const Plan &plan, void *const *args) {
  std::vector<CallArgument> out(plan.arguments.size());
  for (size_t i = 0; i < out.size(); ++i) {
    const Argument &type = plan.arguments[i];
    CallArgument &a = out[i];
    a.type = type.type;
    a.rank = type.rank;
    if (type.rank < 0) {
      std::memcpy(&a.bits, args[i], sizeOf(type.type));
      continue;
    }
    struct Head {
      char *allocated, *aligned;
      int64_t offset;
    };
    auto *head = static_cast<const Head *>(args[i]);
    a.data = head->aligned + head->offset * sizeOf(type.type);
    a.sizes = reinterpret_cast<const int64_t *>(head + 1);
    a.strides = a.sizes + type.rank;
  }
  return out;
}

/// What the plan's registers and workspaces are for one call.
struct PlanRunner::State {
  llvm::SmallVector<int64_t, 64> registers;
  struct Space {
    int64_t offset = 0, bytes = 0;
  };
  llvm::SmallVector<Space, 16> spaces;
  int64_t total = 0; ///< bytes
};

/// Maps that were made, for calls with the same arrays.
struct PlanRunner::Maps {
  struct Map {
    BoxArray array;
    alignas(kMapAlignment) char bytes[kMapBytes];
  };
  std::mutex lock;
  std::vector<Map> last; ///< by the number of the map; data null: none
};

PlanRunner::PlanRunner(const Program &program, const Plan &plan)
    : program(&program), plan_(&plan), maps(std::make_shared<Maps>()) {
  maps->last.resize(plan.maps.size());
  for (const Instruction &i : plan.code)
    if (i.op == Instruction::clear || i.op == Instruction::launch)
      effects.push_back(&i);
}

Status PlanRunner::fault(ErrorCode code, const std::string &what) const {
  return {code, fmt::format("{}: {}", plan_->name, what)};
}

Status PlanRunner::checkArguments(ArrayRef<CallArgument> arguments) const {
  if (arguments.size() != plan_->arguments.size())
    return fault(ErrorCode::internal,
                 fmt::format("expected {} arguments, got {}",
                             plan_->arguments.size(), arguments.size()));
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Argument &want = plan_->arguments[i];
    const CallArgument &have = arguments[i];
    if (have.rank != want.rank || have.type != want.type)
      return fault(ErrorCode::internal,
                   fmt::format("argument {}: expected rank {} (scalars: -1), "
                               "got {}, or another type",
                               i, want.rank, have.rank));
    for (int d = 0; d < have.rank; ++d)
      if (have.sizes[d] < 0 || have.sizes[d] > kMax31)
        return fault(
            ErrorCode::invalid_argument,
            fmt::format("argument {}: size {} of dim {} is not below 2^31", i,
                        have.sizes[d], d));
  }
  return {};
}

static int64_t readScalar(const CallArgument &a) {
  switch (a.type) {
  case Scalar::i1:
    return a.bits & 1;
  case Scalar::i8:
    return int8_t(a.bits);
  case Scalar::i16:
    return int16_t(a.bits);
  case Scalar::i32:
    return int32_t(a.bits);
  default:
    return int64_t(a.bits);
  }
}

static bool compare(int64_t predicate, int64_t a, int64_t b) {
  uint64_t ua = a, ub = b;
  switch (predicate) {
  case 0:
    return a == b;
  case 1:
    return a != b;
  case 2:
    return a < b;
  case 3:
    return a <= b;
  case 4:
    return a > b;
  case 5:
    return a >= b;
  case 6:
    return ua < ub;
  case 7:
    return ua <= ub;
  case 8:
    return ua > ub;
  default:
    return ua >= ub;
  }
}

static bool divides(Instruction::Op op) {
  return op >= Instruction::divsi && op <= Instruction::floordivsi;
}

/// All numbers wrap. `b` is not 0 where it divides.
static int64_t compute(Instruction::Op op, int64_t a, int64_t b) {
  using I = Instruction;
  uint64_t ua = a, ub = b;
  // The one quotient that is not a number.
  if (divides(op) && b == -1 && op != I::divui && op != I::remui)
    return op == I::remsi ? 0 : int64_t(0 - ua);
  switch (op) {
  case I::addi:
    return ua + ub;
  case I::subi:
    return ua - ub;
  case I::muli:
    return ua * ub;
  case I::divsi:
    return a / b;
  case I::divui:
    return ua / ub;
  case I::remsi:
    return a % b;
  case I::remui:
    return ua % ub;
  case I::ceildivsi:
    return a / b + (a % b != 0 && (a < 0) == (b < 0));
  case I::floordivsi:
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
  case I::minsi:
    return std::min(a, b);
  case I::maxsi:
    return std::max(a, b);
  case I::minui:
    return std::min(ua, ub);
  case I::maxui:
    return std::max(ua, ub);
  case I::andi:
    return a & b;
  case I::ori:
    return a | b;
  case I::xori:
    return a ^ b;
  case I::shli:
    return ub < 64 ? ua << ub : 0;
  case I::shrsi:
    return a >> std::min<uint64_t>(ub, 63);
  case I::shrui:
    return ub < 64 ? ua >> ub : 0;
  default:
    return 0;
  }
}

Status PlanRunner::evaluate(ArrayRef<CallArgument> arguments,
                            State &state) const {
  if (Status s = checkArguments(arguments); !s)
    return s;
  using I = Instruction;
  state.registers.resize(plan_->registers);
  state.spaces.resize(plan_->workspaces.size());
  int64_t *r = state.registers.data();
  for (const Instruction &i : plan_->code) {
    switch (i.op) {
    case I::constant:
      r[i.dst] = i.imm;
      break;
    case I::dim:
      r[i.dst] = arguments[i.a].sizes[i.imm];
      break;
    case I::scalar:
      r[i.dst] = readScalar(arguments[i.a]);
      break;
    case I::cmp:
      r[i.dst] = compare(i.imm, r[i.a], r[i.b]);
      break;
    case I::select:
      r[i.dst] = r[i.c] ? r[i.a] : r[i.b];
      break;
    case I::allocate: {
      const Workspace &w = plan_->workspaces[i.a];
      int64_t bytes = sizeOf(w.type), end = 0;
      bool fits = true;
      for (const Workspace::Dim &d : w.dims) {
        int64_t size = d.reg < 0 ? d.size : r[d.reg];
        fits &= size >= 0 && !__builtin_mul_overflow(bytes, size, &bytes);
      }
      int64_t offset = llvm::alignTo(state.total, kWorkspaceAlignment);
      if (!fits || __builtin_add_overflow(offset, bytes, &end) ||
          end > (int64_t(1) << 62))
        return fault(ErrorCode::invalid_argument,
                     fmt::format("workspace {} has no size that a device can "
                                 "hold: smaller batches or lengths take less",
                                 i.a));
      state.spaces[i.a] = {offset, bytes};
      state.total = end;
      break;
    }
    case I::launch: {
      const Launch &l = plan_->launches[i.a];
      if (r[l.grid] < 0 || r[l.grid] > kMax31)
        return fault(
            ErrorCode::invalid_argument,
            fmt::format("kernel {} needs a grid of {} CTAs, 0 to {} are "
                        "possible: split the batch",
                        program->kernels[l.kernel].name, r[l.grid], kMax31));
      for (const Parameter &p : l.parameters)
        if (p.kind == Parameter::value && p.type == Scalar::i32 &&
            (r[p.index] < INT32_MIN || r[p.index] > int64_t(UINT32_MAX)))
          return fault(ErrorCode::invalid_argument,
                       fmt::format("{} doesn't fit the 32 bits that kernel {} "
                                   "takes",
                                   r[p.index],
                                   program->kernels[l.kernel].name));
      break;
    }
    case I::clear:
      break;
    default:
      if (divides(i.op) && r[i.b] == 0)
        return fault(ErrorCode::invalid_argument,
                     "a size is divided by zero: is an array empty or a "
                     "scalar 0?");
      r[i.dst] = compute(i.op, r[i.a], r[i.b]);
    }
  }
  return {};
}

Result<int64_t>
PlanRunner::workspaceBytes(ArrayRef<CallArgument> arguments) const {
  State state;
  if (Status s = evaluate(arguments, state); !s)
    return s;
  return state.total;
}

//===----------------------------------------------------------------------===//
// Effects
//===----------------------------------------------------------------------===//

/// Bytes of fa::Buffer<T, rank>, or of a scalar.
static int64_t bytesOf(Scalar type, int64_t rank) {
  return rank < 0 ? sizeOf(type) : int64_t(8 + 16 * rank);
}

std::vector<int64_t> PlanRunner::parameterBytes(const Launch &launch) const {
  std::vector<int64_t> bytes;
  for (const Parameter &p : launch.parameters) {
    if (p.kind == Parameter::value) {
      bytes.push_back(sizeOf(p.type));
    } else if (p.kind == Parameter::map) {
      bytes.push_back(kMapBytes);
    } else if (p.kind == Parameter::argument) {
      const Argument &a = plan_->arguments[p.index];
      bytes.push_back(bytesOf(a.type, a.rank));
    } else {
      const Workspace &w = plan_->workspaces[p.index];
      bytes.push_back(bytesOf(w.type, w.dims.size()));
    }
  }
  return bytes;
}

/// The bytes from one entry to the next where there is no next: the copy engine
/// is particular about strides.
constexpr int64_t kAnyStride = 16;

Status PlanRunner::makeMap(int index, ArrayRef<CallArgument> arguments,
                           const State &state, char *block, Machine &machine,
                           void *map) const {
  const BoxMap &m = plan_->maps[index];
  BoxArray a;
  a.rank = m.box.size();
  a.swizzle = m.swizzle;
  Scalar type =
      m.ofWorkspace ? plan_->workspaces[m.array].type : arguments[m.array].type;
  a.elementBytes = sizeOf(type);
  a.data = m.ofWorkspace ? block + state.spaces[m.array].offset
                         : arguments[m.array].data;
  auto sizeIn = [&](const Workspace::Dim &d) {
    return d.reg < 0 ? d.size : state.registers[d.reg];
  };
  int64_t dense = a.elementBytes;
  for (int d = a.rank - 1; d >= 0; --d) {
    a.box[d] = m.box[d];
    a.sizes[d] = sizeIn(m.sizes[d]);
    if (a.sizes[d] <= 0) { // no kernel copies from it
      std::memset(map, 0, kMapBytes);
      return {};
    }
    a.strides[d] =
        m.ofWorkspace ? dense : arguments[m.array].strides[d] * a.elementBytes;
    if (m.ofWorkspace)
      dense *= sizeIn(plan_->workspaces[m.array].dims[d]);
    if (a.sizes[d] == 1)
      a.strides[d] = d == a.rank - 1 ? a.elementBytes : kAnyStride;
  }
  Maps::Map &last = maps->last[index];
  {
    std::lock_guard<std::mutex> guard(maps->lock);
    const BoxArray &b = last.array;
    if (b.data == a.data && std::equal(a.sizes, a.sizes + a.rank, b.sizes) &&
        std::equal(a.strides, a.strides + a.rank, b.strides)) {
      std::memcpy(map, last.bytes, kMapBytes);
      return {};
    }
  }
  if (Status s = machine.makeMap(a, map); !s)
    return fault(s.code(), s.message());
  std::lock_guard<std::mutex> guard(maps->lock);
  last.array = a;
  std::memcpy(last.bytes, map, kMapBytes);
  return {};
}

Status PlanRunner::launch(const Launch &launch,
                          ArrayRef<CallArgument> arguments, const State &state,
                          char *block, Machine &machine) const {
  int64_t grid = state.registers[launch.grid];
  if (grid == 0)
    return {};
  // Parameters are made of words; places first, since `words` may move.
  llvm::SmallVector<uint64_t, 256> words;
  llvm::SmallVector<size_t, 32> places;
  struct alignas(kMapAlignment) Map {
    char bytes[kMapBytes];
  };
  llvm::SmallVector<Map, 4> made;
  for (const Parameter &p : launch.parameters) {
    // Sizes and strides of an array, the last words, in the order wanted.
    auto exchange = [&](size_t rank) {
      if (p.order.empty())
        return;
      llvm::SmallVector<uint64_t, 16> old(words.end() - 2 * rank, words.end());
      uint64_t *now = words.end() - 2 * rank;
      for (size_t d = 0; d < rank; ++d)
        now[d] = old[p.order[d]], now[rank + d] = old[rank + p.order[d]];
    };
    places.push_back(words.size());
    if (p.kind == Parameter::map) {
      Status s = makeMap(p.index, arguments, state, block, machine,
                         &made.emplace_back());
      if (!s)
        return s;
      continue;
    }
    if (p.kind == Parameter::value) {
      words.push_back(state.registers[p.index]); // the low bytes come first
    } else if (p.kind == Parameter::argument) {
      const CallArgument &a = arguments[p.index];
      if (a.rank < 0) {
        words.push_back(a.bits);
        continue;
      }
      words.push_back(reinterpret_cast<uint64_t>(a.data));
      words.append(a.sizes, a.sizes + a.rank);
      words.append(a.strides, a.strides + a.rank);
      exchange(a.rank);
    } else {
      const Workspace &w = plan_->workspaces[p.index];
      char *data = block + state.spaces[p.index].offset;
      words.push_back(reinterpret_cast<uint64_t>(data));
      size_t rank = w.dims.size(), sizes = words.size();
      for (const Workspace::Dim &d : w.dims)
        words.push_back(d.reg < 0 ? d.size : state.registers[d.reg]);
      words.resize(sizes + 2 * rank);
      uint64_t stride = 1;
      for (size_t d = rank; d-- > 0; stride *= words[sizes + d])
        words[sizes + rank + d] = stride;
      exchange(rank);
    }
  }
  llvm::SmallVector<void *, 32> parameters;
  Map *map = made.begin();
  for (auto [p, place] : llvm::zip_equal(launch.parameters, places))
    parameters.push_back(p.kind == Parameter::map ? static_cast<void *>(map++)
                                                  : words.begin() + place);
  return machine.launch(launch.kernel, grid, parameters.data());
}

Status PlanRunner::perform(ArrayRef<CallArgument> arguments, const State &state,
                           char *block, Machine &machine) const {
  for (const Instruction *i : effects) {
    Status s;
    if (i->op == Instruction::launch)
      s = launch(plan_->launches[i->a], arguments, state, block, machine);
    else if (const State::Space &w = state.spaces[i->a]; w.bytes)
      s = machine.clear(block + w.offset, w.bytes, uint8_t(i->imm));
    if (!s)
      return s;
  }
  return {};
}

Status PlanRunner::run(ArrayRef<CallArgument> arguments, Machine &machine,
                       Block workspace, int64_t *results) const {
  State state;
  if (Status s = evaluate(arguments, state); !s)
    return s;
  for (size_t i = 0; i < plan_->results.size(); ++i)
    results[i] = state.registers[plan_->results[i]];
  if (effects.empty())
    return {};

  auto *block = static_cast<char *>(workspace.data);
  bool own = !block && state.total > 0;
  if (own) {
    void *memory = nullptr;
    if (Status s = machine.allocate(state.total, memory); !s)
      return s;
    block = static_cast<char *>(memory);
  } else if (workspace.bytes < state.total) {
    return fault(ErrorCode::invalid_argument,
                 fmt::format("workspace: expected at least {} bytes, got {}",
                             state.total, workspace.bytes));
  } else if (reinterpret_cast<uintptr_t>(block) % kWorkspaceAlignment) {
    return fault(ErrorCode::invalid_argument,
                 fmt::format("workspace: expected an address aligned to {} "
                             "bytes",
                             kWorkspaceAlignment));
  }
  static const bool poison = [] {
    const char *value = std::getenv("FATHOM_POISON");
    return value && std::string(value) == "1";
  }();
  Status s;
  if (poison && state.total)
    s = machine.clear(block, state.total, 0xff); // NaN in every float type
  if (s)
    s = perform(arguments, state, block, machine);
  if (own) {
    Status released = machine.release(block);
    if (s)
      return released;
  }
  return s;
}

} // namespace fathom::cuda
