// SPDX-License-Identifier: Apache-2.0
// The one table of an operation's operands, and what is checked of a pointer that a caller gives: null,
// alignment, overlap, whose memory it is; and of the current context. A launch's checks, a chain's ranges,
// the buffers of bench/ and the array checks of the C interface all read this table. Nothing here allocates
// unless there is a message to write.
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

/// From the first byte to one past the last; 0 of an empty matrix.
constexpr i64 span_bytes(const Footprint& f) {
  if (f.row_bytes == 0 || f.rows <= 0 || f.batches <= 0) return 0;
  return (f.batches - 1) * f.batch_pitch + (f.rows - 1) * f.row_pitch + f.row_bytes;
}
/// Without the gaps between rows.
constexpr i64 data_bytes(const Footprint& f) {
  return f.batches * f.rows * f.row_bytes;
}

struct Placed {
  u64 address = 0;
  Footprint memory;
};
/// Do they share a byte? Column slices of one buffer (equal pitches, disjoint columns) do not. May say yes
/// wrongly for interleaved footprints of unequal pitch.
bool overlap(const Placed& x, const Placed& y);

/// A batch of matrices, in elements.
struct Extents {
  i64 inner = 0, outer = 1, ld = 0, batch = 1, batch_stride = 0;
};

/// read: written by launches before. weight: constant, so a dependent launch may read it before its wait.
/// streamed: the weights that are brought into L2 ahead (B, the blob). scratch: the workspace.
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
  bool used = true;                                       // by any launch of the plan
  int alignment = 0;                                      // bytes; 0: those of an element
  const char* because = "its elements are of that size";  // of the alignment
  const char* without = "";  // behind "pass device memory of n bytes": what a caller without it can do
  const char* remedy = "move it to an aligned address";
  int may_be = -1;        // the written operand that may stand in its very place,
  bool lies_like = true;  // if it does: their types and strides are the same
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
  int too_large_ = -1;  // the first whose bytes do not fit
  Extents too_large_extents_{};
};

/// What one call gives, in the order of the table.
struct Pointers {
  std::array<const void*, Operands::kMost> at{};
  u32 skipped = 0;           // bit i: this call does not follow operand i
  i64 workspace_bytes = -1;  // behind the scratch operand; below 0: enough

  void skip_if(bool condition, int operand) { skipped |= condition ? 1u << operand : 0u; }
};

inline bool follows(const Operands& operands, const Pointers& pointers, int i) {
  return operands[i].used && (pointers.skipped >> i & 1u) == 0;
}

/// By value alone. Errors: invalid_pointer (null), misaligned, workspace (too small), and check_apart's.
Result<void> check_pointers(const Operands& operands, const Pointers& pointers);
/// Error aliasing: what is written shares a byte with another operand. Host memory may be asked about too.
Result<void> check_apart(const Operands& operands, const Pointers& pointers);
/// Asks the driver whose memory each followed pointer is, unless it has been seen before. Errors:
/// invalid_pointer (host), wrong_device, driver.
Result<void> check_owners(const PrimaryContext& primary, const Operands& operands, const Pointers& pointers);
/// Error wrong_device: a context of another device is current. None is fine: the launch uses the kernel's.
Result<void> check_context(const PrimaryContext& primary);

/// Error invalid_argument: a norm's epsilon that is not 0 or more.
Result<void> check_epsilon(float epsilon);
/// Error invalid_argument: a negative number of bytes to hand off.
Result<void> check_hand_off(i64 bytes);

/// Error invalid_size: a negative number of rows or columns.
Result<void> check_counts(i64 rows, i64 columns);
/// Replaces a pitch of 0 by the columns. Error invalid_stride: several rows would overlap.
Result<void> take_pitch(const char* name, i64& ld, i64 columns, i64 rows);

}  // namespace sluice
