//===- VariantSyntax.cpp - how variants are written -------------------------===//
//
// fa.variant, fa.attention and fa.attention_grad share one syntax for captures,
// sugar and regions; it is parsed and printed here, once.
//
//   [causal] [top_left|bottom_right] [window(left = L, right = R)] [softcap(30.0|%cap)]
//   [alibi(%slopes)] [scale(0.125)] [score (args) {..}] [mask (args) {..}]
//
//===----------------------------------------------------------------------===//

#include "dialect/FADialect.h"

using namespace mlir;
using namespace fathom;

namespace {

/// Captures as the parser collects them: the block argument (name and type)
/// and, on instances, the operand bound to it.
struct Captures {
  SmallVector<OpAsmParser::Argument> args;
  SmallVector<OpAsmParser::UnresolvedOperand> operands;

  ArrayAttr names(Builder &b) const {
    SmallVector<StringRef> n;
    for (const auto &a : args)
      n.push_back(a.ssaName.name.drop_front());
    return b.getStrArrayAttr(n);
  }
  SmallVector<Type> types() const {
    SmallVector<Type> t;
    for (const auto &a : args)
      t.push_back(a.type);
    return t;
  }
  /// The index of the capture called `name` (with its %).
  FailureOr<int64_t> find(OpAsmParser &p, SMLoc loc, StringRef name) const {
    for (size_t i = 0; i < args.size(); ++i)
      if (args[i].ssaName.name == name)
        return (int64_t)i;
    return p.emitError(loc, "expected the name of a captured operand, got '")
           << name << "'";
  }
};

ParseResult parseCaptureRef(OpAsmParser &p, const Captures &c, int64_t &index) {
  OpAsmParser::UnresolvedOperand ref;
  SMLoc loc = p.getCurrentLocation();
  if (p.parseOperand(ref, /*allowResultNumber=*/false))
    return failure();
  auto i = c.find(p, loc, ref.name);
  if (failed(i))
    return failure();
  return index = *i, success();
}

ParseResult parseSugar(OpAsmParser &p, NamedAttrList &attrs,
                       const Captures &c) {
  Builder &b = p.getBuilder();
  auto once = [&](StringRef name, SMLoc loc) -> ParseResult {
    if (attrs.get(name))
      return p.emitError(loc, "expected '") << name << "' at most once";
    return success();
  };
  auto setAlignment = [&](Alignment a, SMLoc loc) -> ParseResult {
    if (once("alignment", loc))
      return failure();
    attrs.set("alignment", AlignmentAttr::get(b.getContext(), a));
    return success();
  };
  while (true) {
    SMLoc loc = p.getCurrentLocation();
    if (succeeded(p.parseOptionalKeyword("causal"))) {
      if (once("causal", loc))
        return failure();
      attrs.set("causal", b.getUnitAttr());
    } else if (succeeded(p.parseOptionalKeyword("top_left"))) {
      if (setAlignment(Alignment::top_left, loc))
        return failure();
    } else if (succeeded(p.parseOptionalKeyword("bottom_right"))) {
      if (setAlignment(Alignment::bottom_right, loc))
        return failure();
    } else if (succeeded(p.parseOptionalKeyword("window"))) {
      auto side = [&]() -> ParseResult {
        StringRef key;
        SMLoc keyLoc = p.getCurrentLocation();
        int64_t n;
        if (p.parseKeyword(&key) || p.parseEqual())
          return failure();
        if (key != "left" && key != "right")
          return p.emitError(keyLoc, "expected one of [left, right], got '")
                 << key << "'";
        SMLoc valueLoc = p.getCurrentLocation();
        if (p.parseInteger(n))
          return failure();
        if (n < 0)
          return p.emitError(valueLoc,
                             "expected a window bound of at least 0 (leave the "
                             "side out for an unbounded one), got ")
                 << n;
        if (once(key == "left" ? "window_left" : "window_right", keyLoc))
          return failure();
        attrs.set(key == "left" ? "window_left" : "window_right",
                  b.getI64IntegerAttr(n));
        return success();
      };
      if (p.parseCommaSeparatedList(AsmParser::Delimiter::Paren, side))
        return failure();
    } else if (succeeded(p.parseOptionalKeyword("softcap"))) {
      int64_t index;
      double value;
      if (once("softcap", loc) || p.parseLParen())
        return failure();
      OpAsmParser::UnresolvedOperand ref;
      SMLoc valueLoc = p.getCurrentLocation();
      if (auto r = p.parseOptionalOperand(ref, false); r.has_value()) {
        if (*r)
          return failure();
        auto i = c.find(p, valueLoc, ref.name);
        if (failed(i))
          return failure();
        index = *i;
        attrs.set("softcap", b.getI64IntegerAttr(index));
      } else {
        if (p.parseFloat(value))
          return failure();
        attrs.set("softcap", b.getF64FloatAttr(value));
      }
      if (p.parseRParen())
        return failure();
    } else if (succeeded(p.parseOptionalKeyword("alibi"))) {
      int64_t index;
      if (once("alibi", loc) || p.parseLParen() ||
          parseCaptureRef(p, c, index) || p.parseRParen())
        return failure();
      attrs.set("alibi", b.getI64IntegerAttr(index));
    } else if (succeeded(p.parseOptionalKeyword("scale"))) {
      double value;
      if (once("scale", loc) || p.parseLParen() || p.parseFloat(value) ||
          p.parseRParen())
        return failure();
      attrs.set("scale", b.getF64FloatAttr(value));
    } else {
      return success();
    }
  }
}

ParseResult parseNamedRegion(OpAsmParser &p, OperationState &s,
                             StringRef keyword, const Captures &c) {
  Region *r = s.addRegion();
  if (failed(p.parseOptionalKeyword(keyword)))
    return success();
  SmallVector<OpAsmParser::Argument> args(c.args);
  SMLoc loc = p.getCurrentLocation();
  if (p.parseArgumentList(args, AsmParser::Delimiter::Paren,
                          /*allowType=*/true) ||
      p.parseRegion(*r, args))
    return failure();
  if (r->empty())
    return p.emitError(loc, "expected a '")
           << keyword << "' region that is not empty";
  return success();
}

ParseResult parseTail(OpAsmParser &p, OperationState &s, const Captures &c,
                      ArrayRef<StringRef> regions) {
  if (parseSugar(p, s.attributes, c) ||
      p.parseOptionalAttrDictWithKeyword(s.attributes))
    return failure();
  for (StringRef keyword : regions)
    if (parseNamedRegion(p, s, keyword, c))
      return failure();
  return success();
}

void printCaptureName(OpAsmPrinter &p, VariantInterface v, int64_t i) {
  for (Region *r : {&v.getScore(), &v.getMask()})
    if (!r->empty() && i < (int64_t)r->getNumArguments()) {
      p << r->getArgument(i);
      return;
    }
  p << "%" << cast<StringAttr>(v.getCaptureNames()[i]).getValue();
}

void printTail(OpAsmPrinter &p, VariantInterface v,
               ArrayRef<std::pair<StringRef, Region *>> regions) {
  if (v.getCausal())
    p << " causal";
  if (v.getAlignment() == Alignment::top_left)
    p << " top_left";
  if (v.getWindowLeft() || v.getWindowRight()) {
    p << " window(";
    if (v.getWindowLeft())
      p << "left = " << *v.getWindowLeft();
    if (v.getWindowLeft() && v.getWindowRight())
      p << ", ";
    if (v.getWindowRight())
      p << "right = " << *v.getWindowRight();
    p << ")";
  }
  if (auto cap = v.getSoftcap()) {
    p << " softcap(";
    if (auto f = dyn_cast<FloatAttr>(*cap))
      p.printFloat(f.getValue());
    else
      printCaptureName(p, v, cast<IntegerAttr>(*cap).getInt());
    p << ")";
  }
  if (auto a = v.getAlibi()) {
    p << " alibi(";
    printCaptureName(p, v, *a);
    p << ")";
  }
  if (auto s = v.getScale()) {
    p << " scale(";
    p.printFloat(*s);
    p << ")";
  }
  size_t captures = v.getCaptureNames().size();
  p.printOptionalAttrDictWithKeyword(
      v->getAttrs(),
      {"sym_name", "capture_type_list", "capture_names", "causal", "alignment",
       "window_left", "window_right", "softcap", "alibi", "scale", "layout",
       "group", "grad_captures", "operandSegmentSizes", "resultSegmentSizes"});
  for (auto [keyword, region] : regions) {
    if (region->empty())
      continue;
    p.printNewline();
    p << keyword << " (";
    llvm::interleaveComma(region->getArguments().drop_front(captures), p,
                          [&](BlockArgument a) { p.printRegionArgument(a); });
    p << ") ";
    p.printRegion(*region, /*printEntryBlockArgs=*/false);
  }
}

void nameArgs(VariantInterface v, Region &r, ArrayRef<StringRef> rest,
              OpAsmSetValueNameFn set) {
  ArrayAttr names = v.getCaptureNames();
  for (auto [i, a] : llvm::enumerate(r.getArguments())) {
    if (i < names.size())
      set(a, cast<StringAttr>(names[i]).getValue());
    else if (i - names.size() < rest.size())
      set(a, rest[i - names.size()]);
  }
}

void nameVariantArgs(VariantInterface v, Region &r, OpAsmSetValueNameFn set) {
  if (&r == &v.getScore())
    nameArgs(v, r, {"s", "b", "h", "i", "j"}, set);
  else if (&r == &v.getMask())
    nameArgs(v, r, {"b", "h", "i", "j"}, set);
  else
    nameArgs(v, r, {"s", "ds", "b", "h", "i", "j"}, set);
}

/// layout(bshd) group(4) [captures(%x = %arg : type, ...)] [packed(%a, %b, %c, %d)]
struct InstanceHead {
  Captures captures;
  SmallVector<OpAsmParser::UnresolvedOperand> packing;
};

ParseResult parseInstanceHead(OpAsmParser &p, OperationState &s,
                              InstanceHead &h) {
  Builder &b = p.getBuilder();
  StringRef layout;
  int64_t group;
  if (p.parseKeyword("layout") || p.parseLParen())
    return failure();
  SMLoc loc = p.getCurrentLocation();
  if (p.parseKeyword(&layout) || p.parseRParen())
    return failure();
  auto l = symbolizeLayout(layout);
  if (!l)
    return p.emitError(loc, "expected one of [bshd, bhsd, packed], got '")
           << layout << "'";
  s.addAttribute("layout", LayoutAttr::get(b.getContext(), *l));
  if (p.parseKeyword("group") || p.parseLParen() || p.parseInteger(group) ||
      p.parseRParen())
    return failure();
  s.addAttribute("group", b.getI64IntegerAttr(group));
  if (succeeded(p.parseOptionalKeyword("captures"))) {
    auto one = [&]() -> ParseResult {
      auto &arg = h.captures.args.emplace_back();
      return failure(p.parseArgument(arg) || p.parseEqual() ||
                     p.parseOperand(h.captures.operands.emplace_back()) ||
                     p.parseColonType(arg.type));
    };
    if (p.parseCommaSeparatedList(AsmParser::Delimiter::Paren, one))
      return failure();
  }
  if (succeeded(p.parseOptionalKeyword("packing")) &&
      p.parseOperandList(h.packing, AsmParser::Delimiter::Paren))
    return failure();
  s.addAttribute("capture_names", h.captures.names(b));
  return success();
}

void printInstanceHead(OpAsmPrinter &p, VariantInterface v, Layout layout,
                       int64_t group, OperandRange captures,
                       OperandRange packing) {
  p << " layout(" << stringifyLayout(layout) << ") group(" << group << ")";
  if (!captures.empty()) {
    p << " captures(";
    for (auto [i, c] : llvm::enumerate(captures)) {
      if (i)
        p << ", ";
      printCaptureName(p, v, i);
      p << " = " << c << " : " << c.getType();
    }
    p << ")";
  }
  if (!packing.empty())
    p << " packing(" << packing << ")";
}

/// Types of the packing operands: two tensor<?xi32> and two index.
SmallVector<Type> packingTypes(Builder &b, size_t n) {
  auto cu = RankedTensorType::get({ShapedType::kDynamic}, b.getI32Type());
  SmallVector<Type> t{cu, cu, b.getIndexType(), b.getIndexType()};
  t.resize(n, b.getIndexType());
  return t;
}
} // namespace

