// RUN: fa-opt %s --fa-place-dq-accumulation --split-input-file | FileCheck %s
// RUN: fa-opt %s --fa-place-dq-accumulation --split-input-file --remarks-filter=.* --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=REMARK

// REMARK: Passed{{.*}}key blocks run in parallel: dq = atomic
// CHECK-LABEL: func.func @atomic
// CHECK: fa.nest "keys" parallel({{.*}}, {{.*}}, {{.*}} step 8) {
// CHECK: fa.accumulate atomic
func.func @atomic(%S: memref<?x?x?x?xf32>, %K: memref<?x?x?x16xf32>, %Q: memref<?x?x?x16xf32>, %dQ: memref<?x?x?x16xf32>, %dK: memref<?x?x?x16xf32>, %dV: memref<?x?x?x16xf32>, %B: index, %H: index, %rows: index, %cols: index, %half: index) attributes {fa.schedule = #fa.schedule<block_m = 8, block_n = 8, dq = atomic>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %Hkv = arith.divui %H, %c2 : index
  %M = arith.muli %rows, %c8 : index
  %N = arith.muli %cols, %c8 : index
  fa.forward_end outputs() inputs()
  %sum = memref.alloc(%B, %H, %M) : memref<?x?x?x16xf32>
  fa.nest "zero" parallel(%b = %B, %h = %H, %i = %M step 8) {
    %z = arith.constant dense<0.0> : tensor<8x16xf32>
    fa.store %z, %sum[%b, %h, %i, %c0] below(%M, %c16) : tensor<8x16xf32>, memref<?x?x?x16xf32>
  }
  fa.nest "keys" parallel(%b = %B, %hk = %Hkv) sequential(%j = %N step 8) {
    %base = arith.muli %hk, %c2 : index
    %z = arith.constant dense<0.0> : tensor<8x16xf32>
    %k = fa.load %K[%b, %hk, %j, %c0] below(%N, %c16) : memref<?x?x?x16xf32> -> tensor<8x16xf32>
    scf.for %g = %c0 to %c2 step %c1 {
      %h = arith.addi %base, %g : index
      scf.for %i = %c0 to %M step %c8 {
        %t = fa.load %S[%b, %h, %i, %j] below(%M, %N) : memref<?x?x?x?xf32> -> tensor<8x8xf32>
        %n = fa.dot %t, %k, %z : tensor<8x8xf32>, tensor<8x16xf32>, tensor<8x16xf32>
        fa.accumulate plain %n, %sum[%b, %h, %i, %c0] below(%M, %c16) : tensor<8x16xf32>, memref<?x?x?x16xf32>
      }
    }
    fa.store %k, %dK[%b, %hk, %j, %c0] below(%N, %c16) : tensor<8x16xf32>, memref<?x?x?x16xf32>
  }
  fa.nest "dq" parallel(%b = %B, %h = %H, %i = %M step 8) {
    %t = fa.load %sum[%b, %h, %i, %c0] below(%M, %c16) : memref<?x?x?x16xf32> -> tensor<8x16xf32>
    fa.store %t, %dQ[%b, %h, %i, %c0] below(%M, %c16) : tensor<8x16xf32>, memref<?x?x?x16xf32>
  }
  return
}

// -----

