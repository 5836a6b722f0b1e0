// SPDX-License-Identifier: Apache-2.0
#include <sluice/run/text_file.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include <sluice/text.h>

namespace sluice {

Result<std::string> read_text_file(const std::string& path, std::size_t most) {
  const auto refused = [&](const std::string& why) { return Error{ErrorCode::io, escaped(path) + why}; };
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file) return refused(std::string(" cannot be read: ") + std::strerror(errno));
  std::string text;
  char part[1 << 16];
  while (const std::size_t count = std::fread(part, 1, sizeof(part), file.get())) {
    text.append(part, count);
    if (text.size() > most)
      return refused(" has more than " + std::to_string(most) + " bytes, the most that is read: split it");
  }
  if (std::ferror(file.get()) != 0) return refused(std::string(" cannot be read: ") + std::strerror(errno));
  return text;
}

}  // namespace sluice
