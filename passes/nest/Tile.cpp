//===- Tile.cpp - fa-tile: attention as textbook loop nests -----------------===//
//
// States attention, and its gradient where the function has it, the way a
// textbook does: one nest per formula, with S, P, dP and dS in memory. This is
// where tensors become buffers and where tile sizes enter. Everything faster
// is made from these nests by later passes.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/nest/Tiles.h"

#include <limits>

using namespace mlir;
using namespace fathom;

namespace fathom {
#define GEN_PASS_DEF_TILEPASS
#include "passes/Passes.h.inc"
} // namespace fathom

namespace {
constexpr double kInf = std::numeric_limits<double>::infinity();

/// What a nest body needs to know about the sequence it works on. Dense
/// tensors hold a sequence per batch entry; packed ones hold all sequences in
/// one, from `qBase` and `kBase` on.
struct Sequence {
  Value b;            // index into the tensors' first dim
  Value sq, sk;       // lengths
  Value qBase, kBase; // first row in the tensors
  Value qEnd, kEnd;   // last row + 1 in the tensors
};

class Tiler {
public:
  Tiler(func::FuncOp func, AttentionOp fwd, AttentionGradOp bwd,
        ScheduleAttr schedule)
      : func(func), fwd(fwd), bwd(bwd), bm(schedule.getBlockM()),
        bn(schedule.getBlockN()), acc(fwd.getAccType()),
        dtype(cast<RankedTensorType>(fwd.getQ().getType()).getElementType()),
        d(fwd.getHeadDimQK()), dv(fwd.getHeadDimV()), group(fwd.getGroup()),
        packed(fwd.isPacked()), scale(fwd.getScale()->convertToDouble()),
        b(OpBuilder(func.getContext()), fwd.getLoc()) {}

  void run() {
    makeFunction();
    declareSizes();
    scoresNest();
    maskNest();
    rowMaxNest();
    rowSumNest();
    lseNest();
    probabilitiesNest();
    outputNest();
    if (bwd) {
      SmallVector<Value> gradients{dO};
      if (dLse)
        gradients.push_back(dLse);
      b.make<ForwardEndOp>(ValueRange{o, lse}, gradients);
      dvNest();
      dpNest();
      deltaNest();
      dsNest();
      dqNest();
      dkNest();
      for (auto [n, capture] : llvm::enumerate(bwd.getGradCaptures()))
        captureGradNest(capture, dCaptures[n]);
    }
    b.make<func::ReturnOp>();
    func.erase();
  }

private:
  func::FuncOp func;
  AttentionOp fwd;
  AttentionGradOp bwd;
  int64_t bm, bn;
  FloatType acc;
  Type dtype;
  int64_t d, dv, group;
  bool packed;
  double scale;
  TileBuilder b;

  Value q, k, v, o, lse, dO, dLse, dQ, dK, dV, cuQ, cuK;
  SmallVector<Value> captures, dCaptures;
  Value B, Hq, Hkv, maxSq, maxSk, paddedSq, paddedSk, zero, cD, cDv;
  // N x N and per row intermediates.
  Value S, X, M, Lsum, P, dP, delta, dS;

  //===--------------------------------------------------------------------===//
  // Function and sizes
  //===--------------------------------------------------------------------===//

  Type bufferType(Type t) {
    auto tensor = dyn_cast<RankedTensorType>(t);
    if (!tensor)
      return t;
    return stridedType(
        SmallVector<int64_t>(tensor.getRank(), ShapedType::kDynamic),
        tensor.getElementType());
  }

