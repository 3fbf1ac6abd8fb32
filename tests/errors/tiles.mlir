// Tiles that do not fit their buffers or each other.
// RUN: fa-opt %s --split-input-file --verify-diagnostics

func.func @index_count(%m: memref<?x?xf32>, %i: index) {
  // expected-error@+1 {{expected one index per buffer dim, 2, got 1}}
  %t = fa.load %m[%i] below(%i, %i) : memref<?x?xf32> -> tensor<4x4xf32>
  return
}

// -----

func.func @limit_count(%m: memref<?x?xf32>, %i: index) {
  // expected-error@+1 {{expected one limit per tile dim, 2, got 1}}
  %t = fa.load %m[%i, %i] below(%i) : memref<?x?xf32> -> tensor<4x4xf32>
  return
}

// -----

func.func @rank(%m: memref<?xf32>, %i: index) {
  // expected-error@+1 {{expected a tile of rank at most the buffer's, 1, got 2}}
  %t = fa.load %m[%i] below(%i, %i) : memref<?xf32> -> tensor<4x4xf32>
  return
}

// -----

func.func @type(%m: memref<?xf32>, %i: index) {
  // expected-error@+1 {{expected the tile's element type to be the buffer's, 'f32', got 'f16'}}
  %t = fa.load %m[%i] below(%i) : memref<?xf32> -> tensor<4xf16>
  return
}

// -----

func.func @dynamic(%m: memref<?xf32>, %i: index) {
  // expected-error@+1 {{must be tile (static tensor of rank 1 or 2), but got 'tensor<?xf32>'}}
  %t = fa.load %m[%i] below(%i) : memref<?xf32> -> tensor<?xf32>
  return
}

// -----

func.func @shapes(%a: tensor<4x8xf32>, %c: tensor<4x4xf32>) {
  // expected-error@+1 {{expected shapes MxK, KxN, MxN}}
  %0 = fa.dot %a, %a, %c : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x4xf32>
  return
}

// -----

func.func @reduced(%a: tensor<4x8xf32>) {
  // expected-error@+1 {{expected dim below 2, got 2}}
  %0 = fa.reduce max %a dim 2 : tensor<4x8xf32> -> tensor<8xf32>
  return
}

// -----

func.func @logic(%a: tensor<4x8xf32>) {
  // expected-error@+1 {{expected i1 entries for any, got 'f32'}}
  %0 = fa.reduce any %a dim 0 : tensor<4x8xf32> -> tensor<8xf32>
  return
}

// -----

func.func @turnless(%t: tensor<4xf32>, %m: memref<?xf32>, %i: index) {
  // expected-error@+1 {{expected 'turn' and 'at' with mode ordered and only there, got mode ordered}}
  fa.accumulate ordered %t, %m[%i] below(%i) : tensor<4xf32>, memref<?xf32>
  return
}

// -----

func.func @step(%n: index) {
  // expected-error@+1 {{expected steps of at least 1, got 0}}
  fa.nest "x" parallel(%i = %n step 0) {
  }
  return
}

// -----

func.func @bodyless(%n: index) {
  // expected-error@+1 {{expected one block argument per dim, 1, got 0}}
  "fa.nest"(%n) <{steps = array<i64: 1>, num_parallel = 1 : i64}> ({
  ^bb0:
    %c = arith.constant 0 : index
  }) : (index) -> ()
  return
}
