// SPDX-License-Identifier: Apache-2.0
#include "watchdog.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>

namespace sluice::testing {

Watchdog::Watchdog(int seconds, std::string what)
    : thread_([this, seconds, what = std::move(what)] {
        std::unique_lock lock(mutex_);
        if (changed_.wait_for(lock, std::chrono::seconds(seconds), [this] { return done_; })) return;
        std::fprintf(stdout, "\nHANG after %d s: %s\n", seconds, what.c_str());
        std::fflush(stdout);
        _exit(kHangExitCode);
      }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

}  // namespace sluice::testing
