// SPDX-License-Identifier: Apache-2.0
// See enumerators.h. The last enumerator of each enumeration stands here once.
#include <sluice/host/planner/enumerators.h>

#include <string>

namespace sluice {
namespace {

constexpr DType last_of(DType) {
  return DType::e5m2;
}
constexpr Major last_of(Major) {
  return Major::mn;
}
constexpr Accumulate last_of(Accumulate) {
  return Accumulate::promoted;
}
constexpr ScaleMode last_of(ScaleMode) {
  return ScaleMode::block;
}
constexpr Bias last_of(Bias) {
  return Bias::row;
}
constexpr Activation last_of(Activation) {
  return Activation::silu;
}
constexpr Update last_of(Update) {
  return Update::add;
}
constexpr WeightType last_of(WeightType) {
  return WeightType::e4m3;
}
constexpr ScaleZero last_of(ScaleZero) {
  return ScaleZero::per_group;
}
constexpr FragmentOrder last_of(FragmentOrder) {
  return FragmentOrder::byte;
}
constexpr Schedule last_of(Schedule) {
  return Schedule::plain_wgmma;
}
constexpr StorePath last_of(StorePath) {
  return StorePath::direct;
}
constexpr Raster last_of(Raster) {
  return Raster::along_n;
}
constexpr Numbering last_of(Numbering) {
  return Numbering::gpc;
}
constexpr Combine last_of(Combine) {
  return Combine::add;
}

template <class Enum>
bool is_enumerator(Enum value) {
  return static_cast<int>(value) <= static_cast<int>(last_of(value));  // all begin at 0 and have no sign
}

/// Keeps the first error of several fields. Success allocates nothing.
class Fields {
 public:
  explicit Fields(ErrorCode code) : code_(code) {}

  template <class Enum>
  Fields& check(const char* name, Enum value) {
    if (!found_ || is_enumerator(value)) return *this;
    std::string names;
    for (int i = 0; i <= static_cast<int>(last_of(value)); ++i)
      names += (i == 0 ? "" : ", ") + std::string(name_of(static_cast<Enum>(i)));
    found_ =
        Error{code_, std::string(name) + " = " + std::to_string(static_cast<int>(value)) +
                         " must be one of the enumerators " + names + ": set it, or leave it at its default"};
    return *this;
  }
  template <class Enum>
  Fields& check(const char* name, const std::optional<Enum>& value) {
    return value ? check(name, *value) : *this;
  }
  const Result<void>& found() const { return found_; }

 private:
  ErrorCode code_;
  Result<void> found_;
};

}  // namespace

Result<void> check_enumerators(const Problem& p) {
  const Epilogue& e = p.epilogue;
  return Fields(ErrorCode::invalid_type)
      .check("a.type", p.a.type)
      .check("a.major", p.a.major)
      .check("b.type", p.b.type)
      .check("b.major", p.b.major)
      .check("c.type", p.c.type)
      .check("c.major", p.c.major)
      .check("d.type", p.d.type)
      .check("d.major", p.d.major)
      .check("accumulate", p.accumulate)
      .check("epilogue.scale_a", e.scale_a)
      .check("epilogue.scale_b", e.scale_b)
      .check("epilogue.bias", e.bias)
      .check("epilogue.bias_type", e.bias_type)
      .check("epilogue.activation", e.activation)
      .check("epilogue.c_type", e.c_type)
      .check("epilogue.update", e.update)
      .check("epilogue.scale_d", e.scale_d)
      .found();
}

Result<void> check_enumerators(const PackedProblem& p) {
  return Fields(ErrorCode::invalid_type)
      .check("x", p.x)
      .check("scale_x", p.scale_x)
      .check("d", p.d)
      .check("weights.type", p.weights.type)
      .check("weights.scale", p.weights.scale)
      .check("weights.zero", p.weights.zero)
      .check("weights.order", p.weights.order)
      .check("bias", p.bias)
      .check("bias_type", p.bias_type)
      .check("activation", p.activation)
      .check("scale_d", p.scale_d)
      .found();
}

Result<void> check_overrides(const PlanOverrides& o) {
  if (o.workspace_limit.value_or(0) < 0)
    return Error{ErrorCode::invalid_config, "workspace_limit = " + std::to_string(*o.workspace_limit) +
                                                " must be at least 0, the bytes a plan may ask for; 0: none"};
  return Fields(ErrorCode::invalid_config)
      .check("schedule", o.schedule)
      .check("store", o.store)
      .check("raster", o.raster)
      .check("numbering", o.numbering)
      .check("combine", o.combine)
      .found();
}

}  // namespace sluice
