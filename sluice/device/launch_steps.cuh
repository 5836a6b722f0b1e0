// SPDX-License-Identifier: Apache-2.0
// The steps of dependent launches as the kernels around products call them through their Arith: the trigger,
// the PDL wait and the prefetch of a later launch's weights. Base of the DeviceArith of norm_entry.cuh,
// quantize_entry.cuh and route_entry.cuh; a test has steps of its own.
#pragma once

#include <sluice/device/ptx/sync.cuh>
#include <sluice/device/warm.cuh>

namespace sluice {

struct LaunchSteps {
  SLUICE_DEVICE static void launch_dependents() { ptx::launch_dependents(); }
  SLUICE_DEVICE static void wait_for_prerequisites() { ptx::wait_for_prerequisites(); }
  SLUICE_DEVICE static void warm(const WarmRange& range, u32 cta, u32 ctas) {
    sluice::warm(range, cta, ctas);
  }
};

}  // namespace sluice
