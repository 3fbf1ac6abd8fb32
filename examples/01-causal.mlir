// Lesson 1: the smallest variant. A query sees its own key and those before it.
//
// A variant has no tensor types; `fa-run` takes them from the arrays. --backward
// also compiles the gradients, which nobody has to write; --verify compares all
// of it with a slow reference in double precision.
//
// RUN: fa-run %s --q %S/data/q.npy --k %S/data/k.npy --v %S/data/v.npy --backward --verify --out %t | FileCheck %s
// CHECK: o {{.*}}ok
// CHECK: dq {{.*}}ok
// CHECK: dk {{.*}}ok
// CHECK: dv {{.*}}ok

fa.variant @causal() causal
