// SPDX-License-Identifier: Apache-2.0
// What a prepared packed kernel holds: everything of a launch that does not depend on the arguments.
// Immutable, so any number of threads may launch it.
#pragma once

#include <array>

#include <sluice/host/device/device_impl.h>
#include <sluice/host/driver/launch.h>
#include <sluice/host/ops/operand_checks.h>
#include <sluice/host/text/packed_units.h>
#include <sluice/packed.h>

namespace sluice::packed {

/// The argument checks of one plan, worked out as far as they can be without the arguments.
struct ArgRules {
  enum Operand { kX, kWeights, kBias, kScaleX, kScaleD, kGamma, kC, kD, kOperandCount };
  std::array<OperandRule, kOperandCount> operands;
  bool c_may_be_d = false;
};

/// For a problem with a D that is not empty. Error invalid_size: an operand of more than 2^63 bytes.
Result<ArgRules> argument_rules(const PackedProblem& problem);
/// Null, misaligned, aliasing: by value alone. Allocates nothing unless there is a message to write.
Result<void> check_values(const ArgRules& rules, const Args& args);
/// Whose memory each pointer is. Errors: invalid_pointer (host), wrong_device, driver.
Result<void> check_memory(const PrimaryContext& primary, const ArgRules& rules, const Args& args);

struct Kernel::Impl {
  Plan plan;
  std::shared_ptr<const PrimaryContext> primary;
  std::shared_ptr<const Module> module;  // null: D is empty and nothing is ever launched
  std::string built_by;
  ArgRules rules;
  LaunchShape shape;      // narrow: of a launch with all tokens that a grid holds
  NarrowParams narrow{};  // but for pointers, m and `vectors`
  WideParams wide{};      // but for pointers, also those in maps, and `stores_boxes`
  StripParams strip{};    // but for pointers, also that in the map, and `vectors`; of the other kinds none
};

/// What wide and strip kernels are told of a problem's sizes. `tokens`: of a tile.
template <class Params>
void set_sizes(Params& params, const PackedProblem& p, int tokens) {
  params.strip_bytes = strip_bytes(p.weights, p.k);
  params.ld_d = p.ld_d;
  params.m = static_cast<int>(p.m);
  params.n = static_cast<int>(d_columns(p));
  params.k_tiles = static_cast<int>(packed_k_tiles(p.k));
  params.strips = static_cast<int>(strip_count(p.n));
  params.token_tiles = static_cast<int>(ceil_div(p.m, i64{tokens}));
}

/// May four elements of D (or C) go in one access, wherever they begin?
inline bool allows_vectors(const PackedProblem& p, const void* d, i64 ld) {
  constexpr int kVector = 4;
  return d_columns(p) % kVector == 0 && (p.m == 1 || ld % kVector == 0) &&
         reinterpret_cast<u64>(d) % static_cast<u64>(kVector * bytes_of(p.d)) == 0;
}
inline bool allows_vectors(const PackedProblem& p, const void* d) {
  return allows_vectors(p, d, p.ld_d);
}

/// The parts of prepare and launch that are of one kind: fill shape and parameters of `impl`, whose plan is
/// set (errors: those of encode_tensor_map; the context is current); enqueue, the arguments are checked.
Result<void> fill(const Device& device, const NarrowConfig& config, Kernel::Impl& impl);
Result<void> fill(const Device& device, const WideConfig& config, Kernel::Impl& impl);
Result<void> fill(const Device& device, const StripConfig& config, Kernel::Impl& impl);
Result<void> enqueue(const Kernel::Impl& impl, const NarrowConfig& config, const Args& args, Stream stream);
Result<void> enqueue(const Kernel::Impl& impl, const WideConfig& config, const Args& args, Stream stream);
Result<void> enqueue(const Kernel::Impl& impl, const StripConfig& config, const Args& args, Stream stream);

}  // namespace sluice::packed
