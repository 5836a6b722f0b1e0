/* SPDX-License-Identifier: Apache-2.0 */
/* The C interface, to which the Python package and other languages bind. It is plain C, throws no
 * exceptions, and includes no CUDA header.
 *   sluice_device* device;   sluice_device_default(0, &device);
 *   sluice_call call = sluice_new_call();
 *   call.operands[SLUICE_A] = &a, call.operands[SLUICE_B] = &b, call.operands[SLUICE_D] = &d;
 *   if (sluice_run(device, &call, stream) != SLUICE_OK) puts(sluice_error_message());
 * To link: find_package(sluice) and target_link_libraries(app sluice::sluice_c), or
 *   cc app.c $(pkg-config --cflags --libs sluice_c)
 * Every function that can fail returns a status. Each thread keeps the message of its last failure until
 * its next failure. Any thread may use a handle. A string that a function returns for a handle lives as
 * long as the handle. A getter returns NULL or 0 for a handle that is NULL. Freeing NULL does nothing. */
#ifndef SLUICE_C_API_H
#define SLUICE_C_API_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SLUICE_API __attribute__((visibility("default")))
/* The ABI number, which grows when a struct or a function below changes. sluice_c_abi() returns the number
 * of the loaded library. */
#define SLUICE_C_ABI 17

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

typedef enum { SLUICE_BF16, SLUICE_FP16, SLUICE_FP32, SLUICE_E4M3, SLUICE_E5M2, SLUICE_E8M0 } sluice_dtype;
#define SLUICE_BYTE 32  /* uint8, the dtype of weight codes and blobs; products do not accept it */
#define SLUICE_INT32 33 /* tables of groups; rows and ids of experts */
#define SLUICE_INT64 34 /* ids of experts */
typedef enum { SLUICE_PROMOTED, SLUICE_FAST } sluice_accumulate; /* fp8 accumulation: docs/numerics.md */
typedef enum { SLUICE_SET, SLUICE_ADD } sluice_update;           /* D = the product, or D += the product */
typedef enum {
  SLUICE_NO_ACTIVATION,
  SLUICE_RELU,
  SLUICE_GELU,
  SLUICE_SILU,
  SLUICE_CLAMPED_SWIGLU, /* only with gated */
  SLUICE_ACTIVATIONS
} sluice_activation;
typedef enum {
  SLUICE_NO_SCALE,
  SLUICE_SCALE_TENSOR,
  SLUICE_SCALE_VECTOR,
  SLUICE_SCALE_BLOCK,
  SLUICE_SCALE_VECTOR128 /* one per column of B and 128 of k */
} sluice_scale;
typedef enum { SLUICE_K_MAJOR, SLUICE_MN_MAJOR } sluice_major;
typedef enum { SLUICE_ON_CPU = 1, SLUICE_ON_CUDA = 2 } sluice_device_type; /* DLPack's numbers */

typedef struct sluice_device sluice_device;
typedef struct sluice_plan sluice_plan;
typedef struct sluice_kernel sluice_kernel;
typedef struct sluice_workspace sluice_workspace;
typedef struct CUstream_st* sluice_stream; /* a CUstream or cudaStream_t; NULL is the legacy default stream */

/* ---- the library ---- */
/* The SLUICE_C_ABI of the loaded library; compare it with the one compiled against. */
SLUICE_API int sluice_c_abi(void);
SLUICE_API const char* sluice_version(void); /* "0.3.0" */
/* The message of this thread's last failure; "" before the first. */
SLUICE_API const char* sluice_error_message(void);
SLUICE_API const char* sluice_status_name(sluice_status status); /* "invalid_size" */
/* Adds a folder in which the process looks for NVRTC, such as the site-packages folder that holds NVRTC's
 * wheel. It is searched last: after the options, the environment, and a CUDA 13 toolkit in /usr/local/cuda.
 * NULL removes the folder. */
SLUICE_API sluice_status sluice_suggest_nvrtc(const char* folder);

/* ---- values ---- */
/* An array as DLPack describes it. `strides` counts elements; NULL means packed, with the last index
 * contiguous. */
typedef struct {
  void* data; /* may be NULL if only sizes matter (planning) or if the array is empty */
  int32_t dtype;
  int32_t ndim;
  int32_t device_type;
  int32_t device;
  const int64_t* shape;
  const int64_t* strides;
} sluice_array;

