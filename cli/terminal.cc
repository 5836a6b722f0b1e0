// SPDX-License-Identifier: Apache-2.0
// Uses escape codes of ECMA-48: colours (SGR) and "erase the line".
#include "cli/terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include <sluice/text.h>

namespace sluice::cli {
namespace {

constexpr int kBarWidth = 28;

const char* code_of(Colour colour) {
  switch (colour) {
    case Colour::plain: return "0";
    case Colour::bold: return "1";
    case Colour::dim: return "2";
    case Colour::red: return "31";
    case Colour::green: return "32";
    case Colour::yellow: return "33";
  }
  return "0";
}

}  // namespace

bool is_terminal(std::FILE* file) {
  return isatty(fileno(file)) != 0;
}

std::string paint(std::FILE* file, Colour colour, std::string_view text) {
  if (!is_terminal(file) || std::getenv("NO_COLOR") != nullptr) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", code_of(colour), text);
}

std::string for_people(std::FILE* file, std::string_view text, int indent) {
  if (!is_terminal(file)) return std::string(text);
  return wrapped(text, static_cast<size_t>(indent), static_cast<size_t>(indent));
}

Progress::Progress(std::string label) : label_(std::move(label)), live_(is_terminal(stderr)) {}

Progress::~Progress() {
  clear();
}

void Progress::update(int done, int total, std::string_view note) {
  if (!live_) return;
  const int filled = std::clamp(done * kBarWidth / std::max(total, 1), 0, kBarWidth);
  fmt::print(stderr, "\r\x1b[K{} [{:=<{}}{: <{}}] {}/{} {}", label_, "", filled, "", kBarWidth - filled, done,
             total, note);
  std::fflush(stderr);
  drawn_ = true;
}

void Progress::clear() {
  if (!drawn_) return;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
  drawn_ = false;
}

Waiting::Waiting(std::string label, double guess_s) {
  if (!is_terminal(stderr)) return;
  thread_ = std::thread([this, label = std::move(label), guess_s] {
    const auto begin = std::chrono::steady_clock::now();
    Progress bar(label);
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, std::chrono::milliseconds(250), [this] { return done_; })) {
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      bar.update(static_cast<int>(seconds), static_cast<int>(std::max(guess_s, seconds)) + 1, "s");
    }
  });
}

Waiting::~Waiting() {
  stop();
}

void Waiting::stop() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

}  // namespace sluice::cli