// Turns: key block n adds after n - 1 others.
// REMARK: Passed{{.*}}dq = ordered
// CHECK-LABEL: func.func @ordered
// CHECK: %[[T:.*]] = memref.alloc({{.*}}) : memref<?x?x?xi32>
// CHECK: fa.store {{.*}}, %[[T]]
// CHECK: fa.nest "keys" parallel({{.*}}, {{.*}}, {{.*}} step 8) {
// CHECK: fa.accumulate ordered {{.*}} turn %{{.*}} at %[[T]]
func.func @ordered(%S: memref<?x?x?x?xf32>, %K: memref<?x?x?x16xf32>, %Q: memref<?x?x?x16xf32>, %dQ: memref<?x?x?x16xf32>, %dK: memref<?x?x?x16xf32>, %dV: memref<?x?x?x16xf32>, %B: index, %H: index, %rows: index, %cols: index, %half: index) attributes {fa.schedule = #fa.schedule<block_m = 8, block_n = 8, dq = ordered>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %Hkv = arith.divui %H, %c2 : index
  %M = arith.muli %rows, %c8 : index
  %N = arith.muli %cols, %c8 : index
  fa.forward_end outputs() inputs()
  %sum = memref.alloc(%B, %H, %M) : memref<?x?x?x16xf32>
  fa.nest "zero" parallel(%b = %B, %h = %H, %i = %M step 8) {
    %z = arith.constant dense<0.0> : tensor<8x16xf32>
    fa.store %z, %sum[%b, %h, %i, %c0] below(%M, %c16) : tensor<8x16xf32>, memref<?x?x?x16xf32>
  }
  fa.nest "keys" parallel(%b = %B, %hk = %Hkv) sequential(%j = %N step 8) {
    %base = arith.muli %hk, %c2 : index
    %z = arith.constant dense<0.0> : tensor<8x16xf32>
    %k = fa.load %K[%b, %hk, %j, %c0] below(%N, %c16) : memref<?x?x?x16xf32> -> tensor<8x16xf32>
    scf.for %g = %c0 to %c2 step %c1 {
      %h = arith.addi %base, %g : index
      scf.for %i = %c0 to %M step %c8 {
        %t = fa.load %S[%b, %h, %i, %j] below(%M, %N) : memref<?x?x?x?xf32> -> tensor<8x8xf32>
        %n = fa.dot %t, %k, %z : tensor<8x8xf32>, tensor<8x16xf32>, tensor<8x16xf32>
        fa.accumulate plain %n, %sum[%b, %h, %i, %c0] below(%M, %c16) : tensor<8x16xf32>, memref<?x?x?x16xf32>
      }
    }
    fa.store %k, %dK[%b, %hk, %j, %c0] below(%N, %c16) : tensor<8x16xf32>, memref<?x?x?x16xf32>
  }
  fa.nest "dq" parallel(%b = %B, %h = %H, %i = %M step 8) {
    %t = fa.load %sum[%b, %h, %i, %c0] below(%M, %c16) : memref<?x?x?x16xf32> -> tensor<8x16xf32>
    fa.store %t, %dQ[%b, %h, %i, %c0] below(%M, %c16) : tensor<8x16xf32>, memref<?x?x?x16xf32>
  }
  return
}

// -----

// REMARK: Passed{{.*}}dq = split
// CHECK-LABEL: func.func @split
// CHECK: memref.alloc({{.*}}) : memref<3x?x?x?x16xf32>
// CHECK: fa.nest "keys" parallel(%{{.*}}, %{{.*}}, %{{[^ ]*}} = %{{[^ ]*}}) {
// CHECK: scf.for {{.*}} step %c8
// CHECK: fa.accumulate plain
// CHECK: fa.nest "dq"
// CHECK: scf.for
// CHECK: arith.addf
func.func @split(%S: memref<?x?x?x?xf32>, %K: memref<?x?x?x16xf32>, %Q: memref<?x?x?x16xf32>, %dQ: memref<?x?x?x16xf32>, %dK: memref<?x?x?x16xf32>, %dV: memref<?x?x?x16xf32>, %B: index, %H: index, %rows: index, %cols: index, %half: index) attributes {fa.schedule = #fa.schedule<block_m = 8, block_n = 8, dq = split, dq_splits = 3>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %Hkv = arith.divui %H, %c2 : index
  %M = arith.muli %rows, %c8 : index
  %N = arith.muli %cols, %c8 : index
  fa.forward_end outputs() inputs()
  %sum = memref.alloc(%B, %H, %M) : memref<?x?x?x16xf32>
  fa.nest "zero" parallel(%b = %B, %h = %H, %i = %M step 8) {
    %z = arith.constant dense<0.0> : tensor<8x16xf32>
    fa.store %z, %sum[%b, %h, %i, %c0] below(%M, %c16) : tensor<8x16xf32>, memref<?x?x?x16xf32>
  }
  fa.nest "keys" parallel(%b = %B, %hk = %Hkv) sequential(%j = %N step 8) {
    %base = arith.muli %hk, %c2 : index
    %z = arith.constant dense<0.0> : tensor<8x16xf32>
    %k = fa.load %K[%b, %hk, %j, %c0] below(%N, %c16) : memref<?x?x?x16xf32> -> tensor<8x16xf32>
    scf.for %g = %c0 to %c2 step %c1 {
      %h = arith.addi %base, %g : index
      scf.for %i = %c0 to %M step %c8 {
        %t = fa.load %S[%b, %h, %i, %j] below(%M, %N) : memref<?x?x?x?xf32> -> tensor<8x8xf32>
        %n = fa.dot %t, %k, %z : tensor<8x8xf32>, tensor<8x16xf32>, tensor<8x16xf32>
        fa.accumulate plain %n, %sum[%b, %h, %i, %c0] below(%M, %c16) : tensor<8x16xf32>, memref<?x?x?x16xf32>
      }
    }
    fa.store %k, %dK[%b, %hk, %j, %c0] below(%N, %c16) : tensor<8x16xf32>, memref<?x?x?x16xf32>
  }
  fa.nest "dq" parallel(%b = %B, %h = %H, %i = %M step 8) {
    %t = fa.load %sum[%b, %h, %i, %c0] below(%M, %c16) : memref<?x?x?x16xf32> -> tensor<8x16xf32>
    fa.store %t, %dQ[%b, %h, %i, %c0] below(%M, %c16) : tensor<8x16xf32>, memref<?x?x?x16xf32>
  }
  return
}

