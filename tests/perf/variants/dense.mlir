// Every query sees every key.
//
// RUN: fa-run %s --heads 1 --seqlen-q 96 --seqlen-k 96 --backward --verify

fa.variant @dense()
