// Rules of tiles and nests that tests/errors/tiles.mlir leaves out.
// RUN: fa-opt %s --split-input-file --verify-diagnostics

func.func @f(%a: tensor<4x8xf32>, %b: tensor<8x4xbf16>, %c: tensor<4x4xf32>) {
  // expected-error@+1 {{expected a and b of one float type, got 'tensor<4x8xf32>', 'tensor<8x4xbf16>'}}
  %0 = fa.dot %a, %b, %c : tensor<4x8xf32>, tensor<8x4xbf16>, tensor<4x4xf32>
  return
}

// -----

func.func @f(%a: tensor<4xf32>) {
  // expected-error@+1 {{expected tiles of rank 2}}
  %0 = fa.dot %a, %a, %a : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  return
}

// -----

func.func @f(%a: tensor<4x8xf32>) {
  // expected-error@+1 {{expected the result to be the transposed operand, got 'tensor<4x8xf32>' -> 'tensor<4x8xf32>'}}
  %0 = fa.transpose %a : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

func.func @f(%a: tensor<4x8xf32>) {
  // expected-error@+1 {{expected result type 'tensor<8xf32>', got 'tensor<4xf32>'}}
  %0 = fa.reduce add %a dim 0 : tensor<4x8xf32> -> tensor<4xf32>
  return
}

// -----

func.func @f(%a: tensor<4xf32>) {
  // expected-error@+1 {{expected a scalar or a rank 1 tile that fits dim 1 of 'tensor<4x8xf32>', got 'tensor<4xf32>'}}
  %0 = fa.broadcast %a dim 1 : tensor<4xf32> -> tensor<4x8xf32>
  return
}

// -----

func.func @f(%a: f32) {
  // expected-error@+1 {{expected dim below 2, got 2}}
  %0 = fa.broadcast %a dim 2 : f32 -> tensor<4x8xf32>
  return
}

// -----

func.func @f(%i: index) {
  // expected-error@+1 {{expected a rank 1 tile of index, got 'tensor<4xi32>'}}
  %0 = fa.iota %i : tensor<4xi32>
  return
}

// -----

func.func @f(%m: memref<?xf32>, %i: tensor<8xindex>) {
  // expected-error@+1 {{expected indexes of type index or a tile of index of the shape of 'tensor<4xf32>', got 'tensor<8xindex>'}}
  %0 = fa.gather %m[%i] : memref<?xf32>, (tensor<8xindex>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%m: memref<?xf32>, %t: tensor<4xf32>, %i: index) {
  // expected-error@+1 {{expected mode plain or atomic, got ordered}}
  fa.scatter_add ordered %t, %m[%i] : tensor<4xf32>, memref<?xf32>, (index)
  return
}

// -----

func.func @f(%n: index) {
  // expected-error@+1 {{expected one bound per step, 2, got 1}}
  "fa.nest"(%n) <{steps = array<i64: 1, 1>, num_parallel = 1 : i64}> ({
  ^bb0(%i: index, %j: index):
    %c = arith.constant 0 : index
  }) : (index) -> ()
  return
}

// -----

func.func @f(%n: index) {
  // expected-error@+1 {{expected num_parallel of at most 1, got 2}}
  "fa.nest"(%n) <{steps = array<i64: 1>, num_parallel = 2 : i64}> ({
  ^bb0(%i: index):
    %c = arith.constant 0 : index
  }) : (index) -> ()
  return
}

// -----

func.func @f(%n: index) {
  // expected-error@+1 {{expected block arguments of type index, got 'i32'}}
  "fa.nest"(%n) <{steps = array<i64: 1>, num_parallel = 1 : i64}> ({
  ^bb0(%i: i32):
    %c = arith.constant 0 : index
  }) : (index) -> ()
  return
}

// -----

// expected-error@+1 {{expected both block_m and block_n in #fa.schedule}}
func.func private @f() attributes {fa.schedule = #fa.schedule<block_m = 64>}