// -----

// REMARK: Passed{{.*}}dq = two_kernel
// CHECK-LABEL: func.func @two_kernel
// CHECK-NOT: fa.accumulate
// CHECK: fa.nest "second_kernel" parallel({{.*}}, {{.*}}, {{.*}} step 8) {
// CHECK: scf.for
// CHECK: fa.dot
// CHECK: fa.store
func.func @two_kernel(%S: memref<?x?x?x?xf32>, %K: memref<?x?x?x16xf32>, %Q: memref<?x?x?x16xf32>, %dQ: memref<?x?x?x16xf32>, %dK: memref<?x?x?x16xf32>, %dV: memref<?x?x?x16xf32>, %B: index, %H: index, %rows: index, %cols: index, %half: index) attributes {fa.schedule = #fa.schedule<block_m = 8, block_n = 8, dq = two_kernel>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %Hkv = arith.divui %H, %c2 : index
  %M = arith.muli %rows, %c8 : index
  %N = arith.muli %cols, %c8 : index
  fa.forward_end outputs() inputs()
  %sum = memref.alloc(%B, %H, %M) : memref<?x?x?x16xf32>
  fa.nest "zero" parallel(%b = %B, %h = %H, %i = %M step 8) {
    %z = arith.constant dense<0.0> : tensor<8x16xf32>
    fa.store %z, %sum[%b, %h, %i, %c0] below(%M, %c16) : tensor<8x16xf32>, memref<?x?x?x16xf32>
  }
  fa.nest "keys" parallel(%b = %B, %hk = %Hkv) sequential(%j = %N step 8) {
    %base = arith.muli %hk, %c2 : index
    %z = arith.constant dense<0.0> : tensor<8x16xf32>
    %k = fa.load %K[%b, %hk, %j, %c0] below(%N, %c16) : memref<?x?x?x16xf32> -> tensor<8x16xf32>
    scf.for %g = %c0 to %c2 step %c1 {
      %h = arith.addi %base, %g : index
      scf.for %i = %c0 to %M step %c8 {
        %t = fa.load %S[%b, %h, %i, %j] below(%M, %N) : memref<?x?x?x?xf32> -> tensor<8x8xf32>
        %n = fa.dot %t, %k, %z : tensor<8x8xf32>, tensor<8x16xf32>, tensor<8x16xf32>
        fa.accumulate plain %n, %sum[%b, %h, %i, %c0] below(%M, %c16) : tensor<8x16xf32>, memref<?x?x?x16xf32>
      }
    }
    fa.store %k, %dK[%b, %hk, %j, %c0] below(%N, %c16) : tensor<8x16xf32>, memref<?x?x?x16xf32>
  }
  fa.nest "dq" parallel(%b = %B, %h = %H, %i = %M step 8) {
    %t = fa.load %sum[%b, %h, %i, %c0] below(%M, %c16) : memref<?x?x?x16xf32> -> tensor<8x16xf32>
    fa.store %t, %dQ[%b, %h, %i, %c0] below(%M, %c16) : tensor<8x16xf32>, memref<?x?x?x16xf32>
  }
  return
}

