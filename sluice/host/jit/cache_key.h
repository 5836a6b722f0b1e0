// SPDX-License-Identifier: Apache-2.0
// The key of a cubin: everything that goes into its compile, as readable text. cache.cc stores the text in
// the entry and names the file after its digest.
#pragma once

#include <string>

namespace sluice {

/// `unit`, the digest of all embedded headers, and the options with the architecture. A version of sluice
/// that changes no header and no option makes equal cubins, so it shares them.
std::string source_key(const std::string& unit);

std::string full_key(const std::string& source_key, const std::string& compiler);

/// "<digest of the source key>.<compiler>.cubin". The compiler is readable, so that a machine without one can
/// search a shipped cache for any (`any_compiler_prefix`, `compiler_of`).
std::string entry_name(const std::string& source_key, const std::string& compiler);
std::string any_compiler_prefix(const std::string& source_key);
/// Extracts "NVRTC 13.0 65be0db342ad" from an entry's name; empty if it is none.
std::string compiler_of(const std::string& entry_name);
/// Orders entries of one unit by compiler version, numerically: 13.9 is older than 13.10.
bool is_older_name(const std::string& x, const std::string& y);

}  // namespace sluice
