// A query sees itself and the 512 keys before it.
//
// RUN: fa-run %s --heads 1 --seqlen-q 560 --seqlen-k 560 --backward --verify

fa.variant @window512_causal() causal window(left = 512)
