// SPDX-License-Identifier: Apache-2.0
// Writes result files so that a reader finds either the whole new text or the old content, even after a
// failure. Used for JSON and blobs.
#pragma once

#include <string>

#include <sluice/result.h>

namespace sluice::bench {

/// Replaces the content of `path` by `text`: writes a temporary file in the same folder and renames it.
/// Follows symbolic links. If `path` is not a regular file (a FIFO, a device), writes into it directly.
/// Error: io, also if `path` is a folder.
Result<void> write_whole(const std::string& text, const std::string& path);

}  // namespace sluice::bench
