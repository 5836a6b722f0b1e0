/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of m (rows of A) in the C interface: few kernels for all of them. include/sluice/rows.h has the
 * rules. */
#ifndef SLUICE_C_ROWS_H
#define SLUICE_C_ROWS_H

#include <sluice/c_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Every m from low (1 or more) to high, both included. */
typedef struct {
  int64_t low, high;
} sluice_row_range;
#define SLUICE_MOST_ROW_KERNELS 12 /* the most kernels that one range compiles */
typedef struct {
  int32_t kernels; /* kernels to be compiled */
} sluice_row_summary;
typedef struct {
  sluice_plan* plans[SLUICE_MOST_ROW_KERNELS]; /* each for some m; to be freed with sluice_plan_free */
  int32_t count;
  sluice_row_summary summary;
} sluice_row_plans;
/* Plans the few kernels that serve all m of a range, for sluice_compile or for inspection. Only products
 * (no convolutions). The problem's m is ignored, and strides of 0 are derived for each m. device NULL is as
 * for sluice_plan_create, and gpu as for sluice_plan_create_for. */
SLUICE_API sluice_status sluice_plan_rows(const sluice_device* device, const sluice_call* call,
                                          const sluice_row_range* rows, sluice_row_plans* found);
SLUICE_API sluice_status sluice_plan_rows_for(const char* gpu, const sluice_call* call,
                                              const sluice_row_range* rows, sluice_row_plans* found);
/* The text that `sluice plan --rows` prints, for a plan from sluice_plan_rows; "" for any other plan. */
SLUICE_API const char* sluice_plan_rows_text(const sluice_plan* plan);
/* Compiles and loads the kernels of a range. From then on sluice_run serves every m of the range without
 * compiling, also while the stream is capturing. summary may be NULL. */
SLUICE_API sluice_status sluice_make_rows_ready(sluice_device* device, const sluice_call* call,
                                                const sluice_row_range* rows, sluice_row_summary* summary);

#ifdef __cplusplus
}
#endif
#endif
