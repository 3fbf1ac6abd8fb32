// What the verifiers of fa_gpu hold a kernel to.
// RUN: fa-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{expected modes of a size of at least 2, in dim 0 or 1 with a stride, or repeats, got 1:0:1}}
func.func private @f(tensor<32xf32, #fa_gpu.layout<registers = [1:0:1], lanes = [32:0:1], warps = []>>)

// -----

// expected-error@+1 {{expected modes of a size of at least 2, in dim 0 or 1 with a stride, or repeats, got 32:2:1}}
func.func private @f(tensor<32xf32, #fa_gpu.layout<registers = [], lanes = [32:2:1], warps = []>>)

// -----

// expected-error@+1 {{expected modes of a size of at least 2, in dim 0 or 1 with a stride, or repeats, got 32:0:0}}
func.func private @f(tensor<32xf32, #fa_gpu.layout<registers = [], lanes = [32:0:0], warps = []>>)

// -----

// expected-error@+1 {{expected no repeats in registers}}
func.func private @f(tensor<32xf32, #fa_gpu.layout<registers = [2:r], lanes = [32:0:1], warps = []>>)

// -----

// expected-error@+1 {{expected lanes of 32 in all, got 16}}
func.func private @f(tensor<32xf32, #fa_gpu.layout<registers = [2:0:1], lanes = [16:0:2], warps = []>>)

// -----

// expected-error@+1 {{expected a mode of stride 2 in dim 0, got 4}}
func.func private @f(tensor<64x64xf32, #fa_gpu.layout<registers = [2:0:1], lanes = [32:0:4], warps = []>>)

// -----

// expected-error@+1 {{expected a layout of 64 entries in dim 1, got 32}}
func.func private @f(tensor<64x64xf32, #fa_gpu.layout<registers = [64:0:1], lanes = [32:1:1], warps = []>>)

// -----

// expected-error@+1 {{expected modes in dims below 1, got 1}}
func.func private @f(tensor<32xf32, #fa_gpu.layout<registers = [2:1:1], lanes = [32:0:1], warps = []>>)

// -----

// expected-error@+1 {{expected 'lanes'}}
func.func private @f(tensor<64xf32, #fa_gpu.layout<registers = [2:0:1], warps = [32:0:2]>>)

// -----

// expected-error@+1 {{expected ':'}}
func.func private @f(tensor<64xf32, #fa_gpu.layout<registers = [2], lanes = [32:0:1], warps = []>>)

// -----

// expected-error@+1 {{expected one or two static dims}}
func.func private @f(!fa_gpu.shared<2x2x2xf32, pitch = 2>)

// -----

// expected-error@+1 {{expected one or two static dims}}
func.func private @f(!fa_gpu.shared<0x2xf32, pitch = 2>)

// -----

// expected-error@+1 {{expected numbers as entries, got 'vector<2xf32>'}}
func.func private @f(!fa_gpu.shared<4xvector<2xf32>, pitch = 4>)

// -----

// expected-error@+1 {{expected a pitch of at least the line's length, 64, got 32}}
func.func private @f(!fa_gpu.shared<8x64xf32, pitch = 32>)

// -----

// expected-error@+1 {{expected a pitch of at least the line's length, 8, got 4}}
func.func private @f(!fa_gpu.shared<8x64xf32, pitch = 4, flipped>)

// -----

// expected-error@+1 {{expected at least one stage, got 0}}
func.func private @f(!fa_gpu.shared<8x64xf32, pitch = 64, stages = 0>)

// -----

// expected-error@+1 {{expected rank 2 in a flipped view}}
func.func private @f(!fa_gpu.shared<64xf32, pitch = 64, flipped>)

// -----

// expected-error@+1 {{expected a swizzle of 32, 64 or 128 bytes, got 256}}
func.func private @f(!fa_gpu.shared<64x128xbf16, swizzle = 256>)

// -----

// expected-error@+1 {{expected rank 2 and 16-bit entries in a swizzled buffer}}
func.func private @f(!fa_gpu.shared<64x64xf32, swizzle = 128>)

// -----

// expected-error@+1 {{expected lines of whole panels of 128 bytes, and a multiple of 8 of them, in a swizzled buffer, got 64 lines of 192 bytes}}
func.func private @f(!fa_gpu.shared<96x64xbf16, swizzle = 128, flipped>)

// -----

// expected-error@+1 {{expected lines of whole panels of 64 bytes, and a multiple of 8 of them, in a swizzled buffer, got 12 lines of 64 bytes}}
func.func private @f(!fa_gpu.shared<12x32xbf16, swizzle = 64>)

// -----

// expected-error@+1 {{expected 'stages' or 'flipped', got 'copies'}}
func.func private @f(!fa_gpu.shared<64xf32, pitch = 64, copies = 2>)

// -----

// expected-error@+1 {{expected 1 to 32 warps, got 33}}
fa_gpu.kernel @k() num_warps(33) min_blocks(1) alignments([]) {
}

// -----

// expected-error@+1 {{expected min_blocks of at least 1, got 0}}
fa_gpu.kernel @k() num_warps(4) min_blocks(0) alignments([]) {
}

// -----

// expected-error@+1 {{expected num_warps times min_blocks of at most 64, what a multiprocessor holds, got 32 and 4}}
fa_gpu.kernel @k() num_warps(32) min_blocks(4) alignments([]) {
}

// -----

// expected-error@+1 {{expected one alignment per argument, 1, got 0}}
fa_gpu.kernel @k(%n: index) num_warps(4) min_blocks(1) alignments([]) {
}

// -----

// expected-error@+1 {{expected alignments of 0 or a power of 2, got 12}}
fa_gpu.kernel @k(%x: memref<?xf32>) num_warps(4) min_blocks(1) alignments([12]) {
}

// -----

// expected-error@+1 {{expected memrefs, maps of boxes and scalars as arguments, got 'tensor<4xf32>'}}
fa_gpu.kernel @k(%t: tensor<4xf32>) num_warps(4) min_blocks(1) alignments([0]) {
}

// -----

fa_gpu.kernel @k(%x: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 0]) {
  // expected-error@+1 {{expected tiles with a layout in a kernel, got 'tensor<64x64xf32>'}}
  %t = fa.load %x[%n, %n] below(%n, %n) : memref<?x64xf32> -> tensor<64x64xf32>
}

// -----

#two = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 8:1:8, 2:0:32], lanes = [4:1:2, 8:0:1], warps = [2:0:16]>
fa_gpu.kernel @k(%x: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 0]) {
  // expected-error@+1 {{expected layouts of 4 warps, as the kernel or the role has, got 2}}
  %t = fa.load %x[%n, %n] below(%n, %n) : memref<?x64xf32> -> tensor<64x64xf32, #two>
}

// -----

#acc = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 8:1:8], lanes = [4:1:2, 8:0:1], warps = [4:0:16]>
#cols = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 2:1:8, 4:0:16], lanes = [4:1:2, 8:0:1], warps = [4:1:16]>
fa_gpu.kernel @k(%x: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 0]) {
  %t = fa.load %x[%n, %n] below(%n, %n) : memref<?x64xf32> -> tensor<64x64xf32, #acc>
  // expected-error@+1 {{are cast incompatible}}
  %h = arith.truncf %t : tensor<64x64xf32, #acc> to tensor<64x64xbf16, #cols>
}

// -----

#acc = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 8:1:8], lanes = [4:1:2, 8:0:1], warps = [4:0:16]>
#cols = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 2:1:8, 4:0:16], lanes = [4:1:2, 8:0:1], warps = [4:1:16]>
fa_gpu.kernel @k(%x: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 0]) {
  %i = arith.constant dense<0> : tensor<64x64xindex, #cols>
  // expected-error@+1 {{expected indexes of type index or a tile of index of the shape of}}
  %g = fa.gather %x[%i, %n] : memref<?x64xf32>, (tensor<64x64xindex, #cols>, index) -> tensor<64x64xf32, #acc>
}

// -----

#acc = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 8:1:8], lanes = [4:1:2, 8:0:1], warps = [4:0:16]>
fa_gpu.kernel @k(%x: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 0]) {
  %t = fa.load %x[%n, %n] below(%n, %n) : memref<?x64xf32> -> tensor<64x64xf32, #acc>
  // expected-error@+1 {{expected whole lines along dim 0 in each warp}}
  %s = fa.reduce add %t dim 0 : tensor<64x64xf32, #acc> -> tensor<64xf32, #fa_gpu.layout<registers = [2:0:1, 8:0:8], lanes = [4:0:2, 8:r], warps = [4:r]>>
}

// -----

#acc = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 8:1:8], lanes = [4:1:2, 8:0:1], warps = [4:0:16]>
fa_gpu.kernel @k(%x: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 0]) {
  %t = fa.load %x[%n, %n] below(%n, %n) : memref<?x64xf32> -> tensor<64x64xf32, #acc>
  // expected-error@+1 {{expected the result to have the operand's layout without dim 1}}
  %s = fa.reduce add %t dim 1 : tensor<64x64xf32, #acc> -> tensor<64xf32, #fa_gpu.layout<registers = [2:0:32], lanes = [32:0:1], warps = [4:r]>>
}

// -----

#acc = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 8:1:8], lanes = [4:1:2, 8:0:1], warps = [4:0:16]>
#row = #fa_gpu.layout<registers = [2:0:8], lanes = [4:r, 8:0:1], warps = [4:0:16]>
fa_gpu.kernel @k(%x: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 0]) {
  %i = fa.iota %n : tensor<64xindex, #row>
  // expected-error@+1 {{expected the operand to have the result's layout without dim 0}}
  %b = fa.broadcast %i dim 1 : tensor<64xindex, #row> -> tensor<64x64xindex, #acc>
}

// -----

#acc = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 8:1:8], lanes = [4:1:2, 8:0:1], warps = [4:0:16]>
fa_gpu.kernel @k(%x: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 0]) {
  %t = fa.load %x[%n, %n] below(%n, %n) : memref<?x64xf32> -> tensor<64x64xf32, #acc>
  // expected-error@+1 {{expected the result to have the operand's layout with the dims exchanged}}
  %u = fa.transpose %t : tensor<64x64xf32, #acc> -> tensor<64x64xf32, #acc>
}

// -----

#acc = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 8:1:8], lanes = [4:1:2, 8:0:1], warps = [4:0:16]>
fa_gpu.kernel @k(%x: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 0]) {
  %t = fa.load %x[%n, %n] below(%n, %n) : memref<?x64xf32> -> tensor<64x64xf32, #acc>
  // expected-error@+1 {{expected no op of this kind in a kernel}}
  %u = fa.dot %t, %t, %t : tensor<64x64xf32, #acc>, tensor<64x64xf32, #acc>, tensor<64x64xf32, #acc>
}

// -----

#acc = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 8:1:8], lanes = [4:1:2, 8:0:1], warps = [4:0:16]>
fa_gpu.kernel @k(%x: memref<?x64xf32>, %n: index, %k: memref<?xi32>) num_warps(4) min_blocks(1) alignments([16, 0, 0]) {
  %t = fa.load %x[%n, %n] below(%n, %n) : memref<?x64xf32> -> tensor<64x64xf32, #acc>
  // expected-error@+1 {{expected no op of this kind in a kernel}}
  fa.accumulate ordered %t, %x[%n, %n] below(%n, %n) turn %n at %k[%n] : tensor<64x64xf32, #acc>, memref<?x64xf32>, memref<?xi32>
}

// -----

func.func @host(%n: index) {
  // expected-error@+1 {{expected a fa_gpu.kernel, got host}}
  fa_gpu.launch @host grid(%n) (%n) : index
  return
}

// -----

fa_gpu.kernel @k(%x: memref<?xf32>) num_warps(4) min_blocks(1) alignments([0]) {
}
func.func @host(%n: index) {
  // expected-error@+1 {{expected operands of the types of the kernel's arguments, '(memref<?xf32>) -> ()', got 'index'}}
  fa_gpu.launch @k grid(%n) (%n) : index
  return
}

// -----

fa_gpu.kernel @k(%x: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 0]) {
  %s = fa_gpu.alloc : !fa_gpu.shared<1xi32, pitch = 1>
  // expected-error@+1 {{expected a counter of rank 1 and i32, got 'memref<?x64xf32>'}}
  %c = fa_gpu.claim %x via %s : memref<?x64xf32>, !fa_gpu.shared<1xi32, pitch = 1>
}

// -----

fa_gpu.kernel @k(%x: memref<?xi32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 0]) {
  %s = fa_gpu.alloc : !fa_gpu.shared<1xf32, pitch = 1>
  // expected-error@+1 {{expected scratch of rank 1 and i32, got '!fa_gpu.shared<1xf32, pitch = 1>'}}
  %c = fa_gpu.claim %x via %s : memref<?xi32>, !fa_gpu.shared<1xf32, pitch = 1>
}

