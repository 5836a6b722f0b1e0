// SPDX-License-Identifier: Apache-2.0
// Ends the process if a step of a GPU job takes too long. A hanging kernel cannot be stopped in another way,
// and would occupy the machine. Earlier results are on disk by then. Used by bench and verify.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace sluice::cli {

class Watchdog {
 public:
  /// `seconds` is the limit of each step; with 0 there is no limit.
  explicit Watchdog(int seconds);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Starts the time of the next step. If it runs out, the process ends with a message that names `what`.
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
