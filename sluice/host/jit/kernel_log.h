// SPDX-License-Identifier: Apache-2.0
// The list of kernels that a process got from its cache, for tools that keep or check just those
// (tools/certify.py). Invariant: a line is one write to a file opened for appending, so processes may share a
// file. Called by cache.cc.
#pragma once

#include <string>

namespace sluice {

/// A line of the log: the entry's name, a tab, and the unit with "\n" for a line break and "\\" for a
/// backslash.
std::string kernel_log_line(const std::string& entry_name, const std::string& unit);

/// Appends the line to `file`, which is created for this user alone. A file that cannot be written changes no
/// result: the reader of the log misses the kernel.
void append_kernel_log(const std::string& file, const std::string& entry_name, const std::string& unit);

}  // namespace sluice