// -----

fa_gpu.kernel @k(%x: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 0]) {
  // expected-error@+1 {{expected tickets of i32, got 'memref<?x64xf32>'}}
  fa_gpu.wait_turn %n at %x[%n, %n] : memref<?x64xf32>
}

// -----

fa_gpu.kernel @k(%x: memref<?xi32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 0]) {
  // expected-error@+1 {{expected one index per dim of the tickets, 1, got 2}}
  fa_gpu.end_turn at %x[%n, %n] : memref<?xi32>
}

// -----

fa_gpu.kernel @k(%x: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 0]) {
  // expected-error@+1 {{expected a buffer that is not flipped}}
  %s = fa_gpu.alloc : !fa_gpu.shared<64x64xf32, pitch = 64, flipped>
}

// -----

fa_gpu.kernel @k(%x: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 0]) {
  // expected-error@+1 {{expected an offset that is a multiple of 16, got 8}}
  %s = fa_gpu.alloc at 8 : !fa_gpu.shared<64x64xf32, pitch = 64>
}

// -----

fa_gpu.kernel @k(%x: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 0]) {
  // expected-error@+1 {{expected an offset that is a multiple of 1024, got 512}}
  %s = fa_gpu.alloc at 512 : !fa_gpu.shared<64x64xbf16, swizzle = 128>
}