/* SLUICE_NOT_PACKED: B is a matrix. */
typedef enum {
  SLUICE_NOT_PACKED,
  SLUICE_UINT4,
  SLUICE_INT8,
  SLUICE_E4M3_WEIGHT,
  SLUICE_E2M1_WEIGHT
} sluice_weight_type;
typedef enum { SLUICE_ORDER_HALF, SLUICE_ORDER_BYTE } sluice_fragment_order; /* for 16-bit, 8-bit tokens */
/* How weights are packed (docs/packing.md): W[row][k] = scale[row][k / group] * (code[row][k] - zero[..]). */
typedef struct {
  int32_t type;  /* sluice_weight_type. A code is 0..15 (uint4), value + 128 (int8), or the bits of an e4m3 or
                    e2m1 */
  int32_t group; /* k per scale: 32, 64, 128, or 0 for all of k */
  int32_t scale; /* dtype of scales and zeros: SLUICE_FP16, SLUICE_BF16, SLUICE_FP32. Of e2m1: SLUICE_E8M0,
                    and the array of scales is uint8; its group is 32 */
  int32_t zeros; /* 0 or 1: whether zero points are stored; else the zero point is 8 (uint4), 128 (int8) or 0
                    (e4m3) */
  int32_t order; /* sluice_fragment_order */
} sluice_weight_format;

/* ---- one struct for every call: describe, plan, prepare, run, launch ---- */
/* clang-format off */
/* The arrays of a call. D = act(alpha * scale_a * scale_b * A B + beta * C + bias). A is m x k, B is k x n (a
 * weight n x k, transposed), D is m x n. They may be three-dimensional batches of these. A convolution is such a
 * product too (include/sluice/conv.h), with y = act(alpha * scale_x * scale_w * (x convolved with w) + beta * C + bias)
 * or one of its gradients. An array with "-" must be NULL.
 * | operand            | product   | packed B       | FPROP      | DGRAD  | WGRAD  |                   |
 * |--------------------|-----------|----------------|------------|--------|--------|-------------------|
 * | SLUICE_A           | A         | tokens         | x          | y (dy) | y (dy) |                   |
 * | SLUICE_B           | B         | blob, uint8    | w          | w      | x      |                   |
 * | SLUICE_C           | C         | C, of D's type | C          | C      | C      | shaped like D     |
 * | SLUICE_D           | D         | D              | y          | x (dx) | w (dw) | written           |
 * | SLUICE_BIAS        | n values  | n values       | filters    | -      | -      |                   |
 * | SLUICE_SCALE_A     | see below | 1 or m values  | 1 value    | -      | -      |                   |
 * | SLUICE_SCALE_B     | see below | -              | 1, filters | -      | -      |                   |
 * | SLUICE_SCALE_D     | 1 value   | 1 value        | 1 value    | -      | -      | divides an e4m3 D |
 * | SLUICE_GAMMA       | -         | k bf16 values  | -          | -      | -      |                   |
 * | SLUICE_GROUPS      | a table   | -              | -          | -      | -      | int32             |
 * | SLUICE_SCALE_OUT   | see below | -              | -          | -      | -      | written           |
 * | SLUICE_ROW_FACTORS | m values  | -              | -          | -      | -      | fp32              |
 * The shapes of a product's scales decide how they apply:
 *   - one value for the whole matrix;
 *   - vectors: scale_a has m or m x 1 values, scale_b n or 1 x n;
 *   - blocks: scale_a is m x ceil(k/128), row-major or stored by columns, each at least m behind the one before.
 *     scale_b is ceil(n/128) x ceil(k/128) or its transposed view;
 *   - both by 1 x 128: scale_a as for blocks, by columns; scale_b is ceil(k/128) x n or its transposed view.
 * With scale_out, fp32 of m x ceil(columns of D / 128), an e4m3 D is quantised by 1 x 128 and its scales are written
 * there. With row_factors, each row of the result is multiplied by a value.
 * With packed weights D = act(scale_a A W^T + bias) + C. A holds tokens of 16 bits, or of e4m3 with one
 * scale_a or m of them. With gamma (for up to 8 bf16 tokens) A's rows are normed first, as sluice_norm does.
 * There is no batch and no update; alpha must be 1, and beta, with C, 1.
 * With problem.groups, rows of A, C and D belong to groups (docs/groups.md). These are matrices; B is groups x k x n.
 * The table has a number per group. A bias is groups x n. Vectors: scale_a as above, scale_b groups x n. Blocks: scale_b
 * is groups x ceil(n/128) x ceil(k/128) or its transposed view. With SLUICE_COUNTS, scale_a by columns is a batch of such
 * matrices, groups x group_pitch x ceil(k/128).
 * Arrays of a convolution have torch's order, with one to three axes, outermost first. x is images x channels
 * x axes, w is filters x channels x axes, y is images x filters x axes. Their strides are those of
 * channels_last: channels are contiguous, and images have the largest stride. A dimension of size 1 may have
 * any stride. x and y may have gaps between pixels, as a slice of channels has; w may not. */
