//===- CApiTest.c - the C interface from C ----------------------------------===//
//
// C99, the public header alone. Queries of zeros see all keys alike, so every
// result is known: o is the mean of v, lse the logarithm of the number of keys,
// dv sums do over the queries, dk is zero.
//
//===----------------------------------------------------------------------===//

#include "fathom_c.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static int failures = 0;

#define EXPECT(condition)                                                      \
  do {                                                                         \
    if (!(condition)) {                                                        \
      printf("%s:%d: expected %s; message: %s\n", __FILE__, __LINE__,          \
             #condition, fathom_message());                                    \
      ++failures;                                                              \
    }                                                                          \
  } while (0)

/// A call that fails with `code` and says `words`.
#define EXPECT_SAYS(call, code, words)                                         \
  do {                                                                         \
    EXPECT((call) == (code));                                                  \
    EXPECT(strstr(fathom_message(), words) != NULL);                           \
  } while (0)

enum { SQ = 8, SK = 16, HEADS = 2, DIM = 16 };

static DLTensor tensor(void *data, int64_t *shape, int32_t rank) {
  DLTensor t;
  memset(&t, 0, sizeof(t));
  t.data = data;
  t.device.device_type = kDLCPU;
  t.ndim = rank;
  t.dtype.code = kDLFloat;
  t.dtype.bits = 32;
  t.dtype.lanes = 1;
  t.shape = shape;
  return t;
}

static float q[SQ * HEADS * DIM], k[SK * HEADS * DIM], v[SK * HEADS * DIM];
static float o[SQ * HEADS * DIM], lse[HEADS * SQ], d_o[SQ * HEADS * DIM];
static float dq[SQ * HEADS * DIM], dk[SK * HEADS * DIM], dv[SK * HEADS * DIM];
static float cap = 2, d_cap = 99;

static const char text[] =
    "fa.variant @scaled(%c: f32)\n"
    "score (%s: f32, %b: index, %h: index, %i: index, %j: index) {\n"
    "  %0 = arith.mulf %s, %c : f32\n"
    "  fa.yield %0 : f32\n"
    "}\n"
    "fa.variant @full\n";

static void errors(void) {
  fathom_variant *variant = (fathom_variant *)text;
  fathom_kernel *kernel = NULL;
  EXPECT_SAYS(fathom_variant_parse("module {", NULL, &variant),
              FATHOM_INVALID_ARGUMENT, "<text>:1:");
  EXPECT(variant == NULL);
  EXPECT_SAYS(fathom_variant_parse(text, NULL, &variant),
              FATHOM_INVALID_ARGUMENT, "expected one fa.variant, got 2");
  EXPECT_SAYS(fathom_variant_load("/nonexistent", NULL, &variant),
              FATHOM_IO_ERROR, "No such file");
  EXPECT_SAYS(fathom_variant_parse(NULL, NULL, &variant),
              FATHOM_INVALID_ARGUMENT, "expected a fa.variant");
  EXPECT_SAYS(fathom_compile(NULL, NULL, &kernel), FATHOM_INVALID_ARGUMENT,
              "'variant'");
  EXPECT(fathom_variant_parse(text, "full", &variant) == FATHOM_OK);
  fathom_options options;
  FATHOM_INIT(options);
  options.dtype = "f8";
  EXPECT_SAYS(fathom_compile(variant, &options, &kernel),
              FATHOM_INVALID_ARGUMENT, "f64, f32, bf16, f16, got 'f8'");
  options.dtype = NULL;
  options.device = "tpu";
  EXPECT_SAYS(fathom_compile(variant, &options, &kernel),
              FATHOM_INVALID_ARGUMENT,
              "expected cpu, cuda or cuda:N, got 'tpu'");
  EXPECT(kernel == NULL);
  EXPECT_SAYS(fathom_forward(NULL, NULL, NULL, NULL, NULL, NULL),
              FATHOM_INVALID_ARGUMENT, "'kernel'");
  fathom_variant_free(variant);
  fathom_variant_free(NULL);
  fathom_kernel_free(NULL);
  fathom_saved_free(NULL);
}

static void run(void) {
  int64_t q_shape[] = {1, SQ, HEADS, DIM}, k_shape[] = {1, SK, HEADS, DIM};
  int64_t lse_shape[] = {1, HEADS, SQ};
  DLTensor tq = tensor(q, q_shape, 4), tk = tensor(k, k_shape, 4);
  DLTensor tv = tensor(v, k_shape, 4), to = tensor(o, q_shape, 4);
  DLTensor tlse = tensor(lse, lse_shape, 3), tdo = tensor(d_o, q_shape, 4);
  DLTensor tdq = tensor(dq, q_shape, 4), tdk = tensor(dk, k_shape, 4);
  DLTensor tdv = tensor(dv, k_shape, 4);
  DLTensor tcap = tensor(&cap, NULL, 0), tdcap = tensor(&d_cap, NULL, 0);
  for (int n = 0; n < SK * HEADS * DIM; ++n) {
    k[n] = (float)(n % 7);
    v[n] = (float)(n / (HEADS * DIM)); // the key's number
  }
  for (int n = 0; n < SQ * HEADS * DIM; ++n)
    d_o[n] = 1;

  fathom_variant *variant = NULL;
  EXPECT(fathom_variant_parse(text, "scaled", &variant) == FATHOM_OK);
  EXPECT(strcmp(fathom_variant_name(variant), "scaled") == 0);
  EXPECT(fathom_variant_capture_count(variant) == 1);
  EXPECT(strcmp(fathom_variant_capture(variant, 0), "c") == 0);
  EXPECT(fathom_variant_capture(variant, 1) == NULL);
  fathom_options options;
  FATHOM_INIT(options);
  options.head_dim = DIM;
  fathom_kernel *kernel = NULL;
  EXPECT(fathom_compile(variant, &options, &kernel) == FATHOM_OK);
  fathom_variant_free(variant); // the kernel lives on
  if (!kernel)
    return;

  const DLTensor *captures[] = {&tcap}, *d_captures[] = {&tdcap};
  fathom_inputs inputs;
  FATHOM_INIT(inputs);
  inputs.q = &tq;
  inputs.k = &tk;
  inputs.v = &tv;
  fathom_saved *saved = NULL;
  EXPECT_SAYS(fathom_forward(kernel, &inputs, &to, &tlse, NULL, &saved),
              FATHOM_INVALID_ARGUMENT, "captured operand 'c'");
  inputs.captures = captures;
  inputs.capture_count = 1;
  EXPECT_SAYS(fathom_forward(kernel, &inputs, NULL, &tlse, NULL, &saved),
              FATHOM_INVALID_ARGUMENT, "allocates no outputs");
  fathom_call call;
  FATHOM_INIT(call);
  EXPECT(fathom_forward(kernel, &inputs, &to, &tlse, &call, &saved) ==
         FATHOM_OK);
  EXPECT(saved != NULL);
  for (int n = 0; n < SQ * HEADS * DIM; ++n)
    EXPECT(fabsf(o[n] - (SK - 1) / 2.0f) < 1e-4f);
  for (int n = 0; n < HEADS * SQ; ++n)
    EXPECT(fabsf(lse[n] - logf(SK)) < 1e-5f);

  fathom_gradients gradients;
  FATHOM_INIT(gradients);
  EXPECT_SAYS(fathom_backward(kernel, saved, &tdo, NULL, &gradients, NULL),
              FATHOM_INVALID_ARGUMENT, "allocates no outputs");
  gradients.dq = &tdq;
  gradients.dk = &tdk;
  gradients.dv = &tdv;
  EXPECT_SAYS(fathom_backward(kernel, NULL, &tdo, NULL, &gradients, NULL),
              FATHOM_INVALID_ARGUMENT, "what forward saved");
  EXPECT_SAYS(fathom_backward(kernel, saved, NULL, NULL, &gradients, NULL),
              FATHOM_INVALID_ARGUMENT, "'do' is missing");
  EXPECT(fathom_backward(kernel, saved, &tdo, NULL, &gradients, NULL) ==
         FATHOM_OK);
  gradients.captures = d_captures;
  gradients.capture_count = 1;
  EXPECT(fathom_backward(kernel, saved, &tdo, NULL, &gradients, NULL) ==
         FATHOM_OK);
  for (int n = 0; n < SK * HEADS * DIM; ++n) {
    EXPECT(fabsf(dv[n] - (float)SQ / SK) < 1e-5f);
    EXPECT(fabsf(dk[n]) < 1e-4f); // dS times q = 0
  }
  EXPECT(fabsf(d_cap) < 1e-3f); // dS times S = 0
  fathom_saved_free(saved);

  int64_t bytes[2] = {7, 7};
  EXPECT(fathom_workspace(kernel, &inputs, &bytes[0], &bytes[1]) == FATHOM_OK);
  EXPECT(bytes[0] == 0 && bytes[1] == 0);
  fathom_shape shape;
  FATHOM_INIT(shape);
  shape.batch = 1;
  shape.heads = HEADS;
  shape.seqlen_q = SQ;
  shape.seqlen_k = SK;
  fathom_estimate_info estimate;
  FATHOM_INIT(estimate);
  EXPECT(fathom_estimate(kernel, &shape, &estimate) == FATHOM_OK);
  EXPECT(estimate.inputs == (int64_t)(sizeof(q) + sizeof(k) + sizeof(v)));
  EXPECT(estimate.outputs == (int64_t)(sizeof(o) + sizeof(lse)));
  // A caller that knows fewer fields gets only those.
  estimate.size = offsetof(fathom_estimate_info, outputs);
  estimate.outputs = 1234;
  EXPECT(fathom_estimate(kernel, &shape, &estimate) == FATHOM_OK);
  EXPECT(estimate.outputs == 1234);

  // Two parts that are one and the same: o as before, lse higher by log 2.
  static float merged_o[SQ * HEADS * DIM], merged_lse[HEADS * SQ];
  DLTensor mo = tensor(merged_o, q_shape, 4),
           ml = tensor(merged_lse, lse_shape, 3);
  const DLTensor *os[] = {&to, &to}, *ls[] = {&tlse, &tlse};
  EXPECT(fathom_merge(os, ls, 2, NULL, &mo, &ml, NULL) == FATHOM_OK);
  EXPECT(fabsf(merged_o[3] - o[3]) < 1e-5f);
  EXPECT(fabsf(merged_lse[3] - lse[3] - logf(2)) < 1e-5f);
  EXPECT_SAYS(fathom_merge(os, ls, 0, NULL, &mo, &ml, NULL),
              FATHOM_INVALID_ARGUMENT, "at least one part");
  fathom_kernel_free(kernel);
}

static void devices(void) {
  EXPECT(fathom_c_version() == FATHOM_C_VERSION);
  EXPECT(fathom_device_count() >= 1);
  fathom_device_info info;
  FATHOM_INIT(info);
  EXPECT(fathom_device(0, &info) == FATHOM_OK);
  EXPECT(strcmp(info.device, "cpu") == 0 && strcmp(info.target, "cpu") == 0);
  EXPECT(fathom_device_count() > 1 || strlen(fathom_device_note()) > 0);
  EXPECT_SAYS(fathom_device(1000, &info), FATHOM_INVALID_ARGUMENT, "index");
  int64_t shape[] = {3}, other[] = {4}, step[] = {2};
  float from[3] = {1, 2, 3}, to[4] = {0, 0, 0, 0};
  DLTensor tf = tensor(from, shape, 1), tt = tensor(to, shape, 1);
  EXPECT(fathom_copy(&tf, &tt, NULL) == FATHOM_OK);
  EXPECT(to[0] == 1 && to[2] == 3 && to[3] == 0);
  tt.shape = other;
  EXPECT_SAYS(fathom_copy(&tf, &tt, NULL), FATHOM_INVALID_ARGUMENT,
              "operand 'to': expected f32[3] like 'from', got f32[4]");
  tt.shape = shape;
  tf.strides = step;
  EXPECT_SAYS(fathom_copy(&tf, &tt, NULL), FATHOM_INVALID_ARGUMENT,
              "operand 'from': expected a tensor in C order");
  EXPECT_SAYS(fathom_copy(NULL, &tt, NULL), FATHOM_INVALID_ARGUMENT,
              "'from' is missing");
  fathom_cache_info cache;
  FATHOM_INIT(cache);
  EXPECT(fathom_cache(&cache) == FATHOM_OK);
  EXPECT(cache.compiled + cache.disk >= 1);
}

int main(void) {
  errors();
  run();
  devices();
  printf(failures ? "%d failures\n" : "ok\n", failures);
  return failures != 0;
}
