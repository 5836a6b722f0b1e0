// SPDX-License-Identifier: Apache-2.0
// The rates of one card as `sluice_lab calibrate` measured them: a JSON file in the user's records folder,
// named by a hash of the card's name, UUID and driver. Device::info() uses it instead of estimates. Another
// card or driver has another file name, and a file whose content does not match its name is rejected.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <sluice/device_info.h>

namespace sluice {

/// The identity of a card. A calibration is valid for one card and driver version: an update may change
/// clocks and launch overhead.
struct Card {
  std::string gpu;     // the model's name
  std::string uuid;    // 32 hexadecimal digits; "": unknown
  std::string driver;  // "580.159.04"

  /// Returns 16 hexadecimal digits of the hash of all three fields; "" without a UUID, and then no
  /// calibration can be stored.
  std::string key() const;
};

struct Calibration {
  std::string gpu, driver, key;
  std::string date;  // "2026-11-27T01:30:00Z"
  DeviceRates rates;

  bool operator==(const Calibration&) const = default;
};

std::string to_json(const Calibration& calibration);
/// Error invalid_argument: the text is not JSON, or a rate is missing or outside a Hopper's bounds.
Result<Calibration> parse_calibration(std::string_view text);

inline constexpr const char* kCalibrationPrefix = "calibration-";
/// Returns "calibration-<key>.json".
std::string calibration_file(const Card& card);

struct FoundCalibration {
  std::optional<Calibration> calibration;
  std::string trouble;  // reason why an existing file is not used; "" otherwise
};
/// Looks for the card's calibration in the folder. If there is no file, both fields are empty.
FoundCalibration find_calibration(const std::string& folder, const Card& card);
/// Creates the folder if needed, writes the file and returns its path. Errors: invalid_argument (the card has
/// no UUID, or `folder` is empty), io.
Result<std::string> save_calibration(const std::string& folder, const Card& card,
                                     const Calibration& calibration);

/// Replaces the rates in `info` by the card's own. A MIG slice has no calibration: the rates are of the whole
/// card.
void apply(const Calibration& calibration, DeviceInfo& info);

}  // namespace sluice
