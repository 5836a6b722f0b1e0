// SPDX-License-Identifier: Apache-2.0
// See sluice/compile.h: the units of each operation, and one compile of all.
#include <sluice/compile.h>

#include <sluice/host/jit/compile_ahead.h>
#include <sluice/host/jit/source.h>
#include <sluice/host/ops/gemm.h>
#include <sluice/host/text/norm_units.h>
#include <sluice/host/text/packed_units.h>
#include <sluice/host/text/quantize_units.h>

namespace sluice {
namespace {

template <class Item, class UnitsOf>
Result<Compiled> compile_all(std::span<const Item> items, const Options& options, const UnitsOf& units_of) {
  std::vector<std::string> units;
  for (const Item& item : items)
    for (std::string& unit : units_of(item)) units.push_back(std::move(unit));
  return compile_units(units, options);
}

}  // namespace

Result<Compiled> compile(std::span<const Plan> plans, const Options& options) {
  return compile_all(plans, options,
                     [&](const Plan& plan) { return gemm::units_of(plan, stamping_of(options)); });
}

Result<Compiled> compile(std::span<const packed::Plan> plans, const Options& options) {
  return compile_all(plans, options, [](const packed::Plan& plan) { return packed::units_of(plan); });
}

Result<Compiled> compile(std::span<const QuantizerOptions> quantizers, const Options& options) {
  return compile_all(quantizers, options, [](const QuantizerOptions& of) {
    return quantize_units(of.input, of.granularity, of.gate, of.overlap);
  });
}

Result<Compiled> compile(std::span<const NormOptions> norms, const Options& options) {
  return compile_all(norms, options, [](const NormOptions& of) { return norm_units(of); });
}

}  // namespace sluice
