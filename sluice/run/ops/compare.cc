// SPDX-License-Identifier: Apache-2.0
#include <sluice/run/ops/compare.h>

#include <algorithm>
#include <cmath>

#include <sluice/kernels/compare_params.h>
#include <sluice/plan/text/units.h>
#include <sluice/run/device/device_impl.h>
#include <sluice/run/driver/error.h>
#include <sluice/run/driver/launch.h>
#include <sluice/try.h>

namespace sluice::ops {
namespace {

constexpr i64 kMostCtas = 1024;
constexpr i64 kTotalsBytes = sizeof(CompareTotals);

bool is_within(const CompareTotals& totals, const Tolerance& tolerance, double elements) {
  if (totals.unlike != 0) return false;
  const double rms = std::sqrt(totals.squares / elements);
  return verify::bits_as<double>(totals.worst) <= tolerance.share_of_rms * rms &&
         std::sqrt(totals.differences / elements) <= tolerance.rms_share_of_rms * rms;
}

}  // namespace

std::string compare_unit_text() {
  return "#include <sluice/kernels/compare.cuh>\n" + entry_text({.params = "sluice::CompareParams",
                                                                 .threads = "sluice::kCompareThreads",
                                                                 .ctas = "1",
                                                                 .call = "sluice::compare(params)"});
}

double spacing_of(DType type) {
  return verify::power_of_two(-verify::code_layout(type).fraction_bits);
}

Result<Comparison> Comparison::create(const Device& device, int most_pairs) {
  SLUICE_TAKE(std::shared_ptr<const Module> module, device.impl().load_unit(compare_unit_text(), 0));
  SLUICE_TAKE(DeviceBuffer totals, DeviceBuffer::allocate(device, most_pairs * kTotalsBytes));
  return Comparison(device, std::move(module), std::move(totals));
}

Result<void> Comparison::add(const ResultPair& pair, const Tolerance& tolerance, Stream stream) {
  const Footprint& m = pair.memory;
  const i64 size = bytes_of(pair.type), index = static_cast<i64>(added_.size());
  if ((index + 1) * kTotalsBytes > totals_.bytes())
    return Error{ErrorCode::internal, "more pairs of results are compared than there is room for"};
  if (index == 0) SLUICE_TRY(totals_.fill(0, stream));
  const CompareParams params{.first = pair.first,
                             .second = pair.second,
                             .totals = static_cast<CompareTotals*>(totals_.data()) + index,
                             .columns = m.row_bytes / size,
                             .rows = m.rows,
                             .row_pitch = m.row_pitch / size,
                             .batches = m.batches,
                             .batch_pitch = m.batch_pitch / size,
                             .share = tolerance.share,
                             .type = pair.type};
  const i64 elements = elements_of(params);
  added_.push_back({tolerance, static_cast<double>(std::max<i64>(elements, 1))});
  if (elements == 0) return {};
  const ContextScope scope(*device_.impl().primary);
  SLUICE_TRY(scope.entered());
  const LaunchShape shape{
      .grid_x = static_cast<u32>(std::min(ceil_div(elements, i64{kCompareThreads}), kMostCtas)),
      .block_x = kCompareThreads};
  return launch_kernel(*device_.impl().api, module_->function(), shape, &params, stream);
}

Result<std::vector<bool>> Comparison::verdicts(const StreamHandle& stream) {
  std::vector<CompareTotals> totals(added_.size());
  SLUICE_TRY(
      totals_.download_async(totals.data(), static_cast<i64>(totals.size()) * kTotalsBytes, stream.get()));
  SLUICE_TRY(stream.synchronize());
  std::vector<bool> alike;
  for (size_t i = 0; i < totals.size(); ++i)
    alike.push_back(is_within(totals[i], added_[i].tolerance, added_[i].elements));
  added_.clear();
  return alike;
}

}  // namespace sluice::ops
