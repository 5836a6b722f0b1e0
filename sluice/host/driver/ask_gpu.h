// SPDX-License-Identifier: Apache-2.0
// What the driver and NVML know of a GPU. Every question may stay without an answer, which is no error: the
// planner then assumes something, and says so. Called by Device::info(), once.
#pragma once

#include <string>

#include <sluice/host/device/device_facts.h>
#include <sluice/host/driver/context.h>

namespace sluice {

/// Its address on the PCI bus; "" without an answer.
std::string pci_bus_id(const DriverApi& api, CUdevice device);

/// Adds clocks, bus, power limit, and how many clusters fit at once; for the last it loads an empty kernel,
/// and unloads it. H100, 2026-11-25: attributes 2 ms, the kernel 0.2 ms, NVML 20 ms.
void ask_gpu(const PrimaryContext& primary, GpuFacts& facts);

}  // namespace sluice
