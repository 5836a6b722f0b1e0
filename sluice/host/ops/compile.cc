// SPDX-License-Identifier: Apache-2.0
// Implements sluice/compile.h: collects the JIT units of all plans and compiles them in one call.
#include <sluice/compile.h>

#include <sluice/host/jit/compile_ahead.h>
#include <sluice/host/ops/gemm.h>
#include <sluice/host/ops/norm.h>
#include <sluice/host/ops/quantize.h>

namespace sluice {
namespace {

template <class Op>
Result<Compiled> compile_all(std::span<const typename Op::Plan> plans, const Options& options) {
  std::vector<std::string> units;
  for (const auto& plan : plans)
    for (std::string& unit : Op::units(plan)) units.push_back(std::move(unit));
  return compile_units(units, options);
}

}  // namespace

Result<Compiled> compile(std::span<const Plan> plans, const Options& options) {
  return compile_all<ops::Gemm>(plans, options);
}
Result<Compiled> compile(std::span<const QuantizerOptions> quantizers, const Options& options) {
  return compile_all<ops::QuantizeOp>(quantizers, options);
}
Result<Compiled> compile(std::span<const NormOptions> norms, const Options& options) {
  return compile_all<ops::NormOp>(norms, options);
}

}  // namespace sluice
