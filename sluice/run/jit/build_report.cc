// SPDX-License-Identifier: Apache-2.0
// Reads ptxas's statistics, as CUDA 13.0 to 13.5 print them. If the format changes, `registers` stays 0 and
// the compile tests fail.
#include <sluice/run/jit/build_report.h>

#include <array>
#include <charconv>

namespace sluice {
namespace {

/// Returns the number before the first `unit` in `line` ("0 bytes stack frame"); 0 if there is none.
int number_before(std::string_view line, std::string_view unit) {
  const size_t end = line.find(unit);
  if (end == std::string_view::npos) return 0;
  size_t begin = end;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  int value = 0;
  std::from_chars(line.data() + begin, line.data() + end, value);
  return value;
}

/// Returns whether a line is empty or a usual statistic, with nothing to report beyond its numbers.
bool is_statistic(std::string_view line) {
  constexpr std::array<std::string_view, 6> kUsual = {
      "bytes gmem", "Compiling entry function", "Function properties for", " stack frame, ",
      ": Used ",    ": Compile time = "};
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) return true;
  if (!line.starts_with("ptxas") || line.find("warning") != std::string_view::npos) return false;
  for (const std::string_view words : kUsual)
    if (line.find(words) != std::string_view::npos) return true;
  return false;
}

}  // namespace

void read_compile_log(std::string_view text, BuildReport& report) {
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) text = text.substr(0, nul);
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (!is_statistic(line)) {
      (report.log += line) += '\n';
      continue;
    }
    if (line.find(": Used ") != std::string_view::npos) {
      report.registers = number_before(line, " registers");
      report.static_smem_bytes = number_before(line, " bytes smem");
    } else if (line.find(" stack frame, ") != std::string_view::npos) {
      report.stack_bytes = number_before(line, " bytes stack frame");
      report.spill_bytes =
          number_before(line, " bytes spill stores") + number_before(line, " bytes spill loads");
    }
  }
}

std::string toolchain_version(std::string_view image) {
  constexpr std::string_view kBefore = "Cuda compilation tools, release ";
  const size_t release = image.find(kBefore);
  if (release == std::string_view::npos) return {};
  const std::string_view rest = image.substr(release, 80);
  const size_t begin = rest.find(", V");
  if (begin == std::string_view::npos) return {};
  const std::string_view version = rest.substr(begin + 3);
  return std::string(version.substr(0, version.find_first_not_of("0123456789.")));
}

}  // namespace sluice
