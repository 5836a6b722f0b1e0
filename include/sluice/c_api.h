/* SPDX-License-Identifier: Apache-2.0 */
/* The C interface, to which the Python package and other languages bind. It is plain C, throws nothing and
 * includes no CUDA header.
 *   sluice_device* device;   sluice_device_default(0, &device);
 *   sluice_product product = {.a = &a, .b = &b, .d = &d, .alpha = 1.0f};
 *   if (sluice_run(device, &product, stream) != SLUICE_OK) puts(sluice_error_message());
 * To link: find_package(sluice) and target_link_libraries(app sluice::sluice_c), or
 *   cc app.c $(pkg-config --cflags --libs sluice_c)
 * Every function that can fail returns a status. Each thread keeps the message of its last failure until its
 * next failure. Any thread may use a handle. A text that a handle gives out lives as long as the handle. A
 * getter returns NULL or 0 for a handle that is NULL. Freeing NULL does nothing. */
#ifndef SLUICE_C_API_H
#define SLUICE_C_API_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SLUICE_API __attribute__((visibility("default")))
/* The number grows when a struct or a function below changes. sluice_c_abi() returns the number of the
 * library that was loaded. */
#define SLUICE_C_ABI 10

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
#define SLUICE_BYTE 32 /* uint8, the dtype of codes and of a blob; no product takes it */
typedef enum { SLUICE_PROMOTED, SLUICE_FAST } sluice_accumulate; /* how fp8 sums are kept: docs/numerics.md */
typedef enum { SLUICE_SET, SLUICE_ADD } sluice_update;           /* D = the product, or D += it */
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
/* The message of this thread's last failure; "" before the first. */
SLUICE_API const char* sluice_error_message(void);
SLUICE_API const char* sluice_status_name(sluice_status status); /* "invalid_size" */
/* Names one more folder where the process looks for NVRTC, such as the site-packages of a Python with NVRTC's
 * wheel. It counts only if options and environment name no NVRTC and /usr/local/cuda has none of CUDA 13.
 * NULL takes the suggestion back. */
SLUICE_API sluice_status sluice_suggest_nvrtc(const char* folder);

/* ---- values ---- */
/* An array as DLPack describes it. `strides` counts elements; NULL means packed, with the last index
 * contiguous. */
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
typedef enum { SLUICE_ORDER_HALF, SLUICE_ORDER_BYTE } sluice_fragment_order; /* for 16-bit or 8-bit tokens */
/* How weights are packed (docs/packing.md): W[row][k] = scale[row][k / group] * (code[row][k] - zero[..]). */
typedef struct {
  int32_t type;  /* sluice_weight_type: codes are 0..15; value + 128; the bits of an e4m3 */
  int32_t group; /* 32, 64, 128; 0: all of k */
  int32_t scale; /* dtype of scales and zeros: SLUICE_FP16, SLUICE_BF16, SLUICE_FP32 */
  int32_t zeros; /* 0 or 1; without them the zero is 8, 128, or (e4m3) 0 */
  int32_t order; /* sluice_fragment_order */
} sluice_weight_format;
/* The n x k weights in a blob. The blob itself stores neither its format nor its sizes. */
typedef struct {
  sluice_weight_format format;
  int64_t n, k;
} sluice_packed_weights;

/* D = act(alpha * scale_a * scale_b * A B + beta * C + bias). A is m x k, B is k x n (a weight n x k,
 * transposed), D is m x n; or three-dimensional batches of these. An array that is NULL takes no part. The
 * shapes of the scales decide how they apply:
 *   - one value for the whole matrix;
 *   - vectors: scale_a has m or m x 1 values, scale_b n or 1 x n;
 *   - blocks: scale_a is m x ceil(k/128), scale_b is ceil(n/128) x ceil(k/128) or its transposed view.
 * `update` SLUICE_ADD computes D += alpha * scale_a * scale_b * A B into an fp32 D, without C, bias and
 * activation. Its bits are equal on every run, unless `any_order` lets the parts of a split sum be added to D
 * as they come.
 * `gated` multiplies act of the first n / 2 columns by the last n / 2, and D is m x n / 2.
 * `scale_d` is one fp32 value, for an e4m3 D: the result is divided by it before it is rounded.
 * `packed` says that b is a blob with these packed weights (uint8, aligned to 128 bytes). The product is then
 * act(scale_a * A W^T + bias) + C. A holds tokens of 16 bits, or of e4m3 with one scale_a or m of them; C has
 * D's type. With `gamma` (k bf16 values, for up to 8 bf16 tokens) A's rows are normed first, as sluice_norm
 * does. A packed product has no batch, alpha, scale_b and update.
 * `names` gives nine names for messages, in the order of the arrays below; NULL takes the fields' names.
 */
