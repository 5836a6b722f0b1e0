// SPDX-License-Identifier: Apache-2.0
// XXH3-128, from the header-only library xxhash (docs/dependencies.md).
#include <sluice/run/jit/hash.h>

#ifndef XXH_INLINE_ALL
#define XXH_INLINE_ALL
#endif
#include <xxhash.h>

namespace sluice {

Digest digest(std::string_view bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {.high = hash.high64, .low = hash.low64};
}

std::string hex(const Digest& value) {
  std::string text;
  for (const u64 half : {value.high, value.low})
    for (int shift = 60; shift >= 0; shift -= 4) text += "0123456789abcdef"[half >> shift & 15];
  return text;
}

}  // namespace sluice
