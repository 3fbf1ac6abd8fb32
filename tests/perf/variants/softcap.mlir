// 30 tanh(s / 30), no mask.
//
// RUN: fa-run %s --heads 1 --seqlen-q 96 --seqlen-k 96 --backward --verify

fa.variant @softcap() softcap(30.0)
