// SPDX-License-Identifier: Apache-2.0
// fork() must wait for threads inside the gate, and the gate must be open in the child.
#include <sluice/run/jit/fork_gate.h>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

namespace sluice {
namespace {

using namespace std::chrono_literals;

/// Waits for a child and returns its exit code; -1 if it was still running after five seconds.
int exit_code_of(pid_t child) {
  for (int i = 0; i < 500; ++i, std::this_thread::sleep_for(10ms)) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child) return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return -1;
}

/// Counts forked children that hang. Threads hold a lock while this process forks, like NVRTC's internal one.
/// They hold it inside the fork gate or, as a planted bug, outside of it.
int hung_children(bool gated) {
  std::mutex lock;
  std::atomic<bool> stop = false;
  const auto use = [&] {
    const std::lock_guard guard(lock);
    std::this_thread::sleep_for(2ms);
  };
  const auto use_gated = [&] {
    const ForkGate gate;
    use();
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i)
    threads.emplace_back([&] {
      while (!stop) gated ? use_gated() : use();
    });
  int hung = 0;
  for (int i = 0; i < (gated ? 100 : 5) && hung == 0; ++i) {
    std::this_thread::sleep_for(3ms);
    const pid_t child = fork();
    if (child == 0) {
      use_gated();
      _exit(7);
    }
    hung += exit_code_of(child) != 7;
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  return hung;
}

TEST(ForkGate, a_child_never_waits_for_a_thread_that_it_has_not) {
  EXPECT_EQ(hung_children(true), 0);
}

TEST(ForkGate, without_it_a_child_hangs) {
  EXPECT_EQ(hung_children(false), 1);
}

TEST(ForkGate, a_fork_waits_for_who_is_inside) {
  std::atomic<bool> inside = false, left = false;
  std::thread worker([&] {
    const ForkGate gate, nested;
    inside = true;
    std::this_thread::sleep_for(100ms);
    left = true;
  });
  while (!inside) std::this_thread::yield();
  const pid_t child = fork();
  if (child == 0) _exit(left ? 7 : 1);
  EXPECT_EQ(exit_code_of(child), 7);
  worker.join();
}

TEST(ForkGate, who_forks_inside_of_it_does_not_wait_for_itself) {
  const ForkGate gate;
  const pid_t child = fork();
  if (child == 0) {
    const ForkGate nested;
    _exit(7);
  }
  EXPECT_EQ(exit_code_of(child), 7);
}

}  // namespace
}  // namespace sluice