typedef struct {
  const sluice_array *a, *b, *c, *d, *bias, *scale_a, *scale_b, *scale_d, *gamma;
  const sluice_packed_weights* packed; /* NULL: b is a matrix */
  float alpha, beta, epsilon;          /* epsilon counts only with gamma */
  int32_t accumulate;
  int32_t activation;
  int32_t gated; /* 0 or 1 */
  int32_t update;
  int32_t any_order; /* 0 or 1 */
  const char* const* names;
} sluice_product;

/* ---- convolutions: include/sluice/conv.h has their rules ---- */
/* The result: y of x and w; x (that is dx) of y (dy) and w; w (dw) of y (dy) and x. */
typedef enum { SLUICE_FPROP = 1, SLUICE_DGRAD, SLUICE_WGRAD } sluice_conv_op;
/* y = act(alpha * scale_x * scale_w * (x convolved with w) + beta * C + bias), or one of its gradients.
 * x is images x channels x axes, w is filters x channels x axes, y is images x filters x axes: torch's order,
 * with one to three axes, outermost first. Their strides are those of channels_last: channels are contiguous,
 * then come the axes and then the images. A dimension of size 1 may have any stride. x and y may have gaps
 * between pixels, as a slice of channels has; w has none. The one that `op` computes is written; the two that
 * are read have one type. An array that is NULL takes no part.
 * Each list has one value for each axis, outermost first. NULL stands for 1 (stride, dilation), for 0
 * (padding), and for the padding before (padding_after).
 * C lies as the result does. bias (one value for each filter), scale_x (one value), scale_w (one value, or
 * one for each filter) and scale_d (one value) are for SLUICE_FPROP. `update`, `any_order` and `accumulate`
 * are those of a sluice_product. `names` gives eight names for messages, in the order of the arrays. */
typedef struct {
  int32_t op;
  int32_t spatial; /* axes: 1, 2 or 3 */
  const sluice_array *x, *w, *y, *bias, *c, *scale_x, *scale_w, *scale_d;
  const int64_t *stride, *dilation, *padding, *padding_after;
  float alpha, beta;
  int32_t accumulate;
  int32_t activation;
  int32_t update;
  int32_t any_order; /* 0 or 1 */
  const char* const* names;
} sluice_convolution;

/* The sizes of a convolution. Lists are outermost first, and values past `spatial` do not count. */
typedef struct {
  int32_t op; /* 0: the problem is a product */
  int32_t spatial;
  int64_t images, channels, filters;
  int64_t size[3]; /* x's */
  int64_t filter[3], stride[3], dilation[3], padding[3], padding_after[3];
  int64_t x_pitch, y_pitch; /* elements from pixel to pixel; 0: no gaps */
} sluice_conv_sizes;

/* A sluice_product without its arrays. A stride of 0 means packed. With conv.op it is a convolution. `a` and
 * `b` are then the type of the two arrays that are read, and `d` is the result's. scale_a is the mode of
 * scale_x, and scale_b of scale_w. Sizes, layouts and strides follow from `conv`; m, n, k and the like do not
 * count. */
typedef struct {
  int64_t m, n, k, batch;
  int32_t a, b, d;
  int32_t a_major, b_major;
  int64_t a_ld, b_ld, c_ld, d_ld;
  int64_t a_batch_stride, b_batch_stride, c_batch_stride, d_batch_stride;
  int32_t a_unaligned, b_unaligned,
      d_unaligned; /* 1: the address may be no multiple of 16 bytes (16-bit A, B) */
  int32_t scale_a, scale_b, scale_d;
  int32_t bias, bias_type; /* bias: 0 or 1 */
  int32_t activation, gated;
  int32_t residual, c_type; /* residual: 0 or 1; with 1, C takes part */
  int32_t accumulate;
  int32_t update;
  int32_t any_order;            /* 0 or 1 */
  int32_t packed;               /* 1: B is packed weights; b, b_major and B's strides are ignored */
  sluice_weight_format weights; /* counts only with packed */
  int32_t norm_x;               /* 0 or 1, with packed: A's rows are normed with a gamma */
  sluice_conv_sizes conv;       /* counts only with conv.op */
} sluice_problem;

