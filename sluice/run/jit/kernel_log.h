// SPDX-License-Identifier: Apache-2.0
// A list of the kernels that a process got from its cache, for tools that store or check exactly those
// (tools/certify.py). Invariant: a line is one write to a file opened for appending, so processes may share a
// file. Called by cache.cc.
#pragma once

#include <string>

namespace sluice {

/// Returns a line of the log: the entry's name, a tab, and the unit with "\n" for a line break and "\\" for a
/// backslash.
std::string kernel_log_line(const std::string& entry_name, const std::string& unit);

/// Appends the line to `file`, which is created for this user only. If the file cannot be written, nothing
/// else changes: the log just lacks the kernel.
void append_kernel_log(const std::string& file, const std::string& entry_name, const std::string& unit);

}  // namespace sluice
