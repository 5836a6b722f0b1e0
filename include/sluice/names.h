// SPDX-License-Identifier: Apache-2.0
// Enumerators by name: "bf16", "ping_pong", "along_m". One row per enumeration of problems and plans: the C++
// name and the last enumerator. All count from 0. Printers, parsers, flags and range checks read this table.
//   std::optional<sluice::DType> type = sluice::enumerator_named<sluice::DType>("e4m3");
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include <sluice/plan.h>
#include <sluice/spec/norm.h>
#include <sluice/spec/pack.h>
#include <sluice/spec/quantize.h>

namespace sluice {

template <class Enum>
struct Enumeration;
#define SLUICE_ENUMERATION(Enum, last)                        \
  template <>                                                 \
  struct Enumeration<Enum> {                                  \
    static constexpr const char* kType = #Enum;               \
    static constexpr int kCount = static_cast<int>(last) + 1; \
  }
SLUICE_ENUMERATION(DType, DType::e8m0);
SLUICE_ENUMERATION(Major, Major::mn);
SLUICE_ENUMERATION(Accumulate, Accumulate::promoted);
SLUICE_ENUMERATION(ScaleMode, ScaleMode::vector128);
SLUICE_ENUMERATION(Bias, Bias::row);
SLUICE_ENUMERATION(Activation, kLastActivation);
SLUICE_ENUMERATION(Update, Update::add);
SLUICE_ENUMERATION(Schedule, Schedule::strip);
SLUICE_ENUMERATION(Load, Load::strided);
SLUICE_ENUMERATION(StorePath, StorePath::direct);
SLUICE_ENUMERATION(Combine, Combine::add);
SLUICE_ENUMERATION(Raster, Raster::along_n);
SLUICE_ENUMERATION(Numbering, Numbering::gpc);
SLUICE_ENUMERATION(Wait, Wait::weights_first);
SLUICE_ENUMERATION(Trigger, Trigger::after_loads);
SLUICE_ENUMERATION(Spacing, Spacing::even);
SLUICE_ENUMERATION(WeightType, WeightType::none);
SLUICE_ENUMERATION(ScaleZero, ScaleZero::per_group);
SLUICE_ENUMERATION(FragmentOrder, FragmentOrder::byte);
SLUICE_ENUMERATION(ConvOp, ConvOp::wgrad);
SLUICE_ENUMERATION(GroupKind, GroupKind::slots);

template <class T>
concept Enumerated = requires {
  Enumeration<T>::kCount;
};

template <Enumerated Enum>
constexpr bool is_enumerator(Enum value) {
  return static_cast<int>(value) < Enumeration<Enum>::kCount;  // underlying types are unsigned
}

/// Returns the names as a list: "fast, promoted".
template <Enumerated Enum>
std::string names_of() {
  std::string names;
  for (int i = 0; i < Enumeration<Enum>::kCount; ++i)
    names += (i == 0 ? "" : ", ") + std::string(name_of(static_cast<Enum>(i)));
  return names;
}

template <Enumerated Enum>
std::optional<Enum> enumerator_named(std::string_view name) {
  for (int i = 0; i < Enumeration<Enum>::kCount; ++i)
    if (name == name_of(static_cast<Enum>(i))) return static_cast<Enum>(i);
  return std::nullopt;
}

}  // namespace sluice
