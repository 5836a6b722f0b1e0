// SPDX-License-Identifier: Apache-2.0
// The arrays of a packing, and that what is written shares no byte with another one: on a GPU (pack.cc) and
// on the host (c_api/packing.cc) alike.
#pragma once

#include <sluice/pack.h>

namespace sluice {

/// One array of a call, whichever way its bytes go.
struct PackArray {
  const char* name;
  const void* data;
  i64 bytes;
  i64 alignment;
};

/// Blob, codes, scales, zeros. Those without bytes may be null.
struct PackArrays {
  PackArray all[4];
};
PackArrays arrays_of(const PackConfig& config, const PackShape& shape, const PackParams& p);

/// Error aliasing. Arrays without bytes or memory are apart from all.
Result<void> check_apart(const PackConfig& config, const PackArrays& arrays);

}  // namespace sluice
