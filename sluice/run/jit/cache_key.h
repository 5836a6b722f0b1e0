// SPDX-License-Identifier: Apache-2.0
// The key of a cubin: everything that its compile depends on, as readable text. cache.cc stores the text in
// the entry and names the file after the text's digest.
#pragma once

#include <string>

namespace sluice {

/// Returns the part of the key that does not name the compiler: `unit`, the digest of all embedded headers,
/// and the options with the architecture. Versions of sluice with equal headers and options share cubins.
std::string source_key(const std::string& unit);

std::string full_key(const std::string& source_key, const std::string& compiler);

/// Returns "<digest of the source key>.<compiler>.cubin". The compiler is readable, so that a machine without
/// one can search a shipped cache for entries of any compiler (`any_compiler_prefix`, `compiler_of`).
std::string entry_name(const std::string& source_key, const std::string& compiler);
std::string any_compiler_prefix(const std::string& source_key);
/// Extracts "NVRTC 13.0 65be0db342ad" from an entry's name; empty if it is not such a name.
std::string compiler_of(const std::string& entry_name);
/// Orders entries of one unit by compiler version, numerically: 13.9 is older than 13.10.
bool is_older_name(const std::string& x, const std::string& y);

}  // namespace sluice
