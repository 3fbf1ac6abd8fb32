// Ops that a score may use and few variants do, forward and backward on the
// CPU against the reference: calls of the C library on vectors, choices, 16-bit
// and 64-bit floats, integer arithmetic.
// RUN: fa-run %s --variant libm --heads 2 --seqlen-q 20 --seqlen-k 40 --head-dim 8 --backward --verify --capture t=random:2
// RUN: fa-run %s --variant choices --heads 2 --seqlen-q 20 --seqlen-k 40 --head-dim 8 --backward --verify --capture t=random:2
// RUN: fa-run %s --variant narrow --heads 2 --seqlen-q 20 --seqlen-k 40 --head-dim 8 --backward --verify --capture t=random:2
// RUN: fa-run %s --variant narrow --dtype f64 --heads 2 --seqlen-q 20 --seqlen-k 40 --head-dim 8 --backward --capture t=random:2
// RUN: fa-run %s --variant integers --heads 2 --seqlen-q 20 --seqlen-k 40 --head-dim 8 --backward --verify --capture t=random:2

fa.variant @libm(%t: tensor<?xf32>)
score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
  %half = arith.constant 0.5 : f32
  %three = arith.constant 3.0 : f32
  %c = tensor.extract %t[%h] : tensor<?xf32>
  %x = math.sin %s : f32
  %small = arith.mulf %x, %half : f32
  %big = arith.addf %x, %three : f32
  %0 = math.asinh %small : f32
  %1 = math.acosh %big : f32
  %2 = math.atanh %small : f32
  %3 = math.cbrt %big : f32
  %4 = math.erf %c : f32
  %5 = math.erfc %small : f32
  %6 = math.atan2 %small, %big : f32
  %7 = math.powf %big, %c : f32
  %8 = math.sinh %c : f32
  %9 = math.asin %small : f32
  %10 = math.acos %small : f32
  %11 = math.log10 %big : f32
  %12 = math.expm1 %small : f32
  %a0 = arith.mulf %0, %1 : f32
  %a1 = arith.mulf %2, %3 : f32
  %a2 = arith.mulf %4, %5 : f32
  %a3 = arith.mulf %6, %7 : f32
  %a4 = arith.mulf %8, %9 : f32
  %a5 = arith.mulf %10, %11 : f32
  %b0 = arith.addf %a0, %a1 : f32
  %b1 = arith.addf %a2, %a3 : f32
  %b2 = arith.addf %a4, %a5 : f32
  %c0 = arith.addf %b0, %b1 : f32
  %c1 = arith.addf %b2, %12 : f32
  %d0 = arith.addf %c0, %c1 : f32
  fa.yield %d0 : f32
}

fa.variant @choices(%t: tensor<?xf32>)
score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
  %one = arith.constant 1.0 : f32
  %zero = arith.constant 0.0 : f32
  %c = tensor.extract %t[%h] : tensor<?xf32>
  %0 = arith.maximumf %s, %c : f32
  %1 = arith.minnumf %0, %one : f32
  %log = math.log %s : f32
  %positive = arith.cmpf ogt, %s, %one : f32
  %2 = arith.select %positive, %log, %zero : f32
  %3 = math.absf %s : f32
  %4 = math.copysign %3, %c : f32
  %5 = arith.remf %s, %one : f32
  %6 = arith.addf %1, %2 : f32
  %7 = arith.addf %4, %5 : f32
  %8 = arith.addf %6, %7 : f32
  fa.yield %8 : f32
}

fa.variant @narrow(%t: tensor<?xf32>)
score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
  %c = tensor.extract %t[%h] : tensor<?xf32>
  %cb = arith.truncf %c : f32 to bf16
  %ch = arith.truncf %c : f32 to f16
  %h0 = arith.mulf %ch, %ch : f16
  %h1 = arith.extf %h0 : f16 to f32
  %cw = arith.extf %cb : bf16 to f32
  %wide = arith.extf %s : f32 to f64
  %sin = math.sin %wide : f64
  %back = arith.truncf %sin : f64 to f32
  %0 = arith.mulf %s, %cw : f32
  %1 = arith.addf %0, %back : f32
  %2 = arith.addf %1, %h1 : f32
  fa.yield %2 : f32
}

fa.variant @integers(%t: tensor<?xf32>)
score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
  %zero = arith.constant 0 : index
  %three = arith.constant 3 : index
  %scale = arith.constant 0.05 : f32
  %heads = tensor.dim %t, %zero : tensor<?xf32>
  %0 = arith.subi %i, %j : index
  %1 = arith.floordivsi %0, %three : index
  %2 = arith.remsi %j, %three : index
  %3 = arith.shli %2, %heads : index
  %4 = arith.xori %1, %3 : index
  %5 = arith.maxsi %4, %zero : index
  %n = arith.index_cast %5 : index to i64
  %f = arith.sitofp %n : i64 to f32
  %e = arith.index_cast %2 : index to i32
  %power = math.fpowi %s, %e : f32, i32
  %6 = arith.mulf %f, %scale : f32
  %7 = arith.mulf %power, %scale : f32
  %8 = arith.addf %s, %6 : f32
  %9 = arith.addf %8, %7 : f32
  fa.yield %9 : f32
}
mask (%b: index, %h: index, %i: index, %j: index) {
  %two = arith.constant 2 : index
  %three = arith.constant 3 : index
  %0 = arith.addi %j, %h : index
  %1 = arith.remui %0, %three : index
  %2 = arith.cmpi ne, %1, %two : index
  fa.yield %2 : i1
}
