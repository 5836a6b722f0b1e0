// SPDX-License-Identifier: Apache-2.0
// Idle launches between the steps of a chain, which stand for attention or an all-reduce. Each occupies a few
// SMs for some microseconds and does not use HBM.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <sluice/chain.h>
#include <sluice/chain/tuning/stand_in.h>

namespace sluice::test {

struct IdleSpec {
  std::string before = "all";  // name of the product that follows the idle step; "all": each product
  bool overlapped = false;     // true: it triggers its dependents at its start
  i64 hand_off_bytes = 0;  // bytes of that product's weights that the step before the idle step prefetches
  i64 prefetch_bytes = 0;  // bytes of that product's weights that the idle step prefetches
};

/// Returns a function for bench::ArmSpec::add. It inserts a step that idles for 3 us on two SMs before each
/// product that `spec` names.
inline Result<std::function<void(std::vector<ChainStep>&)>> idle_steps(const Device& device,
                                                                       const IdleSpec& spec) {
  auto launch = tuning::idle_launch(device, {.us = 3, .ctas = 2, .triggers = spec.overlapped});
  if (!launch) return launch.error();
  return std::function<void(std::vector<ChainStep>&)>(
      [spec, enqueue = *launch](std::vector<ChainStep>& steps) {
        std::vector<ChainStep> made;
        for (ChainStep& step : steps) {
          const bool product = std::holds_alternative<ProductStep>(step.work) ||
                               std::holds_alternative<ProductStep>(step.work);
          if (spec.before == "all" ? product : step.name == spec.before) {
            if (spec.hand_off_bytes > 0 && !made.empty()) made.back().hand_off_bytes = spec.hand_off_bytes;
            made.push_back(
                {.work = ForeignStep{.enqueue = enqueue, .overlapped = spec.overlapped, .writes = {{}}},
                 .name = "idle"});
            if (spec.prefetch_bytes > 0) step.prefetch_bytes = spec.prefetch_bytes;
          }
          made.push_back(std::move(step));
        }
        steps = std::move(made);
      });
}

}  // namespace sluice::test
