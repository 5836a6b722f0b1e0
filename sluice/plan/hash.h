// SPDX-License-Identifier: Apache-2.0
// A hash for keys made of numbers: problems, and the recipes of tuning records.
#pragma once

#include <initializer_list>

#include <sluice/spec/base.h>

namespace sluice {

/// Hashes the sizes and strides that usually differ between problems. It need not cover every field: hash
/// maps compare keys on a collision.
inline u64 hash_of(std::initializer_list<i64> values) {
  u64 hash = 0;
  for (const i64 value : values) hash = (hash ^ static_cast<u64>(value)) * 0x9E3779B97F4A7C15u + (hash >> 29);
  return hash;
}

}  // namespace sluice
