// RUN: fa-opt %s --fa-fuse-online-softmax --split-input-file | FileCheck %s
// RUN: fa-opt %s --fa-fuse-online-softmax --split-input-file --remarks-filter=.* --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=REMARK

// Three passes over the keys become one; P and the row statistics are gone.
// REMARK: Passed{{.*}}one pass over the keys with a running maximum and sum
// CHECK-LABEL: func.func @textbook
// CHECK-NOT: memref.alloc
// CHECK: fa.nest
// CHECK: %[[R:.*]]:3 = scf.for {{.*}} iter_args(%[[ACC:.*]] = %{{.*}}, %[[M0:.*]] = %{{.*}}, %[[L0:.*]] = %{{.*}})
// CHECK: %[[M1:.*]] = arith.maxnumf %[[M0]]
// CHECK: %[[ALPHA:.*]] = math.exp
// CHECK: %[[P:.*]] = math.exp
// CHECK: arith.mulf %[[L0]], %[[ALPHA]]
// CHECK: fa.dot %[[P]]
// CHECK: arith.divf %[[R]]#0
// CHECK-NOT: fa.nest
func.func @textbook(%X: memref<?x?xf32>, %Y: memref<?x?xf32>, %V: memref<?x16xf32>, %O: memref<?x16xf32>, %L: memref<?xf32>, %M: index, %N: index) {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %m = memref.alloc(%M) : memref<?xf32>
  %l = memref.alloc(%M) : memref<?xf32>
  %P = memref.alloc(%M, %N) : memref<?x?xf32>
  fa.nest "row_max" parallel(%i = %M step 8) {
    %inf = arith.constant dense<0xFF800000> : tensor<8xf32>
    %f = scf.for %j = %c0 to %N step %c8 iter_args(%acc = %inf) -> tensor<8xf32> {
      %x = fa.load %X[%i, %j] below(%M, %N) : memref<?x?xf32> -> tensor<8x8xf32>
      %r = fa.reduce max %x dim 1 : tensor<8x8xf32> -> tensor<8xf32>
      %n = arith.maxnumf %acc, %r : tensor<8xf32>
      scf.yield %n : tensor<8xf32>
    }
    fa.store %f, %m[%i] below(%M) : tensor<8xf32>, memref<?xf32>
  }
  fa.nest "row_sum" parallel(%i = %M step 8) {
    %inf = arith.constant dense<0xFF800000> : tensor<8xf32>
    %zero = arith.constant dense<0.0> : tensor<8xf32>
    %mm = fa.load %m[%i] below(%M) : memref<?xf32> -> tensor<8xf32>
    %b = arith.cmpf oeq, %mm, %inf : tensor<8xf32>
    %g = arith.select %b, %zero, %mm : tensor<8xi1>, tensor<8xf32>
    %gg = fa.broadcast %g dim 0 : tensor<8xf32> -> tensor<8x8xf32>
    %f = scf.for %j = %c0 to %N step %c8 iter_args(%acc = %zero) -> tensor<8xf32> {
      %x = fa.load %X[%i, %j] below(%M, %N) : memref<?x?xf32> -> tensor<8x8xf32>
      %d = arith.subf %x, %gg : tensor<8x8xf32>
      %e = math.exp %d : tensor<8x8xf32>
      %r = fa.reduce add %e dim 1 : tensor<8x8xf32> -> tensor<8xf32>
      %n = arith.addf %acc, %r : tensor<8xf32>
      scf.yield %n : tensor<8xf32>
    }
    fa.store %f, %l[%i] below(%M) : tensor<8xf32>, memref<?xf32>
  }
  fa.nest "lse" parallel(%i = %M step 8) {
    %a = fa.load %m[%i] below(%M) : memref<?xf32> -> tensor<8xf32>
    %c = fa.load %l[%i] below(%M) : memref<?xf32> -> tensor<8xf32>
    %lg = math.log %c : tensor<8xf32>
    %s = arith.addf %a, %lg : tensor<8xf32>
    fa.store %s, %L[%i] below(%M) : tensor<8xf32>, memref<?xf32>
  }
  fa.nest "probabilities" parallel(%i = %M step 8, %j = %N step 8) {
    %inf = arith.constant dense<0xFF800000> : tensor<8xf32>
    %zero = arith.constant dense<0.0> : tensor<8xf32>
    %one = arith.constant dense<1.0> : tensor<8xf32>
    %x = fa.load %X[%i, %j] below(%M, %N) : memref<?x?xf32> -> tensor<8x8xf32>
    %mm = fa.load %m[%i] below(%M) : memref<?xf32> -> tensor<8xf32>
    %b = arith.cmpf oeq, %mm, %inf : tensor<8xf32>
    %g = arith.select %b, %zero, %mm : tensor<8xi1>, tensor<8xf32>
    %gg = fa.broadcast %g dim 0 : tensor<8xf32> -> tensor<8x8xf32>
    %d = arith.subf %x, %gg : tensor<8x8xf32>
    %e = math.exp %d : tensor<8x8xf32>
    %ll = fa.load %l[%i] below(%M) : memref<?xf32> -> tensor<8xf32>
    %lb = arith.cmpf oeq, %ll, %zero : tensor<8xf32>
    %lg = arith.select %lb, %one, %ll : tensor<8xi1>, tensor<8xf32>
    %lgg = fa.broadcast %lg dim 0 : tensor<8xf32> -> tensor<8x8xf32>
    %p = arith.divf %e, %lgg : tensor<8x8xf32>
    fa.store %p, %P[%i, %j] below(%M, %N) : tensor<8x8xf32>, memref<?x?xf32>
  }
  fa.nest "output" parallel(%i = %M step 8) {
    %z = arith.constant dense<0.0> : tensor<8x16xf32>
    %o = scf.for %j = %c0 to %N step %c8 iter_args(%acc = %z) -> tensor<8x16xf32> {
      %p = fa.load %P[%i, %j] below(%M, %N) : memref<?x?xf32> -> tensor<8x8xf32>
      %v = fa.load %V[%j, %c0] below(%N, %c16) : memref<?x16xf32> -> tensor<8x16xf32>
      %n = fa.dot %p, %v, %acc : tensor<8x8xf32>, tensor<8x16xf32>, tensor<8x16xf32>
      scf.yield %n : tensor<8x16xf32>
    }
    fa.store %o, %O[%i, %c0] below(%M, %c16) : tensor<8x16xf32>, memref<?x16xf32>
  }
  return
}