// -----

fa_gpu.kernel @k(%x: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 0]) {
  %s = fa_gpu.alloc : !fa_gpu.shared<64x64xf32, pitch = 64, stages = 2>
  // expected-error@+1 {{expected '!fa_gpu.shared<64x64xf32, pitch = 64>', got '!fa_gpu.shared<64x64xf32, pitch = 68>'}}
  %t = fa_gpu.stage %s[%n] : !fa_gpu.shared<64x64xf32, pitch = 64, stages = 2> -> !fa_gpu.shared<64x64xf32, pitch = 68>
}

// -----

fa_gpu.kernel @k(%x: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 0]) {
  %s = fa_gpu.alloc : !fa_gpu.shared<64x64xf32, pitch = 64>
  // expected-error@+1 {{expected the operand with its dims exchanged}}
  %t = fa_gpu.flip %s : !fa_gpu.shared<64x64xf32, pitch = 64> -> !fa_gpu.shared<64x64xf32, pitch = 64>
}

// -----

#acc = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 8:1:8], lanes = [4:1:2, 8:0:1], warps = [4:0:16]>
fa_gpu.kernel @k(%x: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 0]) {
  %s = fa_gpu.alloc : !fa_gpu.shared<64x64xf32, pitch = 64, stages = 2>
  %t = fa.load %x[%n, %n] below(%n, %n) : memref<?x64xf32> -> tensor<64x64xf32, #acc>
  // expected-error@+1 {{expected one stage of a buffer, got '!fa_gpu.shared<64x64xf32, pitch = 64, stages = 2>'}}
  fa_gpu.store_shared %t, %s : tensor<64x64xf32, #acc>, !fa_gpu.shared<64x64xf32, pitch = 64, stages = 2>
}

