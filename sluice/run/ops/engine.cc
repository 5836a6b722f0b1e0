// SPDX-License-Identifier: Apache-2.0
#include <sluice/run/ops/engine.h>

namespace sluice::ops {

Result<std::shared_ptr<const Module>> Units::load(size_t unit, i64 most_smem, bool dependent) const {
  Result<std::shared_ptr<const Module>> module =
      device.impl().load_cubin(texts[unit], **cubins[unit], static_cast<int>(most_smem));
  if (module && dependent) SLUICE_TRY((*module)->check_waits());
  return module;
}

}  // namespace sluice::ops
