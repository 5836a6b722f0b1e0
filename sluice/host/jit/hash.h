// SPDX-License-Identifier: Apache-2.0
// 128-bit digests: the name of a cache entry and the check that its bytes are whole.
// Not a defence against a forger: nobody else can write into the cache directory (cache_directory.h), and
// every entry holds the full text of its key, so equal digests of unequal keys do no harm.
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
/// 32 lower-case hexadecimal digits.
std::string hex(const Digest& value);

}  // namespace sluice
