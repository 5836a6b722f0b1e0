// SPDX-License-Identifier: Apache-2.0
#include <sluice/plan/text/pack_units.h>

#include <sluice/plan/text/field_text.h>

namespace sluice {

std::string to_string(const WeightFormat& f) {
  return text_of(f);
}

std::string describe(const WeightFormat& f) {
  return std::string(name_of(f.type)) + ", group " + std::to_string(f.group) + ", " + name_of(f.scale) +
         " scales, " + (f.zero == ScaleZero::per_group ? "a zero a group" : "no zeros") + ", order " +
         name_of(f.order);
}

std::string pack_unit_text(const PackConfig& config) {
  return std::string("#include <sluice/kernels/pack_entry.cuh>\n") +
         "inline constexpr sluice::PackConfig kConfig{.step = sluice::PackStep::" + name_of(config.step) +
         ", .format = " + to_string(config.format) +
         ", .codes = sluice::CodeStorage::" + name_of(config.codes) + "};\n" +
         "extern \"C\" __global__ void __launch_bounds__(sluice::kPackThreads, 6)\n"
         "sluice_entry(const __grid_constant__ sluice::PackParams params) {\n"
         "  sluice::pack::run<kConfig, sluice::pack::DeviceMemory>(params);\n}\n";
}

}  // namespace sluice
