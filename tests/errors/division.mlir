// Tiles hold rows and keys past the end, where a divisor may be 0. A division
// there does not end the program, nor does one by 0 or of the smallest number.
// RUN: fa-run %s --variant keys_left --heads 1 --seqlen-q 9 --seqlen-k 13 --head-dim 16 --backward --verify
// RUN: fa-run %s --variant by_key --heads 1 --seqlen-q 9 --seqlen-k 13 --head-dim 16 --backward --verify
// RUN: fa-run %s --variant all_kinds --capture n=0 --heads 1 --seqlen-q 9 --seqlen-k 13 --head-dim 16 --backward --verify
// RUN: fa-run %s --variant all_kinds --capture n=-1 --heads 1 --seqlen-q 9 --seqlen-k 13 --head-dim 16 --backward --verify

fa.variant @keys_left
mask (%b: index, %h: index, %i: index, %j: index) {
  %nk = fa.seqlen_k : index
  %c3 = arith.constant 3 : index
  %left = arith.subi %nk, %j : index
  %0 = arith.remsi %i, %left : index
  %1 = arith.cmpi slt, %0, %c3 : index
  fa.yield %1 : i1
}

fa.variant @by_key
mask (%b: index, %h: index, %i: index, %j: index) {
  %c3 = arith.constant 3 : index
  %0 = arith.remsi %i, %j : index
  %1 = arith.cmpi slt, %0, %c3 : index
  fa.yield %1 : i1
}

fa.variant @all_kinds(%n: i32)
score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
  %nk = fa.seqlen_k : index
  %left = arith.subi %nk, %j : index
  %0 = arith.floordivsi %i, %left : index
  %far = arith.subi %i, %j : index
  %1 = arith.ceildivsi %j, %far : index
  %2 = arith.divui %nk, %j : index
  %smallest = arith.constant -2147483648 : i32
  %3 = arith.divsi %smallest, %n : i32
  %c7 = arith.constant 7 : i32
  %4 = arith.andi %3, %c7 : i32
  %5 = arith.index_cast %4 : i32 to index
  %6 = arith.addi %0, %1 : index
  %7 = arith.addi %6, %2 : index
  %8 = arith.addi %7, %5 : index
  %9 = arith.index_cast %8 : index to i64
  %10 = arith.sitofp %9 : i64 to f32
  %11 = math.tanh %10 : f32
  %12 = arith.addf %s, %11 : f32
  fa.yield %12 : f32
}