// -----

#acc = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 8:1:8], lanes = [4:1:2, 8:0:1], warps = [4:0:16]>
fa_gpu.kernel @k(%x: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 0]) {
  %s = fa_gpu.alloc : !fa_gpu.shared<64x32xf32, pitch = 32>
  // expected-error@+1 {{expected a buffer of the tile's shape and type}}
  %t = fa_gpu.load_shared %s : !fa_gpu.shared<64x32xf32, pitch = 32> -> tensor<64x64xf32, #acc>
}

// -----

#acc = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 8:1:8], lanes = [4:1:2, 8:0:1], warps = [4:0:16]>
fa_gpu.kernel @k(%x: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 0]) {
  %t = fa.load %x[%n, %n] below(%n, %n) : memref<?x64xf32> -> tensor<64x64xf32, #acc>
  // expected-error@+1 {{expected tiles that differ in layout only}}
  %u = fa_gpu.convert %t : tensor<64x64xf32, #acc> -> tensor<64x64xbf16, #acc>
}

// -----

fa_gpu.kernel @k(%x: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 0]) {
  %s = fa_gpu.alloc : !fa_gpu.shared<64x64xf32, pitch = 64>
  // expected-error@+1 {{expected one index per dim of the source, 2, got 1}}
  fa_gpu.copy_async %x[%n] below(%n, %n) to %s vector 16 : memref<?x64xf32>, !fa_gpu.shared<64x64xf32, pitch = 64>
}

// -----

fa_gpu.kernel @k(%x: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 0]) {
  %s = fa_gpu.alloc : !fa_gpu.shared<64x64xf32, pitch = 64>
  // expected-error@+1 {{expected one limit per dim of the buffer, 2, got 1}}
  fa_gpu.copy_async %x[%n, %n] below(%n) to %s vector 16 : memref<?x64xf32>, !fa_gpu.shared<64x64xf32, pitch = 64>
}

// -----

fa_gpu.kernel @k(%x: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 0]) {
  %s = fa_gpu.alloc : !fa_gpu.shared<64x64xbf16, pitch = 64>
  // expected-error@+1 {{expected entries of one type, got 'f32' and 'bf16'}}
  fa_gpu.copy_async %x[%n, %n] below(%n, %n) to %s vector 16 : memref<?x64xf32>, !fa_gpu.shared<64x64xbf16, pitch = 64>
}

// -----

fa_gpu.kernel @k(%x: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 0]) {
  %s = fa_gpu.alloc : !fa_gpu.shared<64x64xf32, pitch = 64, stages = 2>
  // expected-error@+1 {{expected one stage of a buffer that is not flipped}}
  fa_gpu.copy_async %x[%n, %n] below(%n, %n) to %s vector 16 : memref<?x64xf32>, !fa_gpu.shared<64x64xf32, pitch = 64, stages = 2>
}

// -----

fa_gpu.kernel @k(%x: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 0]) {
  %s = fa_gpu.alloc : !fa_gpu.shared<64x64xf32, pitch = 64>
  // expected-error@+1 {{expected a vector of 4, 8 or 16 bytes, got 32}}
  fa_gpu.copy_async %x[%n, %n] below(%n, %n) to %s vector 32 : memref<?x64xf32>, !fa_gpu.shared<64x64xf32, pitch = 64>
}

// -----

fa_gpu.kernel @k(%x: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 0]) {
  %s = fa_gpu.alloc : !fa_gpu.shared<64x64xf32, pitch = 66>
  // expected-error@+1 {{expected lines and a pitch of whole vectors of 16 bytes}}
  fa_gpu.copy_async %x[%n, %n] below(%n, %n) to %s vector 16 : memref<?x64xf32>, !fa_gpu.shared<64x64xf32, pitch = 66>
}

