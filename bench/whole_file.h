// SPDX-License-Identifier: Apache-2.0
// Results onto the disk: a file has all of a text or what it had before, whoever looks and whatever fails.
// Written by bench, tune, chain and pack.
#pragma once

#include <string>

#include <sluice/result.h>

namespace sluice::bench {

/// `path` has all of `text`, or what it had before: written beside it and renamed, and nothing is left behind
/// by a failure. Symbolic links are followed. What is no file (a FIFO, a device) is written into as it is.
/// Error io: a folder, or what the system says.
Result<void> write_whole(const std::string& text, const std::string& path);

}  // namespace sluice::bench
