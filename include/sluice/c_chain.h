/* SPDX-License-Identifier: Apache-2.0 */
/* Chains in the C interface: sequences of dependent launches that are planned as a whole, with gaps in which
 * the caller launches. include/sluice/chain.h and docs/chains.md have their rules.
 *   sluice_steps_create(&steps);
 *   sluice_steps_add_product(steps, &call), sluice_steps_name(steps, "qkv");
 *   sluice_steps_add_gap(steps, &attention);
 *   sluice_chain_create(device, steps, &options, &chain);
 *   sluice_chain_run(chain, 0, stream), my_attention(stream), sluice_chain_run(chain, 1, stream); */
#ifndef SLUICE_C_CHAIN_H
#define SLUICE_C_CHAIN_H

#include <sluice/c_api.h>
#include <sluice/c_experts.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The steps of a chain in order. Adding one reads sizes, types and addresses of its arrays, which must be in
 * a GPU's memory, and launches nothing. The memory must live as long as chains of the steps and graphs of
 * them. What is added must leave `workspace` NULL. Any thread may use a handle, one at a time. */
typedef struct sluice_steps sluice_steps;
typedef struct {
  const void* data;
  int64_t bytes;
} sluice_range;
/* A gap, where the caller launches between two parts of the chain. */
typedef struct {
  int32_t nodes;              /* launches, 1 or more: the nodes that they add to a graph */
  int32_t programmatic_edges; /* programmatic edges between those nodes */
  /* 0 or 1. waits: the first node is a kernel with programmatic stream serialisation, whose CTAs wait before
   * they read what an earlier launch writes, write, or exit. triggers: the last node is a kernel whose CTAs
   * all trigger or exit, and later steps may begin then. */
  int32_t waits, triggers;
  int32_t write_count;        /* -1: it may write any memory */
  const sluice_range* writes; /* the memory that the gap writes */
  double stand_in_us; /* microseconds of the kernel that stands in its place in the tuner; 5 is usual */
} sluice_gap;
SLUICE_API sluice_status sluice_steps_create(sluice_steps** steps);
SLUICE_API void sluice_steps_free(sluice_steps* steps);
SLUICE_API int32_t sluice_steps_count(const sluice_steps* steps);
SLUICE_API sluice_status sluice_steps_add_product(sluice_steps* steps, const sluice_call* call);
SLUICE_API sluice_status sluice_steps_add_norm(sluice_steps* steps, const sluice_normalization* what);
SLUICE_API sluice_status sluice_steps_add_quantizer(sluice_steps* steps, const sluice_quantization* what);
SLUICE_API sluice_status sluice_steps_add_route(sluice_steps* steps, const sluice_routing* what);
SLUICE_API sluice_status sluice_steps_add_gather(sluice_steps* steps, const sluice_gathering* what);
SLUICE_API sluice_status sluice_steps_add_combine(sluice_steps* steps, const sluice_combining* what);
SLUICE_API sluice_status sluice_steps_add_gap(sluice_steps* steps, const sluice_gap* gap);
/* Names the last step, for messages and sluice_chain_text(). */
SLUICE_API sluice_status sluice_steps_name(sluice_steps* steps, const char* name);

typedef enum { SLUICE_CHAIN_OFF, SLUICE_WAIT_FIRST, SLUICE_WEIGHTS_FIRST, SLUICE_CHAIN_TUNED } sluice_overlap;
typedef enum { SLUICE_AS_PLANNED, SLUICE_GUARDED, SLUICE_TUNE } sluice_chain_search;
/* How a chain is planned. {0} is a chain without overlap. */
typedef struct {
  int32_t overlap; /* sluice_overlap */
  int32_t
      search; /* sluice_chain_search. Guarded and tune time chains on the GPU: Chain::guarded, Chain::tune */
  double seconds; /* for SLUICE_TUNE: the time for changes of single steps */
  int32_t keep;   /* for SLUICE_TUNE. 1: store the result among the user's records */
} sluice_chain_options;
typedef struct sluice_chain sluice_chain;
/* Plans, compiles and loads the steps' kernels, and allocates the chain's workspace. Do not call while a
 * stream captures. */
SLUICE_API sluice_status sluice_chain_create(const sluice_device* device, const sluice_steps* steps,
                                             const sluice_chain_options* options, sluice_chain** chain);
/* As sluice_kernel_free. */
SLUICE_API void sluice_chain_free(sluice_chain* chain);
/* Enqueues the launches in front of gap `part`, back to the gap before it; the last part is what follows the
 * last gap. Neither allocates nor synchronises; the stream may be capturing. Only one stream or one graph at
 * a time may use a chain, whose workspace is its own. */
SLUICE_API sluice_status sluice_chain_run(const sluice_chain* chain, int32_t part, sluice_stream stream);
SLUICE_API int32_t sluice_chain_parts(const sluice_chain* chain);              /* gaps + 1 */
SLUICE_API int32_t sluice_chain_kernels(const sluice_chain* chain);            /* nodes of gaps included */
SLUICE_API int32_t sluice_chain_programmatic_edges(const sluice_chain* chain); /* with those of gaps */
SLUICE_API const char* sluice_chain_text(const sluice_chain* chain);           /* two lines per step */
/* Checks that a captured graph (a CUgraph or cudaGraph_t) holds the chain's launches in order, with the gaps'
 * launches between them, and that each dependent launch has its programmatic edge. Error internal: names the
 * step at which they differ. */
SLUICE_API sluice_status sluice_chain_check(const sluice_chain* chain, void* graph);

#ifdef __cplusplus
}
#endif
#endif
