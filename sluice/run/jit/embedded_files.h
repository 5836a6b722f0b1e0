// SPDX-License-Identifier: Apache-2.0
// The headers that units include (plan/text/units.h). The library carries them as text.
#pragma once

#include <span>
#include <string_view>

namespace sluice {

struct EmbeddedFile {
  const char* path;  // as in its #include: "sluice/spec/config.h"
  std::string_view text;
};

/// Returns the device headers, which are embedded in the library at build time (tools/embed_sources.py).
std::span<const EmbeddedFile> embedded_files();

}  // namespace sluice
