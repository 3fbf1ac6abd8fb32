// CHECK-LABEL: @twice
// CHECK-NEXT: return %arg0
func.func @twice(%t: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = fa.transpose %t : tensor<4x8xf32> -> tensor<8x4xf32>
  %1 = fa.transpose %0 : tensor<8x4xf32> -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// CHECK-LABEL: @itself
func.func @itself() {
  return
^unreachable:
  %0 = fa.transpose %1 : tensor<4x4xf32> -> tensor<4x4xf32>
  %1 = fa.transpose %0 : tensor<4x4xf32> -> tensor<4x4xf32>
  %2 = fa.transpose %2 : tensor<4x4xf32> -> tensor<4x4xf32>
  return
}
