// The same variant as causal.mlir's, written with other names and more words.

module {
  fa.variant   @causal ()   causal
}
