// SPDX-License-Identifier: Apache-2.0
// Keeps fork() away from locks that a child could never release. A child has only the thread that forked, but
// a copy of all locks: NVRTC's mutex or a static's guard stays locked if another thread held it. The child's
// first compile then hangs (seen in 4 of 19 forks beside two compiling threads). fork() therefore waits until
// no thread holds a gate, at most for a compile, and new holders wait for it. A child starts with the gate
// open. Called by compiler.cc and by functions that fill a static on first use.
#pragma once

namespace sluice {

/// Blocks fork() of this process while one lives. May nest in a thread.
class ForkGate {
 public:
  ForkGate();
  ~ForkGate();
  ForkGate(const ForkGate&) = delete;
  ForkGate& operator=(const ForkGate&) = delete;
};

}  // namespace sluice