// -----

fa_gpu.kernel @k(%x: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([8, 0]) {
  %s = fa_gpu.alloc : !fa_gpu.shared<64x64xf32, pitch = 64>
  // expected-error@+1 {{expected a source aligned to 16 bytes, got an alignment of 8}}
  fa_gpu.copy_async %x[%n, %n] below(%n, %n) to %s vector 16 : memref<?x64xf32>, !fa_gpu.shared<64x64xf32, pitch = 64>
}

// -----

fa_gpu.kernel @k(%x: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([0, 0]) {
  // An alignment of 0 promises nothing.
  %s = fa_gpu.alloc : !fa_gpu.shared<64x64xf32, pitch = 64>
  // expected-error@+1 {{expected a source aligned to 16 bytes, got an alignment of 0}}
  fa_gpu.copy_async %x[%n, %n] below(%n, %n) to %s vector 16 : memref<?x64xf32>, !fa_gpu.shared<64x64xf32, pitch = 64>
}

// -----

fa_gpu.kernel @k(%x: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 0]) {
  %s = fa_gpu.alloc : !fa_gpu.shared<64x64xf32, pitch = 64>
  // expected-error@+1 {{expected a fa_gpu.commit after it and before the next fa_gpu.wait}}
  fa_gpu.copy_async %x[%n, %n] below(%n, %n) to %s vector 16 : memref<?x64xf32>, !fa_gpu.shared<64x64xf32, pitch = 64>
  fa_gpu.wait 0
  fa_gpu.commit
}

// -----

fa_gpu.kernel @k(%x: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 0]) {
  %s = fa_gpu.alloc : !fa_gpu.shared<64x64xf32, pitch = 64>
  // expected-error@+1 {{expected a fa_gpu.commit after it}}
  fa_gpu.copy_async %x[%n, %n] below(%n, %n) to %s vector 16 : memref<?x64xf32>, !fa_gpu.shared<64x64xf32, pitch = 64>
}

// -----

fa_gpu.kernel @k(%x: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 0]) {
  // expected-error@+1 {{expected at least 0 groups under way, got -1}}
  fa_gpu.wait -1
}

// -----

#acc = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 8:1:8], lanes = [4:1:2, 8:0:1], warps = [4:0:16]>
fa_gpu.kernel @k(%x: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 0]) {
  %s = fa_gpu.alloc : !fa_gpu.shared<64x32xbf16, pitch = 40>
  %z = arith.constant dense<0.0> : tensor<64x64xf32, #acc>
  // expected-error@+1 {{expected shapes MxK, KxN, MxN}}
  %m = fa_gpu.mma %s, %s, %z : !fa_gpu.shared<64x32xbf16, pitch = 40>, !fa_gpu.shared<64x32xbf16, pitch = 40>, tensor<64x64xf32, #acc>
}

// -----

#acc = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 8:1:8], lanes = [4:1:2, 8:0:1], warps = [4:0:16]>
fa_gpu.kernel @k(%x: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 0]) {
  %s = fa_gpu.alloc : !fa_gpu.shared<64x64xbf16, pitch = 72>
  %z = arith.constant dense<0.0> : tensor<64x64xbf16, #acc>
  // expected-error@+1 {{expected factors of one type of f64, f32, bf16 or f16 and a sum of f64 for f64, else f32}}
  %m = fa_gpu.mma %s, %s, %z : !fa_gpu.shared<64x64xbf16, pitch = 72>, !fa_gpu.shared<64x64xbf16, pitch = 72>, tensor<64x64xbf16, #acc>
}

// -----

#acc = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 8:1:8], lanes = [4:1:2, 8:0:1], warps = [4:0:16]>
fa_gpu.kernel @k(%x: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 0]) {
  %s = fa_gpu.alloc : !fa_gpu.shared<64x64xbf16, pitch = 72, stages = 2>
  %z = arith.constant dense<0.0> : tensor<64x64xf32, #acc>
  // expected-error@+1 {{expected one stage of a buffer}}
  %m = fa_gpu.mma %s, %s, %z : !fa_gpu.shared<64x64xbf16, pitch = 72, stages = 2>, !fa_gpu.shared<64x64xbf16, pitch = 72, stages = 2>, tensor<64x64xf32, #acc>
}

// -----

#acc = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 8:1:8], lanes = [4:1:2, 8:0:1], warps = [4:0:16]>
fa_gpu.kernel @k(%x: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 0]) {
  %s = fa_gpu.alloc : !fa_gpu.shared<64x64xbf16, pitch = 68>
  %z = arith.constant dense<0.0> : tensor<64x64xf32, #acc>
  // expected-error@+1 {{expected lines that start at multiples of 16 bytes, a pitch in eights, got '!fa_gpu.shared<64x64xbf16, pitch = 68>'}}
  %m = fa_gpu.mma %s, %s, %z : !fa_gpu.shared<64x64xbf16, pitch = 68>, !fa_gpu.shared<64x64xbf16, pitch = 68>, tensor<64x64xf32, #acc>
}

