// SPDX-License-Identifier: Apache-2.0
// The table of the cost models' constants. A member without a row does not compile. Changing a value changes
// plans (tests/plans). docs/findings/fits.md says what they were fitted to.
#include <sluice/plan/costs.h>

#include <iterator>

namespace sluice {
namespace {

using enum Origin;
using C = Costs;

constexpr const char* kRefit = "docs/findings/fits.md";
constexpr const char* kPower = "docs/findings/energy.md";
constexpr const char* kGpc = "docs/findings/gpc.md";
constexpr const char* kMnMajor = "docs/findings/mn-major.md";
constexpr const char* kPlain = "docs/findings/plain-loads.md";
constexpr const char* kFewBits = "docs/findings/few-bit-weights.md";
constexpr const char* kConvolutions = "docs/findings/convolutions.md";

constexpr Constant<C> kRows[] = {
    {"begin_us", &C::begin_us, 1.557, "us", device,
     "from the launch to the first product, plus from the last product to the end", kRefit, 0.3, 4},
    {"group_begin_us", &C::group_begin_us, 0.8832, "us", device,
     "strip and wide kernels: added to begin_us, because a warpgroup meets before each step", kRefit, 0.1, 3},
    {"loaded_latency", &C::loaded_latency, 3.794, "ratio", device,
     "latency of a load among many, divided by that of a single load", kRefit, 0.5, 8},
    {"cluster_us", &C::cluster_us, 0.4591, "us", device,
     "later start of a cluster; plain: for each doubling of its size; narrow: for each of its CTAs", kRefit,
     0.05, 1.5},
    {"wave_us", &C::wave_us, 1.554, "us", device,
     "packed and plain kernels: each wave of CTAs after the first, twice for clusters; plain: divided by the "
     "CTAs of an SM",
     kRefit, 0.1, 4},
    {"hard", &C::hard, 9.5, "exponent", model,
     "exponent of the l^p norm that joins overlapping times: loads and products of one ring", kRefit, 3, 25},
    {"soft", &C::soft, 3.078, "exponent", model,
     "the same for times that overlap less: a wave and its share of HBM, promotion, strips of 16-bit tokens",
     kRefit, 1.5, 20},
    {"token_share", &C::token_share, 0.1232, "ratio", model,
     "share of the time of reading tokens again from L2 that is not hidden", kRefit, 0.02, 0.6},
    {"fp16_flop_pj", &C::fp16_flop_pj, 0.512, "pJ", device,
     "energy of an operation of 16-bit inputs at 1600 MHz, with its reads of shared memory", kPower, 0.2, 1},
    {"fp8_flop_pj", &C::fp8_flop_pj, 0.28, "pJ", device, "the same of fp8 inputs", kPower, 0.1, 0.6},
    {"port_byte_pj", &C::port_byte_pj, 13.3, "pJ", device,
     "energy at 1600 MHz of a byte that arrives at an SM; reading it from L2 costs half as much besides, "
     "once "
     "per multicast",
     kPower, 4, 40},
    {"hbm_byte_pj", &C::hbm_byte_pj, 39.9, "pJ", device, "energy of a byte of HBM, at any SM clock", kPower,
     15, 80},
    {"smem_read_clocks_a", &C::smem_read_clocks_a, 12.05, "clocks", sm,
     "reading A's rows from shared memory for one 64 x n step of WGMMA; at 128 bytes per clock it would be "
     "16",
     kRefit, 6, 24},
    {"smem_write_weight", &C::smem_write_weight, 0.615, "clocks / row", sm,
     "the part of TMA's writes to shared memory that is not hidden, per row of the stage", kRefit, 0.05, 1.2},
    {"l2_gain_of_tma", &C::l2_gain_of_tma, 1.298, "ratio", device,
     "TMA's rate from L2 divided by that of plain loads, with all SMs reading", kRefit, 0.8, 1.6},
    {"l2_bytes_per_clock_per_sm", &C::l2_bytes_per_clock_per_sm, 80, "bytes / clock", sm,
     "the port of an SM, for all that its tile reads, and for partial sums", kRefit, 40, 128},
    {"l2_gain_in_step", &C::l2_gain_in_step, 1.255, "ratio", device,
     "factor on L2's rate for CTAs without clusters that ask for the same lines at one time; multicasts have "
     "none",
     kGpc, 1, 2},
    {"repeated_gain", &C::repeated_gain, 8.453, "ratio", device,
     "factor on HBM's rate for bytes that a second cluster asks for while they are still on their way",
     kRefit, 2, 30},
    {"epilogue_fixed_clocks", &C::epilogue_fixed_clocks, 1013, "clocks", sm,
     "end of a tile: its last WGMMA, barriers, the first store", kRefit, 100, 1500},
    {"epilogue_clocks_per_chunk", &C::epilogue_clocks_per_chunk, 131.7, "clocks", sm,
     "wait, fence, barrier and store of 128, 64 or 32 bytes of a row of D", kRefit, 20, 400},
    {"epilogue_clocks_per_element", &C::epilogue_clocks_per_element, 1.972, "clocks", sm,
     "issue slots for one element of D of a thread; each operand of the epilogue and a direct store take as "
     "many again",
     kRefit, 1, 16},
    {"activation_clocks_per_element", &C::activation_clocks_per_element, 20.09, "clocks", sm,
     "the same for GELU or SiLU", kRefit, 5, 30},
    {"ramp_clocks", &C::ramp_clocks, 281.4, "clocks", sm,
     "cooperative kernels: from an epilogue to full speed, with the ring already full", kRefit, 50, 1500},
    {"chain_clocks_per_step", &C::chain_clocks_per_step, 7.959, "clocks", sm,
     "ping-pong in tiles of 64 rows: each WGMMA waits for the accumulators of the one before", kRefit, 0.5,
     20},
    {"chain_clocks_of_mn_major", &C::chain_clocks_of_mn_major, 3.136, "clocks", sm,
     "added to the row above for each operand that is read across its rows", kMnMajor, 0.1, 30},
    {"promote_clocks_per_register", &C::promote_clocks_per_register, 2.036, "clocks", sm,
     "promotion: one addition per accumulator", kRefit, 0.3, 3},
    {"promote_drain_clocks", &C::promote_drain_clocks, 74.19, "clocks", sm,
     "promotion: emptying the tensor pipe each time", kRefit, 10, 300},
    {"combine_us", &C::combine_us, 4.454, "us", device,
     "last arriver, and each slice: writes reach L2, the counter answers, the "
     "first slot is read",
     kRefit, 0.5, 8},
    {"separate_us", &C::separate_us, 1.818, "us", device,
     "a separate kernel that adds the slices: its start after the last CTA, and the partial sums' way to L2",
     kRefit, 0.5, 10},
    {"separate_l2_share", &C::separate_l2_share, 0.2002, "ratio", device,
     "rate at which that kernel reads and writes partial sums, as a share of L2's rate", kRefit, 0.05, 1},
    {"exchange_bytes_per_clock", &C::exchange_bytes_per_clock, 12, "bytes / clock", sm,
     "clusters along k: partial sums between CTAs", "docs/findings/fitted-widths.md", 4, 64},
    {"gathered_gain_split", &C::gathered_gain_split, 0.9369, "ratio", device,
     "convolutions: factor on L2's rate for CTAs without clusters, if some of their rows are in two lines",
     kConvolutions, 0.4, 2},
    {"gathered_sharpness", &C::gathered_sharpness, 8.006, "exponent", model,
     "convolutions: used for `hard`, because loads with computed addresses hide less", kConvolutions, 2, 20},
    {"gathered_pair_clocks", &C::gathered_pair_clocks, 84.96, "clocks", sm,
     "convolutions: added per k-tile in pairs along m", kConvolutions, 1, 300},
    {"strided_line_clocks", &C::strided_line_clocks, 25, "clocks", sm,
     "128 bytes of an operand that TMA cannot address, loaded by three warps",
     "docs/decisions/0024-any-strides.md", 2, 100},
    {"plain_begin_us", &C::plain_begin_us, 0.2115, "us", device,
     "plain kernels: added to begin_us, because nothing is loaded before the tile's threads run", kPlain,
     0.01, 1},
    {"product_clocks", &C::product_clocks, 14.75, "clocks", sm,
     "plain: one mma.sync on an SM sub-partition, conversion of its operands included", kPlain, 3, 20},
    {"meet_clocks", &C::meet_clocks, 321, "clocks", sm,
     "plain_wgmma: one stage of a warpgroup: arrival of copies, barrier, latency of products", kPlain, 50,
     900},
    {"group_load_clocks", &C::group_load_clocks, 7.945, "clocks", sm,
     "plain_wgmma: 16 rows of 128 bytes that a warpgroup copies", kPlain, 2, 25},
    {"plain_overlap", &C::plain_overlap, 0.1493, "ratio", model,
     "plain: of memory time and instruction time, the share of the smaller one that is not hidden", kPlain,
     0.02, 0.6},
    {"warp_sums_us", &C::warp_sums_us, 0.01435, "us / KB", device, "plain: partial sums that warps add",
     kPlain, 0.001, 0.05},
    {"expanding_sm_bytes_per_us", &C::expanding_sm_bytes_per_us, 39100, "bytes / us", device,
     "rate at which an SM loads weights while it converts codes", kFewBits, 20000, 66000},
    {"narrow_tile_clocks", &C::narrow_tile_clocks, 77.53, "clocks", sm,
     "narrow: one k-tile: ring, addresses, scales", kFewBits, 20, 200},
    {"narrow_block_clocks", &C::narrow_block_clocks, 26.43, "clocks", sm,
     "narrow: 16 rows and one word of codes", kFewBits, 5, 100},
    {"narrow_product_clocks", &C::narrow_product_clocks, 77, "clocks", sm,
     "narrow: 16 rows x 8 tokens, in tiles of 16 and 32 tokens", kFewBits, 10, 200},
    {"narrow_alone_clocks", &C::narrow_alone_clocks, 400, "clocks", sm,
     "narrow: latency of a warp's k-tile, added to its instructions", "docs/findings/int4-widths.md", 100,
     900},
    {"narrow_sums_us", &C::narrow_sums_us, 0.1125, "us", device,
     "narrow: at the end, each four partial sums that a thread adds", kFewBits, 0.01, 0.5},
    {"wide_issue_clocks", &C::wide_issue_clocks, 0.4625, "clocks", sm,
     "wide: per token, in a step of 16 k that instructions limit; the conversion is added", kFewBits, 0.2, 1},
    {"wide_expand_clocks", &C::wide_expand_clocks, 85, "clocks", sm,
     "wide: conversion of 4-bit codes in such a step", kFewBits, 40, 150},
    {"wide_byte_clocks", &C::wide_byte_clocks, 110, "clocks", sm, "wide: conversion of 8-bit codes", kFewBits,
     60, 200},
    {"wide_tile_us", &C::wide_tile_us, 1.8, "us", device,
     "wide: stores of 256 tokens, which are not hidden; the last ones arrive as much later", kFewBits, 0.5,
     5},
    {"strip_tile_clocks", &C::strip_tile_clocks, 132.4, "clocks", sm,
     "strip: a tile of 64 rows x 128 k: codes, barriers", kFewBits, 60, 300},
    {"strip_byte_product_clocks", &C::strip_byte_product_clocks, 1.6, "clocks", sm,
     "strip: each e4m3 token of the tile", kFewBits, 0.5, 6},
    {"strip_half_product_clocks", &C::strip_half_product_clocks, 3.06, "clocks", sm,
     "strip: each 16-bit token of the tile", kFewBits, 1, 8},
    {"strip_token_clocks", &C::strip_token_clocks, 0.7244, "clocks", sm,
     "strip: each e4m3 token and scale of a row in the tile", kFewBits, 0.1, 3},
    {"strip_busy_exponent", &C::strip_busy_exponent, 0.1277, "exponent", model,
     "strip: speed as this power of the warpgroups' share of four", kFewBits, 0.01, 0.5},
    {"strip_exchange_us", &C::strip_exchange_us, 0.0062, "us", device,
     "strip: each token of a strip whose partial sums CTAs exchange", kFewBits, 0.001, 0.03},
    {"strip_l2_gain", &C::strip_l2_gain, 1.36, "ratio", device,
     "strip: factor on L2's rate, because neighbours in a GPC ask for the same tokens", kFewBits, 1, 2.5},
    {"strip_shallow_ring", &C::strip_shallow_ring, 1.494, "ratio", model,
     "strip: factor on a tile's clocks where a warpgroup of 16-bit tokens has only two stages", kFewBits, 1,
     2},
    {"uneven_cost", &C::uneven_cost, 0.25, "ratio", model,
     "chains: the share of its time that a packed launch loses, times the share of empty places in its waves",
     "docs/findings/untuned-chains.md", 0, 1},
};

constexpr Costs filled() {
  static_assert(sizeof(Costs) == std::size(kRows) * sizeof(double), "a member has no row");
  Costs costs{};
  for (const Constant<Costs>& row : kRows) costs.*row.member = row.value;
  return costs;
}

}  // namespace

constinit const Costs kCosts = filled();

std::span<const Constant<Costs>> cost_constants() {
  return kRows;
}

}  // namespace sluice
