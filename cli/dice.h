// SPDX-License-Identifier: Apache-2.0
// A random generator whose functions read like choices, and the choices that all kinds of random problems
// share. Used by random_problem.cc and random_conv.cc.
#pragma once

#include <array>
#include <random>

#include "cli/random_problem.h"

namespace sluice::cli {

struct Dice {
  std::mt19937_64 random;

  i64 below(i64 count) { return static_cast<i64>(random() % static_cast<u64>(count)); }
  bool one_in(i64 count) { return below(count) == 0; }
  template <class T, size_t kCount>
  T any_of(const std::array<T, kCount>& values) {
    return values[static_cast<size_t>(below(kCount))];
  }
};

inline Dice dice_of(const RandomSpec& spec, int index) {
  return {std::mt19937_64(spec.seed * 0x9e3779b97f4a7c15ull + static_cast<u64>(index))};
}

inline constexpr std::array<DType, 3> kVectorTypes = {DType::bf16, DType::fp16, DType::fp32};
inline constexpr std::array<Activation, 4> kActivations = {Activation::none, Activation::relu,
                                                           Activation::gelu, Activation::silu};

inline Activation random_activation(Dice& dice, const RandomSpec& spec) {
  return kActivations[static_cast<size_t>(dice.below(spec.exact ? 2 : 4))];
}

}  // namespace sluice::cli
