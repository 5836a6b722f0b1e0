// SPDX-License-Identifier: Apache-2.0
// Queries to the driver and NVML about a GPU, for Device::info(). An unanswered query is not an error: the
// planner assumes a value, and its output says so.
#pragma once

#include <string>

#include <sluice/plan/device_facts.h>
#include <sluice/run/device/calibration.h>
#include <sluice/run/driver/context.h>

namespace sluice {

/// Returns the PCI bus address, or "" if the driver does not report it.
std::string pci_bus_id(const DriverApi& api, CUdevice device);

/// Returns the identity of the card and its driver. The driver's version is from NVML; without NVML it is
/// CUDA's version.
Card card_of(const PrimaryContext& primary, const std::string& name);

/// Adds clocks, bus width, power limit, and how many clusters fit at once. To count clusters it loads an
/// empty kernel and unloads it. H100, 2026-11-25: attributes 2 ms, the kernel 0.2 ms, NVML 20 ms.
void ask_gpu(const PrimaryContext& primary, GpuFacts& facts);

}  // namespace sluice
