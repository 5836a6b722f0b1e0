// SPDX-License-Identifier: Apache-2.0
#include <sluice/run/ops/operands.h>

#include <cstdio>

#include <sluice/run/driver/error.h>
#include <sluice/text.h>

namespace sluice {
namespace {

std::string range_text(const Operands& operands, const Pointers& pointers, int i) {
  return escaped(name_of(operands, pointers, i)) + " (" + hex(pointers.at[i]) + " + " +
         std::to_string(span_bytes(operands[i].memory)) + " bytes)";
}

/// Fills in `f`. Returns false if it reaches past 2^63 bytes.
bool footprint_of(i64 bytes, const Extents& e, Footprint& f) {
  i64 rows_span = 0, batches_span = 0, span = 0;
  f = {.rows = e.outer, .batches = e.batch};
  return !__builtin_mul_overflow(e.inner, bytes, &f.row_bytes) &&
         !__builtin_mul_overflow(e.ld, bytes, &f.row_pitch) &&
         !__builtin_mul_overflow(e.batch_stride, bytes, &f.batch_pitch) &&
         !__builtin_mul_overflow(e.outer - 1, f.row_pitch, &rows_span) &&
         !__builtin_mul_overflow(e.batch - 1, f.batch_pitch, &batches_span) &&
         !__builtin_add_overflow(rows_span, batches_span, &span) &&
         !__builtin_add_overflow(span, f.row_bytes, &span);
}

Result<void> check_pointer(const Operands& operands, const Pointers& pointers, int i) {
  const Operand& x = operands[i];
  const void* pointer = pointers.at[i];
  const auto name = [&] { return escaped(name_of(operands, pointers, i)); };
  const i64 bytes = span_bytes(x.memory);
  if (pointer == nullptr)
    return Error{ErrorCode::invalid_pointer,
                 name() + " is null: pass device memory of " + std::to_string(bytes) + " bytes" + x.without};
  if (reinterpret_cast<u64>(pointer) % static_cast<u64>(x.alignment) != 0)
    return Error{ErrorCode::misaligned, name() + " = " + hex(pointer) + ": must be a multiple of " +
                                            std::to_string(x.alignment) + " bytes because " + x.because +
                                            "; " + x.remedy};
  if (x.role != Role::scratch || pointers.workspace_bytes < 0 || pointers.workspace_bytes >= bytes) return {};
  return Error{ErrorCode::workspace, name() + " has " + std::to_string(pointers.workspace_bytes) +
                                         " bytes and needs " + std::to_string(bytes) + ": make it larger" +
                                         x.without};
}

Error aliasing_error(const Operands& operands, const Pointers& pointers, int written, int other) {
  const Operand &w = operands[written], &x = operands[other];
  const std::string name = escaped(name_of(operands, pointers, written));
  std::string why = "give " + name + " its own memory";
  if (x.may_be == written)
    why = escaped(name_of(operands, pointers, other)) + " may be " + name +
          " itself, with the same type and strides, or must lie apart from it";
  else if (w.role == Role::scratch)
    why = "partial sums would be written over it; " + why;
  else if (!is_written(x.role))
    why = "it is read while " + name + " is written; " + why;
  return {ErrorCode::aliasing, range_text(operands, pointers, written) + " overlaps " +
                                   range_text(operands, pointers, other) + ": " + why};
}

Result<void> check_apart_from(const Operands& operands, const Pointers& pointers, int written) {
  const auto placed = [&](int i) {
    return Placed{reinterpret_cast<u64>(pointers.at[i]), operands[i].memory};
  };
  for (int i = 0; i < operands.size(); ++i) {
    // The operand itself, or a pair that was compared already.
    const bool seen = i >= written && is_written(operands[i].role);
    if (seen || !follows(operands, pointers, i) || !overlap(placed(written), placed(i))) continue;
    const bool in_place = operands[i].may_be == written && operands[i].lies_like;
    if (in_place && pointers.at[i] == pointers.at[written]) continue;
    return aliasing_error(operands, pointers, written, i);
  }
  return {};
}

Result<void> check_owner(const PrimaryContext& primary, const char* name, const void* pointer) {
  if (primary.is_known_memory(pointer)) return {};
  unsigned kind = 0, managed = 0;  // both stay 0 if the driver does not know the memory
  int owner = primary.ordinal();
  CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                      CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  void* values[] = {&kind, &managed, &owner};
  const CUresult code =
      primary.api().cuPointerGetAttributes(3, attributes, values, reinterpret_cast<CUdeviceptr>(pointer));
  if (code != CUDA_SUCCESS)
    return driver_error(primary.api(), code, "cuPointerGetAttributes", escaped(name) + " = " + hex(pointer));
  if (managed == 0 && kind != CU_MEMORYTYPE_DEVICE)
    return Error{ErrorCode::invalid_pointer, escaped(name) + " = " + hex(pointer) +
                                                 ": must be device memory, and is host memory or none; "
                                                 "copy the data to the device first"};
  if (managed == 0 && owner != primary.ordinal())  // every device may access managed memory
    return Error{ErrorCode::wrong_device,
                 escaped(name) + " = " + hex(pointer) + ": is memory of device " + std::to_string(owner) +
                     ", the kernel was prepared for device " + std::to_string(primary.ordinal()) +
                     "; prepare it there or copy the data"};
  primary.remember_memory(pointer);
  return {};
}

}  // namespace

bool overlap(const Placed& x, const Placed& y) {
  const u64 x_end = x.address + static_cast<u64>(span_bytes(x.memory));
  const u64 y_end = y.address + static_cast<u64>(span_bytes(y.memory));
  if (x_end <= y.address || y_end <= x.address) return false;
  const auto in_columns = [](const Footprint& f, i64 pitch) {
    return f.row_bytes <= pitch && (f.rows == 1 || f.row_pitch == pitch) &&
           (f.batches == 1 || f.batch_pitch % pitch == 0);
  };
  const i64 pitch = x.memory.rows > 1 ? x.memory.row_pitch : y.memory.row_pitch;
  if (pitch <= 0 || !in_columns(x.memory, pitch) || !in_columns(y.memory, pitch)) return true;
  // Both matrices are column ranges of one row pitch, `pitch` bytes. `ahead`: first column of x relative to
  // y's, in bytes.
  const u64 width = static_cast<u64>(pitch);
  const u64 ahead = (x.address % width + width - y.address % width) % width;
  return ahead < static_cast<u64>(y.memory.row_bytes) || ahead + x.memory.row_bytes > width;
}

void Operands::add(const Operand& operand, const Extents& extents) {
  Operand& x = all_[static_cast<size_t>(count_++)];
  x = operand;
  const int element = x.type ? bytes_of(*x.type) : 1;
  if (x.alignment == 0) x.alignment = element;
  if (!x.used || footprint_of(element, extents, x.memory) || too_large_ >= 0) return;
  too_large_ = count_ - 1;
  too_large_extents_ = extents;
}

Result<void> Operands::check_extents() const {
  if (too_large_ < 0) return {};
  const Extents& e = too_large_extents_;
  return Error{ErrorCode::invalid_size,
               std::string((*this)[too_large_].name) + ": " + std::to_string(e.batch) + " matrices of " +
                   std::to_string(e.outer) + " rows, ld " + std::to_string(e.ld) + ", batch_stride " +
                   std::to_string(e.batch_stride) + " reach past 2^63 bytes; make the strides smaller"};
}

Result<void> check_pointers(const Operands& operands, const Pointers& pointers) {
  for (int i = 0; i < operands.size(); ++i)
    if (follows(operands, pointers, i))
      if (Result<void> good = check_pointer(operands, pointers, i); !good) return good;
  return check_apart(operands, pointers);
}

Result<void> check_apart(const Operands& operands, const Pointers& pointers) {
  for (int i = operands.size() - 1; i >= 0; --i)
    if (is_written(operands[i].role) && follows(operands, pointers, i))
      if (Result<void> apart = check_apart_from(operands, pointers, i); !apart) return apart;
  return {};
}

Result<void> check_owners(const PrimaryContext& primary, const Operands& operands, const Pointers& pointers) {
  for (int i = 0; i < operands.size(); ++i)
    if (follows(operands, pointers, i))
      if (Result<void> owned = check_owner(primary, name_of(operands, pointers, i), pointers.at[i]); !owned)
        return owned;
  return {};
}

Result<void> check_context(const PrimaryContext& primary) {
  const DriverApi& api = primary.api();
  CUcontext current = nullptr;
  if (const CUresult code = api.cuCtxGetCurrent(&current); code != CUDA_SUCCESS)
    return driver_error(api, code, "cuCtxGetCurrent");
  if (current == nullptr || current == primary.handle()) return {};
  CUdevice device = 0;  // another context, such as a green context, may belong to the same device
  if (const CUresult code = api.cuCtxGetDevice(&device); code != CUDA_SUCCESS)
    return driver_error(api, code, "cuCtxGetDevice");
  if (device == primary.device()) return {};
  return Error{ErrorCode::wrong_device, "the current context is of device " + std::to_string(device) +
                                            ", the kernel was prepared for device " +
                                            std::to_string(primary.ordinal()) + ": call cudaSetDevice(" +
                                            std::to_string(primary.ordinal()) + ") or prepare it there"};
}

Result<void> check_epsilon(float epsilon) {
  if (epsilon >= 0.0f) return {};
  char value[32];
  std::snprintf(value, sizeof value, "%g", static_cast<double>(epsilon));
  return Error{ErrorCode::invalid_argument,
               std::string("epsilon = ") + value + ": must be 0 or more; 1e-5 is usual"};
}

Result<void> check_hand_off(i64 bytes) {
  if (bytes >= 0) return {};
  return Error{ErrorCode::invalid_argument,
               "hand_off.bytes = " + std::to_string(bytes) + ": must not be negative; 0 is nothing"};
}

Result<void> check_counts(i64 rows, i64 columns) {
  if (rows >= 0 && columns >= 0) return {};
  return Error{ErrorCode::invalid_size, "rows = " + std::to_string(rows) + ", columns = " +
                                            std::to_string(columns) + ": must not be negative"};
}

Result<void> take_pitch(const char* name, i64& ld, i64 columns, i64 rows) {
  if (ld == 0) ld = columns;
  if (ld >= columns || rows <= 1) return {};
  return Error{ErrorCode::invalid_stride, std::string(name) + " = " + std::to_string(ld) +
                                              " must be at least " + std::to_string(columns) +
                                              ", the columns; 0 is packed"};
}

}  // namespace sluice
