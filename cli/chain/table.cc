// SPDX-License-Identifier: Apache-2.0
#include "cli/chain/table.h"

#include <fmt/format.h>

#include "cli/table.h"

namespace sluice::cli {
namespace {

const Table& table() {
  static const Table made({{"  arm", 30, Align::left},
                           {"us per layer", 10},
                           {"p10..p90", 15},
                           {"of HBM rate", 11},
                           {"x off", 6},
                           {"x cuBLASLt", 10},
                           {"edges", 5},
                           {"same bits", 9}});
  return made;
}

std::string ratio_text(double peer_us, double us) {
  return peer_us > 0 && us > 0 ? fmt::format("{:.3f}", peer_us / us) : "";
}

std::string same_bits(const bench::ArmRecord& arm) {
  if (arm.name == bench::kChainPeer) return fmt::format("({:.3f})", arm.distance);
  if (arm.differing > 0) return "NO";
  if (arm.differing < 0) return "?";
  return arm.replays > 0 ? fmt::format("yes, {}", arm.replays) : "yes";
}

}  // namespace

std::string chain_header() {
  return table().header();
}

std::string chain_lines(const bench::ChainRecord& record) {
  std::string text = name_of(record.spec) + "\n";
  if (!record.error.empty()) return text + table().row({"  " + record.error});
  const double off = median_of(record, bench::kChainOff), peer = median_of(record, bench::kChainPeer);
  for (const bench::ArmRecord& arm : record.arms) {
    const double us = arm.us.median;
    if (us <= 0) {
      const std::string why =
          !arm.error.empty() ? arm.error
                             : fmt::format("not timed: {} pieces of 16 bytes differ from off", arm.differing);
      text += table().row({"  " + arm.name, why});
      continue;
    }
    text += table().row(
        {"  " + arm.name, fmt::format("{:.2f}", us), fmt::format("{:.2f}..{:.2f}", arm.us.p10, arm.us.p90),
         fmt::format("{:.1f} %", 100 * share_of_peak(record, us)), ratio_text(off, us), ratio_text(peer, us),
         arm.name == bench::kChainPeer ? "" : std::to_string(arm.programmatic_edges), same_bits(arm)});
  }
  return text;
}

}  // namespace sluice::cli