/* Folders and limits of the library. NULL or -1 takes the environment's value (include/sluice/options.h). */
typedef struct {
  const char *cache_dir, *nvrtc_path, *records_dir;
  int32_t cache_read_only, jobs;
  int32_t race; /* -1, or 0..16 plans that are timed at a problem's first call; 0 and 1 time none */
} sluice_options;

/* Describes a product as the planner sees it. It needs no GPU and reads no data. It fails where the product
 * itself would. */
SLUICE_API sluice_status sluice_problem_of(const sluice_product* product, sluice_problem* problem);
/* sluice_problem_of for a convolution. m, n and k become those of the product that computes it. */
SLUICE_API sluice_status sluice_conv_problem_of(const sluice_convolution* convolution,
                                                sluice_problem* problem);
/* Refuses the sizes, types and strides that a product of the problem would refuse. It plans nothing. */
SLUICE_API sluice_status sluice_problem_check(const sluice_problem* problem);

/* ---- plan: needs no GPU ---- */
/* Plans a product. device NULL stands for the first GPU of the machine. If there is none, the plan is for an
 * H200, and its text says so. `choices` overrules the planner, e.g. "schedule=cooperative, tile_m=128,
 * tile_n=128, splits=4"; NULL overrules nothing. `sluice plan --help` (dense) and docs/packed.md list the
 * names. */
SLUICE_API sluice_status sluice_plan_create(const sluice_device* device, const sluice_problem* problem,
                                            const char* choices, sluice_plan** plan);
/* Plans for a GPU that need not be present: "h100", "h200" or another name that `sluice plan --help` lists.
 */
SLUICE_API sluice_status sluice_plan_create_for(const char* gpu, const sluice_problem* problem,
                                                const char* choices, sluice_plan** plan);
SLUICE_API void sluice_plan_free(sluice_plan* plan);
SLUICE_API const char* sluice_plan_text(const sluice_plan* plan);   /* the lines that `sluice plan` prints */
SLUICE_API const char* sluice_plan_config(const sluice_plan* plan); /* the kernel, as a C++ initialiser */
/* Units are the texts that NVRTC compiles: one for each kernel that a launch enqueues. A plan has one, two if
 * combine is "separate", and none if there is nothing to launch. If clusters are numbered by GPC, one more
 * unit follows: the kernel that asks a device for its GPCs once. An index past the last unit gives NULL. */
SLUICE_API int32_t sluice_plan_unit_count(const sluice_plan* plan);
SLUICE_API const char* sluice_plan_unit(const sluice_plan* plan, int32_t index);
SLUICE_API const char* sluice_plan_source(const sluice_plan* plan); /* "model" or "record" */
SLUICE_API int64_t sluice_plan_workspace_bytes(const sluice_plan* plan);
SLUICE_API double sluice_plan_estimate_us(const sluice_plan* plan);

/* Compiles the plans' kernels into the cache folder. It needs no GPU and loads nothing. */
typedef struct {
  int32_t compiled, already_there, failed;
} sluice_compiled;
SLUICE_API sluice_status sluice_compile(const sluice_plan* const* plans, int32_t count,
                                        const sluice_options* options, sluice_compiled* done);

/* ---- device ---- */
SLUICE_API sluice_status sluice_device_open(int32_t ordinal, const sluice_options* options,
                                            sluice_device** device);
/* Closes the device and frees the kernels and workspaces of sluice_run and sluice_quantize. Call it only when
 * no work that uses them is on its way and no graph captured with them will be replayed. Kernels of
 * sluice_prepare and workspaces of sluice_workspace_create stay until each is freed itself. */
SLUICE_API void sluice_device_close(sluice_device* device);
/* Returns the process's own device for a GPU. The first call opens it with the environment's options. Never
 * close it. */
SLUICE_API sluice_status sluice_device_default(int32_t ordinal, sluice_device** device);
SLUICE_API const char* sluice_device_name(const sluice_device* device);

/* ---- the explicit way: a kernel at hand ---- */
/* A convolution's a and b are x and w; with SLUICE_DGRAD y and w, with SLUICE_WGRAD y and x. d is its result.
 */
