// SPDX-License-Identifier: Apache-2.0
#include "lab/calibrate/calibrate.h"

#include <sluice/try.h>

namespace sluice::lab {

Result<CalibrationRun> calibrate(const Device& device, const CalibrationPhase& phase) {
  CalibrationRun run{.rates = device.info().rates};
  phase("memory and launches");
  SLUICE_TRY(measure_memory(device, run));
  phase("tensor cores, 6 s");
  SLUICE_TRY(measure_tensor(device, run));
  return run;
}

std::vector<std::string> calibration_unit_texts() {
  std::vector<std::string> texts = memory_unit_texts();
  for (std::string& text : tensor_unit_texts()) texts.push_back(std::move(text));
  return texts;
}

}  // namespace sluice::lab