// -----

// REMARK: Missed{{.*}}the schedule keeps key blocks in order
// CHECK-LABEL: func.func @sequential
// CHECK: fa.nest "keys" parallel({{.*}}) sequential(
func.func @sequential(%S: memref<?x?x?x?xf32>, %K: memref<?x?x?x16xf32>, %Q: memref<?x?x?x16xf32>, %dQ: memref<?x?x?x16xf32>, %dK: memref<?x?x?x16xf32>, %dV: memref<?x?x?x16xf32>, %B: index, %H: index, %rows: index, %cols: index, %half: index) attributes {fa.schedule = #fa.schedule<block_m = 8, block_n = 8, dq = sequential>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %Hkv = arith.divui %H, %c2 : index
  %M = arith.muli %rows, %c8 : index
  %N = arith.muli %cols, %c8 : index
  fa.forward_end outputs() inputs()
  %sum = memref.alloc(%B, %H, %M) : memref<?x?x?x16xf32>
  fa.nest "zero" parallel(%b = %B, %h = %H, %i = %M step 8) {
    %z = arith.constant dense<0.0> : tensor<8x16xf32>
    fa.store %z, %sum[%b, %h, %i, %c0] below(%M, %c16) : tensor<8x16xf32>, memref<?x?x?x16xf32>
  }
  fa.nest "keys" parallel(%b = %B, %hk = %Hkv) sequential(%j = %N step 8) {
    %base = arith.muli %hk, %c2 : index
    %z = arith.constant dense<0.0> : tensor<8x16xf32>
    %k = fa.load %K[%b, %hk, %j, %c0] below(%N, %c16) : memref<?x?x?x16xf32> -> tensor<8x16xf32>
    scf.for %g = %c0 to %c2 step %c1 {
      %h = arith.addi %base, %g : index
      scf.for %i = %c0 to %M step %c8 {
        %t = fa.load %S[%b, %h, %i, %j] below(%M, %N) : memref<?x?x?x?xf32> -> tensor<8x8xf32>
        %n = fa.dot %t, %k, %z : tensor<8x8xf32>, tensor<8x16xf32>, tensor<8x16xf32>
        fa.accumulate plain %n, %sum[%b, %h, %i, %c0] below(%M, %c16) : tensor<8x16xf32>, memref<?x?x?x16xf32>
      }
    }
    fa.store %k, %dK[%b, %hk, %j, %c0] below(%N, %c16) : tensor<8x16xf32>, memref<?x?x?x16xf32>
  }
  fa.nest "dq" parallel(%b = %B, %h = %H, %i = %M step 8) {
    %t = fa.load %sum[%b, %h, %i, %c0] below(%M, %c16) : memref<?x?x?x16xf32> -> tensor<8x16xf32>
    fa.store %t, %dQ[%b, %h, %i, %c0] below(%M, %c16) : tensor<8x16xf32>, memref<?x?x?x16xf32>
  }
  return
}

// -----

