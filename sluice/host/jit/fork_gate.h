// SPDX-License-Identifier: Apache-2.0
// Keeps fork() out of what a child could never finish. A child has the thread that forked, and the locks of
// all: NVRTC's own mutex, or the guard of a static that another thread was filling, stays locked there for
// ever, and the child's first compile hangs (seen in 4 of 19 forks beside two threads that compile). So
// fork() waits until nobody is inside, a compile at most, and who wants in waits until it is done. A child
// starts with the gate open. Called by compiler.cc and by what fills a static at first use.
#pragma once

namespace sluice {

/// No fork() of this process returns while one lives. May nest in a thread.
class ForkGate {
 public:
  ForkGate();
  ~ForkGate();
  ForkGate(const ForkGate&) = delete;
  ForkGate& operator=(const ForkGate&) = delete;
};

}  // namespace sluice
