// SPDX-License-Identifier: Apache-2.0
// `sluice_lab verify --records`: checks each kernel that a shipped tuning record chooses, on that record's
// problem, as `sluice tune` checks its candidates. Nothing is timed.
#pragma once

#include <string>

#include <sluice/gemm.h>

namespace sluice::lab {

struct VerifyRecordsFlags {
  bool given = false;
  std::string only, json, commit;
  u64 seed = 1;
  int hang_s = 60;
};

/// Returns kExitOk if all kernels are right. Errors: driver, toolchain, io (the JSON file).
Result<int> verify_records(const VerifyRecordsFlags& flags, const Device& device);

}  // namespace sluice::lab
