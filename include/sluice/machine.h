// SPDX-License-Identifier: Apache-2.0
// Finds what sluice needs on this machine: driver, NVRTC, kernel cache, rates of the card. For programs that
// tell their user what is missing; `sluice doctor` prints it. Changes nothing, except that a cache folder is
// created if there is none.
#pragma once

#include <span>
#include <string>

#include <sluice/options.h>
#include <sluice/result.h>
#include <sluice/text.h>

namespace sluice {

class Device;  // sluice/gemm.h

/// The first driver for CUDA 13.x (CUDA Compatibility, minimum drivers). Older drivers load no cubin of NVRTC
/// 13.
inline constexpr int kOldestDriver = 580;
inline constexpr int kOldestDriverCuda = 13000;  // that driver, as cuda_driver() returns it

/// Returns the CUDA version that the driver supports, 13000 for 13.0; 0 if it does not answer. Error driver:
/// there is no driver, or it is too old to be loaded.
Result<int> cuda_driver();

struct FoundCompiler {
  std::string version;  // "NVRTC 13.0.88"
  std::string file;     // the library's path
};
/// Returns the NVRTC that `options` find. Error toolchain: none is found, or it cannot be loaded.
Result<FoundCompiler> find_nvrtc(const Options& options);

/// Whether the kernel cache of Options::cache_dir works. Both texts are empty if it does.
struct CacheState {
  std::string unused;      // why nothing is stored on disk
  std::string unwritable;  // why a small file could not be written there
};
CacheState examine_cache(const Options& options);
/// True if the cache has the kernels of all these units. Compiles nothing.
bool has_kernels(const Options& options, std::span<const std::string> units);

/// The rates that `sluice_lab calibrate` measured on the device's card.
struct CalibrationState {
  std::string driver;     // the card's driver version
  std::string date{};     // when they were measured; "" if they were not
  std::string trouble{};  // why a file of such rates is not used; "" otherwise
};
CalibrationState calibration_state(const Device& device);

}  // namespace sluice
