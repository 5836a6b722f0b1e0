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

}  // namespace sluice::cli
