// SPDX-License-Identifier: Apache-2.0
#include <sluice/plan/field_checks.h>

#include <string>

#include <sluice/plan/text/field_text.h>
#include <sluice/try.h>

namespace sluice {
namespace {

/// Name of a nested field, "epilogue.bias" or "cluster_m"; built only for an error message.
struct Path {
  const char* name;
  const Path* outer = nullptr;
  const char* separator = ".";

  std::string text() const { return outer == nullptr ? name : outer->text() + separator + name; }
};

/// Keeps the first error of several fields. Allocates nothing if all are valid.
class FieldChecker {
 public:
  explicit FieldChecker(ErrorCode code) : code_(code) {}

  template <class T>
  void check(const T& value, const Path& path, const FieldRange* range) {
    if (!found_) return;
    if constexpr (kIsOptional<T>) {
      if (value) check(*value, path, range);
    } else if constexpr (Enumerated<T>) {
      if (!is_enumerator(value))
        refuse(path, static_cast<int>(value),
               "must be one of the enumerators " + names_of<T>() + ": set it, or leave it at its default");
    } else if constexpr (HasFields<T>) {
      const char* separator = range == nullptr ? "." : "_";
      for_each_field(value, [&](const auto& row, const auto& member) {
        check(member, {row.name, &path, separator}, range);
      });
    } else if constexpr (std::is_same_v<T, int>) {
      if (range != nullptr && (value < range->least || value > range->most))
        refuse(path, value, rule_of(*range) + "; give such a number, or leave it out");
    }
  }
  const Result<void>& found() const { return found_; }

 private:
  void refuse(const Path& path, int value, const std::string& rule) {
    found_ = Error{code_, path.text() + " = " + std::to_string(value) + " " + rule};
  }

  ErrorCode code_;
  Result<void> found_;
};

template <class T>
Result<void> check_all(const T& value, ErrorCode code) {
  FieldChecker checker(code);
  for_each_field(value, [&](const auto& row, const auto& member) {
    constexpr bool kIsOverride = kIsOptional<std::remove_cvref_t<decltype(member)>>;
    checker.check(member, {row.name}, kIsOverride ? &row.range : nullptr);
  });
  return checker.found();
}

}  // namespace

Result<void> check_enumerators(const Problem& problem) {
  return check_all(problem, ErrorCode::invalid_type);
}

Result<void> check_overrides(const PlanOverrides& overrides) {
  if (overrides.workspace_limit.value_or(0) < 0)
    return Error{ErrorCode::invalid_config,
                 "workspace_limit = " + std::to_string(*overrides.workspace_limit) +
                     " must be at least 0, the bytes a plan may ask for; 0: none"};
  return check_all(overrides, ErrorCode::invalid_config);
}

}  // namespace sluice
