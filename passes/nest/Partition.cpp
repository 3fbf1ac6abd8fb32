//===- Partition.cpp - fa-partition -----------------------------------------===//
//
// Cuts the joint function into @NAME.fwd and @NAME.bwd at fa.forward_end. The
// forward keeps the nests that its outputs need; everything else is backward.
// Local buffers that the forward writes and the backward reads cross the cut:
// they become arguments of both, and @NAME.saved tells their sizes.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/nest/Tiles.h"

#include <functional>

using namespace mlir;
using namespace fathom;

namespace fathom {
#define GEN_PASS_DEF_PARTITIONPASS
#include "passes/Passes.h.inc"
} // namespace fathom

namespace {

struct PartitionPass : public fathom::impl::PartitionPassBase<PartitionPass> {
  using PartitionPassBase::PartitionPassBase;

  void runOnOperation() override {
    if (!part.empty() && part != "forward" && part != "backward") {
      emitError(getOperation().getLoc(),
                "expected option part to be one of [forward, backward], got '")
          << part << "'";
      return signalPassFailure();
    }
    for (auto func :
         llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>())) {
      auto ends = llvm::to_vector(func.getOps<ForwardEndOp>());
      if (ends.empty()) {
        missed(func, "fa-partition", "no fa.forward_end: nothing to cut");
        continue;
      }
      if (ends.size() > 1) {
        ends[1].emitOpError("expected at most one in a function");
        return signalPassFailure();
      }
      std::string name = func.getName().str();
      cut(func, ends[0]);
      drop(name);
    }
  }

  /// Drops what is not of the part wanted.
  void drop(const std::string &name) {
    for (StringRef suffix : {".fwd", ".bwd", ".saved"})
      if (!part.empty() && (suffix == ".bwd") != (part == "backward"))
        if (Operation *f = getOperation().lookupSymbol(name + suffix.str()))
          f->erase();
  }

  void cut(func::FuncOp func, ForwardEndOp end) {
    SmallVector<Value> outputs(end.getOutputs()), inputs(end.getInputs());
    // Backwards over the nests: the forward is what its outputs need.
    SetVector<Value> needed(outputs.begin(), outputs.end());
    SetVector<Operation *> forward;
    auto nests = llvm::to_vector(func.getOps<NestOp>());
    SmallVector<Access> access;
    for (NestOp n : nests)
      access.push_back(accessOf(n));
    // A backward output is never an input of a forward nest, so that one sweep
    // from the last nest to the first finds all.
    for (int i = nests.size() - 1; i >= 0; --i) {
      bool writes = llvm::any_of(access[i].writes,
                                 [&](Value v) { return needed.contains(v); });
      if (!writes || isAfter(nests[i], end))
        continue;
      forward.insert(nests[i]);
      needed.insert(access[i].reads.begin(), access[i].reads.end());
    }
    // What crosses.
    SmallVector<Value> saved;
    for (auto alloc : func.getOps<memref::AllocOp>()) {
      bool written = false, read = false;
      for (auto [n, a] : llvm::zip(nests, access)) {
        if (forward.contains(n))
          written |= a.writes.contains(alloc);
        else
          read |= a.reads.contains(alloc);
      }
      if (written && read)
        saved.push_back(alloc);
    }

    // The arguments that each half takes, in the order of the joint function.
    Block &entry = func.getBody().front();
    SmallVector<Value> common, later;
    for (BlockArgument a : entry.getArguments()) {
      if (llvm::is_contained(outputs, a) || llvm::is_contained(inputs, a))
        continue;
      bool result = llvm::any_of(
          access, [&](const Access &x) { return x.writes.contains(a); });
      (result ? later : common).push_back(a);
    }
    SmallVector<Value> fwdArgs(common);
    llvm::append_range(fwdArgs, outputs);
    // What the forward and the sizes of the saved buffers hang on must be there
    // without the backward.
    std::function<bool(Value)> isThere = [&](Value v) {
      Operation *def = v.getDefiningOp();
      return def ? llvm::all_of(def->getOperands(), isThere)
                 : llvm::is_contained(fwdArgs, v);
    };
    std::function<bool(Value)> isKnown = [&](Value v) {
      Operation *def = v.getDefiningOp();
      return def ? isMemoryEffectFree(def) && !def->getNumRegions() &&
                       llvm::all_of(def->getOperands(), isKnown)
                 : llvm::is_contained(common, v);
    };
    bool apart = llvm::all_of(saved, [&](Value v) {
      return llvm::all_of(v.getDefiningOp()->getOperands(), isKnown);
    });
    for (Operation *nest : forward)
      nest->walk([&](Operation *op) {
        for (Value v : op->getOperands())
          apart &= v.getParentRegion() != &func.getBody() || isThere(v);
      });
    // A nest before the end that goes to the backward runs after all forward
    // nests: it must not meet those that it stood before.
    for (auto [i, n] : llvm::enumerate(nests))
      if (!forward.contains(n) && !isAfter(n, end))
        for (size_t later = i + 1; later < nests.size(); ++later)
          if (forward.contains(nests[later]) &&
              !independent(access[i], access[later]))
            return missed(func, "fa-partition",
                          "a nest that only the backward needs and a later "
                          "forward nest touch the same memory");
    if (!apart)
      return missed(func, "fa-partition",
                    "the forward uses an argument that is not among its "
                    "outputs or inputs");
    OpBuilder b(func);
    auto half = [&](StringRef suffix, SmallVector<Value> args, bool isForward) {
      std::string name = (func.getName() + suffix).str();
      SmallVector<Type> types = llvm::to_vector(ValueRange(args).getTypes());
      auto f = func::FuncOp::create(b, func.getLoc(), name,
                                    b.getFunctionType(types, {}));
      if (auto schedule = func->getAttr(kScheduleAttr))
        f->setAttr(kScheduleAttr, schedule);
      Block *block = f.addEntryBlock();
      for (auto [from, to] : llvm::zip(args, block->getArguments()))
        to.setLoc(from.getLoc());
      IRMapping map;
      map.map(args, block->getArguments());
      OpBuilder body = OpBuilder::atBlockBegin(block);
      for (Operation &op : entry) {
        if (isa<ForwardEndOp>(op) ||
            (isa<NestOp>(op) && forward.contains(&op) != isForward) ||
            (op.getNumResults() == 1 &&
             llvm::is_contained(saved, op.getResult(0))))
          continue;
        // Values that hang on arguments of the other half go with them.
        if (llvm::any_of(op.getOperands(),
                         [&](Value v) { return !map.contains(v); }) &&
            !isa<NestOp>(op))
          continue;
        body.clone(op, map);
      }
      dropUnused(f);
      return f;
    };
    llvm::append_range(fwdArgs, saved);
    half(".fwd", fwdArgs, true);
    SmallVector<Value> bwdArgs(common);
    llvm::append_range(bwdArgs, outputs);
    llvm::append_range(bwdArgs, inputs);
    llvm::append_range(bwdArgs, saved);
    llvm::append_range(bwdArgs, later);
    half(".bwd", bwdArgs, false);
    savedSizes(func, common, saved);
    passed(func, "fa-partition",
           Twine("cut into forward and backward; besides the outputs ") +
               Twine(saved.size()) + " buffers are saved");
    func.erase();
  }

