// SPDX-License-Identifier: Apache-2.0
// A kernel that hangs cannot be stopped from within its process, so this ends the process, after a line that
// says what was running. Armed around every wait for the GPU.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace sluice::testing {

inline constexpr int kHangExitCode = 3;  // tools/certify.py says "hangs" of it

class Watchdog {
 public:
  Watchdog(int seconds, std::string what);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace sluice::testing
