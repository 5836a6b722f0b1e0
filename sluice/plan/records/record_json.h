// SPDX-License-Identifier: Apache-2.0
// Writes and reads a record's JSON: a Writer writes fields, a Reader reads them and keeps the first broken
// rule. Both have the same functions, so that record.cc lists each field only once. Only JSON calls that
// cannot throw are used.
#pragma once

#include <algorithm>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <sluice/names.h>
#include <sluice/plan/records/record.h>
#include <sluice/plan/text/json_text.h>
#include <sluice/plan/text/norm_units.h>
#include <sluice/text.h>

namespace sluice {
SLUICE_ENUMERATION(Sums, Sums::vector128);
SLUICE_ENUMERATION(ActivationCost, ActivationCost::silu);
SLUICE_ENUMERATION(Adding, Adding::any_order);
SLUICE_ENUMERATION(NormStore, NormStore::row_block);
SLUICE_ENUMERATION(Granularity, Granularity::square_block);
SLUICE_ENUMERATION(Gate, Gate::silu);
}  // namespace sluice

namespace sluice::record_json {

inline constexpr i64 kMaxInt = (i64{1} << 31) - 1;
inline constexpr double kMaxUs = 1e9;         // a quarter of an hour
inline constexpr std::size_t kMaxText = 200;  // names and versions are shorter
inline constexpr const char* kRemedy = "; remove the record or tune the problem again";

struct Range {
  i64 low, high;
};

inline double rounded(double value) {
  return std::round(value * 1000) / 1000;
}

class Writer {
 public:
  template <class Int>
  void number(const char* name, const Int& value, Range) {
    json_[name] = value;
  }
  void number_or(const char* name, int usual, const int& value, Range range) {
    if (value != usual) number(name, value, range);
  }
  /// A field that kernels had before 0.3; version 0.2 still asks for it if `written`.
  void removed(const char* name, int usual, bool written) {
    if (written) json_[name] = usual;
  }
  /// Writes slices along k as the number of tiles that are cut, which is what records before 0.3 have; 0:
  /// none.
  void slices(const char* name, const int& slices, const int& clusters) {
    json_[name] = slices > 1 ? clusters / slices : 0;
  }
  template <class Enum>
  void choice(const char* name, const Enum& value, std::type_identity_t<bool (*)(Enum)> = nullptr) {
    json_[name] = name_of(value);
  }
  template <class Enum>
  void choice_or(const char* name, Enum usual, const Enum& value) {
    if (value != usual) choice(name, value);
  }
  /// A flag as one of two enumerators; the second is left out.
  template <class Enum>
  void choice_if(const char* name, const bool& flag, Enum set, Enum) {
    if (flag) choice(name, set);
  }
  void decoder(const char* name, const Schedule& schedule) { json_[name] = name_of(schedule); }
  /// A number as a multiple of `unit`.
  void number_of(const char* name, int unit, const int& value, Range range) {
    number(name, value / unit, range);
  }
  /// A number that is 0 or `whole`, as a flag.
  void number_if(const char* name, const int& value, int) { flag_if(name, value != 0); }
  /// A field that follows from others and is not written.
  template <class Value>
  void same(const Value&, const Value&) {}
  void flag(const char* name, const bool& value) { json_[name] = value; }
  void flag_if(const char* name, const bool& value) {
    if (value) flag(name, value);
  }
  void text(const char* name, const std::string& value) { json_[name] = value; }
  void text_if(const char* name, const std::string& value) {
    if (!value.empty()) text(name, value);
  }
  void date(const char* name, const std::string& value) { json_[name] = value; }
  void time(const char* name, const double& value, bool) { json_[name] = rounded(value); }
  void list(const char* name, Json values) { json_[name] = std::move(values); }
  Json take() { return std::move(json_); }
  std::string line() const { return json_.dump(-1, ' ', false, Json::error_handler_t::replace); }

 private:
  Json json_ = Json::object();
};

inline bool is_date(const std::string& text) {
  constexpr std::string_view kForm = "0000-00-00T00:00:00Z";
  return text.size() == kForm.size() &&
         std::equal(text.begin(), text.end(), kForm.begin(), [](char c, char form) {
           return form == '0' ? std::isdigit(static_cast<unsigned char>(c)) != 0 : c == form;
         });
}

inline bool is_plain(const std::string& text) {
  return !text.empty() && text.size() <= kMaxText && std::all_of(text.begin(), text.end(), [](char c) {
    return std::isprint(static_cast<unsigned char>(c)) != 0;
  });
}

class Reader {
 public:
  explicit Reader(const Json& json) : json_(json) {}

