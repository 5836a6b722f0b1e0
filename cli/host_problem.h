// SPDX-License-Identifier: Apache-2.0
// A small problem in host memory: random operands, the host twin's result, and the reference to compare it
// with. Used by `run` and `verify` where there is no GPU.
#pragma once

#include <string>
#include <vector>

#include <sluice/plan.h>
#include <sluice/twin/run.h>

namespace sluice::cli {

/// The result of a comparison with the reference.
struct HostComparison {
  i64 checked = 0;
  i64 wrong = 0;           // beyond the bound
  double worst_ratio = 0;  // largest |error| / bound
  std::string example;     // the first wrong element

  bool passed() const { return wrong == 0; }
};
std::string describe(const HostComparison& found);

/// gemm::plan for the host twin. In place of a plain schedule, which has no roles to simulate, it takes the
/// model's best with roles.
Result<Plan> plan_with_roles(const Problem& problem, const PlanOverrides& overrides,
                             const RecordBook& records);

/// Operands of one problem. D is NaN, or numbers if the product is added to it. Strides of `problem` must be
/// filled in.
class HostProblem {
 public:
  HostProblem(const Problem& problem, float alpha, float beta, u64 seed);

  /// Runs the plan on the host twin into D.
  Result<twin::TwinReport> run(const Plan& plan, u64 schedule_seed);
  /// Compares each element of D with a sum in double. The bound is that of fp32 sums in any order, rounded
  /// once.
  HostComparison compare() const;
  /// Sets an element of D, for tests that damage one.
  void set_d(i64 index, double value);

 private:
  /// The largest value of an element before the activation, and its error.
  struct Bounded {
    double most, error;
  };
  HostBuffers buffers(void* d) const;
  /// The sum over |a b|, block scales included.
  double magnitude_of(const ElementIndex& at) const;
  Bounded bounded(const OutputPlace& place, double magnitude) const;
  Bounded bounded(const ElementIndex& at) const;
  /// The error allowed to an element of D, from that before the activation.
  double allowed(double error, double expected) const;
  /// Compares element `d` with the exact value. True: it is the first wrong one, and the example lacks its
  /// name.
  bool judge(i64 d, double exact, double error, HostComparison& found) const;
  void compare_products(HostComparison& found) const;
  /// Looks at what lies between pixels of D, too.
  void compare_convolution(HostComparison& found) const;

  Problem problem_;
  float alpha_, beta_;
  std::vector<u8> a_, b_, c_, d_, old_d_, bias_;
  std::vector<float> scale_a_, scale_b_, scale_d_;
};

}  // namespace sluice::cli
