// The ops of fa_gpu, once each; printing is a fixpoint.
// RUN: fa-opt %s | fa-opt | FileCheck %s

#acc = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 8:1:8], lanes = [4:1:2, 8:0:1], warps = [4:0:16]>
#row = #fa_gpu.layout<registers = [2:0:8], lanes = [4:r, 8:0:1], warps = [4:0:16]>

// CHECK: #layout = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 8:1:8], lanes = [4:1:2, 8:0:1], warps = [4:0:16]>

// CHECK: fa_gpu.kernel @scores(%{{.*}}: memref<?x64xbf16, strided<[?, ?], offset: ?>>, {{.*}}) num_warps(4) min_blocks(2) alignments([16, 16, 0, 0, 0])
fa_gpu.kernel @scores(%q: memref<?x64xbf16, strided<[?, ?], offset: ?>>, %k: memref<?x64xbf16, strided<[?, ?], offset: ?>>,
                      %m: memref<?xf32>, %tickets: memref<?xi32>, %n: index)
    num_warps(4) min_blocks(2) alignments([16, 16, 0, 0, 0]) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %scratch = fa_gpu.alloc : !fa_gpu.shared<1xi32, pitch = 1>
  %claimed = fa_gpu.claim %tickets via %scratch : memref<?xi32>, !fa_gpu.shared<1xi32, pitch = 1>
  %b = fa_gpu.block_id
  %i = arith.muli %b, %c64 : index
  %qs = fa_gpu.alloc at 16 : !fa_gpu.shared<64x64xbf16, pitch = 72>
  %ks = fa_gpu.alloc : !fa_gpu.shared<64x64xbf16, pitch = 72, stages = 2>
  %k0 = fa_gpu.stage %ks[%c0] : !fa_gpu.shared<64x64xbf16, pitch = 72, stages = 2> -> !fa_gpu.shared<64x64xbf16, pitch = 72>
  fa_gpu.copy_async %q[%i, %c0] below(%n, %c64) to %qs vector 16 : memref<?x64xbf16, strided<[?, ?], offset: ?>>, !fa_gpu.shared<64x64xbf16, pitch = 72>
  fa_gpu.copy_async %k[%c0, %c0] below(%n, %c64) to %k0 vector 16 : memref<?x64xbf16, strided<[?, ?], offset: ?>>, !fa_gpu.shared<64x64xbf16, pitch = 72>
  fa_gpu.commit
  fa_gpu.wait 0
  fa_gpu.barrier
  %kt = fa_gpu.flip %k0 : !fa_gpu.shared<64x64xbf16, pitch = 72> -> !fa_gpu.shared<64x64xbf16, pitch = 72, flipped>
  %zero = arith.constant dense<0.0> : tensor<64x64xf32, #acc>
  // CHECK: fa_gpu.mma %{{.*}}, %{{.*}}, %{{.*}} : !fa_gpu.shared<64x64xbf16, pitch = 72>, <64x64xbf16, pitch = 72, flipped>, tensor<64x64xf32, #layout>
  %s = fa_gpu.mma %qs, %kt, %zero : !fa_gpu.shared<64x64xbf16, pitch = 72>, !fa_gpu.shared<64x64xbf16, pitch = 72, flipped>, tensor<64x64xf32, #acc>
  %p = arith.truncf %s : tensor<64x64xf32, #acc> to tensor<64x64xbf16, #acc>
  %o = fa_gpu.mma %p, %k0, %zero : tensor<64x64xbf16, #acc>, !fa_gpu.shared<64x64xbf16, pitch = 72>, tensor<64x64xf32, #acc>
  fa_gpu.barrier
  fa_gpu.store_shared %p, %qs : tensor<64x64xbf16, #acc>, !fa_gpu.shared<64x64xbf16, pitch = 72>
  fa_gpu.barrier
  %back = fa_gpu.load_shared %qs : !fa_gpu.shared<64x64xbf16, pitch = 72> -> tensor<64x64xbf16, #acc>
  %max = fa.reduce max %o dim 1 : tensor<64x64xf32, #acc> -> tensor<64xf32, #row>
  %u = fa_gpu.convert %max : tensor<64xf32, #row> -> tensor<64xf32, #row>
  fa_gpu.wait_turn %c0 at %tickets[%b] : memref<?xi32>
  fa.store %u, %m[%i] below(%n) : tensor<64xf32, #row>, memref<?xf32>
  fa_gpu.end_turn at %tickets[%b] : memref<?xi32>
  fa_gpu.return
}

func.func @host(%q: memref<?x64xbf16, strided<[?, ?], offset: ?>>, %m: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %c63 = arith.constant 63 : index
  %c64 = arith.constant 64 : index
  %n = memref.dim %q, %c0 : memref<?x64xbf16, strided<[?, ?], offset: ?>>
  %r = arith.addi %n, %c63 : index
  %blocks = arith.divui %r, %c64 : index
  %tickets = memref.alloc(%blocks) : memref<?xi32>
  // CHECK: fa_gpu.launch @scores grid(%{{.*}}) (%{{.*}})
  fa_gpu.launch @scores grid(%blocks) (%q, %q, %m, %tickets, %n) : memref<?x64xbf16, strided<[?, ?], offset: ?>>, memref<?x64xbf16, strided<[?, ?], offset: ?>>, memref<?xf32>, memref<?xi32>, index
  return
}

