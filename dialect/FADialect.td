//===- FADialect.td - the fa dialect ----------------------------*- tablegen -*-===//
//
// The dialect definition and the base classes that every fa op and attribute
// derives from. Ops live in theme files: variant/ (what is computed), nest/
// (how, as tiled loop nests); attributes that carry decisions in schedule/.
//
//===----------------------------------------------------------------------===//

#ifndef FATHOM_DIALECT_FADIALECT_TD
#define FATHOM_DIALECT_FADIALECT_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/AttrTypeBase.td"

def FA_Dialect : Dialect {
  let name = "fa";
  let cppNamespace = "::fathom";
  let summary = "Attention variants, their gradients, and tiled loop nests";
  let description = [{
    Level 1, the *variant* level, says what is computed: `fa.variant`,
    `fa.attention`, `fa.attention_grad`. Level 2, the *nest* level, says how:
    `fa.nest` and ops on tiles (ranked tensors of static shape that live on
    chip), over strided buffers (memrefs). Nothing on either level knows a
    target.
  }];
  let useDefaultAttributePrinterParser = 1;
  // fa.schedule on a function: its type, and what `deterministic` forbids.
  let hasOperationAttrVerify = 1;
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
    "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect",
    "::mlir::scf::SCFDialect", "::mlir::tensor::TensorDialect"
  ];
}

class FA_Op<string mnemonic, list<Trait> traits = []>
    : Op<FA_Dialect, mnemonic, traits>;

class FA_Attr<string name, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<FA_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}

class FA_I32Enum<string name, string summary, list<I32EnumCase> cases>
    : I32Enum<name, summary, cases> {
  let cppNamespace = "::fathom";
}

#endif // FATHOM_DIALECT_FADIALECT_TD