/* clang-format on */
typedef enum {
  SLUICE_A,
  SLUICE_B,
  SLUICE_C,
  SLUICE_D,
  SLUICE_BIAS,
  SLUICE_SCALE_A,
  SLUICE_SCALE_B,
  SLUICE_SCALE_D,
  SLUICE_GAMMA,
  SLUICE_GROUPS,
  SLUICE_SCALE_OUT,
  SLUICE_ROW_FACTORS,
  SLUICE_OPERANDS /* how many */
} sluice_operand;

/* How a table says which rows belong to a group. ENDS: one past the last row; a group begins at the first
 * multiple of group_pitch behind the one before. COUNTS: rows of group g, which begins at row g *
 * group_pitch. ALONG_K: as ENDS, of the k that A and B are summed over; D is groups x m x n, and A and B are
 * matrices. SLOTS: the group of each row r of D, which reads row r / group_pitch of A; -1: of no group. */
typedef enum { SLUICE_NO_GROUPS, SLUICE_ENDS, SLUICE_COUNTS, SLUICE_ALONG_K, SLUICE_SLOTS } sluice_group_kind;

/* The result: y from x and w; x (that is dx) from y (dy) and w; w (dw) from y (dy) and x. */
typedef enum { SLUICE_PRODUCT, SLUICE_FPROP, SLUICE_DGRAD, SLUICE_WGRAD } sluice_conv_op;
/* A convolution. Lists are outermost first; values past `spatial` are ignored. */
typedef struct {
  int32_t op;      /* sluice_conv_op; SLUICE_PRODUCT: the call is no convolution, and the rest is ignored */
  int32_t spatial; /* axes: 1, 2 or 3 */
  int64_t images, channels, filters;
  int64_t size[3]; /* sizes of x */
  int64_t filter[3], stride[3], dilation[3], padding[3], padding_after[3];
  int32_t uneven_padding;   /* 1: padding_after counts; 0: it is equal to padding */
  int64_t x_pitch, y_pitch; /* elements from one pixel to the next; 0: no gaps */
} sluice_conv;

typedef struct {
  int32_t type;             /* sluice_dtype */
  int32_t major;            /* sluice_major, of A and B: the index that is contiguous */
  int32_t unaligned;        /* 1: the address need not be a multiple of 16 bytes (A and B: 16-bit types) */
  int64_t ld, batch_stride; /* elements from row to row, from matrix to matrix; 0: no gaps */
} sluice_matrix;

/* The computation. Where a call has arrays (sluice_run, sluice_describe), the fields marked "array" are read
 * from these, and what the caller wrote there is ignored. Elsewhere they are the caller's. Of a convolution,
 * m, n, k, batch, layouts and strides always follow from `conv`, and a.type and b.type are equal. */
typedef struct {
  int64_t m, n, k, batch;            /* array; n and k of packed weights are always the caller's */
  sluice_matrix a, b, c, d;          /* array. Of packed weights b is ignored */
  sluice_weight_format packed;       /* type SLUICE_NOT_PACKED: B is a matrix */
  int32_t scale_a, scale_b, scale_d; /* array. sluice_scale; of a convolution: of x, w and y */
  int32_t bias, bias_type;           /* array. bias: 0 or 1 */
  int32_t residual;                  /* array. 0 or 1: C is added; of type c.type */
  int32_t row_factors;               /* array: whether there are factors of rows. 0 or 1 */
  int32_t norm_a;                    /* array: whether there is a gamma. 0 or 1: RMSNorm of A's rows first */
  int32_t activation;                /* sluice_activation */
  int32_t gated; /* 0 or 1. 1: D is m x n / 2, act of the first n / 2 columns times the last n / 2 */
  /* SLUICE_ADD: D += alpha * scale_a * scale_b * A B into an fp32 D, without C, bias and activation. */
  int32_t update;
  int32_t accumulate;
  /* Results are bit-identical from run to run. 1: not so, slices of k are added to D in the order in which
   * they finish (only with SLUICE_ADD). */
  int32_t any_order;
  int32_t groups; /* sluice_group_kind. batch is their number. A, C, D, or along k A and B, are one matrix */
  int32_t group_pitch; /* rows; 0 is 1. Without groups it must be 0 or 1 */
  /* array. Block scales of A: 0: by rows. Else by columns, so many elements apart (docs/numerics.md) */
  int64_t scale_a_ld;
  sluice_conv conv; /* op, spatial, stride, dilation, padding: always the caller's. Sizes, pitches: array */
} sluice_problem;

