/* SPDX-License-Identifier: Apache-2.0 */
/* The C interface: what the Python package and other languages bind. Plain C, no exceptions, no CUDA header.
 *   sluice_device* device;   sluice_device_default(0, &device);
 *   sluice_product product = {.a = &a, .b = &b, .d = &d, .alpha = 1.0f};
 *   if (sluice_run(device, &product, stream) != SLUICE_OK) puts(sluice_error_message());
 * To link: find_package(sluice) and target_link_libraries(app sluice::sluice_c), or
 *   cc app.c $(pkg-config --cflags --libs sluice_c)
 * Every function that can fail returns a status; the message of the calling thread's last failure is kept
 * until its next one. Handles may be used from any thread. What a handle gives out (texts) lives as long as
 * the handle; of a handle that is NULL it is NULL, or 0. To free NULL does nothing. */
#ifndef SLUICE_C_API_H
#define SLUICE_C_API_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SLUICE_API __attribute__((visibility("default")))
/* Grows when a struct or a function below changes; sluice_c_abi() is that of the library that was loaded. */
#define SLUICE_C_ABI 9

typedef enum {
  SLUICE_OK = 0,
  SLUICE_INVALID_SIZE,
  SLUICE_INVALID_POINTER,
  SLUICE_MISALIGNED,
  SLUICE_INVALID_STRIDE,
  SLUICE_ALIASING,
  SLUICE_INVALID_TYPE,
  SLUICE_INVALID_CONFIG,
  SLUICE_INVALID_ARGUMENT,
  SLUICE_WRONG_DEVICE,
  SLUICE_UNSUPPORTED_ARCH,
  SLUICE_NOT_PREPARED,
  SLUICE_WORKSPACE,
  SLUICE_TOOLCHAIN,
  SLUICE_DRIVER,
  SLUICE_IO,
  SLUICE_INTERNAL
} sluice_status;

typedef enum { SLUICE_BF16, SLUICE_FP16, SLUICE_FP32, SLUICE_E4M3, SLUICE_E5M2 } sluice_dtype;
#define SLUICE_BYTE 32 /* of a sluice_array that holds codes or a blob: uint8, which no product takes */
typedef enum { SLUICE_PROMOTED, SLUICE_FAST } sluice_accumulate; /* of fp8 sums: docs/numerics.md */
typedef enum { SLUICE_SET, SLUICE_ADD } sluice_update;           /* D = ..., D += the product */
typedef enum { SLUICE_NO_ACTIVATION, SLUICE_RELU, SLUICE_GELU, SLUICE_SILU } sluice_activation;
typedef enum { SLUICE_NO_SCALE, SLUICE_SCALE_TENSOR, SLUICE_SCALE_VECTOR, SLUICE_SCALE_BLOCK } sluice_scale;
typedef enum { SLUICE_K_MAJOR, SLUICE_MN_MAJOR } sluice_major;
typedef enum { SLUICE_ON_CPU = 1, SLUICE_ON_CUDA = 2 } sluice_device_type; /* DLPack's numbers */

typedef struct sluice_device sluice_device;
typedef struct sluice_plan sluice_plan;
typedef struct sluice_kernel sluice_kernel;
typedef struct sluice_workspace sluice_workspace;
typedef struct CUstream_st* sluice_stream; /* a CUstream or cudaStream_t; NULL is the legacy default stream */

/* ---- the library ---- */
SLUICE_API int sluice_c_abi(void);
SLUICE_API const char* sluice_version(void); /* "0.2.0" */
/* Of this thread's last failure; "" before one. */
SLUICE_API const char* sluice_error_message(void);
SLUICE_API const char* sluice_status_name(sluice_status status); /* "invalid_size" */
/* A folder in which NVRTC is looked for if options and environment name none and /usr/local/cuda has none of
 * CUDA 13: site-packages, of a Python with its wheel. For the whole process; NULL: none. */
SLUICE_API sluice_status sluice_suggest_nvrtc(const char* folder);

/* ---- values ---- */
/* An array as DLPack describes it. `strides` in elements; NULL: packed, the last index contiguous. */
typedef struct {
  void* data; /* may be NULL where only sizes matter (plan) or the array is empty */
  int32_t dtype;
  int32_t ndim;
  int32_t device_type;
  int32_t device;
  const int64_t* shape;
  const int64_t* strides;
} sluice_array;

