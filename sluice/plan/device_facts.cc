// SPDX-License-Identifier: Apache-2.0
// Only the measured model (H200) keeps measured rates. Rates of other GPUs are estimated from clocks, bus
// width, SMs and power limit; docs/hardware.md states the accuracy.
#include <sluice/plan/device_facts.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include <sluice/plan/text/lines.h>

namespace sluice {
namespace {

const DeviceInfo kH200;  // measured, see docs/hardware.md

/// Sustained share of the HBM peak rate. H200: 4.5 of 4.81 TB/s, 0.935. H100 SXM: 0.875 in a single read of 1
/// GB (2026-11-25), about 0.925 in chains of products.
constexpr double kSustainedHbmShare = 0.925;
/// At the power limit the tensor clock is proportional to the watts per SM raised to this exponent. It would
/// be 1 at constant voltage, and 1/3 if voltage followed the clock. Estimated, not measured.
constexpr double kClockExponent = 0.6;
/// Highest clock of kernels with tensor-core instructions at any power, relative to the GPU's highest clock:
/// 1770 of 1980 MHz on an H200 (docs/findings/clock-of-tensor-kernels.md).
constexpr double kTensorClockShare = 1770.0 / 1980.0;
/// Clock of kernels whose tensor cores are busy for at most half of the time, relative to the GPU's highest
/// clock; the power limit does not lower it. From sm_mhz of 440 results of an H200 (docs/findings/power.md).
constexpr double kLightClockShare = 1800.0 / 1980.0;
/// A GPU counts as the measured model if its power limit and memory rate differ by less than this share.
constexpr double kSameModel = 0.03;

/// A GPU whose tensor cores are slower than a full Hopper's, which no driver reports. H20: 148 and 296
/// TFLOP/s on 78 SMs (NVIDIA's data sheet), a quarter.
struct SlowPart {
  std::string_view name;
  double share;
};
constexpr std::array kSlowParts{SlowPart{"NVIDIA H20", 0.25}, SlowPart{"NVIDIA H20-3e", 0.25}};

double tensor_share(const std::string& name) {
  for (const SlowPart& part : kSlowParts)
    if (name == part.name) return part.share;
  return 1;
}

bool is_close(double value, double expected) {
  return std::abs(value / expected - 1) < kSameModel;
}

/// Returns whether the GPU is a MIG slice.
bool is_slice(const std::string& name) {
  return name.find(" MIG ") != std::string::npos;
}

double share_of_sms(const DeviceInfo& info) {
  return static_cast<double>(info.sm_count) / kH200.sm_count;
}

void set_clusters(const GpuFacts& facts, DeviceInfo& info) {
  const bool told = facts.clusters_of_2 > 0 && facts.clusters_of_4 > 0;
  info.sources.clusters = told ? FactSource::driver : FactSource::assumed;
  // 0 clusters of eight is a valid answer: in a small MIG slice none may fit.
  info.max_clusters_of_2 = told ? facts.clusters_of_2 : info.sm_count / 2;
  info.max_clusters_of_4 =
      told ? facts.clusters_of_4 : kH200.max_clusters_of_4 * info.sm_count / kH200.sm_count;
  info.max_clusters_of_8 =
      told ? facts.clusters_of_8 : kH200.max_clusters_of_8 * info.sm_count / kH200.sm_count;
}

void set_memory(const GpuFacts& facts, bool measured, DeviceInfo& info) {
  info.hbm_peak_bytes_per_us = 2 * facts.memory_mhz * facts.bus_bits / 8;
  if (measured) return;
  info.sources.hbm_rate = FactSource::estimated;
  info.rates.hbm_bytes_per_us = kSustainedHbmShare * info.hbm_peak_bytes_per_us;
  // For a slice the driver reports the bus of the whole GPU.
  if (is_slice(facts.name)) info.rates.hbm_bytes_per_us *= std::min(1.0, share_of_sms(info));
  if (info.hbm_peak_bytes_per_us > 0) return;
  info.sources.hbm_rate = FactSource::assumed;
  info.rates.hbm_bytes_per_us = kH200.rates.hbm_bytes_per_us * share_of_sms(info);
}

/// Returns the clock of busy tensor cores, relative to an H200's.
double busy_clock(const DeviceInfo& info, double share) {
  const double h200_mhz = kH200.rates.fp16_flops_per_us / kH200.sm_count / kH200.rates.fp16_flops_per_clock;
  const double most = kTensorClockShare * info.max_sm_mhz / h200_mhz;
  if (info.power_limit_w <= 0) return std::min(1.0, most);
  // The number of SMs that share the power limit.
  const int sms = is_slice(info.name) ? kH200.sm_count : info.sm_count;
  const double watts = info.power_limit_w / sms / (kH200.power_limit_w / kH200.sm_count) / share;
  return std::min(std::pow(watts, kClockExponent), most);
}

void set_tensor_rate(const GpuFacts& facts, DeviceInfo& info) {
  const double share = tensor_share(facts.name);
  info.rates.fp16_flops_per_clock *= share;
  info.rates.fp8_flops_per_clock *= share;
  info.sources.tensor_rate = facts.power_limit_w > 0 ? FactSource::estimated : FactSource::assumed;
  const double rate = share_of_sms(info) * share * busy_clock(info, share);
  info.rates.fp16_flops_per_us *= rate;
  info.rates.fp8_flops_per_us *= rate;
}

/// The facts of a GPU model: from data sheets, or for the H100 SXM from its driver (2026-11-25). All use the
/// cluster counts of an H200.
struct Part {
  const char* key;
  GpuFacts facts;
};
const std::array<Part, 6>& parts() {
  static const std::array<Part, 6> all{{
      {"h200", {}},  // the defaults of DeviceInfo
      {"h100",
       {.name = "NVIDIA H100 80GB HBM3",
        .sm_count = 132,
        .l2_bytes = 50 << 20,
        .max_sm_mhz = 1980,
        .memory_mhz = 2619,
        .bus_bits = 5120,
        .power_limit_w = 700}},
      {"h100-nvl",
       {.name = "NVIDIA H100 NVL",
        .sm_count = 132,
        .l2_bytes = 50 << 20,
        .max_sm_mhz = 1785,
        .memory_mhz = 2619,
        .bus_bits = 6016,
        .power_limit_w = 400}},
      {"h100-pcie",
       {.name = "NVIDIA H100 PCIe",
        .sm_count = 114,
        .l2_bytes = 50 << 20,
        .max_sm_mhz = 1755,
        .memory_mhz = 1593,
        .bus_bits = 5120,
        .power_limit_w = 350}},
      {"gh200",
       {.name = "NVIDIA GH200 480GB",
        .sm_count = 132,
        .l2_bytes = 50 << 20,
        .max_sm_mhz = 1980,
        .memory_mhz = 2619,
        .bus_bits = 6144,
        .power_limit_w = 700}},
      {"h20",
       {.name = "NVIDIA H20",
        .sm_count = 78,
        .l2_bytes = 60 << 20,
        .max_sm_mhz = 1980,
        .memory_mhz = 2619,
        .bus_bits = 6144,
        .power_limit_w = 500}},
  }};
  return all;
}

std::string joined_names() {
  std::string text;
  for (const Part& part : parts()) text += (text.empty() ? "" : ", ") + std::string(part.key);
  return text;
}

std::string with(const std::string& fact, FactSource source) {
  return fact + " (" + name_of(source) + ")";
}

}  // namespace

DeviceInfo device_info_of(const GpuFacts& facts) {
  DeviceInfo info;
  info.name = facts.name;
  info.compute_major = facts.compute_major;
  info.compute_minor = facts.compute_minor;
  info.sm_count = facts.sm_count;
  const auto take = [](double fact, double& value, FactSource& source) {
    source = fact > 0 ? FactSource::driver : FactSource::assumed;
    if (fact > 0) value = fact;
  };
  set_clusters(facts, info);
  take(facts.max_sm_mhz, info.max_sm_mhz, info.sources.clock);
  take(facts.power_limit_w, info.power_limit_w, info.sources.power_limit);
  info.sources.l2_bytes = facts.l2_bytes > 0 ? FactSource::driver : FactSource::assumed;
  if (facts.l2_bytes > 0) info.l2_bytes = facts.l2_bytes;

  const bool known = facts.name == kH200.name && facts.sm_count == kH200.sm_count;
  const double peak = 2 * facts.memory_mhz * facts.bus_bits / 8;
  set_memory(facts, known && (peak <= 0 || is_close(peak, kH200.hbm_peak_bytes_per_us)), info);
  if (known && is_close(info.power_limit_w, kH200.power_limit_w)) return info;
  set_tensor_rate(facts, info);
  if (known) return info;
  info.sources.sm_rates = FactSource::estimated;
  info.rates.light_mhz = kLightClockShare * info.max_sm_mhz;
  info.rates.sm_bytes_per_us *= info.max_sm_mhz / kH200.max_sm_mhz;
  info.sources.l2_rate = FactSource::estimated;
  info.rates.l2_bytes_per_us *= share_of_sms(info) * (info.max_sm_mhz / kH200.max_sm_mhz);
  return info;
}

Result<DeviceInfo> gpu_named(std::string_view name) {
  std::string wanted(name);
  std::transform(wanted.begin(), wanted.end(), wanted.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  for (const Part& part : parts()) {
    if (wanted != part.key) continue;
    if (part.facts.sm_count == 0) return kH200;
    DeviceInfo info = device_info_of(part.facts);
    for (FactSource* source :
         {&info.sources.clusters, &info.sources.l2_bytes, &info.sources.clock, &info.sources.power_limit})
      *source = FactSource::assumed;  // the driver was not queried
    return info;
  }
  return Error{
      ErrorCode::invalid_argument,
      "gpu = " + std::string(name) + " is no GPU that can be planned for: use one of " + joined_names()};
}

std::vector<std::string> gpu_names() {
  std::vector<std::string> names;
  for (const Part& part : parts()) names.emplace_back(part.key);
  return names;
}

const char* name_of(FactSource source) {
  switch (source) {
    case FactSource::measured: return "measured on this GPU type";
    case FactSource::driver: return "driver";
    case FactSource::estimated: return "estimated";
    case FactSource::calibrated: return "measured on this card";
    case FactSource::assumed: break;
  }
  return "assumed";
}

std::string describe(const DeviceInfo& d) {
  const FactSources& from = d.sources;
  const auto tera = [](double per_us) { return formatted("%.2f T", per_us * 1e-6); };
  const std::string power = d.power_limit_w > 0 ? with(formatted("%.0f W", d.power_limit_w), from.power_limit)
                                                : "power limit unknown";
  return line("gpu", d.name + ", " + std::to_string(d.sm_count) + " SMs, " +
                         with(formatted("%.0f MHz at most", d.max_sm_mhz), from.clock) + ", " + power) +
         line("clusters", std::to_string(d.max_clusters_of_2) + " of 2, " +
                              std::to_string(d.max_clusters_of_4) + " of 4, " +
                              with(std::to_string(d.max_clusters_of_8) + " of 8 at once", from.clusters)) +
         line("rates", "HBM " + with(tera(d.rates.hbm_bytes_per_us) + "B/s", from.hbm_rate) + ", L2 " +
                           with(tera(d.rates.l2_bytes_per_us) + "B/s", from.l2_rate) + ", " +
                           with(std::to_string(d.l2_bytes >> 20) + " MB of L2", from.l2_bytes)) +
         line("tensor",
              formatted("%.0f", d.rates.fp16_flops_per_us * 1e-6) + " TFLOP/s of 16 bits, " +
                  with(formatted("%.0f", d.rates.fp8_flops_per_us * 1e-6) + " of fp8", from.tensor_rate));
}

std::string describe_stand_in(const DeviceInfo& d) {
  return line("for", "an " + d.name + ", as no GPU was found or named");
}

}  // namespace sluice
