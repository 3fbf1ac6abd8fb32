// Index arithmetic of a mask that wraps in 64 bits, as a hash does: bounds
// can't be solved for, and every tile is looked at.
// RUN: fa-run %s --variant hash --heads 2 --seqlen-q 150 --seqlen-k 170 --head-dim 4 --backward --verify
// RUN: fa-run %s --variant product --heads 1 --seqlen-q 50 --seqlen-k 70 --head-dim 4 --block-m 16 --block-n 16 --backward --verify
// RUN: fa-run %s --variant sum --heads 1 --seqlen-q 50 --seqlen-k 70 --head-dim 4 --block-m 16 --block-n 16 --backward --verify

fa.variant @hash
mask (%b: index, %h: index, %i: index, %j: index) {
  %c = arith.constant -7046029254386353131 : index
  %t = arith.constant 4611686018427387904 : index
  %x = arith.addi %i, %j : index
  %y = arith.muli %x, %c : index
  %p = arith.cmpi ugt, %y, %t : index
  fa.yield %p : i1
}

fa.variant @product
mask (%b: index, %h: index, %i: index, %j: index) {
  %c = arith.constant 4611686018427387904 : index
  %x = arith.muli %i, %c : index
  %p = arith.cmpi uge, %x, %j : index
  fa.yield %p : i1
}

fa.variant @sum
mask (%b: index, %h: index, %i: index, %j: index) {
  %c = arith.constant 9223372036854775807 : index
  %d = arith.subi %j, %i : index
  %x = arith.addi %d, %c : index
  %p = arith.cmpi slt, %x, %i : index
  fa.yield %p : i1
}