  void makeFunction() {
    int64_t dyn = ShapedType::kDynamic;
    auto heads = [&](int64_t dim) {
      return stridedType({dyn, dyn, dyn, dim}, dtype);
    };
    auto rows = stridedType({dyn, dyn, dyn}, acc);
    // The logical type of every tensor of the instance.
    DenseMap<Value, Type> types;
    types[fwd.getQ()] = types[fwd.getK()] = heads(d);
    types[fwd.getV()] = heads(dv);
    if (bwd) {
      types[bwd.getDO()] = heads(dv);
      if (bwd.getDLse())
        types[bwd.getDLse()] = rows;
    }
    SmallVector<Type> args;
    for (Value a : func.getArguments())
      args.push_back(types.count(a) ? types[a] : bufferType(a.getType()));
    size_t inputs = args.size();
    args.append({heads(dv), rows});
    if (bwd) {
      args.append({heads(d), heads(d), heads(dv)});
      for (int64_t c : bwd.getGradCaptures()) {
        auto t = dyn_cast<RankedTensorType>(bwd.getCaptures()[c].getType());
        int64_t rank = t ? t.getRank() : 1;
        args.push_back(stridedType(SmallVector<int64_t>(rank, dyn), acc));
      }
    }
    b.setInsertionPoint(func);
    auto tiled = func::FuncOp::create(b, func.getLoc(), func.getName(),
                                      b.getFunctionType(args, {}));
    tiled->setAttr(kScheduleAttr, func->getAttr(kScheduleAttr));
    Block *entry = tiled.addEntryBlock();
    b.setInsertionPointToStart(entry);
    // Where each value of the old function lives now.
    auto at = [&](Value old) {
      return entry->getArgument(cast<BlockArgument>(old).getArgNumber());
    };
    q = at(fwd.getQ());
    k = at(fwd.getK());
    v = at(fwd.getV());
    for (Value c : fwd.getCaptures())
      captures.push_back(at(c));
    if (packed) {
      cuQ = at(fwd.getPacking()[0]);
      cuK = at(fwd.getPacking()[1]);
      maxSq = at(fwd.getPacking()[2]);
      maxSk = at(fwd.getPacking()[3]);
    }
    auto out = entry->getArguments().drop_front(inputs);
    o = out[0];
    lse = out[1];
    if (bwd) {
      dO = at(bwd.getDO());
      dLse = bwd.getDLse() ? at(bwd.getDLse()) : Value();
      dQ = out[2];
      dK = out[3];
      dV = out[4];
      dCaptures = llvm::to_vector(llvm::map_range(
          out.drop_front(5), [](BlockArgument a) { return Value(a); }));
    }
    nameArguments(fwd);
  }

  /// For who reads what is compiled; no pass reads names.
  void nameArguments(AttentionOp fwd) {
    auto name = [](Value v, const Twine &text) {
      if (auto arg = dyn_cast_or_null<BlockArgument>(v))
        arg.setLoc(
            NameLoc::get(StringAttr::get(v.getContext(), text), v.getLoc()));
    };
    for (auto [v, text] :
         std::initializer_list<std::pair<Value, StringRef>>{{q, "q"},
                                                            {k, "k"},
                                                            {v, "v"},
                                                            {o, "o"},
                                                            {lse, "lse"},
                                                            {dO, "do"},
                                                            {dLse, "dlse"},
                                                            {dQ, "dq"},
                                                            {dK, "dk"},
                                                            {dV, "dv"}})
      name(v, text);
    for (auto [c, text] : llvm::zip(captures, fwd.getCaptureNames()))
      name(c, cast<StringAttr>(text).getValue());
    for (Value c : dCaptures)
      name(c, "dcapture");
  }

  /// Sizes and buffers, once, before all nests: every nest may use them.
  void declareSizes() {
    zero = b.index(0);
    cD = b.index(d);
    cDv = b.index(dv);
    Hq = b.dim(q, 1);
    // Of the instance: query heads = KV heads * group.
    Hkv = group == 1 ? Hq
                     : b.make<arith::DivUIOp>(Hq, b.index(group)).getResult();
    if (packed) {
      B = b.sub(b.dim(cuQ, 0), b.index(1));
    } else {
      B = b.dim(q, 0);
      maxSq = b.dim(q, 2);
      maxSk = b.dim(k, 2);
    }
    paddedSq = b.roundUp(maxSq, bm);
    paddedSk = b.roundUp(maxSk, bn);
    S = square(acc);
    X = square(acc);
    M = rowBuffer();
    Lsum = rowBuffer();
    P = square(dtype);
    if (bwd) {
      dP = square(acc);
      delta = rowBuffer();
      dS = square(dtype);
    }
  }

