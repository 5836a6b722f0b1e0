// SPDX-License-Identifier: Apache-2.0
// Calls _Exit instead of exit, because destructors would wait for the hanging GPU.
#include "cli/watchdog.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>

#include "cli/exit_code.h"

namespace sluice::cli {

Watchdog::Watchdog(int seconds) : seconds_(seconds) {
  if (seconds_ > 0) thread_ = std::thread([this] { watch(); });
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Watchdog::step(const std::string& what) {
  {
    const std::lock_guard lock(mutex_);
    what_ = what;
    ++step_;
  }
  changed_.notify_all();
}

void Watchdog::watch() {
  std::unique_lock lock(mutex_);
  while (!done_) {
    const long seen = step_;
    if (changed_.wait_for(lock, std::chrono::seconds(seconds_), [&] { return done_ || step_ != seen; }))
      continue;
    if (seen == 0) continue;  // no step has begun yet
    const std::string line = fmt::format(
        "\nsluice: driver: no progress for {} s in: {}; a kernel hangs, giving up\n", seconds_, what_);
    std::fputs(line.c_str(), stderr);  // fmt::print would throw if stderr is closed
    std::fflush(nullptr);
    std::_Exit(kExitError);
  }
}

}  // namespace sluice::cli
