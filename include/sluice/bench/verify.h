// SPDX-License-Identifier: Apache-2.0
// Verifies plans on a GPU: every element of D, against sums in fp64 that a kernel of its own computes there.
// Padding and guard zones around each operand are checked too.
//   auto lab = sluice::bench::open_lab(device, {.method = {.cold = false, .peer = false}});
//   auto verdict = sluice::bench::verify(**lab, plan);  // verdict->right(), verdict->text
#pragma once

#include <string>
#include <vector>

#include <sluice/bench/session.h>

namespace sluice::bench {

/// right: all elements are within their bound. not_judged: no element is wrong, but some data are too large
/// for exact sums, so equal bits cannot be required.
enum class Finding { right, wrong, not_judged };

struct Verified {
  Finding finding = Finding::wrong;
  i64 elements = 0;  // elements of D that were checked
  // The largest error of an element, the root of all squared errors, and the mean error, each divided by its
  // bound.
  double element_share = 0, norm_share = 0, mean_share = 0;
  std::string text;  // one line if the check passed; else counts, the box around wrong elements, examples

  bool right() const { return finding == Finding::right; }
};

/// Runs the plan once, on random data with the seed of the lab's method, and checks D. Errors: those of
/// gemm::prepare and launch; driver.
Result<Verified> verify(const Lab& lab, const Plan& plan);

/// The units of the kernels that verify this problem, and of those that pack its weights. Every measurement
/// and tuning run uses them.
std::vector<std::string> verifier_units(const Problem& problem);

}  // namespace sluice::bench