  static bool isAfter(NestOp n, ForwardEndOp end) {
    return end->isBeforeInBlock(n);
  }

  static void dropUnused(func::FuncOp f) {
    for (auto alloc : llvm::make_early_inc_range(f.getOps<memref::AllocOp>()))
      if (alloc->use_empty())
        alloc.erase();
    eraseDead(f);
  }

  /// @NAME.saved: the sizes of the saved buffers, dim after dim.
  void savedSizes(func::FuncOp func, ArrayRef<Value> args,
                  ArrayRef<Value> saved) {
    OpBuilder b(func);
    SmallVector<Type> types = llvm::to_vector(ValueRange(args).getTypes());
    int64_t dims = 0;
    for (Value v : saved)
      dims += cast<MemRefType>(v.getType()).getRank();
    SmallVector<Type> results(dims, b.getIndexType());
    auto f = func::FuncOp::create(b, func.getLoc(),
                                  (func.getName() + ".saved").str(),
                                  b.getFunctionType(types, results));
    Block *block = f.addEntryBlock();
    IRMapping map;
    map.map(args, block->getArguments());
    TileBuilder body(OpBuilder::atBlockBegin(block), func.getLoc());
    SmallVector<Value> sizes;
    for (Operation &op : func.getBody().front()) {
      auto known = llvm::all_of(op.getOperands(),
                                [&](Value v) { return map.contains(v); });
      if (known && op.getNumRegions() == 0 && op.getNumResults() &&
          isMemoryEffectFree(&op))
        body.clone(op, map);
    }
    for (Value v : saved) {
      auto type = cast<MemRefType>(v.getType());
      auto dynamic =
          v.getDefiningOp<memref::AllocOp>().getDynamicSizes().begin();
      for (int64_t d : type.getShape())
        sizes.push_back(ShapedType::isDynamic(d) ? map.lookup(*dynamic++)
                                                 : body.index(d));
    }
    body.make<func::ReturnOp>(sizes);
    eraseDead(f);
  }
};
} // namespace
