// SPDX-License-Identifier: Apache-2.0
// Parses a command line and runs one verb. An Error is printed to stderr as "sluice: <code>: <message>", and
// the exit code is 2. The same happens if output could not be written. Only this file ends the process.
#include "cli/program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <sstream>
#include <system_error>

#include <sluice/machine.h>
#include <sluice/text.h>

#include "cli/command_line.h"
#include "cli/nearest.h"
#include "cli/terminal.h"
#include "cli/value_checks.h"
#include "cli/verb.h"

namespace sluice::cli {
namespace {

/// Prints an error and returns kExitError. Avoids fmt::print, which throws if stderr is closed.
int report(ErrorCode code, const std::string& message) {
  const std::string text = fmt::format("{}: {}", name_of(code), printable(message)),
                    name = program_name() + ":";
  const std::string line = fmt::format("{} {}\n", paint(stderr, Colour::red, name),
                                       for_people(stderr, text, static_cast<int>(name.size()) + 1));
  std::fputs(line.c_str(), stderr);
  return kExitError;
}

int report_output(int code) {
  return report(
      ErrorCode::io,
      fmt::format("the output cannot be written ({}): is stdout open, is there space?", std::strerror(code)));
}

/// Opens /dev/null on each of the descriptors 0 to 2 that the caller closed. Otherwise a file opened later
/// would get that number and receive the prints. Opened read-only, so that writes still fail.
void reserve_standard_streams() {
  for (const int number : {0, 1, 2})
    if (::fcntl(number, F_GETFD) == -1 && ::open("/dev/null", O_RDONLY) != number) return;
}

/// Flushes stdout. Returns `code`, or an error's exit code if output was lost.
int flushed(int code) {
  errno = 0;
  const bool lost = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
  return lost ? report_output(errno != 0 ? errno : EIO) : code;
}

/// Prints the text of --help or --version.
int print_help(const CLI::App& app, const CLI::Success& help) {
  std::ostringstream text, unused;
  const int code = app.exit(help, text, unused);
  std::fputs(text.str().c_str(), stdout);
  return flushed(code);
}

std::vector<std::string> verb_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(verb->get_name());
  return names;
}

std::string instead_of(const Program& program, const std::string& word,
                       const std::vector<std::string>& verbs) {
  for (const auto& [other, instead] : program.other_words)
    if (word == other) return instead;
  const std::string meant = nearest(word, verbs);
  return meant.empty() ? fmt::format("give one of {}", fmt::join(verbs, ", "))
                       : fmt::format("did you mean {}?", meant);
}

/// Returns "" if the first word is a verb or a flag of the tool itself, else an error message. CLI11's own
/// message would only be that a subcommand is missing.
std::string first_word_problem(const CLI::App& app, const Program& program,
                               const std::vector<std::string>& words) {
  const std::vector<std::string> verbs = verb_names(app);
  if (words.empty()) return fmt::format("a verb is missing: give one of {}", fmt::join(verbs, ", "));
  const std::string& word = words.front();
  if (app.get_option_no_throw(word) != nullptr || std::find(verbs.begin(), verbs.end(), word) != verbs.end())
    return {};
  if (word.starts_with('-'))
    return fmt::format("{} stands in front of the verb: begin with one of {}", in_quotes(word),
                       fmt::join(verbs, ", "));
  return fmt::format("there is no verb {}: {}", in_quotes(word), instead_of(program, word, verbs));
}

/// Returns the arguments as words. "help" becomes "--help", and "help plan" becomes "plan --help".
std::vector<std::string> words_of(int argc, char** argv) {
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  if (!words.empty() && words.front() == "help") {
    words.erase(words.begin());
    words.insert(words.begin() + (words.empty() ? 0 : 1), "--help");
  }
  return with_long_names(std::move(words));
}

int run(const Verb& verb) {
  try {
    const Result<int> code = verb.run();
    return code ? *code : report(code.error().code, code.error().message);
  } catch (const std::bad_alloc&) {
    return report(ErrorCode::invalid_size,
                  "this machine has too little memory for that: give a smaller problem");
  } catch (const std::system_error& error) {  // thrown by fmt::print if stdout is full or closed
    if (std::ferror(stdout) != 0) return report_output(error.code().value());
    return report(ErrorCode::internal, fmt::format("{}: this is a bug of sluice, report it", error.what()));
  } catch (const std::exception& error) {
    return report(ErrorCode::internal, fmt::format("{}: this is a bug of sluice, report it", error.what()));
  }
}

}  // namespace

int run_program(const Program& program, int argc, char** argv) {
  // The tool ends silently when its pipe is closed, even if the caller ignores SIGPIPE.
  std::signal(SIGPIPE, SIG_DFL);
  reserve_standard_streams();
  remember_command_line(argc, argv, program.name);
  CLI::App app(program.description, program.name);
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  const std::string commit = built_commit();
  app.set_version_flag("--version",
                       fmt::format("{} {}{}\n{}", program.name, library_version(),
                                   commit.empty() ? "" : fmt::format(" ({})", commit), built_sources()));
  std::vector<Verb> verbs;
  for (const auto& add : program.verbs) verbs.push_back(add(app));
  for (const Verb& verb : verbs) check_values(*verb.app);
  const std::vector<std::string> words = words_of(argc, argv);
  if (const std::string problem = first_word_problem(app, program, words); !problem.empty())
    return report(ErrorCode::invalid_argument,
                  fmt::format("{} ({} --help lists the verbs)", problem, program.name));
  const auto refuse = [&](const std::string& message) {
    const std::string verb = words.front().starts_with('-') ? "" : words.front() + " ";
    return report(ErrorCode::invalid_argument,
                  fmt::format("{} ({} {}--help lists the flags)", message, program.name, verb));
  };
  for (const Verb& verb : verbs)
    if (verb.app->get_name() == words.front())
      if (const std::string problem = empty_value_problem(*verb.app, words); !problem.empty())
        return refuse(problem);
  try {
    // CLI11 expects the words in reverse order
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::Success& help) {
    return print_help(app, help);
  } catch (const CLI::Error& error) {
    return refuse(text_of(error, app));
  }
  // Line buffered, so that the log of a long bench is always up to date.
  std::setvbuf(stdout, nullptr, _IOLBF, 1 << 16);
  const auto named =
      std::find_if(verbs.begin(), verbs.end(), [](const Verb& verb) { return verb.app->parsed(); });
  if (named == verbs.end()) return kExitError;
  const int code = run(*named);
  return code == kExitError ? code : flushed(code);
}

}  // namespace sluice::cli