// -----

#rows = #fa_gpu.layout<registers = [8:1:1, 4:0:16], lanes = [8:1:8, 4:0:1], warps = [4:0:4]>
fa_gpu.kernel @k(%x: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 0]) {
  %s = fa_gpu.alloc : !fa_gpu.shared<64x64xbf16, pitch = 72>
  %z = arith.constant dense<0.0> : tensor<64x64xf32, #rows>
  // expected-error@+1 {{expected a sum in the layout of accumulators}}
  %m = fa_gpu.mma %s, %s, %z : !fa_gpu.shared<64x64xbf16, pitch = 72>, !fa_gpu.shared<64x64xbf16, pitch = 72>, tensor<64x64xf32, #rows>
}

// -----

#acc = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 8:1:8], lanes = [4:1:2, 8:0:1], warps = [4:0:16]>
fa_gpu.kernel @k(%x: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 0]) {
  %s = fa_gpu.alloc : !fa_gpu.shared<64x8xbf16, pitch = 8>
  %t = fa_gpu.alloc : !fa_gpu.shared<8x64xbf16, pitch = 72>
  %z = arith.constant dense<0.0> : tensor<64x64xf32, #acc>
  // expected-error@+1 {{expected an inner dim that is a multiple of 16, got 8}}
  %m = fa_gpu.mma %s, %t, %z : !fa_gpu.shared<64x8xbf16, pitch = 8>, !fa_gpu.shared<8x64xbf16, pitch = 72>, tensor<64x64xf32, #acc>
}

// -----

#acc = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 8:1:8], lanes = [4:1:2, 8:0:1], warps = [4:0:16]>
fa_gpu.kernel @k(%x: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 0]) {
  %s = fa_gpu.alloc : !fa_gpu.shared<64x64xf32, pitch = 68>
  %z = arith.constant dense<0.0> : tensor<64x64xf32, #acc>
  // expected-error@+1 {{expected a factor of 'f32' in shared memory}}
  %m = fa_gpu.mma %z, %s, %z : tensor<64x64xf32, #acc>, !fa_gpu.shared<64x64xf32, pitch = 68>, tensor<64x64xf32, #acc>
}

// -----

#acc = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 8:1:8], lanes = [4:1:2, 8:0:1], warps = [4:0:16]>
#cols = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 2:1:8, 4:0:16], lanes = [4:1:2, 8:0:1], warps = [4:1:16]>
fa_gpu.kernel @k(%x: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 0]) {
  %s = fa_gpu.alloc : !fa_gpu.shared<64x64xbf16, pitch = 72>
  %z = arith.constant dense<0.0> : tensor<64x64xf32, #acc>
  %a = arith.constant dense<0.0> : tensor<64x64xbf16, #cols>
  // expected-error@+1 {{expected a factor in registers with all warps along its rows, as the sum}}
  %m = fa_gpu.mma %a, %s, %z : tensor<64x64xbf16, #cols>, !fa_gpu.shared<64x64xbf16, pitch = 72>, tensor<64x64xf32, #acc>
}

// -----

// expected-error@+1 {{expected lines of a box as long as the swizzle, 128 bytes, got 64}}
func.func private @f(!fa_gpu.box_map<64x32xbf16, swizzle = 128>)

// -----

// expected-error@+1 {{expected boxes of 1 to 5 dims of 1 to 256 entries}}
func.func private @f(!fa_gpu.box_map<512x64xbf16, swizzle = 128>)

// -----

// expected-error@+1 {{expected 16-bit floats as entries, got 'f32'}}
func.func private @f(!fa_gpu.box_map<8x32xf32, swizzle = 128>)

// -----

// expected-error@+1 {{expected a swizzle of 32, 64 or 128 bytes, got 16}}
func.func private @f(!fa_gpu.box_map<8x8xbf16, swizzle = 16>)

// -----

// expected-error@+1 {{expected at least one barrier, got 0}}
func.func private @f(!fa_gpu.mbarriers<0>)

// -----

func.func @f(%x: memref<?x64xbf16>, %n: index) {
  // expected-error@+1 {{expected boxes and sizes of as many dims as the array, 2, got 2 and 1}}
  %m = fa_gpu.map_boxes %x[%n] : memref<?x64xbf16> -> !fa_gpu.box_map<64x64xbf16, swizzle = 128>
  return
}

// -----

func.func @f(%x: memref<?x64xf16>, %n: index) {
  // expected-error@+1 {{expected entries of one type, got 'f16' and 'bf16'}}
  %m = fa_gpu.map_boxes %x[%n, %n] : memref<?x64xf16> -> !fa_gpu.box_map<64x64xbf16, swizzle = 128>
  return
}

// -----

