// SPDX-License-Identifier: Apache-2.0
// Ends the process when one step of a GPU job takes too long: a hanging kernel cannot be stopped otherwise
// and would hold the machine. Results so far are on disk by then. Used by bench and verify.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace sluice::cli {

class Watchdog {
 public:
  /// 0 seconds: never ends the process.
  explicit Watchdog(int seconds);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Restarts the time; the message names `what` if it runs out.
  void step(const std::string& what);

 private:
  void watch();

  const int seconds_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string what_;
  long step_ = 0;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace sluice::cli
