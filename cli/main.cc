// SPDX-License-Identifier: Apache-2.0
// The `sluice` tool. Parses, runs one verb, and translates: an Error becomes "sluice: <code>: <message>" on
// stderr and exit code 2. Nothing below this file exits.
#include <fmt/format.h>

#include "cli/command_line.h"
#include "cli/requests.h"
#include "cli/terminal.h"
#include "cli/verb.h"

namespace {

int report(const std::string& code, const std::string& message) {
  fmt::print(stderr, "{} {}: {}\n", sluice::cli::paint(stderr, sluice::cli::Colour::red, "sluice:"), code,
             message);
  return sluice::cli::kExitError;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace sluice::cli;
  remember_command_line(argc, argv);
  CLI::App app(
      "Matrix products on NVIDIA Hopper, compiled for the problem at hand.\n"
      "D = act(alpha * scale_a * scale_b * A B + beta * C + bias)",
      "sluice");
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  const Verb verbs[] = {add_run_verb(app),   add_plan_verb(app), add_compile_verb(app), add_bench_verb(app),
                        add_chain_verb(app), add_tune_verb(app), add_verify_verb(app),  add_doctor_verb(app),
                        add_fit_verb(app),   add_pack_verb(app)};
  for (const Verb& verb : verbs) refuse_leading_zeros(*verb.app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);  // --help
  } catch (const CLI::Error& error) {
    return report("invalid_argument", fmt::format("{} (sluice --help lists the flags)", error.what()));
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 1 << 16);  // a log of a long bench must show its last line
  for (const Verb& verb : verbs) {
    if (!verb.app->parsed()) continue;
    try {
      const sluice::Result<int> code = verb.run();
      return code ? *code : report(sluice::name_of(code.error().code), code.error().message);
    } catch (const std::bad_alloc&) {
      return report(sluice::name_of(sluice::ErrorCode::invalid_size),
                    "this machine has too little memory for that: give a smaller problem");
    }
  }
  return kExitError;
}