typedef enum { SLUICE_UINT4, SLUICE_INT8, SLUICE_E4M3_WEIGHT } sluice_weight_type;
typedef enum { SLUICE_ORDER_HALF, SLUICE_ORDER_BYTE } sluice_fragment_order; /* of 16-bit, of 8-bit tokens */
/* How weights are packed (docs/packing.md): W[row][k] = scale[row][k / group] * (code[row][k] - zero[..]). */
typedef struct {
  int32_t type;  /* sluice_weight_type: codes are 0..15; value + 128; the bits of an e4m3 */
  int32_t group; /* 32, 64, 128; 0: all of k */
  int32_t scale; /* of scales and zeros: SLUICE_FP16, SLUICE_BF16, SLUICE_FP32 */
  int32_t zeros; /* 0 or 1; without them the zero is 8, 128, or (e4m3) 0 */
  int32_t order; /* sluice_fragment_order */
} sluice_weight_format;
/* What a blob holds, which it does not tell itself: n x k weights. */
typedef struct {
  sluice_weight_format format;
  int64_t n, k;
} sluice_packed_weights;

/* D = act(alpha * scale_a * scale_b * A B + beta * C + bias). A is m x k, B is k x n (a weight n x k,
 * transposed), D is m x n; or batches of those, three-dimensional. NULL: not there. How the scales apply
 * follows from their shapes: one value;  scale_a m or m x 1, scale_b n or 1 x n;  scale_a m x ceil(k/128),
 * scale_b ceil(n/128) x ceil(k/128) or its transposed view.
 * `update` SLUICE_ADD: D += alpha * scale_a * scale_b * A B, into an fp32 D, without C, bias and activation.
 * The bits are the same on every run, unless `any_order` lets the parts of a split sum be added to D as they
 * come. `gated`: act of the first n / 2 columns times the last n / 2, and D is m x n / 2. `scale_d` (one
 * fp32, an e4m3 D): the result is divided by it before it is rounded. `packed`: b is a blob of so many packed
 * weights (uint8, on 128 bytes), and the product is act(scale_a * A W^T + bias) + C. A is tokens of 16 bits,
 * or of e4m3 with scale_a of one value or m; C has D's type. With `gamma` (k bf16 values, up to 8 bf16
 * tokens) A's rows are normed first, as sluice_norm does. There are no batches, alpha, scale_b and update
 * then. `names`: nine names for messages, in the order of the arrays below; NULL: those of the fields. */
typedef struct {
  const sluice_array *a, *b, *c, *d, *bias, *scale_a, *scale_b, *scale_d, *gamma;
  const sluice_packed_weights* packed; /* NULL: b is a matrix */
  float alpha, beta, epsilon;          /* epsilon: with gamma */
  int32_t accumulate;
  int32_t activation;
  int32_t gated; /* 0 or 1 */
  int32_t update;
  int32_t any_order; /* 0 or 1 */
  const char* const* names;
} sluice_product;

/* The same without arrays. Strides 0: packed. */
typedef struct {
  int64_t m, n, k, batch;
  int32_t a, b, d;
  int32_t a_major, b_major;
  int64_t a_ld, b_ld, c_ld, d_ld;
  int64_t a_batch_stride, b_batch_stride, c_batch_stride, d_batch_stride;
  int32_t scale_a, scale_b, scale_d;
  int32_t bias, bias_type; /* bias: 0 or 1 */
  int32_t activation, gated;
  int32_t residual, c_type; /* residual: 0 or 1; C takes part */
  int32_t accumulate;
  int32_t update;
  int32_t any_order; /* 0 or 1 */
  int32_t packed;    /* 1: B is packed weights; then b, b_major and strides of B are not looked at */
  sluice_weight_format weights; /* with packed */
  int32_t norm_x;               /* 0 or 1, with packed: A's rows are normed with a gamma */
} sluice_problem;

/* Where things are; NULL or -1: as the environment says (include/sluice/options.h). */
typedef struct {
  const char *cache_dir, *nvrtc_path, *records_dir;
  int32_t cache_read_only, jobs;
} sluice_options;

/* What a product is, as the planner sees it. Needs no GPU, reads no data. Fails as the product itself would.
 */
SLUICE_API sluice_status sluice_problem_of(const sluice_product* product, sluice_problem* problem);
/* What a product of the problem would refuse of its sizes, types and strides. Plans nothing. */
SLUICE_API sluice_status sluice_problem_check(const sluice_problem* problem);

