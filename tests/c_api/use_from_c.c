/* SPDX-License-Identifier: Apache-2.0 */
/* The C interface from a C program on a machine without a GPU: versions, plans, compiles, and errors with their
 * messages. Launches are tested on the fake driver (tests/unit/c_api_run_test.cc) and on the GPU. */
#include <sluice/c_api.h>
#include <sluice/c_experts.h>
#include <sluice/c_rows.h>
#include <sluice/c_training.h>

#include <stdio.h>
#include <string.h>

static int failures = 0;

#define EXPECT(condition)                                                                       \
  do {                                                                                          \
    if (!(condition)) {                                                                         \
      printf("%s:%d: %s; last message: %s\n", __FILE__, __LINE__, #condition, sluice_error_message()); \
      ++failures;                                                                               \
    }                                                                                           \
  } while (0)

static int mentions(const char* text) {
  return strstr(sluice_error_message(), text) != NULL;
}

static sluice_array matrix(int32_t dtype, const int64_t* shape, const int64_t* strides) {
  sluice_array x = {NULL, dtype, 2, SLUICE_ON_CPU, 0, shape, strides};
  return x;
}

static void versions_agree(void) {
  EXPECT(sluice_c_abi() == SLUICE_C_ABI);
  EXPECT(strchr(sluice_version(), '.') != NULL);
  EXPECT(strcmp(sluice_status_name(SLUICE_NOT_PREPARED), "not_prepared") == 0);
  EXPECT(strcmp(sluice_status_name((sluice_status)99), "?") == 0);
}

static void plans_without_a_gpu(void) {
  sluice_call call = sluice_new_call();
  sluice_plan* plan = NULL;
  sluice_plan* narrow = NULL;
  call.problem.m = 4096, call.problem.n = 4096, call.problem.k = 4096;
  EXPECT(sluice_plan_create(NULL, &call, NULL, &plan) == SLUICE_OK);
  EXPECT(strstr(sluice_plan_text(plan), "4096") != NULL);
  EXPECT(sluice_plan_unit_count(plan) == 1 && sluice_plan_unit(plan, 1) == NULL);
  EXPECT(strstr(sluice_plan_unit(plan, 0), "sluice_entry") != NULL);
  EXPECT(sluice_plan_estimate_us(plan) > 100 && sluice_plan_estimate_us(plan) < 1000);
  EXPECT(sluice_plan_create(NULL, &call, "tile_m=64, tile_n=64, schedule=ping_pong", &narrow) == SLUICE_OK);
  EXPECT(strstr(sluice_plan_config(narrow), "ping_pong") != NULL);
  EXPECT(strcmp(sluice_plan_source(narrow), "model") == 0);
  sluice_plan_free(narrow);
  sluice_plan_free(plan);
  sluice_plan_free(NULL);
}

static void gradients_are_added_to_d(void) {
  sluice_call call = sluice_new_call();
  sluice_plan* plan = NULL;
  call.problem.m = 4096, call.problem.n = 4096, call.problem.k = 4096;
  call.problem.d.type = SLUICE_FP32, call.problem.update = SLUICE_ADD;
  EXPECT(sluice_plan_create(NULL, &call, NULL, &plan) == SLUICE_OK);
  EXPECT(strstr(sluice_plan_config(plan), "Update::add") != NULL);
  sluice_plan_free(plan);
  call.problem.any_order = 1;
  EXPECT(sluice_plan_create(NULL, &call, NULL, &plan) == SLUICE_OK);
  sluice_plan_free(plan);
  call.problem.d.type = SLUICE_BF16;
  EXPECT(sluice_plan_create(NULL, &call, NULL, &plan) == SLUICE_INVALID_TYPE && mentions("fp32"));
}

static void bad_calls_say_what_and_why(void) {
  sluice_call call = sluice_new_call();
  sluice_plan* plan = NULL;
  call.problem.m = -1, call.problem.n = 8, call.problem.k = 8;
  EXPECT(sluice_plan_create(NULL, &call, NULL, &plan) == SLUICE_INVALID_SIZE && mentions("-1"));
  call.problem.m = 8, call.problem.a.type = 77;
  EXPECT(sluice_plan_create(NULL, &call, NULL, &plan) == SLUICE_INVALID_ARGUMENT && mentions("77"));
  call.problem.a.type = SLUICE_BF16;
  EXPECT(sluice_check(&call) == SLUICE_OK);
  EXPECT(sluice_plan_create(NULL, &call, "schedule=pong", &plan) == SLUICE_INVALID_ARGUMENT && mentions("ping_pong"));
  EXPECT(sluice_plan_create(NULL, NULL, NULL, &plan) == SLUICE_INVALID_ARGUMENT && mentions("call is NULL"));
  EXPECT(plan == NULL);
}

static void arrays_become_problems(void) {
  const int64_t a_shape[] = {64, 256}, b_shape[] = {256, 512}, d_shape[] = {64, 512}, wrong[] = {64, 500};
  const int64_t column_major[] = {1, 256};
  const sluice_array a = matrix(SLUICE_E4M3, a_shape, NULL), b = matrix(SLUICE_E4M3, b_shape, column_major);
  const sluice_array row_major_b = matrix(SLUICE_E4M3, b_shape, NULL);
  const sluice_array shapeless = matrix(SLUICE_BF16, NULL, NULL);
  const sluice_array d = matrix(SLUICE_BF16, d_shape, NULL), bad_d = matrix(SLUICE_BF16, wrong, NULL);
  sluice_call call = sluice_new_call();
  call.operands[SLUICE_A] = &a, call.operands[SLUICE_B] = &b, call.operands[SLUICE_D] = &d;
  EXPECT(sluice_describe(&call) == SLUICE_OK);
  EXPECT(call.problem.m == 64 && call.problem.n == 512 && call.problem.k == 256 && call.problem.b.major == SLUICE_K_MAJOR);
  call.operands[SLUICE_B] = &row_major_b;
  EXPECT(sluice_describe(&call) == SLUICE_INVALID_STRIDE && mentions("b.t().contiguous().t()"));
  call.operands[SLUICE_B] = &b, call.problem.accumulate = 2;
  EXPECT(sluice_describe(&call) == SLUICE_INVALID_ARGUMENT && mentions("accumulate = 2 must be in 0..1"));
  call.problem.accumulate = 0, call.operands[SLUICE_D] = &shapeless;
  EXPECT(sluice_describe(&call) == SLUICE_INVALID_ARGUMENT && mentions("d has no shape"));
  call.operands[SLUICE_D] = &bad_d;
  EXPECT(sluice_describe(&call) == SLUICE_INVALID_SIZE && mentions("(64, 500)") && mentions("(64, 512)"));
  call.operands[SLUICE_D] = NULL;
  EXPECT(sluice_describe(&call) == SLUICE_INVALID_ARGUMENT && mentions("d is missing"));
  call.bytes = 8;
  EXPECT(sluice_describe(&call) == SLUICE_INVALID_ARGUMENT && mentions("sluice_new_call()"));
}

static sluice_array image(int32_t dtype, const int64_t* shape, const int64_t* strides) {
  sluice_array x = {NULL, dtype, 4, SLUICE_ON_CPU, 0, shape, strides};
  return x;
}

static void convolutions_become_problems_and_plans(void) {
  const int64_t x_shape[] = {2, 64, 14, 14}, w_shape[] = {128, 64, 3, 3}, y_shape[] = {2, 128, 14, 14};
  const int64_t x_strides[] = {64 * 196, 1, 64 * 14, 64}, w_strides[] = {64 * 9, 1, 64 * 3, 64};
  const int64_t y_strides[] = {128 * 196, 1, 128 * 14, 128};
  const sluice_array x = image(SLUICE_BF16, x_shape, x_strides), w = image(SLUICE_BF16, w_shape, w_strides);
  const sluice_array y = image(SLUICE_BF16, y_shape, y_strides), nchw = image(SLUICE_BF16, x_shape, NULL);
  const sluice_array* of[4][3] = {{0}, {&x, &w, &y}, {&y, &w, &x}, {&y, &x, &w}};
  sluice_call call = sluice_new_call();
  sluice_plan* plan = NULL;
  int32_t op;
  call.problem.conv.spatial = 2, call.problem.conv.padding[0] = call.problem.conv.padding[1] = 1;
  for (op = SLUICE_FPROP; op <= SLUICE_WGRAD; ++op) {
    const sluice_conv* conv = &call.problem.conv;
    call.problem.conv.op = op;
    call.operands[SLUICE_A] = of[op][0], call.operands[SLUICE_B] = of[op][1], call.operands[SLUICE_D] = of[op][2];
    EXPECT(sluice_describe(&call) == SLUICE_OK && conv->op == op);
    EXPECT(conv->channels == 64 && conv->filters == 128 && conv->padding_after[1] == 1);
    EXPECT(sluice_plan_create(NULL, &call, NULL, &plan) == SLUICE_OK);
    EXPECT(sluice_plan_unit_count(plan) >= 1);
    sluice_plan_free(plan);
  }
  call.problem.conv.op = SLUICE_FPROP;
  call.operands[SLUICE_A] = &nchw, call.operands[SLUICE_B] = &w, call.operands[SLUICE_D] = &y;
  EXPECT(sluice_describe(&call) == SLUICE_INVALID_STRIDE && mentions("those of NCHW"));
  EXPECT(sluice_run(NULL, &call, NULL) == SLUICE_INVALID_ARGUMENT && mentions("device"));
}

static void weights_are_packed_and_planned_without_a_gpu(void) {
  const sluice_weight_format format = {SLUICE_INT8, 0, SLUICE_FP32, 0, SLUICE_ORDER_HALF};
  const int64_t n_k[] = {2, 8}, n_1[] = {2, 1};
  uint8_t codes[16], again[16] = {0}, bytes[8192 + 256];
  float scales[2] = {0.5f, 2.0f}, scales_again[2] = {0};
  sluice_packed_numbers numbers;
  sluice_call call = sluice_new_call();
  sluice_plan* plan = NULL;
  int64_t size = 0;
  int i;
  for (i = 0; i < 16; ++i) codes[i] = (uint8_t)(100 + i);
  EXPECT(sluice_packed_numbers_of(&format, 2, 8, &numbers) == SLUICE_OK);
  EXPECT(numbers.blob_bytes == sizeof bytes && numbers.groups == 1 && numbers.row_part_bytes == 256);
  size = numbers.blob_bytes;
  {
    sluice_array c = {codes, SLUICE_BYTE, 2, SLUICE_ON_CPU, 0, n_k, NULL};
    sluice_array s = {scales, SLUICE_FP32, 2, SLUICE_ON_CPU, 0, n_1, NULL};
    sluice_array b = {bytes, SLUICE_BYTE, 1, SLUICE_ON_CPU, 0, &size, NULL};
    sluice_packing what;
    memset(&what, 0, sizeof what);
    what.format = format, what.codes = &c, what.scales = &s, what.blob = &b;
    EXPECT(sluice_pack_on_host(&what) == SLUICE_OK);
    c.data = again, s.data = scales_again;
    EXPECT(sluice_unpack_on_host(&what) == SLUICE_OK);
    EXPECT(memcmp(codes, again, sizeof codes) == 0 && scales_again[1] == 2.0f);
    size -= 1;
    EXPECT(sluice_pack_on_host(&what) == SLUICE_INVALID_SIZE && mentions("blob has shape (8447,)"));
  }
  call.problem.m = 16, call.problem.n = 4096, call.problem.k = 4096, call.problem.packed = format;
  call.problem.a.type = SLUICE_FP16, call.problem.d.type = SLUICE_FP32;
  EXPECT(sluice_plan_create(NULL, &call, NULL, &plan) == SLUICE_OK);
  EXPECT(strstr(sluice_plan_text(plan), "int8") != NULL && sluice_plan_unit_count(plan) == 1);
  sluice_plan_free(plan);
  call.problem.scale_a = SLUICE_SCALE_VECTOR;
  EXPECT(sluice_plan_create(NULL, &call, NULL, &plan) == SLUICE_INVALID_TYPE && mentions("only e4m3 tokens"));
  call.problem.a.type = SLUICE_E4M3, call.problem.packed.type = SLUICE_UINT4, call.problem.packed.order = SLUICE_ORDER_BYTE;
  EXPECT(sluice_plan_create(NULL, &call, NULL, &plan) == SLUICE_OK);
  EXPECT(strstr(sluice_plan_text(plan), "a scale per token") != NULL);
  sluice_plan_free(plan);
  call.problem.packed.group = 48;
  EXPECT(sluice_plan_create(NULL, &call, NULL, &plan) == SLUICE_INVALID_CONFIG && mentions("32, 64, 128"));
}

static void a_machine_without_a_gpu_says_so(void) {
  sluice_device* device = NULL;
  const sluice_status status = sluice_device_open(0, NULL, &device);
  if (status == SLUICE_OK) { /* there is one */
    sluice_device_close(device);
    return;
  }
  EXPECT(status == SLUICE_DRIVER || status == SLUICE_UNSUPPORTED_ARCH);
  EXPECT(strlen(sluice_error_message()) > 20);
}

static void nothing_is_compiled_into_a_read_only_cache(void) {
  sluice_compiled done = {1, 1, 1};
  sluice_options options = {NULL, NULL, NULL, 1, -1, -1};
  EXPECT(sluice_compile(NULL, 0, &options, &done) == SLUICE_INVALID_ARGUMENT && mentions("read-only"));
  EXPECT(done.compiled == 0 && done.failed == 0);
}

static void a_race_needs_a_gpu_and_a_number(void) {
  sluice_options options = {NULL, NULL, NULL, -1, -1, 17};
  sluice_device* device = NULL;
  sluice_plan* plan = NULL;
  sluice_call call = sluice_new_call();
  call.problem.m = call.problem.n = call.problem.k = 64;
  EXPECT(sluice_race(NULL, &call, 3, &plan) == SLUICE_INVALID_ARGUMENT && mentions("device is NULL"));
  EXPECT(sluice_device_open(0, &options, &device) == SLUICE_INVALID_ARGUMENT && mentions("race = 17 must be in 0..16"));
  options.race = -2;
  EXPECT(sluice_compile(NULL, 0, &options, NULL) == SLUICE_INVALID_ARGUMENT && mentions("race = -2") && mentions("pass 0"));
  EXPECT(plan == NULL && device == NULL);
}

static void null_handles_and_counts_are_refused(void) {
  const sluice_plan* none[] = {NULL};
  sluice_options options = {"/tmp/sluice-no-cache-is-made", NULL, NULL, 0, -1, -1};
  sluice_compiled done;
  EXPECT(sluice_plan_text(NULL) == NULL && sluice_plan_config(NULL) == NULL && sluice_plan_source(NULL) == NULL);
  EXPECT(sluice_plan_unit_count(NULL) == 0 && sluice_plan_unit(NULL, 0) == NULL);
  EXPECT(sluice_plan_workspace_bytes(NULL) == 0 && sluice_plan_estimate_us(NULL) == 0);
  EXPECT(sluice_device_name(NULL) == NULL && sluice_workspace_bytes(NULL) == 0);
  EXPECT(sluice_workspace_verify(NULL) == SLUICE_INVALID_ARGUMENT && mentions("workspace is NULL"));
  EXPECT(sluice_workspace_reset(NULL, NULL) == SLUICE_INVALID_ARGUMENT && mentions("workspace is NULL"));
  EXPECT(sluice_quantize(NULL, NULL, NULL) == SLUICE_INVALID_ARGUMENT && mentions("device is NULL"));
  EXPECT(sluice_norm(NULL, NULL, NULL) == SLUICE_INVALID_ARGUMENT && mentions("device is NULL"));
  EXPECT(sluice_make_norms_ready(NULL, SLUICE_BF16) == SLUICE_INVALID_ARGUMENT && mentions("device is NULL"));
  EXPECT(sluice_compile_norms(SLUICE_FP32, NULL, &done) == SLUICE_INVALID_TYPE && mentions("bf16 or fp16"));
  EXPECT(sluice_route(NULL, NULL, NULL) == SLUICE_INVALID_ARGUMENT && mentions("device is NULL"));
  EXPECT(sluice_gather(NULL, NULL, NULL) == SLUICE_INVALID_ARGUMENT && mentions("device is NULL"));
  EXPECT(sluice_combine(NULL, NULL, NULL) == SLUICE_INVALID_ARGUMENT && mentions("device is NULL"));
  EXPECT(sluice_make_experts_ready(NULL, SLUICE_BF16) == SLUICE_INVALID_ARGUMENT && mentions("device is NULL"));
  EXPECT(sluice_compile_experts(SLUICE_FP32, NULL, &done) == SLUICE_INVALID_TYPE && mentions("bf16 or fp16"));
  EXPECT(sluice_check(NULL) == SLUICE_INVALID_ARGUMENT && mentions("call is NULL"));
  EXPECT(sluice_verify_workspaces(NULL) == SLUICE_INVALID_ARGUMENT && mentions("device is NULL"));
  EXPECT(sluice_reset_workspaces(NULL) == SLUICE_INVALID_ARGUMENT && mentions("device is NULL"));
  EXPECT(sluice_compile(none, 1, &options, &done) == SLUICE_INVALID_ARGUMENT && mentions("plans[0] is NULL"));
  EXPECT(sluice_compile(none, -1, &options, &done) == SLUICE_INVALID_ARGUMENT && mentions("count = -1"));
  sluice_kernel_free(NULL);
  sluice_workspace_free(NULL);
  sluice_device_close(NULL);
}

int main(void) {
  versions_agree();
  plans_without_a_gpu();
  gradients_are_added_to_d();
  bad_calls_say_what_and_why();
  null_handles_and_counts_are_refused();
  a_race_needs_a_gpu_and_a_number();
  arrays_become_problems();
  convolutions_become_problems_and_plans();
  weights_are_packed_and_planned_without_a_gpu();
  a_machine_without_a_gpu_says_so();
  nothing_is_compiled_into_a_read_only_cache();
  printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
