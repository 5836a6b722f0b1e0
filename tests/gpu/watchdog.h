// SPDX-License-Identifier: Apache-2.0
// Ends the process if a kernel hangs, since the process cannot stop it, after printing the running case.
// Active during every wait for the GPU.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace sluice::testing {

inline constexpr int kHangExitCode = 3;  // exit code after a hang; tools/certify.py reports it as "hangs"

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
