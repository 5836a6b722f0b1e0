/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of FP8 training in the C interface. include/sluice/quantize_both.h has their rules. */
#ifndef SLUICE_C_TRAINING_H
#define SLUICE_C_TRAINING_H

#include <sluice/c_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Quantises a matrix in both orders. input: rows x columns of bf16, fp16 or fp32; columns is a multiple
 * of 16. rows: its codes, e4m3 or e5m2. columns_t: the codes of its transpose, columns x (rows rounded up to
 * a multiple of 128). Scales are fp32 and packed: those of the matrix, and those of its transpose; but by
 * 1x128 column_scales are rows / 128, rounded up, x columns. The granularity tensor has row_scales alone, and
 * always needs them. rows or columns_t may be NULL, with its scales: then the other order alone is written.
 * For an empty matrix nothing is written. With a gate, input holds gate and up side by side, in bf16 or fp16,
 * and silu(gate) * up is quantised, which has half the columns. With gradient too, that of silu(gate) * up,
 * the gradients of gate and up are quantised, side by side: as many columns as input has. Gate and up have a
 * multiple of 16 columns each, or with gradient of 8. */
typedef struct {
  const sluice_array *input, *rows, *row_scales, *columns_t, *column_scales;
  const sluice_array* sums; /* fp32, packed: rows / 128, rounded up, x columns; NULL: none */
  int32_t granularity;
  int32_t powers_of_two;             /* 1: scales are powers of two */
  const sluice_workspace* workspace; /* per tensor and per row alone; NULL: the device lends one */
  int32_t gate;                      /* sluice_gate */
  const sluice_array* gradient;      /* rows x columns / 2, of input's type; NULL: none */
} sluice_quantization_both;
/* Launches it, without synchronisation. The first call prepares it, but fails with not_prepared if the stream
 * is capturing. */
SLUICE_API sluice_status sluice_quantize_both(sluice_device* device, const sluice_quantization_both* what,
                                              sluice_stream stream);

#ifdef __cplusplus
}
#endif

#endif
