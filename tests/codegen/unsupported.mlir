// What cannot be printed, with the kernel, the op and the way out.
// RUN: split-file %s %t
// RUN: not fa-opt %t/convert.mlir --emit=cuda --target=sm_80 2>&1 | FileCheck %s --check-prefix=CONVERT
// RUN: not fa-opt %t/host.mlir --emit=cuda --target=sm_80 2>&1 | FileCheck %s --check-prefix=HOST

//--- convert.mlir
// CONVERT: fa-opt: kernel @k: fa_gpu.convert: expected the tile's own layout, since fa-gpu-lower-converts goes first
#a = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 2:1:8], lanes = [4:1:2, 8:0:1], warps = []>
#b = #fa_gpu.layout<registers = [8:1:1], lanes = [2:1:8, 16:0:1], warps = []>
fa_gpu.kernel @k(%n: index) num_warps(1) min_blocks(1) alignments([0]) {
  %zero = arith.constant dense<0.0> : tensor<16x16xf32, #a>
  %s = fa_gpu.convert %zero : tensor<16x16xf32, #a> -> tensor<16x16xf32, #b>
  fa_gpu.return
}
//--- host.mlir
// HOST: fa-opt: host function @f: arith.addf: expected an op that a plan has
fa_gpu.kernel @k(%n: index) num_warps(1) min_blocks(1) alignments([0]) {
  fa_gpu.return
}
func.func @f(%x: f32) {
  %y = arith.addf %x, %x : f32
  return
}
