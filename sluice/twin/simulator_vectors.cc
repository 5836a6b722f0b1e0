// SPDX-License-Identifier: Apache-2.0
// Scale vectors: every warp of a math group copies a share into the group's buffer, and every warp reads the
// whole buffer. A copy counts as complete when its warp has waited, the latest possible time. See
// simulator.h.
#include <fmt/format.h>

#include <sluice/twin/local_rules.h>
#include <sluice/twin/simulator.h>

namespace sluice::twin {

std::optional<Failure> Simulator::do_vectors(State& s, int agent, const Step& step) const {
  u32& word = vectors(s, agent);
  if (step.kind == StepKind::wait_vectors) {
    word |= kCome;
    return std::nullopt;
  }
  if (word != 0 && (word & kCome) == 0)
    return fail(FailureKind::vectors_unready, agent, step, "those of the tile before are still on their way");
  word = static_cast<u32>(step.sequence) << 1;
  return std::nullopt;
}

std::optional<Failure> Simulator::check_vectors(State& s, int agent, const Step& store) const {
  if (!stages_vectors(scenario_.config.epilogue)) return std::nullopt;
  const int first = agent - agent_at(scenario_, agent).warp;
  for (int peer = first; peer < first + scenario_.warps_per_group; ++peer) {
    const u32 word = vectors(s, peer);
    const std::string name = agent_name(scenario_, peer);
    if ((word & kCome) == 0)
      return fail(FailureKind::vectors_unready, agent, store, name + " has not waited");
    const Tile& staged = staged_[peer][(word >> 1) - 1]->tile;
    if (staged.m_offset != store.tile.m_offset || staged.n_offset != store.tile.n_offset)
      return fail(FailureKind::vectors_unready, agent, store,
                  fmt::format("{} has staged those of m {}, n {}", name, staged.m_offset, staged.n_offset));
  }
  return std::nullopt;
}

}  // namespace sluice::twin
