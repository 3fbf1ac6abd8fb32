// What a kernel counts is raised by each CTA, and found by a name.
// RUN: fa-opt %s --emit=cuda --target=sm_80 | FileCheck %s

// CHECK: // counts (32 threads, 0 bytes of shared memory)
// CHECK: {{^}}FA_COUNTERS{{$}}
// CHECK-NEXT: FA_KERNEL(32, 1)
// CHECK: fa::tick(fa_counters + 5);
fa_gpu.kernel @counts() num_warps(1) min_blocks(1) alignments([]) {
  fa.tick 5
  fa_gpu.return
}

// CHECK: // counts_not
// CHECK-NOT: {{^}}FA_COUNTERS{{$}}
// CHECK: FA_KERNEL(32, 1)
fa_gpu.kernel @counts_not() num_warps(1) min_blocks(1) alignments([]) {
  fa_gpu.return
}
