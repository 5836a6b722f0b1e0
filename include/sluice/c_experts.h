/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a mixture of experts in the C interface: sort slots by expert, gather rows, add up the
 * results. include/sluice/experts.h has their rules, docs/experts.md an example. */
#ifndef SLUICE_C_EXPERTS_H
#define SLUICE_C_EXPERTS_H

#include <sluice/c_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ids: the chosen experts, tokens x chosen of int32 or int64, whose rows may have gaps. All else is int32 and
 * has none: a number of ends for each expert, row_of_slot like ids, token_of_row for each row. */
typedef struct {
  const sluice_array *ids, *ends, *row_of_slot, *token_of_row;
  int64_t pitch; /* an expert's first row is a multiple of it; 1: no gaps */
} sluice_routing;
/* Launches the sort of slots by expert, without synchronisation. The first call of this function and of the
 * two below prepares its kernel, but fails with not_prepared if the stream is capturing. */
SLUICE_API sluice_status sluice_route(sluice_device* device, const sluice_routing* what,
                                      sluice_stream stream);
/* Row r of the output is row token_of_row[r] of the input; zeros for a number outside. The input is bf16 or
 * fp16. The output has its type and scales is NULL, or it is e4m3 with fp32 scales; then fp32 will do too. */
typedef struct {
  const sluice_array *input, *token_of_row, *output, *scales;
  int32_t granularity; /* that of an e4m3 output */
  int32_t scale_given; /* 1: per tensor, with the scale read from scales */
} sluice_gathering;
SLUICE_API sluice_status sluice_gather(sluice_device* device, const sluice_gathering* what,
                                       sluice_stream stream);
/* out[t] = shared[t] + sum over j of weights[t][j] * y[row_of_slot[t][j]]: y, shared and out of bf16 or fp16,
 * weights fp32 without gaps. weights or shared may be NULL; out may be the array shared. */
typedef struct {
  const sluice_array *y, *row_of_slot, *weights, *shared, *out;
  int64_t experts; /* 0, or how many: row_of_slot holds experts (SLUICE_SLOTS), and row s of y is slot s's */
} sluice_combining;
SLUICE_API sluice_status sluice_combine(sluice_device* device, const sluice_combining* what,
                                        sluice_stream stream);
/* Compiles the three steps for rows of a type (bf16 or fp16) into the cache folder. Needs no GPU. */
SLUICE_API sluice_status sluice_compile_experts(int32_t input, const sluice_options* options,
                                                sluice_compiled* done);
/* Compiles and loads the three steps for rows of a type. */
SLUICE_API sluice_status sluice_make_experts_ready(sluice_device* device, int32_t input);

#ifdef __cplusplus
}
#endif

#endif
