// Lesson 10: a schedule changes the time, never the answer. Tile sizes; where the
// backward gets P from (`recompute` it, or `store` N x N values); how the parts of dQ
// that different key blocks compute are added (`atomic` in any order, `ordered` and
// `split` the same way in every run, `two_kernel` by a second pass).
//
// `fa-run` takes the choices as options:
//
// RUN: fa-run %s -q %S/data/q.npy -k %S/data/k4.npy -v %S/data/v4.npy --backward --verify --block-m 32 --block-n 64
// RUN: fa-run %s -q %S/data/q.npy -k %S/data/k4.npy -v %S/data/v4.npy --backward --verify --p-policy store --dq-policy atomic
// RUN: fa-run %s -q %S/data/q.npy -k %S/data/k4.npy -v %S/data/v4.npy --backward --verify --dq-policy two_kernel
//
// In the IR they stand on the function, with who chose them:
//
// RUN: fa-opt %s --fa-specialize="dtype=bf16 group=3" --fa-select-schedule="block-m=32 dq-policy=split" | FileCheck %s
// CHECK: fa.schedule = #fa.schedule<block_m = 32, {{.*}}dq = split{{.*}}origin = "option">

fa.variant @grouped_query() causal