fa_gpu.kernel @k(%map: !fa_gpu.box_map<64x64xbf16, swizzle = 128>, %i: index) num_warps(4) min_blocks(1) alignments([0, 0]) {
  %b = fa_gpu.mbarriers arrivals 1 : !fa_gpu.mbarriers<1>
  %s = fa_gpu.alloc : !fa_gpu.shared<64x64xbf16, swizzle = 128>
  // expected-error@+1 {{expected one index per dim of the array, 2, got 1}}
  fa_gpu.copy_box %map[%i] to %s signals %b[%i] : !fa_gpu.box_map<64x64xbf16, swizzle = 128>, !fa_gpu.shared<64x64xbf16, swizzle = 128>, !fa_gpu.mbarriers<1>
}

// -----

fa_gpu.kernel @k(%map: !fa_gpu.box_map<64x64xbf16, swizzle = 128>, %i: index) num_warps(4) min_blocks(1) alignments([0, 0]) {
  %b = fa_gpu.mbarriers arrivals 1 : !fa_gpu.mbarriers<1>
  %s = fa_gpu.alloc : !fa_gpu.shared<64x64xbf16, pitch = 72>
  // expected-error@+1 {{expected one stage of a buffer with the swizzle of the boxes that is not flipped, got '!fa_gpu.shared<64x64xbf16, pitch = 72>'}}
  fa_gpu.copy_box %map[%i, %i] to %s signals %b[%i] : !fa_gpu.box_map<64x64xbf16, swizzle = 128>, !fa_gpu.shared<64x64xbf16, pitch = 72>, !fa_gpu.mbarriers<1>
}

// -----

fa_gpu.kernel @k(%map: !fa_gpu.box_map<64x64xbf16, swizzle = 128>, %i: index) num_warps(4) min_blocks(1) alignments([0, 0]) {
  %b = fa_gpu.mbarriers arrivals 1 : !fa_gpu.mbarriers<1>
  %s = fa_gpu.alloc : !fa_gpu.shared<64x64xf16, swizzle = 128>
  // expected-error@+1 {{expected entries of one type, got 'bf16' and 'f16'}}
  fa_gpu.copy_box %map[%i, %i] to %s signals %b[%i] : !fa_gpu.box_map<64x64xbf16, swizzle = 128>, !fa_gpu.shared<64x64xf16, swizzle = 128>, !fa_gpu.mbarriers<1>
}

// -----

fa_gpu.kernel @k(%map: !fa_gpu.box_map<64x64xbf16, swizzle = 128>, %i: index) num_warps(4) min_blocks(1) alignments([0, 0]) {
  %b = fa_gpu.mbarriers arrivals 1 : !fa_gpu.mbarriers<1>
  %s = fa_gpu.alloc : !fa_gpu.shared<96x64xbf16, swizzle = 128>
  // expected-error@+1 {{expected boxes of two dims, with a multiple of 8 lines that fits the buffer's}}
  fa_gpu.copy_box %map[%i, %i] to %s signals %b[%i] : !fa_gpu.box_map<64x64xbf16, swizzle = 128>, !fa_gpu.shared<96x64xbf16, swizzle = 128>, !fa_gpu.mbarriers<1>
}

// -----

fa_gpu.kernel @k() num_warps(4) min_blocks(1) alignments([]) {
  // expected-error@+1 {{expected at least one arrival, got 0}}
  %b = fa_gpu.mbarriers arrivals 0 : !fa_gpu.mbarriers<1>
}

// -----

fa_gpu.kernel @k() num_warps(4) min_blocks(1) alignments([]) {
  // expected-error@+1 {{expected an offset that is a multiple of 8, got 4}}
  %b = fa_gpu.mbarriers at 4 arrivals 1 : !fa_gpu.mbarriers<1>
}

// -----

fa_gpu.kernel @k() num_warps(8) min_blocks(1) alignments([]) {
  // expected-error@+1 {{expected roles for the 8 warps of the kernel, got 12}}
  fa_gpu.roles warps [8, 4] registers [0, 0] {
  }, {
  }
}

// -----

fa_gpu.kernel @k() num_warps(8) min_blocks(1) alignments([]) {
  // expected-error@+1 {{expected two or more regions, and warps and registers of each, got 2 regions, 2 and 1}}
  fa_gpu.roles warps [4, 4] registers [0] {
  }, {
  }
}

// -----

fa_gpu.kernel @k() num_warps(8) min_blocks(1) alignments([]) {
  // expected-error@+1 {{expected registers of 0, or of 24 to 240 in eights, got 36}}
  fa_gpu.roles warps [4, 4] registers [240, 36] {
  }, {
  }
}

// -----

fa_gpu.kernel @k() num_warps(8) min_blocks(1) alignments([]) {
  // expected-error@+1 {{expected nothing after it in the kernel}}
  fa_gpu.roles warps [4, 4] registers [0, 0] {
  }, {
  }
  fa_gpu.barrier
}

// -----