  /// A buffer of whole tiles, one per (b, h, i block, j block).
  Value square(Type element) {
    int64_t dyn = ShapedType::kDynamic;
    return b.make<memref::AllocOp>(
        MemRefType::get({dyn, dyn, dyn, dyn}, element),
        ValueRange{B, Hq, paddedSq, paddedSk});
  }
  Value rowBuffer() {
    int64_t dyn = ShapedType::kDynamic;
    return b.make<memref::AllocOp>(MemRefType::get({dyn, dyn, dyn}, acc),
                                   ValueRange{B, Hq, paddedSq});
  }

  Sequence sequence(Value batch) {
    if (!packed)
      return {batch, maxSq, maxSk, Value(), Value(), maxSq, maxSk};
    auto at = [&](Value cu, Value i) -> Value {
      return b.make<arith::IndexCastOp>(b.getIndexType(),
                                        b.make<memref::LoadOp>(cu, i));
    };
    Value next = b.add(batch, b.index(1));
    Sequence s;
    s.b = zero;
    s.qBase = at(cuQ, batch);
    s.qEnd = at(cuQ, next);
    s.kBase = at(cuK, batch);
    s.kEnd = at(cuK, next);
    s.sq = b.sub(s.qEnd, s.qBase);
    s.sk = b.sub(s.kEnd, s.kBase);
    return s;
  }

  //===--------------------------------------------------------------------===//
  // Tiles of the tensors and intermediates
  //===--------------------------------------------------------------------===//

  Value row(Value base, Value i) { return base ? b.add(base, i) : i; }
  Value loadQ(const Sequence &s, Value h, Value i) {
    return b.load(q, {s.b, h, row(s.qBase, i), zero}, {s.qEnd, cD}, {bm, d});
  }
  Value loadK(const Sequence &s, Value hk, Value j) {
    return b.load(k, {s.b, hk, row(s.kBase, j), zero}, {s.kEnd, cD}, {bn, d});
  }
  Value loadV(const Sequence &s, Value hk, Value j) {
    return b.load(v, {s.b, hk, row(s.kBase, j), zero}, {s.kEnd, cDv}, {bn, dv});
  }
  Value loadDO(const Sequence &s, Value h, Value i) {
    return b.load(dO, {s.b, h, row(s.qBase, i), zero}, {s.qEnd, cDv}, {bm, dv});
  }
  Value loadSquare(Value buffer, Value batch, Value h, Value i, Value j) {
    return b.load(buffer, {batch, h, i, j}, {paddedSq, paddedSk}, {bm, bn});
  }
  void storeSquare(Value tile, Value buffer, Value batch, Value h, Value i,
                   Value j) {
    b.store(tile, buffer, {batch, h, i, j}, {paddedSq, paddedSk});
  }
  Value loadRow(Value buffer, Value batch, Value h, Value i) {
    return b.load(buffer, {batch, h, i}, {paddedSq}, {bm});
  }
  void storeRow(Value tile, Value buffer, Value batch, Value h, Value i) {
    b.store(tile, buffer, {batch, h, i}, {paddedSq});
  }

  RankedTensorType squareTile(Type element) {
    return tileOf({bm, bn}, element);
  }
  Value perRow(Value rowTile) {
    return b.broadcast(rowTile, 0, squareTile(acc));
  }
  Value zeros(int64_t rows, int64_t cols) {
    return b.constant(tileOf({rows, cols}, acc), 0);
  }
  Value kvHead(Value h) {
    return group == 1 ? h
                      : b.make<arith::DivUIOp>(h, b.index(group)).getResult();
  }
  Value scaled(Value t) {
    return scale == 1 ? t
                      : b.make<arith::MulFOp>(t, b.constant(t.getType(), scale))
                            .getResult();
  }

  //===--------------------------------------------------------------------===//
  // Nests
  //===--------------------------------------------------------------------===//

