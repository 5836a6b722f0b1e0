// SPDX-License-Identifier: Apache-2.0
// Prints a planned chain as readable text: one aligned line per step.
#include <algorithm>
#include <cstdio>

#include <sluice/chain/chain.h>
#include <sluice/plan/text/lines.h>

namespace sluice {
namespace {

std::string fixed(double value, int digits) {
  char text[48];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}
std::string megabytes(i64 bytes) {
  return fixed(static_cast<double>(bytes) * 1e-6, 2) + " MB";
}
std::string padded(std::string text, size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text;
}

std::string overlap_of(const PlannedStep& s) {
  std::string text =
      std::string("wait ") + name_of(s.overlap.wait) + ", trigger " + name_of(s.overlap.trigger);
  if (s.overlap.wait != Wait::none && s.overlap.spacing != ChainOptions{}.spacing)
    text += std::string(", spacing ") + name_of(s.overlap.spacing);
  if (s.tuned) text += ", tuned";
  if (const i64 bytes = total_bytes(s.prefetch); bytes > 0) text += ", prefetch " + megabytes(bytes);
  if (const i64 bytes = total_bytes(s.hand_off); bytes > 0) text += ", hand-off " + megabytes(bytes);
  return text;
}

}  // namespace

std::string product_kernel(const ChainPlan& plan, const PlannedStep& s) {
  return step_of(s.step)->kernel_name(plan_of(plan, s));
}

std::string explain(const ChainPlan& plan) {
  constexpr size_t kNumber = 4;
  size_t names = 0;
  for (const PlannedStep& s : plan.steps) names = std::max(names, s.step.name.size());
  const size_t indent = kNumber + names + 2;
  std::string text;
  double estimate_us = 0;
  i64 bytes = 0;
  bool tuned = false;
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const PlannedStep& s = plan.steps[i];
    const std::string kernel = s.launched ? step_of(s.step)->text(plan_of(plan, s)) : "nothing to do";
    const i64 moved = s.launched ? step_of(s.step)->moved_bytes() : 0;
    const double us = s.launched ? s.estimate_us : 0;
    text += padded(std::to_string(i), kNumber) + padded(s.step.name, names) + "  " +
            wrapped(kernel, indent, indent) + "\n" + std::string(indent, ' ') +
            wrapped(overlap_of(s) + "; " + megabytes(moved) + ", " + fixed(us, 2) + " us", indent, indent) +
            "\n";
    bytes += moved;
    estimate_us += us;
    tuned = tuned || s.tuned;
  }
  return text + "all " + std::to_string(plan.steps.size()) + " steps: " + megabytes(bytes) + ", " +
         fixed(estimate_us, 1) + " us without overlap, workspace " + std::to_string(plan.workspace_bytes) +
         " bytes\n" +
         (tuned ? "tuned steps are the fastest among their neighbours; alone they may be slower than others\n"
                : "");
}

}  // namespace sluice
