// SPDX-License-Identifier: Apache-2.0
// Writes result files so that a reader finds the whole text or the old content, even after a failure. Used by
// bench, tune, chain and pack.
#pragma once

#include <string>

#include <sluice/result.h>

namespace sluice::bench {

/// Replaces the content of `path` by `text`: writes beside it and renames; a failure leaves nothing behind.
/// Follows symbolic links. Writes straight into anything else than a file (a FIFO, a device). Error io: a
/// folder, or the system's message.
Result<void> write_whole(const std::string& text, const std::string& path);

}  // namespace sluice::bench
