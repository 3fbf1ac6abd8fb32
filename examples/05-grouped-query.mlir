// Lesson 5: 12 query heads, 4 KV heads: each KV head serves a group of three. The
// variant does not say so; the arrays do. dK and dV are sums over the group.
//
// RUN: fa-run %s --q %S/data/q.npy --k %S/data/k4.npy --v %S/data/v4.npy --backward --verify

fa.variant @grouped_query() causal
