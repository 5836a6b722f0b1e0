// SPDX-License-Identifier: Apache-2.0
// libsluice_c linked with the fake driver of tests/unit, for tests/python/test_fake_gpu.py: a GPU whose
// kernels do nothing. The fake driver exists from loading the library to the end of the process.
#include "fake_driver.h"

namespace {

sluice::FakeDriver& driver() {
  static auto* const kept = new sluice::FakeDriver;
  return *kept;
}

[[gnu::constructor]] void start() {
  driver();
}

}  // namespace

extern "C" {

[[gnu::visibility("default")]] void* sluice_fake_memory(long long bytes, int ordinal) {
  return driver().memory(bytes, ordinal);
}

[[gnu::visibility("default")]] int sluice_fake_launches() {
  return driver().launches();
}

/// Makes launches on this device block, as they do when the launch queue is full, until
/// sluice_fake_unblock().
[[gnu::visibility("default")]] void sluice_fake_block(int ordinal) {
  driver().block_launches(ordinal);
}
[[gnu::visibility("default")]] int sluice_fake_blocked() {
  return driver().blocked();
}
/// Ends the blocking. Returns 0 if a launch had been blocked for so long that it gave up.
[[gnu::visibility("default")]] int sluice_fake_unblock() {
  return driver().unblock() ? 1 : 0;
}

}  // extern "C"
