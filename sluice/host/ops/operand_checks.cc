// SPDX-License-Identifier: Apache-2.0
#include <sluice/host/ops/operand_checks.h>

#include <cstdio>

#include <sluice/host/driver/error.h>

namespace sluice {

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
  // Both fill whole columns of one grid of `pitch` bytes: where does x start, counted from y's first column?
  const u64 width = static_cast<u64>(pitch);
  const u64 ahead = (x.address % width + width - y.address % width) % width;
  return ahead < static_cast<u64>(y.memory.row_bytes) || ahead + x.memory.row_bytes > width;
}

Result<Footprint> footprint_of(const char* name, DType type, const Extents& e) {
  const i64 bytes = bytes_of(type);
  Footprint f{.rows = e.outer, .batches = e.batch};
  i64 rows_span = 0, batches_span = 0, span = 0;
  const bool fits = !__builtin_mul_overflow(e.inner, bytes, &f.row_bytes) &&
                    !__builtin_mul_overflow(e.ld, bytes, &f.row_pitch) &&
                    !__builtin_mul_overflow(e.batch_stride, bytes, &f.batch_pitch) &&
                    !__builtin_mul_overflow(e.outer - 1, f.row_pitch, &rows_span) &&
                    !__builtin_mul_overflow(e.batch - 1, f.batch_pitch, &batches_span) &&
                    !__builtin_add_overflow(rows_span, batches_span, &span) &&
                    !__builtin_add_overflow(span, f.row_bytes, &span);
  if (!fits)
    return Error{ErrorCode::invalid_size,
                 std::string(name) + ": " + std::to_string(e.batch) + " matrices of " +
                     std::to_string(e.outer) + " rows, ld " + std::to_string(e.ld) + ", batch_stride " +
                     std::to_string(e.batch_stride) + " reach past 2^63 bytes; make the strides smaller"};
  return f;
}

Result<void> check_alignment(const OperandRule& rule, const void* pointer, const char* remedy) {
  if (reinterpret_cast<u64>(pointer) % static_cast<u64>(rule.alignment) == 0) return {};
  return Error{ErrorCode::misaligned, std::string(rule.name) + " = " + hex(pointer) +
                                          ": must be a multiple of " + std::to_string(rule.alignment) +
                                          " bytes because " + rule.because + remedy};
}

Result<void> check_epsilon(float epsilon) {
  if (epsilon >= 0.0f) return {};
  char value[32];
  std::snprintf(value, sizeof value, "%g", static_cast<double>(epsilon));
  return Error{ErrorCode::invalid_argument,
               std::string("epsilon = ") + value + ": must be 0 or more; 1e-5 is usual"};
}

Result<void> check_owner(const PrimaryContext& primary, const char* name, const void* pointer) {
  if (primary.is_known_memory(pointer)) return {};
  unsigned kind = 0, managed = 0;  // stay 0 for memory the driver does not know
  int owner = primary.ordinal();
  CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                      CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  void* values[] = {&kind, &managed, &owner};
  const CUresult code =
      primary.api().cuPointerGetAttributes(3, attributes, values, reinterpret_cast<CUdeviceptr>(pointer));
  if (code != CUDA_SUCCESS)
    return driver_error(primary.api(), code, "cuPointerGetAttributes",
                        std::string(name) + " = " + hex(pointer));
  if (managed == 0 && kind != CU_MEMORYTYPE_DEVICE)
    return Error{ErrorCode::invalid_pointer, std::string(name) + " = " + hex(pointer) +
                                                 ": must be device memory, and is host memory or none; "
                                                 "copy the data to the device first"};
  if (managed == 0 && owner != primary.ordinal())  // any device may follow managed memory
    return Error{ErrorCode::wrong_device,
                 std::string(name) + " = " + hex(pointer) + ": is memory of device " + std::to_string(owner) +
                     ", the kernel was prepared for device " + std::to_string(primary.ordinal()) +
                     "; prepare it there or copy the data"};
  primary.remember_memory(pointer);
  return {};
}

Result<void> check_context(const PrimaryContext& primary) {
  const DriverApi& api = primary.api();
  CUcontext current = nullptr;
  if (const CUresult code = api.cuCtxGetCurrent(&current); code != CUDA_SUCCESS)
    return driver_error(api, code, "cuCtxGetCurrent");
  if (current == nullptr || current == primary.handle()) return {};
  CUdevice device = 0;  // another context may still be one of our device, e.g. a green one
  if (const CUresult code = api.cuCtxGetDevice(&device); code != CUDA_SUCCESS)
    return driver_error(api, code, "cuCtxGetDevice");
  if (device == primary.device()) return {};
  return Error{ErrorCode::wrong_device, "the current context is of device " + std::to_string(device) +
                                            ", the kernel was prepared for device " +
                                            std::to_string(primary.ordinal()) + ": call cudaSetDevice(" +
                                            std::to_string(primary.ordinal()) + ") or prepare it there"};
}

std::string describe_range(const OperandRule& rule, const void* pointer) {
  return std::string(rule.name) + " (" + hex(pointer) + " + " + std::to_string(span_bytes(rule.memory)) +
         " bytes)";
}

}  // namespace sluice
