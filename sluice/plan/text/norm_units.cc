// SPDX-License-Identifier: Apache-2.0
// Builds the text of the units. It contains only enumerators and numbers, so no string of a caller becomes
// code.
#include <sluice/plan/text/norm_units.h>

#include <sluice/plan/text/overlap_text.h>
#include <sluice/plan/text/units.h>

namespace sluice {

const char* name_of(NormStore store) {
  switch (store) {
    case NormStore::plain: return "plain";
    case NormStore::tensor: return "tensor";
    case NormStore::row: return "row";
    case NormStore::row_block: return "row_block";
  }
  return "?";
}

std::string norm_unit_text(const NormConfig& config) {
  const auto& [input, vectors, store, overlap] =
      config;  // a new field of NormConfig does not compile until it is printed here
  return std::string("#include <sluice/kernels/norm_entry.cuh>\n") +
         "inline constexpr sluice::NormConfig kConfig{.input = sluice::DType::" + name_of(input) +
         ", .vectors = " + (vectors ? "true" : "false") + ", .store = sluice::NormStore::" + name_of(store) +
         overlap_field(overlap) + "};\n" +
         entry_text({.params = "sluice::NormParams",
                     .threads = "sluice::max_norm_threads(kConfig)",
                     .ctas = "1",
                     .call = "sluice::norm::run<kConfig, sluice::norm::DeviceArith>(params)",
                     .working = "params.working_threads"},
                    overlap.spacing);
}

std::vector<std::string> norm_units(DType input, NormStore store, Overlap overlap) {
  std::vector<std::string> units;
  for (const bool vectors : {true, false}) units.push_back(norm_unit_text({input, vectors, store, overlap}));
  return units;
}

}  // namespace sluice
