// RUN: split-file %s %t
// RUN: fa-opt %t/one.mlir --fa-specialize="dtype=bf16 head-dim-qk=48 head-dim-v=40 group=4" | FileCheck %t/one.mlir
// RUN: fa-opt %t/one.mlir --fa-specialize | FileCheck %t/one.mlir --check-prefix=DEFAULT
// RUN: fa-opt %t/one.mlir --fa-specialize="dtype=f16 layout=bhsd variant=v" | FileCheck %t/one.mlir --check-prefix=BHSD
// RUN: fa-opt %t/one.mlir --fa-specialize="dtype=f64 layout=packed head-dim-qk=8" | FileCheck %t/one.mlir --check-prefix=F64
// RUN: fa-opt %t/two.mlir --fa-specialize=variant=b | FileCheck %t/two.mlir
// RUN: fa-opt %t/instance.mlir --fa-specialize | FileCheck %t/instance.mlir
//
// RUN: not fa-opt %t/two.mlir --fa-specialize 2>&1 | FileCheck %s --check-prefix=SEVERAL
// RUN: not fa-opt %t/two.mlir --fa-specialize=variant=c 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not fa-opt %t/instance.mlir --fa-specialize=variant=c 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not fa-opt %t/one.mlir --fa-specialize=dtype=i8 2>&1 | FileCheck %s --check-prefix=DTYPE
// RUN: not fa-opt %t/one.mlir --fa-specialize=layout=sbhd 2>&1 | FileCheck %s --check-prefix=LAYOUT
// RUN: not fa-opt %t/one.mlir --fa-specialize=head-dim-qk=513 2>&1 | FileCheck %s --check-prefix=QK
// RUN: not fa-opt %t/one.mlir --fa-specialize=head-dim-qk=0 2>&1 | FileCheck %s --check-prefix=QK0
// RUN: not fa-opt %t/one.mlir --fa-specialize=head-dim-v=-1 2>&1 | FileCheck %s --check-prefix=DV
// RUN: not fa-opt %t/one.mlir --fa-specialize=group=0 2>&1 | FileCheck %s --check-prefix=GROUP
// RUN: fa-opt %t/bits.mlir --fa-specialize=dtype=f32 | FileCheck %t/bits.mlir
// RUN: not fa-opt %t/bits.mlir --fa-specialize=dtype=f64 2>&1 | FileCheck %s --check-prefix=BITS
//
// SEVERAL: error: expected option variant=NAME, as the module has several: a, b
// NAME: error: expected option variant to be one of [a, b], got 'c'
// NONE: error: expected option variant to be empty, as the module has no fa.variant, got 'c'
// DTYPE: error: expected option dtype to be one of [f64, f32, bf16, f16], got 'i8'
// LAYOUT: error: expected option layout to be one of [bshd, bhsd, packed], got 'sbhd'
// QK: error: expected option head-dim-qk from 1 to 512, got 513
// QK0: error: expected option head-dim-qk from 1 to 512, got 0
// DV: error: expected option head-dim-v from 1 to 512, got -1
// GROUP: error: expected option group of at least 1, got 0
// BITS: bits.mlir:5:8: error: 'arith.bitcast' op expected an op that means the same on 'f64'; a bit pattern of f32 has no such form

//--- one.mlir
// CHECK-NOT: fa.variant
// CHECK: func.func @v(%arg0: tensor<?x?x?x48xbf16>, %arg1: tensor<?x?x?x48xbf16>, %arg2: tensor<?x?x?x40xbf16>, %arg3: tensor<?xf32>, %arg4: f32, %arg5: tensor<?x?xbf16>) -> (tensor<?x?x?x40xbf16>, tensor<?x?x?xf32>)
// CHECK-SAME: attributes {fa.schedule = #fa.schedule<block_m = 64
// CHECK: fa.attention (%arg0, %arg1, %arg2) layout(bshd) group(4) captures(%slopes = %arg3 : tensor<?xf32>, %cap = %arg4 : f32, %bias = %arg5 : tensor<?x?xbf16>) causal window(left = 4095) softcap(%cap) alibi(%slopes)
// CHECK: score (%s: f32,
// CHECK: mask (
// CHECK: return %0#0, %0#1

