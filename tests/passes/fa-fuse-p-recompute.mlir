// RUN: fa-opt %s --fa-fuse-p-recompute --split-input-file | FileCheck %s
// RUN: fa-opt %s --fa-fuse-p-recompute --split-input-file --remarks-filter=.* --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=REMARK

// REMARK: Passed{{.*}}P is rebuilt as exp(S - L)
// CHECK-LABEL: func.func @textbook
// CHECK: fa.forward_end
// CHECK: fa.nest "dv"
// CHECK: scf.for
// CHECK-DAG: %[[X:.*]] = fa.load %arg0
// CHECK-DAG: %[[L:.*]] = fa.load %arg4
// CHECK: %[[D:.*]] = arith.subf %[[X]]
// CHECK: %[[P:.*]] = math.exp %[[D]]
// CHECK: fa.transpose %[[P]]
func.func @textbook(%X: memref<?x?xf32>, %Y: memref<?x?xf32>, %V: memref<?x16xf32>, %O: memref<?x16xf32>, %L: memref<?xf32>, %rows: index, %cols: index) {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %M = arith.muli %rows, %c8 : index
  %N = arith.muli %cols, %c8 : index
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
  fa.forward_end outputs(%O : memref<?x16xf32>) inputs(%V : memref<?x16xf32>)
  fa.nest "dv" parallel(%j = %N step 8) {
    %z = arith.constant dense<0.0> : tensor<8x16xf32>
    %f = scf.for %i = %c0 to %M step %c8 iter_args(%acc = %z) -> tensor<8x16xf32> {
      %p = fa.load %P[%i, %j] below(%M, %N) : memref<?x?xf32> -> tensor<8x8xf32>
      %pt = fa.transpose %p : tensor<8x8xf32> -> tensor<8x8xf32>
      %do = fa.load %V[%i, %c0] below(%M, %c16) : memref<?x16xf32> -> tensor<8x16xf32>
      %n = fa.dot %pt, %do, %acc : tensor<8x8xf32>, tensor<8x16xf32>, tensor<8x16xf32>
      scf.yield %n : tensor<8x16xf32>
    }
    fa.store %f, %O[%j, %c0] below(%N, %c16) : tensor<8x16xf32>, memref<?x16xf32>
  }
  return
}

// -----

// REMARK: Passed{{.*}}P is rebuilt as exp(S - L)
// CHECK-LABEL: func.func @permuted
// CHECK: fa.nest "dv"
// CHECK: math.exp
func.func @permuted(%X: memref<?x?xf32>, %Y: memref<?x?xf32>, %V: memref<?x16xf32>, %O: memref<?x16xf32>, %L: memref<?xf32>, %rows: index, %cols: index) {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %M = arith.muli %rows, %c8 : index
  %N = arith.muli %cols, %c8 : index
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
  fa.forward_end outputs(%O : memref<?x16xf32>) inputs(%V : memref<?x16xf32>)
  fa.nest "dv" parallel(%j = %N step 8) {
    %z = arith.constant dense<0.0> : tensor<8x16xf32>
    %f = scf.for %i = %c0 to %M step %c8 iter_args(%acc = %z) -> tensor<8x16xf32> {
      %p = fa.load %P[%i, %j] below(%M, %N) : memref<?x?xf32> -> tensor<8x8xf32>
      %pt = fa.transpose %p : tensor<8x8xf32> -> tensor<8x8xf32>
      %do = fa.load %V[%i, %c0] below(%M, %c16) : memref<?x16xf32> -> tensor<8x16xf32>
      %n = fa.dot %pt, %do, %acc : tensor<8x8xf32>, tensor<8x16xf32>, tensor<8x16xf32>
      scf.yield %n : tensor<8x16xf32>
    }
    fa.store %f, %O[%j, %c0] below(%N, %c16) : tensor<8x16xf32>, memref<?x16xf32>
  }
  return
}

// -----

// A near miss: the buffers may end within a tile; past the end a load reads
// zero, which exp(S - L) is not.
// REMARK: Missed{{.*}}its tile may reach past a limit
// CHECK-LABEL: func.func @ragged
// CHECK: fa.nest "dv"
// CHECK-NOT: math.exp
// CHECK: return
func.func @ragged(%X: memref<?x?xf32>, %Y: memref<?x?xf32>, %V: memref<?x16xf32>, %O: memref<?x16xf32>, %L: memref<?xf32>, %rows: index, %cols: index) {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %M = arith.addi %rows, %c8 : index
  %N = arith.muli %cols, %c8 : index
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
  fa.forward_end outputs(%O : memref<?x16xf32>) inputs(%V : memref<?x16xf32>)
  fa.nest "dv" parallel(%j = %N step 8) {
    %z = arith.constant dense<0.0> : tensor<8x16xf32>
    %f = scf.for %i = %c0 to %M step %c8 iter_args(%acc = %z) -> tensor<8x16xf32> {
      %p = fa.load %P[%i, %j] below(%M, %N) : memref<?x?xf32> -> tensor<8x8xf32>
      %pt = fa.transpose %p : tensor<8x8xf32> -> tensor<8x8xf32>
      %do = fa.load %V[%i, %c0] below(%M, %c16) : memref<?x16xf32> -> tensor<8x16xf32>
      %n = fa.dot %pt, %do, %acc : tensor<8x8xf32>, tensor<8x16xf32>, tensor<8x16xf32>
      scf.yield %n : tensor<8x16xf32>
    }
    fa.store %f, %O[%j, %c0] below(%N, %c16) : tensor<8x16xf32>, memref<?x16xf32>
  }
  return
}

// -----

