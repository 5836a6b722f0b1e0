// SPDX-License-Identifier: Apache-2.0
#include "cli/run_report.h"

#include <fmt/format.h>

#include <chrono>

#include <sluice/text.h>
#include <sluice/try.h>

#include "cli/terminal.h"

namespace sluice::cli {

void print_row(const char* key, const std::string& value) {
  fmt::print("{} {}\n", paint(stdout, Colour::bold, fmt::format("{:<10}", key)), value);
}

void print_verdict(bool right, const std::string& text) {
  print_row("verified",
            paint(stdout, right ? Colour::green : Colour::red, (right ? "yes: " : "NO: ") + text));
}

namespace {

template <class Where>
Result<void> build(const std::string& unit, const Where& where) {
  const auto start = std::chrono::steady_clock::now();
  SLUICE_TAKE(const BuiltKernel kernel, build_unit(unit, where));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  print_row("kernel", fmt::format("{} in {:.3f} s for sm_90a by {}: {} registers, {} bytes spilled, {} KB",
                                  kernel.compiled ? "compiled" : "cached, read", seconds, kernel.compiler,
                                  kernel.registers, kernel.spill_bytes, kernel.bytes / 1024));
  if (!kernel.not_stored.empty())
    print_row("cache", "the kernel was not kept: " + printable(kernel.not_stored));
  return {};
}

}  // namespace

Result<void> build_and_print(const std::string& unit, const Options& options) {
  return build(unit, options);
}
Result<void> build_and_print(const std::string& unit, const Device& device) {
  return build(unit, device);
}

}  // namespace sluice::cli