// -----

// Operands of commutative ops swapped, the guard written the other way round.
// REMARK: Passed{{.*}}one pass over the keys with a running maximum and sum
// CHECK-LABEL: func.func @permuted
// CHECK-NOT: memref.alloc
// CHECK: scf.for {{.*}} -> (tensor<8x16xf32>, tensor<8xf32>, tensor<8xf32>)
func.func @permuted(%X: memref<?x?xf32>, %Y: memref<?x?xf32>, %V: memref<?x16xf32>, %O: memref<?x16xf32>, %L: memref<?xf32>, %M: index, %N: index) {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %m = memref.alloc(%M) : memref<?xf32>
  %l = memref.alloc(%M) : memref<?xf32>
  %P = memref.alloc(%M, %N) : memref<?x?xf32>
  fa.nest "row_max" parallel(%i = %M step 8) {
    %inf = arith.constant dense<0xFF800000> : tensor<8xf32>
    %f = scf.for %j = %c0 to %N step %c8 iter_args(%acc = %inf) -> tensor<8xf32> {
      %x = fa.load %X[%i, %j] below(%M, %N) : memref<?x?xf32> -> tensor<8x8xf32>
      %r = fa.reduce max %x dim 1 : tensor<8x8xf32> -> tensor<8xf32>
      %n = arith.maxnumf %r, %acc : tensor<8xf32>
      scf.yield %n : tensor<8xf32>
    }
    fa.store %f, %m[%i] below(%M) : tensor<8xf32>, memref<?xf32>
  }
  fa.nest "row_sum" parallel(%i = %M step 8) {
    %inf = arith.constant dense<0xFF800000> : tensor<8xf32>
    %zero = arith.constant dense<0.0> : tensor<8xf32>
    %mm = fa.load %m[%i] below(%M) : memref<?xf32> -> tensor<8xf32>
    %b = arith.cmpf une, %mm, %inf : tensor<8xf32>
    %g = arith.select %b, %mm, %zero : tensor<8xi1>, tensor<8xf32>
    %gg = fa.broadcast %g dim 0 : tensor<8xf32> -> tensor<8x8xf32>
    %f = scf.for %j = %c0 to %N step %c8 iter_args(%acc = %zero) -> tensor<8xf32> {
      %x = fa.load %X[%i, %j] below(%M, %N) : memref<?x?xf32> -> tensor<8x8xf32>
      %d = arith.subf %x, %gg : tensor<8x8xf32>
      %e = math.exp %d : tensor<8x8xf32>
      %r = fa.reduce add %e dim 1 : tensor<8x8xf32> -> tensor<8xf32>
      %n = arith.addf %r, %acc : tensor<8xf32>
      scf.yield %n : tensor<8xf32>
    }
    fa.store %f, %l[%i] below(%M) : tensor<8xf32>, memref<?xf32>
  }
  fa.nest "lse" parallel(%i = %M step 8) {
    %a = fa.load %m[%i] below(%M) : memref<?xf32> -> tensor<8xf32>
    %c = fa.load %l[%i] below(%M) : memref<?xf32> -> tensor<8xf32>
    %lg = math.log %c : tensor<8xf32>
    %s = arith.addf %lg, %a : tensor<8xf32>
    fa.store %s, %L[%i] below(%M) : tensor<8xf32>, memref<?xf32>
  }
  fa.nest "probabilities" parallel(%i = %M step 8, %j = %N step 8) {
    %inf = arith.constant dense<0xFF800000> : tensor<8xf32>
    %zero = arith.constant dense<0.0> : tensor<8xf32>
    %one = arith.constant dense<1.0> : tensor<8xf32>
    %x = fa.load %X[%i, %j] below(%M, %N) : memref<?x?xf32> -> tensor<8x8xf32>
    %mm = fa.load %m[%i] below(%M) : memref<?xf32> -> tensor<8xf32>
    %b = arith.cmpf oeq, %mm, %inf : tensor<8xf32>
    %g = arith.select %b, %zero, %mm : tensor<8xi1>, tensor<8xf32>
    %gg = fa.broadcast %g dim 0 : tensor<8xf32> -> tensor<8x8xf32>
    %d = arith.subf %x, %gg : tensor<8x8xf32>
    %e = math.exp %d : tensor<8x8xf32>
    %ll = fa.load %l[%i] below(%M) : memref<?xf32> -> tensor<8xf32>
    %lb = arith.cmpf oeq, %ll, %zero : tensor<8xf32>
    %lg = arith.select %lb, %one, %ll : tensor<8xi1>, tensor<8xf32>
    %lgg = fa.broadcast %lg dim 0 : tensor<8xf32> -> tensor<8x8xf32>
    %p = arith.divf %e, %lgg : tensor<8x8xf32>
    fa.store %p, %P[%i, %j] below(%M, %N) : tensor<8x8xf32>, memref<?x?xf32>
  }
  fa.nest "output" parallel(%i = %M step 8) {
    %z = arith.constant dense<0.0> : tensor<8x16xf32>
    %o = scf.for %j = %c0 to %N step %c8 iter_args(%acc = %z) -> tensor<8x16xf32> {
      %p = fa.load %P[%i, %j] below(%M, %N) : memref<?x?xf32> -> tensor<8x8xf32>
      %v = fa.load %V[%j, %c0] below(%N, %c16) : memref<?x16xf32> -> tensor<8x16xf32>
      %n = fa.dot %p, %v, %acc : tensor<8x8xf32>, tensor<8x16xf32>, tensor<8x16xf32>
      scf.yield %n : tensor<8x16xf32>
    }
    fa.store %o, %O[%i, %c0] below(%M, %c16) : tensor<8x16xf32>, memref<?x16xf32>
  }
  return
}

