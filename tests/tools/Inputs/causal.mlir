fa.variant @causal causal
