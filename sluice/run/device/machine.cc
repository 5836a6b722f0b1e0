// SPDX-License-Identifier: Apache-2.0
// Calls what prepare() and Device::open call, so that what is found here is found there too.
#include <sluice/machine.h>

#include <sluice/run/device/device_impl.h>
#include <sluice/run/jit/cache.h>
#include <sluice/run/jit/compiler.h>
#include <sluice/try.h>

namespace sluice {

Result<int> cuda_driver() {
  SLUICE_TAKE(const DriverApi* driver, load_driver());
  int version = 0;
  return driver->cuDriverGetVersion(&version) == CUDA_SUCCESS ? version : 0;
}

Result<FoundCompiler> find_nvrtc(const Options& options) {
  SLUICE_TAKE(const NvrtcLocation location, locate_nvrtc(options.nvrtc_path));
  SLUICE_TAKE(const auto compiler, Compiler::load(options.nvrtc_path));
  return FoundCompiler{compiler->version(), location.file};
}

CacheState examine_cache(const Options& options) {
  const KernelCache cache(options);
  CacheState state{.unused = cache.disk_problem(), .unwritable = {}};
  if (state.unused.empty()) state.unwritable = cache.probe_disk();
  return state;
}

bool has_kernels(const Options& options, std::span<const std::string> units) {
  const CompilerSeam none{.version = [] { return std::string(); },
                          .compile = [](const std::string&) -> Result<Cubin> {
                            return Error{ErrorCode::toolchain, "only the cache is asked"};
                          }};
  const KernelCache cache(options, none);
  for (const std::string& unit : units)
    if (!cache.get(unit)) return false;
  return true;
}

CalibrationState calibration_state(const Device& device) {
  const FoundCalibration& found = device.impl().calibration();
  return {.driver = device.impl().card().driver,
          .date = found.calibration ? found.calibration->date : "",
          .trouble = found.trouble};
}

}  // namespace sluice
