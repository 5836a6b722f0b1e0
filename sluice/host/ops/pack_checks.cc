// SPDX-License-Identifier: Apache-2.0
// See pack_checks.h.
#include <sluice/host/ops/pack_checks.h>

#include <string>

#include <sluice/host/driver/error.h>

namespace sluice {
namespace {

Result<void> apart(const PackArray& written, const PackArray& other) {
  const u64 first = reinterpret_cast<u64>(written.data), second = reinterpret_cast<u64>(other.data);
  if (written.bytes == 0 || other.bytes == 0 || first == 0 || second == 0 ||
      first >= second + static_cast<u64>(other.bytes) || second >= first + static_cast<u64>(written.bytes))
    return {};
  return Error{ErrorCode::aliasing, std::string(written.name) + " (" + hex(written.data) + ") overlaps " +
                                        other.name + " (" + hex(other.data) + "): give it its own memory"};
}

}  // namespace

PackArrays arrays_of(const PackConfig& config, const PackShape& shape, const PackParams& p) {
  const WeightFormat& f = config.format;
  const i64 scales = shape.n * group_count(f, shape.k) * bytes_of(f.scale);
  return {{{"blob", p.blob, blob_bytes(f, shape.n, shape.k), kLaneBytes},
           {"codes", p.codes, shape.n * code_row_bytes(config.codes, shape.k), 1},
           {"scales", p.scales, scales, bytes_of(f.scale)},
           {"zeros", p.zeros, f.zero == ScaleZero::per_group ? scales : 0, bytes_of(f.scale)}}};
}

Result<void> check_apart(const PackConfig& config, const PackArrays& arrays) {
  const auto& [blob, codes, scales, zeros] = arrays.all;
  for (const PackArray* other : {&codes, &scales, &zeros})
    if (Result<void> good = apart(blob, *other); !good) return good;
  if (config.step == PackStep::pack) return {};
  if (Result<void> good = apart(codes, scales); !good) return good;
  if (Result<void> good = apart(codes, zeros); !good) return good;
  return apart(scales, zeros);
}

}  // namespace sluice