//===----------------------------------------------------------------------===//
// fa.variant
//===----------------------------------------------------------------------===//

ParseResult VariantOp::parse(OpAsmParser &p, OperationState &s) {
  Builder &b = p.getBuilder();
  StringAttr name;
  Captures c;
  if (p.parseSymbolName(name, "sym_name", s.attributes))
    return failure();
  if (p.parseArgumentList(c.args, AsmParser::Delimiter::OptionalParen,
                          /*allowType=*/true))
    return failure();
  s.addAttribute("capture_names", c.names(b));
  s.addAttribute("capture_type_list", b.getTypeArrayAttr(c.types()));
  return parseTail(p, s, c, {"score", "mask"});
}

void VariantOp::print(OpAsmPrinter &p) {
  p << " ";
  p.printSymbolName(getSymName());
  p << "(";
  SmallVector<Type> types = getCaptureTypes();
  for (size_t i = 0; i < types.size(); ++i) {
    if (i)
      p << ", ";
    printCaptureName(p, *this, i);
    p << ": " << types[i];
  }
  p << ")";
  printTail(p, *this, {{"score", &getScore()}, {"mask", &getMask()}});
}

SmallVector<Type> VariantOp::getCaptureTypes() {
  return llvm::to_vector(getCaptureTypeList().getAsValueRange<TypeAttr>());
}
void VariantOp::getAsmBlockArgumentNames(Region &r, OpAsmSetValueNameFn set) {
  nameVariantArgs(*this, r, set);
}

