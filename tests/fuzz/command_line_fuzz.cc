// SPDX-License-Identifier: Apache-2.0
// Fuzzes command lines of `sluice plan`, one word per line of the input. The flags are parsed, and a plan is
// made for a GPU that is not present, so every override reaches the planner. Nothing is compiled.
#include <stdlib.h>

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

#include <sluice/records.h>

#include "cli/requests.h"
#include "cli/value_checks.h"
#include "message_rules.h"

namespace {

using namespace sluice;

void check(const Error& error) {
  if (!test::is_fit_to_print(error.message)) abort();
}

void plan(const bench::Request& request) {
  const Result<Plan> made = plan_of(request, {}, shipped_records());
  if (!made) return check(made.error());
  if (describe(*made).empty()) abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  std::vector<std::string> words(1);
  for (size_t i = 0; i < size; ++i)
    if (data[i] == '\n')
      words.emplace_back();
    else
      words.back() += static_cast<char>(data[i]);
  CLI::App app;
  app.set_help_flag("");
  cli::RequestFlags flags;
  cli::add_request_flags(app, flags);  // without --shapes, which would open files
  cli::check_values(app);
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::Error& error) {
    if (!test::is_fit_to_print(cli::text_of(error, app))) abort();
    return 0;
  }
  const auto requests = cli::requests_of(flags);
  if (!requests)
    check(requests.error());
  else
    plan(requests->front());
  return 0;
}