// -----

// A near miss: the sum is over other scores.
// REMARK: Missed{{.*}}l is not the sum of the same exp(x - m)
// CHECK-LABEL: func.func @other_scores
// CHECK: fa.nest "row_max"
// CHECK: fa.nest "row_sum"
// CHECK: fa.nest "output"
func.func @other_scores(%X: memref<?x?xf32>, %Y: memref<?x?xf32>, %V: memref<?x16xf32>, %O: memref<?x16xf32>, %L: memref<?xf32>, %M: index, %N: index) {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %m = memref.alloc(%M) : memref<?xf32>
  %l = memref.alloc(%M) : memref<?xf32>
  %P = memref.alloc(%M, %N) : memref<?x?xf32>
  fa.nest "row_max" parallel(%i = %M step 8) {
    %inf = arith.constant dense<0xFF800000> : tensor<8xf32>
    %f = scf.for %j = %c0 to %N step %c8 iter_args(%acc = %inf) -> tensor<8xf32> {
      %x = fa.load %X[%i, %j] below(%M, %N) : memref<?x?xf32> -> tensor<8x8xf32>
      %r = fa.reduce max %x dim 1 : tensor<8x8xf32> -> tensor<8xf32>
      %n = arith.maxnumf %acc, %r : tensor<8xf32>
      scf.yield %n : tensor<8xf32>
    }
    fa.store %f, %m[%i] below(%M) : tensor<8xf32>, memref<?xf32>
  }
  fa.nest "row_sum" parallel(%i = %M step 8) {
    %inf = arith.constant dense<0xFF800000> : tensor<8xf32>
    %zero = arith.constant dense<0.0> : tensor<8xf32>
    %mm = fa.load %m[%i] below(%M) : memref<?xf32> -> tensor<8xf32>
    %b = arith.cmpf oeq, %mm, %inf : tensor<8xf32>
    %g = arith.select %b, %zero, %mm : tensor<8xi1>, tensor<8xf32>
    %gg = fa.broadcast %g dim 0 : tensor<8xf32> -> tensor<8x8xf32>
    %f = scf.for %j = %c0 to %N step %c8 iter_args(%acc = %zero) -> tensor<8xf32> {
      %x = fa.load %Y[%i, %j] below(%M, %N) : memref<?x?xf32> -> tensor<8x8xf32>
      %d = arith.subf %x, %gg : tensor<8x8xf32>
      %e = math.exp %d : tensor<8x8xf32>
      %r = fa.reduce add %e dim 1 : tensor<8x8xf32> -> tensor<8xf32>
      %n = arith.addf %acc, %r : tensor<8xf32>
      scf.yield %n : tensor<8xf32>
    }
    fa.store %f, %l[%i] below(%M) : tensor<8xf32>, memref<?xf32>
  }
  fa.nest "lse" parallel(%i = %M step 8) {
    %a = fa.load %m[%i] below(%M) : memref<?xf32> -> tensor<8xf32>
    %c = fa.load %l[%i] below(%M) : memref<?xf32> -> tensor<8xf32>
    %lg = math.log %c : tensor<8xf32>
    %s = arith.addf %a, %lg : tensor<8xf32>
    fa.store %s, %L[%i] below(%M) : tensor<8xf32>, memref<?xf32>
  }
  fa.nest "probabilities" parallel(%i = %M step 8, %j = %N step 8) {
    %inf = arith.constant dense<0xFF800000> : tensor<8xf32>
    %zero = arith.constant dense<0.0> : tensor<8xf32>
    %one = arith.constant dense<1.0> : tensor<8xf32>
    %x = fa.load %X[%i, %j] below(%M, %N) : memref<?x?xf32> -> tensor<8x8xf32>
    %mm = fa.load %m[%i] below(%M) : memref<?xf32> -> tensor<8xf32>
    %b = arith.cmpf oeq, %mm, %inf : tensor<8xf32>
    %g = arith.select %b, %zero, %mm : tensor<8xi1>, tensor<8xf32>
    %gg = fa.broadcast %g dim 0 : tensor<8xf32> -> tensor<8x8xf32>
    %d = arith.subf %x, %gg : tensor<8x8xf32>
    %e = math.exp %d : tensor<8x8xf32>
    %ll = fa.load %l[%i] below(%M) : memref<?xf32> -> tensor<8xf32>
    %lb = arith.cmpf oeq, %ll, %zero : tensor<8xf32>
    %lg = arith.select %lb, %one, %ll : tensor<8xi1>, tensor<8xf32>
    %lgg = fa.broadcast %lg dim 0 : tensor<8xf32> -> tensor<8x8xf32>
    %p = arith.divf %e, %lgg : tensor<8x8xf32>
    fa.store %p, %P[%i, %j] below(%M, %N) : tensor<8x8xf32>, memref<?x?xf32>
  }
  fa.nest "output" parallel(%i = %M step 8) {
    %z = arith.constant dense<0.0> : tensor<8x16xf32>
    %o = scf.for %j = %c0 to %N step %c8 iter_args(%acc = %z) -> tensor<8x16xf32> {
      %p = fa.load %P[%i, %j] below(%M, %N) : memref<?x?xf32> -> tensor<8x8xf32>
      %v = fa.load %V[%j, %c0] below(%N, %c16) : memref<?x16xf32> -> tensor<8x16xf32>
      %n = fa.dot %p, %v, %acc : tensor<8x8xf32>, tensor<8x16xf32>, tensor<8x16xf32>
      scf.yield %n : tensor<8x16xf32>
    }
    fa.store %o, %O[%i, %c0] below(%M, %c16) : tensor<8x16xf32>, memref<?x16xf32>
  }
  return
}