  void nest(StringRef label, ValueRange bounds, ArrayRef<int64_t> steps,
            int64_t parallel, function_ref<void(ValueRange)> body) {
    auto n = b.make<NestOp>(label, bounds, steps, parallel);
    OpBuilder::InsertionGuard g(b);
    b.setInsertionPointToStart(n.getBlock());
    body(n.getBlock()->getArguments());
  }
  /// One item per (b, h, i block, j block).
  void squareNest(StringRef label,
                  function_ref<void(Value, Value, Value, Value)> body) {
    nest(label, {B, Hq, maxSq, maxSk}, {1, 1, bm, bn}, 4,
         [&](ValueRange iv) { body(iv[0], iv[1], iv[2], iv[3]); });
  }
  /// One item per (b, h, i block).
  void rowNest(StringRef label, function_ref<void(Value, Value, Value)> body) {
    nest(label, {B, Hq, maxSq}, {1, 1, bm}, 3,
         [&](ValueRange iv) { body(iv[0], iv[1], iv[2]); });
  }
  /// One item per (b, KV head, j block); `term` adds the part of one query
  /// head and i block.
  void keyNest(
      StringRef label, int64_t cols,
      function_ref<Value(const Sequence &, Value, Value, Value, Value, Value)>
          term,
      function_ref<void(const Sequence &, Value, Value, Value)> finish) {
    nest(label, {B, Hkv, maxSk}, {1, 1, bn}, 3, [&](ValueRange iv) {
      Value batch = iv[0], hk = iv[1], j = iv[2];
      Sequence s = sequence(batch);
      auto rows = [&](Value h, Value init) {
        return b
            .loop(s.sq, bm, init,
                  [&](Value i, ValueRange c) -> SmallVector<Value> {
                    return {term(s, batch, h, i, j, c[0])};
                  })
            .getResult(0);
      };
      Value sum = zeros(bn, cols);
      if (group == 1) {
        sum = rows(hk, sum);
      } else {
        sum = b.loop(b.index(group), 1, sum,
                     [&](Value g, ValueRange c) -> SmallVector<Value> {
                       Value h = b.add(b.mul(hk, b.index(group)), g);
                       return {rows(h, c[0])};
                     })
                  .getResult(0);
      }
      finish(s, hk, j, sum);
    });
  }

  /// S = scale * Q K^T
  void scoresNest() {
    squareNest("scores", [&](Value batch, Value h, Value i, Value j) {
      Sequence s = sequence(batch);
      Value kt = b.transpose(loadK(s, kvHead(h), j));
      Value t = b.dot(loadQ(s, h, i), kt, zeros(bm, bn));
      storeSquare(scaled(t), S, batch, h, i, j);
    });
  }

  /// The region's arguments for one tile: captures, then `scores`, b, h, i, j.
  SmallVector<Value> regionArgs(ValueRange scores, Value batch, Value h,
                                Value i, Value j) {
    SmallVector<Value> args(captures);
    args.append(scores.begin(), scores.end());
    args.append({batch, h, position(i, 0), position(j, 1)});
    return args;
  }
  Value position(Value start, int64_t dim) {
    int64_t n = dim == 0 ? bm : bn;
    Value iota = b.make<IotaOp>(tileOf({n}, b.getIndexType()), start);
    return b.broadcast(iota, dim, squareTile(b.getIndexType()));
  }
  /// True where the entry exists and the mask region says visible.
  Value visible(const Sequence &s, Value batch, Value h, Value i, Value j) {
    auto below = [&](Value pos, Value end) -> Value {
      return b.make<arith::CmpIOp>(
          arith::CmpIPredicate::slt, pos,
          b.broadcast(end, 0, squareTile(b.getIndexType())));
    };
    Value vis = b.make<arith::AndIOp>(below(position(i, 0), s.sq),
                                      below(position(j, 1), s.sk));
    if (!fwd.getMask().empty()) {
      Value m = inlineOnTiles(b, fwd.getMask(), regionArgs({}, batch, h, i, j),
                              {bm, bn}, s.sq, s.sk)[0];
      vis = b.make<arith::AndIOp>(vis,
                                  b.broadcast(m, 0, squareTile(b.getI1Type())));
    }
    return vis;
  }