/* ---- plan: needs no GPU ---- */
/* device NULL: for an H200, with the shipped records. choices: what overrules the planner, as the text
 * "schedule=cooperative, tile_m=128, tile_n=128, splits=4"; the names are those of `sluice plan --help`
 * (dense) and docs/packed.md. NULL: none. */
SLUICE_API sluice_status sluice_plan_create(const sluice_device* device, const sluice_problem* problem,
                                            const char* choices, sluice_plan** plan);
SLUICE_API void sluice_plan_free(sluice_plan* plan);
SLUICE_API const char* sluice_plan_text(
    const sluice_plan* plan); /* lines for people: what `sluice plan` prints */
SLUICE_API const char* sluice_plan_config(const sluice_plan* plan); /* the kernel, as a C++ initialiser */
/* What NVRTC compiles, a unit for each kernel that a launch enqueues: one, two where combine is "separate", 0
 * where there is nothing to launch; then, where clusters are numbered by GPC, that of the kernel by which a
 * device is asked for its GPCs once. NULL: no unit has this index. */
SLUICE_API int32_t sluice_plan_unit_count(const sluice_plan* plan);
SLUICE_API const char* sluice_plan_unit(const sluice_plan* plan, int32_t index);
SLUICE_API const char* sluice_plan_source(const sluice_plan* plan); /* "model" or "record" */
SLUICE_API int64_t sluice_plan_workspace_bytes(const sluice_plan* plan);
SLUICE_API double sluice_plan_estimate_us(const sluice_plan* plan);

/* Compiles the plans' kernels into the cache folder; no GPU, and nothing is loaded. */
typedef struct {
  int32_t compiled, already_there, failed;
} sluice_compiled;
SLUICE_API sluice_status sluice_compile(const sluice_plan* const* plans, int32_t count,
                                        const sluice_options* options, sluice_compiled* done);

/* ---- device ---- */
SLUICE_API sluice_status sluice_device_open(int32_t ordinal, const sluice_options* options,
                                            sluice_device** device);
/* Frees the kernels and workspaces of sluice_run and sluice_quantize with it: not while work that uses them
 * is on its way, nor while a graph captured with them may be replayed. Kernels and workspaces of
 * sluice_prepare and sluice_workspace_create stay, each until it is freed itself. */
SLUICE_API void sluice_device_close(sluice_device* device);
/* One for each GPU and process, opened with the environment's options at the first call; never close it. */
SLUICE_API sluice_status sluice_device_default(int32_t ordinal, sluice_device** device);
SLUICE_API const char* sluice_device_name(const sluice_device* device);

/* ---- the explicit way: a kernel at hand ---- */
typedef struct {
  const void *a, *b, *c; /* of packed weights b is the blob */
  void* d;
  const float *scale_a, *scale_b, *scale_d;
  const void *bias, *gamma;
  float alpha, beta, epsilon; /* of packed weights alpha and beta are not looked at */
} sluice_pointers;
SLUICE_API sluice_status sluice_prepare(const sluice_device* device, const sluice_plan* plan,
                                        sluice_kernel** kernel);
/* Unloads it: not while a launch of it is on its way, nor while a graph captured with it may be replayed. The
 * same holds for sluice_workspace_free. */
SLUICE_API void sluice_kernel_free(sluice_kernel* kernel);
/* No allocation, no synchronisation; may be captured. workspace NULL: none. */
SLUICE_API sluice_status sluice_launch(const sluice_kernel* kernel, const sluice_pointers* pointers,
                                       const sluice_workspace* workspace, sluice_stream stream);

/* bytes < 0: what any plan may ask for. Zeroed. */
SLUICE_API sluice_status sluice_workspace_create(const sluice_device* device, int64_t bytes,
                                                 sluice_workspace** workspace);
SLUICE_API void sluice_workspace_free(sluice_workspace* workspace);
SLUICE_API int64_t sluice_workspace_bytes(const sluice_workspace* workspace);
SLUICE_API sluice_status sluice_workspace_verify(const sluice_workspace* workspace);
SLUICE_API sluice_status sluice_workspace_reset(sluice_workspace* workspace, sluice_stream stream);

