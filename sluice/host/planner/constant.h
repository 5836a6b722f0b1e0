// SPDX-License-Identifier: Apache-2.0
// A row of a table of numbers. costs.h holds those of the cost models, constants.h those of the search.
#pragma once

#include <sluice/spec/base.h>

namespace sluice {

/// Kinds of constants. device: times that were fitted on one H200, and are taken to hold for every Hopper;
/// its rates are DeviceInfo's. sm: clocks of a Hopper SM. model: how terms are joined. search: what is tried,
/// and what is preferred.
enum class Origin : u8 { device, sm, model, search };
const char* name_of(Origin origin);

/// A row of the table.
template <class Set, class Number = double>
struct Constant {
  const char* name;
  Number Set::*member;
  Number value;
  const char* unit;
  Origin origin;
  const char* meaning;
  const char* source;          // a page of docs, or the measurement
  double least = 0, most = 0;  // physical limits for sluice_fit; both 0: it moves other constants only
};

}  // namespace sluice
