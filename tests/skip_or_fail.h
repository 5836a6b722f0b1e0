// SPDX-License-Identifier: Apache-2.0
// For tests that need NVRTC, which CI has and a developer may lack. Without it the tests are skipped. If
// SLUICE_NO_SKIPS is set (.ci/run) they fail instead, so that CI cannot lose them unnoticed.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#define SLUICE_SKIP_OR_FAIL(why)                                                             \
  do {                                                                                       \
    if (getenv("SLUICE_NO_SKIPS") != nullptr) FAIL() << "SLUICE_NO_SKIPS is set: " << (why); \
    GTEST_SKIP() << (why);                                                                   \
  } while (false)
