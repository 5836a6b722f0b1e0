// SPDX-License-Identifier: Apache-2.0
// 128-bit digests name cache entries and verify their bytes. They are no defence against forgery and need not
// be: only this user writes into the folder (cache_directory.h). Every entry holds its full key, so a
// collision does no harm.
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
/// Gives 32 lower-case hexadecimal digits.
std::string hex(const Digest& value);

}  // namespace sluice
