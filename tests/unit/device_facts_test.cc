// SPDX-License-Identifier: Apache-2.0
// DeviceInfo, derived from the facts that a driver reports. To see it fail: scale the H200's rates by the
// number of SMs, or mark a computed rate as measured.
#include <gtest/gtest.h>

#include <sluice/plan/device_facts.h>

namespace sluice {
namespace {

constexpr double kPerTera = 1e6;  // bytes or operations per microsecond

/// Facts as the driver of an H200 reports them.
GpuFacts h200_facts() {
  return {.name = "NVIDIA H200",
          .sm_count = 132,
          .l2_bytes = 60 << 20,
          .max_sm_mhz = 1980,
          .memory_mhz = 3201,
          .bus_bits = 6016,
          .power_limit_w = 700,
          .clusters_of_2 = 66,
          .clusters_of_4 = 30,
          .clusters_of_8 = 15};
}
GpuFacts h100_facts() {
  GpuFacts facts = h200_facts();
  facts.name = "NVIDIA H100 80GB HBM3";
  facts.l2_bytes = 50 << 20;
  facts.memory_mhz = 2619;
  facts.bus_bits = 5120;
  facts.clusters_of_4 = 28;
  return facts;
}

DeviceInfo named(const char* name) {
  const Result<DeviceInfo> info = gpu_named(name);
  EXPECT_TRUE(info.ok()) << name;
  return info ? *info : DeviceInfo{};
}

TEST(device_facts, an_h200_keeps_the_rates_that_were_measured_on_one) {
  const DeviceInfo info = device_info_of(h200_facts()), h200;
  EXPECT_EQ(info.rates.hbm_bytes_per_us, h200.rates.hbm_bytes_per_us);
  EXPECT_EQ(info.rates.l2_bytes_per_us, h200.rates.l2_bytes_per_us);
  EXPECT_EQ(info.rates.fp16_flops_per_us, h200.rates.fp16_flops_per_us);
  EXPECT_EQ(info.rates.fp8_flops_per_us, h200.rates.fp8_flops_per_us);
  EXPECT_EQ(info.max_clusters_of_4, h200.max_clusters_of_4);
  EXPECT_EQ(info.sources.hbm_rate, FactSource::measured);
  EXPECT_EQ(info.sources.tensor_rate, FactSource::measured);
  EXPECT_EQ(info.sources.clusters, FactSource::driver);
}

TEST(device_facts, an_h200_that_is_held_to_less_power_is_not_the_measured_one) {
  GpuFacts facts = h200_facts();
  facts.power_limit_w = 450;
  const DeviceInfo info = device_info_of(facts);
  EXPECT_EQ(info.sources.tensor_rate, FactSource::estimated);
  EXPECT_LT(info.rates.fp16_flops_per_us, 0.85 * DeviceInfo{}.rates.fp16_flops_per_us);
  EXPECT_EQ(info.sources.hbm_rate, FactSource::measured);
}

TEST(device_facts, an_h100_has_the_memory_of_an_h100) {
  const DeviceInfo info = device_info_of(h100_facts());
  EXPECT_NEAR(info.hbm_peak_bytes_per_us, 3.35 * kPerTera, 0.01 * kPerTera);
  EXPECT_GT(info.rates.hbm_bytes_per_us, 0.9 * info.hbm_peak_bytes_per_us);
  EXPECT_LT(info.rates.hbm_bytes_per_us, 0.95 * info.hbm_peak_bytes_per_us);
  EXPECT_EQ(info.sources.hbm_rate, FactSource::estimated);
  EXPECT_EQ(info.max_clusters_of_4, 28);
  EXPECT_EQ(info.l2_bytes, 50 << 20);
  EXPECT_DOUBLE_EQ(info.rates.fp16_flops_per_us, DeviceInfo{}.rates.fp16_flops_per_us)
      << "as many SMs, clocks and watts";
  EXPECT_EQ(info.sources.tensor_rate, FactSource::estimated) << "but nobody measured it";
}

TEST(device_facts, nothing_but_the_measured_model_is_called_measured) {
  for (const std::string& name : gpu_names()) {
    if (name == "h200") continue;
    const FactSources from = named(name.c_str()).sources;
    for (const FactSource source : {from.clusters, from.l2_bytes, from.clock, from.power_limit, from.hbm_rate,
                                    from.l2_rate, from.tensor_rate}) {
      EXPECT_NE(source, FactSource::measured) << name;
      EXPECT_NE(source, FactSource::driver) << name << ": no driver was asked";
    }
  }
  EXPECT_EQ(named("h200"), DeviceInfo{});
  EXPECT_EQ(named("H200"), DeviceInfo{});
}

TEST(device_facts, peaks_of_memory_are_those_of_the_data_sheets) {
  const struct {
    const char* name;
    double peak;
  } sheets[] = {{"h100", 3.35}, {"h100-nvl", 3.94}, {"h100-pcie", 2.04}, {"gh200", 4.02}, {"h20", 4.02}};
  for (const auto& [name, peak] : sheets)
    EXPECT_NEAR(named(name).hbm_peak_bytes_per_us, peak * kPerTera, 0.01 * kPerTera) << name;
}

TEST(device_facts, less_power_is_less_clock_and_an_h20_has_a_quarter_of_the_tensor_cores) {
  const DeviceInfo sxm = named("h100"), pcie = named("h100-pcie"), h20 = named("h20");
  EXPECT_GT(pcie.rates.fp16_flops_per_us, 450 * kPerTera);
  EXPECT_LT(pcie.rates.fp16_flops_per_us, 600 * kPerTera);
  EXPECT_LT(named("h100-nvl").rates.fp16_flops_per_us, 0.8 * sxm.rates.fp16_flops_per_us);
  EXPECT_NEAR(h20.rates.fp16_flops_per_us, 148 * kPerTera, 12 * kPerTera);
  EXPECT_NEAR(h20.rates.fp8_flops_per_us, 296 * kPerTera, 24 * kPerTera);
  EXPECT_EQ(h20.rates.fp16_flops_per_clock, 1024);
  EXPECT_LT(h20.rates.fp16_flops_per_us / h20.sm_count / h20.rates.fp16_flops_per_clock, h20.max_sm_mhz);
  EXPECT_EQ(sxm.rates.fp16_flops_per_clock, 4096);
}

TEST(device_facts, a_driver_that_is_silent_is_assumed_to_have_a_smaller_h200) {
  const DeviceInfo info = device_info_of({.name = "NVIDIA Something", .sm_count = 66, .l2_bytes = 1 << 20});
  EXPECT_EQ(info.sources.hbm_rate, FactSource::assumed);
  EXPECT_EQ(info.sources.tensor_rate, FactSource::assumed);
  EXPECT_EQ(info.sources.clusters, FactSource::assumed);
  EXPECT_EQ(info.sources.power_limit, FactSource::assumed);
  EXPECT_DOUBLE_EQ(info.rates.hbm_bytes_per_us, DeviceInfo{}.rates.hbm_bytes_per_us / 2);
  EXPECT_EQ(info.max_clusters_of_2, 33);
  EXPECT_EQ(info.max_clusters_of_4, 15);
  EXPECT_NE(describe(info).find("assumed"), std::string::npos);
  EXPECT_EQ(describe(info).find("measured"), std::string::npos);
}

TEST(device_facts, a_slice_of_a_gpu_has_a_share_of_its_memory_and_not_more_watts_an_sm) {
  GpuFacts facts = h100_facts();
  facts.name = "NVIDIA H100 80GB HBM3 MIG 1g.10gb";
  facts.sm_count = 16;
  facts.clusters_of_2 = 8;
  facts.clusters_of_4 = 4;
  facts.clusters_of_8 = 0;  // no cluster of 8 fits
  const DeviceInfo info = device_info_of(facts), whole = device_info_of(h100_facts());
  EXPECT_NEAR(info.rates.hbm_bytes_per_us / whole.rates.hbm_bytes_per_us, 16.0 / 132, 1e-9);
  EXPECT_NEAR(info.rates.fp16_flops_per_us / whole.rates.fp16_flops_per_us, 16.0 / 132, 1e-9);
  EXPECT_EQ(info.max_clusters_of_8, 0);
  EXPECT_EQ(info.sources.clusters, FactSource::driver);
}

TEST(device_facts, an_unknown_name_is_refused_with_those_that_are_known) {
  const Result<DeviceInfo> info = gpu_named("b200");
  ASSERT_FALSE(info.ok());
  EXPECT_EQ(info.error().code, ErrorCode::invalid_argument);
  EXPECT_NE(info.error().message.find("h200, h100, h100-nvl, h100-pcie, gh200, h20"), std::string::npos);
}

TEST(device_facts, the_text_says_every_fact_and_its_source) {
  const std::string text = describe(named("h100"));
  for (const char* part : {"NVIDIA H100 80GB HBM3, 132 SMs", "700 W (assumed)", "B/s (estimated)",
                           "50 MB of L2 (assumed)", "845 TFLOP/s of 16 bits", "(estimated)"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  EXPECT_NE(describe(DeviceInfo{}).find("4.50 TB/s (measured on this GPU type)"), std::string::npos);
}

}  // namespace
}  // namespace sluice
