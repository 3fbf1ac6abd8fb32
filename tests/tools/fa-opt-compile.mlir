// The pipeline up to a stage or a pass, and what can be made of it.
//
// RUN: fa-opt %s --fa-stop-after=variant --dtype=bf16 | FileCheck %s --check-prefix=VARIANT
// RUN: fa-opt %s --fa-pipeline --fa-stop-after=schedule --block-m=32 | FileCheck %s --check-prefix=SCHEDULE
// RUN: fa-opt %s --fa-stop-after=nest --head-dim=48 --head-dim-v=40 --group=3 | FileCheck %s --check-prefix=NEST
// RUN: fa-opt %s --fa-stop-after=fa-tile --backward=false --fa-skip=fa-classify-mask | FileCheck %s --check-prefix=TILE
// RUN: fa-opt %s --emit=mlir | FileCheck %s --check-prefix=MAP
// RUN: fa-opt %s --emit=llvm | FileCheck %s --check-prefix=LLVM
// RUN: fa-opt %s --emit=llvm --fa-stop-after=fa-fuse-p-recompute --target=x86-64-v3 | FileCheck %s --check-prefix=PREFIX
//
// The stages one by one give what the pipeline gives.
// RUN: fa-opt %s --fa-stop-after=nest -o %t.whole
// RUN: fa-opt %s --fa-variant-stage --fa-schedule-stage --fa-nest-stage -o %t.parts
// RUN: cmp %t.whole %t.parts
//
// Nests need no variant.
// RUN: fa-opt %t.whole --emit=llvm | FileCheck %s --check-prefix=LLVM
//
// An object file, and every step on the way in a folder.
// RUN: rm -rf %t.steps
// RUN: fa-opt %s --emit=obj --dump-dir=%t.steps -o %t.o
// RUN: cmp %t.o %t.steps/code.o
// RUN: head -c 4 %t.o | FileCheck %s --check-prefix=ELF
// RUN: ls %t.steps | FileCheck %s --check-prefix=STEPS

// VARIANT: fa.attention {{.*}}
// VARIANT: tensor<?x?x?x64xbf16>
// VARIANT: fa.attention_grad
// VARIANT-NOT: fa.schedule
// SCHEDULE: fa.schedule = #fa.schedule<block_m = 32, block_n = 64, {{.*}}origin = "option">
// NEST: func.func @causal.fwd({{.*}}memref<?x?x?x48xf32, {{.*}}memref<?x?x?x40xf32
// NEST: fa.nest
// NEST: func.func @causal.bwd(
// TILE: func.func @causal(
// TILE: fa.nest "scores"
// TILE-NOT: func.func
// MAP: func.func @causal.fwd
// MAP-NOT: fa.nest
// LLVM: target triple = "x86_64
// LLVM: define void @_fa_causal.fwd(ptr
// PREFIX: define void @_fa_causal(ptr
// ELF: ELF
// STEPS: 00-input.mlir
// STEPS: 01-fa-specialize.mlir
// STEPS: 06-fa-tile.mlir
// STEPS: fa-map-to-cpu.mlir
// STEPS: code.o

fa.variant @causal causal
