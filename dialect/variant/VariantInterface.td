//===- VariantInterface.td - what the variant ops share ---------*- tablegen -*-===//

#ifndef FATHOM_DIALECT_VARIANT_VARIANTINTERFACE_TD
#define FATHOM_DIALECT_VARIANT_VARIANTINTERFACE_TD

include "mlir/IR/OpBase.td"

def FA_VariantInterface : OpInterface<"VariantInterface"> {
  let cppNamespace = "::fathom";
  let description = [{
    `fa.variant`, `fa.attention` and `fa.attention_grad` state the same facts:
    captures, sugar, a score region and a mask region. Code that reads or
    rewrites those facts is written once against this interface.
    Sugar attributes are read by their getters and removed with `removeAttr`.
  }];
  let methods = [
    InterfaceMethod<"names of the captured operands, in order",
      "::mlir::ArrayAttr", "getCaptureNames">,
    InterfaceMethod<"types of the captured operands, in order",
      "::llvm::SmallVector<::mlir::Type>", "getCaptureTypes">,
    InterfaceMethod<"hide keys after the query's position",
      "bool", "getCausal">,
    InterfaceMethod<"bottom_right or top_left",
      "::fathom::Alignment", "getAlignment">,
    InterfaceMethod<"keys visible to the left, inclusive; absent is unbounded",
      "::std::optional<uint64_t>", "getWindowLeft">,
    InterfaceMethod<"keys visible to the right, inclusive; absent is unbounded",
      "::std::optional<uint64_t>", "getWindowRight">,
    InterfaceMethod<"f64 constant, or i64 capture index, or absent",
      "::std::optional<::mlir::Attribute>", "getSoftcap">,
    InterfaceMethod<"index of the captured ALiBi slopes, or absent",
      "::std::optional<uint64_t>", "getAlibi">,
    InterfaceMethod<"factor on Q K^T; absent is 1/sqrt(head_dim)",
      "::std::optional<::llvm::APFloat>", "getScale">,
    InterfaceMethod<"args (captures..., s, b, h, i, j), yields the new score; may be empty",
      "::mlir::Region &", "getScore">,
    InterfaceMethod<"args (captures..., b, h, i, j), yields i1, true is visible; may be empty",
      "::mlir::Region &", "getMask">
  ];
}

#endif // FATHOM_DIALECT_VARIANT_VARIANTINTERFACE_TD
