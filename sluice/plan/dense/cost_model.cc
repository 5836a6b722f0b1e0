// SPDX-License-Identifier: Apache-2.0
// Implements cost_model.h, from small to large: the clocks of one k-tile, of one tile of a CTA, of all waves,
// and the time of the kernel.
#include <sluice/plan/dense/cost_model.h>

#include <algorithm>
#include <cmath>

#include <sluice/plan/dense/cluster_grid.h>
#include <sluice/plan/dense/traffic.h>
#include <sluice/plan/device_rates.h>
#include <sluice/spec/smem_layout.h>

namespace sluice {
namespace {

constexpr int kStepsPerKTile = 4;  // WGMMAs per k-tile: a 128-byte row of k in steps of 32 bytes
/// Clocks to read 32 bytes of k of one column of B from shared memory, at 128 bytes per clock.
constexpr double kSmemReadClocksOfColumn = 32.0 / 128;
/// Iterations of the estimate: the clock depends on the power and so on the time, and the time on the clock.
constexpr int kClockGuesses = 3;

/// Returns the time of phases that overlap, given the time that each would take by itself. With infinite
/// `sharpness` it is the longest; a smaller one adds more of the others.
double joined(double sharpness, std::initializer_list<double> times) {
  const double longest = std::max(times);
  if (longest <= 0) return 0;
  double sum = 0;
  for (const double time : times) sum += std::pow(time / longest, sharpness);
  return longest * std::pow(sum, 1 / sharpness);
}

/// The model for one problem and one configuration.
class Model {
 public:
  Model(const Problem& problem, const KernelConfig& config, const DeviceInfo& device, const Costs& cost)
      : p_(problem), c_(config), device_(device), cost_(cost) {}

  Estimate estimate(const WorkSplit& split);

 private:
  Estimate estimate_at_clock(const WorkSplit& split) const;
  double clocks_per_us() const { return clock_; }
  /// Returns the k-tiles of a tile; for a strided dgrad the mean over its phases.
  double k_tiles() const {
    const double most = static_cast<double>(ceil_div(p_.k, i64{c_.tile.k}));
    return c_.conv.phased ? static_cast<double>(taps_of(p_.conv)) / static_cast<double>(p_.batch) *
                                static_cast<double>(ceil_div(p_.conv.filters, i64{c_.tile.k}))
                          : most;
  }
  /// Returns the k-tiles of a tile that one CTA multiplies.
  double own_k_tiles() const { return std::ceil(k_tiles() / c_.cluster.k); }
  /// Returns the tensor cores' clocks for one k-tile of a CTA, without any loss: a 64 x n WGMMA takes n / 2.
  double ideal_clocks() const {
    return c_.tile.m / kWaveRows * kStepsPerKTile * (c_.tile.n / 2.0) * tensor_slowness(device_, c_.a);
  }
  double smem_clocks() const;
  double promotion_clocks() const;
  double math_clocks() const;
  double epilogue_clocks() const;
  double exchange_clocks() const;
  Energy energy(const WorkSplit& split) const;
  double asked_share() const;
  double strided_clocks() const;
  double load_clocks(double active, double k_tiles, double l2_gain) const;
  double tile_clocks(double active, double k_tiles, double l2_gain, bool last = false) const;
  double whole_tile_clocks(double active, const WorkSplit& split, bool last) const {
    return tile_clocks(active, own_k_tiles(), whole_tile_gain(split), last);
  }
  double whole_tile_gain(const WorkSplit& split) const;
  double longest_slice(const WorkSplit& split) const;
  double slice_clocks(const WorkSplit& split) const;
  double phased_clocks(const WorkSplit& split) const;
  double combine_us(const WorkSplit& split) const;
  /// Returns the bytes of fp32 sums for all of D. In double, because 64 bits may not hold it.
  double sum_bytes() const {
    return 4.0 * static_cast<double>(p_.m) * static_cast<double>(p_.n) * static_cast<double>(p_.batch);
  }
  double adds_us(const WorkSplit& split) const;

