// SPDX-License-Identifier: Apache-2.0
// What makes two cubins the same: everything that goes into the compile, as text that a person can read.
// Called by cache.cc, which stores the text in the entry and names the file after its digest.
#pragma once

#include <string>

namespace sluice {

/// `unit`, the digest of all embedded headers, the options with the architecture. The library's version is in
/// the headers' digest: a new version that changes no header and no option makes the same cubins.
std::string source_key(const std::string& unit);

/// The key in full: an entry of another compiler is another entry.
std::string full_key(const std::string& source_key, const std::string& compiler);

/// "<digest of the source key>.<compiler>.cubin"; the compiler is in clear, so that a machine without one can
/// look for whatever a shipped cache has (`any_compiler_prefix`, `compiler_of`).
std::string entry_name(const std::string& source_key, const std::string& compiler);
std::string any_compiler_prefix(const std::string& source_key);
/// "NVRTC 13.0 65be0db342ad" from an entry's name; empty if it is not one.
std::string compiler_of(const std::string& entry_name);
/// Orders entries of one unit by their compilers, numbers as numbers: 13.9 is older than 13.10.
bool is_older_name(const std::string& x, const std::string& y);

}  // namespace sluice
