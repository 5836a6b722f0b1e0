// SPDX-License-Identifier: Apache-2.0
#include <sluice/check/verify_units.h>

namespace sluice {

std::string verify_unit_text(VerifyUnit unit) {
  if (unit == VerifyUnit::fill)
    return R"(#include <sluice/kernels/verify_fill.cuh>
extern "C" __global__ void __launch_bounds__(256) sluice_entry(const __grid_constant__ sluice::FillParams params) {
  sluice::verify::fill_regions(params);
}
)";
  return R"(#include <sluice/kernels/verify_check.cuh>
extern "C" __global__ void __launch_bounds__(256) sluice_entry(const __grid_constant__ sluice::CheckParams params) {
  sluice::verify::check_output(params);
}
)";
}

}  // namespace sluice
