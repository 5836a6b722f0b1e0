// SPDX-License-Identifier: Apache-2.0
// clang-format off
// Few e4m3 tokens times packed weights, without roles: what kernels/byte.cuh does, with weights copied by the warps that multiply them
// and tokens that stay. Two of its CTAs may share an SM; alone it is slower than byte.cuh yet (docs/findings/few-bit-weights.md).
//
// | warp        | does                                                                                              |
// | every one   | copies its 16 rows of every k_groups-th tile of its strip into its own ring (cp.async), brings a  |
// |             | share of the CTA's tokens (TMA), makes codes e4m3 in registers, multiplies (WGMMA), scales sums   |
// | all, at end | add up the warpgroups' sums through shared memory, then those of the cluster's CTAs               |
//
// | meeting point                       | who                  | what it orders                                                          |
// | wait_copies, __syncwarp             | a warp               | a stage's bytes before its reads, its reads before what replaces them   |
// | a barrier for each tile of tokens   | TMA, all warps       | tokens before WGMMA reads them; nothing replaces them                   |
// | __syncthreads, first                | a CTA                | those barriers are there                                                |
// | __syncthreads, twice                | a CTA                | last reads of rings and tokens, sums, reads of the sums                 |
// | cluster: arrive first thing, wait   | its CTAs             | a CTA has begun before others write to its memory                       |
// | before the first push               |                      |                                                                         |
// | cluster: arrive, wait               | the same             | pushed sums before they are read                                        |
// | griddepcontrol.wait, if             | every thread         | launches before this one, and what they wrote, before X and the scales  |
// | config.overlap waits                |                      | of X and D are read and D is written; weights and bias may come earlier |
// clang-format on
//
// No CTA waits for one outside of its cluster, no memory is needed between launches, and sums are always
// added in the same order. Launched by host/byte_launch.cc.
#pragma once

#include <sluice/device/dependent_launch.cuh>
#include <sluice/device/mixed/byte_copies.cuh>
#include <sluice/device/mixed/byte_finish.cuh>
#include <sluice/device/mixed/byte_products.cuh>

namespace sluice::mixed {

template <ByteConfig kConfig>
SLUICE_DEVICE void run_byte_plain(const ByteParams& params) {
  static_assert(validate(kConfig) == nullptr && is_plain(kConfig));
  using Launch = DependentLaunch<kConfig.overlap>;
  extern __shared__ __align__(1024) u8 smem[];
  TimelineMarks timeline;
  timeline.mark(Moment::start);
  Launch::begin();
  if constexpr (kConfig.parts > 1) ptx::cluster_arrive_relaxed();
  const BytePlace<kConfig> at(params, ptx::shared_address(smem));
  const auto issued = [&] {
    timeline.mark(Moment::last_load);
    if (threadIdx.x == 0) Launch::loaded();
  };
  using Copies = ByteCopies<kConfig, decltype(issued)>;
  using Products = ByteProducts<kConfig, Copies>;

  if (at.lane() == 0 && params.k_tiles > 0) ptx::prefetch_tensormap(params.map_x);
  __syncwarp();
  Copies::start(at);
  __syncthreads();
  Copies copies(params, at, timeline, issued);
  ByteFinish<kConfig> finish(params, at);
  const auto begin_tokens = [&] {
    if (threadIdx.x == 0) Launch::prefetch(params);
    Launch::wait();
    timeline.mark(Moment::wait_returned);
    copies.bring_tokens(params);
  };
  // Tokens first where they can be: what is behind a ring of weights comes as late as those.
  if constexpr (!Launch::kWeightsFirst) begin_tokens();
  copies.fill_weights();
  if constexpr (Launch::kWeightsFirst) begin_tokens();
  finish.fetch_vectors([] {});

  typename Products::Sums sums = {};
  Products(params, at, copies).run(sums);
  if (threadIdx.x == 0) Launch::hand_off(params);
  finish.keep_vectors();
  __syncthreads();
  finish.leave(sums);
  __syncthreads();
  if constexpr (kConfig.parts > 1) {
    ptx::cluster_wait_acquire();
    finish.send();
    ptx::cluster_arrive_release();
    ptx::cluster_wait_acquire();
  }
  finish.store_share();
  timeline.mark(Moment::exit);
  timeline.write();
}

}  // namespace sluice::mixed
