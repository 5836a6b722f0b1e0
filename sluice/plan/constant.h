// SPDX-License-Identifier: Apache-2.0
// A row of the planner's tables of constants. costs.h declares those of the cost models, constants.h those of
// the search.
#pragma once

#include <sluice/spec/base.h>

namespace sluice {

/// Where a constant comes from: - device: a time fitted on one H200 and assumed for every Hopper; a card's
/// own rates are in DeviceInfo. - sm: clocks of a Hopper SM. - model: how the terms of an estimate are
/// combined. - search: which plans are tried, and which are preferred.
enum class Origin : u8 { device, sm, model, search };
const char* name_of(Origin origin);

/// A row of the table: the member of the set, its value, and their documentation.
template <class Set, class Number = double>
struct Constant {
  const char* name;
  Number Set::*member;
  Number value;
  const char* unit;
  Origin origin;
  const char* meaning;
  const char* source;          // a page of docs, or a description of the measurement
  double least = 0, most = 0;  // physical limits for sluice_lab fit; both 0: it does not fit this constant
};

}  // namespace sluice
