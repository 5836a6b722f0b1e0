// SPDX-License-Identifier: Apache-2.0
// What `sluice verify` has found so far, by reason. Shared by its two kinds of products.
#pragma once

#include <map>
#include <string>

#include <sluice/spec/base.h>

namespace sluice::cli {

struct VerifyFlags {
  std::string device = "auto";
  int problems = 100;
  u64 seed = 1;
  i64 largest = 0;  // 0: 1024 on a GPU, 160 on the host
  int hang_s = 60;
};

struct Tally {
  int right = 0, wrong = 0;
  std::map<std::string, int> refused;  // by message: rules are few, values differ

  /// Prints the first few.
  void fail(const std::string& problem, const std::string& why);
  int refusals() const;
};

}  // namespace sluice::cli