  /// X = score(S) where visible, else -inf
  void maskNest() {
    squareNest("mask", [&](Value batch, Value h, Value i, Value j) {
      Sequence s = sequence(batch);
      Value x = loadSquare(S, batch, h, i, j);
      if (!fwd.getScore().empty()) {
        x = inlineOnTiles(b, fwd.getScore(), regionArgs(x, batch, h, i, j),
                          {bm, bn}, s.sq, s.sk)[0];
        x = b.broadcast(x, 0, squareTile(acc));
      }
      x = b.make<arith::SelectOp>(visible(s, batch, h, i, j), x,
                                  b.constant(squareTile(acc), -kInf));
      storeSquare(x, X, batch, h, i, j);
    });
  }

  /// M = max_j X
  void rowMaxNest() {
    rowNest("row_max", [&](Value batch, Value h, Value i) {
      Sequence s = sequence(batch);
      auto f = b.loop(s.sk, bn, b.constant(tileOf({bm}, acc), -kInf),
                      [&](Value j, ValueRange c) -> SmallVector<Value> {
                        Value x = loadSquare(X, batch, h, i, j);
                        Value m = b.reduce(ReduceKind::max, x, 1);
                        return {b.make<arith::MaxNumFOp>(c[0], m)};
                      });
      storeRow(f.getResult(0), M, batch, h, i);
    });
  }

  /// exp(X - m), 0 for hidden entries also in rows without a visible key.
  Value shiftedExp(Value x, Value m) {
    return b.make<math::ExpOp>(
        b.make<arith::SubFOp>(x, perRow(b.guard(m, -kInf, 0))));
  }

  /// Lsum = sum_j exp(X - M)
  void rowSumNest() {
    rowNest("row_sum", [&](Value batch, Value h, Value i) {
      Sequence s = sequence(batch);
      Value m = loadRow(M, batch, h, i);
      auto f = b.loop(s.sk, bn, b.constant(tileOf({bm}, acc), 0),
                      [&](Value j, ValueRange c) -> SmallVector<Value> {
                        Value p = shiftedExp(loadSquare(X, batch, h, i, j), m);
                        return {b.make<arith::AddFOp>(
                            c[0], b.reduce(ReduceKind::add, p, 1))};
                      });
      storeRow(f.getResult(0), Lsum, batch, h, i);
    });
  }

  /// L = M + log Lsum
  void lseNest() {
    rowNest("lse", [&](Value batch, Value h, Value i) {
      Sequence s = sequence(batch);
      Value l = b.make<math::LogOp>(loadRow(Lsum, batch, h, i));
      Value sum = b.make<arith::AddFOp>(loadRow(M, batch, h, i), l);
      b.store(sum, lse, {s.b, h, row(s.qBase, i)}, {s.qEnd});
    });
  }

  /// P = exp(X - M) / Lsum
  void probabilitiesNest() {
    squareNest("probabilities", [&](Value batch, Value h, Value i, Value j) {
      Value x = loadSquare(X, batch, h, i, j);
      Value p = shiftedExp(x, loadRow(M, batch, h, i));
      Value l = b.guard(loadRow(Lsum, batch, h, i), 0, 1);
      p = b.make<arith::DivFOp>(p, perRow(l));
      storeSquare(b.castTo(p, dtype), P, batch, h, i, j);
    });
  }

  /// O = P V
  void outputNest() {
    rowNest("output", [&](Value batch, Value h, Value i) {
      Sequence s = sequence(batch);
      Value hk = kvHead(h);
      auto f = b.loop(s.sk, bn, zeros(bm, dv),
                      [&](Value j, ValueRange c) -> SmallVector<Value> {
                        Value p = loadSquare(P, batch, h, i, j);
                        return {b.dot(p, loadV(s, hk, j), c[0])};
                      });
      b.store(b.castTo(f.getResult(0), dtype), o,
              {s.b, h, row(s.qBase, i), zero}, {s.qEnd, cDv});
    });
  }

