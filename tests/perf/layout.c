/* Prints how the structs of runtime/fathom_c.h lie in memory, as bench.py --self-test reads it:
   struct, field, offset, size. */

#include "fathom_c.h"

#include <stdio.h>

#define FIELD(type, field)                                                     \
  printf("%s %s %zu %zu\n", #type, #field, offsetof(type, field),              \
         sizeof(((type *)0)->field))
#define WHOLE(type) printf("%s . 0 %zu\n", #type, sizeof(type))

int main(void) {
  WHOLE(DLTensor);
  FIELD(DLTensor, data);
  FIELD(DLTensor, device);
  FIELD(DLTensor, ndim);
  FIELD(DLTensor, dtype);
  FIELD(DLTensor, shape);
  FIELD(DLTensor, strides);
  FIELD(DLTensor, byte_offset);
  WHOLE(fathom_options);
  FIELD(fathom_options, size);
  FIELD(fathom_options, device);
  FIELD(fathom_options, dtype);
  FIELD(fathom_options, layout);
  FIELD(fathom_options, p_policy);
  FIELD(fathom_options, dq_policy);
  FIELD(fathom_options, head_dim);
  FIELD(fathom_options, head_dim_v);
  FIELD(fathom_options, group);
  FIELD(fathom_options, block_m);
  FIELD(fathom_options, block_n);
  FIELD(fathom_options, dq_splits);
  FIELD(fathom_options, forward_only);
  FIELD(fathom_options, lse_gradient);
  FIELD(fathom_options, deterministic);
  FIELD(fathom_options, kv_splits);
  FIELD(fathom_options, seqlen_q_hint);
  WHOLE(fathom_inputs);
  FIELD(fathom_inputs, size);
  FIELD(fathom_inputs, q);
  FIELD(fathom_inputs, k);
  FIELD(fathom_inputs, v);
  FIELD(fathom_inputs, captures);
  FIELD(fathom_inputs, capture_count);
  FIELD(fathom_inputs, cu_seqlens_q);
  FIELD(fathom_inputs, cu_seqlens_k);
  FIELD(fathom_inputs, max_seqlen_q);
  FIELD(fathom_inputs, max_seqlen_k);
  WHOLE(fathom_call);
  FIELD(fathom_call, size);
  FIELD(fathom_call, stream);
  FIELD(fathom_call, workspace);
  FIELD(fathom_call, workspace_bytes);
  WHOLE(fathom_gradients);
  FIELD(fathom_gradients, size);
  FIELD(fathom_gradients, dq);
  FIELD(fathom_gradients, dk);
  FIELD(fathom_gradients, dv);
  FIELD(fathom_gradients, captures);
  FIELD(fathom_gradients, capture_count);
  return 0;
}