  const Problem& p_;
  const KernelConfig& c_;
  const DeviceInfo& device_;
  const Costs& cost_;
  double clock_ = 0;  // clocks per microsecond, from the last iteration
};

/// Returns the energy of the launch. Products are those of the problem: what pads a tile is zeros.
Energy Model::energy(const WorkSplit& split) const {
  const double products = static_cast<double>(p_.m) * static_cast<double>(p_.n) * k_tiles() * c_.tile.k *
                          static_cast<double>(p_.batch);
  const double parts = k_tiles() * grid_tiles(p_, c_) * c_.cluster.m * c_.cluster.n;  // k-tiles of all CTAs
  const double flop = is_fp8(c_.a) ? cost_.fp8_flop_pj : cost_.fp16_flop_pj;
  const double moved = port_bytes_per_k_tile(p_, c_) + l2_bytes_per_k_tile(p_, c_) * asked_share() / 2;
  const double picojoules = 2 * products * flop + parts * moved * cost_.port_byte_pj;
  return {.at_reference = picojoules * 1e-6,
          .hbm = traffic_of(p_, c_, split, device_).hbm_bytes * cost_.hbm_byte_pj * 1e-6};
}

double Model::smem_clocks() const {
  const double reads = c_.tile.m / kWaveRows * kStepsPerKTile *
                       (cost_.smem_read_clocks_a + kSmemReadClocksOfColumn * c_.tile.n);
  return reads + cost_.smem_write_weight * (c_.tile.m + c_.tile.n);
}

/// Returns the clocks to add one k-tile's accumulators to the promoted fp32 sums. With a scale for each
/// column a sum takes two instructions in place of one.
double Model::promotion_clocks() const {
  const int instructions = scales_each_column(c_.epilogue) ? 2 : 1;
  return sum_registers(c_) * instructions * cost_.promote_clocks_per_register +
         units(c_) * cost_.promote_drain_clocks;
}

/// Returns the math groups' clocks for one k-tile of a CTA, if they never wait for loads.
double Model::math_clocks() const {
  const bool one_chain = c_.schedule == Schedule::ping_pong && waves(c_) == 1;
  const int transposed = (c_.a_major == Major::mn) + (c_.b_major == Major::mn);
  const double chain = cost_.chain_clocks_per_step + transposed * cost_.chain_clocks_of_mn_major;
  double product =
      joined(cost_.hard, {ideal_clocks(), smem_clocks()}) + (one_chain ? kStepsPerKTile * chain : 0);
  if (is_conv(p_.conv) && c_.cluster.m == 2 && c_.cluster.n == 1) product += cost_.gathered_pair_clocks;
  if (!c_.promotes) return product;
  // The other group has its turn at the tensor cores meanwhile.
  if (c_.schedule == Schedule::ping_pong) return product + promotion_clocks();
  return joined(cost_.soft, {product, product / kMathGroups + promotion_clocks()});
}

/// Returns the clocks of one math group's epilogue for its part of a tile, while the other group does
/// something else.
double Model::epilogue_clocks() const {
  const double elements = sum_registers(c_) / c_.cluster.k;  // accumulators per thread
  const double chunks = waves(c_) * own_outputs(c_) / store_columns(c_);
  const Epilogue& e = c_.epilogue;
  // Each element is converted and stored. Each vector operand adds one load per element; a direct store adds
  // one instruction.
  const int operands = (e.scale_a == ScaleMode::vector) + (e.scale_b == ScaleMode::vector) +
                       (e.bias != Bias::none) + e.residual + (c_.store == StorePath::direct);
  double each = (1 + operands) * cost_.epilogue_clocks_per_element;
  if (is_smooth(e.activation)) each += (e.gated ? 0.5 : 1) * cost_.activation_clocks_per_element;
  const double sharing = c_.schedule == Schedule::cooperative ? kMathGroups : 1;
  return cost_.epilogue_fixed_clocks + chunks * cost_.epilogue_clocks_per_chunk + elements * each * sharing +
         exchange_clocks();
}

/// Returns the clocks to add up the partial sums of a cluster along k.
double Model::exchange_clocks() const {
  if (c_.cluster.k == 1) return 0;
  const double rows = std::min<double>(static_cast<double>(p_.m), c_.tile.m);
  return 4.0 * rows * c_.tile.n / cost_.exchange_bytes_per_clock;
}

/// Returns the bytes requested from L2 per byte that is needed: rows that span two L2 lines are requested
/// twice. 1 if k is 0.
double Model::asked_share() const {
  const double read = l2_bytes_per_k_tile(p_, c_);
  return read > 0 ? 1 + split_bytes_per_k_tile(p_, c_) / read : 1;
}

/// Returns the factor by which the L2 rate of whole tiles differs from that of L2's plain rate. CTAs without
/// clusters that run in step share L2 hits. In a convolution the model does not count on that, since on some
/// cards they are not in step; and rows that span two L2 lines lower the rate.
double Model::whole_tile_gain(const WorkSplit& split) const {
  if (is_conv(p_.conv)) {
    const bool lone = cluster_size(c_) == 1 && split.slices == 1;
    return lone && split_bytes_per_k_tile(p_, c_) > 0 ? cost_.gathered_gain_split : 1;
  }
  return are_in_step(p_, c_, split) ? cost_.l2_gain_in_step : 1;
}

/// Lines that the warps of a strided load read per round trip; fewer lines take as long. Each warp reads
/// kBatchGroups groups of four.
constexpr double kLinesOfATrip = 16.0 * kStridedWarps;

/// Returns the clocks that warps need to load a k-tile's strided operands, line by line.
double Model::strided_clocks() const {
  const double lines_a = c_.load_a == Load::strided ? c_.tile.m : 0;
  const double lines_b = c_.load_b == Load::strided ? stage_b_rows(c_) : 0;
  const double lines = lines_a + lines_b;
  return lines == 0 ? 0 : std::max(lines, kLinesOfATrip) * cost_.strided_line_clocks;
}

/// Returns the clocks to load all bytes of a tile. It is the longest of four times: strided loads by warps;
/// L2's rate; the rate of the SM's port; and latency, since the ring is loaded once per load latency.
double Model::load_clocks(double active, double k_tiles, double l2_gain) const {
  const double shared_rate =
      device_.rates.l2_bytes_per_us * cost_.l2_gain_of_tma * l2_gain / clocks_per_us() / active;
  return std::max({k_tiles * strided_clocks(),
                   k_tiles * l2_bytes_per_k_tile(p_, c_) * asked_share() / shared_rate,
                   k_tiles * port_bytes_per_k_tile(p_, c_) / cost_.l2_bytes_per_clock_per_sm,
                   k_tiles / c_.stages * loaded_latency_us(device_, cost_) * clocks_per_us()});
}

/// Returns the clocks from the start of one tile of a CTA to the start of its next, with `active` CTAs
/// running. With `last`: to the start of its epilogue. Ping-pong hides epilogues, so `last` makes no
/// difference there.
double Model::tile_clocks(double active, double k_tiles, double l2_gain, bool last) const {
  const double load = load_clocks(active, k_tiles, l2_gain), math = k_tiles * math_clocks(),
               epilogue = epilogue_clocks();
  const double sharpness = is_conv(p_.conv) ? cost_.gathered_sharpness : cost_.hard;
  if (c_.schedule == Schedule::ping_pong)
    return joined(sharpness, {math, load, (math + epilogue) / kMathGroups});
  return joined(sharpness, {math + (last ? 0 : epilogue) + cost_.ramp_clocks, load});
}

/// Returns the k-tiles of the longest slice (split-K); 0 with whole tiles.
double Model::longest_slice(const WorkSplit& split) const {
  return split.slices == 1 ? 0 : std::ceil(k_tiles() / split.slices);
}

/// Returns the clocks of the longest slices: products, and an epilogue or the write of a partial sum.
double Model::slice_clocks(const WorkSplit& split) const {
  const double active = std::min<double>(split.clusters * cluster_size(c_), device_.sm_count);
  // Clusters that do not fit at once run one after another.
  const double rounds = std::ceil(split.clusters * cluster_size(c_) / active);
  return rounds * (tile_clocks(active, std::ceil(longest_slice(split) / c_.cluster.k), 1) +
                   (c_.combine == Combine::last_arriver ? cost_.combine_us * clocks_per_us() : 0));
}

/// Returns the clocks of the busiest cluster of a strided dgrad, whose batch is the phases of dx. Phases with
/// most taps come first, so the first cluster, which has the first tile of each wave, is the busiest.
double Model::phased_clocks(const WorkSplit& split) const {
  const Phases phases = phases_of(p_.conv);
  const i64 per_phase = grid_rows(p_, c_) * grid_columns(p_, c_), tiles = per_phase * phases.count;
  const double blocks = static_cast<double>(ceil_div(p_.conv.filters, i64{c_.tile.k}));
  const double active = static_cast<double>(std::min<i64>(tiles, split.clusters)) * cluster_size(c_);
  // All tiles of one phase take the same time.
  double clocks = 0;
  for (int i = 0; i < phases.count; ++i) {
    const i64 first = ceil_div(i * per_phase, i64{split.clusters});
    const i64 behind = ceil_div((i + 1) * per_phase, i64{split.clusters});
    clocks += static_cast<double>(behind - first) *
              tile_clocks(active, phases.items[i].taps() * blocks, whole_tile_gain(split));
  }
  return clocks;
}

/// Returns the microseconds to add all slices' partial sums to D (Combine::add) when all clusters end at
/// once. L2 reads and writes each element of D once per slice.
double Model::adds_us(const WorkSplit& split) const {
  constexpr double kReadAndWrite = 2;
  return split.slices * sum_bytes() * kReadAndWrite / device_.rates.l2_bytes_per_us;
}

/// Returns the microseconds from the last product to complete sums. That is the work of a tile's last arriver
/// when all others are done, or that of the kernel that adds up the slices.
double Model::combine_us(const WorkSplit& split) const {
  if (split.slices == 1) return 0;
  if (c_.combine == Combine::add) return adds_us(split);
  if (c_.combine == Combine::separate) {
    const double bytes = sum_bytes() * split.slices;
    return cost_.separate_us + bytes / (cost_.separate_l2_share * device_.rates.l2_bytes_per_us);
  }
  const double rows = std::min<double>(static_cast<double>(p_.m), c_.tile.m);
  const double bytes = 4.0 * rows * own_columns(c_) * (1 + split.slices);
  return cost_.combine_us + bytes / cost_.l2_bytes_per_clock_per_sm / clocks_per_us();
}

Estimate Model::estimate(const WorkSplit& split) {
  const Energy launch = energy(split);
  clock_ = device_.rates.light_mhz;
  Estimate e = estimate_at_clock(split);
  for (int i = 0; i < kClockGuesses; ++i) {
    clock_ = clocks_per_us_of(device_, launch, clock_ * e.total_us);
    e = estimate_at_clock(split);
  }
  return e;
}

Estimate Model::estimate_at_clock(const WorkSplit& split) const {
  const double tiles = grid_tiles(p_, c_);
  const double clock = clocks_per_us();
  const double whole = split.slices == 1 ? tiles : 0;  // tiles that are not split
  const double full_waves = std::floor(whole / split.clusters), rest = whole - full_waves * split.clusters;

  const Traffic traffic = traffic_of(p_, c_, split, device_);
  Estimate e;
  e.waves = split.slices == 1 ? static_cast<int>(std::ceil(whole / split.clusters)) : 1;
  e.tensor_us = (std::ceil(whole / split.clusters) * k_tiles() + longest_slice(split)) / c_.cluster.k *
                ideal_clocks() / clock;
  e.l2_us = traffic.l2_bytes * asked_share() / (device_.rates.l2_bytes_per_us * cost_.l2_gain_of_tma);
  e.hbm_us = traffic.hbm_bytes / device_.rates.hbm_bytes_per_us;
  e.overhead_us = device_.rates.launch_us + cost_.begin_us;
  if (cluster_size(c_) > 1) e.overhead_us += cost_.cluster_us;
  e.overhead_us += combine_us(split);
  // No loads or products overlap the last epilogue. Cooperative slices and phases count theirs with their
  // tiles.
  const bool ends_with_whole_tiles = whole > 0 && !c_.conv.phased;
  if (c_.schedule == Schedule::ping_pong || ends_with_whole_tiles) e.overhead_us += epilogue_clocks() / clock;
  // HBM loads only for the tiles being computed: a last wave of few tiles cannot use the HBM time that
  // earlier waves left unused.
  const auto part_us = [&](double part_tiles, double clocks) {
    return joined(cost_.soft, {clocks / clock, e.hbm_us * part_tiles / tiles});
  };
  e.overhead_us += traffic.repeated_bytes / (cost_.repeated_gain * device_.rates.hbm_bytes_per_us);
  e.total_us = e.overhead_us;
  if (c_.conv.phased) {
    e.total_us += part_us(tiles, phased_clocks(split));
    return e;
  }
  if (split.slices > 1) e.total_us += part_us(tiles, slice_clocks(split));
  if (full_waves > 0) {
    const double active = split.clusters * cluster_size(c_);
    e.total_us +=
        part_us(full_waves * split.clusters, (full_waves - 1) * whole_tile_clocks(active, split, false) +
                                                 whole_tile_clocks(active, split, rest == 0));
  }
  if (rest > 0) e.total_us += part_us(rest, whole_tile_clocks(rest * cluster_size(c_), split, true));
  return e;
}

}  // namespace

int max_clusters(const KernelConfig& c, const DeviceInfo& device) {
  return clusters_at_once(cluster_size(c), device);
}

Estimate estimate(const Problem& p, const KernelConfig& c, const WorkSplit& split, const DeviceInfo& device,
                  const Costs& costs) {
  return Model(p, c, device, costs).estimate(split);
}

}  // namespace sluice
