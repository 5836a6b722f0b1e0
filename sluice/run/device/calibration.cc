// SPDX-License-Identifier: Apache-2.0
// The table of rates below defines the fields of a calibration file, and the bounds within which a Hopper's
// rates must be.
#include <sluice/run/device/calibration.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include <sluice/plan/text/json_text.h>
#include <sluice/plan/text/lines.h>
#include <sluice/run/jit/cache_directory.h>
#include <sluice/run/jit/hash.h>
#include <sluice/text.h>
#include <sluice/try.h>

namespace sluice {
namespace {

constexpr int kVersion = 1;
constexpr const char* kRemedy = "run `sluice_lab calibrate` again";
constexpr const char* kSubject = "the folder of tuning records";
constexpr std::chrono::milliseconds kLockTimeout{2000};

struct RateRow {
  const char* name;
  double DeviceRates::*rate;
  double least, most;
};
using R = DeviceRates;
constexpr RateRow kRates[] = {
    {"hbm_bytes_per_us", &R::hbm_bytes_per_us, 1e5, 1e7},
    {"l2_bytes_per_us", &R::l2_bytes_per_us, 2e5, 4e7},
    {"sm_bytes_per_us", &R::sm_bytes_per_us, 5e3, 5e5},
    {"latency_us", &R::latency_us, 0.1, 5},
    {"launch_us", &R::launch_us, 0.1, 20},
    {"fp16_flops_per_clock", &R::fp16_flops_per_clock, 256, 8192},
    {"fp8_flops_per_clock", &R::fp8_flops_per_clock, 256, 16384},
    {"fp16_flops_per_us", &R::fp16_flops_per_us, 1e6, 2e9},
    {"fp8_flops_per_us", &R::fp8_flops_per_us, 1e6, 4e9},
    {"light_mhz", &R::light_mhz, 200, 3000},
    {"light_share", &R::light_share, 0, 1},
    {"heavy_share", &R::heavy_share, 0, 1.5},
};
static_assert(sizeof(DeviceRates) == std::size(kRates) * sizeof(double), "a rate has no row");

Error refused(const std::string& why) {
  return {ErrorCode::invalid_argument, why + ": " + kRemedy};
}

Result<double> rate_in(const Json& rates, const RateRow& row) {
  const auto found = rates.find(row.name);
  if (found == rates.end() || !found->is_number()) return refused(std::string("it has no ") + row.name);
  const double value = *found;
  if (std::isfinite(value) && value >= row.least && value <= row.most) return value;
  return refused(std::string(row.name) + " = " + formatted("%.6g", value) + " must be in " +
                 formatted("%.6g", row.least) + ".." + formatted("%.6g", row.most));
}

Result<std::string> text_in(const Json& json, const char* name) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_string()) return refused(std::string("it has no ") + name);
  return found->get<std::string>();
}

Result<Calibration> calibration_in(const Json& json) {
  if (!json.is_object()) return refused("it is no object");
  if (const auto version = json.find("calibration"); version == json.end() || *version != kVersion)
    return refused("it is not of version " + std::to_string(kVersion));
  Calibration c;
  SLUICE_TAKE(c.gpu, text_in(json, "gpu"));
  SLUICE_TAKE(c.driver, text_in(json, "driver"));
  SLUICE_TAKE(c.key, text_in(json, "card"));
  SLUICE_TAKE(c.date, text_in(json, "date"));
  const auto rates = json.find("rates");
  if (rates == json.end() || !rates->is_object()) return refused("it has no rates");
  for (const RateRow& row : kRates) {
    SLUICE_TAKE(c.rates.*row.rate, rate_in(*rates, row));
  }
  if (c.rates.heavy_share <= c.rates.light_share)
    return refused("heavy_share = " + formatted("%.3g", c.rates.heavy_share) + " must be above light_share");
  return c;
}

}  // namespace

std::string Card::key() const {
  return uuid.empty() ? "" : hex(digest(gpu + "\n" + uuid + "\n" + driver)).substr(0, 16);
}

std::string to_json(const Calibration& c) {
  Json rates;
  for (const RateRow& row : kRates) rates[row.name] = c.rates.*row.rate;
  const Json json{{"calibration", kVersion}, {"gpu", c.gpu},   {"driver", c.driver},
                  {"card", c.key},           {"date", c.date}, {"rates", rates}};
  return json.dump(2) + "\n";
}

Result<Calibration> parse_calibration(std::string_view text) {
  const Result<Json> json = parse_json_text(text);
  if (!json) return refused("it " + json.error().message);
  return calibration_in(*json);
}

std::string calibration_file(const Card& card) {
  return kCalibrationPrefix + card.key() + ".json";
}

FoundCalibration find_calibration(const std::string& folder, const Card& card) {
  std::error_code ignored;
  if (folder.empty() || card.key().empty() || !std::filesystem::exists(folder, ignored)) return {};
  const std::string name = calibration_file(card);
  const auto trouble = [&](const std::string& why) {
    return FoundCalibration{.trouble = escaped(folder + "/" + name) + ": " + why};
  };
  const Result<CacheDirectory> opened =
      CacheDirectory::open(folder, CacheDirectory::Access::read_only, kSubject);
  if (!opened) return {.trouble = opened.error().message};
  const CacheDirectory::ReadResult file = opened->read(name);
  if (file.state == CacheDirectory::ReadState::absent) return {};
  if (file.state == CacheDirectory::ReadState::damaged)
    return trouble(std::string("it cannot be read as a file: ") + kRemedy);
  const Result<Calibration> read = parse_calibration(file.bytes);
  if (!read) return trouble(read.error().message);
  if (read->key != card.key())
    return trouble("it is of card " + in_quotes(read->key) + ", " + in_quotes(read->gpu) + ", driver " +
                   in_quotes(read->driver) + ": " + kRemedy);
  return {.calibration = *read};
}

Result<std::string> save_calibration(const std::string& folder, const Card& card,
                                     const Calibration& calibration) {
  if (card.key().empty())
    return Error{ErrorCode::invalid_argument,
                 "the driver does not tell the card's UUID, which a calibration is named by: update it"};
  if (folder.empty())
    return Error{ErrorCode::invalid_argument,
                 "there is no folder for the calibration: set SLUICE_RECORDS_DIR, or HOME"};
  SLUICE_TAKE(const CacheDirectory opened,
              CacheDirectory::open(folder, CacheDirectory::Access::read_write, kSubject));
  const std::string name = calibration_file(card);
  SLUICE_TAKE(const CacheDirectory::Lock lock, opened.lock(name, kLockTimeout));
  SLUICE_TRY(opened.write(name, to_json(calibration), lock));
  return folder + "/" + name;
}

void apply(const Calibration& calibration, DeviceInfo& info) {
  info.rates = calibration.rates;
  for (FactSource* source :
       {&info.sources.hbm_rate, &info.sources.l2_rate, &info.sources.tensor_rate, &info.sources.sm_rates})
    *source = FactSource::calibrated;
}

}  // namespace sluice