// A near miss: all key blocks store to the same rows, so their order matters.
// REMARK: Missed{{.*}}its key blocks meet in more than one addition
// CHECK-LABEL: func.func @same_rows
// CHECK: fa.nest "keys" parallel({{.*}}) sequential(
// CHECK: fa.accumulate plain
func.func @same_rows(%S: memref<?x?x?x?xf32>, %K: memref<?x?x?x16xf32>, %Q: memref<?x?x?x16xf32>, %dQ: memref<?x?x?x16xf32>, %dK: memref<?x?x?x16xf32>, %dV: memref<?x?x?x16xf32>, %B: index, %H: index, %rows: index, %cols: index, %half: index) attributes {fa.schedule = #fa.schedule<block_m = 8, block_n = 8, dq = atomic>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %Hkv = arith.divui %H, %c2 : index
  %M = arith.muli %rows, %c8 : index
  %N = arith.muli %cols, %c8 : index
  fa.forward_end outputs() inputs()
  %sum = memref.alloc(%B, %H, %M) : memref<?x?x?x16xf32>
  fa.nest "zero" parallel(%b = %B, %h = %H, %i = %M step 8) {
    %z = arith.constant dense<0.0> : tensor<8x16xf32>
    fa.store %z, %sum[%b, %h, %i, %c0] below(%M, %c16) : tensor<8x16xf32>, memref<?x?x?x16xf32>
  }
  fa.nest "keys" parallel(%b = %B, %hk = %Hkv) sequential(%j = %N step 8) {
    %base = arith.muli %hk, %c2 : index
    %z = arith.constant dense<0.0> : tensor<8x16xf32>
    %k = fa.load %K[%b, %hk, %j, %c0] below(%N, %c16) : memref<?x?x?x16xf32> -> tensor<8x16xf32>
    scf.for %g = %c0 to %c2 step %c1 {
      %h = arith.addi %base, %g : index
      scf.for %i = %c0 to %M step %c8 {
        %t = fa.load %S[%b, %h, %i, %j] below(%M, %N) : memref<?x?x?x?xf32> -> tensor<8x8xf32>
        %n = fa.dot %t, %k, %z : tensor<8x8xf32>, tensor<8x16xf32>, tensor<8x16xf32>
        fa.accumulate plain %n, %sum[%b, %h, %i, %c0] below(%M, %c16) : tensor<8x16xf32>, memref<?x?x?x16xf32>
      }
    }
    fa.store %k, %dK[%b, %hk, %c0, %c0] below(%N, %c16) : tensor<8x16xf32>, memref<?x?x?x16xf32>
  }
  fa.nest "dq" parallel(%b = %B, %h = %H, %i = %M step 8) {
    %t = fa.load %sum[%b, %h, %i, %c0] below(%M, %c16) : memref<?x?x?x16xf32> -> tensor<8x16xf32>
    fa.store %t, %dQ[%b, %h, %i, %c0] below(%M, %c16) : tensor<8x16xf32>, memref<?x?x?x16xf32>
  }
  return
}

// -----

// A near miss: a key block adds to some rows only, so turns do not count up.
// REMARK: Missed{{.*}}it does not add once to [b, h, i] for every row block i
// CHECK-LABEL: func.func @some_rows
// CHECK: fa.accumulate plain
func.func @some_rows(%S: memref<?x?x?x?xf32>, %K: memref<?x?x?x16xf32>, %Q: memref<?x?x?x16xf32>, %dQ: memref<?x?x?x16xf32>, %dK: memref<?x?x?x16xf32>, %dV: memref<?x?x?x16xf32>, %B: index, %H: index, %rows: index, %cols: index, %half: index) attributes {fa.schedule = #fa.schedule<block_m = 8, block_n = 8, dq = ordered>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %Hkv = arith.divui %H, %c2 : index
  %M = arith.muli %rows, %c8 : index
  %N = arith.muli %cols, %c8 : index
  fa.forward_end outputs() inputs()
  %sum = memref.alloc(%B, %H, %M) : memref<?x?x?x16xf32>
  fa.nest "zero" parallel(%b = %B, %h = %H, %i = %M step 8) {
    %z = arith.constant dense<0.0> : tensor<8x16xf32>
    fa.store %z, %sum[%b, %h, %i, %c0] below(%M, %c16) : tensor<8x16xf32>, memref<?x?x?x16xf32>
  }
  fa.nest "keys" parallel(%b = %B, %hk = %Hkv) sequential(%j = %N step 8) {
    %base = arith.muli %hk, %c2 : index
    %z = arith.constant dense<0.0> : tensor<8x16xf32>
    %k = fa.load %K[%b, %hk, %j, %c0] below(%N, %c16) : memref<?x?x?x16xf32> -> tensor<8x16xf32>
    scf.for %g = %c0 to %c2 step %c1 {
      %h = arith.addi %base, %g : index
      scf.for %i = %j to %M step %c8 {
        %t = fa.load %S[%b, %h, %i, %j] below(%M, %N) : memref<?x?x?x?xf32> -> tensor<8x8xf32>
        %n = fa.dot %t, %k, %z : tensor<8x8xf32>, tensor<8x16xf32>, tensor<8x16xf32>
        fa.accumulate plain %n, %sum[%b, %h, %i, %c0] below(%M, %c16) : tensor<8x16xf32>, memref<?x?x?x16xf32>
      }
    }
    fa.store %k, %dK[%b, %hk, %j, %c0] below(%N, %c16) : tensor<8x16xf32>, memref<?x?x?x16xf32>
  }
  fa.nest "dq" parallel(%b = %B, %h = %H, %i = %M step 8) {
    %t = fa.load %sum[%b, %h, %i, %c0] below(%M, %c16) : memref<?x?x?x16xf32> -> tensor<8x16xf32>
    fa.store %t, %dQ[%b, %h, %i, %c0] below(%M, %c16) : tensor<8x16xf32>, memref<?x?x?x16xf32>
  }
  return
}

