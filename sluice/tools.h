// SPDX-License-Identifier: Apache-2.0
// The inside of the library that the tool (cli/) and the bench use, gathered. They include public headers,
// spec, check, reference, the twin and this file. tools/check_includes.py refuses other headers of host,
// chain, records and kernels. Not installed, and not kept stable; what a user wants too belongs in
// include/sluice.
#pragma once

#include <memory>
#include <string>
#include <vector>

// Text. conv_text.h: a convolution in words. quoted.h: a caller's text in a message, escaped and bounded.
// text_file.h: a whole file, up to a bound. fields.h: tables of fields, and names of enumerators.
// json_text.h: JSON that anybody may have written. lines.h: text in lines of bounded length. pack_units.h: a
// weight format in words.
#include <sluice/host/text/conv_text.h>
#include <sluice/host/text/fields.h>
#include <sluice/host/text/json_text.h>
#include <sluice/host/text/lines.h>
#include <sluice/host/text/pack_units.h>
#include <sluice/host/text/quoted.h>
#include <sluice/host/text/text_file.h>
#include <sluice/host/text/units.h>
// GPU. calibration.h: a card's own rates. error.h: a failed driver call as an Error. events.h: streams,
// events, graphs. launch.h: a launch's shape. memory.h: buffers. module.h: a loaded cubin. nvml.h: clocks,
// power, temperature. quantiles.h: the middle of many timings.
#include <sluice/host/device/calibration.h>
#include <sluice/host/driver/error.h>
#include <sluice/host/driver/events.h>
#include <sluice/host/driver/launch.h>
#include <sluice/host/driver/memory.h>
#include <sluice/host/driver/module.h>
#include <sluice/host/driver/nvml.h>
#include <sluice/host/quantiles.h>
// Kernels. units.h: texts that NVRTC compiles. compiler.h: NVRTC. cache.h: from a text to its cubin.
// compile_ahead.h: many of them at once. replay_timer.h: the time of a replay. compare.h: the kernel that
// compares results. gemm.h: the texts of a dense plan (packed_units.h has those of a packed one).
#include <sluice/host/jit/cache.h>
#include <sluice/host/jit/compile_ahead.h>
#include <sluice/host/jit/compiler.h>
#include <sluice/host/ops/compare.h>
#include <sluice/host/ops/gemm.h>
#include <sluice/host/ops/replay_timer.h>
// Planner. tuned_choice.h: what a record keeps of a plan. field_checks.h: ranges of overrides.
// candidates.h, numbering.h: splits of a config. cost_model.h: the time of a split. cluster_grid.h: tiles of
// a problem. device_rates.h: a GPU beside the H200. packed_cost_model.h: registers of a kernel.
// packed_problem_checks.h: a packed problem with its strides. registry.h: tiles and clusters that are
// searched. verify_arith.h: digits and range of a type.
#include <sluice/host/planner/dense/candidates.h>
#include <sluice/host/planner/dense/cluster_grid.h>
#include <sluice/host/planner/dense/cost_model.h>
#include <sluice/host/planner/dense/numbering.h>
#include <sluice/host/planner/dense/tuned_choice.h>
#include <sluice/host/planner/device_rates.h>
#include <sluice/host/planner/field_checks.h>
#include <sluice/host/planner/packed/packed_cost_model.h>
#include <sluice/host/planner/packed/packed_problem_checks.h>
#include <sluice/kernels/registry.h>
#include <sluice/kernels/verify_arith.h>
// Records and chains. record_book.h: layers of records. record_store.h: records on disk, and their JSON.
// chain.h: choices and launches of a chain's steps. tune.h: the tuner of chains.
#include <sluice/chain/chain.h>
#include <sluice/chain/tuning/tune.h>
#include <sluice/records/record_book.h>
#include <sluice/records/record_store.h>

namespace sluice::tools {

/// The device's kernel cache.
const KernelCache& kernel_cache(const Device& device);
/// A unit of the tool's own, compiled through that cache and loaded. Errors: toolchain, driver.
Result<std::shared_ptr<const Module>> load_unit(const Device& device, const std::string& unit,
                                                int dynamic_smem_bytes = 0);

const DriverApi& driver_of(const Device& device);
/// The primary context, for a ContextScope around calls of driver_of() and of other libraries.
const PrimaryContext& context_of(const Device& device);
/// The card, its driver, and the calibration that Device::info() has taken.
const Card& card_of(const Device& device);
const FoundCalibration& calibration_of(const Device& device);
/// Its address on the PCI bus; "" without an answer.
std::string pci_bus_id(const Device& device);

/// Launches `module`; `params` is copied. Errors: wrong_device, driver.
Result<void> launch(const Device& device, const Module& module, const LaunchShape& shape, const void* params,
                    Stream stream);
/// Copies all of `to` from `from`, on the GPU and in stream order. Error driver.
Result<void> copy_async(const Device& device, const DeviceBuffer& to, const void* from, Stream stream);

}  // namespace sluice::tools
