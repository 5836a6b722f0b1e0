// SPDX-License-Identifier: Apache-2.0
// The table of the cost models' constants. A member without a row does not compile. Changing a value changes
// plans (tests/plans). docs/findings/fits.md says what they were fitted to.
#include <sluice/host/planner/costs.h>

#include <iterator>

namespace sluice {
namespace {

using enum Origin;
using C = Costs;

constexpr const char* kRefit = "docs/findings/fits.md";
constexpr const char* kGpc = "docs/findings/gpc.md";
constexpr const char* kMnMajor = "docs/findings/mn-major.md";
constexpr const char* kPlain = "docs/findings/plain-loads.md";
constexpr const char* kFewBits = "docs/findings/few-bit-weights.md";
constexpr const char* kConvolutions = "docs/findings/convolutions.md";

constexpr Constant<C> kRows[] = {
    {"begin_us", &C::begin_us, 1.557, "us", device,
     "from a launch to the first product, and from the last to the end: barriers, first bytes, last store",
     kRefit, 0.3, 4},
    {"group_begin_us", &C::group_begin_us, 0.8832, "us", device,
     "more where a warpgroup meets before each step: strip and wide kernels", kRefit, 0.1, 3},
    {"loaded_latency", &C::loaded_latency, 3.794, "ratio", device,
     "latency of a load beside many others, over that of a lone one", kRefit, 0.5, 8},
    {"cluster_us", &C::cluster_us, 0.4591, "us", device,
     "a cluster starts later; plain: for each doubling of it; narrow: for each CTA", kRefit, 0.05, 1.5},
    {"wave_us", &C::wave_us, 1.554, "us", device,
     "packed and plain kernels: each wave of CTAs after the first, of clusters twice; plain: shared by the "
     "CTAs of an SM",
     kRefit, 0.1, 4},
    {"hard", &C::hard, 9.5, "exponent", model,
     "times that overlap are joined as an l^p norm: those of loads and products in a ring", kRefit, 3, 25},
    {"soft", &C::soft, 3.078, "exponent", model,
     "the same where they meet now and then: a wave and its share of HBM, promotion, strips of 16-bit tokens",
     kRefit, 1.5, 20},
    {"token_share", &C::token_share, 0.1232, "ratio", model,
     "share of the time of reading tokens again, from L2, that is not hidden", kRefit, 0.02, 0.6},
    {"moved_power", &C::moved_power, 1.16, "ratio", device,
     "power of a product over that of WGMMA alone, as tensor cores' time: DeviceRates has the clock of the "
     "latter",
     kRefit, 1, 1.6},
    {"mainloop_efficiency", &C::mainloop_efficiency, 1, "ratio", sm,
     "share of the WGMMA rate that the main loop keeps, apart from L2 and epilogue", kRefit, 0.85, 1},
    {"smem_read_clocks_a", &C::smem_read_clocks_a, 12.05, "clocks", sm,
     "reading A's rows for one 64 x n step of WGMMA; 128 bytes a clock would be 16", kRefit, 6, 24},
    {"smem_write_weight", &C::smem_write_weight, 0.615, "clocks / row", sm,
     "the visible part of TMA's writes, a row of the stage in a clock: most fall into gaps", kRefit, 0.05,
     1.2},
    {"power_clocks_per_l2_byte", &C::power_clocks_per_l2_byte, 0.00023, "clocks / byte", device,
     "a GPU at its power limit clocks lower, the more bytes move from L2", kRefit, 1e-05, 0.01},
    {"l2_gain_of_tma", &C::l2_gain_of_tma, 1.298, "ratio", device,
     "TMA's rate from L2 over that of plain loads with all SMs reading", kRefit, 0.8, 1.6},
    {"l2_bytes_per_clock_per_sm", &C::l2_bytes_per_clock_per_sm, 80, "bytes / clock", sm,
     "the port of an SM, for all that its tile needs, and for parts of sums", kRefit, 40, 128},
    {"l2_gain_in_step", &C::l2_gain_in_step, 1.255, "ratio", device,
     "lone CTAs that ask at one time are answered together; multicasts are not", kGpc, 1, 2},
    {"repeated_gain", &C::repeated_gain, 8.453, "ratio", device,
     "over HBM: the rate of bytes that a second cluster asks for while they are on their way from HBM",
     kRefit, 2, 30},
    {"epilogue_fixed_clocks", &C::epilogue_fixed_clocks, 1013, "clocks", sm,
     "a tile's last WGMMA drained, barriers, first store", kRefit, 100, 1500},
    {"epilogue_clocks_per_chunk", &C::epilogue_clocks_per_chunk, 131.7, "clocks", sm,
     "wait, fence, barrier and store of 128, 64 or 32 bytes of a row of D", kRefit, 20, 400},
    {"epilogue_clocks_per_element", &C::epilogue_clocks_per_element, 1.972, "clocks", sm,
     "issue slots of an element of D in a thread; each operand of the epilogue takes as many, a direct store "
     "too",
     kRefit, 1, 16},
    {"activation_clocks_per_element", &C::activation_clocks_per_element, 20.09, "clocks", sm,
     "the same, for GELU or SiLU", kRefit, 5, 30},
    {"ramp_clocks", &C::ramp_clocks, 281.4, "clocks", sm,
     "cooperative: from an epilogue to full speed, with the ring already full", kRefit, 50, 1500},
    {"chain_clocks_per_step", &C::chain_clocks_per_step, 7.959, "clocks", sm,
     "ping-pong in tiles of 64 rows: a lone chain of WGMMAs waits for its sums at each step", kRefit, 0.5,
     20},
    {"chain_clocks_of_mn_major", &C::chain_clocks_of_mn_major, 3.136, "clocks", sm,
     "more, for each operand that the step reads across its rows", kMnMajor, 0.1, 30},
    {"promote_clocks_per_register", &C::promote_clocks_per_register, 2.036, "clocks", sm,
     "promotion: one add for each accumulator", kRefit, 0.3, 3},
    {"promote_drain_clocks", &C::promote_drain_clocks, 74.19, "clocks", sm,
     "promotion: the tensor pipe drained each time", kRefit, 10, 300},
    {"combine_us", &C::combine_us, 4.454, "us", device,
     "last arriver, and each tile that a run touches: writes reach L2, the counter answers, the first slot "
     "is read",
     kRefit, 0.5, 8},
    {"separate_us", &C::separate_us, 1.818, "us", device,
     "a kernel that adds up parts: sums reach L2, and its start behind the last CTA", kRefit, 0.5, 10},
    {"separate_l2_share", &C::separate_l2_share, 0.2002, "ratio", device,
     "parts that this kernel reads and writes, over the rate of L2", kRefit, 0.05, 1},
    {"exchange_bytes_per_clock", &C::exchange_bytes_per_clock, 12, "bytes / clock", sm,
     "clusters along k: sums between CTAs", "docs/findings/fitted-widths.md", 4, 64},
    {"gathered_gain_split", &C::gathered_gain_split, 0.9369, "ratio", device,
     "convolutions: what lone CTAs get of L2's rate where any of their rows lie in two lines", kConvolutions,
     0.4, 2},
    {"gathered_sharpness", &C::gathered_sharpness, 8.006, "exponent", model,
     "convolutions: hard, since loads that a thread aims hide less", kConvolutions, 2, 20},
    {"gathered_pair_clocks", &C::gathered_pair_clocks, 84.96, "clocks", sm,
     "convolutions: a k-tile more in pairs along m", kConvolutions, 1, 300},
    {"strided_line_clocks", &C::strided_line_clocks, 25, "clocks", sm,
     "128 bytes of an operand that TMA cannot address, brought by three warps",
     "docs/decisions/0024-any-strides.md", 2, 100},
    {"plain_begin_us", &C::plain_begin_us, 0.2115, "us", device,
     "plain: more than begin_us, since nothing of the tile is asked for before its threads are there", kPlain,
     0.01, 1},
    {"product_clocks", &C::product_clocks, 14.75, "clocks", sm,
     "plain: one mma.sync on an SM sub-partition, its operands' conversion too", kPlain, 3, 20},
    {"meet_clocks", &C::meet_clocks, 321, "clocks", sm,
     "plain_wgmma: a warpgroup's stage: copies seen, barrier, latency of products", kPlain, 50, 900},
    {"group_load_clocks", &C::group_load_clocks, 7.945, "clocks", sm,
     "plain_wgmma: 16 rows of 128 bytes that a warpgroup copies", kPlain, 2, 25},
    {"plain_overlap", &C::plain_overlap, 0.1493, "ratio", model,
     "plain: share of the less of memory and instructions that the other does not hide", kPlain, 0.02, 0.6},
    {"warp_sums_us", &C::warp_sums_us, 0.01435, "us / KB", device, "plain: sums that warps add up", kPlain,
     0.001, 0.05},
    {"expanding_sm_bytes_per_us", &C::expanding_sm_bytes_per_us, 39100, "bytes / us", device,
     "an SM's intake while it expands codes", kFewBits, 20000, 66000},
    {"narrow_tile_clocks", &C::narrow_tile_clocks, 77.53, "clocks", sm,
     "narrow: a k-tile: ring, addresses, scales", kFewBits, 20, 200},
    {"narrow_block_clocks", &C::narrow_block_clocks, 26.43, "clocks", sm,
     "narrow: 16 rows and a word of codes", kFewBits, 5, 100},
    {"narrow_product_clocks", &C::narrow_product_clocks, 77, "clocks", sm,
     "narrow: 16 rows x 8 tokens, in tiles of 16 and 32 tokens", kFewBits, 10, 200},
    {"narrow_alone_clocks", &C::narrow_alone_clocks, 400, "clocks", sm,
     "narrow: latency of a warp's k-tile, beside its instructions", "docs/findings/int4-widths.md", 100, 900},
    {"narrow_sums_us", &C::narrow_sums_us, 0.1125, "us", device,
     "narrow: each four sums of a warp that a thread adds up at the end", kFewBits, 0.01, 0.5},
    {"wide_issue_clocks", &C::wide_issue_clocks, 0.4625, "clocks", sm,
     "wide: a token where a step of 16 k waits for instructions, beside the expanding", kFewBits, 0.2, 1},
    {"wide_expand_clocks", &C::wide_expand_clocks, 85, "clocks", sm,
     "wide: weights of 4-bit codes in such a step", kFewBits, 40, 150},
    {"wide_byte_clocks", &C::wide_byte_clocks, 110, "clocks", sm, "wide: weights of 8-bit codes", kFewBits,
     60, 200},
    {"wide_tile_us", &C::wide_tile_us, 1.8, "us", device,
     "wide: stores of 256 tokens, which nothing hides; the last arrive as much later", kFewBits, 0.5, 5},
    {"wide_exchange_us", &C::wide_exchange_us, 0.9533, "us", device, "wide: 64 tokens where two CTAs share k",
     kFewBits, 0.2, 3},
    {"strip_tile_clocks", &C::strip_tile_clocks, 132.4, "clocks", sm,
     "strip: a tile of 64 rows x 128 k: codes, barriers", kFewBits, 60, 300},
    {"strip_byte_product_clocks", &C::strip_byte_product_clocks, 1.6, "clocks", sm,
     "strip: each e4m3 token of the tile", kFewBits, 0.5, 6},
    {"strip_half_product_clocks", &C::strip_half_product_clocks, 3.06, "clocks", sm,
     "strip: each 16-bit token of the tile", kFewBits, 1, 8},
    {"strip_token_clocks", &C::strip_token_clocks, 0.7244, "clocks", sm,
     "strip: each e4m3 token and scale of a row in the tile", kFewBits, 0.1, 3},
    {"strip_busy_exponent", &C::strip_busy_exponent, 0.1277, "exponent", model,
     "strip: speed by warpgroups as a share of four", kFewBits, 0.01, 0.5},
    {"strip_exchange_us", &C::strip_exchange_us, 0.0062, "us", device,
     "strip: each token of a strip whose sums CTAs exchange", kFewBits, 0.001, 0.03},
    {"strip_l2_gain", &C::strip_l2_gain, 1.36, "ratio", device,
     "strip: more than L2's rate where neighbours in a GPC ask for the same tokens", kFewBits, 1, 2.5},
    {"strip_shallow_ring", &C::strip_shallow_ring, 1.494, "ratio", model,
     "strip: times a tile's clocks where a warpgroup of 16-bit tokens has only two stages", kFewBits, 1, 2},
    {"uneven_cost", &C::uneven_cost, 0.25, "ratio", model,
     "chains: the share of its time that a packed launch would lose with no CTA in its waves",
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
