// SPDX-License-Identifier: Apache-2.0
// The tool's exit codes, the same for all verbs, on which scripts and CI rely. Returned by main.cc and the
// watchdog.
#pragma once

namespace sluice::cli {

inline constexpr int kExitOk = 0;     // ran, and results are right
inline constexpr int kExitNo = 1;     // ran, but results are not verified or something is missing
inline constexpr int kExitError = 2;  // could not run

}  // namespace sluice::cli
