// SPDX-License-Identifier: Apache-2.0
// `sluice_lab calibrate`: measures the rates of this card and stores them next to the tuning records.
// Whenever this card is opened under this driver, plans then use these rates. The measurements are in
// bench/calibrate; this file prints and stores.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include <sluice/plan/records/record.h>
#include <sluice/run/device/device_impl.h>
#include <sluice/run/records/record_store.h>
#include <sluice/text.h>
#include <sluice/try.h>

#include "cli/measure_flags.h"
#include "lab/calibrate/calibrate.h"
#include "lab/verbs.h"

namespace sluice::lab {

using namespace cli;  // flags, tables, progress
namespace {

struct CalibrateFlags {
  std::string device = "0", records;
  int hang_s = 60;
  bool dry_run = false;
};

struct RateLine {
  const char* name;
  double DeviceRates::*rate;
  double scale;
  const char* unit;
};
using R = DeviceRates;
constexpr RateLine kLines[] = {
    {"HBM", &R::hbm_bytes_per_us, 1e-6, "TB/s"},
    {"L2", &R::l2_bytes_per_us, 1e-6, "TB/s"},
    {"an SM's intake", &R::sm_bytes_per_us, 1e-3, "GB/s"},
    {"latency of HBM", &R::latency_us, 1, "us"},
    {"a launch", &R::launch_us, 1, "us"},
    {"16 bits, an SM", &R::fp16_flops_per_clock, 1, "flop/clock"},
    {"fp8, an SM", &R::fp8_flops_per_clock, 1, "flop/clock"},
    {"16 bits, sustained", &R::fp16_flops_per_us, 1e-6, "TFLOP/s"},
    {"fp8, sustained", &R::fp8_flops_per_us, 1e-6, "TFLOP/s"},
    {"clock of light use", &R::light_mhz, 1, "MHz"},
    {"light up to", &R::light_share, 100, "% busy"},
    {"heavy from", &R::heavy_share, 100, "% busy"},
};

void print_rates(const CalibrationRun& run, const DeviceRates& before) {
  fmt::print("\n{:<22} {:>10} {:>10}\n", "", "measured", "was taken");
  for (const RateLine& line : kLines)
    fmt::print("{:<22} {:>10.4g} {:>10.4g} {}\n", line.name, line.scale * run.rates.*line.rate,
               line.scale * before.*line.rate, line.unit);
  fmt::print("\nbeside these:\n");
  for (const Reading& reading : run.readings)
    fmt::print("  {:<34} {:.5g} {}\n", reading.name, reading.value, reading.unit);
}

Result<int> run_calibrate(const CalibrateFlags& flags) {
  Options options = options_from_environment();
  if (!flags.records.empty()) options.records_dir = flags.records;
  SLUICE_TAKE(const Device device,
              gpu_of(flags.device, options, "calibrate measures GPUs: without one there is nothing to do"));
  const Card& card = device.impl().card();
  if (!flags.dry_run && (options.records_dir.empty() || card.key().empty()))
    // Fail now, not after minutes of measuring.
    return save_calibration(options.records_dir, card, {}).error();
  Job job("calibrate", flags.hang_s, 1);
  SLUICE_TAKE(const CalibrationRun run, lab::calibrate(device, job.part(card.gpu)));
  job.clear();
  fmt::print("{}, driver {}\n", card.gpu, card.driver);
  print_rates(run, device.info().rates);
  const Calibration made{
      .gpu = card.gpu, .driver = card.driver, .key = card.key(), .date = utc_now(), .rates = run.rates};
  // Refuses rates that no Hopper GPU can have.
  SLUICE_TAKE(const Calibration read, parse_calibration(to_json(made)));
  if (flags.dry_run) return kExitOk;
  SLUICE_TAKE(const std::string path, save_calibration(options.records_dir, card, read));
  const bool looked_up = options.records_dir == options_from_environment().records_dir;
  fmt::print("\nkept in {}: {}; remove it to go back\n", escaped(path),
             looked_up ? "plans for this card use it from now on"
                       : "plans use it where SLUICE_RECORDS_DIR names this folder");
  return kExitOk;
}

}  // namespace

Verb add_calibrate_verb(CLI::App& app) {
  auto flags = std::make_shared<CalibrateFlags>();
  CLI::App* verb = app.add_subcommand(
      "calibrate", "Measure this card's rates, for the planner: once a card and driver, 8 s on an idle GPU");
  verb->add_option("--device", flags->device, "The number of the GPU")->capture_default_str();
  verb->add_option("--records", flags->records,
                   "Keep it in this folder (default: SLUICE_RECORDS_DIR, where devices look for it)");
  verb->add_flag("--dry-run", flags->dry_run, "Measure and print, keep nothing");
  verb->add_option("--hang-s", flags->hang_s, "End the process if a part takes longer; 0: never")
      ->capture_default_str();
  return {verb, [flags] { return run_calibrate(*flags); }};
}

}  // namespace sluice::lab