typedef struct {
  const void *a, *b, *c; /* b is the blob in a packed product */
  void* d;
  const float *scale_a, *scale_b, *scale_d;
  const void *bias, *gamma;
  float alpha, beta, epsilon; /* a packed product ignores alpha and beta */
} sluice_pointers;
/* Times so many likely plans of a problem, 1..16 (3 finds most of the gain), and gives the fastest, with the
 * time as its estimate. The model's choice stays unless another takes 1 % less; plans whose results differ
 * are dropped. The race needs no arrays: it allocates up to 4 GB, waits for the GPU, and takes about 20 ms
 * beside the compiles. This device plans with the result. With a folder of records, so do devices of the same
 * card, driver and version that are opened later; elsewhere it is one more candidate. sluice_use_plan makes
 * this device run it where it ran the problem before. A packed product with `gated`, `residual` or `norm_x`
 * leaves none. A problem with a record or a result of this card gets its plan, untimed. */
SLUICE_API sluice_status sluice_race(const sluice_device* device, const sluice_problem* problem,
                                     int32_t candidates, sluice_plan** plan);
SLUICE_API sluice_status sluice_prepare(const sluice_device* device, const sluice_plan* plan,
                                        sluice_kernel** kernel);
/* Unloads the kernel. Call it only when no launch of it is on its way and no graph captured with it will be
 * replayed. This holds for sluice_workspace_free too. */
SLUICE_API void sluice_kernel_free(sluice_kernel* kernel);
/* Launches without allocation or synchronisation; a stream may capture it. workspace NULL: none. */
SLUICE_API sluice_status sluice_launch(const sluice_kernel* kernel, const sluice_pointers* pointers,
                                       const sluice_workspace* workspace, sluice_stream stream);

/* Allocates a zeroed workspace. bytes < 0 takes as many as any plan may ask for. */
SLUICE_API sluice_status sluice_workspace_create(const sluice_device* device, int64_t bytes,
                                                 sluice_workspace** workspace);
SLUICE_API void sluice_workspace_free(sluice_workspace* workspace);
SLUICE_API int64_t sluice_workspace_bytes(const sluice_workspace* workspace);
SLUICE_API sluice_status sluice_workspace_verify(const sluice_workspace* workspace);
SLUICE_API sluice_status sluice_workspace_reset(sluice_workspace* workspace, sluice_stream stream);

/* ---- the short way: arrays in, a launch out ---- */
/* Looks the product's kernel up, dense or packed, prepares it at the first call, and launches it. While the
 * stream captures, a kernel that is not ready yet is an error (not_prepared) that names the remedy.
 * A plan that splits sums needs a workspace, which the device lends:
 *   - Each stream has its own, allocated once and kept.
 *   - Each captured graph has its own, one for each stream captured into it. It is free for others once the
 *     graph and its executables are destroyed.
 * So graphs may run at once, whatever streams captured them. Copies of one graph (two executables, a clone, a
 * child of two graphs) share its workspace and must not run at once. An executable that was updated from a
 * graph needs that graph for as long as it lives. A device lends streams at most 4 GB, destroyed streams
 * included; with more streams, call sluice_run_with. */
SLUICE_API sluice_status sluice_run(sluice_device* device, const sluice_product* product,
                                    sluice_stream stream);
/* sluice_run with the caller's workspace, which must live as long as the work and graphs that use it. */
SLUICE_API sluice_status sluice_run_with(sluice_device* device, const sluice_product* product,
                                         const sluice_workspace* workspace, sluice_stream stream);
/* sluice_run and sluice_run_with for convolutions: with the same kept kernels, lent workspaces and errors. */
SLUICE_API sluice_status sluice_conv_run(sluice_device* device, const sluice_convolution* convolution,
                                         sluice_stream stream);
SLUICE_API sluice_status sluice_conv_run_with(sluice_device* device, const sluice_convolution* convolution,
                                              const sluice_workspace* workspace, sluice_stream stream);
/* Prepares the kernels that sluice_run and sluice_conv_run need for these problems, in parallel. It launches
 * nothing. */
SLUICE_API sluice_status sluice_make_ready(sluice_device* device, const sluice_problem* problems,
                                           int32_t count);
