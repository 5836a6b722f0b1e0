// SPDX-License-Identifier: Apache-2.0
// Queries of the driver and NVML about a GPU, for Device::info(). An unanswered query is no error: the
// planner assumes a value and says so.
#pragma once

#include <string>

#include <sluice/host/device/calibration.h>
#include <sluice/host/device/device_facts.h>
#include <sluice/host/driver/context.h>

namespace sluice {

/// PCI bus address, or "" if the driver gives none.
std::string pci_bus_id(const DriverApi& api, CUdevice device);

/// The card and its driver. NVML tells the driver's version; without it, CUDA's stands for it.
Card card_of(const PrimaryContext& primary, const std::string& name);

/// Adds clocks, bus width, power limit, and how many clusters fit at once. Counting clusters loads an empty
/// kernel and unloads it. H100, 2026-11-25: attributes 2 ms, the kernel 0.2 ms, NVML 20 ms.
void ask_gpu(const PrimaryContext& primary, GpuFacts& facts);

}  // namespace sluice
