// SPDX-License-Identifier: Apache-2.0
// The checks ask the library (sluice/machine.h), which calls what it calls itself. So if a check succeeds,
// the library works too.
#include "cli/doctor_checks.h"

#include <fmt/format.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <chrono>
#include <sstream>

#include <sluice/bench/session.h>
#include <sluice/bench/verify.h>
#include <sluice/compile.h>
#include <sluice/gemm.h>
#include <sluice/machine.h>
#include <sluice/record_file.h>
#include <sluice/text.h>

namespace sluice::cli {
namespace {

// Continues a finding on the next line, in its column (doctor.cc).
constexpr const char* kNextLine = "\n                       ";
constexpr double kLowDiskMb = 200;  // space for some thousand kernels

using Seconds = std::chrono::duration<double>;
Seconds now() {
  return std::chrono::steady_clock::now().time_since_epoch();
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

Health missing_if(bool needed) {
  return needed ? Health::missing : Health::optional;
}

/// True if `sluice compile` of this version has filled the cache. It always adds the checking kernels, so
/// these are looked up.
bool is_filled(const Options& options) {
  return has_kernels(options, bench::verifier_units({}));
}

Check check_peer(std::string name, const Result<std::string>& found, const char* remedy) {
  if (found) return {.name = std::move(name), .found = *found};
  return {.name = std::move(name), .health = Health::optional, .found = "not found", .remedy = remedy};
}

}  // namespace

Check check_driver(bool needed) {
  Check check{.name = "CUDA driver"};
  const Result<int> driver = cuda_driver();
  if (!driver) {
    check.health = missing_if(needed);
    check.found = driver.error().message;
    check.remedy = fmt::format(
        "install the NVIDIA driver ({} or newer); in a container, start it with GPU access. Planning, "
        "compiling and the host twin work without",
        kOldestDriver);
  } else if (*driver > 0) {
    check.found = fmt::format("CUDA {}.{}", *driver / 1000, *driver % 1000 / 10);
    if (*driver >= kOldestDriverCuda) return check;
    check.health = missing_if(needed);
    check.remedy = fmt::format("too old: install the NVIDIA driver {} or newer", kOldestDriver);
  } else {
    check.health = missing_if(needed);
    check.found = "libcuda.so.1 is there but does not answer";
    check.remedy = "nvidia-smi says more; reload or reinstall the driver";
  }
  return check;
}

Check check_gpu(const Options& options, bool needed) {
  Check check{.name = "GPU"};
  const Seconds begin = now();
  const Result<Device> device = Device::open(0, options);
  if (device) {
    const Seconds opened = now();
    const DeviceInfo& info = device->info();
    check.found =
        fmt::format("{}, {} SMs, compute capability {}.{}; opened in {:.1f} ms, asked in {:.1f} ms more",
                    info.name, info.sm_count, info.compute_major, info.compute_minor,
                    1e3 * (opened - begin).count(), 1e3 * (now() - opened).count());
    for (const std::string& line : lines_of(describe(info))) check.found += kNextLine + line;
    return check;
  }
  check.health = missing_if(needed);
  check.found = cuda_driver() ? device.error().message : "not looked for without a driver";
  check.remedy =
      device.error().code == ErrorCode::unsupported_arch
          ? "kernels are for Hopper (compute capability 9.0: H100, H200, GH200); choose another GPU "
            "with CUDA_VISIBLE_DEVICES"
          : "repair the driver first, then see whether nvidia-smi lists a GPU";
  return check;
}

Check check_nvrtc(const Options& options) {
  Check check{.name = "NVRTC"};
  const Result<FoundCompiler> nvrtc = find_nvrtc(options);
  if (nvrtc) {
    check.found = fmt::format("{} from {}", nvrtc->version, escaped(nvrtc->file));
    return check;
  }
  check.health = Health::missing;
  check.found = nvrtc.error().message;
  check.remedy =
      "install CUDA toolkit 13's libnvrtc, or point SLUICE_NVRTC at one (the PyPI wheel of NVRTC "
      "will do). Kernels that `sluice compile` put into the cache need none";
  return check;
}

Check check_compile(const Options& options) {
  Check check{.name = "compile"};
  const Result<Plan> plan = gemm::plan({.m = 128, .n = 128, .k = 128}, DeviceInfo{});
  const Options uncached{.nvrtc_path = options.nvrtc_path};
  const Result<BuiltKernel> kernel =
      plan ? build_unit(gemm::units_of(*plan).front(), uncached) : Result<BuiltKernel>(plan.error());
  if (kernel) {
    check.found =
        fmt::format("a test kernel in {:.2f} s by {}: {} registers, {} bytes spilled",
                    kernel->compile_seconds, kernel->compiler, kernel->registers, kernel->spill_bytes);
    if (kernel->compiler != kScannedCompiler)
      check.found += fmt::format(
          "{}packed kernels were scanned for overwritten operands as {} makes them (docs/packed.md), not as "
          "this "
          "compiler does",
          kNextLine, kScannedCompiler);
    return check;
  }
  check.health = Health::missing;
  check.found = kernel.error().message;
  check.remedy = "if NVRTC is missing, see above; else this is a bug of sluice: report the log";
  return check;
}

Check check_cache(const Options& options) {
  Check check{.name = "kernel cache"};
  if (options.cache_dir.empty()) {
    check.health = Health::optional;
    check.found = "none: every process compiles anew";
    check.remedy = "set SLUICE_CACHE_DIR to a folder of your own (or set HOME)";
    return check;
  }
  const CacheState cache = examine_cache(options);
  struct statvfs disk {};
  const bool known = statvfs(options.cache_dir.c_str(), &disk) == 0;
  const double free_mb =
      known ? static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize) / 1e6 : 0;
  check.found = fmt::format("{}{}", escaped(options.cache_dir), options.cache_read_only ? ", read-only" : "");
  if (known) check.found += fmt::format(", {:.1f} GB free", free_mb / 1000);
  if (!cache.unused.empty()) {
    check.health = Health::missing;
    check.found += ": " + cache.unused;
    check.remedy =
        "the folder must be yours, not a link, and writable by you alone (chmod 700), or name "
        "another with SLUICE_CACHE_DIR; until then every process compiles anew";
  } else if (!cache.unwritable.empty()) {
    check.health = Health::missing;
    check.found += ": " + cache.unwritable;
    check.remedy = "docs/jit.md tells of caches that are shipped read-only";
  } else if (known && free_mb < kLowDiskMb && !options.cache_read_only) {
    check.health = Health::missing;
    check.found += ": almost full";
    check.remedy = "free some space: kernels that cannot be kept are compiled anew by every process";
  }
  return check;
}

Check check_environment() {
  const std::vector<std::string> troubles = environment_troubles();
  if (troubles.empty()) return {.name = "environment", .found = "what is set has a meaning"};
  return {.name = "environment",
          .health = Health::optional,
          .found = fmt::format("{}", fmt::join(troubles, kNextLine)),
          .remedy = "until then the defaults hold (docs/jit.md has the table)"};
}

Check check_records(const Options& options) {
  Check check{.name = "tuning"};
  const RecordBook book = open_records(options);
  const int own = records_in(options.records_dir);
  check.found = fmt::format("{} shipped records", shipped_records().size());
  if (!options.records_dir.empty())
    check.found += fmt::format(", {} in {}", own, escaped(options.records_dir));
  if (book.troubles().empty()) return check;
  check.health = Health::optional;
  check.found +=
      fmt::format("; {} passed over: {}", book.troubles().size(), fmt::join(book.troubles(), kNextLine));
  check.remedy = "the cost model plans those problems; `sluice tune` measures them anew";
  return check;
}

Check check_calibration(const Options& options) {
  Check check{.name = "calibration"};
  const Result<Device> device = Device::open(0, options);
  if (!device) {
    check.health = Health::optional;
    check.found = "no GPU to look for one of";
    check.remedy = "plans are for an H200, or for the GPU that --gpu names";
    return check;
  }
  const CalibrationState state = calibration_state(*device);
  if (!state.date.empty()) {
    check.found =
        fmt::format("of {}, this card and driver {}", printable(state.date), printable(state.driver));
    return check;
  }
  check.health = Health::optional;
  check.found = state.trouble.empty()
                    ? fmt::format("none of this card with driver {}", printable(state.driver))
                    : state.trouble;
  check.remedy = "`sluice_lab calibrate` measures its rates in 8 s; until then they are the driver's facts";
  return check;
}

Check check_cublaslt(const std::string& path) {
  return check_peer(
      "cuBLASLt", bench::find_cublaslt(path),
      "only `sluice bench` and the timing of `sluice run` compare with it: install the toolkit's "
      "libcublas, or name the library with --cublaslt");
}

Check check_cudnn(const std::string& path) {
  return check_peer("cuDNN", bench::find_cudnn(path),
                    "only `sluice bench --conv` compares with it: install nvidia-cudnn-cu13, which PyTorch "
                    "brings, or name the library with --cudnn or in SLUICE_CUDNN");
}

std::vector<Check> examine(const DoctorRequest& request) {
  Check nvrtc = check_nvrtc(request.options), compile = check_compile(request.options);
  // Machines without a GPU are for compiling, so they need the compiler.
  if (request.gpu && is_filled(request.options))
    for (Check* check : {&nvrtc, &compile})
      if (check->health == Health::missing) check->health = Health::cached;
  return {check_driver(request.gpu),
          check_gpu(request.options, request.gpu),
          std::move(nvrtc),
          std::move(compile),
          check_cache(request.options),
          check_environment(),
          check_records(request.options),
          check_calibration(request.options),
          check_cublaslt(request.cublaslt),
          check_cudnn(request.cudnn)};
}

Health verdict(const std::vector<Check>& checks) {
  Health worst = Health::ok;
  for (const Check& check : checks)
    if (check.health != Health::optional) worst = std::max(worst, check.health);
  return worst;
}

}  // namespace sluice::cli
