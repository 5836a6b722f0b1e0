// SPDX-License-Identifier: Apache-2.0
// What norms and quantisers refuse before they ask a driver: what they are made of, their sizes, their
// arguments. Called where they are made and launched, and by chains, which refuse before their first launch.
#pragma once

#include <sluice/norm.h>
#include <sluice/quantize.h>

namespace sluice {

/// Errors: those of Norm::create that need no compiler.
Result<void> check_options(const NormOptions& options);
/// Errors: invalid_size, invalid_stride.
Result<void> check_shape(const NormOptions& options, const NormShape& shape);
/// All that Norm::launch refuses by value alone.
Result<void> check_values(const NormOptions& options, const NormShape& shape, const NormArgs& args);

/// Errors: those of Quantizer::create that need no compiler.
Result<void> check_options(const QuantizerOptions& options);
/// Errors: invalid_size, invalid_stride.
Result<void> check_shape(const QuantizerOptions& options, const QuantizeShape& shape);
/// All that Quantizer::launch refuses by value alone.
Result<void> check_values(const QuantizerOptions& options, const QuantizeShape& shape,
                          const QuantizeArgs& args);

}  // namespace sluice
