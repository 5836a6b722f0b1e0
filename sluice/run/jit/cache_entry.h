// SPDX-License-Identifier: Apache-2.0
// The bytes of one cache file:  header | key text | compiler | log | image | digest of all before it.
// Invariant: decode_entry(encode_entry(key, cubin)) returns both, and it fails if any byte is changed,
// missing or added. Called by cache.cc.
#pragma once

#include <optional>

#include <sluice/run/jit/build_report.h>

namespace sluice {

struct CacheEntry {
  std::string key;  // the full text; the file's name has only its digest
  Cubin cubin;
};

std::string encode_entry(std::string_view key, const Cubin& cubin);
std::optional<CacheEntry> decode_entry(std::string_view bytes);

}  // namespace sluice
