// Lesson 9: sequences of different lengths, end to end in one tensor, without padding.
// The offsets say where each starts; i and j count within a sequence. Queries may be
// fewer than keys, and a sequence may be empty.
//
// RUN: fa-run %s --heads 4 --kv-heads 2 --layout packed --cu-seqlens-q 0,100,100,137 --cu-seqlens-k 0,160,192,320 --backward --verify

fa.variant @packed() causal
