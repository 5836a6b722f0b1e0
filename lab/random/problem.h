// SPDX-License-Identifier: Apache-2.0
// Random problems for `sluice_lab verify` and tests: all types, layouts, epilogues and batches, and hard
// sizes (edges of tiles, ones, odd numbers). Each problem is valid. The same (seed, index) always gives the
// same problem.
#pragma once

#include <optional>

#include <sluice/result.h>
#include <sluice/spec/packed.h>
#include <sluice/spec/problem.h>

namespace sluice::lab {

struct RandomSpec {
  u64 seed = 1;
  i64 largest = 1024;      // upper limit of m, n and k; for convolutions, its cube limits the multiply-adds
  bool exact = true;       // true: the data are whole numbers, so GELU and SiLU are left out
  bool scattered = false;  // true: only 16-bit inputs with any strides and addresses
  bool groups = false;     // true: one in six products has rows of groups, where its layouts allow that
  bool slots = false;      // true: some of those by slots, which the host twin cannot run
};

Problem random_problem(const RandomSpec& spec, int index);
/// The product of a random convolution. `op`: which kind; empty: a random one. Errors: those of
/// conv::problem, since a random geometry may exceed a limit of the copy engine.
Result<Problem> random_conv(const RandomSpec& spec, std::optional<ConvOp> op, int index);

/// A weight format with some parts fixed and the others chosen at random.
struct FormatSpec {
  WeightFormat fixed;
  bool any_group = false, any_scale = false, any_zero = false;
};
Problem random_packed_problem(const RandomSpec& spec, const FormatSpec& formats, int index);

}  // namespace sluice::lab
