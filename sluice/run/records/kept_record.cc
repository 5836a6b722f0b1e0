// SPDX-License-Identifier: Apache-2.0
// A measured plan as a record in the user's folder. The library's own measurements come here; `sluice tune`
// has its store open.
#include <ctime>

#include <sluice/plan/dense/tuned_choice.h>
#include <sluice/run/device/device_impl.h>
#include <sluice/run/records/record_store.h>
#include <sluice/try.h>

namespace sluice {
namespace {

template <class Record>
Result<void> keep(const Device& device, const Record& record) {
  const std::string& folder = device.options().records_dir;
  if (folder.empty())
    return Error{ErrorCode::io,
                 "there is no folder for records: set Options::records_dir or SLUICE_RECORDS_DIR"};
  const ParsedRecords read = parse_records(to_json(record), "a record to keep");
  if (!read.troubles.empty()) return Error{ErrorCode::invalid_argument, read.troubles.front()};
  return save_in_folder(folder, record);
}

}  // namespace

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

std::string driver_version(const Device& device) {
  const Card& card = device.impl().card();
  return card.driver.empty() ? "unknown" : card.driver;
}

TuningRecord record_of(const Device& device, const Plan& plan, double pick_us, const std::string& method) {
  return {.key = key_of(plan.problem, device.info()),
          .choice = choice_of(plan, plan.measured_us),
          .estimate_us = plan.estimate.total_us,
          .model_us = pick_us,
          .sluice = library_version(),
          .driver = driver_version(device),
          .date = utc_now(),
          .method = method};
}

Result<void> keep_record(const Device& device, const Plan& plan, double pick_us, const std::string& method) {
  if (!has_own_record(plan.problem))
    return Error{
        ErrorCode::invalid_argument,
        "packed weights with a gate, a norm or a residual have no record of their own: tune the plain "
        "product"};
  return keep(device, record_of(device, plan, pick_us, method));
}

Result<void> keep_record(const Device& device, const TunedChain& chain) {
  return keep(device, chain);
}

}  // namespace sluice