  /// dV = P^T dO, summed over the group
  void dvNest() {
    keyNest(
        "dv", dv,
        [&](const Sequence &s, Value batch, Value h, Value i, Value j,
            Value sum) -> Value {
          Value pt = b.transpose(loadSquare(P, batch, h, i, j));
          return b.dot(pt, loadDO(s, h, i), sum);
        },
        [&](const Sequence &s, Value hk, Value j, Value sum) {
          b.store(b.castTo(sum, dtype), dV, {s.b, hk, row(s.kBase, j), zero},
                  {s.kEnd, cDv});
        });
  }

  /// dP = dO V^T
  void dpNest() {
    squareNest("dp", [&](Value batch, Value h, Value i, Value j) {
      Sequence s = sequence(batch);
      Value vt = b.transpose(loadV(s, kvHead(h), j));
      Value t = b.dot(loadDO(s, h, i), vt, zeros(bm, bn));
      storeSquare(t, dP, batch, h, i, j);
    });
  }

  /// delta = rowsum(P o dP) - dL
  void deltaNest() {
    rowNest("delta", [&](Value batch, Value h, Value i) {
      Sequence s = sequence(batch);
      auto f = b.loop(
          s.sk, bn, b.constant(tileOf({bm}, acc), 0),
          [&](Value j, ValueRange c) -> SmallVector<Value> {
            Value p = b.castTo(loadSquare(P, batch, h, i, j), acc);
            Value t = b.make<arith::MulFOp>(p, loadSquare(dP, batch, h, i, j));
            return {
                b.make<arith::AddFOp>(c[0], b.reduce(ReduceKind::add, t, 1))};
          });
      Value sum = f.getResult(0);
      if (dLse)
        sum = b.make<arith::SubFOp>(
            sum, b.load(dLse, {s.b, h, row(s.qBase, i)}, {s.qEnd}, {bm}));
      storeRow(sum, delta, batch, h, i);
    });
  }

  /// P and the gradient of X: P o (dP - delta).
  std::pair<Value, Value> gradientOfX(Value batch, Value h, Value i, Value j) {
    Value p = b.castTo(loadSquare(P, batch, h, i, j), acc);
    Value t = b.make<arith::SubFOp>(loadSquare(dP, batch, h, i, j),
                                    perRow(loadRow(delta, batch, h, i)));
    return {p, b.make<arith::MulFOp>(p, t)};
  }

  /// `t` where P is not 0, else 0: an entry without weight has no gradient,
  /// also where the score is -inf and its derivative infinite.
  Value whereWeighted(Value p, Value t) {
    Value zeros = b.constant(p.getType(), 0);
    Value weighted = b.make<arith::CmpFOp>(arith::CmpFPredicate::UNE, p, zeros);
    return b.make<arith::SelectOp>(weighted, t, zeros);
  }

  /// dS = (P o (dP - delta)) times the score region's derivative, where visible
  void dsNest() {
    squareNest("ds", [&](Value batch, Value h, Value i, Value j) {
      Sequence s = sequence(batch);
      auto [p, t] = gradientOfX(batch, h, i, j);
      if (!bwd.getDscore().empty()) {
        Value raw = loadSquare(S, batch, h, i, j);
        t = inlineOnTiles(b, bwd.getDscore(),
                          regionArgs({raw, t}, batch, h, i, j), {bm, bn}, s.sq,
                          s.sk)[0];
        t = whereWeighted(p, b.broadcast(t, 0, squareTile(acc)));
      }
      t = b.make<arith::SelectOp>(visible(s, batch, h, i, j), t,
                                  b.constant(squareTile(acc), 0));
      storeSquare(b.castTo(t, dtype), dS, batch, h, i, j);
    });
  }

  /// dQ = scale * dS K
  void dqNest() {
    rowNest("dq", [&](Value batch, Value h, Value i) {
      Sequence s = sequence(batch);
      Value hk = kvHead(h);
      auto f = b.loop(s.sk, bn, zeros(bm, d),
                      [&](Value j, ValueRange c) -> SmallVector<Value> {
                        Value t = loadSquare(dS, batch, h, i, j);
                        return {b.dot(t, loadK(s, hk, j), c[0])};
                      });
      b.store(b.castTo(scaled(f.getResult(0)), dtype), dQ,
              {s.b, h, row(s.qBase, i), zero}, {s.qEnd, cD});
    });
  }