/* Makes sluice_run take this plan for its problem from now on, e.g. a plan with the caller's choices. The
 * kernel used before is kept for graphs that were captured with it. */
SLUICE_API sluice_status sluice_use_plan(sluice_device* device, const sluice_plan* plan);

/* ---- quantisers: include/sluice/quantize.h has their rules ---- */
typedef enum {
  SLUICE_PER_TENSOR,
  SLUICE_PER_ROW,
  SLUICE_PER_ROW_BLOCK,
  SLUICE_PER_SQUARE_BLOCK
} sluice_granularity;
typedef enum { SLUICE_NO_GATE, SLUICE_SILU_GATE } sluice_gate;
/* With a gate the input has twice the columns, gate and up side by side, and silu(gate) * up is quantised. If
 * the output has the input's type and scales is NULL, the result is only rounded to that type. */
typedef struct {
  const sluice_array *input, *output, *scales; /* rows x columns; e4m3 of that shape; fp32, packed */
  int32_t granularity;
  int32_t scale_given; /* 1: per tensor, with the scale read from scales */
  int32_t gate;
} sluice_quantization;
SLUICE_API sluice_status sluice_quantize(sluice_device* device, const sluice_quantization* what,
                                         sluice_stream stream);
/* sluice_quantize with the caller's workspace of 8 bytes or more, kept as for sluice_run_with. Only per
 * tensor quantisation that finds its scale itself uses it. */
SLUICE_API sluice_status sluice_quantize_with(sluice_device* device, const sluice_quantization* what,
                                              const sluice_workspace* workspace, sluice_stream stream);
/* Compiles the quantisers of an input type (bf16, fp16 or fp32) into the cache folder. It needs no GPU. */
SLUICE_API sluice_status sluice_compile_quantizers(int32_t input, const sluice_options* options,
                                                   sluice_compiled* done);
/* Compiles and loads the quantisers of an input type. */
SLUICE_API sluice_status sluice_make_quantizers_ready(sluice_device* device, int32_t input);

/* ---- norms: include/sluice/norm.h has their rules ---- */
typedef struct {
  const sluice_array *input, *gamma;   /* rows x columns of bf16 or fp16; columns values of the same type */
  const sluice_array *residual, *sum;  /* NULL: none. sum is input + residual, and may be either array */
  const sluice_array *output, *scales; /* the input's type with scales NULL, or e4m3 with fp32 scales */
  int32_t granularity; /* for an e4m3 output: SLUICE_PER_TENSOR (scales is read), _ROW, _ROW_BLOCK */
  float epsilon;
} sluice_normalization;
SLUICE_API sluice_status sluice_norm(sluice_device* device, const sluice_normalization* what,
                                     sluice_stream stream);
/* Compiles the norms of an input type (bf16 or fp16) into the cache folder. It needs no GPU. */
SLUICE_API sluice_status sluice_compile_norms(int32_t input, const sluice_options* options,
                                              sluice_compiled* done);
/* Compiles and loads the norms of an input type. */
SLUICE_API sluice_status sluice_make_norms_ready(sluice_device* device, int32_t input);

/* ---- packed weights of few bits: docs/packing.md has the blob, byte by byte ---- */
/* The layout of a blob of n x k weights, in bytes. A blob is strips of 64 rows; a strip is tiles of 128 k. If
 * one scale serves all of k, the scales and zeros of a strip's rows follow its tiles. */
typedef struct {
  int64_t groups;        /* scales in a row */
  int64_t strips, tiles; /* tiles in a strip */
  int64_t strip_bytes, tile_bytes, row_part_bytes, blob_bytes;
  int64_t tile_scales_offset, tile_zeros_offset; /* counted from the tile's first byte */
  double stored_bits; /* bits of the blob for each weight, with scales and padding */
} sluice_packed_numbers;
SLUICE_API sluice_status sluice_packed_numbers_of(const sluice_weight_format* format, int64_t n, int64_t k,
                                                  sluice_packed_numbers* numbers);