  template <class Int>
  void number(const char* name, Int& value, Range range) {
    const Json* found = field(name);
    if (found == nullptr) return;
    const bool fits = found->is_number_integer() &&
                      (!found->is_number_unsigned() || found->template get<u64>() <= u64{kMaxInt}) &&
                      found->template get<i64>() >= range.low && found->template get<i64>() <= range.high;
    if (!fits)
      return refuse(
          name, "must be a whole number in " + std::to_string(range.low) + ".." + std::to_string(range.high));
    value = static_cast<Int>(found->template get<i64>());
  }
  void slices(const char* name, int& slices, const int& clusters) {
    int tiles = 0;
    number(name, tiles, {0, kMaxInt});
    if (tiles > 0 && (clusters % tiles != 0 || clusters == tiles))
      return refuse(
          name,
          "must be a divisor of clusters below it: slices of any length (stream-K) were removed in 0.3");
    slices = tiles > 0 ? clusters / tiles : 1;
  }
  /// Reads one of the enumerators for which `takes` is true.
  template <class Enum>
  void choice(
      const char* name, Enum& value, std::type_identity_t<bool (*)(Enum)> takes = [](Enum) { return true; }) {
    const Json* found = field(name);
    if (found == nullptr) return;
    std::string names;
    for (int i = 0; i < Enumeration<Enum>::kCount; ++i) {
      if (!takes(static_cast<Enum>(i))) continue;
      const char* candidate = name_of(static_cast<Enum>(i));
      if (found->is_string() && found->template get_ref<const std::string&>() == candidate) {
        value = static_cast<Enum>(i);
        return;
      }
      names += (names.empty() ? "" : ", ") + std::string(candidate);
    }
    refuse(name, "must be one of: " + names);
  }
  template <class Enum>
  void choice_if(const char* name, bool& flag, Enum set, Enum unset) {
    Enum value = unset;
    choice_or(name, unset, value);
    if (value != set && value != unset) refuse(name, std::string("must be ") + name_of(set));
    flag = value == set;
  }
  /// Reads a kernel for packed weights by its name.
  void decoder(const char* name, Schedule& schedule) {
    const Json* found = field(name);
    if (found == nullptr) return;
    std::string told = found->is_string() ? found->get_ref<const std::string&>() : "";
    if (told == "byte") told = "strip";  // the kernel's name in records made before 2026-11-23
    for (const Schedule known : {Schedule::narrow, Schedule::wide, Schedule::strip})
      if (told == name_of(known)) {
        schedule = known;
        return;
      }
    refuse(name, "must be one of: narrow, wide, strip");
  }
  void number_of(const char* name, int unit, int& value, Range range) {
    int units = 0;
    number(name, units, range);
    value = units * unit;
  }
  void number_if(const char* name, int& value, int whole) {
    bool is_set = false;
    flag_if(name, is_set);
    value = is_set ? whole : 0;
  }
  template <class Value>
  void same(Value& value, const Value& other) {
    value = other;
  }
  void removed(const char* name, int usual, bool) {
    int value = usual;
    number_or(name, usual, value, {0, kMaxInt});
    if (value != usual) refuse(name, "other than " + std::to_string(usual) + " was removed in 0.3");
  }
  void number_or(const char* name, int usual, int& value, Range range) {
    value = usual;
    if (json_.contains(name)) number(name, value, range);
  }
  /// An enumerator that is written only if it differs from the usual value.
  template <class Enum>
  void choice_or(const char* name, Enum usual, Enum& value) {
    value = usual;
    if (json_.contains(name)) choice(name, value);
  }
  void flag(const char* name, bool& value) {
    const Json* found = field(name);
    if (found == nullptr) return;
    if (!found->is_boolean()) return refuse(name, "must be true or false");
    value = found->get<bool>();
  }
  /// A flag that is written only if true.
  void flag_if(const char* name, bool& value) {
    value = false;
    if (json_.contains(name)) flag(name, value);
  }
  void text(const char* name, std::string& value) {
    const Json* found = field(name);
    if (found == nullptr) return;
    if (!found->is_string() || !is_plain(found->get_ref<const std::string&>()))
      return refuse(name, "must be 1 to " + std::to_string(kMaxText) + " printable characters");
    value = found->get<std::string>();
  }
  /// Written only if not empty.
  void text_if(const char* name, std::string& value) {
    value.clear();
    if (json_.contains(name)) text(name, value);
  }
  void date(const char* name, std::string& value) {
    const Json* found = field(name);
    if (found == nullptr) return;
    if (!found->is_string() || !is_date(found->get_ref<const std::string&>()))
      return refuse(name, "must be a time of UTC like 2026-11-21T10:00:00Z");
    value = found->get<std::string>();
  }
  void time(const char* name, double& value, bool may_be_zero) {
    const Json* found = field(name);
    if (found == nullptr) return;
    const double us = found->is_number() ? found->get<double>() : -1;
    if (!(us <= kMaxUs && (us > 0 || (may_be_zero && us == 0))))
      return refuse(name,
                    std::string("must be microseconds, ") + (may_be_zero ? "0" : "above 0") + " to 1e9");
    value = us;
  }

  /// Returns the list; null if it is missing, not a list, or empty.
  const Json* list(const char* name) {
    const Json* found = field(name);
    if (found == nullptr || (found->is_array() && !found->empty())) return found;
    refuse(name, "must be an array of at least one");
    return nullptr;
  }

  /// Returns the first fault, or "". Call it after all fields: a field that was not read is unknown to this
  /// version.
  std::string verdict(int version) {
    if (!broken_.empty() || json_.size() == seen_.size()) return broken_;
    for (const auto& [name, value] : json_.items())
      if (std::find(seen_.begin(), seen_.end(), name) == seen_.end())
        return in_quotes(name) + " is no field of version " + std::to_string(version) + kRemedy;
    return broken_;
  }

 private:
  const Json* field(const char* name) {
    if (!broken_.empty()) return nullptr;
    const auto found = json_.find(name);
    if (found == json_.end()) {
      broken_ = std::string("\"") + name + "\" is missing" + kRemedy;
      return nullptr;
    }
    seen_.push_back(name);
    value_ = &*found;
    return value_;
  }
  void refuse(const char* name, const std::string& rule) {
    // All ASCII, with JSON's own escapes.
    std::string value = value_->dump(-1, ' ', true, Json::error_handler_t::replace);
    if (value.size() > kMaxText)
      value = value.substr(0, kMaxText) + "... (cut: it has " + std::to_string(value.size()) + " bytes)";
    broken_ = std::string("\"") + name + "\" = " + value + " " + rule + kRemedy;
  }

  const Json& json_;
  const Json* value_ = nullptr;
  std::vector<std::string> seen_;
  std::string broken_;
};

}  // namespace sluice::record_json