typedef struct {
  uint64_t bytes; /* sizeof(sluice_call). A library with another struct refuses the call */
  sluice_problem problem;
  const sluice_array* operands[SLUICE_OPERANDS]; /* NULL: not used */
  const char* names[SLUICE_OPERANDS]; /* names of the arrays in error messages; NULL: "a", "x" .. */
  float alpha, beta;                  /* beta is used only with C */
  float epsilon;                      /* used only with gamma */
  const sluice_workspace* workspace;  /* NULL: sluice_run lends one, and sluice_launch has none */
} sluice_call;

/* Returns a call of a product without arrays. batch, alpha, beta, and each stride and dilation of a
 * convolution are 1, and epsilon is 1e-5. Everything else is 0 or NULL. */
static inline sluice_call sluice_new_call(void) {
  sluice_call call;
  char* bytes = (char*)&call;
  uint64_t i;
  for (i = 0; i < sizeof call; ++i) bytes[i] = 0;
  call.bytes = sizeof call;
  call.problem.batch = 1;
  for (i = 0; i < 3; ++i) call.problem.conv.stride[i] = call.problem.conv.dilation[i] = 1;
  call.alpha = call.beta = 1.0f;
  call.epsilon = 1e-5f;
  return call;
}

/* Folders and limits of the library. NULL or -1: the value of the environment (include/sluice/options.h). */
typedef struct {
  const char *cache_dir, *nvrtc_path, *records_dir;
  int32_t cache_read_only, jobs;
  int32_t race; /* 0..16: plans to time for a problem without a record (0, 1: none); -1: SLUICE_RACE */
} sluice_options;

/* Fills in call->problem from the call's arrays, as the planner sees them. Needs no GPU and reads no data.
 * Returns the error that sluice_run would return for sizes, types or strides. */
SLUICE_API sluice_status sluice_describe(sluice_call* call);
/* Checks call->problem without planning it, whatever arrays the call has. Returns the error that running it
 * would return for its sizes, types or strides. */
SLUICE_API sluice_status sluice_check(const sluice_call* call);

/* ---- plan: needs no GPU ---- */
/* Plans call->problem; arrays are not looked at. device NULL stands for the first GPU of the machine. If
 * there is none, the plan is for an H200, and its text says so. `choices` fixes choices that the planner
 * would make, e.g. "schedule=cooperative, tile_m=128, tile_n=128, splits=4"; NULL: none. `sluice plan --help`
 * (dense) and docs/packed.md list the names. */
SLUICE_API sluice_status sluice_plan_create(const sluice_device* device, const sluice_call* call,
                                            const char* choices, sluice_plan** plan);
/* Plans for a named GPU, which need not be present: "h100", "h200" or another name that `sluice plan
 * --help` lists. */
SLUICE_API sluice_status sluice_plan_create_for(const char* gpu, const sluice_call* call, const char* choices,
                                                sluice_plan** plan);
SLUICE_API void sluice_plan_free(sluice_plan* plan);
SLUICE_API const char* sluice_plan_text(const sluice_plan* plan);   /* the lines that `sluice plan` prints */
SLUICE_API const char* sluice_plan_config(const sluice_plan* plan); /* the kernel, as a C++ initialiser */
/* Units are the source texts that NVRTC compiles, one per kernel of a launch: two if combine is "separate",
 * none if there is nothing to launch. Clusters numbered by GPC need one more, a kernel that finds the GPC of
 * each SM and runs once per device. NULL: an index past the last unit. */
