// SPDX-License-Identifier: Apache-2.0
// The operand table of an operation, and the checks of a caller's pointers against it: null, alignment,
// overlap and owning device. Launches, chains (memory ranges), bench/ (buffers) and the C interface (array
// checks) all use this one table. Nothing here allocates except to write an error message.
#pragma once

#include <array>
#include <optional>
#include <string>

#include <sluice/result.h>
#include <sluice/run/driver/context.h>
#include <sluice/spec/dtype.h>

namespace sluice {

/// The memory behind one pointer: `batches` times `rows` runs of `row_bytes` contiguous bytes.
struct Footprint {
  i64 row_bytes = 0;
  i64 rows = 1;
  i64 row_pitch = 0;
  i64 batches = 1;
  i64 batch_pitch = 0;
};

/// Returns the number of bytes from the first byte to the end of the last, gaps included; 0 for an empty
/// matrix.
constexpr i64 span_bytes(const Footprint& f) {
  if (f.row_bytes == 0 || f.rows <= 0 || f.batches <= 0) return 0;
  return (f.batches - 1) * f.batch_pitch + (f.rows - 1) * f.row_pitch + f.row_bytes;
}
/// Returns the number of bytes without the gaps between rows.
constexpr i64 data_bytes(const Footprint& f) {
  return f.batches * f.rows * f.row_bytes;
}

struct Placed {
  u64 address = 0;
  Footprint memory;
};
/// Returns whether x and y share a byte. Disjoint column ranges of one buffer (equal pitches) do not. For
/// interleaved footprints of unequal pitch it may return true although they share none.
bool overlap(const Placed& x, const Placed& y);

/// The extents of a batch of matrices, in elements.
struct Extents {
  i64 inner = 0, outer = 1, ld = 0, batch = 1, batch_stride = 0;
};

/// The use of an operand.
/// - read: an input that earlier launches may write.
/// - weight: constant, so a dependent launch may read it before its PDL wait.
/// - streamed: weights that a chain may prefetch into L2 (B of a dense product, the packed blob).
/// - chosen: weights of which a table on the device chooses (B of a product of groups). A launch reads them
///   behind its PDL wait, and a chain prefetches none of them.
/// - write: an output.
/// - scratch: the workspace.
enum class Role : u8 { read, weight, streamed, chosen, write, scratch };

constexpr bool is_weight(Role role) {
  return role == Role::weight || role == Role::streamed || role == Role::chosen;
}
constexpr bool is_written(Role role) {
  return role == Role::write || role == Role::scratch;
}

struct Operand {
  const char* name = "";
  Role role = Role::read;
  std::optional<DType> type{};                            // nullopt: plain bytes
  bool used = true;                                       // whether any launch of the plan accesses it
  int alignment = 0;                                      // in bytes; 0: the size of an element
  const char* because = "its elements are of that size";  // the reason for the alignment
  // Text after "pass device memory of n bytes": advice for a caller who does not have it.
  const char* without = "";
  const char* remedy = "move it to an aligned address";
  int may_be = -1;        // index of the written operand that may be at the same address (in place); -1: none
  bool lies_like = true;  // whether both have equal types and strides, which in-place use requires
  Footprint memory{};     // filled in by add()
};

class Operands {
 public:
  static constexpr int kMost = 16;

  void add(const Operand& operand, const Extents& extents);
  /// Error invalid_size: a used operand ends past 2^63 bytes.
  Result<void> check_extents() const;

  int size() const { return count_; }
  const Operand& operator[](int i) const { return all_[static_cast<size_t>(i)]; }
  Operand& operator[](int i) { return all_[static_cast<size_t>(i)]; }
  const Operand* begin() const { return all_.data(); }
  const Operand* end() const { return all_.data() + count_; }

 private:
  std::array<Operand, kMost> all_{};
  int count_ = 0;
  int too_large_ = -1;  // index of the first operand whose byte count overflows; -1: none
  Extents too_large_extents_{};
};

/// The pointers of one call, in the order of the operand table.
struct Pointers {
  std::array<const void*, Operands::kMost> at{};
  u32 skipped = 0;           // bit i: this call does not access operand i
  i64 workspace_bytes = -1;  // size of the scratch operand in bytes; negative: assume that it is large enough
  const char* const* names = nullptr;  // the caller's names of the first `named` operands; null: the table's
  int named = 0;

  void skip_if(bool condition, int operand) { skipped |= condition ? 1u << operand : 0u; }
};

/// Returns operand i's name in an error message: the caller's, or the table's.
inline const char* name_of(const Operands& operands, const Pointers& pointers, int i) {
  const bool given = i < pointers.named && pointers.names[i] != nullptr;
  return given ? pointers.names[i] : operands[i].name;
}

inline bool follows(const Operands& operands, const Pointers& pointers, int i) {
  return operands[i].used && (pointers.skipped >> i & 1u) == 0;
}

/// Checks the pointers' values without asking the driver. Errors: invalid_pointer (null), misaligned,
/// workspace (too small), and check_apart's.
Result<void> check_pointers(const Operands& operands, const Pointers& pointers);
/// Error aliasing: a written operand shares a byte with another operand. Also works for pointers to host
/// memory.
Result<void> check_apart(const Operands& operands, const Pointers& pointers);
/// Asks the driver which device owns each used pointer that was not checked before. Errors: invalid_pointer
/// (host memory), wrong_device, driver.
Result<void> check_owners(const PrimaryContext& primary, const Operands& operands, const Pointers& pointers);
/// Error wrong_device: a context of another device is current. It is fine if no context is current: a launch
/// uses the kernel's own.
Result<void> check_context(const PrimaryContext& primary);

/// Error invalid_argument: a norm's epsilon is negative or NaN.
Result<void> check_epsilon(float epsilon);
/// Error invalid_argument: the number of bytes to prefetch for a later launch (hand_off) is negative.
Result<void> check_hand_off(i64 bytes);

/// Error invalid_size: the number of rows or of columns is negative.
Result<void> check_counts(i64 rows, i64 columns);
/// Sets a pitch of 0 to the number of columns. Error invalid_stride: there are several rows and they overlap.
Result<void> take_pitch(const char* name, i64& ld, i64 columns, i64 rows);

}  // namespace sluice
