// SPDX-License-Identifier: Apache-2.0
// Fuzzes problem files: any bytes must give problems or a one-line error of limited length, never a crash.
#include <stdlib.h>

#include <string>

#include "cli/requests.h"
#include "message_rules.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto list = sluice::cli::parse_problem_list(text);
  if (!list && !sluice::test::is_fit_to_print(list.error().message)) abort();
  return 0;
}