  /// dK = scale * dS^T Q, summed over the group
  void dkNest() {
    keyNest(
        "dk", d,
        [&](const Sequence &s, Value batch, Value h, Value i, Value j,
            Value sum) -> Value {
          Value t = b.transpose(loadSquare(dS, batch, h, i, j));
          return b.dot(t, loadQ(s, h, i), sum);
        },
        [&](const Sequence &s, Value hk, Value j, Value sum) {
          b.store(b.castTo(scaled(sum), dtype), dK,
                  {s.b, hk, row(s.kBase, j), zero}, {s.kEnd, cD});
        });
  }

  //===--------------------------------------------------------------------===//
  // Gradients of captured operands
  //===--------------------------------------------------------------------===//

  /// The dims (b, h, i, j) that may run in parallel: those that stand alone in
  /// the same index position of every contribution, so that two items with
  /// different values never add to the same entry.
  SmallVector<bool> ownedDims(int64_t capture) {
    Region &r = bwd.getDscore();
    SmallVector<std::optional<int64_t>> position(4);
    SmallVector<bool> owned(4, true);
    bool any = false;
    r.walk([&](ContributeOp c) {
      if (cast<BlockArgument>(c.getTarget()).getArgNumber() != capture)
        return;
      for (int dim = 0; dim < 4; ++dim) {
        Value arg = r.getArgument(r.getNumArguments() - 4 + dim);
        auto it = llvm::find(c.getIndices(), arg);
        int64_t at = it - c.getIndices().begin();
        if (it == c.getIndices().end() || (any && position[dim] != at))
          owned[dim] = false;
        position[dim] = at;
      }
      any = true;
    });
    return owned;
  }

  void captureGradNest(int64_t capture, Value gradient) {
    zeroNest(gradient);
    if (bwd.getDscore().empty())
      return; // only the mask may use it
    SmallVector<bool> owned = ownedDims(capture);
    // Owned dims are parallel dims of the nest, b and h otherwise sequential
    // ones, and i and j otherwise loops.
    SmallVector<int> order;
    for (bool parallel : {true, false})
      for (int dim = 0; dim < 4; ++dim)
        if (owned[dim] == parallel && (parallel || dim < 2))
          order.push_back(dim);
    SmallVector<Value> sizes{B, Hq, maxSq, maxSk}, bounds;
    SmallVector<int64_t> blocks{1, 1, bm, bn}, steps;
    for (int dim : order) {
      bounds.push_back(sizes[dim]);
      steps.push_back(blocks[dim]);
    }
    nest("captured_gradient", bounds, steps, llvm::count(owned, true),
         [&](ValueRange iv) {
           SmallVector<Value> at(4);
           for (auto [n, dim] : llvm::enumerate(order))
             at[dim] = iv[n];
           Sequence s = sequence(at[0]);
           auto tile = [&] {
             captureGradTile(capture, gradient, s, at[0], at[1], at[2], at[3]);
           };
           auto over = [&](int dim, Value end, function_ref<void()> body) {
             if (owned[dim])
               return body();
             b.loop(end, blocks[dim], {},
                    [&](Value iv, ValueRange) -> SmallVector<Value> {
                      at[dim] = iv;
                      body();
                      return {};
                    });
           };
           over(2, s.sq, [&] { over(3, s.sk, tile); });
         });
  }

  void captureGradTile(int64_t capture, Value gradient, const Sequence &s,
                       Value batch, Value h, Value i, Value j) {
    auto [p, t] = gradientOfX(batch, h, i, j);
    Value vis = visible(s, batch, h, i, j), weight = p;
    Value raw = loadSquare(S, batch, h, i, j);
    inlineOnTiles(
        b, bwd.getDscore(), regionArgs({raw, t}, batch, h, i, j), {bm, bn},
        s.sq, s.sk, [&](ContributeOp c, Value value, ValueRange indices) {
          if (cast<BlockArgument>(c.getTarget()).getArgNumber() == capture)
            contribute(value, weight, vis, gradient, indices);
        });
  }

