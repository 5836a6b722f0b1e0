// SPDX-License-Identifier: Apache-2.0
// Lengths in a file are trusted only after the digest matches and their sum equals the file's size.
#include <sluice/run/jit/cache_entry.h>

#include <cstring>
#include <type_traits>

#include <sluice/run/jit/hash.h>

namespace sluice {
namespace {

constexpr u64 kMagic = 0x0a31656369756c73;  // "sluice1\n": a new layout gets a new digit

struct Header {
  u64 magic = kMagic;
  u64 key_bytes = 0;
  u64 compiler_bytes = 0;
  u64 log_bytes = 0;
  u64 image_bytes = 0;
  double seconds = 0;
  i32 registers = 0;
  i32 spill_bytes = 0;
  i32 stack_bytes = 0;
  i32 static_smem_bytes = 0;
};
static_assert(std::is_trivially_copyable_v<Header> && sizeof(Header) == 64,
              "no padding: it is written as it is");

template <class T>
std::string_view bytes_of_value(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(T)};
}

/// Takes `size` bytes from the front of `rest`; returns false if there are fewer.
bool take(std::string_view& rest, u64 size, std::string& out) {
  if (size > rest.size()) return false;
  out = rest.substr(0, size);
  rest.remove_prefix(size);
  return true;
}

}  // namespace

std::string encode_entry(std::string_view key, const Cubin& cubin) {
  const BuildReport& report = cubin.report;
  const Header header{.key_bytes = key.size(),
                      .compiler_bytes = report.compiler.size(),
                      .log_bytes = report.log.size(),
                      .image_bytes = cubin.image.size(),
                      .seconds = report.seconds,
                      .registers = report.registers,
                      .spill_bytes = report.spill_bytes,
                      .stack_bytes = report.stack_bytes,
                      .static_smem_bytes = report.static_smem_bytes};
  std::string bytes(bytes_of_value(header));
  ((bytes += key) += report.compiler) += report.log;
  bytes += cubin.image;
  bytes += bytes_of_value(digest(bytes));
  return bytes;
}

std::optional<CacheEntry> decode_entry(std::string_view bytes) {
  if (bytes.size() < sizeof(Header) + sizeof(Digest)) return std::nullopt;
  std::string_view rest = bytes.substr(0, bytes.size() - sizeof(Digest));
  if (bytes.substr(rest.size()) != bytes_of_value(digest(rest))) return std::nullopt;
  Header header;
  std::memcpy(&header, rest.data(), sizeof(Header));
  rest.remove_prefix(sizeof(Header));
  if (header.magic != kMagic) return std::nullopt;
  CacheEntry entry;
  BuildReport& report = entry.cubin.report;
  if (!take(rest, header.key_bytes, entry.key) || !take(rest, header.compiler_bytes, report.compiler) ||
      !take(rest, header.log_bytes, report.log) || !take(rest, header.image_bytes, entry.cubin.image) ||
      !rest.empty())
    return std::nullopt;
  report.seconds = header.seconds;
  report.registers = header.registers;
  report.spill_bytes = header.spill_bytes;
  report.stack_bytes = header.stack_bytes;
  report.static_smem_bytes = header.static_smem_bytes;
  return entry;
}

}  // namespace sluice
