// SPDX-License-Identifier: Apache-2.0
// 128-bit digests, which name cache entries and verify their bytes. They do not protect against forgery and
// need not: only this user writes into the folder (cache_directory.h). Every entry contains its full key, so
// a collision does no harm.
#pragma once

#include <string>
#include <string_view>

#include <sluice/spec/base.h>

namespace sluice {

struct Digest {
  u64 high = 0;
  u64 low = 0;

  bool operator==(const Digest&) const = default;
};

Digest digest(std::string_view bytes);
/// Returns 32 lower-case hexadecimal digits.
std::string hex(const Digest& value);

}  // namespace sluice
