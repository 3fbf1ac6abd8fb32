// RUN: fa-opt %s --fa-select-schedule | FileCheck %s --check-prefix=DEFAULT
// RUN: fa-opt %s --fa-select-schedule="block-m=32 p-policy=store dq-policy=split" | FileCheck %s --check-prefix=OPTION
// RUN: fa-opt %s --fa-select-schedule="gpu=true part=forward seqlen-q-hint=16 kv-splits=8" | FileCheck %s --check-prefix=FEW
// RUN: not fa-opt %s --fa-select-schedule="kv-splits=65" 2>&1 | FileCheck %s --check-prefix=BAD-KV
// RUN: fa-opt %s --fa-select-schedule="gpu=true part=forward" | FileCheck %s --check-prefix=FORWARD
// RUN: fa-opt %s --fa-select-schedule="gpu=true part=backward seqlen-q-hint=16" | FileCheck %s --check-prefix=BACKWARD
// RUN: fa-opt %s --fa-select-schedule="gpu=true part=forward p-policy=store" | FileCheck %s --check-prefix=STORED
// RUN: not fa-opt %s --fa-select-schedule="gpu=true part=both" 2>&1 | FileCheck %s --check-prefix=BAD-PART
// RUN: fa-opt %s --fa-select-schedule="gpu=true num-warps=8 stages=1" | FileCheck %s --check-prefix=CTA
// RUN: not fa-opt %s --fa-select-schedule="num-warps=3" 2>&1 | FileCheck %s --check-prefix=BAD-WARPS
// RUN: not fa-opt %s --fa-select-schedule="block-m=65" 2>&1 | FileCheck %s --check-prefix=BAD
// RUN: not fa-opt %s --fa-select-schedule="p-policy=keep" 2>&1 | FileCheck %s --check-prefix=BAD-P
// RUN: not fa-opt %s --fa-select-schedule="dq-policy=fast" 2>&1 | FileCheck %s --check-prefix=BAD-DQ

// DEFAULT: func.func @narrow
// DEFAULT-SAME: fa.schedule = #fa.schedule<block_m = 64, block_n = 64, p = recompute, dq = ordered, origin = "default">
// OPTION: func.func @narrow
// OPTION-SAME: #fa.schedule<block_m = 32, block_n = 64, p = store, dq = split, dq_splits = 4, origin = "option">
// CTA: func.func @narrow
// CTA-SAME: dq = atomic, num_warps = 8, stages = 1, origin = "option">
// BAD-WARPS: error: expected num_warps to be one of [1, 2, 4, 8, 16, 32], or 0 to leave the choice, got 3
// BAD-KV: error: expected kv_splits from 1 to 64, got 65
// BAD-PART: error: expected option part to be one of [forward, backward], got 'both'
// BAD: error: expected block_m to be a multiple of 8 from 8 to 512, got 65
// BAD-P: error: expected p-policy to be one of [recompute, store, store_compressed], got 'keep'
// BAD-DQ: error: expected dq-policy to be one of [sequential, atomic, ordered, split, two_kernel], got 'fast'
func.func @narrow(%q: tensor<?x?x?x64xf32>) -> (tensor<?x?x?x64xf32>, tensor<?x?x?xf32>) {
  %o, %l = fa.attention (%q, %q, %q) layout(bshd) group(1) scale(0.125)
    : (tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>) -> (tensor<?x?x?x64xf32>, tensor<?x?x?xf32>)
  return %o, %l : tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
}

// Text wins over options, but that fewer stages fit.
// CTA: func.func @text
// CTA-SAME: #fa.schedule<block_m = 16, block_n = 24, p = recompute, dq = atomic, stages = 1, origin = "text">
// OPTION: func.func @text
// OPTION-SAME: #fa.schedule<block_m = 16, block_n = 24, p = recompute, dq = atomic, origin = "text">
func.func @text(%q: tensor<?x?x?x64xf32>) -> (tensor<?x?x?x64xf32>, tensor<?x?x?xf32>)
    attributes {fa.schedule = #fa.schedule<block_m = 16, block_n = 24, dq = atomic, origin = "text">} {
  %o, %l = fa.attention (%q, %q, %q) layout(bshd) group(1) scale(0.125)
    : (tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>) -> (tensor<?x?x?x64xf32>, tensor<?x?x?xf32>)
  return %o, %l : tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
}

// A GPU's forward has other tiles than its backward; a stored P is of one
// tiling on both sides. Few rows of Q are a tile of the forward. f32 is multiplied without tensor cores.
// FORWARD: func.func @narrow
// FORWARD-SAME: #fa.schedule<block_m = 64, block_n = 64,
// FORWARD: func.func @half
// FORWARD-SAME: #fa.schedule<block_m = 128, block_n = 64, p = recompute, dq = atomic, origin = "default">
// BACKWARD: func.func @half
// BACKWARD-SAME: #fa.schedule<block_m = 64, block_n = 128, p = recompute, dq = atomic, origin = "default">
// FEW: func.func @half
// FEW-SAME: #fa.schedule<block_m = 16, block_n = 64, p = recompute, dq = atomic, kv_splits = 8, origin = "option">
// STORED: func.func @half
// STORED-SAME: #fa.schedule<block_m = 64, block_n = 128, p = store,
func.func @half(%q: tensor<?x?x?x128xbf16>) -> (tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>) {
  %o, %l = fa.attention (%q, %q, %q) layout(bshd) group(1) scale(0.125)
    : (tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>) -> (tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>)
  return %o, %l : tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>
}
