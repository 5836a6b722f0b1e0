// SPDX-License-Identifier: Apache-2.0
// Collects the machine, versions and method that are recorded with each figure. Part of session.h.

#include <fmt/format.h>
#include <sys/utsname.h>

#include <fstream>

#include <sluice/bench/session.h>
#include <sluice/plan/records/record.h>
#include <sluice/run/jit/compiler.h>
#include <sluice/run/records/record_store.h>

#include "bench/lab.h"

namespace sluice::bench {
namespace {

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name")) return line.substr(std::min(line.size(), line.find(':') + 2));
  return "";
}

std::string system_name() {
  utsname names{};
  return uname(&names) == 0 ? fmt::format("{} {}", names.sysname, names.release) : "";
}

}  // namespace

RunRecord describe_run(const Lab& lab) {
  const DeviceInfo& info = lab.device.info();
  const Method& method = lab.method;
  const auto compiler = Compiler::load(lab.device.options().nvrtc_path);
  return {.started = utc_now(),
          .gpu = info.name,
          .driver = lab.telemetry.driver_version(),
          .cpu = cpu_name(),
          .host_system = system_name(),
          .sm_count = info.sm_count,
          .power_limit_w = lab.telemetry.power_limit_w(),
          .max_sm_mhz = lab.telemetry.max_sm_mhz(),
          .fp16_peak_tflops = info.rates.fp16_flops_per_us * 1e-6,
          .fp8_peak_tflops = info.rates.fp8_flops_per_us * 1e-6,
          .hbm_gbps = info.rates.hbm_bytes_per_us * 1e-3,
          .device = info,
          .nvrtc = compiler ? (*compiler)->version() : "",
          .cublaslt = lab.cublaslt ? lab.cublaslt->version() : "",
          .cublaslt_path = lab.cublaslt ? lab.cublaslt->path() : "",
          .cudnn = lab.cudnn ? lab.cudnn->version() : "",
          .cudnn_path = lab.cudnn ? lab.cudnn->path() : "",
          .method = method.cold ? "cold" : "warm",
          .rounds = method.rounds,
          .tune = method.tune,
          .rest_ms = method.rest_ms,
          .replay_us = method.replay_us,
          .fill = method.uniform ? "uniform [-1, 1)" : "normal, variance 1"};
}

}  // namespace sluice::bench