SLUICE_API int32_t sluice_plan_unit_count(const sluice_plan* plan);
SLUICE_API const char* sluice_plan_unit(const sluice_plan* plan, int32_t index);
SLUICE_API const char* sluice_plan_source(const sluice_plan* plan); /* "model" or "record" */
/* Bytes that the workspace of a launch must have; 0: none is needed. */
SLUICE_API int64_t sluice_plan_workspace_bytes(const sluice_plan* plan);
/* Microseconds of one launch: measured if the plan is from a record, else the model's estimate. */
SLUICE_API double sluice_plan_estimate_us(const sluice_plan* plan);

/* Compiles the plans' kernels into the cache folder. Needs no GPU and loads nothing. */
typedef struct {
  int32_t compiled, already_there, failed;
} sluice_compiled;
SLUICE_API sluice_status sluice_compile(const sluice_plan* const* plans, int32_t count,
                                        const sluice_options* options, sluice_compiled* done);

/* ---- device ---- */
/* Opens GPU `ordinal` as a device of its own; options NULL: those of the environment. Errors: driver (no
 * driver, no such GPU), unsupported_arch (not compute capability 9.0). Free it with sluice_device_close. */
SLUICE_API sluice_status sluice_device_open(int32_t ordinal, const sluice_options* options,
                                            sluice_device** device);
/* Closes the device and frees the kernels and workspaces of sluice_run and sluice_quantize. Call it only
 * when no launch that uses them is still running and no captured graph that uses them will be replayed.
 * Free kernels of sluice_prepare and workspaces of sluice_workspace_create yourself. */
SLUICE_API void sluice_device_close(sluice_device* device);
/* Returns the device that the library keeps for this GPU, shared by the whole process. The first call opens
 * it with the environment's options. Do not close it. */
SLUICE_API sluice_status sluice_device_default(int32_t ordinal, sluice_device** device);
SLUICE_API const char* sluice_device_name(const sluice_device* device);

/* ---- explicit steps: plan, prepare, launch ---- */
/* Times `candidates` likely plans of a problem, 1..16, and returns the fastest, with its time as the
 * estimate. The model's choice wins unless another plan takes 1 % less, or if rounds of one plan differ by 5
 * %, because the GPU was busy; then nothing is stored. Plans whose results differ are dropped. The race needs
 * no arrays: it allocates up to 4 GB, waits for the GPU, and takes about 20 ms in addition to the compiles.
 * Later plans of this device use the result, and so do later devices of the same card, driver and version.
 * For others it is one more candidate. If this device has run the problem before, sluice_use_plan makes it
 * run the new plan. No result is stored for a packed product with `gated`, `residual` or `norm_a`. If the
 * problem has a record, or a result of this card, its plan is returned and nothing is timed. */
SLUICE_API sluice_status sluice_race(const sluice_device* device, const sluice_call* call, int32_t candidates,
                                     sluice_plan** plan);
/* Compiles the plan's kernel, or finds it in the cache, and loads it. Do not call while a stream captures.
 * Free it with sluice_kernel_free. Errors: toolchain, driver. */
SLUICE_API sluice_status sluice_prepare(const sluice_device* device, const sluice_plan* plan,
                                        sluice_kernel** kernel);
/* Unloads the kernel. Call it only when no launch of it is still running and no captured graph that uses it
 * will be replayed. The same holds for sluice_workspace_free. */
SLUICE_API void sluice_kernel_free(sluice_kernel* kernel);
/* Launches without allocation or synchronisation; the stream may be capturing. Of the call's arrays only
 * `data` is read, and its problem is ignored: the kernel's counts. */
SLUICE_API sluice_status sluice_launch(const sluice_kernel* kernel, const sluice_call* call,
                                       sluice_stream stream);

/* Allocates a zeroed workspace. bytes < 0: as many as any plan may need. */
SLUICE_API sluice_status sluice_workspace_create(const sluice_device* device, int64_t bytes,
                                                 sluice_workspace** workspace);
SLUICE_API void sluice_workspace_free(sluice_workspace* workspace);
SLUICE_API int64_t sluice_workspace_bytes(const sluice_workspace* workspace);
/* Waits for the device and fails with SLUICE_WORKSPACE if a counter is not zero. */
SLUICE_API sluice_status sluice_workspace_verify(const sluice_workspace* workspace);
/* Zeroes the workspace in stream order; needed only after an aborted kernel or a shared workspace. */
SLUICE_API sluice_status sluice_workspace_reset(sluice_workspace* workspace, sluice_stream stream);

