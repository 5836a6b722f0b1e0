// SPDX-License-Identifier: Apache-2.0
// Random problems for `sluice verify`: all types, layouts, epilogues, batches, and hard sizes: edges of
// tiles, ones, odd numbers. Each is legal; one (seed, index) always gives one problem.
#pragma once

#include <optional>

#include <sluice/result.h>
#include <sluice/spec/packed.h>
#include <sluice/spec/problem.h>

namespace sluice::cli {

struct RandomSpec {
  u64 seed = 1;
  i64 largest = 1024;      // m, n and k; of a convolution its cube bounds the multiply-adds
  bool exact = true;       // data will be whole numbers, so no GELU or SiLU
  bool scattered = false;  // 16-bit inputs with any strides and addresses only
};

Problem random_problem(const RandomSpec& spec, int index);
/// The product of a random convolution of `op`, or of any. Errors: those of conv::problem, as geometries may
/// pass a limit of the copy engine.
Result<Problem> random_conv(const RandomSpec& spec, std::optional<ConvOp> op, int index);

/// The fixed and the free parts of a weight format.
struct FormatSpec {
  WeightFormat fixed;
  bool any_group = false, any_scale = false, any_zero = false;
};
PackedProblem random_packed_problem(const RandomSpec& spec, const FormatSpec& formats, int index);

}  // namespace sluice::cli
