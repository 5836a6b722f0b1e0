// SPDX-License-Identifier: Apache-2.0
// How this process was started, and the commit it was built from, so that records can be repeated.
#pragma once

#include <string>

namespace sluice::cli {

/// Called once by main.
void remember_command_line(int argc, const char* const* argv);
/// The command line, quoted where a shell needs it, without the program's folder.
std::string command_line();
/// The commit that cmake/SluiceCommit.cmake found at build time, with "-dirty" where files differed; ""
/// without git.
std::string built_commit();
/// Hashes of the sources, as tools/source_hash.py --line prints them: "kernels:0123456789ab host:... ". A
/// certificate of another commit holds if these are equal.
std::string built_sources();

}  // namespace sluice::cli
