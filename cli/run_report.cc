// SPDX-License-Identifier: Apache-2.0
#include "cli/run_report.h"

#include <fmt/format.h>

#include <chrono>

#include <sluice/tools.h>

#include "cli/terminal.h"

namespace sluice::cli {

void print_row(const char* key, const std::string& value) {
  fmt::print("{} {}\n", paint(stdout, Colour::bold, fmt::format("{:<10}", key)), value);
}

void print_verdict(bool right, const std::string& text) {
  print_row("verified",
            paint(stdout, right ? Colour::green : Colour::red, (right ? "yes: " : "NO: ") + text));
}

Result<void> compile_and_print(const KernelCache& cache, const std::string& unit) {
  const int compiles = cache.stats().compiles;
  const auto start = std::chrono::steady_clock::now();
  const auto cubin = cache.get(unit);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!cubin) return cubin.error();
  const BuildReport& report = (*cubin)->report;
  const bool fresh = cache.stats().compiles > compiles;
  print_row("kernel", fmt::format("{} in {:.3f} s for sm_90a by {}: {} registers, {} bytes spilled, {} KB",
                                  fresh ? "compiled" : "cached, read", seconds, report.compiler,
                                  report.registers, report.spill_bytes, (*cubin)->image.size() / 1024));
  const std::string unkept = cache.disk_problem().empty() ? cache.write_problem() : cache.disk_problem();
  if (fresh && !unkept.empty()) print_row("cache", "the kernel was not kept: " + printable(unkept));
  return {};
}

}  // namespace sluice::cli