fa_gpu.kernel @k() num_warps(8) min_blocks(1) alignments([]) {
  // expected-error@+1 {{expected scalars and copies only in roles after the first}}
  fa_gpu.roles warps [4, 4] registers [0, 0] {
  }, {
    fa_gpu.barrier
  }
}

// -----

#acc = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 8:1:8], lanes = [4:1:2, 8:0:1], warps = [8:r]>
fa_gpu.kernel @k() num_warps(8) min_blocks(1) alignments([]) {
  fa_gpu.roles warps [4, 4] registers [0, 0] {
    // expected-error@+1 {{expected layouts of 4 warps, as the kernel or the role has, got 8}}
    %z = arith.constant dense<0.0> : tensor<16x64xf32, #acc>
  }, {
  }
}

// -----

#acc = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 8:1:8], lanes = [4:1:2, 8:0:1], warps = [4:0:16]>
fa_gpu.kernel @k() num_warps(4) min_blocks(1) alignments([]) {
  %x = fa_gpu.alloc : !fa_gpu.shared<64x64xbf16, pitch = 72>
  %zero = arith.constant dense<0.0> : tensor<64x64xf32, #acc>
  // expected-error@+1 {{expected swizzled buffers, got '!fa_gpu.shared<64x64xbf16, pitch = 72>'}}
  %s = fa_gpu.wgmma %x, %x, %zero : !fa_gpu.shared<64x64xbf16, pitch = 72>, !fa_gpu.shared<64x64xbf16, pitch = 72>, tensor<64x64xf32, #acc>
  fa_gpu.return
}

// -----

#acc = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 8:1:8, 2:0:32], lanes = [4:1:2, 8:0:1], warps = [2:0:16]>
fa_gpu.kernel @k() num_warps(2) min_blocks(1) alignments([]) {
  %x = fa_gpu.alloc : !fa_gpu.shared<64x64xbf16, swizzle = 128>
  %zero = arith.constant dense<0.0> : tensor<64x64xf32, #acc>
  // expected-error@+1 {{expected a multiple of four warps along the rows, 16 rows and at most 256 columns for each}}
  %s = fa_gpu.wgmma %x, %x, %zero : !fa_gpu.shared<64x64xbf16, swizzle = 128>, !fa_gpu.shared<64x64xbf16, swizzle = 128>, tensor<64x64xf32, #acc>
  fa_gpu.return
}

// -----

#acc = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 4:1:8], lanes = [4:1:2, 8:0:1], warps = [4:0:16, 2:1:32]>
fa_gpu.kernel @k() num_warps(8) min_blocks(1) alignments([]) {
  %x = fa_gpu.alloc : !fa_gpu.shared<64x64xbf16, swizzle = 128>
  %zero = arith.constant dense<0.0> : tensor<64x64xf32, #acc>
  // expected-error@+1 {{expected the part of each four warps to begin with a panel of the buffer}}
  %s = fa_gpu.wgmma %x, %x, %zero : !fa_gpu.shared<64x64xbf16, swizzle = 128>, !fa_gpu.shared<64x64xbf16, swizzle = 128>, tensor<64x64xf32, #acc>
  fa_gpu.return
}

// -----

#acc = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 8:1:8], lanes = [4:1:2, 8:0:1], warps = [4:0:16]>
fa_gpu.kernel @k() num_warps(4) min_blocks(1) alignments([]) {
  %x = fa_gpu.alloc : !fa_gpu.shared<64x64xbf16, swizzle = 128>
  %zero = arith.constant dense<0.0> : tensor<64x64xf32, #acc>
  %s = fa_gpu.wgmma %x, %x, %zero : !fa_gpu.shared<64x64xbf16, swizzle = 128>, !fa_gpu.shared<64x64xbf16, swizzle = 128>, tensor<64x64xf32, #acc>
  // expected-error@+1 {{expected no sum of a product under way, got operand 0; wait for it first}}
  %t = arith.addf %s, %zero : tensor<64x64xf32, #acc>
  fa_gpu.return
}

// -----

#acc = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 8:1:8], lanes = [4:1:2, 8:0:1], warps = [4:0:16]>
fa_gpu.kernel @k(%n: index) num_warps(4) min_blocks(1) alignments([0]) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %x = fa_gpu.alloc : !fa_gpu.shared<64x64xbf16, swizzle = 128>
  %zero = arith.constant dense<0.0> : tensor<64x64xf32, #acc>
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%a = %zero) -> tensor<64x64xf32, #acc> {
    // expected-error@+1 {{expected no sum of a product under way, got operand 1; wait for it first}}
    %t = arith.addf %zero, %a : tensor<64x64xf32, #acc>
    %s = fa_gpu.wgmma %x, %x, %t : !fa_gpu.shared<64x64xbf16, swizzle = 128>, !fa_gpu.shared<64x64xbf16, swizzle = 128>, tensor<64x64xf32, #acc>
    scf.yield %s : tensor<64x64xf32, #acc>
  }
  fa_gpu.return
}