/* ---- the short way: arrays in, a launch out ---- */
/* Looks the product's kernel up, dense or packed, prepares it at the first call, launches. While the stream
 * captures, a kernel that is not there yet is an error (not_prepared) that names the remedy. Where sums are
 * split the device lends a workspace: to each stream its own, allocated once and kept; to each captured graph
 * its own, one for each stream captured into it, which is kept until the graph and its executables are
 * destroyed and used again then. So graphs may run at once, whatever streams captured them; but what is one
 * graph twice (two executables of it, a clone, a child of two graphs) shares its workspace, and must not run
 * twice at once. An executable that was updated from a graph needs that graph for as long as it lives.
 * Streams are lent 4 GB of a device at most, those that were destroyed included; on more of them, call
 * sluice_run_with. */
SLUICE_API sluice_status sluice_run(sluice_device* device, const sluice_product* product,
                                    sluice_stream stream);
/* The same with a workspace of the caller's, to be kept as long as the work and the graphs that use it. */
SLUICE_API sluice_status sluice_run_with(sluice_device* device, const sluice_product* product,
                                         const sluice_workspace* workspace, sluice_stream stream);
/* Makes the kernels ready that sluice_run needs for such products, compiled in parallel; launches nothing. */
SLUICE_API sluice_status sluice_make_ready(sluice_device* device, const sluice_problem* problems,
                                           int32_t count);
/* sluice_run takes this plan for its problem from now on, e.g. one with choices of the caller's. The kernel
 * it used before is kept, for graphs that were captured with it. */
SLUICE_API sluice_status sluice_use_plan(sluice_device* device, const sluice_plan* plan);

/* ---- quantisers: include/sluice/quantize.h has their rules ---- */
typedef enum {
  SLUICE_PER_TENSOR,
  SLUICE_PER_ROW,
  SLUICE_PER_ROW_BLOCK,
  SLUICE_PER_SQUARE_BLOCK
} sluice_granularity;
typedef enum { SLUICE_NO_GATE, SLUICE_SILU_GATE } sluice_gate;
/* With a gate the input has twice the columns, gate and up side by side: silu(gate) * up is quantised; or,
 * with an output of the input's type and scales NULL, rounded to it. */
typedef struct {
  const sluice_array *input, *output, *scales; /* rows x columns; the same of e4m3; fp32, packed */
  int32_t granularity;
  int32_t scale_given; /* 1: per tensor, with the scale that is there */
  int32_t gate;
} sluice_quantization;
SLUICE_API sluice_status sluice_quantize(sluice_device* device, const sluice_quantization* what,
                                         sluice_stream stream);
/* The same with a workspace of the caller's (8 bytes or more), as sluice_run_with; only one scale for the
 * whole matrix that is not given uses it. */
SLUICE_API sluice_status sluice_quantize_with(sluice_device* device, const sluice_quantization* what,
                                              const sluice_workspace* workspace, sluice_stream stream);
/* Compiles those of an input type (bf16, fp16 or fp32) into the cache folder; no GPU. */
SLUICE_API sluice_status sluice_compile_quantizers(int32_t input, const sluice_options* options,
                                                   sluice_compiled* done);
/* Compiles and loads them. */
SLUICE_API sluice_status sluice_make_quantizers_ready(sluice_device* device, int32_t input);

/* ---- norms: include/sluice/norm.h has their rules ---- */
typedef struct {
  const sluice_array *input, *gamma;   /* rows x columns of bf16 or fp16; columns values of the same type */
  const sluice_array *residual, *sum;  /* NULL: none. Added before; input + residual, may be one of both */
  const sluice_array *output, *scales; /* of the input's type, scales NULL; or e4m3 with fp32 scales */
  int32_t granularity; /* of an e4m3 output: SLUICE_PER_TENSOR (scales is read), _ROW, _ROW_BLOCK */
  float epsilon;
} sluice_normalization;
SLUICE_API sluice_status sluice_norm(sluice_device* device, const sluice_normalization* what,
                                     sluice_stream stream);
/* Compiles those of an input type (bf16 or fp16) into the cache folder; no GPU. */
SLUICE_API sluice_status sluice_compile_norms(int32_t input, const sluice_options* options,
                                              sluice_compiled* done);
/* Compiles and loads them. */
SLUICE_API sluice_status sluice_make_norms_ready(sluice_device* device, int32_t input);

/* ---- packed weights of few bits: docs/packing.md has the blob, byte by byte ---- */
/* Where the parts of a blob of n x k are, in bytes: strips of 64 rows, in each tiles of 128 k, then the
 * scales and zeros of its rows if one is for all of k. */
