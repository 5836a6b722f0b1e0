// SPDX-License-Identifier: Apache-2.0
// Verifies a product. Fills the operands of a problem on the GPU, computes every output in fp64 there, and
// compares. Poison pads each operand and surrounds it in guard zones of kGuardBytes. All of it, and all
// inputs, must be unchanged after the check. Used by `sluice run` and `verify`, bench/ and tests/gpu.
//   auto verifier = Verifier::create(device);
//   auto data     = verifier->make_data(problem, exact_data(problem, seed), stream);
//   gemm::launch(*kernel, data->args(), stream);
//   auto found    = verifier->check(*data, {.judge = Judge::exact}, stream);   // found->passed()
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include <sluice/gemm.h>
#include <sluice/kernels/verify_params.h>

namespace sluice {

class DeviceBuffer;

/// Contents of a problem's operands. Equal specs give equal bits.
struct DataSpec {
  u64 seed = 1;
  FillSpec a{}, b{}, c{}, bias{};
  FillSpec scale_a{.kind = Fill::powers}, scale_b{.kind = Fill::powers}, scale_d{.kind = Fill::powers};
  FillSpec d{.kind = Fill::normal};  // D's contents before a product is added to it; else D is poison
  float alpha = 1.0f, beta = 0.0f;
  int element_shift = 0;  // elements by which C, bias and scales start past 16-byte alignment
  int d_shift = 0;        // as element_shift, for D; only with StorePath::direct
};

/// Small integers and power-of-two scales: every result is one rounding of a whole number, for any k. Where k
/// is long, A is mostly zeros. The seed picks alpha, beta and magnitudes. Use with activation none or relu. C
/// is poison when beta = 0.
DataSpec exact_data(const Problem& problem, u64 seed);
/// True if no sum of a b can leave the whole numbers that the accumulator holds. Thinned data are taken with
/// ten deviations more than their mean. Verifier refuses Judge::exact without it.
bool holds_exact_sums(const Problem& problem, const DataSpec& spec);
/// Reals of random sign, with arbitrary scales. C is poison when beta = 0.
DataSpec real_data(const Problem& problem, u64 seed);
/// Like real_data, with positive A and B and alpha = scales = 1: shows a biased accumulator.
DataSpec positive_data(const Problem& problem, u64 seed);

/// The filled operands of one problem; shares ownership of their memory.
class ProblemData {
 public:
  const Problem& problem() const { return problem_; }  // strides filled in
  const DataSpec& spec() const { return spec_; }
  const gemm::Args& args() const { return args_; }
  const Region& region(int index) const { return regions_[index]; }

 private:
  friend class Verifier;
  std::shared_ptr<const DeviceBuffer> memory_;
  Problem problem_;
  DataSpec spec_;
  gemm::Args args_;
  Region regions_[kRegionCount];
};

/// Device memory that make_data needs for this problem, guards included.
i64 data_bytes(const Problem& problem, const DataSpec& spec);

struct CheckSpec {
  Judge judge = Judge::exact;
  i64 max_products = i64{1} << 36;  // beyond it only a hashed sample of D is checked
  double activation_error =
      0;  // absolute error allowed to GELU or SiLU beside the checker's own (docs/numerics.md)
};

/// not_judged: nothing is wrong, but data are too large to be exact, so equal bits cannot be asked for. It
/// counts as neither right nor wrong.
enum class Verdict { right, wrong, not_judged };

struct Comparison {
  i64 checked = 0;         // elements of D
  i64 wrong = 0;           // wrong elements of D
  i64 unwritten = 0;       // wrong elements that still hold poison
  i64 damaged_chunks = 0;  // 16-byte pieces changed outside D: guards, padding, inputs
  u64 damage_address = 0;  // the lowest damaged address
  i64 inexact_inputs = 0;  // Judge::exact: elements whose data are too large to be exact; not judged
  i64 row_low = -1, row_high = -1, column_low = -1, column_high = -1;  // box around the wrong elements
  double worst_ratio = 0;  // largest |error| / bound (Judge::bounded)
  double mean_error = 0;   // mean of (got - expected) / sum |a b|
  double norm_ratio = 0;   // root of squared errors / its bound (docs/numerics.md)
  double mean_ratio = 0;   // |mean error| / its bound
  std::vector<LoggedElement> examples;

  Verdict verdict() const {
    if (wrong > 0 || damaged_chunks > 0 || !(norm_ratio <= 1) || !(mean_ratio <= 1)) return Verdict::wrong;
    return inexact_inputs > 0 ? Verdict::not_judged : Verdict::right;
  }
  bool passed() const { return verdict() == Verdict::right; }
};
/// One line if it passed; else counts, the box and examples.
std::string describe(const Comparison& found);

/// Holds the verification kernels of one device. Not thread-safe: make one a thread.
class Verifier {
 public:
  /// `log_slots`: results that enqueue_check keeps until read_log. Errors: toolchain, driver.
  static Result<Verifier> create(const Device& device, int log_slots = 1);

  /// Allocates, and fills in stream order. Errors: invalid_stride (matrices of a batch overlap), driver.
  Result<ProblemData> make_data(const Problem& problem, const DataSpec& spec, Stream stream) const;
  /// Fills operands inside `arena` (at least data_bytes), for many problems in one stream.
  Result<ProblemData> make_data(const Problem& problem, const DataSpec& spec,
                                std::shared_ptr<const DeviceBuffer> arena, Stream stream) const;
  /// Refills everything, D too, in stream order. `seed` changes the inputs at the same addresses.
  Result<void> refill(ProblemData& data, u64 seed, Stream stream) const;
  /// Refills with another spec; alpha and beta of args() change too. Shifts stay as made.
  Result<void> refill(ProblemData& data, const DataSpec& spec, Stream stream) const;

  /// Uses log slot 0, and waits.
  Result<Comparison> check(const ProblemData& data, const CheckSpec& spec, Stream stream) const;
  /// Checks in stream order into a log slot, without waiting. Error invalid_argument: the slot; Judge::exact
  /// with data that are too large for it.
  Result<void> enqueue_check(const ProblemData& data, const CheckSpec& spec, int slot, Stream stream) const;
  /// Waits for the stream, then reads and zeroes the first `count` slots.
  Result<std::vector<Comparison>> read_log(int count, Stream stream) const;

  struct Impl;

 private:
  explicit Verifier(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

}  // namespace sluice