//===----------------------------------------------------------------------===//
// fa.attention
//===----------------------------------------------------------------------===//

ParseResult AttentionOp::parse(OpAsmParser &p, OperationState &s) {
  Builder &b = p.getBuilder();
  SmallVector<OpAsmParser::UnresolvedOperand> qkv;
  InstanceHead h;
  FunctionType type;
  SMLoc loc = p.getCurrentLocation();
  if (p.parseOperandList(qkv, 3, AsmParser::Delimiter::Paren) ||
      parseInstanceHead(p, s, h) ||
      parseTail(p, s, h.captures, {"score", "mask"}) ||
      p.parseColonType(type) ||
      p.resolveOperands(qkv, type.getInputs(), loc, s.operands) ||
      p.resolveOperands(h.captures.operands, h.captures.types(), loc,
                        s.operands) ||
      p.resolveOperands(h.packing, packingTypes(b, h.packing.size()), loc,
                        s.operands))
    return failure();
  s.addTypes(type.getResults());
  s.addAttribute(
      "operandSegmentSizes",
      b.getDenseI32ArrayAttr({1, 1, 1, (int32_t)h.captures.operands.size(),
                              (int32_t)h.packing.size()}));
  return success();
}

void AttentionOp::print(OpAsmPrinter &p) {
  p << " (" << getQ() << ", " << getK() << ", " << getV() << ")";
  printInstanceHead(p, *this, getLayout(), getGroup(), getCaptures(),
                    getPacking());
  printTail(p, *this, {{"score", &getScore()}, {"mask", &getMask()}});
  p.printNewline();
  p << ": ";
  p.printFunctionalType(
      TypeRange{getQ().getType(), getK().getType(), getV().getType()},
      getResultTypes());
}