typedef struct {
  int64_t groups;        /* scales of a row */
  int64_t strips, tiles; /* tiles of a strip */
  int64_t strip_bytes, tile_bytes, row_part_bytes, blob_bytes;
  int64_t tile_scales_offset, tile_zeros_offset; /* from the tile's first byte */
  double stored_bits;                            /* of the blob for each weight, scales and padding too */
} sluice_packed_numbers;
SLUICE_API sluice_status sluice_packed_numbers_of(const sluice_weight_format* format, int64_t n, int64_t k,
                                                  sluice_packed_numbers* numbers);

/* All row-major without gaps, and in one memory. */
typedef struct {
  sluice_weight_format format;
  const sluice_array* codes;  /* n x k of SLUICE_BYTE, a code each; of e4m3 weights SLUICE_E4M3 too */
  const sluice_array* scales; /* n x groups */
  const sluice_array* zeros;  /* the same; NULL if the format has none */
  const sluice_array* blob;   /* blob_bytes of SLUICE_BYTE */
} sluice_packing;
/* On a GPU: one kernel, prepared at the first call of its format. Of a uint4 in a byte only the lower half is
 * looked at. Unpacking is the exact inverse: it writes codes, scales and zeros. */
SLUICE_API sluice_status sluice_pack(sluice_device* device, const sluice_packing* what, sluice_stream stream);
SLUICE_API sluice_status sluice_unpack(sluice_device* device, const sluice_packing* what,
                                       sluice_stream stream);
/* The same bytes for arrays in host memory, without a GPU, and slower. A uint4 past 15 is an error. */
SLUICE_API sluice_status sluice_pack_on_host(const sluice_packing* what);
SLUICE_API sluice_status sluice_unpack_on_host(const sluice_packing* what);
/* Compiles both kernels of a format into the cache folder; no GPU. */
SLUICE_API sluice_status sluice_compile_packer(const sluice_weight_format* format,
                                               const sluice_options* options, sluice_compiled* done);
/* Compiles and loads them. */
SLUICE_API sluice_status sluice_make_packer_ready(sluice_device* device, const sluice_weight_format* format);

/* ---- ranges of numbers of rows: include/sluice/rows.h ---- */
/* m from low (1 or more) to high, both inside. */
typedef struct {
  int64_t low, high;
} sluice_row_range;
#define SLUICE_MOST_ROW_KERNELS 12 /* that are compiled for one range */
typedef struct {
  int32_t kernels;   /* to be compiled */
  int32_t numbers;   /* of rows that were looked at: all of a range of up to 1024, else some */
  int32_t unbounded; /* kernels, if each of those had its own */
  double mean_loss;  /* by the model, against that; 0.01: one per cent slower */
  double worst_loss;
  int64_t worst_m;
} sluice_row_summary;
typedef struct {
  sluice_plan* plans[SLUICE_MOST_ROW_KERNELS]; /* of some m each; free each with sluice_plan_free */
  int32_t count;
  sluice_row_summary summary;
} sluice_row_plans;
/* The few kernels that serve all m of a range, as plans: for sluice_compile, and to look at. The problem's m
 * does not count, and strides of 0 follow each m. Needs no GPU; device NULL: for an H200. */
SLUICE_API sluice_status sluice_plan_rows(const sluice_device* device, const sluice_problem* problem,
                                          const sluice_row_range* rows, sluice_row_plans* found);
/* Compiles and loads them. sluice_run then serves every m of the range without a compile,
 * in a stream that captures too. summary NULL: not wanted. */
SLUICE_API sluice_status sluice_make_rows_ready(sluice_device* device, const sluice_problem* problem,
                                                const sluice_row_range* rows, sluice_row_summary* summary);
/* ---- what is lent and held ---- */
/* Of the workspaces lent on this device: waits for the device, and fails on the first that is not clean. */
SLUICE_API sluice_status sluice_verify_workspaces(sluice_device* device);
/* Zeroes all of them and waits; after an aborted kernel. */
SLUICE_API sluice_status sluice_reset_workspaces(sluice_device* device);

typedef struct {
  int64_t kernels;         /* problems that sluice_run has a kernel for */
  int64_t workspaces;      /* lent: to streams, and to graphs that are alive */
  int64_t workspace_bytes; /* of device memory, with those that streams outgrew and graphs gave back */
} sluice_holdings;
SLUICE_API sluice_status sluice_device_holdings(sluice_device* device, sluice_holdings* holdings);

#ifdef __cplusplus
}
#endif
#endif
