// SPDX-License-Identifier: Apache-2.0
// How this process was started and which commit it was built from, for records that must be repeatable.
#pragma once

#include <string>

namespace sluice::cli {

/// Called once by main.
void remember_command_line(int argc, const char* const* argv);
/// The words, quoted where a shell needs it; the program's folder left out.
std::string command_line();
/// As cmake/SluiceCommit.cmake found it when this was built, with "-dirty" where files differed; "" without
/// git.
std::string built_commit();
/// What the build was made of, as tools/source_hash.py --line prints it: "kernels:0123456789ab host:... ". A
/// certificate of another commit still holds where these are the same.
std::string built_sources();

}  // namespace sluice::cli
