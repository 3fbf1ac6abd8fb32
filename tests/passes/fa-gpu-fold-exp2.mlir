// RUN: fa-opt %s --fa-gpu-fold-exp2 | FileCheck %s
// RUN: fa-opt %s --fa-gpu-fold-exp2 --remarks-filter=fathom --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

#acc = #fa_gpu.layout<registers = [2:1:1, 2:0:8, 8:1:8], lanes = [4:1:2, 8:0:1], warps = [4:0:16]>
#row = #fa_gpu.layout<registers = [2:0:8], lanes = [4:r, 8:0:1], warps = [4:0:16]>

// REMARK: [Passed] {{.*}}"1 exponentials of base 2"
// REMARK: [Passed] {{.*}}"1 exponentials of base 2"
// REMARK: [Passed] {{.*}}"2 exponentials of base 2"
// REMARK: [Passed] {{.*}}"3 exponentials of base 2"
// REMARK: [Missed] {{.*}}"nothing here is rounded to 16 bits: exp stays exact"

// The scale, 0.5, goes behind mask and maximum and meets log2 e.
// CHECK-LABEL: fa_gpu.kernel @rows
// CHECK: %[[S:.*]] = fa.load
// CHECK: %[[X:.*]] = arith.select %{{.*}}, %[[S]], %{{.*}} : tensor<64x64xi1
// CHECK: %[[M:.*]] = fa.reduce max %[[X]] dim 1
// CHECK: %[[BOTH:.*]] = arith.constant dense<0.7213475{{.*}}> : tensor<64xf32
// CHECK: %[[ML:.*]] = arith.mulf %[[M]], %[[BOTH]]
// CHECK: %[[MM:.*]] = fa.broadcast %[[ML]] dim 0
// CHECK: %[[C:.*]] = arith.constant dense<0.7213475{{.*}}> : tensor<64x64xf32
// CHECK: %[[XL:.*]] = arith.mulf %[[X]], %[[C]]
// CHECK: %[[D:.*]] = arith.subf %[[XL]], %[[MM]]
// CHECK: math.exp2 %[[D]] fastmath<afn>
fa_gpu.kernel @rows(%x: memref<?x64xf32>, %o: memref<?x64xbf16>, %mask: memref<?x64xi1>, %n: index) num_warps(4) min_blocks(1) alignments([16, 16, 0, 0]) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %half = arith.constant dense<0.5> : tensor<64x64xf32, #acc>
  %low = arith.constant dense<0xFF800000> : tensor<64x64xf32, #acc>
  %s = fa.load %x[%c0, %c0] below(%n, %c64) : memref<?x64xf32> -> tensor<64x64xf32, #acc>
  %v = fa.load %mask[%c0, %c0] below(%n, %c64) : memref<?x64xi1> -> tensor<64x64xi1, #acc>
  %t = arith.mulf %s, %half : tensor<64x64xf32, #acc>
  %y = arith.select %v, %t, %low : tensor<64x64xi1, #acc>, tensor<64x64xf32, #acc>
  %m = fa.reduce max %y dim 1 : tensor<64x64xf32, #acc> -> tensor<64xf32, #row>
  %mm = fa.broadcast %m dim 0 : tensor<64xf32, #row> -> tensor<64x64xf32, #acc>
  %d = arith.subf %y, %mm : tensor<64x64xf32, #acc>
  %p = math.exp %d : tensor<64x64xf32, #acc>
  %h = arith.truncf %p : tensor<64x64xf32, #acc> to tensor<64x64xbf16, #acc>
  fa.store %h, %o[%c0, %c0] below(%n, %c64) : tensor<64x64xbf16, #acc>, memref<?x64xbf16>
  fa_gpu.return
}

