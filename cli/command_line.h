// SPDX-License-Identifier: Apache-2.0
// Tells how this process was started and from which commit it was built, so that a recorded run can be
// repeated.
#pragma once

#include <string>

namespace sluice::cli {

/// Stores the arguments for command_line(), and the program's name. main() calls it once.
void remember_command_line(int argc, const char* const* argv, const char* name = "sluice");
/// "sluice", or the name of another program that shares this code.
std::string program_name();
/// Returns the command line with shell quoting where needed, and the program's name without its folder.
std::string command_line();
/// Returns the commit that cmake/SluiceCommit.cmake found at build time. It ends in "-dirty" if files
/// differed from it. Returns "" without git.
std::string built_commit();
/// Returns hashes of the sources, as tools/source_hash.py --line prints them: "kernels:0123456789ab host:...
/// ". If they equal those of another commit, that commit's certificates hold for this build.
std::string built_sources();

}  // namespace sluice::cli
