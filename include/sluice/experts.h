// SPDX-License-Identifier: Apache-2.0
// The steps of a mixture of experts around its products of groups (docs/experts.md):
//   route     sorts the chosen experts of tokens into rows; products read `ends` (GroupKind::ends)
//   gather    rows of X in that order, quantised or not: a Quantizer with QuantizerOptions::gathered
//   combine   adds up the rows of a token's experts
// A slot is one chosen expert of one token: slot = token * chosen + j. A row is a row of the products. Each
// step is one kernel, does not synchronise and may be captured; a graph may be replayed with other ids.
#pragma once

#include <sluice/gemm.h>
#include <sluice/quantize.h>
#include <sluice/spec/route.h>

namespace sluice {

// ---- route ----
/// Options of Router::create.
struct RouteOptions {
  bool wide_ids = false;  // ids are int64 instead of int32
  Overlap overlap{};

  bool operator==(const RouteOptions&) const = default;
};

struct RouteShape {
  i64 tokens = 0;
  i64 chosen = 1;   // experts of a token, 1 to 32; at most 2^30 slots
  i64 experts = 1;  // 1 to 1024
  i64 rows = 0;     // rows that the products have room for
  i64 pitch = 1;    // an expert's first row is a multiple of it; at most 65536
  i64 ids_ld = 0;   // elements from one token to the next; 0: no gaps
};

/// Expert e has rows from the first multiple of `pitch` at or above ends[e - 1], up to ends[e]. They are in
/// the order of slots. A slot has row -1 if its id is outside [0, experts), such as -1, or if its row would
/// not be below `rows`; ends are clipped to `rows`.
struct RouteArgs {
  const void* ids = nullptr;    // tokens x chosen, int32 or int64; any numbers
  int* ends = nullptr;          // written: experts
  int* row_of_slot = nullptr;   // written: tokens * chosen; -1: no row
  int* token_of_row = nullptr;  // written: rows; -1: no token
  WarmRange hand_off{};         // weights of the next launch, prefetched into L2 before the PDL wait
};

/// Rows that `slots` slots need at most.
constexpr i64 most_rows(i64 slots, i64 experts, i64 pitch) {
  const i64 used = slots < experts ? slots : experts;
  return slots + used * (pitch - 1);
}

/// The loaded kernel for one RouteOptions. Cheap to copy; usable from any thread.
class Router {
 public:
  /// Compiles the kernel or finds it in the cache. Errors: toolchain, driver.
  static Result<Router> create(const Device& device, const RouteOptions& options);

  /// Launches one kernel, also without tokens, without allocation or synchronisation. Errors (nothing is
  /// launched): invalid_size, invalid_stride, invalid_argument, invalid_pointer, misaligned, aliasing,
  /// wrong_device, driver.
  Result<void> launch(const RouteShape& shape, const RouteArgs& args, Stream stream) const;

  struct Impl;
  explicit Router(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

// ---- combine ----
/// Options of Combiner::create.
struct CombineOptions {
  DType type = DType::bf16;  // or fp16: of y, shared and out
  Overlap overlap{};

  bool operator==(const CombineOptions&) const = default;
};

struct CombineShape {
  i64 tokens = 0, columns = 0;
  i64 chosen = 1;                           // experts of a token, 1 to 32
  i64 rows = 0;                             // rows of y
  i64 experts = 0;                          // 0, or how many there are: row_of_slot then holds experts
  i64 y_ld = 0, shared_ld = 0, out_ld = 0;  // elements from one row to the next; 0: no gaps
};

/// out[t] = shared[t] + sum over j of weights[t][j] * y[row_of_slot[t][j]], rounded once. Sums are fp32, in
/// the order of j, by fused multiply-adds. A slot whose row is outside [0, rows) adds nothing: neither its
/// weight nor a row is read. With CombineShape::experts, row_of_slot is the table of a product by slots: the
/// row of slot s is s, and a slot whose expert is outside [0, experts) has none.
struct CombineArgs {
  const void* y = nullptr;           // rows x columns
  const int* row_of_slot = nullptr;  // tokens * chosen
  const float* weights = nullptr;    // tokens * chosen; nullptr: all are 1
  const void* shared = nullptr;      // tokens x columns, may be `out` itself; nullptr: none
  void* out = nullptr;               // tokens x columns
  WarmRange hand_off{};              // weights of the next launch, prefetched into L2 before the PDL wait
};

/// The loaded kernels for one CombineOptions. Cheap to copy; usable from any thread.
class Combiner {
 public:
  /// Compiles the kernels or finds them in the cache. Errors: invalid_type, toolchain, driver.
  static Result<Combiner> create(const Device& device, const CombineOptions& options);

  /// Launches one kernel without allocation or synchronisation. Without tokens or columns it launches
  /// nothing. Errors (nothing is launched): invalid_size, invalid_stride, invalid_argument, invalid_pointer,
  /// misaligned, aliasing, wrong_device, driver.
  Result<void> launch(const CombineShape& shape, const CombineArgs& args, Stream stream) const;

  struct Impl;
  explicit Combiner(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

}  // namespace sluice
