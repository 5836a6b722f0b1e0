// SPDX-License-Identifier: Apache-2.0
// Prevents fork() while another thread holds a lock that the child could never release. A child has only the
// thread that forked, but a copy of all locks: NVRTC's mutex or a static's guard stays locked if another
// thread held it. The child's first compile then hangs (seen in 4 of 19 forks with two compiling threads).
// fork() therefore waits until no thread holds a gate, at most for one compile, and meanwhile no thread gets
// a new gate. A child starts with no gate held by other threads. Called by compiler.cc and by functions that
// initialise a static on first use.
#pragma once

namespace sluice {

/// Blocks fork() in this process during the object's lifetime. May be nested within a thread.
class ForkGate {
 public:
  ForkGate();
  ~ForkGate();
  ForkGate(const ForkGate&) = delete;
  ForkGate& operator=(const ForkGate&) = delete;
};

}  // namespace sluice
