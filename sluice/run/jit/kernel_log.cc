// SPDX-License-Identifier: Apache-2.0
#include <sluice/run/jit/kernel_log.h>

#include <fcntl.h>
#include <unistd.h>

#include <sluice/run/jit/cache_directory.h>

namespace sluice {

std::string kernel_log_line(const std::string& entry_name, const std::string& unit) {
  std::string line = entry_name + '\t';
  for (const char c : unit) {
    if (c == '\n')
      line += "\\n";
    else if (c == '\\')
      line += "\\\\";
    else
      line += c;
  }
  return line + '\n';
}

void append_kernel_log(const std::string& file, const std::string& entry_name, const std::string& unit) {
  const FileHandle log(open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  const std::string line = kernel_log_line(entry_name, unit);
  if (log) [[maybe_unused]]
    const ssize_t written = write(log.get(), line.data(), line.size());
}

}  // namespace sluice