// -----

// A near miss: m is stored at other rows than it was taken over.
// REMARK: Missed{{.*}}m is not the maximum of the same scores
// CHECK-LABEL: func.func @other_rows
// CHECK: fa.nest "row_max"
func.func @other_rows(%X: memref<?x?xf32>, %Y: memref<?x?xf32>, %V: memref<?x16xf32>, %O: memref<?x16xf32>, %L: memref<?xf32>, %M: index, %N: index) {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %m = memref.alloc(%M) : memref<?xf32>
  %l = memref.alloc(%M) : memref<?xf32>
  %P = memref.alloc(%M, %N) : memref<?x?xf32>
  fa.nest "row_max" parallel(%i = %M step 8) {
    %inf = arith.constant dense<0xFF800000> : tensor<8xf32>
    %f = scf.for %j = %c0 to %N step %c8 iter_args(%acc = %inf) -> tensor<8xf32> {
      %x = fa.load %X[%i, %j] below(%M, %N) : memref<?x?xf32> -> tensor<8x8xf32>
      %r = fa.reduce max %x dim 1 : tensor<8x8xf32> -> tensor<8xf32>
      %n = arith.maxnumf %acc, %r : tensor<8xf32>
      scf.yield %n : tensor<8xf32>
    }
    fa.store %f, %m[%c0] below(%M) : tensor<8xf32>, memref<?xf32>
  }
  fa.nest "row_sum" parallel(%i = %M step 8) {
    %inf = arith.constant dense<0xFF800000> : tensor<8xf32>
    %zero = arith.constant dense<0.0> : tensor<8xf32>
    %mm = fa.load %m[%i] below(%M) : memref<?xf32> -> tensor<8xf32>
    %b = arith.cmpf oeq, %mm, %inf : tensor<8xf32>
    %g = arith.select %b, %zero, %mm : tensor<8xi1>, tensor<8xf32>
    %gg = fa.broadcast %g dim 0 : tensor<8xf32> -> tensor<8x8xf32>
    %f = scf.for %j = %c0 to %N step %c8 iter_args(%acc = %zero) -> tensor<8xf32> {
      %x = fa.load %X[%i, %j] below(%M, %N) : memref<?x?xf32> -> tensor<8x8xf32>
      %d = arith.subf %x, %gg : tensor<8x8xf32>
      %e = math.exp %d : tensor<8x8xf32>
      %r = fa.reduce add %e dim 1 : tensor<8x8xf32> -> tensor<8xf32>
      %n = arith.addf %acc, %r : tensor<8xf32>
      scf.yield %n : tensor<8xf32>
    }
    fa.store %f, %l[%i] below(%M) : tensor<8xf32>, memref<?xf32>
  }
  fa.nest "lse" parallel(%i = %M step 8) {
    %a = fa.load %m[%i] below(%M) : memref<?xf32> -> tensor<8xf32>
    %c = fa.load %l[%i] below(%M) : memref<?xf32> -> tensor<8xf32>
    %lg = math.log %c : tensor<8xf32>
    %s = arith.addf %a, %lg : tensor<8xf32>
    fa.store %s, %L[%i] below(%M) : tensor<8xf32>, memref<?xf32>
  }
  fa.nest "probabilities" parallel(%i = %M step 8, %j = %N step 8) {
    %inf = arith.constant dense<0xFF800000> : tensor<8xf32>
    %zero = arith.constant dense<0.0> : tensor<8xf32>
    %one = arith.constant dense<1.0> : tensor<8xf32>
    %x = fa.load %X[%i, %j] below(%M, %N) : memref<?x?xf32> -> tensor<8x8xf32>
    %mm = fa.load %m[%i] below(%M) : memref<?xf32> -> tensor<8xf32>
    %b = arith.cmpf oeq, %mm, %inf : tensor<8xf32>
    %g = arith.select %b, %zero, %mm : tensor<8xi1>, tensor<8xf32>
    %gg = fa.broadcast %g dim 0 : tensor<8xf32> -> tensor<8x8xf32>
    %d = arith.subf %x, %gg : tensor<8x8xf32>
    %e = math.exp %d : tensor<8x8xf32>
    %ll = fa.load %l[%i] below(%M) : memref<?xf32> -> tensor<8xf32>
    %lb = arith.cmpf oeq, %ll, %zero : tensor<8xf32>
    %lg = arith.select %lb, %one, %ll : tensor<8xi1>, tensor<8xf32>
    %lgg = fa.broadcast %lg dim 0 : tensor<8xf32> -> tensor<8x8xf32>
    %p = arith.divf %e, %lgg : tensor<8x8xf32>
    fa.store %p, %P[%i, %j] below(%M, %N) : tensor<8x8xf32>, memref<?x?xf32>
  }
  fa.nest "output" parallel(%i = %M step 8) {
    %z = arith.constant dense<0.0> : tensor<8x16xf32>
    %o = scf.for %j = %c0 to %N step %c8 iter_args(%acc = %z) -> tensor<8x16xf32> {
      %p = fa.load %P[%i, %j] below(%M, %N) : memref<?x?xf32> -> tensor<8x8xf32>
      %v = fa.load %V[%j, %c0] below(%N, %c16) : memref<?x16xf32> -> tensor<8x16xf32>
      %n = fa.dot %p, %v, %acc : tensor<8x8xf32>, tensor<8x16xf32>, tensor<8x16xf32>
      scf.yield %n : tensor<8x16xf32>
    }
    fa.store %o, %O[%i, %c0] below(%M, %c16) : tensor<8x16xf32>, memref<?x16xf32>
  }
  return
}