// Swizzled buffers, products of four warps.
// CHECK-LABEL: @warpgroup
fa_gpu.kernel @warpgroup() num_warps(4) min_blocks(1) alignments([]) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant dense<0.0> : tensor<64x64xf32, #acc>
  %p = arith.constant dense<0.0> : tensor<64x64xbf16, #acc>
  // CHECK: fa_gpu.alloc at 2048 : <64x64xbf16, swizzle = 128, stages = 2>
  // CHECK: fa_gpu.flip %{{.*}} : <64x64xbf16, swizzle = 128> -> <64x64xbf16, swizzle = 128, flipped>
  %ws = fa_gpu.alloc at 2048 : !fa_gpu.shared<64x64xbf16, swizzle = 128, stages = 2>
  %w0 = fa_gpu.stage %ws[%c0] : !fa_gpu.shared<64x64xbf16, swizzle = 128, stages = 2> -> !fa_gpu.shared<64x64xbf16, swizzle = 128>
  fa_gpu.store_shared %p, %w0 : tensor<64x64xbf16, #acc>, !fa_gpu.shared<64x64xbf16, swizzle = 128>
  %wt = fa_gpu.flip %w0 : !fa_gpu.shared<64x64xbf16, swizzle = 128> -> !fa_gpu.shared<64x64xbf16, swizzle = 128, flipped>
  fa_gpu.fence_async
  fa_gpu.barrier
  // CHECK: fa_gpu.fence_async
  // CHECK: %[[X:.*]] = fa_gpu.wgmma %{{.*}}, %{{.*}}, %{{.*}} : tensor<64x64xbf16, #layout>, <64x64xbf16, swizzle = 128, flipped>, tensor<64x64xf32, #layout>
  // CHECK: %[[Y:.*]] = fa_gpu.wgmma %{{.*}}, %{{.*}}, %{{.*}} : !fa_gpu.shared<64x64xbf16, swizzle = 128>, <64x64xbf16, swizzle = 128>, tensor<64x64xf32, #layout>
  // CHECK: fa_gpu.wgmma_wait 1 %[[X]] : tensor<64x64xf32, #layout>
  // CHECK: fa_gpu.wgmma_wait 0 %[[Y]] : tensor<64x64xf32, #layout>
  %x0 = fa_gpu.wgmma %p, %wt, %zero : tensor<64x64xbf16, #acc>, !fa_gpu.shared<64x64xbf16, swizzle = 128, flipped>, tensor<64x64xf32, #acc>
  %y0 = fa_gpu.wgmma %w0, %w0, %zero : !fa_gpu.shared<64x64xbf16, swizzle = 128>, !fa_gpu.shared<64x64xbf16, swizzle = 128>, tensor<64x64xf32, #acc>
  %x1 = fa_gpu.wgmma_wait 1 %x0 : tensor<64x64xf32, #acc>
  %y1 = fa_gpu.wgmma_wait 0 %y0 : tensor<64x64xf32, #acc>
  fa_gpu.return
}

// Boxes of an array go to shared memory, for a role to work on.
// CHECK: fa_gpu.kernel @boxes(%{{.*}}: !fa_gpu.box_map<64x64xbf16, swizzle = 128>, {{.*}}) num_warps(8) min_blocks(1) alignments([0, 0, 16])
fa_gpu.kernel @boxes(%map: !fa_gpu.box_map<64x64xbf16, swizzle = 128>, %i: index, %y: memref<?x64xbf16, strided<[?, ?], offset: ?>>)
    num_warps(8) min_blocks(1) alignments([0, 0, 16]) {
  %c0 = arith.constant 0 : index
  %no = arith.constant false
  // CHECK: fa_gpu.mbarriers arrivals 1 : <2>
  // CHECK: fa_gpu.mbarriers at 64 arrivals 4 : <2>
  %full = fa_gpu.mbarriers arrivals 1 : !fa_gpu.mbarriers<2>
  %free = fa_gpu.mbarriers at 64 arrivals 4 : !fa_gpu.mbarriers<2>
  %x = fa_gpu.alloc : !fa_gpu.shared<128x128xbf16, swizzle = 128>
  // CHECK: fa_gpu.roles warps [4, 4] registers [232, 40] {
  fa_gpu.roles warps [4, 4] registers [232, 40] {
    // CHECK: fa_gpu.wait_phase %{{.*}} of %{{.*}}[%{{.*}}] : <2>
    fa_gpu.wait_phase %no of %full[%c0] : !fa_gpu.mbarriers<2>
    // CHECK: fa_gpu.arrive %{{.*}}[%{{.*}}] : <2>
    fa_gpu.arrive %free[%c0] : !fa_gpu.mbarriers<2>
  // CHECK: }, {
  }, {
    // CHECK: fa_gpu.copy_box %{{.*}}[%{{.*}}, %{{.*}}] to %{{.*}} signals %{{.*}}[%{{.*}}] : <64x64xbf16, swizzle = 128>, <128x128xbf16, swizzle = 128>, <2>
    fa_gpu.copy_box %map[%i, %c0] to %x signals %full[%c0] : !fa_gpu.box_map<64x64xbf16, swizzle = 128>, !fa_gpu.shared<128x128xbf16, swizzle = 128>, !fa_gpu.mbarriers<2>
  }
  fa_gpu.return
}

func.func @boxes_host(%x: memref<?x64xbf16, strided<[?, ?], offset: ?>>, %n: index) {
  %c64 = arith.constant 64 : index
  // CHECK: fa_gpu.map_boxes %{{.*}}[%{{.*}}, %{{.*}}] : memref<?x64xbf16, strided<[?, ?], offset: ?>> -> <64x64xbf16, swizzle = 128>
  %map = fa_gpu.map_boxes %x[%n, %c64] : memref<?x64xbf16, strided<[?, ?], offset: ?>> -> !fa_gpu.box_map<64x64xbf16, swizzle = 128>
  fa_gpu.launch @boxes grid(%n) (%map, %n, %x) : !fa_gpu.box_map<64x64xbf16, swizzle = 128>, index, memref<?x64xbf16, strided<[?, ?], offset: ?>>
  return
}
