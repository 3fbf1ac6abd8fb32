// A query sees its own key and those before it.
//
// RUN: fa-run %s --heads 1 --seqlen-q 96 --seqlen-k 96 --backward --verify

fa.variant @causal() causal
