// SPDX-License-Identifier: Apache-2.0
// Writes the units of a product that is not packed. The other files of plan/text write those of other
// operations.
#include <sluice/plan/text/units.h>

#include <sluice/plan.h>
#include <sluice/plan/text/packed_units.h>
#include <sluice/spec/params.h>

namespace sluice {

namespace {

/// Returns the #include of the WGMMA of one width: parsing all thirty-two would take longer than parsing the
/// kernel.
std::string wgmma_include(int columns) {
  return "#include <sluice/device/ptx/generated/wgmma_n" + std::to_string(columns) + ".cuh>\n";
}

/// Returns the type of the kernel's parameter.
const char* params_type(const KernelConfig& config) {
  if (reads_table(config)) return "sluice::GroupedParams";
  if (takes_factors(config)) return "sluice::FactoredParams";
  if (config.conv.op == ConvOp::none) return "sluice::GemmParams";
  return config.conv.phased ? "sluice::PhasedParams" : "sluice::ConvParams";
}

std::string plain_unit_text(const KernelConfig& config) {
  std::string text;
  if (config.schedule == Schedule::plain_wgmma) text = wgmma_include(stage_columns(config));
  text += "#include <sluice/kernels/plain.cuh>\n";
  text += "inline constexpr sluice::KernelConfig kConfig = " + to_string(config) + ";\n";
  return text + entry_text({.params = params_type(config),
                            .threads = "sluice::threads_of(kConfig)",
                            .ctas = "sluice::plain_ctas(kConfig)",
                            .call = "sluice::run_plain<kConfig>(params)"},
                           config.overlap.spacing);
}

}  // namespace

std::string entry_text(const Entry& entry, Spacing spacing) {
  const std::string bounds = "(" + entry.threads + ", " + entry.ctas + ")";
  const bool leaves = spacing == Spacing::registers;
  return "extern \"C\" __global__ void\n" +
         (leaves ? "__maxnreg__(sluice::most_registers" + bounds + ")\n"
                 : "__launch_bounds__" + bounds + "\n") +
         kEntryName + "(const __grid_constant__ " + entry.params + " params) {\n" +
         (leaves ? "  if (threadIdx.x >= " + entry.working + ") return;\n" : "") + "  " + entry.call +
         ";\n}\n";
}

std::string unit_text(const KernelConfig& config) {
  if (decodes(config.schedule)) return packed::unit_text(config);
  if (is_plain(config.schedule)) return plain_unit_text(config);
  std::string text = wgmma_include(unit_columns(config));
  text += "#include <sluice/kernels/gemm_entry.cuh>\n";
  text += "inline constexpr sluice::KernelConfig kConfig = " + to_string(config) + ";\n";
  text += "extern \"C\" __global__ void __launch_bounds__(sluice::kThreads, 1)\n";
  text += std::string(kEntryName) + "(const __grid_constant__ " + params_type(config) + " params) {\n";
  text += "  sluice::run_gemm<kConfig>(params);\n";
  text += "}\n";
  return text;
}

std::string sum_unit_text(const KernelConfig& config) {
  std::string text = "#include <sluice/kernels/sum_parts.cuh>\n";
  text += "inline constexpr sluice::KernelConfig kConfig = " + to_string(config) + ";\n";
  text += "extern \"C\" __global__ void __launch_bounds__(sluice::kMostSumThreads, sluice::kSumCtas)\n";
  text += std::string(kEntryName) + "(const __grid_constant__ " + params_type(config) + " params) {\n";
  text += "  sluice::sum_parts<kConfig>(params);\n";
  text += "}\n";
  return text;
}

std::vector<std::string> unit_texts(const KernelConfig& config) {
  if (config.combine != Combine::separate) return {unit_text(config)};
  return {unit_text(config), sum_unit_text(config)};
}

}  // namespace sluice