SmallVector<Type> AttentionOp::getCaptureTypes() {
  return llvm::to_vector(getCaptures().getTypes());
}
void AttentionOp::getAsmBlockArgumentNames(Region &r, OpAsmSetValueNameFn set) {
  nameVariantArgs(*this, r, set);
}

//===----------------------------------------------------------------------===//
// fa.attention_grad
//===----------------------------------------------------------------------===//

ParseResult AttentionGradOp::parse(OpAsmParser &p, OperationState &s) {
  Builder &b = p.getBuilder();
  SmallVector<OpAsmParser::UnresolvedOperand> tensors;
  InstanceHead h;
  FunctionType type;
  SmallVector<int64_t> grads;
  SMLoc loc = p.getCurrentLocation();
  if (p.parseOperandList(tensors, AsmParser::Delimiter::Paren))
    return failure();
  if (tensors.size() != 6 && tensors.size() != 7)
    return p.emitError(loc, "expected (q, k, v, o, lse, do) or (q, k, v, o, "
                            "lse, do, dlse), got ")
           << tensors.size() << " operands";
  if (parseInstanceHead(p, s, h))
    return failure();
  if (succeeded(p.parseOptionalKeyword("grad_captures"))) {
    auto one = [&]() -> ParseResult {
      return p.parseInteger(grads.emplace_back());
    };
    if (p.parseCommaSeparatedList(AsmParser::Delimiter::Paren, one))
      return failure();
  }
  s.addAttribute("grad_captures", b.getDenseI64ArrayAttr(grads));
  if (parseTail(p, s, h.captures, {"score", "mask", "dscore"}) ||
      p.parseColonType(type) ||
      p.resolveOperands(tensors, type.getInputs(), loc, s.operands) ||
      p.resolveOperands(h.captures.operands, h.captures.types(), loc,
                        s.operands) ||
      p.resolveOperands(h.packing, packingTypes(b, h.packing.size()), loc,
                        s.operands))
    return failure();
  s.addTypes(type.getResults());
  s.addAttribute("operandSegmentSizes",
                 b.getDenseI32ArrayAttr({1, 1, 1, 1, 1, 1, tensors.size() == 7,
                                         (int32_t)h.captures.operands.size(),
                                         (int32_t)h.packing.size()}));
  return success();
}

void AttentionGradOp::print(OpAsmPrinter &p) {
  SmallVector<Value> tensors{getQ(), getK(), getV(), getO(), getLse(), getDO()};
  if (getDLse())
    tensors.push_back(getDLse());
  p << " (" << tensors << ")";
  printInstanceHead(p, *this, getLayout(), getGroup(), getCaptures(),
                    getPacking());
  if (!getGradCaptures().empty()) {
    p << " grad_captures(";
    llvm::interleaveComma(getGradCaptures(), p);
    p << ")";
  }
  printTail(
      p, *this,
      {{"score", &getScore()}, {"mask", &getMask()}, {"dscore", &getDscore()}});
  p.printNewline();
  p << ": ";
  p.printFunctionalType(ValueRange(tensors).getTypes(), getResultTypes());
}

SmallVector<Type> AttentionGradOp::getCaptureTypes() {
  return llvm::to_vector(getCaptures().getTypes());
}
void AttentionGradOp::getAsmBlockArgumentNames(Region &r,
                                               OpAsmSetValueNameFn set) {
  nameVariantArgs(*this, r, set);
}
