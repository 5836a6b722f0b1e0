// SPDX-License-Identifier: Apache-2.0
#include <sluice/plan/text/quantize_units.h>

#include <sluice/plan/text/overlap_text.h>
#include <sluice/plan/text/units.h>

namespace sluice {
namespace {

const char* name_of_step(QuantizeStep step) {
  switch (step) {
    case QuantizeStep::amax: return "amax";
    case QuantizeStep::cast: return "cast";
    case QuantizeStep::row: return "row";
    case QuantizeStep::row_block: return "row_block";
    case QuantizeStep::square_block: return "square_block";
    case QuantizeStep::plain: return "plain";
  }
  return "?";
}

}  // namespace

std::string quantize_unit_text(const QuantizeConfig& config) {
  return std::string("#include <sluice/kernels/quantize_entry.cuh>\n") +
         "inline constexpr sluice::QuantizeConfig kConfig{.step = sluice::QuantizeStep::" +
         name_of_step(config.step) + ", .input = sluice::DType::" + name_of(config.input) +
         ", .vectors = " + (config.vectors ? "true" : "false") +
         ", .gate = sluice::Gate::" + (config.gate == Gate::none ? "none" : "silu") +
         overlap_field(config.overlap) + (config.gathered ? ", .gathered = true" : "") + "};\n" +
         entry_text({.params = config.gathered ? "sluice::GatherParams" : "sluice::QuantizeParams",
                     .threads = "sluice::kQuantizeThreads",
                     .ctas = "2",
                     .call = "sluice::quantize::run<kConfig, "
                             "sluice::quantize::DeviceArith<kConfig.overlap.wait>>(params)"},
                    config.overlap.spacing);
}

std::vector<QuantizeStep> quantize_steps(std::optional<Granularity> granularity) {
  if (!granularity) return {QuantizeStep::plain};
  switch (*granularity) {
    case Granularity::tensor: return {QuantizeStep::amax, QuantizeStep::cast};
    case Granularity::row: return {QuantizeStep::row};
    case Granularity::row_block: return {QuantizeStep::row_block};
    case Granularity::square_block: return {QuantizeStep::square_block};
  }
  return {};
}

std::vector<std::string> quantize_units(DType input, std::optional<Granularity> granularity, Gate gate,
                                        Overlap overlap, bool gathered) {
  std::vector<std::string> units;
  for (const QuantizeStep step : quantize_steps(granularity))
    for (const bool vectors : {true, false})
      units.push_back(quantize_unit_text({step, input, vectors, gate, overlap, gathered}));
  return units;
}

}  // namespace sluice
