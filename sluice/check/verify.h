// SPDX-License-Identifier: Apache-2.0
// Is the product right? Fills the operands of a problem on the GPU, computes every output in fp64 there, and
// compares. Guard zones of kGuardBytes of poison lie around each buffer; padding is poison too; after the
// check they and all inputs must be unchanged. Used by `sluice run` and `verify`, by bench/ and by tests/gpu.
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

/// Everything about the contents of a problem's operands. Equal specs give equal bits.
struct DataSpec {
  u64 seed = 1;
  FillSpec a{}, b{}, c{}, bias{};
  FillSpec scale_a{.kind = Fill::powers}, scale_b{.kind = Fill::powers}, scale_d{.kind = Fill::powers};
  FillSpec d{.kind = Fill::normal};  // what D holds before a product is added to it; else D is poison
  float alpha = 1.0f, beta = 0.0f;
  int element_shift = 0;  // C, bias and scales start so many elements past 16-byte alignment
  int d_shift = 0;        // the same for D: only for StorePath::direct
};

/// Integers so small, and scales so binary, that every result is one rounding of a whole number (seed picks
/// alpha, beta and magnitudes). Use with activation none or relu. C is poison when beta = 0.
DataSpec exact_data(const Problem& problem, u64 seed);
/// Random-sign reals with arbitrary scales. C is poison when beta = 0.
DataSpec real_data(const Problem& problem, u64 seed);
/// The same with A and B positive, alpha = scales = 1: shows a biased accumulator.
DataSpec positive_data(const Problem& problem, u64 seed);

/// The filled operands of one problem. Shares ownership of their memory.
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
  i64 max_products = i64{1} << 36;  // past so many multiplications only a hashed sample of D is checked
  double activation_error = 0;      // absolute, that GELU or SiLU may have besides ours (docs/numerics.md)
};

/// What a check found.
struct Comparison {
  i64 checked = 0;         // elements of D
  i64 wrong = 0;           // of them
  i64 unwritten = 0;       // of the wrong ones, those that still hold poison
  i64 damaged_chunks = 0;  // 16-byte pieces changed outside D: guards, padding, inputs
  u64 damage_address = 0;  // the lowest
  i64 inexact_inputs = 0;  // Judge::exact: elements whose data were too large to be exact
  i64 row_low = -1, row_high = -1, column_low = -1, column_high = -1;  // box around the wrong ones
  double worst_ratio = 0;  // largest |error| / bound (Judge::bounded)
  double mean_error = 0;   // mean of (got - expected) / sum |a b|
  double norm_ratio = 0;   // root of errors' squares / what it may be (docs/numerics.md)
  double mean_ratio = 0;   // |mean of errors| / what it may be
  std::vector<LoggedElement> examples;

  bool passed() const {
    return wrong == 0 && damaged_chunks == 0 && inexact_inputs == 0 && norm_ratio <= 1 && mean_ratio <= 1;
  }
};
/// One line when passed; else counts, the box and the examples.
std::string describe(const Comparison& found);

/// Keeps the verification kernels of one device. Calls on one Verifier are not thread-safe; make one per
/// thread.
class Verifier {
 public:
  /// `log_slots`: results that enqueue_check can keep before read_log. Errors: toolchain, driver.
  static Result<Verifier> create(const Device& device, int log_slots = 1);

  /// Allocates, fills in stream order. Errors: invalid_stride (matrices of a batch overlap), driver.
  Result<ProblemData> make_data(const Problem& problem, const DataSpec& spec, Stream stream) const;
  /// The same inside `arena` (at least data_bytes), for callers that run many problems in one stream.
  Result<ProblemData> make_data(const Problem& problem, const DataSpec& spec,
                                std::shared_ptr<const DeviceBuffer> arena, Stream stream) const;
  /// Fills all of it again, D too, in stream order. `seed` changes the inputs under the same
  /// pointers.
  Result<void> refill(ProblemData& data, u64 seed, Stream stream) const;
  /// The same with other data: alpha and beta of args() change too. Shifts are those that data was made with.
  Result<void> refill(ProblemData& data, const DataSpec& spec, Stream stream) const;

  /// Checks and waits. Uses log slot 0.
  Result<Comparison> check(const ProblemData& data, const CheckSpec& spec, Stream stream) const;
  /// Checks in stream order into a log slot; nothing waits.
  Result<void> enqueue_check(const ProblemData& data, const CheckSpec& spec, int slot, Stream stream) const;
  /// Waits for the stream, reads the first `count` slots and zeroes them.
  Result<std::vector<Comparison>> read_log(int count, Stream stream) const;

  struct Impl;

 private:
  explicit Verifier(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

}  // namespace sluice