// A near miss: what is stored as L is m - log l.
// REMARK: Missed{{.*}}no stored exp(x - m) / l with a stored m + log l
// CHECK-LABEL: func.func @not_lse
// CHECK: fa.nest "dv"
// CHECK-NOT: math.exp
// CHECK: return
func.func @not_lse(%X: memref<?x?xf32>, %Y: memref<?x?xf32>, %V: memref<?x16xf32>, %O: memref<?x16xf32>, %L: memref<?xf32>, %rows: index, %cols: index) {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %M = arith.muli %rows, %c8 : index
  %N = arith.muli %cols, %c8 : index
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
    %s = arith.subf %a, %lg : tensor<8xf32>
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
  fa.forward_end outputs(%O : memref<?x16xf32>) inputs(%V : memref<?x16xf32>)
  fa.nest "dv" parallel(%j = %N step 8) {
    %z = arith.constant dense<0.0> : tensor<8x16xf32>
    %f = scf.for %i = %c0 to %M step %c8 iter_args(%acc = %z) -> tensor<8x16xf32> {
      %p = fa.load %P[%i, %j] below(%M, %N) : memref<?x?xf32> -> tensor<8x8xf32>
      %pt = fa.transpose %p : tensor<8x8xf32> -> tensor<8x8xf32>
      %do = fa.load %V[%i, %c0] below(%M, %c16) : memref<?x16xf32> -> tensor<8x16xf32>
      %n = fa.dot %pt, %do, %acc : tensor<8x8xf32>, tensor<8x16xf32>, tensor<8x16xf32>
      scf.yield %n : tensor<8x16xf32>
    }
    fa.store %f, %O[%j, %c0] below(%N, %c16) : tensor<8x16xf32>, memref<?x16xf32>
  }
  return
}

// -----

// p = store: P stays in memory.
// REMARK: Missed{{.*}}the schedule keeps P: p = store
// CHECK-LABEL: func.func @store
// CHECK: fa.nest "dv"
// CHECK: fa.load %{{.*}} : memref<?x?xf32> -> tensor<8x8xf32>
// CHECK-NOT: math.exp
// CHECK: return
func.func @store(%X: memref<?x?xf32>, %Y: memref<?x?xf32>, %V: memref<?x16xf32>, %O: memref<?x16xf32>, %L: memref<?xf32>, %rows: index, %cols: index) attributes {fa.schedule = #fa.schedule<block_m = 8, block_n = 8, p = store>} {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %M = arith.muli %rows, %c8 : index
  %N = arith.muli %cols, %c8 : index
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
  fa.forward_end outputs(%O : memref<?x16xf32>) inputs(%V : memref<?x16xf32>)
  fa.nest "dv" parallel(%j = %N step 8) {
    %z = arith.constant dense<0.0> : tensor<8x16xf32>
    %f = scf.for %i = %c0 to %M step %c8 iter_args(%acc = %z) -> tensor<8x16xf32> {
      %p = fa.load %P[%i, %j] below(%M, %N) : memref<?x?xf32> -> tensor<8x8xf32>
      %pt = fa.transpose %p : tensor<8x8xf32> -> tensor<8x8xf32>
      %do = fa.load %V[%i, %c0] below(%M, %c16) : memref<?x16xf32> -> tensor<8x16xf32>
      %n = fa.dot %pt, %do, %acc : tensor<8x8xf32>, tensor<8x16xf32>, tensor<8x16xf32>
      scf.yield %n : tensor<8x16xf32>
    }
    fa.store %f, %O[%j, %c0] below(%N, %c16) : tensor<8x16xf32>, memref<?x16xf32>
  }
  return
}

// -----

// p = store_compressed: codes of 8 bits are stored beside P and decoded.
// REMARK: Passed{{.*}}P is kept as 8-bit codes of -8 log2 P
// CHECK-LABEL: func.func @compressed
// CHECK: memref.alloc({{.*}}) : memref<?x?xi8>
// CHECK: math.log2
// CHECK: arith.fptoui {{.*}} to tensor<8x8xi8>
// CHECK: fa.nest "dv"
// CHECK: fa.load {{.*}} : memref<?x?xi8> -> tensor<8x8xi8>
// CHECK: arith.uitofp
// CHECK: math.exp2
// CHECK: arith.select
func.func @compressed(%X: memref<?x?xf32>, %Y: memref<?x?xf32>, %V: memref<?x16xf32>, %O: memref<?x16xf32>, %L: memref<?xf32>, %rows: index, %cols: index) attributes {fa.schedule = #fa.schedule<block_m = 8, block_n = 8, p = store_compressed>} {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %M = arith.muli %rows, %c8 : index
  %N = arith.muli %cols, %c8 : index
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
  fa.forward_end outputs(%O : memref<?x16xf32>) inputs(%V : memref<?x16xf32>)
  fa.nest "dv" parallel(%j = %N step 8) {
    %z = arith.constant dense<0.0> : tensor<8x16xf32>
    %f = scf.for %i = %c0 to %M step %c8 iter_args(%acc = %z) -> tensor<8x16xf32> {
      %p = fa.load %P[%i, %j] below(%M, %N) : memref<?x?xf32> -> tensor<8x8xf32>
      %pt = fa.transpose %p : tensor<8x8xf32> -> tensor<8x8xf32>
      %do = fa.load %V[%i, %c0] below(%M, %c16) : memref<?x16xf32> -> tensor<8x16xf32>
      %n = fa.dot %pt, %do, %acc : tensor<8x8xf32>, tensor<8x16xf32>, tensor<8x16xf32>
      scf.yield %n : tensor<8x16xf32>
    }
    fa.store %f, %O[%j, %c0] below(%N, %c16) : tensor<8x16xf32>, memref<?x16xf32>
  }
  return
}