  void contribute(Value value, Value p, Value vis, Value gradient,
                  ValueRange indices) {
    value = b.castTo(value, acc);
    value = whereWeighted(p, b.broadcast(value, 0, squareTile(acc)));
    value = b.make<arith::SelectOp>(vis, value, b.constant(squareTile(acc), 0));
    if (llvm::any_of(indices, [](Value v) {
          return isa<RankedTensorType>(v.getType());
        })) {
      b.make<ScatterAddOp>(AccumulateMode::plain, value, gradient, indices);
      return;
    }
    // One entry for the whole tile: sum on chip first.
    SmallVector<Value> at(indices);
    if (at.empty())
      at.push_back(zero);
    Value sum =
        b.reduce(ReduceKind::add, b.reduce(ReduceKind::add, value, 1), 0);
    Value one = b.broadcast(sum, 0, tileOf({1}, acc));
    b.make<AccumulateOp>(AccumulateMode::plain, one, gradient, at,
                         ValueRange{b.add(at.back(), b.index(1))}, Value(),
                         Value(), ValueRange{});
  }

  void zeroNest(Value buffer) {
    auto type = cast<MemRefType>(buffer.getType());
    SmallVector<Value> bounds;
    for (int64_t dim = 0; dim < type.getRank(); ++dim)
      bounds.push_back(b.dim(buffer, dim));
    SmallVector<int64_t> steps(type.getRank(), 1);
    steps.back() = 64;
    nest("zero", bounds, steps, type.getRank(), [&](ValueRange iv) {
      b.store(b.constant(tileOf({64}, acc), 0), buffer, iv, {bounds.back()});
    });
  }
};

struct TilePass : public fathom::impl::TilePassBase<TilePass> {
  using TilePassBase::TilePassBase;

  void runOnOperation() override {
    for (auto func :
         llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>())) {
      SmallVector<AttentionOp> fwd(func.getOps<AttentionOp>());
      SmallVector<AttentionGradOp> bwd(func.getOps<AttentionGradOp>());
      if (fwd.empty())
        continue;
      if (fwd.size() > 1 || bwd.size() > 1) {
        func.emitOpError(
            "expected one fa.attention and at most one fa.attention_grad in a "
            "function, got ")
            << fwd.size() << " and " << bwd.size();
        return signalPassFailure();
      }
      auto schedule = func->getAttrOfType<ScheduleAttr>(kScheduleAttr);
      if (!schedule) {
        func.emitOpError("expected the attribute 'fa.schedule'; run "
                         "fa-select-schedule first");
        return signalPassFailure();
      }
      AttentionOp op = fwd[0];
      if (op.getCausal() || op.getWindowLeft() || op.getWindowRight() ||
          op.getSoftcap() || op.getAlibi() || !op.getScale()) {
        op.emitOpError(
            "expected a normalized variant; run fa-normalize-variant first");
        return signalPassFailure();
      }
      if (!checkOperands(func, op, bwd.empty() ? AttentionGradOp() : bwd[0]))
        return signalPassFailure();
      passed(func, "fa-tile", "stated as textbook nests");
      Tiler(func, op, bwd.empty() ? AttentionGradOp() : bwd[0], schedule).run();
    }
  }

  /// The function may hold nothing but the ops and hand its arguments on.
  bool checkOperands(func::FuncOp func, AttentionOp fwd, AttentionGradOp bwd) {
    for (Operation &op : func.getBody().front())
      if (&op != fwd && &op != bwd && !isa<func::ReturnOp>(op)) {
        op.emitOpError("expected only fa.attention and fa.attention_grad "
                       "beside it in a function "
                       "to be tiled");
        return false;
      }
    for (Value v : fwd->getOperands())
      if (!isa<BlockArgument>(v)) {
        fwd.emitOpError("expected operands that are arguments of the function");
        return false;
      }
    SmallVector<Value> results(fwd->getResults());
    if (bwd)
      llvm::append_range(results, bwd->getResults());
    if (!llvm::equal(func.getBody().front().getTerminator()->getOperands(),
                     results)) {
      func.emitOpError("expected it to return all results of fa.attention and "
                       "fa.attention_grad, in order");
      return false;
    }
    return true;
  }
};
} // namespace