// DEFAULT: func.func @v(%arg0: tensor<?x?x?x64xf32>, %arg1: tensor<?x?x?x64xf32>, %arg2: tensor<?x?x?x64xf32>, {{.*}}) -> (tensor<?x?x?x64xf32>, tensor<?x?x?xf32>)
// DEFAULT: layout(bshd) group(1)

// BHSD: func.func @v(%arg0: tensor<?x?x?x64xf16>
// BHSD: layout(bhsd) group(1)

// Every f32 becomes f64; what f32 and f64 casts do is then nothing.
// F64: func.func @v(%arg0: tensor<?x?x8xf64>, %arg1: tensor<?x?x8xf64>, %arg2: tensor<?x?x8xf64>, %arg3: tensor<?xi32>, %arg4: tensor<?xi32>, %arg5: index, %arg6: index, %arg7: tensor<?xf64>, %arg8: f64, %arg9: tensor<?x?xbf16>) -> (tensor<?x?x8xf64>, tensor<?x?xf64>)
// F64: layout(packed) group(1) captures({{.*}}) packing(%arg3, %arg4, %arg5, %arg6)
// F64: score (%s: f64, %b
// F64-NEXT: %[[C:.*]] = arith.constant 2.500000e-01 : f64
// F64-NEXT: %[[D:.*]] = fa.distance %i, %j : f64
// F64-NEXT: %[[M:.*]] = arith.mulf %[[D]], %[[C]] : f64
// F64-NEXT: %[[E:.*]] = math.exp %[[M]] : f64
// F64-NEXT: %[[T:.*]] = tensor.extract %bias[%i, %j] : tensor<?x?xbf16>
// F64-NEXT: %[[X:.*]] = arith.extf %[[T]] : bf16 to f64
// F64-NEXT: arith.addf %[[E]], %[[X]] : f64
// F64: mask
// F64: arith.sitofp %{{.*}} : i64 to f64
// F64-NEXT: arith.cmpf olt, %{{.*}}, %cap : f64
fa.variant @v(%slopes: tensor<?xf32>, %cap: f32, %bias: tensor<?x?xbf16>) causal
  window(left = 4095) softcap(%cap) alibi(%slopes)
  attributes {fa.schedule = #fa.schedule<block_m = 64, block_n = 32, origin = "text">}
score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
  %c = arith.constant 0.25 : f32
  %d = fa.distance %i, %j : f32
  %m = arith.mulf %d, %c : f32
  %w = arith.extf %m : f32 to f64
  %e = math.exp %w : f64
  %n = arith.truncf %e : f64 to f32
  %t = tensor.extract %bias[%i, %j] : tensor<?x?xbf16>
  %x = arith.extf %t : bf16 to f32
  %r = arith.addf %n, %x : f32
  %0 = arith.addf %r, %s : f32
  fa.yield %0 : f32
}
mask (%b: index, %h: index, %i: index, %j: index) {
  %n = arith.index_cast %j : index to i64
  %f = arith.sitofp %n : i64 to f32
  %0 = arith.cmpf olt, %f, %cap : f32
  fa.yield %0 : i1
}

//--- two.mlir
// CHECK-NOT: fa.variant
// CHECK: func.func @b(
// CHECK: window(right = 3)
// CHECK-NOT: func.func @a
fa.variant @a() causal
fa.variant @b() window(right = 3)

//--- instance.mlir
// A function written by hand stays as it is.
// CHECK: func.func @f(
// CHECK: fa.attention
func.func @f(%q: tensor<?x?x?x8xf32>) -> (tensor<?x?x?x8xf32>, tensor<?x?x?xf32>) {
  %o, %l = fa.attention (%q, %q, %q) layout(bshd) group(1)
    : (tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>)
      -> (tensor<?x?x?x8xf32>, tensor<?x?x?xf32>)
  return %o, %l : tensor<?x?x?x8xf32>, tensor<?x?x?xf32>
}

//--- bits.mlir
// CHECK: arith.bitcast %s : f32 to i32
fa.variant @v()
score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
  %m = arith.constant 0x7fffff00 : i32
  %0 = arith.bitcast %s : f32 to i32
  %1 = arith.andi %0, %m : i32
  %2 = arith.bitcast %1 : i32 to f32
  fa.yield %2 : f32
}