// -----

// A near miss: a key block reads what another stored.
// REMARK: Missed{{.*}}it reads a buffer that it writes
// CHECK-LABEL: func.func @reads_back
// CHECK: sequential(
func.func @reads_back(%S: memref<?x?x?x?xf32>, %K: memref<?x?x?x16xf32>, %Q: memref<?x?x?x16xf32>, %dQ: memref<?x?x?x16xf32>, %dK: memref<?x?x?x16xf32>, %dV: memref<?x?x?x16xf32>, %B: index, %H: index, %rows: index, %cols: index, %half: index) attributes {fa.schedule = #fa.schedule<block_m = 8, block_n = 8, dq = ordered>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %Hkv = arith.divui %H, %c2 : index
  %M = arith.muli %rows, %c8 : index
  %N = arith.muli %cols, %c8 : index
  fa.forward_end outputs() inputs()
  %sum = memref.alloc(%B, %H, %M) : memref<?x?x?x16xf32>
  fa.nest "zero" parallel(%b = %B, %h = %H, %i = %M step 8) {
    %z = arith.constant dense<0.0> : tensor<8x16xf32>
    fa.store %z, %sum[%b, %h, %i, %c0] below(%M, %c16) : tensor<8x16xf32>, memref<?x?x?x16xf32>
  }
  fa.nest "keys" parallel(%b = %B, %hk = %Hkv) sequential(%j = %N step 8) {
    %base = arith.muli %hk, %c2 : index
    %z = arith.constant dense<0.0> : tensor<8x16xf32>
    %k = fa.load %dK[%b, %hk, %c0, %c0] below(%N, %c16) : memref<?x?x?x16xf32> -> tensor<8x16xf32>
    scf.for %g = %c0 to %c2 step %c1 {
      %h = arith.addi %base, %g : index
      scf.for %i = %c0 to %M step %c8 {
        %t = fa.load %S[%b, %h, %i, %j] below(%M, %N) : memref<?x?x?x?xf32> -> tensor<8x8xf32>
        %n = fa.dot %t, %k, %z : tensor<8x8xf32>, tensor<8x16xf32>, tensor<8x16xf32>
        fa.accumulate plain %n, %sum[%b, %h, %i, %c0] below(%M, %c16) : tensor<8x16xf32>, memref<?x?x?x16xf32>
      }
    }
    fa.store %k, %dK[%b, %hk, %j, %c0] below(%N, %c16) : tensor<8x16xf32>, memref<?x?x?x16xf32>
  }
  fa.nest "dq" parallel(%b = %B, %h = %H, %i = %M step 8) {
    %t = fa.load %sum[%b, %h, %i, %c0] below(%M, %c16) : memref<?x?x?x16xf32> -> tensor<8x16xf32>
    fa.store %t, %dQ[%b, %h, %i, %c0] below(%M, %c16) : tensor<8x16xf32>, memref<?x?x?x16xf32>
  }
  return
}
