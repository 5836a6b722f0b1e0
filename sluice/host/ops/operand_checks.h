// SPDX-License-Identifier: Apache-2.0
// What every product checks of a pointer that it is given: null, alignment, overlap, whose memory it is; and
// of the current context. Success allocates nothing. Used by products, norms, quantisers, packers and chains.
#pragma once

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

/// From the first byte to one past the last.
constexpr i64 span_bytes(const Footprint& f) {
  return (f.batches - 1) * f.batch_pitch + (f.rows - 1) * f.row_pitch + f.row_bytes;
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
/// Error invalid_size: it reaches past 2^63 bytes.
Result<Footprint> footprint_of(const char* name, DType type, const Extents& e);

struct OperandRule {
  const char* name = "";
  bool used = false;
  int alignment = 1;         // bytes
  const char* because = "";  // of the alignment
  Footprint memory;
};

/// Error misaligned. `remedy`: what the caller can do.
Result<void> check_alignment(const OperandRule& rule, const void* pointer, const char* remedy);
/// Error invalid_argument: a norm's epsilon that is not 0 or more.
Result<void> check_epsilon(float epsilon);
/// Asks the driver whose memory the pointer is, unless it has been seen before. Errors: invalid_pointer
/// (host), wrong_device, driver.
Result<void> check_owner(const PrimaryContext& primary, const char* name, const void* pointer);
/// Error wrong_device: a context of another device is current. None is fine: the launch uses the kernel's.
Result<void> check_context(const PrimaryContext& primary);

/// "D (0x7f.. + 4096 bytes)"
std::string describe_range(const OperandRule& rule, const void* pointer);

}  // namespace sluice
