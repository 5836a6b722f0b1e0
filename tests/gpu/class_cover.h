// SPDX-License-Identifier: Apache-2.0
// Classes of kernels, derived from the tables of fields (plan/text/fields.h). A pool is extended until every
// possible value of every field occurs in one of its configs. So a new enumerator that validate() allows gets
// a class automatically, and pool_test.cc fails if it does not. Needs no GPU.
#pragma once

#include <algorithm>
#include <functional>
#include <iterator>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <sluice/plan/text/fields.h>

namespace sluice::testing {

/// A field of a config with one of its values. Fields are numbered in the order of their tables, nested ones
/// included.
struct Choice {
  int field = 0, value = 0;
  std::string name;  // such as "cluster.k 4" or "load_a strided"
  bool number = false;

  friend bool operator<(const Choice& a, const Choice& b) {
    return std::pair(a.field, a.value) < std::pair(b.field, b.value);
  }
};

/// Calls visit(index, path, member) for each member that is not itself a struct with fields.
template <HasFields T, class Visit>
void for_each_member(T& value, const Visit& visit, int& index, const std::string& path = "") {
  for_each_field(value, [&](const auto& row, auto& member) {
    if constexpr (HasFields<std::remove_reference_t<decltype(member)>>)
      for_each_member(member, visit, index, path + row.name + ".");
    else
      visit(index++, path + row.name, member);
  });
}
/// As above, without the path: calls visit(index, member).
template <HasFields T, class Visit>
void for_each_member_fast(T& value, const Visit& visit, int& index) {
  for_each_field(value, [&](const auto&, auto& member) {
    if constexpr (HasFields<std::remove_reference_t<decltype(member)>>)
      for_each_member_fast(member, visit, index);
    else
      visit(index++, member);
  });
}

template <class Member>
Choice choice_of(int field, const std::string& path, Member member) {
  if constexpr (Enumerated<Member>)
    return {field, static_cast<int>(member), path + " " + name_of(member)};
  else if constexpr (std::is_same_v<Member, bool>)
    return {field, member ? 1 : 0, path + (member ? " true" : " false")};
  else
    return {field, static_cast<int>(member), path + " " + std::to_string(member), true};
}

/// Returns the value of each field.
template <HasFields T>
std::vector<Choice> choices_of(const T& config) {
  std::vector<Choice> all;
  int index = 0;
  for_each_member(
      config,
      [&](int field, const std::string& path, const auto& member) {
        all.push_back(choice_of(field, path, member));
      },
      index);
  return all;
}

inline constexpr int kLargestNumber = 256;  // tile columns are the field with the largest range

/// Returns every value of every field: all enumerators, false and true, and 0 to kLargestNumber.
template <HasFields T>
std::vector<Choice> all_choices() {
  std::vector<Choice> all;
  const T config{};
  int index = 0;
  for_each_member(
      config,
      [&](int field, const std::string& path, const auto& member) {
        using Member = std::remove_cvref_t<decltype(member)>;
        int count = kLargestNumber + 1;
        if constexpr (Enumerated<Member>) count = Enumeration<Member>::kCount;
        if constexpr (std::is_same_v<Member, bool>) count = 2;
        for (int i = 0; i < count; ++i) all.push_back(choice_of(field, path, static_cast<Member>(i)));
      },
      index);
  return all;
}

/// Returns `config` with one field set to another value.
template <HasFields T>
T changed(T config, const Choice& choice) {
  int index = 0;
  for_each_member_fast(
      config,
      [&](int field, auto& member) {
        if (field == choice.field)
          member = static_cast<std::remove_reference_t<decltype(member)>>(choice.value);
      },
      index);
  return config;
}

/// Extends a list of configs until every possible value of every field occurs. `belongs`: true for configs
/// that may be added. `numbers`: the numeric fields to cover. Enumerations and switches are all covered,
/// except those in `not_here`.
template <HasFields T>
class ClassCover {
 public:
  using Names = std::set<std::string>;
  ClassCover(std::function<bool(const T&)> belongs, const Names& numbers, const Names& not_here = {})
      : belongs_(std::move(belongs)) {
    for (Choice& choice : all_choices<T>()) {
      const std::string field = choice.name.substr(0, choice.name.find(' '));
      if (choice.number ? !numbers.contains(field) : not_here.contains(field)) continue;
      if (choice.number) numbers_.insert(choice.field);
      if (!choice.number) switches_.push_back(choice);
      wanted_.push_back(std::move(choice));
    }
  }

  /// For each value that no config of `pool` has, appends one that has it. It is made from a config of the
  /// pool by changing one or two fields. Other missing values are set in it too, as long as it still belongs.
  /// If no such change gives a valid config, the value is skipped.
  void complete(std::vector<T>& pool) const {
    std::vector<T> bases;
    std::copy_if(pool.begin(), pool.end(), std::back_inserter(bases), belongs_);
    std::set<Choice> seen;
    for (const T& base : bases) note(base, seen);
    for (const Choice& choice : wanted_) {
      T found;
      if (seen.contains(choice) || !find(bases, choice, beside(choice, seen), found)) continue;
      std::set<int> kept = {choice.field};
      for (const Choice& other : wanted_) {
        if (kept.contains(other.field) || seen.contains(other)) continue;
        const T more = changed(found, other);
        if (!belongs_(more)) continue;
        found = more;
        kept.insert(other.field);
      }
      note(found, seen);
      bases.push_back(found);
      pool.push_back(found);
    }
  }

  /// All values that are to be covered.
  const std::vector<Choice>& wanted() const { return wanted_; }
  bool belongs(const T& config) const { return belongs_(config); }

 private:
  static void note(const T& config, std::set<Choice>& seen) {
    for (Choice& choice : choices_of(config)) seen.insert(std::move(choice));
  }
  /// Second changes to try together with `choice`. For a switch: any value of any switch. For a number: the
  /// smallest value of each numeric field.
  std::vector<Choice> beside(const Choice& choice, const std::set<Choice>& seen) const {
    if (!choice.number) return switches_;
    std::vector<Choice> least;
    for (const Choice& other : seen)  // iterates by field, then by value
      if (other.number && numbers_.contains(other.field) &&
          (least.empty() || least.back().field != other.field))
        least.push_back(other);
    return least;
  }
  bool find(std::vector<T> bases, const Choice& choice, const std::vector<Choice>& others, T& found) const {
    // Starts at a different config for each value, so that the new configs do not all derive from the first.
    if (!bases.empty())
      std::rotate(bases.begin(), bases.begin() + choice.value * kStep % static_cast<int>(bases.size()),
                  bases.end());
    for (const T& base : bases)
      if (found = changed(base, choice); belongs_(found)) return true;
    for (const T& base : bases) {
      const T once = changed(base, choice);
      for (const Choice& other : others)
        if (found = changed(once, other); other.field != choice.field && belongs_(found)) return true;
    }
    return false;
  }

  static constexpr int kStep = 5;

  std::function<bool(const T&)> belongs_;
  std::vector<Choice> wanted_, switches_;
  std::set<int> numbers_;
};

}  // namespace sluice::testing