// The scale on the other side, and in both branches.
// CHECK-LABEL: fa_gpu.kernel @branches
// CHECK: %[[S:.*]] = fa.load
// CHECK: %[[B:.*]] = scf.if
// CHECK-NEXT: scf.yield %[[S]]
// CHECK: else
// CHECK: %[[X:.*]] = arith.select %{{.*}}, %[[S]]
// CHECK-NEXT: scf.yield %[[X]]
// CHECK: %[[L:.*]] = arith.mulf %[[B]], %{{.*}}
// CHECK: math.exp2 %[[L]] fastmath<afn>
fa_gpu.kernel @branches(%x: memref<?x64xf32>, %o: memref<?x64xbf16>, %mask: memref<?x64xi1>, %all: i1, %n: index) num_warps(4) min_blocks(1) alignments([16, 16, 0, 0, 0]) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %half = arith.constant dense<0.5> : tensor<64x64xf32, #acc>
  %low = arith.constant dense<0xFF800000> : tensor<64x64xf32, #acc>
  %s = fa.load %x[%c0, %c0] below(%n, %c64) : memref<?x64xf32> -> tensor<64x64xf32, #acc>
  %v = fa.load %mask[%c0, %c0] below(%n, %c64) : memref<?x64xi1> -> tensor<64x64xi1, #acc>
  %t = arith.mulf %half, %s : tensor<64x64xf32, #acc>
  %y = scf.if %all -> (tensor<64x64xf32, #acc>) {
    scf.yield %t : tensor<64x64xf32, #acc>
  } else {
    %z = arith.select %v, %t, %low : tensor<64x64xi1, #acc>, tensor<64x64xf32, #acc>
    scf.yield %z : tensor<64x64xf32, #acc>
  }
  %p = math.exp %y : tensor<64x64xf32, #acc>
  %h = arith.truncf %p : tensor<64x64xf32, #acc> to tensor<64x64xbf16, #acc>
  fa.store %h, %o[%c0, %c0] below(%n, %c64) : tensor<64x64xbf16, #acc>, memref<?x64xbf16>
  fa_gpu.return
}

// A maximum that is carried is carried times log2 e: 0.5 and that are one
// factor, and none is left where two maxima are compared or subtracted.
// CHECK-LABEL: fa_gpu.kernel @carried
// CHECK: %[[R:.*]]:2 = scf.for {{.*}} iter_args(%[[OLD:.*]] = %{{.*}}, %[[SUM:.*]] = %{{.*}})
// CHECK-NEXT: %[[S:.*]] = fa.load
// CHECK-NEXT: %[[M:.*]] = fa.reduce max %[[S]] dim 1
// CHECK: %[[ML:.*]] = arith.mulf %[[M]], %{{.*}}
// CHECK-NEXT: %[[NEW:.*]] = arith.maxnumf %[[OLD]], %[[ML]]
// CHECK-NEXT: %[[SAME:.*]] = arith.cmpf ueq, %[[OLD]], %[[NEW]]
// CHECK-NEXT: %[[D:.*]] = arith.subf %[[OLD]], %[[NEW]]
// CHECK-NEXT: %[[A:.*]] = arith.select %[[SAME]], %{{.*}}, %[[D]]
// CHECK-NEXT: math.exp2 %[[A]]
// CHECK-NEXT: %[[B:.*]] = fa.broadcast %[[NEW]] dim 0
// CHECK: %[[X:.*]] = arith.mulf %[[S]], %{{.*}}
// CHECK-NEXT: %[[Y:.*]] = arith.subf %[[X]], %[[B]]
// CHECK-NEXT: math.exp2 %[[Y]]
// CHECK: scf.yield %[[NEW]]
// CHECK: %[[LN2:.*]] = arith.constant dense<0.693147{{.*}}> : tensor<64xf32
// CHECK: %[[BACK:.*]] = arith.mulf %[[R]]#0, %[[LN2]]
// CHECK: fa.store %[[BACK]]
fa_gpu.kernel @carried(%x: memref<?x64xf32>, %o: memref<?x64xbf16>, %m: memref<?xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 16, 0, 0]) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %half = arith.constant dense<0.5> : tensor<64x64xf32, #acc>
  %low = arith.constant dense<0xFF800000> : tensor<64xf32, #row>
  %zero = arith.constant dense<0.0> : tensor<64xf32, #row>
  %r:2 = scf.for %i = %c0 to %n step %c64 iter_args(%old = %low, %sum = %zero) -> (tensor<64xf32, #row>, tensor<64xf32, #row>) {
    %s = fa.load %x[%i, %c0] below(%n, %c64) : memref<?x64xf32> -> tensor<64x64xf32, #acc>
    %t = arith.mulf %s, %half : tensor<64x64xf32, #acc>
    %most = fa.reduce max %t dim 1 : tensor<64x64xf32, #acc> -> tensor<64xf32, #row>
    %new = arith.maxnumf %old, %most : tensor<64xf32, #row>
    %same = arith.cmpf ueq, %old, %new : tensor<64xf32, #row>
    %less = arith.subf %old, %new : tensor<64xf32, #row>
    %none = arith.select %same, %zero, %less : tensor<64xi1, #row>, tensor<64xf32, #row>
    %scale = math.exp %none : tensor<64xf32, #row>
    %mm = fa.broadcast %new dim 0 : tensor<64xf32, #row> -> tensor<64x64xf32, #acc>
    %d = arith.subf %t, %mm : tensor<64x64xf32, #acc>
    %p = math.exp %d : tensor<64x64xf32, #acc>
    %h = arith.truncf %p : tensor<64x64xf32, #acc> to tensor<64x64xbf16, #acc>
    fa.store %h, %o[%i, %c0] below(%n, %c64) : tensor<64x64xbf16, #acc>, memref<?x64xbf16>
    %l = arith.mulf %sum, %scale : tensor<64xf32, #row>
    %part = fa.reduce add %p dim 1 : tensor<64x64xf32, #acc> -> tensor<64xf32, #row>
    %next = arith.addf %l, %part : tensor<64xf32, #row>
    scf.yield %new, %next : tensor<64xf32, #row>, tensor<64xf32, #row>
  }
  fa.store %r#0, %m[%c0] below(%n) : tensor<64xf32, #row>, memref<?xf32>
  fa.store %r#1, %m[%c64] below(%n) : tensor<64xf32, #row>, memref<?xf32>
  fa_gpu.return
}