/* ---- one call: plan, prepare and launch ---- */
/* Launches the kernel of the call's arrays. The first call with a problem plans and prepares the kernel. If
 * the stream is capturing, it fails with not_prepared instead, and the message names the remedy.
 * A plan that splits k needs a workspace, which the device provides. Each stream has its own, allocated once
 * and kept. Each captured graph has one per stream captured into it, until the graph and its executables are
 * destroyed.
 * So different graphs may run at the same time, even if one stream captured them. Copies of one graph (two
 * executables, a clone, a child of two graphs) share its workspace and must not run at the same time. An
 * executable that was updated from a graph needs that graph as long as it exists. Workspaces of streams
 * take at most 4 GB per device, destroyed streams included; beyond that, pass a workspace. It must stay
 * allocated as long as launches or graphs use it. */
SLUICE_API sluice_status sluice_run(sluice_device* device, const sluice_call* call, sluice_stream stream);
/* Prepares the kernels that sluice_run needs for the problems of these calls, in parallel. `race`: as for
 * gemm::prepare (include/sluice/gemm.h): -1 races 3 plans unless SLUICE_RACE says otherwise, 0 none. */
SLUICE_API sluice_status sluice_make_ready(sluice_device* device, const sluice_call* calls, int32_t count,
                                           int32_t race);
/* Makes first calls with a layer's weight race so too, and its gradients' (sluice/run/ops/race/layers.h). */
SLUICE_API sluice_status sluice_race_layer(int64_t outputs, int64_t inputs, const int32_t* filter,
                                           int32_t spatial);
/* Makes sluice_run use this plan for its problem from now on, e.g. a plan with the caller's choices. The
 * kernel used before stays loaded, for graphs that were captured with it. */
SLUICE_API sluice_status sluice_use_plan(sluice_device* device, const sluice_plan* plan);

/* ---- quantisers: include/sluice/quantize.h has their rules ---- */
typedef enum {
  SLUICE_PER_TENSOR,
  SLUICE_PER_ROW,
  SLUICE_PER_ROW_BLOCK,
  SLUICE_PER_SQUARE_BLOCK
} sluice_granularity;
typedef enum { SLUICE_NO_GATE, SLUICE_SILU_GATE } sluice_gate;
/* With a gate the input has twice the columns, gate and up side by side, and silu(gate) * up is quantised.
 * If the output has the input's type and scales is NULL, silu(gate) * up is only rounded to that type. */
typedef struct {
  const sluice_array *input, *output, *scales; /* rows x columns; e4m3 of that shape; fp32, packed */
  int32_t granularity;
  int32_t scale_given; /* 1: per tensor, with the scale read from scales */
  int32_t gate;
  /* It has 8 bytes or more, and is used only per tensor without scale_given. NULL: the device lends one. */
  const sluice_workspace* workspace;
} sluice_quantization;
/* Launches a quantiser, without synchronisation. The first call prepares it, but fails with not_prepared if
 * the stream is capturing. */
SLUICE_API sluice_status sluice_quantize(sluice_device* device, const sluice_quantization* what,
                                         sluice_stream stream);
/* Compiles the quantisers of an input type (bf16, fp16 or fp32) into the cache folder. Needs no GPU. */
SLUICE_API sluice_status sluice_compile_quantizers(int32_t input, const sluice_options* options,
                                                   sluice_compiled* done);
/* Compiles and loads the quantisers of an input type. */
SLUICE_API sluice_status sluice_make_quantizers_ready(sluice_device* device, int32_t input);

/* ---- norms: include/sluice/norm.h has their rules ---- */
typedef struct {
  const sluice_array *input, *gamma;   /* rows x columns of bf16 or fp16; columns values of the same type */
  const sluice_array *residual, *sum;  /* or NULL. sum is input + residual, and may be either array */
  const sluice_array *output, *scales; /* the input's type with scales NULL, or e4m3 with fp32 scales */
  int32_t granularity; /* e4m3 output: SLUICE_PER_TENSOR (scales is read), _ROW, _ROW_BLOCK (written) */
  float epsilon;
} sluice_normalization;
/* Launches a norm, without synchronisation. The first call prepares it, but fails with not_prepared if the
 * stream is capturing. */
