// SPDX-License-Identifier: Apache-2.0
// A small problem in host memory: random operands, the host twin's result, and the reference. Used by `run`
// and `verify` on machines without a GPU.
#pragma once

#include <string>
#include <vector>

#include <sluice/plan.h>
#include <sluice/twin/run.h>

namespace sluice::bench {

/// Result of a comparison with the reference.
struct HostComparison {
  i64 checked = 0;
  i64 wrong = 0;           // elements outside their bound
  double worst_ratio = 0;  // largest |error| / bound of the elements that are right
  std::string example;     // text about the first wrong element

  bool passed() const { return wrong == 0; }
};
std::string describe(const HostComparison& found);

/// As gemm::plan, for the host twin. The twin cannot simulate plain schedules, which have no roles. If the
/// pick is one, returns the model's best plan with roles.
Result<Plan> plan_with_roles(const Problem& problem, const PlanOverrides& overrides,
                             const RecordBook& records);

/// Operands of one problem in host memory. D starts as NaN, or as numbers if the product is added to it. The
/// strides of `problem` must be filled in.
class HostProblem {
 public:
  HostProblem(const Problem& problem, float alpha, float beta, u64 seed);

  /// Runs the plan on the host twin and writes D.
  Result<twin::TwinReport> run(const Plan& plan, u64 schedule_seed);
  /// Compares each element of D with a sum in double. The bound allows fp32 sums in any order, rounded once
  /// to D's type.
  HostComparison compare() const;
  /// Overwrites one element of D, or one of its block scales; tests use them to plant an error.
  void set_d(i64 index, double value);
  void set_scale(i64 index, float value) { scale_out_[static_cast<size_t>(index)] = value; }

 private:
  /// For an element before the activation: an upper limit of its magnitude, and the allowed error.
  struct Bounded {
    double most, error;
  };
  HostBuffers buffers(void* d, float* scale_out = nullptr) const;
  /// Returns the sum of |a b| over k, block scales included.
  double magnitude_of(const ElementIndex& at) const;
  Bounded bounded(const OutputPlace& place, double magnitude) const;
  Bounded bounded(const ElementIndex& at) const;
  /// Returns the allowed error of an element of D. `error`: that before rounding to D's type.
  double allowed(double error, double expected) const;
  /// Compares element `d` with the exact value and updates `found`. Returns true for the first wrong element;
  /// the caller then adds its coordinates to found.example.
  bool judge(i64 d, double exact, double error, HostComparison& found) const;
  /// An element of D before it is rounded or quantised, and its allowed error.
  struct Judged {
    double exact, error;
  };
  Judged judged(const ElementIndex& at, const HostBuffers& operands) const;
  /// Judges columns of a row that share a scale, and the scale itself.
  void judge_block(const ElementIndex& at, const std::vector<Judged>& values, HostComparison& found) const;
  void compare_products(HostComparison& found) const;
  /// Compares one row of D. `operands`: those of the reference.
  void compare_row(const HostBuffers& operands, i64 batch, i64 row, HostComparison& found) const;
  /// Checks that rows that belong to no group are as they were. `used`: which rows belong to one.
  void compare_rows_of_no_group(const std::vector<bool>& used, HostComparison& found) const;
  /// Compares D of a convolution, gaps between pixels included.
  void compare_convolution(HostComparison& found) const;

  Problem problem_;
  float alpha_, beta_;
  std::vector<u8> a_, b_, c_, d_, old_d_, bias_;
  std::vector<float> scale_a_, scale_b_, scale_d_, row_factors_;
  std::vector<float> scale_out_;  // with block scales of D: what the twin wrote
  std::vector<int> groups_;       // the table, of random sizes
};

}  // namespace sluice::bench