// Near misses. A negative factor changes which entry is the largest, and 2 is
// not 2 times 0.5: these products stay where they are. A factor near the end
// of the numbers would become infinite.
// CHECK-LABEL: fa_gpu.kernel @stays
// CHECK: %[[N:.*]] = arith.mulf %[[S:.*]], %{{.*}}
// CHECK: fa.reduce max %[[N]] dim 1
// CHECK: math.exp2
// CHECK: %[[T:.*]] = arith.mulf %[[S]], %{{.*}}
// CHECK: %[[Y:.*]] = arith.select %{{.*}}, %[[T]]
// CHECK: %[[L:.*]] = arith.mulf %[[Y]], %{{.*}}
// CHECK: math.exp2 %[[L]]
// CHECK: %[[BIG:.*]] = arith.mulf %[[S]], %{{.*}}
// CHECK: %[[L2:.*]] = arith.mulf %[[BIG]], %{{.*}}
// CHECK: math.exp2 %[[L2]]
fa_gpu.kernel @stays(%x: memref<?x64xf32>, %o: memref<?x64xbf16>, %mask: memref<?x64xi1>, %n: index) num_warps(4) min_blocks(1) alignments([16, 16, 0, 0]) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %minus = arith.constant dense<-0.5> : tensor<64x64xf32, #acc>
  %half = arith.constant dense<0.5> : tensor<64x64xf32, #acc>
  %two = arith.constant dense<2.0> : tensor<64x64xf32, #acc>
  %big = arith.constant dense<3.0e38> : tensor<64x64xf32, #acc>
  %s = fa.load %x[%c0, %c0] below(%n, %c64) : memref<?x64xf32> -> tensor<64x64xf32, #acc>
  %v = fa.load %mask[%c0, %c0] below(%n, %c64) : memref<?x64xi1> -> tensor<64x64xi1, #acc>
  %t = arith.mulf %s, %minus : tensor<64x64xf32, #acc>
  %m = fa.reduce max %t dim 1 : tensor<64x64xf32, #acc> -> tensor<64xf32, #row>
  %mm = fa.broadcast %m dim 0 : tensor<64xf32, #row> -> tensor<64x64xf32, #acc>
  %d = arith.subf %t, %mm : tensor<64x64xf32, #acc>
  %p = math.exp %d : tensor<64x64xf32, #acc>
  %u = arith.mulf %s, %half : tensor<64x64xf32, #acc>
  %y = arith.select %v, %u, %two : tensor<64x64xi1, #acc>, tensor<64x64xf32, #acc>
  %p1 = math.exp %y : tensor<64x64xf32, #acc>
  %w = arith.mulf %s, %big : tensor<64x64xf32, #acc>
  %p2 = math.exp %w : tensor<64x64xf32, #acc>
  %a = arith.addf %p, %p1 : tensor<64x64xf32, #acc>
  %b = arith.addf %a, %p2 : tensor<64x64xf32, #acc>
  %h = arith.truncf %b : tensor<64x64xf32, #acc> to tensor<64x64xbf16, #acc>
  fa.store %h, %o[%c0, %c0] below(%n, %c64) : tensor<64x64xbf16, #acc>, memref<?x64xbf16>
  fa_gpu.return
}

// A result of f32 gets exact exponentials.
// CHECK-LABEL: fa_gpu.kernel @exact
// CHECK: math.exp %
fa_gpu.kernel @exact(%x: memref<?x64xf32>, %n: index) num_warps(4) min_blocks(1) alignments([16, 0]) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %s = fa.load %x[%c0, %c0] below(%n, %c64) : memref<?x64xf32> -> tensor<64x64xf32, #acc>
  %p = math.exp %s : tensor<64x64xf32, #acc>
  fa.store %p, %x[%c0, %c0] below(%n, %c64) : tensor<64x64xf32, #acc>, memref<?x64xf32>
  fa_gpu.return
}
