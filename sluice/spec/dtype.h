// SPDX-License-Identifier: Apache-2.0
// The element types and their properties. e8m0 is only a type of packed weights' scales: a byte b is 2^(b -
// 127), without a sign, and 255 is NaN (OCP Microscaling Formats, section 5.4.1). To add a type: one
// enumerator, one case in each function here, one specialisation in device/element.cuh and one in
// reference/element.h (docs/adding.md).
#pragma once

#include <sluice/spec/base.h>

namespace sluice {

enum class DType : u8 { bf16, fp16, fp32, e4m3, e5m2, e8m0 };
inline constexpr int kDTypeCount = 6;

SLUICE_HD constexpr int bits_of(DType type) {
  switch (type) {
    case DType::bf16:
    case DType::fp16: return 16;
    case DType::fp32: return 32;
    case DType::e4m3:
    case DType::e5m2:
    case DType::e8m0: return 8;
  }
  return 0;
}
SLUICE_HD constexpr int bytes_of(DType type) {
  return bits_of(type) / 8;
}
SLUICE_HD constexpr bool is_fp8(DType type) {
  return type == DType::e4m3 || type == DType::e5m2;
}
SLUICE_HD constexpr bool is_16bit(DType type) {
  return type == DType::bf16 || type == DType::fp16;
}

/// True for the types of bias and C, and of scales that are numbers of their own.
SLUICE_HD constexpr bool is_addend(DType type) {
  return is_16bit(type) || type == DType::fp32;
}

/// True for the types of A and B.
SLUICE_HD constexpr bool is_input(DType type) {
  return type != DType::fp32 && type != DType::e8m0;
}
/// True for the types of D. e5m2 is only an input type.
SLUICE_HD constexpr bool is_output(DType type) {
  return type != DType::e5m2 && type != DType::e8m0;
}

/// k of one WGMMA instruction: always 32 bytes of the operand (PTX ISA, wgmma.mma_async shapes).
SLUICE_HD constexpr int mma_k(DType type) {
  return 32 / bytes_of(type);
}
/// k of one stage: one 128-byte swizzle row of the operand.
SLUICE_HD constexpr int k_block(DType type) {
  return 128 / bytes_of(type);
}

SLUICE_HD constexpr const char* name_of(DType type) {
  switch (type) {
    case DType::bf16: return "bf16";
    case DType::fp16: return "fp16";
    case DType::fp32: return "fp32";
    case DType::e4m3: return "e4m3";
    case DType::e5m2: return "e5m2";
    case DType::e8m0: return "e8m0";
  }
  return "?";
}

}  // namespace sluice
