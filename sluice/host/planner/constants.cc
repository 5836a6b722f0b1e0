// SPDX-License-Identifier: Apache-2.0
// The table of the planner's constants. A member without a row does not compile. Changing a value changes
// plans (tests/plans). What each was fitted to, and which are an H200's alone: docs/findings/fits.md.
#include <sluice/host/planner/constants.h>

#include <iterator>

#include <sluice/host/text/lines.h>

namespace sluice {
namespace {

using enum Origin;

constexpr const char* kFits = "docs/findings/fits.md";
constexpr const char* kGpc = "docs/findings/gpc.md";
constexpr const char* kMnMajor = "docs/findings/mn-major.md";
constexpr const char* kPlain = "docs/findings/plain-loads.md";
constexpr const char* kFewBits = "docs/findings/few-bit-weights.md";
constexpr const char* kPtxas = "77 configs, ptxas 13.0";
constexpr const char* kEstimated = "estimated, not fitted";
constexpr const char* kConvolutions = "docs/findings/convolutions.md";
constexpr const char* kHopper = "NVIDIA H100 white paper";

using D = DenseCosts;
constexpr Constant<D> kDense[] = {
    {"mainloop_efficiency", &D::mainloop_efficiency, 0.962, "ratio", sm,
     "share of the sustained WGMMA rate that the main loop keeps, apart from L2 and epilogue", kFits, 0.8, 1},
    {"smem_read_clocks_a", &D::smem_read_clocks_a, 12.05, "clocks", sm,
     "reading A's rows for one 64 x n step of WGMMA; began at 16, 128 bytes a clock", kFits, 8, 24},
    {"smem_read_clocks_per_column", &D::smem_read_clocks_per_column, 0.25, "clocks / column", sm,
     "reading B for the same step", "128 bytes a clock"},
    {"smem_write_weight", &D::smem_write_weight, 0.615, "clocks / row", sm,
     "the visible part of TMA's writes, a row of the stage in a clock: most fall into gaps", kFits, 0.1, 1.2},
    {"power_clocks_per_l2_byte", &D::power_clocks_per_l2_byte, 0.0003294, "clocks / byte", device,
     "a GPU at its power limit clocks lower, the more bytes move from L2", "docs/findings/power.md", 1e-05,
     0.01},
    {"l2_gain_of_tma", &D::l2_gain_of_tma, 1.4, "ratio", device,
     "TMA's rate from L2 over that of plain loads with all SMs reading, 8.1 TB/s; at its bound", kFits, 0.9,
     1.4},
    {"l2_bytes_per_clock_per_sm", &D::l2_bytes_per_clock_per_sm, 80, "bytes / clock", sm,
     "the port of an SM, for all that its tile needs; at its bound", kFits, 35, 80},
    {"split_line_weight", &D::split_line_weight, 1, "ratio", sm,
     "cost of the second request of a row that lies in two lines", kMnMajor, 0.05, 2},
    {"l2_gain_in_step", &D::l2_gain_in_step, 1.35, "ratio", device,
     "lone CTAs that ask at one time are answered together; multicasts are not", kGpc, 0.9, 2},
    {"repeated_bytes_per_us", &D::repeated_bytes_per_us, 28.2e6, "bytes / us", device,
     "bytes that a second cluster asks for while they are on their way from HBM; 18e6 by pairs, 256 rows",
     kFits, 8e6, 1e9},
    {"load_latency_us", &D::load_latency_us, 1.266, "us", device,
     "from a TMA load to its bytes, L2 and HBM mixed; at its bound", kFits, 0.4, 3},
    {"usable_l2", &D::usable_l2, 0.5, "ratio", device,
     "share of L2 that holds panels between two uses: two partitions copy each other's lines, D passes too",
     "a measured band beyond it lost"},
    {"sharpness_in_tile", &D::sharpness_in_tile, 9.475, "exponent", model,
     "times that overlap are joined as an l^p norm; large: the longest wins", kFits, 2, 20},
    {"sharpness_in_kernel", &D::sharpness_in_kernel, 3.735, "exponent", model,
     "joins a wave's clocks and its share of HBM", kFits, 1.5, 20},
    {"sharpness_of_promotion", &D::sharpness_of_promotion, 3.91, "exponent", model,
     "joins products and promotion of cooperative groups", kFits, 1.5, 20},
    {"epilogue_fixed_clocks", &D::epilogue_fixed_clocks, 371.8, "clocks", sm,
     "a tile's last WGMMA drained, barriers, first store", kFits, 100, 1500},
    {"epilogue_clocks_per_chunk", &D::epilogue_clocks_per_chunk, 106.9, "clocks", sm,
     "wait, fence, barrier and store of 128, 64 or 32 bytes of a row of D", kFits, 20, 400},
    {"epilogue_clocks_per_element", &D::epilogue_clocks_per_element, 2.798, "clocks", sm,
     "issue slots of an element of D in a thread, from 2.5 instructions and the stmatrix", kFits, 1, 16},
    {"bias_clocks_per_element", &D::bias_clocks_per_element, 0.3, "clocks", sm, "the same, for a bias",
     kEstimated},
    {"scale_clocks_per_element", &D::scale_clocks_per_element, 1, "clocks", sm,
     "the same, for each vector of scales: a product, or its way through shared memory", kEstimated},
    {"residual_clocks_per_element", &D::residual_clocks_per_element, 3, "clocks", sm,
     "the same, for a residual", kEstimated},
    {"gelu_clocks_per_element", &D::gelu_clocks_per_element, 15, "clocks", sm, "the same, for GELU",
     kEstimated},
    {"silu_clocks_per_element", &D::silu_clocks_per_element, 14, "clocks", sm, "the same, for SiLU",
     kEstimated},
    {"fp32_output_weight", &D::fp32_output_weight, 1.5, "ratio", sm, "an fp32 element over a 16-bit one",
     kEstimated},
    {"direct_store_weight", &D::direct_store_weight, 3, "ratio", sm, "a direct store over TMA's", kEstimated},
    {"strided_line_clocks", &D::strided_line_clocks, 25, "clocks", sm,
     "128 bytes of an operand that TMA cannot address, brought by three warps", kEstimated},
    {"turn_clocks", &D::turn_clocks, 47.14, "clocks", sm,
     "ping-pong: from the last WGMMA of one group to the first of the other", kFits, 20, 400},
    {"ramp_clocks", &D::ramp_clocks, 331.5, "clocks", sm,
     "cooperative: from an epilogue to full speed, with the ring already full", kFits, 50, 1500},
    {"chain_clocks_per_step", &D::chain_clocks_per_step, 6.898, "clocks", sm,
     "ping-pong in tiles of 64 rows: a lone chain of WGMMAs waits for its sums at each step",
     "64x256 against 128x128, 2026-11-21", 0.5, 20},
    {"chain_clocks_of_mn_major", &D::chain_clocks_of_mn_major, 3, "clocks", sm,
     "more, for each operand that the step reads across its rows", kMnMajor, 0, 30},
    {"promote_clocks_per_register", &D::promote_clocks_per_register, 0.6913, "clocks", sm,
     "promotion: one add for each accumulator", kFits, 0.5, 3},
    {"promote_drain_clocks", &D::promote_drain_clocks, 84.57, "clocks", sm,
     "promotion: the tensor pipe drained each time", kFits, 10, 300},
    {"block_scale_clocks_per_register", &D::block_scale_clocks_per_register, 0.06953, "clocks", sm,
     "block scales on top: a multiply-add of three registers for an add", kFits, 0.05, 2},
    {"block_scale_clocks", &D::block_scale_clocks, 11.02, "clocks", sm,
     "block scales on top: the scales' way to registers", kFits, 5, 300},
    {"cluster_clocks_per_k_tile", &D::cluster_clocks_per_k_tile, 0.7635, "clocks", sm,
     "CTAs of a cluster wait for each other's loads", kFits, 0.5, 60},
    {"promoted_cluster_clocks_per_k_tile", &D::promoted_cluster_clocks_per_k_tile, 20, "clocks", sm,
     "more with promotion, where they drift apart", kMnMajor, 0.5, 100},
    {"launch_us", &D::launch_us, 0.6, "us", device, "a launch; an empty kernel is 0.5 us", kEstimated},
    {"first_bytes_us", &D::first_bytes_us, 1.282, "us", device,
     "barriers, tensor maps, first bytes from HBM to the first WGMMA; began at 1.5", kFits, 0.5, 3},
    {"cluster_us", &D::cluster_us, 0.4072, "us", device, "a cluster starts later", kFits, 0.05, 1},
    {"last_store_us", &D::last_store_us, 0.2575, "us", device, "the last store of D", kFits, 0.1, 1},
    {"combine_us", &D::combine_us, 4.579, "us", device,
     "last arriver: writes reach L2, the counter answers, the first slot is read; apart from bytes", kFits,
     0.5, 5},
    {"combine_bytes_per_clock", &D::combine_bytes_per_clock, 100, "bytes / clock", sm,
     "parts of an SM, to and from L2", kFits, 10, 100},
    {"piece_clocks", &D::piece_clocks, 6612, "clocks", sm, "a run's price for each tile that it touches",
     kFits, 50, 8000},
    {"separate_us", &D::separate_us, 2.2, "us", device,
     "a kernel that adds up parts: sums reach L2, and its start behind the last CTA", kFits, 0.5, 10},
    {"separate_bytes_per_us", &D::separate_bytes_per_us, 1.7e6, "bytes / us", device,
     "parts that this kernel reads and writes, all SMs at once", kFits, 5e5, 8e6},
    {"add_l2_weight", &D::add_l2_weight, 2, "ratio", model,
     "parts added to D (Combine::add): a read and a write of L2 for each byte",
     "512x512x32768 28.0 us, 128x1024x65536 41.1 us, within 10 %"},
    {"exchange_pass_clocks", &D::exchange_pass_clocks, 200, "clocks", sm,
     "clusters along k: a pass of sums there and back", "docs/findings/fitted-widths.md", 200, 3000},
    {"exchange_bytes_per_clock", &D::exchange_bytes_per_clock, 12, "bytes / clock", sm,
     "clusters along k: sums between CTAs", "docs/findings/fitted-widths.md", 8, 64},
    {"apart_hbm_weight", &D::apart_hbm_weight, 1.3, "1", model,
     "convolutions: HBM's time for every second pixel, beside that for neighbours",
     "docs/findings/im2col.md"},
    {"gathered_gain_split", &D::gathered_gain_split, 0.9, "ratio", device,
     "convolutions: what lone CTAs get of L2's rate where any of their rows lie in two lines", kConvolutions,
     0.4, 2},
    {"gathered_sharpness", &D::gathered_sharpness, 6, "exponent", model,
     "convolutions: sharpness_in_tile, since loads that a thread aims hide less", kConvolutions, 2, 20},
    {"gathered_pair_clocks", &D::gathered_pair_clocks, 100, "clocks", sm,
     "convolutions: a k-tile more in pairs along m", kConvolutions, 1, 200},
};

using P = PlainCosts;
constexpr Constant<P> kPlainRows[] = {
    {"launch_us", &P::launch_us, 2.37, "us", device,
     "a kernel that reads nothing, and its first and last bytes", kPlain},
    {"sm_bytes_per_us", &P::sm_bytes_per_us, 66e3, "bytes / us", device, "one SM's intake", kPlain},
    {"latency_us", &P::latency_us, 1.22, "us", device,
     "a load under load: bytes in flight over it are a rate", kPlain},
    {"tokens_share", &P::tokens_share, 0.18, "ratio", device,
     "share of the time of reading tokens again that L2 does not overlap with HBM", kPlain},
    {"product_clocks", &P::product_clocks, 7.0, "clocks", sm, "one mma.sync on an SM sub-partition", kPlain},
    {"fp8_expand_clocks", &P::fp8_expand_clocks, 18, "clocks", sm, "16 x 32 of B from fp8 to fp16", kPlain},
    {"load_clocks", &P::load_clocks, 2.2, "clocks", sm, "a row of 128 bytes: copies, addresses", kPlain},
    {"wgmma_clocks", &P::wgmma_clocks, 18, "clocks", sm,
     "one WGMMA with few columns, both operands in shared memory", kPlain},
    {"meet_clocks", &P::meet_clocks, 300, "clocks", sm,
     "a warpgroup's stage: copies seen, barrier, latency of products", kPlain},
    {"group_load_clocks", &P::group_load_clocks, 7, "clocks", sm,
     "16 rows of 128 bytes that a warpgroup copies", kPlain},
    {"clocks_per_us", &P::clocks_per_us, 1770, "clocks / us", device, "an SM with its tensor core in use",
     kPlain},
    {"overlap", &P::overlap, 0.16, "ratio", model,
     "share of the less of memory and instructions that the other does not hide", kPlain},
    {"cluster_of_2_us", &P::cluster_of_2_us, 0.7, "us", device, "a cluster of 2 CTAs", kPlain},
    {"cluster_of_4_us", &P::cluster_of_4_us, 1.2, "us", device, "a cluster of 4 CTAs", kPlain},
    {"cluster_of_8_us", &P::cluster_of_8_us, 1.6, "us", device, "a cluster of 8 CTAs", kPlain},
    {"reduce_us", &P::reduce_us, 0.012, "us / KB", device, "sums that warps add up", kPlain},
    {"tail", &P::tail, 0.52, "ratio", model, "weight of the empty part of the last wave", kPlain},
    {"wave_us", &P::wave_us, 0.1, "us", device, "each wave but the first", kPlain},
    {"beside_roles", &P::beside_roles, 0.97, "ratio", model,
     "dense costs are 3 % low for few tokens, and the two are compared", kPlain},
};

using N = NarrowCosts;
constexpr Constant<N> kNarrow[] = {
    {"fixed_us", &N::fixed_us, 1.98, "us", device, "launch, first bytes, last stores", kFewBits},
    {"sm_bytes_per_us", &N::sm_bytes_per_us, 40.3e3, "bytes / us", device, "one SM's intake", kFewBits},
    {"token_share", &N::token_share, 0.138, "ratio", device,
     "share of the tokens' bytes in that intake: they are in L2", kFewBits},
    {"latency_us", &N::latency_us, 1.38, "us", device, "from a copy to its bytes", kFewBits},
    {"clocks_per_us", &N::clocks_per_us, 1755, "clocks / us", device, "an SM", kFewBits},
    {"bf16_work", &N::bf16_work, 1.29, "ratio", sm, "expanding codes for bf16 tokens over fp16", kFewBits},
    {"reduce_us", &N::reduce_us, 0.132, "us", device,
     "each four sums of a warp that a thread adds up at the end", kFewBits},
    {"wave_us", &N::wave_us, 0.754, "us", device, "each wave of CTAs after the first", kFewBits},
    {"cluster_wave_us", &N::cluster_wave_us, 2.0, "us", device, "each wave of clusters after the first",
     kFewBits},
    {"part_us", &N::part_us, 0.373, "us", device, "each CTA of a cluster", kFewBits},
    {"sharpness", &N::sharpness, 14.2, "exponent", model, "times that overlap, joined as an l^p norm",
     kFewBits},
    {"fives_for_fours", &N::fives_for_fours, 2.0 / 3 + 1e-9, "ratio", device,
     "clusters of five that run at once, 20, for each of four, 30; the strip kernel's too", kFewBits},
};

using I = IssueCosts;
constexpr const char* kFew = "417 timings, uint4, group 64, fp16, 1 to 32 tokens, 2026-11-21";
constexpr Constant<I> kNarrowFew[] = {
    {"tile_clocks", &I::tile_clocks, 70, "clocks", sm, "ring, addresses, scales", kFew},
    {"token_block_clocks", &I::token_block_clocks, 35, "clocks", sm, "8 tokens: loads, sums of tokens", kFew},
    {"block_clocks", &I::block_clocks, 8, "clocks", sm, "16 rows and a word of codes", kFew},
    {"product_clocks", &I::product_clocks, 9.8, "clocks", sm, "16 rows x 8 tokens", kFew},
    {"busy_warps", &I::busy_warps, 8, "warps", sm, "warps of an SM that fill its issue slots", kFew},
};
constexpr Constant<I> kNarrowMore[] = {
    {"tile_clocks", &I::tile_clocks, 67.6, "clocks", sm, "ring, addresses, scales", kFewBits},
    {"token_block_clocks", &I::token_block_clocks, 22.8, "clocks", sm, "8 tokens: loads, sums of tokens",
     kFewBits},
    {"block_clocks", &I::block_clocks, 39.9, "clocks", sm, "16 rows and a word of codes", kFewBits},
    {"product_clocks", &I::product_clocks, 77.4, "clocks", sm, "16 rows x 8 tokens", kFewBits},
    {"busy_warps", &I::busy_warps, 4.78, "warps", sm, "one warp a scheduler nearly fills its slots",
     kFewBits},
};

using R = RegisterCosts;
constexpr Constant<R, int> kRegisters[] = {
    {"base", &R::base, 79, "registers", sm, "tiles of 8 tokens: all but sums", kPtxas},
    {"row_block", &R::row_block, 4, "registers", sm, "each 16 rows, four at most", kPtxas},
    {"second_strip", &R::second_strip, 30, "registers", sm, "8 blocks of rows: codes that come early",
     kPtxas},
    {"group_32", &R::group_32, 5, "registers", sm, "groups of 32, each 16 rows", kPtxas},
    {"more_base", &R::more_base, 84, "registers", sm, "tiles of 16 and 32 tokens: all but sums", kPtxas},
    {"more_sums", &R::more_sums, 2, "ratio", sm, "registers for each sum there", kPtxas},
    {"more_group_32", &R::more_group_32, 20, "registers", sm, "groups of 32 there", kPtxas},
};

using W = WideCosts;
constexpr Constant<W> kWide[] = {
    {"fixed_us", &W::fixed_us, 2.72, "us", device, "launch, first bytes", kFewBits},
    {"clocks_per_us", &W::clocks_per_us, 1755, "clocks / us", device, "an SM", kFewBits},
    {"product_clocks", &W::product_clocks, 1.0, "clocks", sm, "a token's products in a step of 16 k",
     "60 products of 17 to 1024 tokens, 2026-11-21"},
    {"issue_clocks", &W::issue_clocks, 0.456, "clocks", sm,
     "a token where the step waits for instructions, beside the expanding", kFewBits},
    {"expand_clocks", &W::expand_clocks, 85, "clocks", sm, "weights of 4-bit codes", kFewBits},
    {"expand_byte_clocks", &W::expand_byte_clocks, 110, "clocks", sm, "weights of 8-bit codes", kFewBits},
    {"zero_clocks", &W::zero_clocks, 6, "clocks", sm, "more with stored zeros", kFewBits},
    {"tile_us", &W::tile_us, 2.52, "us", device, "stores of 256 tokens, which nothing hides", kFewBits},
    {"last_tile_us", &W::last_tile_us, 1.85, "us", device, "the last of them, until they have arrived",
     kFewBits},
    {"exchange_us", &W::exchange_us, 0.986, "us", device, "64 tokens where two CTAs share k", kFewBits},
};

/// A row of the strip kernel: the value is for e4m3 tokens, `half` for 16-bit tokens, whose scales cost
/// nothing more with more of them. `half` was fitted to 226 problems of 17 to 128 tokens, 2026-11-23.
using S = StripCosts;
struct StripConstant {
  Constant<S> row;
  double half;
};
constexpr StripConstant kStrip[] = {
    {{"fixed_us", &S::fixed_us, 2.83, "us", device, "launch, first bytes, last stores", kFewBits}, 3.17},
    {{"sm_bytes_per_us", &S::sm_bytes_per_us, 39.0e3, "bytes / us", device, "one SM's intake", kFewBits},
     49.4e3},
    {{"token_share", &S::token_share, 0.272, "ratio", device,
      "share of the tokens' bytes in that intake: they are in L2", kFewBits},
     0.18},
    {{"latency_us", &S::latency_us, 0.327, "us", device, "from a copy to its bytes", kFewBits}, 0.762},
    {{"clocks_per_us", &S::clocks_per_us, 1755, "clocks / us", device, "an SM", kFewBits}, 1755},
    {{"tile_clocks", &S::tile_clocks, 137, "clocks", sm, "a tile: codes, barriers", kFewBits}, 149},
    {{"product_clocks", &S::product_clocks, 1.88, "clocks", sm, "each token", kFewBits}, 3.06},
    {{"token_clocks", &S::token_clocks, 0.678, "clocks", sm, "each token and scale of a row in the tile",
      kFewBits},
     0},
    {{"busy_exponent", &S::busy_exponent, 0.187, "exponent", model, "warpgroups as a share of four",
      kFewBits},
     0.067},
    {{"wave_us", &S::wave_us, 1.62, "us", device, "each wave of CTAs after the first", kFewBits}, 1.63},
    {{"cluster_wave_us", &S::cluster_wave_us, 2.69, "us", device, "each wave of clusters after the first",
      kFewBits},
     3.69},
    {{"reduce_us", &S::reduce_us, 0.00034, "us", device,
      "each token of a warpgroup's sums that go to shared memory", kFewBits},
     0.00146},
    {{"part_us", &S::part_us, 0.108, "us", device, "each CTA of a cluster", kFewBits}, 0.08},
    {{"exchange_us", &S::exchange_us, 0.005, "us", device, "each token of a strip whose sums CTAs exchange",
      kFewBits},
     0.0072},
    {{"l2_share", &S::l2_share, 1, "ratio", device,
      "more than L2's rate where neighbours in a GPC ask for the same tokens", kFewBits},
     1.82},
    {{"shallow_ring", &S::shallow_ring, 1, "ratio", model,
      "times a tile's clocks where a warpgroup has only two stages", kFewBits},
     1.38},
    {{"sharpness", &S::sharpness, 12, "exponent", model, "times that overlap, joined as an l^p norm",
      kFewBits},
     3.9},
};

using F = FittedOn;
constexpr Constant<F> kFittedOn[] = {
    {"max_sm_mhz", &F::max_sm_mhz, 1980, "MHz", device, "clock of an SM that power does not hold back",
     "docs/hardware.md"},
    {"hbm_bytes_per_us", &F::hbm_bytes_per_us, 4.5e6, "bytes / us", device, "taken from HBM",
     "docs/hardware.md"},
    {"l2_bytes_per_us", &F::l2_bytes_per_us, 8.1e6, "bytes / us", device, "taken from L2 by plain loads",
     "docs/hardware.md"},
    {"fp16_flops_per_clock", &F::fp16_flops_per_clock, 4096, "operations / clock", sm,
     "16-bit products of a full SM", kHopper},
    {"fp8_flops_per_clock", &F::fp8_flops_per_clock, 8192, "operations / clock", sm,
     "fp8 products of a full SM", kHopper},
};

using O = RowCosts;
constexpr Constant<O> kRows[] = {
    {"unused_split", &O::unused_split, 1.005, "ratio", model,
     "a kernel that can split k where it does not: registers, and a branch for each tile",
     "H200, 2026-11-25"},
    {"row_too_many", &O::row_too_many, 0.005, "ratio / row", model,
     "a plain tile taller than need be reads a row that is there for each that is not",
     "4096 x 14336: 77 rows in tiles of 128 for 96 lost 12 to 22 %, 95 rows 5 to 7"},
    {"record_gain", &O::record_gain, 0.02, "ratio", model,
     "a tuned kernel's lead over those that the model thinks as good", "tuning records, H200"},
    {"few_rows_weight", &O::few_rows_weight, 16, "rows", search,
     "one row counts as 17 numbers of many, 16 rows as two: decoding has a row for each sequence", "chosen"},
    {"felt_loss", &O::felt_loss, 0.03, "ratio", search,
     "losses weigh more than in proportion from here: 4 times at 6 %, 9.6 at 8 %, so the worst counts first",
     "chosen"},
    {"least_gain", &O::least_gain, 1e-4, "ratio", search,
     "mean penalty that another kernel must save to be worth its compile", "chosen"},
};

using B = SearchBounds;
constexpr Constant<B, i64> kSearch[] = {
    {"swapped_rows", &B::swapped_rows, 1024, "rows", search,
     "swapped operands: widths that cut up to so many rows of A into equal parts are tried",
     "docs/findings/swapped.md"},
    {"fitted_waves", &B::fitted_waves, 3, "waves", search, "widths that fill up to so many waves are tried",
     "docs/findings/fitted-widths.md"},
    {"fitted_width", &B::fitted_width, 64, "columns", search,
     "least of those widths; narrower tiles are for few rows", "docs/findings/fitted-widths.md"},
    {"splits_of_config", &B::splits_of_config, 2, "plans", search,
     "splits of one config among candidates: a tuner shall see different configs", "chosen"},
    {"run_k_tiles", &B::run_k_tiles, 2, "k-tiles", search, "shortest run of a split", "chosen"},
    {"gpc_sms", &B::gpc_sms, 16, "SMs", sm, "SMs of a GPC that share an operand", kGpc},
    {"gpc_tensor_share", &B::gpc_tensor_share, 2, "ratio", search,
     "tensor time over HBM's from which on numbering by GPC gains: 0.6 % at 2, 2 to 3.6 at 4", kGpc},
    {"gpc_parts", &B::gpc_parts, 4, "parts", search,
     "parts of a tile from which on it gains 2.5 to 15 %; two parts lost 0.3 to 90", kGpc},
    {"two_wave_rows", &B::two_wave_rows, 64, "rows", search,
     "plain schedules: more rows of A in two waves lost to schedules with roles", kPlain},
    {"borrowed_rows", &B::borrowed_rows, 64, "rows", search,
     "gated: rows up to which a record of another epilogue serves a direct store; 164 us for 158 with 1024",
     "docs/findings/gated.md"},
    {"narrow_tokens", &B::narrow_tokens, 16, "tokens", search,
     "up to so many are the narrow kernel's: 8 % faster than the strip kernel", kFewBits},
    {"strip_tokens", &B::strip_tokens, 128, "tokens", search, "16-bit tokens: more are the wide kernel's",
     kFewBits},
    {"strip_stages", &B::strip_stages, 32, "stages", search, "deepest ring of the strip kernel", kFewBits},
    {"strip_group_tokens", &B::strip_group_tokens, 64, "tokens", search,
     "tokens of a tile from which two warpgroups may beat four", kFewBits},
    {"part_k_tiles", &B::part_k_tiles, 8, "k-tiles", search,
     "least for a second warpgroup or a part of a cluster: fewer were slower", kFewBits},
    {"all_rows", &B::all_rows, 1024, "rows", search, "ranges of which every number of rows is looked at",
     "chosen"},
    {"few_rows", &B::few_rows, 256, "rows", search, "longer ranges: every number up to this one too",
     "chosen"},
    {"octave_steps", &B::octave_steps, 32, "steps", search,
     "above, steps of an octave, each with the number behind it, where a tile more begins", "chosen"},
    {"near_picks", &B::near_picks, 8, "plans", search,
     "best plans of one number of rows that may serve its neighbours", "chosen"},
};

/// A list of values that are tried.
struct ListRow {
  const char* name;
  std::span<const int> values;
  const char* unit;
  const char* meaning;
  const char* source;
};
constexpr ListRow kLists[] = {
    {"raster_groups", tried::kRasterGroups, "tiles", "widths of a band of the walk", "chosen"},
    {"splits", tried::kSplits, "parts",
     "parts of k; past a wave each costs a slot and shortens runs by little", "docs/findings/splits.md"},
    {"plain_parts", tried::kPlainParts, "CTAs", "plain schedules: clusters along k", kPlain},
    {"row_blocks", tried::kRowBlocks, "16 rows", "narrow: rows of a tile", kFewBits},
    {"warps", tried::kWarps, "warps", "narrow: warps of a CTA", kFewBits},
    {"stages", tried::kStages, "stages", "narrow: ring of a warp", kFewBits},
    {"parts", tried::kParts, "CTAs", "narrow, and strip with e4m3 tokens: parts of k", kFewBits},
    {"ctas", tried::kCtas, "CTAs", "narrow: CTAs that share an SM", kFewBits},
    {"wide_tokens", tried::kWideTokens, "tokens", "wide: tokens of a tile", kFewBits},
    {"wide_clusters", tried::kWideClusters, "CTAs", "wide: clusters along n, and along k", kFewBits},
    {"tail_parts", tried::kTailParts, "parts", "wide: parts of a tile in the last wave", kFewBits},
    {"x_rings", tried::kXRings, "stages",
     "wide: rings of X that have won, the best first; with the weights' beside it, the first that fits is "
     "taken",
     kFewBits},
    {"w_rings", tried::kWRings, "stages", "wide: rings of weights, as many as of X", kFewBits},
    {"strip_tokens", tried::kStripTokens, "tokens", "strip: tokens of a tile", kFewBits},
    {"strips", tried::kStrips, "64 rows", "strip: strips of a CTA", kFewBits},
    {"k_groups", tried::kKGroups, "warpgroups", "strip: warpgroups that share k, e4m3 tokens", kFewBits},
    {"half_k_groups", tried::kHalfKGroups, "warpgroups",
     "the same of 16-bit tokens, whose stages are twice as long: fewer groups win", kFewBits},
    {"half_parts", tried::kHalfParts, "CTAs", "16-bit tokens: parts of k, five where strips are few",
     kFewBits},
};

template <class Set, class Number, std::size_t kCount>
constexpr Set filled(const Constant<Set, Number> (&rows)[kCount]) {
  static_assert(sizeof(Set) == kCount * sizeof(Number), "a member has no row");
  Set set{};
  for (const Constant<Set, Number>& row : rows) set.*row.member = row.value;
  return set;
}
constexpr NarrowCosts narrow_costs() {
  static_assert(sizeof(NarrowCosts) == std::size(kNarrow) * sizeof(double) + 2 * sizeof(IssueCosts));
  NarrowCosts costs{};
  for (const Constant<NarrowCosts>& row : kNarrow) costs.*row.member = row.value;
  costs.few = filled(kNarrowFew);
  costs.more = filled(kNarrowMore);
  return costs;
}
constexpr StripCosts strip_costs(double StripConstant::*half) {
  static_assert(sizeof(StripCosts) == std::size(kStrip) * sizeof(double));
  StripCosts costs{};
  for (const StripConstant& constant : kStrip)
    costs.*constant.row.member = half == nullptr ? constant.row.value : constant.*half;
  return costs;
}

}  // namespace

constinit const PlannerConstants kPlanner{
    .dense = filled(kDense),
    .plain = filled(kPlainRows),
    .narrow = narrow_costs(),
    .narrow_registers = filled(kRegisters),
    .wide = filled(kWide),
    .strip_bytes = strip_costs(nullptr),
    .strip_halves = strip_costs(&StripConstant::half),
    .fitted_on = filled(kFittedOn),
    .rows = filled(kRows),
    .search = filled(kSearch),
};

const char* name_of(Origin origin) {
  switch (origin) {
    case device: return "device";
    case sm: return "sm";
    case model: return "model";
    case search: return "search";
  }
  return "?";
}

std::span<const Constant<DenseCosts>> dense_constants() {
  return kDense;
}

std::vector<ConstantText> all_constants() {
  std::vector<ConstantText> all;
  const auto add = [&](const char* set, const auto& row, double value) {
    all.push_back(
        {set, row.name, formatted("%.10g", value), row.unit, name_of(row.origin), row.meaning, row.source});
  };
  const auto add_all = [&](const char* set, const auto& rows) {
    for (const auto& row : rows) add(set, row, static_cast<double>(row.value));
  };
  add_all("dense", kDense);
  add_all("plain", kPlainRows);
  add_all("narrow", kNarrow);
  add_all("narrow_few", kNarrowFew);
  add_all("narrow_more", kNarrowMore);
  add_all("narrow_registers", kRegisters);
  add_all("wide", kWide);
  for (const auto& [row, half] : kStrip) add("strip_bytes", row, row.value);
  for (const auto& [row, half] : kStrip) add("strip_halves", row, half);
  add_all("fitted_on", kFittedOn);
  add_all("rows", kRows);
  add_all("search", kSearch);
  for (const ListRow& list : kLists) {
    std::string values;
    for (const int value : list.values) values += (values.empty() ? "" : " ") + std::to_string(value);
    all.push_back({"tried", list.name, values, list.unit, name_of(search), list.meaning, list.source});
  }
  return all;
}

}  // namespace sluice