SLUICE_API sluice_status sluice_norm(sluice_device* device, const sluice_normalization* what,
                                     sluice_stream stream);
/* Compiles the norms of an input type (bf16 or fp16) into the cache folder. Needs no GPU. */
SLUICE_API sluice_status sluice_compile_norms(int32_t input, const sluice_options* options,
                                              sluice_compiled* done);
/* Compiles and loads the norms of an input type. */
SLUICE_API sluice_status sluice_make_norms_ready(sluice_device* device, int32_t input);

/* ---- packed weights of few bits: docs/packing.md defines the blob, byte by byte ---- */
/* The layout of a blob of n x k weights, in bytes. A blob consists of strips of 64 rows, a strip of tiles
 * of 128 k. With one scale per row (group 0), the scales and zeros of a strip's rows follow its tiles. */
typedef struct {
  int64_t groups;        /* scales per row */
  int64_t strips, tiles; /* tiles per strip */
  int64_t strip_bytes, tile_bytes, row_part_bytes, blob_bytes;
  int64_t tile_scales_offset, tile_zeros_offset; /* offsets from the tile's first byte */
  double stored_bits;                            /* bits of the blob per weight, with scales and padding */
} sluice_packed_numbers;
/* Computes the layout. Errors: those of an invalid format or size. */
SLUICE_API sluice_status sluice_packed_numbers_of(const sluice_weight_format* format, int64_t n, int64_t k,
                                                  sluice_packed_numbers* numbers);

/* The arrays of a packing: all row-major without gaps, and all in the same memory (host or one GPU). */
typedef struct {
  sluice_weight_format format;
  const sluice_array* codes;  /* n x k of SLUICE_BYTE, one code per byte; e4m3 weights may be SLUICE_E4M3 */
  const sluice_array* scales; /* n x groups */
  const sluice_array* zeros;  /* n x groups; NULL if the format has none */
  const sluice_array* blob;   /* blob_bytes of SLUICE_BYTE */
  /* 1 for the weights of a gated product: the blob of the first n / 2 rows, followed by the blob of the
   * rest. n is a multiple of 16, and the size is twice the blob_bytes of n / 2. If n is a multiple of 128,
   * the bytes are the same as without `gated`. */
  int32_t gated;
} sluice_packing;
/* Packs on a GPU with one kernel, which the first call with its format prepares. Of a byte that holds a
 * uint4 the upper half is ignored. sluice_unpack is the exact inverse: it writes codes, scales and zeros. */
SLUICE_API sluice_status sluice_pack(sluice_device* device, const sluice_packing* what, sluice_stream stream);
SLUICE_API sluice_status sluice_unpack(sluice_device* device, const sluice_packing* what,
                                       sluice_stream stream);
/* Packs arrays in host memory, without a GPU. The blob is the same as sluice_pack's, but packing is slower.
 * A uint4 code above 15 is an error. */
SLUICE_API sluice_status sluice_pack_on_host(const sluice_packing* what);
SLUICE_API sluice_status sluice_unpack_on_host(const sluice_packing* what);
/* Compiles both kernels of a format into the cache folder. Needs no GPU. */
SLUICE_API sluice_status sluice_compile_packer(const sluice_weight_format* format,
                                               const sluice_options* options, sluice_compiled* done);
/* Compiles and loads both kernels of a format. */
SLUICE_API sluice_status sluice_make_packer_ready(sluice_device* device, const sluice_weight_format* format);

/* ---- workspaces and kernels that the device owns ---- */
/* Waits for the device and checks the workspaces it provides. Fails with the first whose counters are not
 * zero. */
SLUICE_API sluice_status sluice_verify_workspaces(sluice_device* device);
/* Zeroes all workspaces that the device provides, and waits. Call it after an aborted kernel. */
SLUICE_API sluice_status sluice_reset_workspaces(sluice_device* device);

typedef struct {
  int64_t kernels;         /* problems for which sluice_run has a kernel */
  int64_t workspaces;      /* in use by streams and by graphs that exist */
  int64_t workspace_bytes; /* device memory of all, including outgrown workspaces of streams and workspaces
                              that graphs returned */
} sluice_holdings;
/* Counts the kernels and workspaces that the device holds. */
SLUICE_API sluice_status sluice_device_holdings(sluice_device* device, sluice_holdings* holdings);

#ifdef __cplusplus
}
#endif
#endif
