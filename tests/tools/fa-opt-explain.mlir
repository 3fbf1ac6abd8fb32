// What the compiler chose and what it costs, counted in the tiled IR: 32 heads,
// N = 8192, bf16. P would be 4 GiB; L is 1 MiB.
//
// RUN: fa-opt %s --explain --heads=32 --seqlen-q=8192 --dtype=bf16 | FileCheck %s
// RUN: fa-opt %s --explain --heads=32 --seqlen-q=8192 --dtype=bf16 --fa-skip=fa-fuse-p-recompute | FileCheck %s --check-prefix=KEPT
// RUN: fa-opt %s --explain --heads=32 --seqlen-q=8192 --dtype=bf16 --fa-stop-after=fa-tile | FileCheck %s --check-prefix=TEXTBOOK
// RUN: fa-opt %s --explain --heads=8 --kv-heads=2 --p-policy=store --device=a100 | FileCheck %s --check-prefix=CHOSEN
// RUN: fa-opt %s --explain --layout=packed --batch=3 --heads=4 --kv-heads=4 --seqlen-q=100 --seqlen-k=200 | FileCheck %s --check-prefix=PACKED
// RUN: fa-opt %s --explain=json --heads=32 --seqlen-q=8192 --dtype=bf16 -o %t.json
// RUN: python3 %S/Inputs/check-explain.py %t.json
//
// The report goes to the standard output, the code to a file.
// RUN: fa-opt %s --explain --emit=llvm -o %t.ll | FileCheck %s --check-prefix=BOTH
// RUN: FileCheck %s --check-prefix=CODE < %t.ll
// BOTH: @causal: batch 1, heads 8, kv heads 8
// CODE: define void @_fa_causal.fwd(

// CHECK: @causal: batch 1, heads 32, kv heads 32, seqlen q 8192, seqlen k 8192
// CHECK: device: h200, 989 TFLOP/s, 4800 GB/s
// CHECK: schedule: #fa.schedule<block_m = 64, block_n = 64, p = recompute, dq = ordered, origin = "default">
// CHECK: recompute *{{ +}}store{{ +}}store_compressed
// CHECK: forward
// CHECK: backward
// CHECK: kept for the backward
// CHECK-NEXT: N x N{{ +}}0 B{{ +}}4 GiB{{ +}}2 GiB
// CHECK-NEXT: O{{ +}}32 MiB{{ +}}32 MiB{{ +}}32 MiB
// CHECK-NEXT: L{{ +}}1 MiB{{ +}}1 MiB{{ +}}1 MiB
// CHECK: saved 0{{ +}}4 GiB{{ +}}1x32x8192x8192xbf16 (N x N)
// CHECK: saved 0{{ +}}2 GiB{{ +}}1x32x8192x8192xi8 (N x N)
// CHECK: forward: products
// CHECK: backward: products
// CHECK: passes
// CHECK: fa-fuse-p-recompute{{ +}}changed
// CHECK: fa-partition{{ +}}changed

// KEPT: recompute *{{ +}}store
// KEPT: kept for the backward
// KEPT-NEXT: N x N{{ +}}4 GiB{{ +}}4 GiB{{ +}}4 GiB

// Standard attention keeps P, and S and dP while they are needed.
// TEXTBOOK: kept for the backward
// TEXTBOOK-NEXT: N x N{{ +}}4 GiB
// TEXTBOOK: 1x32x8192x8192xbf16 (N x N), written in probabilities

// CHOSEN: heads 8, kv heads 2
// CHOSEN: device: a100, 312 TFLOP/s, 2039 GB/s
// CHOSEN: p = store, dq = ordered, origin = "option"
// CHOSEN: recompute{{ +}}store *{{ +}}store_compressed

// PACKED: batch 3, heads 4, kv heads 4, seqlen q 100, seqlen k 200
// PACKED: arg0{{ +}}1x4x300x64xf32
// PACKED: arg1{{ +}}1x4x600x64xf32

fa.variant @causal causal
