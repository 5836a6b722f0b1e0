// SPDX-License-Identifier: Apache-2.0
// A card's own rates, as `sluice calibrate` measured them: a JSON file in the user's records folder, named by
// a hash of the card's UUID and driver. Device::info() takes it in place of estimates. Another card or driver
// has another name, and a file under the wrong name is refused.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <sluice/device_info.h>

namespace sluice {

/// A calibration holds for one card and driver: an update may change clocks and launches.
struct Card {
  std::string gpu;     // its name
  std::string uuid;    // 32 hexadecimal digits; "": unknown
  std::string driver;  // "580.159.04"

  /// 16 hexadecimal digits of the hash of all three; "" without a UUID, and then nothing can be kept.
  std::string key() const;
};

struct Calibration {
  std::string gpu, driver, key;
  std::string date;  // "2026-11-27T01:30:00Z"
  DeviceRates rates;

  bool operator==(const Calibration&) const = default;
};

std::string to_json(const Calibration& calibration);
/// Error invalid_argument: no JSON, a rate that is missing, or one that no Hopper has.
Result<Calibration> parse_calibration(std::string_view text);

inline constexpr const char* kCalibrationPrefix = "calibration-";
/// "calibration-<key>.json"
std::string calibration_file(const Card& card);

struct FoundCalibration {
  std::optional<Calibration> calibration;
  std::string trouble;  // why a file that is there is not used
};
/// The card's calibration in the folder. Nothing, and no trouble, if there is none.
FoundCalibration find_calibration(const std::string& folder, const Card& card);
/// Makes the folder if need be, and returns the file's path. Errors: invalid_argument (the card has no UUID,
/// or `folder` is empty), io.
Result<std::string> save_calibration(const std::string& folder, const Card& card,
                                     const Calibration& calibration);

/// Puts the card's own rates in place of others. They are the card's: a slice of it has no calibration.
void apply(const Calibration& calibration, DeviceInfo& info);

}  // namespace sluice