// -----

// A near miss: somebody else reads m.
// REMARK: Missed{{.*}}the nests that would go have other effects or readers
// CHECK-LABEL: func.func @read_elsewhere
// CHECK: fa.nest "row_max"
func.func @read_elsewhere(%X: memref<?x?xf32>, %Y: memref<?x?xf32>, %V: memref<?x16xf32>, %O: memref<?x16xf32>, %L: memref<?xf32>, %M: index, %N: index) {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %m = memref.alloc(%M) : memref<?xf32>
  %l = memref.alloc(%M) : memref<?xf32>
  %P = memref.alloc(%M, %N) : memref<?x?xf32>
  fa.nest "row_max" parallel(%i = %M step 8) {
    %inf = arith.constant dense<0xFF800000> : tensor<8xf32>
    %f = scf.for %j = %c0 to %N step %c8 iter_args(%acc = %inf) -> tensor<8xf32> {
      %x = fa.load %X[%i, %j] below(%M, %N) : memref<?x?xf32> -> tensor<8x8xf32>
      %r = fa.reduce max %x dim 1 : tensor<8x8xf32> -> tensor<8xf32>
      %n = arith.maxnumf %acc, %r : tensor<8xf32>
      scf.yield %n : tensor<8xf32>
    }
    fa.store %f, %m[%i] below(%M) : tensor<8xf32>, memref<?xf32>
  }
  fa.nest "row_sum" parallel(%i = %M step 8) {
    %inf = arith.constant dense<0xFF800000> : tensor<8xf32>
    %zero = arith.constant dense<0.0> : tensor<8xf32>
    %mm = fa.load %m[%i] below(%M) : memref<?xf32> -> tensor<8xf32>
    %b = arith.cmpf oeq, %mm, %inf : tensor<8xf32>
    %g = arith.select %b, %zero, %mm : tensor<8xi1>, tensor<8xf32>
    %gg = fa.broadcast %g dim 0 : tensor<8xf32> -> tensor<8x8xf32>
    %f = scf.for %j = %c0 to %N step %c8 iter_args(%acc = %zero) -> tensor<8xf32> {
      %x = fa.load %X[%i, %j] below(%M, %N) : memref<?x?xf32> -> tensor<8x8xf32>
      %d = arith.subf %x, %gg : tensor<8x8xf32>
      %e = math.exp %d : tensor<8x8xf32>
      %r = fa.reduce add %e dim 1 : tensor<8x8xf32> -> tensor<8xf32>
      %n = arith.addf %acc, %r : tensor<8xf32>
      scf.yield %n : tensor<8xf32>
    }
    fa.store %f, %l[%i] below(%M) : tensor<8xf32>, memref<?xf32>
  }
  fa.nest "lse" parallel(%i = %M step 8) {
    %a = fa.load %m[%i] below(%M) : memref<?xf32> -> tensor<8xf32>
    %c = fa.load %l[%i] below(%M) : memref<?xf32> -> tensor<8xf32>
    %lg = math.log %c : tensor<8xf32>
    %s = arith.addf %a, %lg : tensor<8xf32>
    fa.store %s, %L[%i] below(%M) : tensor<8xf32>, memref<?xf32>
  }
  fa.nest "probabilities" parallel(%i = %M step 8, %j = %N step 8) {
    %inf = arith.constant dense<0xFF800000> : tensor<8xf32>
    %zero = arith.constant dense<0.0> : tensor<8xf32>
    %one = arith.constant dense<1.0> : tensor<8xf32>
    %x = fa.load %X[%i, %j] below(%M, %N) : memref<?x?xf32> -> tensor<8x8xf32>
    %mm = fa.load %m[%i] below(%M) : memref<?xf32> -> tensor<8xf32>
    %b = arith.cmpf oeq, %mm, %inf : tensor<8xf32>
    %g = arith.select %b, %zero, %mm : tensor<8xi1>, tensor<8xf32>
    %gg = fa.broadcast %g dim 0 : tensor<8xf32> -> tensor<8x8xf32>
    %d = arith.subf %x, %gg : tensor<8x8xf32>
    %e = math.exp %d : tensor<8x8xf32>
    %ll = fa.load %l[%i] below(%M) : memref<?xf32> -> tensor<8xf32>
    %lb = arith.cmpf oeq, %ll, %zero : tensor<8xf32>
    %lg = arith.select %lb, %one, %ll : tensor<8xi1>, tensor<8xf32>
    %lgg = fa.broadcast %lg dim 0 : tensor<8xf32> -> tensor<8x8xf32>
    %p = arith.divf %e, %lgg : tensor<8x8xf32>
    fa.store %p, %P[%i, %j] below(%M, %N) : tensor<8x8xf32>, memref<?x?xf32>
  }
  fa.nest "output" parallel(%i = %M step 8) {
    %z = arith.constant dense<0.0> : tensor<8x16xf32>
    %o = scf.for %j = %c0 to %N step %c8 iter_args(%acc = %z) -> tensor<8x16xf32> {
      %p = fa.load %P[%i, %j] below(%M, %N) : memref<?x?xf32> -> tensor<8x8xf32>
      %v = fa.load %V[%j, %c0] below(%N, %c16) : memref<?x16xf32> -> tensor<8x16xf32>
      %n = fa.dot %p, %v, %acc : tensor<8x8xf32>, tensor<8x16xf32>, tensor<8x16xf32>
      scf.yield %n : tensor<8x16xf32>
    }
    fa.store %o, %O[%i, %c0] below(%M, %c16) : tensor<8x16xf32>, memref<?x16xf32>
  }
  fa.nest "reader" parallel(%i = %M step 8) {
    %a = fa.load %m[%i] below(%M) : memref<?xf32> -> tensor<8xf32>
    fa.store %a, %V[%i, %c0] below(%c8) : tensor<8xf32>, memref<?x16xf32>
  }
  return
}
