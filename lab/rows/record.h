// SPDX-License-Identifier: Apache-2.0
// Writes the results of `sluice_lab rows` as JSON: schema "sluice-rows-1". Machine, versions and method are
// written as by the bench.
#pragma once

#include <span>
#include <string>

#include <sluice/bench/record.h>

#include "lab/rows/rows.h"

namespace sluice::lab {

using namespace bench;

struct RowsSummary {
  int layers = 0, points = 0, timed = 0;  // timed: points where the two kernels differ
  double mean_loss = 0, worst_loss = 0;   // mean over drawn points; maximum over all points
  int most_kernels = 0;                   // largest number of kernels of one layer
  double worst_call_us = 0;
  bool all_right = true;
};
RowsSummary summarise(std::span<const RowsRecord> layers);

std::string to_json(const RunRecord& run, const RowsMethod& method, std::span<const RowsRecord> layers);

}  // namespace sluice::lab
