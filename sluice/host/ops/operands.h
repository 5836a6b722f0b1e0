// SPDX-License-Identifier: Apache-2.0
// The one table of an operation's operands. It also checks a caller's pointers (null, alignment, overlap,
// owning device) and the current context. A launch's checks, a chain's ranges, the buffers of bench/ and the
// array checks of the C interface all read this table. Nothing here allocates unless a message is written.
#pragma once

#include <array>
#include <optional>
#include <string>

#include <sluice/host/driver/context.h>
#include <sluice/result.h>
#include <sluice/spec/dtype.h>

namespace sluice {

/// The bytes behind one pointer: `batches` times `rows` runs of `row_bytes`.
struct Footprint {
  i64 row_bytes = 0;
  i64 rows = 1;
  i64 row_pitch = 0;
  i64 batches = 1;
  i64 batch_pitch = 0;
};

/// Returns the bytes from the first to one past the last; 0 for an empty matrix.
constexpr i64 span_bytes(const Footprint& f) {
  if (f.row_bytes == 0 || f.rows <= 0 || f.batches <= 0) return 0;
  return (f.batches - 1) * f.batch_pitch + (f.rows - 1) * f.row_pitch + f.row_bytes;
}
/// Returns the bytes without the gaps between rows.
constexpr i64 data_bytes(const Footprint& f) {
  return f.batches * f.rows * f.row_bytes;
}

struct Placed {
  u64 address = 0;
  Footprint memory;
};
/// Returns whether x and y share a byte. Column slices of one buffer (equal pitches, disjoint columns) do
/// not. The answer may be a wrong yes for interleaved footprints of unequal pitch.
bool overlap(const Placed& x, const Placed& y);

/// A batch of matrices, in elements.
struct Extents {
  i64 inner = 0, outer = 1, ld = 0, batch = 1, batch_stride = 0;
};

/// read: an input that earlier launches may write. weight: a constant, so a dependent launch may read it
/// before its wait. streamed: weights that a chain may bring into L2 ahead (B, the blob). scratch: the
/// workspace.
enum class Role : u8 { read, weight, streamed, write, scratch };

constexpr bool is_weight(Role role) {
  return role == Role::weight || role == Role::streamed;
}
constexpr bool is_written(Role role) {
  return role == Role::write || role == Role::scratch;
}

struct Operand {
  const char* name = "";
  Role role = Role::read;
  std::optional<DType> type{};                            // nothing: plain bytes
  bool used = true;                                       // whether any launch of the plan uses it
  int alignment = 0;                                      // bytes; 0: those of an element
  const char* because = "its elements are of that size";  // reason for the alignment
  const char* without = "";  // follows "pass device memory of n bytes": advice to a caller without it
  const char* remedy = "move it to an aligned address";
  int may_be = -1;        // the written operand that may have its address,
  bool lies_like = true;  // and whether both have equal types and strides, as that needs
  Footprint memory{};     // add() fills it in
};

class Operands {
 public:
  static constexpr int kMost = 10;

  void add(const Operand& operand, const Extents& extents);
  /// Error invalid_size: a used operand reaches past 2^63 bytes.
  Result<void> check_extents() const;

  int size() const { return count_; }
  const Operand& operator[](int i) const { return all_[static_cast<size_t>(i)]; }
  Operand& operator[](int i) { return all_[static_cast<size_t>(i)]; }
  const Operand* begin() const { return all_.data(); }
  const Operand* end() const { return all_.data() + count_; }

 private:
  std::array<Operand, kMost> all_{};
  int count_ = 0;
  int too_large_ = -1;  // the first operand whose bytes overflow
  Extents too_large_extents_{};
};

/// The pointers of one call, in the order of the table.
struct Pointers {
  std::array<const void*, Operands::kMost> at{};
  u32 skipped = 0;           // bit i: this call does not follow operand i
  i64 workspace_bytes = -1;  // size of the scratch operand; below 0: enough

  void skip_if(bool condition, int operand) { skipped |= condition ? 1u << operand : 0u; }
};

inline bool follows(const Operands& operands, const Pointers& pointers, int i) {
  return operands[i].used && (pointers.skipped >> i & 1u) == 0;
}

/// Checks pointers by value alone. Errors: invalid_pointer (null), misaligned, workspace (too small), and
/// check_apart's.
Result<void> check_pointers(const Operands& operands, const Pointers& pointers);
/// Error aliasing: a written operand shares a byte with another operand. Pointers to host memory work too.
Result<void> check_apart(const Operands& operands, const Pointers& pointers);
/// Asks the driver which device owns the memory of each used pointer that was not seen before. Errors:
/// invalid_pointer (host), wrong_device, driver.
Result<void> check_owners(const PrimaryContext& primary, const Operands& operands, const Pointers& pointers);
/// Error wrong_device: another device's context is current. No context is fine: a launch uses the kernel's.
Result<void> check_context(const PrimaryContext& primary);

/// Error invalid_argument: a norm's epsilon is negative or no number.
Result<void> check_epsilon(float epsilon);
/// Error invalid_argument: the number of bytes to hand off is negative.
Result<void> check_hand_off(i64 bytes);

/// Error invalid_size: the number of rows or columns is negative.
Result<void> check_counts(i64 rows, i64 columns);
/// Replaces a pitch of 0 by the columns. Error invalid_stride: several rows would overlap.
Result<void> take_pitch(const char* name, i64& ld, i64 columns, i64 rows);

}  // namespace sluice
