// SPDX-License-Identifier: Apache-2.0
// Verifies a product. Fills the operands of a problem on the GPU, computes every output in fp64 there, and
// compares. Padding of each operand, and guard zones of kGuardBytes around it, are filled with poison. The
// check fails if poison or an input has changed. Used by `sluice run` and `verify`, bench/ and tests/gpu.
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

/// How rows are spread over groups. any: numbers that are no table; every kernel must be safe with them.
enum class Routing : u8 { balanced, skewed, one, any };

/// Contents of a problem's operands. Equal specs give equal bits.
struct DataSpec {
  u64 seed = 1;
  FillSpec a{}, b{}, c{}, bias{};
  FillSpec scale_a{.kind = Fill::powers}, scale_b{.kind = Fill::powers}, scale_d{.kind = Fill::powers};
  FillSpec row_factors{.kind = Fill::powers};
  FillSpec d{.kind = Fill::normal};     // D's old contents, if the product is added to D; else D is poison
  Routing routing = Routing::balanced;  // spreads rows over groups
  float alpha = 1.0f, beta = 0.0f;
  int element_shift = 0;  // C, bias and scales start this many elements after a multiple of 16 bytes
  int d_shift = 0;        // like element_shift, for D; only with StorePath::direct
};

/// Small integers and power-of-two scales. For any k, every sum is exact and D is that sum rounded once. If k
/// is large, A is mostly zeros. The seed chooses alpha, beta and magnitudes. Use with activation none or
/// relu. C is poison if beta = 0.
DataSpec exact_data(const Problem& problem, u64 seed);
/// Returns true if no sum of products can exceed the whole numbers that the accumulator represents exactly.
/// For sparse data it assumes at most the mean number of nonzero products plus ten standard deviations.
/// Verifier refuses Judge::exact if this is false.
bool holds_exact_sums(const Problem& problem, const DataSpec& spec);
/// Real numbers of random sign, with arbitrary scales. C is poison if beta = 0.
DataSpec real_data(const Problem& problem, u64 seed);
/// Like real_data, but A and B are positive and alpha and scales are 1: exposes an accumulator with a bias.
DataSpec positive_data(const Problem& problem, u64 seed);

/// The filled operands of one problem. Copies share the memory.
class ProblemData {
 public:
  const Problem& problem() const { return problem_; }  // with its strides set
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

/// Returns the bytes of device memory that make_data needs for this problem, guards included.
i64 data_bytes(const Problem& problem, const DataSpec& spec);

struct CheckSpec {
  Judge judge = Judge::exact;
  // Elements of D times k; above it only a pseudo-random sample of D is checked.
  i64 max_products = i64{1} << 36;
  double activation_error =
      0;  // absolute error allowed to GELU or SiLU in addition to the checker's own (docs/numerics.md)
};

/// not_judged: no element is wrong, but some data are too large for exact sums, so equal bits cannot be
/// required. It counts as neither right nor wrong.
enum class Verdict { right, wrong, not_judged };

struct Comparison {
  i64 checked = 0;         // elements of D
  i64 wrong = 0;           // wrong elements of D
  i64 unwritten = 0;       // wrong elements that still hold poison
  i64 damaged_chunks = 0;  // 16-byte pieces changed outside D: guards, padding, inputs
  u64 damage_address = 0;  // the lowest damaged address
  i64 inexact_inputs = 0;  // Judge::exact: elements that are not checked, because their sums may be inexact
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
/// Returns one line if the check passed; else counts, the box and examples.
std::string describe(const Comparison& found);

/// Holds the verification kernels of one device. Not thread-safe: make one per thread.
class Verifier {
 public:
  /// `log_slots`: how many results of enqueue_check are kept until read_log. Errors: toolchain, driver.
  static Result<Verifier> create(const Device& device, int log_slots = 1);

  /// Allocates the operands, and fills them in stream order. Errors: invalid_stride (matrices of a batch
  /// overlap), driver.
  Result<ProblemData> make_data(const Problem& problem, const DataSpec& spec, Stream stream) const;
  /// Places operands in `arena` (at least data_bytes) and fills them in stream order. Problems of one stream
  /// can share the arena.
  Result<ProblemData> make_data(const Problem& problem, const DataSpec& spec,
                                std::shared_ptr<const DeviceBuffer> arena, Stream stream) const;
  /// Refills all operands and D in stream order, at the same addresses, with data from another `seed`.
  Result<void> refill(ProblemData& data, u64 seed, Stream stream) const;
  /// Refills with another spec; alpha and beta of args() change too. Shifts of the first spec stay.
  Result<void> refill(ProblemData& data, const DataSpec& spec, Stream stream) const;

  /// Checks D, waits for the stream and returns the result. Uses log slot 0.
  Result<Comparison> check(const ProblemData& data, const CheckSpec& spec, Stream stream) const;
  /// Checks D in stream order without waiting; the result is written to a log slot. Error: invalid_argument,
  /// for a slot out of range, or for Judge::exact unless holds_exact_sums().
  Result<void> enqueue_check(const ProblemData& data, const CheckSpec& spec, int slot, Stream stream) const;
  /// Waits for the stream, then reads and zeroes the first `count` slots.
  Result<std::vector<Comparison>> read_log(int count, Stream stream) const;

  struct Impl;

 private:
  explicit Verifier(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

}  // namespace sluice