/* The arrays of a packing, all row-major without gaps, and in one memory. */
typedef struct {
  sluice_weight_format format;
  const sluice_array* codes;  /* n x k of SLUICE_BYTE, one code each; e4m3 weights may be SLUICE_E4M3 */
  const sluice_array* scales; /* n x groups */
  const sluice_array* zeros;  /* n x groups; NULL if the format has none */
  const sluice_array* blob;   /* blob_bytes of SLUICE_BYTE */
  /* 1 for the weights of a gated product: the blobs of both halves of n, one behind the other. n is a
   * multiple of 16, and the blob has twice the blob_bytes of n / 2. For multiples of 128 the bytes are the
   * same. */
  int32_t gated;
} sluice_packing;
/* Packs on a GPU with one kernel, which the first call for its format prepares. A uint4 is the lower half of
 * its byte; the upper half is ignored. sluice_unpack is the exact inverse: it writes codes, scales, zeros. */
SLUICE_API sluice_status sluice_pack(sluice_device* device, const sluice_packing* what, sluice_stream stream);
SLUICE_API sluice_status sluice_unpack(sluice_device* device, const sluice_packing* what,
                                       sluice_stream stream);
/* Packs arrays in host memory into equal bytes, without a GPU and slower. A uint4 above 15 is an error. */
SLUICE_API sluice_status sluice_pack_on_host(const sluice_packing* what);
SLUICE_API sluice_status sluice_unpack_on_host(const sluice_packing* what);
/* Compiles both kernels of a format into the cache folder. It needs no GPU. */
SLUICE_API sluice_status sluice_compile_packer(const sluice_weight_format* format,
                                               const sluice_options* options, sluice_compiled* done);
/* Compiles and loads both kernels of a format. */
SLUICE_API sluice_status sluice_make_packer_ready(sluice_device* device, const sluice_weight_format* format);

/* ---- ranges of numbers of rows: include/sluice/rows.h ---- */
/* Every m from low (1 or more) to high, both included. */
typedef struct {
  int64_t low, high;
} sluice_row_range;
#define SLUICE_MOST_ROW_KERNELS 12 /* the most kernels that one range compiles */
typedef struct {
  int32_t kernels;   /* kernels to be compiled */
  int32_t numbers;   /* values of m that were examined: all in a range of up to 1024, else some */
  int32_t unbounded; /* kernels, if each examined m had its own */
  double mean_loss;  /* modelled loss against an own kernel for each m; 0.01 is one per cent */
  double worst_loss;
  int64_t worst_m;
} sluice_row_summary;
typedef struct {
  sluice_plan* plans[SLUICE_MOST_ROW_KERNELS]; /* each serves some m; free each with sluice_plan_free */
  int32_t count;
  sluice_row_summary summary;
} sluice_row_plans;
/* Plans the few kernels that serve all m of a range, for sluice_compile or to look at. It takes products
 * only. The problem's m does not count, and strides of 0 follow each m. device NULL is as for
 * sluice_plan_create, and gpu as for sluice_plan_create_for. */
SLUICE_API sluice_status sluice_plan_rows(const sluice_device* device, const sluice_problem* problem,
                                          const sluice_row_range* rows, sluice_row_plans* found);
SLUICE_API sluice_status sluice_plan_rows_for(const char* gpu, const sluice_problem* problem,
                                              const sluice_row_range* rows, sluice_row_plans* found);
/* The lines that `sluice plan --rows` prints for the range of a plan from sluice_plan_rows; "" for another
 * plan. */
SLUICE_API const char* sluice_plan_rows_text(const sluice_plan* plan);
/* Compiles and loads the kernels of a range. sluice_run then serves every m of it without a compile, also in
 * a stream that captures. summary may be NULL. */
SLUICE_API sluice_status sluice_make_rows_ready(sluice_device* device, const sluice_problem* problem,
                                                const sluice_row_range* rows, sluice_row_summary* summary);
/* ---- what is lent and held ---- */
/* Waits for the device and checks the workspaces it lends. It fails on the first that is not clean. */
SLUICE_API sluice_status sluice_verify_workspaces(sluice_device* device);
/* Zeroes all lent workspaces and waits. Call it after an aborted kernel. */
SLUICE_API sluice_status sluice_reset_workspaces(sluice_device* device);

typedef struct {
  int64_t kernels;         /* problems that sluice_run has a kernel for */
  int64_t workspaces;      /* lent to streams and to graphs that are alive */
  int64_t workspace_bytes; /* device memory, with workspaces that streams outgrew and graphs gave back */
} sluice_holdings;
SLUICE_API sluice_status sluice_device_holdings(sluice_device* device, sluice_holdings* holdings);

#ifdef __cplusplus
}
#endif
#endif
