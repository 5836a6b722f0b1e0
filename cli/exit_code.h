// SPDX-License-Identifier: Apache-2.0
// What the tool's exit codes say, the same for every verb; scripts and CI rely on them. main.cc returns them,
// the watchdog ends with one.
#pragma once

namespace sluice::cli {

inline constexpr int kExitOk = 0;     // done, and right
inline constexpr int kExitNo = 1;     // ran, but the answer is no: not verified, something missing
inline constexpr int kExitError = 2;  // could not run

}  // namespace sluice::cli
